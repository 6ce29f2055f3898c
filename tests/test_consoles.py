"""Consoles of trainers: rows between progress bars, their steps, phases, and hostile files."""

import gzip
import json
import math
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

import rlreport
from rlreport.errors import UnusableInputError
from rlreport.flows.build import check_logs
from rlreport.metrics import consoles
from rlreport.metrics.console_files import has_metrics
from rlreport.metrics.console_pieces import MAX_PIECE
from rlreport.metrics.console_rows import PrintedDict, printed_dict
from rlreport.metrics.find import TrainerMetrics, find_and_read
from rlreport.metrics.roles import roles_of
from rlreport.options import BuildOptions
from rlreport.read.listing import run_in
from tests.running import rlreport as rlreport_command

CLEAR = "\r" + " " * 40 + "\r"


def row(step: int, **changed: object) -> str:
    """A row of TRL's, as transformers 4 prints it."""
    logged: dict[str, object] = {
        "loss": 0.0012,
        "grad_norm": 0.5 + 0.01 * (step % 7),
        "learning_rate": 1e-06,
        "reward": step / 100,
        "kl": 0.02,
        "epoch": step / 100,
    }
    return str(logged | changed)


def bar(done: int, total: int = 40, description: str = "") -> str:
    percent = done * 100 // total
    return f"\r{description}{percent:3d}%|██▌  | {done}/{total} [00:01<00:02, 1.0s/it]"


def written(step: int, text: str, total: int = 40) -> str:
    """A text that ``tqdm.write`` printed: the bar is cleared before, and drawn again after it."""
    return f"{bar(step, total)}{CLEAR}{text}\n{bar(step, total)}"


def training(first: int, last: int, by: int = 1, **changed: object) -> str:
    """The console of some steps with a progress bar, with a row each ``by`` steps."""
    steps = range(first, last + 1, by)
    return "".join(written(step, row(step, **changed)) for step in steps)


def rows(count: int, **changed: object) -> str:
    """Rows without a progress bar."""
    return "".join(f"{row(step, **changed)}\n" for step in range(1, count + 1))


def console(path: Path, *texts: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(texts), "utf-8", newline="")
    return path


def read(path: Path) -> TrainerMetrics:
    return find_and_read([path])


def steps(path: Path, name: str = "reward") -> list[int]:
    """Return the steps at which a metric is logged."""
    table = read(path).table
    return table["step"][table[name].notna()].tolist()


def rewards(path: Path) -> list[int]:
    """Return the rewards in hundredths, as a row has them by its step."""
    return [round(100 * reward) for reward in read(path).table["reward"]]


def notes(path: Path) -> str:
    return "\n".join(f"{note.text} ({note.count})" for note in read(path).notes)


def test_rows_between_bars_are_at_the_steps_of_the_bar(tmp_path: Path) -> None:
    path = console(tmp_path / "train.log", training(5, 40, by=5))
    assert steps(path) == list(range(5, 41, 5))
    assert rewards(path) == steps(path)
    assert "epoch" not in read(path).table
    assert "at the steps of the progress bar (8)" in notes(path)


def test_bars_of_downloads_loading_and_evaluations_do_not_count(tmp_path: Path) -> None:
    evaluation = "".join(bar(done, total=2) for done in range(3))
    loading = bar(0, 400, "Loading weights: ") + bar(400, 400, "Loading weights: ")
    first = training(2, 10, by=2)
    second = training(12, 40, by=2)
    path = console(tmp_path / "train.log", loading, first, evaluation, second)
    assert steps(path) == list(range(2, 41, 2))


def test_a_bar_that_is_drawn_rarely_tells_steps_when_it_is_drawn_again(
    tmp_path: Path,
) -> None:
    # At 20 steps a second, tqdm draws the bar after a row only, so that the one before is late.
    texts = [bar(0)]
    for step in range(1, 41):
        texts += [CLEAR, row(step), "\n", bar(step)]
    assert steps(console(tmp_path / "train.log", *texts)) == list(range(1, 41))


