"""The wheel, built of the sdist, carries everything, and builds what the checkout builds."""

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import rlreport
from rlreport.pages.template_files import COMPILED
from tests.forms import files_below

pytestmark = pytest.mark.ci

ROOT = Path(__file__).resolve().parents[1]
ALONE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*command: object, **options: Any) -> bytes:
    """Run a program, which sees no checkout; return what it says."""
    options = {"env": ALONE, "capture_output": True, **options}
    return subprocess.run([*map(str, command)], check=True, **options).stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    # An installed checkout keeps the version of when it was installed.
    version = {"SETUPTOOLS_SCM_PRETEND_VERSION": rlreport.__version__}
    run(
        sys.executable,
        "-m",
        "build",
        "--outdir",
        folder,
        ROOT,
        env={**os.environ, **version},
    )
    (made,) = folder.glob("*.whl")
    return made


def test_the_sdist_carries_tests_and_sample_logs_too(wheel):
    (sdist,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "tests/smoke.py",
        "sample_logs/healthy/rank_0.jsonl",
        "CHANGELOG.md",
    } <= names
    generated = {"rlreport/draw/vega.js", "rlreport/draw/designs.json"}
    assert not generated & names  # written when it is installed
    assert not [name for name in names if name.startswith((".ci/", ".venv/"))]


def test_links_of_the_readme_are_whole_on_a_package_index(wheel):
    archive = zipfile.ZipFile(wheel)
    (about,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
    text = archive.read(about).decode().partition("\n\n")[2]
    links = re.findall(r'\]\(([^)]+)\)|src(?:set)?="([^"]+)"', text)
    assert len(links) > 20
    assert not [link for link in map("".join, links) if not link.startswith("https://")]


def test_the_wheel_carries_templates_and_assets(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("templates", "static"):
        ours = {
            p.relative_to(ROOT).as_posix()
            for p in (ROOT / folder).rglob("*")
            if p.is_file() and not p.name.endswith(".d.ts")
        }
        assert ours
        assert {f"rlreport/{name}" for name in ours} <= names
    # Types of the scripts are for those who write them.
    assert not any(name.endswith(".d.ts") for name in names)
    made = {
        "rlreport/draw/designs.json",
        "rlreport/draw/vega.js",
        "rlreport/text/catalogues/zh.mo",
        "rlreport/py.typed",
    }
    assert made <= names
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in names if name.endswith((".so", ".pyd"))]
    compiled = [
        name
        for name in names
        if name.startswith(f"rlreport/templates/{COMPILED}/tmpl_")
    ]
    templates = [*(ROOT / "templates").rglob("*.[ht]*")]
    assert len(compiled) == len(templates)
    assert not [
        name for name in names if name.startswith(("tests/", "templates/", "static/"))
    ]


def test_an_installed_wheel_builds_the_same_bytes_as_the_checkout(wheel, tmp_path):
    place = tmp_path / "venv"
    venv.create(place)
    # Our pip installs there: to copy pip, and to compile every module, takes longer than the rest.
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        place,
        "--disable-pip-version-check",
    ]
    run(*pip, "install", "--quiet", "--no-compile", *_same_versions(), wheel)
    logs = ROOT / "sample_logs" / "healthy"
    python = place / "bin" / "python"
    ours = [python.with_name("rlreport")]
    checkout = [sys.executable, "-m", "rlreport"]
    for program, out in ((ours, "a"), (checkout, "b")):
        run(*program, "build", logs, "-o", tmp_path / out, "--quiet", cwd=tmp_path)
    loader = (
        "from rlreport.pages.template_files import source_environment; "
        "print(*source_environment().loader.loaders)"
    )
    assert b"ModuleLoader" in run(python, "-c", loader, cwd=tmp_path)
    run(python, ROOT / "tests" / "smoke.py", ROOT / "sample_logs", cwd=tmp_path)
    made = files_below(tmp_path / "a")
    assert len(made) > 40
    assert made == files_below(tmp_path / "b")


def _same_versions() -> list[str]:
    """The dependencies at the versions of this environment, so that only the code may differ."""
    names = ("altair", "vl-convert-python", "pandas", "numpy", "jinja2")
    return [f"{name}=={metadata.version(name)}" for name in names]


def test_the_oldest_versions_that_are_allowed_build_the_samples(wheel, tmp_path):
    uv = [sys.executable, "-m", "uv", "--quiet"]
    place = tmp_path / "venv"
    python = place / "bin" / "python"
    run(*uv, "venv", "--python", sys.executable, place)
    install = [*uv, "pip", "install", "--python", python]
    run(*install, "--resolution", "lowest-direct", "-r", ROOT / "pyproject.toml")
    run(*install, "--no-deps", wheel)
    run(python, ROOT / "tests" / "smoke.py", ROOT / "sample_logs", cwd=tmp_path)
