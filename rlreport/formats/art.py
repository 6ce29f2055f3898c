"""OpenPipe ART's ``trajectories/{split}/{step:04d}.parquet``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from rlreport.formats.base import Match, Row, RowError, Where, has_keys, named, split_of
from rlreport.formats.messages import called, exchange
from rlreport.formats.values import columns, required, step_of, text
from rlreport.text.messages import message

_STEP = re.compile(r"(?:^|/)(\d+)\.(?:parquet|jsonl)")


class ART:
    """Rows of messages; ``metrics`` and ``metadata`` are JSON in a string."""

    id = "art"
    alone = True
    description = "OpenPipe ART trajectories: parquet, a file a step, messages"
    files = ("trajectories/<split>/<step>.parquet",)
    container = "parquet"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim rows of messages in numbered groups."""
        keys = ("group_index", "reward", "messages")
        return Match(95, named(keys)) if has_keys(objects, *keys) else None

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row; the step is the file's name."""
        messages = obj.get("messages")
        if not isinstance(messages, list) or not messages:
            raise RowError(message("no `messages`"))
        wrote = [
            isinstance(m, dict) and m.get("trainable") is not False and m.get("role") == "assistant"
            for m in messages
        ]
        row: Row = {}
        for key in ("group_metadata", "group_metrics", "metadata", "metrics"):
            row.update(columns(_parsed(obj.get(key)), ("step", "reward")))
        row.update(exchange([_message(message) for message in messages], wrote).fields())
        row.update(
            step=step_of(obj.get("step"), where, _STEP),
            reward=required(obj, "reward"),
            group_id=text(obj.get("group_index")),
        )
        return iter((row,))

    def split(self, name: str) -> str | None:
        """Return the folder that ART names after the split."""
        return split_of(name)


def _message(message: Any) -> Any:
    """Return a message with its tool calls as a list: ART logs them as JSON in a string."""
    if not isinstance(message, dict) or not isinstance(message.get("tool_calls"), str):
        return message
    return {**message, "tool_calls": called(message["tool_calls"])}


def _parsed(value: Any) -> Row:
    """Return the object in a JSON string; an empty one when there is none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}
