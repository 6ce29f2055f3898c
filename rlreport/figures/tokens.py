"""Formulas of values per token (KL, advantage, …), and of values per response made of them.

Arrays are float64 of shape (N,): the concatenated tokens of R responses, with ``offsets`` of
shape (R + 1,) for formulas that depend on other tokens of the response. Log-probabilities are
in nats. NaN inputs give NaN outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.figures.ragged import (
    Floats,
    Ints,
    finite_means,
    finite_sums,
    lengths_of,
    offsets_of,
    row_ends,
    row_first_maxima,
    row_maxima,
    row_means,
    row_moments,
    row_sums,
    spans,
)
from rlreport.figures.rounding import significant
from rlreport.figures.turns import Ending

_CHUNK = 32  # tokens of a row that ``discounted_sums`` adds up one after another

# k3 of smaller log-ratios x is computed by its series. ``expm1`` may be off by one unit in its last
# place, depending on the processor, which moves k3 by 2e-16 / x of its value.
SERIES_BELOW = 0.125
# Its coefficients (−1)^n / n!, of x², x³, … x¹²
_SERIES = [(-1.0) ** power / math.factorial(power) for power in range(2, 13)]

_CORRECT_FIELD = r"(?i)^(is_)?(correct|acc|accuracy)(/mean)?\Z"

MAX_PERIOD = 40  # Largest period of a loop, in units
# Least number of consecutive units in a loop that equal the unit a period before
_LEAST_REPEATED = 24
# Every so many units are compared first: among _LEAST_REPEATED units, three of these must be equal
_STRIDE = _LEAST_REPEATED // 3
# Least length of a loop, in units; of one that is at least a quarter of the text
_LEAST_LOOP = 100
_LEAST_QUARTER_LOOP = 32


# Fields of a log with a number for each token -> the figure that each is
LOGGED = {
    "logprobs": "logp",
    "ref_logprobs": "ref_logp",
    "sampler_logprobs": "sampler_logp",
    "token_rewards": "token_reward",
    "values": "value",
    "advantages": "advantage",
}
# Figures kept in temporary files and on pages; ``TokenFigures.derive`` computes the others
KEPT = (
    "logp",
    "ref_logp",
    "log_ratio",
    "token_reward",
    "value",
    "advantage",
    "return",
    "sampler_logp",
)


class TokenFigures(dict[str, Floats]):
    """Figure of ``columns.TOKEN_FIGURES`` -> its values per token, float64 (T,).

    A figure that cannot be computed is missing; NaN marks a value missing from the log. Units:
    nats for logp, ref_logp, log_ratio, kl and surprisal; the rest in units of the reward, but
    probabilities in [0, 1].
    """

    def derive(self) -> TokenFigures:
        """Add probabilities, surprisal, k3 and value error where others imply them; return self."""
        if "logp" in self:
            self["prob"] = probability(self["logp"])
            self["surprisal"] = surprisal(self["logp"])
        if "ref_logp" in self:
            self["ref_prob"] = probability(self["ref_logp"])
        if "log_ratio" in self:
            self["kl"] = k3(self["log_ratio"])
        if "value" in self and "return" in self:
            self["value_error"] = self["value"] - self["return"]
        return self

    def between(self, start: int, stop: int) -> TokenFigures:
        """Return only the values of the tokens in ``[start, stop)``."""
        return TokenFigures({name: values[start:stop] for name, values in self.items()})


def log_ratio(logp: Floats, ref_logp: Floats) -> Floats:
    """Return log π(token) − log π_ref(token), nats: the k1 estimate of KL(π‖π_ref).

    Source: J. Schulman, "Approximating KL divergence" (2020), estimator k1.
    """
    return logp - ref_logp


def k3(log_ratios: Floats) -> Floats:
    """Return exp(−x) − 1 + x, nats, of x = log π(token) − log π_ref(token).

    This is the k3 estimate of KL(π‖π_ref).

    Never negative, and unbiased for tokens sampled from π. Small log-ratios use the series
    x²/2! − x³/3! + …, which is the same on any machine; ``static/js/response/metrics.js`` does so,
    too. Source: J. Schulman, "Approximating KL divergence" (2020), estimator k3.
    """
    result = np.empty_like(log_ratios)
    # Of small ones, the difference of nearly equal numbers would lose digits.
    is_small = np.abs(log_ratios) < SERIES_BELOW
    small = np.flatnonzero(is_small)
    result[small] = _k3_by_series(log_ratios[small])
    others = np.flatnonzero(~is_small)
    with np.errstate(over="ignore"):  # infinite for a log-ratio below −709
        result[others] = np.expm1(-log_ratios[others]) + log_ratios[others]
    return result


def _k3_by_series(log_ratios: Floats) -> Floats:
    """Return k3 of small log-ratios by Horner's method."""
    total = np.full(len(log_ratios), _SERIES[-1])
    for factor in reversed(_SERIES[:-1]):
        total *= log_ratios
        total += factor
    # The series begins with x².
    total *= log_ratios
    total *= log_ratios
    return total


