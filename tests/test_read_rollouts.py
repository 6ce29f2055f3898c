"""The chosen responses and the sample: which they are, and what is read of them."""

import gzip
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rlreport.columns import RESPONSE_COLUMNS
from rlreport.errors import RlreportError
from rlreport.figures.rounding import rounded
from rlreport.options import GaeOptions, ReadOptions
from rlreport.pages.plan import extremes
from rlreport.read.choice import METRICS, Choice, choose_rows, sampled_rows
from rlreport.read.chunk import RangeSettings
from rlreport.read.limits import LIMITS, ReadLimits
from rlreport.read.lines import ByteRange
from rlreport.read.listing import find_sources
from rlreport.read.ranges import read_chunk
from rlreport.read.rollouts import EDGE, Rollout, Selection
from rlreport.read.spool import PartFolder, RolloutSpool, part_folder
from rlreport.read.tables import MAX_PROMPTS, Scan
from rlreport.summarise.tokens import step_bigrams
from rlreport.tables import GAP
from tests.net import RUNS, dumps
from tests.reading import kinds, read, row, token_figures, tokens, write
from tests.running import SEARCH
from tests.tables_builder import response_table


def assert_same(left: list[Rollout], right: list[Rollout]) -> None:
    for one, other in zip(left, right, strict=True):
        for item in fields(one):
            if item.name == "figures":
                assert one.figures.keys() == other.figures.keys()
                for name, values in one.figures.items():
                    np.testing.assert_array_equal(values, other.figures[name])
            elif item.name == "sampled":
                np.testing.assert_array_equal(one.sampled, other.sampled)
            else:
                assert getattr(one, item.name) == getattr(other, item.name), item.name


@pytest.mark.ci
def test_rows_of_a_cache_are_those_that_were_read(shared_data, tmp_path):
    seen: set[tuple[str, ...]] = set()
    runs = [
        shared_data / "grpo_math",
        RUNS / "odd",
        RUNS / "quirks" / "escapes",
        RUNS / "quirks" / "ground_truths",
        RUNS / "quirks" / "token_strings",
    ]
    for path in [*runs, *dumps().values()]:
        try:
            kept = read(path)
        except RlreportError:  # no log, which tests/net.py describes
            continue
        kind = (*{file.format for file in kept.files}, *sorted(kinds(kept)))
        if kind in seen:
            continue
        seen.add(kind)
        others = [read(path, cache=str(tmp_path / "cache")) for _ in range(2)]
        rows = range(len(kept.responses))
        for other in others:  # written to the cache, and from it
            pd.testing.assert_frame_equal(other.responses, kept.responses)
            assert_same(other.rollouts.read(rows), kept.rollouts.read(rows))


def run_of(
    rng: np.random.Generator, steps: int, each: int, length: float
) -> pd.DataFrame:
    """Return the response table of a run with random figures, in groups of eight."""
    table = sampled_run(steps, each, 1, tokens=length)
    figures = {
        name: rng.normal(size=len(table))
        for name in ("reward", "kl_k1", "surprisal_mean")
    }
    group = np.arange(len(table)) // 8
    return table.assign(group=group, prompt_id=group, **figures)


def assert_within_limits(table: pd.DataFrame) -> Choice:
    chosen = choose_rows(table, ["a"])
    assert (np.diff(chosen.rows) > 0).all()
    assert len(chosen.rows) <= LIMITS.chosen
    assert table["response_chars"].to_numpy()[chosen.rows].sum() <= LIMITS.chosen_bytes
    return chosen


