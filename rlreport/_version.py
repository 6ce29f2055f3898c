"""The version of rlreport that is installed, or of the checkout that runs."""

from __future__ import annotations

from functools import cache


@cache
def installed_version() -> str:
    """Return the version, or ``0+unknown`` if rlreport is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("rlreport")
    except PackageNotFoundError:
        return "0+unknown"
