"""The log format of SkyRL's dumped evaluations."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import xxhash

from rlreport.errors import RowError
from rlreport.fields import AssumedStep
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, FileStamp, Row, Where
from rlreport.formats.logged import columns, fields, mapping
from rlreport.system import coerce
from rlreport.text.chat import Turn, prompt_and_response_fields
from rlreport.text.messages import message

_STEP = re.compile(r"global_step_(\d+)")
_SKYRL_USED_KEYS = frozenset(
    {"input_prompt", "output_response", "score", "stop_reason", "env_extras"}
)


class SkyRL(BaseFormat):
    """SkyRL's format: one line per response, or per turn of a trajectory in step-wise evaluations.

    Of a trajectory's lines only the last has the reward and becomes a row, with the others as its
    earlier turns. A line belongs to the same trajectory as the next line if the next prompt begins
    with this line's prompt and response, or if both have the same ``extra_info.index`` and the next
    prompt is not the one that the trajectory began with, as that of another sample is. The mean in
    ``aggregated_results.jsonl`` may show that lines with one index are responses, not turns.
    To find the lines, the file is read again as its ``sibling``.
    """

    id = "skyrl"
    alone = False
    evaluates = True
    description = (
        "SkyRL dumped evaluations, one folder per step, one file per data source"
    )
    files = ("global_step_*_evals/*.jsonl",)
    claims = (("input_prompt", "output_response", "score"),)

    def with_siblings(self, path: Path, listed: Collection[Path]) -> SkyRL | str:
        if path.parent.name == "eval_only" and _has_steps(path.parent.parent, listed):
            return message(
                "an evaluation outside training, without a step: build a separate report of it"
            )
        return SkyRL(FileStamp.of(path)) if path.suffix == ".jsonl" else self

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the row of a line; none for a trajectory's lines before its last one."""
        if obj.get("output_response") is None:
            raise RowError(message("{field} is missing", field="`output_response`"))
        # A list of scores has one per token, and their sum is the reward.
        scores = coerce.numbers(obj.get("score"))
        extras = mapping(obj.get("env_extras"))
        spec = extras.get("reward_spec") or extras.get("reward_model")
        label_holder = spec if isinstance(spec, dict) else extras
        # An evaluation outside training (`eval_only`) has no step.
        default = None if "step" in obj else AssumedStep()
        if scores is None:
            reward = logged.required(obj, "score")
        else:
            reward = logged.total(scores)
        row = {
            **columns(obj, _SKYRL_USED_KEYS),
            **prompt_and_response_fields(
                obj.get("input_prompt"), obj["output_response"]
            ),
            "step": logged.step_of(obj.get("step"), where, _STEP, default),
            "reward": reward,
            **fields(
                finish_reason=obj.get("stop_reason"),
                ground_truth=label_holder.get("ground_truth"),
            ),
        }
        if self.sibling is None:
            yield row
            return
        place = _trajectories(self.sibling).get(_digest(obj), _Place())
        if place.earlier:
            # The row is that of the whole trajectory, whose other lines yield none.
            lines = [*_lines_at(self.sibling, place.earlier), obj]
            turns = _turns(lines)
            replies = [turn["text"] for turn in turns if turn["sampled"]]
            row["turns"] = turns
            row["prompt"] = coerce.string(lines[0].get("input_prompt")) or ""
            row["response"] = "\n".join(replies)
        if place.is_last:
            yield row


def _has_steps(evaluations: Path, listed: Collection[Path]) -> bool:
    """Return whether a folder has an evaluation of a training step among the ``listed`` files."""
    folders = [file.parent for file in listed if file.parent.parent == evaluations]
    return any(_STEP.search(folder.name) for folder in folders)


class _Place(NamedTuple):
    """A line's place in its trajectory; by default a trajectory of one line."""

    earlier: Sequence[int] = ()  # offsets of the trajectory's lines before it
    is_last: bool = True


@lru_cache(maxsize=4)
def _trajectories(file: FileStamp) -> dict[int, _Place]:
    """Return digest of a line -> its place, for lines of trajectories of several lines."""
    share_index = _are_turns(file)
    places: dict[int, _Place] = {}
    earlier: list[int] = []  # offsets of the current trajectory's lines before this one
    first: Row = {}  # the current trajectory's first line
    before: Row = {}  # the line before this one
    offset_before = 0
    for offset, obj in _lines_with_offsets(file):
        is_turn = share_index and _is_next_turn(obj, before, first)
        if is_turn or _continues(obj, before):
            earlier = [*earlier, offset_before]
            places[_digest(before)] = _Place(is_last=False)
            # The last line so far; the next one may continue the trajectory.
            places[_digest(obj)] = _Place(earlier)
        else:
            earlier = []
            first = obj
        before = obj
        offset_before = offset
    return places


