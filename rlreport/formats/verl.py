"""verl's ``rollout_data_dir`` and ``validation_data_dir``: one ``{step}.jsonl`` a step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Match, Row, RowError, Where, has_keys, named
from rlreport.formats.logged import columns, present
from rlreport.formats.messages import asked_and_answered
from rlreport.text.messages import message

_STEP = re.compile(r"(?:^|/)(?:step_?|global_step_?)?(\d+)\.jsonl(?:\.gz|\.zst)?$")
_UID = re.compile(r"(.+)_\d+_\d+")
_TEXTS = frozenset({"pred", "answer", "extracted_answer", "request_id", "data_source", "uid"})
_KNOWN = frozenset({"input", "output", "gts", "score", "step", "reward"}) | _TEXTS
_PART = re.compile(r".+_(?:reward|score)s?|.+_penalty")


class Verl(BaseFormat):
    """Rows with ``input``, ``output``, ``score``; reward extras become columns and parts."""

    id = "verl"
    description = "verl rollout_data_dir and validation_data_dir, legacy and V1 trainer"
    files = ("<step>.jsonl",)

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim rows of input, output and score."""
        if not has_keys(objects, "input", "output", "score"):
            return None
        if not has_keys(objects, "gts") and not has_keys(objects, "step"):
            return None
        keys = [key for key in ("input", "output", "gts", "score", "uid") if key in objects[0]]
        return Match(90 if _STEP.search(name) else 80, named(keys))

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row; the V1 trainer's ``uid`` prefix is its group."""
        if obj.get("output") is None:
            raise RowError(message("no `output`"))
        row = columns(obj, _KNOWN)
        row.update({key: obj[key] for key in _TEXTS & obj.keys() if isinstance(obj[key], str)})
        parts = {
            key: float(value)
            for key, value in row.items()
            if _PART.fullmatch(key) and isinstance(value, int | float)
        }
        reward = logged.required(obj, "score")
        row |= {
            "step": logged.step_of(obj.get("step"), where, _STEP),
            "reward": reward,
            **asked_and_answered(obj.get("input"), obj["output"]).fields(),
            **present(reward_parts=parts or None, ground_truth=logged.text_if_any(obj.get("gts"))),
        }
        uid = row.pop("uid", None)
        if isinstance(uid, str):
            prefix = _UID.fullmatch(uid)
            row["group_id"] = prefix[1] if prefix else uid
        # Validation logs the score twice; a reward that differs is kept beside it.
        other = obj.get("reward", reward)
        other = logged.unstringed(other) if isinstance(other, str) else other
        if isinstance(other, int | float) and float(other) != reward and other == other:
            row["reward_logged"] = float(other)
        yield row
