"""Keeps what is slow to make in the user's cache: made once, read from then on."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path


def kept(name: str, made_of: str, make: Callable[[], str]) -> str:
    """The text that ``make`` gives, from the cache where it lies there whole.

    Args:
        name: of the file, with its suffix.
        made_of: everything the text depends on; another value is another file.
        make: makes the text.
    """
    stem, dot, suffix = name.rpartition(".")
    place = cache_folder() / f"{stem}-{_digest(made_of)[:16]}{dot}{suffix}"
    try:
        # By bytes: newlines stay as they are on every platform.
        digest, _, text = place.read_bytes().decode().partition("\n")
        if digest == _digest(text):
            return text
    except (OSError, UnicodeDecodeError):
        pass
    text = make()
    _write(place, f"{_digest(text)}\n{text}")
    return text


def cache_folder() -> Path:
    """Folder for what can be made again, by the platform's custom; it may not exist."""
    if "RLREPORT_CACHE" in os.environ:
        return Path(os.environ["RLREPORT_CACHE"])
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "rlreport"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home)) / "rlreport" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "rlreport"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _write(place: Path, text: str) -> None:
    """Writes the file whole; a place that cannot be written is no error."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(text.encode())
        Path(name).replace(place)
    except OSError:
        return
