r"""What a difference of rewards goes with: properties of responses, and parts of the reward.

A property divides responses in two: those that have it (their answer is marked by ``####``, they
are cut off, …) and those that do not. Its *part* of the effect Δ on the reward is

    (share of NEW − share of BASE) · (mean reward with it − mean reward without it)

where shares count every prompt once and each run of a side the same, as Δ does, and the second
factor compares responses of one run to one prompt (``contrast``): across prompts, a property of
easy prompts would be taken for a reason of their rewards. The *rest* is Δ − part (Kitagawa 1955;
Oaxaca 1973, with an effect of each prompt). Properties overlap: each is compared with Δ by itself,
and their parts do not add up to Δ. Where no prompt has responses of both kinds, the part is
unknown, but for a format that the reward pays for by a logged part: if all responses without it
earn the same, each prompt tells what it is worth.

If the sides have other prompts, their environments are properties, too. All responses to a prompt
are of one environment, so that these are compared across prompts.

If all responses of a side have the same reward, as in a run that earns nothing any more, this side
cannot tell what a property is worth, and the other side alone does. As any property that came with
the collapse has a part then, one is named only if that is all of Δ, but for a tenth: then what is
left of the other category would have earned nothing in the other run, too.

Where the reward is a weighted sum of logged parts, these do add up to Δ: the part that one of them
has is its weight times the difference of its means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check import gain, parts
from rlreport.check.run import has
from rlreport.check.series import Series
from rlreport.comparison.contrast import (
    LEAST_MIXED,
    Contrast,
    contrast_between_prompts,
    contrast_with_constant,
    contrast_within_prompts,
)
from rlreport.comparison.data_file import EXTRA, PART
from rlreport.comparison.means import effect_on, means_of
from rlreport.comparison.statistics import LEVEL, Effect, p_of_parts
from rlreport.comparison.tasks import environments_of
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import change, rounded
from rlreport.text.labels import ANSWER_MARKS

FORMATS = "answer_format"  # Column with bits of ``labels.ANSWER_MARKS``
# Id of the property that the answer has its format: as a part of the reward says that pays for it,
# else by its mark; ``Property.mark`` names either
FORMAT = "format"
# Id of the property that the prompt is of an environment, which ``Property.mark`` names
ENVIRONMENT = "environment"
ANY_MARK = "any"  # ``Property.mark`` of an answer that is marked in any way

# Property -> column that is above 0 in responses that have it; empty in those that cannot have it.
# What comes first may be the reason of what follows: an answer that is cut off is not marked.
_COLUMNS = {
    "cut_off": "cut_off",
    "unclosed_thinking": "unclosed_thinking",
    "tool_failed": "tool_errors",
    "unparsed_call": "unparsed_calls",
    "other_script": "other_script",
}
# A property is named if this part of the effect goes with it, ...
NAMED = 0.25
# ... and listed if this part does
LISTED = 0.1
# Rewards of responses that have a property are compared if each side has so many of them
LEAST_WITHIN = 20
# Parts, and changes of shares, are as large as the largest one if they are this part of it or more
ALIKE = 0.9
# Parts of the reward explain it if no response differs from their sum by more than this part of
# the largest reward: logs round numbers
_ROUNDING = 1e-3


class Property(NamedTuple):
    """A property of responses, and what of the effect on the reward goes with it."""

    id: str  # FORMAT, ENVIRONMENT or a key of _COLUMNS
    # of FORMAT: the name of a part of the reward, one of ``labels.ANSWER_MARKS``, or ANY_MARK; of
    # ENVIRONMENT its name
    mark: str
    # shares of responses that have the property
    base_share: float
    new_share: float
    # mean rewards of responses with it and without it, NaN if there are none
    base_with: float
    new_with: float
    base_without: float
    new_without: float
    # what a response with it earns more than one without it to the same prompt
    contrast: Contrast
    # what of the effect goes with the change of the share, and the rest: both add up to the effect;
    # NaN if the contrast is unknown
    part: float
    rest: float
    share: Effect  # difference of the shares
    # difference of the rewards of responses that have it, of prompts with such ones on both sides;
    # without a value if a side has less than LEAST_WITHIN of them
    within: Effect
    p: float  # of the difference of shares, see ``p_of_parts``


class RewardPart(NamedTuple):
    """A logged part of the reward; ``part`` of the effect is its own."""

    name: str
    weight: float  # in the reward
    base: float  # weight times its mean
    new: float
    part: float
    effect: Effect  # difference of weight times its means
    p: float  # of this difference, see ``p_of_parts``


_AnyPart = TypeVar("_AnyPart", Property, RewardPart)


@dataclass(frozen=True, slots=True)
class Decomposition:
    """What the effect on the reward goes with, the largest parts first.

    Attributes:
        properties: those that some but not all compared responses have; of the ways to mark an
            answer, the one with which most goes, and of the environments, the one whose share
            changed most.
        reward_parts: parts that add up to the reward, and so to the effect; [] if not logged.
        main: the property that the headline names, None if no part is large and certain.
        main_part: the part of the reward that it may name instead, likewise.
        effect: the effect on the reward.
    """

    properties: list[Property]
    reward_parts: list[RewardPart]
    main: Property | None
    main_part: RewardPart | None
    effect: Effect

    @property
    def listed(self) -> list[Property]:
        """Properties whose share changed, but for those with which less than a tenth surely goes.

        Of an effect that is not shown nothing can go with them: ``part`` and ``rest`` are NaN.
        """
        changed = [one for one in self.properties if one.p <= 1 - LEVEL]
        if not self.effect.is_shown:
            return [one._replace(part=np.nan, rest=np.nan) for one in changed]
        least = LISTED * abs(self.effect.value)
        # An unknown part, NaN, is not below.
        return [one for one in changed if not abs(one.part) < least]


NOTHING = Decomposition([], [], None, None, Effect())


@dataclass(frozen=True)
class Compared:
    """Compared responses: a table per run, of the BASE runs first."""

    frames: Sequence[pd.DataFrame]
    base_count: int
    whole: Effect  # on their reward

    def of_sides(self) -> tuple[Sequence[pd.DataFrame], Sequence[pd.DataFrame]]:
        return self.frames[: self.base_count], self.frames[self.base_count :]

    @cached_property
    def without_differences(self) -> tuple[bool, bool]:
        """Of each side whether all of its responses have the same reward."""
        base, new = self.of_sides()
        return _have_one_reward(base), _have_one_reward(new)

    def effect_on(self, columns: Sequence[Floats]) -> Effect:
        """Return the difference NEW - BASE of a figure that each table's responses have."""
        frames = []
        for frame, values in zip(self.frames, columns, strict=True):
            frames.append(pd.DataFrame({"pair": frame["pair"], "figure": values}))
        means = means_of(frames, self.base_count)
        return effect_on(means, "figure", paired=self.whole.paired)


