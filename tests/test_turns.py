"""Turns: figures count what the policy sampled; the rest stands apart, and is not lost."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlreport
from rlreport.check import run_checks
from rlreport.figures.turns import ToolCounts
from rlreport.summarise.run import summarise
from tests.reading import described_kl, kinds, read, row, token_figures, tokens, write

STRINGS = ("a", "b", "(", "4", ")", "c", "a", "b", "[", "c")
MASK = [1, 1, 0, 0, 0, 1, 1, 1, 0, 1]
KEEP = np.array(MASK, dtype=bool)
GIVEN = {
    "sampler_logprobs": [-0.5, -0.7, 0.0, 0.0, 0.0, -1.2, -1.0, -1.4, 0.0, -1.3],
    "old_logprobs": [-0.5] * 10,
}


def masked(mask: object = MASK, **fields: Any) -> dict[str, Any]:
    """A row whose environment wrote the tokens of mask 0."""
    return tokens(*STRINGS, **{**GIVEN, "response_mask": mask, **fields})


def array(name: str) -> Any:
    return np.array(masked()[name])


def expected_figures(keep: np.ndarray) -> dict[str, float]:
    """Return the figures of ``masked()`` over the tokens that are kept."""
    logp = array("logprobs")[keep]
    sampler = array("sampler_logprobs")[keep]
    ratio = logp - array("ref_logprobs")[keep]
    mismatch = logp - sampler
    mismatch_ratio = np.exp(np.abs(mismatch))
    mismatch_prob = np.abs(np.exp(logp) - np.exp(sampler))
    old_ratio = np.exp(logp + 0.5)
    bigrams = list(pairwise(np.array(STRINGS)[keep]))
    return {
        "kl_k1": ratio.sum(),
        "kl_k3": described_kl(ratio).sum(),
        "log_ratio_mean": ratio.mean(),
        "surprisal_mean": -logp.mean(),
        "mismatch_ratio": mismatch_ratio.mean(),
        "mismatch_prob": mismatch_prob.mean(),
        "log_weight": mismatch.sum(),
        "ratio_mean": old_ratio.mean(),
        "response_tokens": keep.sum(),
        "distinct_2": len(set(bigrams)) / len(bigrams),
        "rlhf_reward": 0.1,
    }


@pytest.mark.parametrize("kind", [int, bool])
@pytest.mark.parametrize("more", [{}, {"reward_parts": {"x": 1.0}}])
def test_token_figures_count_sampled_tokens_only(tmp_path, kind, more):
    """Further fields send the row another way through the reader: the numbers are the same."""
    mask = [kind(value) for value in MASK]
    rows = [masked(mask, **more), masked([1] * 10, **more)]
    scan = read(write(tmp_path / "log.jsonl", rows))
    found = scan.responses.iloc[0]
    every = scan.responses.iloc[1]
    every_token = np.ones(10, bool)
    for response, keep in ((found, KEEP), (every, every_token)):
        expected = expected_figures(keep)
        assert {name: response[name] for name in expected} == pytest.approx(expected)
    assert found["env_tokens"] == 4
    assert found["kl_k1"] != pytest.approx(every["kl_k1"])
    kl = described_kl(array("logprobs") - array("ref_logprobs"))
    assert found["kl_max_position"] == np.flatnonzero(KEEP)[np.argmax(kl[KEEP])]
    assert set(token_figures(scan)["count"].items()) == {
        ("a", 4),
        ("b", 4),
        ("c", 4),
        ("(", 1),
        ("4", 1),
        (")", 1),
        ("[", 1),
    }


def test_gae_runs_over_the_sampled_tokens_and_gets_the_rewards_of_what_follows(
    tmp_path,
):
    rewards = [0.0, 0.1, 1.0, 0.0, 2.0, 0.0, 0.2, 0.0, 4.0, 0.5]
    scan = read(write(tmp_path / "log.jsonl", [masked(token_rewards=rewards)]))
    paid = np.array([0.0, 3.1, 0.0, 0.2, 4.0, 0.5])
    values = np.append(array("values")[KEEP], 0.0)
    advantage = np.zeros(6)
    carried = 0.0
    for t in range(5, -1, -1):
        delta = paid[t] + values[t + 1] - values[t]
        carried = advantage[t] = delta + 0.95 * carried
    (rollout,) = scan.rollouts.read([0])
    assert rollout.figures["advantage"] is not None
    assert rollout.figures["advantage"][KEEP] == pytest.approx(advantage)
    assert np.isnan(rollout.figures["advantage"][~KEEP]).all()
    assert scan.responses["advantage_mean"][0] == pytest.approx(advantage.mean())
    assert scan.responses["rlhf_reward"][0] == pytest.approx(sum(rewards))


def test_a_mask_that_fits_no_tokens_is_left_out_with_its_reason(tmp_path: Path) -> None:
    masks = [
        MASK[:-1],
        [*MASK, 1],
        [0.5] * 10,
        [2] * 10,
        ["1"] * 10,
        "1111111111",
    ]
    rows = [masked(mask) for mask in masks]
    scan = read(write(tmp_path / "log.jsonl", [*rows, tokens("x")]))
    assert scan.responses["response_tokens"].tolist() == [10] * len(masks) + [1]
    assert {note.kind: note.count for note in scan.notes} == {"bad_mask": len(masks)}


def test_a_mask_that_fits_only_unusable_tokens_is_left_out_whenever_a_row_is_read(
    tmp_path,
):
    ids = {
        "response_tokens": [7, 8, 9],
        "response_mask": [1, 0, 1],
        "logprobs": [-1.0] * 5,
    }
    scan = read(write(tmp_path / "log.jsonl", [row(**ids), tokens("x")]))
    assert {"bad_mask", "not_tokens"} <= kinds(scan)
    first, _ = scan.rollouts.read([0, 1])
    assert first.sampled is None
    assert first.figures["logp"] is not None
    assert first.figures["logp"].tolist() == [-1.0] * 5


def test_a_response_without_a_sampled_token_has_no_figures(tmp_path: Path) -> None:
    scan = read(write(tmp_path / "log.jsonl", [masked([0] * 10)]))
    first = scan.responses.iloc[0]
    assert (first["response_tokens"], first["env_tokens"]) == (0, 10)
    assert np.isnan(first["kl_k1"])


CALL = {"name": "calc", "arguments": {"x": 1}}


def conversation(**fields: Any) -> dict[str, Any]:
    """A row of two turns of the policy, with a tool's answer between them."""
    turns = [
        {
            "role": "assistant",
            "text": "<think>hm</think>",
            "sampled": True,
            "tokens": [0, 2],
            "calls": [CALL, CALL],
        },
        {
            "role": "tool",
            "text": "4",
            "sampled": False,
            "tokens": [2, 5],
            "tool": "calc",
            "error": "timeout",
        },
        {"role": "tool", "text": "5", "sampled": False, "tool": "calc"},
        {"role": "assistant", "text": "It is 4.", "sampled": True, "tokens": [5, 10]},
    ]
    changes = {
        "turns": turns,
        "policy_version": [3, 4],
        "seconds": 2.5,
        "finish_reason": "stop",
    }
    return tokens(*STRINGS, **{"step": 7, **changes, **fields})


