"""Jobs for a pool; importable from its processes."""

import os
import platform
import signal
import threading
import time
from pathlib import Path

from rlreport.errors import RlreportError


def named(job: int, shared: str) -> str:
    return f"{shared} {job}"


def doubled(job: bytes, shared: None) -> bytes:
    return job * 2


def slept(job: float, shared: None) -> int:
    """Sleep so many seconds; return which process did."""
    time.sleep(job)
    return os.getpid()


def divided(job: int, shared: None) -> float:
    return 1 / job


def killed(job: int, shared: None) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def where(job: int, seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def fail_at(job: int, which: int) -> int:
    if job >= which:
        raise RlreportError(f"job {job} cannot be done")
    return job


def suicide(job: int, parent: int) -> int:
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
    return job


def suicide_while_sending(job: int, parent: int) -> bytes:
    """Have the process killed soon, most probably while it sends a large result."""
    if job == 3:
        kill = (os.getpid(), signal.SIGKILL)
        threading.Timer(0.01, os.kill, kill).start()
    return b"x" * (1 << 26)


def disconnected(job: int, shared: None) -> None:
    raise ConnectionError("no store")


def repeated(job: int, length: int) -> bytes:
    return f"{job:03}".encode() * (length // 3)


def written(job: int, folder: Path) -> None:
    (folder / str(job)).touch()


def written_after(job: tuple[int, float], folder: Path) -> int:
    """Write a file of this number after some seconds; return how many files there are then."""
    number, seconds = job
    time.sleep(seconds)
    written(number, folder)
    return len(list(folder.iterdir()))


def node_asleep(job: None, seconds: float) -> str:
    time.sleep(seconds)
    return platform.node()


class Counted:
    """Counts how often it comes out of a pickle, in a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __setstate__(self, state: dict[str, Path]) -> None:
        self.__dict__.update(state)
        with self.file.open("a") as out:
            out.write("x")


def use(job: int, shared: Counted) -> int:
    time.sleep(0.005)
    return os.getpid()


def imported(job: str, shared: None) -> str:
    """The file that a module is imported from, after a while."""
    time.sleep(0.05)
    return str(__import__(job).__file__)


def printed(job: int, shared: None) -> int:
    os.write(1, b"printed by a job\n")
    time.sleep(0.05)
    return os.getpid()
