"""The page of texts that spread: how far at the end, and where to read them."""

import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

import rlreport
from rlreport.pages.texts import searchable
from tests.browser import until, visiting
from tests.reading import row, write

STEPS = 40
EACH = 24


def share_of(step: int, word: str) -> int:
    """Return how many of the EACH responses of a step contain a word."""
    if word == "party":  # spreads and stays
        return 0 if step < 15 else 20
    if word == "hurray":  # spreads, and dies out in the last steps
        return 18 if 10 <= step < 37 else int(step >= 37)
    return 12


def rows() -> list[dict[str, object]]:
    made = []
    for step in range(STEPS):
        for n in range(EACH):
            words = [f"answer {(n * 7 + step) % 19}"]
            if n < share_of(step, "party"):
                words.append("it was a party")
            if n >= EACH - share_of(step, "hurray"):
                words.append("hurray & <b>more</b>")
            made.append(
                row(
                    step,
                    prompt=f"p{n % 6}",
                    response=". ".join(words),
                    reward=n % 5 / 4,
                )
            )
    return made


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    rlreport.build(write(folder / "log.jsonl", rows()), folder / "out")
    return folder / "out"


def table_of(report: Path) -> dict[str, dict[str, str]]:
    """Return text -> its cells by column, of the table of texts that spread."""
    page = (report / "texts.html").read_text("utf-8")
    (section,) = re.findall(r'data-table="ngrams".*?</section>', page, re.DOTALL)
    keys = re.findall(r'<th [^>]*data-key="(\w+)"', section)
    found = {}
    for line in re.findall(r"<tr data-n.*?</tr>", section, re.DOTALL):
        cells = re.findall(r"<td.*?</td>", line, re.DOTALL)
        values = dict(zip(keys, cells, strict=True))
        (text,) = re.findall(r"<code[^>]*>(.*?)</code>", values["ngram"])
        found[unescape(text)] = values
    return found


def exact(cell: str) -> float:
    return float(re.findall(r'title="([^"]*)"', cell)[0].replace("−", "-"))


def steps_of(cell: str) -> range:
    text = re.sub("<[^>]*>", "", cell)
    low, *high = map(int, re.findall(r"\d+", text))
    return range(low, (high[0] if high else low) + 1)


def test_spread_is_measured_at_its_peak_and_where_it_ends(report):
    texts = table_of(report)
    for word in ("party", "hurray"):
        (cells,) = (cells for text, cells in texts.items() if word in text)
        for level in ("peak", "last"):
            steps = steps_of(cells[f"{level}_at"])
            mean = sum(share_of(step, word) / EACH for step in steps) / len(steps)
            assert exact(cells[level]) == pytest.approx(mean, abs=5e-4)
        assert exact(cells["first"]) == 0
        assert steps_of(cells["last_at"])[-1] == STEPS - 1


def test_texts_that_died_out_are_told_apart_and_come_last(report):
    texts = table_of(report)
    gone = ["died out" in cells["ngram"] for cells in texts.values()]
    assert gone == sorted(gone)
    died_out = [text for text, is_gone in zip(texts, gone, strict=True) if is_gone]
    assert died_out
    assert all("hurray" in text or "more" in text for text in died_out)
    page = (report / "texts.html").read_text("utf-8")
    assert f"{len(died_out)} of them died out before the end." in page


def test_a_text_leads_to_a_search_that_finds_the_responses_with_it(browser, report):
    (cells,) = (cells for text, cells in table_of(report).items() if "party" in text)
    (address,) = re.findall(r'href="([^"]*)"', cells["search"])
    wanted = searchable(unquote(re.findall("q=([^&]*)", address)[0]))
    assert any(wanted in searchable(str(one["response"])) for one in rows())
    page_name, _, state = unescape(address).partition("#")
    with visiting(browser, report / page_name, f"#{state}") as page:
        until(
            page, "document.querySelectorAll('.run-list tbody tr[data-n]').length > 0"
        )
        until(page, "document.querySelector('.list-tools input').value !== ''")
        texts = page.locator(
            '.run-list tbody td[data-key="response"]'
        ).all_inner_texts()
        assert texts
        assert all(wanted in searchable(text) for text in texts)


def test_the_chart_marks_the_onset_of_a_text(report):
    page = (report / "texts.html").read_text("utf-8")
    assert "rose at 15" in page or "rose at 10" in page


def test_without_tokens_the_page_says_once_what_logs_them(report):
    page = (report / "texts.html").read_text("utf-8")
    assert page.count("The log has no token strings") == 1
    assert "response_tokens=tokens, logprobs=logprobs" in page
    assert "data-table=" in page and page.count("data-table=") == 1


def test_redacted_texts_lead_to_no_search(tmp_path):
    log = write(tmp_path / "log.jsonl", rows())
    rlreport.build(log, tmp_path / "out", redact=True)
    texts = table_of(tmp_path / "out")
    assert texts
    assert all("href" not in cells["search"] for cells in texts.values())
    page = (tmp_path / "out" / "texts.html").read_text("utf-8")
    assert not re.search("party|hurray", page)
