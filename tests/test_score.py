"""``--score``: logged responses get a second reward by a function of the user."""

import json
import os
import re
import textwrap
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlreport import build
from rlreport.check import quantities
from rlreport.check.flips import Effect, Flip, effect, flips
from rlreport.check.judges.hacking import watched_reward_fall
from rlreport.check.run import Run
from rlreport.errors import UsageError
from rlreport.pages.flips import effect_sentence
from rlreport.read.logs import read_logs
from rlreport.read.scoring import BATCH_ROWS, ScoreFunction
from rlreport.read.tables import Scan
from rlreport.system.function_process import FunctionName, function_process
from rlreport.system.workers import Progress
from rlreport.tables import Rescoring, Unscored
from tests.reading import row, write
from tests.running import rlreport
from tests.schemas import validate
from tests.tables_builder import table_of_rows, tables_of

Score = Callable[..., Scan]

VERL = """
import re

def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    boxed = re.findall(r"boxed.(\\d+)", solution_str)
    return {"score": bool(boxed) and boxed[-1] == ground_truth, "acc": 7}
"""
TRL = """
def correct(completions, answer, **kwargs):
    return [float(text.endswith(right)) for text, right in zip(completions, answer)]
"""


@pytest.fixture
def score(tmp_path: Path) -> Score:
    """Return a function that scores rows of a log by the code of a file."""

    def scored(
        rows: Sequence[dict[str, Any]],
        code: str,
        name: str = "",
        *,
        seconds: float = 20.0,
        **files: str,
    ) -> Scan:
        log = write(tmp_path / "logs" / "a.jsonl", rows)
        for module, text in files.items():
            (tmp_path / f"{module}.py").write_text(textwrap.dedent(text), "utf-8")
        grade = tmp_path / "grade.py"
        grade.write_text(textwrap.dedent(code), "utf-8")
        function = FunctionName(grade, name)
        with function_process(function, seconds) as process:
            chosen = ScoreFunction(process, f"grade.py:{process.signature.name}")
            return read_logs([log], score=chosen)

    return scored


def second(scan: Scan) -> list[float]:
    return scan.responses["valid_reward"].tolist()


def reasons(scan: Scan) -> dict[str, int]:
    assert scan.rescoring is not None
    return {one.reason: one.rows for one in scan.rescoring.unscored}


