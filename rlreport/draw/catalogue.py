"""The overview's charts in their order: which columns of the step table, and which others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rlreport.columns import STEP
from rlreport.draw.chart import Chart
from rlreport.draw.distribution import distribution_charts
from rlreport.draw.extent import Scale
from rlreport.draw.frame import Frame
from rlreport.draw.frontier import error_by_position_charts, frontier_charts
from rlreport.draw.reward_parts import reward_part_charts
from rlreport.draw.series import DASHED
from rlreport.draw.theme import LIGHT
from rlreport.draw.wall import column_charts, metric_charts
from rlreport.tables import Tables
from rlreport.text.messages import message

ChartMaker = Callable[[Tables, Frame], Iterable[Chart | None]]
"""Gets the tables and what the charts over the steps share; gives the charts they can feed."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve: its column, the column of its band, its label and its look."""

    key: str
    title: str
    column: str
    std: str = ""
    colour: str = LIGHT["policy"]
    dash: tuple[int, ...] = (1, 0)


@dataclass(frozen=True, slots=True)
class Alternative:
    """Curves on one axis; used when one of the first ``needed`` has values.

    The axis is titled by the first curve's column, unless ``said`` says better.
    """

    curves: tuple[Curve, ...]
    needed: int = 1
    said: str = ""

    @property
    def axis(self) -> str:
        """Title of the y axis."""
        return message(self.said) or STEP[self.curves[0].column].axis


@dataclass(frozen=True, slots=True)
class CurveChart:
    """A chart; the first alternative that the log can feed is drawn.

    Attributes:
        scale: of the y axis; a symlog one is used where values leave [-2, 2], and said.
        needs: a column that is not 0 throughout, or the chart says nothing.
        note: ends the description.
    """

    name: str
    title: str
    alternatives: tuple[Alternative, ...]
    wide: bool = False
    percent: bool = False
    shiftable: bool = False
    scale: Scale = "linear"
    needs: str = ""
    note: str = ""


def _reference(title: str, column: str, std: str = "") -> Curve:
    return Curve("reference", title, column, std, LIGHT["reference"], DASHED)


def _validation(column: str) -> Curve:
    return Curve("validation", "validation", column, dash=DASHED)


def _single(
    name: str,
    title: str,
    *curves: Curve,
    axis: str = "",
    percent: bool = False,
    scale: Scale = "linear",
    needs: str = "",
    note: str = "",
) -> CurveChart:
    return CurveChart(
        name,
        title,
        (Alternative(curves, len(curves), axis),),
        percent=percent,
        scale=scale,
        needs=needs,
        note=note,
    )


