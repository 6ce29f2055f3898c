"""``void_turns``: turns with neither a call nor an answer."""

from __future__ import annotations

from rlreport.check.check import Check, Need, Result
from rlreport.check.compare import above
from rlreport.check.run import Run
from rlreport.check.shares import part_of
from rlreport.check.thresholds_of_turns import SIMPLE_TIR
from rlreport.text.messages import marked


def judge(run: Run) -> Result:
    """Compare the share of void turns in the last window with its limit."""
    turns = run.column("turns")
    share = part_of(run.column("void_turns"), turns)
    moved = run.change(share, turns)
    if not above(moved.last, run.limits.void_turns.share):
        return None
    series = run.by_step(share, turns)
    onset = run.onset(series, always=above(moved.first, run.limits.void_turns.share))
    return CHECK.finding(
        run,
        "warning",
        onset=onset,
        thresholds=[CHECK.met(run, "share", ">", moved.last)],
        evidence=run.examples(share, onset, among=share > 0),
        series=series,
        share=moved.last,
        before=moved.first,
    )


CHECK = Check(
    id="void_turns",
    name=marked("void turns"),
    rank="consequence",
    looks_for="turns with neither a call nor an answer",
    needs=(Need("turns", ("void_turns",)),),
    charts=("turns", "length"),
    judge=judge,
    title=marked(
        "{share:percent} of turns have neither a call nor an answer ({before:percent} before)."
    ),
    why=marked(
        "Void turns mark text far from what the policy was trained on; their gradients are large "
        "and have ended multi-turn runs."
    ),
    suggestion=marked(
        "Leave conversations with a void turn out of the loss (SimpleTIR), and look for a limit "
        "of tokens that cuts turns off."
    ),
    source=SIMPLE_TIR,
    trend=False,
)
