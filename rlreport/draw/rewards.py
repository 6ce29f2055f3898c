"""Charts of the reward (distribution, parts, reward against KL) and of the critic's error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from rlreport.choose.detail import evenly
from rlreport.columns import STEP
from rlreport.draw.axes import Axis, drawable, figure, finite_or_none, limits, records, unique_names
from rlreport.draw.chart import Chart, fill
from rlreport.draw.curves import Frame, curve_chart, floats, mark_layers
from rlreport.draw.series import MOST_POINTS, Series
from rlreport.draw.theme import PALETTE
from rlreport.figures.ragged import Floats
from rlreport.tables import Tables
from rlreport.text.messages import message, plural, sentences

# Rewards with at most this many distinct values are treated as grades, such as right or wrong
FEW_VALUES = 12

MOST_COLUMNS = 120  # maximum number of columns of the heat map
MOST_PARTS = 6  # maximum number of reward parts in a chart
# If the std of the reward is smaller, the reward parts' shares of its variance are NaN
LEAST_STD = 1e-6


def distribution_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Yield one chart of the reward distribution at each step; nothing without rewards.

    Grades (see FEW_VALUES) are drawn as a heat map of their shares, as quantiles would jump
    between grades; other rewards are drawn as the median and two bands of quantiles.
    """
    responses = tables.responses
    finite = responses.loc[np.isfinite(responses["reward"]), ["step", "reward"]]
    if finite.empty:
        return
    reward = drawable(finite["reward"].to_numpy(dtype=np.float64))
    values, indices = np.unique(reward, return_inverse=True)
    if len(values) > FEW_VALUES:
        yield _quantile_bands(frame, finite.assign(reward=reward))
    else:
        # Round as in the chart's data, to merge values that differ only by rounding errors.
        values = np.array([finite_or_none(value) for value in values])
        yield _heat_map(frame, finite.assign(reward=values[indices]), np.unique(values))


def _quantile_bands(frame: Frame, finite: pd.DataFrame) -> Chart | None:
    shares = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    quantiles = finite.groupby("step")["reward"].quantile(shares).unstack().reindex(frame.steps)
    p5, p25, p50, p75, p95 = quantiles.to_numpy(dtype=np.float64).T
    return curve_chart(
        frame,
        "reward_distribution",
        message("Reward distribution"),
        [
            Series("median", message("median"), p50, low=p25, high=p75),
            Series("p5_p95", "", np.full_like(p50, np.nan), low=p5, high=p95),
        ],
        axis=message("reward: median, middle 50%, middle 90%"),
        note=message("The dark band covers the middle half of the responses, the light one 90%."),
    )


