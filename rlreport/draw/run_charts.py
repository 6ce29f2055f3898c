"""Charts of the run: rewards, tools, environments, tokens, metrics and logged fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from rlreport.columns import STEP
from rlreport.draw.chart import (
    Chart,
    Scale,
    drawable,
    finite_or_none,
    label,
    unique_names,
    varies,
)
from rlreport.draw.curves import DrawnCurve, Frame, curve_chart, curves_of, floats, path_chart
from rlreport.draw.theme import PALETTE
from rlreport.figures.metadata import ENDING_WORDS, several_endings
from rlreport.figures.ragged import Floats
from rlreport.metrics.roles import ROLES, roles_of
from rlreport.summarise.steps import ROLE_COLUMNS, environment_steps, environments_of
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
    step, reward = tables.responses["step"].to_numpy()[finite], reward[finite]
    values, indices = np.unique(reward, return_inverse=True)
    few = len(values) <= len(PALETTE)
    if few:
        # Round as in the chart's data, to merge values that differ only by rounding errors.
        rounded = pd.Series(np.array([finite_or_none(value) for value in values])[indices])
        counted = rounded.groupby(step).value_counts(normalize=True).unstack(fill_value=0)
        shares = counted.reindex(frame.steps).sort_index(axis=1, ascending=False)
        series = curves_of(shares.rename(columns=figure).items())
        axis = message("share of the step's responses with each reward")
        note = ""
    else:
        quantiles = pd.Series(reward).groupby(step).quantile(QUANTILES)
        p5, p25, p50, p75, p95 = quantiles.unstack().reindex(frame.steps).to_numpy().T
        series = [
            DrawnCurve("median", message("median"), p50, low=p25, high=p75),
            DrawnCurve("p5_p95", "", np.full_like(p50, np.nan), low=p5, high=p95),
        ]
        axis = message("reward: median, middle 50%, middle 90%")
        note = message("The dark band covers the middle half of the responses, the light one 90%.")
    yield curve_chart(
        frame,
        "reward_distribution",
        message("Reward distribution"),
        series,
        axis=axis,
        percent=few,
        note=note,
    )


def reward_part_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Yield a chart of the mean reward parts, if any, of those MOST_PARTS that vary most."""
    names = [name for name in tables.reward_parts if name in tables.extras_by_step]
    if not names or tables.extras_by_step.empty:
        return
    means = tables.extras_by_step.set_index("step")[names].reindex(frame.steps)
    means = means.astype(np.float64).apply(drawable, raw=True)
    widest = (means.max() - means.min()).fillna(-1.0).nlargest(MOST_PARTS).index
    drawn_names = [name for name in names if name in widest]
    yield curve_chart(
        frame,
        "reward_parts",
        message("Parts of the reward"),
        curves_of(means[drawn_names].items(), "part_"),
        axis=message("mean of each part"),
        labels=150,
        omitted=len(names) - len(drawn_names),
    )


def frontier_charts(tables: Tables, frame: Frame) -> Iterator[Chart]:
    """Yield a chart of mean reward against mean KL, if three or more steps have both.

    Source: Gao, Schulman and Hilton (2023), "Scaling Laws for Reward Model Overoptimization".
    """
    table = tables.steps.dropna(subset=["kl_k1_mean", "reward_mean"])
    if len(table) < 3:
        return
    step, kl, reward = (floats(table, name) for name in ("step", "kl_k1_mean", "reward_mean"))
    indices = {"first": 0, "last": -1, "highest": int(reward.argmax())}
    words = {
        name: message(
            "{reward} at {kl} nats (step {step:count})",
            reward=figure(float(reward[index])),
            kl=figure(float(kl[index])),
            step=int(step[index]),
        )
        for name, index in indices.items()
    }
    labels = {i: message("step {step:count}", step=int(step[i])) for i in (0, -1)}
    yield path_chart(
        "reward_kl_frontier",
        message("Reward against KL"),
        message("From reward {first} to {last}; highest reward {highest}.", **words),
        STEP["kl_k1_mean"].title,
        [(DrawnCurve("policy", message("policy"), reward), step, kl, labels)],
    )


MOST_TOOLS = 5  # Maximum number of curves; the tools that answered the most calls are drawn


