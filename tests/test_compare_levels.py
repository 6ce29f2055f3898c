"""On which level a comparison's rewards are: what each run's verdict says, and whose mean it is."""

import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlreport
from rlreport.check import Thresholds
from rlreport.comparison.export import compare_json
from rlreport.comparison.guardrail_words import caveats
from rlreport.comparison.outcome import Outcome, outcome_of
from rlreport.comparison.run import LONGEST_WHAT, ComparedRun
from rlreport.draw.comparison import comparison_charts
from rlreport.flows.compare import compared_run
from rlreport.options import CompareOptions
from rlreport.pages.compare.guardrails import guardrails_table
from rlreport.pages.html import canonical_json
from rlreport.system.workers import Progress
from tests.reading import row, write
from tests.schemas import validate

PROMPTS = 24


def write_run(
    folder: Path,
    share: float,
    *,
    seed: int = 0,
    steps: Sequence[int] = range(20),
    metrics: Mapping[str, float] | None = None,
    config: Mapping[str, object] | None = None,
    ref_reward: float | None = None,
    **fields: object,
) -> Path:
    """Write logs of which ``share`` of the responses is right, and the trainer's metrics."""
    random = np.random.default_rng(seed)
    if ref_reward is not None:
        fields["ref_reward"] = ref_reward
    rows = [
        row(
            step,
            prompt=f"Question {prompt}?",
            response=f"It is {n} of {step}.",
            reward=float(random.random() < share),
            **fields,
        )
        for step, prompt, n in product(steps, range(PROMPTS), range(2))
    ]
    path = write(folder / "log.jsonl", rows).parent
    if metrics is not None:
        lines = [{"step": step, **metrics} for step in steps]
        write(path / "metrics.jsonl", lines)
    if config is not None:
        (path / "config.json").write_text(json.dumps(config))
    return path


def run_of(path: Path) -> ComparedRun:
    return compared_run(path, CompareOptions(), Thresholds(), Progress())


def outcome_of_runs(base: Path, new: Path) -> Outcome:
    return outcome_of([run_of(base)], [run_of(new)], CompareOptions())


def told_of(outcome: Outcome) -> dict[str, Any]:
    """The verdict in ``compare.json``, which is valid by its schema."""
    found = json.loads(canonical_json(compare_json(outcome)))
    validate(found, "compare")
    verdict: dict[str, Any] = found["verdict"]
    return verdict


def test_a_run_tells_what_happened_as_its_report_does(tmp_path):
    logs = write_run(tmp_path / "run", 0.5)
    rlreport.build(logs, tmp_path / "report", workers=1)
    about = tmp_path / "report" / "data" / "report.json"
    told = json.loads(about.read_text())
    assert run_of(logs).what == told["verdict"]["what"] != ""
    assert run_of(tmp_path / "report").what == told["verdict"]["what"]


def test_what_a_report_of_others_says_is_one_line_of_usual_length(tmp_path):
    logs = write_run(tmp_path / "run", 0.5)
    rlreport.build(logs, tmp_path / "report", workers=1)
    about = tmp_path / "report" / "data" / "report.json"
    told = json.loads(about.read_text())
    for what, shown in [
        ("One.\nTwo.\x1b[31m", "One. Two."),
        ("x" * 5000, "x" * 100),
        (7, ""),
        (None, ""),
    ]:
        told["verdict"]["what"] = what
        about.write_text(json.dumps(told))
        found = run_of(tmp_path / "report").what
        assert found.startswith(shown) and len(found) <= LONGEST_WHAT
        assert found.isprintable()


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    """Folders of logs with half of a step's responses: the trainer's means are others."""
    root = tmp_path_factory.mktemp("sampled")
    of_batch = {"num_rollouts": 4 * PROMPTS}
    return {
        "base": write_run(root / "base", 0.2, metrics={"reward": 0.3, **of_batch}),
        "new": write_run(root / "new", 0.8, metrics={"reward": 0.7, **of_batch}),
        "unknown": write_run(root / "unknown", 0.8, metrics={"reward": 0.7}),
        "lower": write_run(root / "lower", 0.8, metrics={"reward": 0.25}),
        "rollouts": write_run(root / "rollouts", 0.8),
    }


