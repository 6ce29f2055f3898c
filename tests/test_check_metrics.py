"""Checks of groups, length, KL, entropy and gradient norm on what the trainer logged itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlreport.check.finding import NotRun
from rlreport.tables import Tables
from tests.check_cases import (
    INDEX,
    SIGN,
    STEP,
    STEPS,
    find,
    moved,
    run,
    severity,
    share,
    tables,
    title,
)


def _logged(made: Tables, **metrics: Any) -> Tables:
    """Return a run whose trainer logged these metrics, one number per step; ``__`` is a slash."""
    named = {name.replace("__", "/"): values for name, values in metrics.items()}
    return replace(made, metrics=pd.DataFrame({"step": np.arange(STEPS), **named}))


def _late(first: float, last: float, since: int = STEPS - 8) -> Any:
    return np.where(np.arange(STEPS) < since, first, last)


def test_groups_that_are_solved_are_a_note_though_the_reward_rises_no_more() -> None:
    group = INDEX // 2
    reward = np.where(group < 40, 1.0, np.where(INDEX % 2, 1.0, 0.0))
    made = tables(prompt_id=group, reward=reward)
    assert severity("zero_variance_groups", made) == "info"
    found = find("zero_variance_groups", made)
    assert "harder prompts would teach more" in title(found)
    assert severity("zero_variance_groups", tables(prompt_id=group, reward=1 - reward)) == "warning"


def test_hard_groups_are_a_note_where_the_run_learns_and_they_become_fewer() -> None:
    group = INDEX // 2
    wrong = np.where(STEP < STEPS - 8, 45, 30) > group
    reward = np.where(wrong, 0.0, np.where(INDEX % 2, 1.0, 0.0))
    assert severity("zero_variance_groups", tables(prompt_id=group, reward=reward)) == "info"


def test_responses_that_never_had_an_end_token_are_not_cut_off() -> None:
    tokens = 50.0 + INDEX
    chance = np.where((STEP == 3) & (INDEX < 2), 1.0, 0.0)
    made = tables(finished=chance, response_tokens=tokens)
    assert severity("missing_eos", made) is None
    assert isinstance(run("missing_eos", tables(finished=chance)), NotRun)


@pytest.mark.parametrize(("last", "expected"), [(0.19, None), (0.21, "warning")])
def test_lengths_that_come_to_pile_up_at_one_maximum_are_cut_off(
    last: float, expected: str | None
) -> None:
    tokens = np.where(share(0, last) == 1, 256.0, 50.0 + INDEX)
    assert severity("missing_eos", tables(response_tokens=tokens)) == expected


def test_a_high_share_without_end_tokens_counts_only_at_one_length() -> None:
    half = np.where(INDEX < 60, 0.0, 1.0)
    for tokens, expected in ((256.0, "warning"), (50.0 + INDEX, None)):
        cut = np.where(half == 0, tokens, 80.0)
        made = tables(finished=half, response_tokens=cut)
        assert severity("missing_eos", made) == expected


def test_all_responses_cut_off_by_their_finish_reason_are_found() -> None:
    assert severity("missing_eos", tables(finished=0.0, response_tokens=50.0 + INDEX)) == "warning"


def test_learning_to_stop_is_no_collapse_of_length() -> None:
    stops = share(0.1, 0.95) == 1
    tokens = np.where(stops, 180.0, 1024.0) + SIGN
    made = tables(finished=stops.astype(float), response_tokens=tokens)
    assert severity("length_collapse", made) is None


def test_the_trainers_length_is_judged_from_its_first_steps() -> None:
    fell = 16 + 290 * np.exp(-np.arange(STEPS) / 3) + 0.2 * (np.arange(STEPS) % 2)
    rises = tables(reward=SIGN + STEP)
    found = find("length_collapse", _logged(rises, response_length__mean=fell))
    assert (found.severity, found.facts["series_from"]) == ("warning", "metrics")
    assert found.onset and found.onset.step <= 10
    less = _logged(rises, response_length__mean=np.maximum(fell, 100))
    assert severity("length_collapse", less) is None


def test_a_few_long_responses_less_are_no_collapse() -> None:
    tokens = np.where((INDEX < 10) & (STEP < 30), 2000.0, 20.0) + SIGN
    assert severity("length_collapse", tables(response_tokens=tokens)) is None


@pytest.mark.parametrize(("since", "expected"), [(37, "critical"), (0, "info")])
def test_responses_that_are_all_empty_at_the_end_are_the_death_of_a_run(
    since: int, expected: str
) -> None:
    empty = since <= STEP
    made = tables(
        response_tokens=np.where(empty, 1.0, 40.0),
        response_chars=np.where(empty, 0, 160),
        finished=1.0,
    )
    assert severity("length_collapse", made) == expected


def test_length_is_no_hack_where_the_watched_reward_rises_or_groups_do_not_pay_it() -> None:
    tokens = moved(40, 80) + 10 * SIGN
    assert severity("length_hacking", tables(response_tokens=tokens)) == "warning"
    watched = tables(response_tokens=tokens, valid_reward=STEP + 0.1 * SIGN)
    assert severity("length_hacking", watched) is None
    # Prompts that need long answers earn more, but inside a prompt length does not pay.
    apart = {"prompt_id": INDEX // 2 * 2 + INDEX % 2, "response_tokens": tokens}
    assert severity("length_hacking", tables(**apart, group=INDEX % 2 + 2 * STEP)) is None


@pytest.mark.parametrize(("steps", "expected"), [(5, "info"), (6, "warning")])
@pytest.mark.parametrize(("name", "small"), [("objective/kl", 2.0), ("kl", 0.02)])
def test_an_excursion_of_the_kl_is_a_note_and_a_long_one_a_warning(
    name: str, small: float, steps: int, expected: str
) -> None:
    place = np.arange(STEPS)
    kl = np.where((place >= 12) & (place < 12 + steps), small * 100, small)
    found = find("kl_explosion", _logged(tables(), **{name: kl}))
    assert found.severity == expected
    assert found.onset is not None
    assert (found.onset.step, found.until) == (12, 11 + steps)
    assert severity("kl_explosion", _logged(tables(), **{name: kl / 1000})) is None


def test_the_trainers_entropy_is_judged_where_the_rollouts_hold_none() -> None:
    certain = _late(0.9, 0.05) + 0.001 * (np.arange(STEPS) % 2)
    assert severity("entropy_collapse", _logged(tables(), actor__entropy=certain)) == "warning"
    learns = _logged(tables(reward=SIGN + STEP), actor__entropy=certain)
    assert severity("entropy_collapse", learns) == "info"
    random = _logged(tables(), actor__entropy=_late(0.5, 4.0))
    assert severity("entropy_explosion", random) == "warning"
    assert isinstance(run("entropy_explosion", tables()), NotRun)


@pytest.mark.parametrize(("clipped", "expected"), [(0.3, None), (0.31, "warning")])
def test_the_clip_fraction_tells_of_updates_that_are_too_large(
    clipped: float, expected: str | None
) -> None:
    made = _logged(tables(), actor__pg_clipfrac=np.full(STEPS, clipped))
    assert severity("ratio_drift", made) == expected


def test_a_gradient_explosion_warns_where_the_reward_falls_after_it() -> None:
    norm = np.where(np.arange(STEPS) == 19, 500.0, 1.0)
    quiet = find("gradient_explosion", _logged(tables(), grad_norm=norm))
    assert (quiet.severity, quiet.rank) == ("info", "note")
    dies = tables(reward=np.where(STEP < 21, 1.0, 0.0) + 0.1 * SIGN)
    found = find("gradient_explosion", _logged(dies, grad_norm=norm))
    assert (found.severity, found.rank) == ("warning", "cause")
    assert found.onset and found.onset.step == 19
    early = np.where(np.arange(STEPS) == 5, 500.0, 1.0)
    assert severity("gradient_explosion", _logged(dies, grad_norm=early)) == "info"
    assert severity("gradient_explosion", _logged(dies, grad_norm=norm.clip(0, 100))) is None
    assert isinstance(run("gradient_explosion", tables()), NotRun)