def _continues(obj: Row, before: Row) -> bool:
    """Return whether a line's prompt begins with the prompt and the response of the line before."""
    prompt = obj.get("input_prompt")
    texts = _texts(before)
    return all(texts) and isinstance(prompt, str) and prompt.startswith("".join(texts))


def _is_next_turn(obj: Row, before: Row, first: Row) -> bool:
    """Return whether a line has the task of the line before, and its trajectory did not restart.

    ``first`` is the first line of the trajectory that the line before belongs to.
    """
    index = _index(obj)
    same_task = index is not None and index == _index(before)
    # Another sample of the task begins with the same prompt again.
    return same_task and obj.get("input_prompt") != first.get("input_prompt")


def _lines_with_offsets(file: FileStamp) -> Iterator[tuple[int, Row]]:
    """Yield (offset in bytes, object) of each line of a file."""
    offset = 0
    with Path(file.path).open("rb") as lines:
        for line in lines:
            yield offset, logged.json_object(line)
            offset += len(line)


def _lines_at(file: FileStamp, offsets: Sequence[int]) -> list[Row]:
    """Return the objects in the lines of a file that begin at ``offsets``."""
    objects: list[Row] = []
    with Path(file.path).open("rb") as lines:
        for offset in offsets:
            lines.seek(offset)
            objects.append(logged.json_object(lines.readline()))
    return objects


def _are_turns(file: FileStamp) -> bool:
    """Return whether lines with the same index are turns: unless the logged mean is that of lines.

    SkyRL logs the mean reward of all responses next to the file. If lines with the same index are
    turns, only the last one of each trajectory is in that mean.
    """
    logged_means = FileStamp.of(Path(file.path).with_name("aggregated_results.jsonl"))
    if logged_means is None:
        return True
    of_lines: list[float] = []
    of_trajectories: list[float] = []
    before: Row = {}
    first: Row = {}
    for obj in logged.lines_of(file):
        reward = _reward_of(obj)
        of_lines.append(reward)
        if _is_next_turn(obj, before, first):
            of_trajectories[-1] = reward  # only its last line counts
        else:
            first = obj
            of_trajectories.append(reward)
        before = obj
    # As SkyRL names the file and the metric of a data source.
    source = str(before.get("data_source") or "unknown").replace("/", "_")
    mean = coerce.real(logged.document_of(logged_means).get(f"eval/{source}/avg_score"))
    if mean is None or not of_lines or math.isclose(fmean(of_trajectories), mean):
        return True
    # If it is neither mean, it says nothing.
    return not math.isclose(fmean(of_lines), mean)


def _reward_of(obj: Row) -> float:
    """Return a line's reward as SkyRL adds it up: 0 if it is not a number."""
    score = obj.get("score")
    of_tokens = coerce.numbers(score)
    if of_tokens:
        return math.fsum(of_tokens)
    return coerce.real(score) or 0.0


def _index(obj: Row) -> int | None:
    extras = mapping(mapping(obj.get("env_extras")).get("extra_info"))
    return coerce.integer(extras.get("index"))


def _texts(obj: Row) -> list[str]:
    return [
        coerce.string(obj.get(key)) or "" for key in ("input_prompt", "output_response")
    ]


def _digest(obj: Row) -> int:
    """Return a hash of a line's texts, by which the line is found when it is read."""
    texts = repr([obj.get("input_prompt"), obj.get("output_response")])
    return xxhash.xxh3_64_intdigest(texts.encode("utf-8", "surrogatepass"))


def _turns(lines: Sequence[Row]) -> list[Turn]:
    """Return the turns of a trajectory; between two lines is what the prompt gained."""
    turns: list[Turn] = []
    for line, after in pairwise(lines):
        prompt, response = _texts(line)
        prompt_after, _ = _texts(after)
        # Prompts that do not repeat the response have, for example, a summary in its place.
        gained = prompt_after.removeprefix(prompt).removeprefix(response)
        turns.append({"role": "assistant", "text": response, "sampled": True})
        turns.append({"role": "environment", "text": gained, "sampled": False})
    _, last_response = _texts(lines[-1])
    turns.append({"role": "assistant", "text": last_response, "sampled": True})
    return turns
