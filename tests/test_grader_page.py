"""The page of the grader: its counts are those of the log, and no form shows what it should not."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import rlreport
from rlreport.pages.answers import END_CHARS, MOST_EXAMPLES
from rlreport.pages.grader import MOST_SETS
from tests.browser import serious, visiting
from tests.forms import OTHERS, everything, views
from tests.hostile import MARK, STRINGS, write_log
from tests.pages_reading import Elements

STEPS = 10
EACH = 32
SECRET = "qzxwv"
GROUP = 8


def graded_rows() -> Iterator[dict[str, Any]]:
    """Yield rows of which some earn 0 with the answer of their label, and some 1 without.

    Some responses of a group are equal, and in step 4 these earn different rewards.
    """
    for step, n in product(range(STEPS), range(EACH)):
        task = step * EACH // GROUP + n // GROUP
        label = f"{SECRET}{'abcdefgh'[task % 8]}"
        right = n % 3 != 0
        is_paid = right
        if n % 8 == 1:  # right, unpaid
            is_paid = False
        if step >= 6 and n % 16 == 3:  # wrong, paid
            is_paid = True
        answer = label if right else f"other{SECRET}"
        # The last two of a group are equal if both are right or wrong.
        detail = "again" if n % GROUP >= 6 else f"way {n}"
        accuracy = float(is_paid)
        if step == 4 and n % GROUP == 7:
            accuracy = 0.5
        yield {
            "step": step,
            "prompt": f"ask{SECRET} {task}",
            "response": f"think{SECRET} {detail} <answer>{answer}</answer>",
            "ground_truth": label,
            "reward": accuracy,
            "reward_parts": {"accuracy": accuracy, "format": 0.1 * step},
        }


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("graded") / "log.jsonl", graded_rows())


@pytest.fixture(scope="module")
def built(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Gives the report in a form, redacted or not, built once."""

    @cache
    def build(form: str = "folder", redact: bool = False) -> Path:
        out = tmp_path_factory.mktemp("built") / f"run{OTHERS[form]}"
        rlreport.build(log, out, redact=redact, workers=1)
        return out

    return build


@pytest.fixture(scope="module")
def page(built: Any) -> str:
    return text_of(built() / "grader.html")


def text_of(page: Path) -> str:
    return page.read_text("utf-8")


def table_of(page: str, name: str) -> list[list[str]]:
    """Return the texts of a table's cells by row, [] if the page has no such table."""
    parts = re.findall(rf'<section[^>]*data-table="{name}">.*?</table>', page, re.S)
    if not parts:
        return []
    rows = re.findall(r"<tr data-n=.*?</tr>", parts[0], re.S)
    return [texts_of(row) for row in rows]


def texts_of(row: str) -> list[str]:
    return [plain(cell) for cell in re.findall(r"<td.*?</td>", row, re.S)]


def plain(markup: str) -> str:
    return " ".join(unescape(re.sub("<[^>]+>", "", markup)).split())


def outcome(row: dict[str, Any]) -> str:
    is_right = f">{row['ground_truth']}<" in row["response"]
    if row["reward"] == 1.0:
        return "best right" if is_right else "best wrong"
    if row["reward"] == 0.0:
        return "low right" if is_right else "low wrong"
    return "other"


OUTCOMES = ("best right", "best wrong", "low right", "low wrong", "other")


def test_counts_and_shares_are_those_of_the_log(page: str) -> None:
    rows = list(graded_rows())
    table = table_of(page, "outcomes")
    names = [line[0] for line in table]
    assert names == ["0–1", "2–3", "4–5", "6–7", "8–9", "Whole run"]
    for name, labelled, *cells in table:
        first, last = (0, STEPS) if name == "Whole run" else map(int, name.split("–"))
        of_block = [row for row in rows if first <= row["step"] <= last]
        counts = Counter(map(outcome, of_block))
        assert labelled == str(len(of_block))
        for kind, cell in zip(OUTCOMES, cells, strict=True):
            share = 100 * counts[kind] / len(of_block)
            count, percent = re.findall(r"[\d.]+", cell)
            assert int(count) == counts[kind]
            assert float(percent) == pytest.approx(share, abs=0.51)


