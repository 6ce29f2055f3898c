"""The film strip: which answers it shows, and how their texts become rows of a grid."""

import base64
import gzip
import json
import re
from itertools import chain, compress, product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import rlreport
from rlreport.draw.film_strip import FilmStripData, film_strip, picture
from rlreport.draw.film_text import (
    EXCERPT,
    FilmRowData,
    bin_of,
    clip_of,
    excerpt,
    marked_rows,
    shown_lines,
)
from rlreport.figures.ragged import Floats
from rlreport.pages.film import (
    MOST_ROWS,
    Answers,
    Citation,
    Citations,
    film_answers,
    film_steps,
)
from rlreport.text.cells import cells
from rlreport.text.word_changes import new_words
from tests.film_cases import HOSTILE, strip
from tests.reading import row, tokens, write

NONE: Citations = {}


def answers(*given: tuple[int, int, float], usual: float = 0.0) -> Answers:
    """Make answers of (step, n, reward); ``usual``: the mean at every step."""
    steps, numbers, rewards = zip(*given, strict=True)
    return Answers(
        np.arange(len(given)),
        np.array(steps),
        np.array(numbers),
        np.array(rewards, float),
        np.full(len(given), usual),
    )


def chosen(of: Answers, citations: Citations = NONE, onset: int | None = None) -> Any:
    return [int(of.steps[one.place]) for one in film_answers(of, citations, onset)]


def test_strip_shows_first_last_and_both_sides_of_the_onset() -> None:
    steps = np.arange(0, 100, 3)
    found = film_steps(steps, [], onset=50)
    assert {0, 48, 51, 99} <= set(found)
    assert len(found) == MOST_ROWS
    assert found == sorted(found)


def test_cited_steps_are_shown_and_two_of_them_come_before_the_onset() -> None:
    steps = np.arange(100)
    found = film_steps(steps, [70, 71, 72, 73, 74], onset=50)
    assert found == [0, 49, 50, 70, 71, 99]


def test_without_onset_and_citations_steps_are_spread_evenly() -> None:
    found = film_steps(np.arange(101), [], None)
    assert np.diff(found).max() <= 25
    assert film_steps(np.array([3, 9]), [], None) == [3, 9]


def test_onset_outside_of_the_prompts_steps_adds_its_neighbour_only() -> None:
    assert film_steps(np.arange(10, 20), [], onset=500)[-1] == 19
    assert film_steps(np.arange(10, 20), [], onset=0)[0] == 10


def test_answer_of_a_step_is_the_cited_one_else_the_one_nearest_to_the_mean() -> None:
    first = [(0, 0, 5.0), (0, 1, 1.0)]
    second = [(4, 0, 3.0), (4, 7, 9.0)]
    of = answers(*first, *second, usual=2.0)
    cited = {(4, 7): Citation("hack", 3)}
    assert [one.place for one in film_answers(of, cited, None)] == [1, 3]


def test_answer_without_a_reward_is_shown_where_there_is_no_other() -> None:
    unknown = [(step, 0, np.nan) for step in (0, 1)]
    of = answers(*unknown, (1, 1, 8.0))
    shown = film_answers(of, NONE, None)
    assert [one.place for one in shown] == [0, 2]


def test_prompt_of_one_step_shows_its_worst_median_and_best_answer() -> None:
    rewards = enumerate([0.5, -1.0, 2.0, 0.7, 0.1])
    of = answers(*[(3, n, reward) for n, reward in rewards])
    expected = [(1, "worst"), (0, "median"), (2, "best")]
    assert film_answers(of, NONE, None) == expected
    equal = answers(*[(3, n, 1.0) for n in range(9)])
    shown = film_answers(equal, NONE, None)
    assert [one.which for one in shown] == ["", "", ""]


