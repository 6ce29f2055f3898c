"""The log format of rLLM's episodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from rlreport.errors import RowError
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Row, Where
from rlreport.formats.logged import columns, dicts, fields, mapping
from rlreport.formats.token_names import tokens_of_steps
from rlreport.system import coerce
from rlreport.text.chat import is_messages, prompt_fields, response_fields
from rlreport.text.messages import message

_USED_KEYS = frozenset(
    {"training_step", "task", "task_hash", "termination_reason", "trajectories", "id"}
    | {"episode_id", "session_id"}
)
# Matches names of agents that are assumed not to be trained, unless all agents have such names
_OTHER_AGENTS = re.compile(
    r"judge|grader|verifier|critic|reviewer|simulat", re.IGNORECASE
)


class RLLM(BaseFormat):
    """rLLM's format: one episode per file, one row per trajectory in it."""

    id = "rllm"
    description = (
        "rLLM episodes of training and of `rllm eval`: one JSON file per episode"
    )
    files = (
        "episodes/*_step_*_epoch_*/episode_*.json",
        "eval_results/*/episodes/episode_*.json",
    )
    container = "json"
    claims = tuple(
        ("trajectories", key) for key in ("task_hash", "training_step", "eval_idx")
    )

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        is_evaluation = "eval_idx" in obj
        task = obj.get("task")
        step = 0 if is_evaluation else obj.get("training_step")
        shared = {
            **columns(obj, _USED_KEYS),
            **columns(mapping(obj.get("metrics")), ("step", "reward")),
            "step": logged.step_of(step, where, logged.STEP_WORD),
            **fields(
                split="eval" if is_evaluation else None,
                finish_reason=obj.get("termination_reason"),
                ground_truth=_label(mapping(task)),
            ),
        }
        trajectories = dicts(obj.get("trajectories"))
        if not trajectories:
            if obj.get("termination_reason") is None:
                raise RowError(message("the episode has no trajectories"))
            reason = coerce.text(obj["termination_reason"])
            yield {**shared, **logged.failed_fields(_question(task), reason)}
            return
        names = [coerce.text(trajectory.get("name")) for trajectory in trajectories]
        is_other = [bool(_OTHER_AGENTS.search(name)) for name in names]
        last = max((i for i, other in enumerate(is_other) if not other), default=None)
        group = _group(obj)
        episode = obj.get("id", obj.get("episode_id"))

        def row_of(i: int) -> Row:
            trajectory = trajectories[i]
            timing = mapping(trajectory.get("timing") or obj.get("timing"))
            row = {
                **shared,
                **_trajectory(trajectory, task),
                **fields(
                    seconds=timing.get("total_time"),
                    agent=names[i] or None,
                    trainable=None if all(is_other) else not is_other[i],
                ),
            }
            if is_evaluation and trajectory.get("reward") is None:
                row["reward"] = coerce.grade(obj.get("is_correct"))
            if not all(is_other) and (is_other[i] or i == last):
                branch = (
                    "another agent" if is_other[i] else None
                )  # left out of statistics
                row |= fields(rollout_id=episode, branch=branch)
            if group:
                # Different agents on the same task, such as solver and judge, are separate groups.
                row["group_id"] = (
                    f"{group}:{names[i]}" if len(set(names)) > 1 else group
                )
            return row

        yield from logged.each(range(len(trajectories)), row_of)


def _question(task: Any) -> str:
    return coerce.text(mapping(task).get("question", task))


def _group(obj: Row) -> str:
    """Return an episode's group: its task's hash or id, else its id up to the last colon, or ""."""
    if obj.get("task_hash") is not None:
        return coerce.text(obj["task_hash"])
    identity = mapping(obj.get("task")).get("id")
    if identity is None and isinstance(obj.get("id"), str):
        identity = obj["id"].rpartition(":")[0]  # the id is <task>:<attempt>
    return coerce.text(identity)


def _label(task: Row) -> Any:
    metadata = mapping(task.get("metadata"))
    return task.get("ground_truth", task.get("answer", metadata.get("ground_truth")))


def _trajectory(trajectory: Row, task: Any) -> Row:
    steps = dicts(trajectory.get("steps"))
    chats = [step.get("chat_completions") or [] for step in steps]
    if steps and all(map(is_messages, chats)):
        texts = _join_chats(chats, steps)
    else:
        observation = (
            steps[0].get("observation") or steps[0].get("input") if steps else None
        )
        replies = [
            {
                "role": "assistant",
                "content": coerce.text(
                    step.get("model_response")
                    or step.get("output")
                    or step.get("action")
                ),
                "reasoning": step.get("thought"),
            }
            for step in steps
        ]
        prompt = coerce.text(observation) if observation else _question(task)
        texts = {"prompt": prompt, **response_fields(replies)}
    reward = trajectory.get("reward")
    if reward is None:
        reward = logged.total(coerce.number(step.get("reward")) for step in steps)
    return {
        **texts,
        "reward": coerce.grade(reward),
        **fields(
            policy_version=[step.get("weight_version") for step in steps],
            turns_taken=len(steps) if len(steps) > 1 else None,
        ),
        **tokens_of_steps(
            (step.get("prompt_ids"), step.get("response_ids"), step.get("logprobs"))
            for step in steps
        ),
    }


def _join_chats(chats: Sequence[list[Row]], steps: Sequence[Row]) -> Row:
    last_chat: list[Row] = []
    earlier: list[list[Row]] = []
    messages: list[Row] = []
    sampled: list[bool] = []
    rewards: dict[int, float] = {}
    prompt: list[Row] = []
    for chat, step in zip(chats, steps, strict=True):
        shared = _shared(last_chat, chat)
        if shared < len(last_chat):  # such as a sub-agent's
            shared = max(_shared(before, chat) for before in earlier)
        new = chat[shared:]
        answer = len(new) - 1
        while answer > 0 and new[answer - 1].get("role") == "assistant":
            answer -= 1
        if not last_chat:
            prompt, new, answer = new[:answer], new[answer:], 0
        messages += new
        sampled += [
            i >= answer and turn.get("role") == "assistant"
            for i, turn in enumerate(new)
        ]
        reward = coerce.real(step.get("reward"))
        if messages and reward is not None and len(steps) > 1:
            rewards[len(messages) - 1] = reward
        last_chat = chat
        earlier.append(chat)
    row = prompt_fields(prompt) | response_fields(messages, sampled)
    for position, reward in rewards.items():
        row["turns"][position]["reward"] = reward
    return row


def _shared(before: Sequence[Row], chat: Sequence[Row]) -> int:
    pairs = enumerate(zip(before, chat, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(before), len(chat)))
