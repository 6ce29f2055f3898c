"""Checks of the policy: its KL to the reference, and its entropy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rlreport.check.check import KL, LOGPROBS, Check, Result
from rlreport.check.finding import Facts, Finding, Met, Onset, Severity
from rlreport.check.limits import ENTROPY, PUBLIC_RUNS, Limit, Limits, above
from rlreport.check.noise import Change
from rlreport.check.run import Run, Shown, mean, median
from rlreport.check.series import Series, SeriesSource, running_mean
from rlreport.check.shapes import change_along
from rlreport.check.windows import Trend
from rlreport.figures.ragged import Floats
from rlreport.text.messages import marked

TRL_KL = marked(
    "TRL guide: keep the KL between 0 and 10; LMFlow's PPO runs reached 500 before failing"
)
LAST_STEPS = 3
"""Steps at the end that say whether the KL is back in its band."""

SMOOTH = 5
"""Steps of the mean by which an excursion of the KL is told."""


class KlExplosion(Limits):
    """Thresholds of ``kl_explosion``."""

    warn = Limit(10.0, "nats", "warning: mean KL of a response in the last window", TRL_KL)
    critical = Limit(50.0, "nats", "critical: the same mean", TRL_KL)
    response = Limit(500.0, "nats", "critical: KL of any one response", TRL_KL)
    warn_token = Limit(0.1, "nats a token", "warning: and the same mean by token")
    critical_token = Limit(0.5, "nats a token", "critical: and the same mean by token")
    response_token = Limit(1.0, "nats a token", "and of that response by token")
    excursion = Limit(20.0, "times", "note: KL of five steps against its median", PUBLIC_RUNS)
    lasting = Limit(5, "steps", "warning: an excursion of more steps", PUBLIC_RUNS)
    part = Limit(0.02, "of steps", "and of at least this part of the run", PUBLIC_RUNS)


class EntropyCollapse(Limits):
    """Thresholds of ``entropy_collapse``."""

    share = Limit(0.2, "of the first", "warning: mean surprisal against the first window", ENTROPY)
    surprisal = Limit(0.3, "nats", "and mean surprisal in the last window is below", ENTROPY)


class EntropyExplosion(Limits):
    """Thresholds of ``entropy_explosion``."""

    ratio = Limit(3.0, "times", "warning: mean surprisal against the first window", ENTROPY)
    rise = Limit(1.0, "nats", "and mean surprisal rose by this", ENTROPY)


def judge_kl(run: Run) -> Result:
    """Compare the last window's mean KL, per response and per token, with what training survives.

    A long response at a small KL per token is no explosion. Without log-probabilities the
    trainer's KL is judged.
    """
    trainers = run.series_of("kl") or run.series_of("kl_token")
    if not KL.met(run):
        if trainers is None:
            return KL_EXPLOSION.not_run(KL.words)
        return _judge_trainers_kl(run, trainers)
    limits = run.limits[KlExplosion]
    kl, tokens = run.column("kl_k1"), run.column("response_tokens")
    with np.errstate(invalid="ignore", divide="ignore"):
        own = np.where(tokens > 0, kl / tokens, np.inf)
    beyond = (kl > limits.response) & (own > limits.response_token)
    per_response, per_token = _kl_of(run, run.last.rows)
    level, met = _kl_level(run, per_response, per_token)
    severity = level
    if beyond.any():
        severity = "critical"
        met += run.met(KlExplosion.response, ">", float(kl[beyond].max()))
    by_step = run.by_step(kl)
    far = run.steps[np.unique(run.place[beyond])]
    out = by_step > max(limits.warn, 3 * median(by_step))
    # The first and the last step of an excursion may hold few responses of it.
    around = run.steps[np.convolve(out, np.ones(3))[1:-1] > 0]
    late = slice(int(np.searchsorted(run.place, len(run.steps) - LAST_STEPS)), None)
    end = _kl_level(run, *_kl_of(run, late))[0]
    back = end != "critical" and not beyond[late].any() and len(run.steps) > 2 * LAST_STEPS
    if severity and back and np.isin(far, around).all():
        # What left its band for some steps is dated; it is no reason to stop.
        short = out.sum() <= max(limits.lasting, limits.part * len(run.steps))
        severity = "info" if short and (level is None or end is None) else "warning"
    if severity is None:
        return None if trainers is None else _judge_excursion(run, trainers)
    inside = above(per_response, limits.warn)
    always = run.first is not None and above(mean(kl[run.first.rows]), limits.warn)
    onset = run.onset(by_step, always=always) if inside else None
    at = run.column("kl_max_position")
    return KL_EXPLOSION.finding(
        run,
        severity,
        met,
        series=by_step,
        onset=onset,
        dated=inside,
        shown=Shown(kl, unit="nats", token=at, among=None if inside else beyond),
        until=int(far[-1]) if severity == "info" and len(far) else None,
        steps=None if inside else far.tolist(),
        kind="level" if inside else "responses",
        kl=per_response,
        kl_token=per_token,
        over=int(beyond.sum()),
        over_limit=limits.response,
        over_step=int(far[0]) if len(far) else None,
    )


def _kl_of(run: Run, rows: slice) -> tuple[float, float]:
    """Return the mean KL of these responses, and their KL per token."""
    kl, tokens = run.column("kl_k1")[rows], run.column("response_tokens")[rows]
    counted = float(np.nansum(tokens[np.isfinite(kl)]))
    return mean(kl), float(np.nansum(kl)) / (counted or np.nan)


def _kl_level(run: Run, kl: float, per_token: float) -> tuple[Severity | None, list[Met]]:
    """Return the severity of a KL per response and per token, and the thresholds it met."""
    level: Severity | None = None
    met: list[Met] = []
    levels: tuple[tuple[Severity, Limit[float], Limit[float]], ...] = (
        ("warning", KlExplosion.warn, KlExplosion.warn_token),
        ("critical", KlExplosion.critical, KlExplosion.critical_token),
    )
    for severity, limit, of_token in levels:
        found, each = run.met(limit, ">", kl), run.met(of_token, ">", per_token)
        if found and (each or np.isnan(per_token)):
            level, met = severity, [*found, *each, *met]
    return level, met


def _judge_trainers_kl(run: Run, kl: Series) -> Result:
    """Judge the trainer's KL by its level at the end, else by its excursions."""
    end, tokens = mean(run.late(run.along(kl))), mean(run.column("response_tokens")[run.last.rows])
    per_token = kl.name != run.roles.get("kl")
    of_both = (end * tokens, end) if per_token else (end, end / tokens)
    severity, met = _kl_level(run, *of_both)
    if severity is None:
        return _judge_excursion(run, kl)
    return KL_EXPLOSION.finding(
        run,
        severity,
        met,
        series=run.along(kl),
        kind="level",
        kl=of_both[0],
        kl_token=of_both[1],
        series_from="metrics",
    )


