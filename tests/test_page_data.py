"""Data in pages and CSV files: never markup or a formula, and as they were; shared prompts."""

import csv as reader
import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from operator import add

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from markupsafe import escape
from numpy.typing import NDArray

import rlreport
from rlreport.figures.tokens import TokenFigures
from rlreport.pages.data import csv
from rlreport.pages.html import canonical_json, script_json
from rlreport.pages.listed import PREFIXES, PromptText, prompt_prefixes
from rlreport.pages.response_panel import group_data
from rlreport.pages.token_data import decimal, pack_tokens
from rlreport.read.rollouts import Rollout
from rlreport.read.token_columns import TokenColumns
from rlreport.text.clean import without_controls
from rlreport.text.tokens import Style, readable_tokens
from tests.pages_reading import Elements, as_logged, rows_data, unpack
from tests.reading import row, write
from tests.tables_builder import response_table
from tools import page_types

# What a terminal obeys: control characters but tab and line end, and a CR alone
OBEYED = re.compile(r"(?![\t\n\r])[\x00-\x1f\x7f-\x9f]|\r(?!\n)")
BEGINS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def cells(table: pd.DataFrame) -> list[list[str]]:
    text = io.StringIO(csv(table).decode(), newline="")
    return list(reader.reader(text))


def number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_a_formula_is_text_and_a_number_stays_a_number():
    table = pd.DataFrame(
        {"token": ["=1+1", "-x", "-1.5"], "logp": [-1.5, np.nan, -1e-9]}
    )
    assert cells(table)[1:] == [
        ["'=1+1", "-1.5"],
        ["'-x", ""],
        ["-1.5", "-1e-09"],
    ]


FORMULAS = st.builds(add, st.sampled_from(BEGINS), st.text())


@given(st.lists(st.text() | FORMULAS))
def test_no_text_begins_a_formula(texts):
    clean = [
        text.replace("\0", "").encode("utf-8", "replace").decode() for text in texts
    ]
    tokens = pd.Series(clean, dtype=object)
    table = pd.DataFrame({"n": range(len(clean)), "token": tokens})
    _, *rows = cells(table)
    for (_, cell), text in zip(rows, clean, strict=True):
        assert not cell.startswith(BEGINS) or number(cell)
        written = without_controls(text)
        assert cell in (written, f"'{written}")
        assert not OBEYED.search(cell)


def test_control_characters_are_written_out_but_tabs_and_line_ends():
    text = "\x1b[2J\tred\r\nback\rover\x07 \x9b1m\x7f"
    assert without_controls(text) == "\\x1b[2J\tred\r\nback\\x0dover\\x07 \\x9b1m\\x7f"
    escape_alone = pd.DataFrame({"\x1b=x": ["\x1b"]})
    assert cells(escape_alone) == [["\\x1b=x"], ["\\x1b"]]


def test_the_types_of_the_scripts_are_those_of_the_pages():
    assert page_types.TARGET.read_text("utf-8") == page_types.page_types(), (
        "`make written` was forgotten"
    )


def test_a_number_that_may_be_nan_may_be_null_in_scripts():
    assert page_types.type_of(NDArray[np.float64]) == "(number | null)[]"
    assert page_types.type_of(NDArray[np.int64]) == "number[]"
    assert page_types.type_of(list[float] | NDArray[np.float64]) == "(number | null)[]"
    assert page_types.type_of(dict[str, tuple[int, str]]) == (
        "Record<string, [number, string]>"
    )


HOSTILE = [
    "</script>",
    "</SCRIPT >",
    "<!--",
    "<script",
    "]]>",
    "&lt;",
    "\u2028",
    "\u2029",
    "\x00",
]


@given(st.lists(st.sampled_from(HOSTILE) | st.text(), max_size=6))
def test_any_text_stays_inside_its_node(texts):
    node = script_json({"texts": texts})
    found = Elements(f'<script type="application/json">{node}</script><p>').found
    assert [tag for tag, _ in found] == ["script", "p"]
    assert not {"<", ">", "&", "\u2028", "\u2029"} & set(node)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_text_comes_back_as_it_was(texts):
    assert json.loads(script_json([*texts, "x\ud800y"])) == [*texts, "x?y"]


