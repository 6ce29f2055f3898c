"""Updates of prime-rl's traces, which its processes write after the trace itself.

Lines such as ``{"version": 1, "trace_id": "t1", "info": {"train": {"effective": true}},
"branches": [{"index": 0, "advantages": [null, 0.5]}]}``. Of updates of one trace the newest wins.
Arrays have one number per token of a branch, the path of nodes from the root to a leaf.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import zstandard

from rlreport.formats import logged
from rlreport.formats.base import FileStamp, Row
from rlreport.formats.logged import dicts, mapping
from rlreport.text.messages import message, plural
from rlreport.zstd import ZstdFile

FOLDER = "annotations"
_ID = re.compile(rb'"trace_id"\s*:\s*"([^"\\]+)"')
_INDEX = ".index.jsonl"
_CHUNK = re.compile(r"(\d{5,})\.jsonl(?:\.zst)?")
_KEPT = ("token_ids", "mask")  # of a node, which no update changes
MAX_LINE = 64 << 20
"""Maximum bytes of an update."""


def annotation_files(path: Path) -> tuple[FileStamp, ...]:
    """Return the files with updates of the traces in ``path``, () without any.

    They are in ``annotations``, next to one of the three folders above the file, by producer.
    """
    for folder in list(path.parents)[:3]:
        if (folder / FOLDER).is_dir():
            files = sorted((folder / FOLDER).rglob("*.jsonl"))
            # A chunk that was just packed may lie beside its copy.
            packed = sorted((folder / FOLDER).rglob("*.jsonl.zst"))
            files = [f for f in files if f.with_name(f"{f.name}.zst") not in packed]
            stamps = [FileStamp.of(f) for f in files + packed if not f.name.endswith(_INDEX)]
            return tuple(stamp for stamp in sorted(filter(None, stamps)))
    return ()


class Updates:
    """Where the updates of each trace are; they are read when they are asked for.

    Memory grows with the number of updates. A compressed file is unpacked into a temporary one.

    Attributes:
        judged: the kinds of work (train, eval) of which some traces are marked as effective.
        trained: whether some have log-probabilities of the trainer.
        problems: what could not be read.
    """

    def __init__(self, files: Sequence[FileStamp]) -> None:
        self._files: list[IO[bytes]] = []
        self._places: dict[str, list[tuple[int, int]]] = {}
        self.judged: set[str] = set()
        self.trained = False
        self.problems = missing_chunks([Path(file.path) for file in files])
        for number, stamp in enumerate(files):
            path = Path(stamp.path)
            file, cut = _opened(path)
            self._files.append(file)
            name, unread = f"{path.parent.name}/{path.name}", 0
            for offset, line in _lines(file):
                unread += not self._add(line, (number, offset))
            if cut:
                self.problems.append(message("{file} ends early: {why}", file=name, why=cut))
            if unread:
                text = plural(
                    "{count} line of {file} is no update",
                    "{count} lines of {file} are no updates",
                    unread,
                    file=name,
                )
                self.problems.append(text)

    def _add(self, line: bytes, place: tuple[int, int]) -> bool:
        """Remember where an update is; return whether the line is one."""
        update = {} if (found := _ID.search(line)) else logged.json_object(line)
        trace = found[1].decode(errors="surrogatepass") if found else update.get("trace_id")
        if not isinstance(trace, str) or not line.rstrip().endswith(b"}"):
            return not line.strip()
        self._places.setdefault(trace, []).append(place)
        self.trained |= b'"trainer_logprobs"' in line
        if b'"effective"' in line:
            info = mapping(logged.json_object(line).get("info"))
            self.judged |= {kind for kind in info if is_effective(info, kind)}
        return True

    def of(self, trace: str) -> Iterator[Row]:
        """Yield the updates of a trace, the oldest first."""
        for number, offset in self._places.get(trace, ()):
            self._files[number].seek(offset)
            update = logged.json_object(self._files[number].readline(MAX_LINE))
            if update.get("trace_id") == trace:
                yield update


@lru_cache(maxsize=1)
def updates_in(files: tuple[FileStamp, ...]) -> Updates:
    """Return the updates in files."""
    return Updates(files)


def is_effective(info: Row, kind: str) -> bool:
    """Return whether a trace was used: trained on, or counted in an evaluation."""
    return mapping(info.get(kind)).get("effective") is True


def updated(trace: Row, updates: Iterator[Row]) -> Row:
    """Merge updates into a trace in place: its ``info``, and arrays of its nodes."""
    nodes = dicts(trace.get("nodes"))
    branches = _branches(nodes)
    for update in updates:
        _merge(trace, {"info": mapping(update.get("info"))})
        for branch in dicts(update.get("branches")):
            index = logged.integer(branch.get("index"))
            if index is None or not 0 <= index < len(branches):
                continue
            for name, values in branch.items():
                if isinstance(values, list):
                    _lay([nodes[i] for i in branches[index]], name, values)
    return trace


def _lay(nodes: Sequence[Row], name: str, values: list[Any]) -> None:
    """Give each node its part of an array; what is no number of a sampled token is NaN.

    A node gets nothing if the array ends inside it, or has no number for it.
    """
    at = 0
    for node in nodes:
        mask = node.get("mask") or []
        span = values[at : at + len(node.get("token_ids") or [])]
        at += len(node.get("token_ids") or [])
        sampled = [logged.real(value) for value, one in zip(span, mask, strict=False) if one]
        known = [math.nan if value is None else value for value in sampled]
        if len(span) == len(mask) and not all(map(math.isnan, known)) and name not in _KEPT:
            node[name] = known


def _branches(nodes: Sequence[Row]) -> list[list[int]]:
    """Return the nodes from the root to each leaf, in the order of the leaves."""
    parents = [logged.integer(node.get("parent")) for node in nodes]
    branches = []
    for leaf in sorted(set(range(len(nodes))) - set(parents)):
        path, place = [leaf], parents[leaf]
        while place is not None and 0 <= place < path[-1]:  # a parent comes before its children
            path.append(place)
            place = parents[place]
        branches.append(path[::-1])
    return branches


def _merge(old: Row, new: Row) -> None:
    """Merge ``new`` deeply into ``old``, without marking keys of a logged object as read."""
    for key, value in new.items():
        before = dict.get(old, key)
        if isinstance(before, dict):
            _merge(before, mapping(value))
        else:
            old[key] = value


def missing_chunks(files: Sequence[Path]) -> list[str]:
    """Return a sentence for each folder of numbered chunks that lacks some."""
    numbers: dict[Path, set[int]] = {}
    for file in files:
        if number := _CHUNK.fullmatch(file.name):
            numbers.setdefault(file.parent, set()).add(int(number[1]))
    return [
        plural(
            "{folder}/ lacks {count} chunk",
            "{folder}/ lacks {count} chunks",
            missing,
            folder=folder.name,
        )
        for folder, found in numbers.items()
        if (missing := max(found) + 1 - len(found))
    ]


def _opened(path: Path) -> tuple[IO[bytes], str]:
    """Return a file, unpacked as far as it can be, and why not further."""
    if path.suffix != ".zst":
        return path.open("rb"), ""
    plain, why = tempfile.TemporaryFile(), ""  # noqa: SIM115 (open as long as the updates are)
    try:
        with path.open("rb") as packed:
            stream = ZstdFile(packed)
            while piece := stream.read1(1 << 20):
                plain.write(piece)
    except (OSError, EOFError, ValueError, zstandard.ZstdError) as error:
        why = str(error)
    return plain, why


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    offset = 0
    file.seek(0)
    while line := file.readline(MAX_LINE):
        yield offset, line
        offset += len(line)
