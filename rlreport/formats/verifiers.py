"""Log formats of verifiers and prime-rl: results, and traces, with which updates are read.

A trace is a tree of nodes (messages); a branch is the path from the root to a leaf, and its arrays
have one number per token.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from rlreport.errors import RowError
from rlreport.fields import AssumedStep
from rlreport.figures.turns import Ending, ending_of
from rlreport.formats import logged, token_names
from rlreport.formats.base import BaseFormat, FileStamp, Row, Where
from rlreport.formats.logged import columns, dicts, fields, mapping
from rlreport.formats.token_names import first_true
from rlreport.formats.trace_updates import (
    FOLDER,
    Updates,
    annotation_files,
    apply_updates,
    is_effective,
    paths_to_leaves,
    updates_in,
)
from rlreport.system import coerce
from rlreport.text.chat import (
    prompt_and_response_fields,
    prompt_fields,
    response_fields,
)
from rlreport.text.messages import message, phrases

_OLD_KEYS = ("example_id", "prompt", "completion", "reward")
_UPDATE_KEYS = ("trace_id", "info", "branches")
_OLD_USED_KEYS = (*_OLD_KEYS, "answer", "metrics", "step", "error", "stop_condition")

# Arrays that a node has only if it was trained on; advantages also nodes of a dropped summary
_TRAINED = ("advantages", "trainer_logprobs")

# Kinds of branches; the first two are also verifiers' names of links between nodes: a summary that
# the agent went on from, and any summary
_RESUMED = "compaction"
_ATTEMPT = "compaction_attempt"
_SUBAGENT = "subagent"
_OWN_AGENT = ""

# Key of a node's float array -> field of the row; arrays have one number per sampled token.
# ``entropies`` become the mean ``entropy_mean``, so their field is not used.
_STREAMS = {
    "logprobs": "sampler_logprobs",
    "trainer_logprobs": "logprobs",
    "reference_logprobs": "ref_logprobs",
    "advantages": "advantages",
    "entropies": "entropies",
}

_STAGES = ("boot", "setup", "agent", "finalize", "scoring")
_FLAGS = ("stop_condition", "is_completed", "is_timeout", "dropped")


class Branch(NamedTuple):
    """A path through a trace's tree of nodes, from the root to a leaf."""

    path: list[int]  # indices of the nodes
    kind: str = _OWN_AGENT
    is_trained: bool = False

    @property
    def rank(self) -> tuple[bool, bool, bool]:
        """Dropped summaries come first, then untrained branches, then trained sub-agents."""
        return self.kind != _ATTEMPT, self.is_trained, self.kind != _SUBAGENT


def _branches(nodes: Sequence[Row]) -> list[Branch]:
    """Return a trace's branches by rank: the last one counts as what was trained on."""
    whole = [Branch(list(range(len(nodes))))]
    # Without links to parents, the nodes are one conversation.
    if all(node.get("parent") is None for node in nodes):
        return whole
    links = [dicts(node.get("semantic_parents")) for node in nodes]
    resumed: set[Any] = set()  # nodes with a summary that the agent went on from
    for links_of_node in links:
        resumed.update(_summaries_resumed(links_of_node))
    branches: list[Branch] = []
    for path in paths_to_leaves(nodes):
        leaf = path[-1]
        kind = _branch_kind([links[i] for i in path], is_resumed=leaf in resumed)
        is_trained = any(nodes[leaf].get(name) for name in _TRAINED)
        branches.append(Branch(path, kind, is_trained))
    branches.sort(key=lambda branch: branch.rank)
    return branches or whole  # nodes in a circle have no leaf


def _summaries_resumed(links: Sequence[Row]) -> list[Any]:
    """Return the nodes whose summary a node goes on from, by the node's ``semantic_parents``."""
    return [link.get("node") for link in links if link.get("type") == _RESUMED]


