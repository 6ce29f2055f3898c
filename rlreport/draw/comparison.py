"""Charts that compare two runs, BASE and NEW."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from rlreport.check.finding import Rank, Severity, ToldFinding
from rlreport.check.series import Series
from rlreport.comparison.labels import Labels
from rlreport.comparison.outcome import Outcome
from rlreport.comparison.run import ComparedRun
from rlreport.comparison.statistics import Band
from rlreport.comparison.words import check_name
from rlreport.draw.chart import Chart, label
from rlreport.draw.curves import (
    ChartStyle,
    DrawnCurve,
    curve_chart,
    floats,
)
from rlreport.draw.frame import Frame
from rlreport.draw.paths import Path, path_chart
from rlreport.draw.rules import RunRule
from rlreport.draw.theme import DASHED, LIGHT
from rlreport.figures.ragged import Floats, Ints
from rlreport.text.messages import figure, message, sentences, span, translatable

# Most characters of a side's name at a rule
LONGEST_IN_RULE = 20


def comparison_charts(outcome: Outcome) -> list[Chart]:
    """Return charts of both rewards, of their difference, and of reward against KL.

    The last one needs KL of both runs, in ranges that overlap.
    """
    comparison = outcome.comparison
    steps, rewards = _on_shared_axis(*comparison.rewards)
    common = comparison.windows.common.astype(np.float64)
    charts: list[Chart | None] = []
    if len(steps):
        frame = Frame(steps, rules=_rules(outcome), labels_rules=True)
        charts.append(_reward_chart(frame, rewards, outcome))
        # Rewards on two scales have no difference.
        if len(common) and comparison.reference is None:
            of_difference = replace(
                frame,
                steps=common,
                findings=_findings(common, comparison.band),
                within=_joined(frame.extent, Frame(common).extent),
            )
            charts.append(_difference_chart(of_difference, outcome))
    if comparison.paths:
        charts.append(_path_chart(comparison.paths, outcome.labels))
    return [chart for chart in charts if chart is not None]


def _joined(
    one: tuple[float, float], other: tuple[float, float]
) -> tuple[float, float]:
    low = min(one[0], other[0])
    high = max(one[1], other[1])
    return low, high


def _on_shared_axis(base: Series, new: Series) -> tuple[Floats, tuple[Floats, Floats]]:
    """Return the steps of both series, and the values of each there, NaN where it has none.

    Where both have logged, but at different steps, only common ones are kept if there are any:
    the others would be gaps in the line of the other run.
    """
    steps = np.union1d(base.steps, new.steps)
    common = np.intersect1d(base.steps, new.steps)
    if len(common):
        first = max(base.steps[0], new.steps[0])
        last = min(base.steps[-1], new.steps[-1])
        is_of_both = (steps >= first) & (steps <= last)
        steps = steps[~is_of_both | np.isin(steps, common)]
    return steps.astype(np.float64), (_values_at(steps, base), _values_at(steps, new))


def _values_at(steps: Ints, series: Series) -> Floats:
    values = pd.Series(series.values, series.steps).reindex(steps)
    return np.asarray(values, dtype=np.float64)


def _rules(outcome: Outcome) -> tuple[RunRule, ...]:
    """Return the compared windows, and the onset of the main critical finding of each run."""
    labels = outcome.labels
    windows = outcome.comparison.windows
    base_window = windows.bases[0]
    rules = []
    if base_window == windows.new:
        words = message("compared: {window}", window=span(windows.new))
        rules.append(_window_rule(windows.new, words))
    else:
        for window, name in ((base_window, labels.base), (windows.new, labels.new)):
            literal = translatable("compared of {name}: {window}")
            words = message(literal, name=_short(name), window=span(window))
            rules.append(_window_rule(window, words))
    runs = [(outcome.base, labels.base), (outcome.new, labels.new)]
    for run, name in runs:
        found = _onset(run)
        if found is None:
            continue
        check, step = found
        # The axis has the step; with it, the label would not fit a phone.
        words = message(
            "{name}: {finding}", name=_short(name), finding=check_name(check)
        )
        described = message("{clause}, step {step:count}", clause=words, step=step)
        rule = RunRule(
            step,
            words,
            "critical",
            dashed=run is outcome.base,
            described=described,
        )
        rules.append(rule)
    return tuple(rules)


def _window_rule(window: tuple[int, int], words: str) -> RunRule:
    # Labels of onsets may lie over its edge, where a line would strike them out.
    return RunRule(
        window[0], words, "muted", dashed=True, within=window, has_line=False
    )


def _short(name: str) -> str:
    return label(name, LONGEST_IN_RULE)


def _onset(run: ComparedRun) -> tuple[str, int] | None:
    """Return the id and the onset of a run's leading critical finding, None without.

    If it does not lead, or is there from the start, that of the first one to begin.
    """
    found = [
        (finding.id != run.lead, finding.onset.step, finding.id)
        for finding in run.findings.values()
        if finding.severity == Severity.CRITICAL
        and finding.onset is not None
        and not finding.onset.from_start
    ]
    if not found:
        return None
    _, step, check = min(found)
    return check, step


def _reward_chart(
    frame: Frame, rewards: tuple[Floats, Floats], outcome: Outcome
) -> Chart | None:
    """Return the chart of the mean rewards of BASE and NEW, which is on top."""
    base_curve, new_curve = _curves(rewards, outcome.labels)
    of_trainer = outcome.comparison.trainer_levels is not None
    axis = message("mean reward, the trainer's") if of_trainer else ""
    return curve_chart(
        frame,
        "reward",
        message("Reward of both runs"),
        [new_curve, base_curve],
        ChartStyle(axis or message("mean reward")),
    )


def _difference_chart(frame: Frame, outcome: Outcome) -> Chart | None:
    """Return the chart of the difference, which says in its axis whether it has a band."""
    comparison = outcome.comparison
    labels = outcome.labels
    difference, low, high = comparison.band
    note = ""
    if np.isfinite(low).any():
        axis = message("difference, with a 95% band for all steps at once")
        note = message(
            "The band is a 95% confidence band for all steps together; steps where it "
            "excludes 0 are marked."
        )
    elif comparison.trainer_levels is not None:
        axis = message("difference of the logged responses, without a band")
    else:
        axis = message("difference, without a band")
    if comparison.trainer_levels is not None:
        logged = message("The difference is that of the logged responses.")
        note = sentences([logged, note])
    name = message("{new} − {base}", new=labels.new, base=labels.base)
    curve = DrawnCurve("difference", name, difference, low=low, high=high)
    return curve_chart(
        frame,
        "difference",
        message("Difference of the reward, {difference}", difference=name),
        [curve],
        ChartStyle(axis),
        note=note,
    )


def _curves(
    rewards: tuple[Floats, Floats], labels: Labels
) -> tuple[DrawnCurve, DrawnCurve]:
    base, new = rewards
    return (
        DrawnCurve("BASE", labels.base, base, LIGHT["muted"], DASHED),
        DrawnCurve("NEW", labels.new, new),
    )


def _findings(steps: Floats, band: Band) -> list[ToldFinding]:
    """Return findings that mark the steps where the whole band lies on one side of 0.

    They are made for the chart of the difference only, as charts shade steps of findings.
    """
    _, low, high = band
    below = translatable(
        "The whole band lies below 0 at {some:count} of {all:count} steps"
    )
    above = translatable(
        "The whole band lies above 0 at {some:count} of {all:count} steps"
    )
    findings = []
    for name, severity, mask, literal in (
        ("below 0", Severity.WARNING, high < 0, below),
        ("above 0", Severity.INFO, low > 0, above),
    ):
        if not mask.any():
            continue
        marked_steps = tuple(map(int, steps[mask]))
        finding = ToldFinding(
            id=name,
            severity=severity,  # sets the colour of the marks
            rank=Rank.NOTE,
            steps=marked_steps,
            charts=("difference",),
            title=message(literal, some=len(marked_steps), all=len(steps)),
        )
        findings.append(finding)
    return findings


def _path_chart(tables: Sequence[pd.DataFrame], labels: Labels) -> Chart:
    """Return the chart of reward against √KL; ``tables``: ``Comparison.paths``."""
    base, new = tables
    paths = []
    endings = []
    curves = _curves((floats(base, "reward"), floats(new, "reward")), labels)
    for curve, table in zip(curves, tables, strict=True):
        steps = floats(table, "step")
        distance = floats(table, "distance")
        label_at_end = {-1: label(curve.title)}  # −1: at the last point
        paths.append(Path(curve, steps, distance, label_at_end))
        ending = message(
            "{name} ends with reward {reward} at a √KL of {distance}.",
            name=curve.title,
            reward=figure(curve.values[-1]),
            distance=figure(distance[-1]),
        )
        endings.append(ending)
    return path_chart(
        "reward_at_equal_kl",
        message("Reward at the same distance from the reference"),
        sentences(endings),
        message("√KL (√nats)"),
        paths,
    )
