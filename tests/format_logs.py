"""Logs of formats, and forms of them, of which ``tests/data/frameworks`` has no dump.

``write_all`` lays them out as the frameworks do. Each log has STEPS steps of two prompts with
two responses; ``reward_of`` says what the reward of each is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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


WRITERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "rlboard": ("rlboard", rlboard), "verl": ("verl", verl),
    "prime_rl_tokens": ("prime_rl_tokens", prime_rl_tokens),
    "verifiers_old": ("verifiers", verifiers_old), "roll": ("roll", roll),
    "swift": ("swift", swift),
}  # fmt: skip
"""Folder name to the format's id and the function that writes its files into a folder."""


def write_all(root: Path) -> None:
    """Write every format's log into a folder of its own under ``root``."""
    for folder, (_, write) in WRITERS.items():
        (root / folder).mkdir(parents=True)
        write(root / folder)
