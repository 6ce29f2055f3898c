"""Compare one or several runs (NEW) with others (BASE) over their last common steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import xxhash

from rlreport.check.course import Course, course_of
from rlreport.check.judges.length import NEARLY
from rlreport.check.prepared import Kind
from rlreport.check.run import has
from rlreport.check.series import Series
from rlreport.comparison.data_file import (
    EXTRA,
    METRICS,
    PART,
    TRAINER,
    trainer_rows,
    with_even_blocks,
)
from rlreport.comparison.decomposition import (
    FORMATS,
    Decomposition,
    decomposition_of,
    marks_of,
)
from rlreport.comparison.guardrails import (
    ALL_RIGHT,
    ALL_WRONG,
    CHARACTERS,
    OF_WHOLE_TEXTS,
    Guardrail,
    guardrails_of,
    with_logs,
)
from rlreport.comparison.means import Means, effect_on, means_of
from rlreport.comparison.scale import (
    TRAINER_REWARD,
    Levels,
    PartNames,
    levels_of_trainer,
    parts_that_differ,
    reference_levels,
)
from rlreport.comparison.speed import Reached, speed_of
from rlreport.comparison.statistics import (
    Band,
    Effect,
    EqualKL,
    at_equal_kl,
    difference_band,
)
from rlreport.comparison.tasks import (
    Tasks,
    can_tell,
    no_changes,
    prompt_changes_of,
    solved_or_not,
    tasks_of,
)
from rlreport.errors import UsageError
from rlreport.figures.ragged import Ints
from rlreport.figures.rounding import rounded
from rlreport.summarise.steps import most_common, rounded_columns
from rlreport.text.clean import number_as_text
from rlreport.text.labels import ANSWER_MARKS, PHRASE

# Prompts are paired if all runs share at least this fraction of the smallest run's prompts
LEAST_SHARED = 0.3

# Minimum number of runs of each side to judge the change, not only these runs
LEAST_RUNS = 3
# Fraction of the common steps, counted from the end, over which runs are compared
WINDOW_SHARE = 0.2
# Of texts that a logger cut elsewhere than at their ends, at least this part marks its answer
MOST_MARKED = 0.5

# Values of ``pair_by``: match prompts by text, or by group_id. Other values are field names
PROMPT = "prompt"
GROUP = "group"

_SPLITS = {"val": ("val", "eval", "valid", "validation", "test"), "train": ("train",)}

Level = Literal["better", "worse", "no_evidence", "incomparable"]


@dataclass(frozen=True, slots=True)
class Side:
    """Response data of one run, prepared for comparison."""

    name: str
    # one row per response: ``step``, ``n`` (its number in the step), ``split``, ``pair`` (a uint64
    # key of the prompt, by which runs are paired) and float64 figures
    responses: pd.DataFrame
    # whether equal ``pair`` values mean equal prompts across runs; false if redacted
    named: bool = True
    unpaired: int = 0  # number of responses left out because they have no pairing key
    trainer: pd.DataFrame = field(default_factory=partial(trainer_rows, pd.DataFrame()))
    cut: bool = False  # whether the logger cuts texts
    # whether the run's report reads the course of the reward from the trainer's metric
    trainer_leads: bool = False
    batch: int | None = None  # responses of a step, None if it is not logged

    @property
    def reward(self) -> Course | None:
        """Course of the mean training reward, None without rewards."""
        return course_of(self.rewards("train"), "reward")

    def rewards(self, split: str) -> Series:
        """Return the mean reward by step of a split, as the run's report shows it.

        Of what is not validation it is the trainer's, where that leads.
        """
        is_validation = self.responses["split"].isin(_SPLITS["val"])
        if split == "val":
            return _series_of(_rewards_by_step(self.responses[is_validation]))
        if is_validation.all():
            return _series_of(_rewards_by_step(self.responses))
        if self.trainer_leads and TRAINER_REWARD in self.trainer:
            metrics = rounded_columns(self.trainer.set_index("step"))
            return _series_of(metrics[TRAINER_REWARD])
        return _series_of(_rewards_by_step(self.responses[~is_validation]))

    @property
    def evaluation(self) -> Course | None:
        """Course of the trainer's validation metric, None if it is not logged."""
        values = self.trainer.get(f"{TRAINER}validation")
        if values is None:
            return None
        steps = self.trainer["step"].to_numpy(np.int64)
        series = Series(steps, values.to_numpy(np.float64), kind=Kind.EVALUATIONS)
        # Nobody links to the values, so that the prefix stands for the column.
        return course_of(series, column=TRAINER, quantity="validation")


