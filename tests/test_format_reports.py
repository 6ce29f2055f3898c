"""Whole reports of every framework's logs: the figures are those that the logs were made from."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev

import numpy as np
import pandas as pd
import pytest

import rlreport
from tests.format_logs import QUESTIONS, STEPS, WRITERS, answer, reward_of, samples
from tests.pages_reading import page_tokens, rows_data

NO_REWARD = {"prime_rl_tokens"}
IDS_ONLY = {"prime_rl_tokens", "open_instruct"}
"""Formats without text: prompts and responses are shown as ids."""

TOKENS = {
    "rlboard": (
        ["5", ".", "<EOD>"],
        {
            "logp": [-0.11, -0.52, -0.01],
            "ref_logp": [-0.2, -0.5, -0.02],
            "value": [0.4, 0.6, 0.9],
            "token_reward": [-0.001, 0.0002, 1.0],
        },
    ),
    "nemo_rl": (
        ["#19", "#20"],
        {"logp": [-0.12, -0.21], "sampler_logp": [-0.11, -0.2], "advantage": [0.7, 0.6]},
    ),
    "prime_rl_tokens": (
        ["#20", "#20"],
        {"logp": [-0.12, -0.3], "sampler_logp": [-0.11, -0.3], "advantage": [0.7, 0.7]},
    ),
    "verifiers": (["#19"], {"logp": [-0.11], "advantage": [0.7]}),
    "open_instruct": (["#20", "#2"], {"logp": [-0.11, -0.01], "advantage": [0.7, 0.7]}),
}
"""Tokens and figures of the second response to the second question, where they are logged."""

PARTS = {
    "trl": {"accuracy_reward", "format_reward"},
    "verl": {"overlong_reward"},
    "verifiers": {"correct", "style"},
    "swift": {"MathAccuracy", "Format"},
}
TWO_SOURCES = {"nemo_rl", "prime_rl_tokens"}
"""Formats that log the sampler's and the trainer's log-probabilities."""

TURNS = {
    *("trl", "verl", "verl_v1", "skyrl", "areal", "swift"),  # in the prompt's text
    *("verifiers", "verifiers_old", "rllm", "art"),  # as messages
}


WITH_VALIDATION = {"verl", "nemo_rl"}
"""Logs that hold both splits."""


@dataclass(frozen=True)
class Built:
    """A report and the name of the log that it was built from."""

    name: str
    out: Path
    report: rlreport.Report

    @property
    def pages(self) -> list[Path]:
        return sorted((self.out / "steps").glob("*.html"))

    @property
    def rewards(self) -> dict[int, list[float]]:
        """Rewards by step as the log has them; an evaluation without steps is step 0."""
        if self.name == "verifiers_old":
            return {0: [reward_of(*sample) for sample in samples() if sample[0] == 1]}
        return {
            step: [reward_of(*sample) for sample in samples() if sample[0] == step]
            for step in STEPS
        }

    def json(self, name: str) -> dict:
        return json.loads((self.out / "data" / name).read_bytes())


@pytest.fixture(scope="module", params=sorted(WRITERS))
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp(request.param)
    logs, out = folder / "logs", folder / "report"
    logs.mkdir()
    WRITERS[request.param][1](logs)
    split = "train" if request.param in WITH_VALIDATION else None
    return Built(request.param, out, rlreport.build(logs, out, split=split, workers=1))


def test_rewards_by_step_are_those_of_the_log(built: Built) -> None:
    steps = pd.read_csv(built.out / "data" / "steps.csv")
    assert steps["step"].tolist() == list(built.rewards)
    assert steps["responses"].tolist() == [4] * len(steps)
    assert steps["prompts"].tolist() == [2] * len(steps)
    if built.name in NO_REWARD:
        assert steps["reward_mean"].isna().all()
        return
    assert steps["groups"].tolist() == [2] * len(steps)
    for column, figure in (("mean", fmean), ("std", pstdev), ("min", min), ("max", max)):
        expected = [figure(rewards) for rewards in built.rewards.values()]
        assert steps[f"reward_{column}"].tolist() == pytest.approx(expected), column


def test_every_step_has_a_page_that_shows_its_responses(built: Built) -> None:
    assert [page.stem for page in built.pages] == [str(step) for step in built.rewards]
    written = sorted(answer(question, attempt) for question in (0, 1) for attempt in (0, 1))
    ids = re.compile(r"#\d+( #\d+)*")
    for page in built.pages:
        cells = re.findall(
            r'data-key="response"><div class="clamp" dir="auto">(.*?)</div>',
            page.read_text("utf-8"),
        )
        if built.name in IDS_ONLY:
            assert [bool(ids.fullmatch(text)) for text in cells] == [True] * 4
        else:
            assert sorted(text[0] for text in cells) == written
    prompts = built.report.tables.prompts["prompt"]
    for prompt, question in zip(prompts, QUESTIONS, strict=True):
        assert ids.fullmatch(prompt) if built.name in IDS_ONLY else question in prompt


def test_tokens_and_their_figures_are_on_the_page(built: Built) -> None:
    if built.name not in TOKENS:
        assert built.report.tables.tokens.empty
        assert rows_data(built.pages[0])["total"] == 4
        return
    raw, figures = TOKENS[built.name]
    for page in built.pages:
        shown, columns = page_tokens(page)[3]
        assert shown == raw
        for name, values in figures.items():
            assert columns[name].tolist() == pytest.approx(values), name


def test_parts_of_the_reward_are_columns_and_curves(built: Built) -> None:
    parts = PARTS.get(built.name, set())
    assert set(built.report.tables.reward_parts) == parts
    chart = built.out / "data" / "charts" / "reward_parts.vl.json"
    assert chart.exists() == bool(parts)
    if not parts:
        return
    for page in built.pages:
        assert {f"extra:{part}" for part in parts} <= rows_data(page)["values"].keys()
    shares = chart.with_name("reward_part_shares.vl.json")
    assert shares.exists() == (len(parts) > 1)
    drawn = {row["series"] for row in json.loads(chart.read_bytes())["data"]["values"]}
    assert drawn == {f"part_{part}" for part in parts}


def test_sampler_and_trainer_are_compared_where_both_are_logged(built: Built) -> None:
    findings = built.json("findings.json")
    not_run = {check["id"]: check["needs"] for check in findings["not_run"]}
    if built.name not in TWO_SOURCES:
        assert not_run["engine_mismatch"] == "sampler and trainer logprobs of the same tokens"
        return
    assert "engine_mismatch" in findings["passed"]
    figures = TOKENS[built.name][1]
    gap = np.array(figures["logp"]) - np.array(figures["sampler_logp"])
    steps = pd.read_csv(built.out / "data" / "steps.csv")
    assert steps["mismatch_ratio"].tolist() == pytest.approx([np.exp(np.abs(gap)).mean()] * 3)


def test_nothing_is_taken_for_broken(built: Built) -> None:
    found = {finding["id"] for finding in built.json("findings.json")["findings"]}
    assert found == ({"broken_log"} if built.name == "rlboard" else set())  # unequal lengths
    assert (built.report.tables.responses["nan_values"] == 0).all()
    assert built.report.verdict.level == "unjudged"  # three steps


def test_messages_and_chat_templates_are_shown_as_turns(built: Built) -> None:
    turns = rows_data(built.pages[0])["turns"]
    if built.name not in TURNS:
        assert turns == {}
        return
    asked = sorted(said for prompt in turns.values() for role, said in prompt if role == "user")
    assert asked == sorted(QUESTIONS * 2)


@pytest.mark.parametrize("name", sorted(WITH_VALIDATION))
def test_training_and_validation_stand_in_one_report(name: str, tmp_path: Path) -> None:
    WRITERS[name][1](tmp_path / "logs")
    done = rlreport.build(tmp_path / "logs", tmp_path / "report", workers=1)
    steps = pd.read_csv(tmp_path / "report" / "data" / "steps.csv")
    assert steps["responses"].tolist() == [4] * len(STEPS)
    means = [fmean(reward_of(*s) for s in samples() if s[0] == step) for step in STEPS]
    assert steps["reward_mean"].tolist() == pytest.approx(means)
    assert steps["validation_reward_mean"].tolist() == pytest.approx(means)
    for page in sorted((tmp_path / "report" / "steps").glob("*.html")):
        assert rows_data(page)["total"] == 8
    assert done.tables.responses["validation"].sum() == 4 * len(STEPS)


@pytest.mark.parametrize("name", sorted(WITH_VALIDATION))
def test_validation_is_a_report_of_its_own(name: str, tmp_path: Path) -> None:
    WRITERS[name][1](tmp_path / "logs")
    done = rlreport.build(tmp_path / "logs", tmp_path / "report", split="val", workers=1)
    by_step = done.tables.responses.groupby("step")["reward"].apply(sorted)
    assert by_step.index.tolist() == list(STEPS)
    for step, rewards in by_step.items():
        assert rewards == pytest.approx(sorted(reward_of(*s) for s in samples() if s[0] == step))
    assert all("val" in file.name for file in done.tables.files)
    assert any("--split train" in note.text for note in done.tables.notes)
