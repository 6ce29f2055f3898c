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

LEAST_PROMPTS = 5
"""Minimum number of prompts with two or more steps for a distribution of gains."""

MOST_TEXTS = 6


def prompt_charts(tables: Tables) -> list[Chart]:
    """Return the charts of the prompts page that have data, without SVG."""
    if tables.steps.empty:
        return []
    prompts, steps = tables.prompts, tables.steps
    if not tables.validation.empty:
        prompts = prompts[prompts["validation"] == 0]
    frame = Frame(floats(steps, "step"))
    best = floats(steps, "group_best_mean")
    mean = np.where(np.isnan(best), np.nan, floats(steps, "reward_mean"))
    no_variance = floats(steps, "zero_variance_groups")
    solved, grade = _solved(tables.training().responses, frame.steps)
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
            axis=message("reward: mean over groups of the best, mean over responses"),
            note=message("The gap is the gain if only the best response of each group counted."),
        ),
        curve_chart(
            frame,
            "group_shares",
            message("Groups solved, and groups without variance"),
            [
                Series("solved", message("solved"), solved),
                Series("zero", message("no variance"), no_variance, LIGHT["reference"], DASHED),
            ],
            axis=message("share of groups"),
            percent=True,
            note=""
            if grade is None
            else message(
                "Solved: a response earns {grade}, the best reward of the run.", grade=figure(grade)
            ),
        ),
    )
    return [chart for chart in charts if chart is not None]


def _gains(prompts: pd.DataFrame) -> Chart | None:
    """Return a histogram of the prompts' gains in mean reward from first to last step."""
    gain = floats(prompts[prompts["steps"] > 1], "reward_gain")
    gain = gain[np.isfinite(gain)]
    if len(gain) < LEAST_PROMPTS:
        return None
    shown = drawable(gain)
    step, low, high = bins(shown)
    rows = [{"from": a, "to": b, "y": n} for a, b, n in counts(shown, step, low, high)]
    x = Axis(low, high, message("gain of mean reward, first to last step of the prompt"))
    most = limits([np.array([float(row["y"]) for row in rows])])[1]
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
        *fill("columns", {"rows": rows}, (x, Axis(0.0, most, message("prompts")))),
    )


def _solved(responses: pd.DataFrame, steps: Floats) -> tuple[Floats, float | None]:
    """Return the share of each step's groups that contain the run's best reward, and that reward.

    All shares are NaN if rewards are not grades (one value, or more than FEW_VALUES), or if no
    group has two responses.
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
    """Return the chart of the share of responses that contain each spreading text, without SVG.

    Args:
        by_step: ``step``, ``ngram`` (text as the model wrote it), ``share`` (0-1); the most
            important text first. Only the first MOST_TEXTS are drawn.
    """
    counted = by_step[by_step["share"].notna()] if len(by_step) else by_step
    if counted.empty:
        return []
    texts = counted["ngram"].unique()
    shares = counted.drop_duplicates(["step", "ngram"]).pivot(
        index="step", columns="ngram", values="share"
    )
    series = [
        # Quote the texts, as they may be blank or look like labels.
        Series(f"text_{i}", f"“{label(text, 18)}”", floats(shares, text), *PALETTE[i])
        for i, text in enumerate(texts[:MOST_TEXTS])
    ]
    left_out = len(texts) - len(series)
    chart = curve_chart(
        Frame(shares.index.to_numpy(np.float64)),
        "spreading",
        message("Texts that spread"),
        series,
        axis=message("share of responses that contain the text"),
        wide=True,
        percent=True,
        labels=170,
        note=plural("{count} more is in the table.", "{count} more are in the table.", left_out)
        if left_out
        else "",
    )
    return [chart] if chart else []
