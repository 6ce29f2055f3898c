"""lm-evaluation-harness: ``samples_<task>_<time>.jsonl`` of ``--log_samples``."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from rlreport.formats.base import Match, Row, RowError, Where, has_keys, named
from rlreport.formats.taken import whole
from rlreport.formats.values import columns, mapping, number, text
from rlreport.text.messages import message

_NAME = re.compile(r"samples_(.+?)(?:_\d{4}-\d\d-\d\dT[^/]*)?\.(?:jsonl|json)")
_KEYS = ("doc_id", "arguments", "resps", "target")
_KNOWN = frozenset({*_KEYS, "doc", "filtered_resps", "filter", "metrics"})
_HASHES = frozenset({"doc_hash", "prompt_hash", "target_hash"})


@dataclass(frozen=True, slots=True)
class LMEval:
    """One document a line; of several choices the likeliest is the response.

    A task with several filters repeats each document: the file's first filter is read.

    Attributes:
        filter: that filter.
        remark: what is said of it.
    """

    filter: str | None = None
    remark: str = ""
    id: str = "lm_eval"
    alone: bool = True
    description: str = "lm-evaluation-harness --log_samples: one evaluation, a file a task"
    files: tuple[str, ...] = ("samples_<task>_<time>.jsonl",)
    container: str = "lines"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim documents with arguments and responses."""
        if not has_keys(objects, *_KEYS):
            return None
        return Match(95, named(_KEYS))

    def beside(self, path: Path, listed: Collection[Path]) -> LMEval:
        """Learn the file's first filter."""
        try:
            with path.open("rb") as lines:
                first = mapping(orjson.loads(lines.readline())).get("filter")
        except (OSError, ValueError):
            return self
        if not isinstance(first, str):
            return self
        remark = (
            ""
            if first == "none"
            else message("of several filters, {filter} is read", filter=f"`{first}`")
        )
        return replace(self, filter=first, remark=remark)

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the row of a document, none of another filter's."""
        if self.filter is not None and obj.get("filter") != self.filter:
            whole(obj)
            return
        logged = mapping(obj.get("arguments"))
        arguments = [mapping(logged[name]) for name in logged]
        resps = obj.get("resps")
        if not arguments or not isinstance(resps, list) or not resps:
            raise RowError(message("no `arguments` or `resps`"))
        parts = _scores(obj)
        row = columns(obj, _KNOWN | _HASHES | parts.keys())
        row.update(
            step=0,
            split="eval",
            prompt=text(arguments[0].get("arg_0")),
            response=_response(arguments, resps),
            reward=next(iter(parts.values()), math.nan),
        )
        if len(parts) > 1:
            row["reward_parts"] = parts
        task = _NAME.search(where.name)
        row["task"] = task[1] if task else ""
        row["group_id"] = f"{row['task']}:{text(obj.get('doc_id'))}"
        if obj.get("target") not in (None, ""):
            row["ground_truth"] = text(obj["target"])
        filtered = obj.get("filtered_resps")
        answer = filtered[0] if isinstance(filtered, list) and filtered else None
        if isinstance(answer, str) and answer != row["response"]:
            row["answer"] = answer[:200]
        yield row

    def split(self, name: str) -> str | None:
        """Return ``eval``: nothing else is logged."""
        return "eval"


def _scores(obj: Row) -> dict[str, float]:
    """Return the metrics that are one number each, in the task's order."""
    names = obj.get("metrics")
    found = {}
    for name in names if isinstance(names, list) else []:
        value = obj.get(name) if isinstance(name, str) else None
        if isinstance(value, int | float):
            found[name] = float(value)
    if not found and isinstance(obj.get("exact_match"), int | float):
        found["exact_match"] = float(obj["exact_match"])
    return found


def _response(arguments: Sequence[Row], resps: Sequence[Any]) -> str:
    """Return the text that was generated first, else the choice of the largest likelihood."""
    first = resps[0][0] if isinstance(resps[0], list) and resps[0] else resps[0]
    if isinstance(first, str):
        return first
    likelihoods = []
    for resp in resps:
        said = resp[0] if isinstance(resp, list) and resp else None
        likelihoods.append(number(said[0]) if isinstance(said, list) and said else -math.inf)
    best = max(range(len(likelihoods)), key=likelihoods.__getitem__)
    return text(arguments[min(best, len(arguments) - 1)].get("arg_1"))
