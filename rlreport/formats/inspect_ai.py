"""Inspect's evaluations: the samples of an ``.eval`` log, a zip of JSON documents, one a sample."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import zstandard

from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Match, Row, RowError, Where, has_keys, named
from rlreport.formats.logged import columns, dicts, mapping, present
from rlreport.formats.messages import conversation_fields, is_messages, text_and_turns
from rlreport.sidefiles import load_json, open_zip, read_stream
from rlreport.text.messages import message

_KEYS = ("id", "epoch", "input", "target")
_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's letters: correct, partial, incorrect, no answer."""

_LENGTHS = frozenset({"max_tokens", "model_length", "message", "token", "context", "turn"})
"""Stop reasons and limits that cut a sample off."""

_ATTACHED = "attachment://"
MAX_SAMPLE = 64_000_000
"""Bytes of a document read at most, unpacked."""

MOST_GROWTH = 200
"""Times its own size that an archive may unpack to; JSON of tokens grows twentyfold."""

_ZSTANDARD = 93
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTANDARD)
_LOCAL_HEADER = struct.Struct("<4s22xHH")
HEADER = "log.eval"
"""Key that each sample gets: what the log says of the evaluation."""

_DAMAGED = (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError, RuntimeError,
            zlib.error, struct.error, zstandard.ZstdError)  # fmt: skip


class InspectAI(BaseFormat):
    """One sample and epoch a row; the first scorer's value is the reward."""

    id = "inspect"
    evaluates = True
    description = "Inspect evaluation logs (.eval)"
    files = ("*.eval",)
    container = "inspect"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim samples of a log."""
        whole = [obj for obj in objects if "error_reading" not in obj]
        if not has_keys(whole, *_KEYS, HEADER):
            return None
        return Match(97, named(_KEYS))

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield one row; a sample without a score has no grade."""
        if "error_reading" in obj:
            raise RowError(logged.text(obj["error_reading"]))
        about = mapping(obj.get(HEADER))
        row = columns(mapping(obj.get("metadata")), ())
        row |= present(
            task=logged.string(about.get("task")), model=logged.string(about.get("model"))
        )
        attachments = mapping(obj.get("attachments"))
        messages = [_message(m, attachments) for m in dicts(obj.get("messages"))]
        if is_messages(messages) and any(m["role"] == "assistant" for m in messages):
            wrote = [m["role"] == "assistant" and m.get("source") != "input" for m in messages]
            row |= conversation_fields(messages, wrote)
        else:
            asked = obj.get("input")
            asked = [_message(m, attachments) for m in dicts(asked)] or asked
            row |= {"prompt": text_and_turns(asked)[0], "response": ""}
        parts = _scores(obj.get("scores"))
        target = obj.get("target")
        targets = target if isinstance(target, list) else [target]
        yield {
            **row,
            "step": 0,
            "split": "eval",
            "epoch": obj.get("epoch"),
            "reward": next(iter(parts.values()), None),
            "group_id": logged.text(obj.get("id")),
            **present(
                reward_parts=parts if len(parts) > 1 else None,
                ground_truth=None
                if target in (None, "", [])
                else ", ".join(map(logged.text, targets)),
                seconds=logged.real(obj.get("total_time")),
            ),
            **_ending(obj, messages),
        }


def _ending(obj: Row, messages: Sequence[Row]) -> Row:
    """Return why it ended, what went wrong, and the tokens of an only answer."""
    row: Row = {}
    choice = next(iter(dicts(mapping(obj.get("output")).get("choices"))), {})
    reason = mapping(obj.get("limit")).get("type") or choice.get("stop_reason")
    if isinstance(reason, str) and reason != "unknown":
        row["finish_reason"] = "length" if reason in _LENGTHS else reason
    error = mapping(obj.get("error")).get("message") or mapping(obj.get("output")).get("error")
    if error:
        row["errors"] = [logged.text(error)]
        if not any(m["role"] == "assistant" for m in messages):
            row.update(trainable=False, finish_reason="error")
    replies = [m for m in messages if m["role"] == "assistant" and m.get("source") != "input"]
    tokens = dicts(mapping(choice.get("logprobs")).get("content"))
    if tokens and len(replies) == 1:
        row["response_tokens"] = [logged.text(token.get("token")) for token in tokens]
        row["logprobs"] = [logged.parse_number(token.get("logprob")) for token in tokens]
    return row


def _scores(scores: Any) -> dict[str, float]:
    found: dict[str, float] = {}
    scores = mapping(scores)
    for name in scores:
        value = mapping(scores[name]).get("value")
        values = {name: value}
        if isinstance(value, dict):
            values = {f"{name}/{key}": value[key] for key in value}
        for key, graded in values.items():
            if isinstance(graded, str) and graded in _GRADES:
                found[key] = _GRADES[graded]
            elif isinstance(graded, int | float):
                found[key] = float(graded)
    return found


