"""Logs of every framework, made from one example row each: several steps, groups and quirks.

``write_all`` lays them out as the frameworks do. Each log has STEPS steps of two prompts with
two responses; ``reward_of`` says what the reward of each is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

STEPS = (1, 2, 3)
QUESTIONS = ("2+2?", "3+4?")
ANSWERS = ("4", "7")

Row = dict[str, Any]


def samples() -> Iterator[tuple[int, int, int]]:
    """Yield (step, question, attempt)."""
    for step in STEPS:
        for question in range(2):
            for attempt in range(2):
                yield step, question, attempt


def reward_of(step: int, question: int, attempt: int) -> float:
    return round(0.1 * step + question + 0.25 * attempt, 4)


def answer(question: int, attempt: int) -> str:
    return ANSWERS[question] if attempt == 0 else "5"


def lines(path: Path, objects: list[Row], **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(o, ensure_ascii=False, **options) + "\n" for o in objects))


def by_step(make: Callable[[int, int, int], Row]) -> dict[int, list[Row]]:
    steps: dict[int, list[Row]] = {step: [] for step in STEPS}
    for step, question, attempt in samples():
        steps[step].append(make(step, question, attempt))
    return steps


def chatml(question: int) -> str:
    return f"<|im_start|>user\n{QUESTIONS[question]}<|im_end|>\n<|im_start|>assistant\n"


def rlboard(root: Path) -> None:
    def row(step: int, q: int, a: int) -> Row:
        return {
            "prompt": f"<PAD>Q: {QUESTIONS[q]}", "response": f"{answer(q, a)}.<EOD><PAD>",
            "response_tokens": [answer(q, a), ".", "<EOD>", "<PAD>"],
            "logprobs": [-0.11, -0.52, -0.01], "ref_logprobs": [-0.2, -0.5, -0.02],
            "values": [0.4, 0.6, 0.9], "token_rewards": [-0.001, 0.0002, 1.0],
            "reward": reward_of(step, q, a), "step": step, "ref_response": "Four.",
            "ref_reward": 0.5, "ground_truth": ANSWERS[q],
        }  # fmt: skip

    lines(root / "rank_0.jsonl", [row(*sample) for sample in samples()])


def trl(root: Path) -> None:
    def row(step: int, q: int, a: int) -> Row:
        return {
            "step": step, "prompt": f"user\n{QUESTIONS[q]}\nassistant\n",
            "completion": answer(q, a), "accuracy_reward": reward_of(step, q, a) - 0.05,
            "format_reward": None if q else 0.05, "my_extra": "4", "advantage": 0.7071,
        }  # fmt: skip

    def right(step: int, q: int, a: int) -> Row:
        made = row(step, q, a)
        made["accuracy_reward"] = reward_of(step, q, a) - (made["format_reward"] or 0.0)
        return made

    for step, rows in by_step(right).items():
        path = root / "completions" / f"completions_{step:05d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), path)


def verl(root: Path) -> None:
    def row(step: int, q: int, a: int) -> Row:
        return {
            "input": f"user\n{QUESTIONS[q]}\nassistant\n", "output": answer(q, a),
            "gts": ANSWERS[q], "score": reward_of(step, q, a), "step": step, "acc": a == 0,
            "pred": answer(q, a), "overlong_reward": 0.0, "overlong": "False",
            "request_id": "0a1b",
        }  # fmt: skip

    for step, rows in by_step(row).items():
        lines(root / "rollouts" / f"{step}.jsonl", rows)
        lines(root / "validation" / f"{step}.jsonl", [{**r, "reward": r["score"]} for r in rows])


def verl_v1(root: Path) -> None:
    def row(step: int, q: int, a: int) -> Row:
        return {
            "input": f"user\n{QUESTIONS[q]}\nassistant\n", "output": answer(q, a),
            "gts": ANSWERS[q], "score": reward_of(step, q, a), "step": step, "uid": f"3f{q}_{a}_0",
        }  # fmt: skip

    for step, rows in by_step(row).items():
        lines(root / f"{step}.jsonl", rows)


def nemo_rl(root: Path) -> None:
    def train(step: int, q: int, a: int) -> Row:
        return {
            "content": [[QUESTIONS[q], answer(q, a)]], "rewards": [99.0],
            "filtered_rewards": [reward_of(step, q, a)], "input_lengths": [5],
            "token_ids": [[17, 10, 18, 19, 20, 0, 0]], "token_loss_mask": [[0, 0, 0, 1, 1, 0, 0]],
            "sample_loss_mask": [1.0], "advantages": [[0.7, 0.7, 0.7, 0.7, 0.6, 0.0, 0.0]],
            "generation_logprobs": [[0.0, 0.0, 0.0, -0.11, -0.2, 0.0, 0.0]],
            "prev_logprobs": [[0.0, -1.2, -3.1, -0.12, -0.21, 0.0, 0.0]], "idx": 2 * q + a,
        }  # fmt: skip

    def val(step: int, q: int, a: int) -> Row:
        messages = [
            {"role": "user", "content": QUESTIONS[q]},
            {"role": "assistant", "content": answer(q, a)},
        ]
        return {"content": [messages], "rewards": [reward_of(step, q, a)], "idx": 2 * q + a}

    for make, kind in ((train, "train"), (val, "val")):
        for step, rows in by_step(make).items():
            lines(root / f"{kind}_data_step{step}.jsonl", rows)


def skyrl(root: Path) -> None:
    def row(step: int, q: int, a: int) -> Row:
        return {
            "input_prompt": chatml(q), "output_response": f"{answer(q, a)}<|im_end|>",
            "score": [0.0, reward_of(step, q, a)], "stop_reason": "stop", "env_class": "gsm8k",
            "env_extras": {"reward_spec": {"ground_truth": ANSWERS[q]}}, "data_source": "gsm8k",
        }  # fmt: skip

    for step, rows in by_step(row).items():
        folder = root / f"global_step_{step}_evals"
        lines(folder / "gsm8k.jsonl", rows)
        lines(folder / "aggregated_results.jsonl", [{"eval/gsm8k/avg_score": 0.5}])


def prime_rl_tokens(root: Path) -> None:
    def row(step: int, q: int, a: int) -> Row:
        return {
            "schema_version": 1, "step": step, "rank": 0, "micro_step": 0,
            "micro_sequence_idx": 0, "export_sequence_idx": 2 * q + a, "env_name": "gsm8k",
            "token_ids": [17 + q, 19 + a, 20], "position_ids": [0, 1, 2],
            "loss_mask": [False, True, True], "advantages": [0.0, 0.7, 0.7],
            "inference_logprobs": [0.0, -0.11, -0.3], "trainer_logprobs": [-1.2, -0.12, -0.3],
            "entropy": [1.0, 0.3, 0.5], "mismatch_kl": [0.0, 0.0001, 0.0003],
            "log_importance_ratio": [0.0, -0.01, 0.0], "importance_ratio": [1.0, 0.99, 1.0],
            "prob_delta": [0.0, -0.009, 0.0], "is_masked": [False, False, False],
        }  # fmt: skip

    for step, rows in by_step(row).items():
        lines(root / "token_exports" / f"step_{step}" / "rank_0.jsonl", rows)


def verifiers(root: Path) -> None:
    def row(step: int, q: int, a: int) -> Row:
        question = {
            "message": {"role": "user", "content": QUESTIONS[q]}, "sampled": False,
            "token_ids": [17, 10], "mask": [False, False], "logprobs": [],
        }  # fmt: skip
        reply = {
            "parent": 0, "message": {"role": "assistant", "content": answer(q, a)},
            "sampled": True, "token_ids": [18, 19], "mask": [False, True], "logprobs": [-0.11],
            "advantages": [0.7],
        }  # fmt: skip
        trace = {
            "version": 1, "id": "t1", "nodes": [question, reply], "metrics": {"turns": 1.0},
            "rewards": {
                "correct": {"score": 2 * reward_of(step, q, a), "weight": 0.5},
                "style": {"score": 3.0, "weight": 0.0},
            },
            "info": {"advantage": 0.7}, "is_completed": True, "ok": True, "stop_condition": "done",
        }  # fmt: skip
        work = {"type": "train", "step": step, "policy": {"start": step - 1, "end": step}}
        return {
            "id": f"e{step}{q}{a}", "env": {"id": "gsm8k", "name": "gsm8k"},
            "task": {"type": "Task", "data": {"question": QUESTIONS[q], "answer": ANSWERS[q]}},
            "group": {"id": f"g{q}"}, "run": {"type": "train", "id": "r1", "work": work},
            "ok": True, "errors": [], "traces": [trace],
        }  # fmt: skip

    lines(root / "traces.jsonl", [row(*sample) for sample in samples()])


def verifiers_old(root: Path) -> None:
    def row(step: int, q: int, a: int) -> Row:
        return {
            "example_id": q, "prompt": [{"role": "user", "content": QUESTIONS[q]}],
            "completion": [{"role": "assistant", "content": answer(q, a)}], "answer": ANSWERS[q],
            "reward": reward_of(step, q, a), "error": None, "timing": {}, "is_completed": True,
            "is_truncated": a == 1, "stop_condition": "done", "metrics": {"correct": 1.0},
            "correct": 1.0,
        }  # fmt: skip

    lines(root / "results.jsonl", [row(*sample) for sample in samples() if sample[0] == 1])
    (root / "metadata.json").write_text(json.dumps({"env": "gsm8k", "num_examples": 2}))


def areal(root: Path) -> None:
    def row(step: int, q: int, a: int) -> Row:
        return {
            "task_id": q, "sample_idx": a, "seqlen": 4, "prompt_len": 3, "head_version": step - 1,
            "tail_version": step, "version_rle": [[step, 1]], "reward": reward_of(step, q, a),
            "prompt": chatml(q), "completion": f"{answer(q, a)}<|im_end|>", "original_reward": 1.0,
        }  # fmt: skip

    for step, rows in by_step(row).items():
        for q in range(2):
            lines(root / "rollout" / str(step) / f"{q}.jsonl", rows[2 * q : 2 * q + 2])


def roll(root: Path) -> None:
    for step in STEPS:
        own = [sample for sample in samples() if sample[0] == step]
        columns = {
            "global_step": [step] * len(own), "id": [f"q{q}" for _, q, _ in own],
            "prompt": [QUESTIONS[q] for _, q, _ in own],
            "ground_truth": [ANSWERS[q] for _, q, _ in own], "tag": ["math"] * len(own),
            "domain": ["math_rule"] * len(own), "responses": [answer(q, a) for _, q, a in own],
            "scores": [reward_of(*sample) for sample in own], "sampling_params": ["{}"] * len(own),
        }  # fmt: skip
        lines(root / f"rollout_dump_data.step_{step}.jsonl", [columns])


def swift(root: Path) -> None:
    events = []
    for step in STEPS:
        own = [sample for sample in samples() if sample[0] == step]
        columns = {
            "step": [str(step)] * len(own), "prompt": [chatml(q) for _, q, _ in own],
            "completion": [answer(q, a) for _, q, a in own],
            "MathAccuracy": [reward_of(*sample) - 0.05 for sample in own],
            "Format": [0.05] * len(own), "advantages": [0.7] * len(own),
            "entropy": [0.3] * len(own), "difficulty": [2.5] * len(own),
        }  # fmt: skip
        events.append(columns)
    lines(root / "completions.jsonl", events)


def open_instruct(root: Path) -> None:
    def row(step: int, q: int, a: int) -> Row:
        return {
            "step": step, "sample_idx": 2 * q + a, "prompt_idx": q, "prompt_tokens": [17, 10 + q],
            "response_tokens": [19 + a, 2], "reward": reward_of(step, q, a), "advantage": 0.7,
            "finish_reason": "stop", "dataset": "gsm8k", "ground_truth": [19],
            "request_info": None, "logprobs": [-0.11, -0.01],
        }  # fmt: skip

    lines(root / "run1_rollouts_000000.jsonl", [row(*sample) for sample in samples()])


def rllm(root: Path) -> None:
    for step, q, a in samples():
        chat = [
            {"role": "user", "content": QUESTIONS[q]},
            {"role": "assistant", "content": answer(q, a)},
        ]
        last = {
            "observation": QUESTIONS[q], "action": answer(q, a), "done": True,
            "reward": reward_of(step, q, a), "model_response": answer(q, a),
            "chat_completions": chat,
        }  # fmt: skip
        trajectory = {"name": "solver", "uid": "u1", "reward": last["reward"], "steps": [last]}
        episode = {
            "training_step": step, "epoch": 0, "episode_id": f"task{q}:{a}",
            "task": {"question": QUESTIONS[q], "answer": ANSWERS[q]}, "task_hash": f"beef{q}",
            "is_correct": a == 0, "termination_reason": "env_done", "trajectories": [trajectory],
        }  # fmt: skip
        path = root / "episodes" / f"train_step_{step}_epoch_0" / f"episode_{q}_{a}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(episode, indent=2))


def art(root: Path) -> None:
    def row(step: int, q: int, a: int) -> Row:
        return {
            "group_index": q, "reward": reward_of(step, q, a), "metrics": '{"duration": 1.2}',
            "metadata": '{"id": 3}', "messages": [
                {"role": "user", "content": QUESTIONS[q], "trainable": False},
                {"role": "assistant", "content": answer(q, a), "trainable": True},
            ],
        }  # fmt: skip

    for step, rows in by_step(row).items():
        path = root / "trajectories" / "train" / f"{step:04d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), path)


WRITERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "rlboard": ("rlboard", rlboard), "trl": ("trl", trl), "verl": ("verl", verl),
    "verl_v1": ("verl", verl_v1), "nemo_rl": ("nemo_rl", nemo_rl), "skyrl": ("skyrl", skyrl),
    "prime_rl_tokens": ("prime_rl_tokens", prime_rl_tokens), "verifiers": ("verifiers", verifiers),
    "verifiers_old": ("verifiers", verifiers_old), "areal": ("areal", areal),
    "roll": ("roll", roll), "swift": ("swift", swift),
    "open_instruct": ("open_instruct", open_instruct), "rllm": ("rllm", rllm), "art": ("art", art),
}  # fmt: skip
"""Folder name to the format's id and the function that writes its files into a folder."""


def write_all(root: Path) -> None:
    """Write every format's log into a folder of its own under ``root``."""
    for folder, (_, write) in WRITERS.items():
        (root / folder).mkdir(parents=True)
        write(root / folder)
