"""Checks of the trainer's metrics: relations between them that hold in any correct trainer.

A metric that contradicts another one is a note of its own, and no finding is made of it alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlreport.check import means, parts, progress, quantities
from rlreport.check.check import ANY_REWARD, LENGTH, Check
from rlreport.check.curve import LEAST_LEVEL, Curve, paired_z
from rlreport.check.evidence import Ranking, beyond
from rlreport.check.finding import Facts, Rank, Result, Severity
from rlreport.check.limits import Limit, LimitKind, Limits, Tested
from rlreport.check.means import mean
from rlreport.check.pieces import PieceKind
from rlreport.check.run import Run, once_per_run
from rlreport.check.series import MIN_STEPS, Series
from rlreport.check.settings import Move, Remedy, SettingKind, lower, see
from rlreport.figures.ragged import Floats, Ints
from rlreport.metrics.roles import in_unit_of, is_known_key, is_percentage
from rlreport.text.messages import translatable

# A gradient norm below this is 0
NO_GRADIENT = 1e-9
# Lengths are rounded, and an end token may count or not
LENGTH_ERROR = 1.2
END_TOKEN = 1.0
# Rewards that differ by less than this, as a part of their size, are equal
SAME_REWARD = 1e-6
EQUAL_REWARDS = translatable("DAPO: groups with equal rewards give no gradient")

Bools = NDArray[np.bool_]


class _Common(NamedTuple):
    """Series at the steps that all of them have."""

    steps: Ints  # int64 (n,)
    values: tuple[Floats, ...]  # of each series, float64 (n,)


def _common(*series: Series | None) -> _Common | None:
    """Return several series at their common steps, None if one is missing or these are too few."""
    known = [one.without_gaps() for one in series if one is not None]
    if len(known) < len(series):
        return None
    steps = known[0].steps
    for one in known[1:]:
        steps = np.intersect1d(steps, one.steps)
    if len(steps) < MIN_STEPS:
        return None
    values = [one.values[np.searchsorted(one.steps, steps)] for one in known]
    return _Common(steps, tuple(values))


def _common_metrics(run: Run, *roles: str) -> _Common | None:
    """Return the trainer's metrics of these roles at their common steps, see ``_common``."""
    series = [quantities.series_of(run, role) for role in roles]
    return _common(*series)


class _ClipShareContradicts(Limits):
    share = Limit(
        0.5,
        LimitKind.SHARE,
        "of steps",
        "steps whose share cut off needs a larger mean length (note)",
        translatable("trl#7039: a second end token was not counted"),
    )


class _Contradiction(NamedTuple):
    """The steps at which the share of responses that are cut off contradicts their lengths."""

    steps: Ints  # all steps that have these metrics
    is_one: Bools  # which of them contradict, (n,)
    share: float  # means over the steps that contradict
    length: float
    longest: float

    @property
    def of_steps(self) -> float:
        return float(self.is_one.mean())


@once_per_run
def _clip_share(run: Run) -> _Contradiction | None:
    """Return where the trainer's share of cut-off responses contradicts lengths, None if unknown.

    What is cut off has the largest length, so the mean is at least the share of it. Conversations
    are cut off at other lengths.
    """
    turns = quantities.series_of(run, "turns")
    if turns is not None or "tool_calls" in run.roles:
        return None
    common = _common_metrics(run, "truncated", "length", "length_max")
    if common is None:
        return None
    share, length, longest = common.values
    is_one = share * longest > LENGTH_ERROR * length + END_TOKEN
    return _Contradiction(
        steps=common.steps,
        is_one=is_one,
        share=mean(share[is_one]),
        length=mean(length[is_one]),
        longest=mean(longest[is_one]),
    )


def is_clip_share_wrong(run: Run) -> bool:
    """Return whether the trainer's share of cut-off responses contradicts their lengths."""
    found = _clip_share(run)
    limit = _ClipShareContradicts.share
    return found is not None and run.limits.test(limit, ">=", found.of_steps).met


