"""Figures that should not get worse while the reward rises, and their differences.

One step may have a gradient norm of 1e16, and a mean over steps would be that step. So gradient
norms that span more than a decade are compared by their geometric means, as the courses of single
runs are read: as logarithms, a 0 as a tenth of the smallest other value. Let δ be the difference of
the mean logarithms, with its interval, and g the geometric mean of BASE: then g (exp(δ) − 1) is
that of the geometric means, and its interval is that of δ in the same unit, for this g. Readers are
shown the ratio, exp(δ), with its interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from rlreport.check.prepared import spans_decades
from rlreport.check.run import has
from rlreport.comparison.data_file import PART, TRAINER
from rlreport.comparison.means import Means, effect_on
from rlreport.comparison.statistics import LEVEL, Effect
from rlreport.figures.rounding import change, rounded, significant
from rlreport.figures.significance import holm
from rlreport.text.messages import translatable

# Columns that are 1 if the rewards of all responses to the prompt are equal: to the best reward of
# all runs (ALL_RIGHT), or lower (ALL_WRONG); otherwise 0
ALL_RIGHT = "all_right"
ALL_WRONG = "all_wrong"

TOKENS = "response_tokens"
CHARACTERS = "response_chars"
# Prefix of the columns of logarithms, before the name of the column
_LOG = "log:"
# Figures of which one step may be as large as all others together, and means no more. A mean KL is
# what the policy has spent, whatever steps it comes from.
_HEAVY_TAILED = (f"{TRAINER}grad_norm",)
_MOST_LOG = 700.0  # exp of more is no finite number
# Columns that mean nothing if the logger cuts texts
OF_WHOLE_TEXTS = (CHARACTERS, "distinct_2", "duplicate")


class GuardedFigure(NamedTuple):
    """A figure that should not get worse."""

    id: str
    name: str
    columns: tuple[str, ...]  # the first one that all runs have is compared
    better: int  # which direction is better: 1 up, -1 down, 0 neither


_OF_POLICY = (
    GuardedFigure(
        "validation", translatable("Validation"), (f"{TRAINER}validation",), 1
    ),
    GuardedFigure("second_reward", translatable("Second reward"), ("valid_reward",), 1),
    GuardedFigure("kl", translatable("KL"), ("kl_k1", f"{TRAINER}kl"), -1),
    GuardedFigure(
        "kl_token", translatable("KL per token"), (f"{TRAINER}kl_token",), -1
    ),
    GuardedFigure(
        "length",
        translatable("Length"),
        (TOKENS, f"{TRAINER}length", CHARACTERS),
        -1,
    ),
    GuardedFigure(
        "cut_off",
        translatable("Cut off at the limit"),
        ("cut_off", f"{TRAINER}truncated"),
        -1,
    ),
    GuardedFigure("surprisal", translatable("Entropy"), ("surprisal_mean",), 1),
    GuardedFigure(
        "entropy", translatable("Entropy, trainer's"), (f"{TRAINER}entropy",), 1
    ),
    GuardedFigure(
        "gradient_norm", translatable("Gradient norm"), (f"{TRAINER}grad_norm",), -1
    ),
    GuardedFigure("distinct_2", translatable("Distinct-2"), ("distinct_2",), 1),
    GuardedFigure("duplicates", translatable("Repeated responses"), ("duplicate",), -1),
)
_OF_GROUPS_AND_TOOLS = (
    GuardedFigure(
        "all_wrong_groups",
        translatable("Groups without signal, all wrong"),
        (ALL_WRONG,),
        -1,
    ),
    GuardedFigure(
        "all_right_groups",
        translatable("Groups without signal, all right"),
        (ALL_RIGHT,),
        0,
    ),
    GuardedFigure("pass_at_k", translatable("pass@k"), ("pass_at_k",), 1),
    GuardedFigure(
        "mismatch",
        translatable("Engine mismatch, k3"),
        ("mismatch_k3", f"{TRAINER}mismatch_k3"),
        -1,
    ),
    GuardedFigure(
        "tool_errors",
        translatable("Tool errors"),
        ("tool_errors", f"{TRAINER}tool_errors"),
        -1,
    ),
)

# In the order of the page
GUARDRAILS = (*_OF_POLICY, *_OF_GROUPS_AND_TOOLS)

# Guardrails that never count as better, only as changed, as a collapsed policy improves them
NEVER_BETTER = ("length", "surprisal", "entropy", "gradient_norm")

GuardrailLevel = Literal["better", "worse", "changed", "none", "missing"]


class Ratio(NamedTuple):
    """A geometric mean of NEW over that of BASE, with its interval."""

    value: float
    low: float
    high: float

    @property
    def largest_factor(self) -> float:
        """The largest factor, up or down, that the interval does not exclude."""
        return max(self.high, 1 / self.low) if self.low else np.inf


class Guardrail(NamedTuple):
    """A figure that should not get worse, such as the KL or the response length."""

    id: str
    column: str
    base: float  # mean over prompts and runs
    new: float
    effect: Effect
    level: GuardrailLevel  # Holm-corrected for several guardrails
    # of geometric means, see the module; None of means that are compared by their difference
    ratio: Ratio | None = None


def with_logs(trainer: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return the trainer's metrics of all runs with logarithms of those that span decades."""
    tables = list(trainer)
    for column in _HEAVY_TAILED:
        if not all(has(table, column) for table in tables):
            continue
        values = np.concatenate([table[column] for table in tables])
        values = values[np.isfinite(values)]
        if not (len(values) and spans_decades(values)):
            continue
        floor = values[values > 0].min() / 10
        for number, table in enumerate(tables):
            finite = table[column].replace([np.inf, -np.inf], np.nan)
            logs = np.log(np.maximum(finite, floor))
            tables[number] = table.assign(**{f"{_LOG}{column}": significant(logs)})
    return tables


