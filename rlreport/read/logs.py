"""Read logs: list the files, read them in parallel, and combine them into tables."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from rlreport.errors import UnusableInputError, UsageError
from rlreport.figures.ragged import Ints
from rlreport.figures.tokens import correctness
from rlreport.options import GaeOptions, ReadOptions
from rlreport.read.absent import absent_notes
from rlreport.read.changed import Change, change_notes, first_changes, incomplete_from
from rlreport.read.choice import choose_rows
from rlreport.read.chunk import Chunk, RangeSettings
from rlreport.read.detect import LogFiles, detect_formats
from rlreport.read.grades import dropped_rows, missing_grade_notes
from rlreport.read.kept_rows import LogRows, log_rows
from rlreport.read.limits import LIMITS, ReadLimits
from rlreport.read.lines import ByteRange, byte_ranges, grouped_ranges
from rlreport.read.listing import Listing, find_sources, is_url, of_run
from rlreport.read.ranges import read_cached, read_chunk
from rlreport.read.remarks import ODDITIES, LogPosition
from rlreport.read.rollouts import RowIds
from rlreport.read.sample import with_sample
from rlreport.read.spool import PartFolder, RolloutSpool, part_folder
from rlreport.read.tables import (
    Scan,
    carried_fields,
    extras_table,
    lines_before,
    no_responses,
    response_table,
    tool_table,
    tools_used,
)
from rlreport.system.cache import Store, store_at
from rlreport.system.stores import Source, shown
from rlreport.system.workers import Progress, Workers
from rlreport.tables import HARMLESS, BadLine, LogFile, Note, NoteKind, RowRole
from rlreport.text.clean import safe_text
from rlreport.text.messages import message, translatable

# Of logs that one process reads, to decide whether to use several
_BYTES_PER_SECOND = 50e6


# Kinds of notes that say why rows are in no table
_OMISSIONS = (
    NoteKind.UNTRAINED,
    NoteKind.FILTERED_OUT,
    NoteKind.FAILED,
    NoteKind.OTHER_SPLIT_ROWS,
)
_MAX_SHOWN = 20
_END = 2**62  # beyond the end of any file
_MAX_NAMED = 3


def read_logs(  # noqa: PLR0917
    paths: Sequence[str | Path],
    options: ReadOptions | None = None,
    gae: GaeOptions | None = None,
    progress: Progress | None = None,
    metrics: Iterable[Path] = (),
    workers: Workers | None = None,
    used: Iterable[Path] = (),
    limits: ReadLimits | None = None,
) -> Scan:
    """Read logs from files, folders, globs and URLs into tables.

    ``metrics`` and ``used`` are files with another purpose: no note says that they are not logs.

    Raises:
        UnusableInputError: no response can be read (unless there are ``metrics`` and no logs), or
            ``options.strict`` is set and anything was skipped or repaired.
        UsageError: a path does not exist, or an option does not fit the logs.
    """
    options = options or ReadOptions()
    gae = gae or GaeOptions()
    progress = progress or Progress()
    limits = limits or LIMITS
    if workers is None:
        with Workers(options.workers, options.ray) as started:
            return read_logs(
                paths, options, gae, progress, metrics, started, used, limits
            )
    if options.ray is not None:
        options = _with_absolute_tokenizer(options)
    listing = _listing(paths, options)
    files = detect_formats(listing, options, [*metrics, *used])
    if not files.sources and not metrics:
        files.notes[:0] = absent_notes(paths)
    spool = RolloutSpool()
    chunks = read_chunks(
        byte_ranges(files.sources, files.formats, range_bytes=limits.range_bytes),
        options,
        gae,
        limits=limits,
        progress=progress,
        workers=workers,
        spool=spool,
    )
    name = safe_text(_name(paths))
    scan, order = _scan(
        name, chunks, listing, files, options, with_metrics=bool(metrics)
    )
    if scan.responses.empty:
        return scan
    names = [source.name for source in files.sources]
    choice = choose_rows(scan.responses, names, limits)
    scan.responses.loc[choice.rows, "has_texts"] = 1
    ids = _ids_of(scan.responses, choice.rows, names)
    scan.rollouts = spool.rollouts(ids, order[choice.rows])
    return with_sample(scan, choice.rows[choice.sample], options, workers, limits)


def _listing(paths: Sequence[str | Path], options: ReadOptions) -> Listing:
    listing = find_sources(paths)
    if options.run:
        listing = of_run(listing, options.run)
    if options.ray is not None:
        listing.sources = [_with_absolute_path(source) for source in listing.sources]
    return listing


# Relative paths mean something else on other nodes of a cluster.


def _with_absolute_path(source: Source) -> Source:
    if source.store:
        return source
    return replace(source, path=str(Path(source.path).absolute()))


def _with_absolute_tokenizer(options: ReadOptions) -> ReadOptions:
    if not options.tokenizer:
        return options
    return replace(options, tokenizer=str(Path(options.tokenizer).absolute()))


def _ids_of(responses: pd.DataFrame, rows: Ints, file_names: list[str]) -> RowIds:
    table = responses.iloc[rows]
    return RowIds(
        row=rows,
        step=table["step"].to_numpy(np.int64),
        n=table["n"].to_numpy(np.int64),
        file=table["file"].to_numpy(np.int64),
        line=table["line"].to_numpy(np.int64),
        names=file_names,
    )


def read_chunks(
    ranges: Sequence[ByteRange],
    options: ReadOptions,
    gae: GaeOptions,
    *,
    limits: ReadLimits,
    progress: Progress,
    workers: Workers,
    spool: RolloutSpool,
) -> list[Chunk]:
    """Return a chunk per group of byte ranges; move their texts and tokens to ``spool``."""
    groups = grouped_ranges(ranges, limits.range_bytes)
    store = store_at(options.cache) if options.cache else None
    size = sum(part.weight for part in ranges)
    chunks: list[Chunk] = []
    with (
        _folder_for_parts(options) as folder,
        progress.phase(message("reading"), size, "B") as advance,
    ):
        shared = RangeSettings(options, gae, folder, limits), store
        seconds = size / _BYTES_PER_SECOND
        # Closed before the folder is removed, so that no worker writes to it any more
        with closing(workers.map(_read, groups, shared, seconds=seconds)) as results:
            for group, chunk in zip(groups, results, strict=True):
                spool.take(chunk.parts)
                chunk.parts = []
                chunks.append(chunk)
                advance(sum(part.weight for part in group))
    if store:
        store.trim()
    return chunks


def _folder_for_parts(options: ReadOptions) -> AbstractContextManager[PartFolder]:
    if options.ray is None:
        return part_folder()
    # Nodes of a cluster may share no folder with this machine: their parts come back in memory.
    return nullcontext(PartFolder())


def _read(
    group: Sequence[ByteRange],
    shared: tuple[RangeSettings, Store | None],
) -> Chunk:
    settings, store = shared
    if settings.options.ray is not None:
        _check_files_of_node(group)
    if store is None:
        chunk = read_chunk(group, settings)
    else:
        chunk = read_cached(group, settings, store)
    # Only now, as a table in the cache can be that of another build.
    chunk.changes = _changes(group, chunk)
    return chunk


def _changes(group: Sequence[ByteRange], chunk: Chunk) -> list[Change]:
    changes = []
    for part, counts in zip(group, chunk.counts, strict=True):
        # A file that is read as a whole, and without an error, was read before it changed.
        whole = part.stop is None and not counts.unread
        how = "" if whole else part.source.change(part.stop)
        if how:
            changes.append(
                Change(part.file, _END if part.stop is None else part.stop, how)
            )
    return changes


def _check_files_of_node(group: Sequence[ByteRange]) -> None:
    for source in {part.source for part in group if not part.source.store}:
        with suppress(OSError):
            if Path(source.path).stat().st_size >= source.size:
                continue
        raise UsageError(
            f"--ray: node {platform.node()} has no {source.path}, or a shorter one; logs must be "
            "in object storage or on a disk that all nodes share"
        )


def _scan(
    name: str,
    chunks: list[Chunk],
    listing: Listing,
    files: LogFiles,
    options: ReadOptions,
    *,
    with_metrics: bool = False,
) -> tuple[Scan, Ints]:
    if with_metrics and not files.sources:
        return no_responses(name, files.notes), np.zeros(0, np.int64)
    rows = log_rows(chunks, files, keep_restarted=options.restarts != "last")
    names = [source.name for source in files.sources]
    changes = first_changes(rows.chunk.changes)
    bad_lines = _bad_lines(rows, listing, files)
    bad_count = rows.chunk.remarks.unread_count + len(listing.unreadable)
    # Where a log was cut, its last line is torn, which says less than the note on the change.
    changed = {names[file] for file in changes}
    explained = [line for line in bad_lines if line.torn and line.file in changed]
    bad_lines = [line for line in bad_lines if line not in explained]
    bad_count -= len(explained)
    extras, carried_extras = extras_table(rows)
    notes = [*change_notes(changes, names), *_notes(rows, files, options)]
    if not len(rows.order):
        raise UnusableInputError(_no_data_message(files, bad_lines, bad_count, notes))
    problems = [note for note in notes if note.kind not in HARMLESS]
    if options.strict and (bad_lines or problems):
        raise UnusableInputError(_strict_message(bad_lines, bad_count, problems))
    tools = tool_table(rows)
    fields = carried_fields(rows)
    first_incomplete = incomplete_from(changes, rows.chunk.columns)
    chunks.clear()
    responses = response_table(rows)
    reward_parts = sorted(rows.chunk.reward_parts & set(extras.columns))
    _complete(responses, extras, reward_parts, files)
    notes += missing_grade_notes(responses["missing_grade"].to_numpy())
    if responses["validation"].any():
        extras = _with_split(responses, extras, files, notes)
    scan = Scan(
        name=name,
        files=_log_files(rows, files, responses),
        responses=responses,
        extras=extras,
        reward_parts=reward_parts,
        bad_lines=bad_lines,
        bad_count=bad_count,
        notes=notes,
        fields=dict(sorted(fields.items())) | carried_extras,
        failed=rows.failed,
        filtered=rows.filtered,
        repeated=rows.repeated,
        tools=tools,
        tools_used=tools_used(rows, tools),
        incomplete_from=first_incomplete,
    )
    return scan, rows.order


def _complete(
    responses: pd.DataFrame,
    extras: pd.DataFrame,
    reward_parts: list[str],
    files: LogFiles,
) -> None:
    """Complete columns of ``responses`` from ``extras``; set parts of invalid rewards to NaN."""
    unrewarded = [
        i for i, one in enumerate(files.formats) if not one.reader.format.rewarded
    ]
    # A reward missing from a format that never logs rewards is not counted as a NaN value.
    without = responses["file"].isin(unrewarded) & responses["reward"].isna()
    responses.loc[without, "nan_values"] -= 1
    responses["dropped"] = dropped_rows(responses["missing_grade"].to_numpy(), extras)
    if "advantage" in extras.select_dtypes("number"):  # logged without tokens
        for column in ("advantage_logged_mean", "advantage_mean"):
            responses[column] = responses[column].fillna(extras["advantage"])
    missing = responses["missing_grade"] > 0
    if missing.any():
        extras[reward_parts] = extras[reward_parts].mask(missing)
    responses["correct"] = correctness(extras, responses["reward"].to_numpy())


def _with_split(
    responses: pd.DataFrame, extras: pd.DataFrame, files: LogFiles, notes: list[Note]
) -> pd.DataFrame:
    split = responses["validation"].to_numpy()
    main = files.formats[0].main
    watched = files.formats[0].watched or ""
    in_validation = split == RowRole.VALIDATION
    if in_validation.any():
        text = message(
            "responses of split {watched} are shown, but only those of {main} are judged",
            watched=watched,
            main=main,
        )
        notes.append(Note(NoteKind.SPLIT, text, int(in_validation.sum())))
    return extras.assign(split=np.array([main, watched, "branch"], object)[split])


def _name(paths: Sequence[str | Path]) -> str:
    first = str(paths[0])
    if is_url(first):
        return shown(first).rstrip("/").rpartition("/")[2]
    path = Path(first)
    if path.is_dir():
        return path.resolve().name
    return (
        path.name.partition(".")[0]
        if path.is_file() and len(paths) == 1
        else path.parent.name
    )


def _file_lines(
    rows: LogRows, files: LogFiles, positions: Sequence[LogPosition]
) -> list[tuple[str, int]]:
    if not positions:
        return []
    table = pd.DataFrame(positions, columns=LogPosition._fields).astype(np.int64)
    before = lines_before(
        rows.chunk.counts, table["file"].to_numpy(), table["offset"].to_numpy()
    )
    lines = (table["line"].to_numpy() + before).tolist()
    return [
        (files.sources[at.file].name, line)
        for at, line in zip(positions, lines, strict=True)
    ]


def _bad_lines(rows: LogRows, listing: Listing, files: LogFiles) -> list[BadLine]:
    unread = rows.chunk.remarks.unread
    places = _file_lines(rows, files, [line.position for line in unread])
    unreadable = [BadLine(name, 0, reason) for name, reason in listing.unreadable]
    return unreadable + [
        BadLine(*place, line.reason, line.torn)
        for place, line in zip(places, unread, strict=True)
    ]


def _notes(rows: LogRows, files: LogFiles, options: ReadOptions) -> list[Note]:
    oddities = sorted(rows.chunk.remarks.oddities.items())
    places = _file_lines(rows, files, [oddity.first for _, oddity in oddities])
    notes = [
        Note(kind, message(ODDITIES[kind]), oddity.times, *place)
        for (kind, oddity), place in zip(oddities, places, strict=True)
    ]
    for i, note in enumerate(notes):
        if note.kind == NoteKind.NO_STEP and note.count < rows.chunk.rows:
            text = translatable(
                "{count:count} rows without a step, the first in {file}, are read as step 0, "
                "although other rows have a step"
            )
            notes[i] = Note(
                NoteKind.FORMAT, message(text, count=note.count, file=note.file), 1
            )
    if files.unread:
        names = ", ".join(
            f"{name} ({kind})" for name, kind in sorted(files.unread.items())
        )
        notes.append(
            Note(
                NoteKind.UNREAD_FIELDS,
                message("unrecognized fields: {fields}", fields=names),
                1,
            )
        )
    if rows.chunk.extras_dropped:
        notes.append(
            Note(NoteKind.MANY_EXTRAS, message(ODDITIES[NoteKind.MANY_EXTRAS]), 1)
        )
    for source in files.sources:
        if not source.size:
            notes.append(
                Note(NoteKind.EMPTY_FILE, message("an empty file"), 1, source.name)
            )
    notes += files.notes
    steps = (
        np.unique(rows.chunk.columns["step"][rows.order])
        if len(rows.order)
        else rows.order
    )
    if files.numbered and len(steps) == 1 and options.step_from_path is None:
        text = message(
            "all rows have step {step}, although the paths of their files differ in a number; if "
            "it is the step, pass --step-from-path",
            step=int(steps[0]),
        )
        notes.append(Note(NoteKind.FORMAT, text, 1, files.numbered))
    return [*notes, *rows.notes]


def _log_files(
    rows: LogRows, files: LogFiles, responses: pd.DataFrame
) -> list[LogFile]:
    totals = np.zeros((len(files.sources), 2), dtype=np.int64)
    for range_counts in rows.chunk.counts:
        totals[range_counts.file] += (range_counts.lines, range_counts.unread)
    counts = np.bincount(responses["file"], minlength=len(files.sources)).tolist()
    return [
        LogFile(
            source.name,
            source.size,
            counts[i],
            lines,
            bad,
            log_format.id,
            log_format.why,
        )
        for i, (source, log_format, (lines, bad)) in enumerate(
            zip(files.sources, files.formats, totals.tolist(), strict=True)
        )
    ]


def _no_data_message(
    files: LogFiles, bad: list[BadLine], bad_count: int, notes: list[Note]
) -> str:
    if not files.sources and not bad:
        # Name a file of each reason, first folders, then files that --map could read.
        refused = [note for note in notes if note.file]
        refused.sort(
            key=lambda note: (note.kind != NoteKind.ABSENT, "--map " not in note.text)
        )
        named = list({note.text: note for note in refused}.values())[:_MAX_NAMED]
        reasons = [f"{note.file}: {note.text}" for note in named]
        if len(refused) > len(named):
            reasons.append(f"and {len(refused) - len(named):,} more")
        return "No rollout log found" + (f" ({'; '.join(reasons)})" if reasons else "")
    text = f"No usable response in the logs (files: {len(files.sources):,})"
    if bad:
        first = bad[0]
        where = f"{first.file}, line {first.line:,}" if first.line else first.file
        text += f"; unreadable lines or files: {bad_count:,}, the first: {where}: {first.reason}"
    omissions = [note for note in notes if note.kind in _OMISSIONS]
    text += "".join(f"; {note.count:,} {note.text}" for note in omissions)
    return text + "".join(
        f"; {n.file} {n.text}" for n in notes if n.kind == NoteKind.CHANGED
    )


def _strict_message(bad: list[BadLine], bad_count: int, notes: list[Note]) -> str:
    problems = [f"{b.file}:{b.line}: {b.reason}" for b in bad]
    problems += [
        f"{note.file or 'logs'}{f':{note.line}' if note.line else ''}: {note.text} ({note.count:,})"
        for note in notes
    ]
    total = bad_count + len(notes)
    rest = f"\n… and {total - _MAX_SHOWN:,} more" if total > _MAX_SHOWN else ""
    return (
        "Problems in the logs (--strict):\n" + "\n".join(problems[:_MAX_SHOWN]) + rest
    )
