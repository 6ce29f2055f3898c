"""``missing_eos``: responses are cut off at the limit."""

from __future__ import annotations

from rlreport.check.check import Check, Need, Result, extremes
from rlreport.check.compare import above, at_least
from rlreport.check.noise import change, mean_of
from rlreport.check.thresholds import EOS, Thresholds
from rlreport.check.windows import first_and_last, last
from rlreport.check.words import percent
from rlreport.tables import Tables


def judge(tables: Tables, thresholds: Thresholds) -> Result:
    """Look for a rise of the share without an end, and for a share that is high anyway."""
    limits, end = thresholds.missing_eos, last(tables, thresholds.trend)
    cut_off = 1 - tables.responses["finished"].to_numpy(dtype=float)
    windows = first_and_last(tables, thresholds.trend)
    share, since, rose = mean_of(tables, cut_off, end).mean, "", False
    if windows is not None:
        moved = change(tables, cut_off, *windows)
        rose = at_least(moved.difference, limits.rise) and moved.z >= thresholds.trend.z
        since = f", {percent(moved.first)} at the start"
    if not (rose or above(share, limits.share)):
        return None
    rows = tables.responses.iloc[end.rows]
    column = "response_tokens" if rows["response_tokens"].notna().any() else "response_chars"
    means = tables.steps.set_index("step")["eos_rate"]
    shown = means.index[(1 - means > share / 2) & means.index.isin(end.steps)]
    return CHECK.finding(
        "warning",
        f"{percent(share)} of responses are cut off without an end-of-sequence token{since}",
        steps=shown.tolist() or end.steps,
        responses=extremes(rows[rows["finished"] == 0], column, highest=True),
    )


CHECK = Check(
    id="missing_eos",
    looks_for="responses are cut off at the limit",
    needs=(Need("an end-of-sequence token or a finish reason", ("finished",)),),
    charts=("eos", "length"),
    why=(
        "A response that is cut off has no ending to judge: its reward is that of a fragment, and "
        "the policy is not learning to stop."
    ),
    suggestion=(
        "Penalise responses without EOS (TRL: --missing_eos_penalty), allow more tokens, and "
        "check that the EOS token is not masked out of the loss."
    ),
    source=EOS,
    judge=judge,
    trend=False,
)
