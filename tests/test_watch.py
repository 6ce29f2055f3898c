"""``rlreport watch`` builds again when the logs grew, and ends as ``build`` would."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rlreport.cli.main import main
from tests.reading import tokens, write

Grow = Callable[[], object]


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Watches ``log.jsonl``; each sleep takes no time and does the next of some things."""
    clock = [0.0]

    def watch(*things: Grow, arguments: tuple[str, ...] = ()) -> Result:
        left = list(things)

        def sleep(seconds: float) -> None:
            clock[0] += seconds
            if left:
                left.pop(0)()

        monkeypatch.setattr("rlreport.cli.watch.time.sleep", sleep)
        monkeypatch.setattr("rlreport.cli.watch.time.monotonic", lambda: clock[0])
        log = str(tmp_path / "log.jsonl")
        out = str(tmp_path / "out")
        options = ["--workers", "1", "--every", "1m", "--until-idle", "5m"]
        return CliRunner().invoke(main, ["watch", log, "-o", out, *options, *arguments])

    return watch


def rows(first: int, last: int) -> list[dict[str, object]]:
    return [
        tokens("a", "b", step=step, prompt=f"{n}")
        for step, n in product(range(first, last), "12")
    ]


def _data(folder: Path) -> dict[str, object]:
    text = (folder / "data" / "run.js").read_text()
    found: dict[str, object] = json.loads(
        text.removeprefix("globalThis.rlreportSteps = ").rstrip(";\n")
    )
    return found


def test_one_line_for_every_growth_and_a_last_one_when_it_is_idle(tmp_path, watched):
    log = write(tmp_path / "log.jsonl", rows(0, 3))

    def grow() -> None:
        with log.open("ab") as file:
            file.write(write(tmp_path / "more", rows(3, 4)).read_bytes())

    result = watched(lambda: None, grow)
    first, path, *lines, last = result.output.splitlines()
    # The page can be opened from the first build on, and its path is the last line.
    assert path == last == str(tmp_path / "out" / "index.html")
    texts = [line.partition("  ")[2] for line in (first, *lines)]
    assert [text.partition(":")[0] for text in texts] == [
        "step 2, 6 responses",
        "step 3, 8 responses",
        "step 3, 8 responses",
    ]
    assert result.exit_code == 0
    assert _data(tmp_path / "out")["steps"] == [0, 1, 2, 3]


def test_logs_that_are_not_there_yet_or_vanish_are_waited_for(tmp_path, watched):
    log = tmp_path / "log.jsonl"
    result = watched(
        lambda: write(log, rows(0, 2)),
        lambda: None,
        log.unlink,
        lambda: write(log, rows(0, 3)),
    )
    assert "step 1, 4 responses" in result.output
    assert "No such file" in result.output.partition("step 1")[2]
    assert "step 2, 6 responses" in result.output
    assert result.exit_code == 0


def test_ctrl_c_leaves_the_last_whole_report(tmp_path, watched):
    def interrupt() -> None:
        raise KeyboardInterrupt

    write(tmp_path / "log.jsonl", rows(0, 2))
    assert watched(interrupt).exit_code == 0
    assert (tmp_path / "out" / "index.html").exists()


def test_ctrl_c_before_the_first_report_has_a_status_of_its_own(tmp_path, watched):
    def interrupt() -> None:
        raise KeyboardInterrupt

    ended = watched(interrupt)  # there is no log yet
    assert ended.exit_code == 130
    assert ended.output.endswith("interrupted; no incomplete report is left\n")


def test_the_status_is_that_of_the_last_verdict(tmp_path, watched):
    bad = [
        row | {"logprobs": [-1.0] * 2, "ref_logprobs": [-0.5] * 2}
        for row in rows(0, 12)
    ]
    write(tmp_path / "log.jsonl", bad)
    assert watched(arguments=("--fail-on", "warning")).exit_code == 1


def test_live_is_said_in_the_script_of_the_run_alone(tmp_path, watched):
    write(tmp_path / "log.jsonl", rows(0, 2))
    watched()
    plain = {
        path.name: path.read_bytes() for path in (tmp_path / "out").rglob("*.html")
    }
    assert "live" not in _data(tmp_path / "out")
    watched(arguments=("--live",))
    assert _data(tmp_path / "out")["live"] == 60
    assert plain == {
        path.name: path.read_bytes() for path in (tmp_path / "out").rglob("*.html")
    }


@pytest.mark.parametrize(
    "wrong",
    [
        ("--mute", "nosuch=x"),
        ("--thresholds", "nofile.toml"),
        ("-o", "-"),
        ("--format", "nosuch"),
    ],
)
def test_an_option_that_cannot_be_used_is_told_at_once(watched, wrong):
    ended = watched(arguments=wrong)
    assert ended.exit_code == 2
    assert len(ended.output.splitlines()) == 1


def test_a_failed_build_is_tried_again(tmp_path, watched, monkeypatch):
    from rlreport import api

    log = write(tmp_path / "log.jsonl", rows(0, 3))
    build = api.build
    failures = 3

    def unlucky(*arguments: Any, **options: Any) -> Any:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise PermissionError(13, "Permission denied", str(log))
        return build(*arguments, **options)

    monkeypatch.setattr(api, "build", unlucky)
    result = watched(arguments=("--until-idle", "1h"))
    assert result.output.count("Permission denied") == 3
    assert "step 2, 6 responses" in result.output
    assert "ended after a failed build" not in result.output
    assert (result.exit_code, (tmp_path / "out" / "index.html").is_file()) == (0, True)


def test_the_end_says_that_the_last_build_failed(tmp_path, watched):
    assert watched().exit_code == 2  # without a log
    write(tmp_path / "log.jsonl", [])
    result = watched()
    assert (
        result.output.splitlines()[-1]
        == "ended after a failed build; there is no report"
    )
    assert result.exit_code == 2