def test_turns_come_to_columns(tmp_path: Path) -> None:
    limited = conversation(finish_reason="max_turns")
    scan = read(write(tmp_path / "log.jsonl", [conversation(), limited, row(7)]))
    expected = {
        "turns": 2,
        "tool_calls": 2,
        "tool_errors": 1,
        "void_turns": 0,
        "env_tokens": 3,
        "response_tokens": 7,
        "thinking_chars": 2,
        "unclosed_thinking": 0,
        "lag": 4,
        "seconds": 2.5,
        "at_turn_limit": 0,
    }
    assert {name: scan.responses[name][0] for name in expected} == expected
    assert scan.responses["at_turn_limit"].tolist()[:2] == [0, 1]
    absent = [name for name in expected if name != "response_tokens"]
    assert scan.responses.loc[2, absent].isna().all()
    assert scan.tools.to_dict("list") == {
        "step": [7],
        "tool": ["calc"],
        "answers": [4],
        "errors": [2],
        "chars": [4],
        "ranges": [2],
        "tokens": [6],
        "empty": [0],
        "timeouts": [2],
        "permissions": [0],
        "not_found": [0],
        "arguments": [0],
        "exceptions": [0],
    }
    (step,) = summarise(scan).steps.to_dict("records")
    assert (step["tool_error_share"], step["turn_tokens_mean"]) == (0.5, 3.5)
    assert (step["lag_mean"], step["lag_max"], step["at_turn_limit"]) == (4, 4, 0.5)
    (rollout,) = scan.rollouts.read([0])
    assert [(t.role, t.tokens, t.error) for t in rollout.conversation] == [
        ("assistant", (0, 2), None),
        ("tool", (2, 5), "timeout"),
        ("tool", None, None),
        ("assistant", (5, 10), None),
    ]
    assert rollout.conversation[0].calls == (("calc", '{"x": 1}'),) * 2
    assert rollout.sampled is not None
    sampled = [True] * 10
    sampled[2:5] = [False] * 3
    assert rollout.sampled.tolist() == sampled


