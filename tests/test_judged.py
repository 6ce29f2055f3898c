"""What a judge wrote, and the final answer of a response: kept, bounded, and in the panel."""

import json
import time
from itertools import product
from pathlib import Path

import pytest

import rlreport
from rlreport.formats.judged import MOST_CHARS, MOST_TEXTS, is_judges, judges_texts
from tests.browser import serious, visiting
from tests.forms import everything
from tests.pages_reading import rows_data
from tests.reading import read, row, write

PROMPT = "You are a strict grader. " * 40
REASON = "The number differs from the reference. " * 20


@pytest.mark.parametrize(
    "name",
    [
        "judge_prompt",
        "judge_response",
        "info.feedback",
        "reward_model_output",
        "grader.explanation",
        "verifier_message",
        "reason",
        "Rationale",
    ],
)
def test_a_field_is_known_by_its_name_to_be_a_judges(name):
    assert is_judges(name)


@pytest.mark.parametrize(
    "name",
    [
        "finish_reason",
        "stop_reason",
        "reasoning_content",
        "response",
        "critic_values",
        "reward_text_length",
        "evaluation",
    ],
)
def test_other_fields_are_not(name):
    assert not is_judges(name)


def test_long_names_cost_nothing():
    assert is_judges(f"{'x' * 180}_judge_prompt")
    before = time.perf_counter()
    assert not is_judges("rm" * 50_000)
    assert time.perf_counter() - before < 0.1


def test_what_is_kept_of_a_judge_is_bounded():
    record = {f"judge_{k}": f"begin {'x' * 100_000} end" for k in range(30)}
    kept = judges_texts(record)
    assert len(kept) == MOST_TEXTS
    for text in kept.values():
        assert len(text) <= MOST_CHARS + 5
        assert text.startswith("begin")
        assert text.endswith("end")


def test_numbers_blanks_and_nested_objects_are_no_texts_of_a_judge():
    record = {"judge": 1.0, "judge_reason": " \n", "feedback": {"a": {"b": "deep"}}}
    assert judges_texts(record) == {}
    assert judges_texts({"reasons": ["a", "b"]}) == {"reasons": "a\nb"}


def judged_row(step: int, answer: str) -> dict:
    one = row(step, prompt="46 + 20?", response=f"So the answer is {answer}.")
    return one | {
        "ground_truth": "66",
        "judge_prompt": PROMPT,
        "judge_reason": REASON,
        "info": {"feedback": "</script><b>no</b>", "seconds": 3},
    }


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("judged")
    rows = [judged_row(*one) for one in product((0, 1), ("66", "64"))]
    rows.append(row(1, prompt="46 + 20?", response="I do not know"))
    log = write(folder / "a.jsonl", rows)
    for out in ("report", "redacted"):
        rlreport.build(log, folder / out, workers=1, redact=out == "redacted")
    return folder / "report"


def test_a_page_has_the_texts_of_the_judge_and_the_final_answers(report):
    data = rows_data(report / "steps" / "1.html")
    assert dict(data["judged"]["0"]) == {
        "judge_prompt": PROMPT,
        "judge_reason": REASON,
        "info.feedback": "</script><b>no</b>",
    }
    assert set(data["judged"]) == {"0", "1"}
    assert data["answers"] == {"0": ["66", 1], "1": ["64", 0]}


def test_an_answer_is_not_judged_where_the_label_cannot_be_compared(tmp_path):
    one = row(0, response="Answer: a proof") | {"ground_truth": "x^2 + y^2 = z^2"}
    rlreport.build(write(tmp_path / "a.jsonl", [one]), tmp_path / "out", workers=1)
    assert rows_data(tmp_path / "out" / "steps" / "0.html")["answers"] == {
        "0": ["a proof", None]
    }


def test_redaction_leaves_nothing_of_a_judge(report):
    content = everything(report.with_name("redacted"))
    assert b"strict grader" not in content
    assert b"differs from the reference" not in content
    assert b"strict grader" in everything(report)


def test_texts_of_a_judge_are_kept_of_other_formats_and_count_as_read(tmp_path):
    dump = [
        {"input": "q", "output": "a", "gts": "1", "score": 1.0, "step": 1, **extra}
        for extra in ({"judge_reason": REASON}, {"judge_reason": "short"})
    ]
    path = tmp_path / "1.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in dump))
    scan = read(path)
    texts = [rollout.judged for rollout in scan.rollouts.read([0, 1])]
    assert texts == [[("judge_reason", REASON)], [("judge_reason", "short")]]
    assert not any("judge_reason" in note.text for note in scan.notes)


@pytest.mark.untraced
@pytest.mark.parametrize("page", ["steps/1.html#r=1", "responses.html#r=1-1"])
def test_the_panel_folds_the_texts_of_the_judge_and_marks_the_answer(
    browser, report, page
):
    path, _, address = page.partition("#")
    with visiting(browser, report / path, f"#{address}") as opened:
        opened.wait_for_selector(".judged")
        answer = opened.locator('[data-figure="answer"] dd')
        assert answer.inner_text() == "64 ✗"
        named = answer.locator("[role=img]").get_attribute("aria-label")
        assert named == "it is not the ground truth"
        folded = opened.locator(".judged details")
        assert folded.count() == 3
        assert opened.locator(".judged .prose").count() == 0
        folded.nth(2).locator("summary").click()
        assert folded.nth(2).locator(".prose").inner_text() == "</script><b>no</b>"
        assert not serious(opened)
