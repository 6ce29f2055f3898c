"""Parts of the reward: which of the logged columns and trainer metrics they are, by their names.

A part is a component of the reward that is trained on, such as its accuracy or its format. The
rollouts log parts as ``reward_parts``; trainers log them as metrics: TRL's ``rewards/NAME/mean``,
EasyR1's and Tinker's ``reward/NAME``, OpenRLHF's ``accuracy_reward``. Penalties, the KL and copies
of the whole reward under other names are no parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from rlreport.check import means
from rlreport.check.run import Run, once_per_run
from rlreport.check.series import Series
from rlreport.figures.ragged import Floats
from rlreport.metrics.roles import by_preference, is_known_key, without_prefixes

# Names of metrics that are parts, after the prefixes of runs and phases
_OF_METRICS = (
    # TRL; the older key has no "/mean"
    re.compile(r"rewards?/(?P<name>[^/]+)(?:/(?:mean|avg))?"),
    # Tinker's environments, and loops of their own
    re.compile(r"env/all/(?:reward/)?(?P<name>format|correct|accuracy)"),
    # prime-rl logs all figures of an environment; these are told by their names.
    re.compile(
        r"(?:all|effective)/(?:[^/]+/)?metrics/(?P<name>[^/]*(?:accuracy|correct|format)[^/]*)/mean"
    ),
    # OpenRLHF and others log what a reward function returns beside the reward.
    re.compile(
        r"(?P<name>(?:answer_)?(?:accuracy|acc|correct(?:ness)?|format|outcome|tool)_rewards?)"
        r"(?:[_/](?:mean|avg))?"
    ),
    re.compile(
        r"(?P<name>(?:answer_)?(?:accuracy|acc|correct(?:ness)?(?:_rate)?|(?:pass|solve|success)_rate))"
        r"(?:[_/](?:mean|avg))?"
    ),
)
# Words in names of what is no part: penalties, other figures of the reward, other rewards, failures
_NO_PARTS = frozenset(
    "kl penalty penalties non rlhf length len lengths overlong std var min max median sum total "
    "overall all mean avg average raw baseline ref reference chosen rejected margin margins "
    "accuracies advantage fail failed failure failures error errors invalid timeout timeouts "
    "refusal refusals".split()
)
_RIGHT = re.compile(
    r"accura|correct|exact_match|ndcg|(?:^|[^a-z])(?:acc|f1|em)(?:[^a-z0-9]|$)"
    r"|(?:^|[^a-z])(?:pass|solve|success|answer)_(?:rate|reward|score)s?(?:[^a-z]|$)"
)
_NOT_RIGHT = re.compile(r"incorrect|format")

_FORMAT = re.compile(
    r"format|tags?(?:[^a-z]|$)|xml|box|structur|templat|think|schema|json|pars"
    r"|digit|numeric|(?:^|[^a-z])int(?:[^a-z]|$)"
)

# Names that a copy of the whole reward has
_WHOLE = re.compile(r"(?:.*[^a-z])?(?:scores?|rewards?|returns?|total|overall|final)")

# A metric that is a constant plus a multiple of the reward, up to this part of its variance, is no
# part of it but a copy
COPY = 1e-3
# One that is so close to the reward tells nothing that the reward does not
ALIKE = 0.02


def part_name(metric: str) -> str | None:
    """Return the name of the part of the reward that a trainer's metric is, None if it is none."""
    if is_known_key(metric):
        return None
    plain = without_prefixes(metric)
    for pattern in _OF_METRICS:
        match = pattern.fullmatch(plain)
        if match:
            # The name as it is logged: only its place is that of the name in lower case.
            start = len(metric) - len(plain)
            name = metric[start + match.start("name") : start + match.end("name")]
            return name if is_component(name) else None
    return None


def std_metrics(names: Iterable[str]) -> list[str]:
    """Return the metrics that are the standard deviation of a part over a batch, as TRL logs."""
    return [
        name
        for name in names
        if re.fullmatch(r"rewards?/[^/]+/std", without_prefixes(name))
    ]


def is_component(name: str) -> bool:
    """Return whether a part of this name is one that should rise: no penalty, no other figure."""
    words = re.split(r"[^a-z0-9]+", name.lower())
    meaningful = [word for word in words if word not in ("reward", "rewards", "")]
    return bool(meaningful) and _NO_PARTS.isdisjoint(meaningful)


def tells_right(name: str) -> bool:
    """Return whether a part of this name tells how many answers are right."""
    lower = name.lower()
    return bool(_RIGHT.search(lower)) and not _NOT_RIGHT.search(lower)


def is_format(name: str) -> bool:
    """Return whether a part of this name pays for the format of an answer."""
    return bool(_FORMAT.search(name.lower()))


