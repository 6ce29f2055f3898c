"""Put partials together: any order, any grouping, the same result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rlreport.read.bigrams import BigramSketch
from rlreport.read.columns import ExtraColumns, joined_columns
from rlreport.read.hashing import Hashes
from rlreport.read.partial import MOST_FLAWS, Partial
from rlreport.read.sample import UnitSample, chosen, gathered, sample_size
from rlreport.read.token_table import merge_tables


def merge(partials: Sequence[Partial], *, spend: bool = False) -> Partial:
    """Merge partials of distinct splits.

    Associative and commutative but for the order of rows, which the response table's sort
    by (step, file, offset, sub) settles.

    Args:
        partials: any number.
        spend: let go of their largest parts as they are merged; else they stay as they are.
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
    out.hashes, out.strings = _union(filled)
    tables = [partial.tokens for partial in filled]
    out.tokens = merge_tables(tables, out.steps(), len(out.strings), spend=spend)
    out.sample = _merge_samples([p.sample for p in filled], filled, bases, out.hashes)
    out.references = _merge_samples([p.references for p in filled], filled, bases, out.hashes)
    if spend:
        for partial in filled:
            partial.sample, partial.references = UnitSample(), UnitSample()
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
    used[np.searchsorted(out.hashes, out.tokens.tokens)] = True
    used[out.sample.units] = True
    used[out.references.units] = True
    if used.all():
        return
    place = (np.cumsum(used) - 1).astype(np.int32)
    out.sample.units = place[out.sample.units]
    out.references.units = place[out.references.units]
    out.strings = [out.strings[i] for i in np.flatnonzero(used).tolist()]
    out.hashes = out.hashes[used]
