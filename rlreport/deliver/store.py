"""Reports at a URL: written to a local folder, then sent to the store, ``index.html`` last.

A store has no rename: while files are sent, the old ``index.html`` may link to new pages. Files of
others stay; files that only the earlier report had are removed last.
"""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlreport.deliver.form import Form
from rlreport.deliver.ownership import (
    MANIFEST,
    PICTURES_MANIFEST,
    is_report_file,
    picture_files,
    report_files,
)
from rlreport.deliver.place import destination, pictures_of
from rlreport.errors import OutputError
from rlreport.read.files import is_url
from rlreport.read.remote import filesystem, shown, store_message

Out = Path | str
"""A local path, or a URL."""

_BUCKETS = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")
"""Schemes whose paths begin with a bucket, which writing does not create."""

_EDGE_BYTES = 4096


def check_place(out: Out, form: Form) -> None:
    """Check that a report may be written to ``out``.

    Raises:
        OutputError: it cannot be a report, or it holds files that rlreport did not write.
        RlreportError: there is no such kind of store.
    """
    if isinstance(out, Path):
        destination(out, form)
    else:
        _Remote(out, form).existing()


def place_of(given: str | Path) -> Out:
    """Return the destination given by the user: a URL stays one."""
    text = os.fspath(given)
    return text if is_url(text) else Path(given)


def page_of(out: Out, page: str) -> Out:
    """Return the path or URL of a page of a report folder, as it may be shown."""
    return out / page if isinstance(out, Path) else f"{shown(out).rstrip('/')}/{page}"


@contextmanager
def written(out: Out, form: Form) -> Iterator[Path]:
    """Yield the local path to write the report to; for a URL its files are sent afterwards.

    Raises:
        OutputError: see ``check_place``, or the store refuses a file.
    """
    if isinstance(out, Path):
        yield out
        return
    remote = _Remote(out, form)
    with tempfile.TemporaryDirectory(prefix="rlreport.") as folder:
        path = Path(folder) / (remote.root.rpartition("/")[2] or "report")
        yield path
        remote.send(path)


@dataclass(frozen=True, slots=True)
class _Existing:
    """What the store holds: fsspec's info by path from the report's parent, and which are ours."""

    files: dict[str, dict[str, Any]]
    ours: set[str]


