"""Charts of the run: rewards, tools, environments, tokens, metrics and logged fields."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from rlreport.check.quantities import reward_parts
from rlreport.check.run import Run
from rlreport.check.spread_curves import TextSpread
from rlreport.check.subjects import CHART_OF_ROLE, IDENTIFIER
from rlreport.columns import STEP
from rlreport.definitions import REWARD_PART, terms_of_roles
from rlreport.draw.chart import (
    Chart,
    Scale,
    drawable,
    finite_or_none,
    label,
    unique_names,
    varies,
)
from rlreport.draw.curves import (
    ChartStyle,
    DrawnCurve,
    curve_chart,
    curves_of,
    floats,
)
from rlreport.draw.events import DrawnEvent, events_to_draw, spread_to_draw
from rlreport.draw.frame import Frame
from rlreport.draw.paths import Path, path_chart
from rlreport.draw.theme import PALETTE
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.turns import ENDING_WORDS, several_endings
from rlreport.metrics.roles import ROLES, roles_of
from rlreport.summarise.environments import environment_steps, environments_of
from rlreport.summarise.steps import ROLE_COLUMNS
from rlreport.tables import Tables
from rlreport.text.messages import figure, message, plural

QUANTILES = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
MOST_PARTS = 6  # maximum number of reward parts in a chart


def distribution_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Yield a chart of rewards, if any: shares of up to 8 distinct values, else quantiles."""
    reward = floats(tables.responses, "reward")
    finite = np.isfinite(reward)
    if not finite.any():
        return
    steps = tables.responses["step"].to_numpy()[finite]
    rewards = pd.Series(reward[finite])
    # One curve per value needs a style for each.
    has_few_values = rewards.nunique() <= len(PALETTE)
    if has_few_values:
        curves = _reward_shares(rewards, steps, frame)
        axis = message("share of the step's responses with each reward")
        note = ""
    else:
        curves = _reward_quantiles(rewards, steps, frame)
        axis = message("reward: median, middle 50%, middle 90%")
        note = message(
            "The dark band covers the middle half of the responses, the light one 90%."
        )
    yield curve_chart(
        frame,
        "reward_distribution",
        message("Reward distribution"),
        curves,
        ChartStyle(axis, percent=has_few_values),
        note=note,
    )


def _reward_shares(rewards: pd.Series, steps: Ints, frame: Frame) -> list[DrawnCurve]:
    """Return a curve per reward, the highest first: its share of each step's responses.

    ``rewards`` are those of responses, ``steps`` their steps, both (R,).
    """
    # Round as in the chart's data, to merge values that differ only by rounding errors.
    rounded = rewards.map({value: finite_or_none(value) for value in rewards.unique()})
    by_step = rounded.groupby(steps)
    shares = by_step.value_counts(normalize=True).unstack(fill_value=0)
    shares = shares.reindex(frame.steps).sort_index(axis=1, ascending=False)
    return curves_of(shares.rename(columns=figure).items())


def _reward_quantiles(
    rewards: pd.Series, steps: Ints, frame: Frame
) -> list[DrawnCurve]:
    """Return the median of each step with a band, and a wider band without a line.

    ``rewards`` are those of responses, ``steps`` their steps, both (R,).
    """
    by_step = rewards.groupby(steps).quantile(QUANTILES).unstack().reindex(frame.steps)
    p5, p25, p50, p75, p95 = by_step.to_numpy().T  # one per QUANTILES
    no_line = np.full_like(p50, np.nan)
    return [
        DrawnCurve("median", message("median"), p50, low=p25, high=p75),
        DrawnCurve("p5_p95", "", no_line, low=p5, high=p95),
    ]


