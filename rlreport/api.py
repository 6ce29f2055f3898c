"""Functions that build reports and judge runs, with the same options as the command line."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from rlreport.check.verdict import Verdict
from rlreport.deliver.publish import destination
from rlreport.draw.vega import vega_process
from rlreport.errors import UsageError
from rlreport.flows.build import Report, build_report, check_logs
from rlreport.options import (
    BUILDING,
    CHECKING,
    DEFAULT_LIMIT,
    BuildOptions,
    CompareOptions,
    declared,
    refuse_unknown,
)
from rlreport.system.in_memory import Given, InMemory, as_files, paths_or_data
from rlreport.system.wandb_runs import local_copies
from rlreport.system.workers import Progress, Workers

if TYPE_CHECKING:
    import pandas as pd

    from rlreport.flows.compare import ComparisonReport
    from rlreport.flows.index import Index


class PolarsFrame(Protocol):
    """What is used of a data frame of Polars."""

    def iter_rows(self, *, named: bool) -> Iterator[Any]:
        """Yield the rows, as dicts if ``named``."""


class ArrowTable(Protocol):
    """What is used of a table of Arrow."""

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""

    def to_batches(self, max_chunksize: Any = ...) -> list[Any]:
        """Return the rows in parts, without copying them."""


Logs: TypeAlias = str | Path | Sequence[str | Path]
# Paths, or the rows of one run: a data frame, a data set (which is an iterable of dicts, too), an
# iterable of dicts (rows) or a dict of lists (columns)
Data: TypeAlias = (
    "Logs | pd.DataFrame | PolarsFrame | ArrowTable | Mapping[str, Any]"
    " | Iterable[Mapping[str, Any]]"
)
Settings = TypeVar("Settings", BuildOptions, CompareOptions)
Function = TypeVar("Function", bound=Callable[..., Any])
# What data in memory are called, see ``system.in_memory``
_DATA = "data"
_BASE = "data of BASE"
_NEW = "data of NEW"
# Docstring line that ``_add_options`` replaces with a description of each option
_OPTIONS = "        **options: as on the command line."


def _add_options(
    options_class: Any, names: Collection[str] = ()
) -> Callable[[Function], Function]:
    """Return a decorator that adds a class's options to a function's signature and docstring.

    So ``help`` and editors show each option instead of ``**options``; with ``names``, only these.
    """

    def add(function: Function) -> Function:
        signature = inspect.signature(function)
        option_parameters = inspect.signature(options_class).parameters
        # The options take the place of ``**options``.
        parameters = [
            p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD
        ]
        lines = []
        for entry in declared(options_class):
            if names and entry.name not in names:
                continue
            default = {} if entry.default_factory is dict else entry.default
            parameters.append(option_parameters[entry.name].replace(default=default))
            help = textwrap.fill(f"{entry.name}: {entry.metadata['help']}", width=88)
            # The first line has the indent of an argument, the others four blanks more.
            lines += textwrap.indent(help, " " * 12).removeprefix(" " * 4).splitlines()
        signature = signature.replace(parameters=parameters)
        setattr(function, "__signature__", signature)  # noqa: B010 - not declared by Callable
        function.__doc__ = str(function.__doc__).replace(_OPTIONS, "\n".join(lines))
        return function

    return add


@_add_options(BuildOptions)
def build(logs: Data, out: str | Path = "report", **options: Any) -> Report:
    """Build the report of one run.

    Call it at the end of a training script::

        report = rlreport.build("logs/", "report.html", title="ppo, kl 0.08")
        print(report.verdict.sentence)

    or with what the script has in memory::

        report = rlreport.build(trainer.state.log_history, "report.html")

    Args:
        logs: files, folders, globs or URLs of rollout logs or trainer metrics; or the rows of
            either, as a data frame (pandas, Polars, Arrow), a ``datasets.Dataset``, an iterable of
            dicts (a row each, read once) or a dict of lists (columns). See docs/python.md.
        out: output path or URL. The suffix selects the format: none a folder, ``.html`` one file,
            others as on the command line. An earlier report is replaced as a whole; if the build
            fails it stays unchanged.
        **options: as on the command line.

    Returns:
        Path, size, verdict and all tables of the report.

    Raises:
        RlreportError: an option, the logs or the destination cannot be used; the message says
            what to do.
    """
    refuse_unknown("build", options, BuildOptions)
    run = {_DATA: _one_run(logs)}
    with _ready(BuildOptions(**options), run) as (settings, paths):
        progress = Progress(settings.quiet, settings.language)
        with (
            vega_process(settings.workers),
            Workers(settings.workers, settings.ray) as workers,
        ):
            return build_report(
                paths[_DATA], destination(out), settings, progress, workers
            )


@_add_options(BuildOptions, CHECKING)
def judge(logs: Data, **options: Any) -> Verdict:
    """Return the verdict on one run, without building a report.

    The same as ``rlreport check``::

        verdict = rlreport.judge(rows)
        if verdict.reaches("critical"):
            raise SystemExit(verdict.sentence)

    Args:
        logs: logs or rows of rollouts or trainer metrics, as in ``build``.
        **options: as on the command line.

    Returns:
        What was found, the most important finding, and what to do next.

    Raises:
        RlreportError: an option or the logs cannot be used; the message says what to do.
    """
    refuse_unknown("judge", options, BuildOptions, CHECKING)
    run = {_DATA: _one_run(logs)}
    with _ready(BuildOptions(**options), run) as (settings, paths):
        return check_logs(paths[_DATA], settings)


@_add_options(CompareOptions)
def compare(
    base: Data | Sequence[Data],
    new: Data | Sequence[Data],
    out: str | Path = "comparison",
    **options: Any,
) -> ComparisonReport:
    """Compare a run NEW with a run BASE, or several seeds of NEW with several of BASE.

    Args:
        base: logs, an earlier report (folder, zip or one file) or rows (as in ``build``) of BASE;
            for several seeds a list of these, or a folder that contains them.
        new: the same for NEW.
        out: output path or URL; the suffix selects the format as in ``build``.
        **options: as on the command line.

    Returns:
        The comparison, the result of ``fail_on`` with its exit status, and the output path.

    Raises:
        RlreportError: a run, an option or the destination cannot be used.
    """
    # Lazily, like that of an index: a build needs nothing of it.
    from rlreport.flows.compare import build_comparison

    refuse_unknown("compare", options, CompareOptions)
    runs = {_BASE: _runs(base, _BASE), _NEW: _runs(new, _NEW)}
    with (
        _ready(CompareOptions(**options), runs) as (settings, paths),
        vega_process(),
    ):
        return build_comparison(
            bases=paths[_BASE],
            news=paths[_NEW],
            out=destination(out),
            options=settings,
            progress=Progress(settings.quiet, settings.language),
        )


@_add_options(BuildOptions, BUILDING)
def index(
    reports: Logs,
    out: str | Path = "index.html",
    *,
    title: str = "",
    limit: int = DEFAULT_LIMIT,
    rebuild: bool = False,
    **options: Any,
) -> Index:
    """Write a page that lists reports and runs, one row each; call again after adding one.

    Args:
        reports: reports (folder, zip or one file), runs without a report, folders that contain
            some, or a project of W&B as ``wandb://ENTITY/PROJECT``. A report of each run that has
            none is built in the folder ``<stem of out>-reports`` beside ``out``; one that is there
            is built again only if the run, an option or rlreport has changed.
        out: path of the page; its links are relative to it.
        title: title of the page; "" for the default.
        limit: maximum number of runs of a project of W&B, the newest first.
        rebuild: build the reports of all runs again.
        **options: as on the command line.

    Returns:
        Path of the page, the number of listed reports, those that could not be read, and how many
        were built or kept.

    Raises:
        RlreportError: a path does not exist, no path has a readable report or run, or an argument
            or ``out`` cannot be used.
    """
    from rlreport.flows.index import build_index

    refuse_unknown("index", options, BuildOptions, (*BUILDING, "set_by"))
    settings = BuildOptions(**options)
    with vega_process(settings.workers):
        return build_index(
            _path_list(reports),
            out,
            settings,
            title=title,
            limit=limit,
            rebuild=rebuild,
        )


def _path_list(logs: Logs) -> list[str | Path]:
    """Return one path or several as a list; raise UsageError if there is none."""
    paths = [logs] if isinstance(logs, str | Path) else list(logs)
    if not paths:
        raise UsageError("no path given; give at least one file or folder")
    return paths


def _runs(value: Any, of: str) -> list[Given]:
    """Return the paths and tables that were given; raise UsageError if there are none."""
    given = paths_or_data(value, of)
    if not given:
        raise UsageError(
            "no path given; give at least one file or folder, or rows as dicts"
        )
    return given


def _one_run(value: Any) -> list[Given]:
    """Return paths or a single table; raise UsageError for several tables."""
    given = _runs(value, _DATA)
    if len(given) > 1 and any(isinstance(one, InMemory) for one in given):
        raise UsageError(
            "data: several tables in a list; give one with all rows of the run, as pandas.concat "
            "makes, and its trainer metrics as metrics="
        )
    return given


@contextmanager
def _ready(
    settings: Settings, given: Mapping[str, Sequence[Given]]
) -> Iterator[tuple[Settings, dict[str, list[str | Path]]]]:
    """Yield the options, and the paths of what was given by its name, while its files exist."""
    metrics = paths_or_data(settings.metrics, "metrics")
    if any(isinstance(one, InMemory) for one in chain(*given.values())):
        _refuse_options_of_files(settings)
    with (
        as_files({**given, "metrics": metrics}) as paths,
        local_copies(paths) as files,
    ):
        yield replace(settings, metrics=files.pop("metrics")), files


def _refuse_options_of_files(settings: BuildOptions | CompareOptions) -> None:
    """Raise UsageError for options that need the logs to be files."""
    if settings.step_from_path is not None:
        raise UsageError(
            "step_from_path: rows in memory have no path; give them a column 'step', or "
            "mapping={'step': COLUMN}"
        )
    if settings.ray is not None:
        raise UsageError(
            "ray: the nodes of a cluster cannot read the memory of this program; write the rows "
            "to files that all nodes share, and give their paths"
        )
