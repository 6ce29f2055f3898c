"""Logs that nobody foresaw: fields named by the user (``--map reward=score``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlreport.errors import UnreadRow, UsageError
from rlreport.fields import CANONICAL, FIELDS
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Match, Row, RowError, Where
from rlreport.formats.logged import columns
from rlreport.formats.messages import text_and_turns
from rlreport.text.messages import message

_TEXTS = ("prompt", "response", "ref_response")
_NUMBERS = ("reward", "ref_reward", "valid_reward", "ref_valid_reward")
_LIKELY: dict[str, tuple[str, ...]] = {
    "step": (
        "global_step", "global_steps", "training_step", "train_step", "iteration", "iter", "steps",
        "update",
    ),
    "prompt": ("query", "question", "input", "instruction", "inputs", "problem", "messages"),
    "response": (
        "completion", "output", "answer", "generation", "generated_text", "text", "outputs",
        "prediction", "model_output", "rollout", "completion_text",
    ),
    "reward": (
        "score", "rewards", "scores", "return", "total_reward", "reward_score", "final_reward",
    ),
    "response_tokens": ("tokens", "output_tokens", "completion_tokens"),
    "logprobs": ("logps", "log_probs", "policy_logprobs", "token_logprobs"),
    "ref_logprobs": ("ref_logps", "ref_log_probs", "reference_logprobs"),
    "ground_truth": ("label", "target", "gold", "reference", "gts", "solution"),
    "group_id": ("uid", "prompt_id", "group", "task_id", "example_id"),
    "finish_reason": ("stop_reason", "stop_condition"),
}  # fmt: skip
_DEPTH = 3


@dataclass(frozen=True)
class Mapped(BaseFormat):
    """A format made of the user's mapping, over a known format or on its own.

    Attributes:
        mapping: canonical field to dotted path in the object; a part of digits indexes a list.
        step_from_path: regular expression with one group, or a group named ``step``.
        base: the format that yields the rows first; fields that are mapped replace its own.
    """

    mapping: Mapping[str, str]
    step_from_path: str | None = None
    base: Any = None
    _pattern: re.Pattern[str] | None = field(init=False, default=None)
    id = "mapped"
    description = "fields named with --map"
    files = ("*",)

    def __post_init__(self) -> None:
        """Check the fields and compile the pattern, so that a slip ends the run at once."""
        # It needs no other file where the format below needs none.
        object.__setattr__(self, "alone", getattr(self.base or self, "alone", False))
        unknown = sorted(self.mapping.keys() - CANONICAL)
        if unknown:
            known = ", ".join(known.name for known in FIELDS)
            raise UsageError(f"--map: there is no field {unknown[0]!r}; fields are {known}")
        if self.step_from_path is not None:
            object.__setattr__(self, "_pattern", step_pattern(self.step_from_path))

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim files whose objects hold all of the mapped paths."""
        for path in self.mapping.values():
            if not any(look_up(obj, path)[0] for obj in objects):
                return None
        said_so = ", ".join(f"{key}={path}" for key, path in self.mapping.items())
        return Match(100, f"has what was mapped ({said_so or 'step from the path'})")

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the base format's rows, or the object's own fields, with the mapped ones set."""
        mapped = {key: look_up(obj, path)[1] for key, path in self.mapping.items()}
        step = logged.step_in_path(where.name, self._pattern) if self._pattern else None
        if self.base is not None:
            # A format that finds no step of its own would refuse the object.
            told = obj if step is None else {**obj, "step": step}
            for row in self.base.rows(told, where):
                if isinstance(row, UnreadRow):
                    yield row
                else:
                    yield _with_step({**row, **_typed(mapped)}, step)
            return
        used = {path.partition(".")[0] for path in self.mapping.values()}
        own = {key: obj[key] for key in obj if key in CANONICAL and key not in used}
        yield _with_step({**columns(obj, used | own.keys()), **_typed({**own, **mapped})}, step)

    def split(self, name: str) -> str | None:
        """Return the split by the base format, else the one the path names."""
        split: str | None = super().split(name) if self.base is None else self.base.split(name)
        return split


def step_pattern(pattern: str) -> re.Pattern[str]:
    """Compile ``--step-from-path``.

    Raises:
        UsageError: when it is no regular expression, or has no group.
    """
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
    if isinstance(obj, dict):
        if path in obj:
            return True, obj[path]
        head, _, rest = path.partition(".")
        return look_up(obj[head], rest) if rest and head in obj else (False, None)
    if isinstance(obj, list):
        head, _, rest = path.partition(".")
        if not re.fullmatch(r"-?\d+", head) or not -len(obj) <= int(head) < len(obj):
            return False, None
        return look_up(obj[int(head)], rest) if rest else (True, obj[int(head)])
    return False, None


def suggest(objects: Sequence[Row]) -> dict[str, str]:
    """Return likely mappings, canonical field to dotted path, for fields that are absent.

    Empty when text and reward cannot both be found: such a file is no rollout log.
    """
    paths: dict[str, Any] = {}
    for obj in objects[:20]:
        for path, value in _paths(obj, "", _DEPTH):
            paths.setdefault(path, value)
    found: dict[str, str] = {}
    for name, others in _LIKELY.items():
        for wanted in (name, *others):
            fit = _first_fit(name, wanted, paths, found)
            if fit is not None:
                if fit != name:
                    found[name] = fit
                break
    has_all = all(key in found or key in paths for key in ("response", "reward"))
    return found if has_all else {}


def _first_fit(name: str, wanted: str, paths: Mapping[str, Any], found: Row) -> str | None:
    fits = (
        path
        for path, value in paths.items()
        if path.rpartition(".")[2].lower() == wanted
        and path not in found.values()
        and _fits(name, value)
    )
    return min(fits, key=lambda path: path.count("."), default=None)


def _fits(name: str, value: object) -> bool:
    if name == "step":
        return logged.integer(value) is not None
    if name in _TEXTS:
        return isinstance(value, str) or (
            isinstance(value, list) and bool(text_and_turns(value)[0])
        )
    if name in _NUMBERS:
        return isinstance(value, int | float) or value is None
    if name.endswith(("tokens", "logprobs")):
        return isinstance(value, list)
    return logged.is_scalar(value)


def _paths(obj: object, prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    if not isinstance(obj, dict):
        return
    for key, value in obj.items():
        yield prefix + key, value
        if depth > 1:
            yield from _paths(value, f"{prefix}{key}.", depth - 1)


def _typed(mapped: Row) -> Row:
    typed = dict(mapped)
    for key in _TEXTS:
        if key in typed:
            typed[key], turns = text_and_turns(typed[key]) if typed[key] is not None else (None, [])
            if key == "prompt" and turns:
                typed["prompt_turns"] = turns
    for key in _NUMBERS:
        if key in typed:
            typed[key] = logged.grade(typed[key])
    if "ground_truth" in typed:
        typed["ground_truth"] = logged.text(typed["ground_truth"])
    return typed


def _with_step(row: Row, step: int | None) -> Row:
    if step is not None:
        row["step"] = step
    elif "step" not in row:
        row["step"] = 0
    for key in ("response", "token_ids", "response_tokens"):
        if row.get(key) is not None:
            return row
    raise RowError(message("no response where the mapping says"))
