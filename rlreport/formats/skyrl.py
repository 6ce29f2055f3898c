"""The log format of SkyRL's evaluations: ``global_step_{N}_evals/{data_source}.jsonl``."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

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
_USED_KEYS = frozenset({"input_prompt", "output_response", "score", "stop_reason", "env_extras"})

# (start, stop) in characters of the policy's earlier turns in a prompt
Spans = list[tuple[int, int]]


class SkyRL(BaseFormat):
    """SkyRL's format: one line per response, or per turn of a trajectory in step-wise evaluations.

    Of a trajectory's lines only the last has the reward and becomes a row. A line belongs to the
    same trajectory as the next line if the next prompt begins with this line's prompt and response,
    or if both have the same ``extra_info.index`` and the mean in ``aggregated_results.jsonl``
    counts such lines as one trajectory. To find them, the file is read again as its ``sibling``.
    """

    id = "skyrl"
    alone = False
    evaluates = True
    description = "SkyRL dumped evaluations, a folder a step, a file a data source"
    files = ("global_step_*_evals/*.jsonl",)
    claims = (("input_prompt", "output_response", "score"),)

    def with_siblings(self, path: Path, listed: Collection[Path]) -> SkyRL | str:
        """Return the format with the file itself as sibling, or why the file is not read."""
        evaluations = path.parent.parent
        if path.parent.name == "eval_only" and any(
            file.parent.parent == evaluations and _STEP.search(file.parent.name) for file in listed
        ):
            return message(
                "an evaluation outside training, without a step: build a separate report of it"
            )
        return SkyRL(FileStamp.of(path)) if path.suffix == ".jsonl" else self

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the row of a line, unless the line is an earlier turn of a later line.

        If ``score`` is a list, it has one reward per token, and their sum is the reward.
        """
        if obj.get("output_response") is None:
            raise RowError(message("no `output_response`"))
        scores, extras = coerce.numbers(obj.get("score")), mapping(obj.get("env_extras"))
        spec = extras.get("reward_spec") or extras.get("reward_model")
        about = spec if isinstance(spec, dict) else extras
        row = {
            **columns(obj, _USED_KEYS),
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
        if spans != []:  # [] marks a line that a later line continues
            yield row


@lru_cache(maxsize=4)
def _earlier_turns(file: FileStamp) -> dict[int, Spans]:
    """Find the lines of a file that are turns of the same trajectory.

    Returns:
        hash of a line's texts -> spans of the earlier turns in its prompt, or [] if the line is
        itself an earlier turn. Lines without earlier turns in the prompt are absent.
    """
    spans_by_row: dict[int, Spans] = {}
    last_line: Row = {}
    spans: Spans = []
    by_index = _counts_trajectories(file)
    for obj in logged.lines_of(file):
        prompt, texts = obj.get("input_prompt"), _texts(last_line)
        if all(texts) and isinstance(prompt, str) and prompt.startswith("".join(texts)):
            spans = [*spans, (len(texts[0]), len("".join(texts)))]
            spans_by_row[_digest(last_line)] = []
            spans_by_row[_digest(obj)] = spans
        else:
            spans = []
            if by_index and _index(obj) is not None and _index(obj) == _index(last_line):
                spans_by_row[_digest(last_line)] = []
        last_line = obj
    return spans_by_row


def _counts_trajectories(file: FileStamp) -> bool:
    """Return whether SkyRL's logged mean score counts successive lines with equal index once."""
    logged_means = FileStamp.of(Path(file.path).with_name("aggregated_results.jsonl"))
    if logged_means is None:
        return False
    rows: list[float] = []
    trajectories: list[float] = []
    before = source = None
    for obj in logged.lines_of(file):
        scores = coerce.numbers(obj.get("score")) or [coerce.real(obj.get("score")) or 0.0]
        rows.append(math.fsum(scores))
        if trajectories and _index(obj) is not None and _index(obj) == before:
            trajectories.pop()
        trajectories.append(rows[-1])
        before, source = _index(obj), obj.get("data_source")
    mean = coerce.real(logged.document_of(logged_means).get(f"eval/{source}/avg_score"))
    if mean is None or not rows:
        return False
    of_rows, of_trajectories = (
        math.fsum(rows) / len(rows),
        math.fsum(trajectories) / len(trajectories),
    )
    return math.isclose(of_trajectories, mean) and not math.isclose(of_rows, mean)


def _index(obj: Row) -> int | None:
    """Return ``env_extras.extra_info.index`` of a line, None if it is absent."""
    extras = mapping(mapping(obj.get("env_extras")).get("extra_info"))
    return coerce.integer(extras.get("index"))


def _texts(obj: Row) -> list[str]:
    return [coerce.string(obj.get(key)) or "" for key in ("input_prompt", "output_response")]


def _digest(obj: Row) -> int:
    texts = repr([obj.get("input_prompt"), obj.get("output_response")])
    return xxhash.xxh3_64_intdigest(texts.encode("utf-8", "surrogatepass"))


def _turns(prompt: str, response: str, spans: Spans) -> list[Turn]:
    """Cut a prompt into the policy's earlier turns (``spans``) and the environment's answers."""
    turns: list[Turn] = []
    starts = [*(start for start, _ in spans[1:]), len(prompt)]
    for (start, stop), after in zip(spans, starts, strict=True):
        turns.append({"role": "assistant", "text": prompt[start:stop], "sampled": True})
        turns.append({"role": "environment", "text": prompt[stop:after], "sampled": False})
    return [*turns, {"role": "assistant", "text": response, "sampled": True}]


def _step(obj: Row, where: Where) -> int:
    # An evaluation outside training (`eval_only`) has no step.
    if "step" not in obj:
        where = replace(where, step=where.step or AssumedStep())
    return logged.step_of(obj.get("step"), where, _STEP)
