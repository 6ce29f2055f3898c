"""Course and level of a run: the formula holds, and every place says the same numbers and words."""

import email
import email.policy
import html
import itertools
import json
import math
import random as dice
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rlreport
from rlreport.check import run_checks
from rlreport.check.course import course_of
from rlreport.check.finding import Example, Rank, Severity, ToldFinding
from rlreport.check.series import Series
from rlreport.check.verdict import Verdict, findings_json
from rlreport.metrics.find import find_and_read
from rlreport.pages.figures import run_figures
from rlreport.pages.findings import finding_view, verdict_view
from rlreport.pages.html import environment
from rlreport.pages.page import Addresses
from rlreport.summarise.run import summarise
from rlreport.text.language import ENGLISH
from tests.reading import read, write
from tests.schemas import validate
from tests.tables_builder import evaluated, make_tables
from tests.test_compare import comparison_json, write_graded

STEPS = 50
PROMPTS = 4
EACH = 2


def is_solved(step: int) -> float:
    return 1.0 if step % 7 else 0.99


def falls_by_half(step: int) -> float:
    loss = 0.5 if step > 30 else 0.0
    return 0.1 + 0.8 * min(step / 20, 1) - loss


def falls_below_its_start(step: int) -> float:
    loss = 0.5 if step > 25 else 0.0
    return 0.6 - loss


def dies_at(death: int) -> Callable[[int], float]:
    def reward(step: int) -> float:
        return 0.1 + step / STEPS if step < death else 0.0

    return reward


def dips(step: int) -> float:
    return 0.2 if 15 < step < 30 else min(0.1 + step / 12, 0.8)


RUNS: dict[str, Callable[[int], float]] = {
    "rises": lambda step: 0.1 + 0.7 * step / STEPS,
    "rises_and_stays": lambda step: min(0.2 + step / 20, 0.9),
    "never_rises": lambda step: 0.4,
    "is_solved": is_solved,
    "falls_by_half": falls_by_half,
    "falls_below_its_start": falls_below_its_start,
    "dies": dies_at(30),
    "dies_at_the_end": dies_at(46),
    "dips": dips,
    "falls_slowly": lambda step: 0.9 - 0.7 * step / STEPS,
}


def write_log(path: Path, mean: Callable[[int], float], *, metrics: bool) -> None:
    """Write a run whose rewards are 0 or 1; the trainer's metrics say the mean of more of them."""
    rng = np.random.default_rng(7)
    write_graded(
        path,
        steps=STEPS,
        reward=lambda step, prompt, k: rng.random() < mean(step),
        each=EACH,
        fields=({},) * PROMPTS,
    )
    if metrics:
        lines = [
            {"step": s, "reward": rng.binomial(256, mean(s)) / 256}
            for s in range(STEPS)
        ]
        write(path / "metrics.jsonl", lines)