def _have_one_reward(frames: Sequence[pd.DataFrame]) -> bool:
    """Return whether all responses of some runs have the same reward."""
    rewards = np.concatenate([frame["reward"] for frame in frames])
    return len(np.unique(rewards)) < 2


def decomposition_of(
    frames: Sequence[pd.DataFrame],
    base_count: int,
    effect: Effect,
    trainer: Sequence[pd.DataFrame] = (),
) -> Decomposition:
    """Decompose the effect on the reward.

    Args:
        frames: the compared responses of each run, the BASE runs first.
        base_count: number of BASE runs.
        effect: the effect on the reward of these responses.
        trainer: of runs of which only metrics are logged, the trainer's metrics by step.
    """
    if not np.isfinite(effect.value):
        return NOTHING
    compared = Compared(_counted(frames, paired=effect.paired), base_count, effect)
    weights = _weights(compared)
    properties = _properties(compared, weights)
    if len(trainer):
        tables = []
        for frame, metrics in zip(compared.frames, trainer, strict=True):
            parts = metrics.filter(regex=f"^(step$|{PART})").drop_duplicates("step")
            tables.append(frame[["step", "pair", "reward"]].merge(parts, how="left"))
        compared = replace(compared, frames=tables)
    reward_parts = _reward_parts(compared, weights)
    main = _main_property(properties, compared)
    main_part = _main_part(reward_parts, effect)
    return Decomposition(properties, reward_parts, main, main_part, effect)


