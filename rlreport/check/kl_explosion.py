"""``kl_explosion``: the policy ran away from the reference."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import KL, Check, Result
from rlreport.check.finding import Facts, Met, Severity
from rlreport.check.limits import Limit, Limits, above
from rlreport.check.run import Run, Shown, mean
from rlreport.figures.ragged import Floats
from rlreport.text.messages import marked

TRL_KL = marked(
    "TRL guide: keep the KL between 0 and 10; LMFlow's PPO runs reached 500 before failing"
)


class KlExplosion(Limits):
    """Thresholds of ``kl_explosion``."""

    warn = Limit(10.0, "nats", "warning: mean KL of a response in the last window", TRL_KL)
    critical = Limit(50.0, "nats", "critical: the same mean", TRL_KL)
    response = Limit(500.0, "nats", "critical: KL of any one response", TRL_KL)
    warn_token = Limit(0.1, "nats a token", "warning: and the same mean by token")
    critical_token = Limit(0.5, "nats a token", "critical: and the same mean by token")
    response_token = Limit(1.0, "nats a token", "and of that response by token")


TRAINER_KL = "objective/kl"
"""TRL's KL per response, read where the rollouts hold no log-probabilities."""


def judge(run: Run) -> Result:
    """Compare the last window's mean KL, by response and by token, with what training survives.

    A long response at a small KL a token is no explosion. Where no tokens are counted, the
    sum alone is judged.
    """
    if not KL.met(run):
        return _judge_trainer(run)
    limits = run.limits[KlExplosion]
    kl, tokens = run.column("kl_k1"), run.column("response_tokens")
    end = run.last.rows
    whole = mean(kl[end])
    by_token = _ratio(np.nansum(kl[end]), np.nansum(np.where(np.isfinite(kl), tokens, 0)[end]))
    with np.errstate(invalid="ignore", divide="ignore"):
        own = np.where(tokens > 0, kl / tokens, np.inf)
        beyond = (kl > limits.response) & (own > limits.response_token)
    severity, met = _severity(run, whole, by_token, kl, beyond)
    if severity is None:
        return None
    series = run.by_step(kl)
    always = run.first is not None and above(mean(kl[run.first.rows]), limits.warn)
    inside = above(whole, limits.warn)
    onset = run.onset(series, always=always) if inside else None
    far = run.steps[np.isin(np.arange(len(run.steps)), run.place[beyond])][:20].tolist()
    return CHECK.finding(
        run,
        severity,
        met,
        series=series,
        onset=onset,
        dated=inside,
        shown=Shown(
            kl,
            unit="nats",
            token=run.column("kl_max_position"),
            among=None if inside else beyond,
        ),
        steps={*(run.since(onset) if inside else ()), *far},
        kl=whole,
        kl_token=by_token,
        kl_first=mean(kl[run.first.rows]) if run.first else None,
        over=int(beyond.sum()),
        over_limit=limits.response,
        over_step=int(run.steps[run.place[np.flatnonzero(beyond)[0]]]) if beyond.any() else None,
        inside=inside,
    )


def _ratio(total: float, of: float) -> float:
    return float(total / of) if of > 0 else np.nan


def _severity(
    run: Run,
    kl_mean: float,
    by_token: float,
    kl: Floats,
    beyond: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> tuple[Severity | None, list[Met]]:
    met: list[Met] = []
    for limit, of_token in (
        (KlExplosion.critical, KlExplosion.critical_token),
        (KlExplosion.warn, KlExplosion.warn_token),
    ):
        found, each = run.met(limit, ">", kl_mean), run.met(of_token, ">", by_token)
        if found and (each or np.isnan(by_token)):
            met += found + each
    if beyond.any():
        met += run.met(KlExplosion.response, ">", float(kl[beyond].max()))
    names = {threshold.name for threshold in met}
    if names & {"critical", "response"}:
        return "critical", met
    return ("warning" if "warn" in names else None), met


def _judge_trainer(run: Run) -> Result:
    """Judge the trainer's own KL, for rollouts without log-probabilities."""
    series = run.trainers(TRAINER_KL)
    if series is None:
        return CHECK.not_run(KL.words)
    kl = mean(run.late(series))
    by_token = _ratio(kl, mean(run.column("response_tokens")[run.last.rows]))
    severity, met = _severity(run, kl, by_token, np.zeros(0), np.zeros(0, np.bool_))
    if severity is None:
        return None
    return CHECK.finding(run, severity, met, series=series, kl=kl, inside=True)


def title(facts: Facts) -> str:
    """Return what the KL came to, and which responses went far beyond."""
    if not facts["inside"]:
        return marked(
            "The KL of {over:count} single responses is over {over_limit:figure} nats, first in "
            "step {over_step}."
        )
    if facts.get("kl_token") is None:
        return marked("The policy is {kl:figure} nats a response from the reference.")
    return marked(
        "The policy is {kl:figure} nats a response from the reference, {kl_token:figure} a token."
    )


def clause(facts: Facts) -> str:
    """Return how far the policy is from the reference."""
    if not facts["inside"]:
        return marked("{over:count} single responses are over {over_limit:figure} nats")
    return marked("the policy is {kl:figure} nats a response from the reference")


CHECK = Check(
    id="kl_explosion",
    name="KL explosion",
    rank="consequence",
    looks_for="the policy ran away from the reference",
    charts=("kl", "reward_kl_frontier"),
    judge=judge,
    limits=KlExplosion,
    title=title,
    clause=clause,
    why="Far from the reference the reward model judges text it never saw, and what the policy "
    "gains there is rarely what you meant; runs at this distance seldom come back.",
    suggestion="Raise the KL coefficient or use an adaptive one, lower the learning rate, and go "
    "on from a checkpoint before the rise.",
    trend=False,
    needs_also="logprobs and ref_logprobs, or the trainer's objective/kl",
    explains=("watched_reward_fall",),
)
