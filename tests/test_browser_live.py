"""Pages of ``--live`` show a newer report by themselves, and nothing else does."""

import rlreport
from tests.browser import until, visiting
from tests.reading import write
from tests.test_cache_pages import rows

RUN = "data/run.js"


def test_the_last_step_and_a_newer_report_come_from_the_script_of_the_run(
    tmp_path, browser
):
    log = write(tmp_path / "log.jsonl", rows(range(9)))
    rlreport.build(log, tmp_path / "out", workers=1)
    page_file = tmp_path / "out" / "steps" / "4.html"
    with visiting(browser, page_file) as page:
        page.click(".step-nav .last")
        page.wait_for_url("**/steps/8.html")
        page.wait_for_selector("html[data-ready]", state="attached")
        assert page.is_hidden(".step-nav .last")
    with visiting(browser, page_file, java_script_enabled=False) as page:
        assert page.is_hidden(".step-nav .last")
        page.click(".step-nav a:has-text('All steps')")
        assert page.url.endswith("index.html#steps")
    # A newer report is shown where the reader was.
    script = tmp_path / "out" / RUN
    plain = script.read_text()
    script.write_text(plain.replace("{", '{"live":1,"built":"one",', 1))
    with visiting(browser, page_file, "#sort=-reward&min.reward=-9") as page:
        page.evaluate("scrollTo(0, 700)")
        page.wait_for_timeout(1500)
        assert page.title().startswith("Step 4")
        place = page.evaluate("scrollY")
        assert place > 0
        page_file.write_text(page_file.read_text().replace("<h1>Step", "<h1>New step"))
        script.write_text(plain.replace("{", '{"live":1,"built":"two",', 1))
        page.wait_for_selector("h1:has-text('New step')", timeout=15000)
        page.wait_for_selector("html[data-ready]", state="attached")
        until(page, f"scrollY === {place}")
        assert page.url.endswith("#sort=-reward&min.reward=-9")
