"""How responses mark their answers, and whether they are in their prompt's script."""

import random
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rlreport
from rlreport.check import Thresholds
from rlreport.comparison.compare import compare_runs
from rlreport.comparison.run import ComparedRun
from rlreport.flows.compare import compared_run
from rlreport.options import CompareOptions
from rlreport.system.workers import Progress
from rlreport.text.labels import ANSWER_MARKS, answer_marks, final_answer
from rlreport.text.scripts import leaves_script, main_script, script_of
from tests.reading import write

BODY = "She has 3 apples and buys 4 more, so she has 7.\n"


def marks(text: str) -> set[str]:
    bits = answer_marks(text)
    return {mark for bit, mark in enumerate(ANSWER_MARKS) if bits >> bit & 1}


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("#### 7", {"####"}),
        ("#### 7\n\n", {"####"}),
        ("#### Final remarks\n\nShe likes apples.", set()),  # a heading
        ("#### Step 3\n\nShe eats 2 of them.", set()),
        ("#### Step 3", set()),
        ("#### Final Answer", set()),
        ("#### Final Answer: #### 7", {"####", "answer"}),
        ("#### <number>", set()),
        ("#### <number> 7", set()),
        ("#### B", {"####"}),
        ("#### B\n\nAs I said.", {"####"}),
        ("#### $\\frac{x}{2} + 1$\n\nAs I said.", {"####"}),
        ("#### San Marino", {"####"}),
        ("#### 7 apples are left in her basket", {"####"}),
        ("#### 3. Conclusion", set()),
        ("####", set()),
        ("####\n\nShe has 7.", set()),
        ("So it is \\boxed{7}.", {"\\boxed"}),
        ("So it is \\boxed{}.", set()),
        ("So it is \\boxed{7", set()),  # cut off
        ("<answer></answer>", set()),
        ("<answer> \n</answer>", set()),
        ("<answer>\\boxed{}</answer>", set()),
        ("Answer:", set()),
        ("**Final Answer:**\n", set()),
        ("Answer: <number>", set()),
        ("Answer: <answer>7</answer>", {"answer", "<answer>"}),
        ("答案：", set()),
        ("<answer>7</answer>", {"<answer>"}),
        ("<answer>7", {"<answer>"}),  # samplers may stop at the closing tag
        ("The answer is 7.", {"answer"}),
        ("**Final Answer:** 7", {"answer"}),
        ("ANSWER: 7", {"answer"}),
        ("所以答案是7。", {"answer"}),
        ("答案：7", {"answer"}),
        ("The final answer is \\boxed{7}.\n#### 7", {"answer", "\\boxed", "####"}),
        ('{"total": 7}', {"json"}),
        ('```json\n{\n  "steps": [{"n": 1}],\n  "total": 7\n}\n```', {"json"}),
        ("```js\nfunction f() { return 7 }\n```", set()),
        ("It is {7}", set()),
        ("{}", set()),
        ("I gave a clear response.", set()),
        ("", set()),
    ],
)
def test_the_end_tells_how_an_answer_is_marked(end: str, expected: set[str]) -> None:
    assert marks(end) == expected
    assert marks(10 * BODY + end) == expected


def test_a_mark_long_before_the_end_is_none() -> None:
    assert marks("#### 7\n" + 100 * BODY) == set()


PIECES = st.sampled_from([*ANSWER_MARKS, "{", "}", " is ", "7", "\n"])


@given(st.text() | st.lists(PIECES).map("".join))
def test_every_explicit_answer_near_the_end_has_a_mark(text: str) -> None:
    if final_answer(text).is_explicit:
        assert answer_marks(text)


