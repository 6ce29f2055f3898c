"""The charts of the overview, declared: those that the log has data for are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rlreport.check import quantities
from rlreport.check.course import Course
from rlreport.check.finding import ToldFinding
from rlreport.check.run import Run
from rlreport.check.series import Series, SeriesSource
from rlreport.columns import STEP, Column
from rlreport.draw.chart import Chart, PageSlot, Scale, drawable, on_one_scale
from rlreport.draw.curves import (
    ChartStyle,
    DrawnCurve,
    curve_chart,
    floats,
)
from rlreport.draw.events import DrawnEvent, events_to_draw
from rlreport.draw.frame import Focus, Frame
from rlreport.draw.group_chart import group_charts
from rlreport.draw.rules import RunRule
from rlreport.draw.run_charts import (
    distribution_charts,
    ending_charts,
    environment_charts,
    frontier_charts,
    reward_part_charts,
    small_multiples,
    tool_charts,
)
from rlreport.draw.theme import BOLD, DASHED, DOTTED, LIGHT, SOLID, THIN, Style
from rlreport.draw.time_charts import NAMES as TIME_CHARTS
from rlreport.draw.time_charts import time_charts
from rlreport.summarise.steps import passes_of
from rlreport.tables import Tables
from rlreport.text.messages import message, sentences

# Names of charts that are visible, not collapsed, even if no problem was found in them
USUAL = (
    "reward",
    "reward_validation",
    "reward_parts",
    "reward_environments",
    "kl",
    "length",
    "length_environments",
    "surprisal",
    "groups",
    "tool_errors",
)
# Width of a chart, as a key of ``theme.WIDTH``, by its place on the page
SIZES: dict[PageSlot, str] = {
    "lead": "wide",
    "reward": "wide",
    "open": "half",
    "time": "half",
    "more": "third",
}

# Names of charts that are computed from the sample of responses, not from all of them
SAMPLED = ("distinct_2", "loops")

# Function of the tables and the page's step axis; yields charts, None for one without data
ChartMaker = Callable[[Tables, Frame], Iterable[Chart | None]]

REFERENCE = (LIGHT["reference"], DASHED)
VALIDATION = (LIGHT["healthy"], DASHED)
SECOND = (LIGHT["info"], DOTTED)
# Changes to the trainer's metric and the rollouts' mean where both are drawn: one leads
_LEADING: dict[str, Any] = {"width": BOLD}
_FOLLOWING: dict[str, Any] = {
    "width": THIN,
    "colour": LIGHT["muted"],
    "low": None,
    "high": None,
}


class Part(NamedTuple):
    """Curves of one unit."""

    axis: str  # title of y, "" for "as logged"
    curves: list[DrawnCurve]

    @property
    def has_line(self) -> bool:
        return any(curve.has_line for curve in self.curves)

    def shares_axis_with(self, other: Part) -> bool:
        return on_one_scale(
            [curve.values for curve in self.curves],
            [curve.values for curve in other.curves],
        )


@dataclass(frozen=True, slots=True)
class Curve:
    column: str  # name of the column
    title: str  # label of the curve
    # column with the standard deviation that sets the width of the band, "" for no band
    std: str = ""
    key: str = ""  # id of the curve in the chart's data; "" uses ``title``
    style: Style = (LIGHT["policy"], SOLID)
    role: str = ""  # trainer's metric of the same quantity, see ``metrics.roles``
    # whether its unit may differ from that of the curves before it
    own_scale: bool = False


@dataclass(frozen=True, slots=True)
class CurveChart:
    name: str
    title: str
    curves: tuple[Curve, ...]
    axis: str = ""  # title of y; "" uses the axis title of the first curve's column
    wide: bool = False
    # scale of the y axis; ``symlog`` is used only if the axis would leave [-2, 2]
    scale: Scale = "linear"
    needs: str = ""  # column that must exist and be nonzero at some step, or the chart is left out
    note: str = ""  # last sentence of the description


def _chart(name: str, title: str, *curves: Curve, **options: Any) -> CurveChart:
    return CurveChart(name, title, curves, **options)


# Charts in page order. Of several with the same name, only the first with data is drawn
OVERVIEW: tuple[CurveChart | ChartMaker, ...] = (
    _chart(
        "reward",
        "Reward",
        Curve("reward_mean", "policy", "reward_std", role="reward"),
        Curve("ref_reward_mean", "reference", "ref_reward_std", style=REFERENCE),
        Curve(
            "validation_reward_mean",
            "validation",
            style=VALIDATION,
            role="validation",
            own_scale=True,
        ),
        Curve(
            "valid_reward_mean",
            "second, policy",
            key="valid",
            style=SECOND,
            own_scale=True,
        ),
        Curve(
            "ref_valid_reward_mean",
            "second, ref.",
            key="ref_valid",
            style=(LIGHT["muted"], (2, 4)),
        ),
        wide=True,
    ),
    environment_charts,
    distribution_charts,
    _chart(
        "kl",
        "KL to the reference (nats per response)",
        Curve("kl_k1_mean", "KL", "kl_k1_std", "k1", role="kl"),
        Curve("kl_k3_mean", STEP["kl_k3_mean"].label, key="k3", style=SECOND),
        axis="mean over responses, nats",
        note="KL is the sum of log-ratios (k1), which can be negative.",
    ),
    frontier_charts,
    _chart(
        "length",
        "Response length",
        Curve("response_tokens_mean", "policy", "response_tokens_std", role="length"),
        Curve("validation_tokens_mean", "validation", style=VALIDATION),
    ),
    _chart(
        "length",
        "Response length",
        Curve("response_chars_mean", "policy", "response_chars_std"),
        Curve("ref_response_chars_mean", "reference", style=REFERENCE),
        Curve("validation_chars_mean", "validation", style=VALIDATION),
    ),
    _chart(
        "surprisal",
        "Entropy (nats per token)",
        Curve("surprisal_mean", "policy", role="entropy"),
        note="The mean over sampled tokens estimates the policy's entropy.",
    ),
    _chart(
        "win_rate",
        "Against the reference",
        Curve("win_rate", "better", key="win"),
        Curve("lose_rate", "worse", key="lose", style=REFERENCE),
        axis="share of responses",
    ),
    ending_charts,
    _chart("eos", "Finished responses", Curve("eos_rate", "policy")),
    _chart(
        "distinct_2",
        "Variety of word pairs (distinct-2)",
        Curve("distinct_2", "policy"),
    ),
    _chart("loops", "Loops", Curve("loop_rate", "policy"), needs="loop_rate"),
    _chart(
        "duplicates",
        "Repeated responses",
        Curve("duplicate_rate", "policy"),
        needs="duplicate_rate",
    ),
    _chart(
        "explained_variance",
        "Explained variance of the critic",
        Curve("explained_variance", "critic"),
        scale="symlog",
    ),
    _chart(
        "value",
        "Value and return",
        Curve("value_mean", "value", "value_std"),
        Curve("return_mean", "return", style=(LIGHT["healthy"], DOTTED)),
    ),
    group_charts,
    _chart(
        "pass_at_k",
        "pass@1 and pass@k",
        Curve("pass_at_k", "pass@k", key="k"),
        Curve("pass_at_1", "pass@1", key="one", style=REFERENCE),
        axis="chance that one of k responses is right, mean over groups",
        note="k is {k}, the usual number of responses in a group.",
    ),
    _chart(
        "advantages",
        "Advantages against rewards",
        Curve("advantage_fit", "correlation"),
    ),
    _chart(
        "dropped",
        "Responses that the trainer dropped",
        Curve("dropped_share", "dropped"),
        needs="dropped_share",
    ),
    _chart(
        "kept_reward",
        "Reward of kept and of all responses",
        Curve("kept_reward_mean", "kept"),
        Curve("all_reward_mean", "all", style=REFERENCE),
        axis="mean over responses",
        needs="dropped_share",
    ),
    reward_part_charts,
    _chart(
        "mismatch",
        "Sampler against trainer",
        Curve("mismatch_ratio", "mismatch"),
        note="1 means that both give the sampled tokens the same probability.",
    ),
    _chart(
        "turns",
        "Turns per response",
        Curve("turns_mean", "mean"),
        Curve("turns_p95", "95th percentile", key="p95", style=SECOND),
    ),
    _chart(
        "tool_calls",
        "Tool calls per response",
        Curve("tool_calls_mean", "mean"),
        Curve("tool_calls_p95", "95th percentile", key="p95", style=SECOND),
        needs="tool_calls_p95",
    ),
    _chart(
        "turn_tokens",
        "Tokens per turn",
        Curve("turn_tokens_mean", "policy"),
        needs="turn_tokens_mean",
    ),
    tool_charts,
    _chart(
        "tool_errors",
        "Tool calls that end in an error",
        Curve("tool_error_share", "errors"),
        needs="tool_error_share",
    ),
    _chart(
        "unparsed_calls",
        "Tool calls that cannot be parsed",
        Curve("unparsed_call_share", "unparsed"),
        needs="unparsed_call_share",
    ),
    _chart(
        "markup_turns",
        "Turns with unrecognized tool-call markup",
        Curve("markup_turns_share", "markup"),
        needs="markup_turns_share",
    ),
    _chart(
        "late_calls",
        "Tool calls after the answer",
        Curve("late_call_share", "after"),
        needs="late_call_share",
    ),
    _chart(
        "empty_results",
        "Tool calls that return nothing",
        Curve("empty_result_share", "empty"),
        needs="empty_result_share",
    ),
    _chart(
        "lag",
        "Lag behind the policy (steps)",
        Curve("lag_mean", "mean"),
        Curve("lag_max", "largest", key="max", style=SECOND),
        needs="lag_max",
        note="The lag is the age of the policy that sampled a response, in steps.",
    ),
    _chart(
        "failed_rollouts",
        "Rollouts that failed",
        Curve("failed_rollouts", "failed"),
        needs="failed_rollouts",
    ),
    _chart(
        "filtered_rollouts",
        "Rollouts that the trainer filtered out",
        Curve("filtered_rollouts", "filtered out"),
        needs="filtered_rollouts",
    ),
    time_charts,
    small_multiples,
)


def overview_charts(
    tables: Tables,
    findings: Sequence[ToldFinding] = (),
    courses: Sequence[Course] = (),
    focus: tuple[float, float] | None = None,
    rules: Sequence[RunRule] = (),
) -> list[Chart]:
    """Return the charts of OVERVIEW with data.

    The steps of ``findings`` are marked on them, and the events of ``courses``. The chart that
    shows the first finding, which is the lead, is limited to the steps of ``focus``. All have the
    ``rules`` of the run.
    """
    if tables.steps.empty:
        return []
    run = Run(tables)
    if "step" in tables.metrics and not tables.metrics_apart:
        # The trainer logs more steps than rollouts, such as an evaluation before the first.
        tables = _with_metric_steps(tables)
    frame = Frame(floats(tables.steps, "step"), findings, courses=courses, rules=rules)
    # The tables of ``Run`` have training responses only, which the functions of OVERVIEW expect.
    training = replace(run.tables, steps=tables.steps)

    def charts_of(entry: CurveChart | ChartMaker, frame: Frame) -> Iterator[Chart]:
        """Yield the charts of an entry with data."""
        found: Iterable[Chart | None]
        if isinstance(entry, CurveChart):
            found = _curve_charts(tables, run, frame, entry)
        else:
            found = entry(training, frame)
        for chart in found:
            if chart is not None:
                yield _add_description(chart, tables.sample_note)

    charts: dict[str, Chart] = {}
    entries: dict[str, CurveChart | ChartMaker] = {}
    for entry in OVERVIEW:
        for chart in charts_of(entry, frame):
            # Of several charts with the same name, the first is drawn.
            if chart.name not in charts:
                charts[chart.name] = chart
                entries[chart.name] = entry
    if focus is None or not findings:
        return list(charts.values())
    leading = _leading_chart(findings, _by_names(charts.values()), findings[0].id)
    if leading is not None:
        name = leading.name
        frame = replace(frame, focus=Focus(name, focus))
        again = charts_of(entries[name], frame)
        charts[name] = next(chart for chart in again if chart.name == name)
    return list(charts.values())


def _by_names(charts: Iterable[Chart]) -> dict[str, Chart]:
    """Return the charts by name, and by subject: of several with one subject, the first."""
    found = list(charts)
    by_name = {chart.subject: chart for chart in reversed(found) if chart.subject}
    return by_name | {chart.name: chart for chart in found}


def _with_metric_steps(tables: Tables) -> Tables:
    """Return tables whose ``steps`` also have the steps of the trainer's metrics."""
    every_step = np.union1d(tables.steps["step"], tables.metrics["step"])
    by_step = tables.steps.set_index("step")
    by_step = by_step.reindex(pd.Index(every_step, name="step"))
    return replace(tables, steps=by_step.reset_index())


