"""Open a report in the browser: the command ``rlreport open`` and the option ``--open``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from rlreport.cli.terminal import say, say_path
from rlreport.errors import UnusableInputError

_PAGES = ("index.html", "compare.html")  # that a report's folder may begin with
_SUFFIXES = (".html", ".htm")


@click.command("open", short_help="Open a report in the browser.")
@click.argument("path", default="report", metavar="[REPORT]")
def open_report(path: str) -> None:
    """Open a local REPORT in the browser: a folder, a page of one, or an .html file.

    Without a display, only its path is printed. The default is the folder 'report'.

    \b
    Examples:
      rlreport open
      rlreport open runs/index.html
    """
    page = page_of(Path(path))
    show_page(page)
    say_path(page)


def page_of(path: Path) -> Path:
    """Return the page of a report to open, or raise UnusableInputError if there is none."""
    from rlreport.system.own_output import is_own_file

    if not path.exists():
        raise UnusableInputError(f"{path}: no such file or folder")
    pages = [path]
    if path.is_dir():
        pages = [path / name for name in _PAGES if (path / name).exists()]
    for page in pages:
        # A link in a stranger's folder could lead anywhere.
        if (
            page.suffix.lower() in _SUFFIXES
            and is_own_file(page)
            and not page.is_symlink()
        ):
            return page
    raise UnusableInputError(
        f"{path}: is not a report of rlreport that a browser can show (a folder or an .html file)"
    )


def show_page(page: object) -> None:
    """Open a page that was just written, if it is a local page and there is a browser for it."""
    is_page = isinstance(page, Path) and page.suffix.lower() in _SUFFIXES
    if not isinstance(page, Path) or not is_page:
        say("not opened: a browser shows a local folder or .html file", err=True)
    elif not (_has_display() and _open(page)):
        say("not opened: no browser found", err=True)


def _open(page: Path) -> bool:
    import webbrowser

    try:
        return webbrowser.open(page.resolve().as_uri())
    except (webbrowser.Error, OSError):
        return False


def _has_display() -> bool:
    """Return whether a browser would appear: not in CI, over SSH, or in a console without one."""
    if os.environ.get("CI"):
        return False
    if sys.platform in ("win32", "darwin"):
        return not os.environ.get("SSH_CONNECTION")
    names = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
    return any(map(os.environ.get, names))