def test_rows_that_reach_the_file_late_are_at_the_steps_of_the_bars_drawn_again(
    tmp_path: Path,
) -> None:
    # With nohup, bars are written at once, and rows a block of some kB at a time.
    texts: list[str] = []
    waiting: list[str] = []
    for step in range(1, 41):
        texts.append(bar(step))
        if step % 4 == 0:
            texts += [CLEAR, bar(step)]
            waiting += [row(step), "\n"]
        if step in (27, 40):
            texts += ["\n", *waiting]
            waiting.clear()
    assert steps(console(tmp_path / "nohup.out", *texts)) == list(range(4, 41, 4))


def test_rows_and_bars_that_do_not_belong_together_are_not_matched(
    tmp_path: Path,
) -> None:
    bars = map(bar, range(1, 41))
    path = console(tmp_path / "nohup.out", *bars, "\n", rows(9))
    assert steps(path) == list(range(1, 10))
    assert "numbered 1, 2, 3" in notes(path)


def test_without_a_bar_rows_are_counted_times_logging_steps(tmp_path: Path) -> None:
    in_console = console(tmp_path / "a" / "run.log", "logging_steps=10,\n", rows(6))
    assert steps(in_console) == [10, 20, 30, 40, 50, 60]
    assert "times `logging_steps` (6)" in notes(in_console)
    in_file = console(tmp_path / "b" / "run.log", rows(6))
    (tmp_path / "b" / "config.yaml").write_text("logging_steps:\n  value: 5\n")
    assert steps(in_file) == [5, 10, 15, 20, 25, 30]
    neither = console(tmp_path / "c" / "run.log", rows(6))
    assert steps(neither) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("value", ["1" + "0" * 400, "1e400", "1e300", "-5", "0"])
