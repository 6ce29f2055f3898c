"""``nan_metrics``: NaN or infinite numbers."""

from __future__ import annotations

import pandas as pd

from rlreport.check.check import Check, Result, extremes, has
from rlreport.check.thresholds import Thresholds
from rlreport.check.words import count
from rlreport.tables import Tables

SOURCE = "logs of diverged runs"


def first_step_with_nan(tables: Tables) -> int | None:
    """Return the first step with a NaN, infinite or null number, or None."""
    rows = tables.responses
    bad = rows.loc[rows["nan_values"] > 0, "step"]
    return int(bad.iloc[0]) if len(bad) else None


def judge(tables: Tables, thresholds: Thresholds) -> Result:
    """Find numbers that are none, and whether rewards or log-probabilities are among them."""
    del thresholds
    rows = tables.responses
    bad = rows[rows["nan_values"] > 0]
    if bad.empty:
        return None
    rewards, logprobs = bad[bad["reward"].isna()], bad[_broken_logprobs(tables, bad)]
    kinds = [
        f"{count(len(part), 'response')} with a bad {kind}"
        for kind, part in (("reward", rewards), ("logprob", logprobs))
        if len(part)
    ]
    total = count(int(bad["nan_values"].sum()), "number")
    of_kind = f" ({', '.join(kinds)})" if kinds else ""
    start = int(bad["step"].iloc[0])
    worst = pd.concat([rewards, logprobs, bad])
    worst = worst[~worst.index.duplicated()]
    return CHECK.finding(
        "critical" if kinds else "warning",
        f"NaN, infinite or null values from step {start} on: {total} in "
        f"{count(len(bad), 'response')}{of_kind}; the other checks judge the steps before it",
        steps=bad["step"].unique()[:200].tolist(),
        responses=extremes(worst, "step"),
    )


def _broken_logprobs(tables: Tables, bad: pd.DataFrame) -> pd.Series[bool]:
    """Mark responses that lack log-probabilities, in part or whole, where others have them."""
    broken = pd.Series(False, index=bad.index)
    if has(tables.responses, "surprisal_mean"):
        broken |= bad["surprisal_mean"].isna() | (bad["logp_tokens"] < bad["response_tokens"])
    if has(tables.responses, "kl_k1"):
        broken |= bad["kl_k1"].isna()
    return broken


CHECK = Check(
    id="nan_metrics",
    looks_for="NaN or infinite numbers",
    needs=(),
    charts=("reward", "kl"),
    why=(
        "One NaN in a batch makes the whole update NaN; the weights saved after it are usually "
        "lost, and means over what is left mislead."
    ),
    suggestion=(
        "Go back to a checkpoint before this step. Look there for an overflow in half precision, "
        "a division by a zero std, an empty response or a reward that failed; clip gradients."
    ),
    source=SOURCE,
    judge=judge,
    trend=False,
)
