"""``turn_limit``: conversations are stopped for their number of turns."""

from __future__ import annotations

from rlreport.check.check import Check, Need, Result
from rlreport.check.compare import above
from rlreport.check.finding import Finding
from rlreport.check.run import Run
from rlreport.check.shares import judge_share
from rlreport.check.thresholds_of_turns import AGENTS
from rlreport.text.messages import marked


def judge(run: Run) -> Result:
    """Look for a rise of the share at the limit and a high one; a smaller one is a note."""
    values, limits = run.column("at_turn_limit"), run.limits.turn_limit
    found = judge_share(CHECK, run, values, limits)
    if isinstance(found, Finding):
        return found
    moved = run.change(values)
    if not above(moved.last, limits.note):
        return None
    onset = run.onset(run.by_step(values), always=above(moved.first, limits.note))
    return CHECK.finding(
        run,
        "info",
        onset=onset,
        thresholds=[CHECK.met(run, "note", ">", moved.last)],
        evidence=run.examples(values, onset, among=values > 0),
        series=run.by_step(values),
        share=moved.last,
        before=moved.first,
    )


CHECK = Check(
    id="turn_limit",
    name=marked("conversations hit the limit of turns"),
    rank="consequence",
    looks_for="conversations are stopped for their number of turns",
    needs=(Need("turns and a finish reason", ("at_turn_limit",)),),
    charts=("turns", "eos"),
    judge=judge,
    title=marked(
        "{share:percent} of conversations are stopped at the limit of turns ({before:percent} "
        "before)."
    ),
    why=marked(
        "A conversation that is stopped has no answer to judge, and the policy is not learning to "
        "come to one."
    ),
    suggestion=marked(
        "Allow more turns, reward early answers, or leave stopped conversations out of the loss."
    ),
    source=AGENTS,
    trend=False,
)
