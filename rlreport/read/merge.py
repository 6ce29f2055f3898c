"""Put partials together: any order, any grouping, the same result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlreport.read.bigrams import BigramSketch
from rlreport.read.columns import ExtraColumns, joined_columns
from rlreport.read.hashing import Hashes, places_in
from rlreport.read.partial import MOST_FLAWS, Partial
from rlreport.read.sample import UnitSample, chosen, concatenate, sample_size, take
from rlreport.read.token_table import merge_tables


def merge(partials: Sequence[Partial]) -> Partial:
    """Merge partials of distinct splits.

    Associative and commutative but for the order of rows, which the response table's sort
    by (step, file, offset, sub) settles. The arguments are left as they are.
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
        out.positions.update(partial.positions)
        for name, count in partial.fields.items():
            out.fields[name] = out.fields.get(name, 0) + count
    out.extras, out.extras_dropped = extras.settled()
    out.bigrams = sketch.settled()
    for partial in partials:
        out.marks.update(partial.marks)
        out.ends = (out.ends[0] + partial.ends[0], out.ends[1] + partial.ends[1])
    out.segments = sorted(segment for partial in partials for segment in partial.segments)
    out.flaws = sorted(flaw for partial in partials for flaw in partial.flaws)[:MOST_FLAWS]
    out.flaw_count = sum(partial.flaw_count for partial in partials)
    out.tokens = merge_tables([partial.tokens for partial in filled], out.steps())
    out.hashes, out.strings = _union(filled)
    out.sample = _merge_samples([p.sample for p in filled], filled, bases, out.hashes)
    out.references = _merge_samples([p.references for p in filled], filled, bases, out.hashes)
    _forget_unused(out)
    return out


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
    moved = []
    for sample, partial, base in zip(samples, partials, bases, strict=False):
        place = np.searchsorted(hashes, partial.hashes).astype(np.int32)
        units = place[sample.units] if len(place) else sample.units
        moved.append(
            UnitSample(
                sample.steps,
                sample.priorities,
                sample.rows + base,
                sample.offsets,
                units,
                sample.tokens,
            )
        )
    if not moved:
        return UnitSample()
    everything = concatenate(moved)
    size = sample_size(len(np.unique(everything.steps)))
    return take(everything, chosen(everything.steps, everything.priorities, size))


def _forget_unused(out: Partial) -> None:
    """Drop strings that neither the token table nor a sample needs any more."""
    used = np.zeros(len(out.hashes), dtype=bool)
    used[places_in(out.hashes, out.tokens.tokens)] = True
    used[out.sample.units] = True
    used[out.references.units] = True
    if used.all():
        return
    place = (np.cumsum(used) - 1).astype(np.int32)
    out.sample.units = place[out.sample.units]
    out.references.units = place[out.references.units]
    out.strings = [out.strings[i] for i in np.flatnonzero(used).tolist()]
    out.hashes = out.hashes[used]
