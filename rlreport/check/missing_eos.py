"""``missing_eos``: responses are cut off at the limit."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Need, Result
from rlreport.check.finding import Facts
from rlreport.check.limits import EOS, Limit
from rlreport.check.run import Run, Shown
from rlreport.check.shapes import RiseOrShare, rise_or_share
from rlreport.text.messages import marked


class MissingEos(RiseOrShare):
    """Thresholds of ``missing_eos``."""

    rise = Limit(0.2, "of responses", "rise of the share cut off since the first window", EOS)
    share = Limit(0.5, "of responses", "share cut off in the last window", EOS)


def judge(run: Run) -> Result:
    """Look for a rise of the share without an end, and for a share that is high anyway."""
    cut_off = 1 - run.column("finished")
    moved = run.change(cut_off)
    rise, met = rise_or_share(run, moved, MissingEos)
    if not met:
        return None
    series = run.by_step(cut_off)
    onset = run.onset(series, always=not rise)
    with np.errstate(invalid="ignore"):
        cut = run.steps[(series > moved.last / 2) & np.isin(run.steps, run.since(onset))]
    length = run.column(run.length)
    return CHECK.finding(
        run,
        "warning",
        met,
        series=series,
        onset=onset,
        shown=Shown(length, unit=run.length_unit, among=cut_off == 1, at_end=True),
        steps=cut.tolist(),
        share=moved.last,
        share_start=moved.first,
    )


def title(facts: Facts) -> str:
    """Return the share of responses that do not end."""
    if facts["share_start"] is None:
        return marked("{share:percent} of responses are cut off without an end.")
    return marked(
        "{share:percent} of responses are cut off without an end ({share_start:percent} before)."
    )


CHECK = Check(
    id="missing_eos",
    name="responses no longer end",
    rank="consequence",
    looks_for="responses are cut off at the limit",
    needs=(Need("an end-of-sequence token or a finish reason", ("finished",)),),
    charts=("eos", "length"),
    judge=judge,
    limits=MissingEos,
    title=title,
    clause="{share:percent} of responses no longer end",
    why="A response that is cut off has no ending to judge: its reward is that of a fragment, and "
    "the policy is not learning to stop.",
    suggestion="Penalise responses without EOS (TRL: --missing_eos_penalty), allow more tokens, "
    "and check that the EOS token is not masked out of the loss.",
    trend=False,
)
