"""The data page (log files, settings, fields) and the contents of exported files."""

from __future__ import annotations

import csv as writer
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from rlreport import __version__
from rlreport.check import findings_json
from rlreport.draw.chart import Chart
from rlreport.fields import CANONICAL, FIELDS
from rlreport.options import BuildOptions
from rlreport.pages.lists import sampling
from rlreport.pages.redact import USUAL_SPLITS
from rlreport.pages.templates import PROMPTS, Addresses, canonical_json
from rlreport.pages.views import (
    Cell,
    Columns,
    ColumnView,
    Link,
    RunContext,
    TableView,
    attribute_columns,
    table,
)
from rlreport.summarise.steps import passes_of
from rlreport.tables import MetricsFile, Note, Tables
from rlreport.text.clean import escape, without_controls
from rlreport.text.messages import message
from rlreport.text.numbers import byte_size

TOKENS_LISTED = 10_000
# Names in ``report.json`` of options that affect figures or shown responses
_SETTINGS = (
    "gamma",
    "lam",
    "max_responses",
    "redact",
    "pad_tokens",
    "system_end_token",
    "restarts",
    "log_format",
    "map",
    "step_from_path",
    "split",
    "tokenizer",
    "merge",
)
_PACKAGES = ("altair", "vl-convert-python", "pandas", "numpy", "jinja2")


def data_view(
    context: RunContext, addresses: Addresses, exported: Mapping[str, str], remark: str = ""
) -> dict[str, Any]:
    tables = context.tables
    return {
        "files": _files(tables),
        "metrics": _metrics(tables.metrics_files) if tables.metrics_files else None,
        "fields": _fields(tables),
        "bad_lines": _bad_lines(tables),
        "notes": [*map(note_in_words, tables.notes), *([remark] if remark else [])],
        "sample": sampling(tables),
        "left_out": context.left_out,
        "settings": _listed_settings(context.options),
        "versions": versions(),
        "exports": [Link(label, addresses.file(path)) for path, label in exported.items()],
    }


def note_in_words(note: Note) -> str:
    """Return a note's text with its count (if several), and first file and line (if known)."""
    origin = note.file or ""
    if origin and note.line is not None:
        origin = message("{file}, line {line:count}", file=origin, line=note.line)
    if note.count > 1 and origin:
        origin = message("{count:count} in total, first in {place}", count=note.count, place=origin)
    elif note.count > 1:
        origin = message("{count:count} in total", count=note.count)
    return message("{text} ({place})", text=note.text, place=origin) if origin else note.text


def settings(options: BuildOptions) -> dict[str, object]:
    """Return option -> value for ``report.json``, None for values that redaction must hide."""
    values = {name: getattr(options, name) for name in _SETTINGS if name != "map"}
    values |= {"map": options.mapping or None, "merge": options.merge or None}
    values["pad_tokens"] = list(options.pad_tokens)
    values["tokenizer"] = Path(options.tokenizer or "").name or None
    if options.redact and options.split not in USUAL_SPLITS:
        values["split"] = None
    return values | ({"map": None, "tokenizer": None} if options.redact_names else {})


def _listed_settings(options: BuildOptions) -> list[tuple[str, str]]:
    return [
        (name, value if isinstance(value, str) else canonical_json(value).decode())
        for name, value in settings(options).items()
        if value is not None
    ]


@cache
def versions() -> tuple[tuple[str, str], ...]:
    return (
        ("rlreport", __version__),
        ("Python", platform.python_version()),
        *((name, version(name)) for name in _PACKAGES),
    )


_NAME = ColumnView("name", message("File"), kind="text")
_SIZE = ColumnView("size", message("Size"))
_FILE_COLUMNS = (
    _NAME,
    ColumnView("format", message("Format"), kind="text"),
    _SIZE,
    ColumnView("lines", message("Lines"), written="count"),
    # A row is a response of training, of validation, or of a branch that was not trained.
    ColumnView("rows", message("Rows"), written="count"),
    ColumnView("bad", message("Left out"), written="count"),
)


def _files(tables: Tables) -> TableView:
    values = attribute_columns(tables.files, _FILE_COLUMNS)
    values[_SIZE] = [
        Cell(
            byte_size(file.size), float(file.size), message("{count:count} bytes", count=file.size)
        )
        for file in tables.files
    ]
    return table("files", message("Files read"), values)


def _metrics(files: Sequence[MetricsFile]) -> TableView:
    names = [file.metrics for file in files]
    columns: Columns = {
        _NAME: [file.name for file in files],
        ColumnView("steps", message("Steps"), written="count"): [file.steps for file in files],
        ColumnView("count", message("Metrics"), written="count"): map(len, names),
        ColumnView("metrics", message("Names"), kind="text"): map(", ".join, names),
    }
    return table("metrics-files", message("Trainer metrics read"), columns)


