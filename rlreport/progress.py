"""Progress of long work: a bar on a terminal, one line per phase elsewhere, or nothing."""

from __future__ import annotations

import sys
from typing import Self, TypeAlias


class Phase:
    """One phase of work, used as a context manager; this one shows nothing."""

    def advance(self, amount: float) -> None:
        """Count ``amount`` more units as done."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None


class Silent:
    """Progress that shows nothing."""

    def phase(self, name: str, total: float, unit: str) -> Phase:
        """Begin a phase of ``total`` units ("B" for bytes, "pages", …)."""
        return Phase()

    def say(self, line: str) -> None:
        """Report what delays the work."""


Progress: TypeAlias = Silent


class TerminalProgress(Silent):
    """Progress on standard error."""

    def phase(self, name: str, total: float, unit: str) -> Phase:
        """Begin a phase: a bar on a terminal, else one line."""
        if sys.stderr.isatty():
            return _Bar(name, total, unit)
        amount = f"{total / 1e6:,.1f} MB" if unit == "B" else f"{total:,.0f} {unit}"
        print(f"{name}: {amount}", file=sys.stderr, flush=True)
        return Phase()

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        from tqdm import tqdm

        tqdm.write(line, file=sys.stderr)


class _Bar(Phase):
    def __init__(self, name: str, total: float, unit: str) -> None:
        from tqdm import tqdm

        scale = unit == "B"
        self.bar = tqdm(
            total=total,
            desc=name,
            unit=unit if scale else f" {unit}",
            unit_scale=scale,
            leave=False,
            file=sys.stderr,
            dynamic_ncols=True,
        )

    def advance(self, amount: float) -> None:
        self.bar.update(amount)

    def __exit__(self, *error: object) -> None:
        self.bar.close()


def progress_unless(quiet: bool) -> Progress:
    """Return progress on standard error, or none."""
    return Silent() if quiet else TerminalProgress()
