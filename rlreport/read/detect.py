"""Detect which files are rollout logs, their formats, and which of them to read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from rlreport.about.several_runs import RANK
from rlreport.errors import RowError, UnreadRow, UsageError
from rlreport.fields import UnreadFields, add_unread_field
from rlreport.formats.containers import container_of, read_objects, zip_members
from rlreport.formats.logged import STEP_WORD, step_in_path
from rlreport.formats.mapping import no_step_column, step_field
from rlreport.formats.metric_rows import STEP_KEYS, TEXT_KEYS
from rlreport.formats.registry import Detected, RowReader, detect, refusal
from rlreport.formats.renamed import RLBoard
from rlreport.formats.token_names import TokenNames
from rlreport.options import SETTINGS_FILE, ReadOptions
from rlreport.read.field_list import columns_of
from rlreport.read.lines import (
    DAMAGED,
    ByteRange,
    Lines,
    LogFormat,
    reason_of,
    with_content,
)
from rlreport.read.listing import COMPRESSIONS, LINE_SUFFIXES, Listing, is_url
from rlreport.read.record import load_object
from rlreport.read.remarks import on_files_not_read, one_per_cause
from rlreport.read.trl_folders import Trainer, TRLFiles, trl_files
from rlreport.system.magic import binary_kind_of
from rlreport.system.stores import Source
from rlreport.tables import Note, NoteKind
from rlreport.text.messages import message

MAX_PEEKED = 20  # Number of objects at the start of a file used to detect its format

# Suffixes of consoles, which are read where they have rows of metrics
_CONSOLES = (".log", ".txt", ".out")

# Name of the file with the author's notes in a folder of logs; it is not a log
NOTES_FILE = "notes.md"

_HEAD = 256 << 10  # Number of bytes at the start of a file used to detect its format
# Of files whose names differ only in numbers, examine this many; all if their formats differ
_MAX_PEEKED_FILES = 16

# First objects of a file, and the error that ended reading ("" without an error)
_Peek = tuple[list[dict[str, Any]], str]

# Other formats may number files by task or part
_NUMBERED_BY_STEP = (RLBoard.id, "plain", "verl")
_NUMBERS = re.compile(r"[0-9a-fA-F-]{8,}|\d+")
# Matches numbers in paths that are not steps, but of ranks, runs, versions, …
_NO_STEPS = re.compile(
    "[-_.]?(?<![a-z])"
    + RANK.replace(
        "{more}",
        "|run|seed|exp(?:eriment)?|trial|attempt|fold|ep(?:och)?|task|agent|v|tp|pp|env|job|slurm"
        "|pid|id|group|sample|example|prompt|question|problem|episode|traj(?:ectory)?",
    )
    + r"(?:[-_]of[-_]\d+)?|[-_.]?(?<!\d)\d+[-_]of[-_]\d+",
    re.IGNORECASE,
)

# Matches file names that end in a number, unless it is a date, an exponent or part of a word such
# as ``aime24``; groups: text before the number, number, suffixes
_LAST_NUMBER = re.compile(
    r"(|.*[^a-z\d](?<!\d[-_.:])(?<!\de-))(\d{1,7})((?:\.[a-z]\w*)+)", re.IGNORECASE
)


class _Detection(NamedTuple):
    format: LogFormat | None  # the format, None if the file is not a log
    reason: str  # why the file has this format, or why it is not a log
    # text of a note on how the format interprets the file; "" for none
    remark: str = ""
    # of the first rows; empty if they agree with the path
    splits: frozenset[str] = frozenset()
    damaged: bool = False  # whether it is a Parquet file that cannot be read
    stepless: bool = False  # whether any of the first rows has no step
    # field that may have the step, if the first rows have none
    step_field: str = ""
    # fields of the first objects that are not recognized
    unread: UnreadFields | None = None


@dataclass(slots=True)
class LogFiles:
    """The logs to read, with a format for each, and what is to be said about other files."""

    sources: list[Source] = field(default_factory=list)
    formats: list[LogFormat] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    # fields of the first objects of files that their formats do not recognize
    unread: UnreadFields = field(default_factory=dict)
    # field of rows without a step that may have it, "" without any
    step_field: str = ""
    # a path, if the paths of files differ in a number, which may be the step
    numbered: str = ""
    # what the trainer's log says of TRL's files
    trl: TRLFiles = field(default_factory=TRLFiles)

    def add(
        self, source: Source, log_format: LogFormat, unread: UnreadFields | None
    ) -> None:
        self.sources.append(source)
        self.formats.append(log_format)
        for name, kind in (unread or {}).items():
            add_unread_field(self.unread, name, kind)

    def only(self, files: Sequence[int]) -> LogFiles:
        """Return the same with only the logs at these indices."""
        sources = [self.sources[i] for i in files]
        formats = [self.formats[i] for i in files]
        return replace(self, sources=sources, formats=formats)


def detect_formats(
    listing: Listing,
    options: ReadOptions,
    used: Iterable[Path] = (),
    trainer: Trainer | None = None,
) -> LogFiles:
    """Return the logs to read with their formats, and notes on other files.

    There are none on those in ``used``, nor on the trainer's.
    """
    trainer = trainer or Trainer()
    paths = [source.path for source in listing.sources]
    listed = frozenset(Path(path) for path in paths if not is_url(path))
    detections = _detections(listing.sources, options, listed)
    others = _OtherFiles([*used, *trainer.files], detections)
    files = LogFiles()
    row_splits: list[frozenset[str]] = []  # of each log, see ``_Detection.splits``
    stepless: set[str] = set()  # names of logs with rows without a step
    not_logs: list[Note] = []
    for source, detection in zip(listing.sources, detections, strict=True):
        if detection.remark:
            files.notes.append(Note(NoteKind.FORMAT, detection.remark, 1, source.name))
        if detection.format is not None:
            files.add(source, detection.format, detection.unread)
            row_splits.append(detection.splits)
            files.step_field = files.step_field or detection.step_field
            if detection.stepless:
                stepless.add(source.name)
        elif detection.damaged:
            listing.unreadable.append((source.name, detection.reason))
        else:
            text = message("not read: {why}", why=detection.reason)
            not_logs += others.notes_on(source, NoteKind.NOT_A_LOG, text)
    files.notes = one_per_cause(files.notes) + on_files_not_read(not_logs)
    of_others: list[Note] = []
    for source in listing.other:
        if source.name not in (NOTES_FILE, SETTINGS_FILE):
            text = _why_other(source)
            of_others += others.notes_on(source, NoteKind.OTHER_FILE, text)
    files.notes += one_per_cause(of_others)
    if listing.reports:
        text = message("left out: reports written by rlreport")
        count = len(listing.reports)
        files.notes.append(Note(NoteKind.REPORTS, text, count, listing.reports[0]))
    # Only now, as the siblings among the other files have been met
    files.notes += others.notes_on_siblings()
    # Before the choice of splits, as a file may turn out to be of an evaluation
    files.trl = trl_files(files.sources, files.formats, trainer)
    files.notes += files.trl.notes
    kept: list[int] = []
    for i, source in enumerate(files.sources):
        of_trl = files.trl.formats.get(source.name)
        files.formats[i] = of_trl or files.formats[i]
        if source.name not in files.trl.left_out:
            kept.append(i)
    read = files.only(kept)
    chosen = _chosen_splits(read, [row_splits[i] for i in kept], options.split)
    # Last, so that only files that are read decide which number in the paths is a step
    return _with_path_steps(chosen, stepless)


class _OtherFiles:
    """Files that are no logs. Those with another purpose need no note of their own."""

    def __init__(self, used: Iterable[Path], detections: Iterable[_Detection]) -> None:
        """``used``: files and folders with another purpose, such as trainer metrics."""
        self._used = {path.resolve() for path in used}
        # Files that a format reads together with a log next to them
        self._siblings: set[Path] = set()
        self._names_of_siblings: list[str] = []
        for reader in {one.format.reader for one in detections if one.format}:
            for sibling in reader.format.siblings:
                self._siblings.add(Path(sibling.path).resolve())

    def notes_on(self, source: Source, kind: NoteKind, text: str) -> list[Note]:
        """Return a note on a file, none if the file, or a folder of it, has another purpose."""
        path = Path(source.path).resolve()
        if not self._used.isdisjoint((path, *path.parents)):
            return []
        if path in self._siblings:
            self._names_of_siblings.append(source.name)
            return []
        return [Note(kind, text, 1, source.name)]

    def notes_on_siblings(self) -> list[Note]:
        """Return one note on all siblings met so far."""
        names = self._names_of_siblings
        if not names:
            return []
        text = message("read together with the rollouts")
        return [Note(NoteKind.SIBLING, text, len(names), min(names))]


def _binary_kind(source: Source) -> str:
    """Return what a local file is if it is binary, else ""."""
    return "" if is_url(source.path) else binary_kind_of(Path(source.path))


def _why_other(source: Source) -> str:
    """Return why a file in a folder of logs is not read."""
    name = source.name.lower()
    kind = _binary_kind(source)
    # Logs may be compressed, too.
    if kind and not name.endswith(tuple(COMPRESSIONS)):
        return message("not read: {kind}, not a log", kind=kind)
    if ".csv" in PurePosixPath(name).suffixes[-2:]:
        columns = [] if is_url(source.path) else columns_of(source)
        is_without_texts = TEXT_KEYS.isdisjoint(columns)
        is_without_steps = set(STEP_KEYS).isdisjoint(columns)
        if columns and is_without_texts and is_without_steps:
            return message(
                "CSV is read as trainer metrics only; {why}",
                why=no_step_column(columns),
            )
        return message(
            "CSV is read as trainer metrics only, which need a column named step and rows of "
            "numbers"
        )
    if PurePosixPath(name).suffix in _CONSOLES:
        return message(
            "a console or text without rows of metrics of a known trainer; give its own path to "
            "see what was looked for"
        )
    return message("not named like a log, so not read; to read it, give its own path")


def _with_path_steps(files: LogFiles, stepless: Collection[str]) -> LogFiles:
    """Give each format the steps in paths of its file, and of files in it if it is an archive.

    ``stepless`` are the names of files with rows without a step: only these need one.
    """
    # Name of a file without steps -> paths of the files in it, if it is an archive
    members: dict[str, list[str]] = {}
    for source, log_format in zip(files.sources, files.formats, strict=True):
        if source.name in stepless:
            is_archive = log_format.container == "zip"
            members[source.name] = zip_members(source) if is_archive else []
    by_path = path_steps([*members, *chain.from_iterable(members.values())])
    # Rows of an archive may be in any of its files, of which the archive's path may have the step.
    steps: dict[str, int | None] = {}
    for name, inside in members.items():
        for path in inside or [name]:
            steps[path] = by_path.get(path, by_path.get(name))
    files.notes += _notes_on_path_steps(steps)
    files.numbered = _numbered_path(files, steps)
    for i, source in enumerate(files.sources):
        own_paths = [source.name, *members.get(source.name, ())]
        own_steps = {path: by_path[path] for path in own_paths if path in by_path}
        files.formats[i] = replace(files.formats[i], steps=own_steps)
    return files


def _notes_on_path_steps(steps: Mapping[str, int | None]) -> list[Note]:
    """Return a note if any of the files without steps has one in its path, by ``steps``."""
    named = [path for path, step in steps.items() if step is not None]
    if not named:
        return []
    first = min(named)
    text = message(
        "files with rows without a step; the step in their paths is used, such as step {step}",
        step=steps[first],
    )
    return [Note(NoteKind.PATH_STEP, text, len(named), first)]


def _numbered_path(files: LogFiles, stepless: Iterable[str]) -> str:
    """Return a path if those that may have the step differ in a number, else "".

    These are the paths in ``stepless``, and those of formats that number files by step.
    """
    paths = set(stepless)
    for source, log_format in zip(files.sources, files.formats, strict=True):
        if log_format.id in _NUMBERED_BY_STEP:
            paths.add(source.name)
    plain = {_NO_STEPS.sub("", path) for path in paths}
    patterns = {re.sub(r"\d+", "#", path) for path in plain}
    # Several paths have the same pattern: they differ in a number only.
    return min(paths) if len(plain) > len(patterns) else ""


def path_steps(names: Sequence[str]) -> dict[str, int]:
    """Return path -> step of the files with a step in their paths.

    The step is the number after a word such as ``step``, else the number at the end of the file's
    name, if there are files whose names differ only in that number.
    """
    steps: dict[str, int] = {}
    # (Text before the last number, suffixes) -> path -> the number
    series: dict[tuple[str, str], dict[str, int]] = {}
    for name in names:
        step = step_in_path(name, STEP_WORD)
        if step is not None:
            steps[name] = step
            continue
        match = _LAST_NUMBER.fullmatch(_NO_STEPS.sub("", name))
        if match:
            series.setdefault((match[1], match[3]), {})[name] = int(match[2])
    for numbers in series.values():
        if len(set(numbers.values())) > 1:
            steps |= numbers
    return steps


def _chosen_splits(
    files: LogFiles, row_splits: Sequence[frozenset[str]], chosen: str | None
) -> LogFiles:
    """Return the files of the splits that are read, with notes on others.

    ``row_splits`` has the splits that the rows of each file name; ``chosen`` is the user's choice.
    One split is the main one, whose rows are checked; a second one is watched, only shown.
    """
    rows_name_splits = any(row_splits)
    # "": the rows of the file decide
    split_of_file = [
        "" if splits else log_format.split
        for splits, log_format in zip(row_splits, files.formats, strict=True)
    ]
    names = sorted({*split_of_file, *chain.from_iterable(row_splits)} - {""})
    # Later rows of a file may be of a split that its first rows do not name.
    if chosen is not None and names and chosen not in names and not rows_name_splits:
        raise UsageError(
            f"--split: no log of split {chosen!r}; found: {', '.join(names)}"
        )
    # Without a choice the main split is ``train``, unless all files are of other splits.
    if chosen:
        main = chosen
    elif rows_name_splits or "train" in names or not names:
        main = "train"
    else:
        main = names[0]
    others = [split for split in names if split != main]
    # Who chose a split wants to see that one only.
    watched = _watched_split(main, others) if chosen is None else None
    for split in others:
        indices = [i for i, of_file in enumerate(split_of_file) if of_file == split]
        if indices and split != watched:
            text = message(
                "files of split {split} not read (--split {split} reads them)",
                split=split,
            )
            first = files.sources[indices[0]].name
            files.notes.append(Note(NoteKind.OTHER_SPLIT, text, len(indices), first))
    files.formats = [replace(one, main=main, watched=watched) for one in files.formats]
    is_read = ("", main, watched)
    return files.only([i for i, split in enumerate(split_of_file) if split in is_read])


def _watched_split(main: str, others: Sequence[str]) -> str | None:
    """Return the split to show besides ``main``: ``val`` if possible.

    Without ``others``, later rows of a file may still be of ``val``.
    """
    watched = "val"
    if others and watched not in others:
        watched = others[0]
    return None if watched == main else watched


def _detections(
    sources: Sequence[Source], options: ReadOptions, listed: frozenset[Path]
) -> list[_Detection]:
    """Detect the format of each file, from a few of the files whose names differ in numbers."""
    by_pattern: dict[str, list[int]] = {}
    for number, source in enumerate(sources):
        # An empty file is not representative of other files.
        name = _NUMBERS.sub("#", source.name) if source.size else f"/{number}"
        by_pattern.setdefault(name, []).append(number)
    detections: dict[int, _Detection] = {}
    peeks: dict[int, _Peek] = {}

    def detect_from_start(numbers: list[int]) -> None:
        """Detect the formats of files by their own first objects."""
        starts = _peeks([sources[number] for number in numbers])
        for number, peek in zip(numbers, starts, strict=True):
            peeks[number] = peek
            detections[number] = _detect(sources[number], options, listed, peek)

    samples = [_evenly_spaced(numbers) for numbers in by_pattern.values()]
    # At once, as each request to a store is slow
    detect_from_start(list(chain.from_iterable(samples)))
    disagreeing: list[
        int
    ] = []  # files like which some of the sample have another format
    for numbers, sample in zip(by_pattern.values(), samples, strict=True):
        rest = [number for number in numbers if number not in detections]
        kinds = {_kind_of(detections[number]) for number in sample}
        if len(kinds) > 1:
            disagreeing += rest
            continue
        # All have one format: the objects of one file stand for those of the rest.
        peek = peeks[sample[-1]]
        for number in rest:
            detections[number] = _detect(sources[number], options, listed, peek)
    detect_from_start(disagreeing)
    return [detections[number] for number in range(len(sources))]


def _kind_of(detection: _Detection) -> tuple[str | None, str, frozenset[str]]:
    """Return what files of one kind have in common."""
    identity = detection.format.id if detection.format else None
    return identity, detection.reason, detection.splits


def _evenly_spaced(numbers: list[int]) -> list[int]:
    """Return up to _MAX_PEEKED_FILES of the numbers, with the first and the last one.

    They are evenly spaced, as a run may change what it logs midway.
    """
    last = len(numbers) - 1
    count = min(len(numbers), _MAX_PEEKED_FILES)
    return [numbers[i * last // max(1, count - 1)] for i in range(count)]


def _container(source: Source) -> str:
    return container_of(source.name) or "lines"


def _peeks(sources: list[Source]) -> Iterator[_Peek]:
    """Yield the first objects of each file; the starts of remote files are fetched at once."""
    for source, start in zip(sources, with_content(sources, _HEAD), strict=True):
        # The start of a remote file with lines is enough; other files are read as a whole.
        is_whole = start.size == source.size
        peek: _Peek = ([], "")
        if is_whole or _container(source) == "lines":
            peek = _peek(start)
        if not is_whole and not peek[0]:
            # Only now, as opening a file in a store fetches a large block of it
            peek = _peek(source)
        yield peek


def _detect(
    source: Source, options: ReadOptions, listed: frozenset[Path], peek: _Peek
) -> _Detection:
    """Detect the format of a file by its name and ``peek``, its first objects.

    ``listed`` are the paths of all local files, of which some may be read together with this one.
    """
    container = _container(source)
    objects, problem = peek
    detected = detect(
        source.name,
        objects,
        log_format=options.log_format,
        mapping=options.mapping,
        step_from_path=options.step_from_path,
    )
    if not objects and source.name.lower().endswith(LINE_SUFFIXES):
        # A file with the name of a log but no readable line is a log, to report its lines.
        detected = detected or Detected(RLBoard(), "as named")
    if detected is None:
        # Any Parquet file with the name of a log may be one, so a damaged one is an error.
        is_damaged = bool(problem) and container == "parquet"
        kind = "" if objects or is_damaged else _binary_kind(source)
        why = problem or refusal(source.name, objects)
        if not source.size:
            why = message("the file is empty")
        # A database is named by the reason why it is not read.
        if kind and container == "lines" and not source.compression:
            why = message("{kind}, not a log", kind=kind)
        return _Detection(format=None, reason=why, damaged=is_damaged)
    form = detected.format
    remark = ""
    if not is_url(source.path):
        configured = form.with_siblings(Path(source.path), listed)
        if isinstance(configured, str):  # why it is not read
            return _Detection(format=None, reason=configured)
        form = configured
    elif not form.alone:
        remark = message(
            "this format needs other files next to the log, which are not read from URLs; copy the "
            "folder to a local disk"
        )
    reader = RowReader(form, TokenNames(options.tokenizer))
    by_path = form.split(source.name)
    preview = reader.preview(objects, source.name)
    log_format = LogFormat(
        id=form.id,
        container=container,
        reader=reader,
        why=detected.reason,
        split=by_path or "train",
    )
    # Rows that name no split are of the path's.
    splits = frozenset(split or by_path or "" for split in preview.splits) - {""}
    return _Detection(
        format=log_format,
        reason=detected.reason,
        remark=remark or form.remark,
        splits=splits if splits - {by_path} else frozenset(),
        stepless=preview.stepless,
        step_field=step_field(objects) if preview.stepless else "",
        unread=preview.unread,
    )


def _peek(source: Source) -> _Peek:
    """Return the first objects of a file, up to MAX_PEEKED, and why it cannot be read further."""
    objects: list[dict[str, Any]] = []
    if _container(source) == "lines":
        # Limit the range, so that a file of broken lines is not read to its end.
        for line in Lines(ByteRange(0, source, 0, min(_HEAD, source.size))):
            with suppress(RowError, RecursionError):
                objects.append(load_object(line.data or b"")[0])
            if len(objects) >= MAX_PEEKED:
                break
        return objects, ""
    try:
        with source.open() as stream:
            first = islice(read_objects(stream, _container(source)), MAX_PEEKED)
            objects += (obj for obj in first if not isinstance(obj, UnreadRow))
    except (RowError, *DAMAGED) as error:
        return objects, reason_of(error)
    return objects, ""
