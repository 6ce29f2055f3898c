"""What rows of a log mean: splits, grades, thinking, critics, and what a restart replaces."""

import gzip
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlreport.errors import UsageError
from rlreport.flows.build import check_logs
from rlreport.options import BuildOptions, ReadOptions
from rlreport.read.limits import ReadLimits
from rlreport.read.logs import read_logs
from rlreport.read.tables import Scan
from rlreport.summarise.run import summarise
from rlreport.summarise.tokens import step_bigrams
from tests.reading import kinds, read, row, token_figures, tokens, write


def responses(scan: Scan) -> list[str]:
    return [
        rollout.response for rollout in scan.rollouts.read(range(len(scan.responses)))
    ]


def test_validation_stands_beside_training_and_further_splits_are_left_out(
    tmp_path: Path,
) -> None:
    write(tmp_path / "train_rows.jsonl", [row(1)])
    write(tmp_path / "val_rows.jsonl", [row(1), row(2)])
    write(tmp_path / "eval_rows.jsonl", [row(1)] * 3)
    scan = read(tmp_path)
    assert scan.responses["validation"].tolist() == [0, 1, 1]
    assert scan.extras["split"].tolist() == ["train", "val", "val"]
    assert {"split", "other_split"} <= kinds(scan)
    only = read(tmp_path, split="val").responses
    assert only["validation"].tolist() == [0, 0]
    with pytest.raises(UsageError, match="train, val"):
        read(tmp_path, split="test")


def test_a_run_is_named_by_its_file_or_else_by_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "seven"
    one = write(folder / "mine.rollouts.jsonl", [row(0)])
    other = write(folder / "other.jsonl", [row(1)])
    assert read(one).name == "mine"
    assert read(one, other).name == "seven"
    assert read(folder).name == "seven"


def test_a_step_that_is_no_number_costs_its_row(tmp_path: Path) -> None:
    no_numbers = [True, None, "two", 2.5, 2**60]
    bad_rows = [row(step) for step in no_numbers]
    rows = [row(0), *bad_rows, row(1)]
    scan = read(write(tmp_path / "a.jsonl", rows))
    assert scan.responses["step"].tolist() == [0, 1]
    assert (scan.bad_count, scan.files[0].bad) == (5, 5)
    assert [str(bad.reason) for bad in scan.bad_lines] == [
        "step is true, not an integer",
        "step is null, not an integer",
        "step is not an integer: 'two'",
        "step is not an integer: 2.5",
        "step is beyond ±2^53",
    ]


def test_a_format_that_fails_is_a_bad_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("surprise")

    verl = {
        "input": "2+2?",
        "output": "a",
        "gts": "4",
        "score": 1.0,
        "step": 1,
        "acc": True,
    }
    path = write(tmp_path / "1.jsonl", [verl] * 2)
    monkeypatch.setattr("rlreport.formats.renamed.Verl.rows", fail)
    write(tmp_path / "native.jsonl", [row(1)])
    scan = read(tmp_path)
    bad_lines = [bad.line for bad in scan.bad_lines if bad.file == path.name]
    assert bad_lines == [1, 2]
    assert "KeyError('surprise')" in scan.bad_lines[0].reason


@pytest.mark.parametrize("workers", [1, 2])
def test_a_misspelt_field_is_named_in_one_note(tmp_path: Path, workers: int) -> None:
    misspelt = {"logprob": [-0.5], "meta": {"a": 1}}
    for name in ("a", "b"):
        rows = [row(step, **misspelt) for step in range(3)]
        write(tmp_path / f"{name}.jsonl", rows)
    scan = read_logs([tmp_path], ReadOptions(workers=workers))
    (said,) = [note.text for note in scan.notes if note.kind == "not_taken"]
    assert said == "unrecognized fields: logprob (list), meta (object)"
    assert read(tmp_path, strict=True).bad_count == 0


