"""Run ``rlreport`` of this checkout, or of an environment that has it installed, and time it.

A checkout makes at each build what an installation has: Vega's script, translations, compiled
templates. That is some 2 s of CPU, so figures that are published come from an installation.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def python_of(installed: str | None) -> list[str]:
    """Return the Python to run: that of an environment with rlreport, else this one."""
    # Isolated, as this checkout would be found before the installed package
    return [installed, "-I"] if installed else [sys.executable]


def version_of(installed: str | None) -> str:
    """Return the installed version or the commit of this checkout, marked if files differ."""
    if installed:
        command = [*python_of(installed), "-m", "rlreport", "--version"]
    else:
        command = ["git", "describe", "--always", "--dirty"]
    printed = subprocess.check_output(command, cwd=ROOT, text=True)
    return printed.split()[-1]


def compile_once() -> None:
    """Let child processes keep compiled modules, as they do for users."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def timed(command: list[str]) -> tuple[float, float]:
    """Run a command; return CPU and wall seconds."""
    # Sampling memory at the same time adds up to 10%, as the kernel walks the process's pages
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    user = after.ru_utime - before.ru_utime
    return user + after.ru_stime - before.ru_stime, wall
