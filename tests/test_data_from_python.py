"""Data that a program has in memory: they give the report that a file with the rows gives."""

import inspect
import json
import math
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import rlreport
from rlreport.check import findings_json
from rlreport.cli.commands import check as check_command
from rlreport.read.logs import read_logs
from rlreport.system.in_memory import InMemory, as_files, paths_or_data
from tests.hostile import write_log

STEPS = 12


def rollouts(steps: int = STEPS, group: int = 4) -> list[dict[str, Any]]:
    """Return rows with tokens, text fields and numbers, whose reward rises."""
    rng = np.random.default_rng(0)
    rows = []
    for step in range(steps):
        for n in range(group):
            rows.append(
                {
                    "step": step,
                    "prompt": f"What is {step % 3} + {n}?",
                    "response": f"The answer is {step % 3 + n}." + " Yes." * n,
                    "reward": round(float(rng.random()) + 0.1 * step, 3),
                    "group_id": f"{step}-{n % 2}",
                    "logprobs": rng.normal(-1, 0.1, 5).round(4).tolist(),
                    "response_tokens": ["The", " answer", " is", " 4", "."],
                    "seed": n,
                }
            )
    return rows


def metrics(steps: int = 40) -> list[dict[str, Any]]:
    counted = np.arange(steps)
    columns = {"step": counted, "reward": 0.1 * counted, "kl": 0.01 * counted}
    return pd.DataFrame({**columns, "loss": 1 / (counted + 1)}).to_dict("records")  # type: ignore[return-value]


def as_columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return pd.DataFrame(rows).to_dict("list")  # type: ignore[return-value]


class Dataset:
    """What is used of a ``datasets.Dataset``."""

    column_names = ()

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def iter(self, batch_size: int) -> Iterator[dict[str, list[Any]]]:
        for start in range(0, len(self.rows), batch_size):
            yield as_columns(self.rows[start : start + batch_size])


class PolarsFrame:
    """What is used of a data frame of Polars."""

    columns = ()

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def iter_rows(self, *, named: bool) -> Iterator[dict[str, Any]]:
        assert named
        return iter(self.rows)


class LazyFrame:
    """What tells a data frame that is not computed yet."""

    columns = ()

    def collect(self) -> None:
        """Compute the frame."""


KINDS = {
    "list of dicts": lambda rows: rows,
    "tuple of dicts": tuple,
    "generator of dicts": iter,
    "pandas": pd.DataFrame,
    "dict of lists": as_columns,
    "dict of arrays": lambda rows: pd.DataFrame(rows).to_dict("series"),
    "data set": Dataset,
    "Arrow": pa.Table.from_pylist,
    "Polars": PolarsFrame,
    "pandas by its index": lambda rows: pd.DataFrame(rows).set_index("step"),
}


def files_of(data: Any) -> list[dict[str, Any]]:
    """Return the rows that readers get of data in memory."""
    with as_files({"data": paths_or_data(data)}) as paths:
        (path,) = paths["data"]
        return [json.loads(line) for line in Path(path).read_bytes().splitlines()]


def cell(value: Any) -> Any:
    """Return what readers get of a value in a row."""
    (row,) = files_of([{"value": value}])
    return row["value"]


def judged(logs: Any) -> dict[str, Any]:
    """Return all that a verdict says."""
    return findings_json(rlreport.judge(logs, workers=1))


def ids_of(logs: Any) -> list[str]:
    return [finding.id for finding in rlreport.judge(logs, workers=1).findings]


# What is read


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [rollouts, metrics])
def test_each_kind_of_table_has_the_same_rows(kind: str, make: Any) -> None:
    rows = make()
    assert files_of(KINDS[kind](rows)) == rows


def test_the_verdict_is_that_of_a_file_with_the_rows(tmp_path: Path) -> None:
    for rows in (rollouts(), metrics()):
        log = write_log(tmp_path / "log.jsonl", rows)
        of_file = judged(log)
        assert judged(pd.DataFrame(rows)) == of_file
        assert judged(iter(rows)) == of_file


def test_judge_returns_the_verdict_of_the_report(tmp_path: Path) -> None:
    report = rlreport.build(rollouts(), tmp_path / "run.html", workers=1)
    verdict = rlreport.judge(rollouts(), workers=1)
    assert isinstance(verdict, rlreport.Verdict)
    assert findings_json(verdict) == findings_json(report.verdict)


def test_metrics_may_be_rows_next_to_rollouts(tmp_path: Path) -> None:
    report = rlreport.build(
        rollouts(), tmp_path / "run.html", metrics=pd.DataFrame(metrics()), workers=1
    )
    logged = pd.DataFrame(metrics())
    assert report.tables.metrics["kl"].equals(logged["kl"])
    (file,) = report.tables.metrics_files
    assert file.name == "metrics (in memory)"
    beside_a_file = rlreport.build(
        write_log(tmp_path / "log.jsonl", rollouts()),
        tmp_path / "run.html",
        metrics=metrics(),
        workers=1,
    )
    assert beside_a_file.tables.metrics.equals(report.tables.metrics)


