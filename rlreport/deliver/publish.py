"""Publish a report: write it next to its destination and swap, or upload it to an object store.

Signals are held back while the old report is exchanged for the new one. An object store cannot
rename, so the entry page is sent last: until then the old one stays. Only files that rlreport wrote
are replaced: they are in a manifest, or carry a mark.
"""

from __future__ import annotations

import filecmp
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeAlias

from rlreport import __version__
from rlreport.deliver.form import Form
from rlreport.errors import OutputError, stop_if_signalled
from rlreport.read.listing import is_url
from rlreport.signals import held
from rlreport.system.own_output import (
    EDGE_BYTES,
    MANIFEST,
    PICTURES_MANIFEST,
    first_and_last_bytes,
    has_mark,
    listed_files,
    pictures_of,
)
from rlreport.system.stores import filesystem, shown, store_message

# Files that operating systems and web hosts add to a report folder; they are preserved
SYSTEM_FILES = (".DS_Store", ".nojekyll", "CNAME", "Thumbs.db", "desktop.ini")

_NFS_PREFIX = ".nfs"  # of deleted files that are still open; NFS removes them later
_MAX_NAMED = 3  # Maximum number of files that an error names


def write_manifests(path: Path, form: Form) -> None:
    """Write a manifest into each folder of a report: the files that a later build may replace."""
    for folder, manifest in folders_of(path, form):
        # A report without charts has no folder of pictures.
        if folder.is_dir():
            document = {
                "generator": {"name": "rlreport", "version": __version__},
                "files": [*files_below(folder), manifest],
            }
            (folder / manifest).parent.mkdir(exist_ok=True)
            (folder / manifest).write_text(json.dumps(document, indent=0), "utf-8")


def folders_of(path: Path, form: Form) -> list[tuple[Path, str]]:
    """Return (folder, path of its manifest in it) for each folder of a report."""
    if form.folder:
        return [(path, MANIFEST)]
    return [(pictures_of(path), PICTURES_MANIFEST)] if form.pictures else []


def files_below(folder: Path) -> list[str]:
    """Return the paths of all files and links below a folder, relative to it."""
    paths = [
        path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()
    ]
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def refuse_foreign_file(name: Path | str, edges: bytes) -> None:
    """Raise OutputError if a file is neither empty nor a report; ``edges``: its start and end."""
    if edges and not has_mark(edges):
        raise OutputError(
            f"{name}: is not a report of rlreport; choose another name or remove it"
        )


def check_names(folder: Path | str, names: Iterable[str]) -> None:
    """Raise OutputError unless files that rlreport did not write are all system files.

    ``names`` are those of the files; ``folder`` is where they are, for the error.
    """
    foreign = [name for name in sorted(names) if not _is_system_file(name)]
    if foreign:
        raise OutputError(
            f"{folder}: contains files that rlreport did not write: {first_names(foreign)}; move "
            "them or choose another destination"
        )


