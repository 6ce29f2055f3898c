"""ROLL's rlvr pipeline: ``rollout_dump_data.step_{N}.jsonl``, a line of columns a step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Match, Row, Where, each, match_columns
from rlreport.formats.logged import columns, present
from rlreport.formats.messages import asked_and_answered

_STEP = re.compile(r"step_(\d+)")
_KNOWN = frozenset(
    {"global_step", "id", "prompt", "ground_truth", "responses", "scores", "sampling_params"}
)


class Roll(BaseFormat):
    """One line a step, a dict of columns; ``id`` marks the group."""

    id = "roll"
    description = "ROLL rlvr rollout dumps: one line of columns a step"
    files = ("rollout_dump_data.step_*.jsonl",)

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim objects whose prompts, responses and scores are lists."""
        return match_columns(objects, "prompt", "responses", "scores")

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield a row for each entry of the columns."""
        return each(logged.explode(obj, "responses"), lambda entry: _row(entry, where))


def _row(entry: Row, where: Where) -> Row:
    return {
        **columns(entry, _KNOWN),
        **asked_and_answered(entry.get("prompt"), entry.get("responses")).fields(),
        "step": logged.step_of(entry.get("global_step"), where, _STEP),
        "reward": logged.number(entry.get("scores")),
        **present(
            group_id=logged.text_if_any(entry.get("id")),
            ground_truth=logged.text_if_any(entry.get("ground_truth")),
        ),
    }
