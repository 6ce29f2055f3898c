"""Charts of the prompts page and the tokens page."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlreport.draw.axes import Axis, bins, counts, drawable, figure, label, limits
from rlreport.draw.chart import Chart, fill
from rlreport.draw.curves import Frame, curve_chart, floats
from rlreport.draw.rewards import FEW_VALUES
from rlreport.draw.series import Series
from rlreport.draw.theme import DASHED, LIGHT, PALETTE
from rlreport.figures.ragged import Floats
from rlreport.tables import Tables
from rlreport.text.messages import message, plural

# A histogram of reward gains needs at least this many prompts that occur in several steps
LEAST_PROMPTS = 5

MOST_TEXTS = 6  # maximum number of curves in the chart of spreading texts


def prompt_charts(tables: Tables) -> list[Chart]:
    """Return the charts of the prompts page that have data, not yet rendered as SVG."""
    if tables.steps.empty:
        return []
    prompts, steps = tables.prompts, tables.steps
    if not tables.validation.empty:
        prompts = prompts[prompts["validation"] == 0]
    frame = Frame(floats(steps, "step"))
    best = floats(steps, "group_best_mean")
    mean = np.where(np.isnan(best), np.nan, floats(steps, "reward_mean"))
    no_variance = floats(steps, "zero_variance_groups")
    solved_shares, grade = _solved_shares(tables.training().responses, frame.steps)
    charts = (
        _gains(prompts),
        curve_chart(
            frame,
            "group_best",
            message("Best of a group"),
            [
                Series("best", message("best"), best),
                Series("mean", message("mean"), mean, LIGHT["muted"], DASHED),
            ],
            axis=message("mean reward: best response of each group, all responses"),
            note=message(
                "The gap shows how much the mean reward would rise if only the best "
                "response of each group counted."
            ),
        ),
        curve_chart(
            frame,
            "group_shares",
            message("Groups solved, and groups without variance"),
            [
                Series("solved", message("solved"), solved_shares),
                Series("zero", message("no variance"), no_variance, LIGHT["reference"], DASHED),
            ],
            axis=message("share of groups"),
            percent=True,
            note=""
            if grade is None
            else message(
                "A group is solved if at least one response earns {grade}, the highest reward of "
                "the run.",
                grade=figure(grade),
            ),
        ),
    )
    return [chart for chart in charts if chart is not None]


def _gains(prompts: pd.DataFrame) -> Chart | None:
    """Return a histogram of each prompt's gain in mean reward from its first to last step."""
    gain = floats(prompts[prompts["steps"] > 1], "reward_gain")
    gain = gain[np.isfinite(gain)]
    if len(gain) < LEAST_PROMPTS:
        return None
    values = drawable(gain)
    step, low, high = bins(values)
    rows = [{"from": a, "to": b, "y": n} for a, b, n in counts(values, step, low, high)]
    x = Axis(low, high, message("gain of mean reward, first to last step of the prompt"))
    top = limits([np.array([float(row["y"]) for row in rows])])[1]
    median = 2 * float(np.median(gain / 2))  # the sum of two values may overflow
    return Chart(
        "prompt_gain",
        message("Reward gain of the prompts"),
        message(
            "Of {seen:count} prompts seen in two steps or more, {rose:count} gained reward and "
            "{fell:count} lost; median gain {median}, from {low} to {high}.",
            seen=len(gain),
            rose=int((gain > 0).sum()),
            fell=int((gain < 0).sum()),
            median=figure(median),
            low=figure(float(gain.min())),
            high=figure(float(gain.max())),
        ),
        *fill("columns", {"rows": rows}, (x, Axis(0.0, top, message("prompts")))),
    )


def _solved_shares(responses: pd.DataFrame, steps: Floats) -> tuple[Floats, float | None]:
    """Return per step the share of groups that contain the run's best reward, and that reward.

    A group is the responses to one prompt at a step; groups with one response do not count.
    Shares are NaN and the reward is None if rewards do not have 2 to FEW_VALUES distinct values,
    or if no group has two responses.
    """
    graded = responses[np.isfinite(responses["reward"])]
    values = graded["reward"].unique()
    groups = graded.groupby(["step", "group"])["reward"].agg(["max", "size"])
    groups = groups[groups["size"] > 1]
    if not 1 < len(values) <= FEW_VALUES or groups.empty:
        return np.full(len(steps), np.nan), None
    best = float(values.max())
    share = (groups["max"] == best).groupby(level="step").mean()
    return share.reindex(steps.astype(np.int64)).to_numpy(np.float64), best


def token_charts(by_step: pd.DataFrame) -> list[Chart]:
    """Return a list of one chart, the share of responses that contain each text; [] without data.

    Args:
        by_step: ``step``, ``ngram`` (text as the model wrote it), ``share`` of responses that
            contain it (0-1); most important text first. Only MOST_TEXTS texts are drawn.
    """
    table = by_step[by_step["share"].notna()] if len(by_step) else by_step
    if table.empty:
        return []
    texts = table["ngram"].unique()
    shares = table.drop_duplicates(["step", "ngram"]).pivot(
        index="step", columns="ngram", values="share"
    )
    series = [
        # Quote the texts, as they may be blank or look like labels.
        Series(f"text_{i}", f"“{label(text, 18)}”", floats(shares, text), *PALETTE[i])
        for i, text in enumerate(texts[:MOST_TEXTS])
    ]
    rest = len(texts) - len(series)
    chart = curve_chart(
        Frame(shares.index.to_numpy(np.float64)),
        "spreading",
        message("Texts that spread"),
        series,
        axis=message("share of responses that contain the text"),
        wide=True,
        percent=True,
        labels=170,
        note=plural("{count} more is in the table.", "{count} more are in the table.", rest)
        if rest
        else "",
    )
    return [chart] if chart else []
