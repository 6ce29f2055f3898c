"""Reports at a URL: written on this disk, then sent to the store, the page to open last.

A store has no rename: a reader may meet new pages beside the old entry for as long as it takes to
send them. Files of others stay, what the earlier report had besides goes last. Pages that a
cluster baked are sent by its nodes, to a place of their own from which the store copies them.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rlreport.bake.shelf import Shelf, Shelved, md5, new_name
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
from rlreport.pool import Pool
from rlreport.read.remote import filesystem, said, shown
from rlreport.read.sources import is_url

Out = Path | str
"""Where a report goes: a place on a disk, or a URL."""

_ENTRY = "index.html"
_BUCKETS = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")
"""Stores in which a path begins with a bucket, which nobody makes by writing to it."""

_LOOKED_AT = 4096

_STAGED = re.compile(r"\.rlreport-[0-9a-f]{16}/.+")
"""Pages that wait below a report's place; those of a build that was killed are removed."""


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
def written(out: Out, form: Form, pool: Pool | None = None) -> Iterator[tuple[Path, Shelf | None]]:
    """Yield where the report is to be written: ``out``, or a place whose files then go there.

    Args:
        out: where it goes.
        form: its form.
        pool: who bakes its pages; besides comes where they are put, None for beside the report.

    Raises:
        OutputError: see ``check_place``, or the store does not take a file.
    """
    if isinstance(out, Path):
        yield out, None
        return
    remote = _Remote(out, form)
    shelf = remote.shelf() if pool and pool.elsewhere and form.folder else None
    with tempfile.TemporaryDirectory(prefix="rlreport.") as folder:
        place = Path(folder) / (remote.root.rpartition("/")[2] or "report")
        try:
            yield place, shelf
            remote.send(place, shelf)
        except BaseException:
            if shelf:
                with suppress(Exception):  # what remains is removed by the next build
                    shelf.clear()
            raise


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
            raise OutputError(f"{self.out}: cannot be seen: {said(error)}") from None

    def shelf(self) -> _StoreShelf | None:
        """Return a shelf in the store, None where that does not take or copy files by itself."""
        held, name = self.there()[0], self.root.rpartition("/")[2]
        told = {path.removeprefix(f"{name}/"): _told(info) for path, info in held.items()}
        shelf = _StoreShelf(self.url, self.root, told)
        try:
            if self.scheme not in _BUCKETS:
                self.system.makedirs(shelf.root, exist_ok=True)
            tried = shelf.put("", b"")
            self.system.cp_file(f"{shelf.root}/{tried.name}", f"{shelf.root}/{new_name()}")
        except Exception:  # of any store: then pages come back, and are sent from here
            return None
        return shelf

    def send(self, place: Path, shelf: _StoreShelf | None) -> None:
        """Send what was written at ``place`` and beside it, and what lies on the shelf.

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
        pages = (
            {f"{place.name}/{path}": page for path, page in shelf.moved.items()} if shelf else {}
        )
        if foreign := sorted((local.keys() | pages.keys()) & (there.keys() - ours)):
            raise OutputError(
                f"{self.out}: {foreign[0]} is not a file of rlreport, and the new report has one "
                "of that name; move it away"
            )
        entry = f"{place.name}/{_ENTRY}" if self.form.folder else place.name
        told = {name: _told(there.get(name, {})) for name in (*local, *pages)}
        sent = {
            n: str(file) for n, file in local.items() if n != entry and not _same(file, told[n])
        }
        copied = {
            name: shelf.path(page)
            for name, page in pages.items()
            if shelf and not _holds(told[name], page.size, page.md5)
        }
        try:
            self._place(self.system.put, sent)
            self._place(self.system.copy, copied)
            # Its time tells when the report was built, changed or not.
            self._place(self.system.put, {entry: str(local[entry])})
            if gone := sorted(ours - local.keys() - pages.keys()):
                self.system.rm([self._path(name) for name in gone])
        except Exception as error:
            raise OutputError(f"{self.out}: cannot be written: {said(error)}") from None

    def _path(self, name: str) -> str:
        parent = self.root.rpartition("/")[0]
        return f"{parent}/{name}"

    def _place(self, send: Callable[[list[str], list[str]], object], files: dict[str, str]) -> None:
        """Put files, or copy those that are in the store, to where their names say."""
        for parent in {self._path(name).rpartition("/")[0] for name in files}:
            if self.scheme not in _BUCKETS:
                self.system.makedirs(parent, exist_ok=True)
        if files:
            send(list(files.values()), list(map(self._path, files)))

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
                staged = {p for p in found if _STAGED.fullmatch(p.removeprefix(f"{name}/"))}
                found = {path: info for path, info in found.items() if path not in staged}
                self._get(found, folder.parent, f"{name}/{MANIFEST}", f"{name}/data/report.json")
                ours = report_files(folder) if folder.exists() else None
                if found and ours is None:
                    raise OutputError(
                        f"{self.out}: holds files that are not a report of rlreport; choose "
                        "another place"
                    )
                own = {path for path in found if ours and ours(path.removeprefix(f"{name}/"))}
                return found, own | staged
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


class _StoreShelf(Shelf):
    """A place below the report's in its store: what is moved is copied there, by the store."""

    def __init__(self, url: str, root: str, held: Mapping[str, tuple[int, set[str]]]) -> None:
        super().__init__()
        self.url, self.held = url, held
        self.root = f"{root}/.rlreport-{secrets.token_hex(8)}"

    def put(self, path: str, data: bytes) -> Shelved:
        """See Shelf."""
        page = Shelved(path, "", len(data), md5(data))
        if path in self.held and _holds(self.held[path], page.size, page.md5):
            return page
        with tempfile.TemporaryDirectory(prefix="rlreport.") as folder:
            file = Path(folder) / new_name()  # by which the store tells its kind
            file.write_bytes(data)
            filesystem(self.url).put_file(str(file), f"{self.root}/{file.name}")
        return page._replace(name=file.name)

    def read(self, page: Shelved) -> bytes:
        """See Shelf."""
        data: bytes = filesystem(self.url).cat_file(f"{self.root}/{page.name}")
        return data

    def move(self, page: Shelved, place: Path) -> None:
        """See Shelf: it is in the store, and goes to its place there with the other files."""
        self.moved[page.path] = page

    def path(self, page: Shelved) -> str:
        """Return where a page lies.

        Raises:
            OutputError: it was to stay as the report had it, which has changed since.
        """
        if not page.name:
            raise OutputError(f"{shown(self.url)}: {page.path} was changed meanwhile; build again")
        return f"{self.root}/{page.name}"

    def clear(self) -> None:
        """See Shelf."""
        system = filesystem(self.url)
        system.invalidate_cache()
        with suppress(FileNotFoundError):
            if found := system.find(self.root):
                system.rm(found)


def _told(info: Mapping[str, Any]) -> tuple[int, set[str]]:
    """Return the bytes of a file, and all that may be its MD5: what S3 and GCS tell of it."""
    keys = ("ETag", "etag", "md5Hash", "content_md5")
    return int(info.get("size") or 0), {str(info.get(key)).strip('"') for key in keys}


def _same(file: Path, told: tuple[int, set[str]]) -> bool:
    return told[0] == file.stat().st_size and _holds(told, told[0], md5(file.read_bytes()))


def _holds(told: tuple[int, set[str]], size: int, digest: str) -> bool:
    """Whether a store tells that a file has these bytes."""
    return told[0] == size and bool(
        told[1] & {digest, base64.b64encode(bytes.fromhex(digest)).decode()}
    )
