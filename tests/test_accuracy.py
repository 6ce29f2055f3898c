"""The laboratory of accuracy: every check has runs with its fault, as docs/accuracy.md tells."""

import re

import pytest

from benchmarks.accuracy import agents, logs, texts
from benchmarks.accuracy.counts import Counts
from benchmarks.accuracy.document import PAGE, page
from benchmarks.accuracy.families import BY_KEY, FAMILIES, HEALTHY
from benchmarks.accuracy.family import Family, Healthy, random_of
from benchmarks.accuracy.measure import Job, Seen, jobs, judge_one, measure
from benchmarks.accuracy.results import Results
from rlreport.check import judge
from rlreport.check.registry import CHECKS
from rlreport.check.run import Run


def test_every_check_has_runs_in_which_its_fault_was_planted():
    planted = {family.check for family in FAMILIES}
    assert {check.id for check in CHECKS} <= planted


def test_no_two_families_draw_the_same_runs():
    assert len(BY_KEY) == len(FAMILIES) + len(HEALTHY)


# Runs that are read from files take ten times as long, so fewer of them have been measured.
FROM_FILES = {
    family.key for family in (*logs.FAMILIES, *texts.FAMILIES, *agents.FAMILIES)
}


def test_the_page_tells_every_family_of_at_least_200_runs_or_20_of_files():
    text = PAGE.read_text("utf-8")
    for family in FAMILIES:
        row = re.search(
            rf"^\| `{family.check}` \| {re.escape(family.name)} \|.*$",
            text,
            re.MULTILINE,
        )
        assert row, family.key
        counts = re.search(r"\d+ of (\d+)", row.group())
        least = 20 if family.key in FROM_FILES else 200
        assert counts and int(counts.group(1)) >= least, family.key


def test_the_page_tells_at_most_5_false_alarms_in_1000_healthy_runs():
    told = re.search(r": ([\d.]+) in 1,000", PAGE.read_text("utf-8"))
    assert told and float(told.group(1)) <= 5


def test_a_run_is_the_same_whenever_it_is_drawn():
    family = FAMILIES[0]
    strength = family.strengths[-1]
    assert judge_one(family, strength, 3) == judge_one(family, strength, 3)


def test_what_was_measured_is_not_measured_again(tmp_path):
    keys = [FAMILIES[0].key]
    todo = list(jobs(2, keys))
    results = Results(tmp_path / "seen.jsonl")
    for job, seen in measure(todo, workers=1):
        results.add(job, seen)
    kept = Results(tmp_path / "seen.jsonl")
    assert all(job in kept for job in todo)
    assert [kept[job] for job in todo] == [results[job] for job in todo]
    assert Job(keys[0], 0.0, 1, 21) not in kept


def test_counts_of_the_page_are_those_of_the_runs():
    family = FAMILIES[0]
    strength = family.strengths[-1]
    healthy = HEALTHY[0].key
    seen = [
        Seen(family.key, strength, 1, found=True, away=0, alarms=()),
        Seen(family.key, strength, 2, found=True, away=4, alarms=()),
        Seen(family.key, strength, 3, found=False, away=None, alarms=()),
        Seen(healthy, 0.0, 1, found=False, away=None, alarms=("kl_explosion",)),
        Seen(healthy, 0.0, 2, found=False, away=None, alarms=()),
    ]
    text = page(seen)
    assert "| clear faults found | 2 of 3 (67%" in text
    assert "1 of 2: 500.0 in 1,000" in text
    assert "| 2 of 3 | 21–94% | 1 of 2 | 4 |" in text
    assert "| `kl_explosion` | 1 | 500.00 |" in text


def test_an_interval_of_no_runs_is_a_dash():
    assert str(Counts(0, 0)) == "–"


# Runs of which the reward jumps as the format spreads, and one whose format is "####"
FAST = (1, 3, 7, 9, 19)


@pytest.mark.parametrize("seed", FAST)
def test_a_format_that_is_learned_fast_is_no_other_reward_and_no_hack(seed: int):
    (key,) = [key for key in BY_KEY if key.startswith("format_learned")]
    family = BY_KEY[key]
    assert isinstance(family, Family)
    tables = family.draw(random_of(key, seed), family.strengths[-1]).tables
    found = {finding.id for finding in judge(Run(tables)).findings}
    assert not found & {"reward_shift", "reward_hacking_token"}


RUNS = 3
# What the page says is never found: as soon as it is, it goes from here.
NEVER_FOUND: tuple[str, ...] = ()
FAMILIES_OF_TESTS = [
    pytest.param(
        family,
        id=family.key,
        marks=[pytest.mark.xfail(strict=True)] if family.key in NEVER_FOUND else [],
    )
    for family in FAMILIES
]


@pytest.mark.ci
@pytest.mark.parametrize("family", FAMILIES_OF_TESTS)
def test_clear_faults_are_found(family: Family):
    seeds = range(1, RUNS + 1)
    assert any(judge_one(family, family.strengths[-1], seed).found for seed in seeds)


@pytest.mark.ci
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.key)
def test_twins_without_the_fault_are_not_called_faulty(family: Family):
    assert not judge_one(family, 0.0, 1).found


@pytest.mark.ci
@pytest.mark.parametrize("family", HEALTHY, ids=lambda family: family.key)
def test_healthy_runs_have_no_warning(family: Healthy):
    seen = [judge_one(family, 0.0, seed) for seed in range(1, RUNS + 1)]
    assert [one.alarms for one in seen if one.alarms] == []
