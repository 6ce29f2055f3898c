"""Collects the figures of batch after batch into a partial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_type_hints

import numpy as np
from numpy.typing import NDArray

from rlreport.columns import RESPONSE_COLUMNS
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.response import mismatch_by_turn, response_figures, thinking_tokens
from rlreport.options import FigureOptions
from rlreport.read.batch import Batch, RowScalars
from rlreport.read.conversation import add_tool
from rlreport.read.diagnostics import Diagnostics
from rlreport.read.ngrams import (
    LONGEST,
    LONGEST_TEXT,
    BigramSketch,
    Sampler,
    UnitRows,
    UnitSample,
    row_bigrams,
    take_rows,
    with_tokens,
    word_units,
)
from rlreport.read.partial import (
    Columns,
    ExtraParts,
    Partial,
    Segment,
    add_counts,
    add_extras,
    extra_of,
    joined_columns,
    joined_extras,
)
from rlreport.read.splits import plant
from rlreport.read.token_rows import TokenRows, token_rows
from rlreport.read.token_totals import TokenTotals, merge_totals, totals_of
from rlreport.rollout import TokenFigures
from rlreport.text.clean import safe_text
from rlreport.text.special import EOS_TOKENS
from rlreport.text.vocabulary import Hashes, Vocabulary, row_priorities

FROM_REASON, FROM_TOKEN, FROM_TEXT = 1, 2, 3
"""What tells that a response was finished; 0 where nothing does."""

_LONGEST_STRING = 200
_UNSIGNED = frozenset(column.name for column in RESPONSE_COLUMNS if column.dtype == "uint64")
_OPTIONAL = ("ref_reward", "valid_reward", "ref_valid_reward", "ref_response_chars")
_REWARDS = ("reward", "ref_reward", "valid_reward", "ref_valid_reward")
_FLOATS = frozenset(name for name, kind in get_type_hints(RowScalars).items() if kind is float)


THINKING = ("<think>", "</think>")
"""Token strings that open and close thinking, where they are tokens of their own."""

_ENDINGS = tuple(EOS_TOKENS)
_LAST_LETTERS = frozenset(token[-1] for token in EOS_TOKENS)


class Collector:
    """Measures batches and adds up what is found."""

    def __init__(
        self, vocabulary: Vocabulary, figures: FigureOptions, names: Mapping[int, int]
    ) -> None:
        """Begin; ``names`` are hashes of the files' names."""
        self._names = names
        self._vocabulary = vocabulary
        self._figures = figures
        self._columns: list[Columns] = []
        self._extras: ExtraParts = {}
        self._totals: dict[int, TokenTotals] = {}
        self._summed = np.zeros(0, dtype=bool)
        self._met = np.zeros(0, dtype=bool)
        self._bigrams = BigramSketch()
        self._sampler = Sampler()
        self._references = Sampler()
        self._out = Partial()

    @property
    def strings(self) -> int:
        """Distinct tokens and words so far; what others met in the vocabulary does not count."""
        return int(np.count_nonzero(self._met))

    @property
    def diagnostics(self) -> Diagnostics:
        """Remarks so far."""
        return self._out.diagnostics

    def add_segment(self, segment: Segment, leaf: int) -> None:
        """Add what was counted in a split, the ``leaf``-th of all."""
        self._out.segments.append(segment)
        self._totals.setdefault(leaf, TokenTotals())

    def add(self, batch: Batch, *, watched: bool = False) -> None:
        """Measure the rows of a batch, if any.

        Args:
            batch: the rows.
            watched: they are of the split that only stands beside: no sum over tokens, no
                bigram and no sample holds any of them.
        """
        if batch.rows:
            # Logged numbers may be as large as float64 holds; what overflows is infinite.
            with np.errstate(over="ignore", invalid="ignore"):
                self._add(batch, watched)

    def add_failed(self, step: int) -> None:
        """Count a rollout that failed before the policy spoke."""
        add_counts(self._out.failed, {step: 1})

    def _add(self, batch: Batch, watched: bool) -> None:
        columns = _scalars(batch)
        columns |= _figures(batch)
        columns["validation"] = np.full(len(batch.rows), watched, dtype=np.int64)
        steps = columns["step"].astype(np.int64)
        tokens = None
        laid = token_rows(batch, self._vocabulary) if batch.token_rows else None
        for number, strings in zip(batch.token_rows, batch.tokens, strict=True):
            if strings is not None:
                batch.texts[number] = None
        rows = word_units(batch.texts, self._vocabulary, None)
        for row, text in zip(batch.rows, batch.texts, strict=True):
            if text is not None and len(text) > LONGEST_TEXT:
                batch.diagnostics.add("long_text", row.position)
        if laid is not None:
            tokens = laid.sampled_only()
            figures = tokens.figures(self._figures)
            self._measure(tokens, laid, figures, columns, len(steps))
            if not watched:
                self._add_totals(batch, tokens, figures, steps)
            rows = with_tokens(rows, tokens)
        reasons = columns.pop("finish").astype(np.float64)
        told = _finished(batch, reasons, tokens, self._vocabulary)
        columns["finished"], columns["finish_source"], ends = told
        self._met = _marked(self._met, rows.ids, len(self._vocabulary))
        columns["bigrams"], columns["distinct_2"], distinct, owners = row_bigrams(
            rows.ids, rows.offsets, self._vocabulary.hashes
        )
        if not watched:
            self._bigrams.add(steps[owners], distinct, steps)
            self._sample(rows, batch, columns, steps)
        self._columns.append(columns)
        extras = {name: extra_of(pairs) for name, pairs in batch.extras.items()}
        self._out.extras_dropped |= add_extras(self._extras, extras, self._out.rows)
        self._add_up(batch, columns, ends)

    def partial(self) -> Partial:
        """Return everything; the collector is spent then."""
        out = self._out
        out.columns = joined_columns(self._columns)
        out.extras = joined_extras(self._extras)
        for leaf, totals in self._totals.items():
            plant(out.totals, (0, leaf), totals, merge_totals)
        out.bigrams = self._bigrams.settled()
        out.sample = self._sampler.settled()
        out.references = self._references.settled()
        self._name_units()
        return out

    def _measure(
        self,
        tokens: TokenRows,
        laid: TokenRows,
        figures: TokenFigures,
        columns: Columns,
        rows: int,
    ) -> None:
        """Add the columns of tokens; ``laid`` are all of them, sampled or not."""
        found = response_figures(
            figures,
            tokens.offsets,
            logged_advantage=tokens.arrays.get("advantages"),
            old_logp=tokens.arrays.get("old_logprobs"),
        )
        found |= thinking_tokens(
            tokens.ids,
            tokens.offsets,
            *(self._vocabulary.number_of(string) for string in THINKING),
        )
        if laid.sampled is not None and laid.masked is not None:
            given = np.diff(laid.offsets) - np.diff(tokens.offsets)
            found["env_tokens"] = np.where(laid.masked, given, np.nan)
            found |= mismatch_by_turn(figures, tokens.offsets, laid.sampled, laid.offsets)
            if "kl_max_position" in found:
                # Positions are those in the response as it is shown.
                found["kl_max_position"] = _places(
                    found["kl_max_position"], laid.sampled, laid.offsets, tokens.offsets
                )
        for name, values in found.items():
            column = np.full(rows, np.nan)
            column[tokens.rows] = values
            columns[name] = column
        if "rlhf_reward" in found:
            reward = columns["reward"].astype(np.float64)
            columns["non_score_reward"] = columns["rlhf_reward"].astype(np.float64) - reward
        nan_values = columns["nan_values"].astype(np.int64)
        nan_values[tokens.rows] += tokens.nan_values
        columns["nan_values"] = nan_values

    def _add_totals(
        self, batch: Batch, tokens: TokenRows, figures: TokenFigures, steps: Ints
    ) -> None:
        """Add the totals of each split's rows to those that its rows had so far."""
        hashes = self._vocabulary.hashes
        self._summed = _marked(self._summed, tokens.ids[tokens.ids >= 0], len(hashes))
        starts = [first for _, first in batch.leaves] + [len(batch.rows)]
        cuts = np.searchsorted(tokens.rows, starts)
        for (leaf, _), start, stop in zip(batch.leaves, cuts[:-1], cuts[1:], strict=True):
            first, last = tokens.offsets[start], tokens.offsets[stop]
            own = totals_of(
                steps[tokens.rows[start:stop]],
                tokens.offsets[start : stop + 1] - first,
                tokens.ids[first:last],
                figures if stop - start == len(tokens.rows) else figures.between(first, last),
                hashes,
            )
            known = self._totals.get(leaf)
            self._totals[leaf] = own if known is None else merge_totals(known, own)

    def _sample(self, rows: UnitRows, batch: Batch, columns: Columns, steps: Ints) -> None:
        # By the file's name, as its number changes when another file comes before it.
        names = np.array([self._names[row.file] for row in batch.rows], dtype=np.uint64)
        offsets, subs = (columns[name].astype(np.int64) for name in ("offset", "sub"))
        priorities = row_priorities(names, offsets, subs)
        kept = self._sampler.candidates(steps, priorities)
        self._sampler.add(
            self._unit_sample(take_rows(rows, kept, LONGEST), kept, steps, priorities)
        )
        # Words of a reference could not be compared with the tokens of a response.
        pairs = zip(batch.references, batch.texts, strict=True)
        both = [i for i, (text, own) in enumerate(pairs) if text is not None and own is not None]
        if both:
            comparable = np.array(both, dtype=np.int64)
            of_these = self._references.candidates(steps[comparable], priorities[comparable])
            kept = comparable[of_these]
            texts = [batch.references[i] for i in kept.tolist()]
            units = word_units(texts, self._vocabulary, LONGEST)
            self._met = _marked(self._met, units.ids, len(self._vocabulary))
            self._references.add(self._unit_sample(units, kept, steps, priorities))

    def _unit_sample(
        self, units: UnitRows, kept: Ints, steps: Ints, priorities: Hashes
    ) -> UnitSample:
        rows = kept + self._out.rows
        return UnitSample(
            steps[kept], priorities[kept], rows, units.offsets, units.ids, units.is_token
        )

    def _add_up(self, batch: Batch, columns: Columns, ends: tuple[int, int]) -> None:
        out = self._out
        out.rows += len(batch.rows)
        out.ends = (out.ends[0] + ends[0], out.ends[1] + ends[1])
        out.reward_parts |= batch.reward_parts
        if not columns["validation"].any():
            for (step, tool), counted in batch.tools.items():
                add_tool(out.tools, step, tool, counted)
        out.diagnostics.update(batch.diagnostics)
        counts = batch.carried()
        for name in _REWARDS:
            if name in columns:
                counts[name] = int(np.isfinite(columns[name].astype(np.float64)).sum())
        counts["group_id"] = int((columns["group_hash"] != 0).sum())
        add_counts(out.fields, {name: count for name, count in counts.items() if count})

    def _name_units(self) -> None:
        """Replace the vocabulary's numbers, which mean nothing outside this process, by hashes."""
        out, vocabulary = self._out, self._vocabulary
        hashes = vocabulary.hashes
        used = np.zeros(len(hashes), dtype=bool)
        used[: len(self._summed)] = self._summed
        used[out.sample.units] = True
        used[out.references.units] = True
        numbers = np.flatnonzero(used)
        numbers = numbers[np.argsort(hashes[numbers])]
        place = np.zeros(len(hashes), dtype=np.int32)
        place[numbers] = np.arange(len(numbers))
        out.hashes = hashes[numbers]
        out.strings = shortened([vocabulary.strings[number] for number in numbers.tolist()])
        out.sample.units = place[out.sample.units]
        out.references.units = place[out.references.units]


