"""The native format: RLLoggingBoard's rows, also as the OpenRLHF fork writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlreport.formats.base import BaseFormat, Match, Row, Where, has_keys, named
from rlreport.formats.messages import is_messages, prompt_and_response_fields, text_and_turns
from rlreport.formats.taken import all_taken

_TEXTS = ("prompt", "response")


class RLBoard(BaseFormat):
    """Rows that are canonical as they stand; the reader takes them on its fast path."""

    id = "rlboard"
    description = "RLLoggingBoard and its OpenRLHF fork: one response a line, token arrays"
    files = ("*.jsonl",)

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim rows of text with a reward and a step."""
        usable = [obj for obj in objects if _is_row(obj) and "step" in obj]
        if 2 * len(usable) <= len(objects) or not usable:
            return None
        return Match(60, named(("step", *_TEXTS, "reward")))

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the object itself."""
        yield obj


class Plain(BaseFormat):
    """The native fields less strictly: chat messages for texts, or no step at all.

    Without a step anywhere the log is one evaluation, shown as step 0.
    """

    id = "plain"
    description = "prompt, response and reward; texts may be chat messages, a step may be absent"
    files = ("*.jsonl", "*.json", "*.parquet")

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim objects with the required fields, if with a step then all of them."""
        if not has_keys(objects, *_TEXTS, "reward"):
            return None
        if not all(_is_text(obj[key]) for obj in objects for key in _TEXTS):
            return None
        if any(isinstance(obj["reward"], dict | list) for obj in objects):
            return None
        if not any("step" in obj for obj in objects):
            return Match(40, named((*_TEXTS, "reward")) + ", and no step: read as one step, 0")
        return Match(40, named(("step", *_TEXTS, "reward")))

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the object with its messages as text."""
        row = {"step": 0, **all_taken(obj)}
        if not all(isinstance(row.get(key), str) for key in _TEXTS):
            row.update(prompt_and_response_fields(row.get("prompt"), row.get("response")))
        if row.get("ref_response") is not None:
            row["ref_response"] = text_and_turns(row["ref_response"])[0]
        yield row


def _is_text(value: object) -> bool:
    return isinstance(value, str) or is_messages(value)


def _is_row(obj: Row) -> bool:
    return (
        all(isinstance(obj.get(key), str) for key in _TEXTS)
        and "reward" in obj
        and not isinstance(obj["reward"], dict | list)
        and not _holds_ids(obj.get("response_tokens"))
    )


def _holds_ids(tokens: object) -> bool:
    return isinstance(tokens, list) and bool(tokens) and isinstance(tokens[0], int)