def assert_course(course: dict[str, Any], tables: dict[str, pd.DataFrame]) -> None:
    """Recompute the levels from the table of their series, and check the pieces' order."""
    column = course["series"]["column"]
    table = tables[course["series"]["file"]].dropna(subset=column)
    steps = table["step"].tolist()
    values = table[column].tolist()
    count = len(values)
    # The widths of docs/checks.md, written a second time
    twentieth = min(10, math.floor(count / 20 + 0.5))
    widest = min(max(3, twentieth), max(1, count // 3))
    if course["quantity"] == "validation":
        widest = 1
    for name in ("first", "best", "lowest", "last"):
        level = course[name]
        if level is None:
            assert course["lower_is_better"] is None
            continue
        first, last = level["steps"]
        left_out = level.get("without", [])
        inside = [
            value
            for step, value in zip(steps, values, strict=True)
            if first <= step <= last and step not in left_out
        ]
        assert level["value"] == pytest.approx(sum(inside) / len(inside), abs=1e-6)
        if name in ("first", "last"):
            assert len(inside) <= widest
    assert course["first"]["steps"][0] == steps[0]
    assert course["last"]["steps"][1] == steps[-1]
    assert course["lowest"]["value"] <= course["first"]["value"]
    pieces = course["pieces"]
    assert 1 <= len(pieces) <= 6
    assert pieces[0]["steps"][0] == steps[0]
    assert pieces[-1]["steps"][1] == steps[-1]
    for piece in pieces:
        assert (piece["kind"] == "rise") == (piece["to"] > piece["from"])
        assert (piece["kind"] == "fall") == (piece["to"] < piece["from"])
    for before, after in itertools.pairwise(pieces):
        last_before = steps.index(before["steps"][1])
        assert steps.index(after["steps"][0]) == last_before + 1


CHANGES = re.compile(
    r"(rose|fell) from ([−\d.]+)%?(?: \(steps? [\d–]+\))? to ([−\d.]+)%?"
    r"(?: \(steps? [\d–]+\), then (fell) to ([−\d.]+))?"
)


def assert_words_agree(sentence: str) -> None:
    """Check that what is said to rise or fall does so in the numbers printed beside it."""
    for word, start, end, then, low in CHANGES.findall(sentence.replace(",", "")):
        first, second = (
            float(number.replace("−", "-").rstrip(".")) for number in (start, end)
        )
        assert (second > first) == (word == "rose"), sentence
        assert not then or float(low.replace("−", "-").rstrip(".")) < second, sentence


@pytest.mark.parametrize("metrics", [False, True], ids=["rollouts", "metrics"])
@pytest.mark.parametrize("name", RUNS)
def test_sentence_and_data_agree(name: str, metrics: bool, tmp_path: Path) -> None:
    write_log(tmp_path, RUNS[name], metrics=metrics)
    tables = summarise(read(tmp_path / "log.jsonl"), find_and_read([tmp_path]))
    verdict = findings_json(run_checks(tables))["verdict"]
    for course in verdict["course"]:
        assert_course(
            course, {"steps.csv": tables.steps, "metrics.csv": tables.metrics}
        )
    assert_words_agree(verdict["sentence"])
    assert verdict["course"][0]["quantity"] == "reward"


def test_every_output_prints_the_course_and_the_best_only_where_it_was_lost(
    tmp_path: Path,
) -> None:
    write_log(tmp_path / "logs", RUNS["dies"], metrics=True)
    built = rlreport.build(tmp_path / "logs", tmp_path / "report", workers=1)
    rlreport.build(tmp_path / "logs", tmp_path / "run.md", workers=1)
    rlreport.index([tmp_path / "report"], tmp_path / "runs.html")
    reward = built.verdict.courses["reward"]
    tiles = {tile.key: tile for tile in built.figures}
    tile = tiles["reward_mean"]
    length = tiles["response_chars_mean"]
    assert tile.first is not None and tile.best is not None and length.best is None
    numbers = [part.value for part in (reward.first, reward.top, reward.last)]
    assert [cell.value for cell in (tile.first, tile.best, tile.now)] == numbers
    markdown = (tmp_path / "run.md").read_text()
    assert f"| {tile.first.text} | {tile.best.text} | {tile.now.text} |" in markdown
    row = html.unescape((tmp_path / "runs.html").read_text().split("<tbody>")[1])
    assert row.index(f">{tile.first.text}<") < row.index(f">{tile.now.text}<")
    page = (tmp_path / "report/index.html").read_text()
    assert "over all rollouts; 8 per step are logged." in page


def test_pieces_tell_rise_plateau_collapse_and_recovery() -> None:
    rng = np.random.default_rng(3)
    levels = np.concatenate(
        [
            np.linspace(0, 1, 40),
            np.ones(30),
            np.zeros(30),
            np.linspace(0, 0.8, 40),
        ]
    )
    series = Series(np.arange(140), levels + rng.normal(0, 0.02, 140))
    course = course_of(series, "reward_mean")
    assert course is not None
    pieces = course.curve.pieces
    assert [piece.kind for piece in pieces] == ["rise", "flat", "flat", "rise"]
    starts = [piece.steps[0] for piece in pieces]
    assert starts == pytest.approx([0, 40, 70, 100], abs=2)
    valley = course.curve.valley
    assert valley is not None
    assert valley.onset == pytest.approx(70, abs=1)


def test_three_spikes_are_no_event_and_no_change() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(0.5, 0.05, 200)
    values[100:103] = 3.0
    course = course_of(Series(np.arange(200), values), "reward_mean")
    assert course is not None
    assert course.curve.events == ()
    assert course.direction == 0


@pytest.mark.parametrize(
    ("end", "keep"),
    [
        ([43, 42, 43, 42, 43, 42, 41], 30),
        ([45, 46, 45], 60),
    ],
)
def test_the_best_checkpoint_is_kept_where_validation_slipped(
    end: list[int], keep: int
) -> None:
    tables = evaluated([score / 100 for score in (20, 30, 38, 46, *end)])
    verdict = run_checks(tables)
    assert verdict.keep_step == keep
    slipped = (
        "alidation rose from 0.20 (step 0) to 0.46 (step 30) and is 0.41 at the end."
    )
    assert (slipped in verdict.sentence) == (keep == 30)
    # Beside the first and the last mean, the best one is shown only where it was clearly lost.
    run = SimpleNamespace(tables=tables, verdict=verdict)
    shared = SimpleNamespace(tile_names=())
    report: Any = SimpleNamespace(run=run, shared=shared, once=lambda _, make: make())
    best = {figure.label: figure.best for figure in run_figures(report)}
    assert (best["Validation"] is not None) == (keep == 30)


def test_a_lead_that_no_logged_response_shows_says_so() -> None:
    finding = ToldFinding("kl_explosion", Severity.CRITICAL, Rank.CAUSE, unseen=8)
    view = verdict_view(
        Verdict("critical", "kl_explosion", findings=[finding]), Addresses()
    )
    page = environment(ENGLISH).from_string(
        '{% from "macros/findings.html" import verdict with context %}{{ verdict(view) }}'
    )
    assert (
        page.render(view=view).count(
            "Not visible in the 8 logged responses of these steps."
        )
        == 1
    )


def test_numbers_of_a_findings_examples_have_units_in_singular_and_plural() -> None:
    examples = tuple(
        Example(3, n, value=value, unit=unit)
        for n, (value, unit) in enumerate(
            [(1.0, "tokens"), (2.0, "tokens"), (1.0, "nats")]
        )
    )
    finding = ToldFinding(
        "kl_explosion", Severity.CRITICAL, Rank.CAUSE, evidence=examples
    )
    told = [example.value for example in finding_view(finding, Addresses()).examples]
    assert told == ["1 token", "2 tokens", "1 nats"]


def test_an_unclear_run_has_no_lead_a_valid_report_and_every_output_names_its_level(
    tmp_path,
):
    random = dice.Random(3)
    logs = write_graded(tmp_path / "logs", reward=lambda *_: random.gauss())
    for name in ("run", "run.eml", "run.md"):
        rlreport.build(logs, tmp_path / name, workers=1)
    found = json.loads((tmp_path / "run/data/findings.json").read_text())
    validate(found, "findings")
    validate(json.loads((tmp_path / "run/data/report.json").read_text()), "report")
    verdict = found["verdict"]
    assert (verdict["level"], verdict["lead"], verdict["keep_step"]) == (
        "unclear",
        None,
        None,
    )
    assert verdict["sentence"].startswith("Unclear: the reward ")
    page = (tmp_path / "run/index.html").read_text()
    assert '<section class="verdict unclear"' in page
    heading = re.search('<h2 class="sentence">(.*?)</h2>', page, re.DOTALL)
    assert heading
    assert re.sub("<[^>]*>", "", heading[1]) == f"? {verdict['what']}"
    assert "**Unclear: " in (tmp_path / "run.md").read_text()
    mail = email.message_from_bytes(
        (tmp_path / "run.eml").read_bytes(), policy=email.policy.default
    )
    assert "Unclear: no clear learning" in mail["subject"]
    body = mail.get_body(("html",))
    assert body is not None and 'class="sentence unclear"' in body.get_content()
    rlreport.index(tmp_path / "run", tmp_path / "index.html")
    index = (tmp_path / "index.html").read_text()
    assert "? Unclear" in re.sub("<[^>]*>", "", index)
    made = rlreport.compare(logs, tmp_path / "run", tmp_path / "out")
    page = (tmp_path / "out" / "compare.html").read_text()
    # Of both runs, at the head and in the table of what differs
    assert page.count('aria-hidden="true">?</span> Unclear</span>') == 4
    assert "Unclear" not in made.sentence
    levels = {"base": ["unclear"], "new": ["unclear"]}
    assert comparison_json(tmp_path / "out")["levels"] == levels


def judged_reward(levels: np.ndarray, noise: float = 0.02) -> Verdict:
    """Return the verdict on a run of four responses a step whose rewards have these levels."""
    random = np.random.default_rng(11)
    step = np.repeat(np.arange(1, len(levels) + 1), 4)
    reward = np.repeat(levels, 4) + random.normal(0, noise, len(step))
    return run_checks(make_tables({"step": step, "reward": reward}))


def test_a_valley_is_told_by_the_levels_around_it() -> None:
    levels = np.repeat([0.6, 0.1, 0.65], [40, 30, 60])
    # Neither the first level nor the last one is that around the valley.
    levels[:3] -= 0.05
    levels[-10:] -= 0.05
    sentence = judged_reward(levels, noise=0.1).sentence
    assert "fell from 0.60 to 0.10 in steps 41–70 and recovered to 0.64." in sentence


def test_a_dip_above_the_start_is_not_called_a_low() -> None:
    levels = np.concatenate(
        [np.linspace(0.1, 0.7, 40), np.repeat([0.3, 0.7], [20, 60])]
    )
    words = judged_reward(levels).sentence
    assert "dipped to 0.3" in words or "with a dip to 0.3" in words
    assert "low of" not in words
    below = np.repeat([0.4, 0.1, 0.9], [25, 4, 70])
    assert "had a low of 0.099 in steps 26–29" in judged_reward(below).sentence


def test_a_gradual_fall_does_not_seem_to_lie_in_the_steps_of_its_lowest_level() -> None:
    fall = np.linspace(1.0, 0.3, 60)
    levels = np.concatenate([fall, np.repeat(0.92, 120)])
    words = judged_reward(levels, noise=1.0).sentence
    fell = r"fell gradually from [\d.]+ to [\d.]+ \(steps \d+–\d+\) and recovered to"
    assert re.search(fell, words), words


def test_a_reward_with_a_trend_that_may_be_noise_does_not_stay_at_a_level() -> None:
    drifting = judged_reward(np.linspace(0.55, 0.68, 80), noise=0.28)
    assert "the gain may be noise" in drifting.next
    assert "did not clearly change: 0.60 in steps 1–4, 0.65" in drifting.what
    assert "in steps" not in drifting.course_sentence  # not the same numbers again
    still = judged_reward(np.full(80, 0.6), noise=0.28)
    assert "the reward stays at about 0.6" in still.sentence


def test_what_stays_dead_is_told_by_its_last_level_not_by_the_mean_with_its_fall() -> (
    None
):
    rise = np.linspace(0.1, 0.6, 30)
    levels = np.concatenate([rise, np.zeros(30)])
    levels[30:34] = 0.03
    verdict = judged_reward(levels, noise=0.0)
    falls = {one.id: one.facts for one in verdict.findings}
    assert falls["reward_collapse"]["end"] == 0.0


def test_the_best_level_has_the_highest_plain_mean() -> None:
    steep = np.array([0.05, 0.15, 0.25, 0.33])
    levels = np.repeat([0.30, 0.1], [8, 28])
    values = np.concatenate([steep, levels])
    random = np.random.default_rng(5)
    series = Series(np.arange(40), values + random.normal(0, 0.01, 40))
    course = course_of(series, "reward_mean", "reward")
    assert course is not None
    assert course.top.value == pytest.approx(0.30, abs=0.02)


def test_a_fall_that_recovered_does_not_spoil_the_checkpoint() -> None:
    rise = np.linspace(0.2, 0.5, 40)
    recovery = np.linspace(0.1, 0.9, 80)
    levels = np.concatenate([rise, np.full(40, 0.1), recovery])
    verdict = judged_reward(levels)
    assert verdict.keep_step is not None
    assert verdict.keep_step > 120


def test_a_reward_that_rises_while_validation_probably_falls_is_unclear() -> None:
    random = np.random.default_rng(8)
    steps = np.arange(1, 101)
    step = np.repeat(steps, 4)
    reward = step / 100 + random.normal(0, 0.05, len(step))
    scores = np.full(100, np.nan)
    of_evaluations = [50, 45, 63, 29, 45, 33, 23, 25, 32, 20]
    scores[::10] = of_evaluations
    metrics = pd.DataFrame({"step": steps, "val/accuracy": scores})
    made = make_tables({"step": step, "reward": reward}, metrics=metrics)
    verdict = run_checks(made)
    assert verdict.level == "unclear"
    assert "probably fell" in verdict.sentence
