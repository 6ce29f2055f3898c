"""Recognize files that rlreport wrote, by a folder's manifest or by a mark in a single file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from rlreport import __version__
from rlreport.deliver import FORMS, Form
from rlreport.errors import OutputError

MANIFEST = "data/manifest.json"

# Files that operating systems and web hosts add to a report folder; they are preserved
SYSTEM_FILES = (".DS_Store", ".nojekyll", "CNAME", "Thumbs.db", "desktop.ini")

_NFS_FILES = ".nfs*"  # deleted files that are still open; NFS removes them later
EDGE_BYTES = 4096
_MAX_NAMED = 3


def pictures_of(path: Path) -> Path:
    """Return the folder with the pictures of a report file: ``run_files`` for ``run.md``."""
    return path.with_name(f"{path.stem}_files")


def write_manifests(path: Path, form: Form) -> None:
    """Write a list of its files into each folder of a report; a later build may replace these."""
    for folder, name in folders_of(path, form):
        if folder.is_dir():
            names = [*files_below(folder), name]
            document = {"generator": {"name": "rlreport", "version": __version__}, "files": names}
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(json.dumps(document, indent=0), "utf-8")


def folders_of(path: Path, form: Form) -> list[tuple[Path, str]]:
    """Return (folder, path of its manifest in it) for each folder of a report."""
    if form.folder:
        return [(path, MANIFEST)]
    return [(pictures_of(path), "manifest.json")] if form.pictures else []


def files_below(folder: Path) -> list[str]:
    """Return the paths of all files and links below a folder."""
    paths = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def listed_files(manifest: bytes) -> frozenset[str]:
    """Return the files listed in a manifest, none if rlreport did not write the manifest."""
    try:
        document = json.loads(manifest)
        if document["generator"]["name"] == "rlreport":
            return frozenset(map(str, document["files"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return frozenset()


def check_file(name: Path | str, start: bytes, end: bytes) -> None:
    """Raise OutputError unless a file is empty or begins or ends like a report of rlreport.

    Args:
        name: path or URL of the file.
        start: its first ``EDGE_BYTES``.
        end: its last ``EDGE_BYTES``.
    """
    if start and not any(form.owns(start, end) for form in FORMS.values()):
        raise OutputError(f"{name}: is not a report of rlreport; choose another name or remove it")


def check_names(folder: Path | str, names: Iterable[str]) -> None:
    """Raise OutputError unless all of ``names``, files rlreport did not write, are system files."""
    foreign = [
        name
        for name in names
        if (last := PurePosixPath(name).name) not in SYSTEM_FILES and not fnmatch(last, _NFS_FILES)
    ]
    if foreign:
        further = len(foreign) - _MAX_NAMED
        shortened = ", ".join(foreign[:_MAX_NAMED]) + (
            f" and {further:,} more" if further > 0 else ""
        )
        raise OutputError(
            f"{folder}: contains files that rlreport did not write: {shortened}; "
            "move them or choose another destination"
        )