def _judge_excursion(run: Run, kl: Series) -> Result:
    """Look for steps in which the trainer's KL is many times its median, and no longer small."""
    limits = run.limits[KlExplosion]
    if len(kl.values) < 2 * SMOOTH:
        return None
    middle = median(kl.values)
    unit = limits.warn if kl.name == run.roles.get("kl") else limits.warn_token
    high = max(limits.excursion * middle, unit)
    highest = float(running_mean(kl.values, SMOOTH).max())
    if not above(highest, high):
        return None
    far = np.flatnonzero(kl.values > high)
    start, stop, count = int(kl.steps[far[0]]), int(kl.steps[far[-1]]), len(far)
    lasts = count > limits.lasting and count >= limits.part * len(kl.steps)
    return KL_EXPLOSION.finding(
        run,
        "warning" if lasts else "info",
        run.met(KlExplosion.excursion, ">", highest, of=middle),
        series=run.along(kl),
        onset=Onset(start, start, start),
        until=stop if far[-1] < len(kl.steps) - SMOOTH else None,
        steps=kl.steps[far].tolist(),
        kind="excursion",
        kl=float(kl.values.max()),
        since=start,
        until_step=stop,
        median=middle,
        series_from="metrics",
    )


def kl_title(facts: Facts) -> str:
    """Return what the KL came to, and which responses went far beyond."""
    if facts["kind"] == "excursion":
        return marked(
            "The trainer's KL reached {kl:figure} between steps {since} and {until_step}; its "
            "median is {median:figure}."
        )
    if facts["kind"] == "responses":
        return marked(
            "The KL of {over:count} single responses is over {over_limit:figure} nats, first in "
            "step {over_step}."
        )
    return marked(
        "KL to the reference is {kl:figure} nats per response, {kl_token:figure} per token."
    )


def kl_clause(facts: Facts) -> str:
    """Return how far the policy is from the reference."""
    if facts["kind"] == "responses":
        return marked("{over:count} single responses are over {over_limit:figure} nats")
    if facts["kind"] == "excursion":
        return marked("the trainer's KL reached {kl:figure}")
    return marked("KL to the reference is {kl:figure} nats per response")


KL_EXPLOSION = Check(
    id="kl_explosion",
    name="KL explosion",
    rank="consequence",
    looks_for="the policy ran away from the reference",
    charts=("kl", "reward_kl_frontier"),
    judge=judge_kl,
    limits=KlExplosion,
    title=kl_title,
    clause=kl_clause,
    why="Far from the reference the reward model judges text it never saw. Runs at this distance "
    "seldom come back.",
    suggestion="Raise the KL coefficient or lower the learning rate, and continue from a "
    "checkpoint before the rise.",
    trend=False,
    needs_also="logprobs and ref_logprobs, or the trainer's KL",
    explains=("watched_reward_fall",),
)


