"""Units (tokens, else words) of rows: their bigrams counted, and a sample of rows that keeps them.

Both are the same in whatever order rows come, and merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats, Ints, offsets_of, places_in_runs, row_ends
from rlreport.read.token_rows import TokenRows
from rlreport.text.units import units
from rlreport.text.vocabulary import Hashes, Ids, Vocabulary, pair_hashes

_LARGEST = np.uint64(0xFFFFFFFFFFFFFFFF)
_SKETCH_BUDGET = 1 << 19
_FEWEST_HASHES, _MOST_HASHES = 256, 16384

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


def word_units(
    texts: Sequence[str | None], vocabulary: Vocabulary, longest: int | None
) -> UnitRows:
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


def take_rows(rows: UnitRows, wanted: Ints, longest: int) -> UnitRows:
    """Return some of the rows, at most ``longest`` units of each."""
    lengths = np.minimum(np.diff(rows.offsets)[wanted], longest)
    offsets = offsets_of(lengths)
    places = np.arange(int(offsets[-1])) + np.repeat(
        rows.offsets[:-1][wanted] - offsets[:-1], lengths
    )
    return UnitRows(rows.ids[places], offsets, rows.is_token[wanted])


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


def bottom_k(steps: Ints, priorities: Hashes, size: int) -> Ints:
    """Return which of the rows are among their step's ``size`` smallest priorities, by step."""
    order = np.lexsort((priorities, steps))
    return order[places_in_runs(steps[order]) < size]


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
        order = bottom_k(steps, priorities, self.size)
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
        self._kept = gathered(samples, bottom_k(steps, priorities, self.size))
        self._new = []
        self._held = 0
        self._limits = {}
        distinct, counts = np.unique(self._kept.steps, return_counts=True)
        ends = np.cumsum(counts) - 1
        for step, count, end in zip(distinct.tolist(), counts.tolist(), ends.tolist(), strict=True):
            if count >= self.size:
                self._limits[step] = int(self._kept.priorities[end])
        return self._kept


def row_bigrams(ids: Ids, offsets: Ints, hashes: Hashes) -> tuple[Ints, Floats, Hashes, Ints]:
    """Return the bigrams of each row, the distinct share of them, and what is distinct.

    Args:
        ids: int32 (N,), numbers of the units of R rows.
        offsets: int64 (R + 1,).
        hashes: uint64, of the units by number.

    Returns:
        the number of bigrams of each row and the share of distinct ones (NaN without any),
        (R,); the distinct hashes, in any order, and the row of each.
    """
    units = hashes[ids]
    inside = np.ones(len(units), dtype=bool)
    inside[row_ends(offsets)] = False
    pairs = pair_hashes(units[:-1], units[1:])[inside[:-1]]
    pair_offsets = offsets_of(np.maximum(np.diff(offsets) - 1, 0))
    return np.diff(pair_offsets), *_distinct_by_row(pairs, pair_offsets)


