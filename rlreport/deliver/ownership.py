"""Tells what rlreport wrote from other people's files, which are never overwritten or removed.

A folder of ours has a manifest of the files we wrote; a file of ours has its form's mark.
"""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from rlreport import __version__
from rlreport.deliver import forms
from rlreport.errors import OutputError

NAME = "rlreport"
MANIFEST = "data/manifest.json"
PICTURES_MANIFEST = "manifest.json"

_LAYOUT = re.compile(
    r"(index|prompts|tokens|data|checks|responses|compare)\.html|steps/-?\d+\.html|assets/[\w.-]+\.(js|css)"
    r"|data/run\.js|data/(report|findings)\.json|data/((steps|prompts|tokens)\.csv|responses\.csv\.gz)|data/charts/[^/]+\.vl\.json"
)
"""Files of a report folder that has no manifest, as reports had none at first."""

_LOOKED_AT = 4096

Ours = Callable[[str], bool]
"""Whether we wrote the file of this path below a folder."""


def write_manifest(folder: Path, name: str) -> None:
    """Lists all files of a folder just written in the file ``name`` in it.

    Args:
        folder: the folder.
        name: of the manifest.
    """
    files = sorted(path.as_posix() for path in _files(folder))
    manifest = {"generator": {"name": NAME, "version": __version__}, "files": [*files, name]}
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(manifest, indent=0), "utf-8")


def report_files(folder: Path) -> Ours | None:
    """Which files of a report folder are ours; None when it is no report of ours."""
    listed = _listed(folder / MANIFEST)
    if listed is not None:
        return listed.__contains__
    report = _json(folder / "data" / "report.json")
    return None if report is None else lambda path: bool(_LAYOUT.fullmatch(path))


def picture_files(folder: Path, main: Path) -> Ours:
    """Which files of the folder of pictures beside ``main`` are ours.

    Without a manifest, those that ``main``, if it is ours, shows.
    """
    listed = _listed(folder / PICTURES_MANIFEST)
    if listed is not None:
        return listed.__contains__
    text = main.read_text("utf-8", "replace") if main.is_file() and is_report_file(main) else ""
    return lambda path: f"({folder.name}/{path})" in text


def is_report_file(file: Path) -> bool:
    """Whether a file is empty or has the mark of one of our forms."""
    try:
        with file.open("rb") as stream:
            start = stream.read(_LOOKED_AT)
            stream.seek(max(0, file.stat().st_size - _LOOKED_AT))
            end = stream.read()
    except OSError:
        return False
    return not start or any(form.owns(start, end) for form in forms().values())


def carry_over(old: Path, new: Path, ours: Ours) -> None:
    """Brings the files of ``old`` that are not ours into ``new``; both are on one file system.

    Raises:
        OutputError: one of them has the path of a file of the new report.
        OSError: one of them cannot be brought.
    """
    for path in _files(old):
        if ours(path.as_posix()):
            continue
        source, target = old / path, new / path
        if os.path.lexists(target) or any(p.is_file() for p in target.parents):
            raise OutputError(
                f"{source}: is not a file of rlreport, and the new report has one of that name; "
                "move it away"
            )
        if source.is_dir() and not source.is_symlink():
            target.mkdir(parents=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target, follow_symlinks=False)
        except (OSError, NotImplementedError):  # a file system without links; Windows
            shutil.copy2(source, target, follow_symlinks=False)


def keep_unchanged(old: Path, new: Path) -> None:
    """Give files of ``new`` that hold what they held in ``old`` their inode and time of change.

    So ``rsync`` and its like see what is new; both folders are on one file system.
    """
    for path in _files(old) if old.is_dir() else ():
        source, target = old / path, new / path
        with suppress(OSError):  # such a file is a new one
            if not all(stat.S_ISREG(file.lstat().st_mode) for file in (source, target)):
                continue
            if source.samefile(target) or not filecmp.cmp(source, target, shallow=False):
                continue
            beside = target.with_name(target.name + ".kept")
            try:
                os.link(source, beside)
            except OSError:  # a file system without links
                shutil.copystat(source, target)
            else:
                beside.replace(target)


def _files(folder: Path) -> Iterator[Path]:
    """Paths below ``folder`` of all that is no folder, and of empty folders."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path = Path(entry.name)
        if not entry.is_dir(follow_symlinks=False):
            yield path
            continue
        empty = True
        for below in _files(folder / path):
            empty = False
            yield path / below
        if empty:
            yield path


def _listed(manifest: Path) -> frozenset[str] | None:
    made = _json(manifest)
    files = None if made is None else made.get("files")
    return frozenset(map(str, files)) if isinstance(files, list) else None


def _json(file: Path) -> dict[str, object] | None:
    """An object that we wrote, None when there is none."""
    try:
        made = json.loads(file.read_bytes()) if file.is_file() else None
        return made if made and made["generator"]["name"] == NAME else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
