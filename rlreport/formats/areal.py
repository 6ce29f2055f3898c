"""AReaL's ``rollout/{version}/{task_id}.jsonl``: the folder is the policy's version."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Row, RowError, Where
from rlreport.formats.logged import columns, present
from rlreport.formats.messages import asked_and_answered
from rlreport.text.messages import message

_STEP = re.compile(r"(?:^|/)(\d+)/[^/]+$")


class AReaL(BaseFormat):
    """Rows with the versions of the policy that wrote them; the step is the folder's version."""

    id = "areal"
    description = "AReaL rollouts: a folder a policy version, a file a task"
    files = ("rollout/<version>/<task_id>.jsonl",)
    keys = ("task_id", "prompt", "completion", "reward", "head_version")

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row; without a version in the path, the newest that wrote it is the step."""
        if obj.get("completion") is None:
            raise RowError(message("no `completion`"))
        step = obj.get("step")
        if step is None and not _STEP.search(where.name):
            step = obj.get("tail_version", obj.get("head_version"))
        versions = logged.integer(obj.get("head_version")), logged.integer(obj.get("tail_version"))
        yield {
            **columns(obj, ("task_id", "prompt", "completion", "reward", "step")),
            **asked_and_answered(obj.get("prompt"), obj["completion"]).fields(),
            "step": logged.step_of(step, where, _STEP),
            "reward": logged.required(obj, "reward"),
            "group_id": logged.text(obj.get("task_id")),
            **present(policy_version=logged.version_range(*versions)),
        }