def _counted(frames: Sequence[pd.DataFrame], *, paired: bool) -> list[pd.DataFrame]:
    """Return the responses that the effect counts: with a reward, to prompts that it compares."""
    counted = []
    for frame in frames:
        means = frame.groupby("pair")["reward"].transform("mean")
        known = np.isfinite(means.to_numpy()) & frame["reward"].notna().to_numpy()
        counted.append(frame[known])
    if paired:
        shared = set.intersection(*(set(frame["pair"]) for frame in counted))
        counted = [frame[frame["pair"].isin(shared)] for frame in counted]
    return counted


def _weights(compared: Compared) -> list[Floats]:
    """Return the weight of each response, a list entry per run; those of a side add up to 1."""
    weights: list[Floats] = []
    for side in compared.of_sides():
        # Number of runs that have the prompt, by prompt
        runs = pd.concat([frame["pair"].drop_duplicates() for frame in side])
        run_counts = runs.value_counts()
        for frame in side:
            responses = frame.groupby("pair")["pair"].transform("size")
            times = frame["pair"].map(run_counts) * responses * len(run_counts)
            weights.append(1 / times.to_numpy(np.float64))
    return weights


class _Category(NamedTuple):
    """Share of a category among the responses of each side, and its mean rewards."""

    base_share: float
    new_share: float
    base: float
    new: float


def _category(
    compared: Compared, weights: Sequence[Floats], members: Sequence[NDArray[np.bool_]]
) -> _Category:
    """Return how many responses of each side are members, and what these earn."""
    shares = [0.0, 0.0]
    sums = [0.0, 0.0]
    for run, (frame, weight, is_in) in enumerate(
        zip(compared.frames, weights, members, strict=True)
    ):
        side = int(run >= compared.base_count)
        shares[side] += float(weight[is_in].sum())
        sums[side] += float(
            (weight * frame["reward"].to_numpy(np.float64))[is_in].sum()
        )
    means = [
        total / share if share else np.nan
        for total, share in zip(sums, shares, strict=True)
    ]
    return _Category(*shares, *means)


class _Members(NamedTuple):
    """Which responses have a property, (responses,) for each run."""

    id: str
    mark: str
    of_runs: list[NDArray[np.bool_]]


def _properties(compared: Compared, weights: Sequence[Floats]) -> list[Property]:
    """Return the properties to show, the largest part first: all but one format and environment."""
    members = _members(compared.frames)
    if not compared.whole.paired:
        members += _of_environments(compared.frames)
    logged = {(one.id, one.mark): one for one in members}
    found = [_property(compared, weights, one) for one in logged.values()]
    found = _with_p_values(found, [one.share for one in found], compared.whole)
    formats = [one for one in found if one.id == FORMAT]
    environments = [one for one in found if one.id == ENVIRONMENT]
    shown = [one for one in found if one.id not in (FORMAT, ENVIRONMENT)]
    # What the reward pays for tells more than a mark in the text.
    paid = [one for one in formats if _is_paid(one)]
    if paid:
        shown.append(max(paid, key=lambda one: abs(one.share.value)))
    elif formats:
        shown.append(_most_telling(formats))
    if environments:
        shown.append(max(environments, key=lambda one: abs(one.share.value)))
    shown = [
        one._replace(within=_within(compared, logged[one.id, one.mark]))
        for one in shown
    ]
    return sorted(shown, key=lambda one: -np.nan_to_num(abs(one.part)))


