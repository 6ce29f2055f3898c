"""``unclosed_thinking``: thinking that never ends."""

from __future__ import annotations

from rlreport.check.check import Check, Need, Result
from rlreport.check.limits import EOS, Limit
from rlreport.check.run import Run
from rlreport.check.shapes import RiseOrShare, judge_share


class UnclosedThinking(RiseOrShare):
    """Thresholds of ``unclosed_thinking``."""

    rise = Limit(0.2, "of responses", "rise of the share since the first window", EOS)
    share = Limit(0.5, "of responses", "that think do not end it in the last window", EOS)


def judge(run: Run) -> Result:
    """Look for a rise of the share, and for a share that is high anyway."""
    return judge_share(CHECK, run, run.column("unclosed_thinking"), UnclosedThinking)


CHECK = Check(
    id="unclosed_thinking",
    name="thinking never ends",
    rank="consequence",
    looks_for="thinking that never ends",
    needs=(Need("thinking between <think> and </think>", ("unclosed_thinking",)),),
    charts=("eos", "length"),
    judge=judge,
    limits=UnclosedThinking,
    title="The thinking of {share:percent} of responses that think never ends ({before:percent} "
    "before).",
    why="Such a response has no answer to judge: its reward is that of a fragment.",
    suggestion="Allow more tokens, penalise overlong responses, or leave those that were cut off "
    "out of the loss (DAPO: overlong filtering).",
    explains=("missing_eos",),
    trend=False,
)
