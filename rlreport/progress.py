"""How long work tells how far it is: a bar on a terminal, a line a phase elsewhere, or nothing."""

from __future__ import annotations

import sys
from typing import Protocol, Self


class Phase(Protocol):
    """One phase of work, used as a context manager."""

    def advance(self, amount: float) -> None:
        """Counts ``amount`` more units as done."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class Progress(Protocol):
    """Told when a phase begins."""

    def phase(self, name: str, total: float, unit: str) -> Phase:
        """Begins a phase of ``total`` units ("B" for bytes, "pages", …)."""

    def say(self, line: str) -> None:
        """Says what holds the work up."""


class _SilentPhase:
    def advance(self, amount: float) -> None:
        """Says nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None


class Silent:
    """Says nothing."""

    def phase(self, name: str, total: float, unit: str) -> Phase:
        """See Progress."""
        return _SilentPhase()

    def say(self, line: str) -> None:
        """See Progress."""


def progress_unless(quiet: bool) -> Progress:
    """Return progress on standard error, or none."""
    return Silent() if quiet else Spoken()


class _Bar(_SilentPhase):
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


class _Line(_SilentPhase):
    def __init__(self, name: str, total: float, unit: str) -> None:
        amount = f"{total / 1e6:,.1f} MB" if unit == "B" else f"{total:,.0f} {unit}"
        print(f"{name}: {amount}", file=sys.stderr, flush=True)


class Spoken:
    """A bar on a terminal, else one line a phase, on standard error."""

    def phase(self, name: str, total: float, unit: str) -> Phase:
        """See Progress."""
        return _Bar(name, total, unit) if sys.stderr.isatty() else _Line(name, total, unit)

    def say(self, line: str) -> None:
        """See Progress; above the bar."""
        from tqdm import tqdm

        tqdm.write(line, file=sys.stderr)
