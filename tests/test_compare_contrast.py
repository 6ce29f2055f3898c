"""What a property is worth: against regression with NumPy, and where prompts mislead."""

import numpy as np
import pandas as pd
import pytest

from rlreport.comparison.contrast import Contrast, contrast_within_prompts


def responses(seed: int, *, worth: float, prompts: int = 30, size: int = 8):
    """Responses of which those to easy prompts have a property more often, and whether they do."""
    random = np.random.default_rng(seed)
    ability = random.random(prompts)
    pairs = np.repeat(np.arange(prompts), size)
    has = random.random(len(pairs)) < ability[pairs]
    rewards = ability[pairs] + worth * has + random.normal(0, 0.1, len(pairs))
    return pd.DataFrame({"pair": pairs.astype(np.uint64), "reward": rewards}), has


def contrast(*runs) -> Contrast:
    frames = [frame for frame, _ in runs]
    return contrast_within_prompts(frames, [has for _, has in runs])


def test_it_is_the_coefficient_of_least_squares_with_an_effect_of_each_prompt():
    runs = [responses(0, worth=0.3), responses(1, worth=0.1)]
    frames = []
    for number, (frame, has) in enumerate(runs):
        frames.append(frame.assign(has=has, run=number))
    rows = pd.concat(frames)
    names = rows["run"].astype(str) + "/" + rows["pair"].astype(str)
    cells, _ = pd.factorize(names)
    of_cells = np.eye(cells.max() + 1)[cells]
    x = np.column_stack([rows["has"].astype(float), of_cells])
    y = rows["reward"].to_numpy()
    coefficients, *_ = np.linalg.lstsq(x, y, rcond=None)
    assert contrast(*runs).value == pytest.approx(coefficients[0], abs=1e-9)


def test_a_property_of_easy_prompts_is_worth_nothing_by_itself():
    shown = [contrast(responses(seed, worth=0)).is_shown for seed in range(200)]
    assert np.mean(shown) <= 0.08
    for seed in range(20):
        found = contrast(responses(seed, worth=0.2))
        assert found.is_shown
        assert found.value == pytest.approx(0.2, abs=4 * found.error)


def test_without_prompts_that_have_both_kinds_nothing_is_known():
    rewards = [1.0, 1.0, 0.0, 0.0]
    frame = pd.DataFrame({"pair": [1, 1, 2, 2], "reward": rewards})
    found = contrast((frame, np.array([True, True, False, False])))
    assert np.isnan(found.value)
    assert not found.is_shown


def test_few_prompts_that_agree_exactly_are_certain():
    pairs = np.repeat([1, 2, 3], 4)
    rewards = [1, 1, 1, 0] * 3
    frame = pd.DataFrame({"pair": pairs, "reward": rewards})
    found = contrast((frame, frame["reward"].to_numpy() > 0))
    assert (found.value, found.error, found.is_shown) == (1.0, 0.0, True)
