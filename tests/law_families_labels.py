"""Families of random logs for the relations between labels, rewards and the grader.

They are rows for ``law_families.Case``, as that module imports this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlreport.check.finding import Severity
from rlreport.read.grades import Missing
from rlreport.tables import Tables

if TYPE_CHECKING:
    from tests.law_families import Shape

Floats = NDArray[np.float64]
Random = np.random.Generator
Make = Callable[[Random, "Shape", float], Tables]
Row = tuple[str, str, tuple[float, ...], Make, tuple[Severity, ...]]

FAULT = (Severity.WARNING, Severity.CRITICAL)
ANY = (*FAULT, Severity.INFO)


def _right(random: Random, shape: Shape) -> Floats:
    """Return which answers are right: prompts differ in difficulty, and the policy learns."""
    difficulty = np.repeat(
        random.beta(1.2, 1.2, shape.steps * shape.prompts), shape.group
    )
    gain = random.uniform(-0.05, 0.3) * _progress(shape)
    chance = np.clip(difficulty + gain, 0.02, 0.98)
    return (random.random(shape.rows) < chance).astype(np.float64)


def _progress(shape: Shape) -> Floats:
    """Return how far the run is at each response, from 0 to 1."""
    return np.asarray((shape.step - 1) / shape.steps, np.float64)


def _graded(random: Random, shape: Shape) -> tuple[Floats, Floats]:
    """Return hits and rewards of a correct log, (rows,) each.

    In some logs, answers in a wrong format earn nothing, the scale is another, or some labels
    cannot be compared. A few right answers are written in a way that is not recognized.
    """
    right = _right(random, shape)
    reward = right.copy()
    if random.random() < 0.3:
        has_format = 0.15 + random.uniform(0.2, 0.8) * _progress(shape)
        reward[random.random(shape.rows) > has_format] = 0.0
    if random.random() < 0.3:  # of -1 and 1
        reward = 2 * reward - 1
    elif random.random() < 0.3:  # with a bonus that some answers earn
        reward[random.random(shape.rows) < 0.5] += 0.1
    hit = np.where(random.random(shape.rows) < 0.004, 0.0, right)
    if random.random() < 0.3:
        has_label = np.repeat(random.random(shape.steps * shape.prompts), shape.group)
        hit[has_label < 0.3] = np.nan
    return hit, reward


def _lost(random: Random, shape: Shape, strength: float) -> Tables:
    """A share of the responses of the second half earns the best reward with a wrong answer."""
    hit, reward = _graded(random, shape)
    is_hacked = (_progress(shape) >= 0.5) & (random.random(shape.rows) < strength)
    reward[is_hacked] = reward.max()
    hit[is_hacked & np.isfinite(hit)] = 0.0
    return shape.log(reward=reward, label_hit=hit)


def _mixed_up(random: Random, shape: Shape, strength: float) -> Tables:
    """The rewards of a share of the steps are shuffled."""
    hit, reward = _graded(random, shape)
    for step in 1 + np.flatnonzero(random.random(shape.steps) < strength):
        rows = np.flatnonzero(shape.step == step)
        reward[rows] = reward[random.permutation(rows)]
    return shape.log(reward=reward, label_hit=hit)


def _shifted(random: Random, shape: Shape, strength: float) -> Tables:
    """In a share of the steps, each row has the reward of one up to three rows before."""
    hit, reward = _graded(random, shape)
    away = int(random.integers(1, 4))
    for step in 1 + np.flatnonzero(random.random(shape.steps) < strength):
        rows = np.flatnonzero(shape.step == step)
        reward[rows] = np.roll(reward[rows], away)
    return shape.log(reward=reward, label_hit=hit)


def _unpaid(random: Random, shape: Shape, strength: float) -> Tables:
    """In a share of the steps, from the first on, all responses earn the lowest reward."""
    hit, reward = _graded(random, shape)
    reward[_progress(shape) < strength] = reward.min()
    return shape.log(reward=reward, label_hit=hit)


def _formats(random: Random, shape: Shape, strength: float) -> Tables:
    """A share of the right answers earns nothing."""
    hit = _right(random, shape)
    is_paid = random.random(shape.rows) >= strength
    return shape.log(reward=hit * is_paid, label_hit=hit)


def _given_up(random: Random, shape: Shape, strength: float) -> Tables:
    """In the second half, a share of the tries (±1) is given up for a reward of 0."""
    chance = random.uniform(0.15, 0.35)
    reward = np.where(random.random(shape.rows) < chance, 1.0, -1.0)
    if not strength:  # else the mean would not rise much by giving up
        learned = random.uniform(0, 0.6) * _progress(shape)
        reward[random.random(shape.rows) < learned] = 1.0
    reward[random.random(shape.rows) < 0.1] = 0.0
    is_late = _progress(shape) >= 0.5
    reward[is_late & (random.random(shape.rows) < strength)] = 0.0
    return shape.log(reward=reward)


def _without_parts(random: Random, shape: Shape, strength: float) -> Tables:
    """A share of the rows has no part of the reward."""
    reward = _right(random, shape)
    is_missing = random.random(shape.rows) < strength
    reward[is_missing] = np.nan
    kind = np.where(is_missing, int(Missing.PARTS), 0)
    return shape.log(reward=reward, missing_grade=kind)


def _inconsistent(random: Random, shape: Shape, strength: float) -> Tables:
    """A share of the grades is wrong; some responses to a prompt are equal."""
    right = _right(random, shape)
    # Short answers: few different ones, each right or wrong
    answer = 2 * random.integers(0, random.integers(3, 40), shape.rows) + right
    is_wrong = random.random(shape.rows) < strength
    reward: Any = np.where(is_wrong, 1 - right, right)
    return shape.log(reward=reward, response_hash=answer.astype(np.int64))


CASES: tuple[Row, ...] = (
    ("label_lost", "share of late responses", (0.05, 0.1, 0.2, 0.5), _lost, FAULT),
    ("label_reward_mismatch", "share of steps", (0.2, 0.5, 1.0), _mixed_up, FAULT),
    ("rewards_shifted", "share of steps", (0.5, 0.8, 1.0), _shifted, FAULT),
    ("right_answers_unpaid", "share of steps", (0.25, 0.5, 1.0), _unpaid, FAULT),
    ("format_rewarded", "share of right answers", (0.1, 0.3, 0.6), _formats, ANY),
    ("best_reward_gone", "share of late tries", (0.5, 0.8, 0.95), _given_up, FAULT),
    ("missing_grades", "share of rewards", (0.01, 0.05, 0.2), _without_parts, FAULT),
    ("grader_inconsistent", "share of grades", (0.01, 0.1, 0.3), _inconsistent, FAULT),
)
