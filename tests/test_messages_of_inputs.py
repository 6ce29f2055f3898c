"""What is said of an input that cannot be read, or not in full: what it is, and what to do."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from rlreport.errors import MissingExtraError
from rlreport.flows.build import check_logs
from rlreport.options import BuildOptions
from tests.net import RUNS
from tests.running import rlreport as run

EVENTS = RUNS / "trainer" / "tensorboard" / "events.out.tfevents.1"


def write(path: Path, rows: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def responses(**more: Any) -> list[dict[str, Any]]:
    return [
        {"prompt": f"p{n % 2}", "response": f"text {n}", "reward": n % 2, **more}
        for n in range(8)
    ]


def refusal(path: Path, command: str = "check") -> str:
    """The message with which a command refuses a path, in one line."""
    result = run(command, path)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    return result.stderr


BINARY = {
    "plot.png": (b"\x89PNG\r\n\x1a\n" + bytes(20), "a PNG image"),
    "photo.bin": (b"\xff\xd8\xff\xe0" + bytes(20), "a JPEG image"),
    "paper": (b"%PDF-1.7\n" + bytes(20), "a PDF document"),
    "all.data": (b"PK\x03\x04" + bytes(20), "a zip archive"),
    "w.safetensors": (b"\x40" + bytes(7) + b'{"a": 1}', "model weights (safetensors)"),
    "dump.pkl": (b"\x80\x04\x95" + bytes(20), "a Python pickle"),
    "base": (b"SQLite format 3\0" + bytes(20), "an SQLite database"),
}


@pytest.mark.parametrize("name", BINARY)
def test_a_binary_file_is_called_what_it_is(name: str, tmp_path: Path) -> None:
    content, kind = BINARY[name]
    (tmp_path / name).write_bytes(content)
    for path in (tmp_path, tmp_path / name):
        assert f"{name}: not read: {kind}" in refusal(path)
        assert kind in refusal(path, "inspect")


def test_rows_without_a_step_name_the_field_that_may_have_it(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", responses(epoch=3))
    result = run("build", path, "-o", tmp_path / "out")
    assert result.returncode == 0
    assert (
        "no row has a step, so the run is one step; `epoch` may be it" in result.stderr
    )
    assert "--map step=epoch, or --step-from-path REGEX" in result.stderr
    path = write(tmp_path / "s.jsonl", responses())
    told = run("build", path, "-o", tmp_path / "out").stderr
    assert "--map step=FIELD or --step-from-path REGEX" in told


def test_the_field_of_the_step_can_be_pasted(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", responses(epoch=3))
    result = run("inspect", path, "--map", "step=epoch")
    assert "8 responses over 1 step (3–3)" in result.stdout


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (
            {"completion": "It is 4", "reward": 1.0, "note": 3},
            "try --map response=completion; no field for the prompt was found among "
            "`completion`, `reward`, `note`",
        ),
        (
            {"question": "2+2?", "generation": "It is 4", "grade": "A"},
            "try --map prompt=question --map response=generation; no field for `reward` was found "
            "among `question`, `generation`, `grade`",
        ),
    ],
)
def test_a_partial_guess_gives_a_partial_hint(row, told, tmp_path: Path) -> None:
    assert told in refusal(write(tmp_path / "r.jsonl", [row]))


@pytest.mark.parametrize(
    ("names", "mapped"),
    [
        (("prompt", "completion", "reward"), "response=completion"),
        (("prompt", "generated_text", "reward"), "response=generated_text"),
        (("prompt", "output", "reward"), "response=output"),
        (("input", "model_output", "score"), "prompt=input, reward=score"),
        (("instruction", "output", "reward"), "prompt=instruction"),
        (("question", "answer", "reward"), "prompt=question, response=answer"),
    ],
)
def test_responses_under_other_names_are_read_and_said(names, mapped, tmp_path) -> None:
    prompt, response, reward = names
    rows = [
        {
            "step": n // 4,
            prompt: f"p{n % 2}",
            response: f"text {n}",
            reward: float(n % 2),
        }
        for n in range(8)
    ]
    result = run("inspect", write(tmp_path / "r.jsonl", rows))
    assert "8 responses over 2 steps" in result.stdout
    assert "fields are read by their likely names" in result.stdout
    assert mapped in result.stdout


@pytest.mark.parametrize(
    "row",
    [
        {"question": "2+2?", "answer": "It is 4", "score": 1.0},
        {"instruction": "Add", "output": "It is 4", "score": 1.0},
        {
            "step": 1,
            "prompt": "2+2?",
            "output": "a b",
            "completion": "c d",
            "reward": 1.0,
        },
    ],
)
def test_what_may_be_a_data_set_or_has_two_responses_is_not_guessed(
    row, tmp_path: Path
) -> None:
    assert "no known log format; try --map" in refusal(
        write(tmp_path / "r.jsonl", [row])
    )


def test_tensorboard_events_without_the_extra_say_so(monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.backend.event_processing", None)
    path = Path(shutil.copy(EVENTS, tmp_path))
    with pytest.raises(
        MissingExtraError, match=r"pip install 'rlreport\[tensorboard\]'"
    ):
        check_logs([path], BuildOptions(workers=1))


def test_an_empty_folder_says_what_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    told = refusal(tmp_path / "logs")
    assert "an empty folder; looked for rollouts (.jsonl" in told
    assert "trainer metrics (trainer_state.json" in told


def test_a_checkpoint_without_its_state_is_named(tmp_path: Path) -> None:
    write(tmp_path / "run" / "checkpoint-500" / "model.safetensors", [])
    assert "checkpoint-500: a checkpoint of model weights; looked for" in refusal(
        tmp_path / "run"
    )


UNREADABLE = {
    "object.json": (
        {"a": {"b": [1, 2]}, "c": "hi"},
        ["a.b", "list of numbers", '"hi"'],
    ),
    "array.json": ([{"x": 1}, {}, 3], ["3 values, 2 of them objects", "x"]),
    "value.json": (3, ["no object or array: 3"]),
    "empty.json": ([], ["a JSON array of 0 values"]),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_inspect_lists_the_fields_of_any_json_file(name: str, tmp_path: Path) -> None:
    content, told = UNREADABLE[name]
    (tmp_path / name).write_text(json.dumps(content))
    for path in (tmp_path, tmp_path / name):
        result = run("inspect", path)
        assert result.returncode == 0
        assert f"not read: {name}" in result.stdout
        assert all(text in result.stdout for text in told)
        assert run("check", path).returncode == 2


def test_inspect_lists_fields_of_files_beside_logs_and_of_tables(tmp_path) -> None:
    write(tmp_path / "r.jsonl", responses(step=1))
    write(tmp_path / "other.jsonl", [{"text": "x" * 500, "\x1b[31m": 1}])
    result = run("inspect", tmp_path)
    assert "not read: other.jsonl  one JSON object per line" in result.stdout
    assert "…" in result.stdout and "\x1b" not in result.stdout
    (tmp_path / "t.csv").write_text("name,kind\nx,7\n")
    result = run("inspect", tmp_path / "t.csv")
    assert "kind" in result.stdout and result.returncode == 0


def test_a_damaged_json_file_is_refused_by_inspect(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    assert "a.json" in refusal(tmp_path, "inspect")


def test_a_table_with_a_carriage_return_in_its_header_is_no_traceback(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.csv").write_bytes(b"step,re\rward\n1,0.5\n")
    for command in ("build", "inspect"):
        done = run(command, folder)
        assert "Traceback" not in done.stderr
        assert "a.csv" in done.stdout + done.stderr
