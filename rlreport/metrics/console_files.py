"""Read trainer metrics from the console logs of trainers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rlreport.about.card import configured
from rlreport.errors import UnusableInputError
from rlreport.formats.metric_rows import COUNTER, Record, flat_numbers
from rlreport.metrics.console_pieces import pieces_of
from rlreport.metrics.console_rows import Row
from rlreport.metrics.console_steps import Survey, numbered, survey
from rlreport.metrics.consoles import TRAINERS, console_rows
from rlreport.metrics.lines import ROUNDED, UnusedRows, number
from rlreport.metrics.progress_bars import Bars
from rlreport.read.listing import COMPRESSIONS
from rlreport.system.documents import load_config
from rlreport.text.messages import translatable

# Suffixes of the names of consoles, such as ``nohup.out`` and ``slurm-123.out``
SUFFIXES = (".log", ".txt", ".out")

OTHER_PHASE = translatable(
    "rows of the console are of training without a reward, such as SFT: left out, as the console "
    "also has training with one"
)

_MAX_HEAD = 16 << 20  # bytes in which the first row is searched
_LOGGING_STEPS = re.compile(
    rb"\blogging_steps['\"]?(?: ?[=:] ?| )['\"]?(\d{1,9}(?:\.\d{1,9})?)"
)


def console_records(path: Path, unused: UnusedRows) -> Iterator[Record]:
    """Yield the records of a console log, such as verl's or that of the HF Trainer.

    A metric that is 0.000 in all its rows is left out: it may be any number that is rounded to 0,
    such as a learning rate. Rows without a reward are left out if others have one.
    """
    # The file is read twice; what is not used is counted in the second pass only.
    found = _survey(path)
    used = found.used
    rounded = found.rounded
    if rounded:
        unused.add(ROUNDED, line=None, count=len(rounded))
    for phase in used:
        if phase.numbering:
            unused.add(phase.numbering, line=None, count=phase.rows)
    found_any = False
    for phase, row in numbered(_rows(path, Bars(), unused), found):
        if phase not in used:
            unused.add(OTHER_PHASE, row.line)
            continue
        metrics = _numbers(row, rounded)
        if metrics and row.step is not None:
            found_any = True
            yield row.step, metrics
    if not found_any:
        raise UnusableInputError(
            f"{path.name}: not a metrics file; supported are trainer_state.json, .jsonl, .csv, "
            ".json, TensorBoard events, run files of W&B, MLflow's folder `metrics`, Trackio's "
            f"database and console logs of {trainer_names()}"
        )


def _numbers(row: Row, rounded: set[str]) -> dict[str, float]:
    cells = row.cells
    event = {name: number(cells[name]) for name in cells if name not in rounded}
    metrics = dict(flat_numbers(event))
    if metrics and row.epoch is not None:
        metrics[f"{COUNTER}epoch"] = row.epoch
    return metrics


def trainer_names() -> str:
    """Return the names of the trainers whose consoles are read."""
    names = [trainer.name for trainer in TRAINERS]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def is_console_name(name: str) -> bool:
    """Return whether a file in a folder is named like a console, maybe compressed."""
    path = Path(name)
    return (path.stem if path.suffix in COMPRESSIONS else name).endswith(SUFFIXES)


def has_metrics(path: Path) -> bool:
    """Return whether a file is a console with rows of metrics, by its beginning."""
    pieces = pieces_of(path, UnusedRows(), most=_MAX_HEAD)
    return next(console_rows(pieces, Bars()), None) is not None


def _survey(path: Path) -> Survey:
    bars = Bars()
    settings = _Settings(_configured_logging_steps(path))
    rows = _rows(path, bars, UnusedRows(), settings.read)
    return survey(rows, bars, lambda: settings.logging_steps)


def _rows(
    path: Path,
    bars: Bars,
    unused: UnusedRows,
    look_at: Callable[[bytes], None] | None = None,
) -> Iterator[Row]:
    def pieces() -> Iterator[tuple[int, bytes]]:
        for line, piece in pieces_of(path, unused):
            if look_at is not None:
                look_at(piece)
            yield line, piece

    return console_rows(pieces(), bars)


@dataclass(slots=True)
class _Settings:
    """What a console says of its configuration so far."""

    logging_steps: float | None

    def read(self, piece: bytes) -> None:
        if b"logging_steps" in piece:
            match = _LOGGING_STEPS.search(piece)
            if match is not None:
                self.logging_steps = float(match[1])


def _configured_logging_steps(path: Path) -> float | None:
    """Return `logging_steps` of the configuration in the folder of a console."""
    for file in configured(path.parent):
        with suppress(OSError, ValueError):  # the run's card has a note on it
            value = _logging_steps(load_config(file))
            if value is not None:
                return value
    return None


def _logging_steps(values: object, depth: int = 3) -> float | None:
    """Return `logging_steps` in a configuration, up to a depth of nesting."""
    if not isinstance(values, Mapping) or not depth:
        return None
    value = values.get("logging_steps")
    if isinstance(value, Mapping):  # as W&B writes it
        value = value.get("value")
    if isinstance(value, int | float):
        return float(value)
    nested = (_logging_steps(child, depth - 1) for child in values.values())
    return next((value for value in nested if value is not None), None)