@Check(
    name="share cut off contradicts lengths",
    rank=Rank.NOTE,
    charts=("eos", "length"),
    limits=_ClipShareContradicts,
    title="The trainer counts {share:percent} of responses as cut off. That contradicts their "
    "lengths: with a mean of {length:figure} and at most {longest:figure} tokens, it is at most "
    "{most:percent}.",
    statement="the share of responses cut off contradicts their lengths",
    why="Responses that are cut off have the largest length, so this share is wrong and not "
    "judged.",
    suggestion="Check which end tokens the trainer knows: it may miss one that the model uses.",
    advice=see(SettingKind.STOP_TOKENS),
    needs_also="the trainer's share of responses cut off, their mean and their largest length",
)
def clip_share_contradicts(check: Check, run: Run) -> Result:
    """Note that the trainer's share of responses cut off is too high for their lengths."""
    found = _clip_share(run)
    if found is None:
        return check.not_run(check.needs_also)
    tested = run.limits.test(_ClipShareContradicts.share, ">=", found.of_steps)
    if not tested.met:
        return Result(tested=(tested,))
    return check.found(
        run,
        Severity.INFO,
        [tested],
        {
            "share": found.share,
            "length": found.length,
            "longest": found.longest,
            "most": found.length / found.longest,
        },
        onset=int(found.steps[np.argmax(found.is_one)]),
        steps=found.steps[found.is_one].tolist(),
    )


class _SourcesDisagree(Limits):
    share = Limit(
        0.8,
        LimitKind.SHARE,
        "of steps",
        "steps at which the trainer's figure and the rollouts' differ by more than half (note)",
    )
    z = Limit(
        5.0, LimitKind.ERRORS, "std errors", "significance of their paired difference"
    )
    steps = Limit(10, LimitKind.COUNT, "steps", "least number of steps that have both")


# Figure of which both the trainer and the rollouts tell -> the column of responses
_IN_BOTH: dict[str, str] = {"reward": "reward", "length": "response_tokens"}
# Figures are apart if they differ by more than this part of the larger one
_APART = 0.5


class _Sources(NamedTuple):
    """A figure as the trainer's metric and as the mean of the logged responses, at common steps."""

    figure: str
    trainer: Floats
    rollouts: Floats
    tested: tuple[Tested, ...]

    @property
    def disagree(self) -> bool:
        return all(tested.met for tested in self.tested)


@once_per_run
def _sources(run: Run) -> list[_Sources]:
    """Return the figures of which both trainer and rollouts tell, in equal units."""
    limits = _SourcesDisagree
    found = []
    for role, column in _IN_BOTH.items():
        metric = quantities.series_of(run, role)
        # A metric of an unknown logger may have another unit.
        if metric is None or not run.has(column) or not is_known_key(metric.name):
            continue
        common = _common(metric, quantities.series_by_step(run, column))
        if common is None or len(common.steps) < run.limits.value(limits.steps):
            continue
        trainer, rollouts = common.values
        largest = np.maximum(np.abs(trainer), np.abs(rollouts))
        apart = np.abs(trainer - rollouts) > _APART * largest
        z = abs(paired_z(rollouts, trainer))
        tested = (
            run.limits.test(limits.share, ">=", float(apart.mean())),
            run.limits.test(limits.z, ">", z),
        )
        found.append(_Sources(role, trainer, rollouts, tested))
    return found


@Check(
    name="trainer and rollouts disagree",
    rank=Rank.NOTE,
    charts=("reward", "length"),
    limits=_SourcesDisagree,
    title={
        "reward": "The trainer's mean reward is {trainer:figure}, that of the logged responses "
        "{rollouts:figure}: they disagree.",
        "length": "The trainer's mean length is {trainer:figure} tokens, that of the logged "
        "responses {rollouts:figure}: they disagree.",
    },
    statement="the trainer's metrics and the logged responses disagree",
    why="They describe the same steps, so one of them counts something else: neither is judged "
    "alone.",
    suggestion="Check whether the trainer counts padding, or logs only a part of the responses.",
    needs_also="a reward or a length of both the trainer and the rollouts",
)
def sources_disagree(check: Check, run: Run) -> Result:
    """Note that a metric and the mean of the logged responses are far apart at most steps."""
    sources = _sources(run)
    if not sources:
        return check.not_run(check.needs_also)
    worst = next((one for one in sources if one.disagree), None)
    if worst is None:
        return Result(tested=sources[0].tested)
    facts: Facts = {
        "kind": worst.figure,
        "trainer": mean(worst.trainer),
        "rollouts": mean(worst.rollouts),
    }
    steps = run.steps.tolist()
    return check.found(run, Severity.INFO, worst.tested, facts, steps=steps)


def is_fall_disputed(run: Run, figure: str) -> bool:
    """Return whether a figure falls by the trainer's metric or the rollouts only, which disagree.

    ``figure`` is "reward" or "length".
    """
    if not any(one.figure == figure and one.disagree for one in _sources(run)):
        return False
    sides = (
        quantities.series_of(run, figure),
        quantities.series_by_step(run, _IN_BOTH[figure]),
    )
    curves = [one.curve for one in sides if one is not None]
    return not all(curve is not None and curve.has_fallen for curve in curves)


