"""Log formats of verifiers and prime-rl: results, traces, and updates of traces.

An update is a line such as ``{"version": 1, "trace_id": "t1", "info": {"effective": true, "ship":
{"step": 4}}, "branches": [{"index": 0, "advantages": [null, 0.5]}]}``. Later updates of a trace
replace earlier values. A trace is a tree of nodes (messages); a branch is the path from the root to
a leaf, and its arrays have one number per token.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from pathlib import Path
from statistics import fmean
from typing import IO, Any

from rlreport.errors import RowError
from rlreport.fields import AssumedStep
from rlreport.figures.metadata import Ending, ending_of
from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, FileStamp, Row, Where
from rlreport.formats.logged import columns, dicts, fields, mapping
from rlreport.system import coerce
from rlreport.system.stores import zstd
from rlreport.text.chat import prompt_and_response_fields, prompt_fields, response_fields
from rlreport.text.messages import message, phrases, plural

FOLDER = "annotations"
_ID = re.compile(rb'"trace_id"\s*:\s*"([^"\\]+)"')
_INDEX = ".index.jsonl"
_FIXED_KEYS = ("token_ids", "mask")  # keys of a node that updates must not change
MAX_LINE = 64 << 20  # Maximum bytes of a line that contains an update


def annotation_files(path: Path) -> tuple[FileStamp, ...]:
    """Return the update files in the nearest ``annotations`` up to three folders above ``path``."""
    for folder in list(path.parents)[:3]:
        if (folder / FOLDER).is_dir():
            files = sorted((folder / FOLDER).rglob("*.jsonl"))
            # While prime-rl compresses a chunk, both versions of it may exist: read one of them.
            archives = sorted((folder / FOLDER).rglob("*.jsonl.zst"))
            files = [f for f in files if f.with_name(f"{f.name}.zst") not in archives]
            stamps = [FileStamp.of(f) for f in files + archives if not f.name.endswith(_INDEX)]
            return tuple(sorted(filter(None, stamps)))
    return ()


class Updates:
    """An index of update files, with the locations of each trace's updates, which ``of`` reads.

    Memory grows with the number of updates. Compressed files are unpacked into temporary files.
    """

    def __init__(self, files: Sequence[FileStamp]) -> None:
        self._files: list[IO[bytes]] = []
        self._locations: dict[str, list[tuple[int, int]]] = {}
        self.judged: set[str] = set()  # kinds of work with traces marked as used (``effective``)
        self.trained = False  # whether an update contains the trainer's log-probabilities
        self.problems: list[str] = []
        for number, stamp in enumerate(files):
            path = Path(stamp.path)
            file, cut = _open_unpacked(path)
            self._files.append(file)
            name = f"{path.parent.name}/{path.name}"
            unread = 0
            file.seek(0)
            while line := file.readline(MAX_LINE):
                unread += not self._add(line, (number, file.tell() - len(line)))
            if cut:
                self.problems.append(message("{file} ends early: {why}", file=name, why=cut))
            if unread:
                text = plural(
                    "{count} line of {file} is not an update",
                    "{count} lines of {file} are not updates",
                    unread,
                    file=name,
                )
                self.problems.append(text)

    def _add(self, line: bytes, location: tuple[int, int]) -> bool:
        """Index the update in a line; return False if the line is neither an update nor blank."""
        update = {} if (match := _ID.search(line)) else logged.json_object(line)
        trace = match[1].decode(errors="surrogatepass") if match else update.get("trace_id")
        if not isinstance(trace, str) or not line.rstrip().endswith(b"}"):
            return not line.strip()
        self._locations.setdefault(trace, []).append(location)
        self.trained |= b'"trainer_logprobs"' in line
        if b'"effective"' in line:
            info = mapping(logged.json_object(line).get("info"))
            self.judged |= {kind for kind in info if _is_effective(mapping(info[kind]))}
            # Newer marks have no kind; in an evaluation, unmarked traces may only be unfinished.
            self.judged |= {"train"} if _is_effective(info) else set()
        return True

    def of(self, trace: str) -> Iterator[Row]:
        for number, offset in self._locations.get(trace, ()):
            self._files[number].seek(offset)
            update = logged.json_object(self._files[number].readline(MAX_LINE))
            if update.get("trace_id") == trace:
                yield update


@lru_cache(maxsize=1)
def updates_in(files: tuple[FileStamp, ...]) -> Updates:
    return Updates(files)


def apply_updates(trace: Row, updates: Iterator[Row]) -> None:
    """Merge updates into ``info`` and the nodes' arrays of a trace, in place."""
    nodes = dicts(trace.get("nodes"))
    branches: dict[int | None, list[int]] = dict(enumerate(_branches(nodes)))
    for update in updates:
        _merge(trace, {"info": mapping(update.get("info"))})
        for branch in dicts(update.get("branches")):
            path = branches.get(coerce.integer(branch.get("index")), [])
            for name, values in branch.items():
                if isinstance(values, list):
                    _split_among_nodes([nodes[i] for i in path], name, values)


