"""``persistent_losers``: prompts that never beat the reference."""

from __future__ import annotations

from rlreport.check.check import REF_REWARD, REWARD, Check, Result, refs
from rlreport.check.compare import at_least
from rlreport.check.thresholds import RL_BOARD, Thresholds
from rlreport.check.words import count, percent
from rlreport.tables import Tables


def judge(tables: Tables, thresholds: Thresholds) -> Result:
    """Count prompts seen often enough that never won and lie below the reference on average."""
    limits = thresholds.persistent_losers
    rows = tables.responses.dropna(subset=["reward", "ref_reward"])
    rows = rows.assign(gap=rows["reward"] - rows["ref_reward"])
    prompts = rows.groupby("prompt_id")["gap"].agg(["size", "max", "mean"])
    prompts = prompts[prompts["size"] >= limits.seen]
    if prompts.empty:
        return CHECK.not_run(f"prompts seen at least {limits.seen} times")
    losers = prompts[(prompts["max"] <= 0) & (prompts["mean"] < 0)]
    share = len(losers) / len(prompts)
    if losers.empty or not at_least(share, limits.share):
        return None
    worst = losers.sort_values("mean", kind="stable").index[:5]
    of_losers = rows[rows["prompt_id"].isin(worst)].sort_values("gap", kind="stable")
    shown = of_losers[~of_losers["prompt_id"].duplicated()]
    return CHECK.finding(
        "info",
        f"{count(len(losers), 'prompt')} of {len(prompts):,} ({percent(share)}) never beat the "
        f"reference, each seen at least {limits.seen} times",
        steps=shown["step"].tolist(),
        responses=refs(shown),
    )


CHECK = Check(
    id="persistent_losers",
    looks_for="prompts that never beat the reference",
    needs=(REWARD, REF_REWARD),
    charts=("win_rate",),
    why="The mean can rise while some prompts are lost for good.",
    suggestion=(
        "Open them on the prompts page: they may be mislabelled, out of reach, or scored by a "
        "reward that is wrong for their kind."
    ),
    source=RL_BOARD,
    judge=judge,
    trend=False,
)