class _ConstantReward(Limits):
    noise = Limit(
        0.05,
        LimitKind.RATIO,
        "times",
        "noise of the reward's last flat part against that before",
        translatable("DeepSpeedExamples#586: the reward became 0.2056"),
    )
    steps = Limit(5, LimitKind.COUNT, "steps", "least length of that part")


@Check(
    name="constant reward",
    rank=Rank.CONSEQUENCE,
    needs=(ANY_REWARD,),
    charts=("reward", "reward_distribution"),
    limits=_ConstantReward,
    title="From step {since} on, every response earns about {level:figure}: the reward hardly "
    "varies any more.",
    statement="every response earns about {level:short}",
    why="Equal rewards give no learning signal: the policy or the grader does the same each time.",
    suggestion="Read responses of these steps; look at the grader's errors and its default grade.",
    advice=see(SettingKind.GRADER),
    explains=("reward_stalled", "zero_variance_groups"),
    of_reward=True,
    trend=True,
)
def constant_reward(check: Check, run: Run) -> Result:
    """Find that the reward lost its noise at the end, below its best level."""
    if quantities.death(run) is not None:
        return Result()  # which ``reward_collapse`` tells
    reward = quantities.reward(run).without_gaps()
    curve = reward.curve
    start = _start_of_constant(run, curve)
    if curve is None or start is None:
        return Result()
    level = curve.values[start:]
    scatter = float(level.std())
    residuals = curve.values[:start] - curve.lines[:start]
    noise = float(residuals.std())
    tested = run.limits.test(_ConstantReward.noise, "<", scatter, of=noise)
    is_best = bool(level.mean() >= curve.values.max() - noise)
    was_before = _was_constant_before(curve.values[:start], tested.bound * noise)
    if not tested.met or is_best or was_before or _responses_differ(run, curve, start):
        return Result(tested=(tested,))
    since = int(curve.steps[start])
    distance = np.abs(run.column("reward") - mean(level))
    is_constant = beyond(distance, "<=", max(tested.bound * noise, SAME_REWARD))
    return check.found(
        run,
        Severity.WARNING,
        [tested],
        {"level": mean(level), "since": since},
        Ranking(distance, is_constant, highest=False),
        series=reward,
        onset=since,
    )


def _start_of_constant(run: Run, curve: Curve | None) -> int | None:
    """Return the index of the first value of the last flat piece, None if it is too short."""
    if curve is None or len(curve.pieces) < 2:
        return None
    last = curve.pieces[-1]
    start = int(np.searchsorted(curve.steps, last.steps[0]))
    least = run.limits.value(_ConstantReward.steps)
    is_long = len(curve) - start >= least and start >= least
    is_flat = last.kind in (PieceKind.FLAT, PieceKind.DEAD)
    return start if is_long and is_flat else None


def _was_constant_before(values: Floats, most: float) -> bool:
    """Return whether any few consecutive values were as constant, as those of a sparse reward."""
    windows = np.lib.stride_tricks.sliding_window_view(values, MIN_STEPS)
    return bool((windows.std(axis=1) <= most).any())


def _responses_differ(run: Run, curve: Curve, start: int) -> bool:
    """Return whether rewards inside the steps since ``start`` vary half as much as before."""
    spread = quantities.series_of(run, "reward_std")
    if spread is None and not run.has("reward"):
        return False
    if spread is None:
        reward = run.column("reward")
        spread = Series(run.steps, np.sqrt(_variance_by_step(run, reward)))
    is_late = spread.steps >= curve.steps[start]
    before = mean(spread.values[~is_late])
    return mean(spread.values[is_late]) > 0.5 * before


def _variance_by_step(run: Run, values: Floats) -> Floats:
    """Return the variance inside each step, float64 (S,)."""
    mean_square = run.by_step(values**2)
    return np.maximum(mean_square - run.by_step(values) ** 2, 0.0)


class _TinyResponses(Limits):
    tokens = Limit(
        2.5,
        LimitKind.COUNT,
        "tokens",
        "mean length of a response in the median step",
        translatable("unsloth#2451: an adapter was loaded wrongly"),
    )
    same = Limit(0.95, LimitKind.SHARE, "of steps", "steps with the same mean reward")


