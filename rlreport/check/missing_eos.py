"""``missing_eos``: responses are cut off at the limit."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Need, Result
from rlreport.check.compare import above, at_least
from rlreport.check.finding import Facts
from rlreport.check.noise import mean_of
from rlreport.check.run import Run
from rlreport.check.thresholds import EOS
from rlreport.text.messages import marked, told


def judge(run: Run) -> Result:
    """Look for a rise of the share without an end, and for a share that is high anyway."""
    limits = run.limits.missing_eos
    cut_off = 1 - run.column("finished")
    share = mean_of(run.tables, cut_off, run.last).mean
    moved = run.change(cut_off)
    rose = at_least(moved.difference, limits.rise) and moved.z >= run.limits.trend.z
    if not (rose or above(share, limits.share)):
        return None
    series = run.by_step(cut_off)
    onset = run.onset(series, always=not rose)
    met = [CHECK.met(run, "rise", ">=", moved.difference)] if rose else []
    if above(share, limits.share):
        met.append(CHECK.met(run, "share", ">", share))
    with np.errstate(invalid="ignore"):
        shown = run.steps[(series > share / 2) & np.isin(run.steps, run.since(onset))]
    return CHECK.finding(
        run,
        "warning",
        onset=onset,
        thresholds=met,
        evidence=run.examples(
            run.column(run.length),
            onset,
            unit=run.length_unit,
            among=cut_off == 1,
            at_end=True,
        ),
        steps=shown.tolist(),
        series=series,
        share=share,
        share_start=moved.first if np.isfinite(moved.first) else None,
    )


def title(facts: Facts) -> str:
    """Return the share of responses that do not end."""
    if facts["share_start"] is None:
        return told("{share:percent} of responses are cut off without an end.", facts)
    return told(
        "{share:percent} of responses are cut off without an end ({share_start:percent} before).",
        facts,
    )


CHECK = Check(
    id="missing_eos",
    name=marked("responses no longer end"),
    rank="consequence",
    looks_for="responses are cut off at the limit",
    needs=(Need("an end-of-sequence token or a finish reason", ("finished",)),),
    charts=("eos", "length"),
    judge=judge,
    title=title,
    effect=marked("{share:percent} of responses no longer end"),
    why=marked(
        "A response that is cut off has no ending to judge: its reward is that of a fragment, and "
        "the policy is not learning to stop."
    ),
    suggestion=marked(
        "Penalise responses without EOS (TRL: --missing_eos_penalty), allow more tokens, and "
        "check that the EOS token is not masked out of the loss."
    ),
    source=EOS,
    trend=False,
)