def arranged(
    charts: Sequence[Chart], findings: Sequence[ToldFinding], lead: str | None
) -> list[Chart]:
    """Return charts in page order, each with its section and its width.

    Visible are the charts of findings but notes, those of the lead finding first, then those in
    USUAL; all others are collapsed. ``lead`` is the id of the lead finding.
    """
    # Findings name a chart, or the subject of one.
    chart_of = _by_names(charts)
    serious = [f for f in findings if f.severity != "info"]
    serious.sort(key=lambda finding: finding.id != lead)  # the lead finding first
    # Names of visible charts -> their section, in page order
    places: dict[str, PageSlot] = {}
    for finding in serious:
        for name in finding.charts:
            if name in chart_of:
                places[chart_of[name].name] = "open"
    for name in USUAL:
        if name in chart_of:
            places.setdefault(chart_of[name].name, "open")
    for name in TIME_CHARTS:
        if name in chart_of:
            places[chart_of[name].name] = "time"
    if "reward" in places:
        places["reward"] = "reward"
    leading = _leading_chart(serious, chart_of, lead)
    if leading is not None:
        places[leading.name] = "lead"
    visible = []
    collapsed = []
    is_alone = list(places.values()).count("time") == 1
    for chart in charts:
        place = places.get(chart.name, "more")
        sized = chart.sized("wide" if place == "time" and is_alone else SIZES[place])
        if chart.name in places:
            visible.append(replace(sized, place=places[chart.name], group=""))
        else:
            collapsed.append(replace(sized, place="more"))
    order = list(places)
    visible.sort(key=lambda chart: order.index(chart.name))
    return visible + collapsed


