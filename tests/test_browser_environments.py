"""Reports of several environments and endings: their table, charts, filter of lists."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import rlreport
from tests.browser import listed, until, visiting
from tests.reading import row, write

pytestmark = pytest.mark.untraced
NAMES = ("math", "math_hard", "code")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environments")
    rng = np.random.default_rng(1)
    rows = []
    for step in range(20):
        for i, name in enumerate(NAMES):
            for k in range(6):
                reward = 0.3 * i + 0.02 * step + 0.1 * rng.normal()
                text = " ".join(["word"] * (5 + i + k))
                rows.append({"step": step, "prompt": f"{name} {k}", "response": text})
                rows[-1] |= {"reward": round(reward, 4), "data_source": name}
    rlreport.build(write(folder / "run.jsonl", rows), folder / "report", quiet=True)
    return folder / "report"


def test_the_table_of_environments_leads_to_their_responses_alone(browser, report):
    with visiting(browser, report / "index.html") as page:
        table = page.locator('section[data-table="environments"]')
        assert table.locator("tbody tr").count() == 3
        cells = table.locator("tbody tr").first.locator("td").all_inner_texts()
        assert cells[:2] == ["code", "33.3%"]
        assert cells[-1] == "–"  # no ends are logged
        assert 0.55 < float(cells[3]) < float(cells[5]) < 1.1
        table.get_by_role("link", name="math", exact=True).click()
        select = page.get_by_role("combobox", name="data_source")
        until(page, "document.querySelectorAll('.responses .count').length > 0")
        assert select.input_value() == "math"  # and not those of math_hard
        assert page.inner_text(".responses .count") == "120 of 360"
        select.select_option(label="code")
        assert page.inner_text(".responses .count") == "120 of 360"
        assert page.url.endswith("data_source=code")
        select.select_option(label="All environments")
        assert page.inner_text(".responses .count") == "360 of 360"
    with visiting(browser, report / "steps" / "3.html") as page:
        page.get_by_role("combobox", name="data_source").select_option(label="math")
        assert len(listed(page)) == 6


def test_a_long_name_of_an_environment_does_not_widen_a_phones_page(browser, tmp_path):
    names = ("short", "a_very_long_name_of_an_environment " * 3)
    rows = [
        row(step=step, prompt=f"p{p}", reward=float(p), data_source=name)
        for step, p, name in product(range(3), range(4), names)
    ]
    rlreport.build(write(tmp_path / "run.jsonl", rows), tmp_path / "out", quiet=True)
    phone = {"width": 390, "height": 900}
    with visiting(browser, tmp_path / "out/responses.html", viewport=phone) as page:
        page.get_by_role("combobox", name="data_source").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_charts_of_environments_are_shown(browser, report):
    with visiting(browser, report / "index.html") as page:
        parts = page.locator('figure[data-chart="reward_environments"]')
        assert parts.is_visible()
        assert {"math", "math_hard", "code"} <= set(
            parts.locator("svg text").all_text_contents()
        )
    for name in ("reward", "length"):
        spec = json.loads(
            (report / f"data/charts/{name}_environments.vl.json").read_text()
        )
        assert len({row["series"] for row in spec["data"]["values"]}) == 3


def test_lists_are_filtered_by_how_responses_ended(browser, tmp_path):
    reasons = ["stop", "max_turns", "aborted", "length"]
    rows = []
    for step, k in product(range(6), range(4)):
        fields = {"finish_reason": reasons[k], "advantage": k - 1.5}
        words = "word " * (k + 2)
        rows.append(row(step, prompt="Count.", response=words, reward=k / 4, **fields))
    log = write(tmp_path / "run.jsonl", rows)
    rlreport.build(log, tmp_path / "report", quiet=True)
    with visiting(browser, tmp_path / "report" / "responses.html") as page:
        ending = page.get_by_role("combobox", name="How it ended")
        ending.select_option(label="at the turn limit")
        assert page.inner_text(".responses .count") == "6 of 24"
        ending.select_option(label="All endings")
        assert page.inner_text(".responses .count") == "24 of 24"
    with visiting(browser, tmp_path / "report" / "steps" / "3.html", "#r=1") as page:
        note = "mean 0.375, population std 0.280; advantage −0.500, as logged"
        assert page.inner_text(".group .note") == note
