"""Ask the nodes of a Ray cluster how they see the files of a run, before anything is read."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rlreport.errors import RlreportError, UsageError
from rlreport.read.lines import ByteRange
from rlreport.read.listing import find_sources
from rlreport.system.stores import Source, read_ranges, shown
from rlreport.system.workers import Workers

_WHERE_LOGS_LIE = (
    "logs must be in object storage, or on a disk that this machine and all nodes mount at the "
    "same path"
)


class _View(NamedTuple):
    """How a node sees files that this machine has listed."""

    node: str
    differing: int  # number of files that are missing on the node, or others than here
    first: str = ""  # how it sees the first of them, in words


class _Found(NamedTuple):
    """How many logs a node finds at paths."""

    node: str
    logs: int


def files_of(ranges: Iterable[ByteRange], tokenizer: str | None) -> list[Source]:
    """Return all files that tasks open: the logs, those read with them, and the tokenizer."""
    by_path: dict[str, Source] = {}
    for part in ranges:
        by_path[part.source.path] = part.source
        for path, size, _ in part.format.reader.format.siblings:
            by_path.setdefault(path, Source(path, path, size))
    if tokenizer:
        size = Path(tokenizer).stat().st_size
        by_path.setdefault(tokenizer, Source(tokenizer, tokenizer, size))
    return list(by_path.values())


def check_nodes(sources: Sequence[Source], workers: Workers) -> frozenset[str]:
    """Return the names of the nodes, which all see these files as this machine does.

    Raises:
        UsageError: a node does not.
    """
    views = workers.on_each_node(_view, sources)
    differing = sorted(view for view in views if view.differing)
    if differing:
        raise UsageError(_refusal(differing, len(views), len(sources)))
    return frozenset(view.node for view in views)


def check_this_node(sources: Sequence[Source]) -> None:
    """Raise UsageError if this machine, a node, does not see the files as they were listed."""
    view = _view(None, sources)
    if view.differing:
        raise UsageError(_refusal([view], 1, len(sources)))


def nodes_with_logs(paths: Sequence[str | Path], workers: Workers) -> str:
    """Return which node finds logs at paths where this machine finds none; "" if none does."""
    absolute = [path if "://" in str(path) else Path(path).absolute() for path in paths]
    views = workers.on_each_node(_count_logs, absolute)
    found = sorted(view for view in views if view.logs)
    if not found:
        return ""
    node, logs = found[0]
    return f"--ray: node {node} has {logs:,} logs there; {_WHERE_LOGS_LIE}"


def _view(_: None, sources: Collection[Source]) -> _View:
    """Compare files as they were listed with those of this node; a task of the cluster."""
    differing = 0
    first = ""
    for difference in _differences(sources):
        differing += 1
        first = first or difference
    return _View(platform.node(), differing, first)


def _differences(sources: Collection[Source]) -> Iterator[str]:
    """Yield how this node sees each file that it does not see as listed, in words."""
    stores: set[str] = set()
    for source in sources:
        if not source.store:
            difference = _difference(source)
        elif source.store not in stores:
            # One request shows whether the node has the store's library, and is let in.
            stores.add(source.store)
            difference = _store_difference(source)
        else:
            continue
        if difference:
            yield difference


def _difference(source: Source) -> str:
    """Return how this node sees a local file, "" if as it was listed; it may have grown since."""
    try:
        status = Path(source.path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return f"has no {source.path}"
    except OSError as error:
        return f"cannot read {source.path} ({error.strerror})"
    if status.st_size < source.size:
        size = f"{status.st_size:,} of {source.size:,} bytes"
        return f"has only {size} of {source.path}"
    # Each node may have written a log of its own at the same path.
    if source.is_replaced(status):
        return f"has another file as {source.path} (changed at another time)"
    if not os.access(source.path, os.R_OK):
        return f"cannot read {source.path} (Permission denied)"
    return ""


def _store_difference(source: Source) -> str:
    """Return why this node cannot read the first byte of a file in a store, "" if it can."""
    try:
        (content,) = read_ranges([(source, 0, min(1, source.size))])
    except RlreportError as error:
        return f"cannot read {shown(source.path)} ({error})"
    if isinstance(content, OSError):
        return f"cannot read {shown(source.path)} ({content.strerror})"
    return ""


def _refusal(views: Sequence[_View], nodes: int, files: int) -> str:
    """Return a sentence on nodes that do not see all files; ``nodes``, ``files``: all there are."""
    node, differing, first = views[0]
    counts = []
    if files > 1:
        counts.append(f"{differing:,} of {files:,} files missing or different there")
    if views[1:]:
        counts.append(f"as on {len(views) - 1:,} of {nodes - 1:,} other nodes")
    scope = f" ({', '.join(counts)})" if counts else ""
    return f"--ray: node {node} {first}{scope}; {_WHERE_LOGS_LIE}"


def _count_logs(_: None, paths: Sequence[str | Path]) -> _Found:
    """Count the logs that this node finds at paths; a task of the cluster."""
    logs = 0
    for path in paths:
        with suppress(RlreportError, OSError):
            logs += len(find_sources([path]).sources)
    return _Found(platform.node(), logs)
