"""The form of a text, told from its lines."""

from __future__ import annotations

import time

import pytest

from rlreport.text.tokens import STRUCTURES, structure_of


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("One line - with 1. everything # in it", set()),
        ("Two\nlines, no form", set()),
        ("So:\n- this\n- that", {"list"}),
        ("So:\n* this", set()),
        ("1. this\n2) that\n10. last", {"numbers"}),
        ("In 1990 it was\n1990 and not 1991", set()),
        ("## Overview\ntext\n## Details\ntext", {"headings"}),
        ("#one\n#two", set()),
        ("One.\n\nTwo.\n\nThree.", {"parts"}),
        ("One.\n\n\n\nTwo.\n\n", set()),
        ("# A\n\n- x\n- y\n\n# B", {"headings", "list", "parts"}),
    ],
)
def test_the_forms_of_a_text(text: str, forms: set[str]) -> None:
    bits = structure_of(text)
    assert {name for i, name in enumerate(STRUCTURES) if bits >> i & 1} == forms


@pytest.mark.timed
def test_long_runs_of_blanks_and_marks_take_no_time() -> None:
    start = time.process_time()
    for hostile in (
        "a" + "\n" * 200_000,
        " \n\t" * 100_000,
        "- " * 100_000 + "\n",
        "a\n" + " " * 300_000,
    ):
        structure_of(hostile)
    assert time.process_time() - start < 1
