"""A comparison in a browser: the folder and the one file, the panel, without scripts."""

import pytest

import rlreport
from tests.browser import serious, visiting
from tests.test_compare import write_run

pytestmark = pytest.mark.untraced


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("compared")
    base = write_run(root / "main")
    new = write_run(root / "lost", seed=2, drop=0.4)
    for name in ("folder", "one.html"):
        rlreport.compare(base, new, root / name)
    return root


@pytest.mark.parametrize(
    ("page", "scheme"),
    [("folder/compare.html", "light"), ("folder/compare.html", "dark"), ("one.html", "light")],
)
def test_a_row_opens_both_responses_with_their_differences(browser, made, page, scheme):
    with visiting(browser, made / page, color_scheme=scheme) as opened:
        assert not serious(opened)
        opened.click('.responses tr[data-n="1"] td[data-key="response"]')
        assert opened.text_content(".response h2") == "Prompt 1"
        titles = opened.locator(".response .texts summary").all_text_contents()
        assert titles == ["Prompt", "NEW's response", "BASE's response"]
        opened.click("text=Mark differences to BASE")
        assert opened.locator('.response [data-text="response"] ins').count()
        assert opened.locator('.response [data-text="ref_response"] del').count()


def test_the_folder_opens_at_its_index(browser, made):
    context = browser.new_context()
    index = context.new_page()
    index.goto((made / "folder" / "index.html").as_uri())
    index.wait_for_url("**/compare.html")
    context.close()


def test_without_scripts_and_on_a_phone_it_reads_whole(browser, made):
    size = {"width": 390, "height": 844}
    page = made / "folder" / "compare.html"
    with visiting(browser, page, viewport=size, java_script_enabled=False) as opened:
        assert "Lower in this pair" in (opened.text_content(".verdict .sentence") or "")
        assert opened.locator(".charts svg").count() == 2
        assert opened.locator(".responses tbody tr").count() > 10
        assert opened.evaluate("document.documentElement.scrollWidth") <= 390
