"""Updates of prime-rl's traces: index them, and merge them into the traces of ``verifiers``.

An update is a line such as ``{"version": 1, "trace_id": "t1", "info": {"effective": true, "ship":
{"step": 4}}, "branches": [{"index": 0, "advantages": [null, 0.5]}]}``. Later updates of a trace
replace earlier values.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import compress
from pathlib import Path
from typing import IO, Any

from rlreport.formats import logged
from rlreport.formats.base import FileStamp, Row
from rlreport.formats.logged import dicts, mapping
from rlreport.system import coerce
from rlreport.system.stores import zstd
from rlreport.text.messages import message, plural

FOLDER = "annotations"
MAX_LINE = 64 << 20  # Maximum bytes of a line that contains an update
_PIECE = 1 << 20  # bytes that are decompressed at a time
_INDEX = ".index.jsonl"
_ID = re.compile(rb'"trace_id"\s*:\s*"([^"\\]+)"')
_FIXED_KEYS = ("token_ids", "mask")  # keys of a node that updates must not change


def annotation_files(path: Path) -> tuple[FileStamp, ...]:
    """Return the update files in the nearest ``annotations`` up to three folders above ``path``."""
    # Traces are in files such as ``traces/stream/0.jsonl``, updates in ``traces/annotations``.
    for parent in list(path.parents)[:3]:
        folder = parent / FOLDER
        if folder.is_dir():
            return _update_files(folder)
    return ()


def _update_files(folder: Path) -> tuple[FileStamp, ...]:
    """Return the update files in a folder, by path, without prime-rl's indexes of them."""
    archives = set(folder.rglob("*.jsonl.zst"))
    stamps: list[FileStamp] = []
    for file in [*folder.rglob("*.jsonl"), *archives]:
        # While prime-rl compresses a chunk, both versions of it may exist: read one of them.
        is_compressed_too = file.with_name(f"{file.name}.zst") in archives
        stamp = FileStamp.of(file)
        if stamp and not is_compressed_too and not file.name.endswith(_INDEX):
            stamps.append(stamp)
    return tuple(sorted(stamps))


class Updates:
    """An index of update files, with the locations of each trace's updates, which ``of`` reads.

    Memory grows with the number of updates. Compressed files are unpacked into temporary files.

    Attributes:
        judged: kinds of work with traces marked as used (``effective``): ``train``, ``eval``.
        trained: whether an update contains the trainer's log-probabilities.
        problems: a sentence for each problem of a file.
    """

    def __init__(self, files: Sequence[FileStamp]) -> None:
        self._files: list[IO[bytes]] = []
        # Trace id -> (number of the file, offset of the line) of its updates
        self._locations: dict[str, list[tuple[int, int]]] = {}
        self.judged: set[str] = set()
        self.trained = False
        self.problems: list[str] = []
        for stamp in files:
            self._index(Path(stamp.path))

    def _index(self, path: Path) -> None:
        """Index the updates in a file; note in ``problems`` what cannot be read."""
        file, why_cut = _open_unpacked(path)
        number = len(self._files)
        # It stays open: ``of`` reads the updates when their trace is read.
        self._files.append(file)
        unread = 0
        file.seek(0)  # a file that was unpacked is at its end
        while line := file.readline(MAX_LINE):
            start_of_line = file.tell() - len(line)
            if not self._add(line, (number, start_of_line)):
                unread += 1
        name = f"{path.parent.name}/{path.name}"
        if why_cut:
            text = message("{file} ends early: {why}", file=name, why=why_cut)
            self.problems.append(text)
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
        trace = _trace_of(line)
        # A line may be cut: while prime-rl writes it, or because it is longer than MAX_LINE.
        is_whole = line.rstrip().endswith(b"}")
        if trace is None or not is_whole:
            is_blank = not line.strip()
            return is_blank
        self._locations.setdefault(trace, []).append(location)
        # Most updates have neither of these keys: parse only the lines that may have them.
        if b'"trainer_logprobs"' in line:
            self.trained = True
        if b'"effective"' in line:
            # Older marks are in ``info`` under a kind of work: {"train": {"effective": true}}.
            info = mapping(logged.json_object(line).get("info"))
            self.judged.update(
                kind for kind in info if is_effective(mapping(info[kind]))
            )
            # Newer marks have no kind; in an evaluation, unmarked traces may only be unfinished.
            if is_effective(info):
                self.judged.add("train")
        return True

    def of(self, trace: str) -> Iterator[Row]:
        """Yield the updates of a trace in the order in which they were logged."""
        for number, offset in self._locations.get(trace, ()):
            self._files[number].seek(offset)
            update = logged.json_object(self._files[number].readline(MAX_LINE))
            # The index has the first id in the line's text, which may be of a nested object.
            if update.get("trace_id") == trace:
                yield update


