"""Reads baked pages the way an independent reader of docs/page-data.md would."""

import base64
import gzip
import json
import re
import struct
from html.parser import HTMLParser
from pathlib import Path

import numpy as np


class Elements(HTMLParser):
    """Elements of a document with their attributes, its text, and that of scripts and styles."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.inside: list[tuple[str, dict[str, str], str]] = []
        self.text = ""
        self._part: list[str] | None = None
        self.feed(markup)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, {name: value or "" for name, value in attrs}))
        self._part = [] if tag in ("script", "style") else None

    def handle_data(self, data):
        self.text += data
        if self._part is not None:
            self._part.append(data)

    def handle_endtag(self, tag):
        if self._part is not None:
            self.inside.append((*self.found[-1], "".join(self._part)))
        self._part = None

    def only(self, tag: str) -> dict[str, str]:
        (found,) = (attributes for name, attributes in self.found if name == tag)
        return found


def node(page: str, name: str) -> str:
    """Text of the first inert node of a class."""
    found = re.search(
        rf'<script type="[^"]+" class="{name}">(.*?)</script>', page, re.DOTALL
    )
    assert found, name
    return found[1]


def rows_data(page: Path) -> dict:
    """The rows-data node of a step's page."""
    return json.loads(node(page.read_text("utf-8"), "rows-data"))


def packed_tokens(page: Path) -> str:
    """The packed tokens of a step, given its page in a folder; "" if the report keeps none."""
    script = page.parents[1] / "data" / "tokens" / f"{page.stem}.js"
    return packed_in(script.read_text("ascii"), page.stem) if script.exists() else ""


def packed_in(script: str, step: str) -> str:
    """The packed tokens in the script of a step."""
    found = re.fullmatch(
        r'\(globalThis\.rlreportTokens \?\?= \{\}\)\["(-?\d+)"\] = "([\w+/=]+)";\n',
        script,
    )
    assert found and found[1] == step, script[:80]
    return found[2]


def packed_in_one_file(document: str) -> dict[str, str]:
    """The packed tokens of each step of a one-file report."""
    return dict(
        re.findall(
            r'<script type="application/octet-stream" class="tokens-data" '
            r'data-step="(-?\d+)">([\w+/=]+)</script>',
            document,
        )
    )


def unpack(packed: str) -> tuple[dict, np.ndarray, dict[str, np.ndarray]]:
    """Header, ids and columns of packed token data."""
    raw = gzip.decompress(base64.b64decode(packed))
    (length,) = struct.unpack_from("<I", raw)
    header = json.loads(raw[4 : 4 + length])
    count = sum(header["lengths"])
    at = 4 + length

    def planes() -> np.ndarray:
        nonlocal at
        parts = [np.frombuffer(raw, np.uint8, count, at + k * count) for k in range(4)]
        at += 4 * count
        whole = np.zeros(count, np.uint64)
        for k, part in enumerate(parts):
            whole |= part.astype(np.uint64) << np.uint64(8 * k)
        return whole

    ids = planes()
    columns = {}
    for name in header["columns"]:
        zigzag = planes().astype(np.int64)
        exponent = np.frombuffer(raw, np.int8, count, at).astype(np.float64)
        at += count
        mantissa = (zigzag >> 1) ^ -(zigzag & 1)
        values = np.where(
            exponent < 0,
            mantissa / 10.0 ** np.abs(exponent),
            mantissa * 10.0 ** np.abs(exponent),
        )
        values[exponent == -128] = np.nan
        columns[name] = values
    assert at == len(raw)
    return header, ids.astype(int), columns


def as_logged(header: dict, i: int) -> str:
    """The string of a vocabulary entry, which the page leaves out where it is the text."""
    text = header["text"][i]
    raw = header["raw"][i]
    return text if raw is None else raw


def page_tokens(page: Path) -> dict[int, tuple[list[str], dict[str, np.ndarray]]]:
    """n -> (raw tokens, column -> values) of a step, given its page."""
    header, ids, columns = unpack(packed_tokens(page))
    found = {}
    at = 0
    for n, length in zip(header["n"], header["lengths"], strict=True):
        part = slice(at, at + length)
        raw = [as_logged(header, i) for i in ids[part]]
        found[n] = (raw, {name: values[part] for name, values in columns.items()})
        at += length
    return found
