"""ROLL's agentic pipeline: ``rollout_dump_data.step_{N}.jsonl``, columns of JSON strings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Match, Row, RowError, Where, each, match_columns
from rlreport.formats.logged import columns, mapping, present
from rlreport.formats.messages import conversation_fields
from rlreport.text.messages import message

_STEP = re.compile(r"step_(\d+)")
_TRAJECTORY = re.compile(r"(.+)_[^_]+_\d{8}_\d{6}_\d{6}(?:_b\d+)?")
"""``{tag}_{group}_{episode}_{seed}_{env}_{time}``: all but the last two name the group."""

_DONE = {"finish": "stop", "max_length": "length", "max_steps": "length"}
"""ROLL's stop reasons by what they mean."""


class RollAgentic(BaseFormat):
    """One line a step; each entry of ``trajectory_data`` and ``messages`` is JSON in a string.

    In step mode a trajectory is dumped once for each of its steps: the last one stands for it.
    """

    id = "roll_agentic"
    description = "ROLL agentic rollout dumps: one line a step, columns of JSON strings"
    files = ("rollout_dump_data.step_*.jsonl",)

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim objects whose trajectories and messages are lists."""
        return match_columns(objects, "trajectory_data", "messages")

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield a row for each trajectory."""
        return each(_trajectories(obj), lambda entry: _row(*entry, where))


def _trajectories(obj: Row) -> Iterator[tuple[Row, Row]]:
    """Yield the columns' entries with what they say of their trajectory."""
    for entry in logged.explode(obj, "trajectory_data"):
        about = mapping(logged.from_json(entry.get("trajectory_data")))
        place = logged.integer(about.get("branch_or_step_idx"))
        count = logged.integer(about.get("num_branches_or_steps"))
        if place is None or count is None or place >= count - 1:
            yield entry, about


def _row(entry: Row, about: Row, where: Where) -> Row:
    messages = logged.from_json(entry.get("messages"))
    if not isinstance(messages, list):
        raise RowError(message("`messages` is no JSON list"))
    if any(isinstance(item, list) for item in messages):
        # One list of messages for each context that the agent worked in.
        messages = [m for part in messages for m in (part if isinstance(part, list) else [part])]
    wrote = [isinstance(m, dict) and m.get("role") == "assistant" for m in messages]
    rewards = mapping(about.get("reward_info"))
    environment = mapping(about.get("env_info"))
    failure = mapping(about.get("failure_info"))
    row = columns(entry, ("global_step", "trajectory_data", "messages", "tools"))
    for part in (
        mapping(about.get("length_info")),
        environment,
        mapping(about.get("timing_info")),
    ):
        row.update(columns(part, ("mode", "group_id", "traj_save_time")))
    row.update(conversation_fields(messages, wrote))
    row.update(
        step=logged.step_of(entry.get("global_step"), where, _STEP),
        reward=logged.required(rewards, "episode_reward"),
    )
    reason = logged.string(failure.get("stop_reason", about.get("finish_reason")))
    errors = failure.get("error_messages")
    mode = environment.get("mode")
    return row | present(
        finish_reason=None if reason is None else _DONE.get(reason.lower(), reason.lower()),
        seconds=logged.real(mapping(about.get("timing_info")).get("traj_time_env_total")),
        errors=list(map(logged.text, errors)) if isinstance(errors, list) and errors else None,
        split=mode if mode in ("train", "val") else None,
        group_id=_group(environment, about.get("trajectory_id")) or None,
    )


def _group(environment: Row, identity: Any) -> str:
    """Return the name of a trajectory's group, "" where it has none."""
    if "group_id" in environment:
        keys = ("tag", "group_id", "episode_id", "seed")
        return "_".join(logged.text(environment.get(key)) for key in keys)
    named = _TRAJECTORY.fullmatch(identity) if isinstance(identity, str) else None
    return named[1] if named else ""