def test_logging_steps_that_are_no_interval_cost_no_row(
    value: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(f'{{"logging_steps": {value}}}')
    path = console(tmp_path / "train.log", rows(4))
    assert steps(path) == [1, 2, 3, 4]
    assert "they are numbered 1, 2, 3" in notes(path)


def test_numbers_in_texts_of_numpy_and_torch_and_nan_are_read(tmp_path: Path) -> None:
    logged = (
        "{'loss': nan, 'grad_norm': '3.289e+06', 'reward': np.float64(0.5), 'kl': inf, "
        "'rewards/f/mean': tensor(0.25, device='cuda:0'), 'entropy': -1e999, "
        "'names': ['a', {'b': 1}], 'epoch': '0.5'}"
    )
    path = console(tmp_path / "train.log", written(1, logged), written(2, logged))
    found = read(path)
    first = found.table.iloc[0]
    assert (first["reward"], first["rewards/f/mean"]) == (0.5, 0.25)
    assert first["grad_norm"] == 3.289e6
    assert set(found.broken) == {"loss", "kl", "entropy"}


@pytest.mark.parametrize(
    "text",
    [
        "[rank0]: {row}",
        "\x1b[36m(main_task pid=77)\x1b[0m {row}",
        "[2026-01-02 03:04:05,678][INFO] - {row}",
        "loaded 4 files{row}and more",
        "{cut}\x1b[31m\r 12%|█  | 5/40 [00:01<00:02, 1.0s/it]{rest}",
        "{cut}\n{rest}",
        "{spread}",
    ],
    ids=["rank", "ray", "time", "amid", "cut by a bar", "wrapped", "pretty"],
)
def test_a_row_is_found_wherever_it_stands(text: str, tmp_path: Path) -> None:
    texts: list[str] = []
    for step in range(1, 6):
        one = row(step)
        spread = one.replace("{", "{\n    ").replace(", ", ",\n    ")
        parts = {"row": one, "spread": spread}
        parts |= {"cut": one[:31], "rest": one[31:]}
        text_of_step = text
        for name, part in parts.items():
            text_of_step = text_of_step.replace(f"{{{name}}}", part)
        texts.append(text_of_step)
    path = console(tmp_path / "train.log", "\n".join(texts))
    assert rewards(path) == [1, 2, 3, 4, 5]


def test_a_row_that_several_ranks_print_is_one(tmp_path: Path) -> None:
    texts: list[str] = []
    for step in range(1, 6):
        for rank in range(4):
            texts.append(f"[rank{rank}]: {row(step, reward=step + rank / 10)}\n")
    path = console(tmp_path / "train.log", *texts)
    assert steps(path) == [1, 2, 3, 4, 5]
    assert rewards(path) == [100, 200, 300, 400, 500]


def test_summaries_are_no_steps_and_evaluations_belong_to_the_row_before(
    tmp_path: Path,
) -> None:
    evaluated = "{'eval_loss': 0.1, 'eval_reward': 0.7, 'epoch': 0.1}\n"
    summary = "{'train_runtime': 9.5, 'train_loss': 0.3, 'epoch': 0.2}\n"
    last = evaluated.replace("0.7", "0.8")
    path = console(tmp_path / "train.log", rows(2), evaluated, row(3), summary, last)
    table = read(path).table
    assert table["step"].tolist() == [1, 2, 3]
    assert table["eval_reward"].dropna().tolist() == [0.7, 0.8]
    assert steps(path, "eval_reward") == [2, 3]
    assert not {"train_runtime", "train_loss"} & set(table)


def test_training_without_a_reward_before_that_with_one_is_left_out_and_said(
    tmp_path: Path,
) -> None:
    sft = ""
    for step in range(1, 10):
        logged = {"loss": 2 - step / 10, "epoch": step / 9}
        sft += written(step, str(logged), total=9)
    sft += "\n{'train_runtime': 9.5, 'train_loss': 0.3, 'epoch': 1.0}\n"
    path = console(tmp_path / "a.log", sft, training(1, 8))
    table = read(path).table
    assert table["step"].tolist() == list(range(1, 9))
    assert set(table["loss"]) == {0.0012}
    assert "such as SFT: left out, as the console also" in notes(path)
    assert "(9)" in notes(path)
    assert len(read(console(tmp_path / "b.log", sft)).table) == 9


def test_training_that_is_started_again_or_resumed_in_one_console(
    tmp_path: Path,
) -> None:
    failed = training(1, 12, reward=0.0, grad_norm=9.0)
    again = console(tmp_path / "a.log", failed, "\n", training(1, 30))
    assert steps(again) == list(range(1, 31))
    assert "2 starts in one log" in notes(again)
    resumed = console(
        tmp_path / "b.log", training(1, 12), "\n", training(9, 30, reward=1.0)
    )
    found = read(resumed)
    assert found.table["step"].tolist() == list(range(1, 31))
    assert found.table["reward"].tolist()[7:9] == [0.08, 1.0]


def test_tables_of_completions_are_no_rows(tmp_path: Path) -> None:
    table = "╭─ Step 1 ─╮\n│ {'loss': 9.0, 'reward': 9.0, 'epoch': 9.0} │ 1.00 │\n╰──────────╯\n"
    texts = [written(step, row(step)) + table for step in (1, 2, 3)]
    path = console(tmp_path / "train.log", *texts)
    assert rewards(path) == [1, 2, 3]


@pytest.mark.parametrize(
    "text",
    [
        '{"step": 1, "prompt": "1+1", "response": "2", "reward": 1.0}\n',
        "{'epoch': 3, 'batch_size': 8, 'beta': 0.04}\n",
        "{'reward': 1.0, 'length': 5}\n",
    ],
    ids=["rollout", "configuration", "sample"],
)
def test_other_dicts_are_no_rows_of_metrics(text: str, tmp_path: Path) -> None:
    assert not has_metrics(console(tmp_path / "train.log", text))


MINIMIND: dict[str, Callable[[int, int], str]] = {
    "grpo": lambda epoch, step: (
        f"Epoch:[{epoch}/2]({step}/20), Reward: -{step}.5000, KL_ref: -0.0010, Adv Std: 0.9258, "
        "Adv Mean: -0.0000, Actor Loss: 0.0100, Avg Response Len: 271.38, "
        "Learning Rate: 0.00000030\n"
    ),
    "agent": lambda epoch, step: (
        f"Epoch:[{epoch}/2]({step}/20), Reward:-{step}.5000, KL:-0.0010, GrpStd:0.5000, "
        "AdvStd:0.9000, Loss:0.0100, AvgLen:271.38, AdvMean:0.0000, LR:0.00000030\n"
    ),
    "ppo": lambda epoch, step: (
        f"Epoch:[{epoch}/2]({step}/20), Reward: -{step}.5000, KL_ref: 0.0010, Approx KL: 0.0002, "
        "ClipFrac: 0.0100, Critic Loss: 0.5000, Avg Response Len: 271.38, "
        "Actor LR: 0.00000030, Critic LR: 0.00000050\n"
    ),
    "spo": lambda epoch, step: (
        f"Epoch: {epoch}, Step: {step}/20, Actor Loss: 0.010000, Reward: -{step}.500000, "
        "Baseline: 0.5000, KL: 0.0010, Rho: 0.9000, Avg Response Len: 271.38, LR: 3.00e-07\n"
    ),
}


@pytest.mark.parametrize("kind", MINIMIND)
def test_lines_of_minimind_are_read_over_epochs(kind: str, tmp_path: Path) -> None:
    line = MINIMIND[kind]
    first = [line(1, step) for step in range(5, 21, 5)]
    second = [line(2, step) for step in range(5, 21, 5)]
    found = read(console(tmp_path / "grpo.log", *first, *second))
    assert found.table["step"].tolist() == list(range(5, 41, 5))
    roles = roles_of(found.table.columns)
    at_start = found.table.iloc[0]
    assert at_start[roles["reward"]] == -5.5
    assert at_start[roles["length"]] == 271.38
    assert at_start[roles["kl_token"]] == 0.001, "positive, as it is a KL"
    assert "adv_mean" not in found.table, "rounded to 0 at all steps"


def test_old_minimind_prints_of_kl_sums_are_no_kl_per_token(tmp_path: Path) -> None:
    line = (
        "Epoch: 0, Step: {}/20, Actor Loss: 0.010000, Critic Loss: 0.5, Reward: 0.5, "
        "KL: 0.2, KL_ref: 30.5, Avg Response Len: 271.38, Actor LR: 3.00e-07\n"
    )
    path = console(tmp_path / "ppo.log", *map(line.format, range(1, 9)))
    found = read(path)
    roles = roles_of(found.table.columns)
    assert roles["reward"] == "reward" and "kl_token" not in roles


@pytest.mark.parametrize(
    ("zero", "is_known"),
    [
        ("0.0000", False),
        ("-0.0000", False),
        ("0.0", True),
        ("0", True),
        ("0.0e+00", True),
    ],
)
def test_a_zero_with_a_fixed_number_of_decimals_is_unknown(
    zero: str, is_known: bool, tmp_path: Path
) -> None:
    texts = (
        f"step:{s} - critic/score/mean:0.{s}00 - actor/kl_loss:{zero}\n"
        for s in range(1, 9)
    )
    path = console(tmp_path / "verl.log", *texts)
    assert ("actor/kl_loss" in read(path).table) == is_known
    assert ("prints as 0.000 at all steps" in notes(path)) != is_known


def test_a_loss_that_transformers_rounds_to_0_is_unknown_and_other_zeros_are_not(
    tmp_path: Path,
) -> None:
    path = console(tmp_path / "a.log", rows(8, loss=0.0, kl=0.0))
    table = read(path).table
    assert "loss" not in table and set(table["kl"]) == {0.0}
    # Version 5 prints significant digits.
    exact = read(console(tmp_path / "b.log", rows(8, loss="0"))).table
    assert set(exact["loss"]) == {0.0}


@pytest.mark.parametrize(
    "name", ["train.log", "log.txt", "nohup.out", "slurm-1.out", "console"]
)
def test_a_console_given_alone_is_a_report(name: str, tmp_path: Path) -> None:
    path = console(tmp_path / name, training(1, 40))
    verdict = check_logs([path], BuildOptions(workers=1))
    assert "rose" in verdict.sentence
    seen = rlreport_command("inspect", path)
    assert seen.returncode == 0 and "5 metrics of 40 steps" in seen.stdout


def test_a_compressed_console_in_a_folder_is_read(tmp_path: Path) -> None:
    packed = gzip.compress(training(1, 40).encode())
    (tmp_path / "train.log.gz").write_bytes(packed)
    assert len(read(tmp_path).table) == 40


def test_a_console_without_known_rows_says_what_was_looked_for(tmp_path: Path) -> None:
    path = console(tmp_path / "train.log", "hello\n")
    with pytest.raises(
        UnusableInputError, match=r"train\.log: no rows of metrics; looked for"
    ):
        rlreport.build([path], tmp_path / "out", quiet=True)


def test_output_log_of_wandb_is_read_if_its_run_file_is_missing(tmp_path: Path) -> None:
    run = tmp_path / "run-20260102_030405-abcd1234"
    console(run / "files" / "output.log", rows(8))
    (run / "files" / "config.yaml").write_text("logging_steps:\n  value: 10\n")
    assert steps(tmp_path) == [10, 20, 30, 40, 50, 60, 70, 80]
    (note,) = read(tmp_path).notes
    assert note.file is not None and note.file.endswith("files/output.log")


def test_a_console_of_what_another_file_has_is_not_read(tmp_path: Path) -> None:
    console(tmp_path / "logs" / "train.log", training(1, 8))
    history: list[dict[str, float]] = []
    for step in range(8):
        logged = json.loads(row(step).replace("'", '"'))
        history.append(logged | {"step": step})
    state = tmp_path / "out" / "checkpoint-8" / "trainer_state.json"
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps({"log_history": history}))
    found = read(tmp_path)
    assert [file.name for file in found.files] == [
        "out/checkpoint-8/trainer_state.json"
    ]
    assert not found.runs
    assert "a console whose metrics are in another file" in notes(tmp_path)


