"""Same logs and options, same bytes: in every form, anywhere, with any number of workers."""

import getpass
import json
import shutil
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import rlreport
from rlreport.pages import template_files
from rlreport.pages.html import environment
from tests.forms import FORMS, everything, files_of
from tests.hostile import hostile_rows, write_log
from tests.pages_reading import rows_data
from tests.reading import row, write
from tests.running import in_ci

ROOT = Path(__file__).resolve().parents[1]

SEVERAL = """
import json, os, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # threads of NumPy would keep this process from forking
from rlreport.cli.main import main
from rlreport.read import logs
from rlreport.read.limits import ReadLimits
from rlreport.system import workers
# All workers take part in reading, sampling and rendering a short log, part of which is sampled.
workers.FORK_SECONDS = 0
logs.LIMITS = ReadLimits(range_bytes=10_000, sampled=12, sample_job_rows=4)
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as end:
        if end.code:
            raise
    # A process with V8 cannot fork: another one draws.
    if sys.platform == "linux" and arguments[-1] != "1":
        assert "vl_convert" not in sys.modules
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_log(
        tmp_path_factory.mktemp("secretplace") / "log.jsonl", hostile_rows(3, 6)
    )


# Forms that are built on every change, and those that are built in CI only. Of each, two workers
# build the last one first: it has no pictures.
EARLY = ("folder", "zip")
LATE = ("markdown", "email", "html")


def build_twice(log, place, forms):
    """Build forms by one worker in the folder a, and by two in b, where another form is first."""
    for folder, workers, order in (
        ("a", 1, forms),
        ("b", 2, forms[::-1]),
    ):
        (place / folder).mkdir()
        outs = [str(place / folder / f"{form}{FORMS[form]}") for form in order]
        builds = [
            ["build", str(log), "-o", out, "--workers", str(workers)] for out in outs
        ]
        command = [sys.executable, "-c", SEVERAL, json.dumps(builds)]
        subprocess.run(
            command, check=True, cwd=place / folder, stdout=subprocess.DEVNULL
        )
    return place


@pytest.fixture(scope="module")
def early(log, tmp_path_factory):
    return build_twice(log, tmp_path_factory.mktemp("early"), EARLY)


@pytest.fixture(scope="module")
def late(log, tmp_path_factory):
    assert {*EARLY, *LATE} == FORMS.keys()
    return build_twice(log, tmp_path_factory.mktemp("late"), LATE)


@pytest.fixture(params=[*EARLY, *in_ci(*LATE)])
def twice(request):
    """A form that was built twice: the paths of both outputs."""
    place = request.getfixturevalue("early" if request.param in EARLY else "late")
    return [
        place / folder / f"{request.param}{FORMS[request.param]}" for folder in "ab"
    ]


def test_two_builds_are_the_same_from_any_folder_with_any_number_of_workers(twice):
    first, other = map(files_of, twice)
    assert first
    assert list(first) == list(other)
    assert [name for name in first if first[name] != other[name]] == []


OTHER_TEMPLATES = ("folder", "run.eml", "run.md")
"""Outputs that use all templates: a mail has one file attached; a zip is a folder."""


@pytest.mark.ci
def test_compiled_templates_of_a_wheel_render_as_their_sources(
    log, tmp_path, monkeypatch
):
    folder_of = template_files.package_folder
    templates = shutil.copytree(folder_of("templates"), tmp_path / "templates")
    template_files.compile_templates(templates / template_files.COMPILED)
    for source in templates.rglob("*.[ht]*"):
        source.write_text("a source that is not read")
    folders = {"static": folder_of("static"), "templates": templates}
    for name, find in (("sources", folder_of), ("compiled", folders.get)):
        monkeypatch.setattr(template_files, "package_folder", find)
        environment.cache_clear()
        (tmp_path / name).mkdir()
        for form in OTHER_TEMPLATES:
            rlreport.build(log, tmp_path / name / form, workers=1)
    environment.cache_clear()
    assert files_of(tmp_path / "compiled" / "folder")
    for name in OTHER_TEMPLATES:
        assert files_of(tmp_path / "compiled" / name) == files_of(
            tmp_path / "sources" / name
        )


def test_no_form_names_this_machine_or_its_user(twice):
    held = everything(twice[0])
    named = [str(twice[0].parent), "secretplace", str(ROOT)]
    for name in (getpass.getuser(), socket.gethostname()):
        # A short name may well be a word of the report.
        named += [name] if len(name) > 4 else [f"/{name}/", f"@{name}"]
    assert [name for name in named if name.encode() in held] == []


def test_a_zip_is_the_folder_without_times_or_owners(early):
    with zipfile.ZipFile(early / "a" / "zip.zip") as archive:
        assert archive.testzip() is None
        assert archive.namelist()[0] == "index.html"
        zipped = {
            f"folder/{entry}": archive.read(entry) for entry in archive.namelist()
        }
        for entry in archive.infolist():
            assert entry.date_time == (1980, 1, 1, 0, 0, 0)
            assert entry.external_attr == 0o100644 << 16
    folder = files_of(early / "a" / "folder")
    del folder[
        "folder/data/manifest.json"
    ]  # by which a later build knows what it may replace
    assert zipped == folder


def test_carriage_returns_reach_the_reader(tmp_path):
    logs = write(tmp_path / "a.jsonl", [row(response="a\r\nb"), row(response="c\nd")])
    rlreport.build(logs, tmp_path / "o")
    # A browser takes a CR within HTML for the end of a line.
    assert rows_data(tmp_path / "o" / "steps" / "0.html")["texts"]["response"] == [
        "a\r\nb",
        None,
    ]


@pytest.mark.ci
def test_a_report_is_built_with_closed_standard_streams(log, tmp_path):
    # Else the log would get the number of standard input, which V8 reads when it starts.
    rlreport.build(log, tmp_path / "a" / "report", workers=1)
    out = tmp_path / "b" / "report"
    command = f"{sys.executable} -m rlreport build {log} -o {out} --quiet <&- >&- 2>&-"
    subprocess.run(["sh", "-c", command], check=True, cwd=ROOT)
    assert files_of(out) == files_of(tmp_path / "a" / "report")
