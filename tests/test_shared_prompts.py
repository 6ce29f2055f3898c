"""The beginnings that most prompts of a run share, and prompts without them."""

import pytest
from markupsafe import escape

from rlreport.pages.views import PREFIXES, PromptText, prompt_prefixes

SYSTEM = "system: You are <helpful> and brief.\nuser: "
CODER = "system: Write code that runs, and nothing else.\nuser: "
QUESTIONS = [f"{word} is {k} of {k * k}?" for k, word in enumerate("ABCDEFGHIJ")]


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        # Words are not cut, and one prompt in five may differ.
        ([f"{SYSTEM}Sum {k}123 and 4" for k in range(8)], (f"{SYSTEM}Sum ",)),
        ([SYSTEM + q for q in QUESTIONS[:8]] + QUESTIONS[8:], (SYSTEM,)),
        ([SYSTEM + q for q in QUESTIONS[:7]] + QUESTIONS[7:], ()),
        # Environments have beginnings of their own.
        ([one + q for one in (SYSTEM, CODER) for q in QUESTIONS], (CODER, SYSTEM)),
        ([f"{k} is another system prompt\n{q}" for k in range(9) for q in QUESTIONS], ()),
        # Too few, too short, or shared by a few long prompts only.
        ([SYSTEM + q for q in QUESTIONS[:3]], ()),
        ([f"Question: {q}" for q in QUESTIONS], ()),
        ([*QUESTIONS, *(f"{'Long text ' * 50}{k}" for k in range(2))], ()),
        (["请用一句话回答下面的问题，不要写出任何多余的内容：" + q for q in QUESTIONS],
         ("请用一句话回答下面的问题，不要写出任何多余的内容：",)),
        ([SYSTEM], ()),
        ([], ()),
    ],
)  # fmt: skip
def test_a_beginning_that_four_of_five_prompts_share_is_found(prompts, expected):
    assert prompt_prefixes(prompts) == expected
    assert prompt_prefixes([*prompts[::-1], *prompts, ""]) == expected
    assert len(expected) <= PREFIXES


def test_a_prompt_hides_the_longest_beginning_unless_nothing_would_be_left():
    prefixes = ("Be brief. ", "Be brief. Sum ")
    prompt = PromptText("Be brief. Sum 1 < 2", prefixes)
    assert (prompt, prompt.shared, prompt.rest) == ("Be brief. Sum 1 < 2", prefixes[1], "1 < 2")
    assert prompt.brief == "… 1 < 2"
    assert escape(prompt) == '<span class="shared">Be brief. Sum </span>1 &lt; 2'
    assert PromptText("Be brief. Sum ", prefixes).shared == "Be brief. "
    assert PromptText("Be brief. ", prefixes).shared == ""
    assert escape(PromptText("a < b", prefixes)) == "a &lt; b"
    assert PromptText("Be brief. Sum 123456", prefixes, 5) == "Be b…1234…"
