"""Documentation that is made from the code is current."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlreport.bake.overview import STEPS_SHOWN
from rlreport.bake.views import TILES
from rlreport.columns import RESPONSE_COLUMNS, STEP
from rlreport.formats import formats
from tests.format_table import PAGE, capabilities, evidence, page
from tools.docs import columns_page, commands_page, data_page, log_format_page

DOCS = Path(__file__).resolve().parents[1] / "docs"
RENEW = "python -m tools.docs"


def test_the_pages_of_columns_and_of_the_command_line_are_current():
    assert (DOCS / "command-line.md").read_text("utf-8") == commands_page(), RENEW
    assert (DOCS / "columns.md").read_text("utf-8") == columns_page(), RENEW


def test_the_table_of_fields_is_current():
    page = (DOCS / "log-format.md").read_text("utf-8")
    assert page == log_format_page(page), RENEW


def test_the_tables_of_documents_are_current():
    page = (DOCS / "data.md").read_text("utf-8")
    assert page == data_page(page), RENEW
    assert page.count("| key | what |") == 3


def test_what_a_page_shows_of_a_column_is_said():
    shown = [STEP[name] for name in (*TILES, *STEPS_SHOWN)]
    shown += [column for column in RESPONSE_COLUMNS if column.listed]
    assert all(column.label and column.help for column in shown)


def test_no_two_columns_of_a_list_look_alike():
    for columns in ([STEP[name] for name in STEPS_SHOWN], RESPONSE_COLUMNS):
        titles = [column.title for column in columns if column.label]
        assert len(titles) == len(set(titles))


def test_the_tables_of_formats_are_current():
    assert PAGE.read_text() == page(), "python -m tests.format_table"


@pytest.mark.parametrize("identity", list(formats()))
def test_each_format_gives_what_its_row_says(identity, found):
    rows = found[identity]
    assert rows, f"no dump of {identity} in tests/data/frameworks or tests/format_logs.py"
    row = " | ".join([f"`{identity}`", *capabilities(rows).values()])
    assert f"| {row} |" in PAGE.read_text()


@pytest.fixture(scope="module")
def found():
    return evidence()
