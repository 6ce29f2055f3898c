"""The folder of reports beside an index: a report of each run that has none.

A report that an index built says of which logs it is (BUILT_FROM): what identifies the run, and
what changes with its files, the options and the program. So the next call finds the run's folder,
and builds only what is not up to date. The file is published with the report: there is no moment
at which one is there without the other.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import tempfile
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import xxhash

from rlreport import __version__
from rlreport.about.card import configured
from rlreport.comparison.saved import report_about
from rlreport.deliver.publish import SYSTEM_FILES, first_names
from rlreport.errors import (
    OutputError,
    RlreportError,
    SeveralRunsError,
    UnusableInputError,
    stop,
)
from rlreport.flows.build import build_report
from rlreport.flows.find_runs import FoundRun
from rlreport.metrics.find import find_and_read, find_metrics
from rlreport.options import BuildOptions, declared
from rlreport.read.listing import state_of, without_suffixes
from rlreport.signals import Terminated, handle
from rlreport.system.cache import program
from rlreport.system.documents import load_json, read_bounded
from rlreport.system.own_output import BUILT_FROM, STAGING
from rlreport.system.wandb_runs import WandbRun, copy_run
from rlreport.system.workers import Progress, WorkerKilledError, Workers
from rlreport.text.clean import safe_text
from rlreport.text.messages import message

_ENDING = "-reports"  # of the name of the folder, after that of the index
_MOST_STAMP = 10_000  # bytes of BUILT_FROM
_LONGEST_NAME = 100  # bytes; file systems have limits on names
_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
# Runs with more logs, in bytes, are built one after the other, each by all processes
_LARGE = 64 << 20
# Options that do not change a report
_WITHOUT_EFFECT = ("cache", "quiet", "ray", "workers")
# Builds per process that may start before the result of an earlier one is taken
_AHEAD = 2


_State: TypeAlias = list[tuple[str, int, str, int]]  # see ``state_of``
_ReportState: TypeAlias = Literal["built", "kept", "failed"]


class Wanted(NamedTuple):
    """A run whose report is wanted."""

    place: Path | WandbRun
    logs: tuple[Path, ...]  # of a run of W&B none before it is copied
    name: str  # for the folder of its report, and for messages
    part: str = ""  # name of the run if the logs have several


class RunReport(NamedTuple):
    """What became of a run: a report, or the reason why there is none."""

    run: Wanted
    path: Path  # of the report, also of one that is missing
    state: _ReportState
    problem: str = ""


class _Stamp(NamedTuple):
    """What BUILT_FROM says of a report."""

    source: str  # what identifies the logs
    run: str  # what identifies the run
    runs: int  # runs in the logs
    inputs: str  # what changes with files, options and program


@dataclass(slots=True)
class ReportsFolder:
    """The folder of reports beside the index ``out``, which need not exist."""

    path: Path
    stamps: dict[str, _Stamp] = field(default_factory=dict)  # by name of the report

    @classmethod
    def of(cls, out: Path) -> ReportsFolder:
        """Return the folder beside an index, with what its reports say of themselves."""
        folder = cls(out.with_name(out.stem + _ENDING))
        for entry in folder._entries():
            stamp = None if entry.is_symlink() else _stamp_in(entry)
            if stamp:
                folder.stamps[entry.name] = stamp
        return folder

    def _entries(self) -> list[Path]:
        try:
            return sorted(self.path.iterdir()) if self.path.is_dir() else []
        except OSError:
            return []

    def _is_file(self) -> bool:
        """Return whether there is something at the path that is no folder."""
        return self.path.exists() and not self.path.is_dir()

    def refuse_foreign(self) -> None:
        """Raise OutputError if the folder is none, or holds other things than built reports."""
        if self.path.is_symlink() or self._is_file():
            raise OutputError(
                f"{self.path}: is a link or a file; reports of runs are written to a folder of "
                "this name: move it, or choose another name for the index"
            )
        foreign = [
            safe_text(entry.name)
            for entry in self._entries()
            if entry.name not in (*self.stamps, *SYSTEM_FILES)
            and not STAGING.fullmatch(entry.name)
        ]
        if foreign:
            raise OutputError(
                f"{self.path}: contains what this index did not build: "
                f"{first_names(foreign)}; move it, or choose another name for the index"
            )

    def up_to_date(self, source: str, inputs: str) -> list[str]:
        """Return the names of the reports of logs that did not change, [] if one is missing."""
        names = [
            name
            for name, stamp in self.stamps.items()
            if (stamp.source, stamp.inputs) == (source, inputs)
        ]
        is_complete = names and len(names) == self.stamps[names[0]].runs
        return names if is_complete and all(map(self._is_whole, names)) else []

    def _is_whole(self, name: str) -> bool:
        try:
            return report_about(self.path / name) is not None
        except RlreportError:
            return False

    def name_of(self, run: str, wanted: str, taken: Iterable[str]) -> str:
        """Return the name of a run's report: that of its last one, else one that is not taken."""
        for name, stamp in self.stamps.items():
            if stamp.run == run:
                return name
        used = {name.casefold() for name in (*self.stamps, *taken)}
        name = safe_name(wanted)
        return name if name.casefold() not in used else f"{name}-{run[:8]}"


