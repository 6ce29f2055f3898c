"""OpenPipe ART's ``trajectories/{split}/{step:04d}.parquet``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Row, RowError, Where
from rlreport.formats.logged import columns, mapping
from rlreport.formats.messages import call_items, conversation_fields
from rlreport.text.messages import message

_STEP = re.compile(r"(?:^|/)(\d+)\.(?:parquet|jsonl)")


class ART(BaseFormat):
    """Rows of messages; ``metrics`` and ``metadata`` are JSON in a string."""

    id = "art"
    description = "OpenPipe ART trajectories: parquet, a file a step, messages"
    files = ("trajectories/<split>/<step>.parquet",)
    container = "parquet"
    keys = ("group_index", "reward", "messages")

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
            row |= columns(mapping(logged.from_json(obj.get(key))), ("step", "reward"))
        row |= conversation_fields([_message(message) for message in messages], wrote)
        yield {
            **row,
            "step": logged.step_of(obj.get("step"), where, _STEP),
            "reward": logged.required(obj, "reward"),
            "group_id": logged.text(obj.get("group_index")),
        }


def _message(message: Any) -> Any:
    """Return a message with its tool calls as a list: ART logs them as JSON in a string."""
    if not isinstance(message, dict) or not isinstance(message.get("tool_calls"), str):
        return message
    return {**message, "tool_calls": call_items(message["tool_calls"])}