def _with_p_values(
    found: Sequence[_AnyPart], effects: Sequence[Effect], whole: Effect
) -> list[_AnyPart]:
    """Return the rows of a table with the corrected p-values of their effects."""
    p_values = p_of_parts(effects, whole)
    pairs = zip(found, p_values, strict=True)
    return [one._replace(p=p) for one, p in pairs]


def _members(frames: Sequence[pd.DataFrame]) -> list[_Members]:
    """Return the properties that divide the responses; all runs have to log them."""
    found = []
    for id, column in _COLUMNS.items():
        if all(has(frame, column) for frame in frames):
            of_runs = [frame[column].to_numpy(np.float64) > 0 for frame in frames]
            found.append(_Members(id, "", of_runs))
    if all(has(frame, FORMATS) for frame in frames):
        marks = [marks_of(frame[FORMATS].to_numpy(np.float64)) for frame in frames]
        for bit, mark in enumerate(ANSWER_MARKS):
            of_runs = [(one >> bit & 1) > 0 for one in marks]
            found.append(_Members(FORMAT, mark, of_runs))
        found.append(_Members(FORMAT, ANY_MARK, [one > 0 for one in marks]))
    found += _paid_formats(frames)
    return [one for one in found if 0 < np.concatenate(one.of_runs).mean() < 1]


def _of_environments(frames: Sequence[pd.DataFrame]) -> list[_Members]:
    """Return the environments, which responses are of; all responses to a prompt are of one."""
    _, names, indices = environments_of(frames)
    found = []
    for number, name in enumerate(names):
        of_runs = [index == number for index in indices]
        if name and 0 < np.concatenate(of_runs).mean() < 1:
            found.append(_Members(ENVIRONMENT, name, of_runs))
    return found


def _paid_formats(frames: Sequence[pd.DataFrame]) -> list[_Members]:
    """Return the logged parts of the reward that pay for a format, and have two values."""
    found = []
    for column in map(str, frames[0].columns):
        name = column.removeprefix(PART).removeprefix(EXTRA)
        # Parts may be logged as fields of their own, which are told by their names.
        is_part = column.startswith(PART) or (
            column.startswith(EXTRA) and parts.part_name(name) is not None
        )
        if not (is_part and parts.is_format(name)):
            continue
        if not all(_is_known(frame, column) for frame in frames):
            continue
        values = np.unique(np.concatenate([frame[column] for frame in frames]))
        if len(values) == 2:
            of_runs = [frame[column].to_numpy() == values[1] for frame in frames]
            found.append(_Members(FORMAT, name, of_runs))
    return found


def marks_of(values: Floats) -> Ints:
    """Return FORMATS as integers, 0 for what a report of another make may have instead."""
    known = (values > 0) & (values < 2 ** len(ANSWER_MARKS))
    return np.where(known, values, 0).astype(np.int64)


def _within(compared: Compared, members: _Members) -> Effect:
    """Return the difference of rewards of the responses that have a property."""
    counts = [int(is_in.sum()) for is_in in members.of_runs]
    split = compared.base_count
    if min(sum(counts[:split]), sum(counts[split:])) < LEAST_WITHIN:
        return Effect(paired=compared.whole.paired)
    rewards = [
        np.where(is_in, frame["reward"].to_numpy(np.float64), np.nan)
        for frame, is_in in zip(compared.frames, members.of_runs, strict=True)
    ]
    return compared.effect_on(rewards)


def _contrast(compared: Compared, members: _Members) -> Contrast:
    """Return what a property is worth in the runs that can tell it."""
    flat = compared.without_differences
    runs = [
        (frame, of_run)
        for number, (frame, of_run) in enumerate(
            zip(compared.frames, members.of_runs, strict=True)
        )
        if all(flat) or not flat[int(number >= compared.base_count)]
    ]
    frames = [frame for frame, _ in runs]
    of_runs = [of_run for _, of_run in runs]
    if members.id == ENVIRONMENT:
        return contrast_between_prompts(frames, of_runs)
    within = contrast_within_prompts(frames, of_runs)
    if within.prompts >= LEAST_MIXED or not _is_paid(members):
        return within
    # Nearly all responses of these runs have the format. The reward is known to need it if no
    # response without it, of any run, ever earned more than another one.
    without = np.concatenate(
        [
            frame["reward"].to_numpy(np.float64)[~of_run]
            for frame, of_run in zip(compared.frames, members.of_runs, strict=True)
        ]
    )
    if len(without) < LEAST_WITHIN or len(np.unique(without)) > 1:
        return within
    return contrast_with_constant(frames, of_runs, float(without[0]))