KINDS_OF_ERRORS = {
    "others": (
        "Error: boom",
        "<returncode>1</returncode>",
        "Error:\nout of memory",
    ),
    "exceptions": ("ValueError: x", "Traceback (most recent call last):\n  File"),
    "not_found": (
        'Output:\n{"error": "no such city"}',
        "Exit code: 127\nfoo: command not found",
        "RESULT c2:\nstatus: failed\nstderr:\nsnippet not found",
    ),
    "arguments": ('{"status": "error", "message": "missing 1 required argument"}',),
    "timeouts": ("<|im_start|>tool\nExecution timed out after 5 s",),
    "permissions": ("Permission denied", "HTTP 403"),
    "": (
        "Exit code: 0",
        "Standard error: 0.3",
        "error: 0.03",
        "Error: none",
        "400 results",
        "",
        '{"error": null, "city": "Rome"}',
        "The word error: is a noun",
        "RESULT c1:\nstatus: success\nstdout:\nerror[E0432]",
        "Error analysis: see below",
    ),
}
ERRORS: dict[str, str] = {}
for _kind, _texts in KINDS_OF_ERRORS.items():
    ERRORS |= dict.fromkeys(_texts, _kind)


@pytest.mark.parametrize("text", ERRORS)
def test_an_answer_that_begins_as_an_error_is_one_of_a_kind(
    text: str, tmp_path: Path
) -> None:
    kind = ERRORS[text]
    answer = {"role": "tool", "text": text}
    no_error = {**answer, "error": ""}
    rows = [row(turns=[answer]), row(turns=[no_error])]
    scan = read(write(tmp_path / "log.jsonl", rows))
    errors = scan.responses["tool_errors"].tolist()
    assert errors == [bool(kind), 0], "a mark goes first"
    (tool,) = scan.tools.to_dict("records")
    kinds = {name: tool[name] for name in ToolCounts._fields[6:] if tool[name]}
    assert kinds == ({} if kind in ("", "others") else {kind: 1})
    response = f"a<tool_response>{text.removeprefix('<|im_start|>tool')}"
    marked = read(write(tmp_path / "marked.jsonl", [row(response=response)]))
    assert marked.responses["tool_errors"].tolist() == [bool(kind)]


UNPARSED: dict[str, tuple[dict[str, Any], int]] = {
    "a call": ({"text": '<tool_call>{"name": "calc", "arguments": {}}</tool_call>'}, 0),
    "no quotes": (
        {"text": "<tool_call>{name: calc}</tool_call> <tool_call>{}</tool_call>"},
        1,
    ),
    "cut off": ({"text": 'a <tool_call>{"name": "calc", "argu'}, 1),
    "nothing": ({"text": "<tool_call>\n</tool_call>"}, 1),
    "other syntax": (
        {"text": "<tool_call>\n<function=calc>\n</function>\n</tool_call>"},
        0,
    ),
    "arguments": (
        {"text": "", "calls": [{"name": "calc", "arguments": '{"x": 1'}]},
        1,
    ),
    "plain arguments": (
        {"text": "", "calls": [{"name": "calc", "arguments": "print(1)"}]},
        0,
    ),
    "the parser read none": (
        {"text": '<tool_call>{"name": "c"}</tool_call>', "calls": []},
        1,
    ),
    "no call": ({"text": "It is 4.", "calls": []}, 0),
}


