"""``compare --redact`` leaves out logged texts, those that name environments, too."""

import json
from itertools import product

import pytest

import rlreport
from tests.forms import FORMS, everything
from tests.reading import row, write

ENVIRONMENTS = ("mathsqzxwv", "codeqzxwv")


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """Two runs on two environments, of which NEW lost one."""
    root = tmp_path_factory.mktemp("runs")
    for name, lost in (("base", 0), ("new", 1)):
        rows = [
            row(
                step,
                prompt=f"askqzxwv {prompt}",
                response=f"sayqzxwv {n}",
                reward=float((prompt + n) % 4 > lost * (prompt % 2)),
                n=n,
                data_source=ENVIRONMENTS[prompt % 2],
            )
            for step, prompt, n in product(range(4), range(16), range(4))
        ]
        write(root / name / "log.jsonl", rows)
    return root / "base", root / "new"


@pytest.mark.parametrize("form", FORMS)
def test_no_text_of_the_logs_is_in_any_form_of_a_comparison(sides, form, tmp_path):
    out = tmp_path / f"out{FORMS[form]}"
    base, new = sides
    rlreport.compare(base, new, out, redact=True)
    assert b"qzxwv" not in everything(out)


def test_environments_are_numbered_as_build_numbers_texts(sides, tmp_path):
    base, new = sides
    found = {}
    for redact in (False, True):
        rlreport.compare(base, new, tmp_path / "out", redact=redact)
        document = json.loads((tmp_path / "out/data/compare.json").read_text())
        found[redact] = document["tasks"]["environments"]
    assert [task["name"] for task in found[False]] == sorted(ENVIRONMENTS)
    page = (tmp_path / "out/compare.html").read_text()
    for number, task in enumerate(found[True], 1):
        assert task.pop("name") == f"[text {number}, at most 10 characters]"
        assert f"[text {number}, at most 10 characters]" in page
    for task in found[False]:
        del task["name"]
    assert found[True] == found[False]
