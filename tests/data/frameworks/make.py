"""Write the dumps beside this file with the frameworks' own code, on made-up inputs.

    python make.py FOLDER_OF_CHECKOUTS OUT [FRAMEWORK …]

A checkout is a bare or ordinary git repository, ``FOLDER/<owner>+<name>/repo``. A framework's
function is taken out of its module and run where it stands alone, since most modules import a
GPU's libraries; verifiers and ART are installed packages. Nothing of their code is kept here.
"""

import ast
import asyncio
import collections
import copy
import dataclasses
import enum
import hashlib
import json
import logging
import math
import os
import shutil
import subprocess
import sys
import threading
import time
import types
import typing
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import asynccontextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

CHECKOUTS = Path(sys.argv[1])
OUT = Path(sys.argv[2])

USUAL = {
    **{name: getattr(typing, name) for name in typing.__all__},
    **{
        one.__name__: one
        for one in (asyncio, hashlib, json, math, os, shutil, threading, time)
    },
    "uuid": uuid,
    "np": np,
    "numpy": np,
    "logger": logging,
    "Path": Path,
    "Enum": enum.Enum,
    "dataclass": dataclasses.dataclass,
    "field": dataclasses.field,
    "asdict": dataclasses.asdict,
    "defaultdict": collections.defaultdict,
    "UserDict": collections.UserDict,
    "ABC": ABC,
    "abstractmethod": abstractmethod,
    "deepcopy": copy.deepcopy,
}
"""What modules import of Python's library and NumPy."""


def code(repo: str, path: str, *names: str, **around: Any) -> dict[str, Any]:
    """Run the named functions and classes of a module; ``around`` are further globals."""
    tree = ast.parse(git(repo, "show", f"HEAD:{path}"))
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and getattr(node, "name", None) in names
    ]
    future = ast.parse("from __future__ import annotations").body
    module = ast.Module([*future, *found], type_ignores=[])
    space: dict[str, Any] = {**USUAL, **around}
    exec(compile(module, path, "exec"), space)
    return space


def git(repo: str, *arguments: str) -> bytes:
    command = [
        "git",
        "-C",
        str(CHECKOUTS / repo.replace("/", "+") / "repo"),
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, check=True).stdout


def write(writers: dict[str, Callable[[Path], None]]) -> None:
    """Call the writers of the named frameworks, or all, with a folder for each."""
    for name in sys.argv[3:] or writers:
        writers[name](OUT / name)


def self_of(**members: Any) -> types.SimpleNamespace:
    return types.SimpleNamespace(**members)


def names_of(package: str, *modules: str) -> types.SimpleNamespace:
    """Return what modules of an installed package define, in one namespace."""
    found = [vars(import_module(f"{package}.{module}")) for module in modules]
    return self_of(**{name: value for names in found for name, value in names.items()})


def verl(out: Path) -> None:
    dump = code(
        "volcengine/verl", "verl/trainer/ppo/ray_trainer.py", "_dump_generations"
    )
    for step in (1, 2):
        dump["_dump_generations"](
            self_of(global_steps=step),
            inputs=["user\n2+2?\nassistant\n"] * 2,
            outputs=["4", "5"],
            gts=["4", "4"],
            scores=[1.0 * step, 0.0],
            reward_extra_infos_dict={
                "acc": [True, False],
                "info": [{"a": 1}, {"a": 2}],
                "ref_reward": [0.25, 0.5],
            },
            dump_path=str(out / "rollouts"),
        )


def agilerl(out: Path) -> None:
    made = code(
        "AgileRL/AgileRL",
        "agilerl/training/llm/completion_logging.py",
        "CompletionRecord",
        "truncate_middle",
        "CompletionWriter",
        "JsonlCompletionWriter",
    )
    writer = made["JsonlCompletionWriter"](out / "completions.jsonl")
    for step in (10, 20):
        writer.write(
            [
                made["CompletionRecord"](
                    step=step,
                    agent_index=agent,
                    group_index=3,
                    sample_index=sample,
                    reward=1.0 - sample,
                    num_turns=1,
                    completion_tokens=9,
                    prompt="2+2?",
                    completion=made["truncate_middle"](
                        f"It is {4 + sample}." + "x" * 90 * sample, 60
                    ),
                )
                for agent in range(2)
                for sample in range(2)
            ]
        )
    writer.close()


