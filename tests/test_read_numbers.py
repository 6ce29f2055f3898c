"""Every figure equals what a few lines of NumPy compute from the same rows."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlreport.columns import RESPONSE_COLUMNS
from rlreport.options import FigureOptions, ReadOptions
from rlreport.read.logs import read_logs
from rlreport.read.tables import Scan
from rlreport.text.tokens import units
from tests.reading import read, tokens, write
from tests.test_report_numbers import token_figures

RUNS = ("ppo_healthy", "ppo_reward_hacking", "grpo_math", "eval_poem_task")
Read = tuple[Scan, list[dict[str, Any]]]


@pytest.fixture(scope="module", params=RUNS)
def run(request: pytest.FixtureRequest, shared_data: Path) -> Read:
    """A real run as we read it, and its rows as the standard library reads them, in our order."""
    folder = shared_data / request.param
    scan = read_logs([folder], ReadOptions(), FigureOptions())
    rows = [
        json.loads(line)
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    return scan, sorted(rows, key=lambda row: row["step"])


def expected(row: dict[str, Any]) -> dict[str, float]:
    """The figures of one row, written as the formulas stand in textbooks."""
    figures = {"reward": row["reward"], "ref_reward": row.get("ref_reward", np.nan)}
    if "logprobs" not in row:
        return figures
    size = min(len(row["logprobs"]), len(row["response_tokens"]))
    by_token = {name: values[:size] for name, values in token_figures(row).items()}
    ratio, kl, reward = (by_token[name] for name in ("log_ratio", "kl", "token_reward"))
    figures |= {
        "response_tokens": size,
        "log_ratio_mean": ratio.mean(),
        "log_ratio_min": ratio.min(),
        "log_ratio_max": ratio.max(),
        "kl_k1": ratio.sum(),
        "kl_k3": kl.sum(),
        "kl_k3_mean": kl.mean(),
        "kl_max": kl.max(),
        "surprisal_mean": -by_token["logp"].mean(),
        "rlhf_reward": reward.sum(),
        "non_score_reward": reward.sum() - row["reward"],
        "kl_penalty_n": size - 1,
        "kl_penalty_xy": (ratio * reward)[:-1].sum(),
        "kl_penalty_xx": (ratio * ratio)[:-1].sum(),
        "kl_penalty_yy": (reward * reward)[:-1].sum(),
    }
    if row.get("values") is None:
        return figures
    value, advantage, returns = (by_token[name] for name in ("value", "advantage", "return"))
    came = reward[::-1].cumsum()[::-1]
    return figures | {
        "mc_return_mean": came.mean(),
        "mc_return_m2": ((came - came.mean()) ** 2).sum(),
        "mc_error_mean": (value - came).mean(),
        "mc_error_m2": ((value - came - (value - came).mean()) ** 2).sum(),
        "value_mean": value.mean(),
        "value_m2": ((value - value.mean()) ** 2).sum(),
        "return_mean": returns.mean(),
        "return_m2": ((returns - returns.mean()) ** 2).sum(),
        "value_error_mean": -advantage.mean(),
        "value_error_m2": ((advantage - advantage.mean()) ** 2).sum(),
        "advantage_mean": advantage.mean(),
    }


def test_the_response_table_has_the_documented_columns_and_dtypes(run: Read) -> None:
    scan, _ = run
    assert [(c.name, c.dtype) for c in RESPONSE_COLUMNS] == [
        (name, str(dtype)) for name, dtype in scan.responses.dtypes.items()
    ]


def test_every_response_figure_equals_numpys(run: Read) -> None:
    scan, rows = run
    assert len(scan.responses) == len(rows)
    wanted = [expected(row) for row in rows]
    for name in wanted[0]:
        np.testing.assert_allclose(
            scan.responses[name], [figures[name] for figures in wanted], 1e-10, 1e-10, err_msg=name
        )


def test_text_figures_equal_pythons(run: Read) -> None:
    scan, rows = run
    table = scan.responses
    assert table["step"].tolist() == [row["step"] for row in rows]
    assert table["response_chars"].tolist() == [len(row["response"]) for row in rows]
    assert table["prompt_chars"].tolist() == [len(row["prompt"]) for row in rows]
    prompts = list(dict.fromkeys(row["prompt"] for row in rows))
    assert table["prompt_id"].tolist() == [prompts.index(row["prompt"]) for row in rows]
    assert scan.prompt_texts() == prompts
    same = {text: i for i, text in enumerate(row["response"] for row in rows)}
    hashes = dict(zip((row["response"] for row in rows), table["response_hash"], strict=True))
    assert len(set(hashes.values())) == len(same)
    # Words, where there are no tokens, are cut by their own module.
    pairs = list(pairwise(rows[0].get("response_tokens") or units(rows[0]["response"])))
    assert table["distinct_2"][0] == pytest.approx(len(set(pairs)) / len(pairs))


def test_groups_follow_the_group_id_or_else_the_prompt(run: Read) -> None:
    scan, rows = run
    keys = [(row["step"], row.get("group_id", row["prompt"])) for row in rows]
    distinct = list(dict.fromkeys(keys))
    assert scan.responses["group"].tolist() == [distinct.index(key) for key in keys]


def test_the_sample_of_a_small_run_holds_every_response(run: Read) -> None:
    scan, rows = run
    sample = scan.ngrams
    assert sample is not None
    np.testing.assert_array_equal(sample.rows, np.arange(len(rows)))
    if sample.unit == "token":
        last = [sample.vocabulary[unit] for unit in sample.units[sample.offsets[-2] :]]
        assert last == rows[-1]["response_tokens"]


def test_rollouts_have_the_texts_and_figures_of_their_lines(run: Read) -> None:
    scan, rows = run
    chosen = np.random.default_rng(0).permutation(len(rows))[:20].tolist()
    for at, rollout in zip(chosen, scan.rollouts.read(chosen), strict=True):
        row, table = rows[at], scan.responses.iloc[at]
        assert (rollout.step, rollout.n) == (table["step"], table["n"])
        assert (rollout.prompt, rollout.response) == (row["prompt"], row["response"])
        assert rollout.ref_response == row.get("ref_response")
        assert rollout.raw_tokens == row.get("response_tokens", [])
        assert len(rollout.tokens) == len(rollout.raw_tokens)
        if rollout.figures.kl is not None and rollout.figures.logp is not None:
            logged = np.array(row["logprobs"], np.float32)
            np.testing.assert_array_equal(rollout.figures.logp, logged)
            assert rollout.figures.kl.sum() == pytest.approx(table["kl_k3"], rel=1e-6)
            assert int(np.argmax(rollout.figures.kl)) == table["kl_max_position"]
        if rollout.figures.value_error is not None:
            error = rollout.figures.value_error.mean()
            assert error == pytest.approx(table["value_error_mean"], abs=1e-6)


@pytest.mark.parametrize("odd", [{}, {"values": ["0.5", 1.0]}, {"prompt_turns": [["user", "hi"]]}])
@pytest.mark.parametrize(
    ("truth", "shown"), [("4", "4"), (4, "4"), (0.5, "0.5"), (None, None), ({"a": 1}, None)]
)
def test_texts_are_read_back_alike_from_usual_and_from_odd_lines(
    tmp_path: Path, odd: dict[str, Any], truth: object, shown: str | None
) -> None:
    rows = [tokens("a", "b", ref_response="ref", ground_truth=truth, **odd)]
    scan = read(write(tmp_path / "a.jsonl", rows))
    (rollout,) = scan.rollouts.read([0])
    assert (rollout.ref_response, rollout.ground_truth) == ("ref", shown)
    assert (rollout.prompt, rollout.response) == (rows[0]["prompt"], rows[0]["response"])
    assert rollout.raw_tokens == ["a", "b"]
