"""Options from files and variables: what they may set, what is refused, and how it is told."""

import os
import re
from dataclasses import MISSING
from pathlib import Path

import click
import pytest

from rlreport import build as build_report
from rlreport.cli.main import main
from rlreport.cli.option import Option
from rlreport.cli.settings import PROJECT_FILE, TABLES
from rlreport.options import (
    GROUPS,
    SETTINGS_FILE,
    BuildOptions,
    CompareOptions,
    declared,
)
from tests.conftest import ROOT
from tests.hostile import hostile_rows, write_log
from tests.running import rlreport

COMMANDS = [main.commands[name] for name in TABLES]
# They run code or programs, write, send, connect, or hide what was set.
DANGEROUS = set(
    "charts score git step_from_path out open_page cache github_summary to sender ray base new "
    "quiet as_json".split()
)


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """The current folder, with logs in the folder ``logs``."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("RLREPORT_")]:
        monkeypatch.delenv(name)
    write_log(tmp_path / "logs" / "log.jsonl", hostile_rows(2, 4))
    return tmp_path


def settings(place: Path, text: str, name: str = SETTINGS_FILE) -> None:
    (place / name).write_text(text, "utf-8")


def refused(*arguments: object) -> str:
    """The error of a command that ends with status 2, as one line."""
    done = rlreport(*arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def options_of(command: click.Command) -> list[Option]:
    return [param for param in command.params if isinstance(param, Option)]


def test_every_option_declares_its_heading() -> None:
    for command in COMMANDS:
        undeclared = [
            param.name
            for param in command.params
            if isinstance(param, click.Option)
            and getattr(param, "group", "") not in GROUPS
        ]
        assert undeclared == [], f"{command.name}: declare group=… of these options"


def test_no_file_sets_what_runs_code_writes_sends_or_connects() -> None:
    for command in COMMANDS:
        for option in options_of(command):
            metavar = str(option.metavar)
            runs_code = re.search("execut", str(option.help))
            connects = re.search(r"ADDRESS|DIR|URL|MODULE|\.py", metavar)
            if option.name in DANGEROUS or runs_code or connects:
                assert option.from_file == "nothing", (command.name, option.name)
            elif re.search("FILE|PATH$", metavar) and not option.pairs:
                # Its name is resolved, and refused outside of the file's folder.
                assert option.from_file in ("path", "nothing"), option.name


def test_options_of_the_api_are_closed_to_files_unless_they_are_declared_open() -> None:
    for kind in (BuildOptions, CompareOptions):
        for field in declared(kind):
            default = None if field.default is MISSING else field.default
            takes_path = "Path" in str(field.type)
            if takes_path and not isinstance(default, bool):
                assert field.metadata["from_file"] != "value", field.name


def test_the_first_of_option_variable_rlreport_toml_and_pyproject_toml_counts(
    place, monkeypatch
):
    def level(*given: str) -> int:
        done = rlreport("build", "logs", "-o", "r", "-v", *given)
        assert done.returncode == 0, done.stderr
        titles = re.findall(
            "<title>(.*?)</title>", (place / "r" / "index.html").read_text()
        )
        return int(titles[0].partition("level ")[2][0])

    settings(place, '[tool.rlreport.build]\ntitle = "level 4"', PROJECT_FILE)
    assert level() == 4
    settings(place, '[build]\ntitle = "level 3"')
    assert level() == 3
    monkeypatch.setenv("RLREPORT_BUILD_TITLE", "level 2")
    assert level() == 2
    assert level("--title", "level 1") == 1
    assert level("--title", "level 1", "--ignore-files") == 1
    monkeypatch.delenv("RLREPORT_BUILD_TITLE")
    assert "level" not in rlreport("build", "logs", "-o", "r", "--ignore-files").stderr


def test_both_files_are_used_option_by_option(place):
    settings(place, '[tool.rlreport.check]\nlang = "zh"\nstrict = true', PROJECT_FILE)
    settings(place, '[check]\nlang = "en"\nsplit = "train"')
    told = rlreport("check", "logs").stderr
    assert "rlreport.toml: lang = en, split = train\n" in told
    assert "pyproject.toml: strict = true\n" in told


def test_a_file_beside_the_logs_is_read_if_the_current_folder_has_none(place):
    settings(place / "logs", '[check]\nlang = "zh"')
    for log in ("logs", "logs/log.jsonl", "logs/*.jsonl"):
        done = rlreport("check", log)
        assert done.returncode == 0, done.stderr
        assert done.stderr.startswith("rlreport.toml: lang = zh")
        assert done.stdout.startswith("结论")
    assert "rlreport.toml" not in done.stdout
    settings(place, "[build]")
    assert "zh" not in rlreport("check", "logs").stderr


def test_python_takes_nothing_from_files_and_variables(place, monkeypatch):
    settings(place, '[build]\ntitle = "of a file"\nnonsense = 1')
    monkeypatch.setenv("RLREPORT_BUILD_TITLE", "of a variable")
    build_report("logs", "r.html", workers=1)
    page = (place / "r.html").read_text("utf-8")
    assert "of a file" not in page and "of a variable" not in page


HOSTILE = {
    'charts = ["evil.py"]': "charts",
    'out = "/etc/x"': "out",
    'thresholds = "../../x"': "thresholds",
    'thresholds = "/etc/passwd"': "thresholds",
    'ray = "evil.example:10001"': "ray",
    'cache = "/tmp/x"': "cache",
    'to = ["a@b.example"]': "to",
    'from = "a@b.example"': "from",
    'sender = "a@b.example"': "sender",
    'score = "grade.py"': "score",
    "git = true": "git",
    "github-summary = true": "github-summary",
    "open = true": "open",
    "quiet = true": "quiet",
    'step_from_path = "(a+)+$"': "step_from_path",
    'metrics = ["https://evil.example/m.csv"]': "metrics",
    'tokenizer = "s3://evil/t.json"': "tokenizer",
    'notes = "link/secret.md"': "notes",
    'notes = "secret.md"': "notes",
    'config = ["ok.toml", "a/../../x.toml"]': "config",
    'config = "x\\u0000y"': "config",
}


@pytest.mark.parametrize(("line", "key"), HOSTILE.items())
def test_what_a_stranger_could_abuse_is_refused_by_name(line, key, place, tmp_path):
    (place / "outside").mkdir()
    (place / "outside" / "secret.md").write_text("secret")
    (place / "logs" / "link").symlink_to(place / "outside")
    (place / "logs" / "secret.md").symlink_to(place / "outside" / "secret.md")
    (place / "logs" / "evil.py").write_text("open('trap', 'w')")
    settings(place / "logs", f"[build]\n{line}")
    before = sorted(tmp_path.rglob("*"))
    error = refused("build", "logs", "-o", "r")
    assert f"logs/rlreport.toml: [build] {key}: " in error
    assert "secret" not in error.replace("secret.md", "")
    assert sorted(tmp_path.rglob("*")) == before
    assert rlreport("build", "logs", "-o", "r", "--ignore-files").returncode == 0


def test_a_path_within_the_folder_of_the_file_is_relative_to_it(place):
    (place / "logs" / "mine").mkdir()
    (place / "logs" / "mine" / "t.toml").write_text("[kl_explosion]\nnonsense = 1")
    settings(place / "logs", '[check]\nthresholds = "mine/t.toml"')
    assert "logs/mine/t.toml: [kl_explosion]" in refused("check", "logs")
    (place / "logs" / "mine" / "t.toml").write_text("")
    assert "thresholds = t.toml\n" in rlreport("check", "logs").stderr


WRONG = {
    "[biuld]": "unknown table [biuld]; tables: [build], [check]",
    'lang = "zh"': "lang must be in the table of a command",
    "build = 1": "build must be a table",
    "[build]\nmaxsize = 1": "[build] maxsize: unknown option; did you mean max_size?",
    "[build]\ntitle = 1": "[build] title: must be a text; got 1",
    "[build]\ngamma = true": "[build] gamma: must be a finite number; got True",
    "[build]\ngamma = nan": "[build] gamma: must be a finite number; got nan",
    "[build]\ngamma = 3": "rlreport.toml: [build] gamma: 3.0 is not in the range",
    "[build]\nworkers = 1.5": "[build] workers: must be a whole number; got 1.5",
    '[build]\nstrict = "yes"': "[build] strict: must be true or false; got 'yes'",
    '[build]\nlang = "fr"': "rlreport.toml: [build] lang: 'fr' is not one of",
    '[build]\nmax-size = "5XB"': "rlreport.toml: [build] max-size: '5XB' is not a size",
    '[build]\nmute = "x"': "[build] mute: must be a table such as {ID",
    '[build]\nmute = {kl_explosion = ""}': "[build] mute: 'kl_explosion=' must have",
    "[build]\nmute = {kl_explosion = [1]}": "[build] mute: must be a table of texts",
    "[build]\npad_token = [1]": "[build] pad_token: must be a list of texts",
    '[build]\nformat = "html"\nform = "zip"': "form: the same option as",
    "[build": "not valid TOML",
    "a" + ".a" * 100 + "=1": "nested too deeply",
    "#" * 1_000_001: "at most 1,000,000 bytes",
}


@pytest.mark.parametrize("text", WRONG, ids=[text[:30] for text in WRONG])
def test_what_is_wrong_is_said_with_file_table_and_key(text, place):
    settings(place, text)
    error = refused("build", "logs", "-o", "r")
    assert "rlreport.toml" in error
    assert WRONG[text] in error
    own = text.replace("[build", "[tool.rlreport.build")
    if own != text and text != "[build":
        (place / SETTINGS_FILE).unlink()
        settings(place, own, PROJECT_FILE)
        assert "pyproject.toml: [tool.rlreport.build] " in refused("build", "logs")


def test_files_that_cannot_be_read_as_settings_are_named(place):
    file = place / SETTINGS_FILE
    file.write_bytes(b'[build]\ntitle = "\xff"')
    assert "rlreport.toml: not valid TOML: 'utf-8'" in refused("check", "logs")
    file.unlink()
    file.mkdir()
    assert "rlreport.toml: must be a TOML file" in refused("check", "logs")
    file.rmdir()
    os.mkfifo(file)
    assert "rlreport.toml: must be a TOML file" in refused("check", "logs")
    file.unlink()
    file.symlink_to("nowhere.toml")
    assert "rlreport.toml: cannot read settings" in refused("check", "logs")
    file.unlink()
    (place / "other").mkdir()
    settings(place / "other", "[check]\nsecret = 1", "s.toml")
    file.symlink_to("other/s.toml")
    assert "unknown option" in refused("check", "logs")  # within the current folder
    logs = place / "logs" / SETTINGS_FILE
    file.unlink()
    logs.symlink_to(place / "other" / "s.toml")
    error = refused("check", "logs")
    assert "logs/rlreport.toml: is a link to another folder" in error
    assert "secret" not in error


def test_a_project_file_without_settings_is_not_looked_at_closely(place):
    (place / "other").mkdir()
    settings(place / "other", "[tool.black]\nx = 1", PROJECT_FILE)
    (place / PROJECT_FILE).symlink_to("other/pyproject.toml")
    assert rlreport("check", "logs").returncode == 0


def test_a_variable_is_named_if_its_value_is_bad(place, monkeypatch):
    bad = {"MAX_SIZE": "5XB", "LANG": "fr", "MUTE": "x", "REDACT": "x", "GAMMA": "2"}
    for name, value in bad.items():
        monkeypatch.setenv(f"RLREPORT_BUILD_{name}", value)
        assert f"Invalid value for RLREPORT_BUILD_{name}: " in refused("build", "logs")
        monkeypatch.delenv(f"RLREPORT_BUILD_{name}")
    monkeypatch.setenv("RLREPORT_LANG", "fr")
    assert "Invalid value for RLREPORT_LANG: 'fr'" in refused("check", "logs")


def test_variables_take_flags_several_values_and_one_language_for_all(
    place, monkeypatch
):
    monkeypatch.setenv("RLREPORT_LANG", "zh")
    monkeypatch.setenv("RLREPORT_CHECK_STRICT", "1")
    monkeypatch.setenv("RLREPORT_CHECK_TITLE", "")  # empty: as if not set
    mute = "kl_explosion=known, of old\ngarbled=so what"
    monkeypatch.setenv("RLREPORT_CHECK_MUTE", mute)
    done = rlreport("check", "logs")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("结论")
    line = done.stderr.splitlines()[0]
    assert line.startswith("environment: ")
    for part in ("LANG = zh", "STRICT = 1", "MUTE = kl_explosion, garbled"):
        assert part in line
    monkeypatch.setenv("RLREPORT_CHECK_LANG", "en")
    assert rlreport("check", "logs").stdout.startswith("What")


def test_what_was_set_is_listed_on_the_terminal_and_the_data_page(place, monkeypatch):
    monkeypatch.setenv("RLREPORT_BUILD_CACHE", str(place / "private" / "cache"))
    text = (
        '[build]\nmute = {kl_explosion = "<b>known"}\nmax_size = "9MB"\n'
        'meta = {api_key = "hf_abcdefgh"}\nthresholds = "t.toml"\nlang = "zh"'
    )
    settings(place, text)
    settings(place, "", "t.toml")
    done = rlreport("build", "logs", "-o", "r", "--lang", "en")
    assert done.returncode == 0, done.stderr
    listed = "max_size = 9MB, thresholds = t.toml, mute = kl_explosion, meta = api_key"
    assert f"rlreport.toml: {listed}\n" in done.stderr  # not lang: the option counts
    page = (place / "r" / "data.html").read_text("utf-8")
    assert f"<li>Set by rlreport.toml: {listed}.</li>" in page
    assert "<li>Set by variables of the environment: RLREPORT_BUILD_CACHE.</li>" in page
    assert str(place) not in page
    assert "hf_abcdefgh" not in page
    assert rlreport("build", "logs", "-o", "r2", "--quiet").stderr == ""
    done = rlreport("build", "logs", "-o", "r3", "--redact", "--lang", "en")
    page = (place / "r3" / "data.html").read_text("utf-8")
    assert "Set by rlreport.toml: max_size, thresholds, mute, meta.</li>" in page
    done = rlreport("check", "logs", "--json")
    assert done.stdout.startswith("{")


def test_a_comparison_says_what_was_set(place):
    settings(place, '[compare]\npair_by = "group"\nmargin = 0.5')
    done = rlreport("compare", "logs", "logs", "-o", "c.html")
    assert done.returncode == 0, done.stderr
    assert "rlreport.toml: pair_by = group, margin = 0.5\n" in done.stderr
    page = (place / "c.html").read_text("utf-8")
    assert "Set by rlreport.toml: pair_by = group, margin = 0.5." in page


def test_every_table_is_that_of_a_command_that_takes_it(place) -> None:
    taking = {name for name, one in main.commands.items() if hasattr(one, "listed")}
    assert taking == set(TABLES)


def test_the_example_of_the_documentation_is_taken(place):
    text = (ROOT / "docs" / "settings.md").read_text("utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", text, re.S)
    settings(place, example)
    settings(place, "", "checks.toml")
    told = rlreport("build", "logs", "-o", "r").stderr
    assert "title = ppo, kl 0.08" in told and "thresholds = checks.toml" in told
    assert (
        "rlreport.toml: lang = zh, fail-on = critical"
        in rlreport("check", "logs").stderr
    )
