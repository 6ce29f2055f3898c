"""rLLM's episodes: of training (``episodes/…_step_…/``) and of ``rllm eval`` (``eval_results``)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from rlreport.formats.base import Match, Row, RowError, Where, each, has_keys, named, split_of
from rlreport.formats.messages import Exchange, Turn, is_messages, said, turn_of
from rlreport.formats.steps import tokens_of_steps
from rlreport.formats.values import (
    columns,
    dicts,
    integer,
    mapping,
    number,
    step_of,
    text,
    total,
)
from rlreport.text.chat import message_text
from rlreport.text.messages import message

_STEP = re.compile(r"step_(\d+)")
_KNOWN = frozenset(
    {"training_step", "task", "task_hash", "termination_reason", "trajectories", "id"}
    | {"episode_id", "session_id"}
)
_NO_POLICY = re.compile(r"judge|grader|verifier|critic|reviewer|simulat", re.IGNORECASE)
"""Names of seats that speak beside the policy; nothing in an episode says who is trained."""


class RLLM:
    """One episode a file; each trajectory in it is a response.

    Beside another trajectory, one whose name says that it judges is no response of the policy.
    """

    id = "rllm"
    alone = True
    description = "rLLM episodes of training and of `rllm eval`: one JSON file an episode"
    files = ("episodes/*_step_*_epoch_*/episode_*.json", "eval_results/*/episodes/episode_*.json")
    container = "json"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim episodes: trajectories made of steps."""
        if not has_keys(objects, "trajectories"):
            return None
        if not any(has_keys(objects, key) for key in ("task_hash", "training_step", "eval_idx")):
            return None
        return Match(95, named(("trajectories", "task")))

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield a row for each trajectory of the episode; without a step it is an evaluation."""
        evaluated = "eval_idx" in obj
        task = obj.get("task")
        shared = columns(obj, _KNOWN)
        shared.update(columns(mapping(obj.get("metrics")), ("step", "reward")))
        shared["step"] = 0 if evaluated else step_of(obj.get("training_step"), where, _STEP)
        if evaluated:
            shared["split"] = "eval"
        if isinstance(obj.get("termination_reason"), str):
            shared["finish_reason"] = obj["termination_reason"]
        truth = _answer(task)
        if truth is not None:
            shared["ground_truth"] = text(truth)
        trajectories = dicts(obj.get("trajectories"))
        if not trajectories:
            yield {**shared, **_failed(obj)}
            return
        names = [text(trajectory.get("name")) for trajectory in trajectories]
        judged = [bool(_NO_POLICY.search(name)) for name in names]
        group = _group(obj, task)

        def row_of(entry: tuple[Row, str, bool]) -> Row:
            trajectory, name, judge = entry
            row = {**shared, **_trajectory(trajectory, task)}
            seconds = mapping(trajectory.get("timing") or obj.get("timing")).get("total_time")
            if isinstance(seconds, int | float):
                row["seconds"] = float(seconds)
            if evaluated and trajectory.get("reward") is None:
                row["reward"] = number(obj.get("is_correct"))
            if name:
                row["agent"] = name
            if not all(judged):
                row["trainable"] = not judge
            if group:
                # A solver and a judge of one task are not each other's group.
                row["group_id"] = f"{group}:{name}" if len(set(names)) > 1 else group
            return row

        yield from each(zip(trajectories, names, judged, strict=True), row_of)

    def split(self, name: str) -> str | None:
        """Return the split that the path names."""
        return split_of(name)


def _failed(obj: Row) -> Row:
    """Return what is known of a rollout that failed before the policy said anything."""
    reason = obj.get("termination_reason")
    if reason is None:
        raise RowError(message("an episode without trajectories"))
    prompt = text(mapping(obj.get("task")).get("question", obj.get("task")))
    return {
        "prompt": prompt, "response": "", "reward": math.nan, "trainable": False,
        "errors": [text(reason)],
    }  # fmt: skip


def _group(obj: Row, task: Any) -> str:
    if obj.get("task_hash") is not None:
        return text(obj["task_hash"])
    identity = mapping(task).get("id")
    if identity is None and isinstance(obj.get("id"), str):
        identity = obj["id"].rpartition(":")[0]  # task and attempt
    return text(identity)


def _trajectory(trajectory: Row, task: Any) -> Row:
    steps = dicts(trajectory.get("steps"))
    chats: list[list[Row]] = [step.get("chat_completions") or [] for step in steps]
    if steps and all(map(is_messages, chats)):
        talk = _conversation(chats, steps)
    else:
        asked = steps[0].get("observation") or steps[0].get("input") if steps else None
        prompt = text(asked or mapping(task).get("question", task))
        replies = [
            text(step.get("model_response") or step.get("output") or step.get("action"))
            for step in steps
        ]
        turns = [_reply(one, step) for one, step in zip(replies, steps, strict=True)]
        talk = Exchange(prompt, "\n".join(replies), [], turns)
    reward = trajectory.get("reward")
    if reward is None:
        reward = total(number(step.get("reward")) for step in steps)
    row: Row = {**talk.fields(), "reward": number(reward)}
    versions = [v for step in steps if (v := integer(step.get("weight_version"))) is not None]
    if versions:
        first, last = min(versions), max(versions)
        row["policy_version"] = first if first == last else [first, last]
    if len(steps) > 1:
        row["turns_taken"] = len(steps)
    row.update(
        tokens_of_steps(
            (step.get("prompt_ids"), step.get("response_ids"), step.get("logprobs"))
            for step in steps
        )
    )
    return row


def _reply(said_by_policy: str, step: Row) -> Turn:
    turn: Turn = {"role": "assistant", "text": said_by_policy, "sampled": True}
    if isinstance(step.get("thought"), str) and step["thought"]:
        turn["thinking"] = step["thought"]
    return turn


def _conversation(chats: Sequence[list[Row]], steps: Sequence[Row]) -> Exchange:
    """Join the steps' chats: each holds the ones before, or begins anew."""
    before: list[Row] = []
    turns: list[Turn] = []
    texts: list[str] = []
    names: dict[str, str] = {}
    prompt: list[Row] = []
    for chat, step in zip(chats, steps, strict=True):
        shared = 0
        while shared < min(len(before), len(chat)) and before[shared] == chat[shared]:
            shared += 1
        new = chat[shared:]
        answer = len(new) - 1
        while answer > 0 and new[answer - 1].get("role") == "assistant":
            answer -= 1
        if not before:
            prompt, new, answer = new[:answer], new[answer:], 0
        for i, turn in enumerate(new):
            sampled = i >= answer and turn.get("role") == "assistant"
            turns.append(turn_of(turn, sampled, names))
            if sampled:
                texts.append(message_text(turn))
        reward = step.get("reward")
        if turns and isinstance(reward, int | float) and len(steps) > 1:
            turns[-1]["reward"] = float(reward)
        before = chat
    asked, prompt_turns = said(prompt)
    return Exchange(asked, "\n".join(texts), prompt_turns, turns)


def _answer(task: Any) -> Any:
    task = mapping(task)
    about = mapping(task.get("metadata"))
    return task.get("ground_truth", task.get("answer", about.get("ground_truth")))
