"""The map of prompts × steps: its cells, its size, and hostile runs."""

import json
import re
from itertools import product
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rlreport
from rlreport.draw.cells import COLOURS
from rlreport.draw.prompt_map import (
    MOST_COLUMNS,
    MOST_PROMPTS,
    cells_on_page,
    colour_indices,
    prompt_map,
    scale_of,
    step_bins,
)
from rlreport.draw.strips import Steps, axis_of
from rlreport.draw.theme import tokens
from rlreport.pages.prompt_map_view import _rule
from rlreport.summarise.run import prompt_table
from rlreport.text.language import ENGLISH
from tests.reading import row, write
from tests.tables_builder import response_table

NO_RULES = Steps(axis_of(0, 1), ())
STROKE = re.compile(r"m(-?\d+) (-?\d+)h(\d+)")


def responses(prompts, steps, size, reward, **columns) -> pd.DataFrame:
    """A run in which each prompt is seen at each step."""
    step = np.repeat(np.asarray(steps), prompts * size)
    prompt = np.tile(np.repeat(np.arange(prompts), size), len(steps))
    earned = reward(step, prompt).astype(float)
    table = response_table(
        {"step": step, "prompt_id": prompt, "reward": earned, **columns}
    )
    if len(np.unique(earned)) == 2:
        table["correct"] = (earned == earned.max()).astype(float)
    return table


def random_rewards(levels: int):
    random = np.random.default_rng(5)
    return lambda step, prompt: random.integers(0, levels, len(step))


def map_of(table: pd.DataFrame):
    return prompt_map(table, prompt_table(table))


def painted(svg: str, columns: int, rows: int) -> np.ndarray:
    """Return the index of the colour of each cell of a drawing, −1 where there is none."""
    cells = np.full((rows, columns), -1)
    for colour, path in re.findall(
        r'<path stroke="var\(--([\w-]+)\)" d="M0 .5(.*?)"/>', svg
    ):
        x = y = 0
        for right, down, along in STROKE.findall(path):
            x += int(right)
            y += int(down)
            assert (cells[y, x : x + int(along)] == -1).all()
            cells[y, x : x + int(along)] = COLOURS.index(colour)
            x += int(along)
    return cells


