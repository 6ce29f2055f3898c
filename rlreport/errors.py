"""Exceptions of rlreport."""

from __future__ import annotations

from typing import Any


class RlreportError(Exception):
    """An error that the user can fix: one line on the terminal, exit status 2.

    The message says what is wrong, where, and what to do.
    """


class UsageError(RlreportError):
    """An option or a path given by the user cannot be used."""


class UnusableInputError(RlreportError):
    """The logs were found but no report can be built from them."""


class UnreadableReportError(UnusableInputError):
    """A report of rlreport is broken, or was written by a newer version."""


class StrictError(RlreportError):
    """With ``--strict``: the logs contain something that would be skipped or repaired."""


class OutputError(RlreportError):
    """The report cannot be written to its destination."""


class MissingExtraError(RlreportError):
    """An optional dependency is needed for this input or format."""


class RowError(ValueError):
    """A line or object cannot become a row; the message is the reason shown in the report."""

    @property
    def reason(self) -> str:
        """The message, which can still be translated; ``str`` would make it English."""
        return str(self) if not self.args or type(self.args[0]) is str else self.args[0]


class UnreadRow(dict[str, Any]):
    """Placeholder for a row that cannot be read, among other rows of its object."""

    def __init__(self, error: RowError) -> None:
        super().__init__()
        self.error = error
