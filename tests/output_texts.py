"""The texts, tiles and tables of a report's outputs, as a reader has them before the eyes."""

from __future__ import annotations

import email
import email.policy
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.forms import views

_BLOCK = re.compile(
    r"</?(?:p|div|li|ul|ol|dl|dt|dd|h\d|section|summary|details|figure|figcaption|td|th|tr|table"
    r"|caption|pre|blockquote|br|header|main|footer|nav|button)\b[^>]*>"
)
_TAG = re.compile(r"<[^>]+>")
_HIDDEN = re.compile(r"<(script|style|template)\b.*?</\1>", re.DOTALL)
# A drawing without another in it
_INNERMOST = re.compile(r"<svg\b(?:(?!<svg\b).)*?</svg>", re.DOTALL)
# Explains the page, with made-up places
_HOW_TO = re.compile(r"<details[^>]*\bhow-to\b.*?</details>", re.DOTALL)
# Rewards of single answers
_FILM = re.compile(r"!\[[^\]]*\]\([^)]*film[^)]*\)")
_TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL)
_TILES = re.compile(r'<dl class="figures">.*?</dl>', re.DOTALL)


class Tile(NamedTuple):
    """A number of a key figure."""

    figure: str
    text: str
    exact: str  # as on hover, "" without
    steps: str


def page_of(report: Path) -> str:
    """Return the overview of a folder or of one file."""
    if report.is_dir():
        return (report / "index.html").read_text("utf-8")
    document = report.read_bytes()
    return views(document).get("index.html") or document.decode()


def without_drawings(page: str) -> str:
    """Return a page without its drawings, which may hold others."""
    drawings = 1
    while drawings:
        page, drawings = _INNERMOST.subn("", page)
    return page


def lines_of_page(page: str) -> list[str]:
    """Return the lines of a page: its texts and those for screen readers, without tables, tiles."""
    labels = [
        html.unescape(label)
        for label in re.findall(r'<svg[^>]*role="img"[^>]*aria-label="([^"]*)"', page)
    ]
    strips = [
        label for label in labels if "; lowest" in label and " at step " not in label
    ]
    text = _HOW_TO.sub("", without_drawings(_HIDDEN.sub("", page)))
    text = _TILES.sub("", _TABLE.sub("", text))
    text = re.sub(
        r"<(?:q|code|pre|mark)\b.*?</(?:q|code|pre|mark)>", "", text, flags=re.DOTALL
    )
    text = _TAG.sub("", _BLOCK.sub("\n", text))
    return [*_lines(html.unescape(text)), *strips]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def lines_of_markdown(text: str) -> list[str]:
    """Return the lines of a summary without tables, charts, pictures and model output."""
    text = re.sub(r"```.*?```", "", text.replace("\u200b", ""), flags=re.DOTALL)
    text = _FILM.sub("", text)
    text = re.sub(r"!\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"(`+) .*? \1", "", text)
    text = re.sub(r"[\\*]|</?\w+>", "", text).replace("\N{NO-BREAK SPACE}", " ")
    return [line for line in _lines(text) if not line.startswith("|")]


def tables_of_markdown(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield name and cells of the key figures."""
    plain = text.replace("\\", "").replace("\N{NO-BREAK SPACE}", " ")
    for line in plain.splitlines():
        if line.startswith("| "):
            row = line.strip("| ").split(" |")
            name, *cells = [cell.strip() for cell in row]
            if len(cells) == 3 and re.search(r"\d", cells[-1]):
                yield name, cells


def charts_of_markdown(text: str) -> Iterator[tuple[str, list[int], list[float]]]:
    """Yield title, steps and values of the Mermaid charts."""
    for block in re.findall(r"```mermaid(.*?)```", text, re.DOTALL):
        title = re.search(r'title "([^"]*)"', block)
        steps = re.search(r'x-axis "[^"]*" \[([^\]]*)\]', block)
        values = re.search(r"line \[([^\]]*)\]", block)
        assert title and steps and values
        yield (
            title[1],
            [int(step.strip('" ')) for step in steps[1].split(",")],
            [float(value) for value in values[1].split(",")],
        )


def mail_of(path: Path) -> tuple[str, str]:
    """Return the plain text and the HTML of a mail."""
    mail = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
    texts = {}
    for part in mail.walk():
        if part.get_content_maintype() == "text" and not part.get_filename():
            texts[part.get_content_subtype()] = part.get_content()
    return texts["plain"], texts["html"]


def lines_of_mail(plain: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return the lines of a plain mail, and the numbers of its key figures by name."""
    figures = {}
    lines = []
    for line in plain.splitlines():
        tile = re.fullmatch(r"- ([^:：]+)[:：]\s*([^ ]+(?: → [^ ]+)*)", line)
        if tile and re.match(r"[−-]?\d", tile[2]):
            figures[tile[1]] = tile[2].split(" → ")
        elif not re.match(r"\s+(?:before|after|see|之前|之后|见)\s", line):
            lines.append(line)
    return lines, figures


def tiles_of_page(page: str) -> Iterator[Tile]:
    """Yield the numbers of the key figures, with what is said on hover."""
    for figure in re.findall(
        r'<div class="figure" data-figure="([^"]+)">(.*?)</div>', page, re.DOTALL
    ):
        name, body = figure
        for title, text in re.findall(
            r'<span class="num"(?: title="([^"]*)")?>([^<]*)</span>', body
        ):
            exact, _, steps = html.unescape(title).partition(
                "，" if "，" in title else ", "
            )
            yield Tile(name, html.unescape(text), exact, steps)


def rows_of_table(page: str, name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table as column -> text."""
    pattern = rf'<table\b(?:(?!</table>).)*?data-key="{name}".*?</table>'
    found = re.search(pattern, page, re.DOTALL)
    if not found:
        return
    table = found[0]
    keys = re.findall(r'<col [^>]*data-key="([^"]+)"', table)
    body = table.partition("<tbody>")[2]
    for row in re.findall(r"<tr\b.*?</tr>", body, re.DOTALL):
        cells = re.findall(r"<td\b[^>]*>(.*?)</td>", row, re.DOTALL)
        texts = [_text(cell) for cell in cells]
        yield dict(zip(keys, texts, strict=False))


def _text(markup: str) -> str:
    plain = _TAG.sub("", _HIDDEN.sub("", markup))
    return html.unescape(plain).strip()


def events_of_page(page: str) -> Iterator[tuple[str, str, float]]:
    """Yield (chart, label, step) of the rules on the charts of an overview."""
    for chart in re.findall(
        r'<figure class="chart[^"]*"[^>]*data-chart="([^"]+)">(.*?)</figure>',
        page,
        re.DOTALL,
    ):
        name, body = chart
        for values in re.findall(r'\{"event":"[^}]*\}', html.unescape(body)):
            rule = json.loads(values)
            yield name, rule["event"], float(rule["step"])


def labels_of_charts(page: str) -> Iterator[tuple[str, str]]:
    """Yield (chart, description for screen readers)."""
    for chart in re.findall(
        r'<figure class="chart[^"]*"[^>]*data-chart="([^"]+)">(.*?)</figure>',
        page,
        re.DOTALL,
    ):
        label = re.search(r'aria-label="([^"]*)"', chart[1])
        if label:
            yield chart[0], html.unescape(label[1])
