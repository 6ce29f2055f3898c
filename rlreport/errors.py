"""Exceptions that rlreport raises, and those that end a program after a signal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn


class RlreportError(Exception):
    """An error that the user can fix; the message says what is wrong, where, and what to do.

    The command line prints the message and exits with status 2.
    """


class UsageError(RlreportError):
    """An option or a path given by the user cannot be used."""


class SeveralRunsError(UsageError):
    """The logs that are to be read as one run are of several, whose names are ``runs``."""

    def __init__(self, text: str, runs: Iterable[str] = ()) -> None:
        super().__init__(text)
        self.runs = tuple(runs)


class UnusableInputError(RlreportError):
    """An input file cannot be used, or no report can be built from the logs."""


class UnreadableReportError(UnusableInputError):
    """An earlier report is broken, or has another schema version than this rlreport."""


class OutputError(RlreportError):
    """A report, an index or a rollout log cannot be written."""


class MissingExtraError(RlreportError):
    """An optional dependency that this input or format needs is not installed."""


class RowError(ValueError):
    """A logged line or dict (JSON object) cannot be converted; the report shows the message."""

    @property
    def reason(self) -> str:
        """The error message, which pages can translate; ``str(error)`` is always English."""
        if self.args and type(self.args[0]) is not str:
            reason: str = self.args[0]  # a message that can be translated
            return reason
        return str(self)


class UnreadRow(dict[str, Any]):
    """A placeholder for a logged row that cannot be read, so that the rows around it are read."""

    def __init__(self, error: RowError) -> None:
        super().__init__()
        self.error = error


_raised_by_signals: list[BaseException] = []


def stop(error: BaseException) -> NoReturn:
    """Store ``error`` for ``stop_if_signalled`` and raise it; signal handlers call this."""
    _raised_by_signals.append(error)
    raise error


def stop_if_signalled() -> None:
    """Raise the error of an earlier ``stop``, if any, again: compiled code may have dropped it."""
    for error in _raised_by_signals:
        raise error
