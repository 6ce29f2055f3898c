"""An output form is its functions and one entry: everything else works with it as with ours."""

from pathlib import Path

import pytest
from click.testing import CliRunner

import rlreport
from rlreport.cli import main
from rlreport.deliver import FORMS, OTHER_SUFFIXES, Builder, Form, form_of
from rlreport.errors import OutputError, UsageError
from rlreport.pages.report import ReportBuilder
from rlreport.pages.templates import Page
from tests.store import short_log


def write_text(builder: Builder, path: Path) -> None:
    path.write_text(f"rlreport plain text\n{builder.sentence}\n")


def encode_title(page: Page) -> tuple[tuple[str, bytes], int]:
    name, title = page.path.replace("/", "-"), page.title.encode()
    return (name, title), len(title) + len(name) + 10


def write_titles(builder: Builder, folder: Path) -> None:
    assert isinstance(builder, ReportBuilder)
    for name, text in builder.pages():
        (folder / name).write_bytes(bytes(text))


TEXT = Form(
    "test_text",
    "text",
    f"{__name__}:write_text",
    suffix=".test_text",
    mark=b"rlreport plain text",
    default_size=10_000,
)
PAGES = Form(
    "test_pages",
    "titles",
    f"{__name__}:write_titles",
    f"{__name__}:encode_title",
    suffix=".test_pages",
    folder=True,
    pages=True,
    default_size=1_000_000,
)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """The two forms in the registry, as their lines would put them there."""
    for form in (TEXT, PAGES):
        monkeypatch.setitem(FORMS, form.id, form)


@pytest.fixture
def log(tmp_path):
    return short_log(tmp_path)


def test_its_suffix_or_its_name_chooses_it_and_a_second_build_replaces_its_own(log, tmp_path):
    out = tmp_path / "run.test_text"
    for title in ("first", "second"):
        report = rlreport.build(log, out, title=title)
        assert report.form == "test_text"
        assert report.verdict.sentence in out.read_text()
    rlreport.build(log, tmp_path / "run.log", form="test_text")
    assert (tmp_path / "run.log").read_text() == out.read_text()


def test_files_of_others_and_a_size_are_kept_as_for_every_form(log, tmp_path):
    (tmp_path / "notes.test_text").write_text("my notes")
    with pytest.raises(OutputError, match="not a report of rlreport"):
        rlreport.build(log, tmp_path / "notes.test_text")
    with pytest.raises(OutputError, match="--max-size"):
        rlreport.build(log, tmp_path / "run.test_text", max_size=10)
    with pytest.raises(UsageError, match="need the mail format"):
        rlreport.build(log, tmp_path / "run.test_text", subject="Hello")


def test_a_folder_form_gets_its_pages_and_leaves_files_of_others(log, tmp_path):
    out = tmp_path / "run.test_pages"
    for _ in range(2):
        rlreport.build(log, out)
        assert (out / "steps-1.html").read_text().startswith("Step 1")
    (out / "notes").write_text("theirs")
    with pytest.raises(OutputError, match="did not write: notes"):
        rlreport.build(log, out)
    assert (out / "notes").read_text() == "theirs"


def test_a_comparison_is_written_in_it_as_a_report_is(log, tmp_path):
    out = tmp_path / "diff.test_text"
    compared = rlreport.compare(log, log, out)
    assert out.read_text() == f"rlreport plain text\n{compared.sentence}\n"


def test_help_and_registry_say_what_each_form_says_of_itself():
    shown = CliRunner().invoke(main, ["build", "--help"]).output
    for name, form in FORMS.items():
        assert form.id == name
        assert form_of(Path(f"run{form.suffix}")) is form
        assert form.folder or form.mark
        if form.suffix and not form.id.startswith("test_"):
            assert f" {form.suffix} = {form.words}" in " ".join(shown.split())


def test_suffixes_of_other_kinds_of_files_are_refused_and_other_names_with_a_dot_are_folders():
    for suffix in OTHER_SUFFIXES - {form.suffix for form in FORMS.values()}:
        for name in (f"run{suffix.upper()}", f"a.b/run{suffix}"):
            with pytest.raises(UsageError, match=r"cannot be written as .*use .*\.html"):
                form_of(Path(name))
    for name in ("run-0.5", "run.v2", "my.model", "run", "run.p12", "exp.c", "a.t", "run.pt"):
        assert form_of(Path(name)).id == "folder"