def _distinct_by_row(pairs: Hashes, offsets: Ints) -> tuple[Floats, Hashes, Ints]:
    """Return distinct / all of each row (NaN without any), the distinct hashes, and their rows."""
    lengths = np.diff(offsets)
    distinct = np.zeros(len(lengths), dtype=np.int64)
    kept: list[Hashes] = []
    owners: list[Ints] = []
    # Rows of like length are padded to one width and sorted side by side: a power of two, or
    # three quarters of one, so that little is wasted.
    widths = 1 << np.ceil(np.log2(np.maximum(lengths, 1))).astype(np.int64)
    widths -= np.where(4 * lengths <= 3 * widths, widths // 4, 0)
    widths[lengths == 0] = 0
    for width in sorted(set(widths[widths > 0].tolist())):
        rows = np.flatnonzero(widths == width)
        grid = np.full((len(rows), width), _LARGEST, dtype=np.uint64)
        filled = np.arange(width) < lengths[rows][:, None]
        if len(rows) == len(lengths):
            grid[filled] = pairs
        else:
            places = offsets[rows][:, None] + np.arange(width)
            grid[filled] = pairs[places[filled]]
        grid.sort(axis=1)
        fresh = np.ones(grid.shape, dtype=bool)
        np.not_equal(grid[:, 1:], grid[:, :-1], out=fresh[:, 1:])
        fresh &= grid != _LARGEST
        distinct[rows] = fresh.sum(axis=1)
        kept.append(grid[fresh])
        owners.append(np.repeat(rows, distinct[rows]))
    share = np.where(lengths > 0, distinct / np.maximum(lengths, 1), np.nan)
    if not kept:
        return share, np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    return share, np.concatenate(kept), np.concatenate(owners)


class BigramSketch:
    """The k smallest distinct bigram hashes of every step.

    With up to k distinct bigrams in a step their number is exact; beyond, the k-th smallest
    of hashes spread evenly tells how many there must be (k minimum values; Bar-Yossef et al.
    2002), within about 1/sqrt(k). k depends on the number of steps only, and never grows
    with it, so merging is associative.
    """

    def __init__(self) -> None:
        self.by_step: dict[int, Hashes] = {}
        self._pending: dict[int, list[Hashes]] = {}
        self._held: dict[int, int] = {}

    def add(self, steps: Ints, hashes: Hashes, present: Ints) -> None:
        """Add hashes, uint64 (M,), with the step of each, int64 (M,).

        ``present`` are the steps of all rows: one may have no bigram.
        """
        for step in set(present.tolist()):
            if step not in self.by_step:
                self.by_step[step] = np.zeros(0, dtype=np.uint64)
        if not len(steps):
            return
        # Rows of a step mostly lie together: take runs rather than sort.
        starts = np.flatnonzero(np.diff(steps, prepend=steps[0] - 1))
        stops = np.append(starts[1:], len(steps))
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            self._add(int(steps[start]), hashes[start:stop])
        size = self.size
        for step, held in list(self._held.items()):
            if held > 4 * size:
                self._settle(step, size)

    def _add(self, step: int, hashes: Hashes) -> None:
        known = self.by_step.get(step)
        if known is not None and len(known) >= self.size:
            hashes = hashes[hashes < known[self.size - 1]]
        if len(hashes):
            self._pending.setdefault(step, []).append(hashes)
            self._held[step] = self._held.get(step, 0) + len(hashes)

    def _settle(self, step: int, size: int) -> None:
        parts = self._pending.pop(step, [])
        self._held.pop(step, None)
        everything = np.concatenate([self.by_step[step], *parts])
        wanted = 1.5 * size
        while 2 * wanted < len(everything):
            # Hashes are spread evenly, so the smallest lie below a bound that can be told;
            # only if most of them are equal there are too few.
            bound = np.uint64(wanted / len(everything) * 2.0**64)
            smallest = _distinct(everything[everything < bound])
            if len(smallest) >= size:
                self.by_step[step] = smallest[:size].copy()
                return
            wanted *= 2
        self.by_step[step] = _distinct(everything)[:size].copy()

    @property
    def size(self) -> int:
        """Hashes kept per step."""
        return self.size_for(len(self.by_step))

    @staticmethod
    def size_for(steps: int) -> int:
        """Return how many hashes per step are kept in a run of so many steps."""
        # A power of two: of a run that grows, the figures of earlier steps stay as they are.
        share = 1 << max(1, _SKETCH_BUDGET // max(1, steps)).bit_length() - 1
        return min(_MOST_HASHES, max(_FEWEST_HASHES, share))

    def settled(self) -> dict[int, Hashes]:
        """Return step -> its k smallest hashes, ascending."""
        size = self.size
        for step in list(self._pending):
            self._settle(step, size)
        # A step of few additions may still hold more than is kept now that there are more steps.
        for step, held in self.by_step.items():
            if len(held) > size:
                self.by_step[step] = held[:size].copy()
        return self.by_step

    def update(self, other: dict[int, Hashes]) -> None:
        """Add another sketch's settled hashes."""
        for step in other:
            self.by_step.setdefault(step, np.zeros(0, dtype=np.uint64))
        for step, hashes in other.items():
            self._add(step, hashes)

    @staticmethod
    def estimate(hashes: Hashes, size: int) -> float:
        """Return the number of distinct bigrams that the k smallest hashes stand for."""
        if len(hashes) < size:
            return float(len(hashes))
        return (size - 1) / (float(hashes[size - 1]) / 2.0**64)


def _distinct(hashes: Hashes) -> Hashes:
    """Return the distinct hashes, ascending."""
    ordered = np.sort(hashes)
    fresh = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    return ordered[fresh]