def safe_name(text: str) -> str:
    """Return a name of a folder for a run that is called ``text``, which every system takes."""
    name = _NOT_IN_NAMES.sub("-", safe_text(text)).strip("-.")
    while len(name.encode()) > _LONGEST_NAME:
        name = name[:-1]
    name = name.strip("-.") or "run"
    return f"run-{name}" if _RESERVED.fullmatch(name) else name


def wanted_run(run: FoundRun, given: Path) -> Wanted:
    """Return a run that was found at or below ``given``, with a name."""
    if run.path == given:
        name = run.path.resolve().name
    else:
        name = " ".join(run.path.relative_to(given).parts)
    if run.path.is_file():
        name = without_suffixes(name)
    return Wanted(run.path, run.logs, safe_text(name))


def _stamp_in(report: Path) -> _Stamp | None:
    """Return what BUILT_FROM of a report says, None without one that an index wrote."""
    try:
        content: Any = load_json(read_bounded(report / BUILT_FROM, _MOST_STAMP))
        if content["generator"]["name"] != "rlreport":
            return None
        texts = [content[key] for key in ("source", "run", "inputs")]
        runs = content["runs"]
    except (OSError, ValueError, LookupError, TypeError, RlreportError):
        return None
    if type(runs) is not int or not all(isinstance(text, str) for text in texts):
        return None
    source, run, inputs = texts
    return _Stamp(source, run, runs, inputs)


def _text_of(stamp: _Stamp) -> str:
    generator = {"name": "rlreport", "version": __version__}
    return json.dumps({"generator": generator, **stamp._asdict()}, indent=0) + "\n"


def _hash(*parts: object) -> str:
    """Return a hash of texts, numbers and lists; no part of them can be read from it."""
    text = json.dumps(parts, default=str)
    return xxhash.xxh3_128_hexdigest(text.encode("utf-8", "surrogatepass"))


def build_missing(
    runs: Sequence[Wanted],
    folder: ReportsFolder,
    options: BuildOptions,
    progress: Progress,
    *,
    rebuild: bool = False,
) -> list[RunReport]:
    """Build a report of each run that has none in ``folder``, or an outdated one.

    A run that cannot be built does not keep others from it. Interrupted, reports that were built
    stay, and nothing half-written remains.
    """
    if not runs:
        return []
    folder.refuse_foreign()
    builds = _Builds(folder, options, progress, rebuild=rebuild)
    for run in runs:
        builds.add(run)
    builds.build()
    order = {run.place: number for number, run in enumerate(runs)}

    def place(report: RunReport) -> tuple[int, str]:
        return order[report.run.place], report.run.part

    return sorted(builds.results, key=place)


class _Build(NamedTuple):
    """A build of one report, which is called ``name``."""

    run: Wanted
    name: str
    stamp: _Stamp
    size: int  # bytes of the logs


class _Result(NamedTuple):
    """What a build returns: ``problem`` is "" if there is a report."""

    problem: str = ""
    runs: tuple[str, ...] = ()  # those that the logs have instead of one


