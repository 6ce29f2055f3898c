"""Formulas of values per token (KL, advantage, …), for the tokens of any number of responses.

Arrays are float64 of shape (N,): the concatenated tokens of R responses, with ``offsets`` of
shape (R + 1,) for formulas that depend on other tokens of the response. Log-probabilities are
in nats. NaN inputs give NaN outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlreport.figures.ragged import Floats, Ints, finite_sums, offsets_of, row_ends

_CHUNK = 32


@dataclass(slots=True)
class TokenFigures:
    """Values per token of one or more responses, float64 (T,) each; None if not computable.

    NaN marks a value missing from the log. Units: nats for logp, ref_logp, log_ratio, kl
    and surprisal; probabilities in [0, 1]; the rest in units of the reward.
    """

    logp: Floats | None = None
    ref_logp: Floats | None = None
    log_ratio: Floats | None = None
    kl: Floats | None = None
    prob: Floats | None = None
    ref_prob: Floats | None = None
    surprisal: Floats | None = None
    token_reward: Floats | None = None
    value: Floats | None = None
    advantage: Floats | None = None
    return_: Floats | None = None
    value_error: Floats | None = None
    sampler_logp: Floats | None = None

    def spread(self, sampled: NDArray[np.bool_]) -> TokenFigures:
        """Expand values of the sampled tokens to all tokens, with NaN for tokens not sampled."""
        arrays = []
        for name in self.__slots__:
            values = getattr(self, name)
            if values is not None:
                values, sampled_values = np.full(len(sampled), np.nan), values
                values[sampled] = sampled_values
            arrays.append(values)
        return TokenFigures(*arrays)

    def between(self, start: int, stop: int) -> TokenFigures:
        """Return only the values of the tokens in ``[start, stop)``."""
        parts = (getattr(self, name) for name in self.__slots__)
        return TokenFigures(*(None if part is None else part[start:stop] for part in parts))


def log_ratio(logp: Floats, ref_logp: Floats) -> Floats:
    """Return log π(token) − log π_ref(token), nats: the k1 estimate of KL(π‖π_ref).

    Source: J. Schulman, "Approximating KL divergence" (2020), estimator k1.
    """
    return logp - ref_logp


def k3(ratio: Floats) -> Floats:
    """Return exp(−x) − 1 + x of the log-ratio x, nats: the k3 estimate of KL(π‖π_ref).

    Never negative, and unbiased for tokens sampled from π. ``expm1`` is accurate for small
    log-ratios. Source: J. Schulman, "Approximating KL divergence" (2020), estimator k3.
    """
    with np.errstate(over="ignore"):
        result = np.expm1(-ratio)
    result += ratio
    return result


def surprisal(logp: Floats) -> Floats:
    """Return −log π(token), nats; its mean over sampled tokens estimates the entropy."""
    return -logp


def probability(logp: Floats) -> Floats:
    """Return the probabilities exp(logp) of log-probabilities."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(logp))


def gae(rewards: Floats, values: Floats, offsets: Ints, gamma: float, lam: float) -> Floats:
    """Return the generalised advantage estimate of every token, shape (N,).

    A_t = Σ_l (γλ)^l δ_{t+l} with δ_t = r_t + γ V_{t+1} − V_t, and V = 0 after a response's
    last token. The return is A_t + V_t (the λ-return). Source: Schulman et al. 2016,
    "High-Dimensional Continuous Control Using Generalized Advantage Estimation", eq. 16.
    """
    following = np.empty_like(values)
    following[:-1] = values[1:]
    following[row_ends(offsets)] = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        following *= gamma
        following += rewards
        following -= values
        return discounted_sums(following, offsets, gamma * lam)


def discounted_sums(flat: Floats, offsets: Ints, factor: float) -> Floats:
    """Return the discounted sums y_t = x_t + factor · y_{t+1} of every row, shape (N,).

    A loop over positions would take as many iterations as the longest row has tokens. Instead,
    rows are cut into chunks of 32 that are summed in parallel; the sums at the starts of chunks
    follow the same recurrence with factor³².
    """
    lengths = np.diff(offsets)
    chunks = -(-lengths // _CHUNK)
    chunk_offsets = offsets_of(chunks)
    last = chunk_offsets[1:][chunks > 0] - 1
    # Padding rows with zeros at their end does not change the sums.
    used = np.ones((int(chunk_offsets[-1]), _CHUNK), dtype=bool)
    used[last] = np.arange(_CHUNK) <= (lengths[chunks > 0, None] - 1) % _CHUNK
    grid = np.zeros(used.shape)
    grid[used] = flat
    for t in range(_CHUNK - 2, -1, -1):
        grid[:, t] += factor * grid[:, t + 1]
    if len(chunks) and chunks.max() > 1:
        totals = discounted_sums(grid[:, 0], chunk_offsets, factor**_CHUNK)
        carry = np.zeros_like(totals)
        carry[:-1] = totals[1:]
        carry[last] = 0.0
        powers = factor ** np.arange(_CHUNK, 0, -1.0)
        grid += powers * carry[:, None]
    return np.asarray(grid[used])


def importance_ratio(new_logp: Floats, old_logp: Floats) -> Floats:
    """Return π_new(token) / π_old(token), the ratio that PPO clips (Schulman et al. 2017)."""
    return probability(new_logp - old_logp)


def mismatch_ratio(trainer_logp: Floats, sampler_logp: Floats) -> Floats:
    """Return exp|log π_trainer − log π_sampler| per token; 1 where trainer and sampler agree.

    Source: NeMo-RL's guide on adding models (token multiplicative probability error).
    """
    return probability(np.abs(trainer_logp - sampler_logp))


def token_figures(
    *,
    logp: Floats | None = None,
    ref_logp: Floats | None = None,
    token_reward: Floats | None = None,
    value: Floats | None = None,
    advantage: Floats | None = None,
    sampler_logp: Floats | None = None,
    offsets: Ints | None = None,
    gamma: float = 1.0,
    lam: float = 0.95,
) -> TokenFigures:
    """Compute all values per token, shape (T,), that the given arrays allow.

    The arrays are those of one response, or of R concatenated responses with ``offsets``, int64
    (R + 1,). A logged ``advantage`` is returned as it is. The return is computed by GAE, because
    logged advantages are often normalized; without token rewards it is advantage + value.
    """
    figures = TokenFigures(
        logp=logp,
        ref_logp=ref_logp,
        token_reward=token_reward,
        value=value,
        advantage=advantage,
        sampler_logp=sampler_logp,
    )
    if logp is not None:
        figures.prob = probability(logp)
        figures.surprisal = surprisal(logp)
    if ref_logp is not None:
        figures.ref_prob = probability(ref_logp)
    if logp is not None and ref_logp is not None:
        figures.log_ratio = log_ratio(logp, ref_logp)
        figures.kl = k3(figures.log_ratio)
    if value is not None:
        estimate = advantage
        if token_reward is not None:
            rows = np.array([0, len(value)], dtype=np.int64) if offsets is None else offsets
            estimate = gae(token_reward, value, rows, gamma, lam)
            if advantage is not None:
                # A response without token rewards uses its advantage, whatever other responses log.
                without_reward = np.repeat(finite_sums(token_reward, rows)[0] == 0, np.diff(rows))
                estimate = np.where(without_reward, advantage, estimate)
        if estimate is not None:
            logged = np.full(len(value), np.nan) if advantage is None else advantage
            figures.advantage = np.where(np.isnan(logged), estimate, logged)
            figures.return_ = estimate + value
            figures.value_error = value - figures.return_
    return figures