def test_excerpt_keeps_both_ends_and_what_is_around_the_citation() -> None:
    texts = [f"w{k} " for k in range(3000)]
    part = excerpt(texts, [k % 12 for k in range(3000)], 1500)
    assert part.pieces[0][0] == "w0 "
    assert part.pieces[-1][-1] == "w2999 "
    assert part.cited is not None
    piece, token = part.cited
    assert part.pieces[piece][token] == "w1500 "
    assert part.bins[piece][token] == 1500 % 12
    assert len("".join(chain.from_iterable(part.pieces))) <= 3 * EXCERPT


SIZES = (0, 1, EXCERPT, 2 * EXCERPT, 2 * EXCERPT + 1, 1_000_000)


@pytest.mark.parametrize("size", SIZES)
def test_excerpt_of_one_token_of_any_size_is_bounded_and_keeps_its_ends(
    size: int,
) -> None:
    text = ("a" + "b" * size)[:size]
    part = excerpt([text], [7], 0)
    joined = "".join(chain.from_iterable(part.pieces))
    assert len(joined) <= min(size, 3 * EXCERPT)
    assert joined[:1] == text[:1]
    assert joined[-1:] == text[-1:]


def test_colours_are_clipped_at_the_98th_percentile_of_magnitudes() -> None:
    values: Floats = np.append(np.linspace(-1, 1, 199), 50.0)
    clip = clip_of(values)
    assert 0.9 < clip <= 1.0
    assert bin_of(50.0, clip) == 11
    assert bin_of(-50.0, clip) == 1
    assert bin_of(0.0, clip) == 6
    assert bin_of(np.nan, clip) == 0
    assert clip_of(np.array([np.nan])) == 0.0


def test_colours_of_the_largest_numbers_are_those_of_smaller_ones() -> None:
    values = [-1e308, 0.0, 1e308, np.inf]
    assert [bin_of(value, 1e308) for value in values] == [1, 6, 11, 11]


def test_wide_characters_take_two_cells_and_marks_none() -> None:
    for width, characters in ((1, "aéΩ"), (2, "猫カ한🎉，")):
        assert {cell.width for cell in cells(characters)} == {width}
    for one in ("👩\u200d👩\u200d👧", "👍🏽", "e\u0301"):
        assert [cell.text for cell in cells(one)] == [one]
    assert sum(cell.width for cell in cells("e" + 1000 * "\u0301")) == 1


def test_line_ends_are_visible_and_controls_are_not_obeyed() -> None:
    text = "".join(cell.text for cell in cells("a\nb\tc\x00\x1b[2J\u202eabc\ud800"))
    assert text == "a↵b⇥c��[2J�abc�"


def test_words_that_the_row_above_lacks_are_new() -> None:
    before = "the cat sat on the mat".split()
    after = "the dog sat on a mat".split()
    flags = new_words(before, after)
    assert list(compress(after, flags)) == ["dog", "a"]
    assert new_words([], ["a"]) == [True]
    assert new_words(["a"], []) == []


def film_row(*texts: str, bins: list[int] | None = None, **others: Any) -> FilmRowData:
    given: FilmRowData = {
        "name": "step 1",
        "head": "step 1",
        "about": [],
        "above": "",
        "pieces": [list(texts)],
        "bins": [bins or [0] * len(texts)],
        "cited": None,
        "step": 1,
        "reward": None,
        "href": None,
    }
    given.update(others)  # type: ignore[typeddict-item]
    return given


def coloured(given: FilmRowData) -> list[tuple[str, int]]:
    """Return the characters of a row with their bins."""
    (drawn,) = marked_rows([given])
    return [(atom.text, atom.bin) for atom in drawn.pieces[0]]


def new_text(*texts: str, above: str = "") -> list[str]:
    """Return what is marked as new in each row; ``above``: the prompt of the others."""
    first, *others = texts
    rows = [film_row(text, above=above) for text in others]
    marked = []
    for one in marked_rows([film_row(first), *rows]):
        new = [atom.text for atom in one.pieces[0] if atom.is_new]
        marked.append("".join(new))
    return marked


