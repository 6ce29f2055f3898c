"""Folders from which a process that this one starts may import."""

from __future__ import annotations

import sysconfig
from collections.abc import Sequence
from pathlib import Path

# the folder that has rlreport
PACKAGE_PARENT = str(Path(__file__).resolve().parents[2])


def safe_import_path(path: Sequence[str]) -> list[str]:
    """Return ``sys.path`` without the current folder, which may be untrusted.

    The folder of this package follows those of the standard library: so a process imports the same
    rlreport as this one, and never a module of that folder in place of a standard one.
    """
    unsafe = {"", PACKAGE_PARENT}  # "" stands for the current folder
    script_folder = path[0] if path else ""  # Python puts it first
    if Path(script_folder).resolve() == Path.cwd():
        unsafe.add(script_folder)
    folders = [folder for folder in path if folder not in unsafe]
    standard = [place for place, folder in enumerate(folders) if _is_standard(folder)]
    after_standard = max(standard, default=-1) + 1
    folders.insert(after_standard, PACKAGE_PARENT)
    return folders


def _is_standard(folder: str) -> bool:
    """Return whether a folder has modules of the standard library, as ``lib-dynload`` has."""
    roots = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    if folder in roots:
        return True
    return str(Path(folder).parent) in roots and not folder.endswith("-packages")
