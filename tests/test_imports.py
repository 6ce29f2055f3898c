"""What a command does not need it does not import: packages take longer than a small log."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reading import row, write

ROOT = Path(__file__).resolve().parents[1]

# Prints which of the modules named in its first argument a command imported into its own process
SCRIPT = """
import json, sys
from rlreport.cli.main import main
try:
    main(sys.argv[2:])
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps([name for name in json.loads(sys.argv[1]) if name in sys.modules]))
"""

# Of no use to any command on one run of plain rows. NumPy's and Python's own test tools come with
# SciPy, ``ssl`` with asyncio; V8, which is in vl_convert, has a process of its own.
NEVER = [
    "altair",
    "asyncio",
    "numpy.f2py",
    "numpy.testing",
    "rlreport.comparison.compare",
    "rlreport.flows.compare",
    "rlreport.flows.index",
    "rlreport.metrics.consoles",
    "rlreport.pages.comparison",
    "rlreport.pages.index",
    "rlreport.system.function_server",
    "scipy",
    "ssl",
    "tomllib",
    "unittest",
    "vl_convert",
    "webbrowser",
    "yaml",
]
HELP_NEEDS_NONE_OF = [
    *NEVER,
    "difflib",
    "email.message",
    "hashlib",
    "jinja2",
    "multiprocessing",
    "numpy",
    "pandas",
    "rlreport.api",
    "sqlite3",
    "subprocess",
    "zipfile",
]


def imported(names: list[str], arguments: list[str], folder: Path) -> list[str]:
    """Return which of these modules a command imports."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        # Threads of NumPy would rule out forking, and then V8 starts in the same process.
        "OPENBLAS_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(names), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture
def log(tmp_path):
    return write(tmp_path / "log.jsonl", [row(step) for step in range(12)])


@pytest.mark.parametrize("arguments", [["--help"], ["build", "--help"]])
def test_help_imports_no_slow_package(arguments, tmp_path):
    assert imported(HELP_NEEDS_NONE_OF, arguments, tmp_path) == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere V8 has no own process")
@pytest.mark.parametrize("arguments", [["build"], ["check"], ["inspect"]])
def test_a_command_on_one_run_imports_nothing_of_others(arguments, log, tmp_path):
    out = ["-o", str(tmp_path / "report")] if arguments == ["build"] else []
    workers = ["--workers", "2"] if arguments != ["inspect"] else []
    command = [*arguments, str(log), *out, *workers, "--quiet"]
    assert imported(NEVER, command, tmp_path) == []
