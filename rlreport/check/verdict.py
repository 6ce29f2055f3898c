"""Run the checks, order their findings, choose the checkpoint to keep, and write the texts.

All texts but the excerpts are templates filled with values of the finding (``facts``), after
redaction. The sentence says what happened, when, its effects, and which checkpoint to keep.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from rlreport.check.check import FALLS, Check, Result
from rlreport.check.course import CLAIM_Z, best_index
from rlreport.check.finding import (
    RANKS,
    SEVERITIES,
    Close,
    Example,
    Fact,
    Finding,
    Level,
    Muted,
    NotRun,
    Quantity,
    Thresholds,
    Verdict,
)
from rlreport.check.judges.log import mixed_runs, nan_metrics
from rlreport.check.judges.reward import explanation_of_fall
from rlreport.check.registry import BY_ID, CHECKS
from rlreport.check.run import Run
from rlreport.check.sentence import with_sentence
from rlreport.metrics.roles import MISMATCHES
from rlreport.read.rollouts import Rollout, Rollouts
from rlreport.tables import Tables
from rlreport.text.messages import listed, message, span, translatable

# Check id -> quantity whose first and last mean the clause of the finding states
OF_COURSES: dict[str, Quantity] = {
    "length_collapse": "length",
    "length_hacking": "length",
    "entropy_collapse": "entropy",
    "entropy_explosion": "entropy",
}

EXCERPT = 60  # Maximum number of characters in an excerpt


def with_excerpts(verdict: Verdict, responses: pd.DataFrame, rollouts: Rollouts) -> Verdict:
    findings = [*verdict.findings, *(muted.finding for muted in verdict.muted)]
    named = {(example.step, example.n) for finding in findings for example in finding.shown}
    steps = responses["step"].to_numpy()
    rows = {(step, n): int(np.searchsorted(steps, step)) + n for step, n in sorted(named)}
    order = sorted(set(rows.values()))
    texts = dict(zip(order, rollouts.read(order), strict=True))

    def with_excerpt(example: Example, check: Check | None) -> Example:
        rollout = texts[rows[example.step, example.n]]
        before = example.before and with_excerpt(example.before, None)
        shows = check.turn if check and check.turn else lambda turn: False
        turn = next((i for i, one in enumerate(rollout.conversation) if shows(one)), None)
        text = rollout.response if turn is None else rollout.conversation[turn].words
        excerpt = _excerpt(text, rollout, example)
        return replace(example, turn=turn, excerpt=excerpt, before=before)

    return verdict.map(
        lambda finding: replace(
            finding,
            evidence=tuple(with_excerpt(e, BY_ID.get(finding.id)) for e in finding.evidence),
        )
    )


def _excerpt(text: str, rollout: Rollout, example: Example) -> str:
    text = " ".join(text.split())
    if len(text) <= EXCERPT:
        return text
    center = len(text) if example.at_end else 0
    if example.token is not None and example.token < len(rollout.tokens):
        joined = "".join(rollout.tokens[: example.token])
        center = len(" ".join(joined.split()))
    if example.look_for:
        index = text.lower().find(example.look_for.lower())
        center = index if index >= 0 else center
    start = max(0, min(center - EXCERPT // 2, len(text) - EXCERPT))
    part = text[start : start + EXCERPT]
    return ("…" if start else "") + part + ("…" if start + len(part) < len(text) else "")


def with_texts(verdict: Verdict, sample_note: str = "") -> Verdict:
    """Return the verdict with its sentence and its findings' texts filled in.

    ``sample_note`` says in which responses phrases were counted, "" if in all.
    """
    filled = verdict.map(lambda finding: _fill_texts(finding, verdict, sample_note))
    return with_sentence(filled)


def translatable_title(finding: Mapping[str, Any], title: str) -> str:
    """Return the title of a finding of findings.json; translatable if its facts reproduce it."""
    check = BY_ID.get(str(finding.get("id")))
    facts = finding.get("facts")
    if check is None or not isinstance(facts, dict):
        return title
    values = {key: tuple(fact) if isinstance(fact, list) else fact for key, fact in facts.items()}
    try:
        retitled = check.format_title(values)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return title
    return retitled if retitled == title else title


def _fill_texts(finding: Finding, verdict: Verdict, sample_note: str) -> Finding:
    check = BY_ID[finding.id]
    sampled = sample_note and not finding.facts.keys().isdisjoint(check.sampled)
    return replace(
        finding,
        name=message(check.name),
        title=check.format_title(finding.facts),
        clause=check.format_statement({**finding.facts, **_course_facts(finding, verdict)}),
        why=message(check.why),
        sample=message("Counted {sample}.", sample=sample_note) if sampled else "",
        suggestion=message(check.suggestion),
        source=message(check.source),
    )


def _course_facts(finding: Finding, verdict: Verdict) -> dict[str, Fact]:
    """Return {"start": first mean, "early": its steps, "end": last mean} of its course, or {}."""
    quantity = OF_COURSES.get(finding.id)
    course = verdict.courses.get(quantity) if quantity else None
    if course is None or finding.facts.get("kind") == "finished":
        return {}
    first = course.first
    return {"start": first.value, "early": span(first.steps), "end": course.last.value}


# Check that runs first: after a change of the reward function, rewards are not comparable
FIRST_CHECK = "reward_shift"

# Figure of the policy -> columns of responses and roles of trainer metrics; each of them shows it
OF_POLICY = {
    translatable("KL"): ("kl_k1", "kl", "kl_token"),
    translatable("entropy"): ("surprisal_mean", "entropy"),
    translatable("engine mismatch"): MISMATCHES,
}
# Figure that needs log-probabilities of a second policy -> that policy
SECOND_POLICY = {"KL": translatable("reference"), "engine mismatch": translatable("sampler")}
# Further columns and roles that show more than rewards and texts do
BEYOND_REWARDS = ("grad_norm", "clip_fraction", "ratio", "value_mean")

# Ids of checks whose findings concern only the log, not the policy and its checkpoints
OF_THE_LOG = ("broken_log", "missing_grades")

# Ids of checks whose critical findings always come first: the policy no longer works
DEATHS = ("reward_collapse", "length_collapse")


def run_checks(
    tables: Tables, thresholds: Thresholds | None = None, muted: Mapping[str, str] | None = None
) -> Verdict:
    """Run the checks and return the verdict with its texts; ``muted``: check id -> reason."""
    return with_texts(judge(Run(tables, thresholds), muted))


# Figures may be close to the float64 maximum: sums that overflow become infinite or NaN.
@np.errstate(over="ignore", invalid="ignore")
def judge(run: Run, muted: Mapping[str, str] | None = None) -> Verdict:
    """Run the checks and return the verdict, with findings in order but without texts.

    ``muted`` has the reason for each check id to mute. If NaN makes rewards or log-probabilities
    useless, only checks with ``whole_run`` judge the steps from the first NaN on. If the reward
    function changed, checks with ``of_reward`` judge the reward minus the reference policy's or,
    without one, only the longer of the two parts of the run before and after the change. Logs of
    several runs are not judged, as their mixture is no run.
    """
    reasons = muted or {}
    several = mixed_runs.run(run)
    if isinstance(several, Finding) and several.id not in reasons:
        return _not_judged(run, several)
    nan = nan_metrics.run(run)
    start = nan.facts["cut"] if isinstance(nan, Finding) else None
    assert start is None or isinstance(start, int)
    judged = run if start is None else run.between(int(run.steps[0]), start)
    of_reward = judged
    results: dict[str, Result] = {}
    close: dict[str, Close] = {}
    for check in sorted(CHECKS, key=lambda check: check.id != FIRST_CHECK):
        subject = run if check.whole_run else of_reward if check.of_reward else judged
        result = nan if check is nan_metrics else _run_check(check, subject, start)
        results[check.id] = result
        if result is None and (near := check.close_to_limit(subject)):
            close[check.id] = near
        if check.id == FIRST_CHECK and isinstance(result, Finding) and result.severity == "warning":
            of_reward = _comparable_run(judged, result)
    results = {check.id: results[check.id] for check in CHECKS}
    findings = [result for result in results.values() if isinstance(result, Finding)]
    active = [finding for finding in findings if finding.id not in reasons]
    ordered = _order(active, run)
    lead = next((f.id for f in ordered if f.severity != "info" and not f.explained_by), None)
    breaks = [f.onset.step for f in ordered if f.severity == "critical" and f.onset]
    # Where the run broke within its first window, changes from that window are too small.
    comparable = not run.first or min(breaks, default=math.inf) > run.first.steps[-1]
    return Verdict(
        level=_level(ordered, run),
        lead=lead,
        keep_step=_keep_step(run, ordered),
        findings=ordered,
        close=tuple(close[name] for name in results if name in close) if comparable else (),
        passed=[name for name, result in results.items() if result is None and name not in close],
        not_run=[result for result in results.values() if isinstance(result, NotRun)],
        not_observed=_not_observed(run),
        muted=[Muted(f, reasons[f.id]) for f in findings if f.id in reasons],
        courses=run.courses,
        windows=judged.first and (judged.first.span, judged.last.span),  # type: ignore[arg-type]
        step_count=len(run.steps),
        first_step=int(run.steps[0]) if len(run.steps) else None,
        last_step=int(run.steps[-1]) if len(run.steps) else None,
        basis=_basis(run),
        reward_count=int(np.isfinite(run.reward.values).sum()),
        harder_prompts=_became_harder(of_reward, ordered),
        one_prompt=run.responses["prompt_id"].nunique() > 1
        and float(run.tables.steps["prompts"].median()) == 1,
    )


def _became_harder(run: Run, findings: list[Finding]) -> bool:
    """Return whether harder prompts surely explain a fall of the reward, so that none is found."""
    if any(f.id == "reward_collapse" and f.severity != "info" for f in findings):
        return False
    explanation = explanation_of_fall(run)
    return explanation is not None and explanation["kind"] == "prompts"


def _not_judged(run: Run, several: Finding) -> Verdict:
    needs = message("the logs of one run")
    return Verdict(
        level="unjudged",
        lead=several.id,
        findings=[several],
        not_run=[check.not_run(needs) for check in CHECKS if check.id != several.id],
        not_observed=_not_observed(run),
        step_count=len(run.steps),
        first_step=int(run.steps[0]) if len(run.steps) else None,
        last_step=int(run.steps[-1]) if len(run.steps) else None,
        basis=_basis(run),
        reward_count=int(np.isfinite(run.reward.values).sum()),
    )


def _logs(run: Run, *names: str) -> bool:
    return any(run.has(name) or name in run.roles for name in names)


def _basis(run: Run) -> str:
    if _logs(run, *BEYOND_REWARDS, *chain(*OF_POLICY.values())):
        return ""
    return message("rewards") if run.responses.empty else message("rewards and texts")


def _not_observed(run: Run) -> tuple[str, ...]:
    """Return phrases for what is not logged, such as "log-probabilities (no KL or entropy)"."""
    unseen = [figure for figure, names in OF_POLICY.items() if not _logs(run, *names)]
    logprobs = message("log-probabilities (no {figures})", figures=_either(unseen))
    if run.has("surprisal_mean"):
        policies = _either([SECOND_POLICY[figure] for figure in unseen])
        literal = translatable("log-probabilities of the {policies} (no {figures})")
        logprobs = message(literal, policies=policies, figures=_either(unseen))
    rollouts = not run.responses.empty
    in_groups = run.has("value_mean") or run.responses["group"].duplicated().any()
    is_logged = {
        message("rewards"): _logs(run, "reward"),
        logprobs: not unseen,
        message("gradient norms"): _logs(run, "grad_norm"),
        message("a validation score"): run.watched_reward is not None,
        message("rollouts (no texts, groups or finish reasons)"): rollouts,
        message("groups"): not rollouts or in_groups,
        message("finish reasons"): not rollouts or _logs(run, "finished", "truncated"),
    }
    return tuple(text for text, known in is_logged.items() if not known)


def _either(literals: Sequence[str]) -> str:
    texts = [message(literal) for literal in literals]
    if len(texts) < 2:
        return listed(texts)
    return message("{some} or {last}", some=listed(texts[:-1]), last=texts[-1])


def _run_check(check: Check, run: Run, start: int | None) -> Result:
    judged = len(run.steps) or check.whole_run
    result = check.run(run) if judged else check.not_run("responses")
    # The steps before the NaN may be too few for the check even if the run has the fields.
    if isinstance(result, NotRun) and start is not None:
        needs = message(
            "{needs} before the first NaN (step {start})", needs=result.needs, start=start
        )
        return NotRun(check.id, needs)
    return result


def _comparable_run(run: Run, shift: Finding) -> Run:
    if run.has("reward_gap"):
        return run.with_gap_as_reward()
    assert shift.onset is not None
    step = shift.onset.step
    start = int(run.steps[0])
    end = int(run.steps[-1]) + 1
    first_is_longer = np.mean(run.steps < step) >= 0.5
    return run.between(start, step) if first_is_longer else run.between(step, end)


def _order(findings: list[Finding], run: Run) -> list[Finding]:
    """Return the findings, most important first, each followed by those that it explains."""
    ranked = sorted(findings, key=lambda f: (_rank_index(f), SEVERITIES.index(f.severity)))
    roots: dict[str, str] = {}
    for finding in ranked:
        top: Finding | None = finding
        while top:
            roots[finding.id] = top.id
            top = next((g for g in ranked if _explains(g, top)), None)

    def worst(top: Finding) -> tuple[int, int, int]:
        severity = min(SEVERITIES.index(f.severity) for f in ranked if roots[f.id] == top.id)
        rank = _rank_index(top)
        # What was there from the start did not keep the reward from rising.
        always = top.onset is None or top.onset.step <= run.steps[0]
        if run.learned and top.rank == "cause" and always:
            rank = RANKS.index("note")
        # A critical death leads before any other finding.
        return -1 if _is_death(top) else severity, rank, severity

    ordered = []
    for top in sorted((f for f in ranked if roots[f.id] == f.id), key=worst):
        explained = [f for f in ranked if roots[f.id] == top.id != f.id]
        ordered += [top, *(replace(finding, explained_by=top.id) for finding in explained)]
    return ordered


def _is_death(finding: Finding) -> bool:
    return finding.severity == "critical" and finding.id in DEATHS


def _rank_index(finding: Finding) -> int:
    return -1 if _is_death(finding) else RANKS.index(finding.rank)


def _explains(cause: Finding, other: Finding) -> bool:
    if cause.severity == "info" or other.id not in BY_ID[cause.id].explains:
        return False
    explains_death = _is_death(other) and cause.rank != "consequence"
    if _rank_index(cause) > _rank_index(other) and not explains_death:
        return False
    if cause.rank == other.rank and cause.id in BY_ID[other.id].explains:
        order = list(BY_ID)
        starts = [(f.onset.step if f.onset else -1, order.index(f.id)) for f in (cause, other)]
        if starts[0] > starts[1]:
            return False
    if other.rank == "note" or cause.onset is None or other.onset is None:
        return True
    # Both are dated by means of three steps, so they are exact to one step.
    return cause.onset.low - 1 <= other.onset.high


def _level(findings: list[Finding], run: Run) -> Level:
    """Return "critical" or "warning" if any finding is; else "healthy", "unclear" or "unjudged"."""
    severities = {finding.severity for finding in findings}
    for severity in ("critical", "warning"):
        if severity in severities:
            return severity
    if run.first is None or not np.isfinite(run.reward.values).any():
        return "unjudged"
    if run.learned or run.solved:
        return "healthy"
    return "unjudged" if run.reward_shape is None else "unclear"


def _keep_step(run: Run, findings: list[Finding]) -> int | None:  # noqa: PLR0914
    """Return the step whose checkpoint to keep, None if none is; docs/checks.md has the rule."""
    if not len(run.steps):
        return None
    judged = [f for f in findings if f.severity != "info"]
    first = int(run.steps[0])
    end = int(run.steps[-1]) + 1
    changes = [f.onset.step for f in judged if f.id == FIRST_CHECK and f.onset]
    first = max(changes, default=first)
    of_policy = [f for f in judged if f.id not in (*OF_THE_LOG, FIRST_CHECK)]
    # Only what is critical, or a loss of reward, spoils a checkpoint: the rest may be harmless.
    spoiling = [f for f in of_policy if f.severity == "critical"] or [
        f for f in of_policy if f.id in FALLS
    ]
    onsets = [f.onset.step if f.onset else first for f in spoiling]
    if min(onsets, default=end) <= first:
        return None
    # Evaluations before the first step count, too.
    start = first if changes else np.iinfo(np.int64).min
    before = run.between(start, min(onsets, default=end))
    # One evaluation in the whole run cannot tell which checkpoint is best.
    watched = run.courses.get("watched_reward")
    is_watched = watched is not None and not watched.is_single
    is_watched &= "watched_reward" in before.courses
    quantity: Quantity = "watched_reward" if is_watched else "reward"
    course = before.courses.get(quantity)
    if course is None or course.best.value <= course.first.value:
        return None
    # Few steps may tell less about the noise than all steps do.
    whole = run.courses[quantity]
    error = min(course.error, whole.error * math.sqrt(whole.window / course.window))
    rose = course.last.value - course.first.value > CLAIM_Z * error
    if not (before.learned or course.gained or rose):
        return None
    declined = course.slipped if quantity == "watched_reward" else course.lost
    declined &= not any(f.id == "mix_changed" for f in findings)
    began = min((f.onset.step for f in of_policy if f.onset), default=end)
    last = best_index(course, began) if onsets or declined else len(course.steps) - 1
    complete = ~np.isin(course.steps, run.tables.steps.loc[run.tables.steps["incomplete"], "step"])
    usable = np.flatnonzero(complete[: last + 1])
    return int(course.steps[usable[-1]]) if len(usable) else None
