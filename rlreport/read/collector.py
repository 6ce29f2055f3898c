"""Collects the figures of batch after batch into a partial."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.ragged import Ints
from rlreport.memory import give_back
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.batch import Batch, Row, carried
from rlreport.read.bigrams import BigramSketch, row_bigrams
from rlreport.read.columns import Columns, ExtraColumns, joined_columns
from rlreport.read.finish import Finish
from rlreport.read.hashing import Hashes, row_priorities
from rlreport.read.marks import Flaw
from rlreport.read.measure import PerToken, response_figures
from rlreport.read.partial import MOST_FLAWS, Partial, Segment
from rlreport.read.sample import LONGEST, Sampler, UnitSample
from rlreport.read.token_rows import TokenRows, token_rows
from rlreport.read.token_sums import TokenSums
from rlreport.read.unit_rows import UnitRows, some, with_tokens, words
from rlreport.read.vocabulary import Vocabulary
from rlreport.text.clean import safe_text

_LONGEST_STRING = 200
_UNSIGNED = ("prompt_hash", "group_hash", "response_hash")
_OPTIONAL = ("ref_reward", "valid_reward", "ref_valid_reward", "ref_response_chars")
_REWARDS = ("reward", "ref_reward", "valid_reward", "ref_valid_reward")
_FLOATS = ("reward", "finish", *_OPTIONAL)


class Collector:
    """Measures batches and adds up what is found."""

    def __init__(self, options: ReadOptions, figures: FigureOptions) -> None:
        self.vocabulary = Vocabulary(options.pad_tokens)
        self._figures = figures
        self._columns: list[Columns] = []
        self._extras = ExtraColumns()
        self._tokens = TokenSums()
        self._bigrams = BigramSketch()
        self._sampler = Sampler()
        self._references = Sampler()
        self._out = Partial()

    @property
    def rows(self) -> int:
        """Rows so far."""
        return self._out.rows

    @property
    def flaws(self) -> int:
        """Flaws so far."""
        return self._out.flaw_count

    def add_flaw(self, flaw: Flaw) -> None:
        """Add a line that could not be used."""
        out = self._out
        out.flaw_count += 1
        out.flaws.append(flaw)
        if len(out.flaws) >= 2 * MOST_FLAWS:
            out.flaws = sorted(out.flaws)[:MOST_FLAWS]

    def add_segment(self, segment: Segment) -> None:
        """Add what was counted in a split."""
        self._out.segments.append(segment)

    def add(self, batch: Batch, file: int) -> None:
        """Measure the rows of a batch, if any, that come from one file."""
        if batch.rows:
            # Logged numbers may be as large as float64 holds; what overflows is infinite.
            with np.errstate(over="ignore", invalid="ignore"):
                self._add(batch, file)

    def _add(self, batch: Batch, file: int) -> None:
        columns = _scalars(batch)
        columns["file"] = np.full(len(batch.rows), file, dtype=np.int64)
        steps = columns["step"].astype(np.int64)
        finish = Finish(columns.pop("finish").astype(np.float64))
        rows = words(batch.texts, self.vocabulary, None)
        if batch.has_tokens:
            tokens = token_rows(batch, file, self.vocabulary)
            self._measure(tokens, columns, steps)
            finish.look_at_tokens(tokens, self.vocabulary)
            rows = with_tokens(rows, tokens)
        finish.look_at_texts(batch)
        columns["finished"], columns["finish_source"] = finish.finished, finish.source
        self._count_bigrams(rows, columns, steps)
        self._sample(rows, batch, columns, steps)
        self._columns.append(columns)
        self._extras.add(batch, self._out.rows)
        self._add_up(batch, columns, finish)

    def partial(self) -> Partial:
        """Return everything; the collector is spent then."""
        out = self._out
        out.columns = joined_columns(self._columns)
        out.extras, out.extras_dropped = self._extras.settled()
        out.tokens, tokens = self._tokens.table(self.vocabulary.hashes)
        give_back()
        out.bigrams = self._bigrams.settled()
        out.sample = self._sampler.settled()
        out.references = self._references.settled()
        out.flaws = sorted(out.flaws)[:MOST_FLAWS]
        _name_units(out, self.vocabulary, tokens)
        return out

    def _measure(self, tokens: TokenRows, columns: Columns, steps: Ints) -> None:
        found, figures = response_figures(tokens, self._figures)
        for name, values in found.items():
            column = np.full(len(steps), np.nan)
            column[tokens.rows] = values
            columns[name] = column
        if "rlhf_reward" in found:
            reward = columns["reward"].astype(np.float64)
            columns["non_score_reward"] = columns["rlhf_reward"].astype(np.float64) - reward
        nan_values = columns["nan_values"].astype(np.int64)
        nan_values[tokens.rows] += tokens.nan_values
        columns["nan_values"] = nan_values
        if figures.value is not None and figures.return_ is not None:
            self._out.positions.add(tokens.offsets, figures.value, figures.return_)
        self._sum_tokens(tokens, figures, steps)

    def _sum_tokens(self, tokens: TokenRows, figures: PerToken, steps: Ints) -> None:
        lengths, ids, rows = np.diff(tokens.offsets), tokens.ids, tokens.rows
        if not tokens.named.all():
            figures = figures.where(ids >= 0)
            ids, lengths, rows = ids[ids >= 0], lengths[tokens.named], rows[tokens.named]
        if len(ids):
            self._tokens.add(steps[rows], lengths, ids, figures, len(self.vocabulary))

    def _count_bigrams(self, rows: UnitRows, columns: Columns, steps: Ints) -> None:
        columns["bigrams"], columns["distinct_2"], distinct, owners = row_bigrams(
            rows.ids, rows.offsets, self.vocabulary.hashes
        )
        self._bigrams.add(steps[owners], distinct, steps)

    def _sample(self, rows: UnitRows, batch: Batch, columns: Columns, steps: Ints) -> None:
        places = (columns[name].astype(np.int64) for name in ("file", "offset", "sub"))
        priorities = row_priorities(*places)
        kept = self._sampler.candidates(steps, priorities)
        self._sampler.add(self._unit_sample(some(rows, kept, LONGEST), kept, steps, priorities))
        # Words of a reference could not be compared with the tokens of a response.
        pairs = zip(batch.references, batch.texts, strict=True)
        both = [i for i, (text, own) in enumerate(pairs) if text is not None and own is not None]
        if both:
            comparable = np.array(both, dtype=np.int64)
            of_these = self._references.candidates(steps[comparable], priorities[comparable])
            kept = comparable[of_these]
            texts = [batch.references[i] for i in kept.tolist()]
            units = words(texts, self.vocabulary, LONGEST)
            self._references.add(self._unit_sample(units, kept, steps, priorities))

    def _unit_sample(
        self, units: UnitRows, kept: Ints, steps: Ints, priorities: Hashes
    ) -> UnitSample:
        rows = kept + self._out.rows
        return UnitSample(
            steps[kept], priorities[kept], rows, units.offsets, units.ids, units.is_token
        )

    def _add_up(self, batch: Batch, columns: Columns, finish: Finish) -> None:
        out = self._out
        out.rows += len(batch.rows)
        out.ends = (out.ends[0] + finish.ends[0], out.ends[1] + finish.ends[1])
        out.reward_parts |= batch.reward_parts
        out.marks.update(batch.marks)
        counts = carried(batch)
        for name in _REWARDS:
            if name in columns:
                counts[name] = int(np.isfinite(columns[name].astype(np.float64)).sum())
        counts["group_id"] = int((columns["group_hash"] != 0).sum())
        for name, count in counts.items():
            if count:
                out.fields[name] = out.fields.get(name, 0) + count


def _scalars(batch: Batch) -> Columns:
    columns: Columns = {}
    for name, values in zip(Row._fields, zip(*batch.rows, strict=True), strict=True):
        if name in _FLOATS:
            column: NDArray[np.float64] = np.array(values, dtype=np.float64)
            column[np.isinf(column)] = np.nan
            if name in _OPTIONAL and np.isnan(column).all():
                continue
            columns[name] = column
        else:
            columns[name] = np.array(values, dtype=np.uint64 if name in _UNSIGNED else np.int64)
    return columns


def _name_units(out: Partial, vocabulary: Vocabulary, tokens: Ints) -> None:
    """Replace the vocabulary's numbers, which mean nothing outside this process, by hashes."""
    hashes = vocabulary.hashes
    used = np.zeros(len(hashes), dtype=bool)
    used[out.sample.units] = True
    used[out.references.units] = True
    used[tokens] = True
    numbers = np.flatnonzero(used)
    numbers = numbers[np.argsort(hashes[numbers])]
    place = np.zeros(len(hashes), dtype=np.int32)
    place[numbers] = np.arange(len(numbers))
    out.hashes = hashes[numbers]
    out.strings = kept([vocabulary.strings[number] for number in numbers.tolist()])
    out.sample.units = place[out.sample.units]
    out.references.units = place[out.references.units]


def kept(strings: list[str]) -> list[str]:
    """Return what is kept of unit strings: their beginnings, safe to encode."""
    # All at once, as there are tens of thousands, and hardly ever one that needs it.
    joined = "".join(strings)
    if max(map(len, strings), default=0) <= _LONGEST_STRING and safe_text(joined) == joined:
        return strings
    return [safe_text(string[:_LONGEST_STRING]) for string in strings]
