"""ROLL's rlvr pipeline: ``rollout_dump_data.step_{N}.jsonl``, a line of columns a step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rlreport.formats.base import Match, Row, Where, each, split_of
from rlreport.formats.columnar import explode, match_columns
from rlreport.formats.messages import asked_and_answered
from rlreport.formats.values import columns, number, step_of, text

_STEP = re.compile(r"step_(\d+)")
_KNOWN = frozenset(
    {"global_step", "id", "prompt", "ground_truth", "responses", "scores", "sampling_params"}
)


class Roll:
    """One line a step, a dict of columns; ``id`` marks the group."""

    id = "roll"
    alone = True
    description = "ROLL rlvr rollout dumps: one line of columns a step"
    files = ("rollout_dump_data.step_*.jsonl",)
    container = "lines"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim objects whose prompts, responses and scores are lists."""
        return match_columns(objects, ("prompt", "responses", "scores"))

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield a row for each entry of the columns."""
        return each(explode(obj, "responses"), lambda entry: _row(entry, where))

    def split(self, name: str) -> str | None:
        """Return the split that the path names."""
        return split_of(name)


def _row(entry: Row, where: Where) -> Row:
    row = columns(entry, _KNOWN)
    row.update(asked_and_answered(entry.get("prompt"), entry.get("responses")).fields())
    row.update(
        step=step_of(entry.get("global_step"), where, _STEP), reward=number(entry.get("scores"))
    )
    if entry.get("id") is not None:
        row["group_id"] = text(entry["id"])
    if entry.get("ground_truth") is not None:
        row["ground_truth"] = text(entry["ground_truth"])
    return row
