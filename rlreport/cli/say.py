"""Print to the terminal without control characters.

File names, fields and model output may contain some, which could move the cursor, overwrite lines
or hide text.
"""

from __future__ import annotations

import json
import sys
from io import StringIO, TextIOWrapper

import click

from rlreport.text.clean import REPLACEMENT, printable


def say(line: str = "", *, err: bool = False) -> None:
    """Print one line; unprintable characters, line ends included, become U+FFFD."""
    click.echo(printable(line).replace("\n", REPLACEMENT), err=err)


def say_error(message: str) -> None:
    """Print an error; further lines are indented, so that none can pose as a message."""
    click.echo("rlreport: " + printable(message).replace("\n", "\n  "), err=True)


def say_json(document: bytes) -> None:
    """Print JSON; unprintable characters, which only strings contain, are escaped."""
    text = document.decode()
    if printable(text) != text:
        text = "".join(c if printable(c) == c else json.dumps(c)[1:-1] for c in text)
    click.echo(text, nl=False)


def show_click_error(error: click.ClickException) -> None:
    """Print an error of click, which quotes arguments."""
    output = StringIO()
    error.show(file=output)
    click.echo(printable(output.getvalue()), err=True, nl=False)


def replace_unencodable() -> None:
    """Print ``?`` for characters that the terminal cannot encode."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
