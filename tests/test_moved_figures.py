"""What moved: the choice of figures, their line of words, their small charts in each form."""

import email
import email.policy
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rlreport
from rlreport.check import quantities
from rlreport.check.finding import Finding, Onset, Rank, Severity
from rlreport.check.moved import (
    FEWEST,
    MOST,
    MovedFigures,
    _are_alike,
    focus_of,
    moved_figures,
)
from rlreport.check.moved_words import moved_in_words
from rlreport.check.run import Run
from rlreport.check.series import Series
from rlreport.draw.rules import RunRule
from rlreport.draw.strips import Steps, axis_of, shows_pieces, strip
from tests.reading import write
from tests.tables_builder import table_of_rows, tables_of

STEPS = 80
BREAK = 40
Values = dict[str, np.ndarray]


def noisy(seed: int, level: float = 1.0, size: float = 0.02) -> np.ndarray:
    return level + size * np.random.default_rng(seed).normal(size=STEPS)


def broken(seed: int, before: float, after: float, at: int = BREAK) -> np.ndarray:
    levels = np.where(np.arange(STEPS) < at, before, after)
    return levels + 0.02 * np.random.default_rng(seed).normal(size=STEPS)


def run_of(reward: np.ndarray, **metrics: np.ndarray) -> Run:
    """Return a run with two responses a step around this reward, and these metrics."""
    rows = []
    for step, mean in enumerate(reward.tolist()):
        rows.append({"step": step, "reward": mean - 0.01})
        rows.append({"step": step, "reward": mean + 0.01})
    tables = tables_of(table_of_rows([{"response_tokens": 9.0, **row} for row in rows]))
    tables.metrics = pd.DataFrame({"step": np.arange(STEPS), **metrics})
    return Run(tables)


def lead(step: int = BREAK) -> Finding:
    return Finding(
        "reward_collapse",
        Severity.CRITICAL,
        Rank.CONSEQUENCE,
        charts=("reward",),
        onset=Onset(step, step - 1, step),
    )


def moved(run: Run, finding: Finding | None, keep: int | None = None) -> MovedFigures:
    courses = list(quantities.courses(run).values())
    return moved_figures(run, courses, finding, keep)


def names(found: MovedFigures) -> list[str]:
    return [one.figure.name or str(one.figure.quantity) for one in found.figures]


def collapsed(**metrics: np.ndarray) -> Run:
    return run_of(broken(0, 0.9, 0.1), **metrics)


def test_an_unknown_metric_is_shown_if_it_breaks_at_the_onset_and_a_flat_one_is_not():
    run = collapsed(**{"aux/odd": broken(1, 2.0, 5.0), "aux/flat": noisy(2)})
    found = moved(run, lead())
    assert names(found) == ["reward", "aux/odd"]
    assert all(one.is_near for one in found.figures)


def test_the_figure_of_the_lead_finding_is_first_then_the_nearest():
    run = collapsed(
        **{
            "aux/at": broken(1, 2.0, 3.0),
            "aux/late": broken(2, 2.0, 9.0, at=BREAK + 2),
            "aux/far": broken(3, 2.0, 9.0, at=10),
        }
    )
    found = moved(run, lead())
    assert names(found)[:3] == ["reward", "aux/at", "aux/late"]
    near = {one.figure.name: one.is_near for one in found.figures}
    assert not near.get("aux/far", False)


@pytest.mark.parametrize("name", ["raw_reward", "aux/scaled"])
def test_copies_of_a_figure_are_merged(name: str):
    reward = broken(0, 0.9, 0.1)
    scaled = {name: 3.0 * reward + 1.0}
    run = run_of(reward, **scaled, **{"aux/odd": broken(1, 2.0, 5.0)})
    assert names(moved(run, lead())) == ["reward", "aux/odd"]


def test_copies_without_two_values_in_a_row_are_alike():
    steps = np.arange(STEPS)
    values = np.where(steps % 2, np.nan, broken(1, 1.0, 2.0))
    assert _are_alike(Series(steps, values), Series(steps, 2 * values))


def test_a_metric_of_every_fourth_step_is_compared_with_the_reward_without_an_error():
    reward = broken(0, 0.9, 0.1)
    is_left_out = np.arange(STEPS) % 4 > 0
    sparse = np.where(is_left_out, np.nan, reward)
    run = run_of(reward, **{"aux/sparse": sparse, "aux/odd": broken(1, 2.0, 5.0)})
    assert {"reward", "aux/odd"} <= set(names(moved(run, lead())))


def test_figures_that_only_break_together_are_not_merged():
    run = collapsed(
        **{"aux/one": broken(1, 2.0, 90.0), "aux/two": broken(2, 3.0, 70.0)}
    )
    assert set(names(moved(run, lead()))) == {"reward", "aux/one", "aux/two"}