def _leading_chart(
    findings: Sequence[ToldFinding], chart_of: Mapping[str, Chart], lead: str | None
) -> Chart | None:
    """Return the chart that shows the lead finding, None if it has none.

    ``chart_of``: name that a finding may use -> chart; ``lead``: id of the lead finding.
    """
    fallback = None
    for finding in findings:
        if finding.id != lead:
            continue
        for name in finding.charts:
            chart = chart_of.get(name)
            if chart is None:
                continue
            # A cause is seen in its own quantity; the reward, its effect, is the second choice.
            if finding.rank != "cause" or chart.name != "reward":
                return chart
            fallback = fallback or chart
    return fallback


def _add_description(chart: Chart, sample_note: str) -> Chart:
    """Return a chart whose specification has a description, and whose title tells of sampling."""
    title = chart.title
    if sample_note and chart.name in SAMPLED:
        title = message("{title}, {sample}", title=title, sample=sample_note)
    text = message("{title}. {description}", title=title, description=chart.description)
    return replace(chart, title=title, spec={**chart.spec, "description": text})


def _curve_charts(
    tables: Tables, run: Run, frame: Frame, entry: CurveChart
) -> Iterator[Chart | None]:
    """Yield the chart of an entry, or None, and charts of its curves that need another scale.

    ``tables`` have the steps and the responses, ``run`` the trainer's metrics.
    """
    if entry.needs:
        needed = floats(tables.steps, entry.needs)
        if not np.nan_to_num(needed).any():
            return
    parts = _parts(tables, run, entry, frame.courses)
    together, apart = _by_axis(parts, entry)
    title = message(entry.title)
    k = passes_of(run.responses).k if "{k}" in entry.note else 0  # of pass@k
    note = message(entry.note, k=k)
    yield _part_chart(frame, entry, together, entry.name, title, note=note)
    for part in apart:
        yield _part_chart(frame, entry, part, *_name_and_title(entry, part))


