"""Health checks: functions that find problems of an RL run in the tables of its log."""

from __future__ import annotations

from rlreport.check.judge import judge, run_checks
from rlreport.check.limits import Thresholds
from rlreport.check.registry import load_thresholds
from rlreport.check.verdict import findings_json

__all__ = ["Thresholds", "findings_json", "judge", "load_thresholds", "run_checks"]
