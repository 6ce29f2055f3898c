"""Build the index of many reports, and reports of runs that have none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from rlreport.comparison.saved import REPORT, report_about
from rlreport.deliver.forms import FORMS
from rlreport.deliver.one_file import assemble, encode_view
from rlreport.deliver.publish import checked_path, publishing
from rlreport.draw.svg import drawn
from rlreport.errors import OutputError, RlreportError, UnusableInputError, UsageError
from rlreport.flows.find_runs import Found, FoundRun, find_runs, is_report
from rlreport.flows.run_reports import (
    ReportsFolder,
    RunReport,
    Wanted,
    build_missing,
    wanted_run,
)
from rlreport.formats.logged import dicts
from rlreport.options import DEFAULT_LIMIT, BuildOptions
from rlreport.pages.html import environment
from rlreport.pages.index import runs_view
from rlreport.pages.index_rows import Hides, IndexRun, Listed, index_run
from rlreport.pages.page import RenderedPage
from rlreport.pages.table import Shell
from rlreport.read.listing import find_sources, is_url
from rlreport.system.stores import shown
from rlreport.system.wandb_runs import WandbPath, WandbRun, is_wandb, runs_at
from rlreport.system.workers import Progress
from rlreport.text.clean import safe_text
from rlreport.text.language import Language
from rlreport.text.messages import message

_ReadFiles: TypeAlias = frozenset[tuple[str, Any]]  # (name, bytes) of each file


class Source(NamedTuple):
    """A report to list, or what is listed although it has none."""

    path: Path
    problem: str = ""  # why there is no report
    name: str = ""  # of the run that has none


@dataclass(frozen=True, slots=True)
class Index:
    """The result of ``build_index``."""

    out: Path  # path of the index, the page that lists the reports
    reports: int  # number of rows, including those of what cannot be read
    # (path, reason) of each report and run that could not be read
    unread: list[tuple[str, str]]
    built: int = 0  # number of reports of runs that were built
    kept: int = 0  # number of those of an earlier call that are up to date


def build_index(
    places: Sequence[str | Path],
    out: str | Path,
    options: BuildOptions,
    *,
    title: str = "",
    limit: int = DEFAULT_LIMIT,
    rebuild: bool = False,
) -> Index:
    """Write a page that lists reports and runs, one row each; an error leaves ``out`` unchanged.

    Of runs without a report, one is built with ``options`` in a folder beside ``out``; one of an
    earlier call is kept if it is up to date, unless ``rebuild``. Of a project of W&B, at most
    ``limit`` runs are listed, the newest.
    """
    out = _index_path(out)
    target = out.resolve()
    folder = ReportsFolder.of(target)
    sources, runs = _found_at(places, limit)
    # The folder of reports may lie in one of the places.
    of_runs = [one for one in sources if one.path.parent.resolve() == folder.path]
    rows: list[IndexRun] = []
    paths: list[Path] = []  # of the rows, as they were given
    read: dict[Path, _ReadFiles] = {}

    hides = Hides(options.redact, options.public, tuple(options.omit_prompts))

    def add_row(source: Source) -> None:
        # One at a time, as the data of a report may be large.
        listed = _entry(source, target.parent)
        rows.append(index_run(listed, options.language, hides))
        paths.append(source.path)
        read[source.path.resolve()] = _files_read(listed)

    for source in sources:
        # An index must not list itself.
        if source not in of_runs and source.path.resolve() != target:
            add_row(source)
    results = build_missing(
        _without_report(runs, read),
        folder,
        options,
        Progress(options.quiet, options.language),
        rebuild=rebuild,
    )
    made = {result.path for result in results}
    # The other ones are of runs whose logs are no more.
    others = [one for one in of_runs if one.path.resolve() not in made]
    for source in (*others, *map(_source_of, results)):
        add_row(source)
    # Some broken reports are listed as such, but a page of nothing else would be of no use.
    if rows and all(row.is_unread for row in rows):
        raise UsageError(f"{paths[0]}: {rows[0].sentence}")
    title = title or options.language.of(message("Runs"))
    content = _document(rows, title, options.language)
    with publishing(out, FORMS["html"]) as path, path.open("wb") as file:
        file.writelines(content)
    return Index(
        out,
        len(rows),
        unread=[(row.place, row.sentence) for row in rows if row.is_unread],
        built=sum(one.state == "built" for one in results),
        kept=sum(one.state == "kept" for one in results),
    )


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


def _found_at(
    places: Sequence[str | Path], limit: int
) -> tuple[list[Source], list[Wanted]]:
    """Return the reports and the runs at the places, each once."""
    sources: dict[Path, Source] = {}  # by the path without links
    runs: dict[Path | WandbRun, Wanted] = {}
    for place in places:
        if is_wandb(place):
            for one in _runs_of_wandb(str(place), limit):
                runs.setdefault(one.place, one)
            continue
        path = _local(place)
        found = Found([path]) if is_report(path) else _found_in(path)
        unreadable = [Source(folder, why) for folder, why in found.unreadable]
        for source in (*map(Source, found.reports), *unreadable):
            sources.setdefault(source.path.resolve(), source)
        for run in found.runs:
            runs.setdefault(run.path.resolve(), wanted_run(run, path))
    return list(sources.values()), list(runs.values())


def _local(place: str | Path) -> Path:
    """Return a path that was given, or raise UsageError if it is a URL or missing."""
    if is_url(str(place)):
        raise UsageError(
            f"{shown(str(place))}: an index lists only local reports and runs; download it"
        )
    path = Path(place)
    if not path.exists():
        raise UsageError(f"No such file or folder: {path}")
    return path


def _found_in(path: Path) -> Found:
    """Return the reports and the runs in a folder, or the run that a file is.

    What has neither is taken for a run: why it cannot be built tells what is missing.
    """
    found = find_runs(path) if path.is_dir() else Found()
    if not (found.reports or found.runs or found.unreadable):
        found.runs.append(FoundRun(path, (path,)))
    return found


def _runs_of_wandb(url: str, limit: int) -> list[Wanted]:
    """Return the runs of a project of W&B, or the run that is named."""
    named = WandbPath.of(url)
    runs = runs_at(named, limit)
    if not runs:
        raise UnusableInputError(f"{named}: has no runs")
    return [Wanted(run, (), run.name) for run in runs]


def _without_report(
    runs: Sequence[Wanted], reports: Mapping[Path, _ReadFiles]
) -> list[Wanted]:
    """Return the runs that have none of the ``reports``, given the files that these have read.

    A report is that of a run if it lies in its folder, or has read its files and those of no other.
    """
    folders = {
        run.place.resolve(): run.place
        for run in runs
        if isinstance(run.place, Path) and run.logs == (run.place,)
    }
    reported: set[Path | WandbRun] = set()
    elsewhere: list[_ReadFiles] = []
    for path, read in reports.items():
        around = [one for one in path.parents if one in folders]
        reported.update(folders[one] for one in around[:1])
        if read and not around:
            elsewhere.append(read)
    if elsewhere:
        files_of = {run.place: _files_of(run) for run in runs if run.logs}
        for read in elsewhere:
            places = [place for place, files in files_of.items() if read <= files]
            reported.update(places if len(places) == 1 else ())
    return [run for run in runs if run.place not in reported]


def _files_of(run: Wanted) -> _ReadFiles:
    """Return the files of a run, named as in a report of it."""
    try:
        sources = find_sources(run.logs).sources
    except RlreportError:  # building its report tells why
        return frozenset()
    return frozenset((source.name, source.size) for source in sources)


def _files_read(listed: Listed) -> _ReadFiles:
    """Return the files with rollouts that a report has read."""
    return frozenset(
        (str(file.get("name")), file.get("bytes"))
        for file in dicts((listed.about or {}).get("files"))
        if isinstance(file.get("bytes"), int)
    )


def _source_of(result: RunReport) -> Source:
    """Return what is listed of a run: its report, or why there is none."""
    if not result.problem:
        return Source(result.path)
    run = result.run
    called = f"run {safe_text(run.part)}: " if run.part else ""
    place = result.path if isinstance(run.place, WandbRun) else run.place
    return Source(place, called + result.problem, run.name)


def _entry(source: Source, root: Path) -> Listed:
    """Return a report's entry, linked relative to the folder ``root``."""
    path = source.path
    relative = Path(os.path.relpath(path.resolve(), root)).as_posix()
    page = f"{relative}/index.html" if path.is_dir() else relative
    # What is no report has no page, unless it is a broken one.
    has_page = not source.problem or (root / page).is_file()
    # Without "./" a browser would read the part before a colon as a URL scheme.
    href = f"./{quote(os.fsencode(page))}" if has_page else ""
    name = safe_text(relative)
    about = UnusableInputError(source.problem) if source.problem else _about(path)
    if isinstance(about, RlreportError):
        why = str(about).removeprefix(f"{path}: ")  # its row has the path already
        return Listed(name, href, None, safe_text(why), name=source.name)
    if about is None:
        return Listed(name, href, about=None, why="not a report of rlreport")
    form: Literal["folder", "html", "zip"] = "folder"
    if not path.is_dir():
        form = "zip" if path.suffix.lower() == ".zip" else "html"
    return Listed(name, href, about, form=form)