def first_names(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are, for an error."""
    listed = ", ".join(names[:_MAX_NAMED])
    further = len(names) - _MAX_NAMED
    return f"{listed} and {further:,} more" if further > 0 else listed


def _is_system_file(path: str) -> bool:
    name = PurePosixPath(path).name
    return name in SYSTEM_FILES or name.startswith(_NFS_PREFIX)


# Where a report is written: a local path, or the URL of an object store
Destination: TypeAlias = Path | str

# URL schemes whose paths begin with the name of a bucket, which must exist already
_BUCKETS = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")

# Age at which a staging folder must be left from a killed build; writing takes only seconds
_LEFTOVER_SECONDS = 3600


def destination(given: str | Path) -> Destination:
    """Convert an output path given by the user to a Path, or leave it a string if it is a URL."""
    text = os.fspath(given)
    return text if is_url(text) else Path(given)


def page_at(out: Destination, page: str) -> Destination:
    """Return the path of a page in a report folder, or its URL as displayed (no credentials)."""
    return out / page if isinstance(out, Path) else f"{shown(out).rstrip('/')}/{page}"


def size_of(path: Path) -> int:
    """Return the size in bytes of a file with its pictures, or of all files in a folder."""
    if path.is_file():
        return path.stat().st_size + size_of(pictures_of(path))
    files = [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def check_destination(out: Destination, form: Form) -> None:
    if isinstance(out, Path):
        checked_path(out, form)
    else:
        _ObjectStore(out, form).existing()


def publishing(out: Destination, form: Form) -> AbstractContextManager[Path]:
    """Yield a temporary path or empty folder for the report, which then replaces that at ``out``.

    If the caller fails, or is interrupted, what is at ``out`` stays as it was.
    """
    return _uploading(out, form) if isinstance(out, str) else _replacing(out, form)


@contextmanager
def _uploading(url: str, form: Form) -> Iterator[Path]:
    """Do what ``publishing`` does for an object store: write in a temporary folder, then upload."""
    store = _ObjectStore(url, form)
    # The name is chosen first, so that an interrupt during mkdir leaves nothing.
    staging = Path(tempfile.gettempdir()) / f"rlreport.{secrets.token_hex(8)}"
    try:
        path = _begin(staging, Path(store.name or "report"), form)
        yield path
        stop_if_signalled()
        store.send(path)
    finally:
        with held():
            _discard(staging)


@contextmanager
def _replacing(out: Path, form: Form) -> Iterator[Path]:
    """Do what ``publishing`` does for a local path: write next to it, then swap old and new."""
    out = checked_path(out, form)
    missing = [folder for folder in out.parents if not folder.exists()]
    # The name is chosen first, so that an interrupt during mkdir leaves nothing.
    staging = out.with_name(f"{_staging_prefix(out)}{secrets.token_hex(8)}.part")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(out)
        path = _begin(staging, out, form)
        yield path
        checked_path(out, form)  # its files may have changed since the build began
        for folder, _ in folders_of(out, form):
            _preserve(folder, path.with_name(folder.name))
        stop_if_signalled()
        with held():
            _swap(staging, out, form)
            shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise _cannot_write(out, error) from error
    finally:
        with held():
            _discard(staging)
            # After a failure, folders that were made for the report are empty.
            for folder in missing:
                with suppress(OSError):  # not empty
                    folder.rmdir()


def checked_path(out: Path, form: Form) -> Path:
    """Return a path, or a link's target; raise OutputError if a report must not be put there."""
    try:
        if out.exists() and not out.is_dir() and not out.is_file():
            raise OutputError(
                f"{out}: is a device, a pipe or a socket; give a file name"
            )
        # A link is kept and its target replaced; "." and ".." have no name of their own.
        if (out.is_symlink() and out.exists()) or out.name in ("", ".."):
            out = out.resolve()
        reason = _refusal(out, form)
        if reason:
            raise OutputError(f"{out}: {reason}")
        for folder, manifest in folders_of(out, form):
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                raise OutputError(
                    f"{folder}: is not a folder; choose another name than {out}"
                )
            if folder.exists():
                _refuse_foreign_files(folder, folder / manifest)
        if out.is_file():
            refuse_foreign_file(out, first_and_last_bytes(out))
    except OSError as error:
        raise _cannot_write(out, error) from error
    except ValueError as error:  # a NUL in the name
        raise OutputError(f"{out}: is not a valid file name") from error
    return out


def _refuse_foreign_files(folder: Path, manifest: Path) -> None:
    """Raise OutputError if a folder has files that are neither listed nor of the system."""
    content = manifest.read_bytes() if manifest.is_file() else b""
    own_names = listed_files(content)
    names = [name for name in files_below(folder) if name not in own_names]
    check_names(folder, names)


def _refusal(out: Path, form: Form) -> str:
    """Return why a form cannot be written to a path, "" if it can."""
    if out.is_symlink():
        return "is a broken link; remove it or choose another name"
    if not out.name:
        return "is not a valid output path; give a file or folder name"
    if form.folder and out.is_file():
        return "is a file; give a folder, or a suffix that selects a format"
    if form.folder and out.exists() and Path.cwd().is_relative_to(out.resolve()):
        return "is or contains the current folder; give the name of a new folder"
    if not form.folder and out.is_dir():
        return "is a folder; choose another name"
    return ""


def _preserve(old_folder: Path, new_folder: Path) -> None:
    """Copy the system files of a folder to its new version, and the times of unchanged files.

    By the times, ``rsync`` copies only what is new.
    """
    for name in files_below(old_folder):
        source = old_folder / name
        target = new_folder / name
        if PurePosixPath(name).name in SYSTEM_FILES and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
        elif (
            target.is_file()
            and source.is_file()
            and filecmp.cmp(source, target, shallow=False)
        ):
            times = source.stat()
            os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))


