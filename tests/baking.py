"""Functions that stand in for baking; importable from helper processes."""

from __future__ import annotations

import os
import time

from rlreport.errors import RlreportError

PARENT = "RLREPORT_TEST_PARENT"


def named(job: int, shared: str) -> str:
    """A page's name."""
    return f"{shared} {job}"


def where(job: int, seconds: float) -> int:
    """The process that bakes, after a while."""
    time.sleep(seconds)
    return os.getpid()


def fail_at(job: int, which: int) -> int:
    """Fails at one job."""
    if job == which:
        raise RlreportError(f"job {job} cannot be baked")
    return job


def suicide(job: int, number: int) -> int:
    """Kills its process, unless that is the parent."""
    if os.environ[PARENT] != str(os.getpid()):
        os.kill(os.getpid(), number)
    time.sleep(0.01)
    return job