def _branch_kind(links: Sequence[Sequence[Row]], *, is_resumed: bool) -> str:
    """Return the kind of a branch by the links of its nodes, those of its leaf last.

    ``is_resumed``: the branch ends in a summary that the agent went on from in another branch.
    """
    for links_of_node in links:
        if any(link.get("type") == "subagent_call" for link in links_of_node):
            return _SUBAGENT
    if is_resumed:
        return _RESUMED
    if any(link.get("type") == _ATTEMPT for link in links[-1]):
        return _ATTEMPT
    return _OWN_AGENT


class _Episode(NamedTuple):
    obj: Row  # as logged
    shared: Row  # fields that all of its rows have
    errors: list[str]  # of the episode, not of one of its traces


class _TraceBranch(NamedTuple):
    position: int  # of the trace in its episode
    trace: Row
    branch: Branch


class Verifiers(BaseFormat):
    """The format of verifiers and prime-rl: one episode (v1) or one rollout (before v1) per line.

    Each trace of an episode is a response with reward Σ score · weight; an episode without traces
    is a failed rollout. Of a trace's branches, the last one that was trained on counts. The step
    is in prime-rl's metadata or in the path, else 0. The ``sibling`` is the file in
    prime-rl's folder ``effective``, with only the traces that were trained on. Since September 2026
    prime-rl writes updates of traces instead (``annotated``): these contain the step at which a
    trace was trained on, and mark the traces that were used; others are filtered out.
    """

    id = "verifiers"
    alone = False
    description = (
        "verifiers and prime-rl rollouts: traces.jsonl (v1), results.jsonl (older)"
    )
    files = ("traces.jsonl", "results.jsonl", "traces/stream/<n>.jsonl")
    claims = (("traces",), _OLD_KEYS, _UPDATE_KEYS)

    # Whether the siblings are files of updates; else the only one is the file in ``effective``
    annotated = False

    def recognizes(self, obj: Row) -> bool:
        return "traces" not in obj or _is_episode(obj)

    def writer(self, obj: Row) -> str:
        """Return the version of verifiers, or what else wrote an object."""
        if "traces" not in obj:
            is_update = "trace_id" in obj
            return "prime-rl's updates of traces" if is_update else "before version 1"
        traces = dicts(obj["traces"]) or [{}]
        version = coerce.string(mapping(traces[0].get("verifiers")).get("version"))
        # Cut, as a log may hold text of any length here
        return f"verifiers {version[:40]}" if version else ""

    def with_siblings(self, path: Path, listed: Collection[Path]) -> Verifiers | str:
        """Return the format with prime-rl's files next to a log; refuse what others repeat."""
        # Update files lie in ``annotations``, or in a folder of it.
        if FOLDER in path.parts[-3:-1]:
            return message("prime-rl's updates of traces, merged into the traces")
        if path.with_name(f"{path.name}.zst") in listed:
            return message("the compressed copy of this chunk is read instead")
        updates = annotation_files(path)
        if updates:
            # The remark is said once: about the first chunk of the folder.
            chunks = [file for file in listed if file.parent == path.parent]
            return _with_updates(updates, has_remark=path == min(chunks))
        # Older versions write all traces to ``all``, and again to ``effective`` those that were
        # trained on.
        subset = path.parent.name
        folder = path.parent.parent
        if subset == "effective" and folder / "all" / path.name in listed:
            return message(
                "a subset of the sibling folder `all`; its rows are read there and "
                "marked as trained"
            )
        if subset == "all":
            return Verifiers(FileStamp.of(folder / "effective" / path.name))
        return self

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield a row per branch of an episode's traces, or the row of an older result."""
        if "traces" not in obj:
            if "trace_id" in obj:
                why = message(
                    "an update of a trace, without the trace: pass the folder that contains "
                    "the traces as well"
                )
                raise RowError(why)
            yield _result(obj, where)
            return
        if not _is_episode(obj):
            raise RowError(message("`traces` is not a list of traces"))
        episode = _Episode(obj, _shared(obj, where), _errors(obj.get("errors")))
        if obj["traces"]:
            branches = self._trace_branches(episode)
            yield from logged.each(branches, lambda entry: self._row(entry, episode))
        else:
            yield _failed_row(episode)

    def _trace_branches(self, episode: _Episode) -> Iterator[_TraceBranch]:
        """Yield what becomes a row: each branch of each trace, with the trace's updates applied."""
        for position, trace in enumerate(episode.obj["traces"]):
            if self.annotated:
                trace_id = coerce.text(trace["id"])
                apply_updates(trace, updates_in(self.siblings).of(trace_id))
            branches = _branches(dicts(trace["nodes"]))
            # A trace that is left out yields only the row of its trained (last) branch, so that it
            # counts once.
            if self._leaves_out(trace, episode.shared):
                branches = branches[-1:]
            for branch in branches:
                yield _TraceBranch(position, trace, branch)

    def _row(self, entry: _TraceBranch, episode: _Episode) -> Row:
        """Return the row of a branch of a trace."""
        trace = entry.trace
        path = entry.branch.path
        row = {**episode.shared, **_trace_fields(trace, path, episode.obj)}
        # The rows of one rollout share its id. An agent that is not trained has one row only.
        has_branches = len(path) < len(trace["nodes"])
        if has_branches and row.get("trainable") is not False:
            trace_id = coerce.string(trace.get("id"))
            row |= fields(rollout_id=trace_id, branch=entry.branch.kind or None)
        if self.annotated:
            self._add_updates(row, trace, episode.shared)
        # Errors of the whole episode are shown with its first trace only.
        if entry.position == 0 and episode.errors:
            row["errors"] = [*episode.errors, *row.get("errors", [])]
        # Here the sibling is the file in ``effective``.
        if self.sibling and not self.annotated:
            advantages = _advantages(self.sibling)
            trace_id = coerce.text(trace.get("id"))
            row["trained"] = trace_id in advantages
            if trace_id in advantages:
                row.setdefault("advantages", advantages[trace_id])
        return row

    def _add_updates(self, row: Row, trace: Row, shared: Row) -> None:
        """Add the fields that updates of a trace contain to its row, in place.

        ``shared`` are the fields that all rows of the episode have.
        """
        updates = updates_in(self.siblings)
        row |= _training_fields(mapping(trace.get("info")), shared, updates)
        has_trainer = any("trainer_logprobs" in node for node in trace["nodes"])
        if updates.trained and not has_trainer:
            # ``logprobs`` are the sampler's here. Those of other rows are the trainer's, which are
            # not comparable.
            row |= fields(sampler_logprobs=row.pop("logprobs", None))

    def _leaves_out(self, trace: Row, shared: Row) -> bool:
        """Return whether a trace is of an untrained agent, or was filtered out before training."""
        if mapping(trace.get("agent")).get("trainable") is False:
            return True
        if not self.annotated:
            return False
        info = mapping(trace.get("info"))
        updates = updates_in(self.siblings)
        return "filtered_out" in _training_fields(info, shared, updates)


