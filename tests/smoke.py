"""Whether an installed rlreport works at all: ``python tests/smoke.py SAMPLE_LOGS``.

Needs nothing but rlreport, and runs wherever it is installed: CI calls it for the wheel and the
sdist on every system and Python.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from rlreport.deliver.forms import FORMS


def rlreport(*arguments: object, status: int = 0) -> str:
    """Run a command as a user does and return what it said; the exit status must be ``status``."""
    command = [sys.executable, "-m", "rlreport", *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode != status:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def main(logs: Path, out: Path) -> None:
    """Run every command, and build every form, of both sample runs."""
    healthy = logs / "healthy"
    broken = logs / "reward_hacking"
    print(rlreport("--version").strip())
    rlreport("inspect", healthy)
    assert "reward_hacking_token" in rlreport(
        "check", broken, "--fail-on", "critical", status=1
    )
    for name, run in (("healthy", healthy), ("broken", broken)):
        rlreport("build", run, "-o", out / name, "--cache", out / "cache", "--quiet")
    for form in FORMS.values():
        if form.folder:
            continue
        file = out / f"run{form.suffix}"
        rlreport("build", healthy, "-o", file, "--quiet")
        assert file.stat().st_size > 100
    about = json.loads((out / "broken" / "data" / "report.json").read_text("utf-8"))
    assert about["verdict"]["lead"] == "reward_hacking_token"
    assert about["responses"] == 1440
    rlreport("compare", out / "healthy", broken, "-o", out / "compare.html", "--quiet")
    rlreport("index", out, "-o", out / "index.html")
    rlreport(
        "watch", healthy, "-o", out / "watched", "--every", "1s", "--until-idle", "1s"
    )
    assert any((out / "cache").iterdir())
    for command in ("formats", "checks"):
        rlreport(command)
    rlreport("build", healthy, "-o", logs, status=2)
    print("1 passed, 0 failed")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(sys.argv[1]).resolve(), Path(folder))
