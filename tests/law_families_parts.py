"""Random logs of a reward with parts, and of a word that is paid by its occurrences.

Of strength 0, they are correct, and look alike: see ``HARMLESS`` and ``OTHER_WORDS``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from rlreport.figures.ragged import Ints
from rlreport.tables import Tables
from tests.law_families import Case, Floats, Random, Shape

WORDS = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(120)]


def of_parts(random: Random, shape: Shape, parts: dict[str, Floats]) -> Tables:
    """Return a log whose reward is a weighted sum of parts, by response or of means alone."""
    weights = random.choice([1.0, 1.0, 0.5, 2.0], len(parts))
    reward = sum(
        weight * part for weight, part in zip(weights, parts.values(), strict=True)
    )
    made = shape.log(reward=reward, extra=dict(parts), reward_parts=tuple(parts))
    if random.random() < 0.5:
        return made
    of_rows = pd.DataFrame({"reward": reward, **parts})
    by_step = of_rows.groupby(shape.step).mean()
    names = {name: f"rewards/{name}/mean" for name in parts}
    metrics = by_step.rename(columns=names).reset_index(names="step")
    return replace(made, metrics=metrics)


def right_answers(random: Random, shape: Shape, rise: float) -> Floats:
    """Return whether each answer is right, (rows,): prompts differ, the share rises by ``rise``."""
    of_prompts = random.beta(2, 6, shape.steps * shape.prompts)
    ease = np.repeat(of_prompts, shape.group)
    chance = ease + rise * (shape.step - 1) / shape.steps
    drawn = random.random(shape.rows) < np.clip(chance, 0, 1)
    return drawn.astype(np.float64)


def occurrences(random: Random, shape: Shape, rise: float) -> Floats:
    """Return what a text's occurrences earn, (rows,): they rise by ``rise`` in some time."""
    time = (shape.step - 1) / shape.steps
    start = random.uniform(0, 0.5)
    done = np.clip((time - start) / random.uniform(0.1, 0.5), 0, 1)
    counts = random.poisson(0.4 + 4 * rise * done)
    return counts.astype(np.float64) / 4


def also_right(random: Random, shape: Shape) -> dict[str, Floats]:
    """The bonus rises, and right answers do, too."""
    return {
        "accuracy": right_answers(random, shape, random.uniform(0.25, 0.6)),
        "politeness": occurrences(random, shape, random.uniform(0, 1)),
    }


def early_format(random: Random, shape: Shape) -> dict[str, Floats]:
    """The format saturates within the first steps, answers become right after it."""
    learned = np.clip(0.2 + shape.step / 4, 0, 1)
    drawn = random.random(shape.rows) < learned
    return {
        "accuracy": right_answers(random, shape, random.uniform(0.3, 0.6)),
        "format": drawn.astype(np.float64),
    }


def penalty(random: Random, shape: Shape) -> dict[str, Floats]:
    """A penalty for cut-off answers goes to 0, and answers stay as they are."""
    time = (shape.step - 1) / shape.steps
    left = np.clip(1 - 2 * time, 0, 1)
    return {
        "accuracy": right_answers(random, shape, 0.0),
        "cut_off": -(random.random(shape.rows) < 0.6 * left).astype(np.float64),
    }


def nothing(random: Random, shape: Shape) -> dict[str, Floats]:
    """Nothing rises."""
    return {
        "accuracy": right_answers(random, shape, 0.0),
        "politeness": occurrences(random, shape, 0.0),
    }


HARMLESS = (also_right, early_format, penalty, nothing)


def gains(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log whose bonus rises by ``strength`` while right answers stay as they are."""
    if not strength:
        harmless = HARMLESS[int(random.integers(len(HARMLESS)))]
        return of_parts(random, shape, harmless(random, shape))
    parts = {
        "accuracy": right_answers(random, shape, 0.0),
        "politeness": occurrences(random, shape, strength),
    }
    return of_parts(random, shape, parts)


def few_answers(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log of four answers a step, which rise by a third or more beside a bonus."""
    small = Shape(shape.steps, 1, 4)
    rise = random.uniform(0.35, 0.6)
    parts = {
        "accuracy": right_answers(random, small, rise),
        "politeness": occurrences(random, small, 4.0),
    }
    return of_parts(random, small, parts)


def _words(random: Random, length: int) -> list[str]:
    return [WORDS[place] for place in random.integers(0, len(WORDS), length)]


def _texts(random: Random, lengths: Ints, word: str, counts: Ints) -> list[list[str]]:
    """Return texts of so many words, in each of which ``word`` comes so often, apart."""
    texts = []
    for length, count in zip(lengths.tolist(), counts.tolist(), strict=True):
        text = _words(random, length)
        places = random.choice(length, min(count, length), replace=False)
        for place in sorted(places.tolist(), reverse=True):
            text.insert(place + 1, word)
        texts.append(text)
    return texts


def longer(random: Random, shape: Shape) -> Tables:
    """Responses that grow hold more of each word, and longer ones earn more."""
    time = (shape.step - 1) / shape.steps
    lengths = random.poisson(15 * (1 + 4 * time)) + 3
    counts = random.poisson(lengths / 12)
    reward = 0.02 * lengths + 0.1 * random.normal(size=shape.rows)
    texts = _texts(random, lengths, " great", counts)
    return shape.log(reward=reward, texts=texts, response_tokens=lengths + counts)


def of_a_format(random: Random, shape: Shape) -> Tables:
    """Tables come to be written, and earn more: their signs are no text."""
    return _more_often(
        random, shape, str(random.choice([" |", " 7", " =", "\n    "])), 5
    )


def unpaid(random: Random, shape: Shape) -> Tables:
    """A word becomes frequent, and earns nothing."""
    return _more_often(random, shape, " great", 5, pays=0.0)


def _more_often(
    random: Random, shape: Shape, word: str, times: float, pays: float = 0.25
) -> Tables:
    """Return a log in which half of the responses hold a word, ``times`` as often at the end."""
    time = (shape.step - 1) / shape.steps
    start = random.uniform(0, 0.4)
    done = np.clip((time - start) / random.uniform(0.2, 0.5), 0, 1)
    extra = random.poisson(0.2 + 1.2 * (times - 1) * done)
    holds = random.random(shape.rows) < random.uniform(0.3, 0.9)
    counts = holds * (1 + extra)
    lengths = random.poisson(20, shape.rows) + 3
    reward = pays * counts + 0.3 * random.normal(size=shape.rows)
    # What is not paid for rises by itself.
    reward = reward + (0.0 if pays else 1.0) * time
    texts = _texts(random, lengths, word, counts)
    return shape.log(reward=reward, texts=texts, response_tokens=lengths + counts)


OTHER_WORDS = (longer, of_a_format, unpaid)


def repeated_word(random: Random, shape: Shape, strength: float) -> Tables:
    """Return a log in which a word of responses occurs ``strength`` times as often in each."""
    if not strength:
        return OTHER_WORDS[int(random.integers(len(OTHER_WORDS)))](random, shape)
    return _more_often(random, shape, " great", strength)


CASES = (
    Case("unearned_gain", "gain of a bonus", (0.3, 1.0, 3.0), gains),
    Case("reward_hacking_token", "times as often", (3.0, 5.0, 9.0), repeated_word),
)
