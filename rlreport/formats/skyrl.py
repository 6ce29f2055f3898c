"""SkyRL's evaluation dumps: ``global_step_{N}_evals/{data_source}.jsonl``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import xxhash

from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, FileStamp, Row, RowError, Where
from rlreport.formats.logged import columns, mapping, present
from rlreport.formats.messages import Turn, prompt_and_response_fields
from rlreport.text.messages import message

_STEP = re.compile(r"global_step_(\d+)")
_KNOWN = frozenset({"input_prompt", "output_response", "score", "stop_reason", "env_extras"})

Cuts = dict[int, tuple[tuple[int, int], ...]]
"""Rows that are one turn of several, by the hash of their texts: where the turns before begin
and end in the row's prompt. A row that another one continues has none, and is no response."""


@dataclass(frozen=True)
class SkyRL(BaseFormat):
    """Rows with ``input_prompt`` and ``output_response``; the step is in the folder's name.

    A step-wise evaluation dumps a row for each turn, and the reward with the last. A row is a
    turn of the next one where that one's prompt goes on from this one's prompt and response.

    Attributes:
        file: where it is at hand to be looked through for such rows.
    """

    file: FileStamp | None = None
    id = "skyrl"
    alone = False
    evaluates = True
    description = "SkyRL dumped evaluations, a folder a step, a file a data source"
    files = ("global_step_*_evals/*.jsonl",)
    keys = ("input_prompt", "output_response", "score")

    def beside(self, path: Path, listed: Collection[Path]) -> SkyRL | str:
        """Remember the file; an evaluation without a step is not mixed with those that have one."""
        evaluations = path.parent.parent
        if path.parent.name == "eval_only" and any(
            file.parent.parent == evaluations and _STEP.search(file.parent.name) for file in listed
        ):
            return message("an evaluation outside training, of no step: read it alone")
        return SkyRL(FileStamp.of(path)) if path.suffix == ".jsonl" else self

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row; a list of scores is a reward per token, and its sum the reward."""
        if obj.get("output_response") is None:
            raise RowError(message("no `output_response`"))
        texts = prompt_and_response_fields(obj.get("input_prompt"), obj["output_response"])
        cuts = _cuts(self.file) if self.file else {}
        cut = cuts.get(_digest(obj))
        scores = logged.numbers(obj.get("score"))
        row = {
            **columns(obj, _KNOWN),
            "step": _step(obj, where),
            "reward": logged.required(obj, "score") if scores is None else logged.total(scores),
            **present(
                finish_reason=logged.string(obj.get("stop_reason")),
                ground_truth=logged.text_if_any(_ground_truth(obj.get("env_extras"))),
            ),
        }
        if cut == ():
            return  # the next row goes on from here
        if not cut:
            yield row | texts
            return
        turns = _turns(texts["prompt"], texts["response"], cut)
        sampled = "\n".join(turn["text"] for turn in turns if turn["sampled"])
        yield {**row, "prompt": texts["prompt"][: cut[0][0]], "response": sampled, "turns": turns}


@lru_cache(maxsize=4)
def _cuts(file: FileStamp) -> Cuts:
    """Find the rows of a file that are turns of one trajectory."""
    cuts: Cuts = {}
    before: Row = {}
    spans: tuple[tuple[int, int], ...] = ()
    with Path(file.path).open("rb") as lines:
        for line in lines:
            obj = logged.json_object(line)
            said, prompt = _texts(before), obj.get("input_prompt")
            if said and isinstance(prompt, str) and prompt.startswith("".join(said)):
                spans += ((len(said[0]), len(said[0]) + len(said[1])),)
                cuts[_digest(before)] = ()
                cuts[_digest(obj)] = spans
            else:
                spans = ()
            before = obj
    return cuts


def _texts(obj: Row) -> tuple[str, str] | None:
    prompt, response = obj.get("input_prompt"), obj.get("output_response")
    if not isinstance(prompt, str) or not isinstance(response, str) or not prompt or not response:
        return None
    return prompt, response


def _digest(obj: Row) -> int:
    texts = [obj.get("input_prompt"), obj.get("output_response")]
    return xxhash.xxh3_64_intdigest(logged.encoded(texts))


def _turns(prompt: str, response: str, cut: Sequence[tuple[int, int]]) -> list[Turn]:
    turns: list[Turn] = []
    for i, (start, stop) in enumerate(cut):
        turns.append({"role": "assistant", "text": prompt[start:stop], "sampled": True})
        end = cut[i + 1][0] if i + 1 < len(cut) else len(prompt)
        turns.append({"role": "environment", "text": prompt[stop:end], "sampled": False})
    return [*turns, {"role": "assistant", "text": response, "sampled": True}]


def _step(obj: Row, where: Where) -> int:
    # An evaluation outside training (`eval_only`) has no step: it is the only one.
    if "step" not in obj and not _STEP.search(where.name):
        return 0
    return logged.step_of(obj.get("step"), where, _STEP)


def _ground_truth(extras: Any) -> Any:
    extras = mapping(extras)
    spec = extras.get("reward_spec") or extras.get("reward_model")
    return spec.get("ground_truth") if isinstance(spec, dict) else extras.get("ground_truth")
