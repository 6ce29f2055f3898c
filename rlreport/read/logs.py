"""Read logs: find them, scan them, and lay the figures out as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from rlreport.errors import StrictError, UnusableInputError
from rlreport.figures.ragged import Ints
from rlreport.options import FigureOptions, ReadOptions
from rlreport.progress import Progress, Silent
from rlreport.read.detection import METRICS_FILE, LogFiles, detect_formats
from rlreport.read.marks import REMARKS, Place
from rlreport.read.partial import Partial
from rlreport.read.response_table import extras_table, lines_before, response_table, row_order
from rlreport.read.restarts import superseded
from rlreport.read.result import Scan
from rlreport.read.sample import UnitSample
from rlreport.read.sources import Listing, find_sources, is_url
from rlreport.read.splits import plan_splits
from rlreport.read.token_table import TokenTable
from rlreport.read.unit_tables import bigram_frame, ngram_sample, position_frame, token_frame
from rlreport.read.workers import scan_splits
from rlreport.tables import BadLine, LogFile, Note

_SHOWN = 20
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
    files = detect_formats(listing, options, metrics)
    splits = plan_splits(files.sources, files.formats)
    partial = scan_splits(splits, options, figures, progress)
    return _scan_of(_name(paths), partial, listing, files, options)


def _scan_of(
    name: str, partial: Partial, listing: Listing, files: LogFiles, options: ReadOptions
) -> Scan:
    bad = _bad_lines(partial, listing, files)
    bad_count = partial.flaw_count + len(listing.unreadable)
    notes = [*_notes(partial, files), *files.notes]
    if not partial.rows:
        raise UnusableInputError(_nothing(files, bad, bad_count, notes))
    notes = [note for note in notes if note.kind != METRICS_FILE]
    order = row_order(partial.columns)
    restart_notes, order = _restarts(partial, files, order, options.restarts)
    notes += restart_notes
    if options.strict and (bad or notes):
        raise StrictError(_strict(bad, bad_count, notes))
    responses, prompt_rows = response_table(partial, order)
    unrewarded = [i for i, log_format in enumerate(files.formats) if not log_format.rewarded]
    # What a format never logs was not lost: its absence is no NaN that was met.
    responses.loc[
        responses["file"].isin(unrewarded) & responses["reward"].isna(), "nan_values"
    ] -= 1
    extras, carried = extras_table(partial.extras, partial.rows, order)
    # Each large part of the partial is let go once there is a table of it.
    ngrams = ngram_sample(partial.sample, partial, order)
    ref_ngrams = ngram_sample(partial.references, partial, order)
    partial.sample, partial.references = UnitSample(), UnitSample()
    tokens = token_frame(partial)
    partial.tokens = TokenTable()
    return Scan(
        name=name,
        files=_log_files(partial, files),
        responses=responses,
        extras=extras,
        reward_parts=sorted(partial.reward_parts & set(extras.columns)),
        prompt_rows=prompt_rows,
        tokens=tokens,
        positions=position_frame(partial),
        bigrams=bigram_frame(partial),
        ngrams=ngrams,
        ref_ngrams=ref_ngrams,
        bad_lines=bad,
        bad_count=bad_count,
        notes=notes,
        fields=dict(sorted(partial.fields.items())) | carried,
        sources=files.sources,
        formats=files.formats,
    )


def _name(paths: Sequence[str | Path]) -> str:
    first = str(paths[0])
    if is_url(first):
        return first.rstrip("/").rpartition("/")[2]
    path = Path(first)
    if path.is_dir():
        return path.resolve().name
    return path.name.partition(".")[0] if path.is_file() and len(paths) == 1 else path.parent.name


def _line(partial: Partial, place: Place) -> int:
    files, offsets = np.array([place.file]), np.array([place.offset])
    return place.line + int(lines_before(partial.segments, files, offsets)[0])


def _bad_lines(partial: Partial, listing: Listing, files: LogFiles) -> list[BadLine]:
    unreadable = [BadLine(name, 0, reason) for name, reason in listing.unreadable]
    return unreadable + [
        BadLine(files.sources[place.file].name, _line(partial, place), reason, torn)
        for place, reason, torn in partial.flaws
    ]


def _notes(partial: Partial, files: LogFiles) -> list[Note]:
    notes = [
        Note(
            kind,
            REMARKS[kind],
            mark.times,
            files.sources[mark.first.file].name,
            _line(partial, mark.first),
        )
        for kind, mark in sorted(partial.marks.by_kind.items())
    ]
    if partial.extras_dropped:
        notes.append(Note("many_extras", REMARKS["many_extras"], 1))
    if partial.tokens.dropped:
        notes.append(Note("many_tokens", REMARKS["many_tokens"], 1))
    for source in files.sources:
        if not source.size:
            notes.append(Note("empty_file", "an empty file", 1, source.name))
    return notes


def _restarts(
    partial: Partial, files: LogFiles, order: Ints, restarts: str
) -> tuple[list[Note], Ints]:
    """Report steps that were logged again after a restart, and drop the older rows if asked."""
    notes: list[Note] = []
    dropped = np.zeros(partial.rows, dtype=bool)
    columns = partial.columns
    in_files = np.lexsort((columns["sub"], columns["offset"], columns["file"]))
    file = columns["file"][in_files]
    for number, source in enumerate(files.sources):
        rows = in_files[file == number]
        older, steps = superseded(columns["step"][rows].astype(np.int64))
        if not len(older):
            continue
        fate = "the older rows left out" if restarts == "last" else "all rows kept"
        span = f"{steps[0]}" if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"
        text = f"steps run backwards: {span} logged again after a restart, {fate}"
        notes.append(Note("restart", text, len(older), source.name))
        dropped[rows[older]] = restarts == "last"
    return notes, order[~dropped[order]]


def _log_files(partial: Partial, files: LogFiles) -> list[LogFile]:
    totals = np.zeros((len(files.sources), 3), dtype=np.int64)
    for segment in partial.segments:
        totals[segment.file] += (segment.rows, segment.lines, segment.flaws)
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
