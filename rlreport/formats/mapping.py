"""Logs that nobody foresaw: fields named by the user (``--map reward=score``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlreport.errors import UnreadRow, UsageError
from rlreport.fields import CANONICAL, FIELDS
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Format, Match, Row, RowError, Where
from rlreport.text.chat import prompt_fields
from rlreport.text.messages import message

_NUMBERS = ("reward", "ref_reward", "valid_reward", "ref_valid_reward")


class Mapped(BaseFormat):
    """A format made of the user's mapping, over a known format or on its own.

    Args:
        mapping: canonical field to dotted path in the object; a part of digits indexes a list.
        step_from_path: regular expression with one group, or a group named ``step``.
        base: the format that yields the rows first; fields that are mapped replace its own.

    Raises:
        UsageError: an unknown field, or no such expression.
    """

    id = "mapped"
    description = "fields named with --map"
    files = ("*",)

    def __init__(
        self,
        mapping: Mapping[str, str],
        step_from_path: str | None = None,
        base: Format | None = None,
    ) -> None:
        super().__init__()
        unknown = sorted(mapping.keys() - CANONICAL)
        if unknown:
            fields = ", ".join(field.name for field in FIELDS)
            raise UsageError(f"--map: there is no field {unknown[0]!r}; fields are {fields}")
        self.mapping, self.base = mapping, base
        self.alone = base is None or getattr(base, "alone", False)
        self._step = None if step_from_path is None else _step_pattern(step_from_path)

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim files whose objects hold all of the mapped paths."""
        for path in self.mapping.values():
            if not any(look_up(obj, path)[0] for obj in objects):
                return None
        options = ", ".join(f"{key}={path}" for key, path in self.mapping.items())
        return Match(100, f"has what was mapped ({options or 'step from the path'})")

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the base format's rows, or the object's own fields, with the mapped ones set."""
        mapped = {key: look_up(obj, path)[1] for key, path in self.mapping.items()}
        step = logged.step_in_path(where.name, self._step) if self._step else None
        more = {} if step is None else {"step": step}
        if self.base is None:
            used = {path.partition(".")[0] for path in self.mapping.values()}
            canonical = {key: obj[key] for key in obj if key in CANONICAL and key not in used}
            extra = logged.columns(obj, used | canonical.keys())
            yield _checked({**extra, **_typed({**canonical, **mapped}), **more})
            return
        # A format that finds no step would refuse the object.
        obj = logged.entry_of(obj, {**obj, **more}) if more else obj
        for row in self.base.rows(obj, where):
            unread = isinstance(row, UnreadRow)
            yield row if unread else _checked({**row, **_typed(mapped), **more})

    def split(self, name: str) -> str | None:
        """Return the split by the base format, else the one the path names."""
        return super().split(name) if self.base is None else self.base.split(name)


def _step_pattern(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"--step-from-path {pattern!r} is no regular expression: {error}"
        ) from None
    if not compiled.groups:
        raise UsageError(f"--step-from-path {pattern!r} has no group, such as step_(\\d+)")
    return compiled


def look_up(obj: object, path: str) -> tuple[bool, Any]:
    """Return whether the dotted path leads somewhere, and what is there.

    A key that itself holds dots is found whole before it is taken apart.
    """
    if isinstance(obj, dict) and path in obj:
        return True, obj[path]
    head, _, rest = path.partition(".")
    if isinstance(obj, dict) and rest and head in obj:
        return look_up(obj[head], rest)
    if isinstance(obj, list) and re.fullmatch(r"-?\d+", head) and -len(obj) <= int(head) < len(obj):
        return look_up(obj[int(head)], rest) if rest else (True, obj[int(head)])
    return False, None


def _typed(mapped: Row) -> Row:
    typed = dict(mapped)
    for key in ("prompt", "response", "ref_response"):
        if typed.get(key) is not None:
            fields = prompt_fields(typed[key])
            typed[key] = fields.pop("prompt")
            if key == "prompt":
                typed |= fields
    for key in _NUMBERS:
        if key in typed:
            typed[key] = logged.grade(typed[key])
    if "ground_truth" in typed:
        typed["ground_truth"] = logged.text(typed["ground_truth"])
    return typed


def _checked(row: Row) -> Row:
    if all(row.get(key) is None for key in ("response", "token_ids", "response_tokens")):
        raise RowError(message("no response where the mapping says"))
    return {"step": 0, **row}