class _Builds:
    """The builds of one call; ``results`` are in the order in which they became known."""

    def __init__(
        self,
        folder: ReportsFolder,
        options: BuildOptions,
        progress: Progress,
        *,
        rebuild: bool,
    ) -> None:
        self.results: list[RunReport] = []
        self._folder = folder
        self._options = options
        self._progress = progress
        self._rebuild = rebuild
        self._builds: list[_Build] = []
        self._names: set[str] = set()  # of reports of this call
        self._number = 0  # of the build that was begun last
        self._total = 0

    def add(self, run: Wanted) -> None:
        """Add a run: its reports are kept if they are up to date, else built."""
        root = self._folder.path.parent
        state = None if isinstance(run.place, WandbRun) else _state_of(run, run.place)
        source = _source_of(run, root)
        inputs = self._inputs(run, state)
        kept = self._folder.up_to_date(source, inputs) if inputs else []
        if kept and not self._rebuild:
            for name in kept:
                self._keep(run, name)
            return
        size = sum(size for _, size, *_ in state or ())
        stamp = _Stamp(source, _hash(source, run.part), 1, inputs)
        self._add(run, stamp, size)

    def _inputs(self, run: Wanted, state: _State | None) -> str:
        """Return what changes with the files of a run, the options and the program.

        "" if that cannot be told: then the report is built again.
        """
        if isinstance(run.place, WandbRun):
            if not run.place.version:
                return ""
            return _hash(program(), _settings(self._options), run.place.version)
        if state is None:
            return ""
        # Relative, so that all may be moved together
        root = self._folder.path.parent
        files = [(_relative(Path(path), root), *rest) for path, *rest in state]
        return _hash(program(), _settings(self._options), files)

    def _keep(self, run: Wanted, name: str) -> None:
        self._names.add(name)
        self.results.append(RunReport(run, self._folder.path / name, "kept"))

    def _add(self, run: Wanted, stamp: _Stamp, size: int) -> None:
        name = self._folder.name_of(stamp.run, run.name, self._names)
        self._names.add(name)
        self._builds.append(_Build(run, name, stamp, size))
        self._total += 1

    def build(self) -> None:
        """Build what was added: the small runs first, several at once."""
        # Logs may turn out to hold several runs, whose reports are added meanwhile.
        while self._builds:
            builds, self._builds = self._builds, []
            small = [one for one in builds if _is_small(one)]
            # A single one is built by all processes.
            at_once = small if len(small) > 1 else []
            others = [one for one in builds if one not in at_once]
            self._build_at_once(at_once)
            for one in others:
                with self._item(one):
                    result = self._build_alone(one)
                self._take(one, result)

    def _item(self, build: _Build) -> AbstractContextManager[None]:
        self._number += 1
        line = message(
            "building {number:count} of {total:count}: {name}",
            number=self._number,
            total=self._total,
            name=build.run.name,
        )
        return self._progress.item(line)

    def _build_at_once(self, builds: list[_Build]) -> None:
        """Build runs in processes, each by one: this costs less than to share each run's work.

        If a process is killed, the others are built by new ones.
        """
        while builds:
            waiting = deque(builds)
            try:
                self._build_in_processes(waiting)
                builds = []
            except WorkerKilledError as error:
                cause = waiting[0] if error.job is None else builds[error.job]
                self._take(cause, _Result(str(error)))
                builds = [one for one in waiting if one is not cause]

    def _build_in_processes(self, waiting: deque[_Build]) -> None:
        """Build runs, and take them off the queue one by one."""
        jobs = [self._job(one) for one in waiting]
        with Workers(self._options.workers) as workers:
            results = workers.map(_in_process, jobs, None, ahead=_AHEAD)
            while waiting:
                with self._item(waiting[0]):
                    result = next(results)
                self._take(waiting.popleft(), result)

    def _build_alone(self, build: _Build) -> _Result:
        job = self._job(build)
        with Workers(self._options.workers) as workers:
            if not isinstance(build.run.place, WandbRun):
                return _built(job, self._progress, workers)
            with tempfile.TemporaryDirectory(prefix="rlreport-wandb-") as temporary:
                try:
                    copy = copy_run(build.run.place.path, Path(temporary))
                except UnusableInputError as error:
                    return _Result(str(error))
                return _built(job._replace(logs=(copy,)), self._progress, workers)

    def _job(self, build: _Build) -> _Job:
        hides_names = self._options.public or self._options.redact_names
        options = replace(
            self._options,
            form="folder",  # whatever the name of the run ends in
            title=None if hides_names else _title_of(build.run),
            run=build.run.part,
            one_run=not build.run.part,
            built_from=_text_of(build.stamp),
        )
        return _Job(build.run.logs, self._folder.path / build.name, options)

    def _take(self, build: _Build, result: _Result) -> None:
        """Note what became of a run; if its logs have several, their reports are built next."""
        run = build.run
        if not result.runs or run.part:
            state: _ReportState = "failed" if result.problem else "built"
            path = self._folder.path / build.name
            self.results.append(RunReport(run, path, state, result.problem))
            return
        self._total -= 1
        self._number -= 1
        for part in result.runs:
            name = run.name if part == "." else safe_text(f"{run.name} {part}")
            stamp = build.stamp._replace(
                run=_hash(build.stamp.source, part), runs=len(result.runs)
            )
            self._add_part(run._replace(part=part, name=name), stamp, build.size)

    def _add_part(self, run: Wanted, stamp: _Stamp, size: int) -> None:
        """Add one of several runs in the same logs; it may be up to date when others are not."""
        for name, known in self._folder.stamps.items():
            if known == stamp and stamp.inputs and not self._rebuild:
                self._keep(run, name)
                return
        self._add(run, stamp, size)