@settings(max_examples=8 * SEARCH)
@given(
    steps=st.integers(1, 120),
    each=st.integers(1, 300),
    length=st.integers(1, 30_000),
    seed=st.integers(0, 9),
)
def test_extremes_of_every_step_are_chosen_within_the_limits(steps, each, length, seed):
    table = run_of(np.random.default_rng(seed), steps, each, length)
    chosen = assert_within_limits(table)
    # Of each step 256 rows are chosen, or half as many until they fit; 7 are extreme here.
    rows = len(sampled_rows(table, ["a"])) + 2 * len(METRICS) + 8 * steps
    chars = rows * table["response_chars"].iloc[0]
    assume(rows <= LIMITS.chosen - MAX_PROMPTS and 2 * chars <= LIMITS.chosen_bytes)
    for name in set(METRICS) & {"reward", "kl_k1", "surprisal_mean"}:
        by_step = table[name].to_numpy().reshape(steps, each)
        for ends in (by_step.argmin(axis=1), by_step.argmax(axis=1)):
            assert np.isin(np.arange(steps) * each + ends, chosen.rows).all()
    shown = table["prompt_id"].to_numpy()[chosen.rows]
    prompts = int(table["prompt_id"].max()) + 1
    assert set(range(min(MAX_PROMPTS, prompts))) <= set(shown)


@pytest.mark.parametrize(
    ("steps", "each", "length"),
    [
        (1, 50_000, 50),
        (2, 20_000, 50),
        (20_000, 2, 30_000),
    ],
)
def test_the_latest_extremes_are_chosen_however_many_are_equal(steps, each, length):
    rng = np.random.default_rng(0)
    table = run_of(rng, steps, each, length)
    table["reward"] = rng.integers(0, 2, len(table)).astype(float)
    is_missing = rng.random(len(table)) < 0.5
    table["kl_max"] = np.where(is_missing, np.nan, rng.integers(0, 3))
    table["reward_gap"] = np.inf
    chosen = assert_within_limits(table).rows
    assert np.isin([extreme.row for extreme in extremes(table)], chosen).all()


def test_the_choice_repeats_and_small_runs_are_chosen_whole() -> None:
    rng = np.random.default_rng(0)
    small = run_of(rng, 10, 100, 300)
    large = run_of(rng, 100, 500, 300)
    assert choose_rows(small, ["a"]).rows.tolist() == list(range(1000))
    np.testing.assert_array_equal(
        choose_rows(large, ["a"]).rows, choose_rows(large, ["a"]).rows
    )


def test_a_pickled_selection_holds_its_responses_only(tmp_path: Path) -> None:
    response = "y" * 1000
    long = "x" * 1000
    rows = [tokens(f"t{i}", long, step=i, response=response) for i in range(50)]
    rollouts = read(write(tmp_path / "a.jsonl", rows)).rollouts
    whole = Selection(rollouts, np.array([7, 21, 40]))
    data = pickle.dumps(whole)
    assert len(data) < 10_000
    copy, wanted = pickle.loads(data)
    assert_same(copy.read(wanted), rollouts.read(wanted))
    with pytest.raises(LookupError):
        copy.read([1])


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_a_log_that_changes_after_it_was_read_is_reported_as_it_was(
    name, tmp_path, monkeypatch
):
    def write_log(text: str) -> Path:
        changed = row(1, response=text)
        content = [row(0), changed] if name == "a.json" else changed
        return write(tmp_path / name, [json.dumps(content)])

    def choose_after_change(*arguments: Any) -> Choice:
        write_log("Bye there.")
        return choose_rows(*arguments)

    monkeypatch.setattr("rlreport.read.logs.choose_rows", choose_after_change)
    scan = read(write_log("Hi, there."))
    assert scan.rollouts.read([len(scan.responses) - 1])[0].response == "Hi, there."


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def packed_log(folder: Path, rows: int) -> Path:
    logged = [row(step, response="long " * 1000) for step in range(rows)]
    plain = write(folder / "a.jsonl", logged)
    packed = plain.with_name("a.jsonl.gz")
    packed.write_bytes(gzip.compress(plain.read_bytes(), 1))
    plain.unlink()
    return packed


# A worker collects this much of a log at a time.
FOUR_MB = ReadLimits(batch_bytes=4 << 20)


