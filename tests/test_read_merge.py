"""Whoever scans which splits, and in whatever order parts are merged, the tables are the same."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlreport.options import FigureOptions, ReadOptions
from rlreport.progress import Silent
from rlreport.read.logs import scan_tasks
from rlreport.read.partial import Partial, merge
from rlreport.read.logs import (
    bigram_frame,
    extras_table,
    ngram_sample,
    position_frame,
    response_table,
    row_order,
    token_frame,
)
from rlreport.read.scan import Scanner
from rlreport.read.files import Source, find_sources
from rlreport.read.splits import LogFormat, Nodes, Split, plan_splits, plan_tasks, plant, root
from rlreport.read.token_totals import TokenTotals, merge_totals
from tests.reading import row, tokens, write
from tests.running import SEARCH

SETTINGS = ReadOptions(), FigureOptions()


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Source]:
    """Two rank files of many kinds of rows, with broken lines in between."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("logs")
    for rank in range(2):
        lines: list[object] = []
        for i in range(90):
            words = [f"Ġ{word}" for word in rng.integers(0, 30, int(rng.integers(0, 60)))]
            fields = {"score": float(i), "kind": "ab"[i % 2], f"field_{i % 70}": i}
            step = int(rng.integers(-5, 60))
            if i % 11 == 0:
                lines.append(b'{"step": 1, "broken\n')
            elif i % 7 == 0:
                lines.append(
                    row(step, response="some words of no token " * 3, ref_response="a b c")
                )
            elif i % 5 == 0:
                lines.append(tokens(*words, step=step, reward=float("nan"), group_id=i // 8))
            else:
                lines.append(tokens(*words, "<|endoftext|>", step=step, **fields))
        write(folder / f"rank_{rank}.jsonl", lines)  # type: ignore[arg-type]
    return find_sources([folder]).sources


def tables(partial: Partial) -> list[object]:
    """Everything that comes of a partial, in comparable form; sums over tokens come first."""
    merged = merge([partial])
    order = row_order(merged.columns)
    samples = [ngram_sample(s, merged, order) for s in (merged.sample, merged.references)]
    totals = root(merged.totals, merge_totals) or TokenTotals()
    return [
        token_frame(merged, totals),
        position_frame(totals),
        *response_table(merged, order),
        *extras_table(merged.extras, merged.rows, order),
        bigram_frame(merged),
        *(None if s is None else [s.rows, s.offsets, s.units, s.vocabulary] for s in samples),
        merged.diagnostics.unread_count,
        # Lines are counted inside the split until all splits are known.
        {kind: (m.times, m.first[:2]) for kind, m in merged.diagnostics.oddities.items()},
        merged.fields,
        merged.ends,
        [line.position.offset for line in merged.diagnostics.unread],
    ]


def assert_same(found: list[object], wanted: list[object], *, sums: bool = True) -> None:
    """Compare bit for bit; of sums over tokens only 12 digits unless ``sums``."""
    for i, (left, right) in enumerate(zip(found, wanted, strict=True)):
        if isinstance(left, pd.DataFrame):
            exact = sums or i > 1
            pd.testing.assert_frame_equal(left, right, check_exact=exact, rtol=1e-12, atol=1e-12)  # type: ignore[arg-type]
        elif isinstance(left, (np.ndarray, list)):
            np.testing.assert_equal(left, right)
        else:
            assert left == right


@pytest.fixture(scope="module")
def splits(sources: list[Source]) -> list[Split]:
    """Some twenty splits of a few rows each."""
    return plan_splits(sources, [LogFormat()] * len(sources), split_bytes=7_000)


@pytest.fixture(scope="module")
def whole(splits: list[Split]) -> list[object]:
    """The tables when every split is scanned alone."""
    return tables(merge([Scanner(*SETTINGS).scan([split]) for split in splits]))


@pytest.mark.untraced
@settings(max_examples=10 * SEARCH, deadline=None)
@given(data=st.data())
def test_whoever_scans_which_splits_and_whenever_the_tables_are_identical(
    splits: list[Split], whole: list[object], data: st.DataObject
) -> None:
    cuts = sorted({0, len(splits), *data.draw(st.lists(st.integers(0, len(splits)), max_size=6))})
    # Splits that are small share batches, those above the limit have their own.
    with patch("rlreport.read.splits._SMALL_BYTES", data.draw(st.sampled_from([0, 6_900, 9_999]))):
        partials = [Scanner(*SETTINGS).scan(splits[start:stop]) for start, stop in pairwise(cuts)]
    partials = data.draw(st.permutations(partials))
    partials = [pickle.loads(pickle.dumps(partial)) for partial in partials]
    middle = data.draw(st.integers(0, len(partials)))
    assert_same(tables(merge([merge(partials[:middle]), merge(partials[middle:])])), whole)
    assert_same(tables(merge(partials)), whole)


def test_batches_and_numbers_of_strings_that_run_full_change_nothing_but_last_digits(
    sources: list[Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    large = plan_splits(sources, [LogFormat()] * len(sources))
    wanted = tables(Scanner(*SETTINGS).scan(large))
    monkeypatch.setattr("rlreport.read.lines.line_blocks.__defaults__", (700,))
    monkeypatch.setattr("rlreport.read.splits._SMALL_BYTES", 0)
    monkeypatch.setattr("rlreport.read.scan._BATCH_ROWS", 7)
    monkeypatch.setattr("rlreport.read.scan._MOST_STRINGS", 20)
    together = tables(Scanner(*SETTINGS).scan(large))
    assert_same(together, wanted, sums=False)
    assert_same(
        tables(merge([Scanner(*SETTINGS).scan([split]) for split in large[::-1]])), together
    )


@pytest.mark.untraced
@settings(max_examples=5 * SEARCH, deadline=None)
@given(data=st.data())
def test_other_cuts_change_nothing_but_last_digits_of_sums(
    sources: list[Source], whole: list[object], data: st.DataObject
) -> None:
    parts: list[Split] = []
    for i, source in enumerate(sources):
        inner = data.draw(st.lists(st.integers(0, source.size), max_size=4))
        for start, stop in pairwise(sorted({0, source.size, *inner})):
            parts.append(Split(i, source, start, stop, leaf=len(parts)))
    assert_same(tables(Scanner(*SETTINGS).scan(parts)), whole, sums=False)


def test_merging_leaves_its_arguments_alone(splits: list[Split]) -> None:
    partials = [Scanner(*SETTINGS).scan([split]) for split in splits[:5]]
    before = pickle.dumps(partials)
    merge(partials)
    assert pickle.dumps(partials) == before


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_processes_gives_the_same_tables(
    splits: list[Split], whole: list[object], monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr("rlreport.read.logs.LEAST_BYTES", 0)
    monkeypatch.setattr("rlreport.read.splits._TASK_BYTES", 9_000 * workers)
    tasks = plan_tasks(splits)
    assert [split for task in tasks for split in task] == splits
    assert len(tasks) > 3
    options = replace(SETTINGS[0], workers=workers)
    assert_same(tables(scan_tasks(tasks, options, SETTINGS[1], Silent())), whole)


def test_without_the_fast_parser_the_tables_are_the_same(
    splits: list[Split], whole: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlreport.read.parse.simdjson", None)
    assert_same(tables(Scanner(*SETTINGS).scan(splits)), whole)


@pytest.mark.parametrize("leaves", range(1, 12))
def test_a_tree_of_splits_merges_neighbours_in_order_whatever_comes_first(leaves: int) -> None:
    merged: set[str] = set()
    for seed in range(20):
        nodes: Nodes[str] = {}
        order = np.random.default_rng(seed).permutation(leaves).tolist()
        for leaf in order:
            plant(nodes, (0, leaf), chr(65 + leaf), lambda left, right: f"({left}{right})")
        merged.add(root(nodes, lambda left, right: f"({left}{right})") or "")
    (only,) = merged
    assert only.replace("(", "").replace(")", "") == "ABCDEFGHIJKL"[:leaves]


def test_line_numbers_count_from_the_start_of_the_file(sources: list[Source]) -> None:
    source = sources[0]
    cuts = [0, source.size // 3, source.size // 2, source.size]
    parts = [Split(0, source, *cut, leaf=i) for i, cut in enumerate(pairwise(cuts))]
    merged = Scanner(*SETTINGS).scan(parts)
    table, _ = response_table(merged, row_order(merged.columns))
    lines = Path(source.path).read_bytes().splitlines(keepends=True)
    starts = np.cumsum([0, *map(len, lines)])
    assert (starts[table["line"] - 1] == table["offset"]).all()


def test_an_empty_merge_is_an_empty_partial() -> None:
    assert merge([]).rows == 0
    assert merge([Partial(), Partial()]).diagnostics.unread_count == 0


def test_many_steps_share_bins_and_keep_their_sums(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [tokens("a", "b", step=7 * i) for i in range(500)])
    source = find_sources([path]).sources[0]
    cuts = pairwise([0, 9_000, source.size])
    merged = Scanner(*SETTINGS).scan([Split(0, source, *cut, leaf=i) for i, cut in enumerate(cuts)])
    frame = token_frame(merged, root(merged.totals, merge_totals) or TokenTotals())
    assert frame["bin_start"].nunique() <= 32
    assert frame.groupby("token")["count"].sum().to_dict() == {"a": 500, "b": 500}
    assert (frame["bin_stop"] >= frame["bin_start"]).all()
