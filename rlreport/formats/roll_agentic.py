"""ROLL's agentic pipeline: ``rollout_dump_data.step_{N}.jsonl``, columns of JSON strings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from rlreport.formats.base import Match, Row, RowError, Where, each, split_of
from rlreport.formats.columnar import explode, match_columns
from rlreport.formats.messages import exchange
from rlreport.formats.values import columns, integer, mapping, required, step_of, text
from rlreport.text.messages import message

_STEP = re.compile(r"step_(\d+)")
_TRAJECTORY = re.compile(r"(.+)_[^_]+_\d{8}_\d{6}_\d{6}(?:_b\d+)?")
"""``{tag}_{group}_{episode}_{seed}_{env}_{time}``: all but the last two name the group."""

_DONE = {"finish": "stop", "max_length": "length", "max_steps": "length"}
"""ROLL's stop reasons by what they mean."""


class RollAgentic:
    """One line a step; each entry of ``trajectory_data`` and ``messages`` is JSON in a string.

    In step mode a trajectory is dumped once for each of its steps: the last one stands for it.
    """

    id = "roll_agentic"
    alone = True
    description = "ROLL agentic rollout dumps: one line a step, columns of JSON strings"
    files = ("rollout_dump_data.step_*.jsonl",)
    container = "lines"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim objects whose trajectories and messages are lists."""
        return match_columns(objects, ("trajectory_data", "messages"))

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield a row for each trajectory."""
        return each(_trajectories(obj), lambda entry: _row(*entry, where))

    def split(self, name: str) -> str | None:
        """Return the split that the path names."""
        return split_of(name)


def _trajectories(obj: Row) -> Iterator[tuple[Row, Row]]:
    """Yield the columns' entries with what they say of their trajectory."""
    for entry in explode(obj, "trajectory_data"):
        about = mapping(_parsed(entry.get("trajectory_data")))
        place = integer(about.get("branch_or_step_idx"))
        count = integer(about.get("num_branches_or_steps"))
        if place is None or count is None or place >= count - 1:
            yield entry, about


def _row(entry: Row, about: Row, where: Where) -> Row:
    messages = _parsed(entry.get("messages"))
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
    for part in (mapping(about.get("length_info")), environment, mapping(about.get("timing_info"))):
        row.update(columns(part, ("mode", "group_id", "traj_save_time")))
    row.update(exchange(messages, wrote).fields())
    row.update(
        step=step_of(entry.get("global_step"), where, _STEP),
        reward=required(rewards, "episode_reward"),
    )
    reason = failure.get("stop_reason", about.get("finish_reason"))
    if isinstance(reason, str):
        row["finish_reason"] = _DONE.get(reason.lower(), reason.lower())
    seconds = mapping(about.get("timing_info")).get("traj_time_env_total")
    if isinstance(seconds, int | float):
        row["seconds"] = float(seconds)
    errors = failure.get("error_messages")
    if isinstance(errors, list) and errors:
        row["errors"] = [text(error) for error in errors]
    if environment.get("mode") in ("train", "val"):
        row["split"] = environment["mode"]
    group = _group(environment, about.get("trajectory_id"))
    if group:
        row["group_id"] = group
    return row


def _group(environment: Row, identity: Any) -> str:
    """Return the name of a trajectory's group, "" where it has none."""
    if "group_id" in environment:
        keys = ("tag", "group_id", "episode_id", "seed")
        return "_".join(text(environment.get(key)) for key in keys)
    named = _TRAJECTORY.fullmatch(identity) if isinstance(identity, str) else None
    return named[1] if named else ""


def _parsed(value: Any) -> Any:
    """Return the JSON in a string, None where it is none."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None
