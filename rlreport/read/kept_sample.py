"""Parts of the sample of texts in the cache, by a hash of the responses that they are made of."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats, Ints
from rlreport.options import ReadOptions
from rlreport.read.rollouts import Rollouts
from rlreport.system.cache import (
    Store,
    fingerprint,
    pack,
    program,
    store_at,
    unpack,
)

Ids = NDArray[np.int32]


class Units(NamedTuple):
    """Texts as token or word ids: row and length of each text, and all ids concatenated."""

    rows: Ints  # of the response table, ascending
    lengths: Ints
    ids: Ids

    def renumbered(self, numbers: Ids) -> Units:
        """Return the same texts with ``numbers[id]`` instead of each id."""
        return self._replace(ids=numbers[self.ids])


class Part(NamedTuple):
    """Texts and values per token of R sampled responses; ids are indices of ``strings``."""

    units: Units  # tokens of the responses; words for a response without logged tokens
    words: Units
    references: Units  # words of the reference policy's responses
    # bool (R,), whether the response's ``units`` are tokens
    is_token: NDArray[np.bool_]
    # float64 (R,), distinct bigrams / all bigrams, NaN without bigrams
    distinct_2: Floats
    # float32 (len(FIGURES), ids of ``units``): KL etc. of each, NaN where not logged
    figures: NDArray[np.float32]
    strings: list[str]


@dataclass(frozen=True, slots=True)
class KeptSample:
    """The cache of parts of the sample."""

    store: Store
    common: bytes  # what all parts are made of: program, options and columns of the run

    @classmethod
    def of(cls, rollouts: Rollouts, options: ReadOptions) -> KeptSample | None:
        """Return the cache that the options name, None without one."""
        if not options.cache:
            return None
        common = fingerprint((program(), options.pad_tokens, list(rollouts.figures)))
        return cls(store_at(options.cache), common)

    def key(self, rollouts: Rollouts, rows: Ints) -> bytes:
        """Return the key of the part with these rows of the response table."""
        digests = rollouts.digests[rollouts.indices(rows)]
        return b"sample " + fingerprint((self.common, digests))

    def part(self, key: bytes, rows: Ints) -> Part | None:
        """Return the part with these rows from the cache, None if it is not there."""
        kept = self.store.get(key)
        if kept is None:
            return None
        head, arrays = unpack(kept)
        units, words, references = [
            Units(rows[arrays[first]], arrays[first + 1], arrays[first + 2])
            for first in (0, 3, 6)
        ]
        is_token, distinct_2, figures = arrays[9:]
        strings = head["strings"]
        return Part(units, words, references, is_token, distinct_2, figures, strings)

    def keep(self, key: bytes, part: Part, rows: Ints) -> None:
        """Put the part with these rows into the cache; their numbers are those of this build."""
        arrays: list[NDArray[np.generic]] = []
        for units in (part.units, part.words, part.references):
            arrays += [np.searchsorted(rows, units.rows), units.lengths, units.ids]
        arrays += [part.is_token, part.distinct_2, part.figures]
        with suppress(TypeError):  # a string that JSON cannot represent
            self.store.put(key, pack({"strings": part.strings}, arrays))
