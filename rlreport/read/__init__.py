"""Read logs of any size: rows to numbers in a first pass, chosen rows back in a second.

The public names load on first use, so that a scanning process imports only what it needs
(pandas is not among it).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlreport.read.logs import read_logs
    from rlreport.read.read_back import fetch, fetch_texts
    from rlreport.read.result import Scan, prompt_texts
    from rlreport.read.row_locations import RowLocations

__all__ = ["RowLocations", "Scan", "fetch", "fetch_texts", "prompt_texts", "read_logs"]

_HOMES = {
    "RowLocations": "row_locations",
    "Scan": "result",
    "fetch": "read_back",
    "fetch_texts": "read_back",
    "prompt_texts": "result",
    "read_logs": "logs",
}


def __getattr__(name: str) -> object:
    """Load a public name from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