def skyrl(out: Path) -> None:
    dump = code(
        "NovaSky-AI/SkyRL",
        "skyrl/train/utils/trainer_utils.py",
        "dump_per_dataset_eval_results",
        "sanitize_data_source",
    )["dump_per_dataset_eval_results"]

    def decode(text: str) -> str:
        return text

    def evaluate(
        folder: str, turns: list[tuple[str, str, float]], mean: float, *indices: int
    ) -> None:
        (out / "dumped_evals" / folder).mkdir(parents=True)
        outputs = {
            "prompt_token_ids": [turn[0] for turn in turns],
            "response_ids": [turn[1] for turn in turns],
            "rewards": [[0.0, turn[2]] for turn in turns],
            "stop_reasons": ["stop"] * len(turns),
        }
        about = {"data_source": "calc", "reward_spec": {"ground_truth": "8"}}
        extras = [{**about, "extra_info": {"index": index}} for index in indices]
        extras = extras or [about] * len(turns)
        dump(
            out / "dumped_evals" / folder,
            self_of(decode=decode),
            outputs,
            ["calc"] * len(turns),
            ["calc_env"] * len(turns),
            extras,
            {"eval/calc/avg_score": mean},
        )

    ask = "<user>2+2, then double?"
    second = f"{ask}<assistant>4<tool>ok, 4"
    # Three trajectories, two of them of two turns: rewards 1, 0 and 1 with their last turns.
    turns = [
        (ask, "<assistant>4", 0.0),
        (second, "<assistant>8", 1.0),
        (ask, "<assistant>5", 0.0),
        (f"{ask}<assistant>5<tool>no", "<assistant>9", 0.0),
        (ask, "<assistant>8", 1.0),
    ]
    evaluate("global_step_4_evals", turns, 2 / 3)
    # The same, but a summary takes the place of the first turn in the second prompt.
    summed = [
        (prompt.replace("<assistant>", "<summary>"), *rest) for prompt, *rest in turns
    ]
    evaluate("global_step_6_evals", summed, 2 / 3, 0, 0, 1, 1, 2)  # type: ignore[arg-type]
    evaluate("eval_only", [(ask, "<assistant>7", 0.5)], 0.5)


def swift(out: Path) -> None:
    path = "swift/utils/io_utils.py"
    repo = "modelscope/ms-swift"
    stub = self_of(dtype=type("dtype", (), {}), device=type("device", (), {}))
    check = code(repo, "swift/utils/utils.py", "check_json_format", torch=stub)
    writer = code(
        repo,
        path,
        "JsonlWriter",
        Queue=lambda: None,
        check_json_format=check["check_json_format"],
        is_master=lambda: True,
        is_last_rank=lambda: True,
    )["JsonlWriter"]
    mixin = "swift/megatron/trainers/rollout_mixin.py"
    table = code(repo, mixin, "_build_log_table")["_build_log_table"]
    own = code(
        repo, "swift/megatron/trainers/grpo_trainer.py", "_build_log_table", super=None
    )
    (out / "megatron").mkdir(parents=True)
    megatron = writer(str(out / "megatron" / "completions.jsonl"), write_on_rank="last")
    for step in (1, 2):
        logs = {
            "prompt": ["2+2?", "2+2?"],
            "completion": ["4", "5"],
            "advantages": [0.5, -0.5],
            "rewards": {"Accuracy": [1.0, 0.0], "Format": [0.25 * step, 0.25 * step]},
        }
        trainer = self_of(_step=step, _logs=logs)
        base = self_of(_build_log_table=lambda trainer=trainer: table(trainer))
        own["super"] = lambda base=base: base
        megatron.append(own["_build_log_table"](trainer))
    ray = code(
        repo,
        "swift/ray/megatron/base_trainer.py",
        "_maybe_log_completions",
        "_decode_log_content",
        JsonlWriter=writer,
        OnPolicySample=object,
    )
    (out / "ray").mkdir(parents=True)
    driver = self_of(args=self_of(log_completions=True, output_dir=str(out / "ray")))
    driver._format_log_prompt = lambda messages: messages[0]["content"]
    driver._decode_log_content = lambda content: ray["_decode_log_content"](
        driver, content
    )
    ask = {"role": "user", "content": "2+2?"}
    for step in (0, 1):
        samples = [
            self_of(messages=[ask, {"role": "assistant", "content": text}])
            for text in ("4", "5")
        ]
        ray["_maybe_log_completions"](
            driver, samples, rewards=[1.0, 0.5 * step], gen_step=step
        )