def _by_logs(guardrail: Guardrail, trainer: Means) -> Guardrail:
    """Return a figure compared by geometric means, given the means of its logarithms."""
    column = f"{_LOG}{guardrail.column}"
    effect = effect_on(trainer, column, paired=False)
    base, new = (
        rounded(float(np.exp(_mean_of_runs(runs, column))))
        for runs in (trainer.bases, trainer.news)
    )
    low, high = (
        rounded(base * float(np.expm1(min(log, _MOST_LOG))))
        for log in (effect.low, effect.high)
    )
    value = change(base, new)
    bounds = np.minimum([effect.low, effect.high], _MOST_LOG)
    low_ratio, high_ratio = map(rounded, np.exp(bounds).tolist())
    # Over decades, nearly all differences are as large as the larger mean.
    ratio = Ratio(rounded(new / base), low_ratio, high_ratio)
    effect = replace(effect, value=value, low=low, high=high, mde=np.nan)
    return guardrail._replace(base=base, new=new, effect=effect, ratio=ratio)


def _mean_of_runs(runs: Iterable[pd.DataFrame], column: str) -> float:
    """Return the mean over runs of a column's mean; NaN if none has it."""
    means = [table[column].mean() for table in runs if column in table]
    return rounded(float(np.mean(means))) if means else np.nan


def guardrails_of(means: Means, trainer: Means, *, paired: bool) -> list[Guardrail]:
    """Compare all GUARDRAILS and reward parts, with p-values corrected for multiple testing.

    Figures that the responses lack come from trainer metrics, with blocks of steps as units.
    """
    figures = [*GUARDRAILS, *_reward_parts(means)]
    guardrails = [_guardrail(one, means, trainer, paired=paired) for one in figures]
    # Without an interval there is no test: such a guardrail stays "missing".
    tested = [g for g in guardrails if np.isfinite(g.effect.low)]
    p_values = holm([g.effect.p for g in tested])
    corrected = {g.id: p for g, p in zip(tested, p_values, strict=True)}
    judged = []
    for guardrail, figure in zip(guardrails, figures, strict=True):
        if guardrail.id in corrected:
            level = _guardrail_level(guardrail, corrected[guardrail.id], figure.better)
            judged.append(guardrail._replace(level=level))
        else:
            judged.append(guardrail)
    return judged


def _reward_parts(means: Means) -> list[GuardedFigure]:
    """Return the reward parts that the first run of each side logs, each better when higher."""
    base_columns = means.bases[0].columns
    parts = []
    for column in map(str, means.news[0].columns):
        if column.startswith(PART) and column in base_columns:
            # Pages name a part by its id, so that it needs no name here.
            part = GuardedFigure(id=column, name="", columns=(column,), better=1)
            parts.append(part)
    return parts


def _guardrail(
    figure: GuardedFigure, means: Means, trainer: Means, *, paired: bool
) -> Guardrail:
    """Compare a figure; its level stays "missing" until p-values are corrected.

    ``means`` are those of responses, ``trainer`` those of the trainer's metrics.
    """
    # If a run has none of the columns, any will do: all values are NaN then.
    column = figure.columns[0]
    for candidate in figure.columns:
        if means.have(candidate) or trainer.have(candidate):
            column = candidate
            break
    # Blocks of the trainer's steps cannot be paired as prompts are.
    tables = means
    if column.startswith(TRAINER):
        tables = trainer
        paired = False
    base = _mean_of_runs(tables.bases, column)
    new = _mean_of_runs(tables.news, column)
    effect = effect_on(tables, column, paired=paired)
    guardrail = Guardrail(figure.id, column, base, new, effect, "missing")
    is_geometric = tables.have(f"{_LOG}{column}")
    return _by_logs(guardrail, trainer) if is_geometric else guardrail


def _guardrail_level(guardrail: Guardrail, p: float, better: int) -> GuardrailLevel:
    """Return the level for a corrected p-value; ``better`` is as in ``GuardedFigure``.

    "changed" is a significant change that is neither: of a figure without a better direction, or
    of one in NEVER_BETTER that improved.
    """
    if p > 1 - LEVEL or guardrail.effect.value == 0:
        return "none"
    improvement = guardrail.effect.value * better
    if improvement < 0:
        return "worse"
    if improvement > 0 and guardrail.id not in NEVER_BETTER:
        return "better"
    return "changed"
