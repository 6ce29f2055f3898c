"""Pure functions of the scripts, and their bundles, in Node: ``tests/js``."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rlreport.pages.scripts import assets
from rlreport.text.language import ENGLISH

SCRIPT_TESTS = sorted((Path(__file__).parent / "js").glob("*.test.js"))


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_the_scripts_pass_their_tests_in_node(tmp_path):
    bundles = {
        tmp_path / "report.js": assets(ENGLISH).report,
        tmp_path / "one-file.js": assets(ENGLISH).one_file,
    }
    for path, text in bundles.items():
        path.write_text(text, "utf-8")
    run = subprocess.run(
        ["node", "--test", "--test-reporter=spec", *map(str, SCRIPT_TESTS)],
        env={**os.environ, "RLREPORT_BUNDLES": os.pathsep.join(map(str, bundles))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("the bundle leaks no global") == len(bundles)
