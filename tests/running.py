"""Runs the command line as a user does."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rlreport.cli.main import main
from rlreport.signals import ENDING

SEARCH = int(os.environ.get("RLREPORT_SEARCH", "1"))
"""How many times longer than usual tests look for a counterexample; make search says 10."""


def in_ci(*values: object) -> list[Any]:
    """Values of a test that run in CI only."""
    return [pytest.param(value, marks=pytest.mark.ci) for value in values]


def rlreport(*arguments: object, **extra: Any) -> subprocess.CompletedProcess[str]:
    """``rlreport ARGUMENTS``; output as text, no exception on failure.

    In this process, but in one of its own where a folder or an environment is given.
    """
    words = list(map(str, arguments))
    if not extra:
        before = {number: signal.getsignal(number) for number in ENDING}
        try:
            done = CliRunner().invoke(main, words, prog_name="rlreport")
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if done.exc_info and done.exc_info[0] not in (None, SystemExit):
            raise done.exc_info[1]
        return subprocess.CompletedProcess(
            words, done.exit_code, done.stdout, done.stderr
        )
    return subprocess.run(
        [sys.executable, "-m", "rlreport", *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        **extra,
    )


def build(logs: Path, out: Path, *options: object) -> subprocess.CompletedProcess[str]:
    done = rlreport("build", logs, "-o", out, *options)
    assert done.returncode == 0, done.stderr
    return done