def test_nan_and_infinity_become_null_in_lists_and_arrays():
    value = {"b": [np.nan, 1.5], "a": np.array([np.inf, 2.0])}
    assert canonical_json(value) == b'{"a":[null,2.0],"b":[null,1.5]}'


@given(
    st.lists(st.text(st.sampled_from("aé ▁Ġ春\n🎉<>0xE4\x00"), max_size=6), min_size=1)
)
def test_any_strings_come_back(raw):
    for style in Style:
        tokens = readable_tokens(raw, style)
        packed = Rollout(0, 1, "f", 1, "p", "r", raw_tokens=raw, tokens=tokens)
        header, ids, _ = unpack(pack_tokens(TokenColumns.of([packed]), 4))
        assert [as_logged(header, i) for i in ids] == raw
        assert [header["text"][i] for i in ids] == tokens


def test_nothing_is_packed_without_tokens_and_the_same_to_the_same_bytes():
    empty = Rollout(0, 0, "f", 1, "p", "r", raw_tokens=[], tokens=[])
    one = replace(empty, raw_tokens=["a"], tokens=["a"])
    assert pack_tokens(TokenColumns.of([empty]), 4) == ""
    tokens = TokenColumns.of([one])
    assert pack_tokens(tokens, 4) == pack_tokens(tokens, 4)


def test_the_references_log_probabilities_are_kept_unless_log_ratios_tell_them_all():
    for logp, kept in (
        ([-1.0, -2.0], False),
        ([-1.0, np.nan], True),
    ):
        policy = np.array(logp)
        reference = np.array([-0.5, -0.25])
        figures = TokenFigures(
            logp=policy, ref_logp=reference, log_ratio=policy - reference
        )
        texts = ["a", "b"]
        one = Rollout(0, 1, "f", 1, "p", "ab", raw_tokens=texts, tokens=texts)
        tokens = TokenColumns.of([replace(one, figures=figures)])
        columns = unpack(pack_tokens(tokens, 6))[2]
        assert ("ref_logp" in columns) == kept
        known = columns["ref_logp"] if kept else columns["logp"] - columns["log_ratio"]
        assert known.tolist() == [-0.5, -0.25]


def test_a_large_group_lists_its_first_64_members_and_those_that_are_shown():
    table = response_table(
        {"step": np.zeros(100), "group": 0, "reward": np.arange(100.0)}
    )
    columns = {str(name): table[name].to_numpy() for name in table}
    found = group_data(columns, np.array([90, 3]))
    assert found["groups"] == [[*range(64), 90]]
    siblings = [int(n) for n in found["siblings"]]
    assert siblings == [*range(3), *range(4, 64)]
    assert found["siblings"]["12"] == [12.0, 40.0]  # reward and length


def test_of_each_shown_member_of_a_group_it_is_said_whether_it_is_right():
    rewards = [0, 1, 1, 0]
    table = response_table({"step": np.zeros(4), "group": 0, "reward": rewards})
    columns = {str(name): table[name].to_numpy() for name in table}
    found = group_data(columns, np.array([2, 0]))
    assert found["right"] == [1, 0]
    assert found["siblings"] == {"1": [1.0, 40.0, 1.0], "3": [0.0, 40.0, 0.0]}


def test_pages_carry_which_texts_findings_name_and_all_findings_of_a_response(
    real_report,
):
    report = real_report("ppo_reward_hacking")
    assert rows_data(report / "steps" / "59.html")["highlights"] == ["🎉"]
    listed = (report / "responses.html").read_text("utf-8")
    assert ">reward hacking, KL explosion<" in listed


def test_a_prompt_whose_responses_never_beat_the_reference_says_so(tmp_path):
    rows = []
    for step in range(2):
        rows.append(row(step, prompt="won", ref_reward=0.0))
        rows.append(row(step, prompt="lost", ref_reward=2.0))
    rlreport.build(write(tmp_path / "log.jsonl", rows), tmp_path / "out", workers=1)
    prompts = (tmp_path / "out" / "prompts.html").read_text("utf-8")
    rows_of_table = re.findall(r"<tr\b.*?</tr>", prompts, re.DOTALL)
    badged = [one for one in rows_of_table if "never won" in one]
    assert len(badged) == 1
    assert "lost" in badged[0]


