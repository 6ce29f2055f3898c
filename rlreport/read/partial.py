"""What a scan of some splits comes to: self-contained, picklable, and mergeable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.read.batch import Batch
from rlreport.read.conversation import ToolCounts, add_tool
from rlreport.read.diagnostics import Diagnostics
from rlreport.read.ngrams import BigramSketch, UnitSample, chosen, gathered, sample_size
from rlreport.read.splits import Nodes, plant
from rlreport.read.token_totals import TokenTotals, merge_totals
from rlreport.text.vocabulary import Hashes

MOST_EXTRAS = 64
_ABSENT = {"group_hash": 0, "finish_source": 0, "bigrams": 0}

Columns = dict[str, NDArray[np.generic]]


def joined_columns(parts: Sequence[Columns]) -> Columns:
    """Put columns one after the other; rows that lack one hold NaN (0 for a few)."""
    lengths = [len(part["step"]) for part in parts]
    joined: Columns = {}
    for name in sorted({name for part in parts for name in part}):
        kind = next(part[name].dtype for part in parts if name in part)
        joined[name] = np.concatenate(
            [
                part[name]
                if name in part
                else np.full(length, _ABSENT.get(name, np.nan), dtype=kind)
                for part, length in zip(parts, lengths, strict=True)
            ]
        )
    return joined


@dataclass(slots=True)
class Extra:
    """A further scalar of some rows.

    Attributes:
        rows, numbers: int64 and float64 (K,), rows that hold a number, and the number.
        texts: row -> text.
    """

    rows: NDArray[np.int64]
    numbers: NDArray[np.float64]
    texts: dict[int, str] = field(default_factory=dict)


class Segment(NamedTuple):
    """Lines counted in a split; ``stop`` is -1 where the split runs to the end of its file."""

    file: int
    start: int
    stop: int
    lines: int
    filled: int
    rows: int
    unread: int


@dataclass(slots=True)
class Partial:
    """Everything that a scan found out.

    Attributes:
        rows: number of responses R.
        columns: name -> array (R,): those of the response table, and ``prompt_hash``,
            ``group_hash`` (uint64), ``bigrams`` and ``finish_source``. A column that no row
            could feed is left out.
        extras: further scalars, at most 64: the first names in alphabetical order.
        reward_parts: names of extras that are parts of the reward.
        segments: lines counted per split.
        diagnostics: lines that could not be used, and what was repaired or odd.
        fields: canonical field -> rows that carried it.
        totals: sums over tokens, at their place in the tree of all splits.
        bigrams: step -> smallest bigram hashes.
        sample, references: units of sampled responses, and of reference responses.
        hashes: uint64, of every unit string in ``totals`` and the samples, ascending; the
            samples' units are indices into it.
        strings: those strings.
        extras_dropped: names beyond the 64th were left out.
        ends: EOS tokens met, and texts that end with one.
        failed: step -> rollouts that failed before the policy spoke.
        tools: (step, tool) -> its answers, and how many were errors.
    """

    rows: int = 0
    columns: Columns = field(default_factory=dict)
    extras: dict[str, Extra] = field(default_factory=dict)
    extras_dropped: bool = False
    reward_parts: set[str] = field(default_factory=set)
    segments: list[Segment] = field(default_factory=list)
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    fields: dict[str, int] = field(default_factory=dict)
    totals: Nodes[TokenTotals] = field(default_factory=dict)
    bigrams: dict[int, Hashes] = field(default_factory=dict)
    sample: UnitSample = field(default_factory=UnitSample)
    references: UnitSample = field(default_factory=UnitSample)
    hashes: Hashes = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    strings: list[str] = field(default_factory=list)
    ends: tuple[int, int] = (0, 0)
    failed: dict[int, int] = field(default_factory=dict)
    tools: ToolCounts = field(default_factory=dict)


class ExtraColumns:
    """Collects further scalars: the first 64 names in alphabetical order."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Extra]] = {}
        self._dropped = False

    def add(self, batch: Batch, base: int) -> None:
        """Add the extras of a batch whose first row is row ``base``."""
        for name, pairs in batch.extras.items():
            numbers = [(base + row, value) for row, value in pairs if not isinstance(value, str)]
            texts = {base + row: value for row, value in pairs if isinstance(value, str)}
            self._add(name, _extra(numbers, texts))
        self._trim()

    def update(self, extras: dict[str, Extra], base: int, *, dropped: bool) -> None:
        """Add the extras of a partial whose first row becomes row ``base``."""
        for name, extra in extras.items():
            texts = {base + row: text for row, text in extra.texts.items()}
            self._add(name, Extra(extra.rows + base, extra.numbers, texts))
        self._dropped = self._dropped or dropped
        self._trim()

    def settled(self) -> tuple[dict[str, Extra], bool]:
        """Return the extras by name, and whether names were left out."""
        result: dict[str, Extra] = {}
        for name in sorted(self._parts):
            parts = self._parts[name]
            texts: dict[int, str] = {}
            for part in parts:
                texts.update(part.texts)
            result[name] = Extra(
                np.concatenate([part.rows for part in parts]),
                np.concatenate([part.numbers for part in parts]),
                texts,
            )
        return result, self._dropped

    def _add(self, name: str, extra: Extra) -> None:
        self._parts.setdefault(name, []).append(extra)

    def _trim(self) -> None:
        # A name that is not among the first 64 here cannot be among the first 64 of all.
        for name in sorted(self._parts)[MOST_EXTRAS:]:
            del self._parts[name]
            self._dropped = True


