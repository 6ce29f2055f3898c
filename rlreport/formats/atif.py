"""Harbor's trajectories (ATIF): ``<trial>/agent/trajectory.json``, its reward beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, FileStamp, Match, Row, RowError, Where, has_keys
from rlreport.formats.logged import columns, dicts, mapping, present
from rlreport.formats.messages import conversation_fields
from rlreport.formats.token_arrays import span_turns, tokens_of_steps
from rlreport.text.messages import message

_MAX_RESULT = 16_000_000
_ROLES = {"agent": "assistant", "user": "user", "system": "system"}


@dataclass(frozen=True)
class ATIF(BaseFormat):
    """One trajectory a file; a trial's ``result.json`` says its reward, times and errors.

    Attributes:
        result: that file, where there is one.
    """

    result: FileStamp | None = None
    id = "atif"
    alone = False
    evaluates = True
    description = "Harbor trajectories (ATIF), with the reward in result.json of their trial"
    files = ("<trial>/agent/trajectory.json",)
    container = "json"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim trajectories by their schema's version."""
        if not has_keys(objects, "schema_version", "steps"):
            return None
        if not all(str(obj["schema_version"]).startswith("ATIF") for obj in objects):
            return None
        return Match(97, "has an ATIF `schema_version` and `steps`")

    def beside(self, path: Path, listed: Collection[Path]) -> ATIF:
        """Find the result of the trial."""
        folders = (path.parent.parent, path.parent)
        found = [FileStamp.of(folder / "result.json") for folder in folders]
        return replace(self, result=found[0] or found[1])

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row; without a result its reward is not known."""
        steps = dicts(obj.get("steps"))
        if not steps:
            raise RowError(message("a trajectory without `steps`"))
        result = _result(self.result) if self.result else {}
        agent = mapping(obj.get("agent"))
        asked = [mapping(step.get("metrics")) for step in steps if step.get("source") == "agent"]
        row = {
            **columns(mapping(obj.get("final_metrics")), ()),
            **_conversation(steps),
            "step": 0,
            "split": "eval",
            **_outcome(result),
            **present(
                agent=logged.string(agent.get("name")), model=logged.string(agent.get("model_name"))
            ),
            **tokens_of_steps(
                (m.get("prompt_token_ids"), m.get("completion_token_ids"), m.get("logprobs"))
                for m in asked
            ),
        }
        span_turns(row)
        yield row


def _conversation(steps: Sequence[Row]) -> Row:
    messages: list[Row] = []
    sampled: list[bool] = []
    for step in steps:
        role = _ROLES.get(logged.text(step.get("source")), "?")
        calls = [
            {"name": call.get("function_name"), "arguments": call.get("arguments"),
             "id": call.get("tool_call_id")}
            for call in dicts(step.get("tool_calls"))
        ]  # fmt: skip
        messages.append(
            {"role": role, "content": step.get("message"), "tool_calls": calls,
             "reasoning_content": step.get("reasoning_content")}
        )  # fmt: skip
        # Agents also log steps that no model wrote, and what they took over from elsewhere.
        given = step.get("llm_call_count") == 0 or step.get("is_copied_context") is True
        sampled.append(role == "assistant" and not given)
        for result in dicts(mapping(step.get("observation")).get("results")):
            seen = {"content": result.get("content"), "tool_call_id": result.get("source_call_id")}
            messages.append({"role": "tool", **seen})
            sampled.append(False)
    return conversation_fields(messages, sampled)


def _outcome(result: Row) -> Row:
    """Return reward, group, time and errors of a trial; the reward is None where none is said."""
    rewards = mapping(mapping(result.get("verifier_result")).get("rewards"))
    parts = {name: float(v) for name in rewards if isinstance(v := rewards[name], int | float)}
    reward = parts["reward"] if "reward" in parts else logged.total(parts.values())
    row: Row = {"reward": reward if len(parts) <= 1 or "reward" in parts else None}
    if len(parts) > 1:
        row["reward_parts"] = parts
    task = logged.string(result.get("task_name"))
    row |= present(
        group_id=task,
        task=task,
        seconds=_seconds(mapping(result.get("agent_execution")) or result),
    )
    failed = mapping(result.get("exception_info"))
    if failed:
        kind, said = failed.get("exception_type"), failed.get("exception_message")
        row["errors"] = [": ".join(logged.text(part) for part in (kind, said) if part)]
        row["finish_reason"] = "length" if "Timeout" in logged.text(kind) else "error"
    return row


def _seconds(times: Row) -> float | None:
    try:
        begin, end = (datetime.fromisoformat(times[key]) for key in ("started_at", "finished_at"))
        return max(0.0, (end - begin).total_seconds())
    except (KeyError, TypeError, ValueError):
        return None


@lru_cache(maxsize=64)
def _result(file: FileStamp) -> Row:
    try:
        with Path(file.path).open("rb") as opened:
            return logged.json_object(opened.read(_MAX_RESULT))
    except OSError:
        return {}
