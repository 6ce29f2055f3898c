"""Metrics of a training that ran in a notebook: its table, or what it printed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlreport.errors import RlreportError
from rlreport.metrics.find import find_and_read

NAMES = ["Step", "Training Loss", "reward", "rewards / tidy &lt;b&gt; / mean"]


def notebook(path: Path, *outputs: dict[str, Any]) -> Path:
    cells = [
        {"cell_type": "markdown", "source": ["step: 3 reward: 4"]},
        {"cell_type": "code", "source": [], "outputs": list(outputs)},
    ]
    path.write_text(json.dumps({"nbformat": 4, "cells": cells}))
    return path


def table(names: list[str], rows: list[list[str]]) -> dict[str, Any]:
    """Return an output with a table as transformers shows it."""
    head = "".join(f"<th>{name}</th>\n" for name in names)
    body = ""
    for row in rows:
        cells = "".join(f"<td>{cell}</td>" for cell in row)
        body += f"<tr>{cells}</tr>\n"
    bar = "<progress value='3'></progress>"
    html = f"{bar}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    data = {"text/html": html.splitlines(keepends=True), "text/plain": ["<HTML>"]}
    return {"output_type": "display_data", "data": data}


def printed(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": [text]}


def test_the_table_of_a_trainer_is_read_at_its_steps(tmp_path: Path) -> None:
    # Rows with equal values are no copies: they have steps of their own.
    steps = range(5, 51, 5)
    rows = [[str(step), "0.250000", "1.5", "0.100000"] for step in steps]
    rows[3][2] = "-2.000000"
    rows[4][1] = "No log"
    path = notebook(tmp_path / "run.ipynb", printed("hello\n"), table(NAMES, rows))
    read = find_and_read([path]).table
    assert read["step"].tolist() == list(range(5, 51, 5))
    assert read["reward"].iloc[3] == -2.0
    assert read["reward"].drop(3).tolist() == [1.5] * 9
    assert read["rewards/tidy <b>/mean"].tolist() == [0.1] * 10
    assert np.flatnonzero(read["loss"].isna()).tolist() == [4]


def test_an_evaluation_in_the_table_gets_its_prefix(tmp_path: Path) -> None:
    names = ["Step", "Training Loss", "Validation Loss", "Mean Reward"]
    steps = (10, 20, 30)
    rows = [[str(step), "0.5", "0.6", "0.7"] for step in steps]
    read = find_and_read([notebook(tmp_path / "run.ipynb", table(names, rows))]).table
    assert read["eval_mean_reward"].tolist() == [0.7] * 3
    assert read["eval_loss"].tolist() == [0.6] * 3


def test_printed_rows_are_spread_over_the_bar_that_ended(tmp_path: Path) -> None:
    rows = [
        f"{{'loss': 0.1, 'reward': {0.1 * n:.1f}, 'epoch': {n / 10}}}\n"
        for n in range(1, 5)
    ]
    text = [*rows[:2], "50%|█ | 24/40 [01:00<01:00]\r", *rows[2:]]
    text += [
        "{'train_runtime': 9.0, 'train_loss': 0.1, 'epoch': 0.4}\n",
        "100%|██| 40/40 [02:00<00:00]",
    ]
    path = notebook(tmp_path / "run.ipynb", printed("".join(text)))
    found = find_and_read([path])
    assert found.table["step"].tolist() == [10, 20, 30, 40]
    assert any("which reached its end" in note.text for note in found.notes)


OTHER_TABLE = table(["Name", "Value"], [["a", "1"]])


@pytest.mark.parametrize("outputs", [[], [OTHER_TABLE], [printed("hello")]])
def test_a_notebook_without_metrics_is_refused(outputs, tmp_path: Path) -> None:
    with pytest.raises(RlreportError, match="not a metrics file"):
        find_and_read([], [notebook(tmp_path / "run.ipynb", *outputs)])


def test_hostile_notebooks_cost_no_more_than_themselves(tmp_path: Path) -> None:
    textless = {"output_type": "stream", "text": 5}
    odd: list[Any] = [
        {"cells": 3},
        {"cells": [{"outputs": [textless, 7, None]}]},
        {
            "cells": [
                {
                    "outputs": [
                        {"data": {"text/html": "<table><td>1<tr><th>Step<table>"}}
                    ]
                }
            ]
        },
        {"cells": [{"outputs": [{"data": {"text/html": "<table><!" * 5000}}]}]},
        [],
    ]
    for number, value in enumerate(odd):
        path = tmp_path / f"odd{number}.ipynb"
        path.write_text(json.dumps(value))
        with pytest.raises(RlreportError):
            find_and_read([], [path])
    path.write_text("{")
    with pytest.raises(RlreportError):
        find_and_read([], [path])
