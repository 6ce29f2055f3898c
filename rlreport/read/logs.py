"""Read logs: list the files, read them in parallel, and combine them into tables."""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.errors import UnusableInputError, UsageError
from rlreport.figures.constant import compact_if_long, is_constant
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
from rlreport.read.nodes import (
    check_nodes,
    check_this_node,
    files_of,
    nodes_with_logs,
)
from rlreport.read.ranges import read_cached, read_chunk
from rlreport.read.remarks import ODDITIES, LogPosition, one_per_cause
from rlreport.read.rollouts import RowIds
from rlreport.read.sample import with_sample
from rlreport.read.scoring import ScoreFunction, rescore
from rlreport.read.spool import (
    PartFolder,
    RolloutSpool,
    SpooledTexts,
    part_folder,
)
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
from rlreport.read.texts import Columns
from rlreport.read.trl_folders import Trainer
from rlreport.system.cache import Store, store_at
from rlreport.system.function_process import Signature
from rlreport.system.in_memory import is_in_memory, place, run_name
from rlreport.system.memory import release_memory
from rlreport.system.stores import Source, shown
from rlreport.system.workers import Progress, Workers
from rlreport.tables import HARMLESS, BadLine, LogFile, Note, NoteKind, RowRole
from rlreport.text.clean import safe_text
from rlreport.text.messages import message

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


def read_logs(  # noqa: PLR0913 (what a caller may give, by name)
    paths: Sequence[str | Path],
    options: ReadOptions | None = None,
    gae: GaeOptions | None = None,
    progress: Progress | None = None,
    *,
    trainer: Trainer | None = None,
    workers: Workers | None = None,
    used: Iterable[Path] = (),
    limits: ReadLimits | None = None,
    score: ScoreFunction | None = None,
) -> Scan:
    """Read logs from files, folders, globs and URLs into tables.

    ``used`` are files with another purpose: no note says that they are not logs, nor that the files
    of ``trainer`` are not. It tells which rows are of the run, where a log alone does not.
    ``score`` gives all responses a second reward.

    Raises:
        UnusableInputError: no response can be read (unless there are metrics and no logs), or
            ``options.strict`` is set and anything was skipped or repaired.
        UsageError: a path does not exist, or an option does not fit the logs.
    """
    options = options or ReadOptions()
    gae = gae or GaeOptions()
    progress = progress or Progress()
    limits = limits or LIMITS
    if options.cache:
        limits = limits.with_cache()
    trainer = trainer or Trainer()
    if workers is None:
        with Workers(options.workers, options.ray) as started:
            # Once more, with workers that end afterwards
            return read_logs(
                paths,
                options,
                gae,
                progress,
                trainer=trainer,
                workers=started,
                used=used,
                limits=limits,
                score=score,
            )
    if options.ray is not None:
        options = _with_absolute_tokenizer(options)
    listing = _listing(paths, options, workers)
    files = detect_formats(listing, options, used, trainer)
    if not files.sources and not trainer.files:
        files.notes[:0] = absent_notes(paths)
        elsewhere = nodes_with_logs(paths, workers)
        if elsewhere:
            raise UnusableInputError(f"{_no_log_message(files.notes)}; {elsewhere}")
    spool = RolloutSpool()
    chunks = read_chunks(
        byte_ranges(files.sources, files.formats, range_bytes=limits.range_bytes),
        options,
        gae,
        limits=limits,
        progress=progress,
        workers=workers,
        spool=spool,
        signature=score.process.signature if score else None,
    )
    name = safe_text(_name(paths))
    if trainer.files and not files.sources:
        if score is not None:
            text = message("no response is logged that --score could score")
            files.notes.append(Note(NoteKind.SCORE, text, 1))
        return no_responses(name, files.notes)
    rows = log_rows(chunks, files, options.restarts)
    chunks.clear()  # to save memory, as ``rows`` has all of them
    scan = _tables(name, rows, listing, files, options)
    names = [source.name for source in files.sources]
    if score is not None:
        _rescore(scan, score, spool.calls(rows.order), progress)
    choice = choose_rows(scan.responses, names, limits)
    scan.responses["has_texts"] = _flags(len(scan.responses), choice.rows)
    ids = _ids_of(scan.responses, choice.rows, names)
    # The spool has all rows in the order in which they were read.
    scan.rollouts = spool.rollouts(ids, rows.order[choice.rows])
    del rows  # it is large
    release_memory()  # before processes start that share it
    return with_sample(scan, choice.rows[choice.sample], options, workers, limits)