def test_parts_of_a_character_are_one_with_the_strongest_colour() -> None:
    shown = coloured(film_row("", "🎉", " x", bins=[11, 7, 6]))
    assert shown == [("🎉", 11), (" ", 6), ("x", 6)]


def test_broken_bytes_next_to_each_other_are_one_visible_character() -> None:
    shown = coloured(film_row("�", "��", "�a", bins=[6, 2, 0]))
    assert shown == [("�", 2), ("a", 0)]


def test_first_row_and_answers_to_other_prompts_have_no_new_words() -> None:
    assert new_text("one two", "three", above="Another prompt") == ["", ""]
    assert new_text("one two", "one three") == ["", "three"]
    assert new_text("one two", "four five two") == ["", "four five"]


@pytest.mark.parametrize("columns", [24, 40, 119])
def test_no_line_is_wider_than_the_grid(columns: int) -> None:
    for text in [*HOSTILE, "word " * 400, "猫" * 500, "x" * 900]:
        (drawn,) = marked_rows([film_row(text)])
        lines = shown_lines(drawn.pieces, columns, 4)
        assert 1 <= len(lines) <= 4
        for line in lines:
            used = sum(atom.width for atom in line.atoms)
            if line.atoms and line.atoms[-1].text == " ":
                used -= 1
            assert used + line.goes_on <= columns


def test_long_answer_shows_its_beginning_and_its_end_with_an_ellipsis() -> None:
    words = " ".join(f"w{k}" for k in range(120))
    (drawn,) = marked_rows([film_row(words)])
    lines = shown_lines(drawn.pieces, 40, 4)
    first = [atom.text for atom in lines[0].atoms]
    last = [atom.text for atom in lines[-1].atoms]
    assert "".join(first).startswith("w0 ")
    assert "".join(last).endswith("w119")
    assert [line.goes_on for line in lines] == [False, True, False, False]


def test_line_of_the_cited_token_is_shown() -> None:
    texts = [f"w{k} " for k in range(100)]
    part = excerpt(texts, [0] * 100, 50)
    given = film_row(*texts, cited=part.cited)
    (drawn,) = marked_rows([given])
    for most in (4, 6):
        lines = shown_lines(drawn.pieces, 40, most)
        atoms = chain.from_iterable(line.atoms for line in lines)
        assert any(atom.is_cited for atom in atoms)


@pytest.mark.parametrize("width", [240, 366, 619, 620, 1000])
@pytest.mark.parametrize("seed", range(20))
def test_strip_of_any_text_is_well_formed_and_inside_its_width(
    seed: int, width: int
) -> None:
    data = strip(seed)
    root = ET.XML(film_strip(data, width).markup())
    assert float(root.attrib["width"]) == width
    svg = "{http://www.w3.org/2000/svg}"
    for element in root.iter(f"{svg}text"):
        if "textLength" in element.attrib:
            end = float(element.attrib["x"]) + float(element.attrib["textLength"])
            assert end <= width + 0.1
    names = {element.tag.removeprefix(svg) for element in root.iter()}
    assert names <= {"svg", "g", "a", "path", "text", "circle"}


def test_picture_has_title_caption_and_no_link_or_custom_property() -> None:
    data: FilmStripData = {**strip(1), "title": "A question", "caption": "A run."}
    data["rows"] = [film_row("var(--page) of the answer", href="steps/1.html")]
    drawn = picture(data, 720)
    assert "A question" in drawn
    assert "A run." in drawn
    assert "var(--page) of the answer" in drawn  # a text is left as it is
    assert drawn.count("var(--") == 1
    assert "href" not in drawn
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")


SEEN = (2, 19, 32, 38, 48, 58)


