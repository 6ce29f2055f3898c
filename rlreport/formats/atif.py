"""Harbor's trajectories (ATIF): ``<trial>/agent/trajectory.json``, with their ``result.json``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, FileStamp, Match, Row, RowError, Where, has_keys
from rlreport.formats.ids import span_turns, tokens_of_steps
from rlreport.formats.logged import columns, dicts, fields, mapping
from rlreport.text.chat import conversation_fields
from rlreport.text.messages import message

_MAX_RESULT = 16_000_000
_ROLES = {"agent": "assistant", "user": "user", "system": "system"}


class ATIF(BaseFormat):
    """One trajectory a file; its trial's ``result.json`` has the reward, times and errors."""

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
        outer, inner = (folder / "result.json" for folder in (path.parent.parent, path.parent))
        return ATIF(FileStamp.of(outer) or FileStamp.of(inner))

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row; without a result its reward is not known."""
        steps = dicts(obj.get("steps"))
        if not steps:
            raise RowError(message("a trajectory without `steps`"))
        agent = mapping(obj.get("agent"))
        calls = [mapping(step.get("metrics")) for step in steps if step.get("source") == "agent"]
        row = {
            **columns(mapping(obj.get("final_metrics"))),
            **_conversation(steps),
            "step": 0,
            "split": "eval",
            **_outcome(_result(self.sibling) if self.sibling else {}),
            **fields(agent=agent.get("name"), model=agent.get("model_name")),
            **tokens_of_steps(
                (c.get("prompt_token_ids"), c.get("completion_token_ids"), c.get("logprobs"))
                for c in calls
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
            {"name": c.get("function_name"), "arguments": c.get("arguments"),
             "id": c.get("tool_call_id")}
            for c in dicts(step.get("tool_calls"))
        ]  # fmt: skip
        messages.append(
            {"role": role, "content": step.get("message"), "tool_calls": calls,
             "reasoning_content": step.get("reasoning_content")}
        )  # fmt: skip
        # Agents also log steps that no model wrote, and what they took over from elsewhere.
        given = step.get("llm_call_count") == 0 or step.get("is_copied_context") is True
        sampled.append(role == "assistant" and not given)
        for result in dicts(mapping(step.get("observation")).get("results")):
            call, content = result.get("source_call_id"), result.get("content")
            messages.append({"role": "tool", "content": content, "tool_call_id": call})
            sampled.append(False)
    return conversation_fields(messages, sampled)


def _outcome(result: Row) -> Row:
    """Return reward, group, time and errors of a trial; the reward is None if it has none."""
    parts = logged.reals(mapping(mapping(result.get("verifier_result")).get("rewards")))
    row: Row = {"reward": parts.get("reward")}
    if len(parts) == 1:
        row["reward"] = logged.total(parts.values())
    elif parts:
        row["reward_parts"] = parts
    task = logged.string(result.get("task_name"))
    seconds = _seconds(mapping(result.get("agent_execution")) or result)
    row |= fields(group_id=task, task=task, seconds=seconds)
    failed = mapping(result.get("exception_info"))
    if failed:
        kind = failed.get("exception_type")
        parts_of_error = (kind, failed.get("exception_message"))
        row["errors"] = [": ".join(logged.text(part) for part in parts_of_error if part)]
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