def test_the_trainers_means_stand_beside_those_of_a_sample(sampled):
    outcome = outcome_of_runs(sampled["base"], sampled["new"])
    told = told_of(outcome)
    assert told["level"] == "better" and told["new"] == pytest.approx(0.8, abs=0.05)
    assert told["trainer"] == {"base": 0.3, "new": 0.7}
    assert (
        "Only 48 of 96 responses per step are logged: the trainer's mean rewards over all are "
        "0.70 against 0.30." in told["sentence"]
    )
    unknown = told_of(outcome_of_runs(sampled["base"], sampled["unknown"]))
    assert (
        "The trainer's own mean rewards are 0.70 against 0.30, as the logged responses may be a "
        "sample." in unknown["sentence"]
    )


def test_if_the_trainers_means_differ_the_other_way_no_side_is_better(sampled):
    told = told_of(outcome_of_runs(sampled["base"], sampled["lower"]))
    assert told["low"] > 0 and told["level"] == "no_evidence"
    assert "trainer_disagrees" in told["reasons"]
    assert "is better" not in told["sentence"]
    assert "; the two disagree, so neither side is called better." in told["sentence"]


def test_curve_and_learning_are_of_the_series_that_the_reports_show(sampled):
    outcome = outcome_of_runs(sampled["base"], sampled["new"])
    base, new = outcome.comparison.rewards
    assert set(base.values) == {0.3} and set(new.values) == {0.7}
    for run, level in ((outcome.base, 0.3), (outcome.new, 0.7)):
        assert run.side.reward is not None and run.side.reward.last.value == level
    reward, difference = comparison_charts(outcome)
    assert "0.700 at step 0, 0.700 at step 19" in reward.description
    assert "The difference is that of the logged responses." in difference.description


def test_a_report_has_the_same_levels_as_its_logs(sampled, tmp_path):
    for name in ("base", "new"):
        rlreport.build(sampled[name], tmp_path / name, workers=1)
    of_reports = outcome_of_runs(tmp_path / "base", tmp_path / "new")
    of_logs = outcome_of_runs(sampled["base"], sampled["new"])
    assert told_of(of_reports) == told_of(of_logs)
    for one, other in zip(
        of_reports.comparison.rewards, of_logs.comparison.rewards, strict=True
    ):
        assert np.array_equal(one.values, other.values)


def test_without_a_metric_of_each_run_there_are_no_trainers_means(sampled):
    outcome = outcome_of_runs(sampled["base"], sampled["rollouts"])
    assert told_of(outcome)["trainer"] is None
    mean = outcome.comparison.rewards[1].values.mean()
    assert mean == pytest.approx(0.8, abs=0.05)


def test_means_of_all_responses_are_not_told_twice(tmp_path):
    paths = []
    for name, share in (("base", 0.0), ("new", 1.0)):
        paths.append(write_run(tmp_path / name, share, metrics={"reward": share}))
    told = told_of(outcome_of_runs(*paths))
    assert told["trainer"] is None and "trainer" not in told["sentence"]


def steps_of(rows, side=None):
    """The steps at which a chart, or its line of a side, has a value."""
    drawn = [one for one in rows if one["value"] is not None]
    return [one["step"] for one in drawn if side is None or one["series"] == side]


def test_the_chart_has_all_steps_of_both_runs(tmp_path):
    base = write_run(tmp_path / "base", 0.2, steps=range(10))
    new = write_run(tmp_path / "new", 0.8, steps=range(5, 30))
    outcome = outcome_of_runs(base, new)
    reward, difference = comparison_charts(outcome)
    rows = reward.spec["data"]["values"]
    assert steps_of(rows, "BASE") == [*range(10)]
    assert steps_of(rows, "NEW") == [*range(5, 30)]
    compared = steps_of(difference.spec["data"]["values"])
    assert set(compared) == {*range(5, 10)}