def tool_label(name: object) -> str:
    return str(name) or message("tool without a name")


def tool_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Yield charts of errors and of empty answers by tool, if there are any and several tools."""
    if tables.tools.empty:
        return
    by_step = tables.tools.set_index(["step", "tool"])
    answers = tables.tools.groupby("tool")["answers"].sum()
    order = answers.sort_values(ascending=False, kind="stable").index
    for name, column, title, axis in (
        ("tool_errors", "errors", message("Error rate of each tool"),
         message("share of a tool's answers that are errors")),
        ("empty_results", "empty", message("Empty answers of each tool"),
         message("share of a tool's answers without text")),
    ):  # fmt: skip
        if len(order) < 2 or not by_step[column].any():
            continue
        rates: pd.DataFrame = (by_step[column] / by_step["answers"]).unstack()
        shares = rates.reindex(frame.steps)[order[:MOST_TOOLS]]
        yield curve_chart(
            frame,
            name,
            title,
            curves_of(((tool_label(tool), share) for tool, share in shares.items()), "tool_"),
            axis=axis,
            percent=True,
            labels=150,
            omitted=len(order) - len(shares.columns),
        )


def ending_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Yield a chart of how responses end, if some neither finish nor hit the token limit."""
    ending = tables.responses["ending"]
    if not several_endings(ending):
        return
    ending = ending[ending > 0]
    steps = tables.responses["step"][ending.index]
    shares = ending.groupby(steps).value_counts(normalize=True).unstack(fill_value=0)
    shares = shares.reindex(frame.steps)
    curves = [(message(text), shares[end]) for end, text in ENDING_WORDS.items() if end in shares]
    yield curve_chart(
        frame,
        "eos",
        message("How responses end"),
        curves_of(curves, "ending_"),
        axis=message("share of the step's responses whose ending is known"),
        percent=True,
        labels=150,
    )


