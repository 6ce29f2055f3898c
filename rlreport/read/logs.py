"""Read logs: find the files, read them in parallel, and return tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from rlreport.errors import StrictError, UnusableInputError
from rlreport.figures.ragged import Ints
from rlreport.options import FigureOptions, ReadOptions
from rlreport.progress import Progress
from rlreport.read.batch import Chunk
from rlreport.read.cache import ChunkCache, chunk_cache
from rlreport.read.chunk import read_chunk
from rlreport.read.detect import FORMAT, METRICS_FILE, LogFiles, detect_formats
from rlreport.read.files import Listing, LogFormat, Source, find_sources, is_url
from rlreport.read.grades import missing_grade_notes
from rlreport.read.lines import ByteRange, byte_ranges, grouped_ranges
from rlreport.read.notes import ODDITIES, LogPosition
from rlreport.read.readback import RowLocations
from rlreport.read.remote import shown
from rlreport.read.sample import Sample, read_sample
from rlreport.read.sample_parts import EDGE
from rlreport.read.tables import (
    LogRows,
    carried_fields,
    extras_table,
    lines_before,
    log_rows,
    response_table,
    tool_table,
)
from rlreport.tables import BadLine, LogFile, LogTables, Note, TextSample, TokenSample
from rlreport.text.clean import safe_text
from rlreport.text.messages import message
from rlreport.text.tokens import detect_style
from rlreport.workers import Workers

MIN_PARALLEL_BYTES = 48 << 20
"""Smaller logs are read faster in this process than others start."""

SPLIT = "split"
"""Kind of the note on the split that is shown but not judged."""

UNREAD_FIELDS = "not_taken"
"""Kind of the note on fields that nobody read."""

_MAX_SHOWN = 20
_MAX_NAMED = 3
_STYLE_TOKENS = 5000


@dataclass(slots=True, kw_only=True)
class Scan(LogTables):
    """Every figure of the logs, and where each response lies.

    Attributes:
        name: of the run: the folder or file that was given.
        prompt_rows: int64 (prompts,), row of the first response to each prompt_id.
        tokens: figures of the sampled tokens, None without token strings.
        every: units of all sampled training responses, see ``Sample``.
        failed: step -> rollouts of training that failed before the policy wrote anything.
        sources, formats: the files, for reading rows back (``locations``).
    """

    name: str
    prompt_rows: Ints
    tokens: TokenSample | None = None
    every: TextSample | None = None
    failed: dict[int, int] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)
    formats: list[LogFormat] = field(default_factory=list)

    def locations(self) -> RowLocations:
        """Return where the responses lie, to read some back (also in another process)."""
        named = self.ngrams is not None and self.ngrams.unit == "token"
        strings = self.ngrams.vocabulary[:_STYLE_TOKENS] if self.ngrams and named else []
        style = detect_style(np.array(strings, dtype=object)) if strings else None
        locations = RowLocations(self.sources, self.formats, style)
        locations.select(self.responses)
        return locations


def read_logs(
    paths: Sequence[str | Path],
    options: ReadOptions | None = None,
    figures: FigureOptions | None = None,
    progress: Progress | None = None,
    metrics: Iterable[Path] = (),
    workers: Workers | None = None,
) -> Scan:
    """Read every figure of the logs under files, folders, globs and URLs.

    Args:
        paths: the logs.
        options: how to read them.
        figures: γ and λ.
        progress: told of the bytes of every file.
        metrics: files that are read as trainer metrics: as logs they are not missed.
        workers: processes to read with; None starts them as ``options`` say.

    Raises:
        UsageError: a path, a format or a mapping that means nothing.
        UnusableInputError: no response can be read; the message says what was found.
        StrictError: ``options.strict`` and anything was skipped or repaired.
        MissingExtraError: the logs need an optional library.
        RlreportError: a worker process was killed.
    """
    options, figures = options or ReadOptions(), figures or FigureOptions()
    progress = progress or Progress()
    if workers is None:
        with Workers(options.workers, options.ray, progress.say) as own:
            return read_logs(paths, options, figures, progress, metrics, own)
    listing = find_sources(paths)
    if options.ray is not None:  # its nodes have other current folders
        if options.tokenizer:
            options = replace(options, tokenizer=str(Path(options.tokenizer).absolute()))
        listing.sources = [
            source if source.store else replace(source, path=str(Path(source.path).absolute()))
            for source in listing.sources
        ]
        workers.check_files([s.path for s in listing.sources if not s.store], options.tokenizer)
    files = detect_formats(listing, options, metrics)
    ranges = byte_ranges(files.sources, files.formats)
    parallel = sum(one.weight for one in ranges) >= MIN_PARALLEL_BYTES
    chunks = read_chunks(ranges, options, figures, progress, workers, parallel=parallel)
    scan = _scan(_name(paths), chunks, listing, files, options)
    sample = read_sample(
        scan.responses, scan.locations(), options, figures, workers, progress, parallel=parallel
    )
    return _with_sample(scan, sample)


def read_chunks(
    ranges: Sequence[ByteRange],
    options: ReadOptions,
    figures: FigureOptions,
    progress: Progress,
    workers: Workers,
    *,
    parallel: bool = True,
) -> list[Chunk]:
    """Return the tables of all byte ranges, in order.

    Raises:
        RlreportError: a worker process was killed, or what it raised.
    """
    groups = grouped_ranges(ranges)
    cache = chunk_cache(options, figures)
    chunks: list[Chunk] = []
    shared = options, figures, cache
    with progress.phase("reading", sum(one.weight for one in ranges), "B") as phase:
        for group, chunk in zip(
            groups, workers.map(_read, groups, shared, parallel=parallel), strict=True
        ):
            chunks.append(chunk)
            phase.advance(sum(one.weight for one in group))
    if cache:
        cache.store.trim()
    return chunks


def _read(
    group: Sequence[ByteRange], shared: tuple[ReadOptions, FigureOptions, ChunkCache | None]
) -> Chunk:
    options, figures, cache = shared
    if cache is None:
        return read_chunk(group, options, figures)
    return cache.load(group) or cache.read(group)


def _scan(
    name: str,
    chunks: list[Chunk],
    listing: Listing,
    files: LogFiles,
    options: ReadOptions,
) -> Scan:
    rows = log_rows(chunks, files, keep_restarted=options.restarts != "last")
    bad = _bad_lines(rows, listing, files)
    bad_count = rows.remarks.unread_count + len(listing.unreadable)
    extras, carried_extras, many = extras_table(chunks, rows.order)
    rows.extras_dropped |= many
    notes = [*_notes(rows, files), *files.notes]
    if not len(rows.order):
        raise UnusableInputError(_no_data_message(files, bad, bad_count, notes))
    notes = [note for note in notes if note.kind != METRICS_FILE] + rows.notes
    unclean = [note for note in notes if note.kind not in (UNREAD_FIELDS, FORMAT, SPLIT)]
    if options.strict and (bad or unclean):
        raise StrictError(_strict_message(bad, bad_count, unclean))
    tools = tool_table(chunks, rows)
    fields = carried_fields(rows)
    chunks.clear()
    responses, prompt_rows = response_table(rows)
    unrewarded = [i for i, log_format in enumerate(files.formats) if not log_format.rewarded]
    # What a format never logs was not lost: its absence is not a NaN that was met.
    responses.loc[
        responses["file"].isin(unrewarded) & responses["reward"].isna(), "nan_values"
    ] -= 1
    reward_parts = sorted(rows.reward_parts & set(extras.columns))
    missing = responses["missing_grade"] > 0
    if missing.any():
        notes += missing_grade_notes(responses["missing_grade"].to_numpy())
        extras[reward_parts] = extras[reward_parts].mask(missing)
    if responses["validation"].any():
        extras, note = _with_split(responses, extras, files)
        notes.append(note)
    return Scan(
        name=name,
        files=_log_files(rows, files, responses),
        responses=responses,
        extras=extras,
        reward_parts=reward_parts,
        prompt_rows=prompt_rows,
        positions=pd.DataFrame(),
        bad_lines=bad,
        bad_count=bad_count,
        notes=notes,
        fields=dict(sorted(fields.items())) | carried_extras,
        failed=rows.failed,
        tools=tools,
        sources=files.sources,
        formats=files.formats,
    )


def _with_sample(scan: Scan, sample: Sample) -> Scan:
    scan.responses["distinct_2"] = sample.distinct_2
    return replace(
        scan,
        ngrams=sample.texts,
        words=sample.words,
        ref_words=sample.references,
        tokens=sample.tokens,
        every=sample.every,
        positions=sample.positions,
        sampled=sample.size,
        sampled_of=sample.of,
        notes=[*scan.notes, *_sample_notes(sample)],
    )


def _sample_notes(sample: Sample) -> list[Note]:
    """Return notes on sampled responses that count in part, or not at all."""
    notes = []
    if sample.shortened:
        text = message(
            "responses of over {most:count} tokens, of which texts and tokens count the first and "
            "the last {edge:count}",
            most=2 * EDGE,
            edge=EDGE,
        )
        notes.append(Note("shortened", text, sample.shortened))
    texts, every = sample.texts, sample.every
    if texts is not None and every is not None and every is not texts:
        text = (
            message("responses without tokens where most have some, left out of texts and tokens")
            if texts.unit == "token"
            else message("responses with tokens where most have none, left out of texts")
        )
        notes.append(Note("mixed_units", text, len(every.rows) - len(texts.rows)))
    return notes


def _with_split(
    responses: pd.DataFrame, extras: pd.DataFrame, files: LogFiles
) -> tuple[pd.DataFrame, Note]:
    """Return the extras with the split of each row, and the note on the watched split."""
    validation = responses["validation"].to_numpy() == 1
    main, watched = files.formats[0].main, files.formats[0].watched or ""
    split = np.where(validation, watched, main).astype(object)
    text = message(
        "responses of split {watched}, beside those of {main}, which alone are judged",
        watched=watched,
        main=main,
    )
    return extras.assign(split=split), Note(SPLIT, text, int(validation.sum()))


def _name(paths: Sequence[str | Path]) -> str:
    first = str(paths[0])
    if is_url(first):
        return shown(first).rstrip("/").rpartition("/")[2]
    path = Path(first)
    if path.is_dir():
        return path.resolve().name
    return path.name.partition(".")[0] if path.is_file() and len(paths) == 1 else path.parent.name


def _line(rows: LogRows, position: LogPosition) -> int:
    files, offsets = np.array([position.file]), np.array([position.offset])
    return position.line + int(lines_before(rows.counts, files, offsets)[0])


def _bad_lines(rows: LogRows, listing: Listing, files: LogFiles) -> list[BadLine]:
    unreadable = [BadLine(name, 0, reason) for name, reason in listing.unreadable]
    return unreadable + [
        BadLine(files.sources[position.file].name, _line(rows, position), reason, torn)
        for position, reason, torn in rows.remarks.unread
    ]


def _notes(rows: LogRows, files: LogFiles) -> list[Note]:
    notes = [
        Note(
            kind,
            message(ODDITIES[kind]),
            oddity.times,
            files.sources[oddity.first.file].name,
            _line(rows, oddity.first),
        )
        for kind, oddity in sorted(rows.remarks.oddities.items())
    ]
    if unread := rows.remarks.unread_fields:
        said = ", ".join(
            f"{safe_text(name)} ({kind}, {times:,})"
            for name, (times, kind) in sorted(unread.items())
        )
        notes.append(Note(UNREAD_FIELDS, message("unrecognized fields: {fields}", fields=said), 1))
    if rows.extras_dropped:
        notes.append(Note("many_extras", message(ODDITIES["many_extras"]), 1))
    for source in files.sources:
        if not source.size:
            notes.append(Note("empty_file", message("an empty file"), 1, source.name))
    return notes


def _log_files(rows: LogRows, files: LogFiles, responses: pd.DataFrame) -> list[LogFile]:
    totals = np.zeros((len(files.sources), 2), dtype=np.int64)
    for one in rows.counts:
        totals[one.file] += (one.lines, one.unread)
    kept = np.bincount(responses["file"], minlength=len(files.sources)).tolist()
    return [
        LogFile(source.name, source.size, kept[i], lines, bad, log_format.id, log_format.why)
        for i, (source, log_format, (lines, bad)) in enumerate(
            zip(files.sources, files.formats, totals.tolist(), strict=True)
        )
    ]


def _no_data_message(files: LogFiles, bad: list[BadLine], bad_count: int, notes: list[Note]) -> str:
    """Say why there is nothing to report on."""
    if not files.sources and not bad:
        # Files that a mapping would read come before those that are no logs at all.
        refused = sorted((n for n in notes if n.file), key=lambda n: "--map " not in n.text)
        found = [f"{note.file}: {note.text}" for note in refused[:_MAX_NAMED]]
        if len(refused) > _MAX_NAMED:
            found.append(f"and {len(refused) - _MAX_NAMED:,} files more")
        return "No rollout log found" + (f" ({'; '.join(found)})" if found else "")
    text = f"No usable response in {len(files.sources):,} log files"
    if bad:
        first = bad[0]
        where = f"{first.file}, line {first.line:,}" if first.line else first.file
        text += f"; {bad_count:,} lines could not be read, the first: {where}: {first.reason}"
    left_out = [n for n in notes if n.kind in ("untrained", "failed", "other_split_rows")]
    return text + "".join(f"; {note.count:,} {note.text}" for note in left_out)


def _strict_message(bad: list[BadLine], bad_count: int, notes: list[Note]) -> str:
    found = [f"{b.file}:{b.line}: {b.reason}" for b in bad]
    found += [
        f"{note.file or 'logs'}{f':{note.line}' if note.line else ''}: {note.text} ({note.count:,})"
        for note in notes
    ]
    total = bad_count + len(notes)
    rest = f"\n… and {total - _MAX_SHOWN:,} more" if total > _MAX_SHOWN else ""
    return "The logs are not clean (--strict):\n" + "\n".join(found[:_MAX_SHOWN]) + rest
