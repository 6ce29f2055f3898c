"""The log formats of tinker-cookbook."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, FileStamp, Row, Where
from rlreport.formats.logged import columns, dicts, fields, mapping
from rlreport.system import coerce
from rlreport.text.chat import conversation_text, prompt_and_response_fields
from rlreport.text.messages import message

_SUMMARIES, _LOGTREE = "_rollout_summaries.jsonl", "_logtree.json"
_MAX_LEVELS = 200

# A rollout group in a logtree: (total return, tokens per step) of its trajectories, and (reward,
# prompt and response) of its answers; returns and rewards are strings, such as ``0.500``
Group = tuple[list[tuple[str, list[int]]], list[tuple[str, Row]]]


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
        none = message(
            "the summaries contain no text, and there is no logtree next to them"
        )
        matched = message(
            "texts come from the logtree; responses of a group with equal rewards are "
            "matched by length"
        )
        super().__init__(logtree, remark=matched if logtree else none)

    def with_siblings(self, path: Path, listed: Collection[Path]) -> Tinker:
        if not path.name.endswith(_SUMMARIES):
            return self
        return Tinker(
            FileStamp.of(path.with_name(path.name.removesuffix(_SUMMARIES) + _LOGTREE))
        )

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        steps = dicts(obj.get("steps"))
        group = coerce.integer(obj.get("group_idx"))
        texts = self._texts(group, obj, steps)
        tags = obj.get("tags")
        row = {
            **columns(mapping(obj.get("trajectory_metrics"))),
            **columns(mapping(steps[-1].get("metrics")) if steps else {}),
            **prompt_and_response_fields(
                texts.get("prompt", ""), texts.get("response", "")
            ),
            "step": logged.step_of(obj.get("iteration"), where, logged.STEP_WORD),
            "reward": logged.required(obj, "total_reward"),
            "group_id": coerce.text(group),
            "final_reward": obj.get("final_reward"),
            "action_tokens": sum(_length(step) for step in steps),
            "split": "train" if obj.get("split") == "train" else "eval",
            **fields(policy_version=[obj.get("sampling_client_step")]),
        }
        if isinstance(tags, list) and tags:
            row["tags"] = ", ".join(map(coerce.text, tags))[: logged.SHORT]
        if len(steps) > 1:
            row["turns_taken"] = len(steps)
            turn = {"role": "assistant", "text": "", "sampled": True}
            row["turns"] = [{**turn, "reward": step.get("reward")} for step in steps]
        yield row

    def _texts(self, group: int | None, obj: Row, steps: Sequence[Row]) -> Row:
        """Return {"prompt": …, "response": …} of a trajectory, {} if they cannot be identified."""
        number = coerce.integer(obj.get("traj_idx"))
        groups = _groups(self.sibling) if self.sibling else []
        if (
            group is None
            or number is None
            or not 0 <= group < len(groups)
            or len(steps) != 1
        ):
            return {}
        trajectories, answers = groups[group]
        reward = obj.get("total_reward")
        summary = (
            f"{reward:.3f}" if isinstance(reward, int | float) else "",
            [_length(steps[0])],
        )
        if trajectories[number : number + 1] != [summary] or len(answers) != len(
            trajectories
        ):
            return {}
        # Sort trajectories and answers with this reward by length: those at equal ranks match.
        siblings = [
            i for i, (returned, _) in enumerate(trajectories) if returned == summary[0]
        ]
        siblings.sort(key=lambda i: trajectories[i][1])
        texts = [text for returned, text in answers if returned == summary[0]]
        texts.sort(key=lambda text: len(conversation_text(text["response"])))
        return texts[siblings.index(number)] if len(texts) == len(siblings) else {}


def _length(step: Row) -> int:
    return coerce.integer(step.get("ac_len")) or 0


@lru_cache(maxsize=2)
def _groups(file: FileStamp) -> list[Group]:
    root = mapping(logged.document_of(file).get("root"))
    return [
        _tinker_group(node)
        for title, node in _sections(root)
        if title == "Group Rollout"
    ]


def _tinker_group(node: Row) -> Group:
    trajectories: list[tuple[str, list[int]]] = []
    answers: list[tuple[str, Row]] = []
    texts: Row = {}
    for title, section in _sections(node):
        if title == "Prompt":
            texts = {"prompt": _messages(section)}
        elif title == "Policy Response":
            texts["response"] = _messages(section)
        elif title == "Reward" and "prompt" in texts and "response" in texts:
            answers.append((next(iter(_cells(section, "reward")), ""), texts))
            texts = {}
        elif title == "Trajectory Details":
            for _, episode in _sections(section):
                lengths = [int(n) for n in _cells(episode, "ac_len") if n.isdigit()]
                trajectories.append(
                    ("".join(_cells(episode, "total_return")[-1:]), lengths)
                )
    return trajectories, answers


def _sections(node: Row) -> Iterator[tuple[str, Row]]:
    """Yield (title, body) of each section directly below a node of the logtree."""
    for child in dicts(node.get("children")):
        inner = dicts(child.get("children"))
        if child.get("tag") == "section" and len(inner) == 2:
            yield _text(inner[0]), inner[1]


def _text(node: Row) -> str:
    return "".join(map(coerce.text, node.get("children") or []))


def _walk(node: Row, level: int = 0) -> Iterator[Row]:
    yield node
    for child in dicts(node.get("children")) if level < _MAX_LEVELS else []:
        yield from _walk(child, level + 1)


def _messages(node: Row) -> list[Row]:
    for part in _walk(node):
        data = mapping(part.get("data"))
        if data.get("type") == "conversation":
            return dicts(data.get("messages"))
    return []


def _cells(node: Row, name: str) -> list[str]:
    """Return the values labelled ``name`` in the two-column tables below a node of the logtree."""
    rows = [
        dicts(part.get("children")) for part in _walk(node) if part.get("tag") == "tr"
    ]
    return [
        _text(row[1])
        for row in rows
        if len(row) == 2 and row[0].get("children") == [name]
    ]