def test_several_statistics_of_one_metric_are_one():
    run = collapsed(
        **{"aux/size/mean": broken(1, 2.0, 5.0), "aux/size/max": broken(2, 6.0, 9.0)}
    )
    assert len(moved(run, lead()).figures) == 2


def test_counters_settings_and_ids_are_no_figures():
    run = collapsed(
        **{
            "num_tokens": np.arange(STEPS) * 100.0,
            "aux/total": np.cumsum(broken(1, 1.0, 9.0)),
            "learning_rate": broken(2, 1.0, 0.1) * 1e-6,
            "sample_id": broken(3, 5.0, 900.0),
        }
    )
    assert not moved(run, lead()), f"fewer than {FEWEST} figures moved"


def test_a_healthy_run_shows_what_moved_most():
    learning = np.linspace(0.1, 0.9, STEPS) + noisy(0, 0.0)
    run = run_of(
        learning,
        **{
            "aux/flat": noisy(1),
            "aux/small": noisy(2, 5.0) + np.linspace(0, 0.6, STEPS),
            "aux/large": noisy(3) + np.linspace(0, 9.0, STEPS) * noisy(4),
        },
    )
    found = moved(run, None)
    assert names(found) == ["reward", "aux/large", "aux/small"]
    assert "Moved most: reward 0.1" in str(moved_in_words(found))


def test_no_more_than_eight_are_shown_of_many():
    many = {f"aux/{n}": broken(n, 2.0, 3.0 + n) for n in range(1, 30)}
    run = collapsed(**many)
    assert len(moved(run, lead()).figures) == MOST


@pytest.mark.parametrize("seed", range(5))
def test_flat_runs_show_nothing(seed: int):
    run = run_of(
        noisy(100 + seed, 0.5),
        **{f"aux/{n}": noisy(10 * seed + n) for n in range(10)},
    )
    assert not moved(run, None)


def test_a_run_too_short_for_curves_shows_nothing():
    tables = run_of(broken(0, 0.9, 0.1)).tables.between(0, 3)
    assert not moved(Run(tables), None)


def test_the_line_has_the_numbers_of_the_courses_and_what_recovered():
    valley = broken(0, 0.9, 0.9)
    valley[BREAK : BREAK + 12] = 0.0
    run = run_of(valley, **{"aux/odd": broken(1, 2.0, 5.0)})
    words = str(moved_in_words(moved(run, lead())))
    assert words.startswith(f"From about step {BREAK} on: aux/odd × 2.5; ")
    assert words.endswith(f"; steps {BREAK}–{BREAK + 11}: reward 0, recovered.")


def test_a_quantity_is_told_with_levels_of_its_course_only():
    odd = broken(1, 2.0, 5.0)
    found = moved(run_of(broken(0, 0.2, 0.9), odd=odd), lead())
    reward = found.figures[names(found).index("reward")]
    boundary = replace(reward.move, before=0.4, after=0.7, is_event=False)
    others = [one for one in found.figures if one is not reward]
    figures = (reward._replace(move=boundary), *others)
    assert "reward" in str(moved_in_words(found))
    assert "reward" not in str(moved_in_words(replace(found, figures=figures)))


def test_a_climb_from_a_low_is_told_from_the_first_level_or_with_the_steps_of_the_low():
    low = np.where(np.arange(STEPS) < 10, 1.2, 0.3)
    far = broken(2, 0.0, 9.0) + low
    back = broken(3, 0.0, 0.6) + low
    words = {}
    for name, entropy in (("far", far), ("back", back)):
        run = run_of(broken(0, 0.9, 0.1), entropy=entropy)
        words[name] = str(moved_in_words(moved(run, lead())))
    assert "entropy × 7." in words["far"]
    assert "entropy 0.30 (steps " in words["back"]
    assert "→ 0.90" in words["back"]


@pytest.mark.parametrize(
    ("name", "before", "after", "words"),
    [
        ("aux/odd", 2.0, 5.0, "aux/odd × 2.5"),
        ("aux/odd", 0.2, 5.0, "aux/odd 0.20 → 5"),  # 4% of the range
        ("objective/kl", 0.02, 0.06, "KL × 3"),
        ("objective/kl", 0.00013, 0.049, "KL 0.00013 → 0.049"),
    ],
)
def test_no_factor_is_told_from_a_level_that_is_nearly_zero(
    name: str, before: float, after: float, words: str
):
    level = np.where(np.arange(STEPS) < BREAK, before, after)
    noise = noisy(1, 0.0, 0.01) * before
    run = run_of(broken(0, 0.9, 0.1), **{name: level + noise})
    assert words in str(moved_in_words(moved(run, lead())))


def test_a_wide_interval_that_ends_before_the_onset_is_not_around_it():
    onset = Onset(60, 20, 60)
    steps = np.arange(STEPS)
    slow = 1.0 + np.clip((steps - 20) / 10, 0.0, 2.0)
    run = run_of(broken(0, 0.9, 0.1, at=60), slow=slow)
    found = moved(run, replace(lead(60), onset=onset))
    assert not found.figures[names(found).index("slow")].is_near