def named_whole(name: str) -> bool:
    """Return whether a part has a name such as the whole reward has ("score").

    Most reward functions are called so ("think_format_reward"): one whose name says that it pays
    for the format is a part, even where nothing else is ever earned.
    """
    return bool(_WHOLE.fullmatch(name.lower())) and not is_format(name)


@once_per_run
def of_rollouts(run: Run) -> dict[str, Floats]:
    """Return name -> values of the parts with a number for any response, float64 (rows,)."""
    extras = run.tables.extras
    names = [name for name in run.tables.reward_parts if name in extras]
    parts = {}
    for name, column in extras[names].select_dtypes(["number", "bool"]).items():
        part = column.to_numpy(np.float64)
        if np.isfinite(part).any():
            parts[str(name)] = part
    return parts


def metrics_of_parts(names: Iterable[str]) -> dict[str, str]:
    """Return name of a part -> the metric that it is; of several, the one preferred for a role."""
    found: dict[str, str] = {}
    for metric in by_preference(names):
        name = part_name(metric)
        if name is not None:
            found.setdefault(name, metric)
    return found


def series_of_rollouts(run: Run) -> dict[str, Series]:
    """Return name of a part -> its mean over the logged responses of each step."""
    parts = of_rollouts(run)
    return {name: means.series(run, part) for name, part in parts.items()}


def series_of_metrics(run: Run) -> dict[str, Series]:
    """Return name of a part -> the trainer's metric of it, in the order of the log."""
    metrics = run.tables.metrics
    logged = [str(name) for name in metrics.columns[1:]]
    in_use = set(run.roles.values())
    found = {
        metric: name
        for name, metric in metrics_of_parts(logged).items()
        if metric not in in_use
    }
    series: dict[str, Series] = {}
    if not found:
        return series
    steps = metrics["step"].to_numpy(np.int64)
    for metric in logged:
        if metric in found:
            values = metrics[metric].to_numpy(np.float64)
            one = Series(steps, values, None, "metrics", metric).without_gaps()
            if len(one.steps):
                series[found[metric]] = one
    return series


# Least number of standard errors by which the weight of a part in the reward is above 0
PAID_Z = 3.0
TOTAL = "\0total"  # names no part: names from logs have no control characters


def paid_parts(parts: Mapping[str, Series], total: Series) -> set[str]:
    """Return the names of the parts that surely enter the reward with a positive weight.

    The weights are those of a least-squares fit of the changes from step to step, which no trend
    that parts share can explain. A rate of failures, or a penalty logged as a positive number, has
    a negative weight or none.

    Args:
        parts: all logged parts by name.
        total: the whole reward.
    """
    columns = {name: _by_step(part) for name, part in parts.items()}
    columns[TOTAL] = _by_step(total)
    table = pd.DataFrame(columns).dropna()
    changes = table.diff().iloc[1:]
    y = changes.pop(TOTAL).to_numpy(np.float64)
    x = changes.to_numpy(np.float64)
    freedom = len(y) - x.shape[1] - 1
    if freedom < 1:
        return set()
    x = x - x.mean(axis=0)
    y = y - y.mean()
    inverse = np.linalg.pinv(x.T @ x, hermitian=True)
    weights = inverse @ x.T @ y
    residuals = y - x @ weights
    # Rewards that are an exact sum leave rounding errors only.
    variance = max(float(residuals @ residuals) / freedom, 1e-18 * float(y @ y))
    errors = np.sqrt(np.maximum(np.diag(inverse), 0.0) * variance)
    is_paid = weights > PAID_Z * errors
    return set(map(str, changes.columns[is_paid]))


def _by_step(series: Series) -> pd.Series:
    """Return finite values by step, NaN for others."""
    finite = np.where(np.isfinite(series.values), series.values, np.nan)
    return pd.Series(finite, series.steps)


def is_copy(part: Series, total: Series, unexplained: float = COPY) -> bool:
    """Return whether a series is the whole reward, maybe scaled or shifted.

    ``unexplained``: the part of its variance that the reward does not explain is smaller.
    """
    _, in_part, in_total = np.intersect1d(
        part.steps, total.steps, assume_unique=True, return_indices=True
    )
    x = total.values[in_total]
    y = part.values[in_part]
    finite = np.isfinite(x) & np.isfinite(y)
    if not finite.any():
        return False
    x = x[finite] - x[finite].mean()
    y = y[finite] - y[finite].mean()
    of_x = float((x * x).sum())
    of_y = float((y * y).sum())
    if not (of_x > 0 and of_y > 0):
        return False
    of_both = float((x * y).sum())
    # A product, as a power of huge numbers would be an error.
    explained = of_both * of_both / (of_x * of_y)
    return explained > 1 - unexplained