def _by_axis(parts: Sequence[Part], entry: CurveChart) -> tuple[Part, list[Part]]:
    """Return a part with all curves on the scale of the first one, and the other parts."""
    together = Part(message(entry.axis) or _main_column(entry).axis, [])
    apart = []
    for part in parts:
        if part.shares_axis_with(parts[0]):
            together.curves.extend(part.curves)
        else:
            apart.append(part)
    return together, apart


def _main_column(entry: CurveChart) -> Column:
    """Return the column of the first curve, which says what the chart is about."""
    return STEP[entry.curves[0].column]


def _part_chart(
    frame: Frame,
    entry: CurveChart,
    part: Part,
    name: str,
    title: str,
    *,
    note: str = "",
) -> Chart | None:
    """Return a chart of the curves of a part; None without values."""
    axis = part.axis
    if any(curve.has_band for curve in part.curves):
        axis = message("{axis}, band ± std", axis=axis)
        meaning = message("The band is ± one standard deviation.")
        note = sentences([meaning, note])
    # Findings that refer to the entry are marked on each of its charts.
    findings = [
        replace(finding, charts=(name,))
        for finding in frame.findings
        if entry.name in finding.charts
    ]
    column = _main_column(entry)
    style = ChartStyle(
        wide=entry.wide, percent=column.kind == "share", scale=entry.scale, axis=axis
    )
    chart = curve_chart(
        replace(frame, findings=findings), name, title, part.curves, style, note=note
    )
    if chart is None:
        return None
    columns = {curve.key or curve.title: STEP[curve.column] for curve in entry.curves}
    term = columns.get(part.curves[0].key, column).term
    return replace(chart, term=term)