def side_of(name: str, responses: pd.DataFrame, *, pair_by: str = PROMPT) -> Side:
    """Prepare a run's responses (``response_data``) and identify their prompts by ``pair_by``.

    ``pair_by`` is PROMPT, GROUP or a logged field. Responses without that field are left out and
    counted in ``unpaired``; raise UsageError if no response has it.
    """
    if pair_by == PROMPT:
        # A redacted report numbers its prompts, without hashes of their texts.
        named = PROMPT in responses
        pairs = responses[PROMPT if named else "prompt_id"].astype(np.uint64)
        return Side(name, responses.assign(pair=pairs), named=named)
    keys = _pairing_keys(responses, pair_by)
    if keys.empty:
        raise UsageError(f"--pair-by {pair_by}: no response of {name!r} has this field")
    # Keys are hashes of the field, so that equal keys mean equal prompts (``named``).
    paired = responses.loc[keys.index].assign(pair=keys.astype(np.uint64))
    return Side(name, paired, unpaired=len(responses) - len(paired))


def _pairing_keys(responses: pd.DataFrame, pair_by: str) -> pd.Series:
    """Return the keys of those responses that have a group or the field ``pair_by``.

    The series keeps their index; it is empty if no response has one.
    """
    if pair_by == GROUP:
        groups = responses.get("group_hash", pd.Series())
        return groups[groups > 0]  # 0 stands for no group_id
    for column in (f"{EXTRA}{pair_by}", f"{PART}{pair_by}"):
        if column in responses:
            return responses[column].dropna().map(_hash)
    return pd.Series()


def _hash(value: object) -> int:
    # An id logged as 17 in one run and as "17" in another is the same, as for group_id.
    text = number_as_text(value) if isinstance(value, float) else str(value)
    return xxhash.xxh3_64_intdigest(text.encode())


class Windows(NamedTuple):
    """First and last compared step of each BASE and each NEW run, and the steps that all share."""

    bases: list[tuple[int, int]]
    news: list[tuple[int, int]]
    common: Ints

    @property
    def new(self) -> tuple[int, int]:
        return self.news[0]


def windows(frames: Sequence[pd.DataFrame], base_count: int) -> Windows:
    """Choose the steps to compare, given the responses of each run, the BASE runs first.

    "The end" is the last fifth of the range of steps that all runs cover. The first of these:

    1. If a step common to all runs is in the end: the last fifth of the common steps.
    2. If every run has steps in the end: those of each run.
    3. Otherwise: the last fifth of each run's own steps.
    """
    steps_of_runs = [np.unique(frame["step"].to_numpy(np.int64)) for frame in frames]
    common = reduce(np.intersect1d, steps_of_runs)
    bounds = []  # first and last step of each run's window
    for steps in _steps_to_compare(steps_of_runs, common):
        bounds.append((int(steps[0]), int(steps[-1])))
    return Windows(bounds[:base_count], bounds[base_count:], common)


def _steps_to_compare(steps_of_runs: Sequence[Ints], common: Ints) -> list[Ints]:
    """Return the steps to compare of each run by the rule of ``windows``; all are ascending."""
    # The range that all runs cover is low to high; it is empty if low > high.
    low = max(steps[0] for steps in steps_of_runs)
    high = min(steps[-1] for steps in steps_of_runs)
    start = high - WINDOW_SHARE * (high - low)
    # Common steps are best, but not if they end long before the runs do.
    if len(common) and common[-1] >= start:
        return [_last_fifth(common)] * len(steps_of_runs)
    inside = [steps[(steps >= start) & (steps <= high)] for steps in steps_of_runs]
    if low <= high and all(map(len, inside)):
        return inside
    return [_last_fifth(steps) for steps in steps_of_runs]


