"""Charts of poor, hostile and extreme tables: they draw, or are left out; none breaks a page."""

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import product
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest
import vl_convert
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlreport import api
from rlreport.check.finding import Rank, Severity, ToldFinding
from rlreport.draw.catalogue import overview_charts
from rlreport.draw.chart import Chart, label, unique_names
from rlreport.draw.run_charts import text_charts
from rlreport.draw.sparkline import sparkline
from rlreport.draw.svg import drawn, png
from rlreport.draw.theme import tokens
from rlreport.text.clean import printable
from tests.reading import row, write
from tests.reading import tokens as token_row
from tests.running import SEARCH
from tests.tables_builder import charts_of_step, table_of_rows, tables_of

HOSTILE = [
    "a.b",
    "a[0]",
    "a'b",
    'a"b',
    "奖励",
    "</script>",
    "",
    "a\x00b",
    "\u202ex",
    "a:b",
    "$x",
    "__proto__",
    "constructor",
    "x\n y",
    "step",
    "value",
    "&lt;",
    "w" * 300,
]
VARIABLES = {f"var(--{name})" for name in tokens("light")} | {"none"}
FULL: dict[str, Callable[[np.random.Generator], float]] = {
    "ref_reward": lambda random: random.normal(),
    "kl_k1": lambda random: random.normal(),
    "kl_k3": lambda random: random.random(),
    "response_tokens": lambda random: int(random.integers(1, 40)),
}


def noise(
    steps: int, each: int, columns: dict[str, Callable] | None = None
) -> pd.DataFrame:
    random = np.random.default_rng(0)
    rows = []
    for step, _ in product(range(steps), range(each)):
        row = {"step": step, "reward": random.normal(), "response_chars": 9}
        for name, draw in (columns or {}).items():
            row[name] = draw(random)
        rows.append(row)
    return table_of_rows(rows)


def check(charts: Sequence[Chart]) -> None:
    """Well-formed, inert, themed by variables only; specifications stand for themselves."""
    assert len({chart.name for chart in charts}) == len(charts)
    for chart in drawn(charts):
        root = ET.fromstring(chart.svg)
        assert root.get("role") == "img"
        assert "<ns" not in chart.svg  # a page is HTML, which knows no prefixes
        assert root.get("aria-label") == printable(chart.description)
        for element in root.iter():
            assert not element.tag.endswith(("style", "script"))
            assert not [
                k
                for k in element.attrib
                if k == "style" or k[:2] == "on" or "href" in k
            ]
            assert {
                element.get("fill", "none"),
                element.get("stroke", "none"),
            } <= VARIABLES
        assert not re.search("NaN|Infinity|undefined", chart.svg.partition(">")[2])
        assert "var(" not in json.dumps(chart.spec, allow_nan=False)
        if "values" in chart.spec["data"]:
            vl_convert.vegalite_to_vega(json.dumps(chart.spec))


def test_names_from_logs_are_only_text():
    responses = noise(6, 8)
    random = np.random.default_rng(1)
    columns = [name for name in HOSTILE if name != "step"]
    parts = {name: random.normal(size=len(responses)) for name in columns}
    logged = {name: np.arange(6.0) for name in columns}
    metrics = pd.DataFrame({"step": range(6), **logged})
    findings = [
        ToldFinding(
            "x",
            Severity.CRITICAL,
            Rank.NOTE,
            title=title,
            steps=(2, 3),
            charts=("reward",),
        )
        for title in HOSTILE
    ]
    charts = overview_charts(
        tables_of(responses, extras=parts, metrics=metrics), findings
    )
    check(charts)
    of_metrics = [chart for chart in charts if chart.name.startswith("metric_")]
    assert len(of_metrics) == len(HOSTILE) - 1
    shares = pd.DataFrame(
        {
            "step": np.repeat([1, 2, 3], len(HOSTILE)),
            "ngram": HOSTILE * 3,
            "share": random.random(3 * len(HOSTILE)),
        }
    )
    check(text_charts(shares, {}))


def test_chart_names_are_safe_file_names_and_a_label_is_one_printable_line():
    names = unique_names(HOSTILE * 2)
    assert len({name.lower() for name in names}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_]{1,90}", name) for name in names)
    for shown in map(label, [*HOSTILE, "\ud800"]):
        assert len(shown) <= 40
        assert shown.encode().decode() == shown
        assert not re.search(r"[\x00-\x1f\u202a-\u202e\u2066-\u2069]", shown)


def test_steps_too_large_for_floats_draw_and_no_table_has_no_chart():
    responses = noise(2, 3)
    responses["step"] += 2**60
    check(overview_charts(tables_of(responses)))
    check(overview_charts(tables_of(responses[responses["step"] == 2**60])))
    nothing = tables_of(noise(1, 1).iloc[:0])
    assert overview_charts(nothing) == []
    no_shares = pd.DataFrame(columns=["step", "ngram", "share"])
    assert text_charts(no_shares, {}) == []


