"""The first word of a verdict is the same wherever a run's level is shown."""

from __future__ import annotations

import email
import email.policy
import json
import random as dice
from pathlib import Path

import pytest
from click.testing import CliRunner

import rlreport
from rlreport.cli import main
from tests.schemas import validate
from tests.test_compare import comparison_json, write_graded

FORMS = ("folder", "one.html", "run.md", "run.eml")


@pytest.fixture(scope="module")
def unclear(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose reward stays where it was, in every form, and its logs."""
    root = tmp_path_factory.mktemp("unclear")
    random = dice.Random(3)
    write_graded(root / "logs", reward=lambda *_: random.gauss())
    for form in FORMS:
        to = ["a@example.org"] if form.endswith(".eml") else []
        rlreport.build(root / "logs", root / form, workers=1, to=to)
    return root


def test_an_unclear_run_has_no_lead_a_valid_report_and_says_so_in_every_form(unclear: Path) -> None:
    page = (unclear / "folder" / "index.html").read_text()
    found = json.loads((unclear / "folder" / "data" / "findings.json").read_text())
    validate(found, "findings")
    validate(json.loads((unclear / "folder" / "data" / "report.json").read_text()), "report")
    verdict = found["verdict"]
    assert (verdict["level"], verdict["lead"], verdict["keep_step"]) == ("unclear", None, None)
    stalled = {finding["id"]: finding for finding in found["findings"]}["reward_stalled"]
    assert (stalled["severity"], stalled["series_from"]) == ("info", "rollouts")
    assert verdict["sentence"].startswith("Unclear: the reward ")
    assert '<section class="verdict unclear"' in page
    assert f'<span class="glyph" aria-hidden="true">?</span> {verdict["sentence"]}' in page
    assert "Unclear: " in (unclear / "one.html").read_text()
    assert "**Unclear: " in (unclear / "run.md").read_text()
    mail = email.message_from_bytes((unclear / "run.eml").read_bytes(), policy=email.policy.default)
    assert "Unclear: no clear learning" in mail["subject"]
    body = mail.get_body(("html",))
    assert body is not None and 'class="sentence unclear"' in body.get_content()
    assert f">{verdict['sentence']}" in body.get_content()


def test_fail_on_counts_nothing_for_an_unclear_run(unclear: Path) -> None:
    given = ["check", str(unclear / "logs"), "--fail-on", "warning"]
    result = CliRunner().invoke(main, given)
    assert (result.exit_code, "\nUnclear: " in result.output) == (0, True)


def test_the_index_and_a_comparison_name_the_level_of_each_run(unclear, tmp_path):
    rlreport.index(unclear, tmp_path / "index.html")
    assert (tmp_path / "index.html").read_text().count("? Unclear") == 2
    for base in ("logs", "folder"):
        made = rlreport.compare(unclear / base, unclear / "one.html", tmp_path / "out")
        page = (tmp_path / "out" / "compare.html").read_text()
        assert page.count('aria-hidden="true">?</span> Unclear</span>') == 2
        assert "Unclear" not in made.sentence
        assert comparison_json(tmp_path / "out")["levels"] == {
            "base": ["unclear"],
            "new": "unclear",
        }