def _flags(count: int, rows: Ints) -> NDArray[np.int8]:
    """Return 1 for each of these rows and 0 for others, (count,)."""
    flags = np.zeros(count, np.int8)
    flags[rows] = 1
    return flags


def _rescore(
    scan: Scan, score: ScoreFunction, calls: SpooledTexts, progress: Progress
) -> None:
    """Make the rewards of a function the second reward; a logged one becomes an extra column."""
    responses = scan.responses
    phase = progress.phase(message("scoring"), len(responses), message("responses"))
    with phase as advance:
        rewards, about = rescore(score.process, score.name, responses, calls, advance)
    if responses["valid_reward"].notna().any():
        logged = responses["valid_reward"].to_numpy(np.float64)
        scan.extras = scan.extras.assign(valid_reward_logged=logged)
    responses["valid_reward"] = rewards
    # That of the reference comes from another function.
    for name in ("ref_valid_reward", "valid_reward_gap"):
        responses[name] = np.nan
    scan.rescoring = about
    missing = about.responses - about.scored
    if missing:
        text = message(
            "responses that the function of --score gave no reward, left out of figures of the "
            "second reward"
        )
        scan.notes.append(Note(NoteKind.SCORE, text, missing))


def _listing(
    paths: Sequence[str | Path], options: ReadOptions, workers: Workers
) -> Listing:
    """List the files at paths, or only those of ``options.run``."""
    try:
        listing = find_sources(paths)
    except UsageError as error:
        elsewhere = nodes_with_logs(paths, workers)
        raise UsageError(f"{error}; {elsewhere}" if elsewhere else str(error)) from None
    if options.run:
        listing = of_run(listing, options.run)
    if options.ray is not None:
        # Relative paths mean something else on other nodes of a cluster.
        listing.sources = [_with_absolute_path(source) for source in listing.sources]
    return listing


def _with_absolute_path(source: Source) -> Source:
    if source.store:
        return source
    return replace(source, path=str(Path(source.path).absolute()))


def _with_absolute_tokenizer(options: ReadOptions) -> ReadOptions:
    if not options.tokenizer:
        return options
    return replace(options, tokenizer=str(Path(options.tokenizer).absolute()))


def _ids_of(responses: pd.DataFrame, rows: Ints, file_names: list[str]) -> RowIds:
    """Return what identifies the responses in these rows of the table."""
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
    signature: Signature | None = None,
) -> list[Chunk]:
    """Return a chunk per group of byte ranges; move their texts and tokens to ``spool``.

    Raises:
        UsageError: a node of the cluster does not see the files as this machine does.
    """
    nodes = check_nodes(files_of(ranges, options.tokenizer), workers)
    groups = grouped_ranges(ranges, limits.range_bytes)
    store = store_at(options.cache) if options.cache else None
    size = sum(part.weight for part in ranges)  # bytes
    chunks: list[Chunk] = []
    with (
        _folder_for_parts(options) as folder,
        progress.phase(message("reading"), size, "B") as advance,
    ):
        seconds = size / _BYTES_PER_SECOND
        at_once = store is None and workers.alone(len(groups), seconds)
        settings = RangeSettings(options, gae, folder, limits, signature)
        if at_once:
            settings = replace(settings, spool=spool)
        shared = settings, store, nodes
        # Closed before the folder is removed, so that no worker writes to it any more
        with closing(workers.map(_read, groups, shared, seconds=seconds)) as results:
            for group, chunk in zip(groups, results, strict=True):
                spool.take(chunk.parts)
                chunk.parts = []
                chunk.columns = _compacted(chunk.columns)
                chunks.append(chunk)
                advance(sum(part.weight for part in group))
    if store:
        store.trim()  # to its maximum size
    return chunks


