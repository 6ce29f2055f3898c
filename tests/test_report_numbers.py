"""Every number of a report equals what a few lines of NumPy compute from the same rows."""

import io
import json
import random
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rlreport
from tests.pages_reading import page_tokens
from tests.reading import described_kl, read, write
from tests.schemas import validate

GAMMA = 1.0
LAM = 0.95
EOS = "<|endoftext|>"
AVERAGED = (
    "reward",
    "log_ratio_mean",
    "kl_k1",
    "kl_k3",
    "response_tokens",
    "rlhf_reward",
    "non_score_reward",
)
"""Figures of responses whose means are figures of a step."""


def gae(rewards: np.ndarray, values: np.ndarray) -> np.ndarray:
    advantages = np.zeros(len(rewards))
    following = 0.0
    for t in reversed(range(len(rewards))):
        after = values[t + 1] if t + 1 < len(values) else 0.0
        following = rewards[t] + GAMMA * after - values[t] + GAMMA * LAM * following
        advantages[t] = following
    return advantages


def token_figures(row: dict) -> dict[str, np.ndarray]:
    logp = np.array(row["logprobs"])
    ref = np.array(row["ref_logprobs"])
    ratio = logp - ref
    found = {
        "logp": logp,
        "ref_logp": ref,
        "log_ratio": ratio,
        "kl": described_kl(ratio),
        "token_reward": np.array(row["token_rewards"]),
    }
    if row.get("values") is not None:
        value = np.array(row["values"])
        advantage = gae(found["token_reward"], value)
        found |= {"value": value, "advantage": advantage, "return": value + advantage}
    return found


def squares(values: np.ndarray) -> float:
    """Return the sum of squared distances from the mean."""
    return float(((values - values.mean()) ** 2).sum())


def expected(row: dict) -> dict[str, float]:
    """The figures of one row, written as the formulas stand in textbooks."""
    figures = {"reward": row["reward"], "ref_reward": row.get("ref_reward", np.nan)}
    size = min(len(row["logprobs"]), len(row["response_tokens"]))
    by_token = {name: values[:size] for name, values in row["figures"].items()}
    ratio = by_token["log_ratio"]
    kl = by_token["kl"]
    reward = by_token["token_reward"]
    figures |= {
        "response_tokens": size,
        "log_ratio_mean": ratio.mean(),
        "kl_k1": ratio.sum(),
        "kl_k3": kl.sum(),
        "kl_k3_mean": kl.mean(),
        "kl_max": kl.max(),
        "surprisal_mean": -by_token["logp"].mean(),
        "rlhf_reward": reward.sum(),
        "non_score_reward": reward.sum() - row["reward"],
    }
    if row.get("values") is None:
        return figures
    value = by_token["value"]
    advantage = by_token["advantage"]
    returns = by_token["return"]
    came = reward[::-1].cumsum()[::-1]
    error = value - came
    return figures | {
        "mc_return_mean": came.mean(),
        "mc_return_m2": squares(came),
        "mc_error_mean": error.mean(),
        "mc_error_m2": squares(error),
        "value_mean": value.mean(),
        "value_m2": squares(value),
        "return_mean": returns.mean(),
        "return_m2": squares(returns),
        "value_error_mean": -advantage.mean(),
        "value_error_m2": squares(advantage),
        "advantage_mean": advantage.mean(),
    }


