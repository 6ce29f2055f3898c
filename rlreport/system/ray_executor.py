"""Run the jobs of ``Workers`` on a Ray cluster (``--ray``).

The cluster must be running already. This module installs nothing on it and requests no GPU.
Every node needs the same version of this package. If a node dies, its tasks run on another.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import platform
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlreport import __version__
from rlreport.errors import MissingExtraError, RlreportError, UsageError
from rlreport.system.cache import program

_QUEUED = 2  # tasks submitted per CPU: the running one, and the next
_RETRIES = 3  # how often a task runs again after its node died
_CHECK_SECONDS = 120.0  # maximum time that ``check`` waits for the answers of all nodes
_BUSY_SECONDS = 30.0  # after waiting this long for a free CPU, tell the user
_CONNECT_SECONDS = 10.0
_MAX_NAMED = 3  # problems listed in an error message


class RayExecutor:
    """Executor that runs functions of this package as Ray tasks."""

    def __init__(self, address: str, say: Callable[[str], None]) -> None:
        """Connect to the cluster, unless this process is connected already.

        Args:
            address: ``auto`` or HOST:PORT.
            say: called with a message if no CPU of the cluster is free.

        Raises:
            MissingExtraError: Ray is not installed.
            UsageError: there is no cluster, or it runs another version of Ray.
        """
        self._ray, self._connected = _connect(address)
        self._task = self._ray.remote(
            num_cpus=1, num_gpus=0, max_retries=_RETRIES, scheduling_strategy="SPREAD"
        )(_run_task)
        self._versions = _versions()
        self._running: set[Any] = set()
        self._say = say
        self._first = self._task.remote(self._versions, int)
        self.count = max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def map(self, run: Callable[..., Any], data: bytes, jobs: Iterable[Any]) -> Iterator[Any]:
        """Yield ``run(data, job)`` for each job, in order; results are fetched one at a time."""
        shared = self.share(data)
        pending: deque[Any] = deque()
        for job in jobs:
            pending.append(self._task.remote(self._versions, run, shared, job))
            self._running.add(pending[-1])
            if len(pending) > _QUEUED * self.count:
                yield self._result(pending.popleft())
        while pending:
            yield self._result(pending.popleft())

    def share(self, data: bytes) -> Any:
        """Return a reference to ``data`` for tasks; each node receives the bytes only once."""
        return self._ray.put(np.frombuffer(data, np.uint8))

    def check(self, logs: Sequence[str], tokenizer: str | None = None) -> None:
        """Check that every node has the same version of this program and sees the same files.

        Of the logs, only the first, a middle and the last one are checked.

        Raises:
            UsageError: a node has another version or does not see a file; the message says which.
        """
        checked = [logs[i] for i in (0, len(logs) // 2, -1)] if logs else []
        sizes = _sizes([*checked, *([tokenizer] if tokenizer else [])])
        problems = [
            f"{node}: {problem}"
            for node, answer in self._ask_nodes(list(sizes))
            for problem in _problems(answer, self._versions, sizes)
        ]
        if problems:
            more = len(problems) - _MAX_NAMED
            rest = f"; and {more:,} more" if more > 0 else ""
            raise UsageError(f"--ray: node {'; '.join(problems[:_MAX_NAMED])}{rest}")

    def shutdown(self) -> None:
        """Cancel running tasks; disconnect if this object opened the connection."""
        for ref in self._running:
            with contextlib.suppress(Exception):
                self._ray.cancel(ref, force=True)
        if self._connected:
            self._ray.shutdown()

    def _result(self, ref: Any) -> Any:
        """Wait for a task, and return its result or raise its exception."""
        first, self._first = self._first, None
        try:
            if first is not None and not self._ray.wait([first], timeout=_BUSY_SECONDS)[0]:
                self._say(f"--ray: no CPU of the cluster is free; it has {self.count:,}")
            return pickle.loads(self._ray.get(ref))
        except Exception as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, Exception):
                raise cause from None
            if type(error).__module__.startswith("ray."):  # the task was lost
                raise RlreportError(f"--ray: {_first_line(error)}") from None
            raise
        finally:
            self._running.discard(ref)

    def _ask_nodes(self, files: list[str]) -> Iterator[tuple[str, Any]]:
        """Yield (node name, answer): the node's versions and file sizes, or an exception.

        Nodes that died are skipped, as Ray still lists them as alive for some seconds.
        """
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        def inspect() -> Any:
            # Ray pickles this function by value, so a node without this package raises ImportError.
            from rlreport.system.ray_executor import _sizes, _versions

            return _versions(), _sizes(files)

        names = {}
        for node in self._ray.nodes():
            if node["Alive"] and node["Resources"].get("CPU"):
                strategy = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
                task = self._ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=strategy)
                names[task(inspect).remote()] = node["NodeID"], _node_name(node)
        done, _ = self._ray.wait(list(names), num_returns=len(names), timeout=_CHECK_SECONDS)
        alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}
        for ref, (node_id, name) in names.items():
            if node_id not in alive:
                continue
            if ref not in done:
                yield name, RlreportError(f"did not answer within {_CHECK_SECONDS:.0f} s")
                continue
            try:
                yield name, self._ray.get(ref)
            except Exception as error:
                yield name, getattr(error, "cause", None) or error


def _node_name(node: dict[str, Any]) -> str:
    return f"{node.get('NodeName') or node['NodeManagerAddress']} ({node['NodeID'][:8]})"


def _problems(answer: Any, versions: dict[str, str], sizes: dict[str, int]) -> list[str]:
    """Return how a node differs from this machine, one text each, at most one about files."""
    if isinstance(answer, Exception):
        return [_first_line(answer)]
    differences = [
        f"has {name} {version}, here it is {versions.get(name)}"
        for name, version in answer[0].items()
        if version != versions.get(name)
    ]
    missing_files = [
        f"does not see {file} with the same size; logs must be in object storage or on a disk "
        f"that all nodes share"
        for file, size in answer[1].items()
        if size != sizes[file]
    ]
    return [*differences, *missing_files[:1]]


def _run_task(versions: dict[str, str], function: Callable[..., Any], *args: Any) -> bytes:
    """Run a function on a node, and return its pickled result.

    The versions are compared again, as the node may have joined the cluster after ``check``. The
    result is pickled here: Ray would keep its arrays in the object store.
    """
    if versions != (node_versions := _versions()):
        raise UsageError(
            f"--ray: node {platform.node()} has {node_versions}, here it is {versions}"
        )
    return pickle.dumps(function(*args), pickle.HIGHEST_PROTOCOL)


def _connect(address: str) -> tuple[Any, bool]:
    """Connect to the cluster; return the ``ray`` module, and whether this call connected it."""
    try:
        import ray
    except ImportError:
        raise MissingExtraError("--ray needs Ray: pip install 'rlreport[ray]'") from None
    if ray.is_initialized():
        return ray, False
    if address in ("", "local") or address.startswith("ray://"):
        raise UsageError(
            f"--ray {address}: run rlreport on a node of a running cluster and give 'auto' or "
            f"HOST:PORT; rlreport does not start a cluster and does not support ray:// "
            f"addresses"
        )
    handler = signal.getsignal(signal.SIGTERM)
    try:
        _check_port(address)
        # Ray's workers import from the driver's current folder, which may be untrusted.
        with contextlib.chdir(Path(__file__).resolve().parents[2]):
            ray.init(
                address, log_to_driver=False, configure_logging=False, logging_level=logging.ERROR
            )
    except Exception as error:
        raise UsageError(f"--ray {address}: {_first_line(error)}") from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
    return ray, True


def _check_port(address: str) -> None:
    """Raise an error if nothing listens at HOST:PORT; Ray would wait minutes, then kill Python."""
    if address == "auto":
        with contextlib.suppress(ImportError):  # a private function, which may be renamed
            from ray._private.services import canonicalize_bootstrap_address

            address = canonicalize_bootstrap_address("auto") or address
    host, colon, port = address.rpartition(":")
    if colon:
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
        except (OSError, ValueError, OverflowError) as error:
            raise OSError(f"no cluster at {host}:{port} ({_first_line(error)})") from None
    elif address != "auto":  # for "auto", Ray itself reports that there is no cluster
        raise ValueError("give 'auto' or HOST:PORT")


def _versions() -> dict[str, str]:
    """Return program -> version, which must be equal on all nodes for a reproducible report."""
    return {
        "rlreport": f"{__version__} ({program()[-32:-20]})",
        "Python": platform.python_version(),
        "NumPy": np.__version__,
    }


def _sizes(files: Sequence[str]) -> dict[str, int]:
    """Return path -> size in bytes, -1 if the file does not exist on this node."""
    sizes = dict.fromkeys(files, -1)
    for file in sizes:
        with contextlib.suppress(OSError):
            sizes[file] = Path(file).stat().st_size
    return sizes


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")[:300] or (
        type(error).__name__
    )