def _split_among_nodes(nodes: Sequence[Row], name: str, values: list[Any]) -> None:
    offset = 0
    for node in nodes:
        mask = node.get("mask") or []
        span = values[offset : offset + len(node.get("token_ids") or [])]
        offset += len(node.get("token_ids") or [])
        sampled = [coerce.real(value) for value, bit in zip(span, mask, strict=False) if bit]
        numbers = [math.nan if value is None else value for value in sampled]
        if len(span) == len(mask) and not all(map(math.isnan, numbers)) and name not in _FIXED_KEYS:
            node[name] = numbers


def _branches(nodes: Sequence[Row]) -> list[list[int]]:
    """Return one list per leaf: the indices of the nodes on the path from the root to the leaf."""
    parents = [coerce.integer(node.get("parent")) for node in nodes]
    branches = []
    for leaf in sorted(set(range(len(nodes))) - set(parents)):
        path = [leaf]
        parent = parents[leaf]
        while parent is not None and 0 <= parent < path[-1]:  # a parent comes before its children
            path.append(parent)
            parent = parents[parent]
        branches.append(path[::-1])
    return branches


def _trained_last(nodes: Sequence[Row]) -> list[tuple[list[int], str]]:
    """Return (branch, kind) of a trace's branches, the last one that was trained on at the end.

    Sub-agents come before the trace's own agent, dropped summaries before both.
    """
    whole = [(list(range(len(nodes))), "")]
    if not any(node.get("parent") is not None for node in nodes):
        return whole
    links = [dicts(node.get("semantic_parents")) for node in nodes]
    resumed = {link.get("node") for some in links for link in some if link.get("type") == _RESUMED}

    def kind_of(path: Sequence[int]) -> str:
        if any(link.get("type") == "subagent_call" for i in path for link in links[i]):
            return "subagent"
        if path[-1] in resumed:
            return _RESUMED
        attempts = [link for link in links[path[-1]] if link.get("type") == _ATTEMPT]
        return _ATTEMPT if attempts else ""

    def rank(branch: tuple[list[int], str]) -> tuple[bool, bool, bool]:
        path, kind = branch
        trained = any(nodes[path[-1]].get(name) for name in _TRAINED)
        return kind != _ATTEMPT, trained, kind != "subagent"

    branches = [(path, kind_of(path)) for path in _branches(nodes)]
    return sorted(branches, key=rank) or whole  # nodes in a circle have no leaf


def _merge(old: Row, new: Row) -> None:
    """Merge ``new`` recursively into ``old``, without marking a ``KeyTracker``'s keys as read."""
    for key, value in new.items():
        before = dict.get(old, key)
        if isinstance(before, dict):
            _merge(before, mapping(value))
        else:
            old[key] = value


def _open_unpacked(path: Path) -> tuple[IO[bytes], str]:
    if path.suffix != ".zst" or not path.stat().st_size:
        return path.open("rb"), ""
    plain = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    why = ""
    try:
        with path.open("rb") as packed:
            stream = zstd.ZstdFile(packed)
            while piece := stream.read1(1 << 20):
                plain.write(piece)
    except (OSError, EOFError, ValueError, zstd.ZstdError) as error:
        why = str(error)
    return plain, why


_OLD_KEYS = ("example_id", "prompt", "completion", "reward")
_UPDATE_KEYS = ("trace_id", "info", "branches")
_OLD_USED_KEYS = (*_OLD_KEYS, "answer", "metrics", "step", "error", "stop_condition")
# Arrays that a node has only if it was trained on; advantages also nodes of a dropped summary
_TRAINED = ("advantages", "trainer_logprobs")
# verifiers' names of links between nodes: a summary that the agent went on from, and any summary
_RESUMED, _ATTEMPT = "compaction", "compaction_attempt"
# Key of a node's float array -> field of the row; arrays have one number per sampled token
_STREAMS = {
    "logprobs": "sampler_logprobs",
    "trainer_logprobs": "logprobs",
    "reference_logprobs": "ref_logprobs",
    "advantages": "advantages",
    "entropies": "entropies",
}

