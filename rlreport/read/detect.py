"""Detect which files are rollout logs, their formats, and which of them to read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from rlreport.errors import RowError, UsageError
from rlreport.fields import REQUIRED
from rlreport.figures.metadata import split_named
from rlreport.options import ReadOptions
from rlreport.read.files import LINE_SUFFIXES, NATIVE, Listing, LogFormat, is_url, with_content
from rlreport.read.lines import DAMAGED, ByteRange, Lines, reason_of
from rlreport.read.remote import Source
from rlreport.read.rows import load_object
from rlreport.tables import Note
from rlreport.text.messages import message

MAX_PEEKED = 20
"""Number of objects at the start of a file used to detect its format."""

METRICS_FILE = "metrics_file"
"""Kind of the note on a file that is read as trainer metrics, not as a log."""

FORMAT = "format"
"""Kind of the note on how a format interpreted a file."""

OTHER_SPLIT = "other_split"
"""Kind of the note on files of a split that is not read."""

NOTES_FILE = "notes.md"
"""Name of the author's notes in a folder of logs."""

_HEAD = 256 << 10
"""Number of bytes at the start of a file used to detect its format."""

_MAX_PEEKED_FILES = 16
"""Of files in a folder whose names differ only in numbers, examine this many if these agree."""

_Peek = tuple[list[dict[str, Any]], str]
"""First objects of a file, and the reason if there are none or no more."""

_NUMBERS = re.compile(r"[0-9a-fA-F-]{8,}|\d+")


class _Detection(NamedTuple):
    """The detected format of a file, None if it is not a log.

    ``splits`` are the splits named by its first rows, if its path does not name one; ``damaged``
    is whether it is a Parquet file that cannot be read.
    """

    format: LogFormat | None
    reason: str
    remark: str = ""
    splits: frozenset[str] = frozenset()
    damaged: bool = False


@dataclass(slots=True)
class LogFiles:
    """Files to read with their formats, and notes on those that are not read."""

    sources: list[Source] = field(default_factory=list)
    formats: list[LogFormat] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def only(self, files: Sequence[int]) -> LogFiles:
        """Return some of the files, and all notes."""
        sources, formats = [self.sources[i] for i in files], [self.formats[i] for i in files]
        return LogFiles(sources, formats, self.notes)


def detect_formats(
    listing: Listing, options: ReadOptions, metrics: Iterable[Path] = ()
) -> LogFiles:
    """Find the format of every file and keep those of the splits that are read.

    Args:
        listing: the files found.
        options: the user's options.
        metrics: files that are read as trainer metrics.

    Raises:
        UsageError: the options have an unknown format, mapping or split.
    """
    found = LogFiles()
    plotted = {path.resolve() for path in metrics}
    row_splits: list[frozenset[str]] = []

    def leave_out(source: Source, kind: str, text: str) -> None:
        kind = METRICS_FILE if Path(source.path).resolve() in plotted else kind
        found.notes.append(Note(kind, text, 1, source.name))

    listed = frozenset(Path(source.path) for source in listing.sources if not is_url(source.path))
    detections = _detections(listing.sources, options, listed)
    for source, detection in zip(listing.sources, detections, strict=True):
        if detection.remark:
            found.notes.append(Note(FORMAT, detection.remark, 1, source.name))
        if detection.damaged:
            listing.unreadable.append((source.name, detection.reason))
        elif detection.format is None:
            leave_out(source, "not_a_log", message("not read: {why}", why=detection.reason))
        if detection.format is None:
            continue
        row_splits.append(detection.splits)
        found.sources.append(source)
        found.formats.append(detection.format)
    for source in (other for other in listing.other if other.name != NOTES_FILE):
        leave_out(source, "other_file", message("not read as a log because of its name"))
    return _without_repeats(_chosen_splits(found, row_splits, options.split))