def _heat_map(frame: Frame, finite: pd.DataFrame, values: Floats) -> Chart:
    group_size = -(-len(frame.steps) // MOST_COLUMNS)
    edges = np.append(frame.edges[:-1][::group_size], frame.edges[-1])
    # Half the smallest gap of values. For a single huge value, 0.5 would be lost by rounding.
    half = float(np.diff(values).min()) / 2 if len(values) > 1 else max(0.5, abs(values[0]) / 100)
    middles = (values[1:] + values[:-1]) / 2
    heights = np.concatenate([[values[0] - half], middles, [values[-1] + half]])
    counts, _, _ = np.histogram2d(
        finite["step"].to_numpy(dtype=np.float64),
        finite["reward"].to_numpy(dtype=np.float64),
        bins=[edges, heights],
    )
    column, level = np.nonzero(counts)
    cells = {
        "from": edges[column],
        "to": edges[column + 1],
        "low": heights[level],
        "high": heights[level + 1],
        "share": counts[column, level] / counts.sum(axis=1)[column],
    }
    title = message("reward; stronger colour = larger share of the step's responses")
    ticks = [finite_or_none(value) for value in values] if len(values) <= 6 else None
    forms = fill(
        "steps_heat",
        {"rows": records(cells), **mark_layers(frame.marks("reward_distribution"))},
        (frame.axis(), Axis(float(heights[0]), float(heights[-1]), title, values=ticks)),
        right=92,
    )
    # Describe single steps, as a column of the heat map may cover several.
    first, last = (
        finite.loc[finite["step"] == step, "reward"]
        for step in (finite["step"].min(), finite["step"].max())
    )
    words = sentences(
        message(
            "Reward {value}: {first} of the responses in the first step, {last} in the last.",
            value=figure(value),
            first=figure(float((first == value).mean()), True),
            last=figure(float((last == value).mean()), True),
        )
        for value in values
    )
    return Chart("reward_distribution", message("Reward distribution"), words, *forms)


def reward_part_charts(tables: Tables, frame: Frame) -> Iterator[Chart | None]:
    """Yield a chart of reward parts' means and, for several parts, of their variance shares.

    At most MOST_PARTS parts are drawn: those whose means have the widest range.
    """
    names = [name for name in tables.reward_parts if name in tables.extras_by_step]
    if not names or tables.extras_by_step.empty:
        return
    means = tables.extras_by_step.drop_duplicates("step", keep="last").set_index("step")[names]
    means = means.reindex(frame.steps).astype(np.float64).apply(drawable, raw=True)
    widest = (means.max() - means.min()).fillna(-1.0).sort_values(ascending=False, kind="stable")
    drawn_names = [name for name in names if name in widest.index[:MOST_PARTS]]
    omitted_count = len(names) - len(drawn_names)
    yield curve_chart(
        frame,
        "reward_parts",
        message("Parts of the reward"),
        _series(means[drawn_names]),
        axis=message("mean of each part"),
        labels=150,
        note=plural(
            "{count} part that varies less is not drawn.",
            "{count} parts that vary less are not drawn.",
            omitted_count,
        )
        if omitted_count
        else "",
    )
    if len(names) < 2:
        return
    yield curve_chart(
        frame,
        "reward_part_shares",
        message("Share of each part in the reward's variance"),
        _series(variance_shares(tables, drawn_names).reindex(frame.steps)),
        axis=message("Cov(part, reward) / Var(reward)"),
        labels=150,
        note=message(
            "The shares of all parts add up to 1 where the reward is their sum; a part with a "
            "negative share works against the others."
        ),
    )


def variance_shares(tables: Tables, names: Sequence[str]) -> pd.DataFrame:
    """Return the share of each part in the variance of the reward within each step.

    The share is Cov(part, reward) / Var(reward) over the step's responses with a reward. A part
    that is missing for a response counts as 0, as in the sum of parts. NaN if the reward does not
    vary, or its variance overflows.

    Args:
        tables: tables of the whole run.
        names: names of the parts, columns of ``tables.extras``.

    Returns:
        One float64 column per part, with the steps as index.
    """
    rewarded = np.isfinite(tables.responses["reward"].to_numpy(dtype=np.float64))
    responses, parts = tables.responses[rewarded], tables.extras.loc[rewarded, list(names)]
    step, reward = responses["step"], responses["reward"]
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = reward - reward.groupby(step).transform("mean")
        variance = deviation.pow(2).groupby(step).mean()
        part_values = parts.astype(np.float64).fillna(0.0)
        covariance = part_values.mul(deviation, axis=0).groupby(step).mean()
        divisor = variance.where((variance > LEAST_STD**2) & np.isfinite(variance))
        shares: pd.DataFrame = covariance.div(divisor, axis=0)
    return shares


def _series(parts: pd.DataFrame) -> list[Series]:
    names = [str(name) for name in parts]
    return [
        Series(f"part_{key}", name, floats(parts, name), *style)
        for key, name, style in zip(unique_names(names), names, PALETTE, strict=False)
    ]


def frontier_charts(tables: Tables, frame: Frame) -> Iterator[Chart]:
    """Yield a chart of mean reward against mean KL: a path through all steps, if three or more.

    Source: Gao, Schulman and Hilton (2023), "Scaling Laws for Reward Model Overoptimization".
    """
    steps = tables.steps
    table = steps[np.isfinite(steps["kl_k1_mean"]) & np.isfinite(steps["reward_mean"])]
    if len(table) < 3:
        return
    step = table["step"].to_numpy()
    kl = table["kl_k1_mean"].to_numpy(dtype=np.float64)
    reward = table["reward_mean"].to_numpy(dtype=np.float64)
    selection = evenly(len(table), MOST_POINTS)
    rows = records({"step": step[selection].tolist(), "x": kl[selection], "y": reward[selection]})
    ends = [
        {**rows[i], "label": message("step {step:count}", step=rows[i]["step"])} for i in (0, -1)
    ]
    x = Axis(*limits([kl[selection]]), STEP["kl_k1_mean"].title)
    y = Axis(*limits([reward[selection]]), message("mean reward"))
    forms = fill("path", {"rows": rows, "label": ends, "halo": ends}, (x, y), right=72)
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
    yield Chart(
        "reward_kl_frontier",
        message("Reward against KL"),
        message("From reward {first} to {last}; highest reward {highest}.", **words),
        *forms,
    )


def error_by_position_charts(tables: Tables, frame: Frame) -> Iterator[Chart]:
    """Yield a chart of the critic's mean |value − return| for each tenth of the response."""
    positions = tables.positions
    if positions.empty or not np.isfinite(positions["abs_error_mean"]).any():
        return
    table = positions.sort_values("decile")
    errors = table["abs_error_mean"].to_numpy(dtype=np.float64)
    tenths = table["decile"].to_numpy(dtype=np.float64)
    x = Axis(0.0, 1.0, message("position in the response"), percent=True)
    y = Axis(0.0, limits([errors])[1], message("mean |value − return|"))
    largest = int(np.nanargmax(errors))
    yield Chart(
        "error_by_position",
        message("Error of the critic by position"),
        message(
            "{first} in the first tenth of the response, {last} in the last; largest {largest}, "
            "in tenth {tenth}.",
            first=figure(errors[0]),
            last=figure(errors[-1]),
            largest=figure(errors[largest]),
            tenth=f"{tenths[largest] + 1:.0f}",
        ),
        *fill(
            "columns",
            {"rows": records({"from": tenths / 10, "to": (tenths + 1) / 10, "y": errors})},
            (x, y),
        ),
    )
