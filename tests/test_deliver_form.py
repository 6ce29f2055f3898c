"""The registry of output forms: suffixes, the help that names them, and what is refused."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from rlreport.cli.main import main
from rlreport.deliver.forms import FORMS, OTHER_SUFFIXES, form_of
from rlreport.errors import UsageError
from rlreport.system.own_output import MARKS


def test_help_and_registry_say_what_each_form_says_of_itself():
    shown = CliRunner().invoke(main, ["build", "--help"]).output
    for name, form in FORMS.items():
        assert form.id == name
        assert form_of(Path(f"run{form.suffix}")) is form
        assert form.folder or form.id in MARKS
        if form.suffix:
            assert f" {form.suffix} = {form.words}" in " ".join(shown.split())


def test_suffixes_of_other_kinds_of_files_are_refused_and_other_names_with_a_dot_are_folders():
    for suffix in OTHER_SUFFIXES - {form.suffix for form in FORMS.values()}:
        for name in (f"run{suffix.upper()}", f"a.b/run{suffix}"):
            with pytest.raises(
                UsageError, match=r"cannot be written as .*use .*\.html"
            ):
                form_of(Path(name))
    for name in (
        "run-0.5",
        "run.v2",
        "my.model",
        "run",
        "run.p12",
        "exp.c",
        "a.t",
        "run.pt",
    ):
        assert form_of(Path(name)).id == "folder"