def test_a_run_that_logs_other_steps_leaves_no_gaps_in_the_line_of_the_other(tmp_path):
    base = write_run(tmp_path / "base", 0.2, steps=range(0, 24, 2))
    new = write_run(tmp_path / "new", 0.8, steps=range(0, 30, 3))
    reward, *_ = comparison_charts(outcome_of_runs(base, new))
    rows = reward.spec["data"]["values"]
    assert {one["step"] for one in rows} == {0, 6, 12, 18, 24, 27}
    assert all(
        one["value"] is not None or one["step"] > 22
        for one in rows
        if one["series"] == "BASE"
    )


@pytest.fixture(scope="module")
def scales(tmp_path_factory):
    """Folders of logs whose reference earns other rewards for the same prompts."""
    root = tmp_path_factory.mktemp("scales")
    return {
        "base": write_run(root / "base", 0.2, ref_reward=0.5),
        "alike": write_run(root / "alike", 0.8, ref_reward=0.51),
        "other": write_run(root / "other", 0.8, ref_reward=-0.5),
        "model": write_run(
            root / "model", 0.8, ref_reward=-0.5, config={"model": "b", "lr": 1}
        ),
        "base_model": write_run(
            root / "base_model", 0.2, ref_reward=0.5, config={"model": "a", "lr": 1}
        ),
    }


def test_rewards_on_two_scales_are_not_compared(scales):
    outcome = outcome_of_runs(scales["base"], scales["other"])
    told = told_of(outcome)
    assert told["level"] == "incomparable" and told["reasons"] == ["scales"]
    assert told["reference"] == {"base": 0.5, "new": -0.5}
    assert told["sentence"].startswith(
        "other and base cannot be compared by reward. The rewards (0.82 against 0.18) are not on "
        "one scale: the reference's responses to the same prompts earn −0.50 against 0.50."
    )
    comparison = outcome.comparison
    assert not comparison.speed and not comparison.tasks.difficulties
    assert not comparison.decomposition.properties and comparison.prompt_changes.empty
    assert [chart.name for chart in comparison_charts(outcome)] == ["reward"]


def test_references_that_earn_about_the_same_are_no_obstacle(scales):
    told = told_of(outcome_of_runs(scales["base"], scales["alike"]))
    assert told["level"] == "better" and told["reference"] is None


def test_references_of_two_models_may_earn_different_rewards(scales):
    told = told_of(outcome_of_runs(scales["base_model"], scales["model"]))
    assert told["level"] == "better" and told["reference"] is None


def test_parts_and_weights_of_the_reward_that_differ_are_named(tmp_path):
    base = write_run(
        tmp_path / "base",
        0.2,
        reward_parts={"format": 0.5, "length": 0.1},
        config={"reward_weights": "1 1", "lr": 1},
    )
    new = write_run(
        tmp_path / "new",
        0.8,
        reward_parts={"format": 0.5},
        config={"reward_weights": "1 2", "lr": 1},
    )
    against = caveats(outcome_of_runs(base, new))
    assert against.startswith(
        "Parts of the reward on one side only: length (reward_weights 1 1). "
        "Settings of the reward differ: reward_weights 1 1 → 1 2."
    )
    assert "only" not in caveats(outcome_of_runs(base, base))


def test_gradient_norms_that_differ_by_decades_are_shown_by_their_ratio(
    tmp_path: Path,
) -> None:
    base = write_run(tmp_path / "base", 0.5, metrics={"grad_norm": 2e7})
    new = write_run(tmp_path / "new", 0.5, seed=1, metrics={"grad_norm": 0.5})
    table = guardrails_table(outcome_of_runs(base, new))
    (row_of_norm,) = [one for one in table.rows if one.id == "gradient_norm"]
    keys = [column.key for column in table.columns]
    cells = dict(zip(keys, row_of_norm.cells, strict=True))
    assert (cells["effect"].text, cells["effect"].exact) == ("×2.50e−8", "NEW ÷ BASE")
    assert cells["interval"].text == "×2.50e−8 to ×2.50e−8"
    # What is sorted by, and exported, stays the difference.
    assert cells["effect"].value == pytest.approx(0.5 - 2e7)
