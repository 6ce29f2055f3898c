"""What a scan of some splits comes to: self-contained, picklable, and mergeable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlreport.read.conversation import ToolCounts, add_tool
from rlreport.read.diagnostics import Diagnostics
from rlreport.read.ngrams import BigramSketch, UnitSample, bottom_k, gathered, sample_size
from rlreport.read.splits import Nodes, plant
from rlreport.read.token_totals import TokenTotals, merge_totals
from rlreport.text.vocabulary import Hashes

MOST_EXTRAS = 64
_ABSENT = {"group_hash": 0, "finish_source": 0, "bigrams": 0}

Key = TypeVar("Key")
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


ExtraParts = dict[str, list[Extra]]
"""Further scalars by name, not yet put together: the first 64 names in alphabetical order."""


def extra_of(pairs: Sequence[tuple[int, float | str]]) -> Extra:
    """Return a further scalar of these rows."""
    numbers = [(row, value) for row, value in pairs if not isinstance(value, str)]
    texts = {row: value for row, value in pairs if isinstance(value, str)}
    rows = np.array([row for row, _ in numbers], dtype=np.int64)
    return Extra(rows, np.array([value for _, value in numbers], dtype=np.float64), texts)


def add_extras(parts: ExtraParts, extras: Mapping[str, Extra], base: int) -> bool:
    """Add further scalars, whose first row becomes row ``base``; say if names were left out."""
    for name, extra in extras.items():
        texts = {base + row: text for row, text in extra.texts.items()}
        parts.setdefault(name, []).append(Extra(extra.rows + base, extra.numbers, texts))
    # A name that is not among the first 64 here cannot be among the first 64 of all.
    beyond = sorted(parts)[MOST_EXTRAS:]
    for name in beyond:
        del parts[name]
    return bool(beyond)


def joined_extras(parts: ExtraParts) -> dict[str, Extra]:
    """Put further scalars together."""
    return {
        name: Extra(
            np.concatenate([part.rows for part in own]),
            np.concatenate([part.numbers for part in own]),
            {row: text for part in own for row, text in part.texts.items()},
        )
        for name, own in sorted(parts.items())
    }


def add_counts(into: dict[Key, int], counts: Mapping[Key, int]) -> None:
    """Add numbers to those of the same key."""
    for key, count in counts.items():
        into[key] = into.get(key, 0) + count


def merge(partials: Sequence[Partial]) -> Partial:
    """Merge partials of distinct splits; they stay as they are.

    Associative and commutative but for the order of rows, which the response table's sort
    by (step, file, offset, sub) settles.
    """
    filled = [partial for partial in partials if partial.rows]
    bases = np.cumsum([0, *(partial.rows for partial in filled)]).tolist()
    out = Partial(rows=bases[-1])
    out.columns = joined_columns([partial.columns for partial in filled])
    extras: ExtraParts = {}
    sketch = BigramSketch()
    for partial, base in zip(filled, bases, strict=False):
        beyond = add_extras(extras, partial.extras, base)
        out.extras_dropped |= beyond or partial.extras_dropped
        sketch.update(partial.bigrams)
        out.reward_parts |= partial.reward_parts
        add_counts(out.fields, partial.fields)
    out.extras = joined_extras(extras)
    out.bigrams = sketch.settled()
    for partial in partials:
        out.diagnostics.update(partial.diagnostics)
        out.ends = (out.ends[0] + partial.ends[0], out.ends[1] + partial.ends[1])
        add_counts(out.failed, partial.failed)
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
    order = bottom_k(steps, priorities, sample_size(len(np.unique(steps))))
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
