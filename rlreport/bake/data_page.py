"""The data page: what was read, what could not be, and with which settings."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from rlreport import __version__
from rlreport.bake.addresses import Addresses
from rlreport.bake.context import PageContext
from rlreport.bake.redact import USUAL_SPLITS
from rlreport.bake.tokens_page import sampling
from rlreport.bake.views import Cell, ColumnView, DataView, Link, RowView, TableView
from rlreport.fields import CANONICAL, FIELDS
from rlreport.tables import MetricsFile, Note, Tables
from rlreport.text.messages import message, sentences
from rlreport.text.numbers import byte_size

_PACKAGES = ("altair", "vl-convert-python", "pandas", "numpy", "jinja2")


def data_view(
    tables: Tables, context: PageContext, addresses: Addresses, exported: Sequence[str]
) -> DataView:
    """Builds the view of the data page; ``exported`` are paths of files below the root."""
    return DataView(
        files=_files(tables),
        metrics=_metrics(tables.metrics_files) if tables.metrics_files else None,
        fields=_fields(tables),
        bad_lines=_bad_lines(tables),
        notes=[note_in_words(note) for note in tables.notes],
        sample=_sample(tables),
        left_out=context.left_out,
        settings=[(one.label, one.words) for one in settings(context) if one.words],
        versions=versions(),
        exports=[Link(path, href) for path in exported if (href := addresses.file(path))],
    )


def _sample(tables: Tables) -> str:
    if not tables.sample_note:
        return sampling(tables)
    chosen = message(
        "Whole groups are drawn by a hash of their place in the logs, equally many responses of "
        "each step. Distinct-2, texts that spread, languages, templates, tokens and the critic's "
        "error by position come from the sample, all other figures from all responses."
    )
    return sentences([sampling(tables), chosen])


def note_in_words(note: Note) -> str:
    """A note with its count and first place."""
    place = note.file or ""
    if place and note.line is not None:
        place = message("{file}, line {line:count}", file=place, line=note.line)
    if note.count > 1 and place:
        place = message("{times:count} times, first in {place}", times=note.count, place=place)
    elif note.count > 1:
        place = message("{times:count} times", times=note.count)
    return message("{text} ({place})", text=note.text, place=place) if place else note.text


class Setting(NamedTuple):
    """An option that shapes the figures and the choice.

    Attributes:
        key: name in ``report.json``.
        label: what the data page calls it.
        value: as ``report.json`` has it.
        words: as the data page has it, "" of one that is not given and not listed there.
    """

    key: str
    label: str
    value: object
    words: str


def settings(context: PageContext) -> list[Setting]:
    """All that a report of the same logs needs to be the same."""
    report, read, figures = context.report, context.read, context.figures
    redact = "names" if report.redact_names else report.redact
    # Fields of the log may be named in it, which --redact=names withholds.
    mapping = {} if report.redact_names else read.mapping
    tokenizer = Path(read.tokenizer).name if read.tokenizer and not report.redact_names else None
    split = None if report.redact and read.split not in USUAL_SPLITS else read.split
    end = read.system_end_token
    return [
        Setting("gamma", "γ (--gamma)", figures.gamma, f"{figures.gamma:g}"),
        Setting("lam", "λ (--lam)", figures.lam, f"{figures.lam:g}"),
        Setting(
            "band",
            message("Band (--band)"),
            report.band,
            message("± {band} std", band=f"{report.band:g}"),
        ),
        Setting(
            "max_responses",
            message("Responses a step (--max-responses)"),
            report.max_responses,
            f"{report.max_responses:,}",
        ),
        Setting("seed", message("Seed (--seed)"), report.seed, str(report.seed)),
        Setting(
            "redact",
            message("Left out (--redact)"),
            redact,
            (message("texts and names") if report.redact_names else message("texts"))
            if redact
            else "",
        ),
        Setting(
            "pad_tokens",
            message("Padding (--pad-token)"),
            list(read.pad_tokens),
            " ".join(read.pad_tokens),
        ),
        Setting(
            "system_end_token",
            message("End of system prompt (--system-end-token)"),
            end,
            end or message("none"),
        ),
        Setting("restarts", message("Restarted steps (--restarts)"), read.restarts, read.restarts),
        Setting(
            "log_format",
            message("Format of the logs (--log-format)"),
            read.log_format,
            read.log_format or "",
        ),
        Setting(
            "map",
            message("Fields (--map)"),
            mapping or None,
            " ".join(f"{field}={path}" for field, path in mapping.items()),
        ),
        Setting(
            "step_from_path",
            message("Step from the path (--step-from-path)"),
            read.step_from_path,
            read.step_from_path or "",
        ),
        Setting("split", message("Split (--split)"), split, split or ""),
        Setting("tokenizer", message("Tokenizer (--tokenizer)"), tokenizer, tokenizer or ""),
        Setting(
            "merge",
            message("Several runs as one (--merge)"),
            report.merge or None,
            message("yes") if report.merge else "",
        ),
    ]


@cache
def versions() -> tuple[tuple[str, str], ...]:
    """Versions of Python and of the packages that figures and drawings depend on."""
    return (
        ("rlreport", __version__),
        ("Python", platform.python_version()),
        *((name, version(name)) for name in _PACKAGES),
    )


def _files(tables: Tables) -> TableView:
    columns = [
        ColumnView("name", message("File"), kind="text"),
        ColumnView("format", message("Format"), kind="text"),
        ColumnView("size", message("Size")),
        ColumnView("lines", message("Lines")),
        ColumnView("rows", message("Responses")),
        ColumnView("bad", message("Left out")),
    ]
    rows = [
        RowView(
            str(i),
            [
                Cell(file.name, file.name),
                Cell(file.format, file.format),
                Cell(
                    byte_size(file.size),
                    float(file.size),
                    message("{count:count} bytes", count=file.size),
                ),
                *(_count(n) for n in (file.lines, file.rows, file.bad)),
            ],
        )
        for i, file in enumerate(tables.files)
    ]
    return TableView("files", message("Files read"), columns, rows)


def _metrics(files: Sequence[MetricsFile]) -> TableView:
    columns = [
        ColumnView("name", message("File"), kind="text"),
        ColumnView("steps", message("Steps")),
        ColumnView("count", message("Metrics")),
        ColumnView("metrics", message("Names"), kind="text"),
    ]
    rows = [
        RowView(
            str(i),
            [
                Cell(file.name, file.name),
                *(_count(n) for n in (file.steps, len(file.metrics))),
                Cell(", ".join(file.metrics)),
            ],
        )
        for i, file in enumerate(files)
    ]
    return TableView("metrics-files", message("Trainer metrics read"), columns, rows)


def _fields(tables: Tables) -> TableView:
    columns = [
        ColumnView("field", message("Field"), kind="text"),
        ColumnView("meaning", message("Meaning"), kind="text"),
        ColumnView("rows", message("Rows with it")),
    ]
    known = [(field.name, message(field.meaning)) for field in FIELDS]
    named = [str(name) for name in tables.extras.columns]
    others = [(name, message("as logged")) for name in named if name not in CANONICAL]
    found = [(name, meaning) for name, meaning in (*known, *others) if tables.fields.get(name)]
    rows = [
        RowView(name, [Cell(name, name), Cell(meaning, meaning), _count(tables.fields[name])])
        for name, meaning in found
    ]
    missing = tuple(name for name, _ in known if not tables.fields.get(name))
    note = message("In no row: {fields}.", fields=missing) if missing else ""
    return TableView("fields", message("Fields found and missing"), columns, rows, note)


def _bad_lines(tables: Tables) -> TableView:
    columns = [
        ColumnView("file", message("File"), kind="text"),
        ColumnView("line", message("Line")),
        ColumnView("reason", message("Reason"), kind="text"),
    ]
    rows = [
        RowView(
            str(i),
            [
                Cell(bad.file, bad.file),
                Cell(f"{bad.line:,}" if bad.line else message("whole file"), float(bad.line)),
                Cell(bad.reason, bad.reason),
            ],
        )
        for i, bad in enumerate(tables.bad_lines)
    ]
    count, note = len(tables.bad_lines), ""
    if count < tables.bad_count:
        note = message("{some:count} of {all:count} listed.", some=count, all=tables.bad_count)
    return TableView("bad-lines", message("Lines that could not be read"), columns, rows, note)


def _count(value: int) -> Cell:
    return Cell(f"{value:,}", float(value), str(value))