_STAGES = ("boot", "setup", "agent", "finalize", "scoring")
_FLAGS = ("stop_condition", "is_completed", "is_timeout", "dropped")


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
    description = "verifiers and prime-rl rollouts: traces.jsonl (v1), results.jsonl (older)"
    files = ("traces.jsonl", "results.jsonl", "traces/stream/<n>.jsonl")
    claims = (("traces",), _OLD_KEYS, _UPDATE_KEYS)

    annotated = False  # whether the siblings are files of updates

    def recognizes(self, obj: Row) -> bool:
        return "traces" not in obj or _is_episode(obj)

    def writer(self, obj: Row) -> str:
        if "traces" not in obj:
            return "prime-rl's updates of traces" if "trace_id" in obj else "before version 1"
        traces = dicts(obj["traces"]) or [{}]
        version = coerce.string(mapping(traces[0].get("verifiers")).get("version"))
        return f"verifiers {version[:40]}" if version else ""

    def with_siblings(self, path: Path, listed: Collection[Path]) -> Verifiers | str:
        subset = path.parent.name
        folder = path.parent.parent
        if FOLDER in path.parts[-3:-1]:
            return message("prime-rl's updates of traces, merged into the traces")
        if path.with_name(f"{path.name}.zst") in listed:
            return message("the compressed copy of this chunk is read instead")
        if files := annotation_files(path):
            chunks = [file for file in listed if file.parent == path.parent]
            problems = updates_in(files).problems
            text = message("prime-rl's updates of traces: {problems}", problems=phrases(problems))
            form = Verifiers(*files, remark=text if problems and path == min(chunks) else "")
            form.annotated = True
            return form
        if subset == "effective" and folder / "all" / path.name in listed:
            return message(
                "a subset of the sibling folder `all`; its rows are read there and "
                "marked as trained"
            )
        effective = folder / "effective" / path.name
        return Verifiers(FileStamp.of(effective)) if subset == "all" else self

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:  # noqa: C901
        if "trace_id" in obj and "traces" not in obj:
            why = message(
                "an update of a trace, without the trace: pass the folder that contains the "
                "traces as well"
            )
            raise RowError(why)
        if "traces" not in obj:
            yield _result(obj, where)
            return
        if not _is_episode(obj):
            raise RowError(message("`traces` is not a list of traces"))
        shared = _episode(obj, where)
        errors = _errors(obj.get("errors"))
        if not obj["traces"]:
            failed = logged.failed_fields(_question(obj), *(errors or ["no trace"]))
            yield {**shared, **failed, "finish_reason": "error"}
            return

        def entries() -> Iterator[tuple[int, Row, list[int], str]]:
            for position, trace in enumerate(obj["traces"]):
                if self.annotated:
                    apply_updates(trace, updates_in(self.siblings).of(coerce.text(trace["id"])))
                branches = _trained_last(dicts(trace["nodes"]))
                # A trace that is left out yields only one row, so that it counts once.
                for branch, kind in branches[-1:] if self._leaves_out(trace, shared) else branches:
                    yield position, trace, branch, kind

        def row_of(entry: tuple[int, Row, list[int], str]) -> Row:
            position, trace, branch, kind = entry
            row = {**shared, **_trace(trace, branch, obj)}
            if len(branch) < len(trace["nodes"]) and row.get("trainable") is not False:
                row |= fields(rollout_id=coerce.string(trace.get("id")), branch=kind or None)
            if self.annotated:
                updates = updates_in(self.siblings)
                row |= _training_fields(mapping(trace.get("info")), shared, updates)
                if updates.trained and not any("trainer_logprobs" in n for n in trace["nodes"]):
                    # Other rows have the trainer's logprobs: the sampler's are not comparable.
                    row |= fields(sampler_logprobs=row.pop("logprobs", None))
            if not position and errors:
                row["errors"] = [*errors, *row.get("errors", [])]
            if self.sibling and not self.annotated:
                advantages = _advantages(self.sibling)
                identity = coerce.text(trace.get("id"))
                row["trained"] = identity in advantages
                if identity in advantages:
                    row.setdefault("advantages", advantages[identity])
            return row

        yield from logged.each(entries(), row_of)

    def _leaves_out(self, trace: Row, shared: Row) -> bool:
        if mapping(trace.get("agent")).get("trainable") is False:
            return True
        if not self.annotated:
            return False
        info = mapping(trace.get("info"))
        return "filtered_out" in _training_fields(info, shared, updates_in(self.siblings))


