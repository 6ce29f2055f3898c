"""Publish a report: write it next to its destination and swap, or send it to an object store."""

from __future__ import annotations

import filecmp
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, TypeAlias

from rlreport.deliver.form import Form
from rlreport.deliver.object_store import ObjectStore
from rlreport.deliver.ownership import (
    SYSTEM_FILES,
    check_file,
    check_names,
    files_below,
    folders_of,
    listed_files,
    pictures_of,
)
from rlreport.errors import OutputError
from rlreport.read.files import is_url
from rlreport.read.remote import shown

Destination: TypeAlias = Path | str
"""A local path, or a URL."""

_LEFTOVER_SECONDS = 3600
"""Age from which a staging folder is that of a killed build: delivering takes seconds."""


def destination(given: str | Path) -> Destination:
    """Return the destination given by the user: a URL stays text."""
    text = os.fspath(given)
    return text if is_url(text) else Path(given)


def page_at(out: Destination, page: str) -> Destination:
    """Return the path or the displayed URL of a page of a report folder."""
    return out / page if isinstance(out, Path) else f"{shown(out).rstrip('/')}/{page}"


def size_of(path: Path) -> int:
    """Return the bytes of a file and its pictures, or of all files of a folder."""
    if not path.is_file():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size + size_of(pictures_of(path))


def check_destination(out: Destination, form: Form) -> None:
    """Check that a report may be written to ``out``.

    Raises:
        OutputError: it cannot be a report, or it contains files that rlreport did not write.
        RlreportError: there is no such kind of store.
    """
    if isinstance(out, Path):
        local_path(out, form)
    else:
        ObjectStore(out, form).existing()


@contextmanager
def publishing(out: Destination, form: Form) -> Iterator[Path]:
    """Yield a path to write the report to; it replaces ``out`` when the block ends without error.

    The path of a folder is an empty folder. Pictures are written to ``pictures_of`` the path.

    Raises:
        OutputError: see ``check_destination``, or the destination cannot be written.
    """
    if isinstance(out, str):
        store = ObjectStore(out, form)
        with tempfile.TemporaryDirectory(prefix="rlreport.") as temporary:
            path = Path(temporary) / (store.name or "report")
            if form.folder:
                path.mkdir()
            yield path
            store.send(path)
        return
    out = local_path(out, form)
    missing = [folder for folder in out.parents if not folder.exists()]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with _staging_folder(out) as staging:
            path = staging / "new" / out.name
            if form.folder:
                path.mkdir()
            yield path
            local_path(out, form)  # its files may have changed since the build began
            for folder, _ in folders_of(out, form):
                _keep_files(folder, path.with_name(folder.name))
            _swap(staging, out, form)
    except OSError as error:
        raise _cannot_write(out, error) from error
    finally:
        for folder in missing:
            with suppress(OSError):  # not empty
                folder.rmdir()


def local_path(out: Path, form: Form) -> Path:
    """Return where a report for ``out`` is written: the target of a link, else ``out``.

    Raises:
        OutputError: it cannot be a report, or it contains files that rlreport did not write.
    """
    try:
        return _checked(out, form)
    except OSError as error:
        raise _cannot_write(out, error) from error
    except ValueError as error:  # a NUL in the name
        raise OutputError(f"{out}: is not a valid file name") from error


def _checked(out: Path, form: Form) -> Path:
    if out.is_symlink() and not out.exists():
        raise OutputError(f"{out}: is a broken link; remove it or choose another name")
    if out.exists() and not out.is_dir() and not out.is_file():
        raise OutputError(f"{out}: is a device, a pipe or a socket; give a file name, or '-o -'")
    if out.is_symlink() or out.name in ("", ".."):
        out = out.resolve()
    if not out.name:
        raise OutputError(f"{out}: is not a valid output path; give a file or folder name")
    if form.folder and out.is_file():
        raise OutputError(f"{out}: is a file; give a folder, or a suffix that selects a format")
    if form.folder and out.exists() and Path.cwd().is_relative_to(out.resolve()):
        raise OutputError(f"{out}: is the current folder; give the name of a new folder")
    for folder, manifest in folders_of(out, form):
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise OutputError(f"{folder}: is not a folder; choose another name than {out}")
        if folder.exists():
            file = folder / manifest
            listed = listed_files(file.read_bytes() if file.is_file() else b"")
            check_names(folder, (name for name in files_below(folder) if name not in listed))
    if not form.folder and out.is_dir():
        raise OutputError(f"{out}: is a folder; choose another name")
    if not form.folder and out.exists():
        with out.open("rb") as stream:
            check_file(out, out.stat().st_size, partial(_between, stream))
    return out


def _between(file: BinaryIO, start: int, end: int) -> bytes:
    file.seek(start)
    return file.read(end - start)


def _keep_files(old: Path, new: Path) -> None:
    """Copy system files, and the modification times of unchanged files (``rsync`` skips those)."""
    for name in files_below(old):
        source, target = old / name, new / name
        if PurePosixPath(name).name in SYSTEM_FILES and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
        elif target.is_file() and source.is_file() and filecmp.cmp(source, target, shallow=False):
            times = source.stat()
            os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))


@contextmanager
def _staging_folder(out: Path) -> Iterator[Path]:
    """Yield a hidden folder next to ``out`` with the folders ``new`` and ``old``."""
    prefix = f".{out.name[:40]}."
    _remove_leftovers(out.parent, prefix)
    # The name is chosen first, so that an interrupt during mkdir leaves nothing.
    staging = out.with_name(f"{prefix}{secrets.token_hex(8)}.part")
    try:
        staging.mkdir(mode=0o700)
        (staging / "new").mkdir()
        (staging / "old").mkdir()
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _remove_leftovers(folder: Path, prefix: str) -> None:
    """Remove old staging folders of killed builds; put back a report that one had moved away."""
    for staging in folder.glob("*.part"):
        with suppress(OSError):
            old = staging.lstat().st_mtime < time.time() - _LEFTOVER_SECONDS
            if staging.name.startswith(prefix) and old:
                for path in (staging / "old").iterdir():
                    if not (folder / path.name).exists():
                        path.rename(folder / path.name)
                shutil.rmtree(staging)


def _swap(staging: Path, out: Path, form: Form) -> None:
    """Replace ``out`` and its pictures by the staged ones; on an error restore them."""
    names = dict.fromkeys([*(folder.name for folder, _ in folders_of(out, form)), out.name])
    begun = []
    try:
        for name in names:
            begun.append(name)
            target, new = out.with_name(name), staging / "new" / name
            if target.is_dir():
                target.replace(staging / "old" / name)
            if new.exists():
                new.replace(target)
    except OSError:
        for name in begun:
            target, old = out.with_name(name), staging / "old" / name
            if old.exists():
                if target.exists():
                    target.replace(staging / "new" / name)
                old.replace(target)
        raise


def _cannot_write(out: Path, error: OSError) -> OutputError:
    return OutputError(f"{out}: cannot be written: {(error.strerror or str(error)).lower()}")
