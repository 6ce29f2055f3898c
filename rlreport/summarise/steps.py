"""Build the tables of steps and environments from responses or the trainer's metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.columns import RESPONSE_COLUMNS, STEP_COLUMNS
from rlreport.figures.grouped import Grouped, ratio
from rlreport.figures.ragged import Floats
from rlreport.figures.rounding import difference, significant
from rlreport.metrics.roles import roles_of

# A group with a lower std of rewards has no learning signal (TRL: ``frac_reward_zero_std``)
NO_VARIANCE = 1e-6

WINDOW_SHARE = 0.2
# The first and last window of a run have this share of its steps, and at least this many
LEAST_WINDOW = 3

# Columns averaged with weights: mean of a response -> column with its number of tokens
_WEIGHTED = {
    "surprisal_mean": "logp_tokens",
    "return_mean": "value_tokens",
    "ratio_mean": "ratio_tokens",
    "ratio_outside": "ratio_tokens",
    "mismatch_ratio": "mismatch_tokens",
    "mismatch_k3": "mismatch_tokens",
    "mismatch_prob": "mismatch_tokens",
}

# What a trainer's metric measures (role) -> column of the step table that measures the same
ROLE_COLUMNS = {
    "reward": "reward_mean",
    "reward_std": "reward_std",
    "validation": "validation_reward_mean",
    "kl": "kl_k1_mean",
    "length": "response_tokens_mean",
    "explained_variance": "explained_variance",
}

_VALIDATION = {
    "validation_reward_mean": "reward_mean",
    "validation_tokens_mean": "response_tokens_mean",
    "validation_chars_mean": "response_chars_mean",
}
_LEFT_OUT = ("failed_rollouts", "filtered_rollouts")
_NO_BIGRAMS: dict[str, list[int]] = {"step": [], "bigrams": [], "distinct": []}


# A caller's table may contain infinite values; logs do not.
@np.errstate(invalid="ignore")
def step_table(responses: pd.DataFrame, bigrams: pd.DataFrame) -> pd.DataFrame:
    """Return the step table (STEP_COLUMNS) of responses, which are sorted by step.

    ``bigrams`` is that of ``step_bigrams``.
    """
    column = {str(name): values.to_numpy() for name, values in responses.items()}
    steps = Grouped.by(column["step"])
    step_numbers = steps.first(column["step"])
    is_duplicate = responses.duplicated(["step", "response_hash"], keep=False)
    nan_values = steps.sum(column["nan_values"].astype(np.float64))
    figures: dict[str, NDArray[np.generic]] = {
        "step": step_numbers,
        "responses": steps.counts,
        "prompts": responses.groupby("step")["prompt_id"].nunique().to_numpy(),
        **_of_responses(column, steps),
        **_weighted_means(column, steps),
        "log_ratio_mean": steps.mean(column["log_ratio_mean"]),
        "eos_rate": steps.mean(column["finished"]),
        "unclosed_thinking": steps.mean(column["unclosed_thinking"]),
        "at_turn_limit": steps.mean(column["at_turn_limit"]),
        **_rewards(column, steps),
        "duplicate_rate": steps.mean(is_duplicate.to_numpy(np.float64)),
        "loop_rate": steps.mean(np.sign(column["loop_share"])),
        **_critic(column, steps),
        **_groups(column),
        **_passes(responses, steps),
        **_advantage_fit(column, steps),
        **_dropped(column, steps),
        **_turns(column, steps),
        **_distinct_2(bigrams, step_numbers),
        "incomplete": incomplete(steps.counts),
        "nan_values": nan_values.astype(np.int64),
    }
    for name in (*_LEFT_OUT, *_VALIDATION):  # ``step_tables`` sets these columns
        figures[name] = np.zeros(len(steps))
    columns = {c.name: figures[c.name].astype(c.dtype) for c in STEP_COLUMNS}
    return rounded_columns(pd.DataFrame(columns))


def rounded_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with all float64 columns rounded to 10 significant digits."""
    floats = table.select_dtypes("float64")
    return table.assign(**{str(name): significant(floats[name]) for name in floats})


