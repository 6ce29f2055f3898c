"""Build the tables of steps and environments from responses or the trainer's metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.columns import RESPONSE_COLUMNS, STEP_COLUMNS
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import beyond_rounding, difference, significant
from rlreport.metrics.roles import roles_of
from rlreport.tables import Tables, length_column
from rlreport.text.messages import message

Kind = TypeVar("Kind", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Grouped:
    """A division of R rows into G groups of consecutive rows."""

    starts: Ints  # int64 (G,), the first row of each group
    size: int  # number of rows R

    @classmethod
    def by(cls, *keys: NDArray[np.generic]) -> Grouped:
        """Group adjacent rows that have equal values in every key; each key has shape (R,)."""
        new = np.zeros(len(keys[0]), bool)
        new[:1] = True
        for key in keys:
            new[1:] |= key[1:] != key[:-1]
        return cls(np.flatnonzero(new), len(new))

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def counts(self) -> Ints:
        return np.diff(self.starts, append=self.size)

    @property
    def codes(self) -> Ints:
        """Index of each row's group, int64 (R,)."""
        return np.repeat(np.arange(len(self.starts)), self.counts)

    def first(self, values: NDArray[Kind]) -> NDArray[Kind]:
        return np.asarray(values[self.starts])

    def last(self, values: NDArray[Kind]) -> NDArray[Kind]:
        return np.asarray(values[self.starts + self.counts - 1])

    def sum(self, values: Floats) -> Floats:
        """Return the sum per group, with NaN as 0; infinite if it overflows."""
        return np.add.reduceat(np.where(np.isnan(values), 0.0, values), self.starts)

    def finite(self, values: Floats) -> Ints:
        """Return the number of values that are not NaN, per group."""
        return np.add.reduceat((~np.isnan(values)).astype(np.int64), self.starts)

    def mean(self, values: Floats, weights: Floats | None = None) -> Floats:
        """Return the mean per group of the values that are not NaN; NaN if there is none.

        With ``weights`` (R,), it is the weighted mean over rows with a value and a weight > 0.
        """
        if weights is None:
            return ratio(self._total(values), self.finite(values))
        weights = np.where(np.isnan(values), 0.0, weights)
        return ratio(self._total(np.where(weights > 0, values, 0.0) * weights), self.sum(weights))

    def _total(self, values: Floats) -> Floats:
        """Return the sum per group; 0 where values cancel but for rounding errors."""
        return beyond_rounding(self.sum(values), self.sum(np.abs(values)))

    def std(self, values: Floats) -> Floats:
        """Return the population standard deviation per group (two-pass); NaN values are skipped.

        It is 0 where only rounding makes the values of a group differ from their mean.
        """
        mean = self.mean(values)
        deviation = values - mean[self.codes]
        return beyond_rounding(np.sqrt(self.mean(deviation * deviation)), mean)

    def pooled_variance(self, counts: Floats, means: Floats, m2: Floats) -> Floats:
        """Return the population variance per group of samples pooled over its rows.

        Each row has the count, mean and M2 (sum of squared deviations) of its sample. See
        Chan, Golub & LeVeque (1983), "Algorithms for computing the sample variance".
        """
        weights = np.nan_to_num(counts, nan=0.0)
        mean = self.mean(means, weights)
        deviation = np.where(weights > 0, means, 0.0) - mean[self.codes]
        between = np.where(weights > 0, deviation * deviation * weights, 0.0)
        within = np.where(weights > 0, m2, 0.0)
        variance = ratio(self.sum(between + within), self.sum(weights))
        return np.where(beyond_rounding(np.sqrt(variance), mean) == 0, 0.0, variance)

    def min(self, values: Floats) -> Floats:
        return np.asarray(pd.Series(values).groupby(self.codes).min(), np.float64)

    def max(self, values: Floats) -> Floats:
        return np.asarray(pd.Series(values).groupby(self.codes).max(), np.float64)

    def quantile(self, values: Floats, part: float) -> Floats:
        """Return quantile ``part`` (0 to 1) per group, interpolated linearly; skip NaN values."""
        return np.asarray(pd.Series(values).groupby(self.codes).quantile(part), np.float64)

    def share(self, mask: NDArray[np.bool_], among: NDArray[np.bool_]) -> Floats:
        """Return per group the share of rows ``among`` that have ``mask``; NaN without rows."""
        return self.mean(np.where(among, mask.astype(np.float64), np.nan))

    def correlation(self, x: Floats, y: Floats) -> Floats:
        """Return Pearson's r per group over rows where x and y are finite; NaN if undefined."""
        finite = np.isfinite(x) & np.isfinite(y)
        x, y = np.where(finite, x, np.nan), np.where(finite, y, np.nan)
        dx = x - self.mean(x)[self.codes]
        dy = y - self.mean(y)[self.codes]
        scale = np.sqrt(self.sum(dx * dx) * self.sum(dy * dy))
        return ratio(self.sum(dx * dy), np.where(scale > 1e-12, scale, 0.0))