def _compacted(columns: Columns) -> Columns:
    """Return the columns of a chunk with little memory, which a run has for each of its chunks."""
    small = {}
    for name, values in columns.items():
        # Columns from the cache are views of all bytes of an entry: copies let go of these.
        is_own = values.base is None or is_constant(values)
        small[name] = compact_if_long(values if is_own else values.copy())
    return small


def _folder_for_parts(options: ReadOptions) -> AbstractContextManager[PartFolder]:
    if options.ray is None:
        return part_folder()
    # Nodes of a cluster may share no folder with this machine: their parts come back in memory.
    return nullcontext(PartFolder())


def _read(
    group: Sequence[ByteRange],
    shared: tuple[RangeSettings, Store | None, Collection[str]],
) -> Chunk:
    """Return the chunk of a group of ranges, from the cache if there is one; a worker's job."""
    settings, store, nodes = shared
    # A node may have joined after the others were asked.
    if settings.options.ray is not None and platform.node() not in nodes:
        check_this_node(files_of(group, tokenizer=None))
    if store is None:
        chunk = read_chunk(group, settings)
    else:
        chunk = read_cached(group, settings, store)
    # Only now, as a chunk in the cache can be that of another build.
    chunk.changes = _changes(group, chunk)
    return chunk


def _changes(group: Sequence[ByteRange], chunk: Chunk) -> list[Change]:
    """Return how files of the ranges have changed since they were listed."""
    changes = []
    for part, counts in zip(group, chunk.counts, strict=True):
        # A file that is read as a whole, and without an error, was read before it changed.
        if part.stop is None and not counts.unread:
            continue
        how = part.source.change(part.stop)
        if how:
            stop = _END if part.stop is None else part.stop
            changes.append(Change(part.file, stop, how))
    return changes


def _tables(
    name: str, rows: LogRows, listing: Listing, files: LogFiles, options: ReadOptions
) -> Scan:
    """Return the tables of all rows, without texts; raise UnusableInputError if there is none."""
    names = [source.name for source in files.sources]
    changes = first_changes(rows.chunk.changes)
    bad = _bad_lines(rows, listing, files, changed=[names[file] for file in changes])
    # Before the notes, which say whether some extras are left out
    extras, carried_extras = extras_table(rows)
    notes = [*change_notes(changes, names), *_notes(rows, files, options)]
    _refuse_unusable(rows, files, bad, notes, strict=options.strict)
    # Before ``response_table``, which removes the columns of the rows
    tools = tool_table(rows)
    fields = dict(sorted(carried_fields(rows).items()))
    first_incomplete = incomplete_from(changes, rows.chunk.columns)
    responses = response_table(rows)
    reward_parts = sorted(rows.chunk.reward_parts & set(extras.columns))
    _complete(responses, extras, reward_parts, files)
    notes += missing_grade_notes(responses["missing_grade"].to_numpy())
    if responses["validation"].any():  # any row that is not of training
        extras = _with_split(responses, extras, files, notes)
    return Scan(
        name=name,
        files=_log_files(rows, files, responses),
        responses=responses,
        extras=extras,
        reward_parts=reward_parts,
        bad_lines=bad.lines,
        bad_count=bad.count,
        notes=notes,
        fields=fields | carried_extras,
        failed=rows.failed,
        filtered=rows.filtered,
        repeated=rows.repeated,
        tools=tools,
        tools_used=tools_used(rows, tools),
        incomplete_from=first_incomplete,
        overwritten=sorted(files.trl.overwritten),
        partly_validated=sorted(files.trl.partial),
        starts=rows.starts,
    )


