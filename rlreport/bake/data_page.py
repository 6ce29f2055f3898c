"""The data page: what was read, what could not be, and with which settings."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from rlreport import __version__
from rlreport.bake.addresses import Addresses, link
from rlreport.bake.context import PageContext, RunContext
from rlreport.bake.redact import USUAL_SPLITS
from rlreport.bake.tokens_page import sampling
from rlreport.bake.views import Cell, ColumnView, TableView, table
from rlreport.fields import CANONICAL, FIELDS
from rlreport.tables import MetricsFile, Note, Tables
from rlreport.text.messages import message, sentences
from rlreport.text.numbers import byte_size

_PACKAGES = ("altair", "vl-convert-python", "pandas", "numpy", "jinja2")


def data_view(context: RunContext, addresses: Addresses, exported: Sequence[str]) -> dict[str, Any]:
    """Return the view of the data page; ``exported`` are paths of files below the root."""
    tables = context.tables
    return {
        "files": _files(tables),
        "metrics": _metrics(tables.metrics_files) if tables.metrics_files else None,
        "fields": _fields(tables),
        "bad_lines": _bad_lines(tables),
        "notes": [note_in_words(note) for note in tables.notes],
        "sample": _sample(tables),
        "left_out": context.left_out,
        "settings": _listed_settings(context),
        "versions": versions(),
        "exports": [link(path, addresses.file(path)) for path in exported],
    }


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
        words: as the data page has it; None is the value itself, "" is not listed.
    """

    key: str
    label: str
    value: object
    words: str | None = None


def settings(context: PageContext) -> list[Setting]:
    """Return all that a report of the same logs needs to be the same."""
    report, read, figures = context.report, context.read, context.figures
    # Fields of the log may be named in it, which --redact=names withholds.
    mapping = {} if report.redact_names else read.mapping
    tokenizer = Path(read.tokenizer).name if read.tokenizer and not report.redact_names else None
    split = None if report.redact and read.split not in USUAL_SPLITS else read.split
    redact = "names" if report.redact_names else report.redact
    redacted = message("texts and names") if report.redact_names else message("texts")
    band, end = f"{report.band:g}", read.system_end_token
    return [
        Setting("gamma", "γ (--gamma)", figures.gamma, f"{figures.gamma:g}"),
        Setting("lam", "λ (--lam)", figures.lam, f"{figures.lam:g}"),
        Setting("band", message("Band (--band)"), report.band, message("± {band} std", band=band)),
        Setting(
            "max_responses",
            message("Responses a step (--max-responses)"),
            report.max_responses,
            f"{report.max_responses:,}",
        ),
        Setting("seed", message("Seed (--seed)"), report.seed, str(report.seed)),
        Setting("redact", message("Left out (--redact)"), redact, redacted if redact else ""),
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
        Setting("restarts", message("Restarted steps (--restarts)"), read.restarts),
        Setting("log_format", message("Format of the logs (--log-format)"), read.log_format),
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
        ),
        Setting("split", message("Split (--split)"), split),
        Setting("tokenizer", message("Tokenizer (--tokenizer)"), tokenizer),
        Setting(
            "merge",
            message("Several runs as one (--merge)"),
            report.merge or None,
            message("yes") if report.merge else "",
        ),
    ]


def _listed_settings(context: PageContext) -> list[tuple[str, str]]:
    words = (
        (one.label, one.words if one.words is not None else str(one.value or ""))
        for one in settings(context)
    )
    return [(label, text) for label, text in words if text]


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
        ColumnView("lines", message("Lines"), written="count"),
        ColumnView("rows", message("Responses"), written="count"),
        ColumnView("bad", message("Left out"), written="count"),
    ]
    values: dict[str, list[Any]] = {
        c.key: [getattr(file, c.key) for file in tables.files] for c in columns
    }
    values["size"] = [
        Cell(byte_size(size), float(size), message("{count:count} bytes", count=size))
        for size in values["size"]
    ]
    caption = message("Files read")
    return table("files", caption, columns, values, ids=range(len(tables.files)))


def _metrics(files: Sequence[MetricsFile]) -> TableView:
    columns = [
        ColumnView("name", message("File"), kind="text"),
        ColumnView("steps", message("Steps"), written="count"),
        ColumnView("count", message("Metrics"), written="count"),
        ColumnView("metrics", message("Names"), kind="text"),
    ]
    values: dict[str, list[Any]] = {
        "name": [file.name for file in files],
        "steps": [file.steps for file in files],
        "count": [len(file.metrics) for file in files],
        "metrics": [", ".join(file.metrics) for file in files],
    }
    caption = message("Trainer metrics read")
    return table("metrics-files", caption, columns, values, ids=range(len(files)))


def _fields(tables: Tables) -> TableView:
    columns = [
        ColumnView("field", message("Field"), kind="text"),
        ColumnView("meaning", message("Meaning"), kind="text"),
        ColumnView("rows", message("Rows with it"), written="count"),
    ]
    meanings = {field.name: message(field.meaning) for field in FIELDS}
    missing = tuple(name for name in meanings if not tables.fields.get(name))
    logged = [str(name) for name in tables.extras.columns if str(name) not in CANONICAL]
    meanings |= dict.fromkeys(logged, message("as logged"))
    present = [name for name in meanings if tables.fields.get(name)]
    values: dict[str, list[Any]] = {
        "field": present,
        "meaning": [meanings[name] for name in present],
        "rows": [tables.fields[name] for name in present],
    }
    note = message("In no row: {fields}.", fields=missing) if missing else ""
    caption = message("Fields found and missing")
    return table("fields", caption, columns, values, ids=present, note=note)


def _bad_lines(tables: Tables) -> TableView:
    columns = [
        ColumnView("file", message("File"), kind="text"),
        ColumnView("line", message("Line"), written="count"),
        ColumnView("reason", message("Reason"), kind="text"),
    ]
    bad_lines = tables.bad_lines
    values: dict[str, list[Any]] = {
        "file": [bad.file for bad in bad_lines],
        "line": [bad.line or Cell(message("whole file"), 0.0) for bad in bad_lines],
        "reason": [bad.reason for bad in bad_lines],
    }
    count, note = len(bad_lines), ""
    if count < tables.bad_count:
        note = message("{some:count} of {all:count} listed.", some=count, all=tables.bad_count)
    caption = message("Lines that could not be read")
    return table("bad-lines", caption, columns, values, ids=range(count), note=note)
