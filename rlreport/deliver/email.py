"""The mail form: a message with the summary in its body and the one-file report attached."""

from __future__ import annotations

import hashlib
import re
import time
from calendar import timegm
from collections.abc import Iterator, MutableMapping
from datetime import UTC, datetime
from email.header import Header
from email.headerregistry import Address, BaseHeader, HeaderRegistry, UnstructuredHeader
from email.message import EmailMessage, MIMEPart
from email.policy import SMTP, Policy
from email.utils import format_datetime, getaddresses
from pathlib import Path
from typing import Any

import css_inline

from rlreport.bake.comparison import ComparisonBuilder
from rlreport.bake.environment import GENERATOR, environment
from rlreport.bake.pages import Page
from rlreport.bake.report import STAMP_FORMAT
from rlreport.check.wording import headline
from rlreport.comparison import words as compare_words
from rlreport.deliver.form import Builder, Form
from rlreport.deliver.one_file import FORM as ONE_FILE
from rlreport.deliver.one_file import document
from rlreport.deliver.summary import Picture, overview, pictures
from rlreport.errors import UsageError
from rlreport.options import OutputOptions
from rlreport.text.clean import shortened
from rlreport.text.messages import message

DOMAIN = "rlreport.invalid"
"""Right-hand side of ids and of the sender when none is given: reserved, never a real host."""

MOST_PICTURES = 3
PICTURE_WIDTH = 600
LONGEST_TITLE = 160


class LiteralHeader(UnstructuredHeader, BaseHeader):
    """A header of plain text: what looks like an encoded word (RFC 2047) in it is text too.

    The email package decodes such words when a header is set, line ends and all, and writes them
    as they are; here they are encoded like any other text that needs it.
    """

    @classmethod
    def parse(cls, value: str, kwds: MutableMapping[str, Any]) -> None:
        """Takes the text as it is."""
        kwds["parse_tree"] = cls.value_parser("")
        kwds["decoded"] = one_line(value)

    def fold(self, *, policy: Policy) -> str:
        """The header as it stands in the message: lines of at most 78 ASCII characters."""
        plain = self.isascii() and "=?" not in self
        made = Header(self, "us-ascii" if plain else "utf-8", 78, self.name)
        return f"{self.name}: {made.encode(linesep=policy.linesep)}{policy.linesep}"


_HEADERS = HeaderRegistry()
_HEADERS.map_to_type("subject", LiteralHeader)
_POLICY = SMTP.clone(header_factory=_HEADERS)


class Email(Form):
    """A message ready for ``sendmail`` or a mail program."""

    id = "email"
    suffix = ".eml"
    mark = b"X-Mailer: rlreport "
    one_file = True
    pages = True

    def check(self, options: OutputOptions) -> None:
        """Raises UsageError when an address is none."""
        addresses("--to", *options.to)
        addresses("--from", *([options.sender] if options.sender else []))

    def finish(self, page: Page) -> tuple[tuple[str, bytes], int]:
        """A page as a node of the attached file, which is base64 in lines of 76 characters."""
        node, weight = ONE_FILE.finish(page)
        return node, weight * 78 // 57 + 4

    def write(self, builder: Builder, place: Path) -> None:
        """See Form."""
        place.write_bytes(mail(builder).as_bytes())


def mail(builder: Builder) -> EmailMessage:
    """The message: the same report gives the same bytes.

    Raises:
        UsageError: an address cannot be understood.
    """
    context = builder.context
    report = context.report
    if isinstance(builder, ComparisonBuilder):
        prefix, told = "compare_", compare_words.headline(builder.outcome)
        view: dict[str, Any] = builder.view
    else:
        prefix, told = "", headline(builder.context.verdict)
        view = overview(builder)
    drawn = pictures(builder, MOST_PICTURES, width=PICTURE_WIDTH)
    attachment = b"".join(document(builder))
    digest = hashlib.sha256(attachment).hexdigest()[:24]
    name = f"{file_name(context.run)}.html"

    made = EmailMessage(policy=_POLICY)
    made["X-Mailer"] = GENERATOR
    made["From"] = addresses("--from", report.sender or f"rlreport <rlreport@{DOMAIN}>")
    if report.to:
        made["To"] = addresses("--to", *report.to)
    made["Subject"] = one_line(
        report.subject
        or report.language.of(message("{run} · {verdict}", run=context.run, verdict=told))
    )
    if context.stamp:
        seconds = timegm(time.strptime(context.stamp, STAMP_FORMAT))
        made["Date"] = format_datetime(datetime.fromtimestamp(seconds, UTC))
    made["Message-ID"] = f"<{digest}@{DOMAIN}>"
    made.set_content(
        _render(f"{prefix}email.txt", builder, view, drawn, name), cte="quoted-printable"
    )
    html = css_inline.CSSInliner(load_remote_stylesheets=False).inline(
        _render(f"{prefix}email.html", builder, view, drawn, name)
    )
    made.add_alternative(html, subtype="html", cte="quoted-printable")
    body = made.get_body(("html",))
    assert isinstance(body, EmailMessage)
    for picture in drawn:
        body.add_related(
            picture.png,
            "image",
            "png",
            cid=f"<{picture.name}@{DOMAIN}>",
            filename=f"{file_name(picture.name)}.png",
            disposition="inline",
        )
    made.add_attachment(attachment, "text", "html", filename=name, params={"charset": "utf-8"})
    # Boundaries are random unless set; "=_" occurs in neither base64 nor quoted-printable.
    for place, part in enumerate(_multiparts(made)):
        part.set_boundary(f"=_rlreport_{place}_{digest}")
    return made


def addresses(option: str, *given: str) -> list[Address]:
    """Addresses as written in options: ``a@b.c``, ``Name <a@b.c>``, several with commas.

    Raises:
        UsageError: one of them is no address.
    """
    found = []
    for text in given:
        refusal = UsageError(f"{option} {one_line(text)}: is not a mail address")
        pairs = getaddresses([text])
        # The email package would decode an encoded word in a name, line ends and all.
        if not pairs or not text.isprintable() or "=?" in text:
            raise refusal
        for name, spec in pairs:
            try:
                address = Address(name, addr_spec=spec)
            except (ValueError, IndexError) as error:
                raise refusal from error
            if not (address.username and address.domain and spec.isascii()):
                raise refusal
            found.append(address)
    return found


def file_name(run: str) -> str:
    """A name for the attachment that every system takes."""
    safe = re.sub(r"[^a-z0-9]+", "-", run.lower()).strip("-")[:60].rstrip("-")
    return safe or "rlreport"


def one_line(text: str) -> str:
    """Text as a header holds it: one printable line."""
    line = " ".join(text.encode("utf-8", "replace").decode().split())
    line = "".join(c for c in line if c.isprintable())
    return shortened(line, LONGEST_TITLE)


def _render(
    template: str,
    builder: Builder,
    view: dict[str, Any],
    drawn: list[Picture],
    attached: str,
) -> str:
    text: str = (
        environment(builder.context.report.language)
        .get_template(template)
        .render(
            view=view,
            run=builder.context.run[:LONGEST_TITLE],
            pictures=[(picture, f"cid:{picture.name}@{DOMAIN}") for picture in drawn],
            width=PICTURE_WIDTH,
            attached=attached,
            stamp=builder.context.stamp,
        )
    )
    return text


def _multiparts(part: MIMEPart) -> Iterator[MIMEPart]:
    for inner in part.walk():
        if inner.is_multipart():
            yield inner


FORM = Email()