def _is_paid(one: _Members | Property) -> bool:
    """Return whether a property is a logged part of the reward that pays for a format."""
    return one.id == FORMAT and one.mark not in (*ANSWER_MARKS, ANY_MARK)


def _property(
    compared: Compared, weights: Sequence[Floats], members: _Members
) -> Property:
    """Return a property without ``within``, which takes long."""
    of_runs = members.of_runs
    having = _category(compared, weights, of_runs)
    lacking = _category(compared, weights, [~is_in for is_in in of_runs])
    contrast = _contrast(compared, members)
    part = contrast.value * (having.new_share - having.base_share)
    share = compared.effect_on([is_in.astype(np.float64) for is_in in of_runs])
    return Property(
        id=members.id,
        mark=members.mark,
        base_share=rounded(having.base_share),
        new_share=rounded(having.new_share),
        base_with=rounded(having.base),
        new_with=rounded(having.new),
        base_without=rounded(lacking.base),
        new_without=rounded(lacking.new),
        contrast=contrast,
        part=rounded(part),
        rest=rounded(compared.whole.value - part),
        share=share,
        within=Effect(),
        p=share.p,
    )


def _most_telling(formats: Sequence[Property]) -> Property:
    """Return the way to mark an answer with which most goes, else whose share changed most.

    Any way stands for all of them if it changed clearly more than this one.
    """
    marks = [one for one in formats if one.mark != ANY_MARK]
    any_mark = next((one for one in formats if one.mark == ANY_MARK), None)
    if not marks:
        return formats[0]
    most = max(marks, key=_size)
    if any_mark and abs(most.share.value) < ALIKE * abs(any_mark.share.value):
        return any_mark
    return most


def _size(found: Property) -> tuple[float, float]:
    """Return by what ways to mark an answer are ordered: the part, then the change of the share."""
    part = float(np.nan_to_num(abs(found.part)))
    return part, abs(found.share.value)


def _is_large(part: float, p: float, effect: Effect, least: float = NAMED) -> bool:
    """Return whether a part is certain, of the effect's sign, and ``least`` of it or more."""
    is_certain = p <= 1 - LEVEL and effect.is_shown
    return is_certain and part * np.sign(effect.value) >= least * abs(effect.value)


def _main_property(
    properties: Sequence[Property], compared: Compared
) -> Property | None:
    """Return the property with which most of the effect goes, None if with none much of it does.

    Of several with about as much, it is the first in the order of properties.
    """
    effect = compared.whole
    # A side where all rewards are equal cannot tell what a property is worth there.
    least = ALIKE if any(compared.without_differences) else NAMED
    large = [
        candidate
        for candidate in properties
        if candidate.contrast.is_shown
        and _is_large(candidate.part, candidate.p, effect, least)
    ]
    if not large:
        return None
    largest_part = max(abs(candidate.part) for candidate in large)
    about_largest = [
        candidate for candidate in large if abs(candidate.part) >= ALIKE * largest_part
    ]
    order = [ENVIRONMENT, *_COLUMNS, FORMAT]
    return min(about_largest, key=lambda candidate: order.index(candidate.id))


def _main_part(parts: Sequence[RewardPart], effect: Effect) -> RewardPart | None:
    # Parts are in the order of their size.
    large = [one for one in parts if _is_large(one.part, one.p, effect)]
    return large[0] if large else None