def test_a_worker_writes_the_texts_of_a_packed_log_to_disk_while_it_reads(
    tmp_path, temporary
):
    (source,) = find_sources([packed_log(tmp_path, 2000)]).sources
    with part_folder() as folder:
        settings = RangeSettings(ReadOptions(), GaeOptions(), folder, FOUR_MB)
        chunk = read_chunk([ByteRange(0, source)], settings)
        files = [part for part in chunk.parts if isinstance(part, Path)]
        assert len(files) == len(chunk.parts) == 3  # of 4 MiB of the log each
        assert sum(file.stat().st_size for file in files) > 10**7
    assert not list(temporary.iterdir())


def test_the_disk_never_holds_two_copies_of_all_texts(tmp_path, temporary, monkeypatch):
    (source,) = find_sources([packed_log(tmp_path, 2000)]).sources
    left = []
    append = RolloutSpool._append

    def counting(spool: RolloutSpool, part: Any) -> None:
        left.append(len(list(temporary.glob("*/*"))))
        append(spool, part)

    monkeypatch.setattr(RolloutSpool, "_append", counting)
    with part_folder() as folder:
        settings = RangeSettings(ReadOptions(), GaeOptions(), folder, FOUR_MB)
        RolloutSpool().take(read_chunk([ByteRange(0, source)], settings).parts)
        left.append(len(list(temporary.glob("*/*"))))
    assert left == [3, 2, 1, 0]