MOST_ENVIRONMENTS = 6  # maximum number of curves, those whose mean fell most or rose least


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
        means.columns = environments.labels[: means.shape[1]]
        means = means.reindex(frame.steps).apply(drawable, raw=True)
        part = -(-len(means) // 5)
        change = means.iloc[-part:].mean() - means.iloc[:part].mean()
        lowest = change.nsmallest(MOST_ENVIRONMENTS).index
        drawn_names = [name for name in means if name in lowest]
        yield curve_chart(
            frame,
            f"{column}_environments",
            title,
            curves_of(means[drawn_names].items(), "environment_"),
            axis=message("mean of each environment"),
            labels=150,
            omitted=means.shape[1] - len(drawn_names),
        )


MOST_TEXTS = 6  # maximum number of curves in the chart of spreading texts


def token_charts(by_step: pd.DataFrame) -> list[Chart]:
    """Return one chart of the share of responses with each text by step, or [] without data."""
    table = by_step[by_step["share"].notna()] if len(by_step) else by_step
    if table.empty:
        return []
    texts = table["ngram"].unique()
    shares = table.drop_duplicates(["step", "ngram"]).pivot(
        index="step", columns="ngram", values="share"
    )
    series = [
        # Quote the texts, as they may be blank or look like labels.
        DrawnCurve(f"text_{i}", f"“{label(text, 18)}”", floats(shares, text), *PALETTE[i])
        for i, text in enumerate(texts[:MOST_TEXTS])
    ]
    chart = curve_chart(
        Frame(shares.index.to_numpy(np.float64)),
        "spreading",
        message("Texts that spread"),
        series,
        axis=message("share of responses that contain the text"),
        wide=True,
        percent=True,
        labels=170,
        omitted=len(texts) - len(series),
    )
    return [chart] if chart else []


MOST_METRICS = 24
# Maximum number of metric charts in a report of trainer metrics alone, without responses
MOST_ALONE = 200
MOST_EXTRA_COLUMNS = 12
DECADES = 1000.0  # Positive values whose range exceeds this factor are drawn on a logarithmic axis
# Metric's role -> overview chart on the same subject; findings refer to charts by that name
CHART_OF_ROLE = {
    "kl": "kl",
    "kl_token": "kl",
    "entropy": "surprisal",
    "length": "length",
    "truncated": "eos",
    "ratio": "mismatch",
    "clip_fraction": "mismatch",
    "grad_norm": "gradient_norm",
    "learning_rate": "learning_rate",
    "explained_variance": "explained_variance",
    **dict.fromkeys(
        ("mismatch_k3", "mismatch_lagged", "mismatch_prob", "mismatch_ratio"), "mismatch"
    ),
    "ess": "mismatch",
    "zero_variance": "groups",
    "failed": "failed_rollouts",
    "turn_limit": "turns",
    **{role: role for role in ("tool_calls", "tool_errors", "lag", "dropped")},
}

# Matches names of ids, indices, hashes and seeds: a chart of their means is meaningless
_IDENTIFIER = re.compile(
    r"(^|[/_. -])(ids?|idx|index|indices|uu?id|guid|hash|seed|line_?(no|number)?)$|[a-z]I[dD]$"
)


@dataclass(frozen=True, slots=True)
class _Group:
    """Columns of a table with one row per step, to be drawn in one chart each."""

    prefix: str  # prefix of charts' names, so that a column "step" or "constructor" does no harm
    heading: str  # heading above the charts
    axis: str  # title of the y axis; "" for values as logged
    most: int  # maximum number of charts
    steps: Floats  # float64 (S,)
    values: Mapping[str, Floats]  # float64 (S,) by column name

    @property
    def varied(self) -> list[str]:
        """Names of the columns that vary: those with a role in the order of ROLES, then others."""
        roles = roles_of(self.values)
        names = dict.fromkeys([*(roles[role] for role in ROLES if role in roles), *self.values])
        return [name for name in names if varies(self.values[name])]

    @property
    def drawn(self) -> list[str]:
        """Names of up to ``most`` columns to draw."""
        return self.varied[: self.most]


def small_multiples(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Yield a chart per varying extra column, then per varying metric, up to a maximum of each."""
    for group in _groups(tables):
        apart = tables.metrics_apart and group.prefix == "metric_"
        roles = {metric: role for role, metric in roles_of(group.values).items()}
        keys = zip(unique_names(group.drawn), group.drawn, strict=True)
        for rank, (key, name) in enumerate(keys):
            chart_name = CHART_OF_ROLE.get(roles.get(name, ""), "")
            findings = [
                replace(finding, charts=(group.prefix + key,))
                for finding in frame.findings
                if chart_name in finding.charts
            ]
            metric_frame = Frame(group.steps, findings, None if apart else frame.extent)
            chart = curve_chart(
                metric_frame,
                group.prefix + key,
                label(name, 80),
                [DrawnCurve(group.prefix + key, name, group.values[name])],
                axis=group.axis,
                labels=0,
                scale=_scale(group.values[name]),
            )
            main = rank < MOST_METRICS
            heading = group.heading if main else message("More trainer metrics")
            yield chart and replace(chart, group=heading, subject=chart_name, interactive=main)


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
    means = tables.extras_by_step
    metrics = tables.metrics
    if "step" in means:
        columns = _columns(means, {"step", *tables.reward_parts})
        heading = message("Extra columns of the log")
        steps = floats(means, "step")
        yield _Group("column_", heading, message("mean"), MOST_EXTRA_COLUMNS, steps, columns)
    if "step" in metrics:
        metrics = metrics.sort_values("step")
        excluded_names = {"step"}
        limit = MOST_METRICS
        if tables.responses.empty:
            # Other charts of such a report already show the metrics in the table of steps.
            roles = roles_of(map(str, metrics.columns[1:]))
            excluded_names |= {roles[role] for role in ROLE_COLUMNS if role in roles}
            limit = MOST_ALONE
        columns = _columns(metrics, excluded_names)
        heading = message("Trainer metrics")
        steps = floats(metrics, "step")
        yield _Group("metric_", heading, "", limit, steps, columns)


def _columns(table: pd.DataFrame, left_out: set[str]) -> dict[str, Floats]:
    names = (name for name in map(str, table) if name not in left_out)
    return {name: floats(table, name) for name in names if not _IDENTIFIER.search(name)}


def _scale(values: Floats) -> Scale:
    low = float(np.nanmin(values))
    high = float(np.nanmax(values))
    return "log" if low > 0 and high / low > DECADES else "linear"