def test_the_checkpoint_is_a_rule_unless_it_is_the_last_one():
    run = collapsed(**{"aux/odd": broken(1, 2.0, 5.0)})
    assert moved(run, lead(), BREAK - 1).keep == BREAK - 1
    assert moved(run, lead(), STEPS - 1).keep is None


def test_a_strip_says_if_its_thick_line_is_fitted():
    axis = axis_of(0.0, 79.0)
    for noise, is_fitted in ((0.02, False), (1.0, True)):
        odd = broken(1, 2.0, 5.0) + noisy(2, 0.0, noise)
        found = moved(collapsed(**{"aux/odd": odd}), lead())
        course = found.figures[names(found).index("aux/odd")].figure.course
        lines = strip(course, Steps(axis, ()), percent=False).count("<path")
        assert (shows_pieces(course), lines) == (is_fitted, 1 + is_fitted)


@pytest.mark.parametrize("step", [0, 30, 79])
def test_a_rule_stands_at_its_step(step: int):
    run = collapsed(**{"aux/odd": broken(1, 2.0, 5.0)})
    axis = axis_of(0.0, 79.0)
    steps = Steps(axis, (RunRule(step, "here", "critical", dashed=False),))
    course = moved(run, lead()).figures[0].figure.course
    marks = strip(course, steps, percent=False)
    place = f"{100 * step / 79:.4g}%"
    assert f'<line x1="{place}" x2="{place}"' in marks


def test_the_focus_is_the_event_and_as_much_on_both_sides():
    run = collapsed(**{"aux/odd": broken(1, 2.0, 5.0)})
    focus = focus_of(moved(run, lead()), run.steps)
    assert focus is not None
    low, high = focus
    assert low < BREAK - 1 and high > BREAK
    assert high - low < STEPS / 2


def test_an_event_that_fills_the_run_has_no_focus():
    long = np.linspace(0.9, 0.1, STEPS) + noisy(0, 0.0)
    run = run_of(long, **{"aux/odd": broken(1, 2.0, 5.0)})
    found = moved(run, lead(10))
    assert focus_of(found, run.steps) is None
    assert focus_of(replace(found, onset=None), run.steps) is None


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Metrics of a run whose reward dies at BREAK, when a metric of unknown meaning jumps."""
    reward = broken(0, 0.9, 0.0)
    odd = broken(1, 2.0, 5.0)
    rows: list[dict[str, Any]] = [
        {"step": step, "reward": reward[step], "kl": 0.1, "aux/odd": odd[step]}
        for step in range(STEPS)
    ]
    return write(tmp_path_factory.mktemp("moved") / "metrics.jsonl", rows)


def test_the_page_has_the_small_charts_before_the_key_figures(logs, tmp_path):
    rlreport.build(logs, tmp_path / "out")
    overview = (tmp_path / "out" / "index.html").read_text("utf-8")
    section = re.search(r'<section class="moved".*?</section>', overview, re.DOTALL)
    assert section is not None
    assert section.end() < overview.index('class="figures"')
    assert f"onset: {BREAK}" in section[0]
    assert 'href="#chart=reward"' in section[0]
    assert 'href="#chart=metric_aux_odd"' in section[0]
    targets = re.findall(r'href="#(chart=\w+)"', section[0])
    assert all(f'id="{target}"' in overview for target in targets)
    assert 'class="whole"' in overview, "the chart of the finding is focused"


def test_mail_and_markdown_have_one_picture_of_them_all(logs, tmp_path):
    rlreport.build(logs, tmp_path / "run.md")
    png = (tmp_path / "run_files" / "moved.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert f"From about step {BREAK} on: " in (tmp_path / "run.md").read_text("utf-8")
    rlreport.build(logs, tmp_path / "run.eml")
    mail = email.message_from_bytes(
        (tmp_path / "run.eml").read_bytes(), policy=email.policy.default
    )
    ids = [part["Content-ID"] for part in mail.walk() if part["Content-ID"]]
    assert ids[0].startswith("<moved@")


def test_a_redacted_report_has_no_name_of_the_log_in_them(logs, tmp_path):
    rlreport.build(logs, tmp_path / "out.html", redact="names")
    assert "aux/odd" not in (tmp_path / "out.html").read_text("utf-8")


@pytest.mark.untraced
def test_a_click_opens_the_nearest_step(browser, hacking):
    from tests.browser import visiting

    with visiting(browser, hacking / "index.html") as page:
        plot = page.locator(".moved .strip.opens > svg").first
        box = plot.bounding_box()
        assert box is not None
        plot.click(position={"x": box["width"] * 0.5, "y": 40})
        page.wait_for_url(re.compile(r"/steps/\d+\.html"))