OVERVIEW: tuple[CurveChart | ChartMaker, ...] = (
    CurveChart(
        "reward",
        "Reward",
        (
            Alternative(
                (
                    Curve("policy", "policy", "reward_mean", "reward_std"),
                    _reference("reference", "ref_reward_mean", "ref_reward_std"),
                    _validation("validation_reward_mean"),
                    Curve(
                        "valid",
                        "valid, policy",
                        "valid_reward_mean",
                        colour=LIGHT["healthy"],
                        dash=(2, 2),
                    ),
                    Curve(
                        "ref_valid",
                        "valid, ref.",
                        "ref_valid_reward_mean",
                        colour=LIGHT["muted"],
                        dash=(2, 4),
                    ),
                ),
            ),
        ),
        wide=True,
        shiftable=True,
    ),
    distribution_charts,
    _single(
        "kl",
        "KL to the reference (nats a response)",
        Curve("k1", "KL", "kl_k1_mean", "kl_k1_std"),
        Curve("k3", "KL, k3", "kl_k3_mean", colour=LIGHT["info"], dash=(2, 2)),
        axis="mean over responses, nats",
        note="KL is the sum of log-ratios (k1); k3 is the estimate that is never negative.",
    ),
    frontier_charts,
    CurveChart(
        "length",
        "Response length",
        (
            Alternative(
                (
                    Curve("policy", "policy", "response_tokens_mean", "response_tokens_std"),
                    _validation("validation_tokens_mean"),
                ),
            ),
            Alternative(
                (
                    Curve("policy", "policy", "response_chars_mean", "response_chars_std"),
                    _reference("reference", "ref_response_chars_mean"),
                    _validation("validation_chars_mean"),
                ),
            ),
        ),
    ),
    _single(
        "surprisal",
        "Surprisal (nats a token)",
        Curve("policy", "policy", "surprisal_mean"),
        note="A sample's estimate of the policy's entropy.",
    ),
    _single(
        "win_rate",
        "Against the reference",
        Curve("win", "better", "win_rate"),
        Curve("lose", "worse", "lose_rate", colour=LIGHT["reference"], dash=DASHED),
        axis="share of responses",
        percent=True,
    ),
    _single(
        "eos",
        "Finished responses",
        Curve("policy", "policy", "eos_rate"),
        percent=True,
    ),
    _single(
        "distinct_2",
        "Variety of word pairs (distinct-2)",
        Curve("policy", "policy", "distinct_2"),
    ),
    _single(
        "duplicates",
        "Repeated responses",
        Curve("policy", "policy", "duplicate_rate"),
        percent=True,
    ),
    _single(
        "explained_variance",
        "Explained variance of the critic",
        Curve("critic", "critic", "explained_variance"),
        scale="symlog",
    ),
    _single(
        "value",
        "Value and return",
        Curve("value", "value", "value_mean", "value_std"),
        Curve("return", "return", "return_mean", colour=LIGHT["healthy"], dash=(2, 2)),
    ),
    error_by_position_charts,
    _single(
        "groups",
        "Groups without variance",
        Curve("zero", "no variance", "zero_variance_groups"),
        percent=True,
        note="Every response of such a group has the same reward: it teaches nothing.",
    ),
    _single(
        "rlhf_reward",
        "Reward with and without the KL penalty",
        Curve("rlhf", "with penalty", "rlhf_reward_mean", colour=LIGHT["info"]),
        Curve("score", "score", "reward_mean", dash=(2, 2)),
        needs="non_score_reward_mean",
    ),
    reward_part_charts,
    _single(
        "kl_coefficient",
        "KL coefficient, inferred",
        Curve("coefficient", "coefficient", "kl_coefficient"),
        needs="kl_coefficient",
    ),
    _single(
        "mismatch",
        "Sampler against trainer",
        Curve("mismatch", "mismatch", "mismatch_ratio"),
        note="1 means that both give the sampled tokens the same probability.",
    ),
    _single(
        "turns",
        "Turns a response",
        Curve("mean", "mean", "turns_mean"),
        Curve("p95", "95th percentile", "turns_p95", colour=LIGHT["info"], dash=(2, 2)),
    ),
    _single(
        "tool_calls",
        "Tool calls a response",
        Curve("mean", "mean", "tool_calls_mean"),
        Curve("p95", "95th percentile", "tool_calls_p95", colour=LIGHT["info"], dash=(2, 2)),
        needs="tool_calls_p95",
    ),
    _single(
        "tool_errors",
        "Tool calls that end in an error",
        Curve("errors", "errors", "tool_error_share"),
        percent=True,
    ),
    _single(
        "lag",
        "Lag behind the policy (steps)",
        Curve("mean", "mean", "lag_mean"),
        Curve("max", "largest", "lag_max", colour=LIGHT["info"], dash=(2, 2)),
        needs="lag_max",
        note="How many steps older than its step the policy was that sampled a response.",
    ),
    _single(
        "failed_rollouts",
        "Rollouts that failed",
        Curve("failed", "failed", "failed_rollouts"),
        needs="failed_rollouts",
    ),
    column_charts,
    metric_charts,
)
"""In the order of the page."""