def test_an_error_on_the_way_leaves_no_temporary_file(tmp_path, temporary, monkeypatch):
    def failing(spool: RolloutSpool, part: Any) -> None:
        (folder,) = temporary.iterdir()
        assert list(folder.iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(RolloutSpool, "_append", failing)
    with pytest.raises(KeyboardInterrupt):
        # A cache needs the texts once more, so that they are in files on their way.
        read(packed_log(tmp_path, 2000), cache=str(tmp_path / "cache"))
    assert not list(temporary.iterdir())


def test_one_process_writes_each_text_once(tmp_path, monkeypatch):
    log = packed_log(tmp_path, 20)
    cached = read(log, cache=str(tmp_path / "cache"))

    def written_twice(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(PartFolder, "put", written_twice)
    at_once = read(log)
    assert at_once.rollouts.texts.tobytes() == cached.rollouts.texts.tobytes()
    assert at_once.rollouts.ids.tobytes() == cached.rollouts.ids.tobytes()
    assert len(at_once.responses) == 20


@pytest.mark.parametrize("batch_rows", [LIMITS.batch_rows, 3])
def test_a_figure_is_nan_before_it_begins_and_after_it_ends(tmp_path, batch_rows):
    without = tokens("a", "b", "c", ref_logprobs=None)
    for number, logged in enumerate((without, tokens("a"), without)):
        rows = [{**logged, "step": 3 * number + i} for i in range(3)]
        write(tmp_path / f"{number}.jsonl", rows)
    rollouts = read(tmp_path, limits=ReadLimits(batch_rows=batch_rows)).rollouts
    is_nan = np.isnan(rollouts.figures["log_ratio"]).tolist()
    assert is_nan == [True] * 9 + [False] * 3 + [True] * 9


def test_each_response_has_its_own_texts_and_tokens_in_whatever_order_rows_are_logged(
    tmp_path,
):
    rng = np.random.default_rng(0)
    logged = {}
    for name in ("a.jsonl", "b.jsonl"):
        rows = []
        for number, step in enumerate(rng.integers(0, 5, 20).tolist()):
            texts: dict[str, Any] = {
                field: f"{field} {number} of {name}"
                for field in ("prompt", "response", "ground_truth")
            }
            strings = [f"{name[0]}{number}", "same", "end"][: number % 4]
            masks = [[1] + [0] * (len(strings) - 1), None]
            if strings:
                texts["response_mask"] = masks[number % 2]
                rows.append(tokens(*strings, step=step, **texts))
            else:
                rows.append(row(step, **texts))
            logged[name, number + 1] = rows[-1]
        write(tmp_path / name, rows)
    scan = read(tmp_path, limits=ReadLimits(batch_rows=3))
    rollouts = scan.rollouts.read(range(len(scan.responses)))
    assert len(rollouts) == len(logged)
    for rollout in rollouts:
        wanted = logged[rollout.file, rollout.line]
        assert rollout.prompt == wanted["prompt"]
        assert rollout.response == wanted["response"]
        assert rollout.ground_truth == wanted["ground_truth"]
        assert rollout.raw_tokens == wanted.get("response_tokens", [])
        mask = None if rollout.sampled is None else rollout.sampled.tolist()
        assert mask == wanted.get("response_mask")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_build_that_is_interrupted_while_it_reads_leaves_no_temporary_file(
    number, tmp_path, monkeypatch
):
    log = packed_log(tmp_path, 200)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    code = (
        "import os, pathlib, sys, tempfile\n"
        "from rlreport.cli.main import main\n"
        "from rlreport.read.spool import RolloutSpool\n"
        "def interrupt(*_):\n"
        "    assert list(pathlib.Path(tempfile.gettempdir()).glob('*/*'))\n"
        "    os.kill(os.getpid(), int(sys.argv.pop()))\n"
        "RolloutSpool._append = interrupt\n"
        "main(sys.argv[1:-1])"
    )
    # A cache needs the texts once more, so that they are in files on their way.
    cache = ["--cache", str(tmp_path / "cache")]
    arguments = ["check", str(log), *cache, str(int(number))]
    command = [sys.executable, "-c", code, *arguments]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment
    )
    assert ended.returncode == 128 + number, ended.stderr
    assert not list(temporary.iterdir())


def test_a_full_disk_of_temporary_files_is_named(tmp_path: Path) -> None:
    log = write(tmp_path / "a.jsonl", [row(0)] * 10)
    code = (
        "import resource, sys; from tests.reading import read; read(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50)); read(sys.argv[1])"
    )
    command = [sys.executable, "-c", code, str(log)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "OutputError: cannot write temporary files to" in ended.stderr


def test_the_response_table_has_the_documented_columns_and_dtypes(
    tmp_path: Path,
) -> None:
    log = write(tmp_path / "a.jsonl", [tokens("a", "b"), row(1)])
    table = read(log).responses
    assert [(name, str(dtype)) for name, dtype in table.dtypes.items()] == [
        (column.name, column.dtype) for column in RESPONSE_COLUMNS
    ]


def sampled_run(
    steps: int, prompts: int, samples: int, *, tokens: float = 100, file: int = 0
) -> pd.DataFrame:
    """Return the response table of a run: ``samples`` responses to each prompt of each step."""
    place = np.arange(steps * prompts * samples)
    columns = {"file": file, "response_tokens": tokens, "response_chars": 4 * tokens}
    step = place // (prompts * samples)
    group = place // samples
    return response_table(
        {"step": step, "group": group, "offset": place * 1000, **columns}
    )


@pytest.mark.parametrize(
    ("steps", "each", "expected"),
    [
        (64, 128, 128),
        (64, 144, 128),
        (10, 1000, 512),
        (100, 5000, 64),
        (513, 32, 8),
        (8192, 2, 1),
    ],
)
def test_of_a_larger_run_each_step_gives_the_same_power_of_two(steps, each, expected):
    table = sampled_run(steps, each, 1)
    sampled_steps = table["step"].to_numpy()[sampled_rows(table, ["a"])]
    assert np.bincount(sampled_steps).tolist() == [expected] * steps


def test_a_run_of_8192_responses_is_sampled_whole_with_its_validation() -> None:
    table = sampled_run(64, 16, 8)
    table.loc[table.index % 2 == 1, "validation"] = 1
    assert len(sampled_rows(table, ["a"])) == LIMITS.sampled == 8192
    more = pd.concat([table, table[-2:]], ignore_index=True)
    assert not more["validation"].to_numpy()[sampled_rows(more, ["a"])].any()


def test_of_a_run_of_more_than_8192_steps_every_second_step_gives_one() -> None:
    table = sampled_run(10_000, 1, 2)
    steps = table["step"].to_numpy()[sampled_rows(table, ["a"])]
    assert steps.tolist() == list(range(0, 10_000, 2))


def test_groups_are_sampled_whole() -> None:
    table = sampled_run(100, 64, 8)
    rows = sampled_rows(table, ["a"])
    _, sizes = np.unique(table["group"].to_numpy()[rows], return_counts=True)
    assert set(sizes) == {8}
    # Not the first groups of each step: their place in it is as good as random.
    assert 20 < (table["group"].to_numpy()[rows] % 64).mean() < 44


def test_validation_is_sampled_in_small_runs_only() -> None:
    small = sampled_run(4, 10, 2)
    large = sampled_run(100, 100, 2)
    for table in (small, large):
        table.loc[table.index % 2 == 1, "validation"] = 1
    assert len(sampled_rows(small, ["a"])) == 80
    rows = sampled_rows(large, ["a"])
    assert set(large["validation"].to_numpy()[rows]) == {0}


@pytest.mark.parametrize("length", [500, 1000, 8000, 100_000])
def test_at_least_half_of_what_would_fit_is_sampled(length: int) -> None:
    assert len(sampled_rows(sampled_run(100, 82, 1, tokens=length), ["a"])) >= 1600


@given(
    steps=st.integers(1, 200),
    each=st.integers(1, 300),
    length=st.integers(1, 10_000),
)
def test_every_step_is_sampled_and_all_bounds_hold(
    steps: int, each: int, length: int
) -> None:
    table = sampled_run(steps, each, 1, tokens=length)
    rows = sampled_rows(table, ["a"])
    assert (np.diff(rows) > 0).all()
    assert len(rows) <= LIMITS.sampled
    assert len(rows) * min(length, 2 * EDGE) <= LIMITS.sampled_tokens
    assert set(table["step"].to_numpy()[rows]) == set(range(steps))


def chosen(table: pd.DataFrame, files: Sequence[str]) -> set[tuple[str, int]]:
    """Return file name and offset of the sampled responses."""
    rows = table.iloc[sampled_rows(table, files)]
    names = [files[file] for file in rows["file"]]
    return set(zip(names, rows["offset"], strict=True))


def test_the_order_in_which_files_are_listed_changes_nothing() -> None:
    parts = [sampled_run(50, 40, 4, file=i) for i in range(3)]
    for i, part in enumerate(parts):
        part["group"] += 100_000 * i

    def together(order: Sequence[int]) -> set[tuple[str, int]]:
        files = [parts[i].assign(file=place) for place, i in enumerate(order)]
        table = pd.concat(files)
        table = table.sort_values(["step", "file", "offset"], ignore_index=True)
        return chosen(table, [f"rank_{i}.jsonl" for i in order])

    assert together([0, 1, 2]) == together([2, 0, 1])
    assert len(together([0, 1, 2])) == 50 * 128


def test_a_run_that_grows_keeps_what_was_sampled_of_earlier_steps() -> None:
    table = sampled_run(200, 100, 2)
    whole = chosen(table, ["a"])
    for steps in (130, 160, 199):
        earlier = chosen(table[table["step"] < steps], ["a"])
        assert earlier == {one for one in whole if one[1] < steps * 200_000}
    # With k halved, half of what was sampled stays, whole groups first.
    half = chosen(sampled_run(300, 100, 2), ["a"])
    assert {one for one in half if one[1] < 200 * 200_000} < whole


LONG = [f"w{i % 97}" for i in range(2 * EDGE + 500)]


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    """A run with responses of 20 tokens, and one of more than 2,048."""
    rng = np.random.default_rng(0)
    rows = []
    for step, n in product(range(4), range(3)):
        words = [f"w{i}" for i in rng.integers(0, 30, 20)]
        rows.append(tokens(*words, step=step, prompt=f"p{n}"))
    rows.append(tokens(*LONG, step=3, prompt="long"))
    return read(write(tmp_path_factory.mktemp("log") / "a.jsonl", rows))


def test_of_a_long_response_the_first_and_last_1024_tokens_are_sampled(
    long_run: Scan,
) -> None:
    assert long_run.ngrams is not None
    texts = long_run.ngrams
    last = texts.units[texts.offsets[-2] :]
    words = [texts.vocabulary[unit] for unit in last]
    assert words == [*LONG[:EDGE], GAP, *LONG[-EDGE:]]
    # Its own distinct-2 is that of all its tokens, and GAP is no token of the run.
    pairs = list(pairwise(LONG))
    distinct = rounded(len(set(pairs)) / len(pairs))
    assert long_run.responses["distinct_2"].iloc[-1] == distinct
    table = token_figures(long_run)
    assert GAP not in table.index
    assert table["count"].sum() == 12 * 20 + 2 * EDGE
    pairs = [*pairwise(LONG[:EDGE]), *pairwise(LONG[-EDGE:])]
    counts = step_bigrams(texts, long_run.responses).set_index("step").loc[3]
    assert counts["bigrams"] == 3 * 19 + len(pairs)


def test_figures_of_sampled_tokens_lie_at_their_tokens(long_run: Scan) -> None:
    assert long_run.tokens is not None
    ratio = [0.1 - 0.05 * i for i in range(len(LONG))]
    expected = [*ratio[:EDGE], np.nan, *ratio[-EDGE:]]
    found = long_run.tokens.log_ratio[long_run.tokens.texts.offsets[-2] :]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_words_are_sampled_where_no_training_row_logs_tokens(tmp_path: Path) -> None:
    rows = [row(i, response="one two three", ref_response="one four") for i in range(3)]
    rows.append(tokens("a", "b", step=1, split="val"))
    scan = read(write(tmp_path / "a.jsonl", rows))
    assert scan.ngrams is not None
    assert scan.ref_words is not None
    assert scan.ngrams.unit == "word"
    assert scan.ngrams.rows.tolist() == [0, 1, 3]
    words = scan.ref_words
    assert [words.vocabulary[unit] for unit in words.units] == ["one", " four"] * 3
    assert token_figures(scan).empty


def test_words_are_sampled_beside_tokens(tmp_path: Path) -> None:
    rows = [row(0, response="It is", response_tokens=["It", " is"])]
    words = read(write(tmp_path / "a.jsonl", rows)).words
    assert words is not None
    vocabulary = words.vocabulary
    assert [vocabulary[unit] for unit in words.units] == ["It", " is"]


def test_the_table_says_whether_a_response_hits_its_label(tmp_path: Path) -> None:
    turns = [
        {"role": "assistant", "text": "Let me look: 7.", "sampled": True},
        {"role": "tool", "text": "1234", "sampled": False},
        {"role": "assistant", "text": "The answer is 12.", "sampled": True},
        {"role": "tool", "text": "99", "sampled": False},
    ]
    rows = [
        row(0, response="It is 1,234.0", ground_truth="so #### 1234"),
        row(1, response="It is 12345", ground_truth=1234),
        row(2, response="Paris"),
        row(3, response="Paris", ground_truth={"target": "Paris"}),
        row(4, response="7 12 99", ground_truth=12, turns=turns),
        row(5, response="Paris", ground_truth="Paris", split="val"),
    ]
    hits = read(write(tmp_path / "a.jsonl", rows)).responses["label_hit"]
    unknown = np.nan
    np.testing.assert_array_equal(hits, [1, 0, unknown, unknown, 1, 1])
