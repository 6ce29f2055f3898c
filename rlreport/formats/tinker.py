"""tinker-cookbook: ``iteration_<n>/<name>_rollout_summaries.jsonl``, its texts in the logtree."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, FileStamp, Row, Where
from rlreport.formats.logged import columns, dicts, mapping, present
from rlreport.formats.messages import prompt_and_response_fields
from rlreport.sidefiles import MAX_JSON, LimitError, read_bounded
from rlreport.text.chat import conversation_text
from rlreport.text.messages import message

_STEP = re.compile(r"iteration_(\d+)")
_SUMMARIES, _LOGTREE = "_rollout_summaries.jsonl", "_logtree.json"
_DEEPEST = 200

Group = tuple[list[tuple[str, list[int]]], list[tuple[str, Row]]]
"""Of each trajectory its return and its steps' lengths as logged, and of each answer its reward
and messages, in the order in which they came."""


@dataclass(frozen=True)
class Tinker(BaseFormat):
    """One trajectory a line, without texts: those of single answers are found in the logtree.

    The logtree shows some groups, and answers as they came, not whose they are: a group is taken
    where its returns and lengths are those of the summaries, and an answer by its reward, of
    equal rewards by its length.

    Attributes:
        logtree: the file, where there is one.
        remark: what is said of the texts.
    """

    logtree: FileStamp | None = None
    remark: str = message("summaries hold no text, and no logtree lies beside them")
    id = "tinker"
    alone = False
    description = "tinker-cookbook rollout summaries, with the texts that the logtree shows"
    files = ("iteration_*/*_rollout_summaries.jsonl",)
    keys = ("iteration", "group_idx", "traj_idx", "total_reward", "steps")

    def beside(self, path: Path, listed: Collection[Path]) -> Tinker:
        """Find the logtree of the same name."""
        file = FileStamp.of(path.with_name(path.name.removesuffix(_SUMMARIES) + _LOGTREE))
        if not path.name.endswith(_SUMMARIES) or file is None:
            return self
        remark = message(
            "texts are those of the logtree: of siblings with one reward, told by length"
        )
        return replace(self, logtree=file, remark=remark)

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row; without a text it has empty ones."""
        steps = dicts(obj.get("steps"))
        group = logged.integer(obj.get("group_idx"))
        row = columns(mapping(obj.get("trajectory_metrics")), ())
        if steps:
            row |= columns(mapping(steps[-1].get("metrics")), ())
        talk = self._talk(group, logged.integer(obj.get("traj_idx")), obj, steps)
        tags = obj.get("tags")
        row |= {
            **prompt_and_response_fields(talk.get("prompt", ""), talk.get("response", "")),
            "step": logged.step_of(obj.get("iteration"), where, _STEP),
            "reward": logged.required(obj, "total_reward"),
            "group_id": logged.text(group),
            "final_reward": obj.get("final_reward"),
            "action_tokens": sum(logged.integer(step.get("ac_len")) or 0 for step in steps),
            "split": "train" if obj.get("split") == "train" else "eval",
            **present(
                tags=", ".join(map(logged.text, tags))[:200]
                if isinstance(tags, list) and tags
                else None,
                policy_version=logged.integer(obj.get("sampling_client_step")),
            ),
        }
        if len(steps) > 1:
            row["turns_taken"] = len(steps)
            row["turns"] = [
                {"role": "assistant", "text": "", "sampled": True, "reward": step.get("reward")}
                for step in steps
            ]
        yield row

    def _talk(self, group: int | None, place: int | None, obj: Row, steps: Sequence[Row]) -> Row:
        shown = _groups(self.logtree) if self.logtree else []
        if group is None or place is None or not 0 <= group < len(shown) or len(steps) != 1:
            return {}
        trajectories, answers = shown[group]
        own = (
            _shown(obj.get("total_reward")),
            [logged.integer(s.get("ac_len")) or 0 for s in steps],
        )
        known = place < len(trajectories) and trajectories[place] == own
        if not known or len(answers) != len(trajectories):
            return {}
        # Siblings of this reward, and the answers of this reward, each by their length.
        alike = [i for i, (reward, _) in enumerate(trajectories) if reward == own[0]]
        alike.sort(key=lambda i: trajectories[i][1])
        found = [talk for reward, talk in answers if reward == own[0]]
        found.sort(key=lambda talk: len(conversation_text(talk["response"])))
        return found[alike.index(place)] if len(found) == len(alike) else {}


def _shown(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, int | float) else ""


@lru_cache(maxsize=2)
def _groups(file: FileStamp) -> list[Group]:
    """Return the groups of a logtree, in its order."""
    try:
        data = read_bounded(Path(file.path), MAX_JSON)
    except (OSError, LimitError):
        return []
    root = mapping(logged.json_object(data).get("root"))
    return [_group(node) for title, node in _sections(root) if title == "Group Rollout"]


def _group(node: Row) -> Group:
    trajectories: list[tuple[str, list[int]]] = []
    answers: list[tuple[str, Row]] = []
    talk: Row = {}
    for title, section in _sections(node):
        if title == "Prompt":
            talk = {"prompt": _messages(section)}
        elif title == "Policy Response":
            talk["response"] = _messages(section)
        elif title == "Reward" and "prompt" in talk and "response" in talk:
            answers.append((next(iter(_cells(section, "reward")), ""), talk))
            talk = {}
        elif title == "Trajectory Details":
            for _, episode in _sections(section):
                lengths = [int(n) for n in _cells(episode, "ac_len") if n.isdigit()]
                returned = _cells(episode, "total_return")
                trajectories.append((returned[-1] if returned else "", lengths))
    return trajectories, answers


def _sections(node: Row) -> Iterator[tuple[str, Row]]:
    """Yield title and body of the sections next below a node."""
    for child in dicts(node.get("children")):
        inner = dicts(child.get("children"))
        if child.get("tag") == "section" and len(inner) == 2:
            yield "".join(map(logged.text, inner[0].get("children") or [])), inner[1]


def _walk(node: Row, depth: int = 0) -> Iterator[Row]:
    yield node
    for child in dicts(node.get("children")) if depth < _DEEPEST else []:
        yield from _walk(child, depth + 1)


def _messages(node: Row) -> list[Row]:
    for part in _walk(node):
        data = mapping(part.get("data"))
        if data.get("type") == "conversation":
            return dicts(data.get("messages"))
    return []


def _cells(node: Row, name: str) -> list[str]:
    """Return the values beside a name in the tables below a node."""
    found = []
    for part in _walk(node):
        cells = dicts(part.get("children")) if part.get("tag") == "tr" else []
        if len(cells) == 2 and cells[0].get("children") == [name]:
            found.append("".join(map(logged.text, cells[1].get("children") or [])))
    return found
