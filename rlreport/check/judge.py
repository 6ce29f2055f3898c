"""Run all checks, order their findings, choose the checkpoint to keep, and add excerpts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import pandas as pd

from rlreport.check import progress, quantities
from rlreport.check.causes import in_order
from rlreport.check.check import Check
from rlreport.check.checkpoint import (
    LOSSES,
    REWARD_SHIFT,
    UNEARNED,
    Checkpoint,
    checkpoint_of,
)
from rlreport.check.course import HELD_OUT, Course, Quantity, course_of
from rlreport.check.events import Event
from rlreport.check.evidence import progress_pair
from rlreport.check.excerpts import Excerpts
from rlreport.check.finding import (
    Close,
    Evidence,
    Finding,
    NotRun,
    Onset,
    Rank,
    Result,
    Severity,
)
from rlreport.check.gain import gain_by_parts
from rlreport.check.judges.kl import kl_above
from rlreport.check.judges.log import mixed_runs, nan_metrics
from rlreport.check.judges.reward import explanation_of_fall
from rlreport.check.limits import Thresholds
from rlreport.check.registry import BY_ID, CHECKS
from rlreport.check.run import Run
from rlreport.check.sentence import with_texts
from rlreport.check.verdict import Judged, Level, Muted, Verdict
from rlreport.metrics.roles import MISMATCHES
from rlreport.read.rollouts import Rollouts
from rlreport.tables import Tables
from rlreport.text.messages import listed, message, translatable


def with_excerpts(
    judged: Judged[Finding], responses: pd.DataFrame, rollouts: Rollouts
) -> Judged[Finding]:
    """Return the outcome with excerpts of the responses that its findings show.

    Args:
        judged: the outcome of all checks.
        responses: the table of all responses, whose rows are those of ``rollouts``.
        rollouts: where the texts are read from.
    """
    findings = [*judged.findings, *(muted.finding for muted in judged.muted)]
    examples = chain.from_iterable(finding.evidence for finding in findings)
    pairs = [] if judged.pair is None else [judged.pair]
    excerpts = Excerpts([*examples, *pairs], responses, rollouts)

    def with_excerpts_of_examples(finding: Finding) -> Finding:
        """Return a finding whose examples have excerpts, cut where its check says."""
        check = BY_ID.get(finding.id)
        shows = check.turn if check else None
        place = check.place if check else None
        evidence = tuple(
            excerpts.of(example, shows=shows, place=place, facts=finding.facts)
            for example in finding.evidence
        )
        return replace(finding, evidence=evidence)

    outcome = judged.map(with_excerpts_of_examples)
    pair = None if judged.pair is None else excerpts.of(judged.pair)
    return replace(outcome, pair=pair)


# Figure of the policy -> columns of responses and roles of trainer metrics; each of them shows it
OF_POLICY = {
    translatable("KL"): ("kl_k1", "kl", "kl_token"),
    translatable("entropy"): ("surprisal_mean", "entropy", "entropy_response"),
    translatable("engine mismatch"): MISMATCHES,
}
# Figure that needs log-probabilities of a second policy -> that policy
SECOND_POLICY = {
    "KL": translatable("reference"),
    "engine mismatch": translatable("sampler"),
}
# Further columns and roles that show more than rewards and texts do
BEYOND_REWARDS = ("grad_norm", "clip_fraction", "ratio", "value_mean")


def run_checks(
    tables: Tables,
    thresholds: Thresholds | None = None,
    muted: Mapping[str, str] | None = None,
) -> Verdict:
    """Run the checks and return the verdict with its texts; ``muted``: check id -> reason."""
    return with_texts(judge(Run(tables, thresholds), muted))


# Figures may be close to the float64 maximum: sums that overflow become infinite or NaN.
@np.errstate(over="ignore", invalid="ignore")
def judge(run: Run, muted: Mapping[str, str] | None = None) -> Judged[Finding]:
    """Run the checks and return their outcome, with findings in order but without texts.

    ``muted`` has the reason for each check id to mute. If NaN makes rewards or log-probabilities
    useless, only checks with ``whole_run`` judge the steps from the first NaN on. If the reward
    function changed, checks with ``of_reward`` judge the reward minus the reference policy's or,
    without one, only the longer of the two parts of the run before and after the change. Logs of
    several runs are not judged, as their mixture is no run.
    """
    reasons = muted or {}
    several = mixed_runs.run(run).finding
    if several is not None and several.id not in reasons:
        return _not_judged(run, several)
    outcome = _run_all(run)
    found = [_from_start(finding, run) for finding in outcome.findings()]
    shown = [one for one in found if one.id not in reasons]
    checkpoint = checkpoint_of(run, shown)
    ordered = in_order(shown, run, checkpoint.step)
    serious = [finding for finding in ordered if finding.severity is not Severity.INFO]
    leading = [finding.id for finding in serious if not finding.explained_by]
    muted_findings = [one for one in found if one.id in reasons]
    return replace(
        _about_run(run),
        level=_level(ordered, run),
        lead=leading[0] if leading else None,
        pair=None if leading else progress_pair(run),
        checkpoint=checkpoint,
        findings=ordered,
        close=outcome.close_ones(),
        passed=outcome.passed(),
        not_run=outcome.not_run(),
        muted=[Muted(finding, reasons[finding.id]) for finding in muted_findings],
        courses=_courses(run, outcome.judged),
        windows=_spans_of_windows(outcome.judged),
        harder_prompts=_became_harder(outcome.comparable, ordered),
        one_prompt=_has_one_prompt_a_step(run),
        right_answers=_right_answers(run),
        gain=gain_by_parts(run),
    )


def _from_start(finding: Finding, run: Run) -> Finding:
    """Return the finding; its onset says so if it was there from the first step of the run on."""
    onset = finding.onset
    if onset is None or onset.step > run.steps[0]:
        return finding
    return replace(finding, onset=replace(onset, from_start=True))


def _courses(run: Run, judged: Run) -> dict[Quantity, Course]:
    """Return the courses of a run, that of the KL with when it is above the limit of its check.

    ``judged`` is the part of the run that the checks judge.
    """
    courses = dict(quantities.courses(run))
    kl = courses.get("kl")
    if kl is not None:
        courses["kl"] = replace(kl, above=kl_above(judged, kl))
    return courses


def _about_run(run: Run) -> Judged[Finding]:
    """Return what a run logs, as the outcome of no check."""
    steps = run.steps.tolist()
    return Judged(
        level="unjudged",
        not_observed=_not_observed(run),
        step_count=len(steps),
        first_step=steps[0] if steps else None,
        last_step=steps[-1] if steps else None,
        extent=run.tables.extent,
        basis=_basis(run),
        reward_count=int(np.isfinite(quantities.reward(run).values).sum()),
        response_count=len(run.responses),
    )


@dataclass
class _Outcome:
    """The results of all checks, by the id of the check."""

    judged: Run  # the part of the run before the first NaN that makes it useless
    comparable: Run  # the part of that with comparable rewards
    results: dict[str, Result] = field(default_factory=dict)
    close: dict[str, Close] = field(default_factory=dict)

    def findings(self) -> list[Finding]:
        results = [self.results[check.id] for check in CHECKS]
        return [one.finding for one in results if one.finding is not None]

    def close_ones(self) -> tuple[Close, ...]:
        """Return what checks without a finding were close to, in the order of the checks."""
        return tuple(self.close[one.id] for one in CHECKS if one.id in self.close)

    def passed(self) -> list[str]:
        """Return the ids of the checks that ran and found nothing, without the ``close`` ones."""
        return [
            check.id
            for check in CHECKS
            if self.results[check.id].passed and check.id not in self.close
        ]

    def not_run(self) -> list[NotRun]:
        return [
            NotRun(check.id, self.results[check.id].needs)
            for check in CHECKS
            if self.results[check.id].needs
        ]


def _run_all(run: Run) -> _Outcome:
    """Run each check on the part of the run that it can judge."""
    nan = nan_metrics.run(run)
    start = nan.finding.facts["cut"] if nan.finding else None
    assert start is None or isinstance(start, int)
    judged = run if start is None else run.between(int(run.steps[0]), start)
    death = quantities.death(judged)
    outcome = _Outcome(judged, comparable=judged)
    # After a change of the reward function, rewards are not comparable: its check comes first.
    for check in sorted(CHECKS, key=lambda check: check.id != REWARD_SHIFT):
        subject = judged
        if check.whole_run:
            subject = run
        elif check.of_reward:
            subject = outcome.comparable
        result = nan
        if check is not nan_metrics:
            result = _result_of(check, subject, death, start)
        outcome.results[check.id] = result
        near = check.close_to_limit(result.tested) if result.passed else None
        if near is not None:
            outcome.close[check.id] = near
        shift = result.finding if check.id == REWARD_SHIFT else None
        if shift is not None and shift.severity is Severity.WARNING:
            outcome.comparable = _comparable_run(judged, shift)
    return outcome


def _result_of(
    check: Check, run: Run, death: Event | None, start: int | None
) -> Result:
    """Return the result of a check; the death of the reward divides the run.

    Causes are judged on what lies before it. What is found only with the steps since then, such as
    groups without any signal, is a consequence of the death.
    """
    whole = _run_check(check, run, start)
    is_divided = check.rank in (Rank.CAUSE, Rank.CONSEQUENCE) and check.id not in LOSSES
    if death is None or not is_divided:
        return whole
    finding = whole.finding
    if finding is not None and _precedes(check, finding, death):
        return whole
    part = run.between(int(run.steps[0]), death.onset)
    before = _run_check(check, part, start)
    if finding is None:
        return whole if before.finding is None else before
    if before.finding is None:
        return _of_death(whole, finding, death, run)
    return before if check.rank is Rank.CAUSE else whole


def _precedes(check: Check, finding: Finding, death: Event) -> bool:
    """Return whether what was found was over before the death of the reward."""
    is_over = finding.until is not None and finding.until < death.onset
    began = finding.onset
    is_event_before = check.event and began is not None and began.high < death.onset
    return is_over or is_event_before


def _of_death(result: Result, finding: Finding, death: Event, run: Run) -> Result:
    """Return a result whose finding is a consequence of the death: it began no earlier."""
    has_reward = quantities.reward_course(run) is not None
    onset = finding.onset
    if onset is not None:
        onset = Onset(
            step=max(onset.step, death.onset),
            low=max(onset.low, death.low),
            high=max(onset.high, death.onset),
        )
    shown = Evidence(())
    if result.evidence_since is not None:
        shown = result.evidence_since(onset)
    consequence = replace(
        finding,
        evidence=shown.examples,
        unseen=shown.unseen,
        rank=Rank.NOTE if finding.rank is Rank.NOTE else Rank.CONSEQUENCE,
        onset=onset,
        explained_by="reward_collapse" if has_reward else "watched_reward_fall",
    )
    return replace(result, finding=consequence)


def _spans_of_windows(run: Run) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return first and last step of the first and of the last window; None for a short run."""
    if run.first is None:
        return None
    first = run.first.span
    last = run.last.span
    assert first is not None and last is not None
    return first, last


