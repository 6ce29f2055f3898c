"""Runs the command line as a user does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def rlreport(*arguments: object, **extra: object) -> subprocess.CompletedProcess[str]:
    """``python -m rlreport ARGUMENTS``; output as text, no exception on failure."""
    return subprocess.run(
        [sys.executable, "-m", "rlreport", *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        **extra,
    )


def build(logs: Path, out: Path, *options: object) -> subprocess.CompletedProcess[str]:
    """Builds a report and expects success."""
    done = rlreport("build", logs, "-o", out, *options)
    assert done.returncode == 0, done.stderr
    return done
