"""The log formats of tinker-cookbook."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, FileStamp, Row, Where
from rlreport.formats.logged import columns, dicts, fields, mapping
from rlreport.system import coerce
from rlreport.text.chat import conversation_text, prompt_and_response_fields
from rlreport.text.messages import message

_SUMMARIES = "_rollout_summaries.jsonl"
_LOGTREE = "_logtree.json"
_MAX_LEVELS = 200


class _Trajectory(NamedTuple):
    total_return: str  # as the logtree shows it, such as ``0.500``
    lengths: list[int]  # tokens per step


class _Answer(NamedTuple):
    reward: str  # as the logtree shows it, such as ``0.500``
    texts: Row  # its ``prompt`` and ``response``, lists of messages


class _Group(NamedTuple):
    """A rollout group in a logtree; its answers do not say which trajectory they belong to."""

    trajectories: list[_Trajectory]
    answers: list[_Answer]


class Tinker(BaseFormat):
    """tinker-cookbook's format: one trajectory per line, without texts.

    Texts come from the logtree (``sibling``), a JSON log next to the file. It has the texts of some
    trajectories with one answer, but not their indices. Therefore groups are matched by returns and
    lengths, and answers by reward and length.
    """

    id = "tinker"
    alone = False
    description = (
        "tinker-cookbook rollout summaries, with the texts that the logtree shows"
    )
    files = ("iteration_*/*_rollout_summaries.jsonl",)
    claims = (("iteration", "group_idx", "traj_idx", "total_reward", "steps"),)

    def __init__(self, logtree: FileStamp | None = None) -> None:
        remark = message(
            "the summaries contain no text, and there is no logtree next to them"
        )
        if logtree:
            remark = message(
                "texts come from the logtree; responses of a group with equal rewards are "
                "matched by length"
            )
        super().__init__(logtree, remark=remark)

    def with_siblings(self, path: Path, listed: Collection[Path]) -> Tinker:
        if not path.name.endswith(_SUMMARIES):
            return self
        logtree = path.name.removesuffix(_SUMMARIES) + _LOGTREE
        return Tinker(FileStamp.of(path.with_name(logtree)))

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the row of a trajectory, with its texts if the logtree has them."""
        steps = dicts(obj.get("steps"))
        group = coerce.integer(obj.get("group_idx"))
        texts = self._texts(group, obj, steps)
        prompt = texts.get("prompt", "")
        response = texts.get("response", "")
        last_metrics = mapping(steps[-1].get("metrics")) if steps else {}
        row = {
            **columns(mapping(obj.get("trajectory_metrics"))),
            **columns(last_metrics),
            **prompt_and_response_fields(prompt, response),
            "step": logged.step_of(obj.get("iteration"), where, logged.STEP_WORD),
            "reward": logged.required(obj, "total_reward"),
            "group_id": coerce.text(group),
            "final_reward": obj.get("final_reward"),
            "action_tokens": sum(map(_length, steps)),
            "split": "train" if obj.get("split") == "train" else "eval",
            **fields(policy_version=[obj.get("sampling_client_step")]),
        }
        tags = obj.get("tags")
        if isinstance(tags, list) and tags:
            row["tags"] = ", ".join(map(coerce.text, tags))[: logged.SHORT]
        if len(steps) > 1:
            row["turns_taken"] = len(steps)
            # The texts of several turns are not logged, only their rewards.
            turn = {"role": "assistant", "text": "", "sampled": True}
            row["turns"] = [{**turn, "reward": step.get("reward")} for step in steps]
        yield row

    def _texts(self, group: int | None, obj: Row, steps: Sequence[Row]) -> Row:
        """Return {"prompt": …, "response": …} of a trajectory, {} if they cannot be identified."""
        number = coerce.integer(obj.get("traj_idx"))
        groups = _groups(self.sibling) if self.sibling else []
        if group is None or not 0 <= group < len(groups):
            return {}
        # Answers of several steps are not told apart in the logtree.
        if number is None or len(steps) != 1:
            return {}
        reward = obj.get("total_reward")
        shown_reward = f"{reward:.3f}" if isinstance(reward, int | float) else ""
        # The logtree must be of the same run: it shows the same reward and length there.
        expected = _Trajectory(shown_reward, lengths=[_length(steps[0])])
        if groups[group].trajectories[number : number + 1] != [expected]:
            return {}
        return _matched_texts(groups[group], number)


