"""Text as Markdown that stays text: model output cannot become markup, a link or a mention.

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
    """One line of plain text, cut with an ellipsis; everything in it shows as it is."""
    line = shortened(_printable(" ".join(value.split())), longest)
    line = _unreferenced(line)
    return Markup(_MARKUP.sub(r"\\\1", html.escape(line, quote=False)))


def number(value: str) -> Markup:
    """A number of a table, never broken before its unit."""
    return Markup(text(value).replace(" ", "\N{NO-BREAK SPACE}"))


def code(value: str, longest: int = 80) -> Markup:
    """Text of the model within a line: a code span, with white space made visible."""
    line = _printable(value).replace("\n", "↵").replace("\t", "⇥")
    line = _unreferenced(shortened(line, longest))
    fence = "`" * (_longest_run(line) + 1)
    # A code span drops one space at each end, and one of blanks alone keeps them.
    return Markup(f"{fence} {line} {fence}") if line.strip() else Markup("` ␣ `")


def code_cell(value: str, longest: int = 80) -> Markup:
    """The same in a cell of a table, which a bar would end even in a code span."""
    return Markup(code(value, longest).replace("|", "\\|"))


def fenced(value: str, longest: int) -> Markup:
    """Text of the model in a block of its own, fenced by more backticks than it holds."""
    shown = _printable(value)
    left = len(shown) - longest
    if left > 0:
        shown = f"{shown[:longest]}… ({left:,} characters more)"
    fence = "`" * max(_LEAST_FENCE, _longest_run(shown) + 1)
    return Markup(f"{fence}text\n{shown}\n{fence}")


def line_chart(title: str, axis: str, steps: Sequence[int], values: Sequence[float]) -> Markup:
    """A line over steps as a mermaid chart; GitHub and GitLab draw it.

    Args:
        title: what is drawn, in our own words.
        axis: what steps are called.
        steps: one for each value.
        values: finite.
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
