"""Write the dumps of prime-rl's file monitor since September 2026: as ``make.py``.

The stream of episodes, the updates that orchestrator and trainer write later, and the
layouts by step and kind that came before. What the writer was given is in ``given.json``.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from make import code, self_of, write  # type: ignore[import-not-found]
from make_agents import _episodes  # type: ignore[import-not-found]

REPO = "PrimeIntellect-ai/prime-rl"
MONITOR = "src/prime_rl/monitors/file"
ADVANTAGE = {"s0": 0.75, "s1": -0.75}
TRAINED_AT = 4
"""The step at which the solver's first trace was trained; it was logged at step 3."""


class Tensor(np.ndarray):
    """A stand-in for a tensor of PyTorch."""

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def to(self, **_: Any) -> Tensor:
        return self


def tensor(values: list[Any]) -> Tensor:
    return np.asarray(values, np.float64).view(Tensor)


def monitor(out: Path, producer: str, chunk_bytes: int) -> Any:
    """Return the file monitor of a process, with the methods of prime-rl."""
    chunks = code(
        REPO,
        f"{MONITOR}/traces/chunks.py",
        "chunk_path",
        "chunk_numbers",
        "seal",
        "ChunkedJsonl",
        pyzstd=__import__("pyzstd"),
        LEVEL=3,
        FRAME_BYTES=1 << 10,
    )
    update = code(REPO, f"{MONITOR}/traces/update.py", "update_index_row")
    traces = out / "monitors" / "file" / "traces"
    around = {
        "orjson": orjson,
        "OPTS": orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY,
        "ChunkedJsonl": chunks["ChunkedJsonl"],
        "update_index_row": update["update_index_row"],
        "get_trace_stream": lambda _: traces / "stream",
        "get_annotations_dir": lambda _: traces / "annotations",
        "get_index_path": lambda folder: folder.with_name(f"{folder.name}.index.jsonl"),
        "index_row": lambda line, record, chunk, offset: {
            "line": line,
            "id": record["id"],
            "chunk": chunk,
            "offset": offset,
        },
        "sanitize": lambda metrics: (metrics, []),
    }
    methods = code(
        REPO,
        f"{MONITOR}/monitor.py",
        "log_metrics",
        "_stream",
        "log_episodes",
        "log_annotations",
        "finalize",
        **around,
    )
    config = self_of(chunk_bytes=chunk_bytes, compress=True, float_decimals=4)
    one = self_of(
        output_dir=out, producer=producer, config=config, _streams={}, _logged=0
    )
    one.logger = self_of(info=print, warning=print)
    one.path = traces.parent / "metrics.jsonl"
    traces.mkdir(parents=True, exist_ok=True)
    one.file = one.path.open("a", buffering=1)
    for name in (
        "log_metrics",
        "_stream",
        "log_episodes",
        "log_annotations",
        "finalize",
    ):
        setattr(one, name, methods[name].__get__(one))
    return one


def updates_of_the_orchestrator(traces: list[Any]) -> list[Any]:
    made = code(REPO, "src/prime_rl/monitors/step/file.py", "_effective_update")
    updates = []
    for trace in traces:
        stamped = trace.model_copy(
            update={"info": {**trace.info, "advantage": ADVANTAGE[trace.id]}}
        )
        updates.append(made["_effective_update"](stamped, "train", TRAINED_AT))
    return updates


def make_update() -> Any:
    return code(REPO, f"{MONITOR}/traces/update.py", "make_update", UPDATE_VERSION=1)[
        "make_update"
    ]


def annotation_writer() -> Any:
    names = (
        "AnnotationWriter",
        "_tensor_to_floats",
        "_sampled_positions",
        "_mismatch_kl",
        "_tensor_to_optional_bools",
    )
    found = code(
        REPO,
        "src/prime_rl/trainer/rl/annotations.py",
        *names,
        torch=self_of(float32=None, exp=np.exp),
        make_update=make_update(),
    )
    return found["AnnotationWriter"](self_of(cp_enabled=False), None, 4)


def updates_of_the_trainer(traces: list[Any]) -> list[Any]:
    writer = annotation_writer()
    for trace in traces:
        mask = [one for node in trace.nodes for one in node.mask]
        logprobs = [-9.0] * len(mask)
        given = [
            value for node in trace.nodes for value in (node.trainer_logprobs or [])
        ]
        for place, value in zip(np.flatnonzero(mask), given, strict=True):
            logprobs[place] = value
        writer.export(
            {
                "trace_ids": [trace.id],
                "branch_indices": [0],
                "sequence_lengths": [len(mask)],
                "loss_mask": tensor(mask),
                "env_names": ["calc"] * len(mask),
                "rl_weights": None,
                "ref_kl_weights": None,
                "inference_logprobs": tensor([-1.0] * len(mask)),
            },
            {"logprobs": tensor(logprobs), "entropy": tensor([0.5] * len(mask))},
            {},
        )
    return list(writer._pending)


def prime(out: Path) -> None:
    episodes = _episodes()
    solvers = [episode.traces[0] for episode in episodes[:2]]
    trained = updates_of_the_trainer(solvers[:1])
    for solver in solvers:  # the trainer's values come later, as updates
        for node in solver.nodes:
            node.trainer_logprobs = node.advantages = node.entropies = None
    effective = updates_of_the_orchestrator(solvers[:1])

    async def write() -> None:
        # The trace of the second episode is filtered out; small chunks are sealed at once.
        run = monitor(out / "stream", "orchestrator", 1500)
        await run.log_episodes(episodes, 3, "train", "all")
        await run.log_metrics({"reward/mean": 0.5}, 3)
        await run.log_annotations(effective)
        await run.finalize()
        trainer = monitor(out / "stream", "trainer", 1 << 20)
        await trainer.log_metrics({"loss/mean": 0.25}, 4)
        await trainer.log_annotations(trained)

        paths = code(
            REPO, "src/prime_rl/monitors/kind/trace_updates.py", "annotations_path"
        )
        around = {
            "orjson": orjson,
            "make_update": make_update(),
            "annotations_path": paths["annotations_path"],
            "get_traces_dir": lambda folder: folder / "traces",
            "get_step_path": lambda folder, number: folder / f"step_{number}",
            "get_kind_traces_dir": lambda folder, number, kind: (
                folder / "traces" / f"step_{number}" / kind
            ),
        }
        solver = solvers[0]
        for layout in ("step", "kind"):
            module = f"src/prime_rl/monitors/{layout}/file.py"
            step = code(REPO, module, "_effective_update", "log_episodes", **around)[
                "log_episodes"
            ]
            before = self_of(output_dir=out / f"by_{layout}")
            solver.info.pop("advantage", None)
            await step(before, episodes, 3, "train", "all")
            solver.info["advantage"] = ADVANTAGE["s0"]
            shipped = episodes[0].model_copy(update={"traces": [solver]})
            await step(before, [shipped], TRAINED_AT, "train", "effective")

    asyncio.run(write())
    for metrics in out.rglob("metrics.jsonl"):
        lines = [
            json.loads(line) | {"time": 0.0}
            for line in metrics.read_text().splitlines()
        ]
        metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    write({"prime_rl": prime})
