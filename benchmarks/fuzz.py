"""Read mutated logs, metrics, configurations, thresholds and reports: no traceback in 1 GB.

Each child process reads many inputs and may grow by 1 GB of address space after its imports. An
input fails if anything but an RlreportError is raised, if it takes longer than 20 s, or if the
process dies. Inputs that fail are kept in the folder given.

    python benchmarks/fuzz.py --inputs 60000 --kept /tmp/failures
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
GROWTH = 1 << 30
SECONDS = 20
INPUTS_PER_CHILD = 1_000
MAX_SEED_BYTES = 200_000

TRICKS = (
    b'"', b"\\", b"[", b"]", b"{", b"}", b",", b":", b"\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"NaN",
    b"-1e999", b"1e400", b"null", b"true", b"0", b"-1", b"9" * 30, b"9" * 5000, b'"\\ud800"', b"[]",
    b"{}", b"[[]]", b"[" * 300, b'{"a":' * 300, b"<<: *a\n", b"&a ", b"*a", b"!!binary x", b"? ",
    b"- ", b"1:1:1", b"0x" + b"f" * 5000, b"2020-99-99", b"step", b'"step"', b"[a.b]\n", b"'''",
    b"PAR1", b"PK\x03\x04", b"PK\x05\x06", b"\x80\x80\x80\x80\x10", b"</script>",
)  # fmt: skip

METRICS = {
    "metrics.jsonl": b"".join(
        b'{"step": %d, "train": {"loss": %d.5}, "lr": 1e-6}\n' % (i, i) for i in range(20)
    ),
    "metrics.csv": b"step,loss,reward\n" + b"".join(b"%d,%d.5,\n" % (i, i) for i in range(20)),
    "trainer_state.json": b'{"log_history": [{"step": 1, "loss": 2.5}, {"step": 2, "a": {"b": 1}}]}',
}
THRESHOLDS = b"[kl_explosion]\nwarn = 10\ncritical = 50.0\n[trend]\n"
ALIASES = b"a: &a {x: 1, y: [1, 2]}\nb: {<<: *a, z: *a}\nc: [1:30, 0x1f, 2020-01-01, ~]\n"
HEAD = b'<!DOCTYPE html><meta name="generator" content="rlreport 1.0">'
"""How a report in one file begins."""


def seeds() -> list[tuple[str, str, bytes]]:
    """Return (kind, name, content) of the files that are mutated."""
    found = [("metrics", name, content) for name, content in METRICS.items()]
    found += [("config", p.name, p.read_bytes()) for p in sorted(DATA.glob("configurations/*"))]
    found += [("config", "aliases.yaml", ALIASES), ("thresholds", "a.toml", THRESHOLDS)]
    logs = [
        *DATA.glob("frameworks/*/**/*"),
        *DATA.glob("*/*.jsonl*"),
        *ROOT.glob("sample_logs/*/*"),
    ]
    for path in sorted(path for path in logs if path.is_file() and path.suffix != ".py"):
        content = path.read_bytes()
        if path.suffix in (".jsonl", ".gz"):
            content = (gzip.decompress(content) if path.suffix == ".gz" else content)[
                :MAX_SEED_BYTES
            ]
            found.append(("log", path.name.removesuffix(".gz"), content))
        elif len(content) <= MAX_SEED_BYTES:
            found.append(("log", path.name, content))
    report = DATA / "earlier" / "schema_1.zip"
    found.append(("report", "report.zip", report.read_bytes()))
    with zipfile.ZipFile(report) as archive:
        about = archive.read("data/report.json")
    node = b'<script type="application/json" class="report-json">%s</script>'
    found.append(("report", "report.html", HEAD + node % about.replace(b"<", b"\\u003c")))
    table = b"step,n,split,prompt_id,reward,prompt,extra:a\n" + b"1,0,train,0,0.5,0f,x\n" * 9
    found.append(("report", "responses.csv", table))
    return found


def mutate(content: bytes, rng: random.Random) -> bytes:
    """Return content with a few bytes overwritten, cut, repeated or spliced; archives inside too."""
    if content[:2] == b"PK" and rng.random() < 0.8:
        return _mutate_archive(content, rng)
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(data) + 1)
        how, stop = rng.random(), at + rng.randint(1, 200)
        if how < 0.25:
            data[at : at + 1] = bytes([rng.randrange(256)])
        elif how < 0.65:
            data[at : at + rng.choice((0, 0, 1, 3, 10))] = rng.choice(TRICKS)
        elif how < 0.75:
            del data[at:stop]
        elif how < 0.85:
            data[at:at] = data[at:stop] * rng.choice((1, 2, 50))
        else:
            other = rng.randrange(len(data) + 1)
            data[at:stop] = data[other : other + rng.randint(1, 200)]
    return bytes(data)


def _mutate_archive(content: bytes, rng: random.Random) -> bytes:
    made = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w") as new:
            names = old.namelist()
            changed = rng.choice(names)
            for name in names:
                part = old.read(name)
                if name == changed:
                    packed = name.endswith(".gz")
                    part = mutate(gzip.decompress(part) if packed else part, rng)
                    part = gzip.compress(part, 1) if packed else part
                new.writestr(name, part)
    except (zipfile.BadZipFile, NotImplementedError):  # packed with zstandard
        return content[: rng.randrange(len(content))]
    return made.getvalue()


def read(kind: str, path: Path) -> None:
    """Read a file as the program does."""
    from rlreport.card import run_card
    from rlreport.check import load_thresholds
    from rlreport.comparison.data import unpacked
    from rlreport.comparison.earlier import earlier_report, report_about
    from rlreport.metrics import find_metrics, metrics_beside, read_metrics
    from rlreport.options import FigureOptions, ReadOptions
    from rlreport.read.logs import read_logs
    from rlreport.read.readback import fetch

    if kind == "log":
        scan = read_logs([path], ReadOptions(workers=1), FigureOptions())
        list(fetch(scan.locations(), range(min(4, len(scan.responses))), ReadOptions(), FigureOptions()))
    elif kind == "metrics":
        find_metrics(path.parent)
        metrics_beside([path.parent], [])
        read_metrics(path)
    elif kind == "config":
        run_card([path.parent])
        run_card([], configs=[path]).as_json()
    elif kind == "thresholds":
        load_thresholds(path)
    elif path.suffix == ".csv":
        unpacked(gzip.compress(path.read_bytes(), 1), path.name)
    else:
        report_about(path)
        if report := earlier_report(path):
            report.texts((step, n) for step in range(4) for n in range(4))
            report.table("data/tokens.csv")


def child(seed: int, count: int, kept: Path) -> None:
    """Read ``count`` mutated inputs; print how many of each kind were read, refused and failed."""
    from rlreport.errors import RlreportError

    rng, files, counts = random.Random(seed), seeds(), Counter[str]()
    kinds = sorted({kind for kind, _, _ in files})
    with tempfile.TemporaryDirectory() as folder:
        for kind, name, content in files:  # imports come before the limit
            (Path(folder) / name).write_bytes(content)
            try:
                read(kind, Path(folder) / name)
            except RlreportError:
                pass
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + GROWTH, used + GROWTH))
    signal.signal(signal.SIGALRM, _too_slow)
    for number in range(count):
        wanted = rng.choices(kinds, [1, 2, 1, 1, 1])[0]  # config, log, metrics, report, thresholds
        kind, name, content = rng.choice([file for file in files if file[0] == wanted])
        with tempfile.TemporaryDirectory(dir=kept) as folder:
            path = Path(folder) / name
            path.write_bytes(mutate(content, rng))
            result = "read"
            signal.alarm(SECONDS)
            try:
                read(kind, path)
            except RlreportError:
                result = "refused"
            except BaseException:
                result = "failed"
                place = kept / f"{kind}-{seed}-{number}-{name}"
                shutil.copy(path, place)
                place.with_name(f"{place.name}.txt").write_text(traceback.format_exc())
            finally:
                signal.alarm(0)
            counts[f"{kind} {result}"] += 1
    print(json.dumps([counts, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024]))


def _too_slow(*_: Any) -> None:
    raise TimeoutError


def main() -> None:
    """Run children one after the other and print the totals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kept", type=Path, default=Path(tempfile.gettempdir()) / "fuzz")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.kept.mkdir(parents=True, exist_ok=True)
    if given.child is not None:
        child(given.child, given.inputs, given.kept)
        return
    totals, peak, died, begun = Counter[str](), 0, 0, time.monotonic()
    for start in range(0, given.inputs, INPUTS_PER_CHILD):
        count = min(INPUTS_PER_CHILD, given.inputs - start)
        command = [
            sys.executable,
            __file__,
            "--child",
            str(given.seed + start),
            "--inputs",
            str(count),
        ]
        done = subprocess.run(
            [*command, "--kept", str(given.kept)], stdout=subprocess.PIPE, check=False
        )
        if done.returncode:
            died += 1  # its input is left in a folder below `kept`
            continue
        counts, used = json.loads(done.stdout.splitlines()[-1])
        totals.update(counts)
        peak = max(peak, used)
        print(
            start + count, dict(sorted(totals.items())), f"peak {peak} MB, {died} died", flush=True
        )
    failed = died + sum(n for name, n in totals.items() if name.endswith("failed"))
    print(f"{totals.total()} inputs in {time.monotonic() - begun:.0f} s, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
