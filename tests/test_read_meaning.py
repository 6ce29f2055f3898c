"""What a log says, taken for what it means, where names or neighbours could mislead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlreport.read.tables import Scan
from rlreport.summarise import summarise
from tests.reading import read, row, tokens, write


def test_windows_of_the_token_table_are_cut_over_the_steps_of_training(tmp_path: Path) -> None:
    training = [tokens("a", "b", step=step) for step in range(100, 120)]
    beside = [row(step, split="val") for step in range(0, 100, 5)]
    alone = summarise(read(write(tmp_path / "a.jsonl", training))).tokens
    both = summarise(read(write(tmp_path / "b.jsonl", training + beside))).tokens
    columns = ["raw", "count", "count_first", "count_last", "prob_change"]
    assert (alone["count_first"] > 0).all()
    assert both[columns].equals(alone[columns])


@pytest.mark.parametrize(
    ("said", "unclosed", "chars"), [("abc def", 1.0, 7.0), ("abc</think>def", 0.0, 3.0)]
)
def test_thinking_that_the_prompt_opens_is_thinking_in_turns_too(
    said: str, unclosed: float, chars: float, tmp_path: Path
) -> None:
    plain = row(prompt="Q <think>\n", response=said)
    first = {"role": "assistant", "text": said, "sampled": True}
    later = [
        {"role": "tool", "text": "x", "sampled": False},
        {"role": "assistant", "text": "done", "sampled": True},
    ]
    scan = read(
        write(tmp_path / "a.jsonl", [plain, plain | {"turns": [first]},
                                     plain | {"turns": [first, *later]}])
    )  # fmt: skip
    assert scan.responses["unclosed_thinking"].tolist() == [unclosed] * 3
    assert scan.responses["thinking_chars"].tolist() == [chars] * 3


def test_what_a_turn_says_after_thinking_logged_apart_is_no_thinking(tmp_path: Path) -> None:
    turn = {"role": "assistant", "text": "so 4", "sampled": True, "thinking": "2+2"}
    logged = row(prompt="Q <think>", response="so 4", turns=[turn])
    scan = read(write(tmp_path / "a.jsonl", [logged]))
    assert scan.responses["thinking_chars"].tolist() == [3]
    assert scan.responses["unclosed_thinking"].tolist() == [0]


def test_a_group_id_that_is_nan_marks_no_group(tmp_path: Path) -> None:
    rows = [row(prompt=prompt, group_id=float("nan")) for prompt in "abca"]
    groups = read(write(tmp_path / "a.jsonl", rows)).responses.sort_values("offset")["group"]
    assert len(set(groups[:3])) == 3 and groups.iloc[3] == groups.iloc[0]


def test_a_part_of_the_reward_named_like_a_field_is_kept_beside_it(tmp_path: Path) -> None:
    parts = {"reward": 0.5, "values": 0.25, "format": 1.0}
    scan = read(write(tmp_path / "a.jsonl", [row(reward=2.0, reward_parts=parts)]))
    assert scan.responses["reward"].tolist() == [2.0]
    assert scan.reward_parts == ["format", "reward_logged", "values_logged"]
    assert scan.extras[["reward_logged", "values_logged"]].values.tolist() == [[0.5, 0.25]]


VALUES = {"response_tokens": ["a", "b"], "values": [0.5, 0.7]}
ROWS: list[dict[str, Any]] = [
    row(0, **VALUES),
    row(1, **VALUES, token_rewards=[0.0, 1.0]),
    row(2, **VALUES, advantages=[0.1, 0.3]),
    row(3, **VALUES, token_rewards=[0.0, 1.0], advantages=[0.1, 0.3]),
    row(4, response_tokens=["a"], logprobs=[-0.5]),
]
COLUMNS = [
    "value_mean", "value_m2", "value_tokens", "return_mean", "return_m2", "value_error_mean",
    "mc_return_mean", "advantage_mean", "advantage_logged_mean",
]  # fmt: skip


def critic(scan: Scan) -> np.ndarray:
    return scan.responses.reindex(columns=COLUMNS).to_numpy(np.float64)


@pytest.mark.parametrize("apart", [False, True], ids=["one_file", "a_file_each"])
def test_a_rows_critic_figures_do_not_depend_on_the_rows_beside_it(
    apart: bool, tmp_path: Path
) -> None:
    (tmp_path / "all").mkdir()
    alone = []
    for item in ROWS:
        path = write(tmp_path / f"{item['step']}.jsonl", [item])
        alone.append(critic(read(path))[0])
        if apart:
            write(tmp_path / "all" / path.name, [item])
    if not apart:
        write(tmp_path / "all" / "rows.jsonl", ROWS)
    np.testing.assert_array_equal(critic(read(tmp_path / "all")), alone)
    # The return of a row without token rewards is its logged advantage + value.
    np.testing.assert_allclose(alone[2][COLUMNS.index("return_mean")], 0.8)


def test_a_steps_mean_value_is_that_of_its_tokens_where_nothing_tells_returns(
    tmp_path: Path,
) -> None:
    rows = [row(0, **VALUES), row(0, response_tokens=["a"], values=[1.5]), ROWS[1], ROWS[4]]
    steps = summarise(read(write(tmp_path / "a.jsonl", rows))).steps
    np.testing.assert_allclose(steps["value_mean"], [2.7 / 3, 0.6, np.nan])
