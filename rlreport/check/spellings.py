"""Every way in which tokens spell a text: whoever holds it in one of them holds it.

An emoji is often three tokens or four, with a blank in its first one or without. Words are left
out: without its blank a word's token may stand inside another word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rlreport.check.ngram_counts import Sample, log_odds_z, occurrences, sample_of
from rlreport.check.reward_hacking_token import RewardHackingToken
from rlreport.check.run import Run
from rlreport.check.spreading_text import SpreadingText
from rlreport.figures.ragged import Ints
from rlreport.tables import TextSample
from rlreport.text.tokens import Style, token_bytes
from rlreport.text.units import is_unspaced

LONGEST = 8
"""Tokens of a spelling at most."""

MOST = 64
"""Spellings of a text at most."""

MOST_TEXT = 96
"""Bytes of a text whose spellings are looked for, at most."""

Spelling = tuple[int, ...]


def united(
    run: Run,
    ngrams: TextSample,
    style: Style,
    texts: Sequence[tuple[SpreadingText, Sample]],
) -> list[SpreadingText]:
    """Count texts of signs and of scripts without blanks in all their spellings.

    Each comes with the responses that its start is told from; those that do not spread when all
    their spellings are counted are left out.
    """
    limits = run.limits[RewardHackingToken]
    spellings = _spellings({t.words for t, _ in texts if _free(t.words)}, ngrams, style)
    sample, ending = sample_of(run.tables, ngrams), sample_of(run.tables, ngrams, run.last)
    told: dict[str, SpreadingText] = {}
    for text, base in texts:
        own = spellings.get(text.words, [])
        if text.words in told or len(own) < 2:
            told.setdefault(text.words, text)
            continue
        size = len(ngrams.vocabulary)
        counts, position = _counted(sample, own, size)
        after, before = ((_counted(of, own, size)[0] > 0).sum() for of in (ending, base))
        z = log_odds_z(
            np.array([float(after)]), len(ending.rows), np.array([float(before)]), len(base.rows)
        )
        share, start = after / len(ending.rows), before / len(base.rows)
        if share >= limits.ratio * start * (1 - 1e-9) and z[0] >= limits.z:
            told[text.words] = replace(
                text,
                before=float(start),
                after=float(share),
                z=float(z[0]),
                counts=counts,
                position=position,
            )
    return list(told.values())


def _free(words: str) -> bool:
    """Say whether a text needs no blank or sign beside it to be itself."""
    return not any(ch.isalnum() and not is_unspaced(ch) for ch in (words[0], words[-1]))


def _spellings(wanted: set[str], ngrams: TextSample, style: Style) -> dict[str, list[Spelling]]:
    """Return the sequences of units that read as each text; blanks around it do not count."""
    found: dict[str, list[Spelling]] = {}
    targets = {text.encode("utf-8", "replace"): text for text in wanted}
    targets = {target: text for target, text in targets.items() if len(target) <= MOST_TEXT}
    if not targets:
        return found
    starts: dict[bytes, list[int]] = {}
    pieces: dict[bytes, list[int]] = {}
    ends: dict[bytes, list[int]] = {}
    whole: dict[bytes, list[int]] = {}
    for unit, raw in enumerate(ngrams.vocabulary):
        own = token_bytes(raw, style)
        if own and own.strip():
            pieces.setdefault(own, []).append(unit)
            starts.setdefault(own.lstrip(), []).append(unit)
            ends.setdefault(own.rstrip(), []).append(unit)
            whole.setdefault(own.strip(), []).append(unit)
    for target, text in targets.items():
        spelt: list[Spelling] = [(unit,) for unit in whole.get(target, ())]
        open_: list[tuple[Spelling, int]] = [
            ((unit,), stop)
            for stop in range(1, len(target))
            for unit in starts.get(target[:stop], ())
        ]
        while open_ and len(spelt) < MOST:
            so_far, at = open_.pop()
            spelt += [(*so_far, unit) for unit in ends.get(target[at:], ())]
            if len(so_far) + 2 <= LONGEST:
                open_ += [
                    ((*so_far, unit), stop)
                    for stop in range(at + 1, len(target))
                    for unit in pieces.get(target[at:stop], ())
                ]
        found[text] = sorted(spelt)[:MOST]
    return found


def _counted(sample: Sample, spellings: Sequence[Spelling], vocabulary: int) -> tuple[Ints, Ints]:
    """Return how often each response holds any of the spellings, and where first, (S,) each."""
    used = sorted({unit for spelling in spellings for unit in spelling})
    places = np.full(vocabulary + 1, -1, np.int64)  # the last: units outside the vocabulary
    places[used] = np.arange(len(used))
    counts = np.zeros(len(sample.rows), np.int64)
    first = np.full(len(sample.rows), np.iinfo(np.int64).max)
    for n in sorted({len(spelling) for spelling in spellings}):
        if len(used) ** n >= 1 << 62:
            continue
        keys = [
            sum(int(places[u]) * len(used) ** (n - 1 - i) for i, u in enumerate(spelling))
            for spelling in spellings
            if len(spelling) == n
        ]
        many, where = occurrences(sample, places, len(used), n, np.unique(np.array(keys, np.int64)))
        counts += many.sum(axis=0)
        first = np.where(where >= 0, where, first[None]).min(axis=0)
    return counts, np.where(counts > 0, first, -1)
