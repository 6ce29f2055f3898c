"""``ReportCallback``: a report however a training ends, and nothing that disturbs the training.

Trainings are scripts of their own with a fake trainer. ``sitecustomize`` gives their builds a
``rlreport.build`` that only notes its arguments, except where a real report is needed.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import rlreport
from rlreport.callback import ReportCallback
from rlreport.ended import Ended
from rlreport.errors import UsageError
from rlreport.system.import_path import PACKAGE_PARENT, safe_import_path
from rlreport.training.builder import ended_text

posix = pytest.mark.skipif(os.name != "posix", reason="signals and forks are of POSIX")

FAKE_BUILD = """
import json, os, sys, time, types

def build(logs, out, **options):
    time.sleep(float(os.environ.get("BUILD_SECONDS", 0)))
    if "BUILD_FAILS" in os.environ:
        raise ValueError("the disk is full")
    rows = []
    for path in options.get("metrics", []):
        if path.endswith("state.json"):
            with open(path) as file:
                rows = json.load(file)["log_history"]
    with open("builds", "a") as file:
        call = {"logs": logs, "out": out, "options": options, "rows": rows}
        facts = {"cuda": os.environ["CUDA_VISIBLE_DEVICES"], "nice": os.nice(0)}
        file.write(json.dumps(call | facts) + "\\n")
    return Report(out)

class Report:
    def __init__(self, out):
        self.out = out
    def __repr__(self):
        return f"What      Healthy.\\n{self.out}"

if any("rlreport.training.builder" in word for word in sys.orig_argv):
    sys.modules["rlreport.api"] = types.ModuleType("rlreport.api")
    sys.modules["rlreport.api"].build = build
"""

TRAINER = """
import json, os, signal, sys, time
from types import SimpleNamespace
from rlreport import ReportCallback

args = SimpleNamespace(
    output_dir="out", logging_steps=1, learning_rate=1e-6, hub_token="hf_abcdefgh1234567890abcd"
)

def train(report, steps=6, each=lambda step: None, main=True, history=()):
    state = SimpleNamespace(is_world_process_zero=main, log_history=list(history),
        global_step=len(history), max_steps=steps, epoch=0.0)
    report.on_init_end(args, state, None)
    report.on_train_begin(args, state, None)
    for step in range(len(history) + 1, steps + 1):
        report.on_step_begin(args, state, None)
        state.global_step = step
        report.on_step_end(args, state, None)
        report.on_log(args, state, None, logs={"reward": step / 10})
        each(step)
    report.on_train_end(args, state, None)

def kill(number, at=4):
    def each(step):
        if step == at:
            os.kill(os.getpid(), number)
            time.sleep(0.2)
    return each

def fail(step):
    if step == 4:
        raise ValueError("the grader <b>failed</b>")

