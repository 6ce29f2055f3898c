"""Side files that are small on disk and would be large, slow or endless to read."""

import gzip
import json
import multiprocessing
import resource
import shutil
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from rlreport.about.card import run_card
from rlreport.check import load_thresholds
from rlreport.check.verdict import SCHEMA
from rlreport.comparison.saved import earlier_report
from rlreport.errors import RlreportError, RowError, UsageError
from rlreport.formats.containers import container_of, read_objects
from rlreport.metrics.find import MAX_METRICS, find_and_read
from rlreport.system.documents import LimitError, load_json, load_yaml, open_zip

SECONDS = 60
MEGABYTES = 600
"""By which a process may grow while it reads one of these files."""


def read_log(path: Path) -> None:
    open_log: Callable[[Path, str], Any] = gzip.open if path.suffix == ".gz" else open
    with open_log(path, "rb") as file:
        for _ in read_objects(file, container_of(path.name) or ""):
            pass


READERS: dict[str, Callable[[Path], object]] = {
    "config": lambda path: run_card([], configs=[path]),
    "metrics": lambda path: find_and_read([], [path]),
    "log": read_log,
    "report": earlier_report,
}

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["pytest", "pyarrow.parquet", "rlreport.comparison.saved"])


def answer(answers: Connection, kind: str, path: Path) -> None:
    """Send the error of reading a file, "" for none, and by how many megabytes this grew."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = ""
    try:
        READERS[kind](path)
    except (RlreportError, RowError) as error:
        said = str(error)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    answers.send((said, grown))


def outcome(kind: str, path: Path) -> str:
    """Read a file in a process of its own; return its error, "" for none."""
    answers, end = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=answer, args=(end, kind, path))
    process.start()
    end.close()
    try:
        assert answers.poll(SECONDS), f"not read in {SECONDS} seconds"
        said, grown = answers.recv()
    finally:
        process.kill()
        process.join()
    assert grown < MEGABYTES
    return str(said)


MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 40)
)
LONG_TEXT = f"a: &a {'x' * 1_000_000}\n" + f"b: [{'*a,' * 100}]\n" * 500


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("c.yaml", "[" * 30_000, "nested too deep"),
        ("c.json", "[" * 30_000, "nested too deep"),
        ("c.toml", f"a = {'[' * 30_000}", "nested too deep"),
        ("c.toml", f"{'a.' * 400_000}a = 1", "nested too deep"),
        ("c.yaml", MERGES, "100,000 values with aliases expanded"),
        ("c.yaml", LONG_TEXT, "2,000,000 characters with aliases expanded"),
        (
            "c.yaml",
            "".join(f"%TAG !a{i}! b\n" for i in range(120_000)),
            "100 directives",
        ),
        ("c.yaml", f"a: {':'.join(['1'] * 900_000)}", "not plain YAML"),
        ("c.yaml", f"0x{'f' * 20_000}: [0x{'f' * 20_000}]", ""),
        ("c.json", '{"k":' * 22 + f"[{','.join(['{}'] * 600_000)}]" + "}" * 22, ""),
        ("c.yaml", "a: " + "x" * 2_000_000, "larger than 2,000,000 bytes"),
    ],
)
def test_a_configuration_ends(name: str, text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    error = outcome("config", tmp_path / name)
    assert said in error
    assert not said or name in error


def test_metrics_with_a_new_name_per_line_are_cut_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f'{{"step": {i}, "m{i}": 1.5}}\n' for i in range(20_000)))
    assert outcome("metrics", path) == ""
    more = tmp_path / "more.jsonl"
    metrics = {f"more{i}": 1.0 for i in range(1_000)}
    more.write_text(json.dumps({"step": 1, **metrics}))
    for files, beyond in (([path], "18,000"), ([path, more], "19,000")):
        read = find_and_read([], files)
        assert len(read.table.columns) == 1 + MAX_METRICS
        said = f"{beyond} metrics beyond the first 2,000 left out"
        assert [note.text for note in read.notes] == [said]


def test_metrics_of_many_columns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(
        "step" + ",x" * 2_000_000 + "\n1" + ",2" * 2_000_000
    )
    assert "m.csv: cannot be read as metrics: more than 5,000 columns" in outcome(
        "metrics", tmp_path / "m.csv"
    )


def test_a_tensor_that_claims_any_size_is_no_metric(tmp_path: Path) -> None:
    writer = pytest.importorskip("tensorboard.summary.writer.event_file_writer")
    from tensorboard.compat.proto import (
        event_pb2,
        summary_pb2,
        tensor_pb2,
        tensor_shape_pb2,
    )

    size = tensor_shape_pb2.TensorShapeProto.Dim(size=1 << 33)
    shape = tensor_shape_pb2.TensorShapeProto(dim=[size])
    tensor = tensor_pb2.TensorProto(dtype=1, tensor_shape=shape, float_val=[1.0])
    value = summary_pb2.Summary.Value(tag="a", tensor=tensor)
    events = writer.EventFileWriter(str(tmp_path))
    events.add_event(
        event_pb2.Event(step=1, summary=summary_pb2.Summary(value=[value]))
    )
    events.close()
    assert "contains no steps with numbers" in outcome(
        "metrics", next(tmp_path.iterdir())
    )


def test_brackets_and_quotes_in_texts_count_for_nothing() -> None:
    text = '[{"\\"}, ' * 3_000_000
    assert load_json(json.dumps([text] * 2).encode()) == [text] * 2
    assert load_json(b'{"a": NaN, "b": "\\ud800"}')["b"] == "\ufffd"
    deep: Any = []
    for _ in range(150):
        deep = [deep, "]" * 300, '"', "\\"]
    assert load_json(json.dumps(deep).encode()) == deep
    with pytest.raises(LimitError, match="nested too deep"):
        load_json(b"[" * 201 + b"]" * 201)


Write = Callable[[Path], object]


def packed(unit: bytes, times: int) -> Write:
    return lambda path: path.write_bytes(gzip.compress(b"[" + unit * times + b"[]]"))


def parquet(columns: Callable[[Any], dict[str, Any]]) -> Write:
    def write(path: Path) -> None:
        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        pq.write_table(
            pa.table(columns(pa)), path, compression="zstd", write_statistics=False
        )
        assert path.stat().st_size < 2_000_000

    return write


def repeated(pa: Any) -> dict[str, Any]:
    """One text in every row, and on disk once."""
    text = pa.array(["x" * 35_000_000])
    rows = pa.array([0] * 256, pa.int32())
    return {"prompt": pa.DictionaryArray.from_arrays(rows, text)}


def many_columns(pa: Any) -> dict[str, Any]:
    return {f"c{i}": [1] for i in range(5_001)}


def nested(path: Path) -> None:
    """Write a parquet file whose schema nests without end."""
    root = b"\x48\x01s\x15\x02\0"
    group = b"\x35\x02\x18\x01a\x15\x02\0"
    leaf = b"\x15\x02\x25\x02\x18\x01v\0"
    count = 20_002  # elements, as a varint of three bytes
    size = bytes([count & 127 | 128, count >> 7 & 127 | 128, count >> 14])
    schema = root + group * (count - 2) + leaf
    footer = b"\x15\x04\x19\xfc" + size + schema + b"\x16\0\x19\x0c\0"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")


@pytest.mark.parametrize(
    ("name", "write", "said"),
    [
        ("a.json.gz", packed(b"[],", 29_000_000), "over 1,000,000,000 bytes of memory"),
        (
            "a.json",
            lambda path: path.write_bytes(b"{}\n" * 40_000_000),
            "bytes of memory",
        ),
        ("a.parquet", parquet(repeated), "too much memory when decoded"),
        (
            "a.parquet",
            parquet(lambda pa: {"a": pa.repeat(1.0, 25_000_000)}),
            "too many for its",
        ),
        ("a.parquet", parquet(lambda _: {"a": ["x" * 300_000_000]}), "unpacks to over"),
        (
            "a.parquet",
            parquet(many_columns),
            "5,000 columns",
        ),
        ("a.parquet", nested, "not a Parquet file"),
    ],
)
def test_a_log_that_unfolds_is_refused(
    name: str, write: Write, said: str, tmp_path: Path
) -> None:
    write(tmp_path / name)
    assert said in outcome("log", tmp_path / name)


@pytest.mark.parametrize("rows", [1, 3, 100])
@pytest.mark.parametrize("use_dictionary", [False, True])
def test_parquet_values_are_those_of_pyarrow(rows, use_dictionary, tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    table = pa.table(
        {
            "text": ["a", None, "b", "a"],
            "texts": [["x", None], None, [], ["y"]],
            "messages": [[{"role": "u", "content": None}], [None], None, []],
            "nested": [
                {"a": "q", "b": [1, None]},
                None,
                {"a": None, "b": None},
                {},
            ],
            "numbers": [None, 1.5, float("inf"), 2.0],
            "lists": [[["a"], None], [], None, [[]]],
            "map": pa.array(
                [[("k", "v")], [], None, []],
                pa.map_(pa.string(), pa.string()),
            ),
            "large": pa.array(["a", "b", None, "c"], pa.large_string()),
            "category": pa.array(["a", "b", None, "a"]).dictionary_encode(),
            "bytes": [b"a", b"\xff", None, b""],
        }
    )
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, use_dictionary=use_dictionary, row_group_size=rows)
    assert list(read_objects(path.open("rb"), "parquet")) == table.to_pylist()


def report(folder: Path, table: bytes) -> Path:
    """Write a report of the figures of responses alone."""
    (folder / "data").mkdir()
    about = {"generator": {"name": "rlreport"}, "schema": SCHEMA}
    (folder / "data" / "report.json").write_text(json.dumps(about))
    (folder / "data" / "responses.csv.gz").write_bytes(gzip.compress(table))
    return folder


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (b"step,n,split,prompt_id,reward" + b",x" * 2_000_000 + b"\n", "5,000 columns"),
        (b"step,n,split,prompt_id,reward\n" + b"," * 60_000_000, "cells"),
    ],
)
def test_a_report_whose_table_is_wide_is_refused(
    table: bytes, said: str, tmp_path: Path
) -> None:
    archive = shutil.make_archive(
        str(tmp_path / "a"), "zip", report(tmp_path, table), "data"
    )
    error = outcome("report", Path(archive))
    assert said in error
    assert archive in error


def test_a_report_that_unfolds_is_refused(tmp_path: Path) -> None:
    about = report(tmp_path, b"") / "data" / "report.json"
    about.write_bytes(b"[" + b"[]," * 20_000_000 + b"[]]")
    archive = shutil.make_archive(str(tmp_path / "report"), "zip", tmp_path, "data")
    for path in (tmp_path, Path(archive)):
        assert "bytes of memory" in outcome("report", path)
    about.write_bytes(b" " * 64_000_001)
    assert "64,000,000 bytes" in outcome("report", tmp_path)


def test_an_archive_of_endless_entries_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(b"PK\x05\x06" + b"\0" * 8 + b"\xff" * 4 + b"\0" * 6)
    with pytest.raises(LimitError, match="list of entries"), open_zip(path):
        pass


def test_usual_yaml_is_read_as_before() -> None:
    assert load_yaml("a: &a {b: [1, 2.5, 1:30]}\nc: {<<: *a, d: 0x10}") == {
        "a": {"b": [1, 2.5, 90]},
        "c": {"b": [1, 2.5, 90], "d": 16},
    }


@pytest.mark.parametrize("value", ["0x{}", "[0x{}]"])
def test_a_threshold_of_too_many_digits_is_refused(value: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        f"[kl_explosion]\nwarn = {value.format('f' * 5_000)}"
    )
    with pytest.raises(UsageError, match=r"warn must be (finite|a number)"):
        load_thresholds(tmp_path / "a.toml")