def _staging_prefix(out: Path) -> str:
    """Return how the names of staging folders for a path begin, short enough for every system."""
    return f".{out.name[:40]}."


def _begin(staging: Path, out: Path, form: Form) -> Path:
    """Make the staging folder of a report; return the path in it to which the report is written.

    ``new`` is for the new report, ``old`` for the old one while they are exchanged.
    """
    staging.mkdir(mode=0o700)
    (staging / "new").mkdir()
    (staging / "old").mkdir()
    path = staging / "new" / out.name
    if form.folder:
        path.mkdir()
    return path


def _discard(staging: Path) -> None:
    """Remove a staging folder, unless it still holds an old report that could not be restored."""
    with suppress(OSError):  # there is no folder ``old`` yet
        if any((staging / "old").iterdir()):
            return
    shutil.rmtree(staging, ignore_errors=True)


def _remove_leftovers(out: Path) -> None:
    """Remove staging folders that killed builds left, and restore old reports that are in them."""
    for leftover in out.parent.glob("*.part"):
        if leftover.name.startswith(_staging_prefix(out)):
            _remove_leftover(leftover)


def _remove_leftover(staging: Path) -> None:
    """Remove a staging folder unless it is new, and so perhaps of a build that is running.

    An old report in it, if no other has taken its place, is restored first.
    """
    with suppress(OSError):
        if staging.lstat().st_mtime < time.time() - _LEFTOVER_SECONDS:
            for path in (staging / "old").iterdir():
                if not staging.with_name(path.name).exists():
                    path.rename(staging.with_name(path.name))
            shutil.rmtree(staging)


def _swap(staging: Path, out: Path, form: Form) -> None:
    """Move the old report aside, with its pictures, and the new one in its place.

    An error undoes this, so that text and pictures are of one report.
    """
    # Without repetitions: the only folder may be the report itself.
    names = dict.fromkeys(
        [*(folder.name for folder, _ in folders_of(out, form)), out.name]
    )
    moves = [(out.with_name(name), staging / "old" / name) for name in names]
    moves += [(staging / "new" / name, out.with_name(name)) for name in names]
    # A move is noted before it is made: an interrupt may come in between.
    begun: list[tuple[Path, Path]] = []
    try:
        for source, target in moves:
            if source.exists():
                begun.append((source, target))
                source.replace(target)
    except BaseException:
        for source, target in reversed(begun):
            if not source.exists():  # it was moved
                target.replace(source)
        raise


def _cannot_write(out: Path, error: OSError) -> OutputError:
    return OutputError(
        f"{out}: cannot be written: {(error.strerror or str(error)).lower()}"
    )


class _StoredFiles(NamedTuple):
    """Names of files at a destination in an object store, relative to its parent."""

    names: set[str]
    own_names: set[str]  # those of them that rlreport wrote, which it may replace


