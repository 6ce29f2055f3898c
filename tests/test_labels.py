"""Whether the final answer of a response is its label, however both are written."""

import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlreport.text.labels import final_answer, label_hit, normalize, usable_label

LONG = "First I list what is given. " * 40
BOX = "so it is \\boxed{"
# (response, label, whether the response's final answer is the label)
PAIRS: list[tuple[str, Any, bool]] = [
    # Numbers
    ("The answer is 42.", "42", True),
    ("The answer is 42.", 42, True),
    ("The answer is 42.", 42.0, True),
    ("The answer is 43.", "42", False),
    ("The answer is 142", "42", False),
    ("The answer is 42.5", "42", False),
    ("The answer is 42.0", "42", True),
    ("The answer is 1,234.", "1234", True),
    ("The answer is $1{,}234$.", "1,234", True),
    ("The answer is 1 234 567 tiles", "1234567", True),
    ("Answer: \\$1,234.50", "1234.5", True),
    ("So it costs $15.", "15", True),
    ("That is 35%.", "35\\%", True),
    ("The angle is $60^\\circ$.", "60", True),
    ("The angle is 60°", "60^{\\circ}", True),
    ("10 - 7 = 3", "3", True),
    ("10-7", "7", True),
    ("Answer: 2*3", "23", False),
    ("We get **23**.", "23", True),
    ("Half: ½", "0.5", True),
    ("it is -7", "7", False),
    ("it is \u22127", "-7", True),
    ("Half of it, .5", "0.5", True),
    ("<answer> .16 </answer>", "0.16", True),
    ("so we get...5", "5", True),
    ("version 1.5", "5", False),
    ("Answer: 12 km/h", "12", True),
    ("Answer: 12", "12 km/h", True),
    ("Answer: 25 cm²", "25 cm^2", True),
    (f"{LONG}Now 5 boxes are left.", "5", True),
    (f"There are 5 boxes. {LONG}", "5", False),
    # Fractions
    (BOX + "\\frac{3}{4}}", "3/4", True),
    (BOX + "\\dfrac{3}{4}}", "0.75", True),
    (BOX + "\\frac34}", "\\frac{3}{4}", True),
    (BOX + "\\frac{3}{5}}", "3/4", False),
    (BOX + "-\\frac{1}{2}}", "-0.5", True),
    # Where the answer stands
    ("I guess 7.\n#### 72", "Natalia sold 72 clips.\n#### 72", True),
    ("#### 1. Facts\nA has 3.\n#### 2. Result\nShe has 72 clips.", "72", True),
    (BOX + "7} or rather \\boxed{9}", "9", True),
    (BOX + "7} or rather \\boxed{9}", "7", False),
    ("<answer>7</answer> and <answer> 9 </answer>", "9", True),
    ("<answer></answer>", "9", False),
    ("I got 9. <answer>8</answer>", "9", False),
    ("<think>9?</think><answer>So \\boxed{8}</answer>", "8", True),
    ("<answer>8", "8", True),
    ("The answer is:\n\n\\[\n8\n\\]", "8", True),
    ("**Answer:** 8\n\nI checked 3 times.", "8", True),
    ("The answer is 8. The answer is correct, as 2 + 6 is it.", "8", True),
    # Words and choices
    ("It is a heron", "Heron", True),
    ("It is a heroine", "heron", False),
    ("<answer>tawny owl</answer>", "Tawny Owl", True),
    ("Answer: \\text{Paris}", "paris", True),
    ("<answer>Paris, Île-de-France, France</answer>", "Paris", True),
    ("<answer>Rome or Paris</answer>", "Paris", True),  # which may be said of one
    ("<answer>Rome or Paris or Bonn</answer>", "Paris", False),
    ("<answer>罗马或巴黎或波恩</answer>", "巴黎", False),
    ("<answer>Rome, Paris, Bonn, Oslo, and Bern</answer>", "Paris", False),
    ("The answer is (B) Paris", "B", True),
    ("The answer is B because A is wrong", "(B)", True),
    ("The answer is B because A is wrong", "A", False),
    ("The answer is a dog", "A", False),
    ("I think that B is best", "B", False),
    (BOX + "\\text{(C)}}", "C", True),
    ("Yes, that is so", "yes", False),
    ("Answer: yes", "Yes", True),
    ("Answer: No, a yes would be wrong", "yes", False),
    ("<answer>True</answer>", True, True),
    # Chinese
    ("答案是４２。", "42", True),
    ("因此答案是 42 元。", "42元", True),
    ("答案：42个", "42", True),
    ("答案为：１，２３４元。", "1234", True),
    ("答案是B。", "B", True),
    ("所以答案是北京。", "北京", True),
    ("答案：上海", "北京", False),
    ("一共有42个苹果。", "42", True),
    ("答案是不对", "对", False),
]