class _Remote:
    """The destination in a store."""

    def __init__(self, out: str, form: Form) -> None:
        self.out, self.form = shown(out), form
        self.system = filesystem(out)
        self.root: str = self.system._strip_protocol(out.rstrip("/"))
        self.parent, _, self.name = self.root.rpartition("/")
        self.buckets = out.partition("://")[0] in _BUCKETS

    def existing(self) -> _Existing:
        """Return the files of the report that is there.

        Raises:
            OutputError: rlreport did not write all of them, or access is denied.
        """
        with self._errors("cannot be read"), tempfile.TemporaryDirectory() as folder:
            self.system.invalidate_cache()
            bucket, _, key = self.root.partition("/")
            if not key:
                raise OutputError(f"{self.out}: name a place in it for the report")
            if self.buckets and not self.system.exists(bucket):
                raise OutputError(f"{self.out}: there is no bucket {bucket}, or access is denied")
            path = Path(folder) / self.name
            return self._folder(path) if self.form.folder else self._file(path)

    def send(self, path: Path) -> None:
        """Send what was written at ``path`` and next to it.

        Raises:
            OutputError: it cannot be sent, or would replace a file that rlreport did not write.
        """
        existing = self.existing()
        local = {
            file.relative_to(path.parent).as_posix(): file
            for root in (path, pictures_of(path))
            for file in sorted(root.rglob("*") if root.is_dir() else [root])
            if file.is_file()
        }
        if foreign := sorted(local.keys() & (existing.files.keys() - existing.ours)):
            raise OutputError(
                f"{self.out}: {foreign[0]} is not a file of rlreport, and the new report has one "
                "of that name; move it away"
            )
        entry = f"{self.name}/index.html" if self.form.folder else self.name
        changed = [
            name
            for name, file in local.items()
            if name != entry and not _same(file, existing.files.get(name, {}))
        ]
        with self._errors("cannot be written"):
            # The entry is sent even if it is the same: its time tells when the report was built.
            for names in (changed, [entry]):
                self._put({name: str(local[name]) for name in names})
            if gone := sorted(existing.ours - local.keys()):
                self.system.rm([self._path(name) for name in gone])

    def _put(self, files: dict[str, str]) -> None:
        remote = [self._path(name) for name in files]
        for folder in {path.rpartition("/")[0] for path in remote if not self.buckets}:
            self.system.makedirs(folder, exist_ok=True)
        if files:
            self.system.put(list(files.values()), remote)

    def _folder(self, path: Path) -> _Existing:
        files = self._below(self.name)
        self._get(files, path.parent, f"{self.name}/{MANIFEST}", f"{self.name}/data/report.json")
        is_ours = report_files(path) if path.exists() else None
        if files and is_ours is None:
            raise OutputError(
                f"{self.out}: holds files that are not a report of rlreport; choose another place"
            )
        return _Existing(files, {n for n in files if is_ours and is_ours(_tail(n))})

    def _file(self, path: Path) -> _Existing:
        files = {}
        if self.system.exists(self.root):
            if self.system.isdir(self.root):
                raise OutputError(f"{self.out}: is a folder; choose another name")
            files = {self.name: self.system.info(self.root)}
            size = int(files[self.name].get("size") or 0)
            first, last = min(size, _EDGE_BYTES), max(0, size - _EDGE_BYTES)
            edges = [(0, first), (last, size)] if size else []
            path.write_bytes(
                b"".join(self.system.cat_file(self.root, start=i, end=j) for i, j in edges)
            )
            if not is_report_file(path):
                raise OutputError(
                    f"{self.out}: is not a report of rlreport; choose another name or remove it"
                )
        ours = set(files)
        if self.form.pictures:
            folder = pictures_of(path)
            pictures = self._below(folder.name)
            self._get(pictures, path.parent, f"{folder.name}/{PICTURES_MANIFEST}")
            is_ours = picture_files(folder, path)
            ours |= {name for name in pictures if is_ours(_tail(name))}
            files |= pictures
        return _Existing(files, ours)

    def _path(self, name: str) -> str:
        return f"{self.parent}/{name}"

    def _below(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the files below a folder at or next to the report's path."""
        root = self._path(name)
        try:
            found = self.system.find(root, detail=True)
        except FileNotFoundError:
            return {}
        return {
            f"{name}{str(path).removeprefix(root)}": info
            for path, info in found.items()
            if info.get("type") != "directory" and str(path).startswith(f"{root}/")
        }

    def _get(self, files: Mapping[str, object], into: Path, *names: str) -> None:
        for name in names:
            if name in files:
                (into / name).parent.mkdir(parents=True, exist_ok=True)
                (into / name).write_bytes(self.system.cat_file(self._path(name)))

    @contextmanager
    def _errors(self, failure: str) -> Iterator[None]:
        try:
            yield
        except OutputError:
            raise
        except Exception as error:
            raise OutputError(f"{self.out}: {failure}: {store_message(error)}") from None


def _tail(name: str) -> str:
    return name.partition("/")[2]


def _same(file: Path, info: Mapping[str, Any]) -> bool:
    """Tell whether a store's MD5 says that it holds the same bytes, as S3 and GCS do."""
    if int(info.get("size") or 0) != file.stat().st_size:
        return False
    digest = hashlib.md5(file.read_bytes(), usedforsecurity=False).digest()
    sums = {str(info.get(key)).strip('"') for key in ("ETag", "etag", "md5Hash", "content_md5")}
    return not sums.isdisjoint({digest.hex(), base64.b64encode(digest).decode()})