@pytest.fixture(
    scope="module", params=["ppo_healthy", "ppo_reward_hacking", "grpo_math"]
)
def token_run(request, shared_data, real_report):
    logs = sorted((shared_data / request.param).glob("*.jsonl"))
    rows = []
    for log in logs:
        rows += [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    for row in rows:
        row["figures"] = token_figures(row)
    return rows, real_report(request.param)


HALF_A_UNIT = 5.1e-10
"""Figures are rounded to 10 significant digits, hence by up to half a unit of the tenth."""


def test_a_run_of_texts_has_no_token_figures_and_names_its_incomplete_step(tmp_path):
    texts = {"prompt": "Say hi.", "response": "Hi there.", "reward": 1.0}
    rows: list[dict[str, Any]] = []
    for step, size in enumerate((4, 4, 4, 2)):
        rows += [{"step": step, **texts}] * size
    report = tmp_path / "report"
    rlreport.build(write(tmp_path / "log.jsonl", rows), report, workers=1)
    steps = pd.read_csv(report / "data" / "steps.csv").set_index("step")
    for missing in (
        "kl_k1_mean",
        "surprisal_mean",
        "value_mean",
        "response_tokens_mean",
    ):
        assert steps[missing].isna().all()
    assert steps.index[steps["incomplete"]].tolist() == [3]
    assert "incomplete</span>" in (report / "steps" / "3.html").read_text("utf-8")


def test_every_figure_of_responses_equals_numpys(token_run, shared_data):
    rows, out = token_run
    table = read(shared_data / out.parent.name.removeprefix("report_of_")).responses
    wanted = [expected(row) for row in sorted(rows, key=lambda row: row["step"])]
    assert len(table) == len(wanted)
    for name in wanted[0]:
        figures = [one[name] for one in wanted]
        np.testing.assert_allclose(
            table[name], figures, HALF_A_UNIT, 1e-10, err_msg=name
        )


def of_tokens(rows: list[dict], name: str) -> np.ndarray:
    """Return a figure of all tokens of some rows."""
    return np.concatenate([row["figures"][name] for row in rows])


def expected_of_step(rows: list[dict]) -> dict[str, float]:
    """The figures of a step with these rows."""
    of_rows = pd.DataFrame([expected(row) for row in rows])
    reward = of_rows["reward"].to_numpy()
    prompts = {row["prompt"] for row in rows}
    chars = [len(row["response"]) for row in rows]
    ends = [row["response_tokens"][-1] for row in rows]
    pairs: list[tuple[str, str]] = []
    for row in rows:
        pairs += pairwise(row["response_tokens"])
    figures = {
        "responses": len(rows),
        "prompts": len(prompts),
        "reward_std": reward.std(),
        "reward_min": reward.min(),
        "reward_max": reward.max(),
        "response_chars_mean": np.mean(chars),
        "surprisal_mean": -of_tokens(rows, "logp").mean(),
        "eos_rate": ends.count(EOS) / len(ends),
        "distinct_2": len(set(pairs)) / len(pairs),
    }
    for name in AVERAGED:
        figures[f"{name.removesuffix('_mean')}_mean"] = of_rows[name].mean()
    if "value" in rows[0]["figures"]:
        value = of_tokens(rows, "value")
        returns = of_tokens(rows, "return")
        figures["value_mean"] = value.mean()
        figures["explained_variance"] = 1 - np.var(returns - value) / np.var(returns)
    if "ref_reward" in rows[0]:
        reference = of_rows["ref_reward"].to_numpy()
        figures["ref_reward_mean"] = reference.mean()
        figures["reward_gap_mean"] = (reward - reference).mean()
        figures["win_rate"] = (reward > reference).mean()
        figures["lose_rate"] = (reward < reference).mean()
    return figures


def test_steps_equal_numpy(token_run):
    rows, out = token_run
    steps = pd.read_csv(out / "data" / "steps.csv").set_index("step")
    for step in steps.index:
        of_step = [row for row in rows if row["step"] == step]
        for name, value in expected_of_step(of_step).items():
            wanted = pytest.approx(value, rel=1e-9, abs=1e-9)
            assert steps.loc[step, name] == wanted, (step, name)
    assert (steps["nan_values"] == 0).all()


def test_token_values_in_the_pages_equal_numpy(token_run):
    rows, out = token_run
    by_step: dict[int, list[dict]] = {}
    for row in rows:
        by_step.setdefault(row["step"], []).append(row)
    picked = random.Random(7).sample(sorted(by_step), 20)
    compared = 0
    for step in picked:
        n = random.Random(step).randrange(len(by_step[step]))
        expected = by_step[step][n]["figures"]
        raw, shown = page_tokens(out / "steps" / f"{step}.html")[n]
        assert raw == by_step[step][n]["response_tokens"]
        for name, values in shown.items():
            np.testing.assert_allclose(
                values, expected[name], rtol=6e-6, atol=2e-6, err_msg=name
            )
            compared += len(values)
    assert compared > 800


def test_report_json_and_csv_say_the_same(token_run):
    _, out = token_run
    report = json.loads((out / "data" / "report.json").read_bytes())
    written = io.BytesIO((out / "data" / "steps.csv").read_bytes())
    steps = pd.read_csv(written, float_precision="round_trip")
    assert [row["step"] for row in report["steps"]] == steps["step"].tolist()
    assert report["steps"][-1]["reward_mean"] == steps["reward_mean"].iloc[-1]
    assert report["responses"] == steps["responses"].sum()
    findings = json.loads((out / "data" / "findings.json").read_bytes())
    assert findings["findings"] == report["findings"]
    assert {name: report[name] for name in findings} == findings
    validate(findings, "findings")
    validate(report, "report")


def test_key_figures_of_the_overview_are_means_over_the_named_windows(token_run):
    rows, out = token_run
    page = (out / "index.html").read_text("utf-8")
    steps = sorted({row["step"] for row in rows})
    twentieth = int(len(steps) / 20 + 0.5)
    widest = min(max(3, twentieth), len(steps) // 3)
    said = re.search(r'<p class="note windows">(.*?)</p>', page)
    assert said and f": means of up to {widest} consecutive values." in said[1]
    of_row = {
        "reward_mean": lambda row: row["reward"],
        "kl_k1_mean": lambda row: row["figures"]["log_ratio"].sum(),
        "kl_k3_mean": lambda row: row["figures"]["kl"].sum(),
        "response_tokens_mean": lambda row: len(row["logprobs"]),
    }
    for name, value in of_row.items():
        figure = re.search(rf'data-figure="{name}".*?</dd>', page, re.DOTALL)
        assert figure is not None
        shown = re.findall(r'class="num" title="([^",]+), steps? ([^"]+)"', figure[0])
        means = means_by_step(rows, value)
        for number, named in (shown[0], shown[-1]):
            ends = [int(step) for step in named.split("–")]
            start = ends[0]
            stop = ends[-1]
            assert 1 <= steps.index(stop) - steps.index(start) + 1 <= widest
            inside = means[steps.index(start) : steps.index(stop) + 1]
            assert float(number) == pytest.approx(np.mean(inside))
        first_steps = shown[0][1].split("–")
        last_steps = shown[-1][1].split("–")
        assert first_steps[0] == str(steps[0])
        assert last_steps[-1] == str(steps[-1])


def means_by_step(rows: list[dict], value: Callable[[dict], float]) -> list[float]:
    by_step: dict[int, list[float]] = {}
    for row in rows:
        by_step.setdefault(row["step"], []).append(value(row))
    return [float(np.mean(by_step[step])) for step in sorted(by_step)]
