"""NaN and infinite numbers in training: in the trainer's metrics and in responses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from rlreport.check.check import Check, Result
from rlreport.check.finding import SEVERITIES, Fact, Facts, LogText, Met, Onset, Severity
from rlreport.check.limits import Limit, Limits
from rlreport.check.run import Run, Shown
from rlreport.figures.ragged import Ints, spans
from rlreport.metrics.roles import roles_of
from rlreport.text.messages import marked, sentences, told

LASTING = 3
"""Steps in a row after which NaN is no single bad batch."""

ROLES = ("loss", "grad_norm", "kl", "kl_token", "entropy")
FATAL_ROLES = ("loss", "grad_norm")
"""The optimizer's own numbers; an estimate of KL or entropy may be NaN while training goes on."""


class NanMetrics(Limits):
    """Thresholds of ``nan_metrics``."""

    share = Limit(0.05, "of rewards", "critical: NaN or infinite from the first such step on")
    logprobs = Limit(0.05, "of tokens", "a response with more NaN log-probabilities counts")
    death = Limit(0.1, "of steps", "critical: the reward dies within this part after it")


@dataclass(frozen=True, slots=True)
class Nan:
    """NaN or infinite numbers of one kind: how bad, when, and what the title says of it."""

    kind: str
    severity: Severity
    since: int
    until: int | None
    steps: tuple[int, ...]
    facts: dict[str, Fact] = field(default_factory=dict)
    rows: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class Spell:
    """Consecutive logged steps with NaN; ``opens`` or ``ends`` the run."""

    steps: Ints
    opens: bool
    ends: bool

    @property
    def lasts(self) -> bool:
        """Whether it is more than a bad batch.

        Mixed precision skips the first updates until its loss scale fits.
        """
        if self.ends:
            return len(self.steps) > 1
        return len(self.steps) >= LASTING and not self.opens


def spells(logged: Ints, bad: NDArray[np.bool_]) -> list[Spell]:
    """Return the runs of consecutive steps that are bad."""
    return [
        Spell(logged[start:stop], bool(start == 0), bool(stop == len(logged)))
        for start, stop in spans(bad).tolist()
    ]


def _worst(run: Run, logged: Ints, bad: NDArray[np.bool_], fatal: Severity) -> Nan:
    """Judge spells of NaN: ``fatal`` where one lasts, critical where the reward dies after it."""
    found = spells(logged, bad)
    shape = run.reward_shape
    died = None if shape is None or shape.dead is None else int(shape.series.steps[shape.dead])
    near = max(run.limits[NanMetrics].death * float(np.ptp(logged)), LASTING)

    def judged(spell: Spell) -> tuple[Severity, bool]:
        if died is not None and spell.steps[0] <= died <= spell.steps[-1] + near:
            return "critical", True
        if spell.lasts:
            return fatal, False
        # What the last step began may be the end of the run, or recover.
        return ("warning" if spell.ends else "info"), False

    worst = min(found, key=lambda spell: SEVERITIES.index(judged(spell)[0]))
    severity, deadly = judged(worst)
    until = None if worst.ends else int(worst.steps[-1])
    steps = tuple(logged[bad].tolist())
    return Nan("", severity, int(worst.steps[0]), until, steps, {"deadly": deadly})


def _of_metrics(run: Run) -> Iterator[Nan]:
    """Judge the trainer's loss, gradient norm, KL and entropy."""
    broken = run.tables.metrics_broken
    metrics = run.tables.metrics
    roles = roles_of(broken)
    for role in (role for role in ROLES if role in roles):
        name = roles[role]
        at = np.asarray(broken[name], np.int64)
        finite = np.zeros(0, np.int64)
        if name in metrics:
            finite = metrics["step"].to_numpy(np.int64)[np.isfinite(metrics[name])]
        logged = np.union1d(finite, at)
        bad = np.isin(logged, np.setdiff1d(at, finite))
        never = not len(finite) and role not in FATAL_ROLES  # such as the KL of a run without one
        placeholder = 2 * bad.sum() >= len(bad) and len(spells(logged, bad)) > LASTING
        if bad.any() and not never and not placeholder:
            found = _worst(run, logged, bad, "critical" if role in FATAL_ROLES else "warning")
            yield replace(found, kind="metric", facts=found.facts | {"metric": LogText(name)})


def _of_rewards(run: Run) -> Iterator[Nan]:
    """Judge rewards of responses: they are fatal where they are many."""
    rows = run.responses
    graded = rows["missing_grade"].to_numpy() == 0
    bad = graded & rows["reward"].isna().to_numpy() & (rows["nan_values"] > 0).to_numpy()
    if not bad.any():
        return
    first = int(run.place[bad].min())
    late = graded & (run.place >= min(first, len(run.steps) - LASTING))
    share, count = float(bad[late].mean()), int(bad.sum())
    found = _worst(run, run.steps, run.steps_of(bad), "warning")
    if count >= LASTING and share > run.limits[NanMetrics].share:
        found = replace(found, severity="critical", since=int(run.steps[first]))
    yield replace(found, kind="rewards", rows=bad, facts={"rewards": count, "share": share})


