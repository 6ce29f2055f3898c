"""Read logs: find them, scan them, and lay the figures out as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rlreport.errors import StrictError, UnusableInputError
from rlreport.options import FigureOptions, ReadOptions
from rlreport.pool import Pool
from rlreport.progress import Progress, Silent
from rlreport.read.cache import PartialCache, partial_cache
from rlreport.read.detection import FORMAT, METRICS_FILE, LogFiles, detect_formats
from rlreport.read.diagnostics import ODDITIES, LogPosition
from rlreport.read.ngrams import UnitSample
from rlreport.read.partial import Partial, merge, merge_pair
from rlreport.read.remote import shown
from rlreport.read.restarts import restarts
from rlreport.read.result import (
    Scan,
    bigram_frame,
    extras_table,
    lines_before,
    ngram_sample,
    position_frame,
    response_table,
    row_order,
    token_frame,
    tool_frame,
)
from rlreport.read.scan import Scanner
from rlreport.read.sources import Listing, find_sources, is_url
from rlreport.read.splits import (
    CLUSTER_TASK_BYTES,
    Nodes,
    Split,
    plan_splits,
    plan_tasks,
    plant,
    root,
)
from rlreport.read.token_totals import TokenTotals, merge_totals
from rlreport.tables import BadLine, LogFile, Note
from rlreport.text.clean import safe_text
from rlreport.text.messages import message

_MERGED_AT_ONCE = 16
"""Partials from the cache that are held until they are merged."""

LEAST_BYTES = 48 << 20
"""Smaller logs are read sooner in this process than others start."""

_SHOWN = 20
SPLIT = "split"
"""Kind of the note on the split that stands beside training."""
NOT_TAKEN = "not_taken"
"""Kind of the note on fields that nobody read."""
_NAMED = 3
"""Files named where none can be read."""


def read_logs(
    paths: Sequence[str | Path],
    options: ReadOptions | None = None,
    figures: FigureOptions | None = None,
    progress: Progress | None = None,
    metrics: Iterable[Path] = (),
) -> Scan:
    """Read every figure of the logs under files, folders, globs and URLs.

    Args:
        paths: the logs.
        options: how to read them.
        figures: γ and λ.
        progress: told of every file's bytes.
        metrics: files that are read as trainer metrics: as logs they are not missed.

    Raises:
        UsageError: a path, a format or a mapping that means nothing.
        UnusableInputError: no response can be read; the message says what was found.
        StrictError: ``options.strict`` and anything was skipped or repaired.
        MissingExtraError: the logs need an optional library.
    """
    options, figures = options or ReadOptions(), figures or FigureOptions()
    progress = progress or Silent()
    listing = find_sources(paths)
    if options.ray is not None:  # whose nodes have current folders of their own
        if options.tokenizer:
            options = replace(options, tokenizer=str(Path(options.tokenizer).absolute()))
        listing.sources = [s if s.store else s.absolute() for s in listing.sources]
    files = detect_formats(listing, options, metrics)
    partial = _scanned(files, options, figures, progress)
    if partial.rows and partial.columns["validation"].all():
        # No row is of training, as a file's rows alone can tell: then these are what is judged.
        judged = [
            replace(form, main=form.watched or form.main, watched=None) for form in files.formats
        ]
        files = replace(files, formats=judged)
        partial = _scanned(files, options, figures, progress)
    kept = options.restarts != "last"
    restarted, replaced = restarts(partial, files.sources, kept=kept)
    if replaced and not kept:
        # Only a scan without the older rows leaves them out of every sum over tokens.
        formats = [
            replace(form, replaced=replaced.get(number, form.replaced))
            for number, form in enumerate(files.formats)
        ]
        files = replace(files, formats=formats)
        partial = _scanned(files, options, figures, progress)
    return _scan_of(_name(paths), partial, listing, files, options, restarted)


def _scanned(
    files: LogFiles, options: ReadOptions, figures: FigureOptions, progress: Progress
) -> Partial:
    task_bytes = None if options.ray is None else CLUSTER_TASK_BYTES
    splits = plan_splits(files.sources, files.formats)
    return scan_tasks(plan_tasks(splits, task_bytes=task_bytes), options, figures, progress)


def scan_tasks(
    tasks: Sequence[Sequence[Split]],
    options: ReadOptions,
    figures: FigureOptions,
    progress: Progress,
) -> Partial:
    """Scan splits side by side, and merge what was found as it comes.

    Args:
        tasks: splits that one process scans at a time, each an aligned subtree of all splits.
        options: how to read them, and with how many processes.
        figures: γ and λ.
        progress: told of every task's bytes.

    Raises:
        RlreportError: a process was killed, or what it raised.
    """
    weights = [sum(split.weight for split in task) for task in tasks]
    found: Nodes[Any] = {}
    kept, known = partial_cache(options, figures), list[Partial]()
    with (
        progress.phase("reading", sum(weights), "B") as phase,
        Pool(options.workers, options.ray, progress.say) as pool,
    ):
        if pool.cluster is not None:
            local = [s.source.path for task in tasks for s in task if not s.source.store]
            pool.cluster.check(local, options.tokenizer)
        jobs = []
        for job in enumerate(tasks):
            # On a cluster this process is to hold no more than what comes of all.
            loaded = kept.load(job[1]) if kept and pool.cluster is None else None
            if loaded is None:
                jobs.append(job)
                continue
            known.append(loaded)
            if len(known) == _MERGED_AT_ONCE:
                known = [merge(known)]
            phase.advance(weights[job[0]])
        # The longest come first, so that no process is left alone with one at the end.
        jobs.sort(key=lambda job: -weights[job[0]])
        beside = len(jobs) > 1 and sum(weights[number] for number, _ in jobs) >= LEAST_BYTES
        beside = beside or pool.cluster is not None
        shared = Scanner(options, figures), kept
        scanned = pool.map(_scan, jobs, shared, beside=beside, ordered=False, apart=True)
        merged = pool.merging(merge_pair)
        for number, partial in scanned:
            plant(found, (0, number), partial, merged)
            phase.advance(weights[number])
        if (rest := root(found, merged)) is not None:
            known.append(pool.value(rest))
    if kept:
        kept.store.trim()
    return known[0] if len(known) == 1 else merge(known)


def _scan(
    job: tuple[int, Sequence[Split]], shared: tuple[Scanner, PartialCache | None]
) -> tuple[int, Partial]:
    (number, splits), (scanner, kept) = job, shared
    if kept is None:
        return number, scanner.scan(splits)
    loaded = kept.load(splits) if scanner.options.ray is not None else None
    return number, kept.scan(splits, scanner) if loaded is None else loaded


def _scan_of(
    name: str,
    partial: Partial,
    listing: Listing,
    files: LogFiles,
    options: ReadOptions,
    restarted: Sequence[Note],
) -> Scan:
    bad = _bad_lines(partial, listing, files)
    bad_count = partial.diagnostics.unread_count + len(listing.unreadable)
    totals = root(partial.totals, merge_totals) or TokenTotals()
    partial.totals = {}
    notes = [*_notes(partial, files, dropped=totals.dropped), *files.notes]
    if not partial.rows:
        raise UnusableInputError(_nothing(files, bad, bad_count, notes))
    notes = [note for note in notes if note.kind != METRICS_FILE]
    order = row_order(partial.columns)
    notes += restarted
    unclean = [note for note in notes if note.kind not in (NOT_TAKEN, FORMAT, SPLIT)]
    if options.strict and (bad or unclean):
        raise StrictError(_strict(bad, bad_count, unclean))
    responses, prompt_rows = response_table(partial, order)
    unrewarded = [i for i, log_format in enumerate(files.formats) if not log_format.rewarded]
    # What a format never logs was not lost: its absence is no NaN that was met.
    responses.loc[
        responses["file"].isin(unrewarded) & responses["reward"].isna(), "nan_values"
    ] -= 1
    extras, carried = extras_table(partial.extras, partial.rows, order)
    # Each large part of the partial is let go once there is a table of it.
    if responses["validation"].any():
        extras, beside = _with_split(responses, extras, files)
        notes.append(beside)
    ngrams = ngram_sample(partial.sample, partial, order)
    ref_ngrams = ngram_sample(partial.references, partial, order)
    partial.sample, partial.references = UnitSample(), UnitSample()
    tokens = token_frame(partial, totals)
    return Scan(
        name=name,
        files=_log_files(partial, files),
        responses=responses,
        extras=extras,
        reward_parts=sorted(partial.reward_parts & set(extras.columns)),
        prompt_rows=prompt_rows,
        tokens=tokens,
        positions=position_frame(totals),
        bigrams=bigram_frame(partial),
        ngrams=ngrams,
        ref_ngrams=ref_ngrams,
        bad_lines=bad,
        bad_count=bad_count,
        notes=notes,
        fields=dict(sorted(partial.fields.items())) | carried,
        failed=partial.failed,
        tools=tool_frame(partial.tools),
        sources=files.sources,
        formats=files.formats,
    )


def _with_split(
    responses: pd.DataFrame, extras: pd.DataFrame, files: LogFiles
) -> tuple[pd.DataFrame, Note]:
    """Return the extras with the split of each row, and the note that says what stands beside."""
    beside = responses["validation"].to_numpy() == 1
    main, watched = files.formats[0].main, files.formats[0].watched or ""
    split = np.where(beside, watched, main).astype(object)
    text = message(
        "responses of split {watched}, beside those of {main}, which alone are judged",
        watched=watched,
        main=main,
    )
    return extras.assign(split=split), Note(SPLIT, text, int(beside.sum()))


def _name(paths: Sequence[str | Path]) -> str:
    first = str(paths[0])
    if is_url(first):
        return shown(first).rstrip("/").rpartition("/")[2]
    path = Path(first)
    if path.is_dir():
        return path.resolve().name
    return path.name.partition(".")[0] if path.is_file() and len(paths) == 1 else path.parent.name


def _line(partial: Partial, position: LogPosition) -> int:
    files, offsets = np.array([position.file]), np.array([position.offset])
    return position.line + int(lines_before(partial.segments, files, offsets)[0])


def _bad_lines(partial: Partial, listing: Listing, files: LogFiles) -> list[BadLine]:
    unreadable = [BadLine(name, 0, reason) for name, reason in listing.unreadable]
    return unreadable + [
        BadLine(files.sources[position.file].name, _line(partial, position), reason, torn)
        for position, reason, torn in partial.diagnostics.unread
    ]


def _notes(partial: Partial, files: LogFiles, *, dropped: bool) -> list[Note]:
    notes = [
        Note(
            kind,
            message(ODDITIES[kind]),
            oddity.times,
            files.sources[oddity.first.file].name,
            _line(partial, oddity.first),
        )
        for kind, oddity in sorted(partial.diagnostics.oddities.items())
    ]
    if not_taken := partial.diagnostics.not_taken:
        said = ", ".join(
            f"{safe_text(name)} ({kind}, {times:,})"
            for name, (times, kind) in sorted(not_taken.items())
        )
        notes.append(Note(NOT_TAKEN, message("fields not taken: {fields}", fields=said), 1))
    if partial.extras_dropped:
        notes.append(Note("many_extras", message(ODDITIES["many_extras"]), 1))
    if dropped:
        notes.append(Note("many_tokens", message(ODDITIES["many_tokens"]), 1))
    for source in files.sources:
        if not source.size:
            notes.append(Note("empty_file", message("an empty file"), 1, source.name))
    return notes


def _log_files(partial: Partial, files: LogFiles) -> list[LogFile]:
    totals = np.zeros((len(files.sources), 3), dtype=np.int64)
    for segment in partial.segments:
        totals[segment.file] += (segment.rows, segment.lines, segment.unread)
    return [
        LogFile(source.name, source.size, rows, lines, bad, log_format.id, log_format.why)
        for source, log_format, (rows, lines, bad) in zip(
            files.sources, files.formats, totals.tolist(), strict=True
        )
    ]


def _nothing(files: LogFiles, bad: list[BadLine], bad_count: int, notes: list[Note]) -> str:
    """Say why there is nothing to report on."""
    if not files.sources and not bad:
        # Files that a mapping would read come before those that are no logs at all.
        refused = sorted((n for n in notes if n.file), key=lambda n: "--map " not in n.text)
        found = "; ".join(f"{note.file}: {note.text}" for note in refused[:_NAMED])
        more = f"; and {len(refused) - _NAMED:,} files more" if len(refused) > _NAMED else ""
        return "No rollout log found" + (f" ({found}{more})" if found else "")
    message = f"No usable response in {len(files.sources):,} log files"
    if bad:
        first = bad[0]
        where = f"{first.file}, line {first.line:,}" if first.line else first.file
        message += f"; {bad_count:,} lines could not be read, the first: {where}: {first.reason}"
    return message


def _strict(bad: list[BadLine], bad_count: int, notes: list[Note]) -> str:
    found = [f"{b.file}:{b.line}: {b.reason}" for b in bad]
    found += [
        f"{note.file or 'logs'}{f':{note.line}' if note.line else ''}: {note.text} ({note.count:,})"
        for note in notes
    ]
    total = bad_count + len(notes)
    rest = f"\n… and {total - _SHOWN:,} more" if total > _SHOWN else ""
    return "The logs are not clean (--strict):\n" + "\n".join(found[:_SHOWN]) + rest
