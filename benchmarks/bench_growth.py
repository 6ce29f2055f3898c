"""Measure the second build of a log that grew by its last step, with ``--cache``.

    python -m benchmarks.bench_growth LOG [--python PYTHON] [--workers 0] [--runs 2] [--profile 15]

LOG is a folder of ``.jsonl`` files, whose rows are in the order of their steps; PYTHON has rlreport
installed, by default this checkout is measured. Prints CPU seconds of a build of all but the last
step into an empty cache, of the second build with the last step, and of a build of the whole log
without a cache; and whether the last two reports are the same.
``--profile N`` lists the N functions in which the second build, with one worker, spends most time
(wall time: on a machine without other work).
"""

from __future__ import annotations

import argparse
import filecmp
import io
import pstats
import shutil
import tempfile
from pathlib import Path

import orjson

from benchmarks.builds import compile_once, python_of, timed

# ``python -m rlreport`` ends its process without freeing objects, or letting a profiler write
PROFILED = """
import cProfile, sys
from rlreport.cli.main import main
profile = cProfile.Profile()
path = sys.argv.pop(1)
try:
    profile.runcall(main, prog_name="rlreport")
finally:
    profile.dump_stats(path)
"""


def without_last_step(log: Path, copy: Path) -> dict[Path, bytes]:
    """Copy a log without its last step; return what to append to each file."""
    copy.mkdir()
    paths = sorted(log.glob("*.jsonl"))
    starts = {path: start_of_last_step(path) for path in paths}
    last_step = max(step for step, _ in starts.values())
    appended = {}
    for path, (step, start) in starts.items():
        data = path.read_bytes()
        end = start if step == last_step else len(data)
        (copy / path.name).write_bytes(data[:end])
        appended[copy / path.name] = data[end:]
    return appended


def start_of_last_step(path: Path) -> tuple[int, int]:
    """Return the step of a file's last row, and the offset of the first row with it."""
    last = -1
    start = 0
    offset = 0
    with path.open("rb") as lines:
        for line in lines:
            step = orjson.loads(line)["step"]
            if step != last:
                last = step
                start = offset
            offset += len(line)
    return last, start


def same_files(one: Path, other: Path) -> bool:
    """Return whether two folders hold files of the same names and bytes."""
    names = files_in(one)
    if names != files_in(other):
        return False
    _, different, errors = filecmp.cmpfiles(one, other, names, shallow=False)
    return not different and not errors


def files_in(folder: Path) -> list[str]:
    """Return the paths of all files in a folder, relative to it."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(path.relative_to(folder).as_posix() for path in files)


class Growth:
    """Builds of a log before and after it grew, in a folder of their own."""

    def __init__(
        self, log: Path, folder: Path, python: list[str], workers: int
    ) -> None:
        self.log = folder / "log"
        self.appended = without_last_step(log, self.log)
        self.before = (
            folder / "before"
        )  # report and cache of the log without its last step
        self.after = folder / "after"
        self.whole = folder / "whole"
        self.python = python
        self.workers = workers

    def command(
        self, out: Path, *options: str, workers: int | None = None
    ) -> list[str]:
        """Return the arguments that build the report of the log in ``out``."""
        count = self.workers if workers is None else workers
        paths = [str(self.log), "-o", str(out / "report")]
        return ["build", *paths, "-q", "--workers", str(count), *options]

    def seconds(self, out: Path, *options: str) -> float:
        """Return the CPU seconds of a build."""
        build = self.command(out, *options)
        return timed([*self.python, "-m", "rlreport", *build])[0]

    def first(self) -> float:
        """Build the log without its last step into an empty cache."""
        shutil.rmtree(self.before, ignore_errors=True)
        return self.seconds(self.before, "--cache", str(self.before / "cache"))

    def append(self) -> None:
        """Append the last step to the log."""
        for path, lines in self.appended.items():
            with path.open("ab") as file:
                file.write(lines)

    def second(self) -> float:
        """Build the log that grew, with the cache and over the report of the first build."""
        self.restore()
        return self.seconds(self.after, "--cache", str(self.after / "cache"))

    def without_cache(self) -> float:
        """Build the log that grew from nothing."""
        shutil.rmtree(self.whole, ignore_errors=True)
        return self.seconds(self.whole)

    def restore(self) -> None:
        """Bring back what the first build left."""
        shutil.rmtree(self.after, ignore_errors=True)
        shutil.copytree(self.before, self.after)

    def profile(self, most: int) -> str:
        """Return the functions in which the second build, with one worker, spends most time."""
        self.restore()
        cache = str(self.after / "cache")
        build = self.command(self.after, "--cache", cache, workers=1)
        file = self.after / "profile"
        timed([*self.python, "-c", PROFILED, str(file), *build])
        text = io.StringIO()
        stats = pstats.Stats(str(file), stream=text).strip_dirs()
        stats.sort_stats("tottime").print_stats(most)
        stats.sort_stats("cumulative").print_stats(4 * most)
        return text.getvalue()


def main() -> None:
    """Print the seconds of the builds, their ratio, and the profile."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("--python", help="Python of an environment with rlreport")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--profile", type=int, default=0, metavar="N")
    given = parser.parse_args()
    compile_once()
    with tempfile.TemporaryDirectory() as folder:
        python = python_of(given.python)
        growth = Growth(given.log, Path(folder), python, given.workers)
        share = sum(map(len, growth.appended.values())) / size_of(growth.log)
        first = min(growth.first() for _ in range(given.runs))
        growth.append()
        pairs = [(growth.second(), growth.without_cache()) for _ in range(given.runs)]
        second, whole = map(min, zip(*pairs, strict=True))
        same = same_files(growth.after / "report", growth.whole / "report")
        print(
            f"into an empty cache {first:.2f} s; after growth by {share:.1%} {second:.2f} s; "
            f"without a cache {whole:.2f} s of CPU: {second / whole:.2f} of it; "
            f"{'the same files' if same else 'DIFFERENT files'}"
        )
        if given.profile:
            print(growth.profile(given.profile))


def size_of(log: Path) -> int:
    """Return the bytes of a log."""
    return sum(path.stat().st_size for path in log.glob("*.jsonl"))


if __name__ == "__main__":
    main()
