"""Checks of the reference policy: relations of log-probabilities that hold in a correct run."""

from __future__ import annotations

import re

import numpy as np

from rlreport.check import quantities
from rlreport.check.check import FALLS, KL, Check, Need
from rlreport.check.evidence import Ranking, beyond
from rlreport.check.finding import Facts, Rank, Result, Severity
from rlreport.check.laws import (
    LEAST_ROWS,
    NOT_OBSERVED,
    Bools,
    Figure,
    figures_by_block,
    found_in_blocks,
)
from rlreport.check.limits import Limit, LimitKind, Limits
from rlreport.check.means import mean
from rlreport.check.run import Run
from rlreport.check.series import Series
from rlreport.check.settings import SettingKind, see
from rlreport.check.windows import Window
from rlreport.text.messages import translatable

# The trainer's KL: a sum over the tokens of a response, or their mean
KL_ROLES = ("kl", "kl_token")
ANY_KL = Need("logprobs and ref_logprobs", ("kl_k1",), KL_ROLES)

# Log-probabilities that differ by less than this are the same numbers
SAME_LOGP = 1e-9


class _ReferenceIsPolicy(Limits):
    share = Limit(
        0.95,
        LimitKind.SHARE,
        "of responses",
        "share whose log-probabilities are all those of the reference, after the first step",
        translatable("trl#702: policy and reference were one model"),
    )
    steps = Limit(5, LimitKind.COUNT, "steps", "least number of such steps")


@Check(
    name="policy and reference are the same model",
    rank=Rank.CAUSE,
    needs=(ANY_KL,),
    charts=("kl",),
    limits=_ReferenceIsPolicy,
    title={
        "rollouts": "Policy and reference have identical log-probabilities in {share:percent} of "
        "responses after the first step: the KL is exactly 0.",
        "metrics": "The trainer's KL is exactly 0 in all {steps:count} steps after the first: it "
        "is not computed, or policy and reference are the same model.",
    },
    statement="policy and reference are identical (KL is exactly 0)",
    why="Either the reference is the policy itself, so that there is no KL penalty, or no update "
    "reaches the policy.",
    suggestion="Make sure that the reference is a copy of its own, and that weights are updated.",
    advice=see(SettingKind.REFERENCE),
    explains=("reward_stalled",),
)
def reference_is_policy(check: Check, run: Run) -> Result:
    """Find that the policy's log-probabilities are those of the reference after it was trained."""
    if not KL.is_available(run):
        return _trainers_kl_is_0(check, run)
    limits = _ReferenceIsPolicy
    # An untrained policy is the reference: the first step is correct in any case.
    first_trained = int(np.searchsorted(run.step_index, 1))
    largest = run.column("log_ratio_most")
    is_same = np.where(np.isfinite(largest), largest < SAME_LOGP, np.nan)
    is_same[:first_trained] = np.nan
    is_judged = np.isfinite(is_same)
    step_count = len(np.unique(run.step_index[is_judged]))
    if step_count < run.limits.value(limits.steps):
        return Result()

    def share_of_same(window: Window) -> Figure:
        of_window = is_same[window.rows]
        if not np.isfinite(of_window).any():
            return NOT_OBSERVED
        share = mean(of_window)
        return Figure(share, run.limits.test(limits.share, ">", share).met)

    blocks = figures_by_block(run, share_of_same, among=is_judged)
    if not blocks.is_observed:
        return Result()
    largest_share = float(np.nanmax(blocks.values))
    tested = run.limits.test(limits.share, ">", largest_share)
    if not blocks.is_violated:
        return Result(tested=(tested,))
    return found_in_blocks(
        check,
        blocks,
        (tested,),
        {"kind": "rollouts", "share": mean(is_same[blocks.rows])},
        Ranking(largest, is_same, highest=False, unit="nats"),
    )


def _trainers_kl_is_0(check: Check, run: Run) -> Result:
    """Note that the trainer's KL is 0 at all steps; it may be one that is not computed."""
    for series in _trainers_kls(run):
        after_first = series.values[1:]
        if len(after_first) < run.limits.value(_ReferenceIsPolicy.steps):
            continue
        if (np.abs(after_first) < SAME_LOGP).all() and not _is_switched_off(run):
            return check.found(
                run,
                Severity.INFO,
                facts={"kind": "metrics", "steps": len(after_first)},
                series=series,
                onset=run.from_start(),
            )
    return Result()


def _trainers_kls(run: Run) -> list[Series]:
    """Return the trainer's series of the KL: of responses, then of tokens, if they are logged."""
    logged = [quantities.series_of(run, role) for role in KL_ROLES]
    return [series for series in logged if series is not None and len(series.steps)]


# Names of the weight of the KL in the loss or in the reward
_COEFFICIENT = re.compile(
    r"(?i)(?:.*[/_.])?kl_?(?:ctl_?)?(?:coef|coeff|coefficient|beta)\Z"
)