def in_steps(count: int, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows at each of a number of steps."""
    logged: list[dict[str, Any]] = []
    for step in range(count):
        logged += [row | {"step": step} for row in rows]
    return logged


def answers(*texts: str, **fields: Any) -> list[dict[str, Any]]:
    return [
        row(response=text, prompt=f"p{i}", **fields) for i, text in enumerate(texts)
    ]


def test_a_function_of_verl_gets_one_response_and_its_label(score: Score) -> None:
    rows = [
        {"input": "q", "output": f"boxed {n}", "gts": "4", "score": 1.0, "step": 3}
        for n in (4, 5)
    ]
    scan = score(rows, VERL)
    assert second(scan) == [1.0, 0.0]
    assert scan.responses["reward"].tolist() == [1.0, 1.0]  # as logged
    assert scan.reward_parts == []


def test_what_verl_does_not_log_is_what_verl_passes_without_it(score: Score) -> None:
    code = """
    def compute_score(data_source, solution_str, ground_truth, extra_info, more=0.5):
        assert data_source is None and extra_info == {}
        return more
    """
    assert second(score(answers("a", ground_truth="1"), code)) == [0.5]


def test_a_function_of_trl_gets_lists_and_the_fields_as_logged(score: Score) -> None:
    code = """
    def f(prompts, completions, extra, step_id=None, **kwargs):
        assert kwargs["tags"] == [["x"], ["y"]] and "reward" not in kwargs
        assert step_id is None
        return [e["n"] + len(c) for e, c in zip(extra, completions)]
    """
    one = row(response="a", extra={"n": 10}, tags=["x"])
    other = row(response="bc", extra={"n": 20}, tags=["y"])
    assert second(score([one, other], code)) == [11.0, 22.0]


def test_messages_are_passed_as_messages(score: Score) -> None:
    code = """
    def f(prompts, completions):
        return [float(p[0]["content"] == "q" and c[0]["content"] == "a")
                for p, c in zip(prompts, completions)]
    """
    logged = row(prompt_turns=[["user", "q"]], response="a")
    turned = row(
        prompt_turns=[["user", "q"]],
        response="a",
        turns=[{"role": "assistant", "text": "a", "sampled": True}],
    )
    assert second(score([logged, turned], code)) == [1.0, 1.0]


@pytest.mark.parametrize("name", ["answer", "solution", "gts"])
def test_usual_names_of_the_label_mean_the_label(score: Score, name: str) -> None:
    code = TRL.replace("answer", name)
    rows = answers("it is 4", "it is 5", ground_truth="4")
    assert second(score(rows, code)) == [1.0, 0.0]


def test_a_call_has_whole_groups_of_one_step(score: Score) -> None:
    code = """
    def f(completions):
        return [len(completions)] * len(completions)
    """
    step_0 = [row(prompt=f"p{i % 3}") for i in range(9)]
    step_1 = [row(1, prompt="p") for _ in range(BATCH_ROWS + 2)]
    sizes = second(score(step_0 + step_1, code))
    assert sizes == [9] * 9 + [BATCH_ROWS] * BATCH_ROWS + [2] * 2


def test_only_the_response_that_raises_has_no_reward(score: Score) -> None:
    code = """
    def f(completions):
        return [1 / float(text) for text in completions]
    """
    scan = score(answers("1", "0", "2", "x"), code)
    np.testing.assert_array_equal(second(scan), [1.0, np.nan, 0.5, np.nan])
    assert reasons(scan) == {
        "ZeroDivisionError (grade.py, line 3): float division by zero": 1,
        "ValueError (grade.py, line 3): could not convert string to float: 'x'": 1,
    }
    assert [note.count for note in scan.notes if note.kind == "score"] == [2]
    assert scan.responses["nan_values"].sum() == 0


def test_only_the_response_that_takes_too_long_or_ends_the_process_has_none(
    score: Score,
) -> None:
    code = """
    import os, time
    def f(completions):
        for text in completions:
            if text == "slow":
                time.sleep(60)
            if text == "dead":
                os._exit(3)
        return [1] * len(completions)
    """
    start = time.monotonic()
    scan = score(answers("a", "slow", "dead", "b"), code, seconds=0.4)
    assert time.monotonic() - start < 10
    np.testing.assert_array_equal(second(scan), [1.0, np.nan, np.nan, 1.0])
    assert reasons(scan) == {
        "took longer than 0.4 seconds": 1,
        "ended its process (exit status 3)": 1,
    }


def test_a_function_that_always_hangs_is_given_up(score: Score) -> None:
    code = """
    import time
    def compute_score(solution_str, ground_truth=None):
        time.sleep(60)
    """
    with pytest.raises(
        UsageError, match=r"no reward to any.*took longer.*\(5\).*not tried"
    ):
        score(answers(*"abcdefgh"), code, seconds=0.1)


def test_what_is_no_number_is_a_missing_reward(score: Score) -> None:
    code = """
    import numpy as np
    def f(completions):
        return [True, None, float("nan"), "1", np.float32(0.5), 10**400, 1e200]
    """
    scan = score(answers(*"abcdefg"), code)
    is_number = np.isfinite(second(scan)).tolist()
    assert is_number == [text in "ae" for text in "abcdefg"]
    assert second(scan)[4] == 0.5
    assert reasons(scan) == {
        "returned None": 1,
        "returned nan": 1,
        "returned a value of type str, not a number": 1,
        "returned a number that is too large": 2,
    }


def test_arrays_and_coroutines_will_do(score: Score) -> None:
    code = """
    import asyncio
    import numpy as np
    async def f(completions):
        await asyncio.sleep(0)
        return np.array([len(text) for text in completions])
    """
    assert second(score(answers("a", "bc"), code)) == [1.0, 2.0]


def test_what_the_function_prints_does_not_matter(score: Score) -> None:
    code = """
    import os, sys
    print("x" * 100_000)
    def f(completions):
        print("…" * 100_000)
        os.write(1, b"[1, 2]\\n" * 10_000)
        print("oops", file=sys.stderr)
        assert sys.stdin.read() == ""
        return [1] * len(completions)
    """
    assert second(score(answers("a"), code)) == [1.0]


def test_modules_beside_the_file_can_be_imported(score: Score) -> None:
    code = """
    from helper_of_grade import VALUE
    def f(completions):
        return [VALUE] * len(completions)
    """
    scan = score(answers("a"), code, helper_of_grade="VALUE = 3")
    assert second(scan) == [3.0]


def test_nothing_is_written_beside_the_file(score: Score, tmp_path: Path) -> None:
    code = "import helper\ndef f(completions): return [1] * len(completions)"
    score(answers("a"), code, helper="")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"logs", "grade.py", "helper.py"}


def test_a_response_without_a_required_field_is_not_scored(score: Score) -> None:
    rows = [row(response="4", answer="4"), row(response="4")]
    scan = score(rows, TRL.replace(", **kwargs", ""))
    np.testing.assert_array_equal(second(scan), [1.0, np.nan])
    assert reasons(scan) == {"not logged: answer": 1}


@pytest.mark.parametrize(
    ("code", "name", "why"),
    [
        ("import no_such_module_x", "", r"line 1\): No module named"),
        ("def f(:", "", r"SyntaxError \(grade.py, line 1\)"),
        ("x = 1", "", "it defines no function"),
        ("def f(a): pass", "", "no function with a parameter 'completions'.*are f"),
        ("def f(a): pass", "f", "neither a parameter.*but a"),
        ("def f(a): pass", "g", "no function 'g'; its functions are f"),
        (TRL + VERL, "", "several.*are compute_score, correct.*grade.py:NAME"),
        ("def f(completions): return [1]", "", "returned 1 rewards for 2"),
        ("def f(completions): return 1.0", "", "type float, not a list of 2"),
        ("def f(completions): return {}[1]", "", r"no reward to any.*KeyError.*\(2\)"),
        ("def f(completions, zebra): return [1]", "", r"not logged: zebra \(2\)"),
        ("raise SystemExit(3)", "", "SystemExit"),
    ],
)
def test_a_function_that_cannot_be_used_is_refused_with_the_reason(
    score: Score, code: str, name: str, why: str
) -> None:
    with pytest.raises(UsageError, match=f"(?s){why}"):
        score(answers("a", "b"), code, name)


def test_of_several_functions_the_named_one_scores(score: Score) -> None:
    rows = answers("boxed 4", ground_truth="4")
    assert second(score(rows, TRL + VERL, "compute_score")) == [1.0]


def test_a_logged_second_reward_stays_as_a_column(score: Score) -> None:
    rows = answers("a", valid_reward=0.25, ref_valid_reward=0.5)
    scan = score(rows, "def f(completions): return [3]")
    assert second(scan) == [3.0]
    assert scan.extras["valid_reward_logged"].tolist() == [0.25]
    assert scan.responses["ref_valid_reward"].isna().all()
    assert scan.responses["valid_reward_gap"].isna().all()


def test_the_file_that_is_named_has_to_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        FunctionName.of(tmp_path / "none.py")
    file = tmp_path / "a.py"
    file.touch()
    assert FunctionName.of(f"{file}:f") == (file, "f")
    assert FunctionName.of(file) == (file, "")


def flips_of(reward: Sequence[float], new: Sequence[float]) -> Run:
    rows = [
        {"step": number // 2, "reward": old, "valid_reward": other}
        for number, (old, other) in enumerate(zip(reward, new, strict=True))
    ]
    return Run(tables_of(table_of_rows(rows)))


def counts(run: Run) -> dict[Flip, int]:
    counted = {}
    for kind, rows in flips(run).of.items():
        counted[kind] = int(rows.sum())
    return counted


def test_flips_are_responses_that_only_one_reward_calls_right() -> None:
    reward = [1, 1, 1, 0, 0, 0, 1, np.nan]
    second_reward = [1, 0, 0, 1, 0, 0, np.nan, 1]
    run = flips_of(reward, second_reward)
    assert counts(run) == {
        Flip.BOTH_RIGHT: 1,
        Flip.LOST: 2,
        Flip.WON: 1,
        Flip.BOTH_WRONG: 2,
    }
    assert flips(run).agreement == 0.5


def test_a_reward_that_is_never_the_best_of_the_same_scale_is_always_wrong() -> None:
    run = flips_of([1, 1, 0, 0], [0, 0, 0, 0])
    assert counts(run)[Flip.LOST] == 2
    assert flips(run).agreement == 0.5


def test_rewards_of_another_scale_are_compared_by_their_ranks() -> None:
    reward = np.arange(20.0)
    new = reward.copy()
    new[[0, 19]] = [100.0, -100.0]
    run = flips_of(reward.tolist(), new.tolist())
    assert flips(run).right is None
    assert counts(run) == {Flip.LOST: 1, Flip.WON: 1}
    expected = pd.Series(reward).corr(pd.Series(new), method="spearman")
    assert flips(run).agreement == pytest.approx(expected)


def test_the_effect_is_that_of_responses_with_both_rewards_on_the_last_steps() -> None:
    reward = [0.0] * 18 + [1.0, np.nan]
    run = flips_of(reward, [0.0] * 18 + [0.25, 1.0])
    assert effect(run) == ((9, 9), 1, 1.0, 0.25)


@pytest.fixture(scope="module")
def scored_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a log, and beside it the code that scores it."""
    folder = tmp_path_factory.mktemp("scored")
    rows = []
    for step in range(6):
        for n in range(8):
            text = "boxed 4" if n < 4 else "boxed 5"
            reward = float(n < 4 or n == 7)  # of the last one wrongly
            rows.append(
                row(
                    step, prompt=f"p{n}", response=text, reward=reward, ground_truth="4"
                )
            )
    rows[0]["response"] = "raise"
    write(folder / "logs" / "a.jsonl", rows)
    code = VERL.replace("boxed =", 'assert solution_str != "raise"\n    boxed =')
    (folder / "grade.py").write_text(code, "utf-8")
    return folder


def text_of(page: Path) -> str:
    html = re.sub(
        r"<(svg|script).*?</\1>", " ", page.read_text("utf-8"), flags=re.DOTALL
    )
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html)))


