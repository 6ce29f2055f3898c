"""Build the index of many reports."""

from __future__ import annotations

import csv
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from rlreport.comparison.saved import REPORT, report_about
from rlreport.deliver.forms import FORMS
from rlreport.deliver.one_file import assemble, encode_view
from rlreport.deliver.publish import checked_path, publishing
from rlreport.draw.svg import drawn
from rlreport.errors import (
    OutputError,
    RlreportError,
    UnreadableReportError,
    UnusableInputError,
    UsageError,
)
from rlreport.flows.build import build_report
from rlreport.metrics.find import find_and_read
from rlreport.options import BuildOptions
from rlreport.pages.html import environment
from rlreport.pages.index import runs_view
from rlreport.pages.index_rows import IndexRun, Listed, index_run
from rlreport.pages.page import RenderedPage
from rlreport.pages.table import Shell
from rlreport.read.listing import is_url
from rlreport.system.stores import shown
from rlreport.system.wandb_runs import (
    DEFAULT_LIMIT,
    WandbPath,
    copy_run,
    is_wandb,
    runs_of_project,
)
from rlreport.system.workers import Progress, Workers
from rlreport.text.clean import safe_text
from rlreport.text.language import ENGLISH, Language
from rlreport.text.messages import message

_UNREADABLE = (RlreportError, OSError, ValueError, csv.Error, sqlite3.Error)


class Source(NamedTuple):
    """A report to list, or a path in whose place none could be made."""

    path: Path
    problem: str = ""  # why there is no report


@dataclass(frozen=True, slots=True)
class Index:
    """The result of ``build_index``."""

    out: Path  # path of the index, the page that lists the reports
    reports: int  # number of listed reports, including unreadable ones
    # (path, reason) of each report that could not be read
    unread: list[tuple[str, str]]


def build_index(
    reports: Sequence[str | Path],
    out: str | Path = "index.html",
    *,
    title: str = "",
    language: Language = ENGLISH,
    limit: int = DEFAULT_LIMIT,
) -> Index:
    """Write a page that lists reports, one row each; an error leaves ``out`` unchanged.

    Of a project of W&B, at most ``limit`` runs are listed, the newest.
    """
    out = _index_path(out)
    target = out.resolve()
    found: list[Source] = []
    for path in reports:
        if is_wandb(path):
            found += _reports_of_wandb(str(path), target.parent, language, limit)
        else:
            found += _reports_at(path, target.parent, language)
    # A report that several paths lead to is listed once, and an index must not list itself.
    sources = [
        source for source in dict.fromkeys(found) if source.path.resolve() != target
    ]
    # One at a time, as the data of a report may be large.
    listed = [index_run(_entry(source, target.parent), language) for source in sources]
    # Some broken reports are listed as such, but a page of nothing else would be of no use.
    if listed and all(report.is_unread for report in listed):
        raise UsageError(f"{sources[0].path}: {listed[0].sentence}")
    title = title or language.of(message("Runs"))
    content = _document(listed, title, language)
    with publishing(out, FORMS["html"]) as path, path.open("wb") as file:
        file.writelines(content)
    unread = [(report.place, report.sentence) for report in listed if report.is_unread]
    return Index(out, len(listed), unread)


def _index_path(given: str | Path) -> Path:
    """Return where the index is written; raise an error for a URL, another suffix, or a report."""
    if is_url(str(given)):
        raise UsageError(
            f"{shown(str(given))}: write the index to a local path, next to its reports"
        )
    out = Path(given)
    if out.suffix.lower() not in (".html", ".htm"):
        raise UsageError(
            f"{out}: an index is one HTML file; its name must end in .html"
        )
    target = checked_path(out, FORMS["html"])
    # ``publishing`` replaces any HTML file of rlreport: it cannot tell a report from an index.
    is_in_report = (target.parent / REPORT).is_file()
    is_report = target.is_file() and _about(target) is not None
    if is_in_report or is_report:
        raise OutputError(
            f"{target} belongs to a report; choose another file name for the index"
        )
    return out


def _document(
    listed: Sequence[IndexRun], title: str, language: Language
) -> Iterator[bytes]:
    """Yield the parts of the page, an HTML file with everything in it."""
    shell = Shell(title=title, run=title, kind="runs")
    view = runs_view(listed, lambda charts: drawn(charts, language), language)
    template = environment(language).get_template("main/runs.html")
    html = template.render(view=language.of(view), shell=shell)
    page = encode_view(RenderedPage("index.html", "", title, html))
    # Its charts are pictures, so that it needs no script for charts.
    yield from assemble(shell, iter([page.content]), language=language, charts=False)