def roll(out: Path) -> None:
    timer = nullcontext(self_of(last=0.0))
    write = code(
        "alibaba/ROLL",
        "roll/pipeline/rlvr/utils.py",
        "write_to_json_process",
        Timer=lambda **_: timer,
    )["write_to_json_process"]
    clean = code("alibaba/ROLL", "roll/pipeline/agentic/utils.py", "remove_nan_items")
    ask = [
        {"role": "system", "content": "Use tools."},
        {"role": "user", "content": "2+2?"},
    ]

    def trajectory(step: int, attempt: int) -> dict[str, Any]:
        """As agent_native_env_manager.py builds it in formulate_rollouts."""
        reward = float(attempt == 0)
        return {
            "trajectory_id": f"math_{step}_{step}_0_{attempt}_0_7_20260102_030405_000001",
            "env_info": {
                "env_id": attempt,
                "group_id": 0,
                "tag": "math",
                "seed": 7,
                "episode_id": step,
                "max_steps": 3,
                "mode": "train",
            },
            "timing_info": {
                "traj_save_time": "2026-01-02T03:04:05",
                "traj_time_env_total": 2.5,
            },
            "length_info": {"num_actions": 2, "terminated": True, "truncated": False},
            "reward_info": {"episode_reward": reward, "step_rewards": [0.0, reward]},
            "failure_info": {
                "failure_mode": "",
                "stop_reason": ("FINISH", "MAX_STEPS")[attempt],
                "error_messages": ["timeout"] if attempt else [],
                "test_output": "",
                "has_failure": False,
            },
            "metrics": {"env/math/num_actions": 2},
            "last_observation": [],
        }

    for step in (3, 4):
        messages = [
            [
                *ask,
                {"role": "assistant", "content": "calc(2+2)"},
                {"role": "tool", "content": "4", "name": "calc"},
                {"role": "assistant", "content": answer},
            ]
            for answer in ("4", "5")
        ]
        data = {
            # A step's own sample carries nothing: only the last of a trajectory does.
            "trajectory_data": [
                None,
                *(json.dumps(trajectory(step, a)) for a in (0, 1)),
            ],
            "messages": [None, *(json.dumps([m]) for m in messages)],
            "tools": [None, *["[]"] * 2],
            "exp_name": [None, *["agentic"] * 2],
        }
        kept = clean["remove_nan_items"](
            {k: np.array(v, dtype=object) for k, v in data.items()}
        )
        kept["global_step"] = [step] * 2
        write(str(out), kept, [[name, "string"] for name in kept])


def areal(out: Path) -> None:
    @asynccontextmanager
    async def opened(path: str, mode: str) -> Any:
        with Path(path).open(mode) as file:
            yield self_of(write=lambda text: _now(file.write(text)))

    async def makedirs(path: str, exist_ok: bool) -> None:
        Path(path).mkdir(parents=True, exist_ok=exist_ok)

    files = self_of(open=opened, os=self_of(makedirs=makedirs))
    path = "areal/infra/workflow_executor.py"
    dump = code("inclusionAI/AReaL", path, "_dump_trajectory", aiofiles=files)[
        "_dump_trajectory"
    ]
    executor = self_of(
        _get_dump_dir=lambda is_eval: str(out / "rollout"),
        _get_tokenizer=lambda: self_of(
            decode=lambda ids, skip_special_tokens: "".join(map(chr, ids))
        ),
    )
    versions_of_task = {7: [[2, 2, 3, 3]], 8: [[3, 3, 3, 3]]}
    for task, versions in versions_of_task.items():
        ids = np.array([[81, 63, 52, 46], [81, 63, 53, 46]])
        asyncio.run(
            dump(
                executor,
                {
                    "input_ids": ids,
                    "rewards": np.array([1.0, task / 16]),
                    "loss_mask": np.array([[0, 0, 1, 1]] * 2),
                    "attention_mask": np.ones((2, 4), int),
                    "versions": np.array(versions),
                },
                task,
                False,
            )
        )