def test_several_consoles_in_a_folder_are_several_runs(tmp_path: Path) -> None:
    for name in ("seed1", "seed2"):
        console(tmp_path / f"{name}.log", training(1, 8))
    console(tmp_path / "sft.log", "{'loss': 1.0, 'grad_norm': 1.0, 'epoch': 1.0}\n")
    assert read(tmp_path).runs == ["seed1", "seed2"]
    assert "training without a reward, such as SFT, next to" in notes(tmp_path)
    assert len(find_and_read([tmp_path], run="seed2").table) == 8


def test_a_run_is_called_by_its_file_without_suffixes_but_with_its_version(
    tmp_path: Path,
) -> None:
    console(tmp_path / "trl1.16.0-b1.log", training(1, 8))
    console(tmp_path / "trl1.16.0-b2.log", training(1, 8))
    assert read(tmp_path).runs == ["trl1.16.0-b1", "trl1.16.0-b2"]
    names = ("a.5.jsonl.gz", "a.5.ndjson", "a.5.log.zst", "a.5.csv", "a.5")
    assert {run_in(name) for name in names} == {"a.5"}
    assert run_in("lr0.1/a.jsonl") == "lr0.1"
    assert run_in(".log") == ".log"


RAISED = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 24, in accuracy\n'
    '    raise RuntimeError("{text}")\n'
    "RuntimeError: {text}\n"
)
FELL_OVER = RAISED.format(text="the grader fell over")


