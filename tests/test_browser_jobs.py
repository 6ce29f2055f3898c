"""The jobs of a reader: from the opened overview to the answer, with each action counted.

An action is a click, a text typed, or a key pressed. ``MOST`` has the maximum of each job; no job
may need more than four, and most need none or one, as the overview answers them.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page

from tests.browser import visiting

pytestmark = pytest.mark.untraced

LONGEST_WAY = 4


class Reader:
    """A reader who has opened the overview, and counts what they do."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.actions = 0

    def click(self, what: str | Locator) -> None:
        self.actions += 1
        place = self.page.locator(what).first if isinstance(what, str) else what
        place.click()

    def write(self, where: str, text: str) -> None:
        self.actions += 1
        self.page.fill(where, text)

    def reads(self, where: str, *words: str) -> None:
        """The words are visible in a part of the page."""
        part = self.page.locator(where).first
        part.wait_for()
        text = " ".join(part.inner_text().split())
        for word in words:
            assert word in text, (word, text)


def is_it_learning(reader: Reader) -> None:
    reader.reads(".verdict", "Broken", "The reward rose from")


def since_when_is_it_broken(reader: Reader) -> None:
    reader.reads(".verdict .sentence", "since about step")
    reader.reads(".moved", "onset")


def why(reader: Reader) -> None:
    reader.reads(".verdict .sentence", "appears in 98% of responses")
    reader.reads(".verdict .shown", "before", "after", "step 58, response 1")


def which_checkpoint_to_keep(reader: Reader) -> None:
    reader.reads(".verdict .next", "checkpoint")


def how_one_prompt_was_answered_over_time(reader: Reader) -> None:
    reader.reads("section.film", "reward")
    assert reader.page.locator("section.film svg a").count() >= 4


def the_three_worst_responses(reader: Reader) -> None:
    reader.click("nav >> text=Responses")
    reader.click("button:has-text('Worst')")
    reader.reads(".responses tbody", "reward hacking")
    assert reader.page.locator(".responses tbody tr[data-n]").count() == 3


def what_spreads(reader: Reader) -> None:
    reader.click("nav >> text=Texts")
    reader.reads("[data-table=ngrams] tbody", "🎉")


def where_tokens_go_wrong(reader: Reader) -> None:
    reader.click(".verdict .shown >> text=step 58, response 1")
    reader.page.wait_for_selector(".token-text .t")
    reader.reads(".token-view", "Log-ratio")


def a_token_for_a_colleague(reader: Reader) -> None:
    reader.click(".verdict .shown >> text=step 58, response 1")
    reader.page.wait_for_selector(".token-text .t")
    reader.click(reader.page.locator(".token-text .t").nth(5))
    reader.click(".site-tools button:has-text('Link')")
    reader.reads(".site-tools .sheet", "step 58, response 1", "token 5", "rank_")


def a_chart_for_a_paper(reader: Reader) -> None:
    reader.page.locator(".chart .chart-menu button").first.wait_for()
    reader.click(".chart .chart-menu button")
    with reader.page.expect_download() as found:
        reader.click(".chart .chart-menu .sheet button:text-is('SVG')")
    picture = Path(found.value.path()).read_text("utf-8")
    assert 'width="170mm"' in picture or 'width="85mm"' in picture


def what_this_kl_is(reader: Reader) -> None:
    reader.click(".figures [data-opens=kl_k1_mean]")
    reader.reads("[popover]:popover-open", "KL", "logp")


def one_string_in_answers_only(reader: Reader) -> None:
    reader.click("nav >> text=Responses")
    reader.write("input[type=search]", "response:rinse")
    reader.page.wait_for_selector(".count:has-text(' of 1,440')")
    reader.reads(".responses tbody", "rinse")


MOST: dict[Callable[[Reader], None], int] = {
    is_it_learning: 0,
    since_when_is_it_broken: 0,
    why: 0,
    which_checkpoint_to_keep: 0,
    how_one_prompt_was_answered_over_time: 0,
    what_spreads: 1,
    where_tokens_go_wrong: 1,
    what_this_kl_is: 1,
    the_three_worst_responses: 2,
    one_string_in_answers_only: 2,
    a_chart_for_a_paper: 2,
    a_token_for_a_colleague: 3,
}


@pytest.mark.parametrize("job", MOST, ids=lambda job: job.__name__)
@pytest.mark.parametrize("form", ["folder", "one file"])
def test_a_reader_needs_few_actions(
    browser: Browser,
    sample: dict[str, Path],
    job: Callable[[Reader], None],
    form: str,
) -> None:
    viewport = {"width": 1400, "height": 900}
    with visiting(browser, sample[form], viewport=viewport) as page:
        reader = Reader(page)
        job(reader)
        assert reader.actions <= MOST[job] <= LONGEST_WAY


def test_seven_jobs_or_more_need_one_action_at_most() -> None:
    assert sum(most <= 1 for most in MOST.values()) >= 7


@pytest.fixture(scope="module")
def sample(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """The sample run whose reward is hacked, as a folder and as one file."""
    from rlreport import build

    logs = Path(__file__).parents[1] / "sample_logs" / "reward_hacking"
    folder = tmp_path_factory.mktemp("jobs")
    build(logs, folder / "report", workers=1)
    build(logs, folder / "report.html", workers=1)
    return {
        "folder": folder / "report" / "index.html",
        "one file": folder / "report.html",
    }
