"""Reports at a URL: written on this disk, then sent to the store, the page to open last.

A store has no rename: a reader may meet new pages beside the old entry for as long as it takes to
send them. Files of others stay, what the earlier report had besides goes last.
"""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
"""Where a report goes: a place on a disk, or a URL."""

_ENTRY = "index.html"
_BUCKETS = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")
"""Stores in which a path begins with a bucket, which nobody makes by writing to it."""

_LOOKED_AT = 4096


def check_place(out: Out, form: Form) -> None:
    """Check that a report may be written to ``out``.

    Raises:
        OutputError: it can hold no report, or holds something that is not ours to replace.
        RlreportError: there is no such kind of store.
    """
    if isinstance(out, Path):
        destination(out, form)
    else:
        _Remote(out, form).there()


def place_of(given: str | Path) -> Out:
    """Return where a report goes as it was given: a URL stays one."""
    text = os.fspath(given)
    return text if is_url(text) else Path(given)


def page_of(out: Out, page: str) -> Out:
    """Return where a page of a folder is, as it may be shown."""
    return out / page if isinstance(out, Path) else f"{shown(out).rstrip('/')}/{page}"


@contextmanager
def written(out: Out, form: Form) -> Iterator[Path]:
    """Yield where the report is to be written: ``out``, or a place whose files then go there.

    Args:
        out: where it goes.
        form: its form.

    Raises:
        OutputError: see ``check_place``, or the store does not take a file.
    """
    if isinstance(out, Path):
        yield out
        return
    remote = _Remote(out, form)
    with tempfile.TemporaryDirectory(prefix="rlreport.") as folder:
        place = Path(folder) / (remote.root.rpartition("/")[2] or "report")
        yield place
        remote.send(place)


class _Remote:
    """A place in a store."""

    def __init__(self, out: str, form: Form) -> None:
        self.url, self.out, self.form = out, shown(out), form
        self.system = filesystem(out)
        self.root = self.system._strip_protocol(out.rstrip("/"))
        self.scheme = out.partition("://")[0]

    def there(self) -> tuple[dict[str, dict[str, Any]], set[str]]:
        """Return the files of this report's names by path from its parent, and which are ours.

        Raises:
            OutputError: something there is not ours to replace.
        """
        try:
            return self._there()
        except OutputError:
            raise
        except Exception as error:
            raise OutputError(f"{self.out}: cannot be seen: {store_message(error)}") from None

    def send(self, place: Path) -> None:
        """Send what was written at ``place`` and next to it, the page to open last.

        Raises:
            OutputError: it cannot be sent, or something there is not ours to replace.
        """
        there, ours = self.there()
        local = {
            path.relative_to(place.parent).as_posix(): path
            for root in (place, pictures_of(place))
            for path in sorted(root.rglob("*") if root.is_dir() else [root])
            if path.is_file()
        }
        if foreign := sorted(local.keys() & (there.keys() - ours)):
            raise OutputError(
                f"{self.out}: {foreign[0]} is not a file of rlreport, and the new report has one "
                "of that name; move it away"
            )
        entry = f"{place.name}/{_ENTRY}" if self.form.folder else place.name
        sent = {
            name: str(file)
            for name, file in local.items()
            if name != entry and not _same(file, there.get(name, {}))
        }
        try:
            self._put(sent)
            # Its time tells when the report was built, changed or not.
            self._put({entry: str(local[entry])})
            if gone := sorted(ours - local.keys()):
                self.system.rm([self._path(name) for name in gone])
        except Exception as error:
            raise OutputError(f"{self.out}: cannot be written: {store_message(error)}") from None

    def _path(self, name: str) -> str:
        parent = self.root.rpartition("/")[0]
        return f"{parent}/{name}"

    def _put(self, files: dict[str, str]) -> None:
        """Send files to the names they have below the report's parent."""
        for parent in {self._path(name).rpartition("/")[0] for name in files}:
            if self.scheme not in _BUCKETS:
                self.system.makedirs(parent, exist_ok=True)
        if files:
            self.system.put(list(files.values()), list(map(self._path, files)))

    def _there(self) -> tuple[dict[str, dict[str, Any]], set[str]]:
        self.system.invalidate_cache()
        bucket, _, key = self.root.partition("/")
        if not key:
            raise OutputError(f"{self.out}: name a place in it for the report")
        if self.scheme in _BUCKETS and not self.system.exists(bucket):
            raise OutputError(f"{self.out}: there is no bucket {bucket}, or it may not be seen")
        name = self.root.rpartition("/")[2]
        with tempfile.TemporaryDirectory(prefix="rlreport.") as kept:
            folder = Path(kept) / name
            if self.form.folder:
                found = self._below(name)
                self._get(found, folder.parent, f"{name}/{MANIFEST}", f"{name}/data/report.json")
                ours = report_files(folder) if folder.exists() else None
                if found and ours is None:
                    raise OutputError(
                        f"{self.out}: holds files that are not a report of rlreport; choose "
                        "another place"
                    )
                own = {path for path in found if ours and ours(path.removeprefix(f"{name}/"))}
                return found, own
            found = self._file(name, folder)
            own = set(found)
            if self.form.pictures:
                beside = pictures_of(folder)
                shown_beside = self._below(beside.name)
                self._get(shown_beside, folder.parent, f"{beside.name}/{PICTURES_MANIFEST}")
                is_ours = picture_files(beside, folder)
                own |= {p for p in shown_beside if is_ours(p.removeprefix(f"{beside.name}/"))}
                found |= shown_beside
            return found, own

    def _below(self, name: str) -> dict[str, dict[str, Any]]:
        """List the files below a folder beside or at the report's place."""
        root = self._path(name)
        try:
            listed = self.system.find(root, detail=True)
        except FileNotFoundError:
            return {}
        return {
            f"{name}{str(path).removeprefix(root)}": info
            for path, info in listed.items()
            if info.get("type") != "directory" and str(path).startswith(f"{root}/")
        }

    def _file(self, name: str, kept: Path) -> dict[str, dict[str, Any]]:
        """Look at the one file of the report, of which ``kept`` gets what tells whose it is."""
        if not self.system.exists(self.root):
            return {}
        if self.system.isdir(self.root):
            raise OutputError(f"{self.out}: is a folder; choose another name")
        info = self.system.info(self.root)
        size = int(info.get("size") or 0)
        last = max(0, size - _LOOKED_AT)
        start = self.system.cat_file(self.root, start=0, end=min(size, _LOOKED_AT)) if size else b""
        kept.write_bytes(
            start + (self.system.cat_file(self.root, start=last, end=size) if last else b"")
        )
        if not is_report_file(kept):
            raise OutputError(
                f"{self.out}: is not a report of rlreport; choose another name or remove it"
            )
        return {name: info}

    def _get(self, found: dict[str, dict[str, Any]], into: Path, *names: str) -> None:
        for name in names:
            if name in found:
                (into / name).parent.mkdir(parents=True, exist_ok=True)
                (into / name).write_bytes(self.system.cat_file(self._path(name)))


def _same(file: Path, info: Mapping[str, Any]) -> bool:
    """Whether a store tells that it holds a file with these bytes, as S3 and GCS do by MD5."""
    if int(info.get("size") or 0) != file.stat().st_size:
        return False
    digest = hashlib.md5(file.read_bytes(), usedforsecurity=False).digest()
    keys = ("ETag", "etag", "md5Hash", "content_md5")
    told = {str(info.get(key)).strip('"') for key in keys}
    return bool(told & {digest.hex(), base64.b64encode(digest).decode()})
