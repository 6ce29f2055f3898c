"""Checks of tokens: relations of their log-probabilities, masks, rewards and texts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rlreport.check.check import FALLS, REWARD, Check, Need
from rlreport.check.evidence import Ranking, beyond, where_known
from rlreport.check.finding import Facts, Rank, Result, Severity
from rlreport.check.laws import (
    LEAST_ROWS,
    NOT_OBSERVED,
    Bools,
    Figure,
    figures_by_block,
    found_in_blocks,
    judge_ratio,
    judge_violations,
)
from rlreport.check.limits import Limit, LimitKind, Limits, Tested
from rlreport.check.means import median
from rlreport.check.run import Run
from rlreport.check.settings import SettingKind, see
from rlreport.check.windows import Window
from rlreport.figures.ragged import Floats
from rlreport.figures.rounding import rounded
from rlreport.text.messages import translatable

# So many responses at least differ from the usual reward where it varies
LEAST_VARYING = 4
# A residual of this part of a figure's norm is a rounding error
NOTHING = 1e-6


class _RewardNotTrained(Limits):
    correlation = Limit(
        0.1,
        LimitKind.VALUE,
        "",
        "correlation of Σ token rewards with the reward, at an equal KL",
    )
    slope = Limit(
        -3.0,
        LimitKind.ERRORS,
        "std errors",
        "slope of Σ token rewards on the reward, at an equal KL",
    )


@Check(
    name="the reward is not trained on",
    rank=Rank.CAUSE,
    needs=(REWARD, Need("token_rewards", ("rlhf_reward",))),
    charts=("reward",),
    limits=_RewardNotTrained,
    title={
        "none": "Σ token rewards does not follow the reward: at an equal KL their correlation is "
        "{correlation:figure}.",
        "negative": "Σ token rewards falls where the reward rises: at an equal KL their "
        "correlation is {correlation:figure}.",
    },
    statement={
        "none": "the reward is not in what the policy is trained on",
        "negative": "the policy is trained against its reward",
    },
    why="The policy learns from the token rewards alone, so nothing moves it towards the reward.",
    suggestion="Print a response's token rewards: their sum is the reward less the KL penalty.",
    explains=(*FALLS, "reward_stalled"),
)
def reward_not_trained(check: Check, run: Run) -> Result:
    """Find that the rewards of tokens do not contain the reward of their response."""
    limits = _RewardNotTrained
    reward = run.column("reward")
    trained = run.column("rlhf_reward")
    kl = run.column("kl_k1")
    is_judged = np.isfinite(reward) & np.isfinite(trained)
    if np.isfinite(kl[is_judged]).all():
        is_judged &= np.isfinite(kl)
    else:
        kl = np.zeros(len(kl))

    def fit(window: Window) -> tuple[float, float]:
        """Return the partial correlation with the reward, and the z of its slope."""
        rows = np.flatnonzero(is_judged[window.rows]) + window.rows.start
        return _partial_correlation(trained[rows], reward[rows], kl[rows])

    def correlation(window: Window) -> Figure:
        r, z = fit(window)
        if not math.isfinite(r):
            return NOT_OBSERVED
        is_low = run.limits.test(limits.correlation, "<", r).met
        return Figure(r, is_low or run.limits.test(limits.slope, "<", z).met)

    blocks = figures_by_block(run, correlation, among=is_judged)
    if not blocks.is_observed:
        return Result()
    if not blocks.is_violated:
        # Far from its limit, a correlation says nothing about how near it is.
        return Result()
    worst = float(np.nanmin(blocks.values[blocks.violated]))
    slopes = [
        fit(window)[1]
        for window, violated in zip(blocks.windows, blocks.violated, strict=True)
        if violated
    ]
    tested = (
        run.limits.test(limits.correlation, "<", worst),
        run.limits.test(limits.slope, "<", min(slopes)),
    )
    kind = "negative" if tested[1].met else "none"
    return found_in_blocks(
        check,
        blocks,
        tested,
        {"kind": kind, "correlation": worst},
        Ranking(np.abs(trained - reward), _against(run, reward, trained)),
    )


def _against(run: Run, reward: Floats, trained: Floats) -> Floats:
    """Return 1 for responses that earn more than their step's mean, but are trained on less.

    It is 0 for the others with both figures, and NaN for the rest, float64 (rows,).
    """
    of_step = run.step_index
    above = reward - run.by_step(reward)[of_step]
    trained_above = trained - run.by_step(trained)[of_step]
    return where_known(above + trained_above, (above > 0) & (trained_above <= 0))


def _partial_correlation(y: Floats, x: Floats, other: Floats) -> tuple[float, float]:
    """Return the correlation of y and x at an equal value of another figure, and the slope's z.

    Both are NaN if there are too few values, or x hardly varies; 0 if y does not.
    """
    count = len(x)
    if count < LEAST_ROWS or _differing(x) < LEAST_VARYING:
        return math.nan, math.nan
    design = np.column_stack([np.ones(count), other - other.mean()])
    rest_x = x - design @ np.linalg.lstsq(design, x, rcond=None)[0]
    rest_y = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    size_x = float(np.linalg.norm(rest_x))
    size_y = float(np.linalg.norm(rest_y))
    # The reward itself may follow from the KL: then nothing can be told.
    if size_x <= NOTHING * float(np.linalg.norm(x - x.mean())):
        return math.nan, math.nan
    if size_y <= NOTHING * float(np.linalg.norm(y)) or size_y == 0:
        return 0.0, 0.0
    r = rounded(float(rest_x @ rest_y) / (size_x * size_y))
    below_one = min(max(r, -0.999999), 0.999999)
    freedom = count - 3
    return r, rounded(below_one * math.sqrt(freedom / (1 - below_one**2)))


def _differing(values: Floats) -> int:
    """Return how many values are not the most common one."""
    _, counts = np.unique(values, return_counts=True)
    return len(values) - int(counts.max())


class _MaskCoversEnvironment(Limits):
    share = Limit(
        0.01,
        LimitKind.SHARE,
        "of trained tokens",
        "share that lies in turns that the policy did not write",
    )


@Check(
    name="the environment's tokens are trained",
    rank=Rank.CAUSE,
    needs=(Need("turns with token spans and response_mask", ("env_trained_tokens",)),),
    limits=_MaskCoversEnvironment,
    title="{share:percent} of the trained tokens were written by the environment, not by the "
    "policy.",
    statement="{share:percent} of the trained tokens were written by the environment",
    why="The policy then learns to write what tools and users answer.",
    suggestion="Set the loss mask to 0 for the tokens of tools and users.",
    explains=(*FALLS, "reward_stalled", "kl_explosion", "entropy_explosion"),
)
def mask_covers_environment(check: Check, run: Run) -> Result:
    """Find that the mask of trained tokens covers turns that were not sampled."""
    environment = run.column("env_trained_tokens")
    trained = np.where(np.isfinite(environment), run.column("response_tokens"), np.nan)
    return judge_ratio(
        check,
        run,
        (environment, trained),
        _MaskCoversEnvironment.share,
        Ranking.beyond(environment, ">", 0, unit=translatable("tokens")),
    )


class _EosNotSampled(Limits):
    logp = Limit(
        -8.0,
        LimitKind.VALUE,
        "nats",
        "log-probability of an end token that was hardly sampled",
    )
    share = Limit(
        0.05,
        LimitKind.SHARE,
        "of responses with an end token",
        "share whose end token has a lower log-probability",
    )


@Check(
    name="end tokens that were not sampled",
    rank=Rank.CAUSE,
    needs=(Need("logprobs and end tokens", ("end_logp",)),),
    charts=("eos", "length"),
    limits=_EosNotSampled,
    title="{share:percent} of end tokens have a probability near 0 (median log-probability "
    "{logp:figure}): the policy did not sample them.",
    statement="{share:percent} of end tokens were not sampled by the policy",
    why="An end token that was put at a limit hides that the response is cut off, and is trained.",
    suggestion="Do not append end tokens at the limit, or leave them out of the loss.",
    advice=see(SettingKind.STOP_TOKENS),
    explains=("missing_eos", "length_collapse", *FALLS),
)
def eos_not_sampled(check: Check, run: Run) -> Result:
    """Find responses whose end token is so improbable that a limit must have put it there."""
    logp = run.column("end_logp")
    bound = run.limits[_EosNotSampled].logp
    is_put = np.where(np.isfinite(logp), logp < bound, np.nan)

    def typical_logp(rows: Bools) -> Facts:
        return {"logp": median(logp[rows & (is_put == 1)])}

    return judge_violations(
        check,
        run,
        is_put,
        _EosNotSampled.share,
        Ranking(logp, is_put, highest=False, unit="nats", at_end=True),
        facts=typical_logp,
    )


class _TokensAreNotText(Limits):
    share = Limit(
        0.1,
        LimitKind.SHARE,
        "of responses",
        "share whose tokens and text do not contain one another",
    )


@Check(
    name="tokens and text differ",
    rank=Rank.NOTE,
    needs=(Need("response_tokens", ("tokens_fit",)),),
    limits=_TokensAreNotText,
    title="In {share:percent} of responses, the tokens are not those of the text.",
    why="Figures of tokens, such as the KL, then belong to other texts than those shown.",
    suggestion="Look whether tokens and texts were written from the same rows.",
)
def tokens_are_not_text(check: Check, run: Run) -> Result:
    """Note that tokens, joined, are not the text of their response."""
    differs = 1 - run.column("tokens_fit")  # NaN if it is not known
    return judge_violations(
        check,
        run,
        differs,
        _TokensAreNotText.share,
        Ranking(by=differs, among=differs),
        severity=Severity.INFO,
    )


class _ImprobableDuplicates(Limits):
    logp = Limit(
        -25.0,
        LimitKind.VALUE,
        "nats",
        "log-probability of a whole response that hardly occurs twice",
    )
    pairs = Limit(2, LimitKind.COUNT, "pairs", "least number of such equal responses")


@Check(
    name="equal responses that are improbable",
    rank=Rank.NOTE,
    needs=(Need("logprobs", ("logp_tokens",)),),
    limits=_ImprobableDuplicates,
    title="{pairs:count} responses equal another one to the same prompt in their step, although "
    "their log-probability is {logp:figure} (median): another temperature, or copied rows?",
    why="Such a response should not occur twice: either the log-probabilities or the rows are not "
    "what they seem.",
    suggestion="Compare the sampler's temperature with that of the log-probabilities; look for "
    "copied rows.",
    advice=see(SettingKind.TEMPERATURE),
)
def improbable_duplicates(check: Check, run: Run) -> Result:
    """Note equal responses to a prompt in a step that would hardly be sampled twice."""
    limits = _ImprobableDuplicates
    logp = -run.column("surprisal_mean") * run.column("logp_tokens")
    is_improbable = logp < run.limits.value(limits.logp)
    keys = run.responses[["step", "prompt_id", "response_hash"]]
    repeats = keys[is_improbable].duplicated()
    pairs = int(repeats.sum())
    tested = run.limits.test(limits.pairs, ">=", pairs)
    if not tested.met:
        return Result(tested=(tested,))
    is_equal = is_improbable & keys.duplicated(keep=False).to_numpy()
    first = int(np.argmax(is_equal))
    steps = run.responses["step"].to_numpy(np.int64)
    return check.found(
        run,
        Severity.INFO,
        [tested],
        {"pairs": pairs, "logp": median(logp[is_equal])},
        Ranking(logp, is_equal, highest=False, unit="nats"),
        onset=int(steps[first]),
        steps=np.unique(steps[is_equal]).tolist(),
    )


class _Temperature(Limits):
    low = Limit(
        0.9,
        LimitKind.VALUE,
        "",
        "slope of the trainer's on the sampler's log-probabilities of rare tokens (lower limit)",
        translatable("trl#4159: log-probabilities at temperature 1 and at 0.6"),
    )
    high = Limit(1.1, LimitKind.VALUE, "", "that slope (upper limit)")
    tokens = Limit(
        500,
        LimitKind.COUNT,
        "tokens",
        "least number of rare tokens in a block of steps",
    )


# Sums over the rare tokens of a response: see ``columns``
_RARE = ("rare_tokens", "rare_sampler", "rare_trainer", "rare_square", "rare_product")


@Check(
    name="another temperature in sampler and trainer",
    rank=Rank.NOTE,
    needs=(Need("sampler and trainer logprobs of the same tokens", _RARE),),
    charts=("mismatch",),
    limits=_Temperature,
    title="Of rare tokens, the trainer's log-probabilities are {slope:figure} × as far apart as "
    "the sampler's: one of them may have another temperature.",
    why="Importance weights and the KL then compare two different distributions.",
    suggestion="Divide logits by the sampling temperature in the trainer, too; or let the sampler "
    "return log-probabilities after the temperature.",
    advice=see(SettingKind.TEMPERATURE),
)
def temperature(check: Check, run: Run) -> Result:
    """Note that log-probabilities of trainer and sampler differ by a factor."""
    limits = _Temperature
    sums = [run.column(name) for name in _RARE]
    rare_tokens = sums[0]
    is_known = np.nan_to_num(rare_tokens) > 0

    def slope(window: Window) -> Figure:
        """Return the slope of a window, which violates the relation if it is far from 1."""
        rows = np.zeros(len(is_known), bool)
        rows[window.rows] = is_known[window.rows]
        if rare_tokens[rows].sum() < run.limits.value(limits.tokens):
            return NOT_OBSERVED
        value = _slope(sums, rows)
        is_low = run.limits.test(limits.low, "<", value).met
        is_high = run.limits.test(limits.high, ">", value).met
        return Figure(value, is_low or is_high)

    blocks = figures_by_block(run, slope, among=is_known)
    if not blocks.is_violated:
        return Result()
    level = _slope(sums, blocks.rows & is_known)
    tested = (
        run.limits.test(limits.low, "<", level),
        run.limits.test(limits.high, ">", level),
    )
    return found_in_blocks(
        check,
        blocks,
        tested,
        {"slope": level},
        _of_slope(run, sums, tested, is_high=level > 1),
        severity=Severity.INFO,
    )


def _of_slope(
    run: Run, sums: Sequence[Floats], tested: tuple[Tested, Tested], *, is_high: bool
) -> Ranking:
    """Return how to choose responses whose own rare tokens have such a slope."""
    count, sampler, trainer, square, product = sums
    tokens = np.where(count > 1, count, np.nan)
    variance = square - sampler**2 / tokens
    covariance = product - sampler * trainer / tokens
    unknown = np.full(len(tokens), np.nan)
    slopes = np.divide(covariance, variance, out=unknown, where=variance > 0)
    low, high = tested
    among = (
        beyond(slopes, ">", high.bound) if is_high else beyond(slopes, "<", low.bound)
    )
    return Ranking(run.column("mismatch_k3"), among)


def _slope(sums: Sequence[Floats], rows: Bools) -> float:
    """Return the slope of the least-squares line of trainer on sampler log-probabilities.

    At a temperature of T, the log-probability of a token is 1/T times its logit, less a constant of
    its position. The mean of the constants is the intercept.

    Args:
        sums: of tokens by response, in the order of ``_RARE``, (rows,) each.
        rows: the responses whose tokens count.
    """
    tokens, sampler, trainer, square, product = (one[rows].sum() for one in sums)
    covariance = product - sampler * trainer / tokens
    variance = square - sampler**2 / tokens
    return rounded(float(covariance / variance)) if variance > 0 else math.nan
