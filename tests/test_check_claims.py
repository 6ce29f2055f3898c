"""What findings and the verdict claim holds for the responses and steps that they name."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlreport.check import means, run_checks
from rlreport.check.finding import Severity
from rlreport.check.means import MixChange
from rlreport.check.run import Run
from rlreport.check.verdict import Verdict
from rlreport.flows.build import check_logs
from rlreport.options import BuildOptions
from rlreport.summarise.run import prompt_table
from rlreport.tables import Tables
from tests.reading import write
from tests.tables_builder import (
    INDEX,
    SIGN,
    SIZE,
    STEP,
    STEPS,
    WINDOW,
    find,
    make_tables,
    severity,
    share,
    tables,
    title,
)
from tests.test_check_environments import constant, environments, rising, shifted
from tests.test_check_judges import PLACE, spreading, with_metrics

Metric = Callable[[int], float]


def verdict_of_metrics(folder: Path, **metrics: Metric) -> Verdict:
    """Judge a run of which only these metrics are logged."""
    lines = []
    for step in range(60):
        values = {name: metric(step) for name, metric in metrics.items()}
        lines.append({"step": step, **values})
    path = write(folder / "metrics.jsonl", lines)
    return check_logs([path], BuildOptions(workers=1))


def severities(verdict: Verdict) -> dict[str, str]:
    return {finding.id: finding.severity for finding in verdict.findings}


def test_a_single_evaluation_was_and_has_no_course(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = []
    for step in range(60):
        lines.append({"step": step, "reward": 0.01 * step + 0.01 * (step % 3)})
    lines[40]["eval/reward"] = 0.25
    path = write(tmp_path / "metrics.jsonl", lines)
    verdict = check_logs([path], BuildOptions(workers=1))
    said = "Validation was 0.25 in the one evaluation logged (step 40)."
    assert said in verdict.sentence
    assert "stays" not in verdict.sentence
    assert verdict.courses["validation"].curve.pieces == ()
    # One evaluation does not tell which checkpoint is best.
    assert verdict.keep_step == 59


def test_equal_groups_are_not_solved_if_the_best_reward_is_not_known(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    dense = 0.87 + 0.02 * rng.normal(size=60)
    verdict = verdict_of_metrics(
        tmp_path,
        reward=lambda step: float(dense[step]),
        frac_reward_zero_std=lambda step: 1.0,
    )
    assert severities(verdict)["zero_variance_groups"] == "warning"
    assert "100% of groups give no learning signal" in verdict.sentence


def test_equal_groups_that_earn_the_best_reward_of_many_steps_are_a_note(
    tmp_path: Path,
) -> None:
    # One group per step: it is solved in four of five steps, and in some of the others all fail.
    rewards = [0.2, 0.6] + [1.2] * 8
    verdict = verdict_of_metrics(
        tmp_path,
        reward=lambda step: rewards[step * 7 % 10],
        frac_reward_zero_std=lambda step: float(step * 7 % 10 != 1),
    )
    assert severities(verdict)["zero_variance_groups"] == "info"


def test_a_gradient_of_0_in_steps_without_a_signal_is_no_fault(tmp_path: Path) -> None:
    """A step of one group has no gradient where its rewards are equal; the others train."""
    is_equal = np.random.default_rng(3).random(60) < 0.6

    def judged(gradient: Metric, **more: Metric) -> dict[str, str]:
        flat = {"reward": lambda s: 0.3 + 0.01 * (s % 5), "grad_norm": gradient}
        return severities(verdict_of_metrics(tmp_path, **{**flat, **more}))

    def scattered(step: int) -> float:
        return 0.0 if is_equal[step] else 1.0

    def zero_std(step: int) -> float:
        return float(is_equal[step])

    def std(step: int) -> float:
        return 0.0 if is_equal[step] else 0.4

    def vanishing(step: int) -> float:
        return 1.0 if step < 30 else 0.0

    assert "no_updates" not in judged(scattered, frac_reward_zero_std=zero_std)
    assert "no_updates" not in judged(scattered, reward_std=std)
    assert "no_updates" not in judged(scattered), "other steps have a gradient"
    assert judged(vanishing)["no_updates"] == "warning"
    some_signal = judged(vanishing, frac_reward_zero_std=zero_std)
    assert some_signal["no_updates"] == "warning"


def equal_groups(late: Any, best: float = 1.0) -> Tables:
    """Pairs that earn different rewards, in the last window ``late`` for most of them."""
    pair = INDEX // 2
    mixed = np.where(INDEX % 2, best, 0.0)
    is_late = STEP >= STEPS - WINDOW
    late_equal = (pair < 40) & is_late
    early_equal = (pair < 5) & ~is_late
    reward = np.select([late_equal, early_equal], [late, 0.0], mixed)
    return tables(prompt_id=pair, reward=reward)


def test_a_count_of_0_is_not_said_of_groups_without_a_signal() -> None:
    between = title(find("zero_variance_groups", equal_groups(0.5)))
    assert "neither the lowest nor the best" in between
    assert "in 0" not in between
    some_best = np.where(INDEX // 2 < 4, 1.0, 0.5)
    best = title(find("zero_variance_groups", equal_groups(some_best)))
    assert best.endswith("in 32, all responses earn the best reward.")


@pytest.mark.parametrize("late", [0.0, 1.0], ids=["wrong", "solved"])
def test_groups_are_shown_by_responses_of_the_last_steps_that_earn_what_is_said(
    late,
) -> None:
    found = find("zero_variance_groups", equal_groups(late))
    assert ("solved" in title(found)) == (late == 1.0)
    assert len(found.evidence) == 3
    for example in found.evidence:
        assert example.value == late
        assert example.step >= STEPS - WINDOW


def test_groups_without_a_signal_from_the_start_are_shown_by_the_last_steps() -> None:
    reward = np.where(INDEX < 80, 0.0, INDEX % 2)
    found = find("zero_variance_groups", tables(prompt_id=INDEX // 2, reward=reward))
    assert found.onset is not None and found.onset.step == 0
    assert all(example.step >= STEPS - WINDOW for example in found.evidence)
    assert len(found.evidence) == 3


def test_groups_without_a_signal_in_the_past_are_told_with_their_steps_and_the_end() -> (
    None
):
    is_equal = (STEP < 12) | (INDEX < 10)
    reward = np.where(is_equal, 0.0, INDEX % 2)
    found = find("zero_variance_groups", tables(prompt_id=INDEX // 2, reward=reward))
    assert found.until == 11
    assert title(found) == (
        "100% of groups gave no learning signal in steps 0 to 11 (100% at the start, "
        "10% at the end)."
    )
    assert found.severity is Severity.INFO


def test_groups_that_a_hack_pays_are_not_called_solved() -> None:
    held = share(0.02, 0.9)
    noise = np.random.default_rng(2).normal(size=len(STEP))
    reward = np.where(held == 1, 3.0, np.minimum(noise, 2.0))
    made = spreading(held, [["#"]], reward, prompt_id=INDEX // 2)
    assert severity("reward_hacking_token", made) in ("warning", "critical")
    words = title(find("zero_variance_groups", made))
    assert "all responses earn the best reward" in words
    assert "solved" not in words
    without = replace(made, words=None)
    assert "are solved" in title(find("zero_variance_groups", without))


def test_groups_of_incorrect_responses_are_not_called_solved() -> None:
    made = equal_groups(1.0)
    made.responses["correct"] = 0.0
    assert "solved" not in title(find("zero_variance_groups", made))


def test_an_earlier_response_shown_for_comparison_lacks_what_the_finding_claims() -> (
    None
):
    in_every_other_step = INDEX % 2 == STEP % 2
    empty = np.where(in_every_other_step, share(0.1, 1.0), 0.0)
    found = find("void_turns", tables(turns=1.0, void_turns=empty, prompt_id=INDEX))
    before = [example.before for example in found.evidence if example.before]
    assert before
    is_empty = empty.reshape(STEPS, SIZE)
    assert all(is_empty[example.step, example.n] for example in found.evidence)
    assert not any(is_empty[example.step, example.n] for example in before)


def test_a_fall_that_recovered_is_shown_by_responses_inside_it() -> None:
    depth = np.clip(3 - np.abs(STEP - 18) / 2, 0, 1)
    reward = 1.0 - depth + 0.1 * SIGN + 0.01 * (STEP % 3)
    reward[(STEP > 30) & (INDEX < 3)] = -1.0
    found = find("reward_collapse", tables(reward=reward))
    assert found.until is not None and found.onset is not None
    assert found.evidence
    for example in found.evidence:
        assert found.onset.step <= example.step <= found.until


IS_ALIVE = (PLACE < 15) | (PLACE == 30)
GRADIENTS = {
    "vanished": np.where(PLACE < 8, 1.0, 0.001) + 0.0001 * PLACE,
    "nearly 0, and one step with a signal": np.where(PLACE == 20, 2.5, 1e-5),
    "steps without a signal between others": np.where(PLACE % 3 == 0, 2.0, 1e-4),
    "one that returns after it vanished": np.where(IS_ALIVE, 1.0, 1e-4),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_gradient_that_vanishes_or_is_nearly_0_is_no_explosion(name: str) -> None:
    made = with_metrics(tables(), grad_norm=GRADIENTS[name])
    assert severity("gradient_explosion", made) is None


def test_a_gradient_is_compared_with_steps_that_had_a_signal() -> None:
    silent = np.where(PLACE % 4, 1.0, 0.0)
    norm = np.where(silent, 0.02, 10.0)
    logged = with_metrics(tables(), grad_norm=norm, frac_reward_zero_std=silent)
    assert severity("gradient_explosion", logged) is None
    norm[30] = 5000.0
    logged = with_metrics(tables(), grad_norm=norm, frac_reward_zero_std=silent)
    assert severity("gradient_explosion", logged) == "info"


def test_a_gradient_that_exploded_for_most_of_the_run_is_found_where_it_began() -> None:
    norm = np.where(PLACE < 12, 0.5, 800.0 + PLACE)
    found = find("gradient_explosion", with_metrics(tables(), grad_norm=norm))
    assert found.steps == tuple(range(12, STEPS))
    assert title(found).endswith("its median before was 0.500.")


# A slow rise after the fall, so that it is no death at the lowest value
AFTER = 0.3 * np.maximum(STEP - STEPS / 2, 0) / STEPS


def curriculum(
    own_loss: float, *, shared: int, noise: float = 0.0, **columns: Any
) -> Tables:
    """Return a run whose prompts become harder in its second half, and whose policy loses, too.

    So many of a step's 100 prompts are those of the first half; the others are new and earn less.
    """
    is_late = STEP >= STEPS // 2
    is_new = is_late & (shared <= INDEX)
    noise_of_prompt = noise * np.random.default_rng(5).normal(size=shared)
    shared_prompt = np.minimum(INDEX, shared - 1)
    late_loss = own_loss + noise_of_prompt[shared_prompt]
    shared_reward = np.where(is_late, 1.0 - late_loss, 1.0)
    reward = np.where(is_new, -1.0, shared_reward) + AFTER + 0.05 * SIGN
    prompt = np.where(is_new, INDEX + 100, INDEX)
    return tables(prompt_id=prompt, reward=reward, **columns)


def test_harder_prompts_excuse_a_fall_if_the_loss_on_shared_prompts_is_bounded() -> (
    None
):
    bounded = find("reward_collapse", curriculum(0.0, shared=40))
    assert (bounded.severity, bounded.facts["kind"]) == ("info", "prompts")
    assert title(bounded).endswith("by at most 0: the prompts became harder.")


def test_harder_prompts_do_not_excuse_a_fall_if_shared_prompts_do_not_tell() -> None:
    few_and_noisy = find("reward_collapse", curriculum(0.0, shared=10, noise=2.0))
    assert few_and_noisy.severity != "info"


def test_harder_prompts_do_not_excuse_a_loss_on_shared_prompts() -> None:
    lost = find("reward_collapse", curriculum(1.5, shared=40))
    assert lost.severity != "info"


def test_the_sentence_names_harder_prompts_only_with_a_bound() -> None:
    reason = "as the prompts became harder"
    assert reason in run_checks(curriculum(0.0, shared=40)).sentence
    assert reason not in run_checks(curriculum(0.0, shared=10, noise=2.0)).sentence


def test_harder_prompts_do_not_excuse_a_fall_in_which_the_texts_changed() -> None:
    is_early = STEP < STEPS // 2
    tokens = np.where(is_early, 200.0, 60.0) + SIGN
    shrunk = curriculum(0.0, shared=40, response_tokens=tokens)
    assert find("reward_collapse", shrunk).severity != "info"
    finished = np.where(is_early, 1.0, INDEX % 2)
    cut_off = curriculum(0.0, shared=40, finished=finished)
    assert find("reward_collapse", cut_off).severity != "info"


def test_a_fall_that_validation_contradicts_is_not_laid_to_the_prompts() -> None:
    reward = np.where(STEP < STEPS // 2, 1.0, 0.2) + AFTER + 0.1 * SIGN
    validation = STEP / STEPS + 0.1 * SIGN
    found = find("reward_collapse", tables(reward=reward, valid_reward=validation))
    assert (found.severity, found.facts["kind"]) == ("info", "watched")
    assert title(found).endswith("but validation rose.")
    assert "harder" not in title(found)


def test_a_fall_of_the_reference_counts_only_if_the_gap_to_it_surely_stayed() -> None:
    fall = AFTER - np.clip((STEP - 14) / 10, 0, 1)
    noise = 0.1 * SIGN
    reference = 0.5 + fall + noise
    made = tables(reward=1 + fall + noise, ref_reward=reference)
    found = find("reward_collapse", made)
    assert (found.severity, found.facts["kind"]) == ("info", "reference")
    lost = tables(reward=1 + 1.9 * fall + noise, ref_reward=reference)
    assert find("reward_collapse", lost).severity != "info"


def test_a_changed_mix_excuses_no_fall_in_which_the_texts_changed() -> None:
    harder = [rising(0.7, 0.9), rising(0.1, 0.3)]
    made = environments(harder, [shifted(24, 4), shifted(4, 24)])
    assert severity("mix_changed", made) == "info"
    late = made.responses["step"] >= 24
    made.responses["response_chars"] = np.where(late, 8, 40)
    assert severity("mix_changed", made) is None
    assert severity("reward_collapse", made) is not None


def test_a_changed_mix_excuses_a_fall_only_if_the_rest_of_it_is_bounded() -> None:
    rng = np.random.default_rng(2)
    means = [constant(0.75), constant(0.1)]
    made = environments(means, [shifted(6, 1), shifted(1, 6)])
    reward = made.responses["reward"]
    noisy = made.responses.assign(reward=reward + rng.normal(size=len(reward)))
    change = mix_change_of(replace(made, responses=noisy))
    assert change.mix < change.same_mix.difference / 2
    # The rewards of single responses are too noisy to tell.
    assert not change.explains_fall
    assert mix_change_of(made).explains_fall


def mix_change_of(made: Tables) -> MixChange:
    judged = Run(made)
    assert judged.first is not None
    change = means.mix(judged, judged.first, judged.last)
    assert change is not None
    return change


def test_a_prompt_seen_in_one_step_has_no_known_gain() -> None:
    columns = {
        "step": [0, 0, 1],
        "prompt_id": [0, 1, 0],
        "reward": [0.5, 0.5, 0.5],
    }
    made = make_tables(columns)
    prompts = prompt_table(made.responses, ["twice", "once"])
    assert prompts["reward_gain"].tolist()[0] == 0.0
    assert pd.isna(prompts["reward_gain"].tolist()[1])


def test_a_reason_by_new_prompts_tells_how_many_are_new() -> None:
    is_late = STEP >= STEPS // 2
    prompt = np.where(is_late, INDEX + 100, INDEX)
    reward = np.where(is_late, 1.0, -1.0) + 0.1 * SIGN
    found = find("reward_shift", tables(reward=reward, prompt_id=prompt))
    assert (found.severity, found.facts["kind"]) == ("info", "new_prompts")
    reason = "100% of responses since then have prompts not seen before."
    assert title(found).endswith(reason)
