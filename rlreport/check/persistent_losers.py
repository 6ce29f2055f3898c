"""``persistent_losers``: prompts that never beat the reference."""

from __future__ import annotations

from dataclasses import replace

from rlreport.check.check import REF_REWARD, REWARD, Check, Result
from rlreport.check.limits import RL_BOARD, Limit, Limits
from rlreport.check.run import Run, Shown
from rlreport.text.messages import message


class PersistentLosers(Limits):
    """Thresholds of ``persistent_losers``."""

    seen = Limit(5, "responses", "a prompt seen less often is not judged", RL_BOARD)
    share = Limit(0.05, "of prompts", "never beat the reference", RL_BOARD)


def judge(run: Run) -> Result:
    """Count prompts seen often enough that never won and lie below the reference on average."""
    limits = run.limits[PersistentLosers]
    gap = run.column("reward_gap")
    rows = run.responses.assign(gap=gap).dropna(subset=["gap"])
    prompts = rows.groupby("prompt_id")["gap"].agg(["size", "max", "mean"])
    prompts = prompts[prompts["size"] >= limits.seen]
    if prompts.empty:
        return CHECK.not_run(message("prompts seen at least {times} times", times=limits.seen))
    losers = prompts[(prompts["max"] <= 0) & (prompts["mean"] < 0)]
    share = len(losers) / len(prompts)
    met = run.met(PersistentLosers.share, ">=", share)
    if losers.empty or not met:
        return None
    worst = losers.sort_values("mean", kind="stable").index[:5]
    among = run.responses["prompt_id"].isin(worst).to_numpy()
    found = CHECK.finding(
        run,
        "info",
        met,
        shown=Shown(gap, highest=False, among=among),
        losers=len(losers),
        prompts=len(prompts),
        share=share,
        seen=limits.seen,
    )
    return replace(found, steps=tuple(sorted({example.step for example in found.evidence})))


CHECK = Check(
    id="persistent_losers",
    name="prompts that never win",
    rank="note",
    looks_for="prompts that never beat the reference",
    needs=(REWARD, REF_REWARD),
    charts=("win_rate",),
    judge=judge,
    limits=PersistentLosers,
    title="{losers:count} of {prompts:count} prompts ({share:percent}) never beat the reference, "
    "each seen at least {seen} times.",
    why="The mean can rise while some prompts are lost for good.",
    suggestion="Open them on the prompts page: they may be mislabelled, out of reach, or scored "
    "by a reward that is wrong for their kind.",
    trend=False,
    of_reward=True,
)