def test_charts_of_large_steps_stay_small_and_a_picture_is_as_wide_as_asked():
    for count, most in ((128, {"step_reward": 10_000}), (3000, {})):
        responses = noise(2, count, FULL)
        rows, first = (responses[responses["step"] == step] for step in (1, 0))
        charts = drawn(charts_of_step(rows, first, step=1))
        check(charts)
        assert len(charts) == 4
        for chart in charts:
            assert len(chart.svg) <= most.get(chart.name, 25_000), chart.name
    picture = png(
        overview_charts(tables_of(responses))[0], 720
    )  # twice, for sharp screens
    assert picture.startswith(b"\x89PNG")
    assert int.from_bytes(picture[16:20]) == 2 * 720


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits virtual memory")
@pytest.mark.parametrize(
    ("command", "status"),
    [("build {log} -o out", 2), ("check {log}", 0)],
)
def test_a_limit_of_virtual_memory_is_named_before_v8_starts(command, status, tmp_path):
    log = write(tmp_path / "a.jsonl", [row(0), row(1)])
    program = f"ulimit -v 6000000; exec {sys.executable} -m rlreport {command.format(log=log)}"
    done = subprocess.run(
        ["bash", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert ("6.1 GB of address space (ulimit -v)" in done.stderr) == (status == 2)
    assert ("a shell without this limit, or run 'rlreport check'" in done.stderr) == (
        status == 2
    )
    assert not (tmp_path / "out").exists()


LARGEST = float(np.finfo(np.float64).max)
FIGURES = ("reward", "ref_reward", "kl_k1", "response_tokens", "value_mean")
ODD = (
    0.3,
    0.30000000000000004,
    1e308,
    -1e308,
    LARGEST,
    -LARGEST,
    5e-324,
    0.0,
    1.0,
    np.nan,
)

LARGE = np.linspace(-1.0, 1.0, 20).tolist()
SUBNORMAL = np.linspace(0.0, 1e-310, 700).tolist()
numbers = st.one_of(
    st.floats(),
    st.sampled_from((*ODD, np.inf, -np.inf)),
    st.floats(-9, 9),
)
figures = st.tuples(*[numbers] * len(FIGURES))
steps = st.lists(figures, min_size=1, max_size=5)
runs = st.lists(steps, max_size=3)


EXTREMES = [
    (LARGEST, -LARGEST, 5e-324, 1.0, 0.0),
    (LARGEST, -LARGEST, 5e-324, 1.0, 0.0),
    (LARGEST, -LARGEST, 5e-324, 1.0, 0.0),
    (-LARGEST, LARGEST, 0.0, 2.0, 1.0),
]


NOTHING = (0.0,) * len(FIGURES)
TOO_FAR = (0.0, 0.0, 3e150, 0.0, 0.0)


def alike(value: float) -> tuple[float, ...]:
    return (value,) * len(FIGURES)


def both_signs(value: float) -> tuple[float, ...]:
    return (value, -value, value, value, value)


def huge_reward(value: float) -> tuple[float, ...]:
    _, *others = both_signs(value)
    return (1e308 * value, *others)


@pytest.mark.ci
@pytest.mark.untraced
@settings(max_examples=5 * SEARCH)
@given(runs.filter(bool))
@example([[(1.0,) + (np.nan,) * 4]])
@example([[alike(float(i % 7))] for i in range(900)])
@example([[alike(value)] for value in ODD])
@example([[alike(0.3), alike(0.30000000000000004)]])
@example([[alike(1e308), alike(-1e308)]])
@example([EXTREMES])
@example([[alike(5e-324), alike(1e-323)], [alike(2e-323)]])
@example([[huge_reward(value)] for value in LARGE])
@example([[both_signs(value) for value in SUBNORMAL]])
# Squared, the third figure of the last response overflows: its path ends at no place.
@example([[NOTHING], [NOTHING], [NOTHING, NOTHING, TOO_FAR]])
def test_any_figures_draw_without_a_warning(run: list[list[tuple[float, ...]]]) -> None:
    rows = []
    for step, responses in enumerate(run):
        for values in responses:
            figures_of_row = dict(zip(FIGURES, values, strict=True))
            rows.append({"step": step, "response_chars": 9, **figures_of_row})
    table = table_of_rows(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas, on the way to tables for the test
        table["reward_gap"] = table["reward"] - table["ref_reward"]
        figures = table["reward"].to_numpy()
        tables = tables_of(
            table,
            extras={"right": figures, "style": table["kl_k1"].to_numpy()},
            metrics=pd.DataFrame({"step": range(len(table)), "kl": figures}),
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(overview_charts(tables))
        shares = table.assign(ngram="a", share=np.clip(figures, 0.0, 1.0))
        check(text_charts(shares, {}))
        first = table[table["step"] == 0]
        for step in {0, len(run) - 1}:
            check(charts_of_step(table[table["step"] == step], first, step=step))
        sparkline(figures)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    "rewards",
    [
        (LARGEST, LARGEST, LARGEST, -LARGEST),
        (5e-324, 1e-323, 0.0),
        (1.0, np.nan, 1e308, -5e-324, np.inf),
    ],
    ids=str,
)
def test_rewards_of_any_size_build_without_a_warning(tmp_path, rewards):
    rows = [
        token_row(
            "a",
            "b",
            step=step,
            reward=reward,
            ref_reward=-reward,
            token_rewards=[0.0, reward],
        )
        | {
            "values": [reward, -reward],
            "reward_parts": {"a": reward, "b": 1.0},
            "own": reward,
        }
        for step, reward in product(range(2), rewards)
    ]
    logs = write(tmp_path / "log.jsonl", rows)
    api.build(logs, tmp_path / "report", workers=1)
    assert (tmp_path / "report" / "index.html").exists()