def _without_repeats(files: LogFiles) -> LogFiles:
    """Drop files that repeat the previous one under a new step, which TRL writes."""
    from rlreport.formats.trl import TRL, repeated_files

    folders: dict[tuple[str, str], list[Source]] = {}
    for source, log_format in zip(files.sources, files.formats, strict=True):
        if log_format.id == TRL.id and log_format.container != "lines":
            folder = (source.name.rpartition("/")[0], log_format.container)
            folders.setdefault(folder, []).append(source)
    repeats: dict[str, str] = {}
    for (_, container), sources in folders.items():
        repeats |= repeated_files(_opened(sources), container)
    if not repeats:
        return files
    text = message(
        "rows of {file} repeated under a new step, as TRL does; left out",
        file=min(repeats.values()),
    )
    files.notes.append(Note("repeated_file", text, len(repeats), min(repeats)))
    return files.only([i for i, source in enumerate(files.sources) if source.name not in repeats])


def _opened(sources: Iterable[Source]) -> Iterator[tuple[str, IO[bytes]]]:
    for source in sources:
        with source.open() as stream:
            yield source.name, stream


def _chosen_splits(
    found: LogFiles, row_splits: list[frozenset[str]], wanted: str | None
) -> LogFiles:
    """Keep the files of the training split and of one split to watch, or only split ``wanted``.

    Files whose rows have split names (``row_splits``) are always kept, because any of their
    rows may belong to the chosen splits.
    """
    mixed = any(row_splits)
    by_path = ["" if own else f.split for own, f in zip(row_splits, found.formats, strict=True)]
    named = sorted({*by_path, *chain.from_iterable(row_splits)} - {""})
    if wanted is not None and wanted not in named and named and not mixed:
        raise UsageError(f"No log of split {wanted!r}; there are: {', '.join(named)}")
    main = wanted or ("train" if mixed or "train" in named or not named else named[0])
    others = [split for split in named if split != main]
    watched = None
    if wanted is None:
        watched = "val" if "val" in others or not others else others[0]
        watched = None if watched == main else watched
    for split in others:
        names = [s.name for s, own in zip(found.sources, by_path, strict=True) if own == split]
        if names and split != watched:
            text = message(
                "files of split {split} not read (--split {split} reads them)", split=split
            )
            found.notes.append(Note(OTHER_SPLIT, text, len(names), names[0]))
    found.formats = [replace(one, main=main, watched=watched) for one in found.formats]
    return found.only([i for i, own in enumerate(by_path) if own in ("", main, watched)])


def _detections(
    sources: Sequence[Source], options: ReadOptions, listed: frozenset[Path]
) -> list[_Detection]:
    """Detect the format of every file; of many similar files only a sample if these agree."""
    alike: dict[str, list[int]] = {}
    for number, source in enumerate(sources):
        # An empty file is not representative of other files.
        name = _NUMBERS.sub("#", source.name) if source.size else f"/{number}"
        alike.setdefault(name, []).append(number)
    found: dict[int, _Detection] = {}
    peeks: dict[int, _Peek] = {}

    def detect_from_start(numbers: list[int]) -> None:
        for n, peek in zip(numbers, _peeks([sources[n] for n in numbers], options), strict=True):
            peeks[n], found[n] = peek, _detected(sources[n], options, listed, peek)

    detect_from_start([n for numbers in alike.values() for n in _evenly_spaced(numbers)])
    disagreeing: list[int] = []
    for numbers in alike.values():
        some = _evenly_spaced(numbers)
        rest = [n for n in numbers if n not in found]
        kinds = {(d.format and d.format.id, d.reason, d.splits) for d in (found[n] for n in some)}
        if len(kinds) > 1:
            disagreeing += rest
        else:
            peek = peeks[some[-1]]
            found.update((n, _detected(sources[n], options, listed, peek)) for n in rest)
    detect_from_start(disagreeing)
    return [found[n] for n in range(len(sources))]


