"""Documentation that is made from the code is current."""

from pathlib import Path

import pytest

from rlreport.columns import RESPONSE_COLUMNS, STEP
from rlreport.formats import formats
from rlreport.pages.overview import STEPS_SHOWN
from rlreport.pages.views import TILES
from tests.format_table import PAGE, capabilities, evidence, page
from tools.docs import columns_page, commands_page, data_page, log_format_page

DOCS = Path(__file__).resolve().parents[1] / "docs"
RENEW = "python -m tools.docs"


def test_pages_and_tables_made_from_the_code_are_current():
    fields, data = ((DOCS / name).read_text("utf-8") for name in ("log-format.md", "data.md"))
    assert (DOCS / "command-line.md").read_text("utf-8") == commands_page(), RENEW
    assert (DOCS / "columns.md").read_text("utf-8") == columns_page(), RENEW
    assert fields == log_format_page(fields), RENEW
    assert data == data_page(data), RENEW
    assert data.count("| key | what |") == 3
    assert PAGE.read_text() == page(), "python -m tests.format_table"


def test_shown_columns_are_named_and_no_two_of_a_list_look_alike():
    shown = [STEP[name] for name in (*TILES, *STEPS_SHOWN)]
    shown += [column for column in RESPONSE_COLUMNS if column.listed]
    assert all(column.label and column.help for column in shown)
    for columns in ([STEP[name] for name in STEPS_SHOWN], RESPONSE_COLUMNS):
        titles = [column.title for column in columns if column.label]
        assert len(titles) == len(set(titles))


@pytest.mark.parametrize("identity", list(formats()))
def test_each_format_gives_what_its_row_says(identity, found):
    rows = found[identity]
    assert rows, f"no dump of {identity} in tests/data/frameworks or tests/data/runs/written"
    row = " | ".join([f"`{identity}`", *capabilities(rows).values()])
    assert f"| {row} |" in PAGE.read_text()


@pytest.fixture(scope="module")
def found():
    return evidence()
