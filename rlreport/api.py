"""Functions that build reports, with the same options as the command line."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from rlreport.deliver.publish import destination
from rlreport.errors import UsageError
from rlreport.flows.build import Report, build_report
from rlreport.flows.compare import ComparisonReport, build_comparison
from rlreport.flows.index import Index, build_index
from rlreport.options import BuildOptions, CompareOptions, declared
from rlreport.system.wandb_runs import DEFAULT_LIMIT, local_copies
from rlreport.system.workers import Progress, Workers
from rlreport.text.language import language

Logs: TypeAlias = str | Path | Sequence[str | Path]
Function = TypeVar("Function", bound=Callable[..., Any])
# Docstring line that ``_add_options`` replaces with a description of each option
_OPTIONS = "        **options: as on the command line."


def _add_options(options_class: Any) -> Callable[[Function], Function]:
    """Return a decorator that adds a class's options to a function's signature and docstring.

    So ``help`` and editors show each option instead of ``**options``.
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
def build(logs: Logs, out: str | Path = "report", **options: Any) -> Report:
    """Build the report of one run.

    Call it at the end of a training script::

        report = rlreport.build("logs/", "report.html", title="ppo, kl 0.08")
        print(report.verdict.sentence)

    Args:
        logs: files, folders, globs or URLs of rollout logs.
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
    settings = BuildOptions(**options)
    progress = Progress(settings.quiet, settings.language)
    with (
        local_copies(_path_list(logs)) as paths,
        Workers(settings.workers, settings.ray) as workers,
    ):
        return build_report(paths, destination(out), settings, progress, workers)


@_add_options(CompareOptions)
def compare(
    base: Logs, new: Logs, out: str | Path = "comparison", **options: Any
) -> ComparisonReport:
    """Compare a run NEW with a run BASE, or several seeds of NEW with several of BASE.

    Args:
        base: logs or an earlier report (folder, zip or one file) of BASE; for several seeds a list,
            or a folder that contains them.
        new: the same for NEW.
        out: output path or URL; the suffix selects the format as in ``build``.
        **options: as on the command line.

    Returns:
        The comparison, the result of ``fail_on`` with its exit status, and the output path.

    Raises:
        RlreportError: a run, an option or the destination cannot be used.
    """
    settings = CompareOptions(**options)
    progress = Progress(settings.quiet, settings.language)
    return build_comparison(
        bases=_path_list(base),
        news=_path_list(new),
        out=destination(out),
        options=settings,
        progress=progress,
    )


def index(
    reports: Logs,
    out: str | Path = "index.html",
    *,
    title: str = "",
    lang: str = "en",
    limit: int = DEFAULT_LIMIT,
) -> Index:
    """Write a page that lists reports, one row each; call again after adding a report.

    Args:
        reports: reports (folder, zip or one file), folders that contain some, or trainer metrics
            of several runs, or a project of W&B as ``wandb://ENTITY/PROJECT`` (a report of each run
            is built next to ``out``).
        out: path of the page; its links are relative to it.
        title: title of the page; "" for the default.
        lang: language of the page, ``en`` or ``zh``.
        limit: maximum number of runs of a project of W&B, the newest first.

    Returns:
        Path of the page, the number of listed reports, and those that could not be read.

    Raises:
        RlreportError: a path does not exist, no path has a readable report, or an argument or
            ``out`` cannot be used.
    """
    return build_index(
        _path_list(reports), out, title=title, language=language(lang), limit=limit
    )


def _path_list(logs: Logs) -> list[str | Path]:
    """Return one path or several as a list; raise UsageError if there is none."""
    paths = [logs] if isinstance(logs, str | Path) else list(logs)
    if not paths:
        raise UsageError("no path given; give at least one file or folder")
    return paths