class _ObjectStore:
    """A destination in an object store; file names are relative to the parent of the report."""

    def __init__(self, url: str, form: Form) -> None:
        self.url = shown(url)  # for messages: without credentials
        self.form = form
        self.system = filesystem(url)
        self.root: str = self.system._strip_protocol(url.rstrip("/"))
        self.parent, _, self.name = self.root.rpartition("/")
        self.has_bucket = url.partition("://")[0] in _BUCKETS

    def existing(self) -> _StoredFiles:
        """Return the files at the destination; raise OutputError if no report may be put there."""
        with self._errors("cannot be read"):
            # Other programs may have changed the store since the last call.
            self.system.invalidate_cache()
            self._check_url()
            names = set() if self.form.folder else self._single_file()
            own_names = set(names)
            for folder, manifest in folders_of(Path(self.name), self.form):
                in_folder = self._in_folder(folder.name, manifest)
                names |= in_folder.names
                own_names |= in_folder.own_names
        return _StoredFiles(names, own_names)

    def _check_url(self) -> None:
        """Raise OutputError if the URL has no name for the report, or its bucket is missing."""
        bucket, _, key = self.root.partition("/")
        if not key:
            raise OutputError(f"{self.url}: add a name for the report to the URL")
        if self.has_bucket and not self.system.exists(bucket):
            raise OutputError(
                f"{self.url}: there is no bucket {bucket}, or access is denied"
            )

    def _in_folder(self, folder: str, manifest: str) -> _StoredFiles:
        """Return the files in a folder of the report, given the path of its manifest in it.

        Without a manifest it is no report of ours: it may have system files only.
        """
        names = self._below(folder)
        manifest_name = f"{folder}/{manifest}"
        content = b""
        if manifest_name in names:
            content = self.system.cat_file(f"{self.parent}/{manifest_name}")
        listed_names = listed_files(content)
        # With a manifest, files that it does not list stay; ``send`` raises an error if the new
        # report needs the name of one.
        if not listed_names:
            check_names(self.url, (name.partition("/")[2] for name in names))
        own_names = {f"{folder}/{name}" for name in listed_names}
        return _StoredFiles(names, own_names & names)

    def send(self, path: Path) -> None:
        """Upload the report at ``path``, its entry page last, then remove files no longer in it."""
        stored_files, own_names = self.existing()
        names = files_below(path.parent)
        # No file of others may be overwritten.
        check_names(self.url, sorted(stored_files.intersection(names) - own_names))
        # Until the entry page is replaced, readers see the old report.
        entry = f"{self.name}/index.html" if self.form.folder else self.name
        with self._errors("cannot be written"):
            self._put(path.parent, [name for name in names if name != entry])
            self._put(path.parent, [entry])
            stale = sorted(own_names.difference(names))
            if stale:
                self.system.rm([f"{self.parent}/{name}" for name in stale])

    def _put(self, folder: Path, names: list[str]) -> None:
        """Upload the files ``names`` of a local folder to the parent of the report."""
        remote = [f"{self.parent}/{name}" for name in names]
        # Object stores have no folders that would have to be made.
        if not self.has_bucket:
            for parent in {path.rpartition("/")[0] for path in remote}:
                self.system.makedirs(parent, exist_ok=True)
        if names:
            self.system.put([str(folder / name) for name in names], remote)

    def _single_file(self) -> set[str]:
        """Return the name of the file at the URL, if any; raise OutputError if it is no report."""
        if not self.system.exists(self.root):
            return set()
        if self.system.isdir(self.root):
            raise OutputError(f"{self.url}: is a folder; choose another name")
        size = int(self.system.size(self.root) or 0)
        if size:  # an empty file may be replaced
            start = self.system.cat_file(self.root, start=0, end=min(size, EDGE_BYTES))
            end = self.system.cat_file(
                self.root, start=max(0, size - EDGE_BYTES), end=size
            )
            refuse_foreign_file(self.url, start + end)
        return {self.name}

    def _below(self, folder: str) -> set[str]:
        """Return the names of the files in a folder, relative to the parent of the report."""
        root = f"{self.parent}/{folder}"
        try:
            paths = self.system.find(root)
        except FileNotFoundError:
            return set()
        # A store may also find the object of this name, and others that begin with it.
        return {
            f"{folder}{path.removeprefix(root)}"
            for path in paths
            if path.startswith(f"{root}/")
        }

    @contextmanager
    def _errors(self, failure: str) -> Iterator[None]:
        """Raise errors of the store as OutputError: "URL: FAILURE: reason"."""
        try:
            yield
        except OutputError:
            raise
        except Exception as error:  # each store has errors of its own
            raise OutputError(
                f"{self.url}: {failure}: {store_message(error)}"
            ) from None