def surprisal(logp: Floats) -> Floats:
    """Return −log π(token), nats; its mean over sampled tokens estimates the entropy."""
    return -logp


def probability(logp: Floats) -> Floats:
    """Return the probabilities exp(logp) of log-probabilities."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(logp))


def gae(
    rewards: Floats, values: Floats, offsets: Ints, gamma: float, lam: float
) -> Floats:
    """Return the generalised advantage estimate of every token, shape (N,).

    A_t = Σ_l (γλ)^l δ_{t+l} with δ_t = r_t + γ V_{t+1} − V_t, and V = 0 after a response's
    last token. The return is A_t + V_t (the λ-return). Source: Schulman et al. 2016,
    "High-Dimensional Continuous Control Using Generalized Advantage Estimation", eq. 16.
    """
    delta = np.empty_like(values)
    delta[:-1] = values[1:]  # V_{t+1}
    delta[row_ends(offsets)] = 0.0
    # In place, as the arrays are large: r_t + γ V_{t+1} − V_t
    with np.errstate(over="ignore", invalid="ignore"):
        delta *= gamma
        delta += rewards
        delta -= values
        return discounted_sums(delta, offsets, gamma * lam)


def discounted_sums(flat: Floats, offsets: Ints, factor: float) -> Floats:
    """Return the discounted sums y_t = x_t + factor · y_{t+1} of every row, shape (N,).

    A loop over positions would take as many iterations as the longest row has tokens. Instead,
    rows are cut into chunks of 32 that are summed in parallel; the sums at the starts of chunks
    follow the same recurrence with factor³².
    """
    lengths = lengths_of(offsets)
    chunks = (lengths + _CHUNK - 1) // _CHUNK  # number of chunks of each row
    chunk_offsets = offsets_of(chunks)
    last = row_ends(chunk_offsets)  # the last chunk of each row
    # The grid has a chunk per line. Of a row's last chunk only the first columns are used; zeros
    # after them change no sum.
    last_column = (lengths[chunks > 0] - 1) % _CHUNK
    used = np.ones((int(chunk_offsets[-1]), _CHUNK), dtype=bool)
    used[last] = np.arange(_CHUNK) <= last_column[:, None]
    grid = np.zeros(used.shape)
    grid[used] = flat
    # From the last column to the first, each cell becomes the discounted sum within its chunk.
    for t in range(_CHUNK - 2, -1, -1):
        grid[:, t] += factor * grid[:, t + 1]
    if len(chunks) and chunks.max() > 1:
        # Products, as a power may be off by a bit: factor¹, factor², …, factor³²
        powers = np.multiply.accumulate(np.full(_CHUNK, factor))
        totals = discounted_sums(grid[:, 0], chunk_offsets, float(powers[-1]))
        carry = np.zeros_like(totals)  # what a chunk gets from the chunk after it
        carry[:-1] = totals[1:]
        carry[last] = 0.0
        # The last column is one token away from the next chunk: factor¹.
        grid += powers[::-1] * carry[:, None]
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
    logged: TokenFigures, offsets: Ints, *, gamma: float = 1.0, lam: float = 0.95
) -> TokenFigures:
    """Compute values per token of R responses, shape (N,), from which ``derive`` sets the others.

    A logged advantage is kept; where it is NaN, GAE is used. The return is computed by GAE, because
    logged advantages are often normalized; without token rewards it is advantage + value.

    Args:
        logged: the figures in the log, see ``LOGGED``.
        offsets: of the rows, (R + 1,).
        gamma: discount of rewards, 0 to 1.
        lam: λ of GAE, 0 to 1.
    """
    figures = TokenFigures(logged)
    if "logp" in logged and "ref_logp" in logged:
        figures["log_ratio"] = log_ratio(logged["logp"], logged["ref_logp"])
    value = logged.get("value")
    if value is None:  # without a critic, there are no advantages and returns per token
        return figures
    advantage = logged.get("advantage")
    reward = logged.get("token_reward")
    estimate = advantage  # from which the return is computed
    if reward is not None:
        estimate = gae(reward, value, offsets, gamma, lam)
        if advantage is not None:
            # A response without token rewards uses its advantage, whatever other responses log.
            count, _ = finite_sums(reward, offsets)
            has_no_reward = np.repeat(count == 0, lengths_of(offsets))
            estimate = np.where(has_no_reward, advantage, estimate)
    if estimate is not None:
        figures["advantage"] = estimate
        if advantage is not None:
            # ``estimate`` stands in where the logged one is NaN.
            is_missing = np.isnan(advantage)
            figures["advantage"] = np.where(is_missing, estimate, advantage)
        figures["return"] = estimate + value
    return figures


CLIP_RANGE = 0.2
# Tokens with a lower log-probability, nats, are rare
RARE_LOGP = -1.5
# Advantages of a response count as equal if their deviations' norm is at most this part of the mean
SAME_ADVANTAGE = 1e-3


def response_figures(
    figures: TokenFigures,
    offsets: Ints,
    *,
    logged_advantage: Floats | None = None,
    old_logp: Floats | None = None,
) -> dict[str, Floats]:
    """Return the columns of the response table that derive from tokens, float64 (R,) each.

    Columns whose inputs are not logged are missing; all are rounded (``figures.rounding``).

    Args:
        figures: as of ``token_figures``; those that ``derive`` would set are not needed.
        offsets: of the rows, (R + 1,).
        logged_advantage: weights of the loss per token, (N,).
        old_logp: log-probability of each token under the policy before the update, nats, (N,).
    """
    columns: dict[str, Floats] = {
        "response_tokens": lengths_of(offsets).astype(np.float64)
    }
    if "logp" in figures:
        surprisals = surprisal(figures["logp"])
        count, columns["surprisal_mean"] = finite_means(surprisals, offsets)
        columns["logp_tokens"] = count
    if "log_ratio" in figures:
        _divergence(columns, figures["log_ratio"], offsets)
    if "token_reward" in figures:
        count, total = finite_sums(figures["token_reward"], offsets)
        columns["rlhf_reward"] = np.where(count > 0, total, np.nan)
    _critic(columns, figures, logged_advantage, offsets)
    _engines(columns, figures, old_logp, offsets)
    # All at once, which is faster
    rounded = significant(np.array(list(columns.values())))
    return dict(zip(columns, rounded, strict=True))


def _divergence(columns: dict[str, Floats], ratio: Floats, offsets: Ints) -> None:
    """Add columns of the KL to the reference, from the log-ratio of each token."""
    kl = k3(ratio)
    count, total = finite_sums(ratio, offsets)
    with np.errstate(invalid="ignore"):  # 0 / 0 of a response without log-ratios
        columns["log_ratio_mean"] = total / count
    columns["kl_k1"] = np.where(count > 0, total, np.nan)
    # Skip only NaN: a k3 that overflows is infinite, and must make the row's sum infinite.
    is_nan = np.isnan(kl)
    numbers = np.where(is_nan, 0.0, kl) if is_nan.any() else kl
    columns["kl_k3"] = np.where(count > 0, row_sums(numbers, offsets), np.nan)
    with np.errstate(invalid="ignore"):
        columns["kl_k3_mean"] = columns["kl_k3"] / count
    columns["kl_max"], columns["kl_max_position"] = row_first_maxima(kl, offsets)
    # Exactly 0 where policy and reference are the same model, which a small mean may hide
    columns["log_ratio_most"] = row_maxima(np.abs(ratio), offsets)


def _critic(
    columns: dict[str, Floats],
    figures: TokenFigures,
    logged: Floats | None,
    offsets: Ints,
) -> None:
    """Add columns of values, returns and advantages; ``logged`` advantages weight the loss."""
    value = figures.get("value")
    returns = figures.get("return")
    if value is not None:
        columns["value_mean"] = row_means(value, offsets)
    if value is not None and returns is not None:
        reward = figures.get("token_reward")
        _add_values_and_returns(columns, value, returns, reward, offsets)
    if "advantage" in figures:
        columns["advantage_mean"] = row_means(figures["advantage"], offsets)
    if logged is not None:
        # A response has one advantage if those of its tokens are the same but for rounding.
        _, mean, m2 = row_moments(logged, offsets)
        is_same = np.sqrt(m2) <= SAME_ADVANTAGE * np.abs(mean)
        columns["advantage_logged_mean"] = np.where(is_same, mean, np.nan)


def _add_values_and_returns(
    columns: dict[str, Floats],
    value: Floats,
    returns: Floats,
    reward: Floats | None,
    offsets: Ints,
) -> None:
    """Add columns of tokens with a return, from which the critic's explained variance follows.

    ``reward`` is that of each token, None if it is not logged.
    """
    is_finite = np.isfinite(returns)
    # Variances of values, returns and errors are compared, so they are of the same tokens.
    if not is_finite.all():
        value = np.where(is_finite, value, np.nan)
        returns = np.where(is_finite, returns, np.nan)
    count, mean, columns["value_m2"] = row_moments(value, offsets)
    # A row without returns keeps the mean of all its values, whatever other rows log.
    columns["value_mean"] = np.where(count > 0, mean, columns["value_mean"])
    columns["value_tokens"] = np.where(count > 0, count, np.nan)
    parts = {"return": returns, "value_error": value - returns}
    if reward is not None:
        # Unlike λ-returns, sums of actual rewards do not depend on the predicted values.
        parts["mc_return"] = discounted_sums(reward, offsets, 1.0)
        parts["mc_error"] = value - parts["mc_return"]
    # M2 is the sum of squared deviations, from which variances over responses can be pooled.
    for name, flat in parts.items():
        _, mean, m2 = row_moments(flat, offsets)
        columns[f"{name}_mean"] = mean
        columns[f"{name}_m2"] = m2


def _engines(
    columns: dict[str, Floats],
    figures: TokenFigures,
    old_logp: Floats | None,
    offsets: Ints,
) -> None:
    """Add columns comparing the policy's log-probabilities with the sampler's and old policy's."""
    logp = figures.get("logp")
    sampler = figures.get("sampler_logp")
    if logp is not None and sampler is not None:
        count, mean = finite_means(mismatch_ratio(logp, sampler), offsets)
        columns["mismatch_tokens"] = count
        columns["mismatch_ratio"] = mean
        # Of KL(sampler‖trainer), as the tokens are drawn from the sampler's distribution
        columns["mismatch_k3"] = row_means(k3(sampler - logp), offsets)
        change = np.abs(probability(logp) - probability(sampler))
        columns["mismatch_prob"] = row_means(change, offsets)
        count, total = finite_sums(logp - sampler, offsets)
        columns["log_weight"] = np.where(count > 0, total, np.nan)
        _add_rare_tokens(columns, logp, sampler, offsets)
    if logp is not None and old_logp is not None:
        ratio = importance_ratio(logp, old_logp)
        columns["ratio_tokens"], columns["ratio_mean"] = finite_means(ratio, offsets)
        is_outside = np.abs(ratio - 1.0) > CLIP_RANGE
        # 1 or 0, NaN where a log-probability is missing; the mean is a share.
        outside = np.where(np.isfinite(ratio), is_outside, np.nan)
        columns["ratio_outside"] = row_means(outside, offsets)


