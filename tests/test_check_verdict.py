"""The verdict: on real runs and made-up ones, its order, and the watched reward behind it."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlreport.check import findings_json, quantities, run_checks
from rlreport.check.registry import CHECKS
from rlreport.check.run import Run
from rlreport.check.sentence import MAX_WORDS
from rlreport.check.verdict import Verdict
from rlreport.columns import RESPONSE_COLUMNS
from rlreport.summarise.run import summarise
from rlreport.tables import Tables
from tests.reading import read, row, write
from tests.running import in_ci
from tests.schemas import validate
from tests.tables_builder import INDEX, SIGN, STEP, STEPS, make_tables, moved, tables

REAL_RUNS = ("ppo_healthy", "ppo_reward_hacking", "grpo_math", "eval_poem_task")


@pytest.fixture(scope="module")
def verdicts(shared_data: Path) -> dict[str, Verdict]:
    return {name: run_checks(summarise(read(shared_data / name))) for name in REAL_RUNS}


def _alarms(verdict: Verdict) -> dict[str, str]:
    return {f.id: f.severity for f in verdict.findings if f.severity != "info"}


TRUTHS = Path(__file__).parent / "data" / "truths.json"


@pytest.mark.parametrize("name", json.loads(TRUTHS.read_text(encoding="utf-8")))
def test_real_runs_are_judged_as_their_truth_says(
    name: str, verdicts: dict[str, Verdict]
) -> None:
    truth = json.loads(TRUTHS.read_text(encoding="utf-8"))[name]
    verdict = verdicts[name]
    found = {f.id for f in verdict.findings}
    assert set(truth["expected"]) <= found
    assert not _alarms(verdict).keys() & set(truth["not_expected"])
    assert verdict.lead in (truth["lead"] or [None])
    if truth["onset"]:
        onset = verdict.findings[0].onset
        assert onset is not None
        assert truth["onset"][0] <= onset.step <= truth["onset"][1]


def test_a_log_of_text_and_reward_raises_no_alarm(verdicts: dict[str, Verdict]) -> None:
    assert _alarms(verdicts["eval_poem_task"]) == {}


def test_the_sentence_is_a_persons(verdicts: dict[str, Verdict]) -> None:
    ids = {check.id for check in CHECKS if "_" in check.id}
    for verdict in verdicts.values():
        assert not [name for name in ids if name in verdict.sentence]
        assert not re.search(r"\bz\b|!|checks", verdict.sentence)
        first = verdict.sentence.split()[0].rstrip(".:")
        assert first == (
            "Broken" if verdict.level == "critical" else verdict.level.capitalize()
        )


def test_findings_explain_themselves_and_name_responses_that_exist(
    verdicts, shared_data
):
    for name, verdict in verdicts.items():
        known = read(shared_data / name).responses
        prompt = known.set_index(["step", "n"])["prompt_id"].to_dict()
        for finding in verdict.findings:
            assert (
                finding.why and finding.suggestion and finding.source and finding.title
            )
            assert "\n" not in finding.title
            assert set(finding.steps) <= set(known["step"])
            assert list(finding.steps) == sorted(set(finding.steps))
            assert len(finding.evidence) <= 3
            shown = [prompt[e.step, e.n] for e in finding.evidence]
            assert len(set(shown)) == len(shown)
            for example, of in zip(finding.evidence, shown, strict=True):
                if finding.onset:
                    assert example.step >= finding.onset.step
                if example.before:
                    assert finding.onset
                    assert example.before.step < finding.onset.low
                    assert prompt[example.before.step, example.before.n] == of


def test_checks_judge_only_the_steps_before_the_first_nan() -> None:
    bad = (STEP >= 20) & (INDEX < 10)
    kl = np.where(STEP < 20, 1.0, 900.0)
    verdict = run_checks(
        tables(reward=np.where(bad, np.nan, SIGN), kl_k1=kl, nan_values=bad)
    )
    assert verdict.findings[0].id == verdict.lead == "nan_metrics"
    assert "kl_explosion" in verdict.passed
    assert verdict.sentence.startswith("Broken: rewards are NaN, starting at step 20. ")


def test_a_nan_in_the_first_step_leaves_nothing_to_judge() -> None:
    verdict = run_checks(tables(reward=np.nan, nan_values=1))
    assert [f.id for f in verdict.findings] == ["nan_metrics"]
    assert {"broken_log", "missing_grades"} <= set(verdict.passed)
    assert "reward_collapse" in {one.id for one in verdict.not_run}


def test_a_run_that_does_not_learn_is_unclear_and_nothing_leads() -> None:
    verdict = run_checks(tables(reward=SIGN))
    assert [(f.id, f.severity, f.rank) for f in verdict.findings] == [
        ("reward_stalled", "info", "note")
    ]
    assert (verdict.level, verdict.lead, verdict.keep_step) == ("unclear", None, None)
    assert verdict.what == "Unclear: the reward stays at 0."
    assert verdict.next.endswith("better than the start: nothing was gained.")
    assert not verdict.reaches("warning")


def test_notes_leave_a_run_healthy() -> None:
    rising = STEP / STEPS + 0.1 * SIGN
    verdict = run_checks(tables(reward=rising, ref_reward=rising + 0.01))
    assert (
        [f.severity for f in verdict.findings] == ["info"] * len(verdict.findings) != []
    )
    assert (verdict.level, verdict.lead) == ("healthy", None)
    assert verdict.what == (
        "Healthy as far as rewards and texts show: the reward rose from 0.025 (steps 0–2) to 0.95 "
        "(steps 37–39)."
    )
    assert verdict.course_sentence == "The reward still rises at the end."
    assert verdict.next == "Keep the last checkpoint."
    with_kl = run_checks(tables(reward=rising, kl_k1=1.0))
    assert with_kl.sentence.startswith("Healthy: "), "limited by nothing"


def test_a_run_too_short_for_a_trend_is_not_called_healthy() -> None:
    figures = {"reward": np.ones(64), "kl_k1": np.ones(64)}
    verdict = run_checks(make_tables({"step": np.zeros(64), **figures}))
    assert verdict.level == "unjudged"
    assert verdict.sentence.startswith("Not judged")
    assert "kl_explosion" in verdict.passed
    assert any("(this run has 1)" in check.needs for check in verdict.not_run)


def test_findings_that_nothing_explains_stand_beside_the_lead() -> None:
    made = tables(
        reward=STEP / 40 + SIGN,
        kl_k1=moved(1, 20),
        response_tokens=moved(50, 10),
    )
    verdict = run_checks(made)
    assert verdict.level == "warning"
    shrunk = "Warning: responses shrink to 10 tokens (50 in steps 0–31), starting at step 32."
    assert verdict.sentence.startswith(shrunk)
    alarms = [(f.id, f.explained_by) for f in verdict.findings if f.severity != "info"]
    assert alarms == [("length_collapse", None), ("kl_explosion", None)]
    assert "KL" not in verdict.sentence


def test_a_muted_finding_is_shown_with_its_reason_and_counts_for_nothing() -> None:
    broken = tables(reward=STEP / 40 + SIGN, kl_k1=moved(1, 20), response_tokens=50.0)
    assert run_checks(broken).reaches("warning")
    verdict = run_checks(
        broken, muted={"kl_explosion": "the reference is another model"}
    )
    assert not verdict.reaches("warning")
    assert [(m.finding.id, m.reason) for m in verdict.muted] == [
        ("kl_explosion", "the reference is another model")
    ]
    validate(findings_json(verdict), "findings")


def test_folded_findings_count_for_fail_on() -> None:
    made = tables(
        reward=SIGN + moved(2, 0),
        surprisal_mean=moved(0.5, 4.0),
        logp_tokens=16.0,
        kl_k1=moved(1, 60),
        response_tokens=50.0,
    )
    verdict = run_checks(made)
    folded = [f for f in verdict.findings if f.explained_by]
    assert {f.id for f in folded} >= {"kl_explosion"}
    assert replace(verdict, findings=folded).reaches("critical")


@pytest.mark.parametrize(
    ("reward", "level", "is_kept"),
    [
        (np.where(STEP < 20, 0, 1) + 0.1 * SIGN, "warning", True),
        (0.1 * SIGN, "warning", True),
        (STEP / STEPS + 0.1 * SIGN, "critical", False),
        (np.nan, "warning", False),
        (0.1 * SIGN + moved(0.9, 0.3), "critical", False),
        (0.1 * SIGN + np.where(STEP < 8, 0.9, 0.3), "warning", False),
    ],
    ids=[
        "rises",
        "stays",
        "is that of a model alone",
        "is not logged",
        "falls, too",
        "fell long before",
    ],
)
def test_a_run_is_not_broken_by_a_large_kl_alone(
    reward: Any, level: str, is_kept: bool
) -> None:
    made = tables(reward=reward, kl_k1=moved(1, 60), response_tokens=50.0)
    (kl,) = [one for one in run_checks(made).findings if one.id == "kl_explosion"]
    assert kl.severity == level
    assert ("no harm seen in the reward" in kl.clause) == is_kept
    assert kl.suggestion.startswith("Compare late answers") == is_kept


def test_of_a_run_whose_windows_share_steps_no_rise_is_denied() -> None:
    rng = np.random.default_rng(0)
    step = np.repeat(np.arange(5), 128)
    reward = step / 2 + 0.2 * rng.normal(size=640)
    verdict = run_checks(make_tables({"step": step, "reward": reward}))
    assert "did not" not in verdict.sentence
    assert "reward_stalled" not in {f.id for f in verdict.findings}


SIXTY = np.arange(60)
CHANGED = np.where(SIXTY < 30, 0.0, -2.0)
WITH_A_HOLE = np.delete(SIXTY, 5)


@pytest.mark.parametrize(
    ("kept", "reward", "ref_reward", "lead", "keep"),
    [
        (
            SIXTY,
            np.where(SIXTY < 24, 0.0, 2.6 + SIXTY / 60),
            np.nan,
            "reward_shift",
            59,
        ),
        (
            SIXTY,
            np.minimum(SIXTY, 30) / 30 + CHANGED,
            CHANGED,
            "reward_shift",
            None,
        ),
        (SIXTY, SIXTY / 30 + CHANGED, CHANGED, "reward_shift", 59),
        (WITH_A_HOLE, WITH_A_HOLE / 60, np.nan, "broken_log", 59),
    ],
    ids=["reward changed", "no rise since", "a rise since", "a hole in the log"],
)
def test_the_checkpoint_to_keep(kept, reward, ref_reward, lead, keep) -> None:
    rewards = {"reward": reward, "ref_reward": ref_reward}
    noise = 0.1 * SIGN[: len(kept) * 50]
    columns = {
        name: np.repeat(one + 0 * kept, 50) + noise for name, one in rewards.items()
    }
    verdict = run_checks(make_tables({"step": np.repeat(kept, 50), **columns}))
    assert (verdict.lead, verdict.keep_step) == (lead, keep)


def test_an_incomplete_step_is_not_the_checkpoint_to_keep() -> None:
    step = STEP[:-60]  # the last step has 40 of 100 responses
    verdict = run_checks(
        make_tables({"step": step, "reward": step / STEPS + 0.1 * SIGN[:-60]})
    )
    assert [f.facts["faults"] for f in verdict.findings if f.id == "broken_log"] == [
        ("last",)
    ]
    assert verdict.keep_step == STEPS - 2


def test_a_fault_that_costs_no_reward_does_not_spoil_the_checkpoint() -> None:
    reward = np.where(STEP < 24, 0.0, 3.0) + STEP / STEPS + 0.1 * SIGN
    verdict = run_checks(
        tables(reward=reward, ref_reward=reward - STEP / STEPS, lag=20.0)
    )
    assert {"reward_shift", "stale_rollouts"} <= _alarms(verdict).keys()
    assert verdict.keep_step == STEPS - 1


def test_longer_responses_that_earn_no_more_on_average_carry_no_reward() -> None:
    length = 100 + 4 * STEP + 10 * SIGN
    verdict = run_checks(tables(response_tokens=length, reward=SIGN.astype(float)))
    assert verdict.lead == "length_hacking"
    assert "mean reward 0 at the start, 0 at the end" in verdict.findings[0].title
    assert "The reward stays at 0." in verdict.sentence
    assert "carried" not in verdict.sentence + verdict.findings[0].title


EACH = 20
"""Responses a step."""
EVERY = 4
"""Steps from one validation to the next."""
Series = Callable[[int], float]


def training(
    rng: Any, step: int, strange: bool = False, **more: Any
) -> list[dict[str, Any]]:
    """Return the rows of a step: the reward rises to the end, a third may change the script."""
    usual = f"a poem of day {step}"
    foreign = "这是一首关于月亮的诗"
    rows = []
    for i in range(EACH):
        one = row(
            step,
            prompt=f"Write a poem about thing {i}.",
            response=foreign if strange and i < EACH / 3 else usual,
            reward=step / STEPS + 0.1 * rng.normal(),
        )
        for name, value in more.items():
            one[name] = value + 0.05 * rng.normal()
        rows.append(one)
    return rows


def logged(folder: Path, watched: Series, split: bool, strange: bool = False) -> Tables:
    """Log the watched reward in every row, or as validation in every fourth step.

    In the second half of the run, responses may be ``strange``.
    """
    rng = np.random.default_rng(1)
    rows = []
    for step in range(STEPS):
        beside = {} if split else {"valid_reward": watched(step)}
        rows += training(rng, step, strange and step >= STEPS / 2, **beside)
        if split and step % EVERY == 0:
            validation = training(rng, step, reward=watched(step))
            rows += [{**one, "split": "val"} for one in validation]
    return summarise(read(write(folder / "log.jsonl", rows)))


BOTH = pytest.mark.parametrize(
    "split", [False, True], ids=["second reward", "validation"]
)


@BOTH
def test_the_checkpoint_to_keep_is_the_best_by_the_watched_reward(split, tmp_path):
    logged_tables = logged(tmp_path, lambda step: -abs(step - 12) / STEPS, split)
    keep = run_checks(logged_tables).keep_step
    assert keep is not None and abs(keep - 12) <= 1
    assert not split or keep == 12, "a step that was validated"


@BOTH
@pytest.mark.parametrize(
    ("slope", "severity"),
    [
        (-1.0, "warning"),
        (1.0, "info"),
    ],
)
def test_leaving_the_prompts_language_is_worse_where_the_watched_reward_falls(
    split: bool, slope: float, severity: str, tmp_path: Path
) -> None:
    logged_tables = logged(
        tmp_path, lambda step: slope * step / STEPS, split, strange=True
    )
    found = {f.id: f.severity for f in run_checks(logged_tables).findings}
    assert found["language_drift"] == severity


def test_a_part_of_a_run_is_watched_by_the_validation_of_its_own_steps(tmp_path):
    whole = Run(logged(tmp_path, float, split=True))
    part = quantities.validation(whole.between(8, 17))
    assert part is not None
    assert part.steps.tolist() == [8, 12, 16]
    assert part.values == pytest.approx([8, 12, 16], abs=0.1)


NAMES = {
    "step",
    "n",
    "file",
    "line",
    "offset",
    "length",
    "sub",
    "group",
    "response_hash",
}
FIGURES = [
    c.name for c in RESPONSE_COLUMNS if c.dtype == "float64" and c.name not in NAMES
]
TEXTS = ["", "a", "🎉", "ðŁ", "</script>", "<|endoftext|>", "\ud800", "\x00", "Ġthe"]


def _holed(seed: int) -> Tables:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 120))
    last_step = int(rng.integers(1, 30))
    steps = rng.integers(-3, last_step, rows)
    prompts = int(rng.integers(1, 20))
    columns: dict[str, object] = {
        "step": np.sort(steps),
        "prompt_id": rng.integers(0, prompts, rows),
    }
    nan_values = rng.integers(0, 2, rows)
    columns["nan_values"] = 0 * nan_values if seed % 5 else nan_values
    for name in FIGURES:
        values = rng.normal(size=rows)
        values *= 10.0 ** rng.integers(-8, 9)
        luck = rng.random(rows)
        share_missing = rng.choice([0, 0.3, 1.0])
        values[luck < share_missing] = np.nan
        if name.endswith("_m2"):
            values = np.abs(values)
        if rng.random() >= 0.8:
            values = np.full(rows, values[0])
        columns[name] = values
    texts = []
    for _ in range(rows):
        length = rng.integers(0, 9)
        texts.append(rng.choice(TEXTS, length).tolist())
    unit = "word" if seed % 2 else "token"
    references = texts[::-1] if seed % 3 else None
    return make_tables(columns, texts=texts, ref_texts=references, unit=unit)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", [*range(15), *in_ci(*range(15, 60))])
def test_any_table_is_judged_without_an_error(seed: int) -> None:
    verdict = run_checks(_holed(seed))
    judged = list(verdict.passed)
    for group in (verdict.findings, verdict.not_run, verdict.close):
        judged += [one.id for one in group]
    assert sorted(judged) == sorted(check.id for check in CHECKS)
    json.dumps(findings_json(verdict), allow_nan=False)


def _close(**columns: object) -> dict[str, str]:
    return {one.id: one.title for one in run_checks(tables(**columns)).close}


def test_a_figure_of_half_its_limit_is_close_to_it_and_not_passed() -> None:
    verdict = run_checks(tables(kl_k1=7.5, response_tokens=50.0))
    (close,) = verdict.close
    assert (
        close.title == "KL to the reference is 7.5 nats per response; the limit is 10."
    )
    assert "kl_explosion" not in verdict.passed
    document = findings_json(verdict)
    validate(document, "findings")
    assert document["close"] == [
        {
            "id": "kl_explosion",
            "title": close.title,
            "value": 7.5,
            "limit": 10.0,
            "unit": "nats",
        }
    ]
    assert "kl_explosion" in run_checks(tables(kl_k1=4.9, response_tokens=50.0)).passed


def test_of_limits_that_count_only_together_the_furthest_decides() -> None:
    assert not _close(kl_k1=30.0, response_tokens=1000.0)
    title = _close(kl_k1=30.0, response_tokens=500.0)["kl_explosion"]
    assert title == "KL to the reference is 0.060 nats per token; the limit is 0.1."


def test_a_limit_that_is_met_without_a_finding_is_named() -> None:
    rising = STEP / STEPS + 0.1 * SIGN
    title = _close(reward=rising, surprisal_mean=moved(1.0, 6.0))["entropy_explosion"]
    assert (
        title
        == "Entropy rose to 6.0 times its start (limit 3); that alone is no finding."
    )


def test_responses_that_end_with_a_stop_string_are_not_close_to_being_cut_off() -> None:
    cut_off = {
        "finished": np.where(INDEX % 5 < 2, 0.0, 1.0),
        "response_tokens": 10.0 + INDEX,
    }
    assert "missing_eos" not in _close(**cut_off)
    at_limit = np.where(INDEX % 5 < 2, 512.0, 10.0 + INDEX)
    title = _close(**cut_off | {"response_tokens": at_limit})["missing_eos"]
    assert title == "40% of responses are cut off; the limit is 50%."


def test_what_is_not_logged_is_said_with_what_it_would_have_shown() -> None:
    bare = run_checks(tables(reward=SIGN))
    assert bare.not_observed == (
        "log-probabilities (no KL, entropy or engine mismatch)",
        "gradient norms",
        "a validation score",
        "groups",
        "finish reasons",
    )
    assert findings_json(bare)["not_observed"] == list(bare.not_observed)
    steps = np.arange(STEPS)
    logged = {
        "objective/kl": 1.0,
        "eval/reward": 1.0,
        "grad_norm": 1.0,
        "reward": steps / STEPS,
    }
    metrics = pd.DataFrame({"step": steps, **logged})
    columns = {
        "reward": SIGN,
        "surprisal_mean": 1.0,
        "finished": 1.0,
        "group": STEP * 10,
    }
    trained = run_checks(replace(tables(**columns), metrics=metrics))
    assert trained.not_observed == (
        "log-probabilities of the sampler (no engine mismatch)",
    )


def test_the_first_line_has_at_most_25_words() -> None:
    noise = np.random.default_rng(1).normal(size=len(STEP))
    # The last step is cut: the checkpoint to keep is another one, which takes fewer words.
    kept = slice(-60)
    reward = 0.006 * STEP[kept] + noise[kept]
    verdict = run_checks(make_tables({"step": STEP[kept], "reward": reward}))
    assert [f.facts["faults"] for f in verdict.findings if f.id == "broken_log"] == [
        ("last",)
    ]
    assert verdict.what == (
        "Healthy as far as rewards and texts show: the reward rose from −0.097 (steps 0–2) to 0.16 "
        "(steps 37–39)."
    )
    assert len(verdict.what.split()) <= MAX_WORDS
    assert verdict.next == "Keep step 38 or the checkpoint before it."
