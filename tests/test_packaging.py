"""The built wheel carries everything, and builds the same bytes as the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.ci

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
    )
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_carries_templates_and_assets(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("templates", "static"):
        ours = {p.relative_to(ROOT).as_posix() for p in (ROOT / folder).rglob("*") if p.is_file()}
        assert ours
        assert {f"rlreport/{name}" for name in ours} <= names
    made = {"rlreport/draw/designs/designs.json", "rlreport/draw/vega.js", "rlreport/py.typed"}
    assert made <= names
    assert not [name for name in names if name.startswith(("tests/", "templates/", "static/"))]


def test_the_wheel_is_pure_python(wheel):
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [
        name for name in zipfile.ZipFile(wheel).namelist() if name.endswith((".so", ".pyd"))
    ]


def test_an_installed_wheel_builds_the_same_bytes_as_the_checkout(wheel, tmp_path):
    place = tmp_path / "venv"
    venv.create(place)
    # Our pip installs there: to copy pip, and to compile every module, takes longer than the rest.
    pip = [sys.executable, "-m", "pip", "--python", str(place), "--disable-pip-version-check"]
    install = [*pip, "install", "--quiet", "--no-compile"]
    subprocess.run([*install, *_same_versions(), str(wheel)], check=True)
    logs = ROOT / "sample_logs" / "healthy"
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    for program, out in (
        ((str(place / "bin" / "rlreport"),), "a"),
        ((sys.executable, "-m", "rlreport"), "b"),
    ):
        subprocess.run(
            [*program, "build", str(logs), "-o", str(tmp_path / out), "--quiet"],
            check=True,
            cwd=tmp_path,
            env=env,
        )
    files = sorted(
        p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*") if p.is_file()
    )
    assert len(files) > 40
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file


def _same_versions() -> list[str]:
    """The dependencies at the versions of this environment, so that only the code may differ."""
    from importlib.metadata import version

    names = ("altair", "vl-convert-python", "pandas", "numpy", "jinja2")
    return [f"{name}=={version(name)}" for name in names]