@pytest.mark.parametrize("levels", [2, 7])
def test_each_cell_is_the_mean_of_its_responses(levels):
    table = responses(5, range(130), 3, random_rewards(levels))
    drawn = map_of(table)
    expected = table.assign(column=table["step"] // 3)  # 130 steps in 44 columns of 3
    means = expected.groupby(["prompt_id", "column"])["reward"].mean().unstack()
    assert drawn.bins.count == 44
    assert np.allclose(drawn.means, means.loc[drawn.prompts])
    assert drawn.bins.limits(1) == (3, 5)
    assert drawn.bins.limits(43) == (129, 129)


@pytest.mark.parametrize("levels", [2, 7])
def test_the_drawing_has_the_colour_of_each_cell(levels):
    table = responses(9, range(20), 4, random_rewards(levels))
    table = table.drop(table.index[10:40]).reset_index(
        drop=True
    )  # some cells are empty
    drawn = map_of(table)
    svg = cells_on_page(drawn, NO_RULES, "a map", ENGLISH)
    found = painted(svg, drawn.bins.count, len(drawn.prompts))
    assert (found == colour_indices(drawn)).all()
    assert (found == -1).sum() == (drawn.count == 0).sum() > 0
    scale = scale_of(drawn)
    span = scale.high - scale.low
    part = np.clip((drawn.means - scale.low) / span, 0, 1)
    known = found >= 0
    last = len(COLOURS) - 1
    assert (found[known] == np.rint(part * last)[known]).all()


@pytest.mark.parametrize(
    ("steps", "count", "width"),
    [
        (range(60), 60, 1),
        (range(61), 31, 2),
        (range(0, 500, 10), 50, 1),  # every tenth step is logged
        (range(0, 1000, 10), 50, 2),
        ([7], 1, 1),
        ([0, 2**53], 2, 1),
        ([0, 7, 2**53], MOST_COLUMNS, None),
    ],
)
def test_columns_are_equally_many_logged_steps_and_at_most_sixty(steps, count, width):
    bins = step_bins(np.array(list(steps)))
    assert bins.count <= MOST_COLUMNS
    if width is not None:
        assert (bins.count, bins.width) == (count, width)
    columns = bins.column(np.array(list(steps)))
    assert columns.min() == 0
    assert columns.max() == bins.count - 1
    low, high = bins.extent
    assert low < bins.first
    assert high > bins.last


def test_columns_are_so_wide_that_most_cells_are_filled():
    # Of 96 prompts each step has 24: each is seen once in four steps.
    random = np.random.default_rng(1)
    epochs = [random.permutation(96) for _ in range(15)]
    prompt = np.concatenate(epochs)
    step = np.arange(len(prompt)) // 24
    columns = {"step": step, "prompt_id": prompt, "reward": random.random(len(prompt))}
    drawn = map_of(response_table(columns))
    assert drawn.bins.count == 15
    assert drawn.bins.width == 4
    assert (drawn.count > 0).all()


def test_columns_stay_steps_if_prompts_miss_some():
    assert step_bins(np.arange(20), seen=18).count == 20
    assert step_bins(np.arange(20), seen=12).count == 10


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_lowest_colour_differs_clearly_from_an_empty_cell(theme):
    def luminance(colour: str) -> float:
        parts = np.array([*bytes.fromhex(colour.removeprefix("#"))]) / 255
        return float(parts**2.2 @ [0.2126, 0.7152, 0.0722])

    colours = tokens(theme)
    levels = sorted([luminance(colours[COLOURS[0]]), luminance(colours["page"])])
    assert (levels[1] + 0.05) / (levels[0] + 0.05) > 1.5


def test_a_map_is_bounded_whatever_the_run():
    table = responses(700, range(80), 1, random_rewards(50))
    drawn = map_of(table)
    assert len(drawn.prompts) == MOST_PROMPTS
    assert drawn.of == 700
    svg = cells_on_page(drawn, NO_RULES, "a map", ENGLISH)
    assert len(svg) < 300_000
    usual = map_of(responses(64, range(50), 8, random_rewards(2)))
    assert len(cells_on_page(usual, NO_RULES, "a map", ENGLISH)) < 60_000


def test_of_many_prompts_those_at_even_distances_are_shown():
    # Prompt i is solved more and more often for i < 300, less and less otherwise.
    table = responses(
        600, range(8), 2, lambda step, prompt: (step >= 4) == (prompt < 300)
    )
    drawn = map_of(table)
    rising = sum(prompt < 300 for prompt in drawn.prompts)
    assert rising == MOST_PROMPTS / 2
    assert all(prompt < 300 for prompt in drawn.prompts[:rising])


def test_prompts_of_validation_are_below_those_of_the_training():
    table = responses(6, range(6), 4, random_rewards(2))
    table["validation"] = (table["prompt_id"] >= 4).astype(np.int8)
    drawn = map_of(table)
    assert drawn.validation == 2
    assert {*drawn.prompts[-2:]} == {4, 5}
    assert drawn.gap > 0
    assert "<svg y=" in cells_on_page(drawn, NO_RULES, "a map", ENGLISH)


@pytest.mark.parametrize(
    "reward",
    [
        lambda step, prompt: np.full(len(step), 0.25),
        lambda step, prompt: np.sign(step - 1.5) * 1e308 * (1 - prompt / 9),
        lambda step, prompt: np.where(prompt == 0, 1e300, step % 3),
    ],
    ids=["equal", "huge", "an outlier"],
)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
def test_equal_and_huge_rewards_are_drawn(reward):
    table = responses(3, range(4), 2, reward)
    drawn = map_of(table)
    indices = colour_indices(drawn)
    assert ((indices >= -1) & (indices < len(COLOURS))).all()
    svg = cells_on_page(drawn, NO_RULES, "a map", ENGLISH)
    assert "nan" not in svg
    assert "inf" not in svg


def test_prompts_that_do_not_recur_have_no_map(tmp_path: Path):
    rows = [row(step, prompt=f"prompt {step}", reward=step % 2) for step in range(6)]
    write(tmp_path / "log.jsonl", rows)
    out = tmp_path / "out"
    rlreport.build(tmp_path / "log.jsonl", out, workers=1)
    page = (out / "prompts.html").read_text()
    assert "prompt-map" not in page
    assert "No prompt has rewards at several steps" in page
    assert json.loads((out / "data/report.json").read_bytes())["prompts"] is None


def seen_once(prompts: int) -> list[dict[str, Any]]:
    return [
        row(k % 7, prompt=f"once {k}", response=f"r{k}", reward=k % 2)
        for k in range(prompts)
    ]


def seen_often(prompts: int) -> list[dict[str, Any]]:
    rows = []
    for step, k in product(range(4), range(prompts)):
        told = {"prompt": f"often {k}", "response": f"{step}"}
        rows.append(row(step, reward=step % 2, **told))
    return rows


def built(folder: Path, rows: list[dict[str, Any]]) -> Path:
    write(folder / "log.jsonl", sorted(rows, key=itemgetter("step")))
    rlreport.build(folder / "log.jsonl", folder / "out", workers=1)
    return folder / "out"


def test_few_prompts_that_recur_make_no_map_and_no_counts(tmp_path: Path):
    out = built(tmp_path, seen_once(137) + seen_often(3))
    page = (out / "prompts.html").read_text()
    assert "prompt-map" not in page
    assert "Only 3 of 140 prompts have rewards at several steps" in page
    assert "seen at several steps" not in (out / "index.html").read_text()


def test_few_prompts_of_validation_that_recur_make_a_map():
    table = responses(140, [0], 4, random_rewards(2))
    again = responses(2, range(9), 1, random_rewards(2))
    again["prompt_id"] += 140
    both = pd.concat([table, again], ignore_index=True).sort_values("step")
    assert map_of(both) is None
    both["validation"] = (both["prompt_id"] >= 140).astype(np.int8)
    drawn = map_of(both)
    assert drawn is not None
    assert {*drawn.prompts} == {140, 141}


def test_page_of_prompts_has_one_heading_above_the_list(tmp_path: Path):
    page = (built(tmp_path, seen_often(5)) / "prompts.html").read_text()
    above = page[: page.index("prompt-table")]
    assert re.findall(r"<h([1-6])", above[above.index("<main") :]) == ["1"]


def test_counts_of_few_answers_say_that_small_changes_do_not_show(tmp_path: Path):
    page = (built(tmp_path, seen_often(5)) / "prompts.html").read_text()
    assert "With 1 response in each third, only large changes can be told." in page
    many = (built(tmp_path / "many", 18 * seen_often(5)) / "prompts.html").read_text()
    assert "Improved and regressed" in many
    assert "only large changes" not in many


def test_counts_of_a_hacked_reward_say_that_it_is_not_earned():
    verdict = SimpleNamespace(id="reward_hacking_token", name="reward hacking")
    for lead, is_said in ((verdict, True), (None, False)):
        report: Any = SimpleNamespace(run=SimpleNamespace())
        report.run.verdict = SimpleNamespace(leading=lead)
        table = responses(5, range(8), 4, random_rewards(2))
        report.run.tables = SimpleNamespace(prompts=prompt_table(table))
        rule = str(ENGLISH.of(_rule(report, map_of(table))))
        assert ("“reward hacking” says that these rewards" in rule) == is_said


def test_a_hostile_prompt_stays_text(tmp_path: Path):
    bad = "</script><img src=x onerror=alert(1)>\ud800{prompt}"
    rows: list[dict[str, Any]] = []
    for step in (0, 0, 0, 1, 1, 1):
        response = f"r{len(rows)}"
        rows.append(row(step, prompt=bad, response=response, reward=float(step)))
    write(tmp_path / "log.jsonl", rows)
    out = tmp_path / "out"
    rlreport.build(tmp_path / "log.jsonl", out, workers=1)
    page = (out / "prompts.html").read_text()
    assert "prompt-map" in page
    assert "<img" not in page