def test_a_hostile_text_takes_no_longer_than_others() -> None:
    start = time.process_time()
    for piece in ("{", '{"a":', "####", "nswer", "答案", "}", "\\boxed{"):
        for _ in range(20):
            answer_marks(piece * 100_000 + "}")
            main_script(piece * 100_000)
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("She has seven.", "LATIN"),
        ("Она купила семь", "CYRILLIC"),
        ("她有三个苹果，又买了四个。", "CJK"),
        ("りんごを七つ持っています", "CJK"),
        ("她有 x = 3 个苹果和四个梨", "CJK"),
        ("Schönes Café — naïve 💡", "LATIN"),
        ("42", ""),
        ("x = 3", ""),
        ("她有七个", ""),
        ("她有三个苹果 apple, pear", "CJK"),
        ("\ud800 a lone surrogate", "LATIN"),
    ],
)
def test_the_script_of_a_text_is_that_of_most_letters(text: str, script: str) -> None:
    assert main_script(text) == script


characters = st.sampled_from("ab яб 苹果 αβ 1")


@given(st.lists(characters, min_size=1).map("".join))
def test_of_a_short_text_every_letter_counts_and_a_chinese_one_as_three(
    text: str,
) -> None:
    letters = [script_of(character) for character in text[:64]]
    letters = [script for script in letters if script]
    found = main_script(text[:64])
    if len(letters) < 6:
        assert found == ""
        return
    sizes = {name: letters.count(name) for name in letters}
    sizes["CJK"] = 3 * sizes.get("CJK", 0)
    assert sizes[found] == max(sizes.values())


HALF = "We add the apples first. 然后我们把所有的梨也加起来。"
CODE = "先写一个函数来计算：`total = sum(apples)`，然后再输出它的结果。"


@pytest.mark.parametrize(
    ("text", "script", "leaves"),
    [
        ("We add the apples.", "LATIN", False),
        ("我们把苹果加起来。", "LATIN", True),
        (HALF, "LATIN", True),
        (HALF, "CJK", False),
        (CODE, "CJK", False),
        (CODE, "LATIN", True),
        ("We add the apples first, and only then the pears.", "CJK", True),
        ("The angles α, β, γ and δ add up to 360°.", "LATIN", False),
        ("The word 苹果 means apple, as all of us know.", "LATIN", False),
        ("x = 3", "CJK", None),
    ],
)
def test_a_text_leaves_a_script_if_much_of_it_is_in_others(text, script, leaves):
    assert leaves_script(text, script) is leaves


def test_of_a_long_text_the_script_of_most_of_it_is_found() -> None:
    words = ["apples", "яблоко"]
    dice = random.Random(1)
    for share, script in ((0.25, "LATIN"), (0.75, "CYRILLIC")):
        text = " ".join(words[dice.random() < share] for _ in range(2000))
        assert main_script(text) == script


def loaded(path: object) -> ComparedRun:
    return compared_run(str(path), CompareOptions(workers=1), Thresholds(), Progress())


def test_logs_and_their_report_have_the_same_properties(tmp_path) -> None:
    dice = np.random.default_rng(1)
    for name, kept in (("base", 0.9), ("new", 0.3)):
        rows = []
        for step in range(2):
            for number in range(160):
                is_marked = dice.random() < kept
                end = "#### 7" if is_marked else "and that is it"
                text = BODY if number % 5 else "她有三个苹果，又买了四个，一共七个。\n"
                row = {
                    "step": step,
                    "prompt": f"How many apples has girl {number % 32}?",
                    "response": f"{text * int(dice.integers(1, 9))}{end}",
                    "reward": float(is_marked and dice.random() < 0.7),
                }
                rows.append(row)
        write(tmp_path / name / "log.jsonl", rows)
        rlreport.build(tmp_path / name, tmp_path / f"{name}.html", workers=1)
    found = []
    for suffix in ("", ".html"):
        base = loaded(tmp_path / f"base{suffix}")
        new = loaded(tmp_path / f"new{suffix}")
        found.append(compare_runs([base.side], [new.side]).decomposition)
    assert found[0] == found[1]
    main = found[0].main
    assert main is not None and main.mark == "####"
    (script,) = [one for one in found[0].properties if one.id == "other_script"]
    assert script.base_share == pytest.approx(0.2, abs=0.1)
