"""The one file in a browser: its views, and all that the pages of the folder form can do."""

import inspect
from pathlib import Path
from types import ModuleType

import pytest

import rlreport
from tests import test_browser_list, test_browser_response
from tests.browser import until, visiting
from tests.pages import Made, write_step

pytestmark = pytest.mark.untraced


def in_one_file(module: ModuleType, made: Made) -> type:
    """The tests of a folder page as a class whose pages are views of one file."""

    # It becomes a method below.
    @pytest.fixture(scope="class")  # type: ignore[misc]
    @classmethod
    def step(cls, tmp_path_factory):
        return write_step(tmp_path_factory.mktemp("one_file"), made, "report.html")

    @pytest.fixture
    def page(self, browser, step):
        with visiting(
            browser, step.parents[2] / "report.html", "#/steps/100"
        ) as opened:
            opened.wait_for_selector(".page.step")
            yield opened

    given = {"page", "step", "subtests"}
    tests = {}
    for name, test in vars(module).items():
        if not name.startswith("test_"):
            continue
        used = set(inspect.signature(test).parameters)
        if "page" in used and used <= given:
            tests[name] = staticmethod(test)
    inside = {**tests, "step": step, "page": page}
    return type(module.__name__, (), {**inside, "pytestmark": pytest.mark.ci})


TestList = in_one_file(test_browser_list, Made(responses=37, tokens=20))
TestResponse = in_one_file(test_browser_response, Made(with_tokens=3))


@pytest.fixture(scope="module")
def report(shared_data, tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "run.html"
    logs = shared_data / "ppo_reward_hacking"
    return Path(rlreport.build(logs, out, max_size=2_500_000, workers=1).out)


def test_back_and_forward_go_through_views_and_find_the_place_again(browser, report):
    with visiting(browser, report) as page:
        # Charts that come to life may still move the page: what counts is where the press met it.
        page.evaluate(
            "addEventListener('click', () => { window.left = scrollY; }, { once: true })"
        )
        page.click('[data-table="steps"] tr[data-n="49"] a')
        page.wait_for_selector(".page.step")
        assert page.title().startswith("Step 49")
        assert page.evaluate("scrollY") == 0
        page.go_back()
        page.wait_for_selector(".page.overview")
        assert page.evaluate("left") > 0
        assert page.evaluate("scrollY === left")
        page.go_forward()
        page.wait_for_selector(".page.step")
        page.reload()
        page.wait_for_selector(".page.step")
        assert page.title().startswith("Step 49")


def test_every_link_leads_to_a_view_and_the_overview_comes_back_as_it_was(
    browser, report
):
    parts = ".list button, .list input"
    with visiting(browser, report) as page:
        addresses = page.eval_on_selector_all(
            "main a", "links => links.map(a => a.hash ?? a.href.baseVal)"
        )
        carried = page.eval_on_selector_all(
            "script.view", "all => all.map(v => v.dataset.view)"
        )
        assert len(addresses) > 20
        # Charts and findings of the overview itself, which is shown
        here = page.eval_on_selector_all("main [id]", "all => all.map(x => '#' + x.id)")
        away = [address for address in addresses if address not in here]
        linked = {address.removeprefix("#/").split("?")[0] for address in away}
        assert linked <= {*carried, ""}
        before = page.locator(parts).count()
        for view in ("prompts", "texts", "data"):
            page.click(f'header nav a[href="#/{view}"]')
            page.wait_for_selector(f".page[data-kind={view}]")
            link = page.locator(f'header nav a[href="#/{view}"]')
            assert link.get_attribute("aria-current") == "page"
            assert page.evaluate("document.activeElement.id") == "main"
            page.go_back()
            page.wait_for_selector(".page.overview")
        assert page.locator(parts).count() == before


def test_keys_and_theme_reach_every_view_and_charts_live(browser, report):
    with visiting(browser, report) as page:
        page.wait_for_selector('figure[data-chart="reward"][data-live="true"]')
        page.evaluate("location.hash = '#/steps/59'")
        page.wait_for_selector('.page.step figure[data-live="true"]')
        page.keyboard.press("[")
        until(page, "!location.hash.endsWith('/59')")
        page.click(".site-tools .theme")
        assert page.get_attribute("html", "data-theme") == "light"
        page.keyboard.press("?")
        page.wait_for_selector("dialog.keys")


def test_an_address_of_nothing_says_so(browser, report):
    with visiting(browser, report, "#/steps/7<b>") as page:
        text = page.inner_text("main").replace("%3Cb%3E", "<b>")
        assert "no page “steps/7<b>”" in text
        page.click("main a")
        page.wait_for_selector(".page.overview")


def test_without_scripts_the_overview_still_reads(browser, report, subtests):
    parts = (".verdict", ".finding", "figure svg", '[data-table="steps"] tr + tr')
    with visiting(browser, report, java_script_enabled=False) as page:
        for part in parts:
            with subtests.test(part):
                assert page.locator(part).first.is_visible()
        text = page.locator('[data-table="extremes"] td.text').first
        assert text.inner_text().strip()
        assert "need scripts" in page.inner_text("noscript")
