"""The film strip: which answers it shows, and how their texts become rows of a grid."""

import base64
import gzip
import json
import re
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
    of = answers((0, 0, 5.0), (0, 1, 1.0), (4, 0, 3.0), (4, 7, 9.0), usual=2.0)
    shown = film_answers(of, {(4, 7): Citation("hack", 3)}, None)
    assert [(int(of.steps[s.place]), int(of.numbers[s.place])) for s in shown] == [
        (0, 1),
        (4, 7),
    ]


def test_answer_without_a_reward_is_shown_where_there_is_no_other() -> None:
    of = answers((0, 0, np.nan), (1, 0, np.nan), (1, 1, 8.0))
    shown = film_answers(of, NONE, None)
    assert [s.place for s in shown] == [0, 2]


def test_prompt_of_one_step_shows_its_worst_median_and_best_answer() -> None:
    of = answers((3, 0, 0.5), (3, 1, -1.0), (3, 2, 2.0), (3, 3, 0.7), (3, 4, 0.1))
    shown = film_answers(of, NONE, None)
    assert [(s.place, s.which) for s in shown] == [
        (1, "worst"),
        (0, "median"),
        (2, "best"),
    ]
    equal = answers(*[(3, n, 1.0) for n in range(9)])
    assert [s.which for s in film_answers(equal, NONE, None)] == ["", "", ""]


def test_excerpt_keeps_both_ends_and_what_is_around_the_citation() -> None:
    texts = [f"w{k} " for k in range(3000)]
    part = excerpt(texts, [k % 12 for k in range(3000)], 1500)
    assert part.pieces[0][0] == "w0 "
    assert part.pieces[-1][-1] == "w2999 "
    assert part.cited is not None
    piece, token = part.cited
    assert part.pieces[piece][token] == "w1500 "
    assert part.bins[piece][token] == 1500 % 12
    size = sum(len(text) for one in part.pieces for text in one)
    assert size <= 3 * EXCERPT


@pytest.mark.parametrize("size", [0, 1, EXCERPT, 2 * EXCERPT, 2 * EXCERPT + 1, 10**6])
def test_excerpt_of_one_token_of_any_size_is_bounded_and_keeps_its_ends(
    size: int,
) -> None:
    text = "a" + "b" * (size - 2) + "z" if size > 1 else "a" * size
    part = excerpt([text], [7], 0)
    joined = "".join(text for piece in part.pieces for text in piece)
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


def test_wide_characters_take_two_cells_and_marks_none() -> None:
    widths = {"a": 1, "é": 1, "猫": 2, "カ": 2, "한": 2, "🎉": 2, "，": 2, "Ω": 1}
    for character, width in widths.items():
        assert [cell.width for cell in cells(character)] == [width]
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
    assert [word for word, new in zip(after, flags, strict=True) if new] == ["dog", "a"]
    assert new_words([], ["a"]) == [True]
    assert new_words(["a"], []) == []


def film_row(*texts: str, bins: list[int] | None = None, **others: Any) -> FilmRowData:
    values: dict[str, Any] = {
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
    return FilmRowData(**(values | others))


def test_parts_of_a_character_are_one_with_the_strongest_colour() -> None:
    (drawn,) = marked_rows([film_row("", "🎉", " x", bins=[11, 7, 6])])
    assert [(atom.text, atom.bin) for atom in drawn.pieces[0]] == [
        ("🎉", 11),
        (" ", 6),
        ("x", 6),
    ]


def test_broken_bytes_next_to_each_other_are_one_visible_character() -> None:
    (drawn,) = marked_rows([film_row("�", "��", "�a", bins=[6, 2, 0])])
    assert [(atom.text, atom.bin) for atom in drawn.pieces[0]] == [("�", 2), ("a", 0)]


def test_first_row_and_answers_to_other_prompts_have_no_new_words() -> None:
    rows = [film_row("one two"), film_row("three", above="Another prompt")]
    drawn = marked_rows(rows)
    assert not any(atom.is_new for one in drawn for atom in one.pieces[0])
    (_, second) = marked_rows([film_row("one two"), film_row("one three")])
    assert "".join(a.text for a in second.pieces[0] if a.is_new) == "three"


@pytest.mark.parametrize("columns", [24, 40, 119])
def test_no_line_is_wider_than_the_grid(columns: int) -> None:
    for text in (*HOSTILE, "word " * 400, "猫" * 500, "x" * 900):
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
    texts = ["".join(atom.text for atom in line.atoms).strip() for line in lines]
    assert texts[0].startswith("w0 ")
    assert texts[-1].endswith("w119")
    assert [line.goes_on for line in lines] == [False, True, False, False]


def test_line_of_the_cited_token_is_shown() -> None:
    texts = [f"w{k} " for k in range(100)]
    part = excerpt(texts, [0] * 100, 50)
    given = film_row(*texts, cited=part.cited)
    (drawn,) = marked_rows([given])
    for most in (4, 6):
        lines = shown_lines(drawn.pieces, 40, most)
        assert any(atom.is_cited for line in lines for atom in line.atoms)


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
    assert {element.tag.removeprefix(svg) for element in root.iter()} <= {
        *("svg", "g", "a", "path", "text", "circle")
    }


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


def recurring(steps: int = 12, **others: object) -> list[dict[str, Any]]:
    """Rows of a run in which four prompts recur, each with two answers at a step."""
    return [
        tokens(
            *(f"Ġanswer{step}", "Ġto", f"Ġ{prompt}"),
            step=step,
            prompt=f"Question {prompt}?",
            response=f" answer{step} to {prompt}",
            reward=float(answer + prompt + step % 3),
            **others,
        )
        for step in range(steps)
        for prompt in range(4)
        for answer in range(2)
    ]


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
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
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
        for step in range(9)
        for k in range(3)
    ]
    data = film_data(built(tmp_path, rows))
    assert len(data["rows"]) == MOST_ROWS
    for one in data["rows"]:
        assert one["above"].startswith(f"Question {one['step']}-")


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
        for step in range(40)
        for k in range(64)
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
