"""The log formats of ROLL's rlvr and agentic pipelines: a line per step, a list per key."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlreport.errors import RowError
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Row, Where
from rlreport.formats.logged import columns, fields, mapping
from rlreport.formats.simple import Renamed
from rlreport.text.chat import conversation_fields
from rlreport.text.messages import message

# A trajectory id ``{tag}_{group}_{episode}_{seed}_{env}_{time}``; the group id ends before env
_TRAJECTORY = re.compile(r"(.+)_[^_]+_\d{8}_\d{6}_\d{6}(?:_b\d+)?")


class Roll(Renamed):
    """The format of ROLL's rlvr pipeline: one line of columns per step; ``id`` names the group."""

    id = "roll"
    description = "ROLL rlvr rollout dumps: one line of columns a step"
    files = ("rollout_dump_data.step_*.jsonl",)
    claims = (("prompt", "responses", "scores"),)
    columnar = True
    step = "global_step"
    response = "responses"
    reward = "scores"
    step_path = logged.STEP_WORD
    renames = (("group_id", "id"), ("ground_truth", "ground_truth"))
    hidden = frozenset({"sampling_params"})


class RollAgentic(BaseFormat):
    """The format of ROLL's agentic pipeline: one line of columns per training step.

    The entries of ``trajectory_data`` and ``messages`` are strings with JSON. In ROLL's step mode a
    trajectory is dumped once per environment step; only its last dump is read.
    """

    id = "roll_agentic"
    description = "ROLL agentic rollout dumps: one line a step, columns of JSON strings"
    files = ("rollout_dump_data.step_*.jsonl",)
    claims = (("trajectory_data", "messages"),)
    columnar = True

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield a row for each trajectory."""
        return logged.each(_trajectories(obj), lambda entry: _row(*entry, where))


def _trajectories(obj: Row) -> Iterator[tuple[Row, Row]]:
    """Yield (last dump, its parsed ``trajectory_data``) for each trajectory of a line."""
    for entry in logged.explode(obj, "trajectory_data"):
        about = mapping(logged.from_json(entry.get("trajectory_data")))
        position = logged.integer(about.get("branch_or_step_idx"))
        count = logged.integer(about.get("num_branches_or_steps"))
        if position is None or count is None or position >= count - 1:
            yield entry, about


def _row(entry: Row, about: Row, where: Where) -> Row:
    messages = logged.from_json(entry.get("messages"))
    if not isinstance(messages, list):
        raise RowError(message("`messages` is not a JSON list"))
    if any(isinstance(item, list) for item in messages):
        # After the agent's context was replaced, a new list of messages begins: join the lists.
        messages = [m for part in messages for m in (part if isinstance(part, list) else [part])]
    sampled = [mapping(turn).get("role") == "assistant" for turn in messages]
    environment, timing = mapping(about.get("env_info")), mapping(about.get("timing_info"))
    failure = mapping(about.get("failure_info"))
    row = columns(entry, ("global_step", "trajectory_data", "messages", "tools"))
    for part in (mapping(about.get("length_info")), environment, timing):
        row |= columns(part, ("mode", "group_id", "traj_save_time"))
    reason = logged.text(failure.get("stop_reason", about.get("finish_reason"))).lower()
    errors, mode = failure.get("error_messages"), environment.get("mode")
    return {
        **row,
        **conversation_fields(messages, sampled),
        "step": logged.step_of(entry.get("global_step"), where, logged.STEP_WORD),
        "reward": logged.required(mapping(about.get("reward_info")), "episode_reward"),
        **fields(
            finish_reason=reason or None,
            seconds=timing.get("traj_time_env_total"),
            errors=errors if isinstance(errors, list) else None,
            split=mode if mode in ("train", "val") else None,
            group_id=_group(environment, about.get("trajectory_id")),
        ),
    }


def _group(environment: Row, trajectory: object) -> str | None:
    if "group_id" in environment:
        keys = ("tag", "group_id", "episode_id", "seed")
        return "_".join(logged.text(environment.get(key)) for key in keys)
    match = _TRAJECTORY.fullmatch(trajectory) if isinstance(trajectory, str) else None
    return match[1] if match else None
