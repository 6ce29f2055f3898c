"""Send a report to an object store.

A store has no rename, so it gets the page to open last: until then the old page stays.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlreport.deliver.form import Form
from rlreport.deliver.ownership import (
    check_file,
    check_names,
    files_below,
    folders_of,
    listed_files,
)
from rlreport.errors import OutputError
from rlreport.read.remote import filesystem, shown, store_message

_BUCKETS = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")
"""Schemes whose paths begin with a bucket, which writing does not create."""


class ObjectStore:
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
            files = {} if self.form.folder else self._file()
            ours = set(files)
            for folder, manifest in folders_of(Path(self.name), self.form):
                below = self._below(folder.name)
                name = f"{folder.name}/{manifest}"
                listed = listed_files(
                    self.system.cat_file(self._path(name)) if name in below else b""
                )
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
        local = {name: path.parent / name for name in files_below(path.parent)}
        check_names(self.url, sorted(local.keys() & (existing.keys() - ours)))
        entry = f"{self.name}/index.html" if self.form.folder else self.name
        changed = [n for n, file in local.items() if not _is_same(file, existing.get(n, {}))]
        with self._errors("cannot be written"):
            # The entry is sent even if unchanged: its time tells when the report was built.
            for names in ([name for name in changed if name != entry], [entry]):
                self._put({name: str(local[name]) for name in names})
            if stale := sorted(ours - local.keys()):
                self.system.rm([self._path(name) for name in stale])

    def _put(self, files: dict[str, str]) -> None:
        remote = [self._path(name) for name in files]
        for folder in {path.rpartition("/")[0] for path in remote if not self.has_bucket}:
            self.system.makedirs(folder, exist_ok=True)
        if files:
            self.system.put(list(files.values()), remote)

    def _file(self) -> dict[str, dict[str, Any]]:
        """Return the info of the single file that is there, empty if none is."""
        if not self.system.exists(self.root):
            return {}
        if self.system.isdir(self.root):
            raise OutputError(f"{self.url}: is a folder; choose another name")
        info = self.system.info(self.root)
        check_file(
            self.url,
            int(info.get("size") or 0),
            lambda start, end: self.system.cat_file(self.root, start=start, end=end),
        )
        return {self.name: info}

    def _path(self, name: str) -> str:
        return f"{self.parent}/{name}"

    def _below(self, folder: str) -> dict[str, dict[str, Any]]:
        root = self._path(folder)
        try:
            found = self.system.find(root, detail=True)
        except FileNotFoundError:
            return {}
        return {
            f"{folder}{str(path).removeprefix(root)}": info
            for path, info in found.items()
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
