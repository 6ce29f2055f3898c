"""Recognize what rlreport wrote, so that a report is never read as the log of a run.

A folder that rlreport wrote has a manifest; a file carries a mark near its start or its end. The
same marks tell a later build which files it may replace (``deliver.publish``).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rlreport.errors import UnusableInputError

MANIFEST = "data/manifest.json"  # in a report's folder
# In the folder of a report that an index built: of which logs it is
BUILT_FROM = "data/built_from.json"
# in the folder of pictures next to a Markdown report
PICTURES_MANIFEST = "manifest.json"
PICTURES_ENDING = "_files"  # of the name of that folder
ENTRY_PAGE = "index.html"
EDGE_BYTES = 4096  # a mark lies within so many bytes of the start or the end of a file
# Names of folders in which reports are written
STAGING = re.compile(r"\..*\.[0-9a-f]{16}\.part")

_MOST_MANIFEST = 64 << 20  # bytes: a manifest lists the files of a report, one a line
_GENERATOR = rb"rlreport \d[\w.+!-]*"  # with the version

# Output form -> regular expression that only its files match, at their start or end
MARKS = {
    "html": rb"\A<!doctype html>\s*(?:<(?:html|head|meta)\b[^>]*>\s*)*"
    rb'<meta name="generator" content="' + _GENERATOR + rb'">',
    "email": rb"\AX-Mailer: " + _GENERATOR + rb"\r?\nFrom: ",
    "markdown": rb"\A<!-- " + _GENERATOR + rb" -->\r?\n## ",
    # the last record with the zip's comment
    "zip": rb"PK\x05\x06(?s:.{18})" + _GENERATOR + rb"\Z",
}
# Suffixes that no report has: files with one are not opened
_OTHER_SUFFIXES = frozenset(
    ".jsonl .ndjson .json .gz .zst .parquet .db .eval .csv .tsv .pt .pth .bin .safetensors .npy "
    ".npz .wandb .log .txt .out .yaml .yml .toml .py .png .jpg".split()
)
# Matches paths of entries of a cache, and of temporary files that a build writes or left when
# killed
CACHE_ENTRY = re.compile(r"[0-9a-f]{2}/(?:[0-9a-f]{30}|new-[0-9a-f]{16})")


def pictures_of(path: Path) -> Path:
    """Return the folder with the pictures of a report file: ``run_files`` for ``run.md``."""
    return path.with_name(f"{path.stem}{PICTURES_ENDING}")


def listed_files(manifest: bytes) -> frozenset[str]:
    """Return the files listed in a manifest, none if rlreport did not write the manifest."""
    try:
        document = json.loads(manifest)
        if document["generator"]["name"] == "rlreport":
            return frozenset(map(str, document["files"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        pass  # another program's JSON, or no JSON
    return frozenset()


def has_mark(edges: bytes) -> bool:
    """Return whether the start and end of a file (``edges``) are those of a report."""
    return any(re.search(mark, edges) for mark in MARKS.values())


def first_and_last_bytes(path: Path) -> bytes:
    """Return the first and the last EDGE_BYTES of a file, all of a shorter one."""
    with path.open("rb") as file:
        start = file.read(EDGE_BYTES)
        size = file.seek(0, os.SEEK_END)
        # Of a short file, what follows ``start``, so that no byte is there twice
        file.seek(max(len(start), size - EDGE_BYTES))
        return start + file.read()


def is_own_folder(folder: Path) -> bool:
    """Return whether rlreport wrote a folder: a report, pictures, one being written, a cache."""
    if STAGING.fullmatch(folder.name) or _has_cache_entries(folder):
        return True
    may_have_pictures = folder.name.endswith(PICTURES_ENDING)
    if may_have_pictures and _is_manifest(folder / PICTURES_MANIFEST):
        return True
    return _is_manifest(folder / MANIFEST)


def _has_cache_entries(folder: Path) -> bool:
    """Return whether a folder is one of a cache: it has entries, and nothing else."""
    if len(folder.name) != 2:  # length of the first part of an entry's path
        return False
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return False
    return bool(names) and all(
        CACHE_ENTRY.fullmatch(f"{folder.name}/{name}") for name in names
    )


def _is_manifest(path: Path) -> bool:
    """Return whether a path is a manifest that rlreport wrote."""
    try:
        if not path.is_file() or path.stat().st_size > _MOST_MANIFEST:
            return False
        return bool(listed_files(path.read_bytes()))
    except OSError:
        return False


def is_own_file(path: Path) -> bool:
    """Return whether a file is a report: one HTML file, a mail, a Markdown page or a zip."""
    if path.suffix.lower() in _OTHER_SUFFIXES:
        return False
    try:
        return path.is_file() and has_mark(first_and_last_bytes(path))
    except OSError:
        return False


def own_output_at(path: Path) -> Path | None:
    """Return the report that a path is or lies in, None if rlreport did not write it."""
    if is_own_file(path):
        return path
    # Not resolved: a link to a log that lies in a report's folder is as good as the log.
    whole = Path(os.path.abspath(path))  # noqa: PTH100 (``absolute`` keeps "..")
    for folder in (whole, *whole.parents):
        if is_own_folder(folder):
            # The path itself is returned as given, so that messages show it so.
            return path if folder == whole else folder
    return None


def refuse_own_output(paths: Iterable[Path], *, option: str = "") -> None:
    """Raise UnusableInputError if rlreport wrote one of ``paths``, which are to be read as logs.

    ``option`` is the option that gave the paths, "" if they are arguments.
    """
    for path in paths:
        report = own_output_at(path)
        if report is not None:
            given = f"{option} {path}".strip()
            inside = "" if report == path else f"lies in {report}, which "
            raise UnusableInputError(
                f"{given}: {inside}is a report written by rlreport, not a log of a run; give the "
                "logs it was built from (reports are read by rlreport index and rlreport compare)"
            )


def own_folders_in(names: Iterable[str]) -> frozenset[str]:
    """Return the folders of reports among the files of an object store, given the files' names.

    Folders end with ``/``; "" is the topmost one. Reading each manifest would take a request, so
    a manifest beside an entry page suffices.
    """
    listed = set(names)
    folders = set()
    for name in listed:
        if name.endswith(f"/{MANIFEST}") or name == MANIFEST:
            folder = name.removesuffix(MANIFEST)
            if f"{folder}{ENTRY_PAGE}" in listed:
                folders.add(folder)
    return frozenset(folders)


def walk_without_reports(
    path: Path, depth: int
) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield (folder, names of folders in it, names of files in it) at and below a folder.

    Folders that rlreport wrote and hidden ones are left out, and links to folders are not followed.
    ``depth`` is the number of levels below ``path``. A folder whose name the caller removes from
    the list is not walked.
    """
    for folder_path, folders, names in os.walk(path):
        here = Path(folder_path)
        if is_own_folder(here):
            folders.clear()
            continue
        # ``walk`` goes on in the folders that remain in this list.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if len(here.relative_to(path).parts) >= depth:
            folders.clear()
        yield here, folders, names