class Entropy(NamedTuple):
    """How the entropy moved, its value by step, and where it is from."""

    moved: Change
    by_step: Floats
    series_from: SeriesSource


def _entropy(run: Run) -> Entropy | None:
    """Return the mean surprisal of the rollouts, else the trainer's entropy; None without both."""
    if LOGPROBS.met(run):
        surprisal, weights = run.column("surprisal_mean"), run.column("logp_tokens")
        return Entropy(run.change(surprisal, weights), run.by_step(surprisal, weights), "rollouts")
    trainers = run.series_of("entropy")
    if trainers is None or len(trainers.steps) < run.limits[Trend].shortest_run:
        return None
    return Entropy(change_along(trainers, None), run.along(trainers), "metrics")


def _entropy_finding(
    check: Check, run: Run, entropy: Entropy, severity: Severity, met: list[Met]
) -> Finding:
    by = run.column("surprisal_mean")
    shown = Shown(by, highest=check is ENTROPY_EXPLOSION, unit="nats a token")
    return check.finding(
        run,
        severity,
        met,
        series=entropy.by_step,
        shown=shown if entropy.series_from == "rollouts" else None,
        start=entropy.moved.first,
        end=entropy.moved.last,
        series_from=entropy.series_from,
    )


def judge_entropy_collapse(run: Run) -> Result:
    """Compare the entropy at the end with the start and with a floor.

    A run that learns, keeps what it learned and stays near the reference may be certain: a note.
    """
    entropy = _entropy(run)
    if entropy is None:
        return ENTROPY_COLLAPSE.not_run(ENTROPY_COLLAPSE.needs_also)
    moved = entropy.moved
    share = run.met(EntropyCollapse.share, "<", moved.last, of=moved.first)
    least = run.met(EntropyCollapse.surprisal, "<", moved.last)
    if not (share and least and moved.fell):
        return None
    fell = any(shape and shape.fell for shape in (run.reward_shape, run.watched_shape))
    far, _ = _kl_level(run, *_kl_of(run, run.last.rows))
    severity: Severity = "info" if run.learned and not fell and not far else "warning"
    return _entropy_finding(ENTROPY_COLLAPSE, run, entropy, severity, share + least)


ENTROPY_COLLAPSE = Check(
    id="entropy_collapse",
    name="entropy collapse",
    rank="consequence",
    looks_for="the policy became certain",
    charts=("surprisal",),
    judge=judge_entropy_collapse,
    limits=EntropyCollapse,
    title="The policy became certain: entropy fell from {start:figure} to {end:figure} nats per "
    "token.",
    clause="entropy fell to {end:figure} nats per token",
    why="A policy that samples the same thing every time no longer explores, and its groups of "
    "responses stop differing.",
    suggestion="Lower the learning rate, add an entropy bonus or clip higher on the upper side "
    "(DAPO), or use harder prompts.",
    explains=(
        *("kl_explosion", "diversity_collapse", "missing_eos"),
        *("reward_stalled", "watched_reward_fall"),
    ),
    needs_also="logprobs, or the trainer's entropy",
)


def judge_entropy_explosion(run: Run) -> Result:
    """Look for an entropy several times that of the start, while the reward did not rise."""
    entropy, reward = _entropy(run), run.change(run.column("reward"))
    if entropy is None:
        return ENTROPY_EXPLOSION.not_run(ENTROPY_EXPLOSION.needs_also)
    moved = entropy.moved
    ratio = run.met(EntropyExplosion.ratio, ">=", moved.last, of=moved.first)
    rise = run.met(EntropyExplosion.rise, ">=", moved.difference)
    if not (ratio and rise and moved.rose) or reward.rose or run.learned:
        return None
    severity: Severity = "critical" if reward.fell else "warning"
    return _entropy_finding(ENTROPY_EXPLOSION, run, entropy, severity, ratio + rise)


ENTROPY_EXPLOSION = Check(
    id="entropy_explosion",
    name="entropy explosion",
    rank="cause",
    looks_for="the policy's text becomes random",
    charts=("surprisal", "kl"),
    judge=judge_entropy_explosion,
    limits=EntropyExplosion,
    title="The policy's text becomes random: entropy rose from {start:figure} to {end:figure} nats "
    "per token.",
    clause="entropy rose to {end:figure} nats per token",
    why="A policy this uncertain samples tokens that mean nothing: what it had learned is lost.",
    suggestion="Lower the entropy bonus or the learning rate, and continue from a checkpoint "
    "before the rise.",
    source="too large an entropy bonus; threads of TRL and verl",
    explains=(
        *("kl_explosion", "reward_collapse", "watched_reward_fall", "missing_eos"),
        *("length_collapse", "language_drift", "diversity_collapse", "reward_stalled"),
        *("persistent_losers", "ratio_drift"),
    ),
    needs_also="logprobs, or the trainer's entropy",
)
