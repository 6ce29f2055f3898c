"""However logs are cut, and in whatever order parts are merged, the tables are the same."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlreport.options import FigureOptions, ReadOptions
from rlreport.progress import Silent
from rlreport.read.log_format import LogFormat
from rlreport.read.merge import merge
from rlreport.read.partial import Partial
from rlreport.read.response_table import extras_table, response_table, row_order
from rlreport.read.scan import scan
from rlreport.read.sources import Source, find_sources
from rlreport.read.splits import Split, plan_splits
from rlreport.read.unit_tables import bigram_frame, ngram_sample, position_frame, token_frame
from rlreport.read.workers import scan_splits
from tests.reading import row, tokens, write

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
    """Everything that comes of a partial, in comparable form."""
    merged = merge([partial])
    order = row_order(merged.columns)
    samples = [ngram_sample(s, merged, order) for s in (merged.sample, merged.references)]
    return [
        *response_table(merged, order),
        *extras_table(merged.extras, merged.rows, order),
        token_frame(merged),
        position_frame(merged),
        bigram_frame(merged),
        *(None if s is None else [s.rows, s.offsets, s.units, s.vocabulary] for s in samples),
        merged.flaw_count,
        # Lines are counted inside the split until all splits are known.
        {kind: (m.times, m.first[:2]) for kind, m in merged.marks.by_kind.items()},
        merged.fields,
        merged.ends,
        [flaw.place.offset for flaw in merged.flaws],
    ]


def assert_same(found: list[object], wanted: list[object]) -> None:
    """Compare bit for bit."""
    for left, right in zip(found, wanted, strict=True):
        if isinstance(left, pd.DataFrame):
            pd.testing.assert_frame_equal(left, right, check_exact=True)  # type: ignore[arg-type]
        elif isinstance(left, (np.ndarray, list)):
            np.testing.assert_equal(left, right)
        else:
            assert left == right


@pytest.fixture(scope="module")
def whole(sources: list[Source]) -> list[object]:
    """The tables when every file is one split."""
    return tables(merge([scan(Split(i, s, 0, s.size), *SETTINGS) for i, s in enumerate(sources)]))


@pytest.mark.untraced
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_cut_and_any_order_give_identical_tables(
    sources: list[Source], whole: list[object], data: st.DataObject
) -> None:
    partials = []
    for i, source in enumerate(sources):
        inner = data.draw(st.lists(st.integers(0, source.size), max_size=4))
        cuts = sorted({0, source.size, *inner})
        partials += [scan(Split(i, source, *cut), *SETTINGS) for cut in pairwise(cuts)]
    partials = data.draw(st.permutations(partials))
    middle = data.draw(st.integers(0, len(partials)))
    partials = [pickle.loads(pickle.dumps(partial)) for partial in partials]
    grouped = merge([merge(partials[:middle]), merge(partials[middle:])])
    assert_same(tables(grouped), whole)
    assert_same(tables(merge(partials)), whole)


def test_merging_leaves_its_arguments_alone(sources: list[Source]) -> None:
    partials = [scan(Split(i, s, 0, s.size), *SETTINGS) for i, s in enumerate(sources)]
    before = pickle.dumps(partials)
    merge(partials)
    assert pickle.dumps(partials) == before


def test_worker_processes_give_the_same_tables(
    sources: list[Source], whole: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlreport.read.workers.LEAST_BYTES", 0)
    splits = plan_splits(sources, [LogFormat()] * len(sources), split_bytes=20_000)
    assert len(splits) > 4
    options = replace(SETTINGS[0], workers=2)
    assert_same(tables(scan_splits(splits, options, SETTINGS[1], Silent())), whole)


def test_small_blocks_give_the_same_tables(
    sources: list[Source], whole: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlreport.read.lines.line_blocks.__defaults__", (700,))
    parts = [scan(Split(i, s, 0, s.size), *SETTINGS) for i, s in enumerate(sources)]
    assert_same(tables(merge(parts)), whole)


def test_line_numbers_count_from_the_start_of_the_file(sources: list[Source]) -> None:
    source = sources[0]
    cuts = [0, source.size // 3, source.size // 2, source.size]
    merged = merge([scan(Split(0, source, *cut), *SETTINGS) for cut in pairwise(cuts)])
    table, _ = response_table(merged, row_order(merged.columns))
    lines = Path(source.path).read_bytes().splitlines(keepends=True)
    starts = np.cumsum([0, *map(len, lines)])
    assert (starts[table["line"] - 1] == table["offset"]).all()


def test_an_empty_merge_is_an_empty_partial() -> None:
    assert merge([]).rows == 0
    assert merge([Partial(), Partial()]).flaw_count == 0


def test_many_steps_share_bins_and_keep_their_sums(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [tokens("a", "b", step=7 * i) for i in range(500)])
    source = find_sources([path]).sources[0]
    parts = [scan(Split(0, source, *cut), *SETTINGS) for cut in pairwise([0, 9_000, source.size])]
    frame = token_frame(merge(parts))
    assert frame["bin_start"].nunique() <= 32
    assert frame.groupby("token")["count"].sum().to_dict() == {"a": 500, "b": 500}
    assert (frame["bin_stop"] >= frame["bin_start"]).all()
