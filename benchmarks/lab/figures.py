"""A run's figures by step, computed without rlreport, and consequences that they prove."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .tokens import EOS

Floats = NDArray[np.float64]
Row = dict[str, Any]
_EOS = set(EOS.values())


def _mean(values: Any) -> float:
    """Return the mean of the finite values, NaN if there are none."""
    array = np.asarray(values, dtype=np.float64)
    array = array[np.isfinite(array)]
    return float(array.mean()) if array.size else float("nan")


def by_step(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows of each step, in order of steps."""
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["step"]].append(row)
    return [found[step] for step in sorted(found)]


def series(steps: Sequence[Sequence[Row]], of: Callable[[Row], float]) -> Floats:
    """Return the mean of a figure in each step; rows without a finite one are left out."""
    return np.array([_mean([of(row) for row in rows]) for rows in steps])


def kl(row: Row) -> float:
    """Return the sum of a response's log-ratios, in nats."""
    if "ref_logprobs" not in row:
        return np.nan
    return float(np.sum(np.array(row["logprobs"], float) - np.array(row["ref_logprobs"], float)))


def length(row: Row) -> float:
    """Return the number of a response's tokens, or of its characters if no tokens are logged."""
    return float(len(row.get("response_tokens") or row["response"]))


def surprisal(row: Row) -> float:
    """Return the mean surprisal of a response's tokens, in nats."""
    return float(-np.mean(row["logprobs"])) if row.get("logprobs") else np.nan


def reward(row: Row) -> float:
    """Return the reward of a response."""
    return float(row["reward"]) if row["reward"] is not None else np.nan


def cut_off(row: Row) -> float:
    """Return 1 if a response was cut off, 0 if it ended, NaN if the log does not tell."""
    if "finish_reason" in row:
        return float(row["finish_reason"] == "length")
    tokens = row.get("response_tokens")
    return float(tokens[-1] not in _EOS) if tokens else np.nan


def holding(pattern: str) -> Callable[[Row], float]:
    """Return a function of a row: 1 if the response contains the pattern, else 0."""
    compiled = re.compile(pattern)
    return lambda row: float(compiled.search(row["response"]) is not None)


_CHINESE = re.compile("[\u4e00-\u9fff]")
_LATIN = re.compile("[A-Za-z]")


def foreign(row: Row) -> float:
    """Return 1 if most letters of a response are in another script than its prompt, else 0."""

    def chinese(text: str) -> float:
        # A Chinese character says about as much as three Latin letters.
        found = 3 * len(_CHINESE.findall(text))
        return found / max(found + len(_LATIN.findall(text)), 1)

    if not (_CHINESE.search(row["response"]) or _LATIN.search(row["response"])):
        return np.nan
    return float((chinese(row["prompt"]) > 0.5) != (chinese(row["response"]) > 0.5))


def _bigrams(row: Row) -> list[tuple[str, str]]:
    units = row.get("response_tokens") or re.findall(r"[A-Za-z]+|\S", row["response"])
    return list(itertools.pairwise(units))


def distinct2(rows: Sequence[Row], most: int | None = None) -> float:
    """Return distinct over all bigrams of a step's responses, or of its first ``most`` bigrams."""
    seen = [bigram for row in rows for bigram in _bigrams(row)][:most]
    return len(set(seen)) / max(len(seen), 1)


def variety_lost(first: Sequence[Sequence[Row]], last: Sequence[Sequence[Row]]) -> float:
    """Return the relative fall of distinct-2, from equally many bigrams of each step."""
    fewest = min(sum(len(_bigrams(row)) for row in s) for s in (*first, *last))
    if fewest < 200:
        return 0.0
    before, after = (_mean([distinct2(s, fewest) for s in w]) for w in (first, last))
    return 1 - after / before


def explained_variance(rows: Sequence[Row]) -> float:
    """Return 1 - Var(return - value) / Var(return), with gamma = lambda = 1."""
    returns = []
    errors = []
    for row in rows:
        if not row.get("values") or not row.get("token_rewards"):
            return np.nan
        back = np.cumsum(np.array(row["token_rewards"], float)[::-1])[::-1]
        returns.append(back)
        errors.append(back - np.array(row["values"], float))
    return float(1 - np.concatenate(errors).var() / max(np.concatenate(returns).var(), 1e-9))


