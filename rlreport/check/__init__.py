"""Health checks: functions that find problems of an RL run in the tables of its log."""

from __future__ import annotations

from rlreport.check.finding import Thresholds, findings_json
from rlreport.check.registry import load_thresholds
from rlreport.check.verdict import judge, run_checks

__all__ = ["Thresholds", "findings_json", "judge", "load_thresholds", "run_checks"]
