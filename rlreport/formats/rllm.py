"""The log format of rLLM's episodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rlreport.errors import RowError
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Row, Where
from rlreport.formats.logged import columns, dicts, fields, mapping
from rlreport.formats.token_names import StepTokens, tokens_of_steps
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
    claims = (
        ("trajectories", "task_hash"),
        ("trajectories", "training_step"),
        ("trajectories", "eval_idx"),
    )

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield a row per agent (trajectory) of an episode; one row if it failed without any."""
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
        agents = _agents(trajectories)
        group = _group(obj)
        episode_id = obj.get("id", obj.get("episode_id"))

        def row_of(agent: _Agent) -> Row:
            """Return the row of an agent; ``shared`` is what all agents of the episode have."""
            trajectory = agent.trajectory
            # Some versions log the time of the episode only.
            timing = mapping(trajectory.get("timing") or obj.get("timing"))
            row = {
                **shared,
                **_trajectory(trajectory, task),
                **fields(
                    seconds=timing.get("total_time"),
                    agent=agent.name or None,
                    trainable=agent.is_trained,
                ),
            }
            if is_evaluation and trajectory.get("reward") is None:
                row["reward"] = coerce.grade(obj.get("is_correct"))
            if agent.is_trained is False:
                # Its row is a branch of the trained agent's, which has the same rollout.
                row |= fields(rollout_id=episode_id, branch="another agent")
            elif agent.is_last_trained:
                # Only one, as all but the last row of a rollout are branches.
                row |= fields(rollout_id=episode_id)
            if group:
                row["group_id"] = group + agent.group_suffix
            return row

        yield from logged.each(agents, row_of)


class _Agent(NamedTuple):
    """An agent of an episode, with its trajectory."""

    name: str
    trajectory: Row
    # None if that cannot be told: all names are of other agents
    is_trained: bool | None
    is_last_trained: bool  # whether it is the last of the episode's trained agents
    group_suffix: str  # what its group's id has in addition to the task's


def _agents(trajectories: Sequence[Row]) -> list[_Agent]:
    """Return the agents of an episode; which are trained is assumed from their names."""
    names = [coerce.text(trajectory.get("name")) for trajectory in trajectories]
    # Different agents on the same task, such as solver and judge, are separate groups.
    has_different = len(set(names)) > 1
    trained = [i for i, name in enumerate(names) if not _OTHER_AGENTS.search(name)]
    return [
        _Agent(
            name,
            trajectory,
            is_trained=i in trained if trained else None,
            is_last_trained=trained[-1:] == [i],
            group_suffix=f":{name}" if has_different else "",
        )
        for i, (name, trajectory) in enumerate(zip(names, trajectories, strict=True))
    ]


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
    """Return a row's texts, reward and tokens of a trajectory; ``task`` is its episode's."""
    steps = dicts(trajectory.get("steps"))
    chats = [step.get("chat_completions") or [] for step in steps]
    if steps and all(map(is_messages, chats)):
        texts = _join_chats(chats, steps)
    else:
        texts = _texts_of_steps(steps, task)
    # Without a reward of its own, a trajectory has those of its steps.
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
        **tokens_of_steps(map(_tokens_of_step, steps)),
    }


def _tokens_of_step(step: Row) -> StepTokens:
    return StepTokens(
        prompt_ids=step.get("prompt_ids"),
        reply_ids=step.get("response_ids"),
        logprobs=step.get("logprobs"),
    )


def _texts_of_steps(steps: Sequence[Row], task: Any) -> Row:
    """Return the texts of steps that were logged without their chats."""
    first: Row = steps[0] if steps else {}
    observation = first.get("observation") or first.get("input")
    prompt = coerce.text(observation) if observation else _question(task)
    replies: list[Row] = []
    for step in steps:
        text = step.get("model_response") or step.get("output") or step.get("action")
        replies.append(
            {
                "role": "assistant",
                "content": coerce.text(text),
                "reasoning": step.get("thought"),
            }
        )
    return {"prompt": prompt, **response_fields(replies)}


def _join_chats(chats: Sequence[list[Row]], steps: Sequence[Row]) -> Row:
    """Join the chats of a trajectory's steps; each contains what was said before it.

    The reply of a step is the assistant's messages at the end of its chat.
    """
    prompt: list[Row] = []
    messages: list[Row] = []
    sampled: list[bool] = []
    rewards: dict[int, float] = {}  # index of a message -> reward of the step it ends
    for number, (chat, step) in enumerate(zip(chats, steps, strict=True)):
        new = chat[_repeated_messages(chats[:number], chat) :]
        reply_start = _reply_start(new)
        if number == 0:
            # All that stands before the first reply is the prompt.
            prompt = new[:reply_start]
            new = new[reply_start:]
            reply_start = 0
        messages += new
        sampled += [False] * reply_start
        sampled += [one.get("role") == "assistant" for one in new[reply_start:]]
        reward = coerce.real(step.get("reward"))
        # The reward of a single step is that of the trajectory.
        if messages and reward is not None and len(steps) > 1:
            rewards[len(messages) - 1] = reward
    row = prompt_fields(prompt) | response_fields(messages, sampled)
    for position, reward in rewards.items():
        row["turns"][position]["reward"] = reward
    return row


def _repeated_messages(earlier: Sequence[list[Row]], chat: Sequence[Row]) -> int:
    """Return how many messages at the start of a chat an earlier chat begins with, too."""
    if not earlier:
        return 0
    before = earlier[-1]
    count = _shared(before, chat)
    if count == len(before):
        return count
    # A chat that does not continue the one before it, such as a sub-agent's: what any earlier one
    # has is not said again.
    return max(_shared(one, chat) for one in earlier)


def _reply_start(messages: Sequence[Row]) -> int:
    """Return the index of the first message of the reply: the last one, and replies before it."""
    start = len(messages) - 1
    while start > 0 and messages[start - 1].get("role") == "assistant":
        start -= 1
    return start


def _shared(before: Sequence[Row], chat: Sequence[Row]) -> int:
    """Return the number of equal messages at the start of two chats."""
    for count, (one, other) in enumerate(zip(before, chat, strict=False)):
        if one != other:
            return count
    return min(len(before), len(chat))
