"""No cell of our CSV files is a formula in a spreadsheet, and every value can be read back."""

from __future__ import annotations

import csv as reader
import io

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from rlreport.pages.data import csv

BEGINS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def cells(table: pd.DataFrame) -> list[list[str]]:
    return list(reader.reader(io.StringIO(csv(table).decode(), newline="")))


def number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_a_formula_is_text_and_a_number_stays_a_number():
    table = pd.DataFrame(
        {
            "token": ['=HYPERLINK("http://x")', "+1+cmd|' /C calc'!A0", "@SUM(A1)", "-x", "-1.5"],
            "logp": [-1.5, np.nan, -2.0, -1e-9, 3.0],
        }
    )
    _, *rows = cells(table)
    tokens = [row[0] for row in rows]
    assert tokens[:4] == [f"'{text}" for text in table["token"][:4]]
    assert tokens[4] == "-1.5"
    assert [row[1] for row in rows] == ["-1.5", "", "-2.0", "-1e-09", "3.0"]


@given(st.lists(st.text() | st.sampled_from(BEGINS).flatmap(lambda c: st.text().map(c.__add__))))
def test_no_text_begins_a_formula(texts):
    clean = [text.replace("\0", "").encode("utf-8", "replace").decode() for text in texts]
    _, *rows = cells(
        pd.DataFrame({"n": range(len(clean)), "token": pd.Series(clean, dtype=object)})
    )
    for (_, cell), text in zip(rows, clean, strict=True):
        assert not cell.startswith(BEGINS) or number(cell)
        assert cell in (text, f"'{text}")