def test_rows_of_another_split_than_their_file_s_stand_beside(tmp_path: Path) -> None:
    def episode(kind: str) -> dict[str, object]:
        node = {"message": {"role": "assistant", "content": kind}, "sampled": True}
        trace = {"nodes": [node], "rewards": {"r": {"score": 1.0}}}
        return {
            "run": {"work": {"type": kind, "step": 1}},
            "traces": [trace],
            "task": {},
        }

    path = write(
        tmp_path / "traces.jsonl", [episode("train"), episode("eval"), episode("train")]
    )
    scan = read(path)
    assert responses(scan) == ["train", "train", "eval"]
    assert scan.responses["validation"].tolist() == [0, 0, 1]
    assert responses(read(path, split="eval")) == ["eval"]
    assert kinds(read(path, split="train")) == {"other_split_rows"}
    rows = [row(1, split="train"), row(1, split="val")]
    scan = read(write(tmp_path / "valid_run.jsonl", rows))  # what rows say goes first
    assert scan.responses["validation"].tolist() == [0, 1]
    assert kinds(scan) == {"split"}


def test_windows_of_the_token_table_are_cut_over_the_steps_of_training(
    tmp_path: Path,
) -> None:
    training = [tokens("a", "b", step=step) for step in range(100, 120)]
    beside = [row(step, split="val") for step in range(0, 100, 5)]
    alone = summarise(read(write(tmp_path / "a.jsonl", training))).tokens
    both = summarise(read(write(tmp_path / "b.jsonl", training + beside))).tokens
    columns = ["raw", "count", "count_first", "count_last", "prob_change"]
    assert (alone["count_first"] > 0).all()
    assert both[columns].equals(alone[columns])


VALUES = {"response_tokens": ["a", "b"], "values": [0.5, 0.7]}
ROWS: list[dict[str, Any]] = [
    row(0, **VALUES),
    row(1, **VALUES, token_rewards=[0.0, 1.0]),
    row(2, **VALUES, advantages=[0.1, 0.3]),
    row(3, **VALUES, token_rewards=[0.0, 1.0], advantages=[0.1, 0.3]),
    row(4, response_tokens=["a"], logprobs=[-0.5]),
]
COLUMNS = [
    "value_mean",
    "value_m2",
    "value_tokens",
    "return_mean",
    "return_m2",
    "value_error_mean",
    "mc_return_mean",
    "advantage_mean",
    "advantage_logged_mean",
]


def critic(scan: Scan) -> np.ndarray:
    return scan.responses.reindex(columns=COLUMNS).to_numpy(np.float64)


@pytest.mark.parametrize("apart", [False, True], ids=["one_file", "a_file_each"])
def test_a_rows_critic_figures_do_not_depend_on_the_rows_beside_it(apart, tmp_path):
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


def test_a_steps_mean_value_is_that_of_its_tokens_where_nothing_tells_returns(tmp_path):
    rows = [
        row(0, **VALUES),
        row(0, response_tokens=["a"], values=[1.5]),
        ROWS[1],
        ROWS[4],
    ]
    steps = summarise(read(write(tmp_path / "a.jsonl", rows))).steps
    np.testing.assert_allclose(steps["value_mean"], [2.7 / 3, 0.6, np.nan])


TURNS = [
    {"role": "assistant", "text": "a", "sampled": True},
    {"role": "tool", "text": "b", "sampled": False},
]
OLDER = [tokens("old", "x", step=step, turns=TURNS) for step in range(10)]
NEWER = [tokens("new", "y", step=step) for step in range(5, 15)]


def test_a_restart_in_a_file_is_noted_and_its_older_rows_can_be_left_out(
    tmp_path: Path,
) -> None:
    def logged(steps: range, reward: float) -> list[dict]:
        """Return rows of training, and of a validation of the step 5, which is no restart."""
        rows = [row(step, reward=reward) for step in steps]
        validation = row(5, split="val", reward=reward)
        rows[8:8] = [validation, failed(steps[8])]
        return rows

    older = logged(range(4, 14), 0.0)
    newer = logged(range(6, 20), 1.0)
    path = write(tmp_path / "a.jsonl", [*older, *newer])
    scan = read(path)
    (text,) = restart_notes(scan)
    # The validation of step 5 is logged again, too.
    assert text.startswith("steps 5 to 13 were logged again")
    assert scan.repeated == dict.fromkeys(range(6, 14), 1)
    assert scan.failed == {12: 1, 14: 1}
    last = read(path, restarts="last")
    training = last.responses[last.responses["validation"] == 0]
    assert training["step"].tolist() == list(range(4, 20))
    assert training["reward"].tolist() == [0.0] * 2 + [1.0] * 14
    assert last.responses["step"][last.responses["validation"] == 1].tolist() == [5]
    assert last.failed == {14: 1}


