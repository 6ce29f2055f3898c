"""What scripts say, in another language: of every page with all that opens opened."""

import pytest
from playwright.sync_api import Page

import rlreport
from tests import pseudo
from tests.browser import visiting
from tests.test_languages import NAMES

SEEN = """() => {
  const heard = ["title", "aria-label", "placeholder", "label", "aria-valuetext", "data-words"];
  const found = [document.title];
  const skipped = "script, style, code, pre, kbd, q, noscript, .vega-embed, .tip .raw";
  for (const node of document.querySelectorAll("*")) {
    if (node.closest("script, style, noscript, .vega-embed")) continue;
    for (const name of heard) if (node.getAttribute(name)) found.push(node.getAttribute(name));
  }
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let open = 0;
  while (walk.nextNode()) {
    const text = walk.currentNode.data.split(/\\s+/).join(" ").trim();
    const unseen = walk.currentNode.parentElement.closest(skipped);
    if (!text || (unseen && !open)) continue;
    if (open) found[found.length - 1] += " " + text;
    else found.push(text);
    if (!unseen) open += (text.match(/⟦/g) ?? []).length - (text.match(/⟧/g) ?? []).length;
  }
  return found;
}"""

KEYS = {"Finish", "Key", "Escape", "Shift", "PNG", "SVG", "CSV", "Vega", "Lite", "jsonl"}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report in the language of the tests."""
    folder = tmp_path_factory.mktemp("pseudo")
    with pytest.MonkeyPatch.context() as patch:
        pseudo.speak(folder, patch)
        rlreport.build(
            pseudo.log(folder / "run"), folder / "report", lang=pseudo.CODE, title="ω", workers=1
        )
    return folder / "report"


def opened(page: Page) -> None:
    """Open all that is folded, and every menu."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    page.wait_for_timeout(300)


def with_keys(page: Page) -> None:
    """Open all, and the list of keys."""
    opened(page)
    page.keyboard.press("?")


def with_token(page: Page) -> None:
    """Open the response's tokens: the box of figures of one, and a line for each metric."""
    page.wait_for_selector(".token-text .t")
    page.locator(".token-tools input[type=checkbox]").last.check()
    page.keyboard.press("w")
    with_keys(page)


def filtered(page: Page) -> None:
    """Filter so that nothing is left, and sort."""
    page.fill("input[type=search]", "ψψψ")
    opened(page)


@pytest.mark.parametrize(
    ("place", "act"),
    [
        ("index.html", with_keys),
        ("steps/2.html#r=1", with_token),
        ("steps/2.html#r=999", opened),
        ("responses.html", filtered),
        ("prompts.html", opened),
        ("tokens.html", opened),
        ("data.html", opened),
    ],
)
def test_scripts_say_nothing_in_english(browser, report, place, act):
    file, mark, address = place.partition("#")
    with visiting(browser, report / file, mark + address) as page:
        act(page)
        texts = page.evaluate(SEEN)
    left, glued = pseudo.untranslated(texts, NAMES | KEYS), pseudo.glued(texts)
    assert (left, glued) == ([], [])
