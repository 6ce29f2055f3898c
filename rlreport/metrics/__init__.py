"""Trainer metrics that lie beside the rollouts: found, read, and known by TRL's guidance.

``find_metrics`` looks through a folder, ``read_metrics`` makes one table of what it found.
"""

from __future__ import annotations

from rlreport.metrics.beside import TrainerMetrics, metrics_beside
from rlreport.metrics.find import find_metrics
from rlreport.metrics.guidance import GUIDANCE, Guide, guide_for
from rlreport.metrics.table import read_metrics

__all__ = [
    "GUIDANCE",
    "Guide",
    "TrainerMetrics",
    "find_metrics",
    "guide_for",
    "metrics_beside",
    "read_metrics",
]
