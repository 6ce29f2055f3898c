"""Reads back what the forms hold, by other means than those that wrote it."""

import base64
import gzip
import io
import re
import zipfile
from pathlib import Path

import mailparser

from rlreport.deliver import forms

FORMS = {form.id: form.suffix for form in forms.FORMS.values()}
OTHERS = {form: FORMS[form] for form in FORMS if form != "zip"}
"""A zip is the folder: ``test_deliver_same``."""

_NODE = re.compile(
    rb'<script type="application/octet-stream" class="([\w-]+)"(?: data-view="([^"]*)")?[^>]*>'
    rb"([^<]*)</script>"
)


_PACKED_TEXT = re.compile(rb'"(H4sI[A-Za-z0-9+/=]+)"')
"""Base64 of gzip in a script."""


def files_of(out: Path) -> dict[str, bytes]:
    """Every file that a delivery consists of, by its name below OUT's folder."""
    pictures = out.with_name(f"{out.stem}_files")
    found = [out] if out.is_file() else sorted(out.rglob("*"))
    if out.is_file() and pictures.exists():
        found += sorted(pictures.iterdir())
    return {
        file.relative_to(out.parent).as_posix(): file.read_bytes()
        for file in found
        if file.is_file()
    }


def files_below(folder: Path) -> dict[str, bytes]:
    """Content of all files below a folder, by path."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def views(document: bytes) -> dict[str, str]:
    """The packed pages of a one-file report, by address."""
    return {
        address.decode(): unpacked(packed).decode()
        for kind, address, packed in _NODE.findall(document)
        if kind == b"view"
    }


def unpacked(packed: bytes) -> bytes:
    """What a packed node holds."""
    return gzip.decompress(base64.b64decode(packed)) if packed.strip() else b""


def everything(out: Path) -> bytes:
    """All bytes of a delivery, with everything packed in it unpacked."""
    return b"\n".join(_opened(name, content) for name, content in files_of(out).items())


def _opened(name: str, content: bytes) -> bytes:
    if name.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            inner = {entry: archive.read(entry) for entry in archive.namelist()}
        return b"\n".join(_opened(entry, data) for entry, data in inner.items())
    if name.endswith(".gz"):
        return gzip.decompress(content)
    if name.endswith(".eml"):
        mail = mailparser.parse_from_bytes(content)
        attached = [base64.b64decode(part["payload"]) for part in mail.attachments]
        texts = [text.encode() for text in (*mail.text_plain, *mail.text_html)]
        headers = content.partition(b"\r\n\r\n")[0]
        return b"\n".join(
            [headers, *texts, *(_opened(".html", part) for part in attached)]
        )
    if name.endswith(".js"):
        return b"\n".join([content, *map(unpacked, _PACKED_TEXT.findall(content))])
    if name.endswith(".html"):
        packed = [
            packed for kind, _, packed in _NODE.findall(content) if kind != b"vega-data"
        ]
        return b"\n".join(
            [
                content,
                *(_opened(".html", unpacked(part)) for part in packed if part),
                *map(unpacked, _PACKED_TEXT.findall(content)),
            ]
        )
    return content