def test_sentences_say_what_is_to_be_looked_at(page: str) -> None:
    counts = Counter(map(outcome, graded_rows()))
    low = counts["low right"] + counts["low wrong"]
    best = counts["best right"] + counts["best wrong"]
    assert (
        f"{counts['low right']} of {low} responses with the lowest reward, 0, end with their "
        "label."
    ) in page
    assert (
        f"{counts['best right']} of {best} responses with the best reward, 1, end with "
        "their label."
    ) in page
    assert "hack" not in page


@pytest.mark.parametrize(
    ("table", "kind"), [("low_right", "low right"), ("best_wrong", "best wrong")]
)
def test_examples_have_the_outcome_and_link_to_their_response(
    built: Any, page: str, table: str, kind: str
) -> None:
    rows = list(graded_rows())
    listed = table_of(page, table)
    assert len(listed) == MOST_EXAMPLES
    prompts = set()
    for which, reward, label, end in listed:
        step, n = map(int, re.findall(r"\d+", which))
        row = rows[step * EACH + n]
        assert outcome(row) == kind
        assert float(reward) == row["reward"]
        assert label == row["ground_truth"]
        assert end == row["response"]
        prompts.add(row["prompt"])
        assert f'href="steps/{step}.html#r={n}"' in page
        assert f'"{n}"' in text_of(built() / "steps" / f"{step}.html")
    assert len(prompts) == MOST_EXAMPLES


def test_parts_have_their_course(page: str) -> None:
    rows = {line[0]: line for line in table_of(page, "reward-parts")}
    assert list(rows) == ["the whole reward", "accuracy", "format"]
    course = rows["format"][2:]
    first, highest, last = map(float, course[::2])
    assert first < last == highest
    steps_of_first, _, steps_of_last = course[1::2]
    assert steps_of_first.split("–")[0] == "0"
    assert steps_of_last.split("–")[-1] == str(STEPS - 1)


def test_equal_responses_are_those_that_the_check_counts(page: str, log: Path) -> None:
    sets: dict[tuple[int, str, str], set[float]] = {}
    sizes: Counter[tuple[int, str, str]] = Counter()
    for row in graded_rows():
        key = (row["step"], row["prompt"], row["response"])
        sets.setdefault(key, set()).add(row["reward"])
        sizes[key] += 1
    of = [key for key, size in sizes.items() if size > 1]
    differ = [key for key in of if len(sets[key]) > 1]
    assert 0 < len(differ) < len(of)
    assert (
        f"{len(differ)} of {len(of)} sets of equal responses to one prompt in one step have "
        "different rewards."
    ) in page
    listed = table_of(page, "equal-responses")
    assert len(listed) == min(len(differ), MOST_SETS)
    for _, low, _, high, size, _, end in listed:
        key = next(one for one in differ if one[2] == end)
        assert {float(low), float(high)} == sets[key]
        assert int(size) == 2


def test_findings_of_labels_link_to_the_page(built: Any) -> None:
    out = built()
    overview = text_of(out / "index.html")
    found = json.loads((out / "data" / "report.json").read_bytes())["findings"]
    assert "format_rewarded" in {finding["id"] for finding in found}
    assert overview.count('href="grader.html"') > 1  # one is in the navigation


@pytest.mark.parametrize("form", OTHERS)
def test_redaction_leaves_no_text_and_no_label(built: Any, form: str) -> None:
    redacted = everything(built(form, redact=True))
    assert SECRET.encode() not in redacted
    if form in ("folder", "html"):
        assert SECRET.encode() in everything(built(form))
        assert b"[label, at most 10 characters]" in redacted
        assert b"responses with the lowest reward, 0, end with their label" in redacted


def test_one_file_has_the_page(built: Any, page: str) -> None:
    document = built("html").read_bytes()
    view = views(document)["grader"]
    for name in ("outcomes", "low_right", "best_wrong", "reward-parts"):
        assert table_of(view, name) == table_of(page, name)
    assert 'href="#/steps/' in view


