"""The same rollouts as the logs of several frameworks: their files, keys and form of turns."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from benchmarks.accuracy.family import Random, Row

Files = dict[str, list[Row]]


def own(random: Random, rows: Sequence[Row]) -> Files:
    """Return rows in the native format, in one file or in one for each of two ranks."""
    if random.random() < 0.5:
        return {"rollouts.jsonl": [*rows]}
    ranks: Files = {"rank_0.jsonl": [], "rank_1.jsonl": []}
    for row in rows:
        # A group stays on one rank, as trainers keep it.
        ranks[f"rank_{row['group_id'] % 2}.jsonl"].append(row)
    return ranks


def verl(random: Random, rows: Sequence[Row]) -> Files:
    """Return rows as verl logs them: a file a step, and conversations as one text."""
    files: Files = {}
    for row in rows:
        output = row["response"]
        if "turns" in row:
            output = conversation(row["turns"])
        entry = {
            "input": f"user\n{row['prompt']}\nassistant\n",
            "output": output,
            "gts": row.get("ground_truth"),
            "score": row["reward"],
            "step": row["step"],
        }
        files.setdefault(f"{row['step']}.jsonl", []).append(entry)
    return files


def trl(random: Random, rows: Sequence[Row]) -> Files:
    """Return rows as TRL logs them: messages, a column of the reward function, and advantages."""
    of_group: dict[tuple[int, int], list[float]] = {}
    for row in rows:
        of_group.setdefault((row["step"], row["group_id"]), []).append(row["reward"])
    name = str(random.choice(["accuracy_reward", "reward_model_reward"]))
    entries = []
    for row in rows:
        rewards = np.array(of_group[row["step"], row["group_id"]])
        advantage = (row["reward"] - rewards.mean()) / (rewards.std() + 1e-4)
        entries.append(
            {
                "step": row["step"],
                "prompt": [{"role": "user", "content": row["prompt"]}],
                "completion": messages(row),
                name: row["reward"],
                "advantage": float(advantage),
            }
        )
    return {"completions.jsonl": entries}


def verifiers(random: Random, rows: Sequence[Row]) -> Files:
    """Return rows as verifiers logs them: messages with calls, and why a rollout stopped."""
    entries = []
    for row in rows:
        entry: Row = {
            "example_id": f"{row['step']}-{row['group_id']}",
            "prompt": [{"role": "user", "content": row["prompt"]}],
            "completion": messages(row),
            "reward": row["reward"],
            "step": row["step"],
        }
        if "finish_reason" in row:
            entry["stop_condition"] = row["finish_reason"]
        if row.get("errors"):
            entry["error"] = {"error": "SandboxError", "message": row["errors"][0]}
        entries.append(entry)
    return {"results.jsonl": entries}


def messages(row: Row) -> list[Row]:
    """Return a response as chat messages, with the calls of tools as OpenAI has them."""
    turns = row.get("turns")
    if turns is None:
        return [{"role": "assistant", "content": row["response"]}]
    found: list[Row] = []
    for number, turn in enumerate(turns):
        message = {"role": turn["role"], "content": turn["text"]}
        if turn.get("calls"):
            message["tool_calls"] = [
                {"id": f"call_{number}", "type": "function", "function": call}
                for call in turn["calls"]
            ]
        if turn["role"] == "tool":
            message["tool_call_id"] = f"call_{number - 1}"
        found.append(message)
    return found


def conversation(turns: Sequence[Row]) -> str:
    """Return turns as one text in Qwen's template, decoded without its special tokens."""
    parts = []
    for turn in turns:
        if turn["role"] == "tool":
            answer = turn["text"]
            parts.append(f"user\n<tool_response>\n{answer}\n</tool_response>")
            continue
        text = turn["text"]
        for call in turn.get("calls", ()):
            given = f'"name": {json.dumps(call["name"])}, "arguments": '
            text += f"\n<tool_call>\n{{{given}{call['arguments']}}}\n</tool_call>"
        parts.append(f"{turn['role']}\n{text}")
    # The template has written the first role already.
    return "\n".join(parts).removeprefix("assistant\n")
