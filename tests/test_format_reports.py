"""Whole reports of every framework's logs: pages, and checks that find nothing but what is there.

What is read from the logs is kept in ``tests/data/net/rows``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import pandas as pd
import pytest

import rlreport
from tests.format_logs import STEPS, WRITERS, reward_of, samples, verl
from tests.net import DUMPS, SPLIT
from tests.pages_reading import rows_data

TWO_SOURCES = {"nemo_rl", "prime_rl_tokens", "verifiers/eval", "verifiers/prime",
               "prime_rl/stream"}  # fmt: skip
"""Logs with the log-probabilities of both the sampler and the trainer."""

FOUND = {
    "rlboard": {"broken_log"},  # arrays of unequal length
    "atif": {"mixed_runs"},
    "inspect": {"tool_errors", "uneven_groups"},
    "nemo_rl": {"engine_mismatch", "mismatch_by_turn"},
    **{log: {"uneven_groups"} for log in ("agilerl", "areal", "art", "lm_eval", "slime_export")},
    **{log: {"engine_mismatch"} for log in TWO_SOURCES - {"nemo_rl", "prime_rl_tokens"}},
}
"""Log to the checks that find in it what its writer was given; of the others, none does."""

WARNINGS = {"engine_mismatch", "mixed_runs", "tool_errors"}
"""Checks that need no more steps than these logs have; other reports are unjudged."""


def dumps() -> Iterator[str]:
    for folder in sorted(path.name for path in DUMPS.iterdir() if path.is_dir()):
        split = sorted((DUMPS / folder).iterdir()) if folder in SPLIT else [DUMPS / folder]
        yield from (path.relative_to(DUMPS).as_posix() for path in split)


NO_REPORT = {"slime", "miles/rollout_data", "miles/dashboard_columns"}
"""Dumps that need torch, or the files beside them."""

LOGS = [*WRITERS, *(name for name in dumps() if name not in {*NO_REPORT, *WRITERS})]


@dataclass(frozen=True)
class Built:
    """A report and the name of the log that it was built from."""

    name: str
    out: Path
    report: rlreport.Report

    @property
    def findings(self) -> dict:
        return json.loads((self.out / "data" / "findings.json").read_bytes())


@pytest.fixture(scope="module", params=LOGS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    logs, out = DUMPS / request.param, folder / "report"
    if request.param in WRITERS:
        logs = folder / "logs"
        WRITERS[request.param][1](logs)
    return Built(request.param, out, rlreport.build(logs, out, workers=1))


def test_every_step_has_a_page_of_its_responses(built: Built) -> None:
    counts = built.report.tables.responses["step"].value_counts()
    pages = {int(page.stem): rows_data(page) for page in (built.out / "steps").glob("*.html")}
    assert {step: page["total"] for step, page in pages.items()} == counts.to_dict()


def test_sampler_and_trainer_are_compared_where_both_are_logged(built: Built) -> None:
    needs = {check["id"]: check["needs"] for check in built.findings["not_run"]}
    wanted = (
        None if built.name in TWO_SOURCES else "sampler and trainer logprobs of the same tokens"
    )
    assert needs.get("engine_mismatch") == wanted


def test_nothing_but_what_was_written_is_found(built: Built) -> None:
    found = {finding["id"] for finding in built.findings["findings"]}
    assert found == FOUND.get(built.name, set())
    assert built.report.verdict.level == ("warning" if found & WARNINGS else "unjudged")
    assert (built.report.tables.responses["nan_values"] == 0).all()


def test_training_and_validation_stand_in_one_report_or_each_in_its_own(tmp_path: Path) -> None:
    verl(tmp_path / "logs")
    means = [fmean(reward_of(*s) for s in samples() if s[0] == step) for step in STEPS]
    both = rlreport.build(tmp_path / "logs", tmp_path / "both", workers=1)
    steps = pd.read_csv(tmp_path / "both" / "data" / "steps.csv")
    assert steps["responses"].tolist() == [4] * len(STEPS)
    assert steps["reward_mean"].tolist() == pytest.approx(means)
    assert steps["validation_reward_mean"].tolist() == pytest.approx(means)
    assert both.tables.responses["validation"].sum() == 4 * len(STEPS)
    own = rlreport.build(tmp_path / "logs", tmp_path / "own", split="val", workers=1)
    assert own.tables.steps["reward_mean"].tolist() == pytest.approx(means)
    assert all("val" in file.name for file in own.tables.files)
    assert any("--split train" in note.text for note in own.tables.notes)
