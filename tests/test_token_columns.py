"""Tokens of responses as columns are those of the responses when they are read one by one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlreport.read.token_columns import TokenColumns
from rlreport.text.tokens import BYTE_OF
from tests.reading import read, row, write

CHARACTER_OF = {byte: character for character, byte in BYTE_OF.items()}
TEXTS = ("ab 你好", "🎉🎉", "<|im_end|>", "é\n", "")


def strings_of(text: str, rng: random.Random) -> list[str]:
    """Return a text as byte-level tokens that are cut anywhere; some are empty."""
    if text.startswith("<|"):
        return [text]
    strings = []
    rest = text.encode()
    while rest:
        size = rng.randrange(4)  # 0: an empty token
        strings.append("".join(CHARACTER_OF[byte] for byte in rest[:size]))
        rest = rest[size:]
    return strings


def random_row(rng: random.Random) -> dict[str, Any]:
    """Return a row that may lack token strings, figures of tokens, a mask, or all of these."""
    strings = []
    for _ in range(3):
        strings += strings_of(rng.choice(TEXTS), rng)
    if rng.random() < 0.3:
        strings = strings[:-1]  # which may end within a character
    size = len(strings)
    arrays: dict[str, Any] = {"logprobs": [-rng.random() for _ in strings]}
    if rng.random() < 0.6:
        arrays["ref_logprobs"] = [rng.choice((-1.0, None)) for _ in strings]
    if rng.random() < 0.3:
        arrays["response_mask"] = [rng.randrange(2) for _ in strings]
    if rng.random() < 0.8:
        arrays["response_tokens"] = strings
    return row(**arrays) if size and rng.random() < 0.9 else row()


@pytest.mark.parametrize("seed", range(30))
def test_columns_have_the_tokens_of_each_response_in_any_order(
    seed: int, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    rows = [random_row(rng) for _ in range(rng.randint(1, 8))]
    rollouts = read(write(tmp_path / "a.jsonl", rows)).rollouts
    count = rng.randint(0, len(rows))
    order = rng.sample(range(len(rows)), count)
    columns = TokenColumns.read(rollouts, order)
    expected = TokenColumns.of(rollouts.read(order))
    assert columns.n == expected.n
    assert columns.vocabulary == expected.vocabulary
    assert columns.has_values == expected.has_values
    assert columns.figures.keys() == expected.figures.keys()
    for name, values in columns.figures.items():
        np.testing.assert_array_equal(values, expected.figures[name])
    for name in ("lengths", "ids", "sampled"):
        np.testing.assert_array_equal(getattr(columns, name), getattr(expected, name))


def test_a_token_in_a_character_has_the_text_of_its_place(tmp_path: Path) -> None:
    first, second, third = (CHARACTER_OF[byte] for byte in "你".encode())
    strings = [first, second, third, first, "Ġa", second]
    log = write(
        tmp_path / "a.jsonl", [row(response_tokens=strings, logprobs=[-1.0] * 6)] * 2
    )
    columns = TokenColumns.read(read(log).rollouts, [0, 1])
    texts = [columns.vocabulary[number] for number in columns.ids.tolist()]
    expected = ["", "", "你", "\ufffd", " a", "\ufffd"]
    assert texts == list(zip(expected, strings, strict=True)) * 2


def test_a_figure_without_a_value_is_told_from_one_that_is_not_logged(
    tmp_path: Path,
) -> None:
    rows = [
        row(response_tokens=["a", "b"], logprobs=[-1.0, -2.0]),
        row(logprobs=[-1.0], ref_logprobs=[-1.5]),
    ]
    columns = TokenColumns.read(
        read(write(tmp_path / "a.jsonl", rows)).rollouts, [1, 0]
    )
    assert columns.n == [0]
    assert columns.has_values["prob"]
    assert columns.has_values["kl"] is False
    assert "value" not in columns.has_values


@pytest.mark.parametrize("values", [[0.5, None], [None, None]])
def test_what_follows_from_two_figures_needs_a_token_with_both(
    values: list[float | None], tmp_path: Path
) -> None:
    fields = {"response_tokens": ["a", "b"], "token_rewards": [0.0, 1.0]}
    log = write(tmp_path / "a.jsonl", [row(values=values, **fields)])
    rollouts = read(log).rollouts
    columns = TokenColumns.read(rollouts, [0])
    assert columns.has_values == TokenColumns.of(rollouts.read([0])).has_values