def _reward_parts(compared: Compared, weights: Sequence[Floats]) -> list[RewardPart]:
    """Return the parts whose weighted sum is the reward of each response, [] if none are."""
    columns = map(str, compared.frames[0].columns)
    logged_parts = [name for name in columns if name.startswith(PART)]
    names = [name for name in logged_parts if _is_known_of_all(compared.frames, name)]
    if len(names) < 2:
        return []
    rows = pd.concat([frame[["reward", *names]] for frame in compared.frames])
    total = _in_order(rows["reward"])
    logged = {name: _in_order(rows[name]) for name in names}
    for choice in _choices(logged, total):
        in_reward = _weights_of_parts(choice, total)
        if in_reward:
            return _parts_of_effect(compared, weights, in_reward)
    return []


def _choices(logged: dict[str, Series], total: Series) -> list[dict[str, Series]]:
    """Return which of the logged parts may add up to the reward, the most likely ones first.

    If all do, exactly, none is a copy of the reward. The courses alone could not tell one from a
    part that differs from the reward by what is the same in all responses.
    """
    rows = np.column_stack([part.values for part in logged.values()])
    tolerance = _ROUNDING * float(np.abs(total.values).max())
    rest = total.values - rows.sum(axis=1)
    add_up = bool(np.abs(rest).max() <= tolerance)
    differences = np.abs(total.values[:, None] - rows)
    copies = differences.max(axis=0) <= tolerance
    first = [logged] if add_up and not copies.any() else []
    return [*first, *gain.choices_of_parts(logged, total)]


def _is_known_of_all(frames: Sequence[pd.DataFrame], name: str) -> bool:
    return all(_is_known(frame, name) for frame in frames)


def _is_known(frame: pd.DataFrame, name: str) -> bool:
    """Return whether a column has a number in every row."""
    values = frame.get(name)
    if values is None or values.dtype.kind != "f":
        return False
    return bool(np.isfinite(values.to_numpy()).all())


def _in_order(values: pd.Series) -> Series:
    """Return values of responses as a series, by their position."""
    return Series(np.arange(len(values)), values.to_numpy(np.float64))


def _weights_of_parts(parts: dict[str, Series], total: Series) -> dict[str, float]:
    """Return the weights with which parts add up to the reward but for a constant, {} if none."""
    x = np.column_stack([part.values for part in parts.values()])
    fitted = gain.fit_weights(x, total.values, changes=False)
    if fitted is None:
        return {}
    rest = total.values - x @ fitted
    largest = float(np.abs(total.values).max())
    if np.abs(rest - rest.mean()).max() > _ROUNDING * largest:
        return {}
    is_plain_sum = bool((fitted == 1).all())
    rank = np.linalg.matrix_rank(x - x.mean(axis=0))
    # Of parts that are alike, the weights of each are not known.
    if not is_plain_sum and rank < x.shape[1]:
        return {}
    return dict(zip(parts, fitted.tolist(), strict=True))


def _parts_of_effect(
    compared: Compared, weights: Sequence[Floats], in_reward: dict[str, float]
) -> list[RewardPart]:
    """Return what each reward part contributes to the effect, the largest contribution first.

    ``weights`` are those of the responses in the mean of their side, (R,) for each run;
    ``in_reward`` has the weight of each part in the reward.
    """
    found = []
    for name, weight_in_reward in in_reward.items():
        # A run each, those of BASE first
        values = [
            weight_in_reward * frame[name].to_numpy(np.float64)
            for frame in compared.frames
        ]
        means = [
            float((of_run * weights_of_run).sum())
            for of_run, weights_of_run in zip(values, weights, strict=True)
        ]
        base = rounded(sum(means[: compared.base_count]))
        new = rounded(sum(means[compared.base_count :]))
        effect = compared.effect_on(values)
        part = RewardPart(
            name=name.removeprefix(PART),
            weight=rounded(weight_in_reward),
            base=base,
            new=new,
            part=change(base, new),
            effect=effect,
            p=effect.p,
        )
        found.append(part)
    found = _with_p_values(found, [part.effect for part in found], compared.whole)
    return sorted(found, key=lambda part: -abs(part.part))
