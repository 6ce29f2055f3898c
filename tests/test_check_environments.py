"""Checks of environments: one that falls, and a mean that falls because the mix changed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlreport.check import means, run_checks
from rlreport.check.fall import mix_of_fall
from rlreport.check.finding import LogText
from rlreport.check.means import MixChange
from rlreport.check.run import Run
from rlreport.summarise.environments import environment_steps, environments_of
from rlreport.tables import Tables
from tests.tables_builder import STEPS, find, make_tables, severity, title

By = Callable[[int], float]


def environments(
    means: Sequence[By],
    sizes: Sequence[By] = (),
    *,
    seed: int = 1,
    column: str = "data_source",
) -> Tables:
    """Make a run of 40 steps; ``means`` and ``sizes`` (16 by default) are those of env0, env1, …"""
    steps: list[int] = []
    names: list[str] = []
    expected: list[float] = []
    for step in range(STEPS):
        for number, mean in enumerate(means):
            size = sizes[number] if sizes else constant(16)
            count = int(size(step))
            steps += [step] * count
            names += [f"env{number}"] * count
            expected += [mean(step)] * count
    noise = np.random.default_rng(seed).normal(size=len(steps))
    reward = np.array(expected) + 0.3 * noise
    made = make_tables({"step": np.array(steps), "reward": reward})
    return replace(made, extras=pd.DataFrame({column: names}))


def constant(value: float) -> By:
    return lambda step: value


def fading(start: int) -> By:
    """Return a size that falls by one a step, to one."""
    return lambda step: max(start - step, 1)


def rising(start: float, end: float) -> By:
    return lambda step: start + (end - start) * step / STEPS


def falls(at: int, end: float) -> By:
    """Return a mean that rises from 0.2 to 0.6, and is ``end`` from step ``at`` on."""

    def mean(step: int) -> float:
        return 0.2 + 0.4 * step / at if step < at else end

    return mean


def shifted(before: float, after: float, at: int = 24) -> By:
    """Return a figure that changes once, in step ``at``."""

    def figure(step: int) -> float:
        return before if step < at else after

    return figure


def at_odd_steps(size: int) -> By:
    return lambda step: size * (step % 2)


FALLING = [
    rising(0.2, 0.9),
    falls(20, -0.2),
    rising(0.0, 0.5),
    rising(0.5, 0.9),
]


def test_an_environment_that_falls_is_named_with_its_onset_and_course():
    made = environments(FALLING)
    finding = find("environment_fall", made)
    assert finding.severity == "warning"
    assert finding.facts["environment"] == LogText("env1")
    assert (finding.facts["fallen"], finding.facts["count"]) == (1, 4)
    assert finding.onset is not None and 19 <= finding.onset.step <= 21
    assert finding.facts["best"] == pytest.approx(0.55, abs=0.1)
    assert finding.facts["end"] == pytest.approx(-0.2, abs=0.1)
    assert title(finding).startswith("The reward in “env1” fell from 0.")
    assert severity("reward_collapse", made) is None
    index = made.responses.set_index(["step", "n"]).index
    for example in finding.evidence:
        row = index.get_loc((example.step, example.n))
        assert made.extras["data_source"][row] == "env1"
        assert example.step >= finding.onset.step
    verdict = run_checks(made)
    assert verdict.what.startswith("Warning: the reward in “env1” falls to −0.")
    assert verdict.keep_step is not None and verdict.keep_step <= finding.onset.step


NO_FALL: dict[str, tuple[list[By], list[By]]] = {
    "all rise": (
        [rising(0.1, 0.2), rising(0.3, 0.6), rising(0.8, 0.95)],
        [],
    ),
    "noise": (
        [rising(0.5, 0.5)] * 4,
        [],
    ),
    "twelve": (
        [rising(0.05 * i, 0.05 * i + 0.2) for i in range(12)],
        [constant(3)] * 12,
    ),
    "one ends, one begins": (
        [rising(0.3, 0.8), rising(0.1, 0.4)],
        [shifted(16, 0, at=24), shifted(0, 16, at=10)],
    ),
    "one fades": (
        [rising(0.6, 0.8), rising(0.2, 0.4)],
        [fading(40), lambda step: step + 1],
    ),
    "few responses": (
        [rising(0.6, 0.8), falls(20, -0.2)],
        [constant(16), at_odd_steps(2)],
    ),
}
"""Means and sizes of environments."""


@pytest.mark.parametrize("name", NO_FALL)
def test_environments_that_do_not_fall_are_no_finding(name: str):
    means, sizes = NO_FALL[name]
    for seed in range(5):
        made = environments(means, sizes, seed=seed)
        assert severity("environment_fall", made) is None


def test_a_fall_of_all_environments_is_a_collapse():
    everywhere = environments([falls(20, end) for end in (-0.2, 0.0, 0.1)])
    assert severity("reward_collapse", everywhere) is not None
    assert severity("environment_fall", everywhere) is None


def test_a_fall_of_one_environment_is_a_note_below_a_collapse():
    means = [falls(20, -2.0), rising(0.2, 0.25), rising(0.1, 0.15)]
    one = environments(means)
    assert severity("reward_collapse", one) in ("warning", "critical")
    note = find("environment_fall", one)
    assert (note.severity, note.facts["environment"]) == ("info", "env0")
    assert "1 of 3 environments fell" in title(note)


HARDER = [rising(0.7, 0.9), rising(0.1, 0.3)]
SHIFTED_SIZES = [shifted(24, 4), shifted(4, 24)]


@pytest.mark.parametrize(
    "sizes",
    [
        SHIFTED_SIZES,
        [lambda step: max(40 - step, 2), lambda step: max(step, 2)],
        [constant(12), shifted(0, 36)],
    ],
    ids=["at once", "gradually", "a new environment"],
)
def test_harder_tasks_that_come_in_are_a_note_and_no_collapse(sizes: Any):
    made = environments(HARDER, sizes)
    verdict = run_checks(made)
    severities = {finding.id: finding.severity for finding in verdict.findings}
    for check in ("reward_collapse", "environment_fall", "reward_shift"):
        assert severities.get(check, "info") == "info"
    finding = find("mix_changed", made)
    assert finding.facts["environment"] == "env1"
    start = finding.facts["share_start"]
    end = finding.facts["share"]
    assert isinstance(start, float) and isinstance(end, float)
    assert end > start + 0.3
    assert "as harder tasks came in" in verdict.sentence
    assert "reward_stalled" not in severities
    without = replace(made, extras=made.extras.iloc[:, :0])
    assert "harder" not in run_checks(without).sentence


def rarely_then_often(step: int) -> float:
    """Return the number of responses to harder tasks: one in every eighth step, then five."""
    return 5 if step >= 24 else float(step % 8 == 0)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_mix_that_likely_lowered_the_mean_is_no_collapse_but_no_proof_either(
    seed: int,
):
    sizes = [shifted(5, 0), rarely_then_often]
    made = environments([constant(0.6), constant(0.0)], sizes, seed=seed)
    assert severity("mix_changed", made) is None  # three responses prove nothing
    verdict = run_checks(made)
    (fall,) = [one for one in verdict.findings if one.id == "reward_collapse"]
    assert fall.severity == "info"
    assert "A harder mix and a worse policy are both possible" in fall.title
    assert "rose from 2" in fall.title
    assert verdict.level == "unclear"
    assert "when harder tasks came in" in verdict.sentence


def test_a_loss_within_environments_stays_loud_although_the_mix_changed_as_well():
    means = [shifted(0.6, 0.0), shifted(0.2, -0.3)]
    sizes = [shifted(5, 3), shifted(2, 4)]
    severities = {}
    for seed in range(4):
        made = environments(means, sizes, seed=seed)
        fall = find("reward_collapse", made)
        severities[seed] = fall.severity.value
        # Where the few responses leave both open, the finding says so.
        assert (fall.facts["kind"] == "mix") == (fall.severity == "warning")
    assert severities == {0: "warning", 1: "critical", 2: "critical", 3: "critical"}


def changed_mix(made: Tables) -> MixChange:
    """The change from the first to the last window, whose parts add up to that of the reward."""
    judged = Run(made)
    assert judged.first is not None
    mix = means.mix(judged, judged.first, judged.last)
    assert mix is not None
    parts = mix.mix + mix.rest
    change = means.change(judged, judged.column("reward"))
    assert parts == pytest.approx(change.difference)
    return mix


def test_parts_of_a_change_of_the_reward_are_weighted_by_means_of_both_windows():
    made = environments(HARDER, SHIFTED_SIZES)
    mix = changed_mix(made)
    shares = mix.shares.mean(axis=0)
    means = mix.means.mean(axis=0)
    change_of_means = mix.means[1] - mix.means[0]
    change_of_shares = mix.shares[1] - mix.shares[0]
    assert mix.within == pytest.approx(shares * change_of_means)
    assert mix.mix == pytest.approx(means @ change_of_shares)
    assert mix.mix < -0.3
    assert mix.rest > 0.1
    told = mix_of_fall(Run(made))
    assert told is not None
    level = find("mix_changed", made).facts["level"]
    assert level == pytest.approx(told.means[:, 1].mean())


@pytest.mark.parametrize(
    "size", [shifted(0, 16), shifted(16, 0)], ids=["begins", "ends"]
)
def test_an_environment_that_only_one_window_has_counts_as_unchanged(size: By):
    means = [constant(0.6), constant(3.0)]
    mix = changed_mix(environments(means, [constant(16), size]))
    assert mix.within[1] == 0
    assert mix.means[:, 1] == pytest.approx([3.0, 3.0], abs=0.1)


def test_a_fall_within_the_environments_is_a_collapse_although_the_mix_changes():
    means = [falls(20, -0.4), shifted(0.5, -0.3, at=20)]
    sizes = [shifted(20, 16), shifted(12, 16)]
    made = environments(means, sizes)
    assert severity("reward_collapse", made) is not None
    assert severity("mix_changed", made) is None


def test_the_metric_of_the_trainer_has_to_fall_as_the_logged_rollouts_do():
    made = environments(HARDER, SHIFTED_SIZES)
    step = made.steps["step"]
    reward = made.steps["reward_mean"]

    def with_metric(values: Any) -> Tables:
        metrics = pd.DataFrame({"step": step, "reward/mean": values})
        return replace(made, metrics=metrics)

    assert severity("reward_collapse", with_metric(reward)) is None
    lower = reward + np.where(step < 24, 0, -4.0)
    assert severity("reward_collapse", with_metric(lower)) is not None


@pytest.mark.parametrize(
    "values, column, expected",
    [
        (["a", "b"] * 50, "Data_Source", ["a", "b"]),
        ([0.0, 1.0] * 50, "task", ["0", "1"]),
        ([0.0, 1.0] * 50, "env_id", None),
        ([0.5, 1.0] * 50, "task", None),
        (["a"] * 100, "task", None),
        ([f"t{i}" for i in range(100)], "task", None),
        (["a", "b"] * 25 + [None] * 50, "task", None),
        (["a", "others", "b", " "] * 25, "env", None),  # a quarter is blank
        ([1234567.0, 1234568.0] * 50, "dataset", ["1234567", "1234568"]),
        (["a", "b"] * 50, "split", None),
    ],
)
def test_which_fields_name_environments(values: list[Any], column: str, expected: Any):
    step = np.repeat(np.arange(10), 10)
    made = make_tables({"step": step, "reward": np.zeros(100)})
    found = environments_of(replace(made, extras=pd.DataFrame({column: values})))
    assert (found.names if found else None) == expected


def test_further_environments_are_pooled_and_have_a_row_per_step():
    names = [f"e{i:02}" for i in range(20)] * 10
    step = np.repeat(np.arange(10), 20)
    made = make_tables({"step": step, "reward": np.arange(200.0)})
    extras = pd.DataFrame({"env": names, "task": ["x", "y"] * 100})
    made = replace(made, extras=extras)
    found = environments_of(made)
    assert found is not None
    assert found.column == "env"
    assert len(found.names) == 12
    assert np.count_nonzero(found.index == 12) == 80
    steps = environment_steps(made, found)
    assert len(steps) == 130
    assert steps["responses"].sum() == 200
    of_first = steps[steps["step"] == 0].set_index("environment")
    pooled = of_first.loc[12]
    assert pooled["responses"] == 8
    assert pooled["reward"] == np.arange(12, 20).mean()
