"""The charts of the overview, declared: those that the log has data for are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from rlreport.check import quantities
from rlreport.check.finding import Rank, Severity, ToldFinding
from rlreport.check.run import Run
from rlreport.columns import STEP
from rlreport.draw.chart import Chart, PageSlot, Scale, drawable, on_one_scale
from rlreport.draw.curves import DrawnCurve, Frame, curve_chart, floats
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
from rlreport.summarise.steps import passes_of
from rlreport.tables import Tables
from rlreport.text.messages import message, sentences

# Names of charts that are visible, not collapsed, even if no problem was found in them
USUAL = (
    "reward",
    "reward_validation",
    "reward_environments",
    "kl",
    "length",
    "length_environments",
    "surprisal",
    "tool_errors",
)
# Width of a chart, as a key of ``theme.WIDTH``, by its place on the page
SIZES: dict[PageSlot, str] = {
    "lead": "wide",
    "reward": "wide",
    "open": "half",
    "more": "third",
}

# Names of charts that are computed from the sample of responses, not from all of them
SAMPLED = ("distinct_2", "loops")

# Function of the tables and the page's step axis; yields charts, None for one without data
ChartMaker = Callable[[Tables, Frame], Iterable[Chart | None]]

REFERENCE = (LIGHT["reference"], DASHED)
VALIDATION = (LIGHT["healthy"], DASHED)
SECOND = (LIGHT["info"], DOTTED)
# Looks of the trainer's metric and the rollouts' mean, by whether it is the leading one of the two
_LOOKS: dict[bool, dict[str, Any]] = {
    True: {"width": BOLD},
    False: {"width": THIN, "colour": LIGHT["muted"], "low": None, "high": None},
}

# Title of y ("" for "as logged") and curves of one unit
Part = tuple[str, list[DrawnCurve]]


@dataclass(frozen=True, slots=True)
class Curve:
    column: str  # name of the column
    title: str  # label of the curve
    # column with the standard deviation that sets the width of the band, "" for no band
    std: str = ""
    key: str = ""  # id of the curve in the chart's data; "" uses ``title``
    style: Style = (LIGHT["policy"], SOLID)
    role: str = ""  # trainer's metric of the same quantity, see ``metrics.roles``
    own_scale: bool = (
        False  # whether its unit may differ from that of the curves before it
    )


@dataclass(frozen=True, slots=True)
class CurveChart:
    name: str
    title: str
    curves: tuple[Curve, ...]
    axis: str = (
        ""  # title of the y axis; "" uses the axis title of the first curve's column
    )
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
            "",
            "",
            VALIDATION,
            "validation",
            own_scale=True,
        ),
        Curve(
            "valid_reward_mean",
            "valid, policy",
            key="valid",
            style=SECOND,
            own_scale=True,
        ),
        Curve(
            "ref_valid_reward_mean",
            "valid, ref.",
            "",
            "ref_valid",
            (LIGHT["muted"], (2, 4)),
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
        "Surprisal (nats per token)",
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
    _chart(
        "groups",
        "Groups without variance",
        Curve("zero_variance_groups", "no variance", key="zero"),
        note="Every response of such a group has the same reward, so it gives no learning signal.",
    ),
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
    small_multiples,
)


def overview_charts(
    tables: Tables, findings: Sequence[ToldFinding] = ()
) -> list[Chart]:
    if tables.steps.empty:
        return []
    judged = Run(tables)
    if "step" in tables.metrics and not tables.metrics_apart:
        # The trainer logs more steps than rollouts, such as an evaluation before the first.
        every_step = np.union1d(tables.steps["step"], tables.metrics["step"])
        by_step = tables.steps.set_index("step").reindex(
            pd.Index(every_step, name="step")
        )
        tables = replace(tables, steps=by_step.reset_index())
    frame = Frame(floats(tables.steps, "step"), findings)
    training = replace(judged.tables, steps=tables.steps)
    charts: dict[str, Chart] = {}
    for entry in OVERVIEW:
        entry_charts = (
            _curve_charts(tables, judged, frame, entry)
            if isinstance(entry, CurveChart)
            else entry(training, frame)
        )
        for chart in entry_charts:
            if chart is not None:
                charts.setdefault(
                    chart.name, _add_description(chart, tables.sample_note)
                )
    return list(charts.values())


def arranged(
    charts: Sequence[Chart], findings: Sequence[ToldFinding], lead: str | None
) -> list[Chart]:
    """Return charts in page order, with section and width; ``lead``: id of the lead finding."""
    by_subject = {chart.subject: chart for chart in reversed(charts) if chart.subject}
    by_subject |= {chart.name: chart for chart in charts}
    serious = sorted(
        (f for f in findings if f.severity is not Severity.INFO),
        key=lambda f: f.id != lead,
    )
    cited = [by_subject.get(name) for f in serious for name in f.charts]
    own = [
        (f, c)
        for f in serious
        if f.id == lead
        for n in f.charts
        if (c := by_subject.get(n))
    ]
    # A cause is seen in its own quantity, its effect in the reward.
    own.sort(key=lambda pair: pair[0].rank is Rank.CAUSE and pair[1].name == "reward")
    visible = [*cited, *(by_subject.get(name) for name in USUAL)]
    places: dict[str, PageSlot] = {chart.name: "open" for chart in visible if chart}
    if "reward" in places:
        places["reward"] = "reward"
    if own:
        places[own[0][1].name] = "lead"
    order = list(places)
    result = []
    for chart in charts:
        place = places.get(chart.name, "more")
        group = (
            chart.group if place == "more" else ""
        )  # the heading of collapsed charts
        result.append(replace(chart.sized(SIZES[place]), place=place, group=group))
    return sorted(
        result, key=lambda c: order.index(c.name) if c.name in places else len(order)
    )


def _add_description(chart: Chart, sample_note: str) -> Chart:
    title = chart.title
    if sample_note and chart.name in SAMPLED:
        title = message("{title}, {sample}", title=title, sample=sample_note)
    text = message("{title}. {description}", title=title, description=chart.description)
    return replace(chart, title=title, spec={**chart.spec, "description": text})


def _curve_charts(
    tables: Tables, run: Run, frame: Frame, entry: CurveChart
) -> Iterator[Chart | None]:
    """Yield the chart of an entry, or None, and charts of its curves that need another scale."""
    if entry.needs and not np.nan_to_num(floats(tables.steps, entry.needs)).any():
        return
    title = message(entry.title)
    joined = list[DrawnCurve]()
    axis = message(entry.axis) or STEP[entry.curves[0].column].axis
    k = passes_of(run.responses).k if "{k}" in entry.note else 0
    charts = {entry.name: (title, axis, joined, message(entry.note, k=k))}
    parts = _parts(tables, run, entry)
    for axis, curves in parts:
        if on_one_scale(
            *([curve.values for curve in side] for side in (parts[0][1], curves))
        ):
            joined += curves
            continue
        key = curves[0].key
        name = message("{chart}: {curve}", chart=title, curve=curves[0].title)
        own_title = message("Validation") if key == "validation" else name
        charts[f"{entry.name}_{key}"] = (own_title, axis, curves, "")
    meaning = message("The band is ± one standard deviation.")
    for name, (title, y, curves, note) in charts.items():
        has_band = any(curve.has_band for curve in curves)
        marked = [
            replace(f, charts=(name,)) for f in frame.findings if entry.name in f.charts
        ]
        yield curve_chart(
            replace(frame, findings=marked),
            name,
            title,
            curves,
            axis=message("{axis}, band ± std", axis=y) if has_band else y,
            wide=entry.wide,
            percent=STEP[entry.curves[0].column].kind == "share",
            scale=entry.scale,
            note=sentences([meaning, note]) if has_band else note,
        )


def _parts(tables: Tables, run: Run, entry: CurveChart) -> list[Part]:
    """Return a chart's parts that have values, the leading one first, with trainer metrics."""
    first = list[Part]()
    parts = list[Part]()
    last = list[Part]()
    for curve in entry.curves:
        series = _series(tables, curve)
        axis = STEP[curve.column].axis
        metric = quantities.series_of(run, curve.role)
        if tables.responses.empty:  # the table of steps has the trainer's metrics
            axis = ""
        elif metric is not None:
            by_step = pd.Series(metric.values, metric.steps).reindex(
                tables.steps["step"]
            )
            values = drawable(np.asarray(by_step, dtype=np.float64))
            trainer = replace(series, values=values, low=None, high=None)
            if not curve.own_scale:
                trainer = replace(trainer, key="trainer", title=message("trainer"))
            if not series.has_line and entry.name in ("reward", "length"):
                series = trainer
                axis = ""
            elif series.has_line and trainer.has_line and not curve.own_scale:
                leads = quantities.covers(run, metric)
                (first if leads else last).append(
                    ("", [replace(trainer, **_LOOKS[leads])])
                )
                series = replace(series, title=message("rollouts"), **_LOOKS[not leads])
        if curve.own_scale or not parts:
            parts.append((axis, []))
        parts[-1][1].append(series)
    return [
        part for part in (*first, *parts, *last) if any(c.has_line for c in part[1])
    ]


def _series(tables: Tables, curve: Curve) -> DrawnCurve:
    values = floats(tables.steps, curve.column)
    series = DrawnCurve(
        curve.key or curve.title, message(curve.title), values, *curve.style
    )
    if not curve.std:
        return series
    half = floats(tables.steps, curve.std)
    low = values - half
    high = values + half
    # Clip the band to the range of logged values, so that it has no negative lengths.
    logged_values = tables.responses.get(curve.column.removesuffix("_mean"))
    if logged_values is not None and logged_values.notna().any():
        low, high = (
            np.maximum(low, logged_values.min()),
            np.minimum(high, logged_values.max()),
        )
    return replace(series, low=low, high=high)
