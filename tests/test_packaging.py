"""The wheel, built of the sdist, carries everything, and builds what the checkout builds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import rlreport
from rlreport.pages import COMPILED

pytestmark = pytest.mark.ci

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    # An installed checkout keeps the version of when it was installed.
    version = {"SETUPTOOLS_SCM_PRETEND_VERSION": rlreport.__version__}
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)],
        check=True,
        capture_output=True,
        env={**os.environ, **version},
    )
    (made,) = folder.glob("*.whl")
    return made


def test_the_sdist_carries_tests_and_sample_logs_too(wheel):
    (sdist,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"tests/smoke.py", "sample_logs/healthy/rank_0.jsonl", "CHANGELOG.md"} <= names
    generated = {"rlreport/draw/vega.js", "rlreport/draw/designs.json"}
    assert not generated & names  # written when it is installed
    assert not [name for name in names if name.startswith((".ci/", ".venv/"))]


def test_links_of_the_readme_are_whole_on_a_package_index(wheel):
    (about,) = [n for n in zipfile.ZipFile(wheel).namelist() if n.endswith("/METADATA")]
    text = zipfile.ZipFile(wheel).read(about).decode().partition("\n\n")[2]
    links = re.findall(r'\]\(([^)]+)\)|src(?:set)?="([^"]+)"', text)
    assert len(links) > 20
    assert not [link for link in map("".join, links) if not link.startswith("https://")]


def test_the_wheel_carries_templates_and_assets(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("templates", "static"):
        ours = {p.relative_to(ROOT).as_posix() for p in (ROOT / folder).rglob("*") if p.is_file()}
        assert ours
        assert {f"rlreport/{name}" for name in ours} <= names
    made = {
        "rlreport/draw/designs.json",
        "rlreport/draw/vega.js",
        "rlreport/text/catalogues/zh.mo",
        "rlreport/py.typed",
    }
    assert made <= names
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in names if name.endswith((".so", ".pyd"))]
    compiled = [name for name in names if name.startswith(f"rlreport/templates/{COMPILED}/tmpl_")]
    assert len(compiled) == len([*(ROOT / "templates").rglob("*.[ht]*")])
    assert not [name for name in names if name.startswith(("tests/", "templates/", "static/"))]


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
    loader = "import rlreport.pages as b; print(*b.source_environment().loader.loaders)"
    done = subprocess.run(
        [str(place / "bin" / "python"), "-c", loader],
        check=True,
        cwd=tmp_path,
        env=env,
        capture_output=True,
    )
    assert b"ModuleLoader" in done.stdout
    smoke = [str(place / "bin" / "python"), str(ROOT / "tests" / "smoke.py")]
    subprocess.run([*smoke, str(ROOT / "sample_logs")], check=True, cwd=tmp_path, env=env)
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


def test_the_oldest_versions_that_are_allowed_build_the_samples(wheel, tmp_path):
    uv = [sys.executable, "-m", "uv", "--quiet"]
    place, env = tmp_path / "venv", {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    python = str(place / "bin" / "python")
    subprocess.run([*uv, "venv", "--python", sys.executable, str(place)], check=True)
    install = [*uv, "pip", "install", "--python", python]
    oldest = ["--resolution", "lowest-direct", "-r", str(ROOT / "pyproject.toml")]
    subprocess.run([*install, *oldest], check=True)
    subprocess.run([*install, "--no-deps", str(wheel)], check=True)
    smoke = [python, str(ROOT / "tests" / "smoke.py"), str(ROOT / "sample_logs")]
    subprocess.run(smoke, check=True, cwd=tmp_path, env=env)
