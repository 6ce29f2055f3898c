"""The data page (log files, settings, fields) and the contents of exported files."""

from __future__ import annotations

import csv as writer
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from rlreport import __version__
from rlreport.check import findings_json
from rlreport.check.advice import setup_of
from rlreport.check.registry import BY_ID
from rlreport.check.run import Run
from rlreport.check.run_curves import run_curves
from rlreport.check.unlogged import Log, Unlogged, unlogged
from rlreport.check.verdict import Verdict
from rlreport.comparison.data_file import METRICS_FILE, pack_table, response_data
from rlreport.comparison.data_file import PATH as RESPONSES
from rlreport.comparison.omitted import Condition
from rlreport.comparison.saved import REPORT
from rlreport.draw.chart import Chart, evenly
from rlreport.fields import CANONICAL, FIELDS
from rlreport.metrics.roles import framework_of, roles_of
from rlreport.options import BuildOptions
from rlreport.pages.author_notes import linked_notes
from rlreport.pages.charts import page_charts
from rlreport.pages.context import DataFiles, JudgedRun, PageContext, RunReport
from rlreport.pages.html import canonical_json
from rlreport.pages.page import PROMPTS, STEPS, Addresses, Page
from rlreport.pages.prompt_map_view import courses_json
from rlreport.pages.redact import USUAL_SPLITS
from rlreport.pages.table import (
    Cell,
    Columns,
    ColumnView,
    Link,
    TableView,
    attribute_columns,
    table,
)
from rlreport.pages.texts import sampling_note
from rlreport.summarise.steps import passes_of
from rlreport.system.in_memory import is_in_memory
from rlreport.tables import LogFile, MetricsFile, Note, Rescoring, Tables
from rlreport.text.clean import escape, without_controls
from rlreport.text.messages import listed, message
from rlreport.text.numbers import byte_size

TOKENS_LISTED = 10_000
# Steps in ``report.json``, about half a kilobyte each: ``compare`` and ``index`` read all of it
STEPS_IN_JSON = 20_000
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


class UnloggedView(NamedTuple):
    """Something that the run does not log."""

    what: str
    how: str  # what would log it, with settings and fields in backticks
    checks: str  # names of the checks that need it


@dataclass(frozen=True, slots=True)
class DataView:
    """What the data page shows."""

    left_out: list[str]
    notes: list[str]
    bad_lines: TableView
    sample: str  # note on sampling_note, "" without any
    checks: TableView
    not_logged: list[UnloggedView]
    framework: str  # whose settings ``not_logged`` names, "" if it is not known
    files: TableView
    metrics: TableView | None
    fields: TableView
    settings: list[tuple[str, str]]
    versions: tuple[tuple[str, str], ...]
    exports: list[Link]


def data_view(report: RunReport, addresses: Addresses) -> DataView:
    """Return what the data page shows: how the logs were read, and files to download."""
    tables = report.run.tables
    notes = [note_in_words(note) for note in tables.notes]
    remark = linked_notes(report, addresses).remark
    if remark:
        notes.append(remark)
    return DataView(
        left_out=report.left_out,
        notes=notes,
        bad_lines=_bad_lines_table(tables),
        sample=sampling_note(tables),
        checks=_checks_table(report.run.verdict),
        not_logged=not_logged(report.run),
        framework=framework_of_run(report.run) or "",
        files=_files_table(tables),
        metrics=_metrics_table(tables.metrics_files) if tables.metrics_files else None,
        fields=_fields_table(tables),
        settings=_listed_settings(report.run),
        versions=versions(),
        exports=[
            Link(label, addresses.file(path))
            for path, label in download_labels(report).items()
        ],
    )


PAGE = Page("data", message("Data"), data_view)


def download_labels(report: RunReport) -> dict[str, str]:
    """Return path and label of each file to download; {} if the form has no separate files."""
    if report.shared.one_file:
        return {}
    paths = [REPORT, RESPONSES]
    if report.data.metrics:
        paths.append(METRICS_FILE)
    paths += [path for path, _ in exports(report)]
    labels = {path: path for path in paths}
    for chart in page_charts(report).overview:
        labels[chart_path(chart)] = message("Chart: {title}", title=chart.title)
    return labels