def _training_fields(info: Row, shared: Row, updates: Updates) -> Row:
    kind = "eval" if shared.get("split") == "eval" else "train"
    older = mapping(info.get(kind))
    step = older.get("trained_at_step", mapping(info.get("ship")).get("step"))
    used = _is_effective(info) or _is_effective(older)
    return fields(
        step=coerce.integer(step),
        filtered_out=True if kind in updates.judged and not used else None,
    )


def _is_effective(info: Row) -> bool:
    return info.get("effective") is True


def _is_episode(obj: Row) -> bool:
    traces = obj["traces"]
    return isinstance(traces, list) and all(
        isinstance(trace, dict) and isinstance(trace.get("nodes"), list) for trace in traces
    )


@lru_cache(maxsize=2)
def _advantages(file: FileStamp) -> dict[str, float | None]:
    """Return trace id -> advantage (None if not logged) of the traces that were trained on."""
    advantages: dict[str, float | None] = {}
    for obj in logged.lines_of(file):
        for trace in dicts(obj.get("traces")):
            advantage = mapping(trace.get("info")).get("advantage")
            advantages[coerce.text(trace.get("id"))] = coerce.real(advantage)
    return advantages


def _result(obj: Row, where: Where) -> Row:
    if obj.get("completion") is None:
        raise RowError(message("{field} is missing", field="`completion`"))
    timing = mapping(obj.get("timing"))
    error = obj.get("error")
    seconds = coerce.real(timing.get("total"))
    millis = logged.seconds_of(timing, "total_ms")
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
            seconds=millis if seconds is None else seconds,
            failed=None if error is None else True,
            errors=error and [_error(error)],
        ),
    }


def _episode(obj: Row, where: Where) -> Row:
    run = mapping(obj.get("run"))
    work = mapping(run.get("work"))
    data = mapping(mapping(obj.get("task")).get("data"))
    environment = mapping(obj.get("env"))
    policy = mapping(work.get("policy"))
    kind = work.get("type") or run.get("type")
    return {
        "step": logged.step_of(work.get("step"), where, logged.STEP_WORD, AssumedStep()),
        **fields(
            group_id=mapping(obj.get("group")).get("id"),
            env=environment.get("name") or environment.get("id"),
            split=kind if kind in ("train", "eval") else None,
            policy_version=(policy.get("start"), policy.get("end")),
            ground_truth=data.get("answer", data.get("ground_truth")),
            ok=obj["ok"] if isinstance(obj.get("ok"), bool) else None,
        ),
    }


def _trace(trace: Row, branch: Sequence[int], episode: Row) -> Row:
    nodes = [trace["nodes"][i] for i in branch]
    sampled = [bool(node.get("sampled")) for node in nodes]
    start = sampled.index(True) if any(sampled) else len(nodes)
    messages = [node.get("message") for node in nodes]
    prompt = prompt_fields(messages[:start])
    texts = prompt | response_fields(messages[start:], sampled[start:])
    rewards = mapping(trace.get("rewards"))
    parts = {name: _weighted_score(rewards[name]) for name in rewards}
    info = mapping(trace.get("info"))
    agent = mapping(trace.get("agent"))
    trainable = agent.get("trainable")
    advantage = coerce.real(info.get("advantage"))
    tokens, spans = _tokens(nodes, start)
    turns = texts.get("turns", [])
    if len(turns) == len(nodes) - start:
        _time_turns(dict(zip(branch[start:], turns, strict=True)), dicts(trace.get("calls")))
    logged.set_spans(turns, spans)
    row: Row = {
        **columns(info, ("advantage", "kind", "effective")),
        **columns(mapping(trace.get("metrics"))),
        **texts,
        "prompt": prompt["prompt"] or _question(episode),
        "reward": logged.total(parts.values()) if parts else coerce.grade(trace.get("reward")),
        **fields(
            reward_parts=parts,
            agent=agent.get("name"),
            trainable=trainable if isinstance(trainable, bool) else None,
            finish_reason=_finish_reason(trace),
            seconds=_seconds(mapping(trace.get("timing"))),
            advantages=advantage,
        ),
        **{key: v for key in _FLAGS if isinstance(v := trace.get(key), str | bool)},
        **tokens,
    }
    errors = _errors(trace.get("errors"))
    if errors:
        row["errors"] = errors
        if start == len(nodes):
            row |= {**logged.failed_fields(row["prompt"], *errors), "finish_reason": "error"}
    return row


