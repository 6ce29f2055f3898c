"""Markdown and mail: short, text of the model stays text, and any client can read them."""

import base64
import email
import email.header
import email.policy
import re
from html.parser import HTMLParser
from itertools import product
from urllib.parse import unquote

import cmarkgfm
import mailparser
import numpy as np
import pytest
from cmarkgfm.cmark import Options
from hypothesis import given
from hypothesis import strategies as st

import rlreport
from rlreport.deliver.mail import file_name, one_line
from rlreport.deliver.markdown import code, code_cell, fenced, text
from rlreport.errors import OutputError, UsageError
from tests.hostile import MARK, hostile_rows, write_log
from tests.pages_reading import Elements
from tests.reading import row, write

ATTACKS = [
    "```\n</details>\n# heading\n```",
    "~~~\n````\n`````\n[link](http://evil.example)",
    "| a | b |\n|---|---|\n@octocat #12 GH-7 !3 owner/repo#9",
    "<img src=x onerror=alert(1)><script>alert(1)</script>",
    "![pic](http://evil.example/a.png) www.evil.example me@evil.example",
    "- [x] task\n> quote\n/close\n1. one\n\n    code",
    "a\\|b `c` **bold** _i_ ~~s~~ $x$ &lt;b&gt; [^1] :tada:",
    "\u202eevil\u2028\x00\x1b[31m\r\r\n",
]
ALLOWED = {
    "h2",
    "h3",
    "p",
    "strong",
    "ul",
    "li",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "img",
    "details",
    "summary",
    "pre",
    "code",
    "sub",
}