def _became_harder(run: Run, findings: list[Finding]) -> bool:
    """Return whether harder prompts surely explain a fall of the reward, so that none is found."""
    for finding in findings:
        if finding.id == "reward_collapse" and finding.severity is not Severity.INFO:
            return False
    explanation = explanation_of_fall(run)
    return explanation is not None and explanation["kind"] == "prompts"


def _right_answers(run: Run) -> Course | None:
    """Return the share of right answers where most of the reward's rise is their format."""
    if not progress.gained_format(run):
        return None
    series = quantities.series_by_step(run, "label_hit")
    return course_of(series, "label_hit_mean")


def _has_one_prompt_a_step(run: Run) -> bool:
    """Return whether most steps have a single prompt, but not all the same."""
    if run.responses["prompt_id"].nunique() <= 1:
        return False
    return float(run.tables.steps["prompts"].median()) == 1


def _not_judged(run: Run, several: Finding) -> Judged[Finding]:
    needs = message("the logs of one run")
    others = [check.id for check in CHECKS if check.id != several.id]
    return replace(
        _about_run(run),
        lead=several.id,
        checkpoint=Checkpoint(why=message("it has several runs")),
        findings=[several],
        not_run=[NotRun(name, needs) for name in others],
    )


def _logs(run: Run, *names: str) -> bool:
    """Return whether the run has any of these columns or metrics of these roles."""
    return any(run.has(name) or name in run.roles for name in names)


