"""Updates of prime-rl traces: values that its processes log after the trace itself was written.

An update is a line such as ``{"version": 1, "trace_id": "t1", "info": {"train": {"effective":
true}}, "branches": [{"index": 0, "advantages": [null, 0.5]}]}``. Later updates of a trace replace
earlier values. A trace is a tree of nodes (messages); a branch is the path from the root to a leaf,
and its arrays have one number per token.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from rlreport.formats import logged
from rlreport.formats.base import FileStamp, Row
from rlreport.formats.logged import dicts, mapping
from rlreport.system import coerce
from rlreport.system.stores import zstd
from rlreport.text.messages import message, plural

FOLDER = "annotations"
_ID = re.compile(rb'"trace_id"\s*:\s*"([^"\\]+)"')
_INDEX = ".index.jsonl"
_CHUNK = re.compile(r"(\d{5,})\.jsonl(?:\.zst)?")
_FIXED_KEYS = ("token_ids", "mask")  # keys of a node that updates must not change
MAX_LINE = 64 << 20  # Maximum bytes of a line that contains an update


def annotation_files(path: Path) -> tuple[FileStamp, ...]:
    """Return the files with updates of the traces in file ``path``, () if there are none.

    They are below the folder ``annotations`` in one of the three folders above the file.
    """
    for folder in list(path.parents)[:3]:
        if (folder / FOLDER).is_dir():
            files = sorted((folder / FOLDER).rglob("*.jsonl"))
            # While prime-rl compresses a chunk, both versions of it may exist: read one of them.
            archives = sorted((folder / FOLDER).rglob("*.jsonl.zst"))
            files = [f for f in files if f.with_name(f"{f.name}.zst") not in archives]
            stamps = [FileStamp.of(f) for f in files + archives if not f.name.endswith(_INDEX)]
            return tuple(stamp for stamp in sorted(filter(None, stamps)))
    return ()


class Updates:
    """An index of update files: the location of each trace's updates, which ``of`` then reads.

    Memory grows with the number of updates. Compressed files are unpacked into temporary files.

    Attributes:
        judged: kinds of work (``train``, ``eval``) for which at least one update marks its trace as
            used (``effective``).
        trained: whether an update contains the trainer's log-probabilities.
        problems: sentences about missing chunks, truncated files and invalid lines.
    """

    def __init__(self, files: Sequence[FileStamp]) -> None:
        self._files: list[IO[bytes]] = []
        self._locations: dict[str, list[tuple[int, int]]] = {}
        self.judged: set[str] = set()
        self.trained = False
        self.problems = missing_chunks([Path(file.path) for file in files])
        for number, stamp in enumerate(files):
            path = Path(stamp.path)
            file, cut = _open_unpacked(path)
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
            self.judged |= {kind for kind in info if is_effective(info, kind)}
        return True

    def of(self, trace: str) -> Iterator[Row]:
        """Yield the updates of the trace with id ``trace``, in the order of files and lines."""
        for number, offset in self._locations.get(trace, ()):
            self._files[number].seek(offset)
            update = logged.json_object(self._files[number].readline(MAX_LINE))
            if update.get("trace_id") == trace:
                yield update


@lru_cache(maxsize=1)
def updates_in(files: tuple[FileStamp, ...]) -> Updates:
    """Return the index of the updates in ``files``; the last one is cached."""
    return Updates(files)


def is_effective(info: Row, kind: str) -> bool:
    """Return whether a trace's ``info`` marks it as used in ``kind`` (``train`` or ``eval``)."""
    return mapping(info.get(kind)).get("effective") is True


def updated(trace: Row, updates: Iterator[Row]) -> Row:
    """Merge updates into a trace's ``info`` and the arrays of its nodes, in place; return it."""
    nodes = dicts(trace.get("nodes"))
    branches = _branches(nodes)
    for update in updates:
        _merge(trace, {"info": mapping(update.get("info"))})
        for branch in dicts(update.get("branches")):
            index = coerce.integer(branch.get("index"))
            if index is None or not 0 <= index < len(branches):
                continue
            for name, values in branch.items():
                if isinstance(values, list):
                    _split_among_nodes([nodes[i] for i in branches[index]], name, values)
    return trace


def _split_among_nodes(nodes: Sequence[Row], name: str, values: list[Any]) -> None:
    """Set ``name`` in each node of a branch to its part of ``values`` (one value per token).

    Only values of sampled tokens are kept, null as NaN. A node stays unchanged if ``values`` ends
    before its last token, or has no number for its sampled tokens.
    """
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
        path, parent = [leaf], parents[leaf]
        while parent is not None and 0 <= parent < path[-1]:  # a parent comes before its children
            path.append(parent)
            parent = parents[parent]
        branches.append(path[::-1])
    return branches


def _merge(old: Row, new: Row) -> None:
    """Merge ``new`` recursively into ``old``, without marking a ``KeyTracker``'s keys as read."""
    for key, value in new.items():
        before = dict.get(old, key)
        if isinstance(before, dict):
            _merge(before, mapping(value))
        else:
            old[key] = value


def missing_chunks(files: Sequence[Path]) -> list[str]:
    """Return a sentence per folder whose chunk files (e.g. ``00002.jsonl``) skip numbers."""
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
        for folder, chunk_numbers in numbers.items()
        if (missing := max(chunk_numbers) + 1 - len(chunk_numbers))
    ]


def _open_unpacked(path: Path) -> tuple[IO[bytes], str]:
    """Return an open, decompressed file, and the error that cut it short ("" if it is complete)."""
    if path.suffix != ".zst" or not path.stat().st_size:
        return path.open("rb"), ""
    plain, why = tempfile.TemporaryFile(), ""  # noqa: SIM115 (stays open as long as Updates)
    try:
        with path.open("rb") as packed:
            stream = zstd.ZstdFile(packed)
            while piece := stream.read1(1 << 20):
                plain.write(piece)
    except (OSError, EOFError, ValueError, zstd.ZstdError) as error:
        why = str(error)
    return plain, why


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the byte offset and the content of each line."""
    offset = 0
    file.seek(0)
    while line := file.readline(MAX_LINE):
        yield offset, line
        offset += len(line)