def test_a_file_whose_steps_are_in_no_order_has_no_restarts(tmp_path: Path) -> None:
    swapped = []
    for step in range(0, 40, 2):
        swapped += [step + 1, step]
    rows = [row(step) for step in 2 * swapped]
    scan = read(write(tmp_path / "a.jsonl", rows), restarts="last")
    assert "restart" not in kinds(scan)
    assert len(scan.responses) == 80
    in_order = [row(step) for step in 2 * sorted(swapped)]
    assert "several_starts" in kinds(read(write(tmp_path / "b.jsonl", in_order)))


@pytest.mark.parametrize("lines", ["a.jsonl", "a.jsonl.gz"])
def test_what_a_restart_replaced_is_in_no_sum(lines: str, tmp_path: Path) -> None:
    def written(name: str, rows: list[dict]) -> Path:
        path = write(tmp_path / name / "a.jsonl", rows)
        if lines.endswith(".gz"):
            path.with_name(lines).write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
        return path.parent

    restarted = read(written("restarted", OLDER + NEWER), restarts="last")
    alone = read(written("alone", OLDER[:5] + NEWER))
    assert "restart" in kinds(restarted)
    pd.testing.assert_frame_equal(restarted.tools, alone.tools)
    pd.testing.assert_frame_equal(token_figures(restarted), token_figures(alone))
    pd.testing.assert_frame_equal(
        step_bigrams(restarted.ngrams, restarted.responses),
        step_bigrams(alone.ngrams, alone.responses),
    )
    places = ["offset", "line"]
    pd.testing.assert_frame_equal(
        restarted.responses.drop(columns=places), alone.responses.drop(columns=places)
    )
    assert restarted.fields == alone.fields


def test_a_cached_scan_with_the_replaced_rows_is_not_taken_for_one_without(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "a.jsonl", OLDER + NEWER)
    cache = str(tmp_path / "kept")
    rows = []
    for restarts in ("all", "last", "all", "last"):
        scan = read(path, restarts=restarts, cache=cache)
        rows.append(len(scan.responses))
    assert rows == [20, 15, 20, 15]


Logged = dict[str, dict[int, int]]


def steps(first: int, last: int, rows: int = 4) -> dict[int, int]:
    return dict.fromkeys(range(first, last + 1), rows)


def uneven_steps(first: int, last: int) -> dict[int, int]:
    """Return step -> rows, of a run whose steps differ in size."""
    return {step: 4 + 5 * (step % 3) for step in range(first, last + 1)}


def by_rank(attempts: Logged) -> Logged:
    """Return the files of attempts of which each has two ranks."""
    files = {}
    for name, rank in product(attempts, "01"):
        files[f"{name}/{rank}"] = attempts[name]
    return files


def by_step(attempts: Logged) -> Logged:
    """Return the files of attempts that write a file per step."""
    files = {}
    for name, counts in attempts.items():
        for step, count in counts.items():
            files[f"{name}/rollout_{step:03}"] = {step: count}
    return files