@dataclass(frozen=True, slots=True)
class _BadLines:
    """The first lines that cannot be read, and the number of all of them."""

    lines: list[BadLine]
    count: int


def _refuse_unusable(
    rows: LogRows, files: LogFiles, bad: _BadLines, notes: list[Note], *, strict: bool
) -> None:
    """Raise UnusableInputError without a response, or if ``strict``, with any problem."""
    if not len(rows.order):
        raise UnusableInputError(_no_data_message(files, bad, notes))
    problems = [note for note in notes if note.kind not in HARMLESS]
    if strict and (bad.lines or problems):
        raise UnusableInputError(_strict_message(bad, problems))


def _complete(
    responses: pd.DataFrame,
    extras: pd.DataFrame,
    reward_parts: list[str],
    files: LogFiles,
) -> None:
    """Complete columns of ``responses`` from ``extras``; set parts of invalid rewards to NaN.

    ``reward_parts`` are the columns of ``extras`` that are components of the reward.
    """
    unrewarded = [
        i for i, one in enumerate(files.formats) if not one.reader.format.rewarded
    ]
    # A reward missing from a format that never logs rewards is not counted as a NaN value.
    lacks_reward = responses["file"].isin(unrewarded) & responses["reward"].isna()
    if lacks_reward.any():
        responses["nan_values"] -= lacks_reward.astype(np.int32)
    responses["dropped"] = dropped_rows(responses["missing_grade"].to_numpy(), extras)
    if "advantage" in extras.select_dtypes("number"):  # logged without tokens
        for column in ("advantage_logged_mean", "advantage_mean"):
            responses[column] = responses[column].fillna(extras["advantage"])
    missing = responses["missing_grade"] > 0
    # Before ``correct``, which a part may decide
    if missing.any():
        extras[reward_parts] = extras[reward_parts].mask(missing)
    responses["correct"] = correctness(extras, responses["reward"].to_numpy())


def _with_split(
    responses: pd.DataFrame, extras: pd.DataFrame, files: LogFiles, notes: list[Note]
) -> pd.DataFrame:
    """Return ``extras`` with the column ``split``; note that validation is not judged."""
    roles = responses["validation"].to_numpy()
    # The main and the watched split are the same for all files.
    main = files.formats[0].main
    watched = files.formats[0].watched or ""
    in_validation = int((roles == RowRole.VALIDATION).sum())
    if in_validation:
        text = message(
            "responses of split {watched} are shown, but only those of {main} are judged",
            watched=watched,
            main=main,
        )
        notes.append(Note(NoteKind.SPLIT, text, in_validation))
    split_of_role = np.array([main, watched, "branch"], object)  # by RowRole
    return extras.assign(split=split_of_role[roles])


def _name(paths: Sequence[str | Path]) -> str:
    """Return the name of the run: of its folder or URL, or of its only file without suffixes.

    Of several files (or a glob), it is that of the folder of the first one.
    """
    first = str(paths[0])
    if is_url(first):
        return shown(first).rstrip("/").rpartition("/")[2]
    path = Path(first)
    if is_in_memory(path.name):
        return run_name(path.name)
    if path.is_dir():
        return path.resolve().name
    if path.is_file() and len(paths) == 1:
        return path.name.partition(".")[0]
    return path.parent.name


def _file_lines(
    rows: LogRows, files: LogFiles, positions: Sequence[LogPosition]
) -> list[tuple[str, int]]:
    """Return (file name, line number in the file) of each position.

    A position has the line's number in its byte range only; the lines before the range are added.
    """
    if not positions:
        return []
    table = pd.DataFrame(positions, columns=LogPosition._fields).astype(np.int64)
    before = lines_before(
        rows.chunk.counts, table["file"].to_numpy(), table["offset"].to_numpy()
    )
    lines = (table["line"].to_numpy() + before).tolist()
    names = [files.sources[position.file].name for position in positions]
    return list(zip(names, lines, strict=True))


