"""Publish a report: write it next to its destination and swap, or send it to an object store.

A store has no rename, so it gets the page to open last: until then the old page stays.
"""

from __future__ import annotations

import base64
import filecmp
import hashlib
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from rlreport.deliver import Form
from rlreport.deliver.ownership import (
    EDGE_BYTES,
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
from rlreport.read.remote import filesystem, shown, store_message

Destination: TypeAlias = Path | str
"""A local path, or a URL."""

_BUCKETS = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")
"""Schemes whose paths begin with a bucket, which writing does not create."""

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
        _ObjectStore(out, form).existing()


@contextmanager
def publishing(out: Destination, form: Form) -> Iterator[Path]:
    """Yield a path to write the report to; it replaces ``out`` when the block ends without error.

    The path of a folder is an empty folder. Pictures are written to ``pictures_of`` the path.

    Raises:
        OutputError: see ``check_destination``, or the destination cannot be written.
    """
    if isinstance(out, str):
        store = _ObjectStore(out, form)
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
        if out.exists() and not out.is_dir() and not out.is_file():
            raise OutputError(
                f"{out}: is a device, a pipe or a socket; give a file name, or '-o -'"
            )
        if (out.is_symlink() and out.exists()) or out.name in ("", ".."):
            out = out.resolve()
        if reason := _unusable(out, form):
            raise OutputError(f"{out}: {reason}")
        for folder, manifest in folders_of(out, form):
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                raise OutputError(f"{folder}: is not a folder; choose another name than {out}")
            if folder.exists():
                file = folder / manifest
                listed = listed_files(file.read_bytes() if file.is_file() else b"")
                check_names(folder, (name for name in files_below(folder) if name not in listed))
        if out.is_file():
            with out.open("rb") as stream:
                start = stream.read(EDGE_BYTES)
                stream.seek(max(0, out.stat().st_size - EDGE_BYTES))
                check_file(out, start, stream.read())
    except OSError as error:
        raise _cannot_write(out, error) from error
    except ValueError as error:  # a NUL in the name
        raise OutputError(f"{out}: is not a valid file name") from error
    return out


def _unusable(out: Path, form: Form) -> str:
    """Return why a resolved path cannot be a report of this format, "" if it can."""
    if out.is_symlink():
        return "is a broken link; remove it or choose another name"
    if not out.name:
        return "is not a valid output path; give a file or folder name"
    if form.folder and out.is_file():
        return "is a file; give a folder, or a suffix that selects a format"
    if form.folder and out.exists() and Path.cwd().is_relative_to(out.resolve()):
        return "is the current folder; give the name of a new folder"
    if not form.folder and out.is_dir():
        return "is a folder; choose another name"
    return ""


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
    for leftover in out.parent.glob("*.part"):
        if leftover.name.startswith(prefix):
            _remove_leftover(leftover)
    # The name is chosen first, so that an interrupt during mkdir leaves nothing.
    staging = out.with_name(f"{prefix}{secrets.token_hex(8)}.part")
    try:
        staging.mkdir(mode=0o700)
        (staging / "new").mkdir()
        (staging / "old").mkdir()
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _remove_leftover(staging: Path) -> None:
    """Remove the old staging folder of a killed build; put back a report that it moved away."""
    with suppress(OSError):
        if staging.lstat().st_mtime < time.time() - _LEFTOVER_SECONDS:
            for path in (staging / "old").iterdir():
                if not staging.with_name(path.name).exists():
                    path.rename(staging.with_name(path.name))
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


class _ObjectStore:
    """A destination in an object store; names of files are relative to the report's parent."""

    def __init__(self, url: str, form: Form) -> None:
        self.url, self.form = shown(url), form
        self.system = filesystem(url)
        self.root: str = self.system._strip_protocol(url.rstrip("/"))
        self.parent, _, self.name = self.root.rpartition("/")
        self.has_bucket = url.partition("://")[0] in _BUCKETS

    def existing(self) -> tuple[dict[str, dict[str, Any]], set[str]]:
        """Return the files at the destination with fsspec's info, and those of the old report.

        Raises:
            OutputError: there is no report of rlreport but something else, or access is denied.
        """
        with self._errors("cannot be read"):
            self.system.invalidate_cache()
            bucket, _, key = self.root.partition("/")
            if not key:
                raise OutputError(f"{self.url}: add a name for the report to the URL")
            if self.has_bucket and not self.system.exists(bucket):
                raise OutputError(f"{self.url}: there is no bucket {bucket}, or access is denied")
            files = {} if self.form.folder else self._single_file()
            ours = set(files)
            for folder, manifest in folders_of(Path(self.name), self.form):
                below = self._below(folder.name)
                name = f"{folder.name}/{manifest}"
                content = self.system.cat_file(f"{self.parent}/{name}") if name in below else b""
                listed = listed_files(content)
                if not listed:
                    check_names(self.url, (name.partition("/")[2] for name in below))
                files |= below
                ours |= {f"{folder.name}/{name}" for name in listed} & below.keys()
        return files, ours

    def send(self, path: Path) -> None:
        """Send the report at ``path``, the page to open last, then remove stale files.

        Raises:
            OutputError: it cannot be sent, or would replace a file that rlreport did not write.
        """
        existing, ours = self.existing()
        names = files_below(path.parent)
        check_names(self.url, [name for name in names if name in existing and name not in ours])
        entry = f"{self.name}/index.html" if self.form.folder else self.name
        changed = [
            name for name in names if not _is_same(path.parent / name, existing.get(name, {}))
        ]
        with self._errors("cannot be written"):
            # The entry is sent even if unchanged: its time tells when the report was built.
            self._put(path.parent, [name for name in changed if name != entry])
            self._put(path.parent, [entry])
            if stale := sorted(ours.difference(names)):
                self.system.rm([f"{self.parent}/{name}" for name in stale])

    def _put(self, folder: Path, names: list[str]) -> None:
        remote = [f"{self.parent}/{name}" for name in names]
        if not self.has_bucket:
            for parent in {path.rpartition("/")[0] for path in remote}:
                self.system.makedirs(parent, exist_ok=True)
        if names:
            self.system.put([str(folder / name) for name in names], remote)

    def _single_file(self) -> dict[str, dict[str, Any]]:
        """Return the info of the file that is there, empty if none is."""
        if not self.system.exists(self.root):
            return {}
        if self.system.isdir(self.root):
            raise OutputError(f"{self.url}: is a folder; choose another name")
        info = self.system.info(self.root)
        if size := int(info.get("size") or 0):
            start = self.system.cat_file(self.root, start=0, end=min(size, EDGE_BYTES))
            end = self.system.cat_file(self.root, start=max(0, size - EDGE_BYTES), end=size)
            check_file(self.url, start, end)
        return {self.name: info}

    def _below(self, folder: str) -> dict[str, dict[str, Any]]:
        root = f"{self.parent}/{folder}"
        try:
            infos = self.system.find(root, detail=True)
        except FileNotFoundError:
            return {}
        return {
            f"{folder}{str(path).removeprefix(root)}": info
            for path, info in infos.items()
            if info.get("type") != "directory" and str(path).startswith(f"{root}/")
        }

    @contextmanager
    def _errors(self, failure: str) -> Iterator[None]:
        try:
            yield
        except OutputError:
            raise
        except Exception as error:
            raise OutputError(f"{self.url}: {failure}: {store_message(error)}") from None


def _is_same(file: Path, info: Mapping[str, Any]) -> bool:
    """Return whether a store's MD5 (as in S3 and GCS) is that of a local file."""
    if int(info.get("size") or 0) != file.stat().st_size:
        return False
    digest = hashlib.md5(file.read_bytes(), usedforsecurity=False).digest()
    sums = {str(info.get(key)).strip('"') for key in ("ETag", "etag", "md5Hash", "content_md5")}
    return not sums.isdisjoint({digest.hex(), base64.b64encode(digest).decode()})
