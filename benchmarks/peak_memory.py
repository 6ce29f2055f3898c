"""Measure time and peak memory of a command with all its child processes.

    python -m benchmarks.peak_memory [--every SECONDS] [--timeline FILE] COMMAND...

Memory is PSS: a page that n processes share counts 1/n in each, so that the sum over the
processes is what the machine gives them. Pages of memory-mapped files count while they are
resident; the kernel can drop those at any time, but not anonymous ones. Linux only.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

EVERY = 0.05
KB = 1024  # smaps_rollup counts in KiB, though it writes "kB"


@dataclass(frozen=True)
class Memory:
    """Bytes of all processes of a tree at one moment."""

    pss: int
    anonymous: int


@dataclass(frozen=True)
class Measured:
    """What a command and its child processes used.

    Attributes:
        cpu: user and system seconds, of child processes as far as they were waited for.
        wall: seconds until the command ended.
        peak_pss: largest sum of PSS over the processes, in bytes.
        peak_anonymous: anonymous part of PSS, in bytes, at the moment of ``peak_pss``.
        timeline: seconds since the start and memory at each sample.
    """

    cpu: float
    wall: float
    peak_pss: int
    peak_anonymous: int
    timeline: list[tuple[float, Memory]]


def measured(command: list[str], every: float = EVERY) -> Measured:
    """Run a command, its output discarded, and sample its memory every ``every`` seconds.

    Raises:
        SystemExit: the command failed.
    """
    start = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    timeline: list[tuple[float, Memory]] = []
    while True:
        # wait4 is the only call that tells the CPU seconds of this child alone
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        now = time.perf_counter() - start
        if pid:
            break
        timeline.append((now, memory_of_tree(process.pid)))
        elapsed = time.perf_counter() - start - now
        time.sleep(max(0.0, every - elapsed))
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit status {process.returncode}")
    peak = max((memory for _, memory in timeline), key=lambda memory: memory.pss)
    return Measured(
        cpu=usage.ru_utime + usage.ru_stime,
        wall=now,
        peak_pss=peak.pss,
        peak_anonymous=peak.anonymous,
        timeline=timeline,
    )


def memory_of_tree(pid: int) -> Memory:
    """Return the memory of a process and its descendants; one that ended counts nothing."""
    pss = 0
    anonymous = 0
    for one in _tree(pid):
        sizes = _rollup(one)
        pss += sizes.get(b"Pss", 0)
        anonymous += sizes.get(b"Pss_Anon", 0)
    return Memory(pss, anonymous)


def _tree(pid: int) -> Iterator[int]:
    yield pid
    # Processes are started by the first thread, whose number is that of the process.
    for child in _content(f"/proc/{pid}/task/{pid}/children").split():
        yield from _tree(int(child))


def _rollup(pid: int) -> dict[bytes, int]:
    """Return the sizes in ``smaps_rollup`` in bytes; nothing for a process that ended."""
    sizes = {}
    for line in _content(f"/proc/{pid}/smaps_rollup").splitlines()[1:]:
        name, _, size = line.partition(b":")
        sizes[name] = int(size.split()[0]) * KB
    return sizes


def _content(path: str) -> bytes:
    """Return a file of ``/proc``, "" if its process ended; cheaply, as this is done often."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(file, 1 << 16)
    except OSError:
        return b""
    finally:
        os.close(file)


def main() -> None:
    """Measure a command and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--every", type=float, default=EVERY)
    parser.add_argument("--timeline", type=Path, help="file for a line per sample")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    result = measured(given.command, given.every)
    print(
        f"CPU {result.cpu:.2f} s, wall {result.wall:.2f} s, "
        f"peak PSS {result.peak_pss / 1e6:,.0f} MB, "
        f"of it anonymous {result.peak_anonymous / 1e6:,.0f} MB"
    )
    if given.timeline:
        lines = [
            f"{seconds:.2f}\t{memory.pss / 1e6:.1f}\t{memory.anonymous / 1e6:.1f}"
            for seconds, memory in result.timeline
        ]
        given.timeline.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
