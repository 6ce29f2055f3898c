"""Read mutated logs, metrics, configurations, thresholds and reports: no traceback in 1 GB.

A child process reads 1,000 inputs and may grow by 1 GB of address space after its imports. An
input fails if it raises anything but an RlreportError, takes over 20 s or ends the process.

    python benchmarks/fuzz.py INPUTS SEED FOLDER_FOR_FAILURES
"""

from __future__ import annotations

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
import traceback
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import rlreport
from rlreport.about.card import run_card
from rlreport.check import load_thresholds
from rlreport.comparison.data_file import unpacked
from rlreport.comparison.saved import earlier_report, report_about
from rlreport.errors import RlreportError
from rlreport.metrics.find import find_and_read
from rlreport.options import GaeOptions, ReadOptions
from rlreport.pages.index import runs_view
from rlreport.pages.index_rows import Listed, index_run
from rlreport.read.logs import read_logs
from rlreport.text.language import ENGLISH

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
GROWTH = 1 << 30
SECONDS = 20
PER_CHILD = 1_000
SEED_BYTES = 200_000
KINDS = {"log": 5, "metrics": 3, "config": 2, "report": 3, "thresholds": 1}
"""Kinds of inputs, with how many of 14 are of this kind."""

BYTES = rb""" \ [ ] { } , : NaN -1e999 1e400 null "\ud800" <<:*a *a &a !!binary ? - 1:1:1
    2020-99-99 "step" [a.b] PAR1 PK </script> """.split()
BYTES += [
    b"\n",
    b"\0",
    b"\xff",
    b"9" * 400,
    b"9" * 5000,
    b"0x" + b"f" * 5000,
    b"[" * 300,
    b'{"a":' * 300,
]
VALUES = json.loads(
    '[null, true, 0, -1, 1e308, NaN, 99999999999999999999, "", "a", "\\ud800", "0.5", [], {},'
    '[[]], [null], [1, "a"], {"a": 1}, {"role": 1}, [{}], "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]'
)
TABLE = (
    b"step,n,split,prompt_id,reward,prompt,extra:a\n" + b"1,0,train,0,0.5,0f,x\n" * 9
)
CONSOLE = (
    b"step:%d - actor/loss:0.1 - critic/score/mean:0.5\n"
    b"epoch: 0|step: %d|ppo_ep: 1|act_loss: 0.1\naverage reward score: 0.5\n"
    b"Epoch:[1/1](%d/99), Reward: -2.2, KL_ref: 0.1\n"
    b"{'loss': 0.1, 'reward': 0.5, 'epoch': 0.0%d}\n\r 5%%|#| %d/99 [00:01<00:02]\n"
)
MADE = [
    ("metrics", "metrics.jsonl", b'{"step": 1, "train": {"loss": 2.5}}\n' * 9),
    ("metrics", "metrics.csv", TABLE),
    ("metrics", "trainer_state.json", b'{"log_history": [{"step": 1, "loss": 2.5}]}'),
    (
        "config",
        "config.yaml",
        b"a: &a {x: 1, y: [1, 2]}\nb: {<<: *a, z: *a}\nc: [1:30, 0x1f]\n",
    ),
    (
        "metrics",
        "train.log",
        b"".join(CONSOLE % ((step,) * 5) for step in range(9))
        + b"Traceback (most recent call last):\n  x\nValueError: 1\n",
    ),
    ("report", "responses.csv", TABLE),
    ("thresholds", "a.toml", b"[kl_explosion]\nwarn = 10\ncritical = 50.0\n[trend]\n"),
]


def seeds(kept: Path) -> list[tuple[str, str, bytes]]:
    """Return (kind, name, content) of the files that are mutated; reports are those in ``kept``."""
    found = MADE + [
        ("config", p.name, p.read_bytes()) for p in DATA.glob("configurations/*")
    ]
    files = [*DATA.glob("frameworks/*/**/*.*"), *DATA.glob("*/*.jsonl*")]
    for path in sorted(files):
        content = (
            gzip.decompress(path.read_bytes())
            if path.suffix == ".gz"
            else path.read_bytes()
        )
        name = path.name.removesuffix(".gz")
        if name.endswith("l") or len(content) < SEED_BYTES:
            found.append(("log", name, content[:SEED_BYTES]))
    for path in sorted(DATA.glob("runs/trainer/*/*.*")):
        found.append(("metrics", path.name, path.read_bytes()))
    tables = DATA / "frameworks" / "trackio" / "tables.db"
    found.append(("metrics", tables.name, tables.read_bytes()))
    for path in sorted(kept.glob("report.*")):
        found.append(("report", path.name, path.read_bytes()))
    with zipfile.ZipFile(kept / "report.zip") as archive:
        found.append(("report", "report.json", archive.read("data/report.json")))
    return found


def build_reports(kept: Path) -> None:
    """Build the reports that are mutated."""
    for suffix in (".zip", ".html"):
        out = kept / f"report{suffix}"
        rlreport.build([DATA / "runs" / "agents"], out, quiet=True, workers=1)


