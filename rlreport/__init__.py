"""Build static HTML reports of the RL training of language models from its rollout logs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlreport._version import installed_version

if TYPE_CHECKING:
    from rlreport.api import build, compare, index, judge
    from rlreport.callback import ReportCallback
    from rlreport.check.verdict import Verdict
    from rlreport.errors import RlreportError
    from rlreport.flows.build import Report
    from rlreport.flows.compare import ComparisonReport
    from rlreport.flows.index import Index
    from rlreport.writer import RolloutWriter

    __version__: str

__all__ = [
    "ComparisonReport",
    "Index",
    "Report",
    "ReportCallback",
    "RlreportError",
    "RolloutWriter",
    "Verdict",
    "__version__",
    "build",
    "compare",
    "index",
    "judge",
]

# Public name -> module that defines it
_PUBLIC_MODULES = {
    "ComparisonReport": "rlreport.flows.compare",
    "Index": "rlreport.flows.index",
    "Report": "rlreport.flows.build",
    "ReportCallback": "rlreport.callback",
    "RlreportError": "rlreport.errors",
    "RolloutWriter": "rlreport.writer",
    "Verdict": "rlreport.check.verdict",
    "build": "rlreport.api",
    "compare": "rlreport.api",
    "index": "rlreport.api",
    "judge": "rlreport.api",
}


def __getattr__(name: str) -> Any:
    """Return a public object; import its module only now, so that the command line starts fast."""
    if name == "__version__":
        return installed_version()
    if name not in _PUBLIC_MODULES:
        raise AttributeError(f"module 'rlreport' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC_MODULES[name]), name)


def __dir__() -> list[str]:
    """Return all names, including public ones not imported yet, so that notebooks complete them."""
    return sorted({*globals(), *__all__})