def _is_switched_off(run: Run) -> bool:
    """Return whether the trainer logs that its KL has the weight 0, so that it needs none."""
    metrics = run.tables.metrics
    names = [name for name in map(str, metrics.columns) if _COEFFICIENT.match(name)]
    return any((metrics[name].dropna() == 0).all() for name in names)


class _ReferenceIsOther(Limits):
    token = Limit(
        0.1,
        LimitKind.VALUE,
        "nats per token",
        "KL of the first step",
        translatable("trl#1340, trl#495: the reference lacked the SFT adapters"),
    )
    response = Limit(
        10.0,
        LimitKind.VALUE,
        "nats per response",
        "KL of the first step, if lengths are not known",
        translatable("TRL's PPO starts at up to 8.5 nats per response"),
    )


# A policy that was trained in more steps before its first logged one may be far in any case
LAST_FIRST_STEP = 2


@Check(
    name="the reference is not the model that the run started from",
    rank=Rank.CAUSE,
    needs=(ANY_KL,),
    charts=("kl",),
    limits=_ReferenceIsOther,
    title={
        "token": "KL to the reference is {kl:figure} nats per token in step {first}, although the "
        "policy has hardly been trained: the reference is another model.",
        "response": "KL to the reference is {kl:figure} nats per response in step {first}, "
        "although the policy has hardly been trained: the reference is another model.",
    },
    statement={
        "token": "the reference is not the model that the run started from (KL {kl:short} nats "
        "per token at first)",
        "response": "the reference is not the model that the run started from (KL {kl:short} nats "
        "per response at first)",
    },
    why="A KL penalty then pulls the policy towards a model that it never was.",
    suggestion="Load the reference from the policy's starting weights, adapters included.",
    advice=see(SettingKind.REFERENCE),
    explains=("kl_explosion", "reward_stalled", *FALLS),
)
def reference_is_other(check: Check, run: Run) -> Result:
    """Find a KL to the reference that is high before the policy was trained."""
    if KL.is_available(run):
        return _first_responses(check, run)
    first = _trainers_first_kl(run)
    if first is None:
        return Result()
    kl, limit, step = first
    tested = run.limits.test(limit, ">", kl)
    if not tested.met:
        return Result(tested=(tested,))
    reward = quantities.reward_course(run)
    learns = reward is not None and (reward.gained or reward.curve.probably_rose)
    facts: Facts = {
        "kind": limit.key,
        "kl": kl,
        "first": step,
        "series_from": "metrics",
    }
    severity = Severity.INFO if learns else Severity.WARNING
    return check.found(run, severity, [tested], facts, onset=step)


def _first_responses(check: Check, run: Run) -> Result:
    """Judge the responses of the first step or, if these are few, of the first steps."""
    kl = run.column("kl_k1")
    tokens = run.column("response_tokens")
    first = _first_window(run, np.isfinite(kl))
    if first is None:
        return Result()
    kl_there = kl[first.rows]
    known = np.isfinite(kl_there) & (tokens[first.rows] > 0)
    limit: Limit[float] = _ReferenceIsOther.token
    of = float(tokens[first.rows][known].sum())
    if not known.any():
        known = np.isfinite(kl_there)
        limit = _ReferenceIsOther.response
        of = float(known.sum())
    level = float(kl_there[known].sum()) / of
    tested = run.limits.test(limit, ">", level)
    if not tested.met:
        return Result(tested=(tested,))
    facts: Facts = {"kind": limit.key, "kl": level, "first": first.steps[0]}
    return check.found(
        run,
        Severity.WARNING,
        [tested],
        facts,
        Ranking(
            kl,
            beyond(kl if limit.key == "response" else kl / tokens, ">", tested.bound),
            unit="nats",
            token=run.column("kl_max_position"),
        ),
        onset=run.from_start(),
        steps=first.steps,
    )


def _first_window(run: Run, counted: Bools) -> Window | None:
    """Return the first step, or the fewest first steps with LEAST_ROWS counted responses.

    None if the log starts later than LAST_FIRST_STEP, or has too few responses until then.
    """
    of_step = np.bincount(run.step_index[counted], minlength=len(run.steps))
    stop = int(np.searchsorted(np.cumsum(of_step), LEAST_ROWS)) + 1
    if stop > len(run.steps) or run.steps[stop - 1] > LAST_FIRST_STEP:
        return None
    return run.window(0, stop)


def _trainers_first_kl(run: Run) -> tuple[float, Limit[float], int] | None:
    """Return the trainer's first KL, the limit of its unit, and its step; None if it is later."""
    limits = _ReferenceIsOther
    for series in _trainers_kls(run):
        step = int(series.steps[0])
        if step > LAST_FIRST_STEP:
            continue
        kl = float(series.values[0])
        if series.name == run.roles.get("kl_token"):
            return kl, limits.token, step
        length = quantities.mean_length(run, series)
        if length is None:
            return kl, limits.response, step
        return kl / float(length[0]), limits.token, step
    return None
