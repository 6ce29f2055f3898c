"""Read trainer metrics from the console logs of trainers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from tempfile import SpooledTemporaryFile

import orjson

from rlreport.about.card import configured
from rlreport.errors import RlreportError, UnusableInputError
from rlreport.fields import LARGEST_STEP
from rlreport.formats.metric_rows import COUNTER, MAX_NAME, NO_METRICS, Record
from rlreport.metrics.console_end import ConsoleEnd
from rlreport.metrics.console_names import is_console_name
from rlreport.metrics.console_pieces import pieces_of
from rlreport.metrics.console_rows import Row
from rlreport.metrics.console_steps import is_of_rl, numbered, survey
from rlreport.metrics.consoles import TRAINERS, console_rows
from rlreport.metrics.lines import ROUNDED, UnusedRows, number
from rlreport.metrics.progress_bars import Bar, Bars
from rlreport.read.lines import DAMAGED
from rlreport.system.documents import load_config
from rlreport.tables import NoteKind
from rlreport.text.messages import translatable

OTHER_PHASE = translatable(
    "rows of the console are of training without a reward, such as SFT: left out, as the console "
    "also has training with one"
)

_ATTRIBUTES = [one.name for one in fields(Row) if one.name != "bars"]
_IN_MEMORY = 16 << 20  # bytes of rows that are kept in memory
_MAX_ROWS = 10_000  # rows in which one of RL is searched
_MAX_HEAD = 64 << 20  # bytes in which the first row is searched
_LOGGING_STEPS = re.compile(
    rb"\blogging_steps['\"]?(?: ?[=:] ?| )['\"]?(\d{1,9}(?:\.\d{1,9})?)"
)


def console_records(path: Path, unused: UnusedRows) -> Iterator[Record]:
    """Yield the records of a console log, such as verl's or that of the HF Trainer.

    A metric that is 0.000 in all its rows is left out: it may be any number that is rounded to 0,
    such as a learning rate. Rows without a reward are left out if others have one.
    """
    with closing(_Spool()) as spool:
        yield from _records(path, spool, unused)


def _records(path: Path, spool: _Spool, unused: UnusedRows) -> Iterator[Record]:
    """Yield the records of a console; its rows wait in the spool until all are seen."""
    bars = Bars()
    settings = _Settings(_configured_logging_steps(path))
    end = ConsoleEnd()
    pieces = end.seen(settings.seen(pieces_of(path, unused)))
    rows = console_rows(pieces, bars, unused)
    # How rows are numbered, and which are used, is known after the last of them.
    found = survey(spool.kept(rows), bars, lambda: settings.logging_steps)
    used = found.used
    ended = end.remark(found.phases[-1].bar, bars)
    if ended:
        unused.remark(ended, NoteKind.FORMAT)
    rounded = found.rounded
    if rounded:
        unused.add(ROUNDED, line=None, count=len(rounded))
    for phase in used:
        if phase.numbering:
            unused.add(phase.numbering, line=None, count=phase.rows)
    found_any = False
    for phase, row in numbered(spool.rows(), found):
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
    metrics: dict[str, float] = {}
    for name, cell in row.cells.items():
        value = number(cell)
        is_metric = name not in rounded and name not in NO_METRICS
        if is_metric and value is not None and len(name) <= MAX_NAME:
            metrics[name] = value
    if metrics and row.epoch is not None:
        metrics[f"{COUNTER}epoch"] = row.epoch
    return metrics


def trainer_names() -> str:
    """Return the names of the trainers whose consoles are read."""
    names = [trainer.name for trainer in TRAINERS]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def unknown_consoles(logs: Sequence[str | Path]) -> str:
    """Return what was looked for in files named like consoles, "" if there are none."""
    files = [Path(log) for log in logs if "://" not in str(log)]
    names = [
        file.name for file in files if file.is_file() and is_console_name(file.name)
    ]
    if not names:
        return ""
    ends = [_end_of(file) for file in files if file.name in names[:3]]
    told = "".join(f"; {end}" for end in ends if end)
    return (
        f"{', '.join(names[:3])}: no rows of metrics; looked for those that {trainer_names()} "
        f"print on the console{told}"
    )


def _end_of(path: Path) -> str:
    """Return with which error a console ends, "" without any or if it cannot be read."""
    end = ConsoleEnd()
    with suppress(*DAMAGED, ValueError, RlreportError):
        for _ in end.seen(pieces_of(path, UnusedRows(), most=_MAX_HEAD)):
            pass
    return end.remark(None, Bars())


def names_in(path: Path) -> set[str]:
    """Return the metrics in the first rows of a console, up to one of RL."""
    names: set[str] = set()
    pieces = pieces_of(path, UnusedRows(), most=_MAX_HEAD)
    for row in islice(console_rows(pieces, Bars()), _MAX_ROWS):
        if row.kind == "train":
            names |= row.cells.keys()
            if is_of_rl(row.cells):
                break
    return names


def has_metrics(path: Path) -> bool:
    """Return whether a file is a console with rows of metrics, by its beginning."""
    pieces = pieces_of(path, UnusedRows(), most=_MAX_HEAD)
    return next(console_rows(pieces, Bars()), None) is not None


@dataclass(slots=True)
class _Settings:
    """What a console says of its configuration so far."""

    logging_steps: float | None

    def seen(self, pieces: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """Yield the pieces of a console after a look at each."""
        for line, piece in pieces:
            if b"logging_steps" in piece:
                match = _LOGGING_STEPS.search(piece)
                if match is not None:
                    self.logging_steps = float(match[1])
            yield line, piece


class _Spool:
    """Keeps rows, in a temporary file if they are many, so that a console is parsed once."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(_IN_MEMORY, prefix="rlreport-")  # noqa: SIM115 - closed by the caller

    def kept(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows, and keep each."""
        for row in rows:
            values = [getattr(row, name) for name in _ATTRIBUTES]
            bars = [[*bar, done] for bar, done in row.bars.items()]
            self._file.write(orjson.dumps([*values, bars]) + b"\n")
            yield row

    def rows(self) -> Iterator[Row]:
        """Yield the rows again."""
        self._file.seek(0)
        for line in self._file:
            *values, bars = orjson.loads(line)
            row = Row(**dict(zip(_ATTRIBUTES, values, strict=True)))
            row.bars = {Bar(name, total): done for name, total, done in bars}
            yield row

    def close(self) -> None:
        self._file.close()


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
        # What is no interval, such as infinity, must not cost the rows.
        return float(value) if 0 < value <= LARGEST_STEP else None
    nested = (_logging_steps(child, depth - 1) for child in values.values())
    return next((value for value in nested if value is not None), None)
