"""One run, logged to each tracker as TRL's trainers do: its own counts, tables, timings."""

import json
import sqlite3
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.reading import write

Row = dict[str, Any]
STEPS = 30
RESPONSES = 8  # per step


def metrics_of(step: int) -> Row:
    """Metrics of a step: a reward that rises by the word "great", a KL that grows."""
    rng = np.random.default_rng(step)
    mean = rewards_of(step).mean()
    return {
        "reward": round(float(mean), 6),
        "kl": round(0.001 * step + 0.0005 * rng.random(), 6),
        "completions/mean_length": 12.0 + round(rng.random(), 3),
        "entropy": round(2 - 0.01 * step + 0.02 * rng.random(), 6),
    }


def history() -> list[Row]:
    """A row per step of the training: the step, and its metrics."""
    return [{"step": step, **metrics_of(step)} for step in range(1, STEPS + 1)]


def rewards_of(step: int) -> np.ndarray:
    rng = np.random.default_rng([7, step])
    return np.round(rng.random(RESPONSES) + 0.03 * step, 3)


def completions_of(step: int) -> list[Row]:
    rewards = rewards_of(step).tolist()
    rows = []
    for n, reward in enumerate(rewards):
        text = f"answer {n} of step {step}: {reward}"
        row = {"step": step, "prompt": f"question {n % 4}", "completion": text}
        rows.append({**row, "grade": reward, "advantage": round(reward - 0.5, 3)})
    return rows


def logged() -> list[tuple[int, Row]]:
    """(Trainer's step, row) in the order of the log: timings, metrics, a table of each step.

    Timings of a step are logged before it is counted. TRL logs its last table again at the end.
    """
    rows: list[tuple[int, Row]] = []
    for step in range(1, STEPS + 1):
        for part in ("generate", "loss"):
            rows.append((step - 1, {f"profiling/{part}": 0.01 * step}))
        metrics = {f"train/{name}": v for name, v in metrics_of(step).items()}
        rows.append((step, {**metrics, "train/epoch": step / 10}))
        rows.append((step, {"completions": completions_of(step)}))
    rows.append((STEPS, {"completions": completions_of(STEPS)}))
    return rows


def trackio(folder: Path) -> Path:
    """A database whose own count rises by two per step; timings have the trainer's step."""
    folder.mkdir(parents=True)
    path = folder / "project.db"
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE metrics (run_name TEXT, step INTEGER, timestamp TEXT, metrics TEXT)"
        )
        own = 0
        for step, row in logged():
            event = dict(row)
            number = step
            if "completions" in event:
                table = {"_type": "trackio.table", "_value": event["completions"]}
                event = {"completions": table}
            elif "train/reward" in event:
                event["train/global_step"] = step
            if not any(name.startswith("profiling") for name in event):
                own += 1
                number = own
            values = ("one", number, "2026-11-28T21:02:09", json.dumps(event))
            database.execute("INSERT INTO metrics VALUES (?, ?, ?, ?)", values)
    return folder


def wandb(folder: Path) -> Path:
    """A folder of an offline run: its run file, and a file for each table."""
    tables = folder / "files" / "media" / "table"
    tables.mkdir(parents=True)
    rows: list[Row] = []
    for own, (step, row) in enumerate(logged()):
        event = dict(row)
        if "completions" in event:
            names = list(event["completions"][0])
            data = [list(one.values()) for one in event["completions"]]
            # W&B names a file by the hash of its content.
            name = f"completions_{own}_{step:020x}.table.json"
            content = json.dumps({"columns": names, "data": data})
            (tables / name).write_text(content, "utf-8")
            event = {"completions/_type": "table-file", "completions/nrows": RESPONSES}
        rows.append({**event, "_step": own, "train/global_step": step})
    wandb_file(folder / "run-1a2b.wandb", rows)
    return folder


def wandb_file(path: Path, rows: Sequence[Row]) -> Path:
    """Write a run file: a LevelDB log with a protocol buffer for each row of the history."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = bytearray(b":W&B\xe1\xbe\x00")
    for row in rows:
        items = b""
        for key, value in row.items():
            name = _message(1, key.encode())
            text = _message(16, json.dumps(value).encode())
            items += _message(1, name + text)
        entry = _message(2, items)
        # A chunk does not extend over the end of a block.
        if 32_768 - len(data) % 32_768 < 7 + len(entry):
            room = 32_768 - len(data) % 32_768
            if room > 7:
                head, entry = entry[: room - 7], entry[room - 7 :]
                data += struct.pack("<IHB", 0, len(head), 2) + head
                data += struct.pack("<IHB", 0, len(entry), 4) + entry
                continue
            data += bytes(room)
        data += struct.pack("<IHB", 0, len(entry), 1) + entry
    path.write_bytes(data)
    return path


def _message(number: int, data: bytes) -> bytes:
    """A field of a protocol buffer with ``data`` of a length."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    data.append(number)
    return bytes(data)


def mlflow(folder: Path) -> Path:
    """A folder of MLflow, which stores timings that are logged without a step at step 0."""
    write(folder / "run" / "meta.yaml", ["run_id: 0\n"])
    for name in ("beta", "seed", "loss_type", "top_p", "top_k"):
        write(folder / "run" / "params" / name, ["1\n"])
    lines: dict[str, list[str]] = {}
    for time, (step, row) in enumerate(logged()):
        for name, value in row.items():
            if name != "completions":
                at = 0 if name.startswith("profiling") else step
                key = name.removeprefix("train/")
                lines.setdefault(key, []).append(f"{time} {value} {at}\n")
    for name, of_metric in lines.items():
        write(folder / "run" / "metrics" / name, of_metric)
    return folder


def tensorboard(folder: Path) -> Path:
    """A folder of event files, to which TRL writes neither timings nor tables."""
    from tests.test_metrics_starts import tensorboard as write_events

    rows: list[Row] = []
    for step, row in logged():
        if "train/reward" in row:
            rows.append({"step": step, **row})
    write_events(folder, rows)
    return folder


def trainer_state(folder: Path) -> Path:
    state = {"log_history": history()}
    write(folder / "trainer_state.json", [json.dumps(state)])
    return folder


TRACKERS: dict[str, Callable[[Path], Path]] = {
    "trackio": trackio,
    "wandb": wandb,
    "mlflow": mlflow,
    "tensorboard": tensorboard,
    "trainer_state": trainer_state,
}
WITH_TABLES = ("trackio", "wandb")
