"""Runs of an agent with two tools: one fault each, all of them together, and a healthy twin.

Every third rollout has a second row, of a retry that was not trained. From the step that a fault
names on, its share ramps up over eight steps; a rollout that it meets is seldom solved.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .hidden_base import healthy, planted
from .write import write_run

Rng = np.random.Generator
Row = dict[str, Any]

STEPS = 60
PROMPTS = 6
EACH = 6
MOST_TURNS = 8
RAMP = 8
# Fault -> (step at which it begins, share of rollouts, turns or calls that it reaches)
FAULTS = {
    "turn_limit": (34, 0.8),
    "unparsed_calls": (24, 0.45),
    "empty_results": (30, 0.9),
    "tool_errors": (28, 0.9),
    "late_calls": (32, 0.8),
    "markup_turns": (38, 0.6),
}
# Of all faults together; most rollouts that reach the turn limit give no answer to call tools after
SEEN_TOGETHER = [name for name in FAULTS if name != "late_calls"]
QUESTIONS = (
    "从上海到北京的火车多少钱", "Who wrote the paper on PPO?", "东京今天的天气怎么样",
    "How many parameters has the model?", "Which city is larger?", "最新的版本是哪一个",
)  # fmt: skip


def runs(seed: int) -> Iterator[tuple[str, list[Row], Row]]:
    """Yield (name, rows, truth) of each run."""
    twin = healthy(*FAULTS)
    yield "healthy/agent", list(_rows(np.random.default_rng(seed), {})), twin
    for name, (start, _) in FAULTS.items():
        rows = list(_rows(np.random.default_rng(seed + 1), {name: FAULTS[name]}))
        yield f"planted/{name}", rows, planted(name, [start - 1, start + RAMP + 3])
    rows = list(_rows(np.random.default_rng(seed + 2), FAULTS))
    truth = planted("unparsed_calls", [23, 35], expected=SEEN_TOGETHER, lead=SEEN_TOGETHER)
    yield "planted/all", rows, truth


def write(out: Path, seed: int) -> None:
    """Write each run with its truth into a folder."""
    for name, rows, truth in runs(seed):
        write_run(out / name, rows, truth)


def _rows(rng: Rng, faults: dict[str, tuple[int, float]]) -> Iterator[Row]:
    for step in range(STEPS):
        shares = {
            name: share * float(np.clip((step - start) / RAMP, 0, 1))
            for name, (start, share) in faults.items()
        }
        for prompt in range(PROMPTS):
            for member in range(EACH):
                about = {"step": step, "prompt": QUESTIONS[prompt], "group_id": prompt,
                         "rollout_id": f"{step}-{prompt}-{member}"}  # fmt: skip
                if member % 3 == 0:  # of another length, and never solved
                    yield {**about, **_rollout(rng, step, {}, tries=6), "branch": "retry",
                           "reward": 0.0}  # fmt: skip
                yield {**about, **_rollout(rng, step, shares)}


def _rollout(rng: Rng, step: int, shares: dict[str, float], tries: int = 0) -> Row:
    met = {name: bool(rng.random() < share) for name, share in shares.items()}
    turns: list[Row] = []
    broken = 0
    wanted = tries or int(rng.integers(1, 4))
    for _ in range(MOST_TURNS - 1 if met.get("turn_limit") else wanted):
        tool = ("search", "python")[int(rng.random() < 0.5)]
        broken += _call(rng, turns, tool, shares)
    answer = f"The answer is {rng.integers(100)}."
    if met.get("turn_limit"):
        answer = "I keep looking."
    elif met.get("late_calls"):
        turns.append(_says("<answer>42</answer> I check once more.", "search", '{"query": "42"}'))
        turns.append({"role": "tool", "tool": "search", "text": "42 is a number"})
    turns.append(_says(answer))
    solved = rng.random() < 0.25 + 0.4 * min(1.0, step / 40)
    spoiled = broken or any(met.get(name) for name in ("turn_limit", "late_calls"))
    return {
        "reward": float(solved and (not spoiled or rng.random() < 0.3)),
        "response": "\n".join(turn["text"] for turn in turns if turn["role"] == "assistant"),
        "turns": turns,
        "finish_reason": "max_turns" if met.get("turn_limit") else "stop",
    }


def _call(rng: Rng, turns: list[Row], tool: str, shares: dict[str, float]) -> bool:
    """Add a tool call and its answer to ``turns``; return whether the call failed."""
    number = int(rng.integers(1000))
    given = (
        f'{{"query": "火车 {number}"}}' if tool == "search" else f'{{"code": "print({number})"}}'
    )
    if rng.random() < shares.get("markup_turns", 0):
        turns.append(_says(f"I look it up. <function={tool}>{given}"))
        turns.append({"role": "user", "text": "Continue."})
        return True
    unparsed = bool(rng.random() < shares.get("unparsed_calls", 0))
    turns.append(_says("Let me look.", tool, given[:-3] if unparsed else given))
    answer = f"{tool} result: {number}"
    if unparsed:
        answer = "no call was read"
    elif tool == "search" and rng.random() < shares.get("empty_results", 0):
        answer = ""
    elif tool == "python" and rng.random() < shares.get("tool_errors", 0):
        answer = "TimeoutError: the sandbox timed out after 30 s"
    turns.append({"role": "tool", "tool": tool, "text": answer})
    return not answer.startswith(tool)


def _says(text: str, tool: str = "", arguments: str = "") -> Row:
    calls = [{"name": tool, "arguments": arguments}] if tool else []
    return {"role": "assistant", "text": text, **({"calls": calls} if calls else {})}