def merge(partials: Sequence[Partial]) -> Partial:
    """Merge partials of distinct splits; they stay as they are.

    Associative and commutative but for the order of rows, which the response table's sort
    by (step, file, offset, sub) settles.
    """
    filled = [partial for partial in partials if partial.rows]
    bases = np.cumsum([0, *(partial.rows for partial in filled)]).tolist()
    out = Partial(rows=bases[-1])
    if filled:
        out.columns = joined_columns([partial.columns for partial in filled])
    extras = ExtraColumns()
    sketch = BigramSketch()
    for partial, base in zip(filled, bases, strict=False):
        extras.update(partial.extras, base, dropped=partial.extras_dropped)
        sketch.update(partial.bigrams)
        out.reward_parts |= partial.reward_parts
        for name, count in partial.fields.items():
            out.fields[name] = out.fields.get(name, 0) + count
    out.extras, out.extras_dropped = extras.settled()
    out.bigrams = sketch.settled()
    for partial in partials:
        out.diagnostics.update(partial.diagnostics)
        out.ends = (out.ends[0] + partial.ends[0], out.ends[1] + partial.ends[1])
        for step, failed in partial.failed.items():
            out.failed[step] = out.failed.get(step, 0) + failed
        for (step, tool), counts in partial.tools.items():
            add_tool(out.tools, step, tool, counts)
        for place, totals in partial.totals.items():
            plant(out.totals, place, totals, merge_totals)
    out.segments = sorted(segment for partial in partials for segment in partial.segments)
    out.hashes, out.strings = _union(filled)
    out.sample = _merge_samples([p.sample for p in filled], filled, bases, out.hashes)
    out.references = _merge_samples([p.references for p in filled], filled, bases, out.hashes)
    _forget_unused(out)
    return out


def merge_pair(left: Partial, right: Partial) -> Partial:
    """Merge two partials."""
    return merge([left, right])


def _union(partials: Sequence[Partial]) -> tuple[Hashes, list[str]]:
    if not partials:
        return np.zeros(0, dtype=np.uint64), []
    hashes, first = np.unique(
        np.concatenate([partial.hashes for partial in partials]), return_index=True
    )
    strings = [string for partial in partials for string in partial.strings]
    return hashes, [strings[i] for i in first.tolist()]


def _merge_samples(
    samples: Sequence[UnitSample], partials: Sequence[Partial], bases: list[int], hashes: Hashes
) -> UnitSample:
    if not samples:
        return UnitSample()
    steps = np.concatenate([sample.steps for sample in samples])
    priorities = np.concatenate([sample.priorities for sample in samples])
    order = chosen(steps, priorities, sample_size(len(np.unique(steps))))
    moved = [replace(s, rows=s.rows + base) for s, base in zip(samples, bases, strict=False)]
    numbers = [np.searchsorted(hashes, p.hashes).astype(np.int32) for p in partials]
    return gathered(moved, order, numbers)


def _forget_unused(out: Partial) -> None:
    """Drop strings that neither the token table nor a sample needs any more."""
    used = np.zeros(len(out.hashes), dtype=bool)
    for totals in out.totals.values():
        used[np.searchsorted(out.hashes, totals.tokens)] = True
    used[out.sample.units] = True
    used[out.references.units] = True
    if used.all():
        return
    place = (np.cumsum(used) - 1).astype(np.int32)
    out.sample.units = place[out.sample.units]
    out.references.units = place[out.references.units]
    out.strings = [out.strings[i] for i in np.flatnonzero(used).tolist()]
    out.hashes = out.hashes[used]


def _extra(numbers: list[tuple[int, float]], texts: dict[int, str]) -> Extra:
    rows = np.array([row for row, _ in numbers], dtype=np.int64)
    return Extra(rows, np.array([value for _, value in numbers], dtype=np.float64), texts)