def mutate(content: bytes, rng: random.Random) -> bytes:
    """Return content with a few bytes or values changed; in archives, within one of their files."""
    if content[:2] == b"PK" and rng.random() < 0.8:
        return _mutate_archive(content, rng)
    if rng.random() < 0.5:
        lines = (
            content.split(b"\n")
            if content[:1] == b"{" and b"}\n{" in content
            else [content]
        )
        try:
            at = rng.randrange(len(lines))
            lines[at] = json.dumps(_mutate_value(json.loads(lines[at]), rng)).encode()
            return b"\n".join(lines)
        except ValueError:
            pass  # no JSON
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(data) + 1)
        other = rng.randrange(len(data) + 1)
        size = rng.randint(1, 200)
        new = (
            bytes([at % 256]),
            rng.choice(BYTES),
            b"",
            data[other : other + size],
            data[at : at + size] * 50,
        )
        data[at : at + rng.choice((0, 1, 3, size))] = rng.choice(new)
    return bytes(data)


def _mutate_value(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict | list) and value and rng.random() < 0.9:
        key = rng.choice([*value] if isinstance(value, dict) else range(len(value)))
        value[key] = _mutate_value(value[key], rng)
        if rng.random() < 0.02:
            del value[key]
        return value
    return rng.choice(VALUES)


def _mutate_archive(content: bytes, rng: random.Random) -> bytes:
    made = io.BytesIO()
    try:
        with (
            zipfile.ZipFile(io.BytesIO(content)) as old,
            zipfile.ZipFile(made, "w") as new,
        ):
            parts = {name: old.read(name) for name in old.namelist()}
            name = rng.choice([*parts])
            packed = name.endswith(".gz")
            part = mutate(gzip.decompress(parts[name]) if packed else parts[name], rng)
            parts[name] = gzip.compress(part, 1) if packed else part
            for name, part in parts.items():
                new.writestr(name, part)
    except NotImplementedError:  # packed with zstandard
        return content[: rng.randrange(len(content))]
    return made.getvalue()


def read(kind: str, path: Path) -> None:
    """Read a file of this kind with the function that rlreport uses."""
    if kind == "log":
        scan = read_logs([path], ReadOptions(workers=1), GaeOptions())
        rows = range(min(4, len(scan.responses)))
        scan.rollouts.read(rows)
    elif kind == "metrics":
        find_and_read([path.parent], [])
        find_and_read([], [path])
    elif kind == "config":
        run_card([path.parent])
        run_card([], configs=[path]).as_json()
    elif kind == "thresholds":
        load_thresholds(path)
    elif path.name == "report.json":
        read_as_index(path)
    elif path.suffix == ".csv":
        unpacked(gzip.compress(path.read_bytes(), 1), path.name)
    else:
        report_about(path)
        if report := earlier_report(path):
            report.texts((step, n) for step in range(4) for n in range(4))


def read_as_index(path: Path) -> None:
    """Make the page of an index of a report, given its ``report.json``."""
    folder = path.parent / "run"
    (folder / "data").mkdir(parents=True)
    path.rename(folder / "data" / path.name)
    about = report_about(folder)
    runs = [index_run(Listed(name, f"./{name}", about)) for name in ("a", "b")]
    ENGLISH.of(runs_view(runs, lambda charts: charts, ENGLISH))


def child(count: int, seed: int, kept: Path) -> None:
    """Read mutated inputs and print how many of each kind were read, refused and failed."""
    rng = random.Random(seed)
    files = seeds(kept)
    counts = Counter[str]()
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError()))
    for number in range(-len(files), count):
        kind = rng.choices([*KINDS], [*KINDS.values()])[0]
        kind, name, content = rng.choice([file for file in files if file[0] == kind])
        if number < 0:  # first all as they are: imports come before the limit
            kind, name, content = files[number]
        elif number == 0:
            used = (
                int(Path("/proc/self/statm").read_text().split()[0])
                * resource.getpagesize()
            )
            resource.setrlimit(resource.RLIMIT_AS, (used + GROWTH, used + GROWTH))
        folder = Path(tempfile.mkdtemp(prefix=f"{kind}-{seed}-{number}-", dir=kept))
        (folder / name).write_bytes(content if number < 0 else mutate(content, rng))
        result = "read"
        signal.alarm(SECONDS)
        try:
            read(kind, folder / name)
        except RlreportError:
            result = "refused"
        except BaseException:
            result = "failed"
            (folder / "traceback.txt").write_text(traceback.format_exc())
        signal.alarm(0)
        counts[f"{kind} {result}"] += number >= 0
        if result != "failed":  # an input that ends the process stays, too
            shutil.rmtree(folder)
    print(
        json.dumps([counts, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024])
    )


def main(inputs: int, seed: int, kept: Path) -> None:
    """Run child processes in sequence and print the totals; exit with status 1 after a failure."""
    build_reports(kept)
    totals = Counter[str]()
    peak = 0
    for start in range(0, inputs, PER_CHILD):
        command = [
            sys.executable,
            __file__,
            str(PER_CHILD),
            str(seed + start),
            str(kept),
            "child",
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
        counts, used = (
            json.loads(done.stdout) if not done.returncode else ({"child failed": 1}, 0)
        )
        totals.update(counts)
        peak = max(peak, used)
        print(
            totals.total(), dict(sorted(totals.items())), f"peak {peak} MB", flush=True
        )
    sys.exit(any(name.endswith("failed") for name, count in totals.items() if count))


if __name__ == "__main__":
    Path(sys.argv[3]).mkdir(parents=True, exist_ok=True)
    run = child if len(sys.argv) > 4 else main
    run(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
