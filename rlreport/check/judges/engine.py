"""Checks of sampler against trainer: mismatch of tokens, importance weights, lag, negative KL."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import KL, Check, Need, Result
from rlreport.check.finding import Fact, Op
from rlreport.check.limits import CONTRACT, MISMATCH, Limit, Limits
from rlreport.check.noise import mean_of
from rlreport.check.run import Ranking, Run, mean, median
from rlreport.check.shapes import FAILURES, Figure, judge_figures
from rlreport.summarise.steps import sequence_weights
from rlreport.text.messages import marked

ROLLOUT_CORR = marked("verl rollout_corr; VCPO (a falling effective sample precedes collapse)")
TURN_MISMATCH = marked("verl 6719; NeMo-RL (9 one way, 22,015 the other)")
TRL_NEGATIVE = marked(
    "TRL FAQ (top-k, min_length); LMFlow post (nearly half negative after a minimum length)"
)


class NegativeKl(Limits):
    """Thresholds of ``negative_kl``."""

    z = Limit(-3.0, "std errors", "warning: significance of a mean KL below zero", TRL_NEGATIVE)
    mean = Limit(-0.01, "nats", "and the mean is below this, more than rounding")


class EngineMismatch(Limits):
    """Thresholds of ``engine_mismatch``."""

    ratio = Limit(1.05, "", "mean exp|trainer - sampler| per token", MISMATCH)
    k3 = Limit(1e-3, "nats", "mean k3 per token, trainer against sampler", MISMATCH)
    prob = Limit(0.01, "", "mean |trainer - sampler| probability per token", MISMATCH)


class MismatchByTurn(Limits):
    """Thresholds of ``mismatch_by_turn``."""

    k3 = Limit(1e-3, "nats", "mean k3 per token in the last turn", MISMATCH)
    ratio = Limit(3.0, "times", "and against the first turn", CONTRACT)


class OffPolicyWeights(Limits):
    """Thresholds of ``off_policy_weights``."""

    ess = Limit(0.3, "of responses", "effective sample below this", ROLLOUT_CORR)
    low = Limit(0.5, "", "mean weight below this", ROLLOUT_CORR)
    high = Limit(2.0, "", "mean weight above this", ROLLOUT_CORR)
    std = Limit(1.0, "", "std of the weights above this", ROLLOUT_CORR)
    chi2 = Limit(1.0, "", "mean of squared weights − 1 above this", ROLLOUT_CORR)


class StaleRollouts(Limits):
    """Thresholds of ``stale_rollouts``."""

    lag = Limit(8.0, "steps", "mean lag of the last window", "prime-rl: max_off_policy_steps is 8")


def judge_mismatch(run: Run) -> Result:
    """Compare sampler and trainer probabilities of the same tokens by three measures."""
    weights = run.column("mismatch_tokens")
    figures = [
        Figure(limit, ">", run.by_step(values, weights), run.change(values, weights).last)
        for limit in (EngineMismatch.k3, EngineMismatch.prob, EngineMismatch.ratio)
        for values in [run.column(f"mismatch_{limit.key}")]
    ]
    ends: dict[str, Fact] = {figure.limit.key: figure.end for figure in figures}
    ranking = Ranking(run.column("mismatch_k3"), unit="nats per token")
    return judge_figures(ENGINE_MISMATCH, run, figures, ranking, **ends)


ENGINE_MISMATCH = Check(
    id="engine_mismatch",
    name="sampler and trainer disagree",
    rank="cause",
    looks_for="sampler and trainer disagree on the same tokens",
    needs=(Need("sampler and trainer logprobs of the same tokens", ("mismatch_k3",)),),
    charts=("mismatch",),
    judge=judge_mismatch,
    limits=EngineMismatch,
    title="Sampler and trainer disagree on the same tokens: exp|Δ logp| {ratio:figure}, k3 "
    "{k3:figure} nats, |Δ prob| {prob:figure} on average.",
    why="The trainer assumes that it learns on-policy and does not; the bias grows with length.",
    suggestion="Use the same precision, kernels and weights in both engines, or correct with "
    "truncated importance weights.",
    explains=(*FAILURES, "ratio_drift", "negative_kl"),
    trend=False,
)


def judge_by_turn(run: Run) -> Result:
    """Compare the mismatch of sampler and trainer in the last turn with that in the first."""
    first, last = run.column("mismatch_first_turn"), run.column("mismatch_last_turn")
    start, end = run.change(first).last, run.change(last).last
    if not run.met(MismatchByTurn.ratio, ">", end, of=start):
        return None
    figures = [Figure(MismatchByTurn.k3, ">", run.by_step(last), end)]
    ranking = Ranking(last, unit="nats per token")
    return judge_figures(MISMATCH_BY_TURN, run, figures, ranking, first=start, last=end)


MISMATCH_BY_TURN = Check(
    id="mismatch_by_turn",
    name="mismatch that grows with the turn",
    rank="cause",
    looks_for="sampler and trainer drift apart from turn to turn",
    needs=(
        Need(
            "sampler and trainer logprobs, and a response_mask or spans of several turns",
            ("mismatch_last_turn",),
        ),
    ),
    charts=("mismatch",),
    judge=judge_by_turn,
    limits=MismatchByTurn,
    title="Sampler and trainer disagree by {last:figure} nats per token in the last turn, "
    "{first:figure} in the first (k3, the larger of both directions).",
    why="The trainer then sees other tokens than the sampler wrote, as happens when a conversation "
    "is tokenised again.",
    suggestion="Keep token ids from turn to turn, and check that the chat template drops nothing "
    "from earlier turns.",
    source=TURN_MISMATCH,
    explains=(
        *("engine_mismatch", "off_policy_weights", "reward_collapse"),
        *("watched_reward_fall", "kl_explosion"),
    ),
    trend=False,
)


def judge_weights(run: Run) -> Result:
    """Judge the importance weights w = exp(sum of trainer - sampler logp) by four figures per step.

    The median over the steps of the last window counts, so that one step is no finding.
    """
    weight = sequence_weights(run.column("log_weight"))
    mean, square = run.by_step(weight), run.by_step(weight**2)
    by_step = {
        "mean": mean,
        "ess": mean**2 / square,
        "std": np.sqrt(np.maximum(square - mean**2, 0)),
        "chi2": square - 1,
    }
    ends = {name: median(run.last_values(series)) for name, series in by_step.items()}
    judged: tuple[tuple[str, Limit[float], Op], ...] = (
        ("ess", OffPolicyWeights.ess, "<"),
        ("mean", OffPolicyWeights.low, "<"),
        ("mean", OffPolicyWeights.high, ">"),
        ("std", OffPolicyWeights.std, ">"),
        ("chi2", OffPolicyWeights.chi2, ">"),
    )
    figures = [Figure(limit, op, by_step[name], ends[name]) for name, limit, op in judged]
    ranking = Ranking(np.abs(run.column("log_weight")), unit="nats")
    return judge_figures(OFF_POLICY_WEIGHTS, run, figures, ranking, **ends)


OFF_POLICY_WEIGHTS = Check(
    id="off_policy_weights",
    name="off-policy importance weights",
    rank="cause",
    looks_for="importance weights of whole responses spread",
    needs=(Need("sampler and trainer logprobs of the same tokens", ("log_weight",)),),
    charts=("mismatch",),
    judge=judge_weights,
    limits=OffPolicyWeights,
    title="Importance weights of whole responses spread: mean {mean:figure}, std {std:figure}, an "
    "effective sample of {ess:percent} of the responses.",
    why="A few responses then carry most of a corrected gradient; an uncorrected one is biased.",
    suggestion="Truncate the weights or mask the outliers, and sample from fresher weights.",
    explains=(
        *("reward_collapse", "watched_reward_fall", "kl_explosion"),
        *("entropy_collapse", "reward_stalled"),
    ),
    trend=False,
)


def judge_lag(run: Run) -> Result:
    """Compare the mean lag of the last window with what asynchronous training tolerates."""
    lag = run.column("lag")
    end = run.change(lag).last
    figures = [Figure(StaleRollouts.lag, ">", run.by_step(lag), end)]
    return judge_figures(STALE_ROLLOUTS, run, figures, Ranking(lag, unit="steps"), lag=end)


STALE_ROLLOUTS = Check(
    id="stale_rollouts",
    name="stale rollouts",
    rank="cause",
    looks_for="responses were sampled by a policy many steps old",
    needs=(Need("policy_version", ("lag",)),),
    charts=("lag", "reward"),
    judge=judge_lag,
    limits=StaleRollouts,
    title="Responses were sampled {lag:figure} steps before the step that learns from them.",
    why="The policy learns from texts that it would no longer write.",
    suggestion="Update the sampler more often, or drop rollouts whose lag exceeds a limit.",
    explains=(
        *("off_policy_weights", "ratio_drift", "reward_collapse"),
        *("watched_reward_fall", "entropy_collapse"),
    ),
    trend=False,
)


def judge_negative_kl(run: Run) -> Result:
    """Test whether the mean KL estimate at the end is below zero, which a true KL never is."""
    kl = run.column("kl_k1")
    end = mean_of(run.tables, kl, run.last)
    low, z = run.met(NegativeKl.mean, "<", end.mean), run.met(NegativeKl.z, "<=", end.z)
    if not (low and z):
        return None
    values, series = kl[run.last.rows], run.by_step(kl)
    from_start = run.first is not None and mean(kl[run.first.rows]) <= end.mean / 2
    return NEGATIVE_KL.finding(
        run,
        "warning",
        low + z,
        series=series,
        always=from_start,
        ranking=Ranking(kl, highest=False, unit="nats", among=kl < 0),
        steps=run.steps[series < 0].tolist(),
        kl=end.mean,
        share=float((values < 0).sum() / np.isfinite(values).sum()),
    )


NEGATIVE_KL = Check(
    id="negative_kl",
    name="negative KL",
    rank="cause",
    looks_for="sampling makes the KL estimate negative",
    needs=(KL,),
    charts=("kl",),
    judge=judge_negative_kl,
    limits=NegativeKl,
    title="The KL estimate is below zero: {kl:figure} nats per response, negative in "
    "{share:percent} of responses.",
    why="The tokens were not sampled from the policy whose log-probabilities are logged; a KL "
    "penalty then rewards the policy for nothing.",
    suggestion="Sample with temperature 1, top_k = 0 and top_p = 1, without min_length or forced "
    "tokens.",
    explains=("reward_collapse", "watched_reward_fall", "reward_stalled", "length_collapse"),
    trend=False,
)