def _last_fifth(steps: Ints) -> Ints:
    count = max(1, round(len(steps) * WINDOW_SHARE))
    return steps[-count:]


@dataclass(frozen=True)
class Comparison:
    """Differences between BASE and NEW in their windows; curves are of each side's first run."""

    split: str  # compared split: ``val``, ``train`` or ``all``
    base_count: int  # number of BASE runs
    # responses of each BASE run, then of each NEW run, in that split, at all steps
    responses: list[pd.DataFrame]
    windows: Windows
    # those of ``responses`` whose steps are in the window of their run
    inside: list[pd.DataFrame]
    named: bool  # whether prompts can be identified in all runs (none is redacted)
    effect: Effect  # difference NEW - BASE of the reward
    guardrails: list[Guardrail]
    shared: int  # number of prompts that all runs have in their windows
    # number of prompts in the window of a BASE run but not in that of every NEW run
    only_base: int
    # number of prompts in the window of a NEW run but not in that of every BASE run
    only_new: int
    cut: bool  # whether the logger cuts a run's texts
    # the trainer's metrics by step of each BASE run, then of each NEW run, in their windows
    trainer: list[pd.DataFrame]
    # mean reward at each step of the first BASE run, and of the first NEW run, as their reports
    # show it: over all steps, also those that only one of them has
    rewards: tuple[Series, Series]
    # the trainer's mean rewards in the windows, if they lead and are others than of the responses
    trainer_levels: Levels | None = None
    # numbers of responses of a step that are logged and that there are, None if not known
    logged_share: tuple[int, int] | None = None
    # what the same reference earns on both sides, if that differs: the rewards are on two scales
    reference: Levels | None = None

    @property
    def metrics_alone(self) -> bool:
        return any((frame["split"] == METRICS).all() for frame in self.responses)

    @property
    def has_enough_runs(self) -> bool:
        """Whether each side has LEAST_RUNS runs, so that the verdict is about the change."""
        new_count = len(self.responses) - self.base_count
        return min(self.base_count, new_count) >= LEAST_RUNS

    @property
    def level(self) -> Level:
        """Verdict on the reward: "better" or "worse" if the difference's interval excludes 0."""
        if not np.isfinite(self.effect.low) or self.reference is not None:
            return "incomparable"
        if self.trainer_disagrees:
            return "no_evidence"
        if self.effect.high < 0:
            return "worse"
        return "better" if self.effect.low > 0 else "no_evidence"

    @property
    def trainer_disagrees(self) -> bool:
        """Whether the effect on logged responses is shown, but not of the sign of the trainer's."""
        if self.trainer_levels is None or not self.effect.is_shown:
            return False
        base, new = self.trainer_levels
        return bool(np.sign(new - base) != np.sign(self.effect.value))

    @cached_property
    def reward_parts_that_differ(self) -> PartNames:
        return parts_that_differ(self.inside, self.base_count)

    @cached_property
    def reward_means(self) -> tuple[float, float]:
        """Mean rewards of BASE and of NEW over the compared prompts; they differ by ``effect``."""
        runs = [frame.groupby("pair")["reward"].mean() for frame in self.inside]
        # A row per prompt, a column per run
        means = pd.concat(runs, axis=1)
        if self.effect.paired:
            means = means.dropna()
        base = means.iloc[:, : self.base_count].mean(axis=1).mean()
        new = means.iloc[:, self.base_count :].mean(axis=1).mean()
        return rounded(base), rounded(new)

    @property
    def first_runs(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Responses of the first BASE run, and of the first NEW run, at all steps."""
        return self.responses[0], self.responses[self.base_count]

    @property
    def compared(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Compared responses of the first BASE run, and of the first NEW run."""
        return self.inside[0], self.inside[self.base_count]

    @cached_property
    def speed(self) -> dict[str, Reached]:
        """When each run reached parts of the gain; {} if rewards are on different scales."""
        return {} if self.reference is not None else speed_of(*self.rewards)

    @cached_property
    def band(self) -> Band:
        """Reward of NEW minus BASE at each common step, with a 95% band for the whole curve."""
        base, new = self.first_runs
        steps = self.windows.common
        return difference_band(base, new, steps, paired=self.effect.paired)

    @cached_property
    def decomposition(self) -> Decomposition:
        """What the effect goes with: properties of responses, and parts of the reward."""
        trainer = self.trainer if self.metrics_alone else []
        # Rewards on different scales have no difference to explain.
        effect = self.effect if self.reference is None else Effect()
        return decomposition_of(self.inside, self.base_count, effect, trainer)

    @cached_property
    def tasks(self) -> Tasks:
        """The reward's difference by environment and by difficulty of prompts."""
        if self.reference is not None:
            return Tasks("", [], [])
        others = []
        for frame, (first, last) in zip(
            self.responses, self.windows.bases, strict=False
        ):
            others.append(frame[~frame["step"].between(first, last)])
        return tasks_of(self.inside, self.base_count, self.effect, others)

    @cached_property
    def prompt_changes(self) -> pd.DataFrame:
        """How the reward of each paired prompt changed, see ``tasks.prompt_changes_of``.

        Without rows if prompts are not paired, or rewards are on different scales.
        """
        if not self.effect.paired or self.reference is not None:
            return no_changes()
        responses = _inside(solved_or_not(self.responses), self.windows)
        return prompt_changes_of(responses, self.base_count)

    @property
    def can_tell_prompts(self) -> bool:
        """Whether responses suffice to tell the change of a single prompt from chance.

        True if some were told, and if there is no prompt that could have changed.
        """
        return can_tell(self.prompt_changes)

    @cached_property
    def equal_kl(self) -> dict[str, EqualKL]:
        """Reward column -> NEW - BASE at equal KL, of those logged in overlapping ranges of KL.

        {} if rewards are on different scales.
        """
        base, new = self.first_runs
        effects: dict[str, EqualKL] = {}
        if self.reference is not None:
            return effects
        if not (has(base, "kl_k1") and has(new, "kl_k1")):
            return effects
        for reward in ("reward", "valid_reward"):
            if has(base, reward) and has(new, reward):
                effect = at_equal_kl(base, new, reward)
                if effect is not None:
                    effects[reward] = effect
        return effects

    @property
    def paths(self) -> list[pd.DataFrame]:
        """BASE's and NEW's ``step``, ``distance`` (√KL in √nats) and ``reward``.

        [] unless rewards are compared at equal KL.
        """
        if "reward" not in self.equal_kl:
            return []
        return [_path(frame) for frame in self.first_runs]

    @property
    def reasons(self) -> list[str]:
        """Reasons why the comparison is limited, as keys of ``words.REASONS``.

        If the runs cannot be compared, the last one says why.
        """
        reasons = []
        # A window of common steps ends at the last of these; each other window ends later.
        if not (self.windows.common >= self.windows.new[1]).any():
            reasons.append("other_steps")
        if self.metrics_alone:
            reasons.append("metrics_alone")
        elif not self.effect.paired:
            reasons.append("few_common_prompts" if self.named else "redacted")
        if self.level == "incomparable":
            reasons.append(self._why_incomparable)
        else:
            if self.trainer_disagrees:
                reasons.append("trainer_disagrees")
            has_difference = np.isfinite(self.band.difference)
            if (has_difference & np.isnan(self.band.low)).any():
                reasons.append("no_band")
        return reasons

    @property
    def _why_incomparable(self) -> str:
        if self.reference is not None:
            return "scales"
        have_rewards = all(has(frame, "reward") for frame in self.inside)
        return "few_prompts" if have_rewards else "no_reward"


def _rewards_by_step(responses: pd.DataFrame) -> pd.Series:
    means = responses.groupby("step")[["reward"]].mean()
    return rounded_columns(means)["reward"]


def _series_of(means: pd.Series) -> Series:
    """Return means by step as a series, without steps that have none."""
    known = means.dropna()
    return Series(known.index.to_numpy(np.int64), known.to_numpy(np.float64))


def _path(responses: pd.DataFrame) -> pd.DataFrame:
    """Return ``step``, ``distance`` (√KL in √nats), ``kl_k1`` and ``reward`` of a run's steps."""
    means = responses.groupby("step")[["kl_k1", "reward"]].mean().dropna()
    distance = np.sqrt(means["kl_k1"].clip(lower=0.0))
    return rounded_columns(means.assign(distance=distance).reset_index())


def compare_runs(bases: Sequence[Side], news: Sequence[Side]) -> Comparison:
    """Compare NEW with BASE, one or several runs each, over their last common steps."""
    sides = [*bases, *news]
    split, responses = _common_split(_comparable_responses(sides))
    if len(set(map(_usual_group_size, responses))) > 1:
        # pass@k of groups of different sizes cannot be compared.
        responses = [frame.assign(pass_at_k=np.nan) for frame in responses]
    chosen = windows(responses, len(bases))
    inside = []
    for frame in _inside(responses, chosen):
        is_of_trainer = bool((frame["split"] == METRICS).all())
        inside.append(with_even_blocks(frame) if is_of_trainer else frame)
    metrics = _inside([side.trainer for side in sides], chosen)
    trainer = [with_even_blocks(frame) for frame in metrics]
    means = means_of(inside, len(bases))
    trainer_means = means_of(with_logs(trainer), len(bases))
    prompts = _prompts_of(means)
    effect = effect_on(means, "reward", paired=prompts.paired)
    of_trainer = None
    if split != "val" and all(side.trainer_leads for side in sides):
        of_trainer = levels_of_trainer(inside, trainer, len(bases))
    return Comparison(
        split=split,
        base_count=len(bases),
        responses=responses,
        windows=chosen,
        inside=inside,
        named=all(side.named for side in sides),
        effect=effect,
        guardrails=guardrails_of(means, trainer_means, paired=prompts.paired),
        shared=prompts.shared,
        only_base=prompts.only_base,
        only_new=prompts.only_new,
        cut=any(side.cut for side in sides),
        trainer=trainer,
        rewards=(bases[0].rewards(split), news[0].rewards(split)),
        trainer_levels=of_trainer,
        logged_share=_logged_share(sides, inside),
        reference=reference_levels(means, effect),
    )


class _Prompts(NamedTuple):
    """Whether runs are paired by prompt, and counts as in ``Comparison``."""

    paired: bool
    shared: int
    only_base: int
    only_new: int


def _prompts_of(means: Means) -> _Prompts:
    """Return which prompts runs share, and whether they are paired by these."""
    # The means are indexed by prompt (``pair``).
    bases = [table.index for table in means.bases]
    news = [table.index for table in means.news]
    in_all_bases = reduce(pd.Index.intersection, bases)
    in_all_news = reduce(pd.Index.intersection, news)
    in_any_base = reduce(pd.Index.union, bases)
    in_any_new = reduce(pd.Index.union, news)
    return _Prompts(
        paired=_pairable([*bases, *news]),
        shared=len(in_all_bases.intersection(in_all_news)),
        only_base=len(in_any_base.difference(in_all_news)),
        only_new=len(in_any_new.difference(in_all_bases)),
    )


def _logged_share(
    sides: Sequence[Side], inside: Sequence[pd.DataFrame]
) -> tuple[int, int] | None:
    """Return the usual number of logged responses of a step, and that of all, if all runs agree."""
    logged = {most_common(frame["step"].value_counts().to_numpy()) for frame in inside}
    batches = {side.batch for side in sides}
    if len(logged) != 1 or len(batches) != 1:
        return None
    some = logged.pop()
    whole = batches.pop()
    if some is None or whole is None or some >= whole:
        return None
    return some, whole


def _inside(frames: Sequence[pd.DataFrame], windows: Windows) -> list[pd.DataFrame]:
    """Return the rows of each run's frame that are in its window."""
    inside = []
    bounds = [*windows.bases, *windows.news]
    for frame, (first, last) in zip(frames, bounds, strict=True):
        inside.append(frame[frame["step"].between(first, last)])
    return inside


def _usual_group_size(frame: pd.DataFrame) -> int | None:
    """Return the usual number of responses with pass@k in a group (its k), or None."""
    if "pass_at_k" not in frame:
        return None
    sizes = frame.groupby("group")["pass_at_k"].count()
    return most_common(sizes[sizes > 0].to_numpy())


def _comparable_responses(sides: Sequence[Side]) -> list[pd.DataFrame]:
    """Return the responses of each run, with columns that have the same meaning in all runs.

    The columns ALL_RIGHT and ALL_WRONG are added. Those in OF_WHOLE_TEXTS are dropped if the logger
    of any run cuts texts, and so is FORMATS unless it keeps their ends. Prompts of redacted runs
    get keys that match those of no other run.
    """
    cut = [side.responses for side in sides if side.cut]
    left_out = list(OF_WHOLE_TEXTS) if cut else []
    if not all(map(_keeps_ends, cut)):
        left_out.append(FORMATS)
    best_rewards = [side.responses["reward"].max() for side in sides]
    best = float(np.fmax.reduce(best_rewards))  # ignores a run without rewards (NaN)
    frames = []
    for number, side in enumerate(sides, 1):
        frame = side.responses.drop(columns=left_out, errors="ignore")
        if not side.named:
            # The keys of such a run are numbers from 0, far below 2**40: adding a multiple of it
            # gives each run a range of its own.
            frame = frame.assign(pair=frame["pair"] + np.uint64(number << 40))
        if "zero_variance" in frame:
            alike = frame["zero_variance"]  # 1, 0, or NaN without a group
            right = frame["reward"] >= best
            # Products, so that NaN stays NaN
            kinds = {ALL_RIGHT: alike * right, ALL_WRONG: alike * ~right}
            frame = frame.assign(**kinds)
        frames.append(frame)
    return frames


def _keeps_ends(responses: pd.DataFrame) -> bool:
    """Return whether a logger that cuts texts keeps their ends: most of the longest have a mark.

    A phrase such as "answer is" does not count, as it may stand anywhere.
    """
    if not {FORMATS, CHARACTERS} <= set(responses):
        return False
    lengths = responses[CHARACTERS]
    longest = responses.loc[lengths >= NEARLY * lengths.max(), FORMATS]
    marks = sum(1 << bit for bit, mark in enumerate(ANSWER_MARKS) if mark != PHRASE)
    has_mark = marks_of(longest.to_numpy(np.float64)) & marks > 0
    return bool(has_mark.mean() >= MOST_MARKED)


def _common_split(frames: list[pd.DataFrame]) -> tuple[str, list[pd.DataFrame]]:
    """Return the split to compare ("val", "train" or "all") and each run's responses in it.

    Validation is preferred if its prompts can be paired, else training, whose prompts usually
    differ between runs; "all" if a run has neither.
    """
    for split, logged_names in _SPLITS.items():
        selected = [frame[frame["split"].isin(logged_names)] for frame in frames]
        if not all(map(len, selected)):
            continue
        prompts = [pd.Index(frame["pair"].unique()) for frame in selected]
        if split == "train" or _pairable(prompts):
            return split, selected
    return "all", frames


def _pairable(prompts: Sequence[pd.Index]) -> bool:
    """Return whether all runs share enough prompts, given those of each run."""
    shared = reduce(pd.Index.intersection, prompts)
    smallest = min(map(len, prompts))
    return len(shared) >= max(1.0, LEAST_SHARED * smallest)