def _bad_lines(
    rows: LogRows, listing: Listing, files: LogFiles, *, changed: Collection[str]
) -> _BadLines:
    """Return what cannot be read; ``changed``: names of files that changed while they were read."""
    unread = rows.chunk.remarks.unread  # the first ones; all are counted
    places = _file_lines(rows, files, [line.position for line in unread])
    lines = [BadLine(name, 0, reason) for name, reason in listing.unreadable]
    count = len(listing.unreadable) + rows.chunk.remarks.unread_count
    for (file, number), line in zip(places, unread, strict=True):
        # Where a log was cut, its last line is torn, which says less than the note on the change.
        if line.torn and file in changed:
            count -= 1
        else:
            lines.append(BadLine(file, number, line.reason, line.torn))
    return _BadLines(lines, count)


def _notes(rows: LogRows, files: LogFiles, options: ReadOptions) -> list[Note]:
    """Return all notes on rows and files, in the order in which they are shown."""
    notes = _oddity_notes(rows, files)
    if files.unread:
        names = ", ".join(
            f"{name} ({kind})" for name, kind in sorted(files.unread.items())
        )
        text = message("unrecognized fields: {fields}", fields=names)
        notes.append(Note(NoteKind.UNREAD_FIELDS, text, 1))
    if rows.chunk.extras_dropped:
        text = message(ODDITIES[NoteKind.MANY_EXTRAS])
        notes.append(Note(NoteKind.MANY_EXTRAS, text, 1))
    empty_files: list[Note] = []
    for source in files.sources:
        if not source.size:
            text = message("an empty file")
            empty_files.append(Note(NoteKind.EMPTY_FILE, text, 1, source.name))
    notes += one_per_cause(empty_files)
    notes += files.notes
    if files.numbered and options.step_from_path is None:
        notes += _notes_on_step_in_path(rows, files.numbered)
    return [*notes, *rows.notes]


def _oddity_notes(rows: LogRows, files: LogFiles) -> list[Note]:
    """Return a note for each kind of remark on rows, with the place of the first such row."""
    oddities = sorted(rows.chunk.remarks.oddities.items())
    places = _file_lines(rows, files, [oddity.first for _, oddity in oddities])
    notes = []
    for (kind, oddity), (file, line) in zip(oddities, places, strict=True):
        note = Note(kind, message(ODDITIES[kind]), oddity.times, file, line)
        # The usual text says that no row has a step.
        if kind == NoteKind.NO_STEP and oddity.times < rows.chunk.rows:
            text = message(
                "{count:count} rows without a step, the first in {file}, are read as step 0, "
                "although other rows have a step",
                count=oddity.times,
                file=file,
            )
            note = Note(NoteKind.FORMAT, text, 1)
        elif kind == NoteKind.NO_STEP and files.step_field:
            text = message(
                "no row has a step, so the run is one step; {field} may be it: pass "
                "--map step={name}, or --step-from-path REGEX if the paths have it",
                field=f"`{files.step_field}`",
                name=files.step_field,
            )
            note = Note(kind, text, oddity.times, file, line)
        notes.append(note)
    return notes


def _notes_on_step_in_path(rows: LogRows, path: str) -> list[Note]:
    """Return a note if all rows have one step, although ``path`` and others differ in a number."""
    if not len(rows.order):
        return []
    steps = np.unique(rows.chunk.columns["step"][rows.order])
    if len(steps) > 1:
        return []
    text = message(
        "all rows have step {step}, although the paths of their files differ in a number; if "
        "it is the step, pass --step-from-path",
        step=int(steps[0]),
    )
    return [Note(NoteKind.FORMAT, text, 1, path)]