@pytest.mark.parametrize("calls", [{}, {"calls": []}])
def test_calls_in_the_text_after_a_final_answer_are_late(
    calls: dict, tmp_path: Path
) -> None:
    text = 'The answer is \\boxed{4}. <tool_call>{"name": "c", "arguments": {}}</tool_call>'
    log = write(
        tmp_path / "log.jsonl",
        [row(1, turns=[{"role": "assistant", "text": text} | calls])],
    )
    assert read(log).responses["late_calls"].tolist() == [1]


@pytest.mark.parametrize("case", UNPARSED)
def test_calls_that_cannot_be_parsed_are_counted(case: str, tmp_path: Path) -> None:
    turn, unparsed = UNPARSED[case]
    logs = [row(1, turns=[{"role": "assistant", **turn}])]
    if "calls" not in turn:
        logs.append(row(1, response=turn["text"]))
    scan = read(write(tmp_path / "log.jsonl", logs))
    assert scan.responses["unparsed_calls"].tolist() == [unparsed] * len(logs)


def called(step: int, answers: dict[str, list[str]]) -> list[dict[str, Any]]:
    """Return a row for each answer, by tool, with a call before it."""
    rows = []
    for tool, texts in answers.items():
        for i, text in enumerate(texts):
            turns = [
                {"role": "assistant", "text": "", "calls": [{"name": tool}]},
                {"role": "tool", "tool": tool, "text": text},
                {"role": "assistant", "text": "Done."},
            ]
            rows.append(row(step, reward=float(i % 2), turns=turns))
    return rows


def empty_at(share: float, rng: Any, size: int = 8) -> list[str]:
    return ["" if rng.random() < share else "found" for _ in range(size)]


Answers = dict[str, list[str]]


def search_is_empty_from_step_24_on(step: int, rng: Any) -> Answers:
    share = 0.9 if step >= 24 else 0.1
    return {"search": empty_at(share, rng), "read": empty_at(0.05, rng, 24)}


def searches_sometimes_find_nothing(step: int, rng: Any) -> Answers:
    return {"search": empty_at(0.3, rng), "read": empty_at(0.0, rng)}


def writing_says_nothing_and_comes_more_often(step: int, rng: Any) -> Answers:
    calls = 1 + step // 5
    return {"write": [""] * calls, "read": empty_at(0.0, rng)}


def few_calls(step: int, rng: Any) -> Answers:
    return {"search": [""] if step >= 36 else [], "read": empty_at(0.0, rng)}


