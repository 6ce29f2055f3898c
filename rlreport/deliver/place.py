"""Puts a finished report in its place whole, or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rlreport.deliver.ours import is_report_file, is_report_folder, only_pictures
from rlreport.errors import OutputError

PICTURES = "_files"
"""What the folder of pictures beside a file is called: ``run.md`` has ``run_files``."""


def pictures_of(out: Path) -> Path:
    """The folder of pictures that belongs to the file ``out``."""
    return out.with_name(out.stem + PICTURES)


@contextmanager
def staged(out: Path, *, folder: bool, pictures: bool = False) -> Iterator[Path]:
    """Yields a fresh path; on success what was written there takes OUT's place, else it vanishes.

    The path has OUT's own name and lies alone in a hidden folder beside OUT. Whatever the form
    writes next to it (its pictures) is moved together with it.

    Args:
        out: where the report goes; its parent is made when missing.
        folder: whether the form is a folder.
        pictures: whether a folder of pictures comes with it.

    Raises:
        OutputError: the place holds something that is not a report of ours, or cannot be
            written.
    """
    refuse_foreign(out, folder=folder, pictures=pictures)
    made: list[Path] = []
    try:
        made = _make_parents(out.parent)
        holder = Path(tempfile.mkdtemp(prefix=f".{out.name[:40]}.", suffix=".part", dir=out.parent))
    except OSError as error:
        _remove_empty(made)
        raise OutputError(f"{out}: cannot be written: {_reason(error)}") from error
    done = False
    try:
        new, old = holder / "new", holder / "old"
        new.mkdir()
        old.mkdir()
        place = new / out.name
        if folder:
            place.mkdir()
        yield place
        _swap(new, out, old)
        done = True
    except OSError as error:
        raise OutputError(f"{out}: cannot be written: {_reason(error)}") from error
    finally:
        shutil.rmtree(holder, ignore_errors=True)
        if not done:
            _remove_empty(made)


def refuse_foreign(out: Path, *, folder: bool, pictures: bool = False) -> None:
    """Raises OutputError when ``out`` exists and is not a report that we may replace."""
    if out.is_symlink() and not out.exists():
        raise OutputError(f"{out}: is a broken link; remove it or choose another place")
    beside = pictures_of(out)
    if pictures and beside.exists() and not only_pictures(beside):
        raise OutputError(f"{beside}: holds more than pictures; choose another name than {out}")
    if not out.exists():
        return
    if folder:
        if not out.is_dir():
            raise OutputError(f"{out}: is a file; give a folder, or a suffix that names a form")
        if any(out.iterdir()) and not is_report_folder(out):
            raise OutputError(
                f"{out}: holds files that are not a report of rlreport; choose another folder"
            )
    elif out.is_dir():
        raise OutputError(f"{out}: is a folder; choose another name")
    elif not is_report_file(out):
        raise OutputError(f"{out}: is not a report of rlreport; choose another name or remove it")


def size_of(place: Path) -> int:
    """Bytes of a file and of its pictures, or of all files of a folder."""
    if not place.is_file():
        return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    return place.stat().st_size + size_of(pictures_of(place))


def _swap(new: Path, out: Path, old: Path) -> None:
    """Moves everything in ``new`` beside ``out``, ``out`` itself last; puts back what it can."""
    # The main file goes last: until then the old report still stands with its own name.
    parts = sorted(new.iterdir(), key=lambda part: (part.name == out.name, part.name))
    moved: list[Path] = []
    try:
        for part in parts:
            target = out.with_name(part.name)
            if part.is_dir() and target.exists():
                target.replace(old / part.name)
            moved.append(target)
            part.replace(target)
    except OSError:
        for target in moved:
            kept = old / target.name
            if kept.exists():
                if target.exists():
                    target.replace(new / target.name)
                kept.replace(target)
        raise
    # mkdtemp made the holder private; the report is for whoever may read the place.
    mask = os.umask(0)
    os.umask(mask)
    for target in moved:
        target.chmod((0o777 if target.is_dir() else 0o666) & ~mask)


def _make_parents(folder: Path) -> list[Path]:
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for parent in reversed(missing):
        parent.mkdir()
    return missing


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
