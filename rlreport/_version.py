"""The version of rlreport that is installed, or of the checkout that runs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str


@cache
def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("rlreport")
    except PackageNotFoundError:
        return "0+unknown"
