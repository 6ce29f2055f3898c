"""How numbers are written."""

import math
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlreport.pages.data import note_in_words
from rlreport.pages.figures import change
from rlreport.pages.table import number_cell
from rlreport.pages.template_files import package_folder
from rlreport.tables import Note, NoteKind
from rlreport.text.numbers import MINUS, byte_size, exact, written
from tests.running import SEARCH


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (
            "number",
            {
                0.0: "0",
                1.23456: "1.23",
                -0.31415: "−0.314",
                12.345: "12.3",
                123.456: "123",
                1234.5: "1,235",
                10.25: "10.3",
                9.996: "10.0",
                0.00012345: "0.000123",
                0.000012345: "1.23e−5",
                -5e12: "−5.00e12",
                math.nan: "–",
                -math.inf: "−∞",
            },
        ),
        (
            "share",
            {
                0.0: "0%",
                1.0: "100%",
                0.9999: "100%",
                0.12: "12.0%",
                0.1234: "12.3%",
                -0.05: "−5.0%",
                -0.00123: "−0.123%",
                math.nan: "–",
            },
        ),
    ],
)
def test_three_significant_digits_and_no_whole_part_is_rounded_away(kind, texts):
    assert {value: written(value, kind) for value in texts} == texts


@given(st.floats(-1e8, 1e8, allow_nan=False))
def test_what_is_shown_is_within_half_a_unit_of_the_third_digit(value):
    shown = float(written(value).replace(MINUS, "-").replace(",", ""))
    assert shown == pytest.approx(value, rel=0.00501, abs=1e-300)


_HALVES = st.builds(
    lambda whole, places: whole / 2**places,
    st.integers(-(10**7), 10**7),
    st.integers(0, 14),
)
_DECIMALS = st.builds(
    lambda whole, places: whole / 10**places,
    st.integers(-(10**6), 10**6),
    st.integers(0, 12),
)


@pytest.fixture(scope="module")
def in_browser(browser):
    """Writes values with static/js/shared/format.js, as the list of a page does."""
    source = (package_folder("static") / "js/shared/format.js").read_text("utf-8")
    source = re.sub(
        r"^import .*$",
        "const marked = text => text, message = text => text;",
        source,
        flags=re.M,
    )
    opened = browser.new_page()

    def write(values):
        return opened.evaluate(
            "values => {"
            + source.replace("export ", "")
            + """;
            const kinds = ["number", "count", "share"];
            return values.map(Number).map(x => [...kinds.map(kind => written(x, kind)), exact(x)]);
            }""",
            [exact(value) if value == value else "NaN" for value in values],
        )

    yield write
    opened.close()


@settings(
    deadline=None,
    max_examples=6 * SEARCH,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.one_of(st.floats(), _HALVES, _DECIMALS),
        min_size=200,
        max_size=400,
    )
)
def test_the_browser_writes_numbers_as_python_does(in_browser, values):
    kinds: tuple[Any, ...] = ("number", "count", "share")
    expected = []
    for value in values:
        texts = [written(value, kind) for kind in kinds]
        expected.append([*texts, exact(value)])
    assert in_browser(values) == expected


def test_a_missing_number_says_why_and_has_no_change():
    missing = number_cell(math.nan, why_missing="no reference")
    assert (missing.text, missing.exact, missing.value) == ("–", "no reference", None)
    assert change(math.nan, 1.0, "step 0") is None


def test_the_exact_value_survives_and_bytes_are_decimal():
    shown = [byte_size(n) for n in (12, 2_500, 1_400_000, 10_000_000)]
    assert shown == ["12 bytes", "2.5 kB", "1.4 MB", "10 MB"]
    assert float(exact(0.1 + 0.2)) == 0.1 + 0.2
    assert exact(3.0) == "3"


@pytest.mark.parametrize(
    ("now", "before", "kind", "expected"),
    [
        (1.5, 1.0, "number", ("+0.500", "up")),
        (2.0, 2.0, "number", ("±0", "flat")),
        (0.1 + 0.2, 0.3, "number", ("±0", "flat")),  # which only rounding changes
        (0.3003, 0.3, "number", ("+0.000300", "up")),
        (0.25, 0.375, "share", ("−12.5 points", "down")),
        (0.101, 0.1, "share", ("+0.100 points", "up")),
    ],
)
def test_a_change_has_sign_and_direction(now, before, kind, expected):
    found = change(now, before, "step 0", kind)
    assert found is not None
    assert (found.delta.text, found.direction) == expected


def test_a_note_has_its_place_and_its_count():
    words = {
        Note(NoteKind.FORMAT, "odd", 1): "odd",
        Note(NoteKind.FORMAT, "odd", 1, "a.jsonl"): "odd (a.jsonl)",
        Note(NoteKind.FORMAT, "odd", 1, "a.jsonl", 1200): "odd (a.jsonl, line 1,200)",
        Note(
            NoteKind.FORMAT, "odd", 2, "a.jsonl", 3
        ): "odd (2 in total, first in a.jsonl, line 3)",
        Note(NoteKind.FORMAT, "odd", 2): "odd (2 in total)",
    }
    assert [note_in_words(note) for note in words] == list(words.values())