def reward_part_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Yield a chart of the reward's parts, if any, of those MOST_PARTS that vary most.

    They are means of logged responses, or metrics of the trainer.
    """
    series = reward_parts(Run(tables))
    if not series:
        return
    means = pd.DataFrame(
        {
            name: pd.Series(part.values, part.steps).reindex(frame.steps)
            for name, part in series.items()
        }
    )
    means = means.astype(np.float64).apply(drawable, raw=True)
    # A part without any mean counts as varying less than one that never changes.
    ranges = (means.max() - means.min()).fillna(-1.0)
    widest = ranges.nlargest(MOST_PARTS).index
    drawn_names = [name for name in series if name in widest]  # in the order of the log
    chart = curve_chart(
        frame,
        "reward_parts",
        message("Parts of the reward"),
        curves_of(means[drawn_names].items(), "part_"),
        ChartStyle(message("mean of each part")),
        omitted=len(series) - len(drawn_names),
    )
    yield None if chart is None else replace(chart, term=REWARD_PART)


def frontier_charts(tables: Tables, frame: Frame) -> Iterator[Chart]:
    """Yield a chart of mean reward against mean KL, if three or more steps have both.

    ``frame`` is not used; all functions in ``catalogue.OVERVIEW`` are called with one.
    Source: Gao, Schulman and Hilton (2023), "Scaling Laws for Reward Model Overoptimization".
    """
    table = tables.steps.dropna(subset=["kl_k1_mean", "reward_mean"])
    if len(table) < 3:  # two points are no path
        return
    steps = floats(table, "step")
    kl = floats(table, "kl_k1_mean")
    reward = floats(table, "reward_mean")
    indices = {"first": 0, "last": -1, "highest": int(reward.argmax())}
    points_in_words = {
        name: message(
            "{reward} at {kl} nats (step {step:count})",
            reward=figure(float(reward[index])),
            kl=figure(float(kl[index])),
            step=int(steps[index]),
        )
        for name, index in indices.items()
    }
    labels = {i: message("step {step:count}", step=int(steps[i])) for i in (0, -1)}
    curve = DrawnCurve("policy", message("policy"), reward)
    yield path_chart(
        "reward_kl_frontier",
        message("Reward against KL"),
        message(
            "From reward {first} to {last}; highest reward {highest}.",
            **points_in_words,
        ),
        STEP["kl_k1_mean"].title,
        [Path(curve, steps, kl, labels)],
    )


# Maximum number of curves; the tools that answered the most calls are drawn
MOST_TOOLS = 5


def tool_label(name: object) -> str:
    return str(name) or message("tool without a name")


def tool_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Yield charts of errors and of empty answers by tool, if there are any and several tools."""
    if tables.tools.empty:
        return
    errors = ChartStyle(
        message("share of a tool's answers that are errors"),
        percent=True,
    )
    empty = replace(errors, axis=message("share of a tool's answers that hold nothing"))
    for name, column, title, style in (
        ("tool_errors", "errors", message("Error rate of each tool"), errors),
        ("empty_results", "empty", message("Empty answers of each tool"), empty),
    ):
        shares = _shares_by_tool(tables.tools, column)
        # A chart with a curve per tool tells more than the mean only if there are several.
        if len(shares.columns) < 2 or not tables.tools[column].any():
            continue
        drawn_shares = shares.reindex(frame.steps).iloc[:, :MOST_TOOLS]
        columns = ((tool_label(tool), share) for tool, share in drawn_shares.items())
        yield curve_chart(
            frame,
            name,
            title,
            curves_of(columns, "tool_"),
            style,
            omitted=len(shares.columns) - len(drawn_shares.columns),
        )


