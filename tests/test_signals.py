"""Signals end the program with one line and their own status, or wait while they are held back."""

import signal
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest

from rlreport.signals import ENDING, held
from tests.hostile import hostile_rows, write_log

ROOT = Path(__file__).parents[1]

# Runs the program, and interrupts it when a module is about to be imported.
STARTED = """
import runpy, signal, sys

class Interrupting:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            try:
                signal.raise_signal(signal.{signal})
            except KeyboardInterrupt:
                if {dropped}:
                    raise ImportError("numpy.core.multiarray failed to import")
                raise

sys.meta_path.insert(0, Interrupting)
sys.argv = ["rlreport", *sys.argv[1:]]
runpy.run_module("rlreport", run_name="__main__")
"""


def interrupted(
    log: Path, module: str, number: str = "SIGINT", *, dropped: bool = False
) -> tuple[int, str]:
    """Return the status and the errors of a build that gets a signal before a module's import."""
    code = STARTED.format(module=module, signal=number, dropped=dropped)
    command = [
        sys.executable,
        "-c",
        code,
        "build",
        str(log),
        "-o",
        str(log.parent / "out"),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert not (log.parent / "out").exists()
    assert not list(log.parent.glob(".*"))
    return done.returncode, done.stderr


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "log.jsonl", hostile_rows(2, 2))


@pytest.mark.parametrize(
    "module", ["click", "rlreport.cli.watch", "rlreport.text.language"]
)
def test_ctrl_c_while_the_program_starts_is_one_line(log, module):
    assert interrupted(log, module) == (130, "rlreport: interrupted\n")


@pytest.mark.parametrize("module", ["rlreport.flows.build", "rlreport.read.logs"])
@pytest.mark.parametrize("dropped", [False, True])
def test_ctrl_c_while_a_command_imports_its_modules_is_one_line(log, module, dropped):
    status, said = interrupted(log, module, dropped=dropped)
    assert (status, said.strip()) == (
        130,
        "rlreport: interrupted; no incomplete report is left",
    )


@pytest.mark.parametrize(
    ("number", "status"),
    [
        ("SIGTERM", 143),
        ("SIGHUP", 129),
    ],
)
def test_a_program_that_is_terminated_says_so_in_one_line(log, number, status):
    ended = interrupted(log, "rlreport.flows.build", number)
    assert ended == (status, "rlreport: terminated; no incomplete report is left\n")


def test_the_installed_command_handles_signals_before_it_imports_much():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "scripts"
    ]
    module = scripts["rlreport"].partition(":")[0]
    code = f"import sys, {module}; sys.exit('click' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("number", ENDING)
def test_held_signals_are_delivered_once_afterwards(number):
    received: list[int] = []
    before = signal.signal(number, lambda number, frame: received.append(number))
    try:
        with held(), held():
            signal.raise_signal(number)
            assert received == []
        assert received == [number]
        signal.raise_signal(number)
        assert received == [number, number]
    finally:
        signal.signal(number, before)


def test_an_error_while_signals_are_held_is_raised_and_handlers_are_set_again():
    before = [signal.getsignal(number) for number in ENDING]
    with pytest.raises(ZeroDivisionError), held():
        print(1 / 0)
    assert [signal.getsignal(number) for number in ENDING] == before


def test_signals_that_are_ignored_stay_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with held():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_outside_the_main_thread_nothing_is_held():
    errors: list[BaseException] = []

    def hold() -> None:
        try:
            with held():
                pass
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=hold)
    thread.start()
    thread.join()
    assert errors == []
