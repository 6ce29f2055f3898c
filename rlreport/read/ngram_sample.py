"""The units (tokens, else words) of rows, and a sample of rows per step whose units are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.ragged import Ints, offsets_of
from rlreport.read.hashing import Hashes
from rlreport.read.token_rows import TokenRows
from rlreport.read.vocabulary import Ids, Vocabulary
from rlreport.text.units import units

BUDGET = 8192
FEWEST, MOST = 4, 512
_MOST_HELD = 1 << 22
LONGEST = 2048
"""Units kept of one response."""

LONGEST_TEXT = 1 << 22
"""Characters of a text whose words are counted."""


def sample_size(steps: int) -> int:
    """Return how many responses a step are kept in a run of so many steps."""
    return min(MOST, max(FEWEST, BUDGET // max(1, steps)))


@dataclass(slots=True)
class UnitRows:
    """Units of R rows, U in all.

    Attributes:
        ids: int32 (U,), numbers in the vocabulary.
        offsets: int64 (R + 1,).
        is_token: bool (R,): the row's units are tokens.
    """

    ids: Ids
    offsets: Ints
    is_token: NDArray[np.bool_]


def words(texts: Sequence[str | None], vocabulary: Vocabulary, longest: int | None) -> UnitRows:
    """Number the words of texts, at most ``longest`` of each; None has none.

    Of a text only the first LONGEST_TEXT characters count: its words are held at once.
    """
    lists = [units(text[:LONGEST_TEXT])[:longest] if text else [] for text in texts]
    lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    ids = vocabulary.numbers([unit for row in lists for unit in row])
    return UnitRows(ids, offsets_of(lengths), np.zeros(len(lists), dtype=bool))


def with_tokens(rows: UnitRows, tokens: TokenRows) -> UnitRows:
    """Put the tokens of the rows that have them where their words would be."""
    lengths = np.diff(tokens.offsets)
    if len(tokens.rows) == len(rows.is_token) and tokens.named.all():
        return UnitRows(tokens.ids, tokens.offsets, np.ones(len(lengths), dtype=bool))
    sizes = np.diff(rows.offsets)
    is_token = rows.is_token.copy()
    is_token[tokens.rows[tokens.named]] = True
    own = np.repeat(~is_token, sizes)
    sizes[tokens.rows[tokens.named]] = lengths[tokens.named]
    offsets = offsets_of(sizes)
    ids = np.zeros(int(offsets[-1]), dtype=np.int32)
    inside = np.repeat(is_token, sizes)
    ids[inside] = tokens.ids[np.repeat(tokens.named, lengths)]
    ids[~inside] = rows.ids[own]
    return UnitRows(ids, offsets, is_token)


def some(rows: UnitRows, chosen: Ints, longest: int) -> UnitRows:
    """Return some of the rows, at most ``longest`` units of each."""
    lengths = np.minimum(np.diff(rows.offsets)[chosen], longest)
    offsets = offsets_of(lengths)
    places = np.arange(int(offsets[-1])) + np.repeat(
        rows.offsets[:-1][chosen] - offsets[:-1], lengths
    )
    return UnitRows(rows.ids[places], offsets, rows.is_token[chosen])


@dataclass(slots=True)
class UnitSample:
    """The responses of each step with the smallest priorities, with their units.

    Attributes:
        steps: int64 (S,).
        priorities: uint64 (S,), see ``row_priorities``.
        rows: int64 (S,), rows of the partial.
        offsets: int64 (S + 1,), into units.
        units: int32 (U,), numbers of the unit strings.
        tokens: bool (S,): the units are tokens, else words.
    """

    steps: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    priorities: Hashes = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    rows: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    offsets: Ints = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    units: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    tokens: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))


def chosen(steps: Ints, priorities: Hashes, size: int) -> Ints:
    """Return which of the rows are among their step's ``size`` smallest priorities, by step."""
    order = np.lexsort((priorities, steps))
    ordered = steps[order]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(fresh)
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return order[rank < size]


def gathered(
    samples: Sequence[UnitSample],
    order: Ints,
    numbers: Sequence[NDArray[np.int32] | None] | None = None,
) -> UnitSample:
    """Return some responses of samples that stand one after the other.

    The units, by far the largest part, are copied once.

    Args:
        samples: the samples; their rows are numbered alike.
        order: which of all their responses, and in what order.
        numbers: for each sample what to call its units instead, int32, by their numbers.
    """
    numbers = numbers or [None] * len(samples)
    lengths = np.concatenate([np.diff(sample.offsets) for sample in samples])[order]
    offsets = offsets_of(lengths)
    units = np.empty(int(offsets[-1]), dtype=np.int32)
    bases = np.cumsum([0, *(len(sample.steps) for sample in samples)])
    owners = np.searchsorted(bases, order, side="right") - 1
    # Slices of some hundred units are copied much faster than single units are picked.
    places = zip(owners.tolist(), (order - bases[owners]).tolist(), strict=True)
    for i, (owner, place) in enumerate(places):
        sample, called = samples[owner], numbers[owner]
        own = sample.units[sample.offsets[place] : sample.offsets[place + 1]]
        units[offsets[i] : offsets[i + 1]] = own if called is None else called[own]
    return UnitSample(
        np.concatenate([sample.steps for sample in samples])[order],
        np.concatenate([sample.priorities for sample in samples])[order],
        np.concatenate([sample.rows for sample in samples])[order],
        offsets,
        units,
        np.concatenate([sample.tokens for sample in samples])[order],
    )


class Sampler:
    """Collects a sample batch by batch."""

    def __init__(self) -> None:
        self._kept = UnitSample()
        self._new: list[UnitSample] = []
        self._held = 0
        self._limits: dict[int, int] = {}
        self._steps: set[int] = set()

    def candidates(self, steps: Ints, priorities: Hashes) -> Ints:
        """Return which rows of a batch may belong to the sample."""
        self._steps.update(steps.tolist())
        order = chosen(steps, priorities, self.size)
        if not self._limits:
            return np.sort(order)
        limits = np.array(
            [self._limits.get(step, 1 << 64) - 1 for step in steps[order].tolist()],
            dtype=np.uint64,
        )
        return np.sort(order[priorities[order] <= limits])

    @property
    def size(self) -> int:
        """Responses kept per step."""
        return sample_size(len(self._steps))

    def add(self, sample: UnitSample) -> None:
        """Add candidates with their units."""
        self._new.append(sample)
        self._held += len(sample.units)
        if self._held > max(_MOST_HELD, len(self._kept.units)):
            self.settled()

    def settled(self) -> UnitSample:
        """Return the sample of all that was added."""
        samples = [self._kept, *self._new]
        steps = np.concatenate([sample.steps for sample in samples])
        priorities = np.concatenate([sample.priorities for sample in samples])
        self._kept = gathered(samples, chosen(steps, priorities, self.size))
        self._new = []
        self._held = 0
        self._limits = {}
        distinct, counts = np.unique(self._kept.steps, return_counts=True)
        ends = np.cumsum(counts) - 1
        for step, count, end in zip(distinct.tolist(), counts.tolist(), ends.tolist(), strict=True):
            if count >= self.size:
                self._limits[step] = int(self._kept.priorities[end])
        return self._kept
