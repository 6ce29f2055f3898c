"""The author's notes: Markdown at the top of the overview, in every format, and never more."""

import errno
import json
import os
import re
from functools import cache

import cmarkgfm
import mailparser
import pytest

import rlreport
from rlreport.deliver.markdown import MOST_NOTES
from rlreport.errors import UsageError
from rlreport.pages.author_notes import (
    MOST_BYTES,
    Targets,
    plain_notes,
    read_notes,
    render_notes,
)
from rlreport.pages.page import Addresses
from tests.browser import serious, until, visiting
from tests.forms import FORMS, everything
from tests.hostile import MARK, STRINGS, write_log
from tests.reading import row, write
from tests.running import rlreport as command

LINKS = """# What was tried

Half the **learning rate**, see [step two](step:2), [that answer](response:2/3),
[this prompt](prompt:1), [the curve](chart:reward), [the hack](finding:reward_hacking_token),
[the issue](https://example.org/7?a=1&b=2),
[me](mailto:me@example.org) and [](step:3).

Not here: [step](step:99), [answer](response:2/99), [prompt](prompt:x), [chart](chart:none),
[finding](finding:none), [file](../secret.html), [page](steps/2.html).

| run | reward |
|---|---|
| 中文 | 0.5 |
"""
NOWHERE = (
    "step:99",
    "response:2/99",
    "prompt:x",
    "chart:none",
    "finding:none",
    "../secret.html",
)

HOSTILE = "\n\n".join(
    [
        *(
            f"text {text} `{text}` [{text}](<{text}>)"
            for text in STRINGS
            if "\n" not in text
        ),
        f"<script>document.title='{MARK}'</script>",
        f"<img src=x onerror=\"document.title='{MARK}'\"> <b onclick=x>b</b>",
        f"[a](javascript:document.title='{MARK}') [b](JaVaScRiPt:alert) [c](data:text/html,<p>x)",
        f"[d][ref] <javascript:document.title='{MARK}'> <vbscript:x> [e](&#106;avascript:alert`1`)",
        f"[ref]: javascript:document.title='{MARK}' 'title'",
        "![picture](https://example.org/pixel.png) ![](//example.org/x.png 'title')",
        "[![](https://example.org/x.png)](https://example.org)",
        '[f](//example.org/x) [g](file:///etc/passwd) [h](step:1" onclick="x) [i](chart:reward\'x)',
        "&lt;script&gt; &#x202e;reversed &#0; \u202ereversed\u2066 \x07\x1b[31m",
        "```html </script><script>\n</script><script>document.title=1</script>\n\n</pre><b>\n```",
        "| a | b |\n| --- | ---: |\n| </td><script> | `<i>` |",
        ">" * 300 + " deep",
        "* " * 300 + "deep",
        "[" * 300 + "x" + "](y)" * 300,
        "*" * 3000,
        "[k](java\nscript:alert(1)) </div></main></body><style>body{display:none}</style>",
        '[l](https://example.org "t\\" onclick=alert(1)")',
        "@someone #12 !3 $x$ www.example.org http://example.org",
    ]
)