def _with_updates(files: tuple[FileStamp, ...], *, has_remark: bool) -> Verifiers:
    """Return the format with updates of traces, and a remark on what of these is not read."""
    problems = updates_in(files).problems
    remark = ""
    if problems and has_remark:
        remark = message(
            "prime-rl's updates of traces: {problems}", problems=phrases(problems)
        )
    form = Verifiers(*files, remark=remark)
    form.annotated = True
    return form


def _training_fields(info: Row, shared: Row, updates: Updates) -> Row:
    """Return the fields ``step``, at which a trace was trained on, and ``filtered_out``.

    ``info`` is that of the trace, with its updates; ``shared`` are its episode's fields.
    """
    kind = "eval" if shared.get("split") == "eval" else "train"
    of_kind = mapping(info.get(kind))  # older updates have the fields by kind of work
    step = of_kind.get("trained_at_step", mapping(info.get("ship")).get("step"))
    is_used = is_effective(info) or is_effective(of_kind)
    # Where no trace of a kind is marked, an unmarked one need not be filtered out.
    is_filtered = kind in updates.judged and not is_used
    return fields(step=coerce.integer(step), filtered_out=True if is_filtered else None)


def _is_episode(obj: Row) -> bool:
    traces = obj["traces"]
    return isinstance(traces, list) and all(map(_is_trace, traces))