def test_the_report_shows_the_second_reward_and_its_flips(
    scored_log: Path, tmp_path: Path
) -> None:
    out = tmp_path / "report"
    build(scored_log / "logs", out, score=scored_log / "grade.py", workers=1)
    page = text_of(out / "flips.html")
    name = "grade.py:compute_score"
    assert f"With {name}, the mean reward over step 5 is 0.500, not 0.625" in page
    assert f"{name} agree on 87% of 47 responses: 6 right ones are wrong" in page
    reason = "AssertionError (grade.py, line 5)"
    assert f"1 of 48 responses not scored: {reason}. Both curves" in page
    assert "AssertionError (grade.py, line 5) 1 step 0, response 0" in page
    assert f"Right by the reward, wrong by {name}" in page
    assert 'href="steps/0.html#r=7"' in (out / "flips.html").read_text("utf-8")
    assert "agree on 87%" in text_of(out / "grader.html")
    overview = text_of(out / "index.html")
    assert f"The second reward is that of {name}. 1 of 48 responses not" in overview
    assert "responses: one per prompt, spread over the steps." in page
    steps = pd.read_csv(out / "data" / "steps.csv")
    assert steps["valid_reward_mean"][0] == pytest.approx(3 / 7)
    report = json.loads((out / "data" / "report.json").read_bytes())
    validate(report, "report")
    assert report["rescoring"]["scored"] == 47


