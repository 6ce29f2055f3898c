"""What a comparison says of why runs differ, and for which tasks: false alarms, power, sums."""

from collections import Counter
from itertools import product

import numpy as np
import pandas as pd
import pytest

from benchmarks.compare_parts import (
    LOSSES,
    MOST_FALSE,
    Loss,
    estimate,
    names,
    pair,
    said,
    truth,
    unequal_pair,
)
from rlreport.comparison.compare import Side, compare_runs
from rlreport.comparison.data_file import trainer_rows
from rlreport.comparison.statistics import Effect, p_of_parts
from rlreport.comparison.tasks import tasks_of

DIFFERENT = Effect(-0.2, -0.3, -0.1, p=0.001, pairs=100)
NOT_SHOWN = Effect(-0.02, -0.1, 0.06, p=0.6, pairs=100)


def rewards(random, ability, size, **columns):
    """Binary rewards of ``size`` responses to each prompt."""
    prompt = np.repeat(np.arange(len(ability)), size)
    reward = random.random(len(prompt)) < ability[prompt]
    return pd.DataFrame(
        {"pair": prompt.astype(np.uint64), "reward": reward.astype(float), **columns}
    )


@pytest.mark.parametrize(
    "sizes",
    [
        (8, 2),
        (2, 8),
        (4, 4),
    ],
)
def test_no_difficulty_is_told_apart_by_chance_if_a_side_has_fewer_responses(sizes):
    told_apart = 0
    for seed in range(30):
        random = np.random.default_rng([seed, *sizes])
        ability = random.beta(1.5, 1.5, 96)
        frames = [rewards(random, ability, size) for size in sizes]
        tasks = tasks_of(frames, 1, DIFFERENT)
        told_apart += any(task.level != "none" for task in tasks.difficulties)
    # 5% of 30, and three standard deviations
    assert told_apart <= 5


def test_several_runs_of_a_side_move_no_prompt_to_another_difficulty_by_chance():
    differences = []
    for seed in range(24):
        random = np.random.default_rng(seed)
        ability = random.beta(1.5, 1.5, 96)
        frames = [rewards(random, ability, size) for size in (8, 8, 8, 2)]
        tasks = tasks_of(frames, 3, DIFFERENT)
        differences.append([task.effect.value for task in tasks.difficulties])
    hard, _, easy = np.mean(differences, axis=0)
    # By the plain mean of both sides they would be -0.2 and +0.2.
    assert abs(hard) < 0.02 and abs(easy) < 0.02


def test_parts_of_a_difference_that_is_not_shown_need_five_times_the_evidence():
    parts = [Effect(p=0.004), Effect(p=0.012), Effect(p=0.5)]
    assert p_of_parts(parts, DIFFERENT) == pytest.approx([0.012, 0.024, 0.5])
    assert p_of_parts(parts, NOT_SHOWN) == pytest.approx([0.06, 0.12, 1.0])
    assert p_of_parts([], NOT_SHOWN) == []


def odd_run(random, first):
    """A run whose prompts have unequal numbers of responses, some without a reward."""
    prompt = np.sort(random.integers(first, first + 20, 200))
    bits = random.integers(0, 32, 200)
    marks = np.where(random.random(200) < 0.7, bits, 0)
    chances = [0.4, 0.1, 0.45, 0.05]
    reward = random.choice([0, 0.1, 1, np.nan], 200, p=chances)
    columns = {
        "step": np.sort(random.integers(0, 3, 200)),
        "n": np.arange(200),
        "split": "train",
        "prompt_id": prompt,
        "pair": prompt.astype(np.uint64),
        "reward": np.where(marks > 0, reward, reward * 0.3),
        "answer_format": marks.astype(float),
        "cut_off": random.choice([0, 1, np.nan], 200),
        "tool_errors": random.poisson(0.3, 200).astype(float),
    }
    return Side("odd", pd.DataFrame(columns))


@pytest.mark.parametrize(
    ("bases", "news", "first"),
    [
        *product((1, 3), (1, 2), (0, 3)),
        (2, 2, 100),
    ],
)
def test_the_part_of_a_property_and_the_rest_add_up_to_the_difference(
    bases, news, first
):
    random = np.random.default_rng([bases, news, first])
    ends = compare_runs(
        [odd_run(random, 0) for _ in range(bases)],
        [odd_run(random, first) for _ in range(news)],
    )
    assert ends.effect.paired == (first < 100)
    properties = ends.decomposition.properties
    assert {one.id for one in properties} == {"format", "cut_off", "tool_failed"}
    for one in properties:
        assert one.part + one.rest == pytest.approx(ends.effect.value, abs=1e-9)
        assert one.new_share - one.base_share == pytest.approx(one.share.value)