def ratio(top: Floats, bottom: NDArray[np.generic]) -> Floats:
    """Return ``top / bottom`` with NaN where ``bottom`` is 0."""
    bottom = np.asarray(bottom, np.float64)
    nothing = np.full(len(top), np.nan)
    return np.asarray(np.divide(top, bottom, out=nothing, where=bottom != 0))


# A group with a lower std of rewards has no learning signal (TRL: ``frac_reward_zero_std``)
NO_VARIANCE = 1e-6

WINDOW_SHARE = 0.2
# The first and last window of a run have this share of its steps, and at least this many
LEAST_WINDOW = 3

# Columns averaged with weights: mean of a response -> column with its number of tokens
_WEIGHTED = {
    "surprisal_mean": "logp_tokens",
    "return_mean": "value_tokens",
    **dict.fromkeys(("ratio_mean", "ratio_outside"), "ratio_tokens"),
    **dict.fromkeys(("mismatch_ratio", "mismatch_k3", "mismatch_prob"), "mismatch_tokens"),
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


@np.errstate(invalid="ignore")  # a caller's table may contain infinite values, logs do not
def step_table(responses: pd.DataFrame, bigrams: pd.DataFrame) -> pd.DataFrame:
    """Return the step table (STEP_COLUMNS) of responses, which are sorted by step."""
    column = {str(name): values.to_numpy() for name, values in responses.items()}
    steps = Grouped.by(column["step"])
    passes = passes_of(responses)
    every = np.fmax(column["reward"], column["masked_reward"])
    figures: dict[str, NDArray[np.generic]] = {
        "step": steps.first(column["step"]),
        "responses": steps.counts,
        "prompts": responses.groupby("step")["prompt_id"].nunique().to_numpy(),
        **_of_responses(column, steps),
        **{name: steps.mean(column[name], column[of]) for name, of in _WEIGHTED.items()},
        "log_ratio_mean": steps.mean(column["log_ratio_mean"]),
        "eos_rate": steps.mean(column["finished"]),
        "unclosed_thinking": steps.mean(column["unclosed_thinking"]),
        "at_turn_limit": steps.mean(column["at_turn_limit"]),
        **_rewards(column, steps),
        "duplicate_rate": steps.mean(
            responses.duplicated(["step", "response_hash"], keep=False).to_numpy(np.float64)
        ),
        "loop_rate": steps.mean(np.sign(column["loop_share"])),
        **_critic(column, steps),
        **_groups(column, steps),
        "pass_at_1": steps.mean(passes.at_1),
        "pass_at_k": steps.mean(passes.at_k),
        "advantage_fit": advantage_fit(column, steps)[1],
        "dropped_share": steps.mean(column["dropped"]),
        "kept_reward_mean": steps.mean(every, 1.0 - column["dropped"]),
        "all_reward_mean": steps.mean(every, np.isfinite(column["dropped"]).astype(np.float64)),
        **_turns(column, steps),
        **_distinct_2(bigrams, steps.first(column["step"])),
        # ``step_tables`` sets these columns.
        **{name: np.zeros(len(steps)) for name in (*_LEFT_OUT, *_VALIDATION)},
        "incomplete": incomplete(steps.counts),
        "nan_values": steps.sum(column["nan_values"].astype(np.float64)).astype(np.int64),
    }
    return rounded_columns(
        pd.DataFrame({c.name: figures[c.name].astype(c.dtype) for c in STEP_COLUMNS})
    )


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
    """Return the step tables of training and validation (may be empty) over the steps of both."""
    steps = step_table(training, bigrams)
    failed_steps = np.array([step for step, count in failed.items() if count > 0], np.int64)
    if len(np.setdiff1d(failed_steps, steps["step"])):
        steps = _reindex(steps, np.union1d(steps["step"], failed_steps))
    for name, counts in (("failed_rollouts", failed), ("filtered_rollouts", filtered)):
        steps[name] = steps["step"].map(counts).fillna(0).astype(np.int64)
    steps[list(_VALIDATION)] = np.nan
    if validation.empty:
        return steps, pd.DataFrame()
    val_steps = step_table(validation, pd.DataFrame(_NO_BIGRAMS))
    all_steps = np.union1d(steps["step"], val_steps["step"])
    steps, val_steps = _reindex(steps, all_steps), _reindex(val_steps, all_steps)
    for name, column in _VALIDATION.items():
        steps[name] = val_steps[column]
    return steps, val_steps


def trainer_steps(metrics: pd.DataFrame) -> pd.DataFrame:
    """Return the table of steps of a run without rollouts: only columns in ROLE_COLUMNS are set."""
    responses = pd.DataFrame({c.name: np.empty(0, c.dtype) for c in RESPONSE_COLUMNS})
    steps = _reindex(step_table(responses, pd.DataFrame(_NO_BIGRAMS)), metrics["step"].to_numpy())
    roles = roles_of(map(str, metrics.columns[1:]))
    for role, column in ROLE_COLUMNS.items():
        if role in roles:
            steps[column] = metrics[roles[role]].to_numpy(np.float64)
    return steps


def _reindex(table: pd.DataFrame, steps: NDArray[np.int64]) -> pd.DataFrame:
    wide = table.set_index("step").reindex(steps).rename_axis("step").reset_index()
    counts = {c.name: 0 for c in STEP_COLUMNS if c.dtype in ("int64", "bool")}
    kinds = {c.name: c.dtype for c in STEP_COLUMNS}
    return wide.astype(dict.fromkeys(counts, object)).fillna(counts).astype(kinds)


def window_size(steps: int, share: float = WINDOW_SHARE, least: int = LEAST_WINDOW) -> int:
    """Return the number of steps in a run's first and last window; in short runs they overlap."""
    return min(steps, max(least, int(steps * share)))


def most_common(numbers: NDArray[np.generic], share: float = 0.5) -> int | None:
    """Return the most common number; None if fewer than a ``share`` of the numbers equal it."""
    if not len(numbers):
        return None
    values, counts = np.unique(numbers, return_counts=True)
    mode = int(np.argmax(counts))
    return int(values[mode]) if counts[mode] >= share * len(numbers) else None


def incomplete(counts: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return which ``counts`` are below the one that at least half of them have, bool (S,)."""
    return counts.astype(np.int64) < (most_common(counts) or 0)


def _of_responses(column: dict[str, Floats], steps: Grouped) -> dict[str, Floats]:
    """Return columns named after a response column and a statistic, such as ``reward_mean``."""
    statistics = {"mean": steps.mean, "std": steps.std, "min": steps.min, "max": steps.max}
    statistics |= {f"p{p}": partial(steps.quantile, part=p / 100) for p in (50, 95)}
    parts = {c.name: c.name.rpartition("_") for c in STEP_COLUMNS}
    return {
        name: statistics[statistic](column[of].astype(np.float64))
        for name, (of, _, statistic) in parts.items()
        if of in column and statistic in statistics
    }


def _rewards(column: dict[str, Floats], steps: Grouped) -> dict[str, Floats]:
    reward = column["reward"]
    reference = column["ref_reward"]
    comparable = ~(np.isnan(reward) | np.isnan(reference))
    return {
        "win_rate": steps.share(reward > reference, comparable),
        "lose_rate": steps.share(reward < reference, comparable),
    }


def _critic(column: dict[str, Floats], steps: Grouped) -> dict[str, Floats]:
    tokens = column["value_tokens"]

    def variance(name: str) -> Floats:
        return steps.pooled_variance(tokens, column[f"{name}_mean"], column[f"{name}_m2"])

    return {
        "value_mean": steps.mean(
            column["value_mean"], np.where(np.isnan(tokens), column["response_tokens"], tokens)
        ),
        "value_std": np.sqrt(variance("value")),
        "explained_variance": difference(1.0, ratio(variance("value_error"), variance("return"))),
    }


def _groups(column: dict[str, Floats], steps: Grouped) -> dict[str, NDArray[np.generic]]:
    order = np.lexsort((column["group"], column["step"]))
    step = column["step"][order]
    reward = column["reward"][order]
    groups = Grouped.by(step, column["group"][order])
    is_group = groups.finite(reward) >= 2
    spread = np.where(is_group, groups.std(reward), np.nan)
    best = np.where(is_group, groups.max(reward), np.nan)
    by_step = Grouped.by(groups.first(step))
    return {
        "groups": by_step.sum(is_group.astype(np.float64)).astype(np.int64),
        "zero_variance_groups": by_step.share(spread < NO_VARIANCE, is_group),
        "group_std_mean": by_step.mean(spread),
        "group_best_mean": by_step.mean(best),
    }


class Passes(NamedTuple):
    k: int  # usual number of graded responses in a group; 1 if there is none
    at_1: Floats  # (R,), pass@1 of a group at its first response, NaN at the others
    at_k: Floats  # (R,), pass@k in the same way


def passes_of(responses: pd.DataFrame) -> Passes:
    """Return pass@1 and pass@k of each group of responses, where k is the usual size of a group.

    If c of the n responses of a group are right, pass@k = 1 − C(n − c, k) / C(n, k), which is
    unbiased (Chen et al. 2021, "Evaluating Large Language Models Trained on Code"). Groups with
    n < k are left out of both, all groups if k is 1. Responses without a grade do not count.
    """
    correct = responses["correct"].to_numpy()
    group = responses.groupby(["step", "group"]).ngroup().to_numpy()
    _, first = np.unique(group, return_index=True)
    n = np.bincount(group, np.isfinite(correct), len(first)).astype(np.float64)
    k = most_common(n[n > 0]) or 1
    n[(n < k) | (k == 1)] = np.nan
    wrong = n - np.bincount(group, correct == 1, len(first))
    # Draw k responses one after another, without replacement: all are wrong with this chance.
    chances = np.maximum(wrong[:, None] - np.arange(k), 0) / (n[:, None] - np.arange(k))
    at_1, at_k = np.full((2, len(correct)), np.nan)
    at_1[first] = 1 - wrong / n
    at_k[first] = 1 - chances.prod(axis=1)
    return Passes(k, at_1, at_k)


# Advantages of more than this many times the median are left out of correlations
FAR = 50.0


def advantage_fit(column: Mapping[str, Floats], steps: Grouped) -> tuple[Floats, Floats]:
    """Return advantages recomputed from rewards (R,), and their correlation with logged ones (S,).

    The formula is the one with the highest correlation: reward minus the mean of its group, the
    same divided by the std of its group plus 1e-4 (TRL), or reward minus the mean of its step.
    Correlations within a step do not depend on a trainer's scale or offset. Leave-one-out, and the
    population std, differ from these by a factor that depends only on the size of the group.
    """
    reward = column["reward"]
    logged = column["advantage_logged_mean"]
    if np.isnan(logged).all():
        return logged, np.full(len(steps), np.nan)
    groups = pd.Series(reward).groupby(column["group"])
    of_group, std = (groups.transform(name).to_numpy(np.float64) for name in ("mean", "std"))
    centred = np.where(std < NO_VARIANCE, 0.0, difference(reward, of_group))
    of_step = steps.mean(reward)[steps.codes]
    formulas = [centred, significant(centred / (std + 1e-4)), difference(reward, of_step)]
    logged = np.where(np.abs(logged) > FAR * typical(logged), np.nan, logged)
    fits = [steps.correlation(logged, formula) for formula in formulas]
    # Of formulas that fit equally well, the first.
    best = int(np.argmax(significant([np.nansum(np.abs(fit)) for fit in fits])))
    return formulas[best], fits[best]


def typical(values: Floats) -> float:
    """Return the median absolute value, ignoring values as small as rounding errors, or NaN."""
    sizes = np.abs(values[np.isfinite(values)])
    least = NO_VARIANCE * np.quantile(sizes, 0.9) if len(sizes) else 0.0
    return float(np.median(sizes[sizes > least])) if (sizes > least).any() else np.nan


def sequence_weights(log_weight: Floats) -> Floats:
    """Return importance weights exp(``log_weight``), the exponent clipped to ±20 as in verl."""
    return np.exp(np.clip(log_weight, -20.0, 20.0))


def _turns(column: dict[str, Floats], steps: Grouped) -> dict[str, Floats]:
    turns = column["turns"]
    tokens = np.where(np.isnan(turns), np.nan, column["response_tokens"])

    def share(part: Floats, whole: Floats) -> Floats:
        return ratio(steps.sum(part), steps.sum(np.where(np.isnan(part), np.nan, whole)))

    return {
        "tool_error_share": share(column["tool_errors"], column["tool_calls"]),
        "unparsed_call_share": share(column["unparsed_calls"], column["tool_calls"]),
        "late_call_share": share(column["late_calls"], column["tool_calls"]),
        "markup_turns_share": share(column["markup_turns"], column["turns"]),
        "empty_result_share": share(column["empty_results"], column["tool_calls"]),
        "turn_tokens_mean": share(tokens, turns),
    }


def _distinct_2(bigrams: pd.DataFrame, steps: NDArray[np.generic]) -> dict[str, Floats]:
    indices = pd.Index(bigrams["step"]).get_indexer(pd.Index(steps))  # −1: the NaN appended
    total, distinct = (
        np.append(bigrams[name].to_numpy(np.float64), np.nan)[indices]
        for name in ("bigrams", "distinct")
    )
    return {"distinct_2": ratio(distinct, total), "bigrams": total}


# Names of logged fields that contain the environment, most preferred first; case is ignored
ENVIRONMENT_FIELDS = (
    "data_source",
    "env",
    "env_name",
    "environment",
    "env_id",
    "task",
    "task_name",
    "dataset",
    "agent",
)
MAX_VALUES = 50  # a field with more different values names prompts, not environments
MIN_SHARE = 0.9  # fraction of the responses that must have the field
MAX_ENVIRONMENTS = 12  # the largest are kept apart, the others are pooled as one


@dataclass(frozen=True, slots=True)
class Environments:
    """The MAX_ENVIRONMENTS environments with the most responses; the others are pooled as one."""

    column: str  # name of the logged field
    names: list[str]  # as logged, the one with the most responses first, without the pooled ones
    # int64 (rows,), index of each response's environment in ``names``; ``len(names)`` for a pooled
    # environment, −1 for a response without one
    index: Ints

    @property
    def labels(self) -> list[str]:
        """The names, then a label for the pooled environments that differs from all names."""
        pooled = message("others")
        return [*self.names, pooled if pooled not in self.names else message("all others")]


def environments_of(tables: Tables) -> Environments | None:
    """Return the environments by a field in ENVIRONMENT_FIELDS; None without a suitable field."""
    fields = {str(name).lower(): str(name) for name in reversed(tables.extras.columns)}
    for column in (fields[name] for name in ENVIRONMENT_FIELDS if name in fields):
        values = tables.extras[column]
        if pd.api.types.is_numeric_dtype(values):
            # Numbers of environments are integers; an ``env_id`` counts the copies of one.
            if column.lower() == "env_id" or (values % 1).any():
                continue
            values = values.map("{:.0f}".format, na_action="ignore")
        else:
            values = values.where(values.astype(str).str.strip() != "")
        counts = values.value_counts()
        if 2 <= len(counts) <= MAX_VALUES and counts.sum() >= MIN_SHARE * len(values):
            order = sorted(counts.index, key=lambda name: (-counts[name], name))
            index = np.minimum(pd.Index(order).get_indexer(values), MAX_ENVIRONMENTS)
            return Environments(column, order[:MAX_ENVIRONMENTS], index.astype(np.int64))
    return None


def environment_steps(tables: Tables, environments: Environments) -> pd.DataFrame:
    """Return one row per environment and step that has responses.

    Columns: ``environment`` (index in ``names``), ``step``, ``responses`` (their number), and the
    means ``reward``, ``length`` (tokens or, if none are logged, characters) and ``finished``.
    """
    length = length_column(tables.responses)
    columns = tables.responses[["step", "reward", length, "finished"]]
    columns = columns.rename(columns={length: "length"}).assign(environment=environments.index)
    grouped = columns[columns["environment"] >= 0].groupby(["environment", "step"])
    means = rounded_columns(grouped.mean())
    means.insert(0, "responses", grouped.size())
    return means.reset_index()
