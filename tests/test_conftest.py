"""What holds for every test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
from pathlib import Path

def test_that_writes():
    assert not list(Path().iterdir())
    Path("left").touch()

def test_after_it():
    assert not list(Path().iterdir())
"""


def test_tests_run_in_an_empty_folder_and_may_not_write_there(tmp_path: Path) -> None:
    (tmp_path / "test_of_two.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed, 1 error" in done.stdout
    assert "written to the current folder: ['left']" in done.stdout