def _message(message: Row, attachments: Row) -> Row:
    """Return a message in the usual form: reasoning, calls and a tool's error under their names."""
    made: Row = {"role": logged.text(message.get("role")), "source": message.get("source")}
    parts = message.get("content")
    if isinstance(parts, list):
        thoughts = [p.get("reasoning") for p in dicts(parts) if p.get("type") == "reasoning"]
        made["reasoning_content"] = "\n".join(filter(None, map(logged.text, thoughts)))
        kept = [p for p in parts if not isinstance(p, dict) or p.get("type") != "reasoning"]
        made["content"] = [
            {**p, "text": _attached(p["text"], attachments)}
            if isinstance(p, dict) and isinstance(p.get("text"), str)
            else p
            for p in kept
        ]
    else:
        made["content"] = _attached(parts, attachments)
    calls = dicts(message.get("tool_calls"))
    if calls:
        made["tool_calls"] = [
            {"id": call.get("id"), "name": call.get("function"), "arguments": call.get("arguments")}
            for call in calls
        ]
    if made["role"] == "tool":
        made["name"], made["tool_call_id"] = message.get("function"), message.get("tool_call_id")
        error = mapping(message.get("error"))
        if error:
            made["error"] = ": ".join(
                logged.text(error[k]) for k in ("type", "message") if error.get(k)
            )
    return made


def _attached(content: Any, attachments: Row) -> Any:
    if isinstance(content, str) and content.startswith(_ATTACHED):
        return attachments.get(content.removeprefix(_ATTACHED), content)
    return content


def sample_rows(file: Any, wanted: set[int] | None = None) -> Iterator[tuple[int, Row]]:
    """Yield (index, sample) of a log, in the order of the archive; events are left out.

    A sample that is damaged or too large is an object of an ``error_reading`` alone.

    Args:
        file: path or binary stream.
        wanted: indices; None for all.

    Raises:
        RowError: it is no such log.
    """
    try:
        with open_zip(file) as archive:
            # Of documents of one name the last counts, as of files that are written again.
            infos = {info.filename: info for info in archive.infolist()}
            names = [n for n in infos if n.startswith("samples/") and n.endswith(".json")]
            if not names:
                raise RowError(message("no samples in it"))
            header = _header(archive, infos)
            size = _size(archive)
            if sum(info.compress_size for info in infos.values()) > size:
                raise RowError("its entries overlap")
            room = MAX_SAMPLE + MOST_GROWTH * size
            for index, name in enumerate(names):
                if wanted is None or index in wanted:
                    room -= min(infos[name].file_size, MAX_SAMPLE)
                    if room < 0:
                        raise RowError(f"it unpacks to more than {MOST_GROWTH} times its size")
                    yield index, {**_document(archive, infos[name]), HEADER: header}
    except _DAMAGED as error:
        if isinstance(error, RowError):
            raise
        raise RowError(message("no log of Inspect's: {why}", why=str(error))) from None


def _size(archive: zipfile.ZipFile) -> int:
    stream = archive.fp
    return stream.seek(0, io.SEEK_END) if stream else 0


def _header(archive: zipfile.ZipFile, infos: dict[str, zipfile.ZipInfo]) -> Row:
    for name in ("header.json", "_journal/start.json"):
        if name in infos:
            said = _document(archive, infos[name]).get("eval")
            return said if isinstance(said, dict) else {}
    return {}


def _document(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Row:
    try:
        found = load_json(_unpacked(archive, info))
    except _DAMAGED as error:
        return {"error_reading": f"{info.filename[:80]}: {error}"}
    if not isinstance(found, dict):
        return {"error_reading": f"{info.filename[:80]}: no JSON object"}
    found.pop("events", None)
    return found


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return a document's bytes, whatever size its entry claims."""
    if info.compress_type not in _PACKED:
        raise ValueError("packed in a way that Inspect does not write")
    if info.compress_type == _ZSTANDARD:
        stream = zstandard.ZstdDecompressor().stream_reader(
            io.BytesIO(_packed(archive, info)), read_across_frames=True
        )
        return read_stream(stream, MAX_SAMPLE)
    with archive.open(info) as entry:
        return read_stream(entry, MAX_SAMPLE)


def _packed(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return the packed bytes of an entry; zipfile itself knows no zstandard yet."""
    if info.compress_size > MAX_SAMPLE:
        raise ValueError(f"over {MAX_SAMPLE:,} bytes")
    stream = archive.fp
    if stream is None:
        raise ValueError("closed")
    stream.seek(info.header_offset)
    signature, name, extra = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
    if signature != b"PK\x03\x04":
        raise zipfile.BadZipFile("no entry where one should be")
    stream.seek(name + extra, io.SEEK_CUR)
    return stream.read(info.compress_size)