def _graded(figure: float, found: float, absent: float, says: dict[str, bool], name: str) -> None:
    """Set ``says[name]`` if the figure is clearly beyond or clearly inside its limit."""
    up = found > absent
    if (figure >= found) if up else (figure <= found):
        says[name] = True
    elif not np.isfinite(figure) or ((figure <= absent) if up else (figure >= absent)):
        says[name] = False


MEASURED = frozenset(
    (
        "kl_explosion", "negative_kl", "entropy_explosion", "entropy_collapse", "missing_eos",
        "diversity_collapse", "language_drift", "length_collapse", "length_hacking",
        "reward_collapse", "zero_variance_groups", "value_divergence",
    )
)  # fmt: skip
"""Findings on which ``beyond_doubt`` may say yes, no or nothing."""


def beyond_doubt(rows: Sequence[Row]) -> dict[str, bool]:  # noqa: PLR0914
    """Return which consequences a run clearly has (True) or clearly does not have (False).

    Limits are those that the field uses, with a margin on both sides; in between nothing is
    said, as two colleagues might differ. Windows are the first and the last fifth of steps.
    """
    steps = [s for s in by_step(rows) if len(s) >= 2]
    fifth = max(3, len(steps) // 5)
    first = steps[:fifth]
    last = steps[-fifth:]
    begin = [r for s in first for r in s]
    end = [r for s in last for r in s]
    says: dict[str, bool] = {}

    sums = np.array([kl(r) for r in end])
    lengths = np.array([length(r) for r in end])
    if np.isfinite(sums).any():
        excess = min(sums.mean() / 10, sums.mean() / lengths.mean() / 0.1)
        _graded(excess, 1.3, 0.8, says, "kl_explosion")
        z = sums.mean() / (sums.std() / np.sqrt(sums.size) + 1e-9)
        _graded(z, -6, -1.5, says, "negative_kl")
    else:
        says["kl_explosion"] = says["negative_kl"] = False

    before = _mean(series(first, surprisal))
    after = _mean(series(last, surprisal))
    _graded(min(after / (3 * before), after - before), 1.3, 0.7, says, "entropy_explosion")
    _graded(max(after / before / 0.2, after / 0.3), 0.8, 1.35, says, "entropy_collapse")

    alike = [
        _mean([1 - len({r["response"] for r in s}) / len(s) for s in w]) for w in (first, last)
    ]
    doubled = min(alike[1] / 0.5, (alike[1] - alike[0]) / 0.2)
    _graded(max(variety_lost(first, last) / 0.3, doubled), 1.25, 0.75, says, "diversity_collapse")

    strange = [_mean([foreign(r) for r in w]) for w in (begin, end)]
    _graded((strange[1] - strange[0]) / 0.2, 1.3, 0.6, says, "language_drift")

    ratio = lengths.mean() / np.mean([length(r) for r in begin])
    short = np.mean(lengths < 4) if "response_tokens" in end[0] else 0.0
    _graded(max(0.5 / ratio, short / 0.1), 1.25, 0.8, says, "length_collapse")
    if ratio < 1.35:
        says["length_hacking"] = False
    cut = [_mean([cut_off(r) for r in w]) for w in (begin, end)]
    _graded(max((cut[1] - cut[0]) / 0.2, cut[1] / 0.5), 1.4, 0.7, says, "missing_eos")

    means = series(steps, reward)
    windows = np.convolve(means, np.ones(fifth) / fifth, "valid")
    inside = float(np.nanmean([np.nanstd([reward(r) for r in s]) for s in steps]))
    lost = np.nanmax(windows) - windows[-1]
    # Steps scatter more than their responses say where a step has few prompts.
    scatter = float(np.sqrt(np.nanmedian(np.diff(means) ** 2) / 0.91))
    error = max(inside * np.sqrt(2 / sum(map(len, last))), scatter * np.sqrt(2 / fifth)) + 1e-9
    need = max(0.5 * (np.nanmax(windows) - windows[0]), 0.5 * inside, 3 * error)
    _graded(lost / need, 1.3, 0.7, says, "reward_collapse")

    groups: dict[Any, list[float]] = defaultdict(list)
    for row in end:
        if "group_id" in row:
            groups[row["step"], row["group_id"]].append(reward(row))
    stale = [np.std(g) < 1e-6 for g in groups.values() if len(g) > 1]
    _graded(float(np.mean(stale)) if stale else 0.0, 0.6, 0.42, says, "zero_variance_groups")
    _graded(_mean([explained_variance(s) for s in last]), -1.0, -0.3, says, "value_divergence")
    return says