@pytest.mark.parametrize(
    ("files", "left"),
    [
        pytest.param(
            {"attempt_1": steps(0, 60), "attempt_2": steps(50, 100)},
            {"attempt_1": steps(0, 49), "attempt_2": steps(50, 100)},
            id="two",
        ),
        pytest.param(
            by_rank({"a": steps(0, 60), "b": steps(50, 100)}),
            by_rank({"a": steps(0, 49), "b": steps(50, 100)}),
            id="ranks",
        ),
        pytest.param(
            {"a": steps(0, 19), "b": steps(0, 99, 6)},
            {"b": steps(0, 99, 6)},
            id="anew",
        ),
        pytest.param(
            {"a": steps(0, 99), "b": steps(50, 69, 6)},
            {
                "a": steps(0, 49) | steps(70, 99),
                "b": steps(50, 69, 6),
            },
            id="behind",
        ),
        pytest.param(
            {"a": steps(0, 99), "b": steps(50, 99, 6)},
            {"a": steps(0, 49), "b": steps(50, 99, 6)},
            id="to the end",
        ),
        pytest.param(
            {
                "a": steps(0, 9, 8) | {10: 1},
                "b": steps(10, 19, 8),
            },
            {"a": steps(0, 9, 8), "b": steps(10, 19, 8)},
            id="within a step",
        ),
        pytest.param(
            {"a": uneven_steps(0, 59), "b": uneven_steps(50, 99)},
            {"a": uneven_steps(0, 49), "b": uneven_steps(50, 99)},
            id="any size",
        ),
        pytest.param(
            by_step({"a": steps(0, 60), "b": steps(50, 99)}),
            by_step({"a": steps(0, 49), "b": steps(50, 99)}),
            id="file per step",
        ),
        pytest.param(
            {
                "a": steps(0, 29),
                "b": steps(10, 14),
                "c": steps(20, 39),
            },
            {
                "a": steps(0, 9) | steps(15, 19),
                "b": steps(10, 14),
                "c": steps(20, 39),
            },
            id="inside",
        ),
        pytest.param(
            {
                "a": steps(0, 19),
                "b": steps(10, 24),
                "c": steps(5, 29),
            },
            {
                "a": steps(0, 4),
                "c": steps(5, 29),
            },
            id="further back",
        ),
        pytest.param(
            {"run_1": steps(10, 19), "run_2": steps(0, 29)},
            {"run_2": steps(0, 29)},
            id="around",
        ),
    ],
)
def test_attempts_in_files_of_their_own_are_noted_and_the_last_can_be_chosen(
    files: Logged, left: Logged, tmp_path: Path
) -> None:
    """``left`` is what ``--restarts last`` leaves of the files."""
    for name, counts in files.items():
        write(tmp_path / f"{name}.jsonl", prompts_of_their_own(counts))
    scan = read(tmp_path)
    last = read(tmp_path, restarts="last")
    texts = restart_notes(scan)
    kept = "all rows kept (--restarts last leaves out these rows)"
    assert texts and all(text.endswith(kept) for text in texts)
    restarted = [note.count for note in scan.notes if note.kind == "restart"]
    again = len(scan.responses) - len(last.responses)
    assert sum(restarted) == sum(scan.repeated.values()) == again
    assert last.repeated == {}
    rows_left = {}
    for file, logged in last.responses.groupby("file")["step"]:
        name = last.files[int(str(file))].name.removesuffix(".jsonl")
        rows_left[name] = logged.value_counts().to_dict()
    assert rows_left == left
    assert "older rows left out" in restart_notes(last)[0]


def prompts_of_their_own(counts: dict[int, int]) -> list[dict]:
    """Return the rows of a file with these numbers of rows by step."""
    rows = []
    for step, count in counts.items():
        rows += [row(step, prompt=f"{step} {n}") for n in range(count)]
    return rows


def restart_notes(scan: Scan) -> list[str]:
    return [note.text for note in scan.notes if note.kind == "restart"]


FILE_PER_STEP = {f"{step}.jsonl": range(step, step + 1) for step in range(30)}


@pytest.mark.parametrize(
    "files",
    [
        {"rank_0.jsonl": range(61), "rank_1.jsonl": range(60)},
        {"worker_0.jsonl": range(60), "worker_3.jsonl": range(30, 100)},
        {"x.jsonl": range(60), "y.jsonl": range(60)},
        {"math.jsonl": range(100), "code.jsonl": range(50, 60)},
        FILE_PER_STEP,
        {"early.jsonl": range(50), "late.jsonl": range(50, 100)},
        {"math.jsonl": range(100), "code.jsonl": range(80)},
        {"x.jsonl": range(60), "y.jsonl": range(61)},
        {f"a/{name}": steps for name, steps in FILE_PER_STEP.items()}
        | {f"b/{name}": steps for name, steps in FILE_PER_STEP.items()},
    ],
)
def test_other_files_with_the_same_steps_are_no_attempts(files, tmp_path):
    for name, logged in files.items():
        rows = []
        for step, n in product(logged, range(4)):
            rows.append(row(step, prompt=f"{name} {step} {n}"))
        write(tmp_path / name, rows)
    scan = read(tmp_path, restarts="last")
    assert "restart" not in kinds(scan)
    assert len(scan.responses) == sum(4 * len(logged) for logged in files.values())
    assert scan.repeated == {}