def test_every_paired_prompt_has_a_difficulty_and_these_add_up_to_the_difference():
    random = np.random.default_rng(5)
    ability = random.beta(1.5, 1.5, 96)
    frames = [rewards(random, ability * factor, 8) for factor in (1, 0.8)]
    means = [frame.groupby("pair")["reward"].mean() for frame in frames]
    difficulties = tasks_of(frames, 1, DIFFERENT).difficulties
    count = sum(task.prompts for task in difficulties)
    total = sum(task.prompts * task.effect.value for task in difficulties)
    assert abs(count - 96) <= 1  # weights are rounded
    rise = (means[1] - means[0]).mean()
    assert total / count == pytest.approx(rise, abs=0.005)
    for task in difficulties:
        assert task.effect.value == pytest.approx(task.new - task.base)


def test_difficulties_are_those_of_base_whatever_new_lost():
    random = np.random.default_rng(6)
    ability = random.uniform(0.2, 0.9, 96)
    base = rewards(random, ability, 16)
    lost = ability * (np.arange(96) % 2)  # of every other prompt, hard or easy, all
    found = [
        tasks_of([base, rewards(random, new, 8)], 1, DIFFERENT).difficulties
        for new in (ability, lost)
    ]
    for equal, broken in zip(*found, strict=True):
        assert (equal.name, equal.prompts) == (broken.name, broken.prompts)
        assert equal.base == broken.base
        assert broken.new == pytest.approx(equal.base / 2, abs=0.12)
    levels = [task.base for task in found[0]]
    assert [task.name for task in found[0]] == ["hard", "medium", "easy"]
    assert levels == sorted(levels) and levels[2] - levels[0] > 0.3


def test_responses_in_the_order_of_their_rewards_are_as_far_from_a_difference():
    differences = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        ability = random.beta(1.5, 1.5, 96)
        frames = [
            rewards(random, ability, 4).sort_values("reward", kind="stable")
            for _ in range(2)
        ]
        tasks = tasks_of(frames, 1, DIFFERENT)
        differences.append([task.effect.value for task in tasks.difficulties])
    hard, *_, easy = np.mean(differences, axis=0)
    # Four standard errors
    assert abs(hard) < 0.05 and abs(easy) < 0.05


def test_with_one_response_difficulty_is_what_base_earns_at_its_other_steps():
    random = np.random.default_rng(7)
    ability = random.uniform(0.1, 0.9, 200)
    frames = [rewards(random, ability, 1) for _ in range(2)]
    assert tasks_of(frames, 1, DIFFERENT).difficulties == []
    few = rewards(random, ability[:60], 8)
    assert tasks_of(frames, 1, DIFFERENT, [few]).difficulties == []
    tasks = tasks_of(frames, 1, DIFFERENT, [rewards(random, ability, 8)])
    assert [task.name for task in tasks.difficulties] == ["hard", "medium", "easy"]
    assert sum(task.prompts for task in tasks.difficulties) == 200
    hard, _, easy = tasks.difficulties
    assert easy.base - hard.base > 0.3 and easy.new - hard.new > 0.3
    assert {task.level for task in tasks.difficulties} == {"none"}


@pytest.mark.parametrize("loss", LOSSES, ids=[loss.name for loss in LOSSES])
def test_a_planted_loss_is_named_with_its_size(loss: Loss) -> None:
    ends = compare_runs(*pair(1, loss))
    assert names(ends, loss)[:1] == [loss.main or loss.task]
    assert estimate(ends, loss) == pytest.approx(truth(1, loss), abs=0.06)


@pytest.mark.ci
@pytest.mark.parametrize("design", [pair, unequal_pair])
def test_equal_runs_are_seldom_told_apart_by_any_part_of_the_page(design):
    pairs = 200
    parts: Counter[str] = Counter()
    for seed in range(pairs):
        parts.update(said(compare_runs(*design(50_000 + seed))))
    # The limit, and two and a half standard deviations of so many pairs
    assert max(parts.values()) <= (MOST_FALSE + 0.042) * pairs, parts


def test_a_block_of_steps_that_the_window_cuts_counts_no_more_than_its_steps():
    # Blocks of 200 steps have 6, and the window of 40 begins and ends inside one.
    metrics = pd.DataFrame({"step": range(1, 201), "mean_response_length": 100.0})
    metrics.loc[metrics["step"] > 198, "mean_response_length"] = 500.0
    base = metrics.assign(mean_response_length=100.0)
    sides = []
    for name, table in (("base", base), ("new", metrics)):
        responses = pd.DataFrame(
            {
                "step": np.arange(1, 201),
                "n": 0,
                "split": "train",
                "pair": np.arange(200, dtype=np.uint64) % 20,
                "reward": 0.5,
            }
        )
        sides.append(Side(name, responses, trainer=trainer_rows(table)))
    ends = compare_runs([sides[0]], [sides[1]])
    (length,) = (one for one in ends.guardrails if one.id == "length")
    assert length.base == 100
    # Two of 40 steps have 400 more: 20 on average. A last block of these two alone would give 50.
    assert length.effect.value == pytest.approx(20, abs=3)
