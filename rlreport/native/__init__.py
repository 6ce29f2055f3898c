"""The compiled twins of the first pass's loops, where they could be built.

Nothing depends on them: whoever calls one looks whether ``scan`` is there, and gives the same
results without.
"""

from __future__ import annotations

from types import ModuleType

__all__ = ["scan"]

_INTERFACE = 1

try:
    from rlreport.native import _scan as scan

    # One that an editable install built from earlier code.
    if getattr(scan, "INTERFACE", 0) != _INTERFACE:
        raise ImportError("built from other code")
except ImportError:
    scan: ModuleType | None = None  # type: ignore[no-redef]