def test_a_log_that_is_continued_in_a_new_file_within_a_step_has_no_attempts(tmp_path):
    places = product(range(20), range(8))
    rows = [row(step, prompt=str(i)) for step, i in places]
    write(tmp_path / "log.jsonl", rows[:83])
    write(tmp_path / "log.new.jsonl", rows[83:])
    assert kinds(read(tmp_path)) == set()


@pytest.mark.parametrize("pool", [5, 1000])
def test_an_environment_that_begins_later_is_no_attempt_if_prompts_recur(
    pool, tmp_path
):
    environments = {"math": range(60), "code": range(40, 100)}
    for name, logged in environments.items():
        rows = []
        for step, i in product(logged, range(4)):
            number = (4 * step + i) % pool
            rows.append(row(step, prompt=f"{name} {number}"))
        write(tmp_path / f"{name}.jsonl", rows)
    assert ("restart" in kinds(read(tmp_path))) == (pool == 1000)


def failed(step: int) -> dict[str, object]:
    return row(step, response="", reward=None, errors=["timeout"])


def test_columns_of_rows_that_are_left_out_take_no_room(tmp_path: Path) -> None:
    many = {f"a{i:02}": 1.0 for i in range(64)}
    older = [row(0), row(1, **many), row(2)]
    lines = [*older, row(1), row(2), row(3)]
    for line in lines:
        line["zscore"] = 0.5
    scan = read(write(tmp_path / "a.jsonl", lines), restarts="last")
    assert list(scan.extras) == ["zscore"]
    assert "many_extras" not in kinds(scan)


def test_one_response_with_tokens_does_not_hide_the_words_of_the_others(
    tmp_path: Path,
) -> None:
    steps = [0] * 4 + [1] * 4 + [2] * 4
    lines = [row(step, response="one two three four") for step in steps]
    lines[5] = tokens("a", "b", "c", step=1)
    scan = read(write(tmp_path / "a.jsonl", lines))
    assert scan.ngrams is not None
    assert (scan.ngrams.unit, len(scan.ngrams.rows)) == ("word", 11)
    assert {note.kind: note.count for note in scan.notes} == {"mixed_units": 1}
    assert np.isfinite(scan.responses["distinct_2"]).all()  # of each, by its own units


def test_responses_that_count_in_part_are_noted(tmp_path: Path) -> None:
    lines = [row(0, response="w " * 3000), row(0, response="w " * 2000)]
    scan = read(write(tmp_path / "a.jsonl", lines))
    assert {note.kind: note.count for note in scan.notes} == {"shortened": 1}


def test_validation_outside_the_sample_does_not_make_figures_sampled(tmp_path):
    splits = ["train"] * 6 + ["val"] * 6
    lines = [row(0, split=split) for split in splits]
    scan = read(write(tmp_path / "a.jsonl", lines), limits=ReadLimits(sampled=6))
    assert (scan.sampled, scan.sampled_of, len(scan.responses)) == (6, 6, 12)


def test_an_advantage_beside_the_text_is_that_of_the_response(tmp_path):
    rows = [row(0, advantage=-0.5), row(0, advantage=0.5)]
    scan = read(write(tmp_path / "my run.jsonl", rows))
    assert scan.responses["advantage_logged_mean"].tolist() == [-0.5, 0.5]
    assert scan.name == "my run"


def started(*lengths: int) -> list[dict]:
    """Return the rows of starts of so many steps; the reward of each is its number."""
    rows = []
    for start, length in enumerate(lengths):
        for step, n in product(range(length), range(4)):
            rows.append(row(step, prompt=f"p{n}", reward=float(start)))
    return rows