def _matched_texts(group: _Group, number: int) -> Row:
    """Return the texts of a group's trajectory, matched by reward and length; {} if ambiguous.

    ``number`` is the trajectory's index in the group.
    """
    trajectories = group.trajectories
    # An answer that is missing could be that of any trajectory.
    if len(group.answers) != len(trajectories):
        return {}
    reward = trajectories[number].total_return
    equal = [i for i, one in enumerate(trajectories) if one.total_return == reward]
    texts = [answer.texts for answer in group.answers if answer.reward == reward]
    if len(texts) != len(equal):
        return {}
    # The longest text belongs to the trajectory with the most tokens, and so on.
    equal.sort(key=lambda i: trajectories[i].lengths)
    texts.sort(key=lambda text: len(conversation_text(text["response"])))
    return texts[equal.index(number)]


def _length(step: Row) -> int:
    return coerce.integer(step.get("ac_len")) or 0


@lru_cache(maxsize=2)
def _groups(file: FileStamp) -> list[_Group]:
    root = mapping(logged.document_of(file).get("root"))
    sections = _sections(root)
    return [_group_of(node) for title, node in sections if title == "Group Rollout"]


def _group_of(node: Row) -> _Group:
    """Return a rollout group, given its node in the logtree.

    Each answer has three sections in a row: prompt, response and reward.
    """
    trajectories: list[_Trajectory] = []
    answers: list[_Answer] = []
    texts: Row = {}  # of the answer whose sections are being read
    for title, section in _sections(node):
        if title == "Prompt":
            texts = {"prompt": _messages(section)}
        elif title == "Policy Response":
            texts["response"] = _messages(section)
        elif title == "Reward" and "prompt" in texts and "response" in texts:
            rewards = _cells(section, "reward")
            answers.append(_Answer(rewards[0] if rewards else "", texts))
            texts = {}
        elif title == "Trajectory Details":
            trajectories += [_trajectory_of(body) for _, body in _sections(section)]
    return _Group(trajectories, answers)


def _trajectory_of(node: Row) -> _Trajectory:
    returns = _cells(node, "total_return")
    lengths = [int(text) for text in _cells(node, "ac_len") if text.isdigit()]
    return _Trajectory(returns[-1] if returns else "", lengths)


def _sections(node: Row) -> Iterator[tuple[str, Row]]:
    """Yield (title, body) of each section directly below a node of the logtree."""
    for child in dicts(node.get("children")):
        inner = dicts(child.get("children"))
        if child.get("tag") == "section" and len(inner) == 2:
            yield _text(inner[0]), inner[1]


def _text(node: Row) -> str:
    return "".join(map(coerce.text, node.get("children") or []))


def _walk(node: Row, level: int = 0) -> Iterator[Row]:
    """Yield a node and those below it, down to a level that a made-up log may exceed."""
    yield node
    if level < _MAX_LEVELS:
        for child in dicts(node.get("children")):
            yield from _walk(child, level + 1)


def _messages(node: Row) -> list[Row]:
    """Return the messages of the first conversation below a node of the logtree, [] if none."""
    for part in _walk(node):
        data = mapping(part.get("data"))
        if data.get("type") == "conversation":
            return dicts(data.get("messages"))
    return []


def _cells(node: Row, name: str) -> list[str]:
    """Return the values labelled ``name`` in the two-column tables below a node of the logtree."""
    values: list[str] = []
    for part in _walk(node):
        cells = dicts(part.get("children"))
        if part.get("tag") == "tr" and len(cells) == 2:
            label, value = cells
            if label.get("children") == [name]:
                values.append(_text(value))
    return values
