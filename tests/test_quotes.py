"""Quotes in the author's notes: checked when the report is built, and marked in the response."""

import json
import re
import shutil
import subprocess
import time
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import mailparser
import pytest
from playwright.sync_api import ViewportSize

import rlreport
from rlreport.pages.author_notes import quotes_of, render_notes
from rlreport.pages.page import MOST_QUOTED, Addresses
from rlreport.pages.quotes import MOST_CHARS, Quote, holds_quote, linked_quotes
from tests.browser import serious, until, visiting
from tests.forms import FORMS, everything
from tests.hostile import MARK, STRINGS
from tests.reading import row, write
from tests.running import rlreport as command

ROOT = Path(__file__).resolve().parents[1]
TEXTS = {
    (0, 0): "The answer\n\nis  \\boxed{4}, as *shown* above.",
    (0, 1): "这家店真不错，我还会再来。🎉",
    (1, 0): f"x {'long ' * 400}and the needle is here" + " after" * 400,
    (1, 1): '<img src=x onerror="document.title=1"> & "quoted" text',
}
NOTES = """It says [“is \\boxed{4}, as *shown* above.”](response:0/0), but not
[“The answer is 5”](response:0/0). In Chinese response:0/1 「真不错，我还会再来」,
and response:1/0: "needle is here". It never was response:9/9 "there".
`response:0/0 "in code"`
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    rows = []
    for (step, n), text in TEXTS.items():
        tokens = re.findall(r"\s?\S+|\s", text) if (step, n) != (1, 0) else None
        assert tokens is None or "".join(tokens) == text
        one = row(step, prompt=f"p{n}", response=text, reward=float(n))
        if tokens:
            one["response_tokens"] = tokens
            one["logprobs"] = [-0.5] * len(tokens)
            one["ref_logprobs"] = [-0.4] * len(tokens)
        rows.append(one)
    return write(tmp_path_factory.mktemp("logs") / "log.jsonl", rows)


@pytest.fixture(scope="module")
def build(log, tmp_path_factory):
    def built(notes: str, form: str = "folder", **options) -> Path:
        folder = tmp_path_factory.mktemp("out")
        (folder / "mine.md").write_text(notes, "utf-8")
        out = folder / f"out{FORMS[form]}"
        rlreport.build(log, out, notes=folder / "mine.md", **options)
        return out

    return built


def section(page: str) -> str:
    (found,) = re.findall(
        r'<section class="author-notes".*?</section>', page, re.DOTALL
    )
    return str(found)


def told(html: str) -> list[str]:
    """Return what stands behind each quote."""
    return re.findall(r'<span class="cited[^"]*">(.*?)</span>', html)


EXPECTED = [
    "step 0, response 0 (checked)",
    "✕ step 0, response 0 (not found)",
    "step 0, response 1 (checked)",
    "step 1, response 0 (checked)",
    "✕ step 9, response 9 (no such response)",
]


def test_quotes_are_told_as_checked_or_as_broken(build):
    report = build(NOTES)
    notes = section((report / "index.html").read_text("utf-8"))
    assert told(notes) == EXPECTED
    links = re.findall(r'<a href="([^"]*)"[^>]*>(.*?)</a>', notes)
    assert [unquote(unescape(href)) for href, _ in links] == [
        "steps/0.html#r=0&quote=is \\boxed{4}, as *shown* above.",
        "steps/0.html#r=0",
        "steps/0.html#r=1&quote=真不错，我还会再来",
        "steps/1.html#r=0&quote=needle is here",
    ]
    # A quote is literal: nothing of it is Markdown.
    assert unescape(links[0][1]) == "“is \\boxed{4}, as *shown* above.”"
    assert "<code>response:0/0 &quot;in code&quot;</code>" in notes


def test_broken_quotes_are_listed_on_the_data_page_and_printed(log, tmp_path):
    (tmp_path / "mine.md").write_text(NOTES, "utf-8")
    notes = ("--notes", tmp_path / "mine.md")
    done = command("build", log, "-o", tmp_path / "out", *notes)
    assert done.returncode == 0
    warning = "quotes in the notes that are not in their responses: "
    names = "response:0/0 “The answer is 5”, response:9/9 “there”"
    assert f"warning: {warning}{names}" in done.stderr.replace("\n", " ")
    quiet = command("build", log, "-o", tmp_path / "out", *notes, "--quiet")
    assert (quiet.returncode, quiet.stderr) == (0, "")
    page = (tmp_path / "out" / "data.html").read_text("utf-8")
    assert f"{warning}{names}" in page


def test_notes_without_broken_quotes_are_no_warning(log, tmp_path):
    (tmp_path / "mine.md").write_text('response:0/0 "shown"', "utf-8")
    done = command(
        "build", log, "-o", tmp_path / "out", "--notes", tmp_path / "mine.md"
    )
    assert "quotes in the notes" not in done.stderr


def test_mail_and_markdown_say_whether_a_quote_was_checked(build):
    mail = mailparser.parse_from_bytes(build(NOTES, "email").read_bytes())
    markdown = build(NOTES, "markdown").read_text("utf-8")
    for text in (*mail.text_html, *mail.text_plain, markdown):
        for words in EXPECTED:
            assert words in text
        assert "](response:" not in text
    (plain,) = mail.text_plain
    assert '`response:0/0 "in code"`' in plain


def test_redacted_texts_are_not_looked_at(build):
    notes = 'response:0/0 "shown" and response:0/0 "guessed"'
    report = build(notes, redact=True)
    page = (report / "index.html").read_text("utf-8")
    assert (
        told(section(page))
        == [
            "step 0, response 0 (not checked: texts are redacted)",
        ]
        * 2
    )
    assert "quote=" not in section(page)
    written = everything(report).decode("utf-8", "replace")
    assert "quotes in the notes" not in written
    assert "boxed{4}" not in written


def test_a_quote_of_a_text_that_is_not_kept_says_so():
    quote = Quote(3, 4, "words")
    html = render_notes("response:3/4 “words”", quotes={}).html
    assert "step 3, response 4 (not checked: its text is not kept)" in html
    assert quotes_of("response:3/4 “words”") == [quote]


@pytest.mark.parametrize(
    ("written", "quotes"),
    [
        ('response:1/2 "a"', [(1, 2, "a")]),
        ('response:-5/2 "a"', [(-5, 2, "a")]),
        ('["a"](response:-5/2)', [(-5, 2, "a")]),
        ('response:5/-2 "a"', []),
        ("见response:1/2「好」。", [(1, 2, "好")]),
        ("response:1/2: «a b»", [(1, 2, "a b")]),
        ("[„a“](response:1/2)", [(1, 2, "a")]),
        ('["say “a”"](<response:1/2>)', [(1, 2, "say “a”")]),
        ("response:1/2\n“a\nb”", [(1, 2, "a\nb")]),
        ("| response:1/2 “a” |\n|---|\n| x |", [(1, 2, "a")]),
        ("# response:1/2 “a”", [(1, 2, "a")]),
        # Neither names of links, nor code, nor other links.
        ('[x](response:1/2 "title")', []),
        ("`response:1/2 “a”`", []),
        ("    response:1/2 “a”", []),
        ("```\nresponse:1/2 “a”\n```", []),
        ("```` ` response:1/2 “a” ````", []),
        ("`` response:1/2 “a” `", [(1, 2, "a")]),
        ("[“a”](step:1)", []),
        ("[a](response:1/2)", []),
        ("response:1 “a”", []),
        ("response:1/2 and “a”", []),
        (f"response:1/2 “{'x' * (MOST_CHARS + 1)}”", []),
    ],
)
def test_what_is_a_quote(written, quotes):
    assert quotes_of(written) == quotes


def test_hostile_quotes_stay_text(build, browser):
    texts = [text for text in STRINGS if "\n" not in text]
    texts += [f"<script>document.title='{MARK}'</script>", '"><b onclick=x>', "](x) [y"]
    notes = "\n\n".join(f"[“{text}”](response:1/1)" for text in texts)
    notes += '\n\n[“<img src=x onerror="document.title=1">”](response:1/1)'
    report = build(notes)
    page = (report / "index.html").read_text("utf-8")
    found = section(page)
    assert not re.search(r"<(script|img|b)\b|onclick=x>", found)
    names = set(re.findall(r"<\w+ ([\w-]+)=", found))
    assert names <= {"class", "href", "dir", "aria-label"}
    assert "step 1, response 1 (checked)" in found
    with visiting(browser, report / "index.html") as tab:
        link = tab.locator(".author-notes a[href*='quote=']").last
        assert link.inner_text() == '“<img src=x onerror="document.title=1">”'
        link.click()
        tab.wait_for_selector(".t.cited")
        assert "x onerror" in tab.locator(".t.cited").all_inner_texts()[1] + " onerror"
        assert MARK not in tab.title()


def test_a_long_quote_has_a_short_address():
    quote = "好" * MOST_CHARS
    address = Addresses(frozenset({1})).response(1, 2, quote=quote)
    assert address is not None
    assert unquote(address.partition("quote=")[2]) == "好" * MOST_QUOTED


def test_no_notes_take_long():
    for text in ("[“" * 32_000, 'response:1/2 "' * 4_500, "`response:1/1 “" * 4_000):
        assert len(render_notes(text).html) < 2_000_000


def test_runs_of_backticks_are_read_in_linear_time():
    by_length = "".join("`" * length + "a" for length in range(1, 346))
    for text in ("`" * 60_000, f"{'`' * 60_000}a", by_length, "a`" * 30_000):
        before = time.perf_counter()
        assert linked_quotes(text) == text
        assert time.perf_counter() - before < 1


def test_python_and_the_browser_find_the_same_quotes():
    program = shutil.which("node")
    if program is None:
        pytest.skip("no node")
    blanks = [chr(code) for code in range(0x3001) if chr(code).isspace()]
    pairs = [[f"a{blank}{blank}b c", "a b"] for blank in [*blanks, "\u200b", "\ufeff"]]
    pairs += [
        ["It is good", "is  good"],
        ["It is", "it is"],
        ["a", " "],
        ["🎉好", "好"],
    ]
    script = (
        f"import {{ quoteSpan }} from {json.dumps((ROOT / 'static/js/shared/quote.js').as_uri())};"
        f"console.log(JSON.stringify({json.dumps(pairs)}.map((p) => quoteSpan(...p) !== null)))"
    )
    done = subprocess.run(
        [program, "--input-type=module", "-e", script],
        capture_output=True,
        check=True,
        text=True,
        encoding="utf-8",
    )
    controls = "\x1c\x1d\x1e\x1f\x85"  # no text of a report has them
    in_browser = json.loads(done.stdout)
    for (text, quote), found in zip(pairs, in_browser, strict=True):
        if not any(control in text for control in controls):
            assert holds_quote(text, quote) is found, (text, quote)


@pytest.mark.parametrize(
    ("form", "width"),
    [("folder", 1400), ("html", 390), ("folder", 390)],
)
def test_a_link_marks_the_quote_in_its_response_and_scrolls_to_it(
    browser, build, form, width
):
    out = build(NOTES, form)
    page = out if form == "html" else out / "index.html"
    viewport: ViewportSize = {"width": width, "height": 800}
    with visiting(browser, page, viewport=viewport) as tab:
        # A response without tokens: the words are marked in its text, far down.
        tab.locator(".author-notes a", has_text="needle is here").click()
        until(tab, "CSS.highlights.get('cited')?.size === 1")
        marked = "[...CSS.highlights.get('cited')][0]"
        assert tab.evaluate(f"{marked}.toString()") == "needle is here"
        until(
            tab,
            f"(() => {{ const {{ top, bottom }} = {marked}.getBoundingClientRect();"
            " return top >= 0 && bottom <= innerHeight; })()",
        )
        assert not serious(tab)
        tab.go_back()
        # One with tokens: those of the quote are marked, too.
        tab.locator(".author-notes a", has_text="boxed").click()
        tab.wait_for_selector(".t.cited")
        tokens = "".join(tab.locator(".t.cited").all_text_contents())
        assert (
            " ".join(tokens.replace("↵", " ").replace("␣", " ").split())
            == "is \\boxed{4}, as *shown* above."
        )
        # Another response has no mark.
        next_or_previous = tab.locator(".response-head button:enabled", has_text="←")
        next_or_previous.or_(
            tab.locator(".response-head button:enabled", has_text="→")
        ).first.click()
        until(tab, "!location.hash.includes('quote')")
        assert tab.locator(".t.cited").count() == 0
