"""One sample of responses feeds every figure of texts and tokens."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlreport.columns import RESPONSE_COLUMNS
from rlreport.read.choice import MAX_SAMPLED, MAX_SAMPLED_TOKENS, sampled_rows
from rlreport.read.rollouts import EDGE
from rlreport.read.tables import Scan
from rlreport.summarise import step_bigrams
from rlreport.tables import GAP
from tests.reading import read, row, token_figures, tokens, write
from tests.test_report_numbers import gae


def run_of(
    steps: int, prompts: int, samples: int, *, tokens: float = 100, file: int = 0
) -> pd.DataFrame:
    """Return the response table of a run: ``samples`` responses to each prompt of each step."""
    count = steps * prompts * samples
    table = pd.DataFrame({c.name: np.full(count, np.nan) for c in RESPONSE_COLUMNS})
    place = np.arange(count)
    return table.assign(
        step=place // (prompts * samples),
        group=place // samples,
        file=file,
        offset=place * 1000,
        sub=0,
        validation=0,
        response_tokens=tokens,
        response_chars=4 * tokens,
    )


def test_a_run_of_8192_responses_is_sampled_whole() -> None:
    table = run_of(64, 16, 8)
    assert sampled_rows(table, ["a"]).tolist() == list(range(8192))
    larger = run_of(64, 16, 9)
    assert len(sampled_rows(larger, ["a"])) == MAX_SAMPLED


@pytest.mark.parametrize(
    ("steps", "each", "expected"), [(10, 1000, 512), (100, 5000, 64), (513, 32, 8), (8192, 2, 1)]
)
def test_of_a_larger_run_each_step_gives_the_same_power_of_two(
    steps: int, each: int, expected: int
) -> None:
    table = run_of(steps, each, 1)
    rows = sampled_rows(table, ["a"])
    assert np.bincount(table["step"].to_numpy()[rows]).tolist() == [expected] * steps


def test_of_a_run_of_more_than_8192_steps_every_second_step_gives_one() -> None:
    table = run_of(10_000, 1, 2)
    steps = table["step"].to_numpy()[sampled_rows(table, ["a"])]
    assert steps.tolist() == list(range(0, 10_000, 2))


def test_groups_are_sampled_whole() -> None:
    table = run_of(100, 64, 8)
    rows = sampled_rows(table, ["a"])
    _, sizes = np.unique(table["group"].to_numpy()[rows], return_counts=True)
    assert set(sizes) == {8}
    # Not the first groups of each step: their place in it is as good as random.
    assert 20 < (table["group"].to_numpy()[rows] % 64).mean() < 44


def test_validation_is_sampled_in_small_runs_only() -> None:
    small, large = run_of(4, 10, 2), run_of(100, 100, 2)
    for table in (small, large):
        table.loc[table.index % 2 == 1, "validation"] = 1
    assert len(sampled_rows(small, ["a"])) == 80
    assert set(large["validation"].to_numpy()[sampled_rows(large, ["a"])]) == {0}


@pytest.mark.parametrize("length", [500, 1000, 8000, 100_000])
def test_the_sample_holds_at_most_four_million_tokens(length: int) -> None:
    table = run_of(100, 82, 1, tokens=length)
    rows = sampled_rows(table, ["a"])
    cost = len(rows) * min(length, 2 * EDGE)
    assert cost <= MAX_SAMPLED_TOKENS
    assert len(rows) >= 1600  # at least half of what would fit


@given(steps=st.integers(1, 200), each=st.integers(1, 300), length=st.integers(1, 10_000))
def test_every_step_is_sampled_and_all_bounds_hold(steps: int, each: int, length: int) -> None:
    table = run_of(steps, each, 1, tokens=length)
    rows = sampled_rows(table, ["a"])
    assert (np.diff(rows) > 0).all()
    assert len(rows) <= MAX_SAMPLED
    assert len(rows) * min(length, 2 * EDGE) <= MAX_SAMPLED_TOKENS
    assert set(table["step"].to_numpy()[rows]) == set(range(steps))


def chosen(table: pd.DataFrame, files: Sequence[str]) -> set[tuple[str, int]]:
    """Return file name and offset of the sampled responses."""
    rows = table.iloc[sampled_rows(table, files)]
    return {(files[f], o) for f, o in zip(rows["file"], rows["offset"], strict=True)}


def test_the_order_in_which_files_are_listed_changes_nothing() -> None:
    parts = [run_of(50, 40, 4, file=i) for i in range(3)]
    for i, part in enumerate(parts):
        part["group"] += 100_000 * i

    def together(order: Sequence[int]) -> set[tuple[str, int]]:
        table = pd.concat([parts[i].assign(file=at) for at, i in enumerate(order)])
        table = table.sort_values(["step", "file", "offset"], ignore_index=True)
        return chosen(table, [f"rank_{i}.jsonl" for i in order])

    assert together([0, 1, 2]) == together([2, 0, 1])
    assert len(together([0, 1, 2])) == 50 * 128


def test_a_run_that_grows_keeps_what_was_sampled_of_earlier_steps() -> None:
    table = run_of(200, 100, 2)
    whole = chosen(table, ["a"])
    for steps in (130, 160, 199):
        earlier = chosen(table[table["step"] < steps], ["a"])
        assert earlier == {one for one in whole if one[1] < steps * 200_000}
    # With k halved, half of what was sampled stays, whole groups first.
    half = chosen(run_of(300, 100, 2), ["a"])
    assert {one for one in half if one[1] < 200 * 200_000} < whole


LONG = [f"w{i % 97}" for i in range(2 * EDGE + 500)]


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    """A run with responses of 20 tokens, and one of more than 2,048."""
    rng = np.random.default_rng(0)
    rows = [
        tokens(*(f"w{i}" for i in rng.integers(0, 30, 20)), step=step, prompt=f"p{n}")
        for step in range(4)
        for n in range(3)
    ]
    rows.append(tokens(*LONG, step=3, prompt="long"))
    return read(write(tmp_path_factory.mktemp("log") / "a.jsonl", rows))


def test_of_a_long_response_the_first_and_last_1024_tokens_are_sampled(long_run: Scan) -> None:
    assert long_run.ngrams is not None
    texts = long_run.ngrams
    last = [texts.vocabulary[i] for i in texts.units[texts.offsets[-2] :]]
    assert last == [*LONG[:EDGE], GAP, *LONG[-EDGE:]]
    # Its own distinct-2 is that of all its tokens, and GAP is no token of the run.
    pairs = list(pairwise(LONG))
    assert long_run.responses["distinct_2"].iloc[-1] == len(set(pairs)) / len(pairs)
    table = token_figures(long_run)
    assert GAP not in table.index
    assert table["count"].sum() == 12 * 20 + 2 * EDGE
    pairs = [*pairwise(LONG[:EDGE]), *pairwise(LONG[-EDGE:])]
    counts = step_bigrams(texts, long_run.responses).set_index("step").loc[3]
    assert counts["bigrams"] == 3 * 19 + len(pairs)


def test_figures_of_sampled_tokens_lie_at_their_tokens(long_run: Scan) -> None:
    assert long_run.tokens is not None
    size = len(LONG)
    ratio = np.array([0.1 - 0.05 * i for i in range(size)])
    expected = np.concatenate([ratio[:EDGE], [np.nan], ratio[-EDGE:]])
    found = long_run.tokens.log_ratio[long_run.tokens.texts.offsets[-2] :]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.fixture(scope="module")
def large_log(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A log of 9,000 short responses, in two files."""
    rng = np.random.default_rng(1)
    folder = tmp_path_factory.mktemp("large")
    lines: list[list[dict[str, object]]] = [[], []]
    for i in range(9000):
        size = int(rng.integers(1, 12))
        logp, ref = rng.uniform(-2, 0, (2, size)).round(4).tolist()
        words = [f"t{j}" for j in rng.integers(0, 40, size)]
        fields = {"logprobs": logp, "ref_logprobs": ref, "values": ref, "token_rewards": logp}
        lines[i % 2].append(tokens(*words, step=i // 90, prompt=f"p{i // 6}", **fields))
    return [write(folder / f"rank_{rank}.jsonl", rows) for rank, rows in enumerate(lines)]


@pytest.fixture(scope="module")
def large_run(large_log: list[Path]) -> tuple[Scan, list[dict[str, object]]]:
    """The log as read, and the sampled rows as the log holds them."""
    scan = read(*large_log)
    assert scan.ngrams is not None
    parsed = [[json.loads(line) for line in path.read_text().splitlines()] for path in large_log]
    table = scan.responses.iloc[scan.ngrams.rows]
    places = zip(table["file"], table["line"], strict=True)
    return scan, [parsed[file][line - 1] for file, line in places]


def test_a_large_run_says_how_many_responses_were_sampled(
    large_run: tuple[Scan, list[dict[str, object]]],
) -> None:
    scan, rows = large_run
    assert scan.sampled == len(rows) == 100 * 64
    assert len(scan.responses) == 9000


def test_token_figures_equal_numpys_on_the_sampled_rows(large_run: tuple[Scan, list]) -> None:
    scan, rows = large_run
    flat = {
        name: np.concatenate([row[name] for row in rows]) for name in ("logprobs", "ref_logprobs")
    }
    names = np.concatenate([row["response_tokens"] for row in rows])
    ratio = flat["logprobs"] - flat["ref_logprobs"]
    frame = pd.DataFrame(
        {
            "kl_mean": np.expm1(-ratio) + ratio,
            "log_ratio_mean": ratio,
            "abs_log_ratio_mean": np.abs(ratio),
            "prob_mean": np.exp(flat["logprobs"]),
            "ref_prob_mean": np.exp(flat["ref_logprobs"]),
        }
    )
    found = token_figures(scan)
    wanted = frame.groupby(names).mean().loc[found.index]
    assert found["count"].to_dict() == pd.Series(names).value_counts().to_dict()
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=2e-6, atol=1e-7)
    share = frame["kl_mean"].groupby(names).sum() / frame["kl_mean"].sum()
    np.testing.assert_allclose(found["kl_share"], share.loc[found.index], rtol=1e-6)


def test_critic_errors_by_tenth_of_the_response_equal_a_plain_loop(
    large_run: tuple[Scan, list],
) -> None:
    scan, rows = large_run
    errors: list[list[float]] = [[] for _ in range(10)]
    values: list[list[float]] = [[] for _ in range(10)]
    for one in rows:
        value = np.array(one["values"])
        error = np.abs(gae(np.array(one["token_rewards"]), value))
        for t, decile in enumerate(10 * np.arange(len(value)) // len(value)):
            errors[decile].append(error[t])
            values[decile].append(value[t])
    assert scan.positions["decile"].tolist() == list(range(10))
    assert scan.positions["count"].tolist() == list(map(len, errors))
    np.testing.assert_allclose(scan.positions["abs_error_mean"], list(map(np.mean, errors)))
    np.testing.assert_allclose(scan.positions["value_mean"], list(map(np.mean, values)))


def test_words_are_sampled_where_no_training_row_logs_tokens(tmp_path: Path) -> None:
    rows = [row(i, response="one two three", ref_response="one four") for i in range(3)]
    rows.append(tokens("a", "b", step=1, split="val"))
    scan = read(write(tmp_path / "a.jsonl", rows))
    assert scan.ngrams is not None
    assert scan.ref_words is not None
    assert (scan.ngrams.unit, scan.ngrams.rows.tolist()) == ("word", [0, 1, 3])
    assert [scan.ref_words.vocabulary[i] for i in scan.ref_words.units] == ["one", " four"] * 3
    assert token_figures(scan).empty


def test_words_are_sampled_beside_tokens_and_say_whether_they_hold_the_label(
    tmp_path: Path,
) -> None:
    rows = [
        row(
            0, response="It is 1,234.0", ground_truth="so #### 1234", response_tokens=["It", " is"]
        ),
        row(1, response="It is 12345", ground_truth=1234, response_tokens=["It", " is"]),
        row(2, response="Paris", response_tokens=["Par", "is"]),
    ]
    words = read(write(tmp_path / "a.jsonl", rows)).words
    assert words is not None
    assert words.labels is not None
    assert words.labels.tolist() == [1, 0, -1]
    assert [words.vocabulary[i] for i in words.units[:3]] == ["It", " is", " 1"]
