"""A whole report in a single file: HTML, or an email with its pages as attachments."""

from __future__ import annotations

import base64
import hashlib
import re
from binascii import b2a_qp
from collections.abc import Iterable, Iterator
from dataclasses import replace
from email.header import Header
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import getaddresses
from pathlib import Path
from typing import Any

import css_inline
from markupsafe import Markup

from rlreport.check.sentence import headline
from rlreport.comparison import outcome as compare_words
from rlreport.deliver import Builder
from rlreport.deliver.markdown import overview, pictures
from rlreport.draw.bundle import vega_bundle
from rlreport.errors import UsageError
from rlreport.pages.comparison import ComparisonBuilder
from rlreport.pages.notes import plain_notes
from rlreport.pages.templates import GENERATOR, Page, assets, environment, gzip_base64
from rlreport.pages.views import Shell
from rlreport.text.clean import shortened
from rlreport.text.language import Language
from rlreport.text.messages import message

_NODE = Markup(
    '<script type="application/octet-stream" class="view" data-view="{}" data-title="{}">'
    "{}</script>\n"
)


def encode_view(page: Page) -> tuple[tuple[str, bytes], int]:
    """Return (path, HTML) of a page, and its size; all but the overview as gzip in a <script>."""
    node = page.html.encode("utf-8", "replace")
    if page.view:
        node = _NODE.format(page.view, page.title, gzip_base64(node)).encode("utf-8", "replace")
    return (page.path, node), len(node)


def write_file(builder: Builder, path: Path) -> None:
    """Write one HTML file; pages other than the overview, and Vega, are embedded compressed."""
    with path.open("wb") as file:
        file.writelines(document(builder))


def document(builder: Builder, *, charts: bool = True) -> Iterator[bytes]:
    return assemble(
        builder.frame(),
        (node for _, node in builder.pages()),
        builder.nodes(),
        language=builder.options.language,
        charts=charts,
    )


def assemble(
    frame: Shell,
    views: Iterator[bytes],
    nodes: Iterable[tuple[str, str, str]] = (),
    *,
    language: Language,
    charts: bool = True,
) -> Iterator[bytes]:
    """Yield the parts of an HTML file; ``views`` come from ``encode_view``, the overview first."""
    shared = assets(language)
    csp = _policy(shared.style, shared.one_file, shared.vega)
    parts = (
        environment(language)
        .get_template("one_file.html")
        .generate(
            shell=replace(frame, csp=csp),
            style=Markup(shared.style),
            script=Markup(shared.one_file),
            overview=Markup(next(views).decode()),
            vega=gzip_base64(vega_bundle().encode(), level=6) if charts else "",
            nodes=nodes,
            views=(Markup(view.decode()) for view in views),
        )
    )
    for part in parts:
        yield part.encode("utf-8", "replace")


def _policy(style: str, *scripts: str) -> str:
    return (
        f"default-src 'none'; script-src {' '.join(map(_hash, scripts))}; style-src "
        f"{_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# Domain of ids and of the default sender; ``.invalid`` is never a real host
DOMAIN = "rlreport.invalid"

MOST_PICTURES = 3
PICTURE_WIDTH = 600
LONGEST_TITLE = 160
_SPEC = re.compile(r'<script type="application/json" class="spec">.*?</script>', re.DOTALL)


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
    mail["From"] = addresses("--from", options.sender or f"rlreport <rlreport@{DOMAIN}>")
    if options.to:
        mail["To"] = addresses("--to", *options.to)
    title = options.language.of(message("{run} · {verdict}", run=builder.run, verdict=verdict))
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
    value = Header(text, "us-ascii" if plain else "utf-8", 78, name).encode(linesep="\r\n")
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
