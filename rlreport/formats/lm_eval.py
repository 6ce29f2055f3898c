"""lm-evaluation-harness: ``samples_<task>_<time>.jsonl`` of ``--log_samples``."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Row, RowError, Where
from rlreport.formats.logged import columns, mapping, present
from rlreport.formats.taken import all_taken
from rlreport.text.messages import message

_NAME = re.compile(r"samples_(.+?)(?:_\d{4}-\d\d-\d\dT[^/]*)?\.(?:jsonl|json)")
_KNOWN = frozenset(
    {"doc_id", "arguments", "resps", "target", "doc", "filtered_resps", "filter", "metrics"}
    | {"doc_hash", "prompt_hash", "target_hash"}
)


@dataclass(frozen=True)
class LMEval(BaseFormat):
    """One document a line; of several choices the likeliest is the response.

    A task with several filters repeats each document: the file's first filter is read.

    Attributes:
        filter: that filter.
        remark: what is said of it.
    """

    filter: str | None = None
    remark: str = ""
    id = "lm_eval"
    evaluates = True
    description = "lm-evaluation-harness --log_samples: one evaluation, a file a task"
    files = ("samples_<task>_<time>.jsonl",)
    keys = ("doc_id", "arguments", "resps", "target")

    def beside(self, path: Path, listed: Collection[Path]) -> LMEval:
        """Learn the file's first filter."""
        try:
            with path.open("rb") as lines:
                first = logged.json_object(lines.readline()).get("filter")
        except OSError:
            return self
        if not isinstance(first, str):
            return self
        if first == "none":
            return replace(self, filter=first)
        remark = message("of several filters, {filter} is read", filter=f"`{first}`")
        return replace(self, filter=first, remark=remark)

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the row of a document, none of another filter's."""
        if self.filter is not None and obj.get("filter") != self.filter:
            all_taken(obj)
            return
        given = mapping(obj.get("arguments"))
        arguments = [mapping(given[name]) for name in given]
        resps = obj.get("resps")
        if not arguments or not isinstance(resps, list) or not resps:
            raise RowError(message("no `arguments` or `resps`"))
        parts = _scores(obj)
        response = _response(arguments, resps)
        task = _NAME.search(where.name)
        target, filtered = obj.get("target"), obj.get("filtered_resps")
        answer = filtered[0] if isinstance(filtered, list) and filtered else None
        answer = answer[:200] if isinstance(answer, str) and answer != response else None
        yield {
            **columns(obj, _KNOWN | parts.keys()),
            "step": 0,
            "split": "eval",
            "prompt": logged.text(arguments[0].get("arg_0")),
            "response": response,
            "reward": next(iter(parts.values()), None),
            "task": task[1] if task else "",
            "group_id": f"{task[1] if task else ''}:{logged.text(obj.get('doc_id'))}",
            **present(
                reward_parts=parts if len(parts) > 1 else None,
                ground_truth=None if target in (None, "") else logged.text(target),
                answer=answer,
            ),
        }


def _scores(obj: Row) -> dict[str, float]:
    """Return the metrics that are one number each, in the task's order."""
    names = obj.get("metrics")
    named = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    found = present(**{name: logged.real(obj.get(name)) for name in named})
    return found or present(exact_match=logged.real(obj.get("exact_match")))


def _response(arguments: Sequence[Row], resps: Sequence[Any]) -> str:
    """Return the text that was generated first, else the choice of the largest likelihood."""
    first = resps[0][0] if isinstance(resps[0], list) and resps[0] else resps[0]
    if isinstance(first, str):
        return first
    likelihoods = []
    for resp in resps:
        said = resp[0] if isinstance(resp, list) and resp else None
        likelihoods.append(
            logged.parse_number(said[0]) if isinstance(said, list) and said else -math.inf
        )
    best = max(range(len(likelihoods)), key=likelihoods.__getitem__)
    return logged.text(arguments[min(best, len(arguments) - 1)].get("arg_1"))
