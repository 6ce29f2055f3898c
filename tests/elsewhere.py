"""Build reports of the sample logs as if elsewhere: ``python -m tests.elsewhere SET FOLDER [WAY]``.

It prints, as JSON, what of the machine was in effect (``Place``), and the hash of each file. The
environment makes the place; ``WAY`` also moves results of functions, see ``tests.moved``.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests import moved

LOGS = Path(__file__).resolve().parents[1] / "sample_logs"

SEVEN = (
    "build logs/reward_hacking -o hacking",
    "build logs/healthy -o healthy.html",
    "build logs/reward_hacking -o zh.html --lang zh --redact=names",
    "build logs/reward_hacking -o hacking.md",
    "build logs/reward_hacking -o hacking.eml",
    "compare logs/healthy hacking -o compare.html",
    "index . -o index.html",
)
SETS = {"seven": SEVEN, "one": SEVEN[:1]}


def place() -> dict[str, Any]:
    """Return what the variants of ``test_same_anywhere`` change, as this process sees it."""
    samples = np.linspace(0.1, 9.0, 1001)
    matrix = np.random.default_rng(0).normal(size=(100, 150))
    return {
        "features": enabled_features(),
        "exp": _digest(np.exp(samples).tobytes()),
        "product": _digest((matrix @ matrix.T).tobytes()),
        "utf8": sys.flags.utf8_mode,
        "zone": time.localtime(0).tm_gmtoff,
        "hash": hash("rlreport"),
    }


def features() -> Any:
    """Return NumPy's module with the features of the processor: names, and which are enabled."""
    try:
        from numpy._core import _multiarray_umath as module  # type: ignore[attr-defined]
    except ImportError:  # before NumPy 2
        from numpy.core import _multiarray_umath as module
    return module


def enabled_features() -> list[str]:
    """Return the groups of instructions that NumPy's functions choose between, if enabled."""
    module = features()
    return [
        name for name in module.__cpu_dispatch__ if module.__cpu_features__.get(name)
    ]


def build(commands: tuple[str, ...], folder: Path) -> dict[str, str]:
    """Run the commands in the folder; return the hash of each file that they wrote, by path."""
    from rlreport.cli.main import main

    shutil.copytree(LOGS, folder / "logs")
    os.chdir(folder)
    for command in commands:
        name, *arguments = command.split()
        workers = [] if name == "index" else ["--workers", "1", "--quiet"]
        try:
            main([name, *arguments, *workers])
        except SystemExit as end:
            assert not end.code, command
    shutil.rmtree("logs")
    files = sorted(path for path in Path().rglob("*") if path.is_file())
    return {path.as_posix(): _digest(path.read_bytes()) for path in files}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    chosen, target, *way = sys.argv[1:]
    for name in way:
        moved.move(name)
    here = place()
    sys.stdout = sys.stderr
    written = build(SETS[chosen], Path(target))
    assert sys.__stdout__ is not None
    sys.__stdout__.write(json.dumps({"place": here, "files": written}))
