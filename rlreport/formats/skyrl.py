"""SkyRL's evaluation dumps: ``global_step_{N}_evals/{data_source}.jsonl``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path

import xxhash

from rlreport.errors import RowError
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, FileStamp, Row, Where
from rlreport.formats.logged import columns, fields, mapping
from rlreport.text.chat import Turn, prompt_and_response_fields
from rlreport.text.messages import message

_STEP = re.compile(r"global_step_(\d+)")
_KNOWN = frozenset({"input_prompt", "output_response", "score", "stop_reason", "env_extras"})

Spans = list[tuple[int, int]]


class SkyRL(BaseFormat):
    """Rows with ``input_prompt`` and ``output_response``; the step is in the folder's name.

    A step-wise evaluation dumps a row for each turn, and the reward with the last. A row is a
    turn of the next one where that one's prompt goes on from this one's prompt and response:
    the file itself (``sibling``) is looked through for such rows.
    """

    id = "skyrl"
    alone = False
    evaluates = True
    description = "SkyRL dumped evaluations, a folder a step, a file a data source"
    files = ("global_step_*_evals/*.jsonl",)
    claims = (("input_prompt", "output_response", "score"),)

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
        scores, extras = logged.numbers(obj.get("score")), mapping(obj.get("env_extras"))
        spec = extras.get("reward_spec") or extras.get("reward_model")
        about = spec if isinstance(spec, dict) else extras
        row = {
            **columns(obj, _KNOWN),
            **prompt_and_response_fields(obj.get("input_prompt"), obj["output_response"]),
            "step": _step(obj, where),
            "reward": logged.required(obj, "score") if scores is None else logged.total(scores),
            **fields(finish_reason=obj.get("stop_reason"), ground_truth=about.get("ground_truth")),
        }
        spans = _earlier_turns(self.sibling).get(_digest(obj)) if self.sibling else None
        if spans:
            row["turns"] = turns = _turns(row["prompt"], row["response"], spans)
            row["prompt"] = row["prompt"][: spans[0][0]]
            row["response"] = "\n".join(turn["text"] for turn in turns if turn["sampled"])
        if spans != []:  # else the next row goes on from here
            yield row


@lru_cache(maxsize=4)
def _earlier_turns(file: FileStamp) -> dict[int, Spans]:
    """Find the rows of a file that are turns of one trajectory.

    Returns:
        the hash of a row's texts -> where the turns before begin and end in its prompt; [] for
        a row that another one continues.
    """
    spans_by_row: dict[int, Spans] = {}
    before: Row = {}
    spans: Spans = []
    for obj in logged.lines_of(file):
        prompt, texts = obj.get("input_prompt"), _texts(before)
        if all(texts) and isinstance(prompt, str) and prompt.startswith("".join(texts)):
            spans = [*spans, (len(texts[0]), len("".join(texts)))]
            spans_by_row[_digest(before)] = []
            spans_by_row[_digest(obj)] = spans
        else:
            spans = []
        before = obj
    return spans_by_row


def _texts(obj: Row) -> list[str]:
    return [logged.string(obj.get(key)) or "" for key in ("input_prompt", "output_response")]


def _digest(obj: Row) -> int:
    texts = repr([obj.get("input_prompt"), obj.get("output_response")])
    return xxhash.xxh3_64_intdigest(texts.encode("utf-8", "surrogatepass"))


def _turns(prompt: str, response: str, spans: Spans) -> list[Turn]:
    turns: list[Turn] = []
    starts = [*(start for start, _ in spans[1:]), len(prompt)]
    for (start, stop), after in zip(spans, starts, strict=True):
        turns.append({"role": "assistant", "text": prompt[start:stop], "sampled": True})
        turns.append({"role": "environment", "text": prompt[stop:after], "sampled": False})
    return [*turns, {"role": "assistant", "text": response, "sampled": True}]


def _step(obj: Row, where: Where) -> int:
    # An evaluation outside training (`eval_only`) has no step: it is the only one.
    if "step" not in obj and not _STEP.search(where.name):
        return 0
    return logged.step_of(obj.get("step"), where, _STEP)
