"""Random logs of advantages, of eleven estimators and with faults, and of batches.

Each estimator is written from the formula of its paper. A correct log may also lack rows, have
groups of different sizes, rounded advantages or a constant scale of rewards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import comb
from types import MappingProxyType

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.finding import Severity
from rlreport.tables import Tables
from tests.law_families import Case, Floats, Random, Shape, rewards
from tests.tables_builder import make_tables

Ints = NDArray[np.int64]


class Groups:
    """Rewards of 0 and 1, lengths, and groups of responses; sums and means are by group."""

    def __init__(self, random: Random, shape: Shape) -> None:
        self.random = random
        self.reward = rewards(random, shape)
        self.group = shape.prompt
        self.step = shape.step
        # Wrong answers are longer.
        self.length = np.ceil(random.lognormal(4.5, 0.4, shape.rows))
        self.length += np.where(self.reward == 0, 20.0, 0.0)

    def mean(self, values: Floats, group: Ints | None = None) -> Floats:
        """Return the mean of each response's group."""
        by_group = pd.Series(values).groupby(self.group if group is None else group)
        return by_group.transform("mean").to_numpy(np.float64)

    def std(self, values: Floats, group: Ints | None = None) -> Floats:
        """Return the population std of each response's group."""
        mean = self.mean(values, group)
        return np.sqrt(self.mean((values - mean) ** 2, group))

    @property
    def size(self) -> Floats:
        """The number of responses of each response's group."""
        return np.bincount(self.group)[self.group].astype(np.float64)


def grpo(groups: Groups, reward: Floats | None = None) -> Floats:
    """Shao et al. 2024, DeepSeekMath: (r − mean) / std of the group."""
    values = groups.reward if reward is None else reward
    return (values - groups.mean(values)) / (groups.std(values) + 1e-6)


def dr_grpo(groups: Groups) -> Floats:
    """Liu et al. 2025, Understanding R1-Zero-like training: r − mean of the group."""
    return groups.reward - groups.mean(groups.reward)


def rloo(groups: Groups) -> Floats:
    """Ahmadian et al. 2024, Back to basics: r − mean of the others of the group."""
    size = groups.size
    others = (groups.mean(groups.reward) * size - groups.reward) / (size - 1)
    return groups.reward - others


def reinforce_plus(groups: Groups) -> Floats:
    """Hu 2025, REINFORCE++: (r − mean) / std of the batch."""
    mean = groups.mean(groups.reward, groups.step)
    return (groups.reward - mean) / (groups.std(groups.reward, groups.step) + 1e-8)


def remax(groups: Groups) -> Floats:
    """Li et al. 2024, ReMax: r − reward of the greedy response to the prompt."""
    chance = groups.mean(groups.reward)
    of_prompt = groups.random.random(groups.group.max() + 1)[groups.group]
    return groups.reward - np.where(of_prompt < chance, 1.0, 0.0)


def opo(groups: Groups) -> Floats:
    """Hao et al. 2025, On-policy RL with optimal baseline: Σ length · r / Σ length of the group."""
    weighted = groups.mean(groups.length * groups.reward)
    return groups.reward - weighted / groups.mean(groups.length)