def _basis(run: Run) -> str:
    """Return what is logged if it is no more than rewards and texts, else ""."""
    if _logs(run, *BEYOND_REWARDS, *chain(*OF_POLICY.values())):
        return ""
    return message("rewards") if run.responses.empty else message("rewards and texts")


def _not_observed(run: Run) -> tuple[str, ...]:
    """Return phrases for what is not logged, such as "log-probabilities (no KL or entropy)"."""
    unseen = [figure for figure, names in OF_POLICY.items() if not _logs(run, *names)]
    has_rollouts = not run.responses.empty
    in_groups = run.has("value_mean") or run.responses["group"].duplicated().any()
    is_logged = {
        message("rewards"): _logs(run, "reward"),
        _logprobs_for(unseen, run): not unseen,
        message("gradient norms"): _logs(run, "grad_norm"),
        message("a validation score"): any(
            name in quantities.courses(run) for name in HELD_OUT
        ),
        message("rollouts (no texts, groups or finish reasons)"): has_rollouts,
        message("groups"): not has_rollouts or in_groups,
        message("finish reasons"): not has_rollouts
        or _logs(run, "finished", "truncated"),
    }
    return tuple(text for text, known in is_logged.items() if not known)


def _logprobs_for(figures: Sequence[str], run: Run) -> str:
    """Return the log-probabilities without which there are no such ``figures``, in words."""
    if not run.has("surprisal_mean"):
        return message("log-probabilities (no {figures})", figures=_either(figures))
    # Those of the policy are logged, those of a second policy are not.
    return message(
        "log-probabilities of the {policies} (no {figures})",
        policies=_either([SECOND_POLICY[figure] for figure in figures]),
        figures=_either(figures),
    )


