"""verl's ``rollout_data_dir`` and ``validation_data_dir``: one ``{step}.jsonl`` a step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rlreport.formats.base import Match, Row, RowError, Where, has_keys, named, split_of
from rlreport.formats.messages import asked_and_answered
from rlreport.formats.values import columns, required, step_of, text, unstringed
from rlreport.text.messages import message

_STEP = re.compile(r"(?:^|/)(?:step_?|global_step_?)?(\d+)\.jsonl(?:\.gz|\.zst)?$")
_UID = re.compile(r"(.+)_\d+_\d+")
_TEXTS = frozenset({"pred", "answer", "extracted_answer", "request_id", "data_source", "uid"})
_KNOWN = frozenset({"input", "output", "gts", "score", "step", "reward"}) | _TEXTS
_PART = re.compile(r".+_(?:reward|score)s?|.+_penalty")


class Verl:
    """Rows with ``input``, ``output``, ``score``; reward extras become columns and parts."""

    id = "verl"
    alone = True
    description = "verl rollout_data_dir and validation_data_dir, legacy and V1 trainer"
    files = ("<step>.jsonl",)
    container = "lines"

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
        reward = required(obj, "score")
        row.update(
            step=step_of(obj.get("step"), where, _STEP),
            reward=reward,
        )
        row.update(asked_and_answered(obj.get("input"), obj["output"]).fields())
        if parts:
            row["reward_parts"] = parts
        if obj.get("gts") is not None:
            row["ground_truth"] = text(obj["gts"])
        uid = row.pop("uid", None)
        if isinstance(uid, str):
            prefix = _UID.fullmatch(uid)
            row["group_id"] = prefix[1] if prefix else uid
        # Validation logs the score twice; a reward that differs is kept beside it.
        other = obj.get("reward", reward)
        other = unstringed(other) if isinstance(other, str) else other
        if isinstance(other, int | float) and float(other) != reward and other == other:
            row["reward_logged"] = float(other)
        return iter((row,))

    def split(self, name: str) -> str | None:
        """Return the split that the path names."""
        return split_of(name)