def note_in_words(note: Note) -> str:
    """Return a note's text with its count (if several), and first file and line (if known).

    An example: "rows without a step (3 in total, first in a.jsonl, line 7)".
    """
    place = note.file or ""
    if note.line is not None and is_in_memory(place):
        place = message("{file}, row {line:count}", file=place, line=note.line)
    elif place and note.line is not None:
        place = message("{file}, line {line:count}", file=place, line=note.line)
    if note.count > 1 and place:
        place = message(
            "{count:count} in total, first in {place}", count=note.count, place=place
        )
    elif note.count > 1:
        place = message("{count:count} in total", count=note.count)
    if not place:
        return note.text
    return message("{text} ({place})", text=note.text, place=place)


def settings(
    options: BuildOptions, conditions: Sequence[Condition] = ()
) -> dict[str, object]:
    """Return option -> value for ``report.json``, None if unused or hidden by redaction.

    ``conditions`` tell the prompts whose texts are left out.
    """
    values = {name: getattr(options, name) for name in _SETTINGS if name != "map"}
    # None, not an empty value, for an option that is not used
    values |= {"map": options.mapping or None, "merge": options.merge or None}
    values["pad_tokens"] = list(options.pad_tokens)
    # Without its folder, which may name a user or a machine
    values["tokenizer"] = Path(options.tokenizer or "").name or None
    if options.redact and options.split not in USUAL_SPLITS:
        values["split"] = None
    if options.redact_names or options.public:
        values["map"] = None
        values["tokenizer"] = None
    if options.public:
        values["public"] = True
        values["step_from_path"] = None
    if conditions:
        values["omit_prompts"] = list(map(str, conditions))
    return values


def _listed_settings(run: JudgedRun) -> list[tuple[str, str]]:
    """Return the settings that have a value, as texts: (option, value)."""
    listed = []
    for name, value in settings(run.options, run.omitted.conditions).items():
        if isinstance(value, str):
            listed.append((name, value))
        elif value is not None:
            listed.append((name, canonical_json(value).decode()))
    return listed


@cache
def versions() -> tuple[tuple[str, str], ...]:
    return (
        ("rlreport", __version__),
        ("Python", platform.python_version()),
        *((name, version(name)) for name in _PACKAGES),
    )


def _checks_table(verdict: Verdict) -> TableView:
    """Return the table of all checks with the outcome of each, and what it needs or is close to."""
    outcomes: dict[str, tuple[str, str]] = {}
    for finding in verdict.findings:
        outcomes[finding.id] = message("found"), finding.title
    for muted in verdict.muted:
        outcomes[muted.finding.id] = message("muted"), muted.reason
    for close in verdict.close:
        outcomes[close.id] = message("close to its limit"), close.title
    for check_id in verdict.passed:
        outcomes[check_id] = message("found nothing"), ""
    for check in verdict.not_run:
        needs = message("Needs {needs}.", needs=check.needs)
        outcomes[check.id] = message("not observable"), needs
    columns: Columns = {
        ColumnView("check", message("Check"), kind="text"): [
            message(BY_ID[check_id].name) for check_id in outcomes
        ],
        ColumnView("outcome", message("Outcome"), kind="text"): [
            outcome for outcome, _ in outcomes.values()
        ],
        ColumnView("detail", message("Detail"), kind="text"): [
            detail for _, detail in outcomes.values()
        ],
        ColumnView("id", message("Name for --mute"), kind="token"): list(outcomes),
    }
    return table("checks", message("Checks"), columns, ids=outcomes)


def not_logged(run: JudgedRun) -> list[UnloggedView]:
    """Return what is not logged, which checks it would feed, and what would log it."""
    tables = run.tables
    metrics = list(map(str, tables.metrics.columns[1:]))  # without the step
    log = Log(
        framework=framework_of_run(run),
        roles=roles_of(metrics, tables.metric_roles),
        fields={name for name, count in tables.fields.items() if count},
        has_metrics=bool(metrics),
    )
    rows = unlogged(run.verdict.not_run, log)
    return [_unlogged_view(row) for row in rows]


def _unlogged_view(row: Unlogged) -> UnloggedView:
    checks = listed(message(BY_ID[check].name) for check in row.checks)
    return UnloggedView(message("{one:capital}", one=row.what), row.how, checks)


def framework_of_run(run: JudgedRun) -> str | None:
    """Return the framework that trained the run, None if it is not known."""
    metrics = map(str, run.tables.metrics.columns[1:])  # without the step
    return setup_of(run.tables, run.card.entries).framework or framework_of(metrics)


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