def _finished(
    batch: Batch, reasons: Floats, tokens: TokenRows | None, vocabulary: Vocabulary
) -> tuple[Floats, NDArray[np.int8], tuple[int, int]]:
    """Return who of a batch's rows finished.

    Returns:
        float64 (R,), 1 or 0, NaN where nothing tells; int8 (R,), what tells; EOS tokens met, and
        texts that end with one. A run without any may have had them stripped: then neither can
        tell.
    """
    finished = reasons.copy()
    source = np.where(np.isnan(reasons), 0, FROM_REASON).astype(np.int8)
    of_tokens = of_texts = 0
    if tokens is not None:
        filled = (np.diff(tokens.offsets) > 0) & tokens.named
        last = tokens.ids[tokens.offsets[1:][filled] - 1]
        rows = tokens.rows[filled]
        untold = source[rows] == 0
        finished[rows[untold]] = vocabulary.ends(last)[untold]
        source[rows[untold]] = FROM_TOKEN
        of_tokens = int(vocabulary.ends(tokens.ids).sum())
    for i, text in enumerate(batch.texts):
        if text is None or source[i]:
            continue
        stripped = text.rstrip()
        ended = stripped[-1:] in _LAST_LETTERS and stripped.endswith(_ENDINGS)
        finished[i], source[i] = ended, FROM_TEXT
        of_texts += ended
    return finished, source, (of_tokens, of_texts)