def _either(literals: Sequence[str]) -> str:
    texts = [message(literal) for literal in literals]
    if len(texts) < 2:
        return listed(texts)
    return message("{some} or {last}", some=listed(texts[:-1]), last=texts[-1])


def _run_check(check: Check, run: Run, start: int | None) -> Result:
    """Run a check; ``start`` is the step of the first NaN from which on it may not look."""
    if not (len(run.steps) or check.whole_run):
        result = check.not_run("responses")
    else:
        result = check.run(run)
    # The steps before the NaN may be too few for the check even if the run has the fields.
    if result.needs and start is not None:
        literal = translatable("{needs} before the first NaN (step {start})")
        return Result(needs=message(literal, needs=result.needs, start=start))
    return result


def _comparable_run(run: Run, shift: Finding) -> Run:
    """Return the run with comparable rewards after a change of the reward function."""
    if run.has("reward_gap"):
        return run.with_gap_as_reward()
    assert shift.onset is not None
    step = shift.onset.step
    start = int(run.steps[0])
    end = int(run.steps[-1]) + 1
    first_is_longer = np.mean(run.steps < step) >= 0.5
    return run.between(start, step) if first_is_longer else run.between(step, end)


def _level(findings: list[Finding], run: Run) -> Level:
    """Return "critical" or "warning" if any finding is; else "healthy", "unclear" or "unjudged"."""
    severities = {finding.severity for finding in findings}
    if Severity.CRITICAL in severities:
        return "critical"
    if Severity.WARNING in severities:
        return "warning"
    if not np.isfinite(quantities.reward(run).values).any():
        return "unjudged"
    # Of a gain that is the answers' format alone, a note says so.
    if any(one.id == UNEARNED for one in findings):
        return "unclear"
    if progress.learned(run):
        watched = quantities.watched_course(run)
        # Of a reward that rises while validation probably falls, nothing is sure.
        is_doubtful = watched is not None and watched.curve.probably_fell
        return "unclear" if is_doubtful else "healthy"
    # Few steps can prove that the reward rose, but not that it did not.
    if run.first is None or quantities.reward_course(run) is None:
        return "unjudged"
    return "healthy" if progress.solved(run) else "unclear"
