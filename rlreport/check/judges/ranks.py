"""Check of one rank, replica, engine or node against the others."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.check import means
from rlreport.check.check import Check
from rlreport.check.evidence import Ranking, nearer
from rlreport.check.finding import Facts, Rank, Result, Severity
from rlreport.check.limits import Limit, LimitKind, Limits, Tested
from rlreport.check.means import mean
from rlreport.check.run import Run
from rlreport.check.sources import Sources, sources_of
from rlreport.figures.ragged import Floats
from rlreport.figures.significance import holm, two_sided_p
from rlreport.figures.turns import Ending
from rlreport.text.messages import format_message, translatable

# A source and the others need so many responses each...
LEAST_RESPONSES = 32
# ... in so many steps: their differences by step give the noise
LEAST_STEPS = 5


class _RankDiffers(Limits):
    z = Limit(
        5.0,
        LimitKind.ERRORS,
        "std errors",
        "significance of the difference of one source from the others (Holm's method over all)",
    )
    share = Limit(
        0.05,
        LimitKind.SHARE,
        "of responses",
        "difference of shares: garbled, failed, NaN",
    )
    ratio = Limit(
        1.5,
        LimitKind.RATIO,
        "times",
        "length against other responses to the same prompts; mismatch against that of others",
    )
    reward = Limit(
        0.5,
        LimitKind.VALUE,
        "std of reward",
        "difference of rewards from other responses to the same prompts",
    )


class _Figure(NamedTuple):
    """A figure by response in which a source may differ from the others."""

    kind: str
    values: Floats  # (rows,), NaN where unknown
    is_share: bool = True
    # What a difference is a multiple of; NaN if it is told as a ratio, or as it is
    unit: float = math.nan


class _Difference(NamedTuple):
    """How one source differs from the others in a figure."""

    figure: _Figure
    source: int
    value: float  # mean of the source's responses
    others: float  # mean of the others
    z: float

    @property
    def effect(self) -> float:
        """The difference, of rewards in std, or the ratio of the larger to the smaller mean."""
        if self.figure.is_share:
            return abs(self.value - self.others)
        if math.isfinite(self.figure.unit):
            return abs(self.value - self.others) / self.figure.unit
        smaller, larger = sorted([self.value, self.others])
        return larger / smaller if smaller > 0 else math.inf


_TITLES = {
    "garbled": translatable(
        "{value:percent} of the responses of {source} are garbled, {others:percent} of the others."
    ),
    "failed": translatable(
        "{value:percent} of the responses of {source} ended with an error, {others:percent} of "
        "the others."
    ),
    "nan": translatable(
        "{value:percent} of the responses of {source} have NaN, {others:percent} of the others."
    ),
    "mismatch": translatable(
        "The trainer and {source} differ by {value:figure} nats per token, by {others:figure} for "
        "the others."
    ),
    "reward": translatable(
        "Responses of {source} earn {value:figure}, others to the same prompts {others:figure}."
    ),
    "length": translatable(
        "Responses of {source} have {value:figure} {unit}, others to the same prompts "
        "{others:figure}."
    ),
}


def _title(facts: Facts) -> str:
    return format_message(_TITLES[str(facts["kind"])], facts)


@Check(
    name="one source of responses differs",
    rank=Rank.CAUSE,
    limits=_RankDiffers,
    title=_title,
    statement="{source} differs from the others",
    why="All ranks and replicas should sample from the same weights with the same settings.",
    suggestion="Restart this one, and compare its weights, precision and settings with the others.",
    explains=("engine_mismatch", "garbled"),
    needs_also="a field such as rank, replica, engine or node",
)
def rank_differs(check: Check, run: Run) -> Result:
    """Find that one rank, replica, engine or node differs from the others."""
    sources = sources_of(run)
    if sources is None:
        return check.not_run(check.needs_also)
    differences = _differences(run, sources)
    p_values = [two_sided_p(one.z) for one in differences]
    level = two_sided_p(run.limits.value(_RankDiffers.z))
    is_sure = np.array(holm(p_values)) <= level
    tested = [_test_effect(run, one) for one in differences]
    found = [
        (one, test)
        for one, test, sure in zip(differences, tested, is_sure, strict=True)
        if sure and test.met
    ]
    if not found:
        return Result()
    # The first kind in the order of ``_figures``; of that, the source that differs most
    kind = found[0][0].figure.kind
    of_kind = [pair for pair in found if pair[0].figure.kind == kind]
    worst, test = max(of_kind, key=lambda pair: abs(pair[0].z))
    return _finding(check, run, sources, worst, test)


def _finding(
    check: Check, run: Run, sources: Sources, worst: _Difference, test: Tested
) -> Result:
    """Return the finding that one source differs."""
    facts: Facts = {
        "kind": worst.figure.kind,
        "source": sources.label(worst.source),
        "value": worst.value,
        "others": worst.others,
        "unit": run.length_unit,
    }
    is_from_source = sources.is_from(worst.source)
    values = np.where(is_from_source, worst.figure.values, np.nan)
    if worst.figure.is_share:
        affected = values  # 1 for each response that the share counts
    else:
        affected = nearer(values, to=worst.value, than=worst.others)
    return check.found(
        run,
        Severity.WARNING,
        [test],
        facts,
        Ranking(values, affected, highest=worst.value > worst.others),
        onset=run.onset(run.by_step(values)) or run.from_start(),
    )


def _figures(run: Run) -> list[_Figure]:
    """Return the figures in which sources are compared, the worst kind of difference first."""
    ending = run.responses["ending"].to_numpy()
    figures = [
        _Figure("garbled", run.column("garbled")),
        _Figure("nan", (run.column("nan_values") > 0).astype(np.float64)),
        _Figure("failed", (ending == Ending.ERROR).astype(np.float64)),
        _Figure("mismatch", _mismatch(run), is_share=False),
        _Figure("length", run.column(run.length), is_share=False),
    ]
    spread = means.spread(run)
    if spread > 0:
        reward = run.column("reward")
        figures.append(_Figure("reward", reward, is_share=False, unit=spread))
    return [figure for figure in figures if np.isfinite(figure.values).any()]


def _mismatch(run: Run) -> Floats:
    """Return how far trainer and sampler are apart in each response: nats per token, (rows,)."""
    # The logged ratio is the mean of exp|difference|.
    with np.errstate(divide="ignore"):
        return np.log(run.column("mismatch_ratio"))


def _differences(run: Run, sources: Sources) -> list[_Difference]:
    """Return how each source differs from the others in each figure that can be compared."""
    differences = []
    for figure in _figures(run):
        values = figure.values
        if figure.kind in ("length", "reward"):
            # Sources may hold prompts of their own, with other lengths and rewards.
            values = _where_shared(run, sources, values)
        for source in range(len(sources)):
            one = _difference(run, figure, values, sources, source)
            if one is not None:
                differences.append(one)
    return differences


def _where_shared(run: Run, sources: Sources, values: Floats) -> Floats:
    """Return values of the groups whose responses come from several sources, NaN elsewhere."""
    groups = pd.Series(sources.index).groupby(run.responses["group"].to_numpy())
    is_shared = groups.transform("nunique").to_numpy() > 1
    return np.where(is_shared, values, np.nan)


def _difference(
    run: Run, figure: _Figure, values: Floats, sources: Sources, source: int
) -> _Difference | None:
    """Return how a source differs from the others, None if too little is known.

    Responses of one step are alike, so the standard error is that of the differences by step, but
    at least the one of independent responses.
    """
    is_known = np.isfinite(values)
    is_from = is_known & sources.is_from(source)
    is_other = is_known & ~is_from
    if min(is_from.sum(), is_other.sum()) < LEAST_RESPONSES:
        return None
    by_step = run.by_step(np.where(is_from, values, np.nan)) - run.by_step(
        np.where(is_other, values, np.nan)
    )
    by_step = by_step[np.isfinite(by_step)]
    if len(by_step) < LEAST_STEPS:
        return None
    value = mean(values[is_from])
    others = mean(values[is_other])
    error = max(
        _error(by_step), math.hypot(_error(values[is_from]), _error(values[is_other]))
    )
    if value == others:
        return None
    z = (value - others) / error if error else math.inf
    return _Difference(figure, source, value, others, z)


def _error(values: Floats) -> float:
    """Return the standard error of a mean of independent values."""
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def _test_effect(run: Run, difference: _Difference) -> Tested:
    limit = _RankDiffers.ratio
    if difference.figure.is_share:
        limit = _RankDiffers.share
    elif math.isfinite(difference.figure.unit):
        limit = _RankDiffers.reward
    return run.limits.test(limit, ">", difference.effect)