def test_an_error_at_the_end_of_a_console_is_told_with_its_step(
    tmp_path: Path,
) -> None:
    told = "the console ends with an error: RuntimeError: the grader fell over"
    path = console(tmp_path / "a.log", training(1, 8), FELL_OVER, bar(8))
    assert f"{told} (at step 8 of 40)" in notes(path)
    ranks = "".join(f"[rank0]: {line}\n" for line in FELL_OVER.splitlines())
    path = console(tmp_path / "b.log", rows(8), ranks, "wandb: done\n")
    assert f"{told} (1)" in notes(path)
    built = rlreport_command("build", path, "-o", tmp_path / "out")
    assert f"warning: {told}" in built.stderr


def test_an_error_at_the_end_of_a_console_is_one_short_line_without_secrets(
    tmp_path: Path,
) -> None:
    secret = "hf_abcdEFGH1234ijklMNOP5678qrst"
    path = console(tmp_path / "a.log", rows(8), RAISED.format(text=f"token={secret}"))
    assert "the console ends with an error: RuntimeError (1)" in notes(path)
    assert secret not in notes(path)
    named = RAISED.format(text="").replace("RuntimeError: ", secret)
    path = console(tmp_path / "c.log", rows(8), named)
    assert "the console ends with an error: Error (1)" in notes(path)
    path = console(tmp_path / "b.log", rows(8), RAISED.format(text="so long " * 99))
    (text,) = [one.text for one in read(path).notes if "ends with" in one.text]
    assert len(text.partition("error: ")[2]) == 200