report = ReportCallback("run.html")
"""


class Training:
    """A script that trains, and what became of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "path").mkdir()
        (folder / "path" / "sitecustomize.py").write_text(FAKE_BUILD)
        self.environment = {
            "PYTHONPATH": f"{folder / 'path'}{os.pathsep}{PACKAGE_PARENT}"
        }

    def run(self, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a training, and wait for its builds, which hold its standard error open."""
        return subprocess.run(
            [sys.executable, "-c", TRAINER + code],
            cwd=self.folder,
            env={**os.environ, **self.environment, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def builds(self) -> list[dict[str, Any]]:
        """The calls of ``rlreport.build``."""
        path = self.folder / "builds"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    @property
    def ended(self) -> list[str | None]:
        """How the training ended, by each report."""
        metas = [one["options"].get("meta", {}) for one in self.builds]
        return [meta.get("ended") for meta in metas]


@pytest.fixture
def training(tmp_path: Path) -> Training:
    return Training(tmp_path)


def test_a_training_that_finishes_has_its_report_when_it_returns(training):
    done = training.run("train(report)\nprint(open('builds').read().count('logs'))")
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert (
        done.stderr
        == "rlreport: training finished at step 6\nWhat      Healthy.\nrun.html\n"
    )
    (call,) = training.builds
    folder = training.folder / "out"
    assert call["logs"] == [str(folder)]  # no rollouts: the folder has the metrics
    assert call["options"] == {
        "title": "out",
        "metrics": [str(folder / "trainer_state.json")],
        "config": [str(folder / "rlreport_args.json")],
        "meta": {"ended": "finished at step 6"},
    }
    rewards = [row["reward"] for row in call["rows"]]
    assert rewards == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    assert call["cuda"] == ""
    state = json.loads((folder / "trainer_state.json").read_text())
    assert (state["global_step"], state["max_steps"]) == (6, 6)


def test_the_trainer_s_rollouts_are_the_logs_and_those_of_the_writer_come_first(
    training,
):
    write = "os.makedirs('out/{0}'); open('out/{0}/rank_0.jsonl', 'w').close()\n"
    training.run(write.format("completions") + "train(report)")
    training.run(write.format("rollouts") + "train(report)")
    names = [Path(call["logs"][0]).name for call in training.builds]
    assert names == ["completions", "rollouts"]


def test_rollouts_of_an_earlier_training_are_not_those_of_this_one(training):
    old = training.folder / "out" / "completions"
    old.mkdir(parents=True)
    (old / "completions_00001.parquet").write_text("")
    os.utime(old / "completions_00001.parquet", (0, 0))
    training.run("train(report)")
    # Of a training that goes on from a checkpoint they are.
    training.run("train(report, history=[{'reward': 0.05, 'step': 1}])")
    first, second = training.builds
    assert first["logs"] == [str(old.parent)]
    assert second["logs"] == [str(old)]
    steps = [row["step"] for row in second["rows"]]
    assert steps == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("end", "status", "how"),
    [
        (
            "train(report, each=fail)",
            1,
            "ValueError at step 4: the grader <b>failed</b>",
        ),
        ("train(report, each=kill(signal.SIGTERM))", 143, "SIGTERM at step 4"),
        ("train(report, each=kill(signal.SIGINT))", -2, "Ctrl-C at step 4"),
        (
            "train(report, each=kill(signal.SIGKILL))",
            -9,
            "killed, or ended without notice, at step 4",
        ),
        (
            "train(report, each=lambda step: os._exit(3))",
            3,
            "killed, or ended without notice, at step 1",
        ),
        ("train(report, each=lambda step: sys.exit(3))", 3, "stopped at step 1"),
    ],
)
@posix
def test_a_training_that_dies_leaves_one_report_and_its_own_exit(
    training, end, status, how
):
    done = training.run(end)
    assert (done.returncode, training.ended) == (status, [how])
    assert f"rlreport: training ended: {how}\nWhat" in done.stderr
    assert "finished" not in done.stderr
    last_step = int(how.partition("step ")[2][0])
    assert len(training.builds[0]["rows"]) == last_step
    if how.startswith("ValueError"):
        assert done.stderr.startswith("Traceback")


@posix
def test_the_handler_of_sigterm_that_was_there_before_is_called(training):
    code = """
def before(number, frame):
    print("called", number, flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, before)
train(report, each=kill(signal.SIGTERM))
"""
    done = training.run(code)
    assert (done.returncode, done.stdout) == (7, f"called {int(signal.SIGTERM)}\n")
    assert training.ended == ["SIGTERM at step 4"]


@posix
def test_a_handler_may_let_the_training_go_on_to_its_last_report(training):
    code = """
calls = []
before = lambda number, frame: calls.append(number)
signal.signal(signal.SIGTERM, before)
train(report, each=kill(signal.SIGTERM))
assert len(calls) == 1 and signal.getsignal(signal.SIGTERM) is before
"""
    done = training.run(code)
    assert done.returncode == 0, done.stderr
    assert training.ended[-1] == "finished at step 6"
    assert "training finished at step 6" in done.stderr


@posix
def test_sigterm_that_is_ignored_stays_ignored(training):
    code = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
train(report, each=kill(signal.SIGTERM))
"""
    assert training.run(code).returncode == 0
    assert training.ended == ["finished at step 6"]


@posix
def test_a_build_that_takes_too_long_does_not_hold_up_sigterm(training):
    code = """
from rlreport.training import session
session.SECONDS_AFTER_SIGNAL = 0.5
began = []
def each(step):
    if step == 4:
        began.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGTERM)
try:
    train(report, each=each)
finally:
    print(time.monotonic() - began[0] < 1.5, flush=True)
"""
    done = training.run(code, BUILD_SECONDS="2")
    assert (done.returncode, done.stdout) == (143, "True\n")
    assert "not waiting for the report" in done.stderr
    # The build goes on, and prints its answer itself.
    assert "rlreport: training ended: SIGTERM at step 4" in done.stderr


@posix
def test_forked_processes_neither_build_nor_take_over_signals(training):
    code = """
def each(step):
    if step != 3:
        return
    leaving = os.fork()
    if leaving == 0:
        sys.exit(0)  # unwinds through the trainer, and calls what is registered at exit
    os.waitpid(leaving, 0)
    waiting = os.fork()
    if waiting == 0:
        time.sleep(20)
        os._exit(0)
    time.sleep(0.2)  # Python drops what arrives while it forks
    os.kill(waiting, signal.SIGTERM)
    print(os.waitpid(waiting, 0)[1], flush=True)
train(report, each=each)
"""
    done = training.run(code)
    assert (
        done.stdout == f"{int(signal.SIGTERM)}\n"
    )  # killed by it, as without the callback
    assert training.ended == ["finished at step 6"]


@posix
def test_a_forked_process_that_lives_on_does_not_hide_the_death_of_the_training(
    training,
):
    code = """
def each(step):
    if step == 2 and os.fork() == 0:
        os.close(1), os.close(2)
        time.sleep(20)
        os._exit(0)
    if step == 4:
        os.kill(os.getpid(), signal.SIGKILL)
train(report, each=each)
"""
    began = time.monotonic()
    assert training.run(code).returncode == -9
    assert time.monotonic() - began < 15
    assert training.ended == ["killed, or ended without notice, at step 4"]


def test_only_the_main_process_reports(training):
    done = training.run("train(report, main=False)")
    assert (done.returncode, done.stderr) == (0, "")
    code = "with ReportCallback('run.html', logs='logs') as report: report.log({'reward': 1.0})"
    done = training.run(code, RANK="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert training.builds == []


def test_each_training_of_a_script_has_a_report(training):
    code = """
train(report)
try:
    train(report, each=fail)  # caught: no report yet
except ValueError:
    pass
train(report, steps=3)
"""
    training.run(code)
    assert training.ended == ["finished at step 6", "finished at step 3"]
    assert [len(call["rows"]) for call in training.builds] == [6, 3]


def test_a_failure_that_the_script_catches_is_reported_when_the_script_ends(training):
    code = "try: train(report, each=fail)\nexcept ValueError: pass\nprint('goes on')"
    assert training.run(code).returncode == 0
    assert training.ended == ["stopped at step 4"]


def test_reports_on_the_way_are_built_one_at_a_time(training):
    code = """
report = ReportCallback("run.html", every=2)
def each(step):
    time.sleep(0.2)
    if step == 3:  # of the report of step 2
        while not os.path.exists("builds"): time.sleep(0.05)
train(report, each=each)
"""
    done = training.run(code)
    first, *_, last = training.builds
    assert (first["options"]["in_progress"], first["options"]["workers"]) == (True, 1)
    assert first["nice"] > last["nice"]
    assert "in_progress" not in last["options"]
    assert training.ended[-1] == "finished at step 6"
    assert done.stderr.count("What") == 1  # printed at the end only


@posix
def test_the_last_report_does_not_wait_for_one_on_the_way(training):
    code = """
report = ReportCallback("run.html", every=2)
began = time.monotonic()
train(report, each=kill(signal.SIGTERM))
"""
    done = training.run(code, BUILD_SECONDS="1")
    assert done.returncode == 143
    assert training.ended == ["SIGTERM at step 4"]


def test_options_arrive_whatever_they_are(training):
    code = """
from pathlib import Path
from types import MappingProxyType
report = ReportCallback(
    Path("run.html"), mapping=MappingProxyType({"reward": "a.b"}), meta={"lr": 1e-6, "ended": "?"},
    thresholds=Path("limits.toml"), title="a 'title' with $signs", config=(Path("own.json"),),
    pad_tokens=("<x>",), mute={"a": "b"}, max_size=10**6, lang="zh", metrics=["m.csv"],
)
os.mkdir("elsewhere"); os.chdir("elsewhere")
train(report)
"""
    assert training.run(code).returncode == 0
    (call,) = training.builds  # in the folder where the callback was made
    assert call["options"] == {
        "mapping": {"reward": "a.b"},
        "meta": {"lr": 1e-6, "ended": "finished at step 6"},
        "thresholds": "limits.toml",
        "title": "a 'title' with $signs",
        "config": ["own.json"],
        "pad_tokens": ["<x>"],
        "mute": {"a": "b"},
        "max_size": 10**6,
        "lang": "zh",
        "metrics": ["m.csv"],
    }


@pytest.mark.parametrize(
    ("name", "value"), [("every", 0), ("every", 1.5), ("lang", "x")]
)
def test_an_invalid_option_is_refused_before_the_training(name, value):
    with pytest.raises(UsageError):
        ReportCallback("run.html", **{name: value})
    unknown = r"^ReportCallback\(\) got an unexpected option 'no_such_option'$"
    with pytest.raises(TypeError, match=unknown):
        ReportCallback("run.html", no_such_option=1)


@pytest.mark.parametrize("how", ["train(report)", "train(report, each=fail)"])
def test_a_report_that_fails_is_a_warning_and_hides_no_error(training, how):
    done = training.run(how + "\nprint('goes on')", BUILD_FAILS="1")
    assert (
        "UserWarning: no report was built: ValueError: the disk is full" in done.stderr
    )
    failed = "fail" in how
    assert (done.returncode, done.stdout) == (
        int(failed),
        "" if failed else "goes on\n",
    )
    assert not failed or "ValueError: the grader <b>failed</b>" in done.stderr


def test_nothing_that_goes_wrong_in_the_callback_ends_the_training(training):
    (training.folder / "out").write_text("a file where a folder should be")
    code = "import warnings; warnings.simplefilter('error')\ntrain(report)\nprint('goes on')"
    done = training.run(code)
    assert done.stdout == "goes on\n"
    assert "no report will be built: [Errno" in done.stderr
    (training.folder / "out").unlink()
    done = training.run(
        "sys.executable = '/no/such/python'\ntrain(report)\nprint('goes on')"
    )
    assert done.stdout == "goes on\n"
    assert "no report will be built" in done.stderr


def test_files_of_the_current_folder_are_not_imported(training):
    for name in ("rlreport", "json", "select", "subprocess", "sitecustomize"):
        (training.folder / f"{name}.py").write_text("raise SystemExit('imported')")
    code = "sys.path.insert(0, '')\ntrain(report)"
    # The script itself, as a user runs it, may import its own folder: here it is started safely.
    done = training.run(code, PYTHONSAFEPATH="1")
    assert done.returncode == 0, done.stderr
    assert training.ended == ["finished at step 6"]


def test_this_package_comes_after_the_standard_library_and_before_others(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(PACKAGE_PARENT)
    standard = str(Path(os.__file__).parent)
    path = [
        PACKAGE_PARENT,
        standard,
        f"{standard}/lib-dynload",
        f"{standard}/site-packages",
    ]
    expected = [
        standard,
        f"{standard}/lib-dynload",
        PACKAGE_PARENT,
        f"{standard}/site-packages",
    ]
    assert safe_import_path(path) == expected
    assert safe_import_path(["", standard]) == [standard, PACKAGE_PARENT]


def test_secrets_are_in_no_file(training):
    secret = "hf_abcdefgh1234567890abcd"
    code = f"def each(step): raise ValueError('denied: token={secret}')\ntrain(report, each=each)"
    done = training.run(code, WANDB_API_KEY="0123456789abcdef0123456789abcdef01234567")
    assert training.ended == ["ValueError at step 1"]
    settings = json.loads((training.folder / "out" / "rlreport_args.json").read_text())
    assert settings == {"output_dir": "out", "logging_steps": 1, "learning_rate": 1e-6}
    for path in training.folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert secret.encode() not in content
            assert b"0123456789abcdef" not in content
    assert secret in done.stderr  # in the traceback, as without the callback


def test_the_message_of_an_error_is_one_short_line():
    ended = Ended(how="OSError", text="first\nsecond", step=None)
    assert ended_text(ended) == "OSError: first"
    long = Ended(how="OSError", text="word " * 100, step=3)
    assert len(ended_text(long)) < 250


def test_logging_less_than_every_step_is_warned_of(training):
    done = training.run("args.logging_steps = 5\ntrain(report)")
    assert "logging_steps is 5: metrics of other steps are missing" in done.stderr
    done = training.run("args.log_completions = False\ntrain(report)")
    assert "log_completions is off" in done.stderr


def test_the_import_is_light_and_the_class_is_transformers_own(training):
    transformers = training.folder / "path" / "transformers"
    transformers.mkdir()
    stub = "print('imported')\nclass TrainerCallback:\n    def on_save(self, *a, **k): pass\n"
    (transformers / "__init__.py").write_text(stub)
    code = """
import sys, rlreport
assert not {"transformers", "pandas", "numpy"} & set(sys.modules)
from rlreport import ReportCallback
import pickle, rlreport.callback, transformers
assert issubclass(ReportCallback, transformers.TrainerCallback)
report = ReportCallback("run.html")
assert isinstance(report, transformers.TrainerCallback) and report.on_save() is None
assert pickle.loads(pickle.dumps(ReportCallback)) is rlreport.callback.ReportCallback
assert type(ReportCallback()).__name__ == "ReportCallback"  # trainers make one of a class
assert not {"pandas", "numpy"} & set(sys.modules)
"""
    environment = {**os.environ, **training.environment}
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "imported\n"), done.stderr
    # One that cannot be imported is as good as none.
    (transformers / "__init__.py").write_text("raise RuntimeError('no torch')")
    done = training.run("train(report)")
    assert done.returncode == 0
    assert training.ended == ["finished at step 6"]


def test_other_events_of_a_trainer_are_accepted():
    report: Any = ReportCallback("run.html")
    assert report.on_evaluate(None, None, None) is None
    with pytest.raises(AttributeError):
        _ = report.nothing_like_an_event
    assert "ReportCallback" in dir(rlreport)


@pytest.mark.parametrize(
    ("body", "status", "how"),
    [
        ("pass", 0, "finished at step 3"),
        ("raise ValueError('wrong')", 1, "ValueError at step 3: wrong"),
        ("raise KeyboardInterrupt", -2, "Ctrl-C at step 3"),
        ("sys.exit(5)", 5, "stopped at step 3: exit status 5"),
    ],
)
@posix
def test_a_block_reports_on_any_loop_and_lets_exceptions_pass(
    training, body, status, how
):
    code = f"""
with ReportCallback("run.html", logs="rollouts", title="loop") as report:
    for step in range(1, 4):
        report.log({{"kl": step / 10}}, step=step)
    {body}
"""
    done = training.run(code)
    assert (done.returncode, training.ended) == (status, [how])
    (call,) = training.builds
    assert call["logs"] == ["rollouts"]
    # In the folder of the logs, metrics are found without being named.
    assert call["options"] == {"title": "loop", "meta": {"ended": how}}
    rows = (training.folder / "rollouts" / "rlreport_metrics.jsonl").read_text()
    assert [json.loads(row) for row in rows.splitlines()] == [
        {"kl": 0.1, "step": 1},
        {"kl": 0.2, "step": 2},
        {"kl": 0.3, "step": 3},
    ]


@posix
def test_a_block_counts_the_steps_that_are_logged(training):
    code = """
with ReportCallback("run.html", every=2, logs="rollouts/*.jsonl") as report:
    for _ in range(3):
        report.log({"kl": 0.1})
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
"""
    assert training.run(code).returncode == 143
    assert training.ended == [None, "SIGTERM at step 2"]
    # Next to the report, as a pattern is no folder
    assert [call["options"]["metrics"] for call in training.builds] == [
        [str(training.folder / "rlreport_metrics.jsonl")]
    ] * 2


def test_a_block_without_logs_reports_on_its_metrics_alone(training):
    code = """
with ReportCallback("runs/loop.html", every=2) as report:
    for step in range({steps}):
        report.log({{"kl": 0.1}}, step=step)
"""
    training.run(code.format(steps=2))
    journal = str(training.folder / "runs" / "rlreport_metrics.jsonl")
    assert [call["logs"] for call in training.builds] == [[journal]]
    done = training.run(code.format(steps=0))
    assert "no report was built: nothing was logged; call log()" in done.stderr


def test_a_block_ignores_what_are_no_metrics_and_says_so(training):
    code = """
with ReportCallback("run.html", logs="own") as report:
    report.log(3, step=2)
    report.log({"kl": 0.1})
"""
    done = training.run(code)
    assert "log() takes a dict of numbers; this call is ignored" in done.stderr
    assert "no report will be built" not in done.stderr
    assert training.ended == ["finished at step 0"]


def test_the_trainer_takes_over_in_a_block(training):
    training.run("with ReportCallback('run.html', logs='own') as report: train(report)")
    assert training.ended == ["finished at step 6"]
    assert training.builds[0]["logs"] == ["own"]


@posix
def test_the_report_of_a_killed_training_says_so_above_its_verdict(training):
    (training.folder / "path" / "sitecustomize.py").unlink()
    out = training.folder / "run.html"
    out.write_bytes(b"")  # may be replaced, as a report may
    done = training.run("train(report, each=kill(signal.SIGKILL))")
    assert done.returncode == -9
    text = out.read_text("utf-8")
    assert (
        "The training did not finish: killed, or ended without notice, at step 4."
        in text
    )
    assert "learning_rate" in text
    assert "hf_abcdefgh" not in text
    assert list(training.folder.glob(".*")) == []