def step_tables(
    training: pd.DataFrame,
    validation: pd.DataFrame,
    bigrams: pd.DataFrame,
    failed: Mapping[int, int],  # step -> number of failed rollouts
    filtered: Mapping[int, int],  # step -> number of rollouts that were filtered out
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the step tables of training and validation (may be empty) over the steps of both.

    ``training`` and ``validation`` are rows of the response table.
    """
    steps = step_table(training, bigrams)
    # A step of which all rollouts failed has no responses, but a row.
    with_failed = [step for step, count in failed.items() if count > 0]
    failed_steps = np.array(with_failed, np.int64)
    if len(np.setdiff1d(failed_steps, steps["step"])):
        steps = _reindex(steps, np.union1d(steps["step"], failed_steps))
    steps["failed_rollouts"] = _counts_by_step(steps, failed)
    steps["filtered_rollouts"] = _counts_by_step(steps, filtered)
    steps[list(_VALIDATION)] = np.nan
    if validation.empty:
        return steps, pd.DataFrame()
    val_steps = step_table(validation, pd.DataFrame(_NO_BIGRAMS))
    all_steps = np.union1d(steps["step"], val_steps["step"])
    steps = _reindex(steps, all_steps)
    val_steps = _reindex(val_steps, all_steps)
    for name, column in _VALIDATION.items():
        steps[name] = val_steps[column]
    return steps, val_steps


def _counts_by_step(steps: pd.DataFrame, counts: Mapping[int, int]) -> pd.Series:
    return steps["step"].map(counts).fillna(0).astype(np.int64)


def trainer_steps(
    metrics: pd.DataFrame, metric_roles: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return the table of steps of a run without rollouts: only columns in ROLE_COLUMNS are set.

    Its first step is the first that has a metric with a role: what is logged before, such as how
    long parts of the first step took, is of no step of the training. ``metric_roles`` are those of
    the tables.
    """
    # Column 0 is ``step``.
    roles = roles_of(map(str, metrics.columns[1:]), metric_roles)
    with_role = metrics[list(roles.values())].notna()
    has_role = with_role.any(axis=1).to_numpy()
    if has_role.any():
        metrics = metrics.iloc[int(np.argmax(has_role)) :]
    # A table without rows has the right columns; then each step of the metrics gets a row.
    columns = {c.name: np.empty(0, c.dtype) for c in RESPONSE_COLUMNS}
    nothing = step_table(pd.DataFrame(columns), pd.DataFrame(_NO_BIGRAMS))
    steps = _reindex(nothing, metrics["step"].to_numpy())
    for role, column in ROLE_COLUMNS.items():
        if role in roles:
            steps[column] = metrics[roles[role]].to_numpy(np.float64)
    return steps


def _reindex(table: pd.DataFrame, steps: NDArray[np.int64]) -> pd.DataFrame:
    """Return the table with a row for each of ``steps``: counts of 0 and NaN where it has none."""
    wide = table.set_index("step").reindex(steps).rename_axis("step").reset_index()
    counts = {c.name: 0 for c in STEP_COLUMNS if c.dtype in ("int64", "bool")}
    kinds = {c.name: c.dtype for c in STEP_COLUMNS}
    # Columns of bool and NaN are filled as objects: pandas would not put 0 into a bool.
    return wide.astype(dict.fromkeys(counts, object)).fillna(counts).astype(kinds)


def window_size(
    steps: int, share: float = WINDOW_SHARE, least: int = LEAST_WINDOW
) -> int:
    """Return the number of steps in a run's first and last window; in short runs they overlap."""
    return min(steps, max(least, int(steps * share)))


def most_common(numbers: NDArray[np.generic], share: float = 0.5) -> int | None:
    """Return the most common number as an integer, of equally common ones the smallest.

    None if fewer than a ``share`` of the numbers equal it.
    """
    if not len(numbers):
        return None
    values, counts = np.unique(numbers, return_counts=True)
    mode = int(np.argmax(counts))
    if counts[mode] < share * len(numbers):
        return None
    return int(values[mode])


def incomplete(counts: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return which ``counts`` are below the one that at least half of them have, bool (S,)."""
    return counts.astype(np.int64) < (most_common(counts) or 0)


def _of_responses(column: dict[str, Floats], steps: Grouped) -> dict[str, Floats]:
    """Return the columns of STEP_COLUMNS that are a statistic of a response column.

    They are named after both, such as ``reward_mean``. ``column``: column of the response table ->
    values, (R,); ``steps`` groups the rows by step.
    """
    statistics: dict[str, Callable[[Floats], Floats]] = {
        "mean": steps.mean,
        "std": steps.std,
        "min": steps.min,
        "max": steps.max,
        "p50": partial(steps.quantile, part=0.5),
        "p95": partial(steps.quantile, part=0.95),
    }
    figures: dict[str, Floats] = {}
    for step_column in STEP_COLUMNS:
        response_column, _, statistic = step_column.name.rpartition("_")
        if response_column in column and statistic in statistics:
            values = column[response_column].astype(np.float64)
            figures[step_column.name] = statistics[statistic](values)
    return figures


def _weighted_means(column: dict[str, Floats], steps: Grouped) -> dict[str, Floats]:
    """Return columns with the means over the tokens of a step, not over its responses."""
    return {
        name: steps.mean(column[name], column[tokens])
        for name, tokens in _WEIGHTED.items()
    }


def _passes(responses: pd.DataFrame, steps: Grouped) -> dict[str, Floats]:
    passes = passes_of(responses)
    return {
        "pass_at_1": steps.mean(passes.at_1),
        "pass_at_k": steps.mean(passes.at_k),
    }


def _advantage_fit(column: dict[str, Floats], steps: Grouped) -> dict[str, Floats]:
    _, fit = advantage_fit(column, steps)
    return {"advantage_fit": fit}


def _dropped(column: dict[str, Floats], steps: Grouped) -> dict[str, Floats]:
    """Return the share of responses that the trainer dropped, and rewards without and with them.

    ``column``: column of the response table -> values, (R,); ``steps`` groups the rows by step.
    """
    dropped = column["dropped"]  # 1 or 0, NaN if it is not logged
    # A response that the trainer masked has NaN as its reward, and the number in the other column.
    reward = np.fmax(column["reward"], column["masked_reward"])
    is_known = np.isfinite(dropped).astype(np.float64)
    return {
        "dropped_share": steps.mean(dropped),
        "kept_reward_mean": steps.mean(reward, weights=1.0 - dropped),
        "all_reward_mean": steps.mean(reward, weights=is_known),
    }


def _rewards(column: dict[str, Floats], steps: Grouped) -> dict[str, Floats]:
    """Return the shares of responses with a higher and with a lower reward than the reference.

    ``column``: column of the response table -> values, (R,); ``steps`` groups the rows by step.
    """
    reward = column["reward"]
    reference = column["ref_reward"]
    comparable = ~(np.isnan(reward) | np.isnan(reference))
    return {
        "win_rate": steps.share(reward > reference, comparable),
        "lose_rate": steps.share(reward < reference, comparable),
    }


def _critic(column: dict[str, Floats], steps: Grouped) -> dict[str, Floats]:
    """Return columns of the critic's values over the tokens of a step.

    ``column``: column of the response table -> values, (R,), which are means and sums of squared
    deviations (M2) over the tokens of a response; ``steps`` groups the rows by step.
    """
    # Number of a response's tokens with a value and a return
    tokens = column["value_tokens"]

    def variance(name: str) -> Floats:
        """Return a figure's variance over the tokens of a step, from that of each response."""
        means = column[f"{name}_mean"]
        return steps.pooled_variance(tokens, means, column[f"{name}_m2"])

    # Without returns, all tokens of a response have a value. The mean of a step is over tokens.
    weights = np.where(np.isnan(tokens), column["response_tokens"], tokens)
    unexplained = ratio(variance("value_error"), variance("return"))
    return {
        "value_mean": steps.mean(column["value_mean"], weights),
        "value_std": np.sqrt(variance("value")),
        "explained_variance": difference(1.0, unexplained),
    }


def _groups(column: dict[str, Floats]) -> dict[str, NDArray[np.generic]]:
    """Return columns, with a value per step, about the groups that have two rewards or more.

    ``column``: column of the response table -> values, (R,).
    """
    # Responses of a group become adjacent; steps stay in ascending order.
    order = np.lexsort((column["group"], column["step"]))
    step = column["step"][order]
    reward = column["reward"][order]
    groups = Grouped.by(step, column["group"][order])
    is_group = groups.finite(reward) >= 2
    spread = np.where(is_group, groups.std(reward), np.nan)
    highest = groups.max(reward)
    best = np.where(is_group, highest, np.nan)
    # Which groups of equal rewards earn the best reward of all responses, and which the lowest
    known = reward[np.isfinite(reward)]
    is_equal = is_group & (spread < NO_VARIANCE)
    is_comparable = is_equal & (np.ptp(known) > 0 if len(known) else False)
    is_right = is_comparable & (highest >= known.max(initial=-np.inf))
    is_wrong = is_comparable & (highest <= known.min(initial=np.inf))
    dropped = groups.mean(column["dropped"][order])  # 1 if all of its responses are
    is_dropped = is_group & ~is_equal & (dropped == 1)
    by_step = Grouped.by(groups.first(step))  # groups the groups by step
    return {
        "groups": by_step.sum(is_group.astype(np.float64)).astype(np.int64),
        "zero_variance_groups": by_step.share(is_equal, is_group),
        "wrong_groups": by_step.share(is_wrong, is_group),
        "equal_groups": by_step.share(is_equal & ~is_right & ~is_wrong, is_group),
        "right_groups": by_step.share(is_right, is_group),
        "dropped_groups": by_step.share(is_dropped, is_group),
        "group_std_mean": by_step.mean(spread),
        "group_best_mean": by_step.mean(best),
    }


class Passes(NamedTuple):
    """pass@1 and pass@k of groups of responses, see ``passes_of``."""

    k: int  # usual number of graded responses in a group; 1 if there is none
    at_1: Floats  # (R,), pass@1 of a group at its first response, NaN at the others
    at_k: Floats  # (R,), pass@k in the same way


def passes_of(responses: pd.DataFrame) -> Passes:
    """Return pass@1 and pass@k of each group of responses, where k is the usual size of a group.

    If c of the n responses of a group are right, pass@k = 1 − C(n − c, k) / C(n, k), which is
    unbiased (Chen et al. 2021, "Evaluating Large Language Models Trained on Code"). Groups with
    n < k are left out of both, all groups if k is 1. Responses without a grade do not count.
    """
    correct = responses["correct"].to_numpy()  # 1 or 0, NaN without a grade
    group = responses.groupby(["step", "group"]).ngroup().to_numpy()
    _, first = np.unique(group, return_index=True)  # first row of each group
    graded = np.bincount(group, np.isfinite(correct), len(first))
    n = graded.astype(np.float64)
    k = most_common(n[n > 0]) or 1
    # NaN leaves a group out: all figures of it become NaN.
    if k == 1:
        n[:] = np.nan
    n[n < k] = np.nan
    wrong = n - np.bincount(group, correct == 1, len(first))
    # Draw k responses one after another, without replacement: the i-th is wrong with this chance,
    # if those before it are.
    drawn = np.arange(k)
    chances = np.maximum(wrong[:, None] - drawn, 0) / (n[:, None] - drawn)
    at_1 = np.full(len(correct), np.nan)
    at_k = at_1.copy()
    at_1[first] = 1 - wrong / n
    at_k[first] = 1 - chances.prod(axis=1)
    return Passes(k, at_1, at_k)


# Advantages of more than this many times the median are left out of correlations
FAR = 50.0


def advantage_fit(
    column: Mapping[str, Floats], steps: Grouped
) -> tuple[Floats, Floats]:
    """Return advantages recomputed from rewards (R,), and their correlation with logged ones (S,).

    The formula is the one with the highest correlation: reward minus the mean of its group, the
    same divided by the std of its group plus 1e-4 (TRL), or reward minus the mean of its step.
    ``column``: column of the response table -> values, (R,); ``steps`` groups the rows by step.
    Correlations within a step do not depend on a trainer's scale or offset. Leave-one-out, and the
    population std, differ from these by a factor that depends only on the size of the group.
    """
    reward = column["reward"]
    logged = column["advantage_logged_mean"]
    if np.isnan(logged).all():  # not logged: NaN for all responses and steps
        return logged, np.full(len(steps), np.nan)
    groups = pd.Series(reward).groupby(column["group"])
    group_mean = groups.transform("mean").to_numpy(np.float64)
    std = groups.transform("std").to_numpy(np.float64)
    # In a group of equal rewards only rounding makes them differ from their mean.
    centred = np.where(std < NO_VARIANCE, 0.0, difference(reward, group_mean))
    step_mean = steps.mean(reward)[steps.codes]
    formulas = [
        centred,
        significant(centred / (std + 1e-4)),
        difference(reward, step_mean),
    ]
    is_far = np.abs(logged) > FAR * typical(logged)
    logged = np.where(is_far, np.nan, logged)
    fits = [steps.correlation(logged, formula) for formula in formulas]
    # Over all steps; in absolute terms, as a trainer may log the negative.
    totals = [np.nansum(np.abs(fit)) for fit in fits]
    # Of formulas that fit equally well, the first.
    best = int(np.argmax(significant(totals)))
    return formulas[best], fits[best]


def typical(values: Floats) -> float:
    """Return the median absolute value, ignoring values as small as rounding errors, or NaN."""
    sizes = np.abs(values[np.isfinite(values)])
    if not len(sizes):
        return np.nan
    # Not relative to the largest, which may be an outlier.
    least = NO_VARIANCE * np.quantile(sizes, 0.9)
    sizes = sizes[sizes > least]
    return float(np.median(sizes)) if len(sizes) else np.nan


def sequence_weights(log_weight: Floats) -> Floats:
    """Return importance weights exp(``log_weight``), the exponent clipped to ±20 as in verl."""
    return np.exp(np.clip(log_weight, -20.0, 20.0))


def _turns(column: dict[str, Floats], steps: Grouped) -> dict[str, Floats]:
    """Return columns over the turns and the tool calls of a step, not over its responses.

    ``column``: column of the response table -> values, (R,); ``steps`` groups the rows by step.
    """
    turns = column["turns"]
    # Only of responses whose turns are known
    tokens = np.where(np.isnan(turns), np.nan, column["response_tokens"])

    def share(part: Floats, whole: Floats) -> Floats:
        """Return the ratio of the sums per step, over responses in which ``part`` is known."""
        whole = np.where(np.isnan(part), np.nan, whole)
        return ratio(steps.sum(part), steps.sum(whole))

    return {
        "tool_error_share": share(column["tool_errors"], column["tool_calls"]),
        "unparsed_call_share": share(column["unparsed_calls"], column["tool_calls"]),
        "late_call_share": share(column["late_calls"], column["tool_calls"]),
        "markup_turns_share": share(column["markup_turns"], column["turns"]),
        "empty_result_share": share(column["empty_results"], column["tool_calls"]),
        "turn_tokens_mean": share(tokens, turns),
    }


def _distinct_2(bigrams: pd.DataFrame, steps: NDArray[np.generic]) -> dict[str, Floats]:
    """Return the number of bigrams at each of ``steps``, and the share that is distinct."""
    by_step = bigrams.set_index("step").astype(np.float64).reindex(steps)
    total = by_step["bigrams"].to_numpy()
    distinct = by_step["distinct"].to_numpy()
    return {"distinct_2": ratio(distinct, total), "bigrams": total}