def _about(path: Path) -> dict[str, Any] | RlreportError | None:
    """Return the ``report.json`` of a report, None if it is none, or why it cannot be read."""
    try:
        return report_about(path)
    except RlreportError as error:
        return error


def _reports_at(location: str | Path, folder: Path, language: Language) -> list[Source]:
    """Return the report at a path, those in it, or those built from its trainer metrics.

    Without any, the path itself is returned, and listed as no report. New reports are written to
    ``folder``.
    """
    if is_url(str(location)):
        raise UsageError(
            f"{shown(str(location))}: an index lists only local reports; download it"
        )
    path = Path(location)
    if not path.exists():
        raise UsageError(f"No such file or folder: {path}")
    if _is_report(path):
        return [Source(path)]
    try:
        children = sorted(path.iterdir()) if path.is_dir() else []
        if not any(map(_is_report, children)):
            return _build_reports(path, folder, language) or [Source(path)]
    except _UNREADABLE as error:
        # The error of the system without its number and the path
        problem = getattr(error, "strerror", "") or error
        return [Source(path, str(problem))]
    return [Source(child) for child in children if _is_report(child)]


def _build_reports(path: Path, folder: Path, language: Language) -> list[Source]:
    """Build a report in ``folder`` of each run of the trainer metrics at ``path``.

    Returns [] if these are not metrics of several runs.
    """
    reports: list[Source] = []
    metrics = find_and_read([path])
    if not metrics.paths:
        metrics = find_and_read([path], wide=True)
    for run in metrics.runs:
        name = re.sub(r"[^\w.-]+", "-", safe_text(run)).strip("-.")
        name = name[:100] or "run"  # file systems have limits on names
        out = folder / f"{name}.html"
        # Another run may have a name that differs only in characters left out.
        if Source(out) in reports:
            out = folder / f"{name}-{len(reports)}.html"
        title = "" if run == "." else safe_text(run)  # ".": the folder itself
        options = BuildOptions(run=run, title=title, lang=language.code)
        reports.append(_built(path, out, options, called=f"run {run}"))
    return reports


def _built(path: Path, out: Path, options: BuildOptions, called: str) -> Source:
    """Build a report at ``out``; if that fails, return why, with the name of the run."""
    try:
        with Workers(1) as workers:
            build_report([path], out, options, Progress(), workers)
    except RlreportError as error:
        return Source(path, f"{called}: {error}")
    return Source(out)


def _reports_of_wandb(
    url: str, folder: Path, language: Language, limit: int
) -> list[Source]:
    """Build a report in ``folder`` of each run of a project of W&B, or of the run that is named."""
    named = WandbPath.of(url)
    runs = [named] if named.run else runs_of_project(named, limit)
    if not runs:
        raise UnusableInputError(f"{named}: has no runs")
    reports: list[Source] = []
    for run in runs:
        with tempfile.TemporaryDirectory(prefix="rlreport-wandb-") as temporary:
            try:
                copy = copy_run(run, Path(temporary))
            except UnusableInputError as error:
                reports.append(Source(Path(run.run), str(error)))
                continue
            # Names of runs are not unique; the id at the end of the copy's is.
            out = folder / f"{copy.name}.html"
            options = BuildOptions(title=copy.name, lang=language.code)
            reports.append(_built(copy, out, options, called=f"run {copy.name}"))
    return reports


def _is_report(path: Path) -> bool:
    """Return whether a path is a report or may be one that cannot be read."""
    try:
        if (path / REPORT).is_file():
            return True
        # Other files are not opened.
        if path.is_file() and path.suffix.lower() not in (".html", ".htm", ".zip"):
            return False
    except OSError:  # such as a folder without permission: listed with the reason
        return True
    return isinstance(_about(path), dict | UnreadableReportError)


def _entry(source: Source, root: Path) -> Listed:
    """Return a report's entry, linked relative to the folder ``root``."""
    path = source.path
    relative = Path(os.path.relpath(path.resolve(), root)).as_posix()
    page = f"{relative}/index.html" if path.is_dir() else relative
    # Without "./" a browser would read the part before a colon as a URL scheme.
    href = f"./{quote(os.fsencode(page))}"
    name = safe_text(relative)
    about = UnusableInputError(source.problem) if source.problem else _about(path)
    if isinstance(about, RlreportError):
        why = str(about).removeprefix(f"{path}: ")  # its row has the path already
        return Listed(name, href, about=None, why=safe_text(why))
    if about is None:
        return Listed(name, href, about=None, why="not a report of rlreport")
    form: Literal["folder", "html", "zip"] = "folder"
    if not path.is_dir():
        form = "zip" if path.suffix.lower() == ".zip" else "html"
    return Listed(name, href, about, form=form)