def test_runs_in_memory_are_compared_with_each_other_and_with_reports(
    tmp_path: Path,
) -> None:
    base = pd.DataFrame(rollouts())
    new = base.assign(reward=base["reward"] + 0.5)
    compared = rlreport.compare(base, new, tmp_path / "a.html", workers=1)
    assert compared.outcome.comparison.effect.value == pytest.approx(0.5)
    assert (compared.outcome.base.name, compared.outcome.new.name) == ("BASE", "NEW")
    rlreport.build(rollouts(), tmp_path / "report", workers=1)
    bases: list[Any] = [base, tmp_path / "report"]
    news: list[Any] = [new, rollouts()]
    seeds = rlreport.compare(bases, news, tmp_path / "b.html", workers=1)
    assert len(seeds.outcome.bases) == 2
    assert len(seeds.outcome.news) == 2


# Values of all kinds


def test_columns_may_be_arrays_of_any_shape() -> None:
    times = np.array(["2026-01-02", "2026-01-03"], "datetime64[ns]")
    logprobs = np.zeros((2, 2))
    first, _ = files_of({"step": np.arange(2), "logprobs": logprobs, "time": times})
    assert first["step"] == 0
    assert first["logprobs"] == [0.0, 0.0]
    assert first["time"].startswith("2026-01-02T00:00:00")


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.str_("text"), "text"),
        (np.array([1.5, 2.5]), [1.5, 2.5]),
        (np.ones((1, 2), np.int8), [[1, 1]]),
        (np.array(4.0), 4.0),
        (SimpleNamespace, {"python": "type"}),
        (Decimal("1.5"), 1.5),
        (b"text", "text"),
        (b"\xff\xfe", {"python": "bytes"}),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00+00:00"),
        (pd.Timestamp("2026-01-02T03:00Z"), "2026-01-02T03:00:00+00:00"),
        (np.datetime64("2026-01-02T03:00", "ns"), "2026-01-02T03:00:00.000000000"),
        (pd.Timedelta("90s"), 90.0),
        (pd.NA, None),
        (pd.NaT, None),
        (None, None),
        (pd.Series([1, 2]), [1, 2]),
        ({1: {2: "x"}}, {"1": {"2": "x"}}),
        ({("a", "b"): None}, {"a/b": None}),
        ((1, [2, None]), [1, [2, None]]),
        pytest.param({"b", "a"}, ["a", "b"], id="a set, in any order"),
        (Fraction(1, 2), {"python": "Fraction"}),
        (2**70, 2**70),
        ("\ud800", "\ud800"),
        (Path("a/b"), str(Path("a/b"))),
    ],
    ids=str,
)
def test_a_value_is_read_as_what_it_is(value: Any, read: Any) -> None:
    assert cell(value) == read
    assert type(cell(value)) is type(read)


def test_a_signalling_nan_is_a_nan() -> None:
    assert math.isnan(cell(Decimal("sNaN")))


