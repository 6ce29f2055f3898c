"""Tells reports of ours from other people's files, which are never overwritten."""

from __future__ import annotations

import json
from pathlib import Path

NAME = "rlreport"

_MARKS = (
    b'<meta name="generator" content="rlreport ',
    b"X-Mailer: rlreport ",
    b"<!-- rlreport ",
)
"""What HTML, mail and Markdown carry near their start; a zip ends with its comment."""

_LOOKED_AT = 4096
_PICTURES = frozenset({".png", ".svg"})


def zip_comment(version: str) -> bytes:
    """The comment that marks a zip as ours."""
    return f"{NAME} {version}".encode()


def is_report_folder(folder: Path) -> bool:
    """Whether ``data/report.json`` says that we wrote this folder."""
    try:
        report = json.loads((folder / "data" / "report.json").read_bytes())
        return bool(report["generator"]["name"] == NAME)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def is_report_file(file: Path) -> bool:
    """Whether a file is empty or marked as one of ours."""
    try:
        with file.open("rb") as stream:
            start = stream.read(_LOOKED_AT)
            stream.seek(max(0, file.stat().st_size - 64))
            end = stream.read()
    except OSError:
        return False
    if start.startswith(b"PK"):
        return zip_comment("") in end
    return not start or any(mark in start for mark in _MARKS)


def only_pictures(folder: Path) -> bool:
    """Whether a folder holds nothing but pictures, as the one beside a Markdown report does."""
    return folder.is_dir() and all(
        entry.is_file() and entry.suffix in _PICTURES for entry in folder.iterdir()
    )
