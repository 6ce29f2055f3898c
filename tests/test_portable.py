"""Without what POSIX alone has, as on Windows: the same report, from one process."""

import subprocess
import sys
from pathlib import Path

import rlreport
from tests.forms import files_below
from tests.store import short_log

WITHOUT = """
import os, signal, sys
del signal.pthread_sigmask
for name in ("geteuid", "getuid", "fork", "O_NOFOLLOW", "O_NONBLOCK"):
    delattr(os, name)
sys.modules["fcntl"] = None
def link(source, target, *, follow_symlinks=True):
    if not follow_symlinks:
        raise NotImplementedError("link: follow_symlinks unavailable on this platform")
os.link = link
import rlreport
rlreport.build(sys.argv[1], sys.argv[2], workers=4)
"""


def test_a_system_without_posix_builds_and_rebuilds_the_same_report(tmp_path: Path) -> None:
    logs = short_log(tmp_path / "logs")
    out = tmp_path / "report"
    rlreport.build(logs, out, workers=2)
    usual = files_below(out)
    (out / ".nojekyll").write_text("of the host", "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, logs, out], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert files_below(out) == {**usual, ".nojekyll": b"of the host"}
    assert [path.name for path in out.parent.glob("*report*")] == ["report"]
