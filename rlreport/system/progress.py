"""Show progress: a bar on a terminal, otherwise one line per phase, or nothing if quiet."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any, Self

from rlreport.text.language import ENGLISH, Language


class Phase:
    """A context manager for a phase of work, whose progress bar, if any, is closed at its end."""

    def __init__(self, bar: Any = None) -> None:
        self._bar = bar

    def advance(self, amount: float) -> None:
        """Advance the bar by ``amount`` units."""
        if self._bar is not None:
            self._bar.update(amount)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()


class Progress:
    """Prints progress to standard error: bars or lines; nothing if ``quiet``."""

    def __init__(self, quiet: bool = True, language: Language = ENGLISH) -> None:
        self._quiet, self._language = quiet, language

    def phase(self, name: str, total: float, unit: str) -> Phase:
        """Start a phase of ``total`` units of work, such as "pages"; the unit "B" is bytes."""
        in_bytes = unit == "B"
        name, unit = self._language.of((name, unit))
        if self._quiet or not total:
            return Phase()
        if not sys.stderr.isatty():
            amount = f"{total / 1e6:,.1f} MB" if in_bytes else f"{total:,.0f} {unit}"
            with suppress(OSError):  # standard error may be a file on a full disk
                print(f"{name}: {amount}", file=sys.stderr, flush=True)
            return Phase()
        from tqdm import tqdm

        tqdm.monitor_interval = 0  # its thread would keep this process from forking
        bar = tqdm(
            total=total,
            desc=name,
            unit=unit if in_bytes else f" {unit}",
            unit_scale=in_bytes,
            leave=False,
            file=sys.stderr,
            dynamic_ncols=True,
        )
        return Phase(bar)

    def say(self, line: str) -> None:
        """Print a line above the bar, for example why the work is delayed; nothing if quiet."""
        if not self._quiet:
            from tqdm import tqdm

            with suppress(OSError):
                tqdm.write(line, file=sys.stderr)