class _Job(NamedTuple):
    logs: tuple[Path, ...]
    out: Path
    options: BuildOptions


def _in_process(job: _Job, shared: None) -> _Result:
    """Build a report in a process that was started for it, or in this one if none can be."""
    if multiprocessing.current_process().daemon:
        # So that an incomplete report is removed when the process is stopped
        handle(_stop)
    with Workers(1) as workers:
        return _built(job, Progress(), workers)


def _stop(number: int, frame: object) -> None:
    stop(Terminated(number))


def _built(job: _Job, progress: Progress, workers: Workers) -> _Result:
    """Build a report; return why there is none, if so, or which runs the logs have."""
    try:
        build_report(job.logs, job.out, _with_tracked_name(job), progress, workers)
    except SeveralRunsError as error:
        return _Result(str(error), error.runs or _runs_in(job.logs))
    except RlreportError as error:
        return _Result(str(error))
    except Exception as error:  # whatever a run makes fail, others are built
        kind = type(error).__name__
        # The text of an error may quote the logs.
        return _Result(kind if job.options.hides else f"{kind}: {error}")
    return _Result()


def _runs_in(logs: Sequence[Path]) -> tuple[str, ...]:
    """Return the names of the runs in logs that look like several."""
    try:
        metrics = find_and_read(logs)
        if not metrics.paths:
            metrics = find_and_read(logs, wide=True)
    except RlreportError:
        return ()
    return tuple(metrics.runs)


def _with_tracked_name(job: _Job) -> BuildOptions:
    """Return the options of a build, with the name that a tracker gave the run as title."""
    (first, *others) = job.logs
    if job.options.public or job.options.redact_names:
        return job.options
    is_tracked = (first / "meta.yaml").is_file() or any(first.glob("run-*.wandb"))
    if job.options.title or others or not is_tracked:
        return job.options
    names = {source.run for source in find_metrics(first)} - {"."}
    if len(names) != 1:
        return job.options
    return replace(job.options, title=names.pop())


def _title_of(run: Wanted) -> str | None:
    """Return the title of a run's report, None for the name of the folder or file."""
    if run.part and run.part != ".":
        return safe_text(run.part)
    if isinstance(run.place, WandbRun):
        return run.name
    # A build takes the name of the path that it reads, unless the path has none, such as ".".
    if run.logs == (run.place,) and run.place.name:
        return None
    return run.place.resolve().name


def _is_small(build: _Build) -> bool:
    return bool(build.run.logs) and build.size <= _LARGE


def _state_of(run: Wanted, path: Path) -> _State | None:
    """Return what differs when the files of a run, or those beside it, have changed."""
    state = state_of(run.logs)
    beside = configured(path.parent)
    settings = state_of(beside) if beside else []
    return None if state is None or settings is None else [*state, *settings]


def _source_of(run: Wanted, root: Path) -> str:
    """Return what identifies logs: a URL, or the path from the folder of the index.

    So it stays the same when logs, index and reports are moved together.
    """
    if isinstance(run.place, WandbRun):
        return _hash(str(run.place.path))
    return _hash(_relative(run.place, root))


def _relative(path: Path, root: Path) -> str:
    path = path.resolve()
    try:
        return Path(os.path.relpath(path, root)).as_posix()
    except ValueError:  # another drive
        return str(path)


def _settings(options: BuildOptions) -> list[object]:
    """Return the values of the options that change a report, and the state of files among them."""
    files = [*options.config]
    if options.thresholds:
        files.append(options.thresholds)
    values = {
        one.name: getattr(options, one.name)
        for one in declared(BuildOptions)
        if one.name not in _WITHOUT_EFFECT
    }
    return [values, options.set_by, state_of(files) if files else []]