class Rendered(HTMLParser):
    """What a reader gets to see: elements, texts of code, texts outside of code."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.code: list[str] = []
        self.prose = ""
        self.images: list[str] = []
        self.inside = 0
        self.feed(
            cmarkgfm.github_flavored_markdown_to_html(
                markdown, Options.CMARK_OPT_UNSAFE
            )
        )

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.images += [value for name, value in attrs if name == "src"]
        if tag == "code":
            self.inside += 1
            self.code.append("")

    def handle_endtag(self, tag):
        if tag == "code":
            self.inside -= 1

    def handle_data(self, data):
        if self.inside:
            self.code[-1] += data
        else:
            self.prose += data


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("markdown")
    rows = hostile_rows(steps=12)
    attack = "\n\n".join(ATTACKS)
    for one in rows:
        one |= {"response": attack, "prompt": attack[::-1], "ref_response": attack * 2}
    log = write_log(folder / "log.jsonl", rows)
    rlreport.build(log, folder / "run.md", title="<b>@all</b> | #1", workers=1)
    return folder / "run.md"


def test_hostile_responses_stay_text(written):
    shown = Rendered(written.read_text("utf-8"))
    assert shown.tags <= ALLOWED
    assert not re.search(r"@\w|#\d|GH-\d|!\d", shown.prose)
    for attack in ATTACKS[:-1]:
        assert sum(attack in block for block in shown.code) >= 6


def test_pictures_lie_beside_it_and_all_are_shown(written, tmp_path):
    pictures = written.with_name("run_files")
    shown = Rendered(written.read_text("utf-8")).images
    files = [p for p in pictures.iterdir() if p.name != "manifest.json"]
    assert sorted(shown) == sorted(f"run_files/{p.name}" for p in files)
    assert len(shown) >= 3
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in files)


def test_pictures_are_found_whatever_the_name(tmp_path):
    rows = [row(step, reward=step) for step in range(3)]
    logs = write(tmp_path / "a.jsonl", rows)
    rlreport.build(logs, tmp_path / "我的 run (1) #2.md")
    shown = Rendered((tmp_path / "我的 run (1) #2.md").read_text("utf-8")).images
    assert shown
    assert all((tmp_path / unquote(address)).is_file() for address in shown)


def test_six_charts_are_pictures(shared_data, tmp_path):
    rlreport.build(shared_data / "ppo_healthy", tmp_path / "run.md", workers=1)
    assert len(Rendered((tmp_path / "run.md").read_text("utf-8")).images) == 6


def test_a_response_that_is_extreme_in_many_ways_is_folded_once(written):
    summaries = re.findall(
        r"<summary>(.*, response \d+)</summary>", written.read_text("utf-8")
    )
    places = [summary.rpartition(" · ")[2] for summary in summaries]
    assert len(places) == len(set(places)) > 1
    assert any(";" in summary for summary in summaries)


@pytest.mark.untraced
def test_it_stays_below_sixty_thousand_characters(tmp_path):
    rows = hostile_rows(steps=100, each=1)
    for one in rows:
        one["response"] = "😀`" * 2500
    log = write_log(tmp_path / "log.jsonl", rows)
    rlreport.build(log, tmp_path / "run.md", workers=1)
    said = (tmp_path / "run.md").read_text("utf-8")
    assert len(said.encode("utf-16-le")) / 2 < 60_000
    assert Rendered(said).tags <= ALLOWED
    assert "of 100 steps, evenly chosen" in said


def test_a_smaller_limit_leaves_out_responses_first_and_then_steps(tmp_path):
    rows = [
        row(
            step,
            prompt=f"prompt {step}",
            response=f"answer {step} {i} " * 30,
            reward=step + i / 3,
        )
        for step, i in product(range(30), range(2))
    ]
    log = write(tmp_path / "log.jsonl", rows)
    out = tmp_path / "run.md"

    def within(limit):
        rlreport.build(log, out, max_size=limit, workers=1)
        return out.read_text("utf-8")

    with pytest.raises(OutputError) as refused:
        within(1)
    stated = re.search(r"has ([\d,]+) bytes", str(refused.value))
    assert stated
    least = int(stated[1].replace(",", ""))
    smallest, with_steps, with_responses = (
        within(least + more) for more in (0, 1_000, 1_600)
    )
    assert "answer" not in smallest and "### Steps" not in smallest
    assert "answer" not in with_steps and "12 of 30 steps, evenly chosen" in with_steps
    assert (
        "answer" in with_responses and "12 of 30 steps, evenly chosen" in with_responses
    )


@given(st.text())
def test_a_line_of_text_shows_as_it_is(value):
    shown = Rendered("x " + text(value, 10_000))
    assert shown.tags == {"p"}
    plain = "".join(shown.prose.replace("\u200b", "").split())
    wanted = "".join(value.replace("\u200b", "").split())
    assert len(plain) == len(f"x{wanted}")


@given(st.text(alphabet="`ab\n\t |<@#1\\", max_size=30))
def test_a_code_span_holds_all_of_its_text(value):
    shown = Rendered("x " + code(value, 10_000) + " y")
    assert shown.tags == {"p", "code"}
    assert shown.prose.split() == ["x", "y"]


@given(st.text(alphabet="`~ab\n\t |<>/d", max_size=60))
def test_a_fenced_block_holds_all_of_its_text(value):
    shown = Rendered(f"<details>\n\n{fenced(value, 10_000)}\n\n</details>\n")
    assert shown.tags == {"details", "pre", "code"}
    assert shown.code == [value + "\n"]
    assert not shown.prose.strip()


def test_long_text_is_cut_and_says_so_and_a_bar_in_a_code_span_ends_no_cell():
    assert "(90 characters more)" in fenced("x" * 100, 10)
    assert str(text("x" * 100, 10)) == "x" * 9 + "…"
    shown = Rendered(f"| a | b |\n| --- | --- |\n| {code_cell('x|y')} | z |\n")
    assert [one.strip() for one in shown.code] == ["x|y"]
    assert "z" in shown.prose


def test_another_s_folder_of_that_name_is_left_alone(tmp_path):
    log = write_log(tmp_path / "log.jsonl", hostile_rows(steps=2))
    theirs = tmp_path / "run_files"
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputError, match="run_files"):
        rlreport.build(log, tmp_path / "run.md", workers=1)
    assert [p.name for p in theirs.iterdir()] == ["thesis.txt"]
    assert not (tmp_path / "run.md").exists()
    rlreport.build(log, tmp_path / "short.md", workers=1)  # too short a run for a line
    assert "mermaid" not in (tmp_path / "short.md").read_text("utf-8")


def test_the_summary_is_appended_to_the_job_s_page(tmp_path, monkeypatch):
    log = write_log(tmp_path / "log.jsonl", hostile_rows())
    page = tmp_path / "summary"
    page.write_text("# Before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    rlreport.build(log, tmp_path / "run.html", github_summary=True, workers=1)
    said = page.read_text("utf-8")
    assert said.startswith("# Before\n")
    assert "<!-- rlreport" in said
    assert "run_files" not in said
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")  # outside of a job
    with pytest.raises(UsageError, match="GITHUB_STEP_SUMMARY"):
        rlreport.build(tmp_path / "none", tmp_path / "run.html", github_summary=True)


def test_what_it_leaves_out_is_not_what_pages_of_steps_would(tmp_path):
    rows = [
        row(step, response=f"{n}", reward=n)
        for step, n in product(range(3), range(200))
    ]
    made = rlreport.build(write(tmp_path / "a.jsonl", rows), tmp_path / "o.md")
    assert "are shown with their text" not in (tmp_path / "o.md").read_text("utf-8")
    assert 0 < made.shown < 20


@pytest.fixture(scope="module")
def mail(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mail")
    log = write_log(folder / "log.jsonl", hostile_rows(steps=8))
    rlreport.build(
        log,
        folder / "run.eml",
        title="Läuft\r\nBcc: victim@example.org <b>",
        to=["Ada <ada@example.org>", "team@example.org"],
        sender="ci@example.org",
        workers=1,
    )
    return (folder / "run.eml").read_bytes()


@pytest.fixture(scope="module")
def parsed(mail):
    return mailparser.parse_from_bytes(mail)


def test_its_headers_are_those_asked_for_and_no_others(mail, parsed):
    assert parsed.to == [("Ada", "ada@example.org"), ("", "team@example.org")]
    assert parsed.from_ == [("", "ci@example.org")]
    assert parsed.subject.replace("\n", "").startswith(
        "Läuft Bcc: victim@example.org <b> · "
    )
    assert set(parsed.headers) == {
        "X-Mailer",
        "From",
        "To",
        "Subject",
        "Message-ID",
        "MIME-Version",
        "Content-Type",
    }


FORGED = "=?utf-8?q?x=0d=0aBcc:_a@b.example=0d=0a=0d=0abody?="


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("folder", FORGED),
        ("title", f"Lauf ü {FORGED}"),
        ("subject", "=?utf-8?b?eA0KQmNjOiBhQGI=?="),
    ],
)
def test_an_encoded_word_is_text_and_forges_no_header(text, option, tmp_path):
    folder = tmp_path / (text if option == "folder" else "logs")
    write_log(folder / "log.jsonl", hostile_rows(steps=1))
    given = {option: text} if option != "folder" else {}
    rlreport.build(folder, tmp_path / "run.eml", workers=1, **given)
    raw = (tmp_path / "run.eml").read_bytes()
    read = email.message_from_bytes(raw, policy=email.policy.compat32)
    assert set(read.keys()) == {
        "X-Mailer",
        "From",
        "Subject",
        "Message-ID",
        "MIME-Version",
        "Content-Type",
    }
    shown = str(email.header.make_header(email.header.decode_header(read["Subject"])))
    assert shown.replace("\n ", " ").startswith(text)
    assert email.message_from_bytes(raw, policy=email.policy.SMTP).keys() == read.keys()
    assert (
        b"\r\nBcc" not in raw.split(b"\r\n\r\n", 1)[0]
    )  # a line of the body may begin so


def test_the_body_is_short_and_needs_nothing_from_outside(parsed):
    (html,) = parsed.text_html
    assert len(html.encode()) < 90_000
    elements = Elements(html).found
    assert {"script", "link", "iframe", "form", "style"}.isdisjoint(
        tag for tag, _ in elements
    )
    assert not re.search(
        r"https?:|//|data:|@import|url\(", html.replace("<!DOCTYPE", "")
    )
    for _, attrs in elements:
        assert not [name for name in attrs if name.startswith("on")]
    assert f"<svg onload=document.title='{MARK}'" not in html


def test_every_picture_is_a_part_of_the_mail(mail, parsed):
    (html,) = parsed.text_html
    shown = {attrs["src"] for tag, attrs in Elements(html).found if tag == "img"}
    parts = email.message_from_bytes(mail, policy=email.policy.default).walk()
    carried = {
        f"cid:{part['Content-ID'][1:-1]}": part for part in parts if part["Content-ID"]
    }
    assert 2 <= len(shown) <= 3
    assert shown == set(carried)
    for part in carried.values():
        assert part.get_content_type() == "image/png"
        assert part.get_content().startswith(b"\x89PNG")


def test_the_report_is_attached_and_whole(parsed, tmp_path):
    (attached,) = [
        part for part in parsed.attachments if part["mail_content_type"] == "text/html"
    ]
    assert attached["filename"] == "l-uft-bcc-victim-example-org-b.html"
    document = base64.b64decode(attached["payload"])
    assert document.startswith(b"<!doctype html>")
    assert document.rstrip().endswith(b"</html>")


def test_lines_and_characters_are_those_of_mail(mail):
    assert mail.isascii()
    lines = mail.split(b"\r\n")
    assert not any(b"\n" in line or b"\r" in line for line in lines)
    assert max(map(len, lines)) <= 998
    assert not email.message_from_bytes(mail, policy=email.policy.SMTP).defects


@pytest.mark.parametrize(
    ("given", "why"),
    [
        *(
            ({"to": [a]}, "--to")
            for a in ("nobody", "a@b\nBcc: c@d", "@", "ü@example.org", "")
        ),
        ({"to": [f"{FORGED} <a@example.org>"]}, "is not a valid mail address"),
        ({"sender": f"{FORGED} <a@example.org>"}, "is not a valid mail address"),
    ],
)
def test_what_is_no_address_is_refused_before_the_logs_are_read(given, why, tmp_path):
    with pytest.raises(UsageError, match=why):
        rlreport.build(tmp_path / "none", tmp_path / "run.eml", **given)
    with pytest.raises(UsageError, match=r"\.eml"):  # mail options belong to mail
        rlreport.build(tmp_path / "none", tmp_path / "run.html", subject="Hello")


def test_names_of_attachments_are_safe_and_headers_one_printable_line():
    for run, name in (
        ("../../etc/passwd", "etc-passwd"),
        ("诗", "rlreport"),
        ("a" * 99, "a" * 60),
    ):
        assert file_name(run) == name
    assert one_line("a\r\nb\x00\u2028c\ud800") == "a b c?"
    assert len(one_line("x" * 5000)) == 160


@pytest.fixture(scope="module")
def exploded(tmp_path_factory):
    """A folder with reports of a run that dies after a gradient explosion, and its verdict."""
    folder = tmp_path_factory.mktemp("lead")
    random = np.random.default_rng(0)
    rewards = np.linspace(0.3, 0.8, 120)
    rewards[71:] = 0.01
    lines = []
    for step, reward in enumerate(rewards):
        line = {
            "step": step,
            "reward": reward + random.normal(0, 0.01),
            "entropy": 1 + random.normal(0, 0.01),
            "grad_norm": 480.0,
        }
        if step not in (70, 71):
            line["grad_norm"] = 1 + abs(random.normal(0, 0.1))
        lines.append(line)
    log = write(folder / "metrics.jsonl", lines)
    for name in ("run.eml", "run.md"):
        verdict = rlreport.build(log, folder / name, workers=1).verdict
    (folder / "notes.md").write_text("Long notes.\n\n" * 50)
    rlreport.build(log, folder / "noted.eml", notes=folder / "notes.md", workers=1)
    return folder, verdict


def test_the_first_lines_of_a_plain_mail_have_every_critical_finding(exploded):
    folder, verdict = exploded
    critical = [f for f in verdict.findings if f.severity == "critical"]
    assert any(f.explained_by for f in critical), "the run needs a critical effect"
    for name in ("run.eml", "noted.eml"):
        mail = email.message_from_bytes(
            (folder / name).read_bytes(), policy=email.policy.default
        )
        body = mail.get_body(("plain",))
        assert body is not None
        # The run, an empty line, the four lines of the verdict, and a line per finding
        lines = body.get_content().splitlines()[: 6 + len(critical)]
        first_lines = "\n".join(lines)
        assert lines[2].endswith(verdict.what)
        assert [line.split()[0] for line in lines[2:6]] == [
            "What",
            "Course",
            "Evidence",
            "Next",
        ]
        assert "From about step 70 on" in body.get_content()[:1_500], (
            "the picture in words"
        )
        for finding in critical:
            assert f"- Critical. {finding.title}" in first_lines


def test_the_chart_of_the_verdict_stands_beside_the_reward(exploded):
    folder, _ = exploded
    markdown = (folder / "run.md").read_text("utf-8")
    first_lines, _, below = markdown.partition("| ---")
    assert re.findall(r"run_files/(\w+)\.png", first_lines) == ["moved"]
    visible = below.partition("### Charts")[2].partition("<details>")[0]
    assert re.findall(r"run_files/(\w+)\.png", visible) == ["metric_grad_norm"]
    mail = (folder / "run.eml").read_bytes()
    assert re.findall(rb"Content-ID: <(\w+)@", mail)[:3] == [
        b"moved",
        b"metric_grad_norm",
        b"reward",
    ]


def test_a_notebook_shows_the_verdict_and_the_path(tmp_path):
    log = write(tmp_path / "log.jsonl", [row(step) for step in range(12)])
    report = rlreport.build(log, tmp_path / "<b>.html", lang="zh")
    assert len(repr(report)) < 1000
    shown = report._repr_html_()
    for line in (report.verdict.what, report.verdict.next):
        assert str(report.language.of(line)) in shown
        assert str(report.language.of(line)) in repr(report)
    assert "/&lt;b&gt;.html</code>" in shown
    assert repr(report).splitlines()[-1] == str(tmp_path / "<b>.html")