def scored_run(missing: int) -> Run:
    """Return a run whose rewards rise; the last of its 10 steps has fewer second ones."""
    rows = []
    for step in range(10):
        for n in range(20):
            reward = float(n < 2 * step)
            rows.append({"step": step, "reward": reward, "valid_reward": reward})
    for unscored_row in rows[len(rows) - missing :]:
        unscored_row["valid_reward"] = np.nan
    run_tables = tables_of(table_of_rows(rows))
    unscored = (Unscored("IndexError", missing, 9, 0),)
    run_tables.rescoring = Rescoring("g.py:f", 200, 200 - missing, unscored)
    return Run(run_tables)


@pytest.mark.parametrize(("missing", "is_judged"), [(1, True), (9, False)])
def test_a_second_reward_that_many_responses_of_some_steps_lack_is_not_judged(
    missing: int, is_judged: bool
) -> None:
    run = scored_run(missing)
    assert ("second_reward" in quantities.courses(run)) == is_judged
    needs = watched_reward_fall.run(run).needs
    assert ("95%" in (needs or "")) != is_judged


def test_each_call_moves_the_progress(tmp_path: Path) -> None:
    file = tmp_path / "grade.py"
    file.write_text("def f(completions): return [1 / 0]\n")
    done: list[float] = []
    log = write(tmp_path / "a.jsonl", answers("a", "b", "c"))
    progress = Progress()
    progress.phase = lambda *_: nullcontext(done.append)  # type: ignore
    with (
        function_process(FunctionName(file, "f"), 20.0) as process,
        pytest.raises(UsageError),
    ):
        score = ScoreFunction(process, "grade.py:f")
        read_logs([log], score=score, progress=progress)
    assert done[-3:] == [1, 1, 1]


