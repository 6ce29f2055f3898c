"""What a scan of some lines comes to: small, picklable, and mergeable in any order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rlreport.figures.ragged import Ints
from rlreport.read.columns import Columns, Extra
from rlreport.read.hashing import Hashes
from rlreport.read.marks import Flaw, Marks
from rlreport.read.positions import PositionTable
from rlreport.read.sample import UnitSample
from rlreport.read.token_table import TokenTable

MOST_FLAWS = 1000


class Segment(NamedTuple):
    """Lines counted in a split; ``stop`` is -1 where the split runs to the end of its file."""

    file: int
    start: int
    stop: int
    lines: int
    filled: int
    rows: int
    flaws: int


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
        flaws: lines that could not be used, the first thousand.
        flaw_count: all of them.
        marks: what was repaired or odd.
        fields: canonical field -> rows that carried it.
        tokens: sums by token.
        positions: critic figures by tenth of the response.
        bigrams: step -> smallest bigram hashes.
        sample, references: units of sampled responses, and of reference responses.
        hashes: uint64, of every unit string in ``tokens`` and the samples, ascending; the
            samples' units are indices into it.
        strings: those strings.
        extras_dropped: names beyond the 64th were left out.
        ends: EOS tokens met, and texts that end with one.
    """

    rows: int = 0
    columns: Columns = field(default_factory=dict)
    extras: dict[str, Extra] = field(default_factory=dict)
    extras_dropped: bool = False
    reward_parts: set[str] = field(default_factory=set)
    segments: list[Segment] = field(default_factory=list)
    flaws: list[Flaw] = field(default_factory=list)
    flaw_count: int = 0
    marks: Marks = field(default_factory=Marks)
    fields: dict[str, int] = field(default_factory=dict)
    tokens: TokenTable = field(default_factory=TokenTable)
    positions: PositionTable = field(default_factory=PositionTable)
    bigrams: dict[int, Hashes] = field(default_factory=dict)
    sample: UnitSample = field(default_factory=UnitSample)
    references: UnitSample = field(default_factory=UnitSample)
    hashes: Hashes = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    strings: list[str] = field(default_factory=list)
    ends: tuple[int, int] = (0, 0)

    def steps(self) -> Ints:
        """Return the distinct steps, ascending."""
        column = self.columns.get("step")
        return np.zeros(0, dtype=np.int64) if column is None else np.unique(column).astype(np.int64)
