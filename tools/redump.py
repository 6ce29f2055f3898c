"""Regenerate a framework's sample dump, and list how it differs from the stored one.

    python -m tools.redump CHECKOUTS FRAMEWORK [PYTHON]

CHECKOUTS is a folder of git checkouts, ``<owner>+<name>/repo``; FRAMEWORK is a folder of
``tests/data/frameworks``; PYTHON has the packages that the writer needs. Keys that a newer writer
adds (+) or no longer writes (-) are listed by file. If the format reads any of them, replace the
stored dump by the new one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlreport.formats.containers import container_of, read_objects
from rlreport.system.stores import zstd

DUMPS = Path(__file__).resolve().parents[1] / "tests" / "data" / "frameworks"
LEVELS = 4
"""Number of nesting levels of JSON objects whose keys are compared."""


def changes(before: Path, after: Path) -> Iterator[str]:
    """Yield a line for each file, and for each key in a file, that only one of two folders has."""
    for name in sorted(_files(before) ^ _files(after)):
        yield f"{'-' if name in _files(before) else '+'} {name}"
    for name in sorted(_files(before) & _files(after)):
        old = _keys(before / name)
        new = _keys(after / name)
        yield from (
            f"{'-' if key in old else '+'} {name}: {key}" for key in sorted(old ^ new)
        )


def _files(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file()
    }


def _keys(path: Path) -> set[str]:
    container = container_of(path.name)
    if container is None:
        return set()
    with path.open("rb") as file:
        stream: Any = zstd.ZstdFile(file) if path.suffix == ".zst" else file
        return {
            key
            for obj in read_objects(stream, container)
            for key in _keys_of(obj, LEVELS)
        }


def _keys_of(value: Any, levels: int) -> Iterator[str]:
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield key
        entries = inner if isinstance(inner, list) else [inner]
        for entry in entries if levels > 1 else ():
            yield from (f"{key}.{name}" for name in _keys_of(entry, levels - 1))


def main(checkouts: str, framework: str, python: str = sys.executable) -> None:
    """Write the framework's dump to a temporary folder, and print the changes."""
    scripts = [
        p for p in DUMPS.glob("make*.py") if f'"{framework}"' in p.read_text("utf-8")
    ]
    if not scripts:
        sys.exit(f"no script in {DUMPS.name} writes {framework}")
    with tempfile.TemporaryDirectory() as scratch:
        command = [python, str(scripts[0]), checkouts, scratch, framework]
        subprocess.run(command, cwd=DUMPS, check=True)
        print(*changes(DUMPS / framework, Path(scratch) / framework), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