@pytest.mark.parametrize(
    ("answers", "name"),
    [
        (search_is_empty_from_step_24_on, "search"),
        (searches_sometimes_find_nothing, None),
        (writing_says_nothing_and_comes_more_often, None),
        (few_calls, None),
    ],
)
def test_a_tool_that_returns_nothing_is_found_by_its_name(
    answers: Callable[[int, Any], Answers], name: str | None, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for step in range(40):
        rows += called(step, answers(step, rng))
    scan = read(write(tmp_path / "log.jsonl", rows))
    empty = [one for one in rows if not one["turns"][1]["text"]]
    assert scan.responses["empty_results"].sum() == len(empty)
    found = [f for f in run_checks(summarise(scan)).findings if f.id == "empty_results"]
    assert [f.facts["tool"] for f in found] == ([name] if name else [])
    for finding in found:
        assert finding.onset is not None
        assert abs(finding.onset.step - 24) <= 1
        assert finding.evidence


def test_thinking_without_an_end_is_told(tmp_path: Path) -> None:
    expected = {
        ("q", "plain"): (np.nan, np.nan),
        ("q", "<think>abc</think>d"): (3, 0),
        ("q", "<think>abc"): (3, 1),
        ("q<think>\n", "abc"): (3, 1),
        ("q<think>\n", "abc</think>d"): (3, 0),
        ("q", "abc</think>d<think>ef"): (5, 1),
        ("q", "<think>" * 3): (14, 1),
    }
    rows = [row(prompt=prompt, response=response) for prompt, response in expected]
    scan = read(write(tmp_path / "log.jsonl", rows))
    found = scan.responses[["thinking_chars", "unclosed_thinking"]]
    np.testing.assert_array_equal(found, [*expected.values()])


def test_thinking_is_counted_in_tokens_where_its_marks_are_tokens(
    tmp_path: Path,
) -> None:
    rows = [
        tokens("<think>", "a", "b", "</think>", "c"),
        tokens("a", "</think>", "b", "c"),
        tokens("<think>", "a", "</think>", "b", "<think>", "c"),
        tokens("a", "b"),
    ]
    scan = read(write(tmp_path / "log.jsonl", rows))
    thought = scan.responses["thinking_tokens"].tolist()
    assert thought == pytest.approx([4, 2, 5, np.nan], nan_ok=True)
    assert scan.responses["answer_tokens"].tolist()[:3] == [1, 2, 1]


HOSTILE: list[Any] = [
    {"role": "assistant"},
    {"role": "assistant", "text": None, "calls": "no list"},
    {
        "role": "assistant",
        "text": ["x", {"type": "image"}],
        "calls": [3, None, {"name": 5}],
    },
    {
        "role": "tool",
        "text": {"a": 1},
        "tool": 7,
        "error": {"code": 1},
        "seconds": "long",
    },
    {"role": "assistant", "text": "\ud800 <script>", "thinking": 3, "reward": [1]},
    {"role": "tool", "text": "t", "tool": "x" * 10_000, "error": True, "seconds": True},
]


def test_hostile_turns_cost_themselves_only(tmp_path: Path) -> None:
    many = [{"role": "assistant", "text": str(i)} for i in range(10_000)]
    answer = {"role": "tool", "text": ""}
    tools = [{**answer, "tool": str(i)} for i in range(1_000)]
    rows = [
        row(turns=HOSTILE),
        row(turns=many),
        row(turns="x"),
        row(turns=[3]),
        row(turns=[]),
        row(turns=[{"text": "no role"}]),
        row(turns=3),
        row(turns=tools),
        conversation(turns=[{"role": "assistant", "text": "", "tokens": [2, 99]}]),
        row(policy_version="new", seconds="1", errors=3, trainable="no", split=5),
        row(policy_version=[], errors=[None]),
        row(seconds=float("inf"), policy_version=[None]),
    ]
    scan = read(write(tmp_path / "log.jsonl", rows))
    assert (len(scan.responses), scan.bad_count) == (len(rows), 0)
    assert {"bad_turns", "bad_spans"} <= kinds(scan)
    assert scan.responses["turns"].max() == 10_000
    assert scan.tools["tool"].nunique() <= 64
    rollouts = scan.rollouts.read(range(len(rows)))
    assert len(rollouts[0].conversation) == len(HOSTILE)
    assert rollouts[0].conversation[3].error == '{"code": 1}'
    assert summarise(scan).steps["turns_mean"].notna().any()


def test_seats_that_are_not_trained_and_failures_are_no_responses(
    tmp_path: Path,
) -> None:
    rows = [
        row(1),
        row(1, reward=5.0, agent="judge", trainable=False),
        row(1, reward=None, response="", errors=["SandboxError"]),
        row(2, errors=["late"]),
    ]
    scan = read(write(tmp_path / "log.jsonl", rows))
    assert scan.responses["reward"].tolist() == [1.0, 1.0]
    assert {"untrained", "failed"} <= kinds(scan)
    assert summarise(scan).steps["failed_rollouts"].tolist() == [1, 0]


def test_validation_is_followed_beside_training(tmp_path: Path) -> None:
    rows = [row(0, reward=9.0, split="validation")] * 30
    rows += [
        row(step, reward=float(step), split="train", prompt=f"p{step}")
        for step in (1, 2, 2)
    ]
    validation = {"split": "val", "reward": 7.0, "prompt": "p2"}
    rows.append(tokens("v", "v", "w", step=2, **validation))
    scan = read(write(tmp_path / "log.jsonl", rows))
    tables = summarise(scan)
    assert tables.steps["step"].tolist() == [0, 1, 2]
    assert tables.steps["responses"].tolist() == [0, 1, 2]
    assert tables.steps["validation_reward_mean"].tolist() == pytest.approx(
        [9.0, np.nan, 7.0], nan_ok=True
    )
    assert tables.validation["responses"].tolist() == [30, 0, 1]
    assert token_figures(scan).empty
    judged = tables.training()
    assert judged.steps["reward_mean"].tolist() == [1.0, 2.0]
    assert judged.responses["n"].tolist() == [0, 0, 1]
    # The same prompt in both is two prompts.
    assert len(tables.prompts) == 4
    assert (tables.prompts["validation"] == 1).sum() == 2


def test_a_step_whose_rollouts_all_failed_is_seen(tmp_path: Path) -> None:
    rows = []
    for step in range(9):
        rows += [row(step, reward=0.1 * step, prompt=f"p{i}") for i in range(4)]
    lost = row(0, reward=None, response="", errors=["SandboxError"])
    for step in range(9, 13):
        rows += [{**lost, "step": step}] * 4
    log = write(tmp_path / "log.jsonl", rows)
    tables = summarise(read(log))
    assert tables.steps["step"].tolist() == list(range(13))
    assert tables.steps["responses"].tolist() == [4] * 9 + [0] * 4
    assert tables.steps["failed_rollouts"].tolist() == [0] * 9 + [4] * 4
    assert tables.training().steps["step"].tolist() == list(range(9))

    report = rlreport.build(log, tmp_path / "report", workers=1)
    found = {f.id: f for f in report.verdict.findings}
    assert "broken_log" not in found, "no step is missing"
    onset = found["failed_rollouts"].onset
    assert onset and onset.low <= 9 <= onset.high
    pages = (tmp_path / "report" / "steps").glob("*.html")
    assert sorted(int(page.stem) for page in pages) == list(range(9))
    assert not report.left_out
    overview = (tmp_path / "report" / "index.html").read_text("utf-8")
    assert "Rollouts that failed" in overview
    assert '<tr data-n="10"><td class="link" data-v="10.0">10 <span' in overview
    assert (tmp_path / "report" / "data" / "steps.csv").read_text().count("\n") == 14


CALL_TEXT = '<tool_call>\n{"name": "calc", "arguments": {"x": 1}}\n</tool_call>'
ANSWER_TEXT = "<tool_response>\n4\n</tool_response>"
MARKED = {
    "chat template": (
        f"<think>hm</think>Let me see.\n{CALL_TEXT}<|im_end|>\n"
        f"<|im_start|>user\n{ANSWER_TEXT}<|im_end|>\n<|im_start|>assistant\nIt is 4.<|im_end|>"
    ),
    "template without its marks": (
        f"<think>hm</think>Let me see.\n{CALL_TEXT}\nuser\n{ANSWER_TEXT}\nassistant\nIt is 4."
    ),
    "one text": f"<think>hm</think>Let me see.\n{CALL_TEXT}\n{ANSWER_TEXT}\nIt is 4.",
}


@pytest.mark.parametrize("marked", MARKED)
def test_turns_are_found_by_the_marks_of_tools_in_a_text(
    marked: str, tmp_path: Path
) -> None:
    rows = [row(1, response=MARKED[marked]), row(1, response="plain")]
    scan = read(write(tmp_path / "log.jsonl", rows))
    expected = {"turns": 2, "tool_calls": 1, "void_turns": 0, "thinking_chars": 2}
    assert {name: scan.responses[name][0] for name in expected} == expected
    assert scan.responses["tool_errors"][0] == 0
    assert np.isnan(scan.responses["turns"][1])
    first, second = scan.rollouts.read([0, 1])
    assert [(t.role, t.text, t.sampled) for t in first.conversation] == [
        ("assistant", "<think>hm</think>Let me see.", True),
        ("tool", "4", False),
        ("assistant", "It is 4.", True),
    ]
    assert first.conversation[0].calls == (("calc", '{"x": 1}'),)
    assert not second.conversation


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>",
        "<tool_call>" * 3000,
        "a<tool_call>{1</tool_call>",
        "<tool_response>",
        "<tool_call>" + "[" * 20_000 + "</tool_call>",
        "</tool_call><tool_response>x",
    ],
)
def test_broken_marks_of_tools_lose_nothing(text: str, tmp_path: Path) -> None:
    scan = read(write(tmp_path / "log.jsonl", [row(1, response=text)]))
    (rollout,) = scan.rollouts.read([0])
    assert rollout.response == text
    assert scan.responses["reward"].tolist() == [1.0]
