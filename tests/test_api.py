"""``rlreport.build``: the command line's options, from Python."""

import inspect
import re
from typing import Any

import pytest

import rlreport
from rlreport.cli.commands import build as command
from tests.hostile import hostile_rows, write_log

ONLY_COMMAND = {"fail_on", "open_page", "verbose"}
"""Parameters of the command that Python does without."""


def test_it_says_what_it_built(tmp_path):
    log = write_log(tmp_path / "log.jsonl", hostile_rows())
    done = rlreport.build(
        log, tmp_path / "run.log", form="zip", title="mine", workers=1
    )
    assert isinstance(done, rlreport.Report)
    assert done.out == tmp_path / "run.log"
    assert done.form == "zip"
    assert done.size == (tmp_path / "run.log").stat().st_size
    assert done.shown == len(done.tables.responses) == 48
    assert done.verdict.sentence


def test_an_address_of_this_machine_is_a_place_that_may_not_exist_yet(tmp_path):
    log = write_log(tmp_path / "log.jsonl", hostile_rows(1, 1))
    for name in ("run", "run.html"):
        rlreport.build(log, f"file://{tmp_path}/new/{name}", workers=1)
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"run", "run.html"}


def test_every_option_of_the_command_is_there():
    offered = set(inspect.signature(rlreport.build).parameters)
    assert {param.name for param in command.params} - ONLY_COMMAND - offered == set()


def test_defaults_are_those_of_the_command():
    offered = inspect.signature(rlreport.build).parameters
    defaults = command.make_context("build", ["logs"]).params
    for name, default in defaults.items():
        if name in {*ONLY_COMMAND, "logs", "quiet"}:
            continue
        assert str(offered[name].default or None) == str(default or None), name


def test_completion_offers_what_the_package_does() -> None:
    assert set(rlreport.__all__) <= set(dir(rlreport))
    for name in rlreport.__all__:
        getattr(rlreport, name)


@pytest.mark.parametrize(
    "wrong",
    [
        {"redact": "Names"},
        {"gamma": 5.0},
        {"lam": -0.1},
        {"max_responses": 0},
        {"workers": -2},
        {"restarts": "first"},
        {"max_size": 0},
        {"max_responses": 10**30},
    ],
)
def test_what_the_command_line_refuses_python_refuses_too(tmp_path, wrong):
    log = write_log(tmp_path / "log.jsonl", hostile_rows())
    with pytest.raises(rlreport.RlreportError, match=next(iter(wrong))):
        rlreport.build(log, tmp_path / "run", **wrong)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("titel", "; did you mean 'title'?"),
        ("map", "; use mapping="),
        ("xyzzy", ""),
    ],
)
def test_an_unknown_option_is_named_with_the_one_that_may_be_meant(name, hint):
    options: dict[str, Any] = {name: 1}
    text = f"got an unexpected option {name!r}{hint}"
    with pytest.raises(TypeError, match=re.escape(f"build() {text}")):
        rlreport.build("log.jsonl", **options)
    with pytest.raises(TypeError, match=re.escape(f"compare() {text}")):
        rlreport.compare("base.jsonl", "new.jsonl", **options)


def test_no_logs_are_an_error_of_their_own(tmp_path):
    with pytest.raises(rlreport.RlreportError, match="nowhere"):
        rlreport.build(tmp_path / "nowhere", tmp_path / "run")
    with pytest.raises(rlreport.RlreportError, match="no path given"):
        rlreport.build([], tmp_path / "run")
    with pytest.raises(rlreport.RlreportError, match="No such file or folder"):
        rlreport.build("", tmp_path / "run")  # not the current folder
    with pytest.raises(rlreport.RlreportError, match="no path given"):
        rlreport.compare([], tmp_path / "a", tmp_path / "run")