def _of_logprobs(run: Run) -> Iterator[Nan]:
    """Judge the log-probabilities of responses, and their other numbers."""
    rows = run.responses
    odd = (rows["nan_values"] > 0).to_numpy()
    bad = np.zeros(len(rows), np.bool_)
    if run.has("surprisal_mean"):
        lost = run.column("response_tokens") - run.column("logp_tokens")
        most = run.limits[NanMetrics].logprobs * run.column("response_tokens")
        bad |= rows["surprisal_mean"].isna().to_numpy() | (lost > np.maximum(most, 1))
    if run.has("kl_k1"):
        bad |= rows["kl_k1"].isna().to_numpy()
    ungraded = rows["reward"].isna().to_numpy()
    kinds: tuple[tuple[str, Severity, NDArray[np.bool_]], ...] = (
        ("logprobs", "critical", odd & bad),
        ("other", "warning", odd & ~bad & ~ungraded),
    )
    for kind, fatal, among in kinds:
        if among.any():
            found = _worst(run, run.steps, run.steps_of(among), fatal)
            facts: dict[str, Fact] = {
                "responses": int(among.sum()),
                "numbers": int(rows["nan_values"].to_numpy()[among].sum()),
            }
            yield replace(found, kind=kind, rows=among, facts=facts)


def invalid_since(run: Run) -> int | None:
    """Return the step from which NaN in rewards or log-probabilities makes responses useless."""
    found = [*_of_rewards(run), *_of_logprobs(run)]
    return min((nan.since for nan in found if nan.severity == "critical"), default=None)


def judge_nan(run: Run) -> Result:
    """Find NaN and infinite numbers; the finding is as severe as the worst of them."""
    found = [*_of_metrics(run), *_of_logprobs(run), *_of_rewards(run)]
    if not found:
        return None
    worst = min(found, key=lambda nan: (SEVERITIES.index(nan.severity), nan.since))
    share = worst.facts.get("share")
    met: list[Met] = []
    shown, series = Shown(run.column("reward"), highest=False), None
    if worst.rows is not None:
        # The first ones tell how it began.
        shown = Shown(-run.place.astype(np.float64), among=worst.rows)
        series = run.by_step(worst.rows.astype(np.float64))
        met = run.met(NanMetrics.share, ">", share) if isinstance(share, float) else []
    return NAN_METRICS.finding(
        run,
        worst.severity,
        met,
        series=series,
        onset=Onset(worst.since, worst.since, worst.since),
        until=worst.until,
        shown=shown,
        steps=worst.steps[:200],
        more=worst.facts,
        kind=worst.kind,
        since=worst.since,
        until_step=worst.until,
        cut=worst.kind != "metric" and worst.severity == "critical",
        series_from="metrics" if worst.kind == "metric" else "rollouts",
    )


_NAN = {
    "metric": marked("The trainer's {metric} is NaN or infinite"),
    "rewards": marked("{rewards:count} rewards are NaN or infinite"),
    "logprobs": marked("The log-probabilities of {responses:count} responses are NaN or infinite"),
    "other": marked(
        "{numbers:count} values, advantages or token rewards of {responses:count} responses are "
        "NaN or infinite"
    ),
}


def nan_title(facts: Facts) -> str:
    """Return what is NaN, when, and what it did."""
    what = told(_NAN[str(facts["kind"])], facts)
    places = {**facts, "what": what}
    if facts["until_step"] is None:
        when = marked("{what} from step {since} on.")
    elif facts["until_step"] == facts["since"]:
        when = marked("{what} at step {since}, and not after it.")
    else:
        when = marked("{what} in steps {since} to {until_step}, and not after them.")
    more = []
    if facts.get("deadly"):
        more.append(marked("The reward died with it."))
    if facts["cut"]:
        more.append(marked("The other checks judge the steps before it."))
    return sentences([told(when, places), *(told(one, {}) for one in more)])


NAN_METRICS = Check(
    id="nan_metrics",
    name="NaN",
    rank="invalid",
    looks_for="NaN or infinity in the loss, the gradient norm, log-probabilities or rewards",
    charts=("reward", "kl"),
    judge=judge_nan,
    limits=NanMetrics,
    title=nan_title,
    why="One NaN in a batch makes the whole update NaN; the weights saved after it are usually "
    "lost. A single bad batch that the trainer skipped does no harm.",
    suggestion="Go back to a checkpoint before this step. Look there for an overflow in half "
    "precision, a division by a zero std, an empty response or a reward that failed; clip "
    "gradients.",
    source=marked("logs of diverged runs"),
    explains=(
        *("reward_collapse", "length_collapse", "length_hacking", "watched_reward_fall"),
        *("diversity_collapse", "entropy_collapse", "entropy_explosion", "kl_explosion"),
        *("missing_eos", "unclosed_thinking", "zero_variance_groups", "reward_stalled"),
        *("template_collapse", "group_std_fall", "language_drift", "reward_shift"),
    ),
    trend=False,
    whole_run=True,
)