def _files_table(tables: Tables) -> TableView:
    """Return the table of the log files, with sizes such as "1.2 MB" that sort by bytes."""
    values = attribute_columns(tables.files, _FILE_COLUMNS)
    values[_SIZE] = [
        Cell(
            byte_size(file.size),
            float(file.size),
            message("{count:count} bytes", count=file.size),
        )
        for file in tables.files
    ]
    return table("files", message("Files read"), values)


def _metrics_table(files: Sequence[MetricsFile]) -> TableView:
    """Return the table of the trainer's metrics files, with the names of their metrics."""
    names = [file.metrics for file in files]
    columns: Columns = {
        _NAME: [file.name for file in files],
        ColumnView("steps", message("Steps"), written="count"): [
            file.steps for file in files
        ],
        ColumnView("count", message("Metrics"), written="count"): map(len, names),
        ColumnView("metrics", message("Names"), kind="text"): map(", ".join, names),
    }
    return table("metrics-files", message("Trainer metrics read"), columns)


def _fields_table(tables: Tables) -> TableView:
    """Return the table of fields that are logged; its note names those that are missing.

    ``tables.fields`` has the number of rows with each field.
    """
    meanings = {field.name: message(field.meaning) for field in FIELDS}
    missing_names = tuple(name for name in meanings if not tables.fields.get(name))
    # Fields that rlreport does not know follow those that it does.
    extra_names = [
        str(name) for name in tables.extras.columns if str(name) not in CANONICAL
    ]
    meanings |= dict.fromkeys(extra_names, message("as logged"))
    names = [name for name in meanings if tables.fields.get(name)]
    rows = [tables.fields[name] for name in names]
    columns: Columns = {
        ColumnView("field", message("Field"), kind="text"): names,
        ColumnView("meaning", message("Meaning"), kind="text"): [
            meanings[name] for name in names
        ],
        ColumnView("rows", message("Rows with the field"), written="count"): rows,
    }
    note = (
        message("Missing in all rows: {fields}.", fields=missing_names)
        if missing_names
        else ""
    )
    return table(
        "fields", message("Fields found and missing"), columns, ids=names, note=note
    )


def _bad_lines_table(tables: Tables) -> TableView:
    """Return the table of lines that could not be read; its note says if it lists only some."""
    lines = tables.bad_lines
    whole_file = Cell(message("whole file"), 0.0)  # for a file without a line number
    columns: Columns = {
        ColumnView("file", message("File"), kind="text"): [bad.file for bad in lines],
        ColumnView("line", message("Line"), written="count"): [
            bad.line or whole_file for bad in lines
        ],
        ColumnView("reason", message("Reason"), kind="text"): [
            bad.reason for bad in lines
        ],
    }
    count = len(tables.bad_lines)
    note = ""
    if count < tables.bad_count:
        note = message(
            "{some:count} of {all:count} listed.", some=count, all=tables.bad_count
        )
    return table(
        "bad-lines", message("Lines that could not be read"), columns, note=note
    )


def data_files(run: JudgedRun, room: int, context: PageContext) -> DataFiles:
    """Return the contents of the data files.

    The figures of responses take up to ``room`` bytes, the trainer metrics any number. With a
    ``room`` of 0 both are left out, and in one file the metrics always are.
    """
    is_redacted = bool(run.options.redact)
    responses = response_data(run.tables, redact=is_redacted)
    # Of too many responses, the last ones are packed; ``count`` is how many.
    content, count = pack_table(responses, room)
    metrics = b""
    if room and not context.one_file and not run.tables.metrics.empty:
        metrics = csv(run.tables.metrics)
    return DataFiles(content, count, metrics)


def exports(report: RunReport) -> list[tuple[str, bytes]]:
    """Return (path in the report folder, bytes) of exported findings, tables and chart specs."""
    return report.once("exports", lambda: list(_exports(report)))


def _exports(report: RunReport) -> Iterator[tuple[str, bytes]]:
    """Yield what ``exports`` returns; the table of tokens only if there are tokens."""
    tables = report.run.tables
    findings = findings_json(report.run.verdict)
    yield "data/findings.json", canonical_json(findings, indent=True)
    yield STEPS, csv(tables.steps)
    yield PROMPTS, csv(tables.prompts)
    if len(tables.tokens):
        yield "data/tokens.csv", csv(tables.tokens.head(TOKENS_LISTED))
    for chart in page_charts(report).overview:
        yield chart_path(chart), canonical_json(chart.spec, indent=True)


