"""The same bytes on any machine: other instructions, another BLAS, time zone, locale, hash seed.

``docs/ci.md`` promises what is tested here. A variant that changes nothing would prove nothing, so
each must show that it was in effect.
"""

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlreport
from tests import moved
from tests.elsewhere import enabled_features
from tests.forms import files_of
from tests.store import short_log

ROOT = Path(__file__).resolve().parents[1]

PLAIN = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0"}
INSTRUCTIONS = (
    "X86_V3" if "X86_V3" in enabled_features() else " ".join(enabled_features())
)
"""What to do without. NumPy before 2.4 has no such group; it knows each extension by its name."""

VARIANTS: dict[str, tuple[dict[str, str], list[str]]] = {
    "plain": ({}, []),
    "instructions": ({"NPY_DISABLE_CPU_FEATURES": INSTRUCTIONS}, []),
    "blas": ({"OPENBLAS_CORETYPE": "Nehalem"}, []),
    "place": ({"LC_ALL": "C", "TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "7"}, []),
    **{way: ({}, [way]) for way in moved.WAYS},
}
"""Name -> environment, and arguments of ``tests.elsewhere``."""

IN_EFFECT = {
    "instructions": ("features",),
    "blas": ("product",),
    "place": ("utf8", "zone", "hash"),
    **dict.fromkeys(moved.WAYS, ("exp",)),
}
"""What each variant must have changed, in ``tests.elsewhere.place``."""

Built = dict[str, dict[str, Any]]


def uses_openblas() -> bool:
    config = np.show_config(mode="dicts")
    return "openblas" in config["Build Dependencies"]["blas"]["name"]


def built(which: str, names: Iterable[str], folder: Path) -> Built:
    """Build a set of reports in each variant; two at a time."""

    def build(name: str) -> dict[str, Any]:
        environment, way = VARIANTS[name]
        (folder / name).mkdir()
        command = [
            sys.executable,
            "-m",
            "tests.elsewhere",
            which,
            str(folder / name),
            *way,
        ]
        done = subprocess.run(
            command,
            env=os.environ | PLAIN | environment | {"PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    names = list(names)
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(build, names), strict=True))


def assert_same(reports: Built, name: str) -> None:
    plain = reports["plain"]
    variant = reports[name]
    for what in IN_EFFECT[name]:
        assert variant["place"][what] != plain["place"][what], (
            f"{name} has no effect on {what}"
        )
    assert list(variant["files"]) == list(plain["files"])
    differing = [
        path
        for path in plain["files"]
        if plain["files"][path] != variant["files"][path]
    ]
    assert differing == []


@pytest.fixture(scope="module")
def seven(tmp_path_factory: pytest.TempPathFactory) -> Built:
    names = [name for name in VARIANTS if INSTRUCTIONS or name != "instructions"]
    return built("seven", names, tmp_path_factory.mktemp("seven"))


@pytest.mark.ci
@pytest.mark.parametrize("name", IN_EFFECT)
def test_seven_reports_have_the_same_bytes_elsewhere(name: str, seven: Built) -> None:
    if name == "instructions" and not INSTRUCTIONS:
        pytest.skip("this processor has only the instructions that NumPy always uses")
    if name == "blas" and not uses_openblas():
        pytest.skip("this NumPy does not use OpenBLAS")
    assert len(seven["plain"]["files"]) > 80
    assert_same(seven, name)


def test_a_report_has_the_same_bytes_if_functions_are_off_by_one_unit(
    tmp_path: Path,
) -> None:
    reports = built("one", ("plain", "odd"), tmp_path)
    assert len(reports["plain"]["files"]) > 80
    assert_same(reports, "odd")


@pytest.mark.parametrize("way", moved.WAYS)
def test_moved_results_are_one_unit_away(way: str) -> None:
    exact = np.exp(np.linspace(-3, 3, 101))
    found = moved.moved(exact, way)
    inside = exact != 1
    distance = np.abs(found - exact)
    unit = np.spacing(np.minimum(exact, found))
    assert (distance[inside] == unit[inside]).all()
    assert 0.2 < (found > exact).mean() < 0.8


GZIPPED = re.compile(rb"H4sI[A-Za-z0-9+/]{9}")
"""The start of gzip as base64: all bytes of the header but the last bits of the system's."""


def test_gzip_has_the_same_header_from_every_version_of_python(tmp_path: Path) -> None:
    out = tmp_path / "report"
    rlreport.build(short_log(tmp_path / "logs"), out, workers=1)
    rlreport.build(tmp_path / "logs", tmp_path / "report.html", workers=1)
    files = {**files_of(out), "report.html": (tmp_path / "report.html").read_bytes()}
    embedded = set()
    for content in files.values():
        embedded.update(GZIPPED.findall(content))
    assert embedded == {b"H4sIAAAAAAAA/"}
    (packed,) = (content for name, content in files.items() if name.endswith(".csv.gz"))
    assert packed.startswith(b"\x1f\x8b\x08\0\0\0\0\0\0\xff")
    assert gzip.decompress(packed).startswith(b'"step"')
