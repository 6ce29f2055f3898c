"""Lines made to end a build, and damaged logs, cost themselves only; both parsers read alike."""

import json
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlreport.errors import RlreportError, UnusableInputError
from rlreport.tables import NoteKind
from tests.reading import damage, read, row, token_figures, tokens, write
from tests.running import SEARCH

ENDLESS = "1" + "0" * 400
DEPTHS = (990, 1010)
"""Levels of nesting about Python's limit on recursion, below and above that of the parser."""


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def line(**logged: str) -> str:
    """A line of good fields, some of them replaced by raw JSON."""
    fields = {name: json.dumps(value) for name, value in row().items()}
    fields |= logged
    members = [f'"{name}":{value}' for name, value in fields.items()]
    return "{" + ",".join(members) + "}\n"


@pytest.mark.parametrize(
    "field",
    [
        "step",
        "prompt",
        "reward",
        "logprobs",
        "advantages",
        "group_id",
        "turns",
        "policy_version",
        "seconds",
        "reward_parts",
        "response_mask",
        "response_tokens",
        "errors",
        "note",
    ],
)
@pytest.mark.parametrize(
    "value", [ENDLESS, *map(nested, DEPTHS)], ids=["digits", "990", "1010"]
)
def test_an_endless_number_or_list_costs_its_own_line_at_most(field, value, tmp_path):
    lines = [line(), line(**{field: value}), line(step="1")]
    scan = read(write(tmp_path / "rank_0.jsonl", lines))
    assert {0, 1} <= set(scan.responses["step"])
    assert len(scan.responses) + scan.bad_count == 3
    assert list(scan.responses["response_chars"]) == [9] * len(scan.responses)
    assert len(list(scan.rollouts.read(range(len(scan.responses))))) >= 2


@pytest.mark.parametrize("depth", [*DEPTHS, 100_000])
def test_a_nested_list_costs_its_own_line_in_a_frameworks_log(
    depth: int, tmp_path: Path
) -> None:
    good = '{"input":"p","output":"r","score":1.0,"step":1,"gts":"4"}\n'
    deep = good.replace('"4"', nested(depth))
    path = write(tmp_path / "1.jsonl", [good, deep, good])
    assert len(read(path).responses) >= 2


@pytest.mark.parametrize("depth", DEPTHS)
def test_arguments_of_a_call_nested_too_deep_leave_the_call(
    depth: int, tmp_path: Path
) -> None:
    call = f'{{"name":"x","arguments":{nested(depth)}}}'
    turns = f'[{{"role":"assistant","text":"a","sampled":true,"calls":[{call}]}}]'
    scan = read(write(tmp_path / "rank_0.jsonl", [line(turns=turns)]))
    said = next(iter(scan.rollouts.read([0]))).conversation
    assert [name for name, _ in said[0].calls] == ["x"]


ODD = [
    None,
    True,
    0,
    2**53,
    1.5,
    "",
    "x",
    [],
    {},
    [1],
    ["tr"],
    ["a", None],
    ["a", ["b"]],
    ["a", {"b": 1}],
    ["a", 5],
    [None, None],
    [True, False],
    [1, 0],
    ["1", "2"],
    [[1.0], [2.0]],
    [[1.0, 2.0]],
    [0.1, None],
    {"a": 1},
    ["a,[", ',"'],
    ["\\", '"'],
]


@pytest.mark.parametrize(
    "field", ["response_tokens", "logprobs", "response_mask", "advantages"]
)
def test_values_of_any_type_mean_the_same_in_strict_and_in_lenient_json(
    field, tmp_path
):
    logged: dict[str, Any] = tokens("a", "b", values=None, response="Hi there. You.")
    rows = [{**logged, field: value} for value in ODD]
    null_rows = [{**one, "lr": None} for one in rows]
    strict = read(write(tmp_path / "strict.jsonl", null_rows))
    nan_rows = [{**one, "lr": float("nan")} for one in rows]
    lenient = read(write(tmp_path / "lenient.jsonl", nan_rows))
    counts = {note.kind: note.count for note in strict.notes}
    counts[NoteKind.TOLERANT] = len(ODD)
    assert {note.kind: note.count for note in lenient.notes} == counts
    pd.testing.assert_frame_equal(
        strict.responses.drop(columns="offset"),
        lenient.responses.drop(columns="offset"),
    )
    pd.testing.assert_frame_equal(token_figures(strict), token_figures(lenient))
    assert (strict.ngrams is None) == (lenient.ngrams is None)
    if strict.ngrams is not None and lenient.ngrams is not None:
        assert strict.ngrams.vocabulary == lenient.ngrams.vocabulary
        np.testing.assert_array_equal(strict.ngrams.units, lenient.ngrams.units)


EXAMPLES = 100 * SEARCH
TRICKS = (
    b"\n",
    b"\r\n",
    b"\0",
    b'"',
    b"\\",
    b"]",
    b"}",
    b",",
    b"NaN",
    b"-1e999",
    b"null",
    b"\xff",
)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["</s>", "<PAD>", "0.5", "12", "\ud800", "🎉"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = sorted(
    {
        *tokens("a"),
        "group_id",
        "advantages",
        "finish_reason",
        "reward_parts",
        "prompt_turns",
    }
)
changes = st.dictionaries(
    st.sampled_from(NAMES) | st.text(max_size=5), values, max_size=4
)


def check(data: bytes) -> None:
    """Read a log; every line that is not blank must be a row or be reported."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        path.write_bytes(data)
        lines = sum(1 for line in data.split(b"\n") if line and not line.isspace())
        try:
            scan = read(path)
        except UnusableInputError:
            return
        except RlreportError as error:
            pytest.fail(f"unexpected {error!r}")
        assert len(scan.responses) + scan.bad_count == lines
        assert len(scan.bad_lines) == min(scan.bad_count, 1000)
        rows = range(len(scan.responses))
        rollouts = scan.rollouts.read(rows)
        counts = scan.responses["response_tokens"]
        for rollout, count in zip(rollouts, counts, strict=True):
            assert not rollout.raw_tokens or len(rollout.raw_tokens) == count
            assert len(rollout.tokens) == len(rollout.raw_tokens)


@pytest.mark.ci
@pytest.mark.untraced
@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(st.lists(changes, max_size=4), st.integers(0, 3))
def test_rows_with_arbitrary_values_are_read_or_reported(rows, good):
    base = [tokens("a", "</s>", "b", step=i) for i in range(good)]
    mutated = [{**tokens("x", "y"), **change} for change in rows]
    logged = [*base, row(), *mutated]
    lines = [json.dumps(item) + "\n" for item in logged]
    check("".join(lines).encode())


@pytest.mark.untraced
@pytest.mark.search
@pytest.mark.parametrize("run", ["ppo_healthy", "grpo_math", "eval_poem_task"])
def test_flipped_cut_and_spliced_bytes_cost_their_lines_only(
    shared_data: Path, run: str
) -> None:
    log = next((shared_data / run).glob("*.jsonl"))
    lines = log.read_bytes().splitlines(keepends=True)
    rng = random.Random(run)
    for _ in range(EXAMPLES // 3):
        data = bytearray(b"".join(rng.sample(lines, 6)))
        for _ in range(rng.randint(1, 6)):
            damage(data, rng, TRICKS)
        check(bytes(data))