def _add_rare_tokens(
    columns: dict[str, Floats], logp: Floats, sampler: Floats, offsets: Ints
) -> None:
    """Add the sums of which the slope of the trainer's logp on the sampler's follows.

    They are of tokens that the sampler calls rare: the log-probabilities of others are near 0 at
    any temperature.
    """
    is_rare = sampler < RARE_LOGP
    trainer = np.where(is_rare, logp, np.nan)
    rare = np.where(np.isnan(trainer), np.nan, sampler)
    columns["rare_tokens"], columns["rare_sampler"] = finite_sums(rare, offsets)
    _, columns["rare_trainer"] = finite_sums(trainer, offsets)
    _, columns["rare_square"] = finite_sums(rare * rare, offsets)
    _, columns["rare_product"] = finite_sums(rare * trainer, offsets)


def find_loops(units: NDArray[np.int32], offsets: Ints) -> Ints:
    """Return start, period and length of a loop in each of R texts, int64 (R, 3), in units.

    ``units``, int32 (N,), are the ids (>= 0) of the tokens or words of all texts; text r is
    units[offsets[r]:offsets[r + 1]].

    In a loop of period p <= MAX_PERIOD, unit i equals unit i - p at max(24, 2 p) or more
    consecutive i; these and the p units before them are the loop. It counts from 100 units on, or
    from 32 if it is at least a quarter of the text. A unit that occurs only once, such as GAP, ends
    a loop. Of several loops, return the longest of the smallest period; zeros without a loop.
    Source: rlreport.
    """
    loops = np.zeros((len(offsets) - 1, 3), np.int64)
    for period, texts in _texts_that_may_loop(units, offsets):
        has_no_loop = loops[texts, 1] == 0  # of a smaller period
        for text in texts[has_no_loop].tolist():
            text_units = units[offsets[text] : offsets[text + 1]]
            start, length = _longest_loop(text_units, period)
            if length:
                loops[text] = start, period, length
    return loops