def open_instruct(out: Path) -> None:
    path = "open_instruct/rl_utils.py"
    save = code(
        "allenai/open-instruct",
        path,
        "_save_rollouts",
        "RolloutRecord",
        "_get_request_info_for_sample",
    )["_save_rollouts"]
    info = self_of(
        num_calls=[1, 0],
        timeouts=[0, 0],
        tool_errors=["no such file", ""],
        tool_outputs=["4", ""],
        tool_runtimes=[0.5, 0.0],
        tool_calleds=[True, False],
        tool_call_stats=[[], []],
        rollout_states=[{}, {}],
    )
    batch = self_of(
        queries=[[17, 10]] * 2,
        scores=[10.0, 0.0],
        datasets=["gsm8k"] * 2,
        ground_truths=[[19]] * 2,
    )
    result = self_of(
        responses=[[19, 2], [20, 21]],
        finish_reasons=["stop", "length"],
        request_info=info,
        logprobs=[[-0.5, -0.25], [-1.0, -2.0]],
    )
    advantages = np.array([1.0, -1.0])
    save(str(out), "run1", 3, batch, result, advantages, 2, 0)


RLLM = "rllm-org/rllm"


def rllm_logger(out: Path) -> Any:
    return code(RLLM, "rllm/utils/episode_logger.py", "EpisodeLogger")["EpisodeLogger"](
        str(out)
    )


def rllm_types() -> dict[str, Any]:
    """Return the models of an episode and its parts."""
    import pydantic

    names = "Step", "Trajectory", "Episode"
    around = {
        name: getattr(pydantic, name) for name in ("BaseModel", "ConfigDict", "Field")
    }
    made = code(
        RLLM, "rllm/types.py", *names, _DEFAULT_TRAJ_NAME="default_traj_name", **around
    )
    for name in names:
        made[name].model_rebuild(_types_namespace=made)
    return made


def rllm(out: Path) -> None:
    log = rllm_logger(out)
    user = {"role": "user", "content": "2+2?"}

    def step(chat: list[Any], reward: float, done: bool) -> Any:
        return self_of(
            observation="2+2?",
            thought="",
            action="4",
            reward=reward,
            done=done,
            model_response=chat[-1]["content"],
            chat_completions=chat,
            info={},
        )

    for attempt, reward in ((0, 1.0), (1, 0.0)):
        first = [user, {"role": "assistant", "content": "calc(2+2)"}]
        last = [
            *first,
            {"role": "tool", "content": "4"},
            {"role": "assistant", "content": "It is 4."},
        ]
        solver = self_of(
            name="solver",
            uid=f"s{attempt}",
            reward=reward,
            info={"timing": {"total_time": 1.5}},
            steps=[step(first, 0.0, False), step(last, reward, True)],
        )
        judged = [
            {"role": "user", "content": "Right?"},
            {"role": "assistant", "content": "yes"},
        ]
        judge = self_of(
            name="judge",
            uid=f"j{attempt}",
            reward=0.5,
            info={},
            steps=[step(judged, 0.5, True)],
        )
        log.log_episode(
            self_of(
                id=f"t1:{attempt}",
                session_id=None,
                task={"question": "2+2?", "answer": "4"},
                is_correct=reward > 0,
                termination_reason=self_of(value="env_done"),
                metrics={"solver_acc": reward},
                metadata={},
                info={},
                trajectories=[solver, judge],
            ),
            step=5,
        )
    store = code(
        RLLM,
        "rllm/eval/episode_store.py",
        "EvalEpisodeStore",
        "_sanitize",
        "_json_default",
    )
    run = store["EvalEpisodeStore"](out / "eval_results" / "gsm8k_m_20260102")
    run.write_meta({"dataset": "gsm8k", "model": "m"})
    types_of = rllm_types()
    for i, right in enumerate((True, False)):
        made = types_of["Step"](
            prompt_ids=[17, 10],
            response_ids=[19, 2 + i],
            logprobs=[-0.5, -0.25],
            weight_version=4,
            chat_completions=[
                user,
                {"role": "assistant", "content": "4" if right else "5"},
            ],
            model_response="4" if right else "5",
        )
        run.write(
            i,
            types_of["Episode"](
                id=f"t1:{i}",
                task={"question": "2+2?", "ground_truth": "4"},
                is_correct=right,
                trajectories=[types_of["Trajectory"](name="solver", steps=[made])],
            ),
        )


