"""Health checks: pure functions of the tables that find problems of a run."""

from __future__ import annotations

from rlreport.check.finding import findings_json
from rlreport.check.limits import Thresholds
from rlreport.check.registry import load_thresholds
from rlreport.check.verdict import judge, run_checks

__all__ = ["Thresholds", "findings_json", "judge", "load_thresholds", "run_checks"]