def test_equal_means_are_called_equal() -> None:
    found = Effect((0, 3), 8, second=0.75, reward=0.7501)
    assert "are equal: 0.750 (8 responses" in effect_sentence(found, "g.py:f")


def test_the_commands_warn_of_responses_that_are_not_scored(
    scored_log: Path, tmp_path: Path
) -> None:
    grade = scored_log / "grade.py"
    for command in (["check"], ["build", "-o", tmp_path / "r"]):
        done = rlreport(*command, scored_log / "logs", "--score", grade)
        warned = "warning: 1 of 48 responses not scored: AssertionError (grade.py, line"
        assert done.stderr.count(warned) == 1


@pytest.mark.parametrize("redact", [True, "names"])
def test_redaction_leaves_no_text_of_an_exception(
    scored_log: Path, tmp_path: Path, redact: Any
) -> None:
    code = """if True:
        def g(completions):
            return [1.0 if text != "raise" else {}[text] for text in completions]
    """
    file = tmp_path / "mine.py"
    file.write_text(code, "utf-8")
    out = tmp_path / "report"
    build(scored_log / "logs", out, score=file, workers=1, redact=redact)
    page = text_of(out / "flips.html")
    assert "KeyError" in page
    assert "boxed" not in page
    assert "'raise'" not in page
    assert ("mine.py" in page) == (redact is True)


def test_without_the_option_there_are_no_flips(
    scored_log: Path, tmp_path: Path
) -> None:
    build(scored_log / "logs", tmp_path / "report", workers=1)
    assert not (tmp_path / "report" / "flips.html").exists()


def test_a_run_of_metrics_alone_says_that_nothing_is_scored(tmp_path: Path) -> None:
    file = tmp_path / "grade.py"
    file.write_text(TRL, "utf-8")
    rows = []
    for step in range(9):
        rows.append({"step": step, "reward": 0.1 * step, "loss": 1.0})
    log = write(tmp_path / "logs" / "metrics.jsonl", rows)
    report = build(log.parent, tmp_path / "report", score=file, workers=1)
    texts = [note.text for note in report.tables.notes if note.kind == "score"]
    assert texts == ["no response is logged that --score could score"]


def test_another_function_uses_what_the_cache_has_of_the_rows(
    scored_log: Path, tmp_path: Path
) -> None:
    values = []
    for value in (1, 2):
        file = tmp_path / "v.py"
        file.write_text(f"def f(completions): return [{value}] * len(completions)")
        options: dict[str, Any] = {"cache": tmp_path / "cache", "workers": 1}
        report = build(scored_log / "logs", tmp_path / "report", score=file, **options)
        values.append(report.tables.responses["valid_reward"].unique().tolist())
    assert values == [[1.0], [2.0]]


