"""One NumPy pass over the tokens of many rows: every per-response figure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.ragged import (
    Floats,
    finite_sums,
    row_ends,
    row_first_maxima,
    row_maxima,
    row_minima,
    row_moments,
    row_sums,
)
from rlreport.figures.token import (
    gae,
    importance_ratio,
    k3,
    log_ratio,
    mismatch_ratio,
    probability,
    surprisal,
)
from rlreport.options import FigureOptions
from rlreport.read.token_rows import TokenRows

CLIP_RANGE = 0.2
_PENALTY = tuple(f"kl_penalty_{part}" for part in ("n", "x", "y", "xx", "xy", "yy"))


@dataclass(slots=True)
class PerToken:
    """What the tables by token need of every token, float64 (N,) each, or None."""

    log_ratio: Floats | None = None
    kl: Floats | None = None
    prob: Floats | None = None
    ref_prob: Floats | None = None
    value: Floats | None = None
    return_: Floats | None = None

    def where(self, chosen: NDArray[np.bool_]) -> PerToken:
        """Return the figures of some tokens only, bool (N,)."""
        parts = (getattr(self, name) for name in self.__slots__)
        return PerToken(*(None if part is None else part[chosen] for part in parts))


def response_figures(
    tokens: TokenRows, options: FigureOptions
) -> tuple[dict[str, NDArray[np.float64]], PerToken]:
    """Return the columns of the response table that come from tokens, (R,) each.

    Also returned are the figures per token that they were made from.
    Columns that no row of the batch can feed are left out.
    """
    offsets = tokens.offsets
    lengths = np.diff(offsets)
    columns: dict[str, Floats] = {"response_tokens": lengths.astype(np.float64)}
    figures = PerToken()
    logp = tokens.arrays.get("logprobs")
    ref_logp = tokens.arrays.get("ref_logprobs")
    if logp is not None:
        figures.prob = probability(logp)
        count, total = finite_sums(surprisal(logp), offsets)
        columns["surprisal_mean"] = _mean(total, count)
        columns["logp_tokens"] = count
    if ref_logp is not None:
        figures.ref_prob = probability(ref_logp)
    if logp is not None and ref_logp is not None:
        figures.log_ratio = log_ratio(logp, ref_logp)
        figures.kl = k3(figures.log_ratio)
        _divergence(columns, figures.log_ratio, figures.kl, tokens)
    rewards = tokens.arrays.get("token_rewards")
    if rewards is not None:
        count, total = finite_sums(rewards, offsets)
        columns["rlhf_reward"] = np.where(count > 0, total, np.nan)
        if figures.log_ratio is not None:
            _penalty(columns, figures.log_ratio, rewards, tokens)
    _critic(columns, figures, rewards, tokens, options)
    _engines(columns, logp, tokens)
    return columns, figures


def _divergence(columns: dict[str, Floats], ratio: Floats, kl: Floats, tokens: TokenRows) -> None:
    offsets = tokens.offsets
    count, total = finite_sums(ratio, offsets)
    columns["log_ratio_mean"] = _mean(total, count)
    columns["kl_k1"] = np.where(count > 0, total, np.nan)
    columns["log_ratio_min"] = row_minima(ratio, offsets)
    columns["log_ratio_max"] = row_maxima(ratio, offsets)
    # A k3 beyond float64 is infinite: its row's sum says so rather than skip it.
    known = kl if not np.isnan(kl).any() else np.where(np.isnan(kl), 0.0, kl)
    total = row_sums(known, offsets)
    columns["kl_k3"] = np.where(count > 0, total, np.nan)
    columns["kl_k3_mean"] = _mean(total, count)
    columns["kl_max"], columns["kl_max_position"] = row_first_maxima(kl, offsets)


def _penalty(columns: dict[str, Floats], x: Floats, y: Floats, tokens: TokenRows) -> None:
    """Add the sums of which the KL coefficient is inferred: y = -beta x before the last token."""
    offsets = tokens.offsets
    usable = np.isfinite(x + y)
    usable[row_ends(offsets)] = False
    x, y = np.where(usable, x, 0.0), np.where(usable, y, 0.0)
    parts = (usable.astype(np.float64), x, y, x * x, x * y, y * y)
    columns |= zip(_PENALTY, (row_sums(part, offsets) for part in parts), strict=True)


def _critic(
    columns: dict[str, Floats],
    figures: PerToken,
    rewards: Floats | None,
    tokens: TokenRows,
    options: FigureOptions,
) -> None:
    offsets = tokens.offsets
    value = tokens.arrays.get("values")
    logged = tokens.arrays.get("advantages")
    advantage = logged
    if value is not None:
        estimate = logged
        if rewards is not None:
            estimate = gae(rewards, value, offsets, options.gamma, options.lam)
        if estimate is None:
            columns["value_mean"] = row_moments(value, offsets)[1]
        else:
            returns = estimate + value
            known = np.isfinite(returns)
            figures.value, figures.return_ = value, returns
            if not known.all():
                value, returns = np.where(known, value, np.nan), np.where(known, returns, np.nan)
            error = value - returns
            count, columns["value_mean"], columns["value_m2"] = row_moments(value, offsets)
            columns["value_tokens"] = count
            _, columns["return_mean"], columns["return_m2"] = row_moments(returns, offsets)
            _, columns["value_error_mean"], columns["value_error_m2"] = row_moments(error, offsets)
            advantage = estimate if logged is None else np.where(np.isnan(logged), estimate, logged)
    if advantage is not None:
        count, total = finite_sums(advantage, offsets)
        columns["advantage_mean"] = _mean(total, count)
    if logged is not None:
        count, total = finite_sums(logged, offsets)
        columns["advantage_logged_mean"] = _mean(total, count)


def _engines(columns: dict[str, Floats], logp: Floats | None, tokens: TokenRows) -> None:
    """Add what compares the policy's log-probabilities with the sampler's and the old policy's."""
    offsets = tokens.offsets
    sampler = tokens.arrays.get("sampler_logprobs")
    if logp is not None and sampler is not None:
        count, total = finite_sums(mismatch_ratio(logp, sampler), offsets)
        columns["mismatch_tokens"] = count
        columns["mismatch_ratio"] = _mean(total, count)
        columns["mismatch_k3"] = _mean(*finite_sums(k3(sampler - logp), offsets)[::-1])
        difference = np.abs(probability(logp) - probability(sampler))
        columns["mismatch_prob"] = _mean(*finite_sums(difference, offsets)[::-1])
    old = tokens.arrays.get("old_logprobs")
    if logp is not None and old is not None:
        ratio = importance_ratio(logp, old)
        count, total = finite_sums(ratio, offsets)
        outside = np.where(np.isfinite(ratio), np.abs(ratio - 1.0) > CLIP_RANGE, 0.0)
        columns["ratio_tokens"] = count
        columns["ratio_mean"] = _mean(total, count)
        columns["ratio_outside"] = _mean(row_sums(outside, offsets), count)


def _mean(total: Floats, count: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.where(count > 0, total / count, np.nan)
