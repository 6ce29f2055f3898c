"""The responses that a finding shows fulfil what it claims; those before it do not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.lab import agents
from rlreport.check.evidence import Ranking, evidence_of, nearer, progress_pair
from rlreport.check.excerpts import Excerpts
from rlreport.check.finding import Example, Onset
from rlreport.check.registry import BY_ID
from rlreport.check.run import Run
from rlreport.tables import Tables
from tests.conftest import REAL_RUNS
from tests.evidence_of import Judgement, TextsOfTables, claim_of, load
from tests.judged_runs import FAULTY
from tests.law_cases import CASES
from tests.law_families import Case, random_shape
from tests.reading import read, row, write
from tests.tables_builder import INDEX, STEP, STEPS, find, make_tables, share, tables


def shown_truly(judgement: Judgement) -> list[str]:
    """Assert that all examples of a run fulfil their claim; return the findings with examples."""
    found = [judgement.outcome(finding) for finding in judgement.findings]
    for one in found:
        assert not one.wrong, (one.id, one.wrong)
        assert one.number == 0 or claim_of(one.id) or one.id == "template_collapse"
        assert one.number == one.fulfil + one.unknown
    return [one.id for one in found if one.number]


@pytest.mark.parametrize("name", REAL_RUNS)
def test_evidence_of_real_runs_fulfils_the_claims_of_its_findings(
    shared_data: Path, name: str
) -> None:
    shown_truly(Judgement(*load(shared_data / name)))


def test_evidence_of_agents_fulfils_the_claims_of_its_findings(tmp_path: Path) -> None:
    agents.write(tmp_path, seed=0)
    found = shown_truly(Judgement(*load(tmp_path / "planted" / "all")))
    assert {"tool_errors", "empty_results", "unparsed_calls"} <= set(found)


@pytest.mark.parametrize("name", FAULTY)
def test_evidence_of_made_up_runs_fulfils_the_claims_of_its_findings(name: str) -> None:
    made = FAULTY[name][0](0)
    assert shown_truly(Judgement(made, TextsOfTables(made)))


# Their figures are the trainer's metrics, or of all rows of a step
WITHOUT_RESPONSES = (
    "advantage_baseline",
    "clip_share_contradicts",
    "constant_reward",
    "impossible_values",
    "no_updates",
    "order_repeated",
    "part_falls",
    "recurring_drops",
    "sources_disagree",
    "stuck_rollouts",
    "tiny_responses",
    "tool_disuse",  # of one tool: responses do not have numbers of calls by tool
)


@pytest.mark.parametrize("case", CASES, ids=[case.check for case in CASES])
def test_evidence_of_violated_relations_fulfils_their_claims(case: Case) -> None:
    random = np.random.default_rng(0)
    made = case.make(random, random_shape(random), case.strengths[-1])
    finding = BY_ID[case.check].run(Run(made)).finding
    assert finding is not None
    outcome = Judgement(made, TextsOfTables(made)).outcome(finding)
    assert not outcome.wrong
    assert outcome.number == outcome.fulfil
    is_of_metrics = finding.facts.get("series_from") == "metrics"
    has_none = is_of_metrics or case.check in WITHOUT_RESPONSES
    assert bool(outcome.number) != has_none


def test_examples_cannot_be_chosen_without_a_claim() -> None:
    with pytest.raises(TypeError):
        Ranking(np.zeros(3))  # type: ignore[call-arg]


def chosen(
    among: Any, by: Any = 1.0, onset: int | None = 20, **changes: Any
) -> tuple[Example, ...]:
    run = Run(tables(prompt_id=INDEX))
    at = None if onset is None else Onset(onset, onset, onset)
    ranking = Ranking(np.broadcast_to(by, len(STEP)).astype(float), among)
    return evidence_of(run, ranking, at, **changes).examples


def test_a_response_of_which_the_claim_is_not_known_is_neither_example_nor_contrast() -> (
    None
):
    is_known = (STEP >= 20) & (INDEX < 3)
    among = np.where(is_known, 1.0, np.nan)
    found = chosen(among)
    assert [example.n for example in found] == [0, 1, 2]
    assert [example.before for example in found] == [None] * 3


def test_of_equally_clear_responses_those_with_an_earlier_contrast_come_first() -> None:
    among = np.where(STEP < 20, np.where(INDEX == 7, 0.0, 1.0), 1.0)
    first = chosen(among)[0]
    assert first.n == 7
    assert first.before is not None and first.before.step == 19


def test_a_response_without_a_figure_is_shown_after_those_that_have_one() -> None:
    by = np.where(INDEX == 0, np.nan, INDEX)
    among = np.isin(INDEX, [0, 4])
    found = chosen(among, by)
    assert [example.n for example in found][:2] == [4, 0]
    assert found[1].value is None


def test_examples_are_of_the_steps_of_their_finding() -> None:
    found = chosen(np.ones(len(STEP)), steps=[24, 30])
    assert {example.step for example in found} <= {24, 30}
    assert all(
        example.step == 24 for example in chosen(STEP >= 0, steps=[24], until=24)
    )


def test_the_number_of_responses_that_do_not_show_a_finding_counts_what_is_known() -> (
    None
):
    run = Run(tables(prompt_id=INDEX))
    onset = Onset(STEPS - 2, STEPS - 2, STEPS - 2)
    among = np.where(INDEX < 5, 0.0, np.nan)
    evidence = evidence_of(run, Ranking(among, among), onset)
    assert evidence.examples == ()
    assert evidence.unseen == 2 * 5


def test_a_value_is_nearer_to_the_level_on_whose_side_of_the_middle_it_lies() -> None:
    values = np.array([0.0, 0.4, 0.6, 1.0, np.nan])
    to_low = nearer(values, 0.1, 0.9)
    to_high = nearer(values, 0.9, 0.1)
    assert to_low.tolist()[:4] == [1, 1, 0, 0]
    assert to_high.tolist()[:4] == [0, 0, 1, 1]
    assert np.isnan(nearer(values, 0.9, 0.1)[4])


def test_a_kl_above_its_limit_is_shown_by_responses_above_the_limit() -> None:
    # Of the late steps, two in three are far above it, the others below
    high = np.where(INDEX % 3 > 0, 90.0, 2.0)
    kl = np.where(STEP >= 20, high, 1.0)
    found = find(
        "kl_explosion", tables(kl_k1=kl, response_tokens=40.0, prompt_id=INDEX)
    )
    assert [example.value for example in found.evidence] == [90.0] * 3
    few = np.where((STEP >= 20) & (INDEX % 3 > 0), 90.0, 1.0)
    read_only_low = (INDEX % 3 == 0).astype(int)
    found = find(
        "kl_explosion",
        tables(kl_k1=few, response_tokens=40.0, has_texts=read_only_low),
    )
    assert found.evidence == ()
    assert found.unseen > 0


def looping(loops: Callable[[int], list[str]]) -> Tables:
    """Return a run of which half of the late responses repeat what ``loops`` gives."""
    in_loop = share(0.0, 0.5)
    plain = [f"w{i}" for i in range(40)]
    texts = [
        loops(index) * 60 if loop else plain
        for index, loop in zip(INDEX.tolist(), in_loop, strict=True)
    ]
    columns = {"step": STEP, "prompt_id": INDEX, "reward": 1.0 - 0.5 * in_loop}
    return make_tables(columns, texts=texts, unit="word")


def sign_or_word(index: int) -> list[str]:
    return ["!"] * 4 if index == 0 else ["think"]


def in_either_order(index: int) -> list[str]:
    return ["so", "it"] if index % 2 else ["it", "so"]


def test_a_quoted_loop_is_shown_by_responses_that_have_this_loop() -> None:
    # The longest ones repeat a sign, most others a word.
    finding = find("loops", looping(sign_or_word))
    (text,) = finding.texts
    assert text.replace(" ", "") == "thinkthink"
    assert len(finding.evidence) == 3
    assert all(example.n != 0 for example in finding.evidence)


def test_a_loop_is_the_same_wherever_it_begins() -> None:
    finding = find("loops", looping(in_either_order))
    assert len(finding.evidence) == 3
    assert {example.n % 2 for example in finding.evidence} == {0, 1}


def test_what_no_response_shows_is_said() -> None:
    kl = np.where((STEP >= 20) & (INDEX % 3 > 0), 90.0, 1.0)
    is_read = (INDEX % 3 == 0).astype(int)
    hidden = tables(kl_k1=kl, response_tokens=40.0, has_texts=is_read)
    found = find("kl_explosion", hidden)
    assert found.unseen_text == (
        f"Not visible in the {found.unseen} logged responses of these steps."
    )


LEARNED = 40
"""Steps of a run that learns, four prompts each."""


def learning_rows() -> list[dict[str, Any]]:
    """Rows of a run in which prompts recur, and answers become right; with some stubs."""
    rows = []
    random = np.random.default_rng(3)
    for step in range(LEARNED):
        for prompt in range(4):
            for member in range(4):
                is_right = random.random() < 0.1 + 0.8 * step / LEARNED
                answer = prompt + 3 if is_right else 99
                words = "so we add the numbers " * int(random.integers(3, 9))
                text = "." if member == 3 else f"{words}and the answer is {answer}"
                rows.append(
                    row(
                        step,
                        prompt=f"What is {prompt} and 3?",
                        response=text,
                        reward=float(is_right),
                        ground_truth=str(prompt + 3),
                    )
                )
    return rows


def test_progress_is_shown_by_a_prompt_that_was_not_solved_and_is_in_the_end(
    tmp_path: Path,
) -> None:
    scan = read(write(tmp_path / "log.jsonl", learning_rows()))
    judgement = Judgement.of(scan)
    pair = progress_pair(judgement.run)
    assert pair is not None and pair.before is not None
    assert (pair.before.value, pair.value) == (0.0, 1.0)
    assert pair.before.step < LEARNED / 3
    assert pair.step >= LEARNED * 2 / 3 - 1
    told = Excerpts([pair], scan.responses, scan.rollouts).of(pair)
    assert told.before is not None
    # The end, where answers differ; and no stub, though these are the shortest
    assert str(told.excerpt)[-1] in "3456"
    assert str(told.before.excerpt).endswith("99")
    prompts = scan.responses.set_index(["step", "n"])["prompt_id"]
    shown = [prompts[one.step, one.n] for one in (pair, pair.before)]
    assert shown[0] == shown[1]
    assert progress_pair(judgement.run) == pair


def test_no_progress_has_no_pair() -> None:
    falling = tables(reward=1.0 - STEP / STEPS, prompt_id=INDEX)
    assert progress_pair(Run(falling)) is None
    new_prompts = tables(reward=STEP / STEPS, prompt_id=np.arange(len(STEP)))
    assert progress_pair(Run(new_prompts)) is None
    assert progress_pair(Run(tables(prompt_id=INDEX))) is None


def shown_values(values: Any, pair: Example) -> list[float]:
    """Return the values of the early and of the late response of a pair."""
    assert pair.before is not None
    by_step = values.reshape(STEPS, -1)
    early = by_step[pair.before.step, pair.before.n]
    return [early, by_step[pair.step, pair.n]]


def test_progress_by_the_format_is_shown_by_two_right_answers() -> None:
    in_format = share(0.2, 0.9)
    is_right = (INDEX % 10 > 0).astype(float)
    reward = in_format * is_right
    made = tables(reward=reward, label_hit=is_right, prompt_id=INDEX)
    pair = progress_pair(Run(made))
    assert pair is not None and pair.before is not None
    assert pair.at_end
    assert shown_values(is_right, pair) == [1, 1]
    assert (pair.before.value, pair.value) == (0.0, 1.0)


def test_progress_by_a_text_is_shown_by_a_response_without_and_one_with_it() -> None:
    has_text = share(0.1, 0.9)
    made = tables(reward=has_text + STEP / STEPS, prompt_id=INDEX)
    counts = np.where(INDEX % 2, has_text, np.nan)
    pair = progress_pair(Run(made), counts, "####")
    assert pair is not None and pair.before is not None
    assert pair.look_for == pair.before.look_for == "####"
    assert shown_values(counts, pair) == [0, 1]