def strip_of_curve(reach: float, width: float = 1000, **others: Any) -> str:
    """Draw answers at SEEN, of which each has a dot, in a run of 60 steps."""
    points = [(step, step / 60) for step in SEEN]
    curve = {
        "low": 0.0,
        "high": 59.0,
        "means": points,
        "dots": points,
        "reach": reach,
        "words": "Reward",
        **others,
    }
    rows = [film_row("Yes", step=step, reward=step / 60) for step in SEEN]
    data: Any = {**strip(1), "curve": curve, "rows": rows, "rules": []}
    return film_strip(data, width).markup()


@pytest.mark.parametrize("width", [360, 1000])
def test_each_row_has_a_tick_and_labels_are_those_of_rows_first(width: float) -> None:
    drawn = strip_of_curve(60, width)
    ticks = re.findall(r'<path d="((?:M[\d.]+,[\d.]+v4)+)"', drawn)
    assert [tick.count("M") for tick in ticks] == [len(SEEN)]
    labels = re.findall(r'text-anchor="middle"[^>]*>(\d+)<', drawn)
    assert set(labels) >= {"2", "19", "32", "48", "58"}
    assert "59" not in labels


def test_means_that_are_far_apart_are_not_joined_by_a_solid_line() -> None:
    solid = re.compile(r'd="([^"]*)" stroke-width="1.75"')
    dashed = re.compile(r'd="([^"]*)" stroke-dasharray="2 4"')
    drawn = strip_of_curve(12)
    # 2 to 19 and 19 to 32 are far, the others follow each other.
    assert [path.count("L") for path in dashed.findall(drawn)] == [2]
    (path,) = solid.findall(drawn)
    assert path.count("M") == 1
    assert path.count("L") == 3
    assert dashed.search(strip_of_curve(17)) is None


def test_circles_are_around_dots_of_answers_only() -> None:
    assert strip_of_curve(60).count("<circle") == len(SEEN)
    assert "<circle" not in strip_of_curve(60, dots=[])


def recurring(steps: int = 12, **others: object) -> list[dict[str, Any]]:
    """Rows of a run in which four prompts recur, each with two answers at a step."""
    rows = []
    for step, prompt, answer in product(range(steps), range(4), range(2)):
        strings = [f"Ġanswer{step}", "Ġto", f"Ġ{prompt}"]
        made = tokens(
            *strings,
            step=step,
            prompt=f"Question {prompt}?",
            response=f" answer{step} to {prompt}",
            reward=float(answer + prompt + step % 3),
            **others,
        )
        rows.append(made)
    return rows


def built(folder: Path, rows: list[dict[str, Any]], **options: Any) -> Path:
    log = write(folder / "log" / "rank_0.jsonl", rows)
    rlreport.build(log, folder / "report", workers=1, **options)
    return folder / "report"


def film_data(report: Path) -> FilmStripData:
    page = (report / "index.html").read_text("utf-8")
    found = re.search(r'class="film-data">(.*?)</script>', page, re.DOTALL)
    assert found
    data: FilmStripData = json.loads(found[1])
    return data


def packed(report: Path) -> dict[str, Any]:
    page = (report / "prompts.html").read_text("utf-8")
    found = re.search(r'class="prompts-data">([^<]*)<', page)
    assert found
    text = gzip.decompress(base64.b64decode(found[1]))
    data: dict[str, Any] = json.loads(text)
    return data


def test_overview_shows_a_recurring_prompt_that_leads_to_its_panel(
    tmp_path: Path,
) -> None:
    report = built(tmp_path, recurring())
    data = film_data(report)
    assert data["title"].startswith("Question ")
    assert len(data["rows"]) == MOST_ROWS
    assert data["rows"][0]["step"] == 0
    assert data["ends"] is not None
    page = (report / "index.html").read_text("utf-8")
    assert re.search(r'class="film-prompt"[^>]*><a href="prompts.html#p=\d+"', page)
    assert page.index('class="film"') < page.index('data-table="extremes"')


