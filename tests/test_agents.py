"""Agents: what is wrong with their tools is found at its turn, and only trained branches count."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser

import rlreport
from benchmarks.judge_runs import compare
from benchmarks.lab import agents
from rlreport.check import judge
from rlreport.check.judge import with_excerpts
from rlreport.check.run import Run
from rlreport.errors import UnusableInputError
from rlreport.read.rollouts import Turn
from rlreport.summarise.run import summarise
from rlreport.tables import counted_in_all, counted_responses
from tests.browser import visiting
from tests.reading import kinds, read, row, write
from tests.running import build, in_ci


# What the turn that evidence of a finding points at has to be
def has_open_call(turn: Any) -> bool:
    arguments = turn.calls[0][1]
    return arguments.count("{") > arguments.count("}")


SHOWS = {
    "unparsed_calls": has_open_call,
    "empty_results": lambda turn: (turn.tool, turn.text) == ("search", ""),
    "tool_errors": lambda turn: turn.tool == "python" and "timed out" in turn.text,
    "late_calls": lambda turn: "</answer>" in turn.text and bool(turn.calls),
    "markup_turns": lambda turn: "<function=" in turn.text and not turn.calls,
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("agents")
    agents.write(out, seed=0)
    return out


@pytest.mark.parametrize(
    "name",
    ["healthy/agent", "planted/all", *in_ci(*(f"planted/{f}" for f in agents.FAULTS))],
)
def test_planted_faults_of_an_agent_are_found_and_dated_and_its_twin_is_quiet(
    lab: Path, name: str
):
    outcome = compare(lab / name)
    assert outcome.right, outcome


@pytest.mark.parametrize("name", SHOWS)
def test_evidence_points_at_the_turn_that_shows_the_fault(lab: Path, name: str) -> None:
    scan = read(lab / "planted" / name)
    tables = summarise(scan)
    verdict = with_excerpts(judge(Run(tables)), tables.responses, scan.rollouts)
    (finding,) = (f for f in verdict.findings if f.id == name)
    assert finding.evidence
    for example in finding.evidence:
        place = tables.responses.query(
            "step == @example.step and n == @example.n"
        ).index
        (rollout,) = scan.rollouts.read(place.tolist())
        assert example.turn is not None and example.excerpt is not None
        turn: Turn = rollout.conversation[example.turn]
        assert SHOWS[name](turn), turn
        assert example.excerpt.rstrip("…") in " ".join(turn.words.split())


def branched(step: int, member: int) -> list[dict[str, Any]]:
    """A retry, a sub-agent that is not trained, and the branch that is: rewards 0, 5 and 1."""
    shared = {"group_id": "g", "rollout_id": f"{step}-{member}"}
    return [
        row(step, reward=0.0, branch="retry", response="no", **shared),
        row(step, reward=1.0, response="yes", **shared),
        row(
            step,
            reward=5.0,
            agent="searcher",
            trainable=False,
            response="found",
            **shared,
        ),
    ]


@pytest.fixture(scope="module")
def branches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = []
    for step, member in product(range(6), range(3)):
        rows += branched(step, member)
    return write(tmp_path_factory.mktemp("branches") / "log.jsonl", rows)


def test_only_the_trained_branch_of_a_rollout_counts(branches: Path) -> None:
    scan = read(branches)
    tables = summarise(scan)
    assert tables.steps["reward_mean"].tolist() == [1.0] * 6
    assert tables.steps["responses"].tolist() == [3] * 6
    assert set(tables.prompts.query("validation == 0")["responses"]) == {18}
    table = scan.responses
    assert set(table.groupby("rollout")["validation"].agg(tuple)) == {(0, 2, 2)}
    assert [note.count for note in scan.notes if note.kind == "branches"] == [36]
    groups = table.groupby("validation")["group"].agg(set)
    assert groups[2].isdisjoint(groups[0])


def test_the_number_of_responses_says_which_ones_and_is_the_same_on_every_page(
    branches: Path, tmp_path: Path
) -> None:
    validation = [row(step, split="val") for step in range(6)]
    write(tmp_path / "run" / "validation.jsonl", validation)
    (tmp_path / "run" / "log.jsonl").write_bytes(branches.read_bytes())
    done = build(tmp_path / "run", tmp_path / "out")
    counted = "18 training responses (and 6 of validation, 36 of branches that were not trained)"
    assert counted in done.stdout
    for page in ("index.html", "responses.html"):
        assert counted in (tmp_path / "out" / page).read_text(), page
    listed = (tmp_path / "out" / "responses.html").read_text()
    assert "60 responses" not in listed and "60 of 60" not in listed
    build(tmp_path / "run", tmp_path / "few", "--max-responses", 2)
    shown = "12 of 60 responses (18 of training, 6 of validation, 36 of branches that were not"
    for page in ("index.html", "responses.html"):
        assert shown in (tmp_path / "few" / page).read_text(), page
    step = (tmp_path / "few" / "steps" / "2.html").read_text()
    assert (
        "2 of 10 responses (3 of training, 1 of validation, 6 of branches that were"
        in step
    )


def test_responses_of_training_alone_are_counted_without_saying_so() -> None:
    assert counted_responses(np.zeros(1, np.int8)) == "1 response"
    assert counted_in_all(np.zeros(2, np.int8)) == "2 responses"
    assert (
        counted_in_all(np.ones(2, np.int8)) == "2 responses"
    )  # a step of validation only


def test_branches_at_a_step_where_no_row_was_trained_are_left_out(
    tmp_path: Path,
) -> None:
    rows = [row(step, trainable=step < 2, rollout_id=f"r{step}") for step in range(3)]
    scan = read(write(tmp_path / "log.jsonl", rows))
    assert scan.responses["step"].tolist() == [0, 1]
    assert "untrained" in kinds(scan)
    rlreport.build(tmp_path / "log.jsonl", tmp_path / "out")
    alone = write(tmp_path / "alone.jsonl", rows[2:])
    with pytest.raises(
        UnusableInputError, match="1 rows of agents that are not trained"
    ):
        read(alone)


@pytest.mark.parametrize("redact", [False, "names"])
@pytest.mark.untraced
def test_the_other_branches_are_one_key_away_and_listed_only_if_asked_for(
    browser: Browser, branches: Path, tmp_path: Path, redact: bool | str
) -> None:
    rlreport.build(branches, tmp_path / "out", redact=redact)
    with visiting(browser, tmp_path / "out" / "steps" / "2.html", "#r=0") as page:
        buttons = page.locator("section[aria-label=Branches] button")
        first, *others = (text.split(", ")[0] for text in buttons.all_inner_texts())
        assert (first, len(others)) == ("1 · trained", 2)
        assert not any(text.endswith("· trained") for text in others)
        assert redact or others == ["2 · retry", "3 · not trained"]
        assert page.locator(".list-tools output").first.inner_text() == "3 of 3"
        page.keyboard.press("b")
        page.get_by_text("Response 3", exact=True).wait_for()
        assert (
            redact or page.locator("section.response .prose").last.inner_text() == "no"
        )
        page.select_option("select >> nth=0", "branch")
        assert page.locator(".list-tools output").first.inner_text() == "6 of 9"