def nemo_rl(out: Path) -> None:
    import torch

    repo = "NVIDIA-NeMo/RL"
    packed = type("PackedTensor", (), {})
    batches = code(
        repo,
        "nemo_rl/distributed/batched_data_dict.py",
        "BatchedDataDict",
        "SlicedDataDict",
        torch=torch,
        DictT=typing.TypeVar("DictT"),
        PackedTensor=packed,
    )
    write = code(
        repo,
        "nemo_rl/utils/logger.py",
        "log_batched_dict_as_jsonl",
        torch=torch,
        BatchedDataDict=batches["BatchedDataDict"],
    )["log_batched_dict_as_jsonl"]
    logger = self_of(base_log_dir=str(out))

    def padded(*rows: list[float]) -> list[list[float]]:
        return [[*row, *[0.0] * (9 - len(row))] for row in rows]

    # Two responses to one prompt: one of a single turn, one that calls a tool in between.
    tokens = {
        "input_lengths": torch.tensor([5, 8]),
        "token_ids": [
            [1, 2, 3, 4, 5, 0, 0, 0, 0],
            [1, 2, 3, 6, 7, 8, 9, 4, 0],
        ],
        "token_loss_mask": padded(
            [0, 0, 0, 1, 1],
            [0, 0, 0, 1, 0, 0, 1, 1],
        ),
        "sample_loss_mask": torch.tensor([1.0, 1.0]),
        "advantages": padded([0.5] * 5, [-0.5] * 8),
        "generation_logprobs": padded(
            [0, 0, 0, -0.5, -0.25],
            [0, 0, 0, -1, 0, 0, -0.75, -0.125],
        ),
        "prev_logprobs": padded(
            [0, -3, -3, -0.75, -0.25],
            [0, -3, -3, -1, -3, -3, -0.5, -0.25],
        ),
    }
    content = [["2+2?", "4."], ["2+2?", "calc(2+2)", "4", "It is 5."]]
    agent = [{"type": "responses_api_agents", "name": "math_agent"}] * 2
    for step, rewards in ((1, [1.0, 0.0]), (2, [1.0, 0.5])):
        log = {"agent_ref": agent, "content": content, "rewards": rewards, **tokens}
        write(logger, log, f"train_data_step{step}.jsonl")
    # As algorithms/grpo_sync.py leaves it where no texts were kept.
    write(logger, {"rewards": [0.25, 0.75], **tokens}, "train_data_step3.jsonl")
    said = (
        ("user", "2+2?"),
        ("assistant", "calc(2+2)"),
        ("environment", "4"),
        ("assistant", "4."),
    )
    talk = [{"role": role, "content": text} for role, text in said]
    write(logger, {"content": [talk], "rewards": [1.0]}, "val_data_step2.jsonl")
    # As algorithms/distillation.py logs its training data.
    distilled = self_of(base_log_dir=f"{out}_distillation")
    for step in (1, 2):
        log = {"content": content, "input_lengths": [5, 8]}
        write(distilled, log, f"train_data_step{step}.jsonl")


async def _now(value: Any) -> Any:
    return value


if __name__ == "__main__":
    write(
        {
            "verl": verl,
            "agilerl": agilerl,
            "skyrl": skyrl,
            "swift": swift,
            "roll_agentic": roll,
            "areal": areal,
            "open_instruct": open_instruct,
            "rllm": rllm,
            "nemo_rl": nemo_rl,
        }
    )