def _is_trace(trace: object) -> bool:
    return isinstance(trace, dict) and isinstance(trace.get("nodes"), list)


@lru_cache(maxsize=2)  # read once, not for each row
def _advantages(file: FileStamp) -> dict[str, float | None]:
    """Return trace id -> advantage (None if not logged) of the traces that were trained on."""
    advantages: dict[str, float | None] = {}
    for obj in logged.lines_of(file):
        for trace in dicts(obj.get("traces")):
            advantage = mapping(trace.get("info")).get("advantage")
            advantages[coerce.text(trace.get("id"))] = coerce.real(advantage)
    return advantages


def _result(obj: Row, where: Where) -> Row:
    """Return the row of a rollout, as logged before version 1; raise RowError if it has no text."""
    if obj.get("completion") is None:
        raise RowError(message("{field} is missing", field="`completion`"))
    # Durations are logged in seconds, by some versions in milliseconds.
    timing = mapping(obj.get("timing"))
    seconds = coerce.real(timing.get("total"))
    seconds_of_millis = logged.seconds_of(timing, "total_ms")
    error = obj.get("error")
    return {
        **columns(obj, _OLD_USED_KEYS),
        **columns(mapping(obj.get("metrics")), _OLD_USED_KEYS),
        **prompt_and_response_fields(obj.get("prompt"), obj["completion"]),
        "step": logged.step_of(obj.get("step"), where, logged.STEP_WORD, AssumedStep()),
        "reward": logged.required(obj, "reward"),
        "group_id": coerce.text(obj.get("example_id")),
        **fields(
            ground_truth=obj.get("answer"),
            finish_reason=_finish_reason(obj),
            seconds=seconds_of_millis if seconds is None else seconds,
            failed=None if error is None else True,
            errors=[_error(error)] if error else None,
        ),
    }


def _shared(obj: Row, where: Where) -> Row:
    """Return the fields that all rows of an episode, ``obj``, have."""
    run = mapping(obj.get("run"))
    work = mapping(run.get("work"))
    task = mapping(mapping(obj.get("task")).get("data"))
    environment = mapping(obj.get("env"))
    policy = mapping(work.get("policy"))
    kind = work.get("type") or run.get("type")  # of work: "train", "eval", others
    step = work.get("step")
    return {
        "step": logged.step_of(step, where, logged.STEP_WORD, AssumedStep()),
        **fields(
            group_id=mapping(obj.get("group")).get("id"),
            env=environment.get("name") or environment.get("id"),
            split=kind if kind in ("train", "eval") else None,
            policy_version=(policy.get("start"), policy.get("end")),
            ground_truth=task.get("answer", task.get("ground_truth")),
            ok=obj["ok"] if isinstance(obj.get("ok"), bool) else None,
        ),
    }


def _failed_row(episode: _Episode) -> Row:
    """Return the row of an episode that has no trace."""
    errors = episode.errors or ["no trace"]
    failed = logged.failed_fields(_question(episode.obj), *errors)
    return {**episode.shared, **failed, "finish_reason": "error"}