def test_starts_in_one_file_of_rollouts_are_not_judged_unless_they_are_one_run(
    tmp_path,
):
    path = write(tmp_path / "a.jsonl", started(30, 30, 20))
    verdict = check_logs([path], BuildOptions(workers=1))
    assert verdict.sentence.startswith("Not judged: 3 starts in one log.")
    for options in ({"merge": True}, {"restarts": "last"}):
        verdict = check_logs([path], BuildOptions(workers=1, **options))
        assert verdict.lead != "mixed_runs"


@pytest.mark.parametrize(
    ("restarts", "rewards", "steps"),
    [
        (None, {2.0}, 20),
        ("last", {2.0}, 20),
        (1, {0.0}, 30),
        (2, {1.0}, 25),
        ("all", {0.0, 1.0, 2.0}, 75),
    ],
)
def test_no_two_starts_of_rollouts_are_mixed_in_a_step(
    restarts, rewards, steps, tmp_path
):
    path = write(tmp_path / "a.jsonl", started(30, 25, 20))
    scan = read(path, restarts=restarts)
    assert set(scan.responses["reward"]) == rewards
    assert scan.responses.groupby("step").size().tolist() == [4] * steps
    assert scan.responses.groupby("step")["reward"].nunique().max() == 1
    (note,) = (note for note in scan.notes if "3 starts in one log" in note.text)
    assert restarts == "all" or f"the {300 - 4 * steps} rows" in note.text


def test_ranks_of_several_starts_are_said_once_and_the_same_start_of_each_is_read(
    tmp_path,
):
    for rank in range(3):
        write(tmp_path / f"rank_{rank}.jsonl", started(5, 30))
    scan = read(tmp_path)
    assert set(scan.responses["reward"]) == {1.0}
    assert [note.count for note in scan.notes if "2 starts" in note.text] == [60]


def test_the_last_start_of_rollouts_is_the_run_if_it_is_the_longest(tmp_path):
    scan = read(write(tmp_path / "a.jsonl", started(5, 30)))
    assert set(scan.responses["reward"]) == {1.0}
    assert len(scan.responses) == 120 and not scan.repeated
    (note,) = (note for note in scan.notes if note.kind == "format")
    assert note.text.startswith(
        "2 starts in one log: the last one, of 30 steps, is the run"
    )
    assert note.count == 20


def test_environments_one_after_another_in_a_file_are_no_starts(tmp_path):
    places = product("ab", range(30), range(4))
    rows = [row(step, prompt=f"{env} {n}") for env, step, n in places]
    scan = read(write(tmp_path / "a.jsonl", rows))
    assert len(scan.responses) == 240
    assert {"format", "several_starts"}.isdisjoint(kinds(scan))


def test_a_resumption_of_rollouts_is_no_start(tmp_path):
    steps = [*range(30), *range(20, 50)]
    rows = [row(step, reward=0.0) for step in steps]
    scan = read(write(tmp_path / "a.jsonl", rows))
    assert len(scan.responses) == 60 and len(scan.repeated) == 10
    assert {"format", "several_starts"}.isdisjoint(kinds(scan))


def test_a_log_that_begins_again_more_often_than_it_has_steps_has_no_starts(tmp_path):
    rows = [row(step=n % 6, prompt=f"p{n % 3}") for n in range(60)]
    scan = read(write(tmp_path / "log.jsonl", rows))
    assert len(scan.responses) == 60
    assert "several_starts" not in {note.kind for note in scan.notes}


def test_keys_of_interfaces_in_rows_are_hidden(tmp_path: Path) -> None:
    fields = {"judge_api_key": "sk-none-but-shown", "answer_key": "B", "key": "gsm/7"}
    rows = [row(**fields), row(api_key="<KEY>")]
    log = write(tmp_path / "log.jsonl", rows)
    extras = read(log).extras
    assert extras["judge_api_key"].tolist()[0] == "[secret]"
    assert extras["answer_key"].tolist()[0] == "B"
    assert extras["key"].tolist()[0] == "gsm/7"
    assert extras["api_key"].tolist()[1] == "<KEY>"