def _texts_that_may_loop(
    units: NDArray[np.int32], offsets: Ints
) -> Iterator[tuple[int, Ints]]:
    """Yield each period, ascending, and the texts that may have a loop of it.

    Every _STRIDE-th unit is compared with the one a period before. In _LEAST_REPEATED consecutive
    units there are three of these, so that a text with a loop has three equal ones in a row. Three
    that lie in two texts are no problem: the text is compared in full afterwards.
    """
    # Before the first text there are units that equal no other.
    padded = np.pad(units, (MAX_PERIOD, 0), constant_values=-1)
    positions = np.arange(0, len(units), _STRIDE)
    text_of = np.searchsorted(offsets, positions, side="right") - 1
    for period in range(1, MAX_PERIOD + 1):
        before = padded[MAX_PERIOD - period : len(padded) - period : _STRIDE]
        equal = padded[MAX_PERIOD::_STRIDE] == before
        are_three_equal = equal[2:] & equal[1:-1] & equal[:-2]
        yield period, np.unique(text_of[np.flatnonzero(are_three_equal)])


def _longest_loop(units: NDArray[np.int32], period: int) -> tuple[int, int]:
    """Return start and length of the longest loop of a period in a text; zeros if none counts."""
    # Runs (start, stop) of positions i at which unit i + period equals unit i
    runs = spans(units[period:] == units[:-period])
    if not len(runs):
        return 0, 0
    lengths = runs[:, 1] - runs[:, 0]
    longest = int(np.argmax(lengths))  # of equal ones, the first
    start = int(runs[longest, 0])
    repeated = int(lengths[longest])
    # The loop begins with the run, and ends a period after it: with the unit i + period of its
    # last i.
    length = repeated + period
    is_quarter = 4 * length >= len(units)
    least = _LEAST_QUARTER_LOOP if is_quarter else _LEAST_LOOP
    if length >= least and repeated >= max(_LEAST_REPEATED, 2 * period):
        return start, length
    return 0, 0