FLOATS = st.floats(-1e30, 1e30)


@pytest.mark.parametrize("digits", [3, 4, 6, 9])
@given(hnp.arrays(np.float64, 20, elements=FLOATS))
def test_values_keep_their_significant_digits(digits, values):
    mantissa, exponent = decimal(values, digits)
    back = mantissa * 10.0 ** exponent.astype(float)
    np.testing.assert_allclose(
        back, values, rtol=0.51 * 10.0 ** (1 - digits), atol=1e-100
    )
    assert (np.abs(mantissa) <= 10**digits).all()


@given(st.integers(-99999, 99999), st.integers(0, 5))
def test_short_decimals_are_kept_exactly(mantissa, places):
    value = np.array([mantissa / 10**places])
    (digits,), (exponent,) = decimal(value, 6)
    # As the page's script does: divide by a power that is exact.
    if exponent < 0:
        assert digits / 10.0 ** -float(exponent) == value[0]
    else:
        assert digits * 10.0 ** float(exponent) == value[0]


SYSTEM = "system: You are <helpful> and brief.\nuser: "
CODER = "system: Write code that runs, and nothing else.\nuser: "
QUESTIONS = [f"{word} is {k} of {k * k}?" for k, word in enumerate("ABCDEFGHIJ")]


SUMS = [f"Sum {k}123 and 4" for k in range(8)]
LONG_TEXTS = [f"{'Long text ' * 50}{k}" for k in range(2)]
OTHER_SYSTEMS = [f"{k} is another system prompt\n" for k in range(9)]
CHINESE = "请用一句话回答下面的问题，不要写出任何多余的内容："


def begun(beginning: str, prompts: Sequence[str]) -> list[str]:
    return [beginning + prompt for prompt in prompts]


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        # Words are not cut, and one prompt in five may differ.
        (begun(SYSTEM, SUMS), (f"{SYSTEM}Sum ",)),
        (
            [*begun(SYSTEM, QUESTIONS[:8]), *QUESTIONS[8:]],
            (SYSTEM,),
        ),
        (
            [*begun(SYSTEM, QUESTIONS[:7]), *QUESTIONS[7:]],
            (),
        ),
        # Environments have beginnings of their own.
        (
            [*begun(SYSTEM, QUESTIONS), *begun(CODER, QUESTIONS)],
            (CODER, SYSTEM),
        ),
        ([one + q for one, q in product(OTHER_SYSTEMS, QUESTIONS)], ()),
        # Too few, too short, or shared by a few long prompts only.
        (begun(SYSTEM, QUESTIONS[:3]), ()),
        (begun("Question: ", QUESTIONS), ()),
        ([*QUESTIONS, *LONG_TEXTS], ()),
        (begun(CHINESE, QUESTIONS), (CHINESE,)),
        ([SYSTEM], ()),
        ([], ()),
    ],
)
def test_a_beginning_that_four_of_five_prompts_share_is_found(prompts, expected):
    assert prompt_prefixes(prompts) == expected
    assert prompt_prefixes([*prompts[::-1], *prompts, ""]) == expected
    assert len(expected) <= PREFIXES


def test_a_prompt_hides_the_longest_beginning_unless_nothing_would_be_left():
    prefixes = ("Be brief. ", "Be brief. Sum ")
    prompt = PromptText("Be brief. Sum 1 < 2", prefixes)
    assert prompt == "Be brief. Sum 1 < 2"
    assert prompt.shared == "Be brief. Sum "
    assert prompt.rest == "1 < 2"
    assert prompt.brief == "… 1 < 2"
    assert escape(prompt) == '<span class="shared">Be brief. Sum </span>1 &lt; 2'
    assert PromptText("Be brief. Sum ", prefixes).shared == "Be brief. "
    assert PromptText("Be brief. ", prefixes).shared == ""
    assert escape(PromptText("a < b", prefixes)) == "a &lt; b"
    assert PromptText("Be brief. Sum 123456", prefixes, 5) == "Be b…1234…"
