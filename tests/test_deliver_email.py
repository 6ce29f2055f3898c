"""A mail that any client can read, with the whole report attached."""

import base64
import email
import email.header
import email.policy
import json
import re

import mailparser
import numpy as np
import pytest

import rlreport
from rlreport.deliver import SMALL_RUN
from rlreport.deliver.email import file_name, one_line
from rlreport.errors import UsageError
from tests.conftest import ROOT
from tests.hostile import MARK, hostile_rows, write_log
from tests.pages_reading import Elements


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
    assert parsed.subject.replace("\n", "").startswith("Läuft Bcc: victim@example.org <b> · ")
    assert set(parsed.headers) == {
        *("X-Mailer", "From", "To", "Subject", "Message-ID", "MIME-Version", "Content-Type"),
    }


FORGED = "=?utf-8?q?x=0d=0aBcc:_a@b.example=0d=0a=0d=0abody?="


@pytest.mark.parametrize(
    ("option", "text"),
    [
        *(("title", FORGED), ("subject", FORGED), ("folder", FORGED), ("folder", "=?")),
        *(("title", f"Lauf ü {FORGED}"), ("subject", "=?utf-8?b?eA0KQmNjOiBhQGI=?=")),
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
        *("X-Mailer", "From", "Subject", "Message-ID", "MIME-Version", "Content-Type"),
    }
    shown = str(email.header.make_header(email.header.decode_header(read["Subject"])))
    assert shown.replace("\n ", " ").startswith(text)
    assert email.message_from_bytes(raw, policy=email.policy.SMTP).keys() == read.keys()
    assert b"\r\nBcc" not in raw.split(b"\r\n\r\n", 1)[0]  # a line of the body may begin so


def test_the_body_is_short_and_needs_nothing_from_outside(parsed):
    (html,) = parsed.text_html
    assert len(html.encode()) < 90_000
    elements = Elements(html).found
    assert {"script", "link", "iframe", "form", "style"}.isdisjoint(tag for tag, _ in elements)
    assert not re.search(r"https?:|//|data:|@import|url\(", html.replace("<!DOCTYPE", ""))
    assert not [name for _, attrs in elements for name in attrs if name.startswith("on")]
    assert f"onload=document.title='{MARK}'" not in html


def test_every_picture_is_a_part_of_the_mail(mail, parsed):
    (html,) = parsed.text_html
    shown = {attrs["src"] for tag, attrs in Elements(html).found if tag == "img"}
    parts = email.message_from_bytes(mail, policy=email.policy.default).walk()
    carried = {f"cid:{part['Content-ID'][1:-1]}": part for part in parts if part["Content-ID"]}
    assert 2 <= len(shown) <= 3
    assert shown == set(carried)
    for part in carried.values():
        assert part.get_content_type() == "image/png"
        assert part.get_content().startswith(b"\x89PNG")


def test_the_report_is_attached_and_whole(parsed, tmp_path):
    (attached,) = [part for part in parsed.attachments if part["mail_content_type"] == "text/html"]
    assert attached["filename"] == "l-uft-bcc-victim-example-org-b.html"
    document = base64.b64decode(attached["payload"])
    assert document.startswith(b"<!doctype html>")
    assert document.rstrip().endswith(b"</html>")


def test_the_mail_of_a_small_run_takes_a_megabyte_unless_a_size_is_given(tmp_path):
    logs = ROOT / "sample_logs" / "reward_hacking"
    done = rlreport.build(logs, tmp_path / "run.eml", workers=1)
    assert len(done.tables.responses) < SMALL_RUN
    assert done.size <= 1_000_000
    assert done.shown > 0
    text = mailparser.parse_from_file(tmp_path / "run.eml").text_plain[0]
    assert "contains no data with the figures of each response" in " ".join(text.split())
    larger = rlreport.build(logs, tmp_path / "larger.eml", workers=1, max_size=3_000_000)
    assert 1_000_000 < larger.size <= 3_000_000
    assert larger.shown > done.shown


def test_lines_and_characters_are_those_of_mail(mail):
    assert mail.isascii()
    lines = mail.split(b"\r\n")
    assert not any(b"\n" in line or b"\r" in line for line in lines)
    assert max(map(len, lines)) <= 998
    assert not email.message_from_bytes(mail, policy=email.policy.SMTP).defects


@pytest.mark.parametrize(
    ("given", "why"),
    [
        *(({"to": [a]}, "--to") for a in ("nobody", "a@b\nBcc: c@d", "@", "ü@example.org", "")),
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
    for run, name in (("../../etc/passwd", "etc-passwd"), ("诗", "rlreport"), ("a" * 99, "a" * 60)):
        assert file_name(run) == name
    assert one_line("a\r\nb\x00\u2028c\ud800") == "a b c?"
    assert len(one_line("x" * 5000)) == 160


@pytest.fixture(scope="module")
def exploded(tmp_path_factory):
    """A folder with a mail and a Markdown report of a run that dies after a gradient explosion."""
    folder = tmp_path_factory.mktemp("lead")
    random = np.random.default_rng(0)
    rewards = np.where(np.arange(120) > 70, 0.01, np.linspace(0.3, 0.8, 120))
    lines = [
        {
            "step": step,
            "reward": reward + random.normal(0, 0.01),
            "entropy": 1 + random.normal(0, 0.01),
            "grad_norm": 480.0 if step in (70, 71) else 1 + abs(random.normal(0, 0.1)),
        }
        for step, reward in enumerate(rewards)
    ]
    log = folder / "metrics.jsonl"
    log.write_text("\n".join(map(json.dumps, lines)))
    for name in ("run.eml", "run.md"):
        rlreport.build(log, folder / name, workers=1)
    (folder / "notes.md").write_text("Long notes.\n\n" * 50)
    rlreport.build(log, folder / "noted.eml", notes=folder / "notes.md", workers=1)
    return folder


def test_the_first_lines_of_a_plain_mail_have_every_critical_finding(exploded):
    verdict = rlreport.build(exploded / "metrics.jsonl", exploded / "again.md", workers=1).verdict
    critical = [f for f in verdict.findings if f.severity == "critical"]
    assert any(f.explained_by for f in critical), "the run needs a critical effect"
    for name in ("run.eml", "noted.eml"):
        mail = email.message_from_bytes((exploded / name).read_bytes(), policy=email.policy.default)
        body = mail.get_body(("plain",))
        assert body is not None
        first_lines = "\n".join(body.get_content().split("\n")[:8])
        assert verdict.headline in first_lines and verdict.course_text in first_lines
        assert "highest 480 at step 70" in body.get_content()[:1_500], "the chart in words"
        for finding in critical:
            assert f"- Critical. {finding.title}" in first_lines


def test_the_chart_of_the_verdict_stands_beside_the_reward(exploded):
    markdown = (exploded / "run.md").read_text("utf-8")
    first_lines, _, below = markdown.partition("| ---")
    assert re.findall(r"run_files/(\w+)\.png", first_lines) == ["metric_grad_norm"]
    visible = below.partition("### Charts")[2].partition("<details>")[0]
    assert re.findall(r"run_files/(\w+)\.png", visible) == ["reward"]
    mail = (exploded / "run.eml").read_bytes()
    assert re.findall(rb"Content-ID: <(\w+)@", mail)[:2] == [b"metric_grad_norm", b"reward"]