@pytest.mark.parametrize(("response", "label", "hit"), PAIRS)
def test_a_final_answer_is_its_label_or_not(
    response: str, label: object, hit: bool
) -> None:
    assert label_hit(response, label) == float(hit)


@pytest.mark.parametrize(
    "label",
    [
        None,
        "",
        "  ",
        "3x",
        "x = 5",
        "x^2 + 1",
        "\\sqrt{2}",
        "2\\pi",
        "(1, 2)",
        "5:3",
        "1 1/2",
        "2\\frac{1}{2}",
        "5 or 6",
        "1/0",
        "2*3",
        "A. Paris",
        "an answer of so many words that nobody would repeat all of them as they are",
        "def f(x):\n    return x",
        {"target": 4},
        [1, 2],
        math.nan,
        pytest.param(10**5000, id="a huge number"),
    ],
)
def test_what_is_no_short_answer_is_no_usable_label(label: object) -> None:
    assert usable_label(label) is None
    assert math.isnan(label_hit("The answer is 5", label))


def test_a_list_of_one_label_is_this_label() -> None:
    assert label_hit("Answer: 4", [4]) == 1
    assert label_hit("Answer: 4", '["4"]') == 1


HOSTILE = st.text(
    alphabet=st.sampled_from([*"\\{}()#$%^_<>/|.,:- \n0123456789aAbxyé答案是元４½²"])
    | st.characters(),
    max_size=300,
)
PIECES = st.lists(
    st.sampled_from(["\\boxed{", "\\frac{", "<answer>", "</answer>", "####", "}", "1"])
    | HOSTILE,
    max_size=30,
).map("".join)


@given(PIECES, PIECES)
def test_hostile_texts_are_hit_missed_or_unknown(response: str, label: str) -> None:
    hit = label_hit(response, label)
    assert hit in (0.0, 1.0) or math.isnan(hit)
    assert len(final_answer(response).text) <= 1_000 or "<answer>" in response


@given(PIECES)
def test_what_is_normalized_has_no_blanks_at_its_ends(text: str) -> None:
    plain = normalize(text)
    assert plain == plain.strip()


AMOUNTS = st.integers(min_value=-(10**9), max_value=10**9)
FULL_WIDTH = str.maketrans("0123456789.,-", "０１２３４５６７８９．，－")


@given(AMOUNTS, AMOUNTS)
def test_the_form_of_a_number_does_not_matter(answer: int, label: int) -> None:
    hit = float(answer == label)
    plain = f"The answer is {answer}"
    grouped = f"The answer is {answer:,}"
    forms = [
        plain,
        grouped,
        plain.translate(FULL_WIDTH),
        grouped.translate(FULL_WIDTH),
        f"{plain}.",
        f"{plain}.00",
        f"{plain} apples.",
        f"答案是{answer}元。",
        f"So \\boxed{{{answer}}}",
        f"<answer>${answer}$</answer>",
    ]
    assert [label_hit(form, str(label)) for form in forms] == [hit] * len(forms)
    assert [label_hit(plain, form) for form in (f"{label:,}", f"{label}个", label)] == [
        hit
    ] * 3


@pytest.mark.parametrize(
    "piece",
    [
        "\\frac{",
        "\\text{",
        "####",
        "answer is ",
        "<answer>",
        "\\boxed{",
        "1,",
        "1 111 ",
        "{",
        "答案",
    ],
)
def test_time_does_not_grow_with_the_text(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    started = time.perf_counter()
    label_hit(text, "5")
    label_hit("5", text)
    assert time.perf_counter() - started < 0.2