def _trace_fields(trace: Row, path: Sequence[int], episode: Row) -> Row:
    """Return a row's fields of a trace; ``path`` are the indices of the nodes of one branch.

    The nodes before the first one that the policy wrote are the prompt. ``episode`` is as logged.
    """
    nodes = [trace["nodes"][i] for i in path]
    sampled = [bool(node.get("sampled")) for node in nodes]
    start = first_true(sampled)  # number of nodes before the response
    messages = [node.get("message") for node in nodes]
    prompt = prompt_fields(messages[:start])
    texts = prompt | response_fields(messages[start:], sampled[start:])
    turns = texts.get("turns", [])
    _time_turns(turns, path[start:], dicts(trace.get("calls")))
    tokens, spans = _tokens(nodes, start)
    token_names.set_spans(turns, spans)
    info = mapping(trace.get("info"))
    agent = mapping(trace.get("agent"))
    trainable = agent.get("trainable")
    row: Row = {
        **columns(info, ("advantage", "kind", "effective")),
        **columns(mapping(trace.get("metrics"))),
        **texts,
        "prompt": prompt["prompt"] or _question(episode),
        **_reward_fields(trace),
        **fields(
            agent=agent.get("name"),
            trainable=trainable if isinstance(trainable, bool) else None,
            finish_reason=_finish_reason(trace),
            seconds=_seconds(mapping(trace.get("timing"))),
            advantages=coerce.real(info.get("advantage")),
        ),
        **_flags(trace),
        **tokens,
    }
    errors = _errors(trace.get("errors"))
    if errors:
        row["errors"] = errors
        # Without a node that the policy wrote, the rollout failed before its first reply.
        has_response = start < len(nodes)
        if not has_response:
            row |= logged.failed_fields(row["prompt"], *errors)
            row["finish_reason"] = "error"
    return row


def _flags(trace: Row) -> Row:
    values = {key: trace.get(key) for key in _FLAGS}
    return {key: v for key, v in values.items() if isinstance(v, str | bool)}


def _question(episode: Row) -> str:
    data = mapping(mapping(episode.get("task")).get("data"))
    return coerce.text(data.get("question", data.get("prompt")))


def _tokens(nodes: Sequence[Row], start: int) -> tuple[Row, list[tuple[int, int]]]:
    """Return a branch's token fields, and (start, stop) of the tokens of each node from ``start``.

    The response begins with the first sampled token; tokens before it belong to the prompt.
    """
    replies = nodes[start:]
    logged_arrays = _arrays_of(replies)
    prompt_ids: list[int] = []
    for node in nodes[:start]:
        prompt_ids += coerce.ints(node.get("token_ids")) or []
    ids: list[int] = []
    mask: list[int] = []
    streams: dict[str, list[float]] = {name: [] for name in _STREAMS}
    spans: list[tuple[int, int]] = []
    for node in replies:
        node_ids = coerce.ints(node.get("token_ids")) or []
        sampled = _sampled_tokens(node, len(node_ids), logged_arrays)
        # Until a token was sampled, tokens belong to the prompt.
        skipped = 0 if any(mask) else first_true(sampled)
        prompt_ids += node_ids[:skipped]
        spans.append((len(ids), len(ids) + len(node_ids) - skipped))
        ids += node_ids[skipped:]
        mask += [int(one) for one in sampled[skipped:]]
        for name, values in streams.items():
            values.extend(_align(node.get(name), sampled)[skipped:])
    if not ids:
        return {}, []
    row: Row = {"token_ids": ids, "response_mask": mask}
    if prompt_ids:
        row["prompt_token_ids"] = prompt_ids
    return row | _stream_fields(streams), spans


def _arrays_of(nodes: Sequence[Row]) -> list[str]:
    """Return the keys of float arrays that any of the nodes has."""
    arrays: list[str] = []
    for name in _STREAMS:
        if any(node.get(name) for node in nodes):
            arrays.append(name)
    return arrays


def _sampled_tokens(node: Row, size: int, logged_arrays: Sequence[str]) -> list[bool]:
    """Return whether each of a node's ``size`` tokens was sampled; none if it was not trained on.

    ``logged_arrays`` are the keys of arrays that any node of the branch has. A node that was
    trained on has all of them; only entropies may be missing.
    """
    is_trained = all(node.get(name) for name in logged_arrays if name != "entropies")
    mask = node.get("mask")
    sampled = [bool(one) for one in mask] if isinstance(mask, list) else []
    if not is_trained or len(sampled) != size:
        return [False] * size
    return sampled


