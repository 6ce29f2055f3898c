"""rLLM's episodes: ``episodes/{train,val}_step_{S}_epoch_{E}/episode_*.json``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from rlreport.formats.base import Match, Row, RowError, Where, has_keys, named, split_of
from rlreport.formats.messages import exchange, is_messages
from rlreport.formats.values import columns, dicts, number, step_of, text, total

_STEP = re.compile(r"step_(\d+)")
_KNOWN = frozenset({"training_step", "task", "task_hash", "termination_reason", "trajectories"})


class RLLM:
    """One episode a file; each trajectory in it is a response."""

    id = "rllm"
    description = "rLLM episodes: one JSON file an episode, trajectories of steps"
    files = ("episodes/*_step_*_epoch_*/episode_*.json",)
    container = "json"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim episodes: trajectories made of steps."""
        if not has_keys(objects, "trajectories"):
            return None
        if not has_keys(objects, "task_hash") and not has_keys(objects, "training_step"):
            return None
        return Match(95, named(("trajectories", "task")))

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield a row for each trajectory of the episode."""
        shared = columns(obj, _KNOWN)
        shared["step"] = step_of(obj.get("training_step"), where, _STEP)
        if isinstance(obj.get("termination_reason"), str):
            shared["finish_reason"] = obj["termination_reason"]
        truth = _answer(obj.get("task"))
        if truth is not None:
            shared["ground_truth"] = text(truth)
        trajectories = dicts(obj.get("trajectories"))
        if not trajectories:
            raise RowError("an episode without trajectories")
        names = {text(trajectory.get("name")) for trajectory in trajectories}
        for trajectory in trajectories:
            row = {**shared, **_trajectory(trajectory, obj.get("task"))}
            if obj.get("task_hash") is not None:
                # A solver and a judge of one task are not each other's group.
                role = f":{text(trajectory.get('name'))}" if len(names) > 1 else ""
                row["group_id"] = text(obj["task_hash"]) + role
            yield row

    def split(self, name: str) -> str | None:
        """Return the split that the path names."""
        return split_of(name)


def _trajectory(trajectory: Row, task: Any) -> Row:
    steps = dicts(trajectory.get("steps"))
    chat = next((s["chat_completions"] for s in reversed(steps) if _has_chat(s)), None)
    if chat is not None:
        prompt, response, turns = exchange(chat, _written(chat))
    else:
        prompt = text(steps[0].get("observation")) if steps else text(task)
        replies = [text(step.get("model_response") or step.get("action")) for step in steps]
        response, turns = "\n".join(replies), []
    reward = trajectory.get("reward")
    if reward is None:
        reward = total(number(step.get("reward")) for step in steps)
    row: Row = {"prompt": prompt, "response": response, "reward": number(reward)}
    if turns:
        row["prompt_turns"] = turns
    if isinstance(trajectory.get("name"), str):
        row["trajectory"] = trajectory["name"]
    if len(steps) > 1:
        row["turns_taken"] = len(steps)
    return row


def _has_chat(step: Row) -> bool:
    return is_messages(step.get("chat_completions"))


def _written(chat: Sequence[Any]) -> list[bool]:
    """Return which messages the policy wrote: rLLM's chats hold the whole of a rollout."""
    return [message.get("role") == "assistant" for message in chat]


def _answer(task: Any) -> Any:
    if not isinstance(task, dict):
        return None
    return task.get("ground_truth", task.get("answer"))
