"""Rows of metrics in a console log, and how to read one that is printed as a Python dict."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from rlreport.metrics.progress_bars import Bar

# Metric -> its number as printed
Cells = dict[str, str]

# Maximum size of a printed dict in characters
MAX_DICT = 32 << 10
_MAX_NAME = 500  # characters of a key

_TOKEN = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<open>[\[{(])|(?P<close>[\]})])"""
    r"""|(?P<mark>[,:])|(?P<broken>['"])|[^\[\]{}(),:'"]+""",
    re.DOTALL,
)
# A number as Python prints it, also of NumPy or PyTorch, or in a text
_NUMBER = re.compile(
    r"""(?:(?:np\.|numpy\.)?\w{1,20}\()?['"]?"""
    r"""([-+]?(?:\d[\d_]{0,400}(?:\.\d{0,400})?(?:[eE][-+]?\d{1,6})?|\.\d{1,400}|nan|inf|Infinity|NaN)"""
    r"""|\d{1,15}/\d{1,15}|True|False)['"]?(?:, (?:device|dtype|grad_fn)=[^()]{0,80})?\)?"""
)


@dataclass(slots=True)
class Row:
    """A row of metrics of a console.

    Attributes:
        cells: its metrics as printed.
        step: its step if the row has it.
        line: number of its line.
        total: number of steps that are planned, if the row has it.
        epoch: number of epochs so far, if the row has it.
        bars: how far each progress bar was before it.
        kind: ``train``, ``eval`` (of the step before) or ``summary`` (of all steps).
    """

    cells: Cells
    step: int | None = None
    line: int = 0
    total: int | None = None
    epoch: float | None = None
    bars: dict[Bar, int] = field(default_factory=dict)
    kind: str = "train"


class PrintedDict(NamedTuple):
    """A dict that is printed in a text.

    Attributes:
        cells: its numbers; None if there is no whole dict.
        others: names of its other values.
        end: where it ends or, if it is no dict, how far the text was read.
        is_cut: whether the text ends before the dict does.
    """

    cells: Cells | None
    others: list[str]
    end: int
    is_cut: bool = False


def printed_dict(text: str, begin: int = 0) -> PrintedDict:
    """Read a dict with texts as keys, as Python or JSON prints it, from ``begin`` on.

    It is read token by token, neither evaluated nor recursively, so that ``nan``,
    ``np.float64(0.5)`` and any nesting are harmless.
    """
    cells: Cells = {}
    others: list[str] = []
    key: str | None = None
    start: int | None = None  # of the value; None before its colon
    for token in _outer_tokens(text, begin):
        if start is None and token[0] != "}":
            # Expected is a key or, after it, a colon.
            if token["text"] and key is None:
                key = token[0][1:-1]
            elif token[0] == ":" and key is not None:
                start = token.end()
            elif token[0].strip():
                return PrintedDict(None, others, token.end())
        elif token[0] in ("}", ","):
            if key is not None and start is not None:
                _add(cells, others, key, text[start : token.start()].strip())
            if token[0] == "}":
                return PrintedDict(cells, others, token.end())
            key = None
            start = None
    return PrintedDict(None, others, len(text), is_cut=True)


def _outer_tokens(text: str, begin: int) -> Iterator[re.Match[str]]:
    """Yield the tokens of a dict that are not within a nested value, up to the end of it."""
    depth = 0
    for token in _TOKEN.finditer(text, begin):
        kind = token.lastgroup
        if kind == "broken":  # a text without its end
            return
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
            if depth == 0:
                yield token
                return
        elif depth == 1:
            yield token


def _add(cells: Cells, others: list[str], key: str, value: str) -> None:
    number = _NUMBER.fullmatch(value)
    if number is None:
        others.append(key)
    elif len(key) <= _MAX_NAME:
        cells[key] = number[1]