def _log_files(
    rows: LogRows, files: LogFiles, responses: pd.DataFrame
) -> list[LogFile]:
    """Return the logs for the table of files, with their numbers of responses and lines."""
    count = len(files.sources)
    responses_of_file = np.bincount(responses["file"], minlength=count).tolist()
    lines = [0] * count
    unread = [0] * count
    for of_range in rows.chunk.counts:
        lines[of_range.file] += of_range.lines
        unread[of_range.file] += of_range.unread
    log_files = []
    sources = zip(files.sources, files.formats, strict=True)
    for i, (source, log_format) in enumerate(sources):
        file = LogFile(
            name=source.name,
            size=source.size,
            rows=responses_of_file[i],
            lines=lines[i],
            bad=unread[i],
            format=log_format.id,
            why=log_format.why,
        )
        log_files.append(file)
    return log_files


def _no_data_message(files: LogFiles, bad: _BadLines, notes: list[Note]) -> str:
    """Return why there is no response: what could not be read, left out, or changed meanwhile."""
    if not files.sources and not bad.lines:
        return _no_log_message(notes)
    names = [source.name for source in files.sources]
    if names and all(map(is_in_memory, names)):
        text = "No usable response in the rows"
        unreadable = "unreadable rows"
    else:
        are_empty = not any(source.size for source in files.sources)
        empty = ", empty" if are_empty else ""
        text = f"No usable response in the logs (files: {len(names):,}{empty})"
        unreadable = "unreadable lines or files"
    if bad.lines:
        first = bad.lines[0]
        where = place(first.file, first.line) if first.line else first.file
        text += f"; {unreadable}: {bad.count:,}, the first: {where}: {first.reason}"
    for note in notes:
        if note.kind in _OMISSIONS:
            text += f"; {note.count:,} {note.text}"
    for note in notes:
        if note.kind == NoteKind.CHANGED:
            text += f"; {note.file} {note.text}"
    return text


def _no_log_message(notes: list[Note]) -> str:
    """Return why no file is a log, with up to _MAX_NAMED examples."""
    refused = [note for note in notes if note.file]
    for note in refused:
        if is_in_memory(note.file or ""):
            reason = str(note.text).removeprefix("not read: ")
            return f"No rollouts or trainer metrics in the rows: {reason}"
    # Name a file of each reason, first folders, then files that --map could read.
    refused.sort(
        key=lambda note: (note.kind != NoteKind.ABSENT, "--map " not in note.text)
    )
    # Of equal reasons, the last file stays.
    by_reason = {note.text: note for note in refused}
    named = list(by_reason.values())[:_MAX_NAMED]
    reasons = [f"{note.file}: {note.text}" for note in named]
    # A note may stand for several files.
    more = sum(note.count for note in refused) - len(named)
    if more:
        reasons.append(f"and {more:,} more")
    text = "No rollout log found"
    return f"{text} ({'; '.join(reasons)})" if reasons else text


def _short_place(file: str, line: int) -> str:
    """Return where a line is as editors write it, or a row of data in memory in words."""
    return place(file, line) if is_in_memory(file) else f"{file}:{line}"


def _strict_message(bad: _BadLines, notes: list[Note]) -> str:
    """Return the first _MAX_SHOWN problems, a line each, and the number of others."""
    problems = [
        f"{_short_place(line.file, line.line)}: {line.reason}" for line in bad.lines
    ]
    for note in notes:
        where = note.file or "logs"
        if note.file and note.line:
            where = _short_place(note.file, note.line)
        problems.append(f"{where}: {note.text} ({note.count:,})")
    lines = ["Problems in the logs (--strict):", *problems[:_MAX_SHOWN]]
    # Of bad lines, only the first were kept.
    total = bad.count + len(notes)
    if total > _MAX_SHOWN:
        lines.append(f"… and {total - _MAX_SHOWN:,} more")
    return "\n".join(lines)