def is_cut_off(finished: Floats, ending: Floats | Ints) -> Floats:
    """Return 1 if a token limit or an unknown reason cut a response, 0 if not, NaN if unknown.

    ``finished`` is 1 if the response ended by itself, 0 if not, NaN if unknown; ``ending`` is an
    ``Ending``, 0 if it is not known.
    """
    # After other endings, such as an error, it is no wonder that the EOS token is missing.
    by_tokens = np.isin(ending, (0, Ending.FINISHED, Ending.CUT_OFF, Ending.OTHER))
    return np.where(by_tokens, 1 - finished, 0.0)


def thinking_tokens(
    opens: NDArray[np.bool_], closes: NDArray[np.bool_], offsets: Ints
) -> dict[str, Floats]:
    """Return the columns ``thinking_tokens`` (tags included) and ``answer_tokens``, (R,) each.

    ``opens`` and ``closes`` mark the tags, (N,). NaN for a response without any, {} if none has.
    """
    marks = np.flatnonzero(opens | closes)
    if not len(marks):
        return {}
    row = np.searchsorted(offsets, marks, side="right") - 1  # of each mark
    is_opening = opens[marks]
    # From a mark up to the next one, or to the end of the row
    next_mark = np.append(marks[1:], offsets[-1])
    length = np.minimum(next_mark, offsets[row + 1]) - marks
    # All from an opening tag on is thinking, and so is a closing tag.
    thought = np.where(is_opening, length, 1)
    # Tokens before a row's first mark are thinking if that mark closes thinking.
    is_first = np.diff(row, prepend=-1) > 0
    has_begun = is_first & ~is_opening
    thought[has_begun] += (marks - offsets[row])[has_begun]
    rows = len(offsets) - 1
    has_mark = np.bincount(row, minlength=rows) > 0
    count = np.bincount(row, thought, minlength=rows)
    thinking = np.where(has_mark, count, np.nan)
    answer = lengths_of(offsets) - thinking
    return {"thinking_tokens": thinking, "answer_tokens": answer}


def correctness(extras: pd.DataFrame, reward: Floats) -> Floats:
    """Return 1 for each right response, 0 for each wrong one, and NaN if it is not known, (R,).

    The first column of ``extras`` that has the name and the values of a grade decides. Without
    such a column, the rewards do if they have just two values: the larger one is right.
    """
    logged = extras.select_dtypes("number").filter(regex=_CORRECT_FIELD)
    for _, values in logged.items():
        grades = values.to_numpy(np.float64)
        if _is_binary(grades):
            return grades
    rewards = np.unique(reward[~np.isnan(reward)])
    if len(rewards) == 2:
        return np.where(np.isnan(reward), np.nan, reward == rewards[1])
    return np.full(len(reward), np.nan)


def _is_binary(grades: Floats) -> bool:
    """Return whether all known grades are 0 or 1, and at least one is known."""
    known = grades[~np.isnan(grades)]
    is_grade = np.isin(known, (0.0, 1.0))
    return len(known) > 0 and bool(is_grade.all())