def test_answers_to_different_prompts_name_them(tmp_path: Path) -> None:
    rows = [
        row(step, prompt=f"Question {step}-{k}", response=f"Answer {k}", reward=k)
        for step, k in product(range(9), range(3))
    ]
    data = film_data(built(tmp_path, rows))
    assert len(data["rows"]) == MOST_ROWS
    for one in data["rows"]:
        assert one["above"].startswith(f"Question {one['step']}-")


def test_row_of_two_rewards_says_the_mean_of_its_step(tmp_path: Path) -> None:
    rows = [
        row(step, prompt=f"Question {step}-{k}", response=f"Answer {k}", reward=k == 3)
        for step, k in product(range(9), range(4))
    ]
    report = built(tmp_path, rows)
    for one in film_data(report)["rows"]:
        assert one["about"][:2] == ["reward 0", "mean 0.250"]
    page = (report / "index.html").read_text("utf-8")
    assert "theirs is the more frequent one at their step" in page
    assert packed(report)["twoRewards"] is True


def test_row_of_many_rewards_says_its_own_only(tmp_path: Path) -> None:
    report = built(tmp_path, recurring())
    for one in film_data(report)["rows"]:
        assert not any(words.startswith("mean") for words in one["about"])
    assert packed(report)["twoRewards"] is False


def test_caption_of_the_picture_names_the_run_as_one(tmp_path: Path) -> None:
    caption = film_data(built(tmp_path, recurring(), title="hack"))["caption"]
    assert caption.startswith("Run hack, steps 0–11. Colour: ")


def test_line_joins_neighbouring_steps_however_few_there_are(tmp_path: Path) -> None:
    steps = [0, 10, 20]
    rows = [row(step, prompt="Q", response="A", reward=step) for step in steps]
    curve = film_data(built(tmp_path, rows))["curve"]
    assert curve is not None
    assert curve["reach"] == 10


def test_redacted_report_has_no_strip_and_no_text(tmp_path: Path) -> None:
    report = built(tmp_path, recurring(), redact=True)
    page = (report / "index.html").read_text("utf-8")
    assert "film-data" not in page
    assert packed(report)["redacted"] is True
    assert "Question 1" not in (report / "prompts.html").read_text("utf-8")


def test_panel_data_hold_every_shown_answer_once_in_order(tmp_path: Path) -> None:
    data = packed(built(tmp_path, recurring()))
    assert data["prompts"] == [0, 1, 2, 3]
    assert data["sizes"] == [24] * 4
    assert data["step"][:4] == [0, 0, 1, 1]
    assert sum(1 for code in data["which"][:24] if code) == MOST_ROWS
    assert data["points"] == [12] * 4
    # Both answers of a step: n + n + 1, over 2
    assert data["mean"][:3] == [0.5, 1.5, 2.5]


def test_panel_data_of_a_run_of_which_few_answers_are_shown_stay_small(
    tmp_path: Path,
) -> None:
    rows = [
        row(step, prompt=f"Question {k}", response=f"A {step}", reward=step / 9)
        for step, k in product(range(40), range(64))
    ]
    report = built(tmp_path, rows, max_responses=8)
    data = packed(report)
    assert len(data["step"]) <= 40 * 8 + 64
    # The means are those of all responses: each prompt has one at every step.
    assert set(data["points"]) == {40}
    page = (report / "prompts.html").read_text("utf-8")
    assert len(re.findall(r'class="prompts-data">([^<]*)<', page)[0]) < 16_000


def test_strip_of_the_overview_stays_small(tmp_path: Path) -> None:
    long = "A long answer with several words. " * 30_000
    rows = [
        row(step, prompt="Question", response=long + str(step), reward=step / 9)
        for step in range(9)
    ]
    page = (built(tmp_path, rows) / "index.html").read_text("utf-8")
    start = page.index('<section class="film"')
    assert page.index("</section>", start) - start < 40_000
