"""Write the dumps of Trackio (and TRL's traces in it) and W&B: arguments as of ``make.py``."""

import os
import sqlite3
from pathlib import Path
from typing import Any

import pandas as pd
from make import OUT, code, self_of  # type: ignore[import-not-found]

COLUMNS: dict[str, list[Any]] = {
    "prompt": ["2+2?"] * 2,
    "completion": ["4", "5"],
    "accuracy_reward": [1.0, 0.0],
    "format_reward": [0.5, float("nan")],
    "advantage": [0.75, -0.75],
}


def completions(step: int) -> pd.DataFrame:
    """TRL's table of completions at a step."""
    judged = {**COLUMNS, "accuracy_reward": [1.0 * step, 0.0]}
    return pd.DataFrame({"step": [str(step)] * 2, **judged})


def messages(answer: str) -> list[dict[str, Any]]:
    function = {"name": "calc", "arguments": '{"x": "2+2"}'}
    call = {"id": "c1", "type": "function", "function": function}
    return [
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "4"},
        {"role": "assistant", "content": answer},
    ]


def trackio(out: Path) -> None:
    os.environ["TRACKIO_DIR"] = str(out)
    import trackio as tracker
    from trackio.sqlite_storage import SQLiteStorage

    for project in ("tables", "traces"):
        for step in (1, 2):
            place = (project, "run1", step)
            made: Any = tracker.Table(dataframe=completions(step))._to_dict(*place)
            if project == "traces":
                about = {"group_id": "g0", "duration_ms": 1500}
                made = [
                    tracker.Trace(
                        messages(answer), {"reward": reward, **about}
                    )._to_dict(*place)
                    for answer, reward in (("It is 4.", 1.0 * step), ("It is 5.", 0.0))
                ]
            SQLiteStorage.bulk_log(
                project,
                "run1",
                [{"loss": 0.5, "completions": made}],
                steps=[step],
                timestamps=["2026-01-01T00:00:00"],
            )

    def bulk_log(metrics: dict[str, Any], step: int) -> None:
        made = [
            trace._to_dict("async_grpo", "run1", step) for trace in metrics["rollouts"]
        ]
        SQLiteStorage.bulk_log(
            "async_grpo",
            "run1",
            [{"rollouts": made}],
            steps=[step],
            timestamps=["2026-01-01T00:00:00"],
        )

    log = code(
        "huggingface/trl",
        "trl/experimental/async_grpo/async_grpo_trainer.py",
        "log_rollout_traces",
        is_trackio_available=lambda: True,
        trackio=self_of(Trace=tracker.Trace, log=bulk_log),
    )["log_rollout_traces"]
    for version in (1, 2):
        samples = [
            self_of(
                prompt=messages(answer)[:1],
                completion=messages(answer)[1:],
                group_id=7,
                metrics={"reward": reward, "reward_std": 0.5, "rewards/right": reward},
                advantage=reward - 0.5,
                model_version=version,
                input_ids=[1] * 9,
                completion_mask=[0] * 4 + [1] * 5,
            )
            for answer, reward in (("It is 4.", 1.0), ("It is 5.", 0.0)) * 10
        ]
        log(samples, version, ["trackio"])
    rows = SQLiteStorage._read_table_rows(out / "traces.db", "traces")
    for project in ("tables", "traces", "async_grpo"):
        database = sqlite3.connect(out / f"{project}.db")
        for smaller in (
            "PRAGMA journal_mode = DELETE",
            "PRAGMA page_size = 512",
            "VACUUM",
        ):
            database.execute(smaller)
        database.close()
    (out / "export").mkdir()
    SQLiteStorage._write_parquet_rows(
        out / "export" / "traces.parquet",
        SQLiteStorage._normalize_trace_rows_for_parquet(rows),
    )


def wandb(out: Path) -> None:
    from wandb import Table, util

    out.mkdir()
    for step in (1, 2):
        made = Table(dataframe=completions(step))._to_table_json()
        with (out / f"completions_{step}_0a1b.table.json").open("w") as file:
            util.json_dump_safer(made, file)


if __name__ == "__main__":
    trackio(OUT / "trackio")
    wandb(OUT / "wandb")