def _evenly_spaced(numbers: list[int]) -> list[int]:
    """Return at most _MAX_PEEKED_FILES evenly spaced numbers, including the first and the last."""
    last, most = len(numbers) - 1, min(len(numbers), _MAX_PEEKED_FILES)
    return [numbers[i * last // max(1, most - 1)] for i in range(most)]


def _container(source: Source) -> str:
    # Importing the formats loads a dozen modules, which ``--help`` does not need.
    from rlreport.formats.containers import container_of

    return container_of(source.name) or "lines"


def _peeks(sources: list[Source], options: ReadOptions) -> Iterator[_Peek]:
    for source, start in zip(sources, with_content(sources, _HEAD), strict=True):
        whole = start.size == source.size
        peek = (
            _peek(start, options.max_line) if whole or _container(source) == "lines" else ([], "")
        )
        # Opening a file in a store requests BLOCK bytes; a whole line is usually in the start.
        yield peek if whole or peek[0] else _peek(source, options.max_line)


def _detected(
    source: Source, options: ReadOptions, listed: frozenset[Path], peek: _Peek
) -> _Detection:
    from rlreport.formats import RowReader, beside, detect, refusal
    from rlreport.formats.base import split_of
    from rlreport.formats.ids import TokenNames

    container, (objects, problem) = _container(source), peek
    plain = not options.mapping and options.step_from_path is None
    if options.log_format in (None, NATIVE) and plain and container == "lines":
        # Rows with messages as text belong to another format.
        native = any(
            all(name in obj for name in REQUIRED)
            and not any(isinstance(obj[name], list) for name in ("prompt", "response"))
            for obj in objects
        )
        # If nothing in a log is readable, every line is reported.
        broken = not objects and source.name.lower().endswith(LINE_SUFFIXES)
        if options.log_format == NATIVE or native or broken:
            fields = ", ".join(f"`{name}`" for name in REQUIRED)
            why = f"has {fields}" if native else "as named"
            by_path = split_of(source.name)
            named = {split_named(o.get("split")) for o in objects}
            log_format = LogFormat(why=why, split=by_path or "train")
            return _Detection(log_format, "", splits=_row_splits(named, by_path))
    detected = detect(
        source.name,
        objects,
        log_format=options.log_format,
        mapping=options.mapping,
        step_from_path=options.step_from_path,
    )
    if detected is None:
        damaged = bool(problem) and container == "parquet"
        return _Detection(None, problem or refusal(source.name, objects), damaged=damaged)
    form, remark = detected.format, ""
    if not is_url(source.path):
        configured = beside(form, source.path, listed)
        if isinstance(configured, str):
            return _Detection(None, configured)
        form = configured
    elif not getattr(form, "alone", True):
        remark = message(
            "files beside the log are not read from a store; copy the folder to a disk"
        )
    reader = RowReader(form, TokenNames(options.tokenizer))
    by_path = form.split(source.name)
    named = reader.splits_of(objects, source.name)
    log_format = LogFormat(form.id, container, reader, detected.reason, by_path or "train")
    remark, splits = remark or getattr(form, "remark", ""), _row_splits(named, by_path)
    return _Detection(log_format, detected.reason, remark, splits)


def _row_splits(named: Iterable[str], by_path: str | None) -> frozenset[str]:
    """Return the splits of rows; none if all are of the split that the path names."""
    splits = frozenset(split or by_path or "" for split in named) - {""}
    return splits if splits - {by_path} else frozenset()


def _peek(source: Source, max_line: int) -> _Peek:
    from rlreport.formats.containers import iterate

    objects: list[dict[str, Any]] = []
    if _container(source) == "lines":
        # A file of broken lines is not read to its end here.
        for line in Lines(ByteRange(0, source, 0, min(_HEAD, source.size)), max_line):
            with suppress(RowError, RecursionError):
                objects.append(load_object(line.data or b"")[0])
            if len(objects) >= MAX_PEEKED:
                break
        return objects, ""
    try:
        with source.open() as stream:
            objects += (obj for _, obj in islice(iterate(stream, _container(source)), MAX_PEEKED))
    except (RowError, *DAMAGED) as error:
        return objects, reason_of(error)
    return objects, ""
