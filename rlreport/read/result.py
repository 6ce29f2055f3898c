"""What reading the logs gives: the merged partial laid out as tables."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from rlreport.columns import RESPONSE_COLUMNS
from rlreport.figures.conversation import MOST_TOOLS
from rlreport.figures.ragged import Floats, Ints, places_in_runs
from rlreport.options import ReadOptions
from rlreport.read.collect import FROM_TEXT, FROM_TOKEN
from rlreport.read.conversation import ToolCounts
from rlreport.read.ngrams import BigramSketch, UnitSample, gathered, sample_size
from rlreport.read.partial import Columns, Extra, Partial, Segment
from rlreport.read.read_back import fetch_texts
from rlreport.read.row_locations import RowLocations
from rlreport.read.sources import Source
from rlreport.read.splits import LogFormat
from rlreport.read.token_totals import COUNTS, SUMS, TokenTotals
from rlreport.tables import LogTables, NgramSample
from rlreport.text.cells import number_as_text
from rlreport.text.tokens import detect_style
from rlreport.text.vocabulary import pair_hashes

PROMPTS_READ = 2_000
"""Prompts whose text is read back for the prompt table; the others keep their figures."""

_STYLE_TOKENS = 5000


@dataclass(slots=True, kw_only=True)
class Scan(LogTables):
    """Every figure of the logs, and where each response lies.

    Attributes:
        name: of the run: the folder or file that was given.
        prompt_rows: int64 (prompts,), row of the first response to each prompt_id.
        tokens: one row per bin of steps and token: ``bin_start`` and ``bin_stop`` (first and
            last step of the bin), ``token`` (as logged), ``count``, how many of those had a
            finite figure (``log_ratios``, ``probs``, ``ref_probs``, ``value_errors``) and the
            sums ``kl``, ``log_ratio``, ``abs_log_ratio``, ``prob``, ``ref_prob`` and
            ``abs_value_error``.
        bigrams: ``step``, ``bigrams`` and ``distinct``.
        failed: step -> rollouts of training that failed before the policy spoke.
        sources, formats: the files as opened, for the second pass (``locations``).
    """

    name: str
    prompt_rows: Ints
    tokens: pd.DataFrame
    bigrams: pd.DataFrame
    failed: dict[int, int] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)
    formats: list[LogFormat] = field(default_factory=list)

    def locations(self) -> RowLocations:
        """Return where the responses lie, to read some back (also in another process)."""
        tokens = self.tokens["token"].unique()
        style = detect_style(tokens[:_STYLE_TOKENS]) if len(tokens) else None
        locations = RowLocations(self.sources, self.formats, style=style)
        locations.take_rows(self.responses)
        return locations


def prompt_texts(scan: Scan, options: ReadOptions) -> list[str]:
    """Return the beginnings of the first prompts' texts, by ``prompt_id``, at most PROMPTS_READ.

    Raises:
        UnusableInputError: a log changed or vanished since the first pass.
    """
    return fetch_texts(scan, scan.prompt_rows[:PROMPTS_READ].tolist(), options)


def row_order(columns: Columns) -> Ints:
    """Return the order of the response table: by step, validation, file, offset and sub."""
    names = ("sub", "offset", "file", "validation", "step")
    keys = tuple(columns[name] for name in names)
    return np.lexsort(keys)


def response_table(partial: Partial, order: Ints) -> tuple[pd.DataFrame, Ints]:
    """Return RESPONSE_COLUMNS in this order, and the first row of each prompt.

    Args:
        partial: the merged scan, with at least one row.
        order: int64 (R',): which rows, and their order; sorted by step.
    """
    columns = {name: values[order] for name, values in partial.columns.items()}
    step = columns["step"].astype(np.int64)
    columns["n"] = places_in_runs(step)
    columns["line"] = columns["line"].astype(np.int64) + lines_before(
        partial.segments, columns["file"].astype(np.int64), columns["offset"].astype(np.int64)
    )
    prompt = columns["prompt_hash"].astype(np.uint64)
    beside = columns["validation"].astype(np.uint64)
    if beside.any():
        # A prompt of training and the same one of validation are followed apart.
        prompt = np.where(beside > 0, pair_hashes(prompt, beside), prompt)
    columns["prompt_id"], _ = pd.factorize(prompt)
    prompt_rows = np.unique(columns["prompt_id"], return_index=True)[1]
    group = columns["group_hash"].astype(np.uint64)
    group = np.where(group == 0, prompt, group + beside)
    group = pair_hashes(step.astype(np.uint64), group)
    columns["group"], _ = pd.factorize(group)
    missing = np.full(len(order), np.nan)
    for gap, left, right in (
        ("reward_gap", "reward", "ref_reward"),
        ("valid_reward_gap", "valid_reward", "ref_valid_reward"),
    ):
        if left in columns and right in columns:
            with np.errstate(over="ignore"):
                columns[gap] = columns[left] - columns[right]  # type: ignore[operator]
    columns["finished"] = _finished(columns, partial.ends)
    table = pd.DataFrame(
        {
            column.name: np.asarray(columns.pop(column.name, missing), dtype=column.dtype)
            for column in RESPONSE_COLUMNS
        },
        copy=False,
    )
    return table, prompt_rows.astype(np.int64)


def lines_before(segments: list[Segment], files: Ints, offsets: Ints) -> Ints:
    """Return how many lines of the file precede the split in which each row lies."""
    result = np.zeros(len(files), dtype=np.int64)
    for file in sorted({segment.file for segment in segments}):
        own = sorted(segment for segment in segments if segment.file == file)
        starts = np.array([segment.start for segment in own], dtype=np.int64)
        before = np.cumsum([0, *(segment.lines for segment in own)])
        mine = files == file
        result[mine] = before[np.searchsorted(starts, offsets[mine], side="right") - 1]
    return result


def extras_table(
    extras: dict[str, Extra], rows: int, order: Ints
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return one column per further scalar in this order, and how many rows carried each.

    A column that holds any text is of dtype object; missing values are then None.
    """
    table: dict[str, pd.Series] = {}
    carried: dict[str, int] = {}
    for name, extra in extras.items():
        carried[name] = len(extra.rows) + len(extra.texts)
        numbers = np.full(rows, np.nan)
        numbers[extra.rows] = extra.numbers
        if not extra.texts:
            table[name] = pd.Series(numbers[order])
            continue
        texts = np.full(rows, None, dtype=object)
        texts[extra.rows] = [*map(number_as_text, extra.numbers.tolist())]
        for row, text in extra.texts.items():
            texts[row] = text
        table[name] = pd.Series(texts[order], dtype=object)
    return pd.DataFrame(table, index=pd.RangeIndex(len(order))), carried


def _finished(columns: Columns, ends: tuple[int, int]) -> Floats:
    """Blank what EOS would have to tell where the whole run shows none: it may be cut off."""
    finished = columns["finished"].astype(np.float64)
    source = columns.pop("finish_source")
    for kind, count in ((FROM_TOKEN, ends[0]), (FROM_TEXT, ends[1])):
        if not count:
            finished[source == kind] = np.nan
    return finished


def token_frame(partial: Partial, table: TokenTotals) -> pd.DataFrame:
    """Return ``Scan.tokens``."""
    codes = np.searchsorted(partial.hashes, table.tokens)
    strings = np.array(partial.strings, dtype=object)
    # Strings that differ only beyond what is kept of them are one.
    if len(set(partial.strings)) < len(strings):
        number, strings = pd.factorize(strings)
        codes = number[codes]
    frame = {
        "bin_start": table.bins << table.shift,
        "bin_stop": ((table.bins + 1) << table.shift) - 1,
        "token": pd.Categorical.from_codes(codes, pd.Index(strings, dtype=object)),
    }
    frame |= dict(zip(COUNTS, table.counts, strict=True)) | dict(zip(SUMS, table.sums, strict=True))
    return pd.DataFrame(frame, copy=False)


def position_frame(totals: TokenTotals) -> pd.DataFrame:
    """Return ``Scan.positions``."""
    names = ("abs_error_mean", "value_mean", "return_mean")
    deciles = np.flatnonzero(totals.tenths)
    means = totals.tenth_sums[:, deciles] / totals.tenths[deciles]
    return pd.DataFrame(
        {"decile": deciles, "count": totals.tenths[deciles], **dict(zip(names, means, strict=True))}
    )


def tool_frame(counts: ToolCounts) -> pd.DataFrame:
    """Return ``Scan.tools``: the 64 tools of the most answers by their names."""
    by_tool: dict[str, int] = {}
    for (_, tool), (answers, _) in counts.items():
        by_tool[tool] = by_tool.get(tool, 0) + answers
    kept = set(sorted(by_tool, key=lambda tool: (-by_tool[tool], tool))[:MOST_TOOLS])
    rows = [(*place, *counts[place]) for place in sorted(counts) if place[1] in kept]
    return pd.DataFrame(rows, columns=["step", "tool", "answers", "errors"])


def bigram_frame(partial: Partial) -> pd.DataFrame:
    """Return ``Scan.bigrams``."""
    size = BigramSketch.size_for(len(partial.bigrams))
    steps = sorted(partial.bigrams)
    own = partial.columns["validation"] == 0
    step, bigrams = partial.columns["step"][own], partial.columns["bigrams"][own]
    places = np.searchsorted(np.array(steps, dtype=np.int64), step)
    return pd.DataFrame(
        {
            "step": np.array(steps, dtype=np.int64),
            "bigrams": np.bincount(places, bigrams.astype(np.float64), len(steps)).astype(np.int64),
            "distinct": [BigramSketch.estimate(partial.bigrams[s], size) for s in steps],
        }
    )


def ngram_sample(sample: UnitSample, partial: Partial, order: Ints) -> NgramSample | None:
    """Return a sample with rows of the response table, None if it holds no unit.

    Where a run has tokens, only responses with tokens are kept: the others' words could not
    be compared with them.
    """
    if not len(sample.units):
        return None
    tokens = bool(sample.tokens.any())
    row_of = np.full(partial.rows, -1, dtype=np.int64)
    row_of[order] = np.arange(len(order))
    kept = np.flatnonzero((sample.tokens == tokens) & (row_of[sample.rows] >= 0))
    kept = kept[np.argsort(row_of[sample.rows[kept]])]
    size = sample_size(len(np.unique(sample.steps)))
    sample = gathered([sample], kept)
    # Numbering what occurs is far cheaper than sorting millions of units.
    seen = np.zeros(len(partial.strings), dtype=bool)
    seen[sample.units] = True
    numbers = (np.cumsum(seen) - 1).astype(np.int32)
    return NgramSample(
        rows=row_of[sample.rows],
        offsets=sample.offsets,
        units=numbers[sample.units],
        vocabulary=[partial.strings[i] for i in np.flatnonzero(seen).tolist()],
        per_step=size,
        unit="token" if tokens else "word",
    )
