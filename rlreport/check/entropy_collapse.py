"""``entropy_collapse``: the policy became certain."""

from __future__ import annotations

from rlreport.check.check import LOGPROBS, Check, Result, extremes
from rlreport.check.compare import below
from rlreport.check.noise import change
from rlreport.check.thresholds import ENTROPY, Thresholds
from rlreport.check.windows import first_and_last
from rlreport.check.words import figure, percent
from rlreport.tables import Tables


def judge(tables: Tables, thresholds: Thresholds) -> Result:
    """Compare the mean surprisal per token at the end with the start and with a floor."""
    windows = first_and_last(tables, thresholds.trend)
    if windows is None:
        return CHECK.too_short(tables, thresholds)
    limits, responses = thresholds.entropy_collapse, tables.responses
    moved = change(
        tables,
        responses["surprisal_mean"].to_numpy(dtype=float),
        *windows,
        weights=responses["logp_tokens"].to_numpy(dtype=float),
    )
    fell = below(moved.last, limits.share * moved.first) and below(moved.last, limits.surprisal)
    if not (fell and moved.z <= -thresholds.trend.z):
        return None
    end = windows[1]
    return CHECK.finding(
        "warning",
        f"The policy became certain: surprisal fell from {figure(moved.first)} to "
        f"{figure(moved.last)} nats a token, {percent(moved.last / moved.first)} of the start",
        steps=end.steps,
        responses=extremes(responses.iloc[end.rows], "surprisal_mean"),
    )


CHECK = Check(
    id="entropy_collapse",
    looks_for="the policy became certain",
    needs=(LOGPROBS,),
    charts=("surprisal",),
    why=(
        "A policy that samples the same thing every time no longer explores: nothing better can "
        "be found, and groups of responses stop differing."
    ),
    suggestion=(
        "Stop earlier, lower the learning rate, add an entropy bonus or clip higher on the upper "
        "side (DAPO), raise the sampling temperature, or use harder prompts."
    ),
    source=ENTROPY,
    judge=judge,
)