@Check(
    name="responses of a token or two",
    rank=Rank.CAUSE,
    needs=(LENGTH, ANY_REWARD),
    charts=("length", "reward"),
    limits=_TinyResponses,
    title="Responses have {tokens:figure} tokens, and all earn {reward:figure}, from the first "
    "step on.",
    statement="responses have {tokens:short} tokens",
    why="The model ends its responses at once, as if its weights or its prompt were wrong.",
    suggestion="Sample from the model by hand: look at its adapter, its chat template and its end "
    "tokens.",
    advice=see(SettingKind.STOP_TOKENS),
    explains=(
        "reward_stalled",
        "zero_variance_groups",
        "no_updates",
        "length_collapse",
    ),
)
def tiny_responses(check: Check, run: Run) -> Result:
    """Find that responses have hardly any tokens and a constant reward."""
    length = quantities.leading_series(run, "length", "response_tokens")
    reward = quantities.reward(run).without_gaps()
    if length is None or min(len(length.steps), len(reward.steps)) < MIN_STEPS:
        return check.not_run("at least 5 steps with lengths in tokens and rewards")
    usual = float(np.nanmedian(length.values))
    tested = [run.limits.test(_TinyResponses.tokens, "<", usual)]
    level = float(np.median(reward.values))
    is_same = np.abs(reward.values - level) <= SAME_REWARD * max(1.0, abs(level))
    tested.append(
        run.limits.test(_TinyResponses.same, ">=", mean(is_same.astype(np.float64)))
    )
    varies = run.has("reward") and means.spread(run) > SAME_REWARD
    if varies or not all(one.met for one in tested):
        return Result(tested=tuple(tested))
    tokens = run.column("response_tokens")
    return check.found(
        run,
        Severity.WARNING,
        tested,
        {"tokens": usual, "reward": level},
        Ranking.beyond(tokens, "<", tested[0].bound),
        series=length,
        onset=run.from_start(),
    )


class _ImpossibleValues(Limits):
    steps = Limit(1, LimitKind.COUNT, "steps", "steps with a share outside 0 to 1")
    padded = Limit(
        0.95,
        LimitKind.SHARE,
        "of steps",
        "steps whose mean length is the largest one, although their rewards differ",
        translatable("MemGen#33: end tokens used as padding were counted"),
    )


@Check(
    name="impossible values of a metric",
    rank=Rank.NOTE,
    limits=_ImpossibleValues,
    title={
        "share": "{metric:quoted} is {value:figure} at step {at}, but a share lies between 0 and "
        "1: it is not judged.",
        "percent": "{metric:quoted} is {value:figure} at step {at}, but a percentage lies between "
        "0 and 100: it is not judged.",
        "right": "{metric:quoted} is {value:figure} at step {at}, but a share of right answers is "
        "not below 0: it is read as a reward.",
        "length": "{metric:quoted} is the largest length in {share:percent} of the steps, as if "
        "all responses of a step were equally long: it counts padding.",
    },
    statement="{metric:quoted} has impossible values",
    why="Such a metric counts something else than its name says.",
    suggestion="Look at how it is computed, for instance at what the count is divided by.",
    suggestions={
        "length": "Look at how the end of responses is found: the loss may train on padding, too.",
    },
    needs_also="metrics that are shares, or the mean and the largest length",
)
def impossible_values(check: Check, run: Run) -> Result:
    """Note that a known metric has values that it cannot have."""
    judges = (_impossible_share, _negative_accuracy, _length_with_padding)
    results = [judge(check, run) for judge in judges]
    if all(result is None for result in results):
        return check.not_run(check.needs_also)
    found = [result for result in results if result is not None]
    for result in found:
        if result.finding is not None:
            return result
    return Result(tested=sum((result.tested for result in found), ()))


def _impossible_share(check: Check, run: Run) -> Result | None:
    """Return the note on a share outside of 0 to 1; None if no metric is a share."""
    metrics = run.tables.metrics
    shares = {role: run.roles[role] for role in quantities.SHARES if role in run.roles}
    for role, name in shares.items():
        logged = metrics[name].to_numpy(np.float64)
        values = in_unit_of(role, name, logged)
        wrong = quantities.is_no_share(values)
        # Of other loggers it is not known whether it is a share at all.
        if wrong.any() and is_known_key(name):
            kind = "percent" if is_percentage(name) else "share"
            return _impossible(check, run, kind, name, wrong)
    return Result() if shares else None