def _trace_of(line: bytes) -> str | None:
    """Return the trace's id in an update; parse the line only if the id contains an escape."""
    match = _ID.search(line)
    if match:
        return match[1].decode(errors="surrogatepass")
    trace = logged.json_object(line).get("trace_id")
    return trace if isinstance(trace, str) else None


@lru_cache(maxsize=1)  # all logs of a run have the same update files
def updates_in(files: tuple[FileStamp, ...]) -> Updates:
    return Updates(files)


def apply_updates(trace: Row, updates: Iterator[Row]) -> None:
    """Merge updates into ``info`` and the nodes' arrays of a trace, in place.

    ``index`` of an updated branch is its number among the trace's branches, which prime-rl numbers
    by their leaves.
    """
    nodes = dicts(trace.get("nodes"))
    paths: dict[int | None, list[int]] = dict(enumerate(paths_to_leaves(nodes)))
    for update in updates:
        _merge(trace, {"info": mapping(update.get("info"))})
        for branch in dicts(update.get("branches")):
            path = paths.get(coerce.integer(branch.get("index")), [])
            nodes_of_branch = [nodes[i] for i in path]
            for name, values in branch.items():
                if isinstance(values, list) and name not in _FIXED_KEYS:
                    _split_among_nodes(nodes_of_branch, name, values)


def _split_among_nodes(nodes: Sequence[Row], name: str, values: list[Any]) -> None:
    """Set ``name`` of nodes to their part of an array of a whole branch, where it has numbers.

    ``values`` has one number per token of the branch, a node's array one per sampled token.
    """
    stop = 0
    for node in nodes:
        start = stop
        stop += len(node.get("token_ids") or [])
        mask = node.get("mask") or []
        of_node = values[start:stop]
        # A node without a mask, or an array that ends early: nothing says which token is which.
        if len(of_node) != len(mask):
            continue
        numbers = [coerce.real(value) for value in compress(of_node, mask)]
        floats = [math.nan if number is None else number for number in numbers]
        if not all(map(math.isnan, floats)):
            node[name] = floats


def _merge(trace: Row, update: Row) -> None:
    """Merge an update recursively into a trace; a nested dict keeps keys that the update lacks."""
    for key, value in update.items():
        # Not ``trace.get``: that of a ``KeyTracker`` would mark the key as read.
        before = dict.get(trace, key)
        if isinstance(before, dict):
            _merge(before, mapping(value))
        else:
            trace[key] = value


def _open_unpacked(path: Path) -> tuple[IO[bytes], str]:
    """Open a file, decompressed if it is zstandard; return it and why it ends early, or ""."""
    # An empty file has nothing to decompress, which would be an error.
    if path.suffix != ".zst" or not path.stat().st_size:
        return path.open("rb"), ""
    plain = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
    why = ""
    try:
        with path.open("rb") as packed:
            stream = zstd.ZstdFile(packed)
            while piece := stream.read1(_PIECE):
                plain.write(piece)
    # What was unpacked before is read: prime-rl may still write the file.
    except (OSError, EOFError, ValueError, zstd.ZstdError) as error:
        why = str(error)
    return plain, why


def paths_to_leaves(nodes: Sequence[Row]) -> list[list[int]]:
    """Return one list per leaf: the indices of the nodes on the path from the root to the leaf."""
    parents = [coerce.integer(node.get("parent")) for node in nodes]
    paths: list[list[int]] = []
    leaves = set(range(len(nodes))) - set(parents)
    for leaf in sorted(leaves):
        path = [leaf]
        parent = parents[leaf]
        # A parent comes before its children; any other number would lead in a circle.
        while parent is not None and 0 <= parent < path[-1]:
            path.append(parent)
            parent = parents[parent]
        path.reverse()
        paths.append(path)
    return paths


def is_effective(info: Row) -> bool:
    """Return whether a trace is marked as used for training."""
    return info.get("effective") is True