def _figures(batch: Batch) -> Columns:
    """Return the columns that turns feed, float64 (R,), NaN where a row does not."""
    columns: Columns = {}
    for name, pairs in batch.figures.items():
        column = np.full(len(batch.rows), np.nan)
        rows, values = zip(*pairs, strict=True)
        column[list(rows)] = values
        columns[name] = column
    return columns


def _places(among: Floats, sampled: NDArray[np.bool_], old: Ints, new: Ints) -> Floats:
    """Return the places in their rows of tokens that are counted among the sampled, NaN kept."""
    known = np.isfinite(among)
    where = np.flatnonzero(sampled)
    places = np.full(len(among), np.nan)
    places[known] = where[new[:-1][known] + among[known].astype(np.int64)] - old[:-1][known]
    return places


def _scalars(batch: Batch) -> Columns:
    columns: Columns = {}
    for name, values in zip(RowScalars._fields, zip(*batch.rows, strict=True), strict=True):
        if name in _FLOATS:
            column: NDArray[np.float64] = np.array(values, dtype=np.float64)
            column[np.isinf(column)] = np.nan
            if name in _OPTIONAL and np.isnan(column).all():
                continue
            columns[name] = column
        else:
            columns[name] = np.array(values, dtype=np.uint64 if name in _UNSIGNED else np.int64)
    return columns


def _marked(marks: NDArray[np.bool_], ids: NDArray[np.int32], size: int) -> NDArray[np.bool_]:
    """Return marks of so many numbers, with these set too."""
    if len(marks) < size:
        marks = np.pad(marks, (0, size - len(marks)))
    marks[ids] = True
    return marks


def shortened(strings: list[str]) -> list[str]:
    """Return what is kept of unit strings: their beginnings, safe to encode."""
    # All at once, as there are tens of thousands, and hardly ever one that needs it.
    joined = "".join(strings)
    if max(map(len, strings), default=0) <= _LONGEST_STRING and safe_text(joined) == joined:
        return strings
    return [safe_text(string[:_LONGEST_STRING]) for string in strings]
