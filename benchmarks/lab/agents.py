"""Runs of an agent with two tools: one fault each, all of them together, and a healthy twin.

Every third rollout has a second row, of a retry that was not trained. From the step that a fault
names on, its share ramps up over eight steps; a rollout that it meets is seldom solved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .hidden_base import healthy, planted
from .simulate import Schedule, ramp
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


_LEARNS = ramp(0, 40, 0.65, 0.25)


@dataclass(frozen=True)
class Agent:
    """A run of an agent with two tools, ``search`` and ``python``.

    Attributes:
        steps, prompts, each: steps, prompts of a step, rollouts of a prompt.
        most_turns: a rollout that reaches the turn limit has one call less.
        solved: chance of a right answer by step.
        faults: by name, the share of rollouts, turns or calls that it reaches by step.
        retries: whether every third rollout has a second row, of a retry that was not trained.
        questions: the prompts, in turn.
        looks, gives_up, answers, finals, markups, errors, nothing, queries: what the agent says and
            gets, one of these at random; with one alone, no random number is drawn. ``finals`` and
            ``answers`` have a place for a number, ``markups`` for the tool and its arguments.
    """

    steps: int = STEPS
    prompts: int = PROMPTS
    each: int = EACH
    most_turns: int = MOST_TURNS
    solved: Schedule = _LEARNS
    faults: Mapping[str, Schedule] = field(default_factory=dict)
    retries: bool = True
    questions: Sequence[str] = QUESTIONS
    looks: Sequence[str] = ("Let me look.",)
    gives_up: Sequence[str] = ("I keep looking.",)
    answers: Sequence[str] = ("The answer is {}.",)
    finals: Sequence[str] = ("<answer>{}</answer> I check once more.",)
    markups: Sequence[str] = ("I look it up. <function={tool}>{given}",)
    errors: Sequence[str] = ("TimeoutError: the sandbox timed out after 30 s",)
    nothing: Sequence[str] = ("",)
    queries: Sequence[str] = ("火车",)


def ramps(names: Sequence[str] = tuple(FAULTS)) -> dict[str, Schedule]:
    """Return the share of each fault by step."""
    starts = {name: FAULTS[name] for name in names}
    return {
        name: ramp(start, start + RAMP, share)
        for name, (start, share) in starts.items()
    }


def runs(seed: int) -> Iterator[tuple[str, list[Row], Row]]:
    """Yield (name, rows, truth) of each run."""
    twin = healthy(*FAULTS)
    yield "healthy/agent", list(rollouts(np.random.default_rng(seed), Agent())), twin
    for name, (start, _) in FAULTS.items():
        agent = Agent(faults=ramps([name]))
        rows = list(rollouts(np.random.default_rng(seed + 1), agent))
        yield f"planted/{name}", rows, planted(name, [start - 1, start + RAMP + 3])
    rows = list(rollouts(np.random.default_rng(seed + 2), Agent(faults=ramps())))
    truth = planted(
        "unparsed_calls", [23, 35], expected=SEEN_TOGETHER, lead=SEEN_TOGETHER
    )
    yield "planted/all", rows, truth


def write(out: Path, seed: int) -> None:
    """Write each run with its truth into a folder."""
    for name, rows, truth in runs(seed):
        write_run(out / name, rows, truth)


def rollouts(rng: Rng, agent: Agent) -> Iterator[Row]:
    """Yield the rows of a run, in the native log format."""
    for step in range(agent.steps):
        shares = {name: share(step) for name, share in agent.faults.items()}
        for prompt in range(agent.prompts):
            number = step * agent.prompts + prompt
            question = agent.questions[number % len(agent.questions)]
            for member in range(agent.each):
                about = {"step": step, "prompt": question, "group_id": prompt,
                         "rollout_id": f"{step}-{prompt}-{member}"}  # fmt: skip
                if agent.retries and member % 3 == 0:  # longer, and never solved
                    retry = _rollout(rng, agent, step, {}, tries=6)
                    yield {**about, **retry, "branch": "retry", "reward": 0.0}
                yield {**about, **_rollout(rng, agent, step, shares)}


def _rollout(
    rng: Rng, agent: Agent, step: int, shares: Mapping[str, float], tries: int = 0
) -> Row:
    met = {name: bool(rng.random() < share) for name, share in shares.items()}
    turns: list[Row] = []
    broken = 0
    wanted = tries or int(rng.integers(1, 4))
    for _ in range(agent.most_turns - 1 if met.get("turn_limit") else wanted):
        tool = ("search", "python")[int(rng.random() < 0.5)]
        broken += _call(rng, agent, turns, tool, shares)
    number = rng.integers(100)
    answer = _pick(rng, agent.answers).format(number)
    if met.get("turn_limit"):
        answer = _pick(rng, agent.gives_up)
    elif met.get("late_calls"):
        final = _pick(rng, agent.finals).format(42)
        turns.append(_says(final, "search", '{"query": "42"}'))
        turns.append({"role": "tool", "tool": "search", "text": "42 is a number"})
    turns.append(_says(answer))
    solved = rng.random() < agent.solved(step)
    spoiled = broken or any(met.get(name) for name in ("turn_limit", "late_calls"))
    return {
        "reward": float(solved and (not spoiled or rng.random() < 0.3)),
        "response": "\n".join(
            turn["text"] for turn in turns if turn["role"] == "assistant"
        ),
        "turns": turns,
        "finish_reason": "max_turns" if met.get("turn_limit") else "stop",
    }


def _call(
    rng: Rng, agent: Agent, turns: list[Row], tool: str, shares: Mapping[str, float]
) -> bool:
    """Add a tool call and its answer to ``turns``; return whether the call failed."""
    number = int(rng.integers(1000))
    given = (
        f'{{"query": "{_pick(rng, agent.queries)} {number}"}}'
        if tool == "search"
        else f'{{"code": "print({number})"}}'
    )
    if rng.random() < shares.get("markup_turns", 0):
        markup = _pick(rng, agent.markups)
        turns.append(_says(markup.format(tool=tool, given=given)))
        turns.append({"role": "user", "text": "Continue."})
        return True
    unparsed = bool(rng.random() < shares.get("unparsed_calls", 0))
    look = _pick(rng, agent.looks)
    turns.append(_says(look, tool, given[:-3] if unparsed else given))
    answer = f"{tool} result: {number}"
    if unparsed:
        answer = "no call was read"
    elif tool == "search" and rng.random() < shares.get("empty_results", 0):
        answer = _pick(rng, agent.nothing)
    elif tool == "python" and rng.random() < shares.get("tool_errors", 0):
        answer = _pick(rng, agent.errors)
    turns.append({"role": "tool", "tool": tool, "text": answer})
    return not answer.startswith(tool)


def _pick(rng: Rng, options: Sequence[str]) -> str:
    return options[int(rng.integers(len(options)))] if len(options) > 1 else options[0]


def _says(text: str, tool: str = "", arguments: str = "") -> Row:
    calls = [{"name": tool, "arguments": arguments}] if tool else []
    return {"role": "assistant", "text": text, **({"calls": calls} if calls else {})}