def test_a_bad_file_ends_the_command_with_status_2_and_its_line(
    scored_log: Path, tmp_path: Path
) -> None:
    file = tmp_path / "bad.py"
    file.write_text("x = 1\nraise ValueError('no model')\n")
    done = rlreport("check", scored_log / "logs", "--score", file)
    assert done.returncode == 2
    assert "bad.py, line 2): no model" in done.stderr
    assert "Traceback" not in done.stderr


JUNK = """
import os

def put(line):
    for number in range(3, 20):
        try:
            os.write(number, line)
        except OSError:
            pass
"""


@pytest.mark.parametrize(
    "line", [b"[]\n", b"no line end", b'{"rewards": [7, 7, 7], "reasons": {}}\n']
)
def test_what_the_function_writes_to_any_file_is_no_answer(
    score: Score, line: bytes
) -> None:
    code = f"""{JUNK}
put({line!r})
def f(completions):
    put({line!r})
    return [len(text) for text in completions]
"""
    rows = in_steps(3, answers("a", "bb"))
    assert second(score(rows, code)) == [1, 2] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_copy_of_the_function_answers_nothing(score: Score) -> None:
    code = """
    import os
    def f(completions):
        return [len(text) if os.fork() else -1 for text in completions]
    """
    rows = in_steps(4, answers("a", "bb"))
    assert second(score(rows, code)) == [1, 2] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("hook", ["fork", "keep"])
def test_a_process_that_the_function_leaves_behind_does_not_delay_the_end(
    score: Score, hook: str
) -> None:
    # "keep": a program that inherits the pipes
    code = f"""
    import os, subprocess, sys
    def f(completions):
        if {hook == "keep"}:
            for number in range(3, 20):
                try:
                    os.set_inheritable(number, True)
                except OSError:
                    pass
            command = [sys.executable, "-c", "import time; time.sleep(20)"]
            subprocess.Popen(command, close_fds=False, start_new_session=True)
        elif not os.fork():
            os.setsid()
            os.execvp("sleep", ["sleep", "20"])
        os._exit(3)
    """
    start = time.monotonic()
    with pytest.raises(UsageError, match="no reward"):
        score(answers("a"), code, seconds=1.0)
    assert time.monotonic() - start < 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no signals")
def test_only_a_signal_of_its_own_is_how_a_process_ended(score: Score) -> None:
    code = """
    import os, signal, time
    def f(completions):
        if completions[0] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if completions[0] == "close":
            os.closerange(3, 50)
            time.sleep(20)
        return [1] * len(completions)
    """
    rows = []
    for step, text in enumerate(("kill", "close", "a")):
        rows.append(answers(text)[0] | {"step": step})
    assert reasons(score(rows, code)) == {
        "ended its process (SIGKILL)": 1,
        "closed the files through which rlreport calls it": 1,
    }


def test_texts_and_names_of_exceptions_are_short_plain_and_without_secrets(
    score: Score,
) -> None:
    code = r"""
    class Silent(Exception):
        def __str__(self):
            raise SystemExit(3)

    def f(completions):
        text = completions[0]
        if text == "secret":
            raise ValueError("x " * 300 + "hf_abcdefghijklmnopqrstuvwxyz0123456789")
        if text == "long":
            raise ValueError("a\x1b[31m\n\u202e" + "b " * 300)
        if text == "name":
            raise type("N\n" + "n" * 300, (Exception,), {})
        if text == "silent":
            raise Silent
        return [1] * len(completions)

    f.__name__ = "\x1b" + "f" * 300
    """
    rows = []
    for step, text in enumerate(("secret", "long", "name", "silent", "a")):
        rows.append(answers(text)[0] | {"step": step})
    scan = score(rows, code, "f")
    found = [re.sub(r" \(grade.py, line \d+\)", "", one) for one in reasons(scan)]
    long = max(found, key=len)
    assert len(long) == len("ValueError: ") + 200
    assert long.startswith("ValueError: a\ufffd[31m \ufffdb b")
    others = {"ValueError", "N\ufffd" + "n" * 78, "Silent"}
    assert set(found) == {long} | others
    assert scan.rescoring is not None
    assert scan.rescoring.function == "grade.py:\ufffd" + "f" * 79
