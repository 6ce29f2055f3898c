"""The one family of exceptions that rlreport raises on purpose."""

from __future__ import annotations

from typing import Any


class RlreportError(Exception):
    """A condition the user can act on: shown as one line, exit status 2.

    The message names what is wrong, where, and what to do next.
    """


class UsageError(RlreportError):
    """An option or a path given by the user cannot be used."""


class UnusableInputError(RlreportError):
    """The logs were found but no report can come of them."""


class UnreadableReportError(UnusableInputError):
    """A report of rlreport that is broken, or of a newer version."""


class StrictError(RlreportError):
    """``--strict`` was given and the logs hold something that would be skipped or repaired."""


class OutputError(RlreportError):
    """The report cannot be written where it was asked for."""


class MissingExtraError(RlreportError):
    """An optional dependency is needed for this input or form."""


class RowError(ValueError):
    """A line or object that cannot become a row; the message is the reason shown to the reader."""

    @property
    def reason(self) -> str:
        """The message as it was given; ``str`` would make plain English of it."""
        return str(self) if not self.args or type(self.args[0]) is str else self.args[0]


class UnreadRow(dict[str, Any]):
    """Stands for a row that cannot be read, among those of its object that can."""

    def __init__(self, error: RowError) -> None:
        super().__init__()
        self.error = error