def chart_path(chart: Chart) -> str:
    return f"data/charts/{chart.name}.vl.json"


def report_json(report: RunReport) -> dict[str, Any]:
    """Return the content of ``data/report.json``; see docs/data.md."""
    run = report.run
    tables = run.tables
    verdict = findings_json(run.verdict)
    reward = run.verdict.courses.get("reward")  # by its leading series
    return {
        "schema": verdict.pop("schema"),
        "generator": {"name": "rlreport", "version": __version__},
        "run": run.title,
        "responses": len(tables.responses),
        "pass_k": passes_of(tables.training().responses).k,
        "sampled": {"responses": tables.sampled, "of": tables.sampled_of},
        "settings": settings(run.options, run.omitted.conditions),
        "versions": dict(versions()),
        "card": run.card.as_json(),
        **_steps_json(tables.steps),
        "reward": {"steps": reward.steps, "values": reward.values} if reward else None,
        "curves": report.once("curves", lambda: _curves(run)),
        **verdict,
        **_rescoring_json(tables.rescoring),
        "times": tables.times.as_json(),
        "prompts": courses_json(tables),
        "files": [_file_json(file) for file in tables.files],
        "metrics_files": [asdict(file) for file in tables.metrics_files],
        **_metric_roles(tables),
        "bad_lines": [asdict(line) for line in tables.bad_lines],
        "bad_lines_in_all": tables.bad_count,
        "notes": [note_in_words(note) for note in tables.notes],
        "fields": tables.fields,
        "shown": _shown(report),
    }


def _steps_json(steps: pd.DataFrame) -> dict[str, Any]:
    """Return the entries of ``report.json`` on the steps; ``steps.csv`` has all of them."""
    with_values = steps.dropna(axis="columns", how="all")
    count = len(steps)
    if count <= STEPS_IN_JSON:
        return {"steps": with_values.to_dict("records")}
    chosen = with_values.iloc[evenly(count, STEPS_IN_JSON)]
    return {"steps": chosen.to_dict("records"), "steps_in_all": count}


def _shown(report: RunReport) -> dict[str, Any]:
    """Return which steps have a page, and how many responses are shown and left out."""
    return {
        "steps": [page.plan.step for page in report.step_pages],
        "responses": sum(map(len, report.shown_rows)),
        "left_out": report.left_out,
    }


def _curves(run: JudgedRun) -> list[dict[str, Any]]:
    """Return the short curves of a run's quantities, which the index of many runs shows."""
    if run.tables.steps.empty:
        return []
    return run_curves(Run(run.tables), run.verdict.courses)


def _metric_roles(tables: Tables) -> dict[str, Any]:
    """Return the roles of metrics whose names do not tell them, by which ``compare`` knows them."""
    return {"metric_roles": tables.metric_roles} if tables.metric_roles else {}


def _rescoring_json(about: Rescoring | None) -> dict[str, Any]:
    """Return the entry of ``report.json`` on how ``valid_reward`` was made, {} if it was not."""
    if about is None:
        return {}
    unscored = [
        {"reason": one.reason, "responses": one.rows, "step": one.step, "n": one.n}
        for one in about.unscored
    ]
    entry = {
        "function": about.function,
        "responses": about.responses,
        "scored": about.scored,
        "unscored": unscored,
    }
    return {"rescoring": entry}


def _file_json(file: LogFile) -> dict[str, Any]:
    """Return a log file for ``report.json``, whose keys are public and do not change."""
    return {
        "name": file.name,
        "format": file.format,
        "lines": file.lines,
        "bytes": file.size,
        "responses": file.rows,
        "left_out": file.bad,
    }


def csv(table: pd.DataFrame) -> bytes:
    """Return a table as UTF-8 CSV without its index.

    Texts and names of columns are neither formulas of spreadsheets nor have control characters.
    """
    texts = table.select_dtypes(include=["object", "string"])
    safe = table.assign(
        **{str(name): values.map(_safe_cell) for name, values in texts.items()}
    )
    safe.columns = pd.Index([_safe(str(name)) for name in safe])
    # Quote all texts, as an unquoted CR in a text would start a new row.
    text = safe.to_csv(
        index=False, lineterminator="\n", quoting=writer.QUOTE_NONNUMERIC
    )
    return text.encode("utf-8", "replace")


def _safe_cell(cell: object) -> object:
    return _safe(cell) if isinstance(cell, str) else cell


def _safe(text: str) -> str:
    return escape(without_controls(text))
