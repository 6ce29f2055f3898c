"""AReaL's ``rollout/{version}/{task_id}.jsonl``: the folder is the policy's version."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rlreport.formats.base import Match, Row, RowError, Where, has_keys, named, split_of
from rlreport.formats.messages import asked_and_answered
from rlreport.formats.values import columns, integer, required, step_of, text
from rlreport.text.messages import message

_STEP = re.compile(r"(?:^|/)(\d+)/[^/]+$")


class AReaL:
    """Rows with the versions of the policy that wrote them; the step is the folder's version."""

    id = "areal"
    alone = True
    description = "AReaL rollouts: a folder a policy version, a file a task"
    files = ("rollout/<version>/<task_id>.jsonl",)
    container = "lines"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim rows that say between which policy versions they were written."""
        keys = ("task_id", "prompt", "completion", "reward", "head_version")
        return Match(95, named(keys)) if has_keys(objects, *keys) else None

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row; without a version in the path, the newest that wrote it is the step."""
        if obj.get("completion") is None:
            raise RowError(message("no `completion`"))
        row = columns(obj, ("task_id", "prompt", "completion", "reward", "step"))
        row.update(asked_and_answered(obj.get("prompt"), obj["completion"]).fields())
        logged = obj.get("step")
        if logged is None and not _STEP.search(where.name):
            logged = obj.get("tail_version", obj.get("head_version"))
        row.update(
            step=step_of(logged, where, _STEP),
            reward=required(obj, "reward"),
            group_id=text(obj.get("task_id")),
        )
        first, last = integer(obj.get("head_version")), integer(obj.get("tail_version"))
        if first is not None and last is not None:
            row["policy_version"] = first if first == last else [first, last]
        return iter((row,))

    def split(self, name: str) -> str | None:
        """Return the split that the path names."""
        return split_of(name)