def _negative_accuracy(check: Check, run: Run) -> Result | None:
    """Return the note on a share of right answers below 0; None if validation is no such share."""
    name = run.roles.get("validation")
    if name is None or not parts.tells_right(name):
        return None
    values = run.tables.metrics[name].to_numpy(np.float64)
    wrong = values < -quantities.SHARE_ERROR
    return _impossible(check, run, "right", name, wrong) if wrong.any() else Result()


def _impossible(check: Check, run: Run, kind: str, name: str, wrong: Bools) -> Result:
    """Note the steps at which a metric has an impossible value, and the worst of these values."""
    metrics = run.tables.metrics
    tested = run.limits.test(_ImpossibleValues.steps, ">=", int(wrong.sum()))
    if not tested.met:
        return Result(tested=(tested,))
    logged = metrics[name].to_numpy(np.float64)
    steps = metrics["step"].to_numpy(np.int64)
    distance = np.abs(logged - 0.5)
    worst = int(np.argmax(np.where(wrong, distance, -1.0)))
    facts: Facts = {
        "kind": kind,
        "metric": name,
        "value": float(logged[worst]),
        "at": int(steps[worst]),
    }
    impossible = steps[wrong].tolist()
    return check.found(run, Severity.INFO, [tested], facts, steps=impossible)


def _length_with_padding(check: Check, run: Run) -> Result | None:
    """Note that the mean length is the largest one; None without both, and the rewards' spread.

    Responses that earn different rewards differ, so they hardly have the same length at each
    step. They have if all are cut off at one limit, or if answers have a fixed length.
    """
    common = _common_metrics(run, "length", "length_max", "reward_std")
    if common is None:
        return None
    length, longest, spread = common.values
    differs = spread > SPREAD
    if np.count_nonzero(differs) < MIN_STEPS or np.ptp(longest[differs]) == 0:
        return Result()
    is_equal = length[differs] >= longest[differs] * (1 - NO_SPREAD)
    tested = run.limits.test(_ImpossibleValues.padded, ">=", float(is_equal.mean()))
    if not tested.met:
        return Result(tested=(tested,))
    facts: Facts = {
        "kind": "length",
        "metric": run.roles["length"],
        "share": float(is_equal.mean()),
    }
    steps = common.steps[differs][is_equal]
    return check.found(run, Severity.INFO, [tested], facts, steps=steps.tolist())


class _NoUpdates(Limits):
    share = Limit(
        0.5,
        LimitKind.SHARE,
        "of steps",
        "share of the last window with a value of 0 (warning)",
        EQUAL_REWARDS,
    )
    trained = Limit(
        0.2,
        LimitKind.SHARE,
        "of steps",
        "share without a gradient, of steps in which rewards within groups differ",
        translatable("ms-swift#5890: the gradient norm was 0 at every step"),
    )
    groups = Limit(
        0.95,
        LimitKind.SHARE,
        "of steps",
        "steps whose rewards differ in the batch, but in no group",
    )


# Standard deviations of rewards: that of equal ones inside groups, and of others in a batch
NO_SPREAD = 1e-6
SPREAD = 1e-3


def _has_gradient(norms: Series | None) -> bool:
    return norms is not None and bool((norms.values > 0).any())


def _reward_moves(run: Run) -> bool:
    """Return whether the reward changes beyond noise, as it does if the policy is updated."""
    course = quantities.courses(run).get("reward")
    return course is not None and (
        course.direction != 0 or course.gained or course.lost
    )