class Tensor:
    """What is used of a tensor of any library."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def tolist(self) -> Any:
        return self.values


def test_tensors_are_lists_or_numbers() -> None:
    assert cell(Tensor([1.0, 2.0])) == [1.0, 2.0]
    assert cell(Tensor(3)) == 3


def test_nan_is_a_value_in_a_dict_and_missing_in_a_frame() -> None:
    nan = float("nan")
    for value in (nan, np.float32(nan), [nan, None]):
        assert "nan" in str(cell(value))
    assert cell(float("inf")) == float("inf")
    integers = pd.array([None], "Int64")
    frame = pd.DataFrame({"a": [nan], "b": integers})
    assert files_of(frame) == [{"a": None, "b": None}]


def test_a_loss_that_is_nan_is_found_in_rows_but_not_where_cells_are_empty() -> None:
    rows = metrics()
    for row in rows[20:]:
        row["loss"] = float("nan")
    assert "nan_metrics" in ids_of(rows)
    assert "nan_metrics" not in ids_of(pd.DataFrame(rows))


def test_names_of_columns_become_texts() -> None:
    columns = [("reward", "mean"), ("reward", "std"), ("step", "")]
    levels = pd.MultiIndex.from_tuples(columns)
    frame = pd.DataFrame([[1, 2, 3]], columns=levels)
    assert files_of(frame) == [{"reward/mean": 1, "reward/std": 2, "step": 3}]
    assert files_of([{1: 2}]) == [{"1": 2}]


def test_a_value_that_no_reader_knows_is_listed_as_unrecognized() -> None:
    rows = [{**row, "picture": object()} for row in rollouts(2)]
    with as_files({"data": paths_or_data(rows)}) as paths:
        notes = read_logs(paths["data"]).notes
    assert [str(note.text) for note in notes] == [
        "unrecognized fields: picture (object)"
    ]


# What is left alone


def test_the_frame_of_the_user_is_unchanged() -> None:
    frame = pd.DataFrame(rollouts()).set_index("seed")
    before = frame.copy(deep=True)
    rlreport.judge(frame, workers=1)
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_is_left_of_the_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = [{"step": 1}] if fails else rollouts()
    try:
        rlreport.judge(rows, workers=1)
    except rlreport.RlreportError:
        assert fails
    assert list(tmp_path.iterdir()) == []


def test_a_report_has_the_same_bytes_again_and_names_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = []
    for name in ("a", "b"):
        folder = tmp_path / f"unlikely-{name}"
        folder.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        out = tmp_path / name
        rlreport.build(rollouts(), out, metrics=metrics(), workers=1)
        files = [path for path in out.rglob("*") if path.is_file()]
        contents = {str(path.relative_to(out)): path.read_bytes() for path in files}
        reports.append(contents)
    first, second = reports
    assert first == second
    naming = [name for name, content in first.items() if b"unlikely-a" in content]
    assert not naming
    assert b"data (in memory)" in first["data.html"]


def test_a_configuration_in_the_folder_of_temporary_files_is_not_that_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text('{"learning_rate": 1}')
    (tmp_path / "notes.md").write_text("other")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    out = tmp_path / "out"
    rlreport.build(rollouts(), out, workers=1)
    about = json.loads((out / "data" / "report.json").read_bytes())
    assert about["run"] == "data"
    assert about["card"]["entries"] == {}


def test_rows_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"step": np.arange(2_500)})
    lengths: list[int] = []
    take = type(frame.iloc).__getitem__

    def counted(self: Any, key: Any) -> Any:
        part = take(self, key)
        if isinstance(part, pd.DataFrame):
            lengths.append(len(part))
        return part

    monkeypatch.setattr(type(frame.iloc), "__getitem__", counted)
    assert [row["step"] for row in files_of(frame)] == list(range(2_500))
    assert lengths == [1_000, 1_000, 500]


def test_a_generator_is_never_held_in_memory_as_a_whole(tmp_path: Path) -> None:
    (data,) = paths_or_data({"step": n} for n in range(3))
    assert isinstance(data, InMemory)
    assert not isinstance(data.rows, list)


# Errors


def error_of(data: Any, **options: Any) -> str:
    with pytest.raises(rlreport.RlreportError) as caught:
        rlreport.judge(data, workers=1, **options)
    return str(caught.value)


def without(name: str) -> pd.DataFrame:
    return pd.DataFrame(rollouts(2)).drop(columns=name)


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (None, "got a value of type NoneType"),
        (3, "got a value of type int"),
        (np.array(3), "got a value of type ndarray"),
        ([1.5], "got a list with a value of type float in it"),
        (["logs", 1.5], "got a list with a value of type float in it"),
        ([None], "got a list with a value of type NoneType in it"),
        ([{"step": 1}, 3], "the data, row 2: expected a dict"),
        (
            '{"step": 1, "prompt": "q"}\n' * 99,
            "data frame, a data set, a list of dicts",
        ),
        ("a\0b", "'a\\x00b'… is no path"),
        ([], "no path given"),
        (iter(()), "no path given"),
        (pd.DataFrame(), "the data: no rows"),
        (pd.DataFrame(rollouts(1)).iloc[:0], "the data: no rows"),
        ({"step": []}, "the data: no rows"),
        ({"step": 1}, "'step' is a value of type int, not a list"),
        ({"prompt": "text"}, "'prompt' is a value of type str, not a list"),
        ({"a": [1], "b": [1, 2]}, "the columns differ in length: a 1, b 2"),
        ({"train": pd.DataFrame()}, "'train' is a table of its own"),
        ({"train": Dataset([{"step": 1}])}, "'train' is a table of its own"),
        (LazyFrame(), "give the result of its collect()"),
        ([pd.DataFrame(), pd.DataFrame()], "several tables in a list"),
        (["logs", pd.DataFrame()], "several tables in a list"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "have the name 'a'"),
        ([{1: 0, "1": 0}], "the data, row 1: several columns have the name '1'"),
        ([{}], "found no key"),
        ([{"loss": 1.0}], "no columns of rollouts (step, prompt, response, reward)"),
        (without("response"), "no column for response: found `step`, `prompt`"),
        (without("reward"), "or pass mapping={'reward': COLUMN}"),
        (
            pd.DataFrame(rollouts(1)).assign(response=None),
            "no value in the first rows for `response`",
        ),
        (
            [
                {**rollouts(1)[0], "prompt": None},
                {**rollouts(1)[0], "response": None},
            ],
            "none of the first rows has usable values for all of `step`, `prompt`",
        ),
        (
            without("reward").assign(result=pd.Series([{"score": 1.0}] * 8)),
            "or pass mapping={'reward': 'result.score'}",
        ),
        (
            pd.DataFrame(rollouts(2)).assign(reward="bad"),
            "unreadable rows: 8, the first: the data, row 1: reward is not a number",
        ),
    ],
)
def test_errors_speak_of_rows_and_columns(data: Any, part: str) -> None:
    text = error_of(data)
    assert part in text
    assert "rlreport-" not in text
    assert "\n" not in text


def test_a_column_of_arrow_without_python_values_is_named() -> None:
    arrow = pytest.importorskip("pyarrow")
    dates = arrow.array([2**60], arrow.timestamp("s"))
    table = arrow.table({"step": [1], "made": dates})
    assert "data: 'made' cannot be read" in error_of(table)


def test_metrics_among_rollouts_are_counted_as_rows_and_named() -> None:
    verdict = rlreport.judge(rollouts() + metrics())
    titles = [finding.title for finding in verdict.findings]
    assert (
        "40 of 88 rows of the data could not be read, first row 49 "
        "(trainer metrics, not a response; give them as metrics)."
    ) in titles


def test_rows_that_contain_themselves_are_an_error() -> None:
    row: dict[str, Any] = {"step": 1}
    row["self"] = row
    assert "the data, row 2: values cannot be written as JSON" in error_of(
        [{"step": 0}, row]
    )


def test_errors_name_the_run_that_is_compared(tmp_path: Path) -> None:
    rows = rollouts(2)
    broken = [{"step": 1}, 3]
    cases: list[tuple[Any, Any, str]] = [
        (rows, broken, "the data of NEW, row 2"),
        ([rows, broken], rows, "data of BASE"),
        (rows, {"a": 1}, "data of NEW: 'a'"),
    ]
    for base, new, place in cases:
        with pytest.raises(rlreport.RlreportError, match=place):
            rlreport.compare(base, new, tmp_path / "out")


@pytest.mark.parametrize(
    ("option", "part"),
    [
        ({"ray": "auto"}, "ray: the nodes of a cluster cannot read the memory"),
        ({"step_from_path": r"(\d+)"}, "step_from_path: rows in memory have no path"),
    ],
)
def test_options_that_need_files_are_refused(option: Any, part: str) -> None:
    assert part in error_of(rollouts(1), **option)


def test_notes_and_strict_errors_name_rows() -> None:
    rows = [*rollouts(2), {**rollouts(1)[0], "reward": "bad"}]
    assert "the data, row 9: reward is not a number" in error_of(rows, strict=True)


def test_an_error_of_the_users_own_generator_is_theirs() -> None:
    def broken() -> Iterator[dict[str, Any]]:
        yield rollouts(1)[0]
        raise FileNotFoundError("theirs")

    with pytest.raises(FileNotFoundError, match="theirs"):
        rlreport.judge(broken())


def test_paths_stay_paths_in_every_kind_of_list(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", rollouts())
    expected = judged(log)
    found = tmp_path.glob("*.jsonl")
    array = np.array([str(log)])
    for logs in ([str(log)], (log,), found, array):
        assert judged(logs) == expected


# The functions themselves


def test_judge_has_the_options_of_check() -> None:
    offered = set(inspect.signature(rlreport.judge).parameters) - {"logs"}
    of_command = {parameter.name for parameter in check_command.params}
    assert offered == of_command - {"logs", "as_json", "verbose", "fail_on"}
    with pytest.raises(TypeError, match=r"judge\(\) got an unexpected .* 'title'"):
        rlreport.judge(rollouts(1), title="mine")
    with pytest.raises(rlreport.RlreportError, match="gamma"):
        rlreport.judge(rollouts(1), gamma=5)


def test_reprs_begin_with_the_verdict(tmp_path: Path) -> None:
    report = rlreport.build(rollouts(), tmp_path / "run.html", workers=1)
    assert repr(report).splitlines()[0].endswith(report.verdict.what)
    first, *findings = repr(report.verdict).splitlines()
    assert first == report.verdict.sentence
    assert len(findings) == len(report.verdict.findings)
    compared = rlreport.compare(
        rollouts(), rollouts(), tmp_path / "out.html", workers=1
    )
    lines = repr(compared).splitlines()
    assert lines[0] == compared.sentence
    assert lines[-1] == str(tmp_path / "out.html")
