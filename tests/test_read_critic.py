"""Critic figures of rows that log unlike arrays: each row has those that it has alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlreport.read.tables import Scan
from rlreport.summarise import summarise
from tests.reading import read, row, write

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