def _fields(tables: Tables) -> TableView:
    meanings = {field.name: message(field.meaning) for field in FIELDS}
    missing_names = tuple(name for name in meanings if not tables.fields.get(name))
    extra_names = [str(name) for name in tables.extras.columns if str(name) not in CANONICAL]
    meanings |= dict.fromkeys(extra_names, message("as logged"))
    names = [name for name in meanings if tables.fields.get(name)]
    rows = [tables.fields[name] for name in names]
    columns: Columns = {
        ColumnView("field", message("Field"), kind="text"): names,
        ColumnView("meaning", message("Meaning"), kind="text"): [meanings[name] for name in names],
        ColumnView("rows", message("Rows with the field"), written="count"): rows,
    }
    note = message("Missing in all rows: {fields}.", fields=missing_names) if missing_names else ""
    return table("fields", message("Fields found and missing"), columns, ids=names, note=note)


def _bad_lines(tables: Tables) -> TableView:
    lines = tables.bad_lines
    whole_file = Cell(message("whole file"), 0.0)
    columns: Columns = {
        ColumnView("file", message("File"), kind="text"): [bad.file for bad in lines],
        ColumnView("line", message("Line"), written="count"): [
            bad.line or whole_file for bad in lines
        ],
        ColumnView("reason", message("Reason"), kind="text"): [bad.reason for bad in lines],
    }
    count = len(tables.bad_lines)
    note = ""
    if count < tables.bad_count:
        note = message("{some:count} of {all:count} listed.", some=count, all=tables.bad_count)
    return table("bad-lines", message("Lines that could not be read"), columns, note=note)


def exports(context: RunContext, charts: Sequence[Chart]) -> Iterator[tuple[str, bytes]]:
    """Yield (path in the report folder, bytes) of exported findings, tables and chart specs."""
    tables = context.tables
    yield ("data/findings.json", canonical_json(findings_json(context.verdict), indent=True))
    yield "data/steps.csv", csv(tables.steps)
    yield PROMPTS, csv(tables.prompts)
    if len(tables.tokens):
        yield "data/tokens.csv", csv(tables.tokens.head(TOKENS_LISTED))
    for chart in charts:
        yield chart_path(chart), canonical_json(chart.spec, indent=True)


def chart_path(chart: Chart) -> str:
    return f"data/charts/{chart.name}.vl.json"


def report_json(context: RunContext) -> dict[str, Any]:
    tables = context.tables
    verdict = findings_json(context.verdict)
    reward = context.verdict.courses.get("reward")  # by its leading series
    return {
        "schema": verdict.pop("schema"),
        "generator": {"name": "rlreport", "version": __version__},
        "run": context.run,
        "responses": len(tables.responses),
        "pass_k": passes_of(tables.training().responses).k,
        "sampled": {"responses": tables.sampled, "of": tables.sampled_of},
        "settings": settings(context.options),
        "versions": dict(versions()),
        "card": context.card.as_json(),
        "steps": tables.steps.dropna(axis="columns", how="all").to_dict("records"),
        "reward": {"steps": reward.steps, "values": reward.values} if reward else None,
        **verdict,
        "files": [
            {"name": file.name, "format": file.format, "lines": file.lines}
            | {"bytes": file.size, "responses": file.rows, "left_out": file.bad}
            for file in tables.files
        ],
        "metrics_files": [asdict(file) for file in tables.metrics_files],
        "bad_lines": [asdict(line) for line in tables.bad_lines],
        "bad_lines_in_all": tables.bad_count,
        "notes": [note_in_words(note) for note in tables.notes],
        "fields": tables.fields,
        "shown": {
            "steps": [page.plan.step for page in context.step_pages],
            "responses": sum(len(page.plan.rows) for page in context.step_pages),
            "left_out": context.left_out,
        },
    }


def csv(table: pd.DataFrame) -> bytes:
    """Return a table as UTF-8 CSV without its index.

    Texts and names of columns are neither formulas of spreadsheets nor have control characters.
    """
    texts = table.select_dtypes(include=["object", "string"])
    safe = table.assign(
        **{
            str(name): values.map(lambda cell: _safe(cell) if isinstance(cell, str) else cell)
            for name, values in texts.items()
        }
    )
    # Quote all texts, as an unquoted CR in a text would start a new row.
    safe.columns = pd.Index([_safe(str(name)) for name in safe])
    text = safe.to_csv(index=False, lineterminator="\n", quoting=writer.QUOTE_NONNUMERIC)
    return text.encode("utf-8", "replace")


def _safe(text: str) -> str:
    return escape(without_controls(text))
