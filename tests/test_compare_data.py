"""Response data in reports: exact numbers, and texts that are neither formulas nor numbers."""

import csv
import gzip
import io
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rlreport
from rlreport.comparison.data_file import pack_table, unpacked
from rlreport.errors import UnusableInputError
from rlreport.text.clean import number_as_text
from tests.reading import tokens, write
from tests.test_compare import compared, write_graded
from tests.test_page_data import BEGINS, OBEYED, number

IDS = [
    "0007",
    "007",
    "7",
    "1.10",
    "1.1",
    "1e5",
    "100000",
    "+5",
    "5",
    "true",
    "nan",
    "x",
    "17",
]
"""Texts, most of which are some number: no two of them are one id."""

FORMULAS = [
    "=HYPERLINK(1)",
    "'=HYPERLINK(1)",
    "+1+1",
    "'+1+1",
    "''",
    "'0007",
    "@x",
    "＝x",
    "-",
]


def table_of(values: object) -> pd.DataFrame:
    """Response data with one further field."""
    table = pd.DataFrame({"extra:field": values})
    table[["step", "prompt_id", "reward"]] = 0
    return table.assign(n=range(len(table)), split="train")[
        ["step", "n", "split", "prompt_id", "reward", "extra:field"]
    ]


def test_two_rows_of_one_response_are_a_broken_report():
    table = table_of([1.0, 2.0]).assign(n=0)
    data, _ = pack_table(table, 10**6)
    with pytest.raises(UnusableInputError, match="build the report again"):
        unpacked(data, "report")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_numbers_are_read_back_exactly(values):
    data, _ = pack_table(table_of(np.array(values)), 1 << 30)
    assert unpacked(data, "run")["extra:field"].tolist() == values


@given(st.lists(st.text(min_size=1) | st.sampled_from(IDS + FORMULAS), min_size=1))
def test_texts_are_read_back_as_they_were_and_begin_no_formula(texts):
    valid = [text.encode("utf-8", "replace").decode() for text in texts]
    clean = [text.replace("\0", "-") for text in valid]
    data = pack_table(table_of(pd.Series(clean, dtype=object)), 1 << 30)[0]
    _, *rows = csv.reader(io.StringIO(gzip.decompress(data).decode(), newline=""))
    assert all(not row[-1].startswith(BEGINS) or number(row[-1]) for row in rows)
    found = unpacked(data, "run")["extra:field"].tolist()
    # A column of nothing but numbers comes back as numbers, each written as the text was.
    assert [
        number_as_text(x) if isinstance(x, float) else str(x) for x in found
    ] == clean


def test_no_exported_table_has_a_character_that_a_terminal_obeys(tmp_path):
    clear = "\x1b[2J\x9b1m\rover"
    rows = [
        {
            **tokens(clear, "b", step=step, prompt=clear),
            f"name{clear}": n,
            "task": f"{n}{clear}",
        }
        for step, n in product(range(3), range(4))
    ]
    log = write(tmp_path / "run" / "log.jsonl", rows)
    metrics = [{"step": step, f"loss{clear}": 0.5} for step in range(3)]
    write(tmp_path / "run" / "metrics.jsonl", metrics)
    rlreport.build(log.parent, tmp_path / "report", workers=1)
    found = {
        path.name: path.read_bytes()
        for path in (tmp_path / "report/data").glob("*.csv*")
    }
    assert {"prompts.csv", "tokens.csv", "metrics.csv", "responses.csv.gz"} <= set(
        found
    )
    found["responses.csv.gz"] = gzip.decompress(found["responses.csv.gz"])
    for name, content in found.items():
        assert not OBEYED.search(content.decode()), name
        if name != "steps.csv":
            assert r"\x1b[2J" in content.decode(), name
    # The report has the ids of its run.
    same = compared(log, tmp_path / "report", pair_by="task")[0]["verdict"]
    assert (same["pairs"], same["only_base"]) == (4, 0)


def test_ids_that_look_like_numbers_are_paired_as_texts(tmp_path):
    mixed = [f"x{i}" if i % 2 else 12_345_670 + i for i in range(len(IDS))]
    ids = zip(IDS, mixed, strict=True)
    # Six digits would leave one of the large ids, and more than these no float holds.
    fields = [
        {"task": text, "group_id": text, "mixed": other, "large": 2**53 - i}
        for i, (text, other) in enumerate(ids)
    ]
    run = write_graded(tmp_path / "run", fields=fields, each=1)
    rlreport.build(run, tmp_path / "report.html", workers=1)
    for field in ("task", "group", "mixed", "large"):
        found = compared(run, tmp_path / "report.html", pair_by=field)[0]["verdict"]
        assert (found["pairs"], found["only_base"], found["only_new"]) == (
            len(IDS),
            0,
            0,
        ), field
