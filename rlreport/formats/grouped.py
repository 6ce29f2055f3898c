"""Rows with the responses to a prompt in a list, each an object with its text and its grade.

Programs that sample a prompt several times write one object per prompt: the prompt, figures of the
group, and ``{"rollouts": [{"text": …, "correct": true}, …]}``. Each element of the list is a
response to the object's prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from rlreport.errors import RowError
from rlreport.fields import AssumedStep
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Row, Where
from rlreport.formats.logged import dicts
from rlreport.formats.metric_rows import STEP_KEYS, own_step_key
from rlreport.system import coerce
from rlreport.text.chat import prompt_and_response_fields
from rlreport.text.messages import message

# Names in logs, the likeliest first
_LISTS = (
    "rollouts",
    "samples",
    "completions",
    "responses",
    "generations",
    "trajectories",
    "candidates",
    "outputs",
    "attempts",
)
_PROMPTS = ("prompt", "question", "problem", "query", "instruction", "input")
_RESPONSES = ("response", "completion", "text", "output", "generation", "content")
_REWARDS = ("reward", "score", "is_correct", "correct", "acc", "accuracy", "passed")
_LABELS = ("ground_truth", "gold", "label", "target", "answer", "solution")


class Keys(NamedTuple):
    """Where rows have what a response needs.

    Attributes:
        members: the key of the list of responses.
        prompt: the key of the prompt, beside that list.
        response: the key of the text in an element.
        reward: the key of the grade in an element.
        label: the key of the label beside the list, "" without one.
    """

    members: str
    prompt: str
    response: str
    reward: str
    label: str


class Grouped(BaseFormat):
    """A format of rows with a list of responses each, whose ``keys`` were found in the log."""

    id = "grouped"
    description = "one object per prompt, with a list of its responses"
    files = ("*.jsonl", "*.json")

    def __init__(self, keys: Keys) -> None:
        described = (keys.prompt, f"{keys.members}.{keys.response}")
        remark = message(
            "rows have the responses to a prompt in a list; read are the prompt, response and "
            "reward at {paths}",
            paths=(*described, f"{keys.members}.{keys.reward}"),
        )
        super().__init__(remark=remark)
        self.keys = keys

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield a row for each response in the list of an object."""
        members = obj.get(self.keys.members)
        if not isinstance(members, list):
            why = message(
                "{field} is missing or not a list", field=f"`{self.keys.members}`"
            )
            raise RowError(why)
        return logged.each(members, lambda one: self._row(obj, one, where))

    def _row(self, obj: Row, member: Any, where: Where) -> Row:
        if not isinstance(member, dict) or member.get(self.keys.response) is None:
            why = message("{field} is missing", field=f"`{self.keys.response}`")
            raise RowError(why)
        keys = self.keys
        of_group = {keys.members, keys.prompt, keys.label, *STEP_KEYS}
        texts = prompt_and_response_fields(obj.get(keys.prompt), member[keys.response])
        step_key = own_step_key(obj)
        row = {
            **logged.columns(obj, of_group),
            **logged.columns(member, {keys.response, keys.reward}),
            **texts,
            "step": coerce.integer(obj[step_key]) if step_key else None,
            "reward": logged.required(member, keys.reward),
        }
        if row["step"] is None:
            row["step"] = where.step or AssumedStep()
        if keys.label:
            row["ground_truth"] = coerce.text(obj.get(keys.label))
        return row


def grouped_format(objects: Sequence[Row]) -> Grouped | None:
    """Return the format of objects with a list of responses each, None if they have none."""
    for members in _LISTS:
        listed = [obj for obj in objects if dicts(obj.get(members))]
        if not listed or 2 * len(listed) < len(objects):
            continue
        elements = list(chain.from_iterable(dicts(obj[members]) for obj in listed))
        prompt = _common_key(_PROMPTS, listed, str)
        response = _common_key(_RESPONSES, elements, str)
        reward = _common_key(_REWARDS, elements, (int, float))
        if prompt and response and reward:
            label = _common_key(_LABELS, listed, (str, int, float))
            return Grouped(Keys(members, prompt, response, reward, label))
    return None


def _common_key(
    names: Sequence[str], objects: Sequence[Row], kind: type | tuple[type, ...]
) -> str:
    """Return the first of the names that most objects have a value of a kind under, else ""."""
    for name in names:
        fitting = sum(isinstance(obj.get(name), kind) for obj in objects)
        if 2 * fitting >= len(objects):
            return name
    return ""