INERT = {
    "h2",
    "div",
    "p",
    "a",
    "em",
    "strong",
    "s",
    "code",
    "pre",
    "hr",
    "br",
    "ul",
    "ol",
    "li",
    "blockquote",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
}
"""Elements that notes may have."""


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A run in which a text spreads with the reward."""
    rows = []
    for step in range(12):
        for i in range(16):
            paid = (i + step) % 12 < step
            text = f"answer {i} of step {step}" + " thank you very much indeed" * paid
            rows.append(
                {
                    "step": step,
                    "prompt": f"p{i % 4}",
                    "response": text,
                    "reward": paid + i / 99,
                }
            )
    return write_log(tmp_path_factory.mktemp("logs") / "log.jsonl", rows)


@pytest.fixture(scope="module")
def built(log, tmp_path_factory):
    """Builds a report with notes, once for each text and format."""

    @cache
    def build(text: str, form: str = "folder", **options):
        folder = tmp_path_factory.mktemp("out")
        (folder / "mine.md").write_text(text, "utf-8", newline="")
        out = folder / f"out{FORMS[form]}"
        rlreport.build(log, out, notes=folder / "mine.md", **options)
        return out

    return build


def section(page: str) -> str:
    (found,) = re.findall(
        r'<section class="author-notes".*?</section>', page, re.DOTALL
    )
    return str(found)


@pytest.mark.parametrize("form", ["folder", "html", "email"])
def test_links_lead_into_the_report_and_the_rest_is_text_and_noted(built, form):
    text = everything(built(LINKS, form)).decode("utf-8", "replace")
    pages = [page for page in text.split("<main") if 'class="author-notes"' in page]
    notes = section(pages[-1])
    one_file = form in ("html", "email")
    step, mark = ("#/steps/{}", "?") if one_file else ("steps/{}.html", "#")
    assert re.findall(r'href="([^"]*)"', notes) == [
        step.format(2),
        f"{step.format(2)}{mark}r=3",
        "#/prompts?p=1" if one_file else "prompts.html#p=1",
        "#chart=reward",
        "#finding=reward_hacking_token",
        "https://example.org/7?a=1&amp;b=2",
        "mailto:me@example.org",
        step.format(3),
    ]
    named = [
        "step two",
        "that answer",
        "this prompt",
        "the curve",
        "the hack",
        "the issue",
        "me",
    ]
    assert re.findall(r"<a [^>]*>(.*?)</a>", notes) == [*named, "step:3"]
    assert pages[-1].index("author-notes") < pages[-1].index('class="verdict')
    assert (
        'id="chart=reward"' in pages[-1]
        and 'id="finding=reward_hacking_token"' in pages[-1]
    )
    noted = re.findall(r"broken links in the notes: ([^<]*)", text)
    assert {*noted[0].split(", ")} == {*NOWHERE, "steps/2.html"}


def test_a_mail_has_the_notes_in_both_parts(built):
    mail = mailparser.parse_from_bytes(built(LINKS, "email").read_bytes())
    (html,) = mail.text_html
    (text,) = mail.text_plain
    assert html.index(">Notes</h2>") < html.index('class="sentence')
    assert '<a href="https://example.org/7?a=1&amp;b=2"' in html and "step two" in html
    assert (
        text.index("Notes")
        < text.index("# What was tried")
        < text.index("Half the **learning")
    )
    for part in (html, text):
        assert not re.search(r"\]\(step:|href=.(step|#|response)", part)
    assert (
        "[the issue](https://example.org/7?a=1&b=2)" in text
        and "see step two, that" in text
    )


def test_markdown_has_the_notes_as_html_that_no_empty_line_ends(built):
    fence = "\n```\n\nx\n \n\ny\n```\n"
    assert "### 说明\n\n" in built(LINKS + fence, "markdown", lang="zh").read_text(
        "utf-8"
    )
    text = built(LINKS + fence, "markdown").read_text("utf-8")
    notes = text.partition("### Notes\n\n")[2].partition("\n\n")[0]
    assert "<h3>What was tried</h3>" in notes and "see step two" in notes
    shown = cmarkgfm.github_flavored_markdown_to_html(
        text, cmarkgfm.cmark.Options.CMARK_OPT_UNSAFE
    )
    assert "<pre><code>\nx&#10; &#10;\ny\n</code></pre>" in shown
    assert text.index("### Notes") < text.index("**Broken")


def test_long_notes_do_not_fill_a_comment(built):
    text = "\n\n".join(f"paragraph {i} " + "word " * 100 for i in range(120))
    written = built(text, "markdown").read_text("utf-8")
    assert len(written) < 60_000 and "The notes are longer" in written
    assert (
        len(written.partition("### Notes")[2].partition("The notes")[0])
        > 0.9 * MOST_NOTES
    )
    assert "paragraph 119" in section((built(text) / "index.html").read_text("utf-8"))


def test_hostile_notes_run_nothing_and_ask_for_nothing(browser, built):
    with visiting(browser, built(HOSTILE) / "index.html") as tab:
        notes = tab.locator(".author-notes")
        found = notes.evaluate(
            "node => [...node.querySelectorAll('*')].map(e => e.localName)"
        )
        assert {*found} <= INERT
        names = notes.evaluate(
            "n => [...n.querySelectorAll('*')].flatMap(e => e.getAttributeNames())"
        )
        assert {*names} <= {"href", "rel", "dir", "start"}
        links = notes.evaluate(
            "n => [...n.querySelectorAll('a')].map(a => a.getAttribute('href'))"
        )
        assert {*links} <= {"https://example.org"}
        text = notes.inner_text()
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x07\x1b]", text)
        assert "</pre><b>" in text and MARK not in tab.title() and "picture" in text
        assert tab.locator(".verdict").is_visible()
        for link in notes.locator("a").all():
            link.dispatch_event("mouseover")


@pytest.mark.parametrize(
    ("form", "width"),
    [
        ("folder", 1280),
        ("html", 390),
    ],
)
def test_notes_are_legible_and_their_links_arrive(browser, built, form, width):
    out = built(LINKS, form)
    viewport = {"width": width, "height": 800}
    page = out if form == "html" else out / "index.html"
    with visiting(browser, page, viewport=viewport) as tab:
        assert not serious(tab)
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert tab.locator(".author-notes h3").inner_text() == "What was tried"
        assert tab.locator(".author-notes td").all_inner_texts() == ["中文", "0.5"]
        for name in ("chart=reward", "finding=reward_hacking_token"):
            tab.locator(f".author-notes a[href='#{name}']").click()
            until(
                tab,
                "id => document.getElementById(id).getBoundingClientRect().top < innerHeight",
                arg=name,
            )
            assert tab.evaluate("location.hash") == f"#{name}"
        for link, target in (
            ("this prompt", ".response h2:text-is('Prompt 1')"),
            ("that answer", ".response h2:text-is('Response 3')"),
            ("step two", "h1:text-is('Step 2')"),
        ):
            tab.get_by_role("link", name=link).click()
            tab.wait_for_selector(target)
            tab.go_back()


def test_a_link_to_a_finding_opens_it(browser, real_report):
    report = real_report("ppo_reward_hacking")
    found = json.loads((report / "data/findings.json").read_text())
    lead = found["verdict"]["lead"]
    other = next(f["id"] for f in found["findings"] if f["id"] != lead)
    with visiting(browser, report / "index.html", f"#finding={other}") as page:
        details = page.locator(f'[data-finding="{other}"] > details')
        assert details.evaluate("node => node.open")
        assert details.is_visible()


def test_hostile_notes_stay_text_in_mail_and_markdown(built):
    (html,) = mailparser.parse_from_bytes(
        built(HOSTILE, "email").read_bytes()
    ).text_html
    markdown = built(HOSTILE, "markdown").read_text("utf-8")
    notes = markdown.partition("### Notes\n\n")[2].partition("\n\n**")[0]
    assert "\n\n" not in notes
    for text in (
        html.partition('class="notes"')[2].partition('class="sentence')[0],
        notes,
    ):
        assert not re.search(
            r"<(script|img|svg|b|i)\b|<[^>]*(onclick|onerror|javascript:)", text
        )
        assert not re.search(r'href="(?!https://example\.org")', text)
    assert not re.search(r"@someone|#12|www\.example", notes)


def test_no_text_takes_long_or_grows_without_end():
    for text in (
        "[" * 64_000,
        "* " * 32_000,
        "a|" * 200 + "\n" + "-|" * 200 + "\na" * 30_000,
        "<" * 64_000,
    ):
        assert len(render_notes(text[:MOST_BYTES]).html) < 2_000_000


def test_a_target_is_written_exactly():
    addresses = Addresses(frozenset({5, -5}))
    charts = {"own_x y": "Mine"}
    shown = {(5, 1), (-5, 1)}
    targets = Targets(addresses, shown, {7}, charts, {"f"})
    assert ">Mine</a>" in render_notes("[](<chart:own_x y>)", targets).html
    there = (
        "step:5",
        "step:05",
        "step:-5",
        "response:5/1",
        "response:-5/1",
        "prompt:7",
        "chart:own_x y",
        "finding:f",
    )
    gone = ("step:5/1", "step:٥", "step:6", "response:5", "prompt:8", "chart:f")
    assert all(targets.address(*name.split(":")) for name in there)
    assert not any(targets.address(*name.split(":")) for name in gone)
    assert targets.address("chart", "own_x y") == "#chart=own_x%20y"
    assert plain_notes("a [b](step:5) [c](https://x)") == "a b [c](https://x)"


def test_notes_beside_the_logs_are_found_and_only_there(tmp_path):
    log = write(tmp_path / "logs" / "log.jsonl", [row(0), row(1)])
    beside = log.parent / "notes.md"
    beside.write_bytes(b"\xef\xbb\xbf# found\r\n\r\nqz\r\nxw\r\n")
    rlreport.build(log.parent, tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text("utf-8")
    assert "<h3>found</h3>" in section(page) and "qz\nxw" in page
    for redact in (True, "names"):
        rlreport.build(log.parent, tmp_path / "out", redact=redact)
        written = everything(tmp_path / "out").decode("utf-8", "replace")
        assert 'author-notes"' not in written and "xw\n" not in written
        assert "notes.md is left out because texts are redacted" in written
    rlreport.build(log.parent, tmp_path / "out", redact=True, notes=beside)
    assert "author-notes" in (tmp_path / "out" / "index.html").read_text("utf-8")
    beside.write_bytes(b"qz\xff")
    rlreport.build(log.parent, tmp_path / "out")
    assert "author-notes" not in (tmp_path / "out" / "index.html").read_text("utf-8")
    why = "its text is not UTF-8"
    assert f"notes.md cannot be read: {why}" in (
        tmp_path / "out" / "data.html"
    ).read_text("utf-8")
    with pytest.raises(UsageError, match=why):
        rlreport.build(log.parent, tmp_path / "out", notes=beside)


def test_why_notes_cannot_be_read_names_no_place_of_this_machine(tmp_path, monkeypatch):
    beside = tmp_path / "notes.md"
    beside.write_text("mine", "utf-8")

    def refused(path, most):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("rlreport.pages.author_notes.read_bounded", refused)
    (note,) = read_notes([tmp_path], None, redact=False)[1]
    assert note.text == "notes.md cannot be read: Permission denied"


def test_a_given_file_that_cannot_be_read_ends_the_build(log, tmp_path):
    (tmp_path / "large.md").write_bytes(b"x" * (MOST_BYTES + 1))
    cases = {
        "large.md": "larger than 64,000 bytes",
        "none.md": "there is no such file",
        "": "not a regular file",
    }
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.md")
        cases["pipe.md"] = "not a regular file"
    for name, why in cases.items():
        done = command("build", log, "-o", tmp_path / "out", "--notes", tmp_path / name)
        assert (
            done.returncode == 2 and why in done.stderr and "--notes" in done.stderr
        ), name
    assert not (tmp_path / "out").exists()
