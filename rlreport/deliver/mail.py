"""A report as a mail: a summary with pictures, and the one-file report attached."""

from __future__ import annotations

import re
from binascii import b2a_qp
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rlreport.deliver.form import Deliverable, Form
from rlreport.deliver.markdown import pictures
from rlreport.deliver.one_file import document, encode_view
from rlreport.errors import UsageError
from rlreport.options import OutputOptions
from rlreport.text.clean import shortened

if TYPE_CHECKING:
    from email.headerregistry import Address
    from email.message import EmailMessage

    from rlreport.draw.chart import Chart
    from rlreport.pages.encoded import EncodedPage
    from rlreport.pages.page import RenderedPage

# Domain of ids and of the default sender; ``.invalid`` is never a real host
DOMAIN = "rlreport.invalid"

MOST_PICTURES = 3  # Maximum number of charts in the body
PICTURE_WIDTH = 600  # in CSS pixels
LONGEST_TITLE = 160  # Maximum number of characters of a title and of a header
# The specification of an interactive chart in a page
_SPEC = re.compile(
    r'<script type="application/json" class="spec">.*?</script>', re.DOTALL
)


def encode_attached_view(page: RenderedPage) -> EncodedPage:
    """Encode a page as ``encode_view``, without interactive charts, with its size in a mail."""
    encoded = encode_view(replace(page, html=_SPEC.sub("", page.html)))
    lines = b2a_qp(encoded.content, istext=False)
    # Each LF becomes CR and LF.
    return encoded._replace(weight=len(lines) + lines.count(b"\n"))


class _Texts(NamedTuple):
    """The body of a mail in both forms."""

    plain: str
    html: str


def write_mail(report: Deliverable, path: Path) -> None:
    """Write an .eml file for ``sendmail`` or a mail program; equal reports give equal bytes."""
    import hashlib
    from email.message import EmailMessage
    from email.policy import SMTP

    from rlreport.pages.html import GENERATOR

    options = report.options
    charts = pictures(report, MOST_PICTURES, width=PICTURE_WIDTH)
    # Without Vega: the attachment has no interactive charts, see ``encode_attached_view``.
    attachment = b"".join(document(report, charts=False))
    digest = hashlib.sha256(attachment).hexdigest()[:24]
    name = f"{file_name(report.title)}.html"
    texts = _texts(report, charts, attached=name)

    mail = EmailMessage(policy=SMTP)
    mail["X-Mailer"] = GENERATOR
    sender = options.sender or f"rlreport <rlreport@{DOMAIN}>"
    mail["From"] = addresses("--from", sender)
    if options.to:
        mail["To"] = addresses("--to", *options.to)
    title = options.language.of(report.summary().subject)
    mail["Subject"] = "-"  # replaced below: ``_header`` encodes it safely
    mail["Message-ID"] = f"<{digest}@{DOMAIN}>"
    _add_body(mail, texts, charts)
    _attach(mail, attachment, name)
    # Boundaries are random unless set; "=_" occurs in neither base64 nor quoted-printable.
    multiparts = [part for part in mail.walk() if part.is_multipart()]
    for number, part in enumerate(multiparts):
        part.set_boundary(f"=_rlreport_{number}_{digest}")
    subject = _header("Subject", one_line(options.subject or title))
    path.write_bytes(mail.as_bytes().replace(b"Subject: -\r\n", subject, 1))


def _texts(report: Deliverable, charts: Sequence[Chart], *, attached: str) -> _Texts:
    """Return the body; pictures of ``charts`` are parts of the mail, named by id.

    ``attached`` is the file name of the attachment.
    """
    import css_inline

    from rlreport.pages.html import environment

    summary = report.summary()
    values = {
        "view": summary.view,
        "plain_notes": summary.plain_notes,
        "run": report.title[:LONGEST_TITLE],
        "pictures": [(chart, f"cid:{chart.name}@{DOMAIN}") for chart in charts],
        "width": PICTURE_WIDTH,
        "attached": attached,
    }
    templates = environment(report.options.language)
    plain = templates.get_template(f"{summary.mail_template}.txt").render(values)
    html = templates.get_template(f"{summary.mail_template}.html").render(values)
    # Many mail programs ignore style sheets, but not style attributes.
    inliner = css_inline.CSSInliner(load_remote_stylesheets=False)
    return _Texts(plain, inliner.inline(html))


def _add_body(mail: EmailMessage, texts: _Texts, charts: Sequence[Chart]) -> None:
    """Add the plain text, and the HTML with its pictures as an alternative to it."""
    mail.set_content(texts.plain, cte="quoted-printable")
    mail.add_alternative(texts.html, subtype="html", cte="quoted-printable")
    # Adding a picture makes the HTML a multipart of itself and its pictures.
    body: Any = mail.get_body(("html",))
    for chart in charts:
        body.add_related(
            chart.png,
            "image",
            "png",
            cid=f"<{chart.name}@{DOMAIN}>",
            filename=f"{file_name(chart.name)}.png",
            disposition="inline",
        )


def _attach(mail: EmailMessage, content: bytes, name: str) -> None:
    """Attach an HTML file called ``name``."""
    about: dict[str, Any] = {"filename": name, "params": {"charset": "utf-8"}}
    # The email package would also encode each space, and need more bytes: add the content later.
    mail.add_attachment(b"", "text", "html", cte="quoted-printable", **about)
    *_, attached = mail.iter_attachments()
    attached.set_payload(b2a_qp(content, istext=False).decode("ascii"))


def _header(name: str, text: str) -> bytes:
    """Return a header with a text, folded and encoded."""
    from email.header import Header

    # ``mail[name] = text`` would decode an encoded word (RFC 2047), which may hold line ends.
    plain = text.isascii() and "=?" not in text
    # Lines of up to 78 characters, as RFC 5322 recommends
    header = Header(text, "us-ascii" if plain else "utf-8", 78, name)
    value = header.encode(linesep="\r\n")
    return f"{name}: {value}\r\n".encode()


def check_mail_options(options: OutputOptions) -> None:
    """Raise UsageError if an address is not valid."""
    addresses("--to", *options.to)
    if options.sender:
        addresses("--from", options.sender)


def addresses(option: str, *given: str) -> list[Address]:
    """Parse texts of addresses such as ``a@b.c, Name <d@e.f>``.

    ``option`` is the one with which they are given, for the error.

    Raises:
        UsageError: an address is not valid.
    """
    from email.headerregistry import Address
    from email.utils import getaddresses

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
    safe = re.sub(r"[^a-z0-9]+", "-", run.lower()).strip("-")
    safe = safe[:60].rstrip("-")
    return safe or "rlreport"


def one_line(text: str) -> str:
    """Convert text to one printable line of at most LONGEST_TITLE characters, for a header."""
    line = " ".join(text.encode("utf-8", "replace").decode().split())
    return shortened("".join(c for c in line if c.isprintable()), LONGEST_TITLE)


FORM = Form(
    id="email",
    words="mail",
    write=write_mail,
    encode=encode_attached_view,
    check=check_mail_options,
    suffix=".eml",
    one_file=True,
    pages=True,
    comparable=False,
)
