"""The tokens of the responses to prompts won and lost, within a budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.comparison.run import ComparedRun
from rlreport.comparison.saved import ResponseId
from rlreport.figures.ragged import Floats
from rlreport.read.rollouts import Rollout

MOST_TOKENS = 8_192  # of a response; those of a longer one are left out
MOST_IN_ALL = 200_000  # of all pairs of responses, from the first prompt on


class TokenPair(NamedTuple):
    """The tokens of both responses to a prompt, None for one that has none."""

    base: Rollout | None
    new: Rollout | None

    @property
    def size(self) -> int:
        return sum(len(one.raw_tokens) for one in self if one)


def token_pairs(
    base: ComparedRun, new: ComparedRun, pairs: Sequence[tuple[ResponseId, ResponseId]]
) -> list[TokenPair]:
    """Return the tokens of each pair of responses, of BASE and of NEW.

    A pair has none once all before it have MOST_IN_ALL tokens together.
    """
    if not pairs:
        return []
    # Logged lengths say which are worth reading; the tokens themselves are counted below.
    of_base = [base_id for base_id, _ in pairs]
    of_new = [new_id for _, new_id in pairs]
    expected = np.cumsum(_lengths(base, of_base) + _lengths(new, of_new))
    read = int(np.searchsorted(expected, MOST_IN_ALL, side="right"))
    base_tokens = _read(base, of_base[:read])
    new_tokens = _read(new, of_new[:read])
    result = []
    total = 0
    for base_id, new_id in pairs:
        pair = TokenPair(base_tokens.get(base_id), new_tokens.get(new_id))
        total += pair.size
        result.append(pair if total <= MOST_IN_ALL else TokenPair(None, None))
    return result


def _lengths(run: ComparedRun, ids: Sequence[ResponseId]) -> Floats:
    """Return the logged number of tokens of responses, 0 for one whose tokens are not read."""
    table = run.side.responses
    table = table[table["step"].isin({step for step, _ in ids})]
    table = table.set_index(["step", "n"]).reindex(pd.MultiIndex.from_tuples(ids))
    lengths = np.zeros(len(ids))
    for name in ("response_tokens", "env_tokens"):
        if name in table:
            lengths += table[name].fillna(0.0).to_numpy(np.float64)
    return np.where(lengths <= MOST_TOKENS, lengths, 0.0)


def _read(run: ComparedRun, ids: Iterable[ResponseId]) -> dict[ResponseId, Rollout]:
    """Return id -> tokens of responses that have some; the same tokens, whatever has the run."""
    rollouts = run.rollouts(ids, MOST_TOKENS)
    return {id: rollout for id, rollout in rollouts.items() if rollout.raw_tokens}