@Check(
    name="updates without effect",
    rank=Rank.CAUSE,
    charts=("gradient_norm", "learning_rate"),
    limits=_NoUpdates,
    title={
        "grad_norm": "The gradient norm is 0 in {share:percent} of the last steps: their updates "
        "change nothing.",
        "learning_rate": "The learning rate is 0 in {share:percent} of the last steps: their "
        "updates change nothing.",
        "trained": "The gradient norm is 0 in {share:percent} of the steps in which rewards "
        "within groups differ: no gradient reaches the weights.",
        "groups": "In {share:percent} of the steps rewards differ within the batch, but within no "
        "group: the groups are formed wrongly, or all responses to a prompt are the same.",
    },
    statement="updates change nothing",
    why="The run uses compute, but the policy does not change.",
    suggestion="Check the learning rate's schedule, frozen parameters and the groups' rewards.",
    advice={"learning_rate": (Remedy(Move.ABOVE_ZERO, SettingKind.STEP_SIZE),)},
    rules_out=lower(SettingKind.STEP_SIZE),
    explains=("reward_stalled",),
    needs_also="the trainer's gradient norm or learning rate",
    trend=True,
)
def no_updates(check: Check, run: Run) -> Result:
    """Find that most late updates change nothing, as gradient or learning rate are 0."""
    norm = quantities.series_of(run, "grad_norm")
    rate = quantities.series_of(run, "learning_rate")
    if norm is None and rate is None:
        return check.not_run(check.needs_also)
    tested: list[Tested] = []
    for judge in (_without_gradient, _without_groups):
        result = judge(check, run)
        if result.finding is not None:
            return result
        tested += result.tested
    for role, metric in (("grad_norm", norm), ("learning_rate", rate)):
        if metric is None or not quantities.covers(run, metric):
            continue
        is_rate = role == "learning_rate"
        if is_rate and (_has_gradient(norm) or _reward_moves(run)):
            continue  # a learning rate may be printed as 0 that is not
        values = run.align(metric)
        zero = np.where(np.isfinite(values), values == 0, np.nan)
        if not is_rate:
            zero[progress.is_partly_silent(run)] = np.nan
            zero = _unexplained(run, zero)
        at_end = run.last_values(zero)
        if np.isfinite(at_end).sum() < LEAST_LEVEL:
            continue
        share = run.limits.test(_NoUpdates.share, ">", mean(at_end))
        tested.append(share)
        if share.met:
            facts: Facts = {
                "kind": role,
                "share": mean(at_end),
                "series_from": "metrics",
            }
            onset = run.onset_beyond(zero, share.bound, is_share=True)
            return check.found(run, Severity.WARNING, tested, facts, onset=onset)
    return Result(tested=tuple(tested))


def _unexplained(run: Run, zero: Floats) -> Floats:
    """Return by step whether a gradient of 0 is a fault, NaN where groups have no signal.

    Groups of equal rewards give a gradient of 0, so single steps without any are usual where a
    step has few groups. If it is not known which steps these are, only a gradient that stays 0 to
    the end is a fault: updates that have no effect do not recover.
    """
    silent = progress.silent(run)
    if np.isfinite(silent).any():
        return np.where(silent == 1, np.nan, zero)
    alive = np.flatnonzero(zero == 0)
    if not len(alive):
        return zero
    is_before = np.arange(len(zero)) < alive[-1]
    return np.where(is_before & np.isfinite(zero), 0.0, zero)


def _without_gradient(check: Check, run: Run) -> Result:
    """Find that steps have no gradient although rewards within their groups differ."""
    norm = quantities.series_of(run, "grad_norm")
    if norm is None or not quantities.covers(run, norm):
        return Result()
    values = run.align(norm)
    is_trained = (progress.silent(run) == 0) & np.isfinite(values)
    if np.count_nonzero(is_trained) < MIN_STEPS:
        return Result()
    zero = np.where(is_trained, values < NO_GRADIENT, np.nan)
    share = run.limits.test(_NoUpdates.trained, ">", mean(zero))
    if not share.met:
        return Result(tested=(share,))
    # What is over by the end is a note.
    at_end = run.last_values(zero)
    lasts = not np.isfinite(at_end).any() or mean(at_end) > share.bound
    return check.found(
        run,
        Severity.WARNING if lasts else Severity.INFO,
        [share],
        {"kind": "trained", "share": mean(zero), "series_from": "metrics"},
        onset=run.onset_beyond(zero, share.bound, is_share=True),
        steps=run.steps[zero == 1].tolist(),
    )


def _without_groups(check: Check, run: Run) -> Result:
    """Find that rewards differ within batches but within no group, by the trainer's metrics."""
    inside = quantities.series_of(run, "reward_std")
    metrics = run.tables.metrics
    names = parts.std_metrics(map(str, metrics.columns[1:]))
    if inside is None or not names:
        return Result()
    largest = metrics[names].max(axis=1).to_numpy(np.float64)
    of_batch = Series(metrics["step"].to_numpy(np.int64), largest)
    common = _common(inside, of_batch)
    if common is None:
        return Result()
    of_groups, of_parts = common.values
    is_wrong = (of_groups < NO_SPREAD) & (of_parts > SPREAD)
    share = run.limits.test(_NoUpdates.groups, ">=", float(is_wrong.mean()))
    if not share.met:
        return Result(tested=(share,))
    return check.found(
        run,
        Severity.WARNING,
        [share],
        {"kind": "groups", "share": float(is_wrong.mean()), "series_from": "metrics"},
        onset=run.from_start(),
        steps=common.steps[is_wrong].tolist(),
    )
