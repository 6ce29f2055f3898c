"""Earlier reports as one side of a comparison: a folder, a zip or one file.

A report comes from elsewhere, as logs do: what it holds is checked, and no more of it is
unpacked than a comparison needs.
"""

from __future__ import annotations

import base64
import gzip
import html
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from rlreport.check.finding import SCHEMA
from rlreport.comparison.data import PATH, REPORT, data_of_pages, unpacked
from rlreport.errors import UnreadableReportError, UnusableInputError
from rlreport.sidefiles import (
    LimitError,
    load_csv,
    load_json,
    open_zip,
    read_bounded,
    read_stream,
)
from rlreport.text.messages import message

MOST_PART = 500_000_000
"""Bytes of the response data, and of a report in one file, that are read."""

MOST_CELLS = 2_000_000
"""Cells of an exported table that are read."""

FIRST_SCHEMA = 1
"""Of reports that name none."""

MOST_REPORT = 64_000_000
"""Bytes of ``report.json``, or of another part that is parsed whole: packed ones may be huge."""

Place = tuple[int, int]
"""Step and n of a response."""

Texts = tuple[str, str]
"""Prompt and response."""

_VIEW = re.compile(
    r'<script type="application/octet-stream" class="view" data-view="steps/(-?\d+)"'
    r"[^<>]*>([A-Za-z0-9+/=]*)</script>"
)
_NODE = r'<script type="application/[a-z-]+" class="{name}">'
_ROW = re.compile(r'<tr data-n="(\d+)"')
_CELL = re.compile(
    r'<td class="text" data-key="(prompt|response)"[^<>]*><div class="clamp" dir="auto">'
)
_FIRST_WORDS = {"Broken": "critical", "Look at this": "warning", "Healthy": "healthy"}
"""How a verdict of the first schema began, which was a sentence alone."""

_GENERATOR = b'<meta name="generator" content="rlreport '


_Parts = Callable[[str], bytes | None]
"""Reads a part of a report by its path in the folder; None where the report has no such part."""


def _of_folder(root: Path) -> _Parts:
    def read(path: str) -> bytes | None:
        file = root / path
        return read_bounded(file, _limit(path)) if file.is_file() else None

    return read


def _of_zip(file: Path) -> _Parts:
    def read(path: str) -> bytes | None:
        with open_zip(file) as archive:
            if path not in archive.namelist():
                return None
            with archive.open(path) as stream:
                return read_stream(stream, _limit(path))

    return read


def _of_one_file(file: Path) -> _Parts:
    text = read_bounded(file, MOST_PART).decode("utf-8", "replace")
    views: dict[str, str] = {}

    def read(path: str) -> bytes | None:
        if path == REPORT:
            found = _node(text, "report-json")
            if found is None or found.lstrip().startswith("{"):  # written before it was packed
                return None if found is None else found.encode()
            return _gunzip(found, MOST_REPORT)
        if path == PATH:
            found = _node(text, "responses-data")
            return base64.b64decode(found, validate=True) if found else None
        if not views:
            views.update((f"steps/{step}.html", packed) for step, packed in _VIEW.findall(text))
        if path not in views:
            return None
        return _gunzip(views[path], _limit(path))

    return read


def _gunzip(packed: str, limit: int) -> bytes:
    with gzip.open(io.BytesIO(base64.b64decode(packed))) as stream:
        return read_stream(stream, limit)


def _limit(path: str) -> int:
    return MOST_PART if path == PATH else MOST_REPORT


def _node(text: str, name: str) -> str | None:
    opened = re.search(_NODE.format(name=name), text)
    return None if opened is None else _until(text, "</script>", opened.end(), len(text))


def _until(text: str, mark: str, start: int, stop: int) -> str | None:
    """Return the text before the next mark, None without one."""
    end = text.find(mark, start, stop)
    return None if end < 0 else text[start:end]


@dataclass(frozen=True, slots=True)
class Earlier:
    """A report that was built earlier: ``about`` is its ``report.json``."""

    name: str
    about: Mapping[str, Any]
    responses: pd.DataFrame
    parts: _Parts

    @property
    def redacted(self) -> bool:
        """Whether its texts were left out."""
        settings = self.about.get("settings")
        return isinstance(settings, dict) and bool(settings.get("redact"))

    def texts(self, wanted: Iterable[Place]) -> dict[Place, Texts]:
        """Return prompt and response of those that the report shows."""
        places = set(wanted)
        return {
            (step, n): texts
            for step in dict.fromkeys(step for step, _ in places)
            for n, texts in self._page(step).items()
            if (step, n) in places
        }

    def _page(self, step: int) -> dict[int, Texts]:
        try:
            page = self.parts(f"steps/{step}.html")
            return {} if page is None else _shown(page.decode("utf-8", "replace"))
        except (*_UNREADABLE, ArithmeticError, AttributeError, LookupError, TypeError):
            return {}

    def table(self, path: str) -> pd.DataFrame | None:
        """Return an exported CSV as text, None if the form has none or it cannot be read."""
        try:
            content = self.parts(path)
            if content is None:
                return None
            return load_csv(content, MOST_CELLS, dtype=str, keep_default_na=False)
        except _UNREADABLE:
            return None


_UNREADABLE = (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile, RuntimeError)


