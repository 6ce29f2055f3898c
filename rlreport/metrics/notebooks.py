"""Read what a training printed in a Jupyter notebook, as lines of a console.

In a notebook, transformers' Trainer prints no rows: it shows a table, with a row per logged step.
Each of its rows becomes the line that the Trainer would print on a console.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from rlreport.formats.logged import dicts, mapping
from rlreport.system.documents import MAX_JSON, load_json, read_bounded

SUFFIX = ".ipynb"

_STEP = "Step"
# Columns of the Trainer's table that are not called as their metric is
_LOSSES = {"Training Loss": "loss", "Validation Loss": "eval_loss"}
_NAME = re.compile(r"[A-Za-z_][\w/@.+<>() -]{0,200}")
_NUMBER = re.compile(r"[-+]?(?:\d[\d.]{0,40}(?:e[-+]?\d{1,4})?|nan|inf)", re.IGNORECASE)
# What is computed in an evaluation stands without its prefix, in words: "Mean Reward"
_EVALUATED = re.compile(r"[A-Z][a-z0-9]*(?: [A-Z][a-z0-9]*)*")


def is_notebook(path: Path) -> bool:
    """Return whether a file is named like a notebook."""
    return path.suffix == SUFFIX


def notebook_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines that the cells of a notebook printed, and a line per row of metrics.

    Raises:
        ValueError: it is not JSON; LimitError if it is too large.
    """
    notebook = mapping(load_json(read_bounded(path, MAX_JSON), "replace"))
    for cell in dicts(notebook.get("cells")):
        for output in dicts(cell.get("outputs")):
            if output.get("output_type") == "stream":
                yield from _text_of(output.get("text")).split(b"\n")
            elif output.get("output_type") == "error":
                for line in _list_of(output.get("traceback")):
                    yield from _text_of(line).split(b"\n")
            else:
                html = mapping(output.get("data")).get("text/html")
                yield from _rows_in(_text_of(html).decode(errors="replace"))


def _list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text_of(value: Any) -> bytes:
    """Return a text of a notebook, which may be a list of its lines."""
    lines = value if isinstance(value, list) else [value]
    texts = [line for line in lines if isinstance(line, str)]
    return "".join(texts).encode(errors="replace")


def _rows_in(html: str) -> Iterator[bytes]:
    """Yield the rows of the Trainer's tables in HTML, as the Trainer prints them on a console."""
    if "<table" not in html:
        return
    tables = _Tables()
    tables.feed(html)
    for table in filter(None, tables.found):
        names = [" ".join(cell.split()) for cell in table[0]]
        if _STEP not in names or len(names) < 2:
            continue
        keys = [_metric_of(name, names) for name in names]
        for cells in table[1:]:
            pairs = zip(keys, cells, strict=False)
            known = {key: cell.strip() for key, cell in pairs if _NAME.fullmatch(key)}
            numbers = [
                f"'{key}': {cell}"
                for key, cell in known.items()
                if _NUMBER.fullmatch(cell)
            ]
            yield f"{{{', '.join(numbers)}}}".encode(errors="replace")


def _metric_of(name: str, names: list[str]) -> str:
    """Return the metric that a column of the Trainer's table holds."""
    if name in _LOSSES:
        return _LOSSES[name]
    if name != _STEP and "Validation Loss" in names and _EVALUATED.fullmatch(name):
        return f"eval_{name.lower().replace(' ', '_')}"
    return name.replace(" / ", "/")


class _Tables(HTMLParser):
    """Collects the texts of the cells of all tables, row by row.

    Attributes:
        found: each table as its rows, each row as the texts of its cells.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[list[list[str]]] = []
        self._is_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.found.append([])
        elif tag == "tr" and self.found:
            self.found[-1].append([])
        elif tag in ("td", "th") and self.found and self.found[-1]:
            self.found[-1][-1].append("")
            self._is_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "table"):
            self._is_cell = False

    def handle_data(self, data: str) -> None:
        if self._is_cell:
            self.found[-1][-1][-1] += data
