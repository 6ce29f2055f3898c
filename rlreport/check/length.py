"""The length that length checks read: tokens where they are logged, else characters."""

from __future__ import annotations

from rlreport.check.check import has
from rlreport.tables import Tables


def length_of(tables: Tables) -> tuple[str, str]:
    """Return the column of the response table that holds the length, and its unit."""
    if has(tables.responses, "response_tokens"):
        return "response_tokens", "tokens"
    return "response_chars", "characters"