def _shown(page: str) -> dict[int, Texts]:
    """Return the texts in the table and in the data of a step's page, by n."""
    data = load_json((_node(page, "rows-data") or "{}").encode())
    texts = data.get("texts", {})
    found: dict[int, dict[str, str]] = {}
    for key in ("prompt", "response"):
        for n, text in zip(data.get("n", []), texts.get(key, []), strict=False):
            if isinstance(text, str):
                found.setdefault(int(n), {})[key] = text
    rows = list(_ROW.finditer(page))
    for number, row in enumerate(rows, 1):
        end = rows[number].start() if number < len(rows) else len(page)
        for cell in _CELL.finditer(page, row.end(), end):
            shown = _until(page, "</div>", cell.end(), end)
            if shown is None:
                break
            found.setdefault(int(row[1]), {})[cell[1]] = html.unescape(shown)
    return {n: (t["prompt"], t["response"]) for n, t in found.items() if len(t) == 2}


def earlier_report(given: str | Path) -> Earlier | None:
    """Open an earlier report; None where the path is none, and may hold logs.

    Raises:
        UnusableInputError: it is a report that cannot be compared; says why.
    """
    with _refused(str(given)):
        opened = _opened(given)
        if opened is None:
            return None
        about, parts = opened
        data = parts(PATH)
        responses = _of_pages(about, parts) if data is None else unpacked(data, str(given))
    if responses is None:
        raise UnusableInputError(
            f"{given}: is a report without {PATH}, of an rlreport before compare or of one with "
            "no room for it; build it again, or give its logs"
        )
    return Earlier(str(given), about, responses, parts)


def report_about(given: str | Path) -> dict[str, Any] | None:
    """Read ``report.json`` of an earlier report; None where the path is none.

    Raises:
        UnreadableReportError: it is broken, or of a newer version; says which.
        UnusableInputError: it is a file of rlreport without figures, or no report.
    """
    with _refused(str(given)):
        opened = _opened(given)
        return opened and opened[0]


def _opened(given: str | Path) -> tuple[dict[str, Any], _Parts] | None:
    parts = _parts(Path(given))
    raw = parts and parts(REPORT)
    return (_about(str(given), raw), parts) if parts and raw is not None else None


def verdict_of(about: Mapping[str, Any]) -> tuple[str, Mapping[str, Any] | None]:
    """Return the level of a report's verdict, and its leading finding, from any schema."""
    verdict, found = about.get("verdict"), about.get("findings")
    findings = [f for f in found if isinstance(f, dict)] if isinstance(found, list) else []
    if isinstance(verdict, str):  # the worst finding came first
        return _FIRST_WORDS.get(verdict.split(":")[0], "unjudged"), next(iter(findings), None)
    if not isinstance(verdict, dict):
        return "unjudged", None
    level, lead = verdict.get("level"), verdict.get("lead")
    leading = (f for f in findings if lead is not None and f.get("id") == lead)
    return level if isinstance(level, str) else "unjudged", next(leading, None)


@contextmanager
def _refused(name: str) -> Iterator[None]:
    """Refuse a report that cannot be read."""
    try:
        yield
    except LimitError as error:
        raise UnreadableReportError(f"{name}: is a broken report: {error}") from None
    except _UNREADABLE as error:
        raise UnreadableReportError(f"{name}: is a broken report; build it again") from error


def _parts(path: Path) -> _Parts | None:
    if path.is_dir():
        return _of_folder(path) if (path / REPORT).is_file() else None
    if not path.is_file():
        return None
    if path.suffix.lower() in (".md", ".eml"):
        raise UnusableInputError(
            f"{path}: mail and Markdown carry no figures to compare; give the folder, .zip or .html"
        )
    if zipfile.is_zipfile(path):
        return _of_zip(path)
    if path.suffix.lower() in (".html", ".htm"):
        with path.open("rb") as stream:
            start = stream.read(4096)
        if _GENERATOR not in start:
            raise UnusableInputError(f"{path}: is not a report of rlreport")
        return _of_one_file(path)
    return None


def _about(name: str, raw: bytes) -> dict[str, Any]:
    about: Any = load_json(raw)
    generator = about.get("generator") if isinstance(about, dict) else None
    if not isinstance(generator, dict) or generator.get("name") != "rlreport":
        raise UnusableInputError(f"{name}: is not a report of rlreport")
    schema = about.setdefault("schema", FIRST_SCHEMA)
    if not isinstance(schema, int) or schema > SCHEMA:
        raise UnreadableReportError(
            f"{name}: is a report of a newer rlreport ({generator.get('version')}); update, or "
            "give its logs"
        )
    return dict(about)


def _of_pages(about: Mapping[str, Any], parts: _Parts) -> pd.DataFrame | None:
    """Return the response data of a first report, if its pages show all responses."""
    if about["schema"] != FIRST_SCHEMA or (about.get("settings") or {}).get("redact"):
        return None
    try:
        pages, room = [], MOST_PART
        for step in dict.fromkeys(int(row["step"]) for row in about["steps"]):
            page = (parts(f"steps/{step}.html") or b"").decode("utf-8", "replace")
            room -= len(page)
            if room < 0:
                raise LimitError(message("pages of over {most:count} bytes", most=MOST_PART))
            data, texts = load_json((_node(page, "rows-data") or "{}").encode()), _shown(page)
            if "split" in data["strings"]:
                return None
            prompts, responses = zip(*(texts[n] for n in data["n"]), strict=True)
            columns = {"step": step, "n": data["n"], "prompt": prompts, "response": responses}
            pages.append(pd.DataFrame({**data["values"], **columns}))
        shown = data_of_pages(pd.concat(pages, ignore_index=True))
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        raise ValueError("odd pages") from error
    return shown if len(shown) == about.get("responses") else None