def _name_and_title(entry: CurveChart, part: Part) -> tuple[str, str]:
    """Return the name and the title of the chart of a part that has its own."""
    curve = part.curves[0]
    name = f"{entry.name}_{curve.key}"
    if curve.key == "validation":
        return name, message("Validation")
    title = message("{chart}: {curve}", chart=message(entry.title), curve=curve.title)
    return name, title


def _parts(
    tables: Tables, run: Run, entry: CurveChart, courses: Sequence[Course]
) -> list[Part]:
    """Return a chart's parts that have values, with the trainer's metrics of the same quantities.

    A metric that covers the run leads: it is drawn bold and first, and the rollouts' mean thin.
    Otherwise it is drawn thin and last. Its part has no axis title, as its unit is not known.
    A curve has the events of that of the ``courses`` which was read from the same values.
    """
    leading: list[Part] = []
    parts: list[Part] = []
    trailing: list[Part] = []
    for curve in entry.curves:
        drawn = _curve(tables, curve)  # the mean of the rollouts
        axis = STEP[curve.column].axis
        metric = quantities.series_of(run, curve.role)
        drawn = replace(drawn, events=_events(courses, curve, "rollouts"))
        of_trainer = _events(courses, curve, "metrics")
        if tables.responses.empty:
            # Without rollouts, the table of steps has the trainer's metrics, of unknown unit.
            axis = ""
            drawn = replace(drawn, events=of_trainer)
        elif metric is not None:
            trainer = _trainer_curve(tables, metric, curve, drawn)
            trainer = replace(trainer, events=of_trainer)
            if not drawn.has_line and entry.name in ("reward", "length"):
                # The metric stands in for the rollouts; others are left to ``small_multiples``.
                drawn = trainer
                axis = ""
            elif _draws_both(drawn, trainer, curve):
                drawn = replace(drawn, title=message("rollouts"))
                if quantities.covers(run, metric):
                    leading.append(Part("", [replace(trainer, **_LEADING)]))
                    drawn = replace(drawn, **_FOLLOWING)
                else:
                    trailing.append(Part("", [replace(trainer, **_FOLLOWING)]))
                    drawn = replace(drawn, **_LEADING)
        # A curve on the scale of those before it belongs to their part.
        if curve.own_scale or not parts:
            parts.append(Part(axis, []))
        parts[-1].curves.append(drawn)
    return [part for part in [*leading, *parts, *trailing] if part.has_line]


def _events(
    courses: Sequence[Course], curve: Curve, source: SeriesSource
) -> tuple[DrawnEvent, ...]:
    """Return the events of the course of a curve if it was read from this source, else none."""
    for course in courses:
        is_same = course.quantity == curve.role or course.is_of(source, curve.column)
        if is_same and course.source == source:
            return events_to_draw(course)
    return ()


def _draws_both(rollouts: DrawnCurve, trainer: DrawnCurve, curve: Curve) -> bool:
    return rollouts.has_line and trainer.has_line and not curve.own_scale


def _trainer_curve(
    tables: Tables, metric: Series, curve: Curve, rollouts: DrawnCurve
) -> DrawnCurve:
    """Return the trainer's metric as a curve in the style of that of the rollouts."""
    by_step = pd.Series(metric.values, metric.steps).reindex(tables.steps["step"])
    values = drawable(np.asarray(by_step, dtype=np.float64))
    trainer = replace(rollouts, values=values, low=None, high=None)
    # Such a metric is never drawn next to the rollouts, only instead of them: with their name.
    if curve.own_scale:
        return trainer
    return replace(trainer, key="trainer", title=message("trainer"))


def _curve(tables: Tables, curve: Curve) -> DrawnCurve:
    """Return the mean of a column by step as a curve, with a band of ± std if it has one."""
    values = floats(tables.steps, curve.column)
    key = curve.key or curve.title
    colour, dash = curve.style
    drawn = DrawnCurve(key, message(curve.title), values, colour=colour, dash=dash)
    if not curve.std:
        return drawn
    std = floats(tables.steps, curve.std)
    low = values - std
    high = values + std
    # Clip the band to the range of logged values, so that it has no negative lengths.
    logged_values = tables.responses.get(curve.column.removesuffix("_mean"))
    if logged_values is not None and logged_values.notna().any():
        low = np.maximum(low, logged_values.min())
        high = np.minimum(high, logged_values.max())
    return replace(drawn, low=low, high=high)