def test_a_log_without_labels_and_parts_has_no_page(tmp_path: Path) -> None:
    rows = list(graded_rows())
    for row in rows:
        del row["ground_truth"], row["reward_parts"]
    out = tmp_path / "out"
    rlreport.build(write_log(tmp_path / "log.jsonl", rows), out, workers=1)
    assert not (out / "grader.html").exists()
    assert "grader.html" not in text_of(out / "index.html")


def test_parts_alone_say_that_answers_are_unknown(tmp_path: Path) -> None:
    rows = [{**row, "ground_truth": None} for row in graded_rows()]
    out = tmp_path / "out"
    rlreport.build(write_log(tmp_path / "log.jsonl", rows), out, workers=1)
    page = text_of(out / "grader.html")
    assert table_of(page, "outcomes") == []
    assert table_of(page, "reward-parts")
    assert "Which answers are right is not known: ground_truth is not logged." in page


def test_one_reward_is_neither_best_nor_lowest(tmp_path: Path) -> None:
    rows = [{**row, "reward": 0.0, "reward_parts": None} for row in graded_rows()]
    out = tmp_path / "out"
    rlreport.build(write_log(tmp_path / "log.jsonl", rows), out, workers=1)
    page = text_of(out / "grader.html")
    counts = Counter(outcome(row) for row in rows)
    assert (
        f"All responses earn 0; {counts['low right']} of {len(rows)} end with their label."
    ) in page
    assert len(table_of(page, "right")) == MOST_EXAMPLES
    assert "The log has no parts of the reward (reward_parts)." in page


def test_few_labels_have_no_blocks_and_the_rest_is_counted(tmp_path: Path) -> None:
    rows = []
    for row in graded_rows():
        is_labelled = row["step"] == 0
        rows.append(row if is_labelled else {**row, "ground_truth": "x" * 200})
    out = tmp_path / "out"
    rlreport.build(write_log(tmp_path / "log.jsonl", rows), out, workers=1)
    page = text_of(out / "grader.html")
    assert [line[0] for line in table_of(page, "outcomes")] == ["Whole run"]
    assert f"{len(rows) - EACH} of {len(rows)} responses have no reward" in page


def test_an_answer_further_up_is_shown_with_its_surroundings(tmp_path: Path) -> None:
    rows = []
    for row in graded_rows():
        filler = "so on " * 300
        response = f"{filler}<answer>{row['ground_truth']}</answer> {filler}"
        rows.append({**row, "response": response, "reward": row["step"] % 2})
    out = tmp_path / "out"
    rlreport.build(write_log(tmp_path / "log.jsonl", rows), out, workers=1)
    for *_, label, end in table_of(text_of(out / "grader.html"), "low_right"):
        assert f"<answer>{label}</answer>" in end
        assert len(end) <= END_CHARS + 1


def test_hostile_texts_and_names_stay_texts(tmp_path: Path) -> None:
    rows = []
    for i, row in enumerate(graded_rows()):
        text = STRINGS[i % len(STRINGS)]
        parts = {f"</script><b>{MARK}": row["reward"], "</td><img src=x>": 0.5}
        response = f"{text} <answer>{text}</answer>"
        rows.append({**row, "response": response, "reward_parts": parts})
    out = tmp_path / "out"
    rlreport.build(write_log(tmp_path / "log.jsonl", rows), out, workers=1)
    page = text_of(out / "grader.html")
    elements = {tag for tag, _ in Elements(page).found}
    assert not elements & {"b", "img"}
    assert f"</script><b>{MARK}" in [line[0] for line in table_of(page, "reward-parts")]


@pytest.mark.untraced
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_accessible_and_never_wider_than_the_screen(
    browser: Any, built: Any, scheme: Any
) -> None:
    with visiting(browser, built() / "grader.html", color_scheme=scheme) as tab:
        for width in (360, 3840):
            tab.set_viewport_size({"width": width, "height": 900})
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert serious(tab) == []
        tab.click('[data-table="low_right"] tbody a')
        tab.wait_for_selector(".response")


@pytest.mark.untraced
def test_the_page_reads_without_scripts(browser: Any, built: Any) -> None:
    with visiting(browser, built() / "grader.html", java_script_enabled=False) as tab:
        assert tab.locator("main h1").count() == 1
        assert tab.locator('[data-table="outcomes"] tbody tr').count() == 6
