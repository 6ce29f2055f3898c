"""``nan_metrics``: NaN or infinite numbers."""

from __future__ import annotations

import numpy as np

from rlreport.check.check import Check, Result
from rlreport.check.finding import Facts, Onset
from rlreport.check.run import Run, Shown
from rlreport.tables import Tables
from rlreport.text.messages import marked

SOURCE = marked("logs of diverged runs")


def first_step_with_nan(tables: Tables) -> int | None:
    """Return the first step with a NaN, infinite or null number, or None."""
    rows = tables.responses
    bad = rows.loc[rows["nan_values"] > 0, "step"]
    return int(bad.iloc[0]) if len(bad) else None


def judge(run: Run) -> Result:
    """Find numbers that are none, and whether rewards or log-probabilities are among them."""
    rows = run.responses
    bad = rows[rows["nan_values"] > 0]
    if bad.empty:
        return None
    rewards = bad["reward"].isna()
    logprobs = rewards & False
    if run.has("surprisal_mean"):
        logprobs |= bad["surprisal_mean"].isna() | (bad["logp_tokens"] < bad["response_tokens"])
    if run.has("kl_k1"):
        logprobs |= bad["kl_k1"].isna()
    worst = bad[rewards | logprobs]
    steps = bad["step"].unique()
    start = int(steps[0])
    ended = int(steps[-1]) < int(run.steps[-1])
    values = rows["nan_values"].to_numpy(np.float64)
    series = np.bincount(run.place, values, minlength=len(run.steps)).astype(np.float64)
    # The first ones tell how it began.
    order = -run.place.astype(np.float64)
    among = rows.index.isin((worst if len(worst) else bad).index)
    return CHECK.finding(
        run,
        "critical" if len(worst) else "warning",
        series=series,
        onset=Onset(start, start, start),
        until=int(steps[-1]) if ended else None,
        shown=Shown(order, among=among),
        steps=steps[:200].tolist(),
        first_step=start,
        numbers=int(values.sum()),
        responses=len(bad),
        rewards=int(rewards.sum()),
        logprobs=int(logprobs.sum()),
    )


def title(facts: Facts) -> str:
    """Return where NaN begins and what it touches."""
    if not facts["rewards"] and not facts["logprobs"]:
        return marked(
            "NaN, infinite or null numbers ({numbers:count}) stand in {responses:count} responses "
            "from step {first_step} on; the other checks judge the steps before it."
        )
    return marked(
        "NaN, infinite or null numbers ({numbers:count}) stand in {responses:count} responses "
        "from step {first_step} on, {rewards:count} with a bad reward and {logprobs:count} with "
        "bad log-probabilities; the other checks judge the steps before it."
    )


CHECK = Check(
    id="nan_metrics",
    name="NaN",
    rank="invalid",
    looks_for="NaN or infinite numbers",
    charts=("reward", "kl"),
    judge=judge,
    title=title,
    why="One NaN in a batch makes the whole update NaN; the weights saved after it are usually "
    "lost, and means over what is left mislead.",
    suggestion="Go back to a checkpoint before this step. Look there for an overflow in half "
    "precision, a division by a zero std, an empty response or a reward that failed; clip "
    "gradients.",
    source=SOURCE,
    trend=False,
    whole_run=True,
)