def test_an_error_after_which_the_console_goes_on_is_not_its_end(
    tmp_path: Path,
) -> None:
    path = console(tmp_path / "a.log", rows(8), FELL_OVER, rows(8), "Done\n")
    assert "ends with an error" not in notes(path)
    path = console(tmp_path / "b.log", rows(8), FELL_OVER, "Trying again\n")
    assert "ends with an error" not in notes(path)


def test_a_console_of_a_training_that_fell_before_its_first_row_tells_the_error(
    tmp_path: Path,
) -> None:
    of_ray = FELL_OVER.replace(
        "RuntimeError: the",
        "ray.exceptions.RayTaskError(RuntimeError): ray::main() (pid=1)\nRuntimeError: the",
    )
    hydra = "\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete trace.\n"
    path = console(tmp_path / "train.log", "Loading model\n", of_ray, hydra)
    refused = rlreport_command("check", path)
    assert "no rows of metrics" in refused.stderr
    assert "ends with an error: RuntimeError: the grader fell over" in refused.stderr
    refused = rlreport_command("check", tmp_path)
    assert "train.log: a console or text without rows of metrics" in refused.stderr


HOSTILE: dict[str, str] = {
    "nested": "{'loss': " + "(" * 400_000,
    "nested often": "{'loss': [" * 40_000,
    "never closed": "{'loss': 1, 'b'\n" * 10_000,
    "digits": "1" * 400_000,
    "bars": "1%|" * 100_000,
    "quotes": "{'loss': '" + "\\'" * 200_000,
    "spaces": ("{" + " " * 2_000) * 200,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_costs_little_and_hides_no_row(kind: str, tmp_path: Path) -> None:
    path = console(tmp_path / "train.log", HOSTILE[kind], "\n", rows(4))
    start = time.process_time()
    assert rewards(path) == [1, 2, 3, 4]
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "other", ["{'a':1}", "{'a': 'é'} ", "{'a': 1, 2", "{'a': (1, {'b': 2})}"]
)
def test_dicts_that_are_no_rows_are_each_read_once_up_to_a_limit(
    other: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lengths: list[int] = []

    def counted(text: str, begin: int = 0) -> PrintedDict:
        printed = printed_dict(text, begin)
        lengths.append(printed.end - begin)
        return printed

    monkeypatch.setattr(consoles, "printed_dict", counted)
    few = row(1) + other * (consoles.MOST_OTHERS - 1) + row(2, reward_é=0.5)
    path = console(tmp_path / "few.log", few)
    assert rewards(path) == [1, 2]
    assert "reward_é" in read(path).table
    lengths.clear()
    many = other * 20_000
    path = console(tmp_path / "many.log", rows(2), many, "\n", row(3))
    assert rewards(path) == [1, 2, 3]
    pieces = math.ceil(len(many.encode()) / MAX_PIECE)
    assert "very many dicts that are no rows of metrics" in notes(path)
    assert len(lengths) <= 2 * (pieces * consoles.MOST_OTHERS + 4)
    whole = len(many.encode()) + len(rows(3))
    assert sum(lengths) <= 2 * whole


@pytest.mark.parametrize(
    "text",
    [
        "Epoch:[999999999/1](999999999999/999999999999) loss:8.9 lr:1\n",
        "Epoch: 999999999, Step: 999999999999/999999999999, loss: 8.9\n",
    ],
)
def test_a_step_too_large_for_a_number_costs_its_row(text, tmp_path) -> None:
    good = "".join(f"Epoch:[1/1]({n}/9) loss:1.5 reward:{n}\n" for n in range(4))
    path = console(tmp_path / "train.log", text, good)
    assert steps(path) == [0, 1, 2, 3]
    assert "step is not a whole number, left out (1)" in notes(path)


def test_a_long_line_needs_little_memory(tmp_path: Path) -> None:
    long = bar(1) * 10_000 + "x" * 30_000_000
    path = console(tmp_path / "train.log", long, training(1, 40))
    tracemalloc.start()
    table = read(path).table
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(table) == 40 and peak < 8_000_000


def test_names_with_markup_are_only_text(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>_reward"
    text = training(1, 40).replace("'kl'", f"'{name}'")
    path = console(tmp_path / "train.log", text)
    rlreport.build([path], tmp_path / "out", quiet=True)
    pages = [page.read_text("utf-8") for page in (tmp_path / "out").rglob("*.html")]
    assert pages and not any("<script>alert" in page for page in pages)