def _question(episode: Row) -> str:
    data = mapping(mapping(episode.get("task")).get("data"))
    return coerce.text(data.get("question", data.get("prompt")))


def _tokens(nodes: Sequence[Row], start: int) -> tuple[Row, list[tuple[int, int]]]:
    arrays = [name for name in _STREAMS if any(node.get(name) for node in nodes[start:])]
    prefix = [token for node in nodes[:start] for token in coerce.ints(node.get("token_ids")) or []]
    ids: list[int] = []
    mask: list[int] = []
    streams: dict[str, list[float]] = {name: [] for name in _STREAMS}
    spans = []
    for node in nodes[start:]:
        node_ids = coerce.ints(node.get("token_ids")) or []
        node_mask = node.get("mask")
        sampled = list(map(bool, node_mask)) if isinstance(node_mask, list) else []
        is_untrained = not all(node.get(name) for name in arrays if name != "entropies")
        if is_untrained or len(sampled) != len(node_ids):
            sampled = [False] * len(node_ids)
        skip = 0
        if not any(mask):
            skip = sampled.index(True) if any(sampled) else len(node_ids)
            prefix += node_ids[:skip]
        spans.append((len(ids), len(ids) + len(node_ids) - skip))
        ids += node_ids[skip:]
        mask += map(int, sampled[skip:])
        for name, values in streams.items():
            values.extend(_align(node.get(name), sampled)[skip:])
    if not ids:
        return {}, []
    row: Row = {"token_ids": ids, "response_mask": mask}
    if prefix:
        row["prompt_token_ids"] = prefix
    entropies = [value for value in streams.pop("entropies") if not math.isnan(value)]
    if entropies:
        row["entropy_mean"] = fmean(entropies)
    for name, values in streams.items():
        if not all(map(math.isnan, values)):
            row[_STREAMS[name]] = values
    if "logprobs" not in row and "sampler_logprobs" in row:
        # Only the sampler's logprobs are logged: use them as the policy's.
        row["logprobs"] = row.pop("sampler_logprobs")
    return row, spans


def _align(value: Any, sampled: Sequence[bool]) -> list[float]:
    """Return one number per token: those in ``value`` for sampled tokens, NaN for others."""
    if not (values := coerce.numbers(value)):
        return [math.nan] * len(sampled)
    if len(values) == len(sampled):
        values = list(compress(values, sampled))
    numbers = iter(values)
    return [next(numbers, math.nan) if is_sampled else math.nan for is_sampled in sampled]


def _time_turns(by_node: Mapping[int | None, Row], calls: Sequence[Row]) -> None:
    for call in calls:
        turn = by_node.get(coerce.integer(call.get("node")))
        time = mapping(call.get("time"))
        begin = coerce.real(time.get("start"))
        end = coerce.real(time.get("end"))
        if turn and begin and end and end >= begin > 0:
            turn["seconds"] = end - begin


def _seconds(timing: Row) -> float | None:
    begin = coerce.real(timing.get("start"))
    ends = [coerce.real(mapping(timing.get(stage)).get("end")) for stage in _STAGES]
    last = max((end for end in ends if end is not None), default=None)
    return None if begin is None or last is None or last < begin else last - begin


def _weighted_score(reward: Any) -> float:
    if not isinstance(reward, dict):
        return coerce.number(reward)
    score = coerce.number(reward.get("score"))
    weight = reward.get("weight")
    return score if weight is None else score * coerce.number(weight)


def _finish_reason(trace: Row) -> str | None:
    """Return ``length`` if a token limit ended the trace, else the logged stop condition."""
    ending = ending_of(reason := trace.get("stop_condition"))
    truncated = trace.get("is_truncated")
    answered = [call for call in dicts(trace.get("calls")) if call.get("error") is None]
    cut = bool(answered) and answered[-1].get("finish_reason") == "length"
    if ending is Ending.CUT_OFF or (
        ending in (None, Ending.FINISHED) and (cut or truncated is True)
    ):
        return "length"
    return coerce.string(reason)


def _errors(value: Any) -> list[str]:
    return [_error(item) for item in value] if isinstance(value, list) else []


def _error(value: Any) -> str:
    return logged.error_text(value, "type", "error", "message") or coerce.text(value)