def _stream_fields(streams: Mapping[str, list[float]]) -> Row:
    """Return the row's fields of float arrays (key -> one number per token) that are not all NaN.

    Of entropies, only the mean is a field.
    """
    row: Row = {}
    entropies = [value for value in streams["entropies"] if not math.isnan(value)]
    if entropies:
        row["entropy_mean"] = fmean(entropies)
    for name, values in streams.items():
        if name != "entropies" and not all(map(math.isnan, values)):
            row[_STREAMS[name]] = values
    if "logprobs" not in row and "sampler_logprobs" in row:
        # Only the sampler's logprobs are logged: use them as the policy's.
        row["logprobs"] = row.pop("sampler_logprobs")
    return row


def _align(value: Any, sampled: Sequence[bool]) -> list[float]:
    """Return one number per token: those in ``value`` for sampled tokens, NaN for others.

    ``sampled`` has a bool per token, ``value`` a number per sampled token or per token.
    """
    values = coerce.numbers(value)
    if not values:
        return [math.nan] * len(sampled)
    if len(values) == len(sampled):
        values = list(compress(values, sampled))
    numbers = iter(values)
    return [
        next(numbers, math.nan) if is_sampled else math.nan for is_sampled in sampled
    ]


def _time_turns(
    turns: Sequence[Row], nodes: Sequence[int], calls: Sequence[Row]
) -> None:
    """Set ``seconds`` of turns by the model calls, if each of ``nodes`` became a turn.

    ``nodes`` are indices of nodes in the trace; a call names the node that it returned.
    """
    if len(turns) != len(nodes):
        return
    turn_of_node: dict[int | None, Row] = dict(zip(nodes, turns, strict=True))
    for call in calls:
        turn = turn_of_node.get(coerce.integer(call.get("node")))
        time = mapping(call.get("time"))
        begin = coerce.real(time.get("start"))
        end = coerce.real(time.get("end"))
        # A time of 0 means that it was not measured.
        if turn and begin and end and end >= begin > 0:
            turn["seconds"] = end - begin


def _seconds(timing: Row) -> float | None:
    """Return the seconds from the start of a trace to the end of its last stage, else None."""
    begin = coerce.real(timing.get("start"))
    ends: list[float] = []
    for stage in _STAGES:
        end = coerce.real(mapping(timing.get(stage)).get("end"))
        if end is not None:
            ends.append(end)
    if begin is None or not ends or max(ends) < begin:
        return None
    return max(ends) - begin


def _reward_fields(trace: Row) -> Row:
    rewards = mapping(trace.get("rewards"))
    if not rewards:
        return {"reward": coerce.grade(trace.get("reward"))}
    parts = {name: _weighted_score(rewards[name]) for name in rewards}
    return {"reward": logged.total(parts.values()), "reward_parts": parts}


def _weighted_score(reward: Any) -> float:
    if not isinstance(reward, dict):
        return coerce.number(reward)
    score = coerce.number(reward.get("score"))
    weight = reward.get("weight")
    return score if weight is None else score * coerce.number(weight)


def _finish_reason(trace: Row) -> str | None:
    """Return ``length`` if a token limit ended the trace, else the logged stop condition."""
    reason = trace.get("stop_condition")
    ending = ending_of(reason)
    # A logged condition such as an error or a limit of turns says more than a last call that was
    # cut; that it finished, or nothing, says less.
    may_be_cut = ending in (None, Ending.FINISHED)
    if _is_cut(trace) and may_be_cut:
        return "length"
    return "length" if ending is Ending.CUT_OFF else coerce.string(reason)


def _is_cut(trace: Row) -> bool:
    """Return whether a token limit ended the trace or its last model call."""
    # Read even if the calls decide, so that the key counts as recognized
    is_truncated = trace.get("is_truncated") is True
    calls = dicts(trace.get("calls"))
    answered = [call for call in calls if call.get("error") is None]
    if answered and answered[-1].get("finish_reason") == "length":
        return True
    return is_truncated


def _errors(value: Any) -> list[str]:
    return [_error(item) for item in value] if isinstance(value, list) else []


def _error(value: Any) -> str:
    return logged.error_text(value, "type", "error", "message") or coerce.text(value)
