"""Which files are named like console logs; reading one takes more modules, which are many."""

from __future__ import annotations

from pathlib import Path

from rlreport.read.listing import COMPRESSIONS

# Suffixes of the names of consoles, such as ``nohup.out`` and ``slurm-123.out``
SUFFIXES = (".log", ".txt", ".out")


def is_console_name(name: str) -> bool:
    """Return whether a file in a folder is named like a console, maybe compressed."""
    path = Path(name)
    return (path.stem if path.suffix in COMPRESSIONS else name).endswith(SUFFIXES)
