"""A report as a mail: a summary with pictures, and the one-file report attached."""

from __future__ import annotations

import hashlib
import re
from binascii import b2a_qp
from dataclasses import replace
from email.header import Header
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import getaddresses
from pathlib import Path
from typing import Any

import css_inline

from rlreport.check.sentence import headline
from rlreport.comparison import words as compare_words
from rlreport.deliver.forms import Builder
from rlreport.deliver.markdown import overview, pictures
from rlreport.deliver.one_file import document, encode_view
from rlreport.errors import UsageError
from rlreport.pages.author_notes import plain_notes
from rlreport.pages.comparison import ComparisonBuilder
from rlreport.pages.html import GENERATOR, environment
from rlreport.pages.page import Page
from rlreport.text.clean import shortened
from rlreport.text.messages import message

# Domain of ids and of the default sender; ``.invalid`` is never a real host
DOMAIN = "rlreport.invalid"

MOST_PICTURES = 3
PICTURE_WIDTH = 600
LONGEST_TITLE = 160
_SPEC = re.compile(
    r'<script type="application/json" class="spec">.*?</script>', re.DOTALL
)


def encode_attached_view(page: Page) -> tuple[tuple[str, bytes], int]:
    """Return ``encode_view`` of a page without interactive charts, with its size in a mail."""
    (path, node), _ = encode_view(replace(page, html=_SPEC.sub("", page.html)))
    lines = b2a_qp(node, istext=False)
    return (path, node), len(lines) + lines.count(b"\n")


def write_mail(builder: Builder, path: Path) -> None:  # noqa: PLR0914
    """Write an .eml file for ``sendmail`` or a mail program; equal reports give equal bytes."""
    options = builder.options
    if isinstance(builder, ComparisonBuilder):
        prefix = "compare_"
        verdict = compare_words.headline(builder.outcome)
        view: Any = builder.view
    else:
        prefix = ""
        verdict = headline(builder.verdict)
        view = overview(builder) | {"plain_notes": plain_notes(builder.author_notes)}
    charts = pictures(builder, MOST_PICTURES, width=PICTURE_WIDTH)
    attachment = b"".join(document(builder, charts=False))
    digest = hashlib.sha256(attachment).hexdigest()[:24]
    name = f"{file_name(builder.run)}.html"
    values = {
        "view": view,
        "run": builder.run[:LONGEST_TITLE],
        "pictures": [(picture, f"cid:{picture.name}@{DOMAIN}") for picture in charts],
        "width": PICTURE_WIDTH,
        "attached": name,
    }
    templates = environment(options.language)
    text = templates.get_template(f"{prefix}email.txt").render(values)
    html = templates.get_template(f"{prefix}email.html").render(values)

    mail = EmailMessage(policy=SMTP)
    mail["X-Mailer"] = GENERATOR
    mail["From"] = addresses(
        "--from", options.sender or f"rlreport <rlreport@{DOMAIN}>"
    )
    if options.to:
        mail["To"] = addresses("--to", *options.to)
    title = options.language.of(
        message("{run} · {verdict}", run=builder.run, verdict=verdict)
    )
    mail["Subject"] = "-"  # replaced below
    mail["Message-ID"] = f"<{digest}@{DOMAIN}>"
    mail.set_content(text, cte="quoted-printable")
    html = css_inline.CSSInliner(load_remote_stylesheets=False).inline(html)
    mail.add_alternative(html, subtype="html", cte="quoted-printable")
    body = mail.get_body(("html",))
    assert isinstance(body, EmailMessage)
    for picture in charts:
        body.add_related(
            picture.png,
            "image",
            "png",
            cid=f"<{picture.name}@{DOMAIN}>",
            filename=f"{file_name(picture.name)}.png",
            disposition="inline",
        )
    named: dict[str, Any] = {"filename": name, "params": {"charset": "utf-8"}}
    mail.add_attachment(b"", "text", "html", cte="quoted-printable", **named)
    *_, attached = mail.iter_attachments()
    attached.set_payload(b2a_qp(attachment, istext=False).decode("ascii"))
    # Boundaries are random unless set; "=_" occurs in neither base64 nor quoted-printable.
    multiparts = [part for part in mail.walk() if part.is_multipart()]
    for number, part in enumerate(multiparts):
        part.set_boundary(f"=_rlreport_{number}_{digest}")
    subject = _header("Subject", one_line(options.subject or title))
    path.write_bytes(mail.as_bytes().replace(b"Subject: -\r\n", subject, 1))


def _header(name: str, text: str) -> bytes:
    # ``mail[name] = text`` would decode an encoded word (RFC 2047), which may hold line ends.
    plain = text.isascii() and "=?" not in text
    value = Header(text, "us-ascii" if plain else "utf-8", 78, name).encode(
        linesep="\r\n"
    )
    return f"{name}: {value}\r\n".encode()


def addresses(option: str, *given: str) -> list[Address]:
    """Parse addresses such as ``a@b.c, Name <d@e.f>``; raise UsageError if one is not valid."""
    result = []
    for text in given:
        refusal = UsageError(f"{option} {one_line(text)}: is not a valid mail address")
        pairs = getaddresses([text])
        # The email package would decode an encoded word in a name, including line ends.
        if not pairs or not text.isprintable() or "=?" in text:
            raise refusal
        for name, spec in pairs:
            try:
                address = Address(name, addr_spec=spec)
            except (ValueError, IndexError) as error:
                raise refusal from error
            if not (address.username and address.domain and spec.isascii()):
                raise refusal
            result.append(address)
    return result


def file_name(run: str) -> str:
    """Return a run's name as a file name valid on every system, "rlreport" if nothing is left."""
    safe = re.sub(r"[^a-z0-9]+", "-", run.lower()).strip("-")[:60].rstrip("-")
    return safe or "rlreport"


def one_line(text: str) -> str:
    """Convert text to one printable line of at most LONGEST_TITLE characters, for a header."""
    line = " ".join(text.encode("utf-8", "replace").decode().split())
    return shortened("".join(c for c in line if c.isprintable()), LONGEST_TITLE)