def _shares_by_tool(tools: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the share of answers that ``column`` counts, such as "errors".

    The table has a row per step, and a column per tool, those with the most answers first.
    ``tools`` has a row per step and tool.
    """
    answers = tools.groupby("tool")["answers"].sum()
    order = answers.sort_values(ascending=False, kind="stable").index
    by_step = tools.set_index(["step", "tool"])
    shares: pd.DataFrame = (by_step[column] / by_step["answers"]).unstack()
    return shares[order]


def ending_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Yield a chart of how responses end, if some neither finish nor hit the token limit."""
    endings = tables.responses["ending"]
    if not several_endings(endings):
        return
    known = endings[endings > 0]  # 0: not known
    by_step = known.groupby(tables.responses["step"][known.index])
    shares = by_step.value_counts(normalize=True).unstack(fill_value=0)
    shares = shares.reindex(frame.steps)
    columns = []
    for ending, text in ENDING_WORDS.items():
        if ending in shares:
            columns.append((message(text), shares[ending]))
    yield curve_chart(
        frame,
        "eos",
        message("How responses end"),
        curves_of(columns, "ending_"),
        ChartStyle(
            message("share of the step's responses whose ending is known"),
            percent=True,
        ),
    )


# Maximum number of curves, those whose mean fell most or rose least
MOST_ENVIRONMENTS = 6


def environment_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Yield charts of mean reward and length by environment, if the log has several."""
    environments = environments_of(tables)
    if environments is None:
        return
    steps = environment_steps(tables, environments)
    for column, title in (
        ("reward", message("Reward by environment")),
        ("length", message("Response length by environment")),
    ):
        means = steps.pivot(index="step", columns="environment", values=column)
        # Columns are numbers of environments, in the order of ``labels``.
        means.columns = environments.labels[: means.shape[1]]
        means = means.reindex(frame.steps).apply(drawable, raw=True)
        drawn_names = _worst_environments(means)
        yield curve_chart(
            frame,
            f"{column}_environments",
            title,
            curves_of(means[drawn_names].items(), "environment_"),
            ChartStyle(message("mean of each environment")),
            omitted=means.shape[1] - len(drawn_names),
        )


def _worst_environments(means: pd.DataFrame) -> list[Hashable]:
    """Return up to MOST_ENVIRONMENTS columns of ``means``, in their order: those that fell most.

    ``means`` has a row per step and a column per environment.
    """
    # Means of several steps: those of single ones are noisy.
    fifth = math.ceil(len(means) / 5)
    before = means.iloc[:fifth].mean()
    change = means.iloc[-fifth:].mean() - before
    fell_most = change.nsmallest(MOST_ENVIRONMENTS).index
    return [name for name in means if name in fell_most]


MOST_TEXTS = 6  # maximum number of curves in the chart of spreading texts


def text_charts(
    by_step: pd.DataFrame, spreads: Mapping[str, TextSpread]
) -> list[Chart]:
    """Return one chart of the share of responses with each text by step, or [] without data.

    ``by_step`` has the columns ``step``, ``ngram`` (the text) and ``share``, the texts that spread
    most first. Their onsets, in ``spreads``, are marked.
    """
    # Without rows the table has no columns.
    table = by_step[by_step["share"].notna()] if len(by_step) else by_step
    if table.empty:
        return []
    texts = table["ngram"].unique()
    shares = table.drop_duplicates(["step", "ngram"]).pivot(
        index="step", columns="ngram", values="share"
    )
    curves = []
    for i, text in enumerate(texts[:MOST_TEXTS]):
        # Quote the texts, as they may be blank or look like labels.
        title = f"“{label(text, 18)}”"
        colour, dash = PALETTE[i]
        shares_of_text = floats(shares, text)
        spread = spreads.get(text)
        curve = DrawnCurve(
            f"text_{i}",
            title,
            shares_of_text,
            colour=colour,
            dash=dash,
            events=() if spread is None else spread_to_draw(spread),
        )
        curves.append(curve)
    chart = curve_chart(
        Frame(shares.index.to_numpy(np.float64)),
        "spreading",
        message("Texts that spread"),
        curves,
        ChartStyle(
            message("share of responses that contain the text"),
            wide=True,
            percent=True,
        ),
        omitted=len(texts) - len(curves),
    )
    return [chart] if chart else []


# Maximum number of metric charts, and of those that are interactive where there are more
MOST_METRICS = 24
# Maximum number of metric charts in a report of trainer metrics alone, without responses
MOST_ALONE = 200
MOST_EXTRA_COLUMNS = 12  # maximum number of charts of extra columns
DECADES = 1000.0  # Positive values whose range exceeds this factor are drawn on a logarithmic axis


@dataclass(frozen=True, slots=True)
class _Group:
    """Columns of a table with one row per step, to be drawn in one chart each."""

    prefix: str  # prefix of charts' names, so that a column "step" or "constructor" does no harm
    heading: str  # heading above the charts
    axis: str  # title of the y axis; "" for values as logged
    most: int  # maximum number of charts
    steps: Floats  # float64 (S,)
    values: Mapping[str, Floats]  # float64 (S,) by column name
    metric_roles: Mapping[str, str]  # those of the tables

    @property
    def roles(self) -> dict[str, str]:
        """Role -> name of the column with this role."""
        return roles_of(self.values, self.metric_roles)

    @property
    def varied(self) -> list[str]:
        """Names of the columns that vary: those with a role in the order of ROLES, then others.

        The role of a metric is what it measures, such as "kl".
        """
        roles = self.roles
        with_role = [roles[role] for role in ROLES if role in roles]
        names = dict.fromkeys([*with_role, *self.values])
        return [name for name in names if varies(self.values[name])]

    @property
    def drawn(self) -> list[str]:
        """Names of up to ``most`` columns to draw."""
        return self.varied[: self.most]


def small_multiples(tables: Tables, frame: Frame) -> Iterator[Chart]:
    """Yield a chart per varying extra column, then per varying metric, up to a maximum of each.

    In a report of trainer metrics alone, the charts after the first MOST_METRICS are not
    interactive and have a heading of their own.
    """
    for group in _groups(tables):
        # Metrics whose steps are counted otherwise than those of rollouts have their own axis.
        is_metrics = group.prefix == "metric_"
        has_own_steps = tables.metrics_apart and is_metrics
        extent = None if has_own_steps else frame.extent
        roles = {metric: role for role, metric in group.roles.items()}
        drawn = group.drawn
        for rank, (key, name) in enumerate(
            zip(unique_names(drawn), drawn, strict=True)
        ):
            # Name of the overview's chart of the same quantity, "" without one; findings that
            # refer to that chart are marked on this one.
            subject = CHART_OF_ROLE.get(roles.get(name, ""), "")
            findings = [
                replace(finding, charts=(group.prefix + key,))
                for finding in frame.findings
                if subject in finding.charts
            ]
            values = group.values[name]
            events: tuple[DrawnEvent, ...] = ()
            for course in frame.courses:
                if is_metrics and course.is_of("metrics", name):
                    events = events_to_draw(course)
            chart = curve_chart(
                Frame(
                    group.steps,
                    findings,
                    extent,
                    focus=frame.focus,
                    rules=() if has_own_steps else frame.rules,
                ),
                group.prefix + key,
                label(name, 80),
                [DrawnCurve(group.prefix + key, name, values, events=events)],
                ChartStyle(group.axis, scale=scale_of(values)),
            )
            if chart is None:
                continue
            role = roles.get(name, "")
            chart = replace(chart, term=terms_of_roles().get(role, ""))
            if rank < MOST_METRICS:
                yield replace(chart, group=group.heading, subject=subject)
            else:
                # Only metrics get here: extra columns have at most MOST_EXTRA_COLUMNS charts. Each
                # interactive chart makes the page larger and slower.
                heading = message("More trainer metrics")
                yield replace(chart, group=heading, subject=subject, interactive=False)


def not_drawn(tables: Tables) -> list[str]:
    """Return a sentence for each group of columns of which more vary than may have a chart."""
    return [
        plural(
            "{heading}: {count} more is not drawn.",
            "{heading}: {count} more are not drawn.",
            len(group.varied) - group.most,
            heading=group.heading,
        )
        for group in _groups(tables)
        if len(group.varied) > group.most
    ]


def _groups(tables: Tables) -> Iterator[_Group]:
    """Yield the extra columns of the log, by their mean per step, and the trainer's metrics."""
    means = tables.extras_by_step
    if "step" in means:
        yield _Group(
            prefix="column_",
            heading=message("Extra columns of the log"),
            axis=message("mean"),
            most=MOST_EXTRA_COLUMNS,
            steps=floats(means, "step"),
            values=_columns(
                means, {"step", *tables.reward_parts, *_centered(tables.extras, means)}
            ),
            metric_roles={},
        )
    if "step" in tables.metrics:
        metrics = tables.metrics.sort_values("step")
        # Parts of the reward have a chart of their own.
        parts = reward_parts(Run(tables)).values()
        drawn = [part.name for part in parts if part.source == "metrics"]
        excluded_names = {"step", *drawn}
        limit = MOST_METRICS
        if tables.responses.empty:
            # Metrics stand in for the columns of the table of steps, which other charts show.
            names = map(str, metrics.columns[1:])  # without the step
            roles = roles_of(names, tables.metric_roles)
            excluded_names |= {roles[role] for role in ROLE_COLUMNS if role in roles}
            limit = MOST_ALONE
        yield _Group(
            prefix="metric_",
            heading=message("Trainer metrics"),
            axis="",
            most=limit,
            steps=floats(metrics, "step"),
            values=_columns(metrics, excluded_names),
            metric_roles=tables.metric_roles,
        )


# The mean of a step is 0 by construction if it is no larger part of the column's deviation
_CENTERED = 1e-4


def _centered(extras: pd.DataFrame, means: pd.DataFrame) -> set[str]:
    """Return the columns whose mean is 0 at each step by construction, such as advantages."""
    names = set()
    for name in map(str, means.columns[1:]):  # without the step
        largest = float(means[name].abs().max())
        with np.errstate(over="ignore", invalid="ignore"):
            deviation = float(extras[name].std())
        if largest <= _CENTERED * deviation:
            names.add(name)
    return names


def _columns(table: pd.DataFrame, excluded_names: set[str]) -> dict[str, Floats]:
    columns = {}
    for name in map(str, table):
        if name not in excluded_names and not IDENTIFIER.search(name):
            columns[name] = floats(table, name)
    return columns


def scale_of(values: Floats) -> Scale:
    """Return "log" for positive values over more than DECADES, "linear" for others."""
    low = float(np.nanmin(values))
    high = float(np.nanmax(values))
    return "log" if low > 0 and high / low > DECADES else "linear"
