"""Escape text for Markdown: model output cannot become markup, a link or a mention.

Written for GitHub's and GitLab's dialects: besides markup they turn ``@name``, ``#12``, ``!12``
and the like into references, and bare addresses into links.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from markupsafe import Markup

from rlreport.text.clean import printable, shortened

_ZERO_WIDTH_SPACE = "\u200b"
_LEAST_FENCE = 3
_REFERENCE = re.compile(r'([@#!$%&~^]|\bGH-)(?=[\w"])', re.IGNORECASE)
_ADDRESS = re.compile(r"(:)(?=//)|(\bwww)(?=\.)", re.IGNORECASE)
_MARKUP = re.compile(r"([\\`*_\[\]{}|~$])")
_BACKTICKS = re.compile("`+")


def text(value: str, longest: int = 400) -> Markup:
    """Return text escaped as one line, shortened with an ellipsis."""
    line = shortened(_printable(" ".join(value.split())), longest)
    line = _unreferenced(line)
    return Markup(_MARKUP.sub(r"\\\1", html.escape(line, quote=False)))


def number(value: str) -> Markup:
    """Return a number without line breaks before its unit."""
    return Markup(text(value).replace(" ", "\N{NO-BREAK SPACE}"))


def code(value: str, longest: int = 80) -> Markup:
    """Return model output as a code span with visible white space."""
    line = _printable(value).replace("\n", "↵").replace("\t", "⇥")
    line = _unreferenced(shortened(line, longest))
    fence = "`" * (_longest_run(line) + 1)
    # A code span drops one space at each end, and one of blanks alone keeps them.
    return Markup(f"{fence} {line} {fence}") if line.strip() else Markup("` ␣ `")


def code_cell(value: str, longest: int = 80) -> Markup:
    """Return a code span for a table cell, which a bar would end even in code."""
    return Markup(code(value, longest).replace("|", "\\|"))


def fenced(value: str, longest: int) -> Markup:
    """Return model output as a block, fenced by more backticks than it contains."""
    shown = _printable(value)
    left = len(shown) - longest
    if left > 0:
        shown = f"{shown[:longest]}… ({left:,} characters more)"
    fence = "`" * max(_LEAST_FENCE, _longest_run(shown) + 1)
    return Markup(f"{fence}text\n{shown}\n{fence}")


def line_chart(title: str, axis: str, steps: Sequence[int], values: Sequence[float]) -> Markup:
    """Return a line over steps as a Mermaid chart, which GitHub and GitLab draw.

    Args:
        title: title of the chart; not escaped.
        axis: title of the x axis.
        steps: step of each value.
        values: finite values.
    """
    at = ", ".join(f'"{step}"' for step in steps)
    # Mermaid knows no exponents.
    line = ", ".join(f"{float(f'{value:.4g}'):f}".rstrip("0").rstrip(".") for value in values)
    drawn = ("xychart-beta", f'  title "{title}"', f'  x-axis "{axis}" [{at}]', f"  line [{line}]")
    return Markup("```mermaid\n{}\n```").format(Markup("\n".join(drawn)))


def _printable(value: str) -> str:
    return printable(value.replace("\r\n", "\n").replace("\r", "\n"))


def _unreferenced(line: str) -> str:
    line = _REFERENCE.sub(rf"\1{_ZERO_WIDTH_SPACE}", line)
    return _ADDRESS.sub(lambda found: found[0] + _ZERO_WIDTH_SPACE, line)


def _longest_run(line: str) -> int:
    return max(map(len, _BACKTICKS.findall(line)), default=0)