def pass_at_k(groups: Groups) -> Floats:
    """Chen et al. 2025, Pass@k training: the analytical advantage, k a quarter of the group."""
    found = np.zeros(len(groups.reward))
    for group in np.unique(groups.group):
        at = groups.group == group
        size = int(at.sum())
        k = max(2, size // 4)
        wrong = int((groups.reward[at] == 0).sum())
        mean = 1 - comb(wrong, k) / comb(size, k)
        std = np.sqrt(mean * (1 - mean))
        if not std:
            continue
        # Of a wrong response: the chance that its k − 1 others are wrong, too
        ways = comb(max(wrong - 1, 0), k - 1)
        others_wrong = ways / comb(size - 1, k - 1)
        is_right = groups.reward[at] == 1
        found[at] = np.where(is_right, 1 - mean, 1 - mean - others_wrong) / std
    return found


def gdpo(groups: Groups) -> Floats:
    """Liu et al. 2026, GDPO: each part of the reward normalised by itself, then the batch."""
    luck = groups.random.random(len(groups.reward))
    of_format = np.where(luck < 0.7, 1.0, 0.0)
    total = grpo(groups) + grpo(groups, of_format)
    groups.reward = groups.reward + of_format
    mean = groups.mean(total, groups.step)
    return (total - mean) / (groups.std(total, groups.step) + 1e-6)


def length_shaped(groups: Groups) -> Floats:
    """Team Kimi 2025, k1.5: a bonus for short responses of the group, not in the logged reward."""
    by_group = pd.Series(groups.length).groupby(groups.group)
    shortest = by_group.transform("min").to_numpy()
    longest = by_group.transform("max").to_numpy()
    bonus = 0.5 - (groups.length - shortest) / np.maximum(longest - shortest, 1)
    bonus = np.where(groups.reward == 1, bonus, np.minimum(bonus, 0))
    shaped = groups.reward + 0.3 * bonus
    return shaped - groups.mean(shaped)


def raw(groups: Groups) -> Floats:
    """Williams 1992, REINFORCE without a baseline: r."""
    return groups.reward.copy()


def noisy(groups: Groups) -> Floats:
    """GRPO on rewards with noise, which the log does not have."""
    return grpo(
        groups, groups.reward + groups.random.normal(0, 0.05, len(groups.reward))
    )


ESTIMATORS: tuple[Callable[[Groups], Floats], ...] = (
    grpo,
    dr_grpo,
    rloo,
    reinforce_plus,
    remax,
    opo,
    pass_at_k,
    gdpo,
    length_shaped,
    raw,
    noisy,
)


def logged(
    groups: Groups,
    advantage: Floats,
    kept: NDArray[np.bool_] | None = None,
    more: Mapping[str, Floats] = MappingProxyType({}),
) -> Tables:
    """Return the tables of a log with the kept responses, by default all, and more columns."""
    if kept is None:
        kept = np.ones(len(advantage), bool)
    columns = {
        "step": groups.step,
        "prompt_id": groups.group,
        "group": groups.group,
        "group_hash": groups.group + 1,
        "reward": groups.reward,
        "response_tokens": groups.length,
        "advantage_logged_mean": advantage,
        **more,
    }
    return make_tables({name: values[kept] for name, values in columns.items()})


def of_estimator(
    random: Random, shape: Shape, estimator: Callable[[Groups], Floats], variant: int
) -> Tables:
    """Return a correct log.

    Args:
        random: the source of chance.
        shape: of the log.
        estimator: of its advantages.
        variant: 0 plain, 1 rows dropped at random, 2 groups without a signal and some of the
            others' rows filtered, 3 groups of different sizes, 4 rounded to 5 digits, 5 rewards
            and advantages at a constant scale.
    """
    groups = Groups(random, shape)
    kept = np.ones(shape.rows, bool)
    if variant == 3:  # before advantages are computed
        rank = np.arange(shape.rows) % shape.group
        size = random.integers(2, shape.group + 1, groups.group.max() + 1)
        _keep(groups, rank < size[groups.group])
        kept = np.ones(len(groups.reward), bool)
    advantage = estimator(groups)
    if variant == 1:
        kept = random.random(shape.rows) > random.uniform(0.02, 0.5)
    elif variant == 2:
        kept = groups.std(groups.reward) > 0
        is_long = groups.length > np.quantile(groups.length, 0.9)
        kept &= ~is_long | (groups.reward > 0)
    elif variant == 4:
        advantage = np.round(advantage, 5)
    elif variant == 5:
        scale = float(10 ** random.uniform(-2, 2))
        groups.reward = groups.reward * scale
        advantage = advantage * float(10 ** random.uniform(-2, 2))
    return logged(groups, advantage, kept)


def _keep(groups: Groups, kept: NDArray[np.bool_]) -> None:
    """Leave these responses of the groups."""
    for name in ("reward", "length", "step", "group"):
        setattr(groups, name, getattr(groups, name)[kept])


VARIANTS = 6


def _correct(random: Random, shape: Shape) -> Tables:
    estimator = ESTIMATORS[random.integers(len(ESTIMATORS))]
    return of_estimator(random, shape, estimator, int(random.integers(VARIANTS)))


def _since(random: Random, shape: Shape, share: float) -> NDArray[np.bool_]:
    """Return which responses are of the last steps, a share of all, (rows,)."""
    first = 1 + round(shape.steps * (1 - share))
    return shape.step >= first


def _with(fault: Callable[[Groups, Shape], Floats]) -> Callable[..., Tables]:
    """Return a maker of logs with a fault of advantages in a share of the steps, the last ones."""

    def make(random: Random, shape: Shape, strength: float) -> Tables:
        if not strength:
            return _correct(random, shape)
        groups = Groups(random, shape)
        advantage = np.where(
            _since(random, shape, strength), fault(groups, shape), grpo(groups)
        )
        return logged(groups, advantage)

    return make


def of_wrong_sign(groups: Groups, shape: Shape) -> Floats:
    return -grpo(groups)


def shifted_by_a_row(groups: Groups, shape: Shape) -> Floats:
    return np.roll(grpo(groups), 1)


def _over(groups: Groups, other: Ints) -> Floats:
    """Return GRPO's advantages with groups that are not those of the prompts."""
    mean = groups.mean(groups.reward, other)
    return (groups.reward - mean) / (groups.std(groups.reward, other) + 1e-6)


def reshaped(groups: Groups, shape: Shape) -> Floats:
    """R1-V#67: two prompts per device lie alternately, but neighbours make the groups."""
    pairs = np.arange(shape.rows).reshape(-1, shape.group)
    even = len(pairs) // 2 * 2
    # Of two groups in turn: the first half of both is one group, the second half the other
    both = pairs[:even].reshape(-1, 2, shape.group)
    in_turn = both.swapaxes(1, 2)
    rest = pairs[even:].ravel()
    order = np.append(in_turn.ravel(), rest)
    for name in ("reward", "length", "group"):
        setattr(groups, name, getattr(groups, name)[order])
    return _over(groups, np.repeat(np.arange(len(pairs)), shape.group))


def over_other_groups(groups: Groups, shape: Shape) -> Floats:
    """The baseline is that of groups that chance makes of the responses of a step."""
    order = np.lexsort((groups.random.random(shape.rows), groups.step))
    other = np.empty(shape.rows, np.int64)
    other[order] = np.arange(shape.rows) // shape.group
    return _over(groups, other)


def _outlier(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log in which one advantage is so many times as large as usual."""
    if not strength:
        return _correct(random, shape)
    groups = Groups(random, shape)
    advantage = grpo(groups)
    advantage[random.integers(shape.rows)] = strength
    return logged(groups, advantage)


def _uneven(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log with group ids in which a share of groups lacks a response."""
    groups = Groups(random, shape)
    is_first = np.arange(shape.rows) % shape.group == 0
    lacks = random.random(groups.group.max() + 1) < strength
    kept = ~(is_first & lacks[groups.group])
    if not strength:
        # The last step is not complete.
        missing = int(random.integers(2 * shape.group))
        kept[shape.rows - missing :] = False
    return logged(groups, grpo(groups), kept)


def _without_groups(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log whose groups are not recognised in a share of its steps.

    The baseline is none, or the mean of the step. Correct logs have the mean of the group.
    """
    groups = Groups(random, shape)
    of_group = dr_grpo(groups)
    without = reinforce_plus(groups) if random.random() < 0.5 else groups.reward
    is_faulty = (groups.step - 1) < strength * shape.steps
    return logged(groups, np.where(is_faulty, without, of_group))


def _repeating(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log whose last steps, so many, have the prompts of the first ones in order.

    Without them it has epochs in random order, the same prompts in each step, or new ones.
    """
    steps = np.arange(shape.steps)
    order = np.arange(shape.steps * shape.prompts).reshape(shape.steps, shape.prompts)
    kind = int(random.integers(3))
    if strength:
        again = min(int(strength), shape.steps // 2)
        order = np.where((steps >= shape.steps - again)[:, None], 0, order)
        order[shape.steps - again :] = order[:again]
    elif kind == 0:
        epoch = max(shape.steps // 3, 1)
        of_epoch = np.arange(epoch * shape.prompts)
        mixed = [random.permutation(of_epoch) for _ in range(4)]
        order = np.concatenate(mixed).reshape(-1, shape.prompts)[: shape.steps]
    elif kind == 1:
        order = np.broadcast_to(np.arange(shape.prompts), order.shape)
    prompt = order.reshape(-1).repeat(shape.group)[: shape.rows]
    short = np.arange(len(prompt))
    return make_tables(
        {
            "step": shape.step[short],
            "prompt_id": prompt,
            "reward": rewards(random, shape)[short],
        }
    )


STEPS = "share of steps"
ANY = (Severity.INFO, Severity.WARNING, Severity.CRITICAL)
CASES = (
    # From the first step on, the log may be wrong rather than the trainer: a note is enough.
    Case(
        "advantage_mismatch",
        STEPS,
        (0.3, 1.0),
        _with(of_wrong_sign),
        ANY,
        name="advantages of the wrong sign",
    ),
    Case(
        "advantage_mismatch",
        STEPS,
        (0.3, 1.0),
        _with(shifted_by_a_row),
        ANY,
        name="advantages of the next row",
    ),
    Case(
        "advantage_mismatch",
        STEPS,
        (0.3, 0.6, 1.0),
        _with(reshaped),
        name="advantages of rows in another order",
    ),
    Case(
        "advantage_mismatch",
        STEPS,
        (0.3, 0.6, 1.0),
        _with(over_other_groups),
        name="advantages over groups of other prompts",
    ),
    Case("advantage_outlier", "times the median", (500, 2000, 1e5), _outlier),
    Case(
        "uneven_groups", "share of groups", (0.02, 0.1, 0.3), _uneven, (Severity.INFO,)
    ),
    Case(
        "advantage_baseline",
        STEPS,
        (0.3, 1.0),
        _without_groups,
        (Severity.INFO,),
        name="responses to a prompt are not recognised as a group",
    ),
    Case("order_repeated", "steps", (3, 5, 20), _repeating, (Severity.INFO,)),
)
