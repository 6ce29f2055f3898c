"""The one way to the terminal: lines in which nothing but their words is there.

File names, fields and texts of a model may hold control characters, which would move the cursor,
paint over earlier lines or hide what follows.
"""

from __future__ import annotations

import json
import sys
from io import StringIO, TextIOWrapper

import click

from rlreport.text.clean import REPLACEMENT, printable


def say(line: str = "", *, err: bool = False) -> None:
    """Write one line; what is not printable, line ends included, becomes U+FFFD."""
    click.echo(printable(line).replace("\n", REPLACEMENT), err=err)


def say_error(message: str) -> None:
    """Write an error; further lines of the message are indented, so that none looks like ours."""
    click.echo("rlreport: " + printable(message).replace("\n", "\n  "), err=True)


def say_json(document: bytes) -> None:
    """Write JSON; what is not printable, which only strings hold, is escaped."""
    text = document.decode()
    if printable(text) != text:
        text = "".join(c if printable(c) == c else json.dumps(c)[1:-1] for c in text)
    click.echo(text, nl=False)


def show_click_error(error: click.ClickException) -> None:
    """Write an error of click, which quotes what the user gave."""
    shown = StringIO()
    error.show(file=shown)
    click.echo(printable(shown.getvalue()), err=True, nl=False)


def write_what_fits() -> None:
    """Let a terminal that cannot show a character show another one instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
