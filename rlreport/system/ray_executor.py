"""Run the jobs of ``Workers`` on a Ray cluster (``--ray``).

The cluster must be running already. Every node needs the same versions of rlreport, Python and
NumPy. If a node dies, Ray runs its tasks again on another.
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

_QUEUED = 2  # tasks submitted per CPU: the running one, and the next
_CONNECT_SECONDS = 10.0
# In which each node answers a question; a disk that has lost its server never answers.
_ANSWER_SECONDS = 300.0
_MAX_LINE = 300  # characters of an error's message
# Ray's words if a node has no such function: it has no rlreport, or an old one
_NO_FUNCTION = "failed to import on the worker"


class _TaskLostError(RlreportError):
    """A task has no result, as its node or the cluster was lost."""


class RayCluster:
    """A connection to a running Ray cluster that does the jobs of ``Workers``."""

    def __init__(self, address: str) -> None:
        """Connect to the cluster at ``address``: "auto", or HOST:PORT."""
        self._ray, self._connected = _connect(address)
        # Tasks are spread over the nodes, as each reads its part of the logs.
        spread = self._ray.remote(num_gpus=0, scheduling_strategy="SPREAD")
        self._task = spread(_run_task)
        cpus = self._ray.cluster_resources().get("CPU", 1)
        self._cpus = max(1, int(cpus))

    def map(
        self, function: Callable[[Any, Any], Any], jobs: Sequence[Any], shared: Any
    ) -> Iterator[Any]:
        """Yield ``function(job, shared)`` for each job, in the order of the jobs.

        Tasks are submitted as results are taken, _QUEUED per CPU. While an early task takes long,
        no more results than that wait in the memory of the nodes.
        """
        data = self._put(function, shared)
        versions = _versions()
        pending = deque[Any]()
        try:
            for job in jobs:
                pending.append(self._task.remote(versions, data, job))
                if len(pending) > _QUEUED * self._cpus:
                    yield self._result(pending.popleft())
            while pending:
                yield self._result(pending.popleft())
        finally:
            # The caller may not take all results, or a task have failed.
            self._cancel(pending)

    def on_each_node(
        self, function: Callable[[None, Any], Any], shared: Any
    ) -> list[Any]:
        """Return ``function(None, shared)`` of each node that can run tasks, all asked at once.

        A node that is lost meanwhile is left out.

        Raises:
            UsageError: a node does not answer, or has other versions.
        """
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        data = self._put(function, shared)
        versions = _versions()
        nodes: dict[Any, str] = {}  # task -> name of its node
        for node in self._ray.nodes():
            # The head of a large cluster often has no CPU for tasks, and no logs.
            if node["Alive"] and node["Resources"].get("CPU", 0) >= 1:
                there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                # Without a CPU, so that it does not wait for other tasks of the node.
                ask = self._task.options(num_cpus=0, scheduling_strategy=there)
                task = ask.remote(versions, data, None)
                nodes[task] = node["NodeManagerHostname"]
        if not nodes:  # none yet: those that join check what they read
            return []
        answered, silent = self._ray.wait(
            list(nodes), num_returns=len(nodes), timeout=_ANSWER_SECONDS
        )
        if silent:
            self._cancel(silent)
            raise UsageError(
                f"--ray: node {nodes[silent[0]]} does not answer within "
                f"{_ANSWER_SECONDS:,.0f} seconds; does its disk with the logs answer?"
            )
        results = []
        for task in answered:
            with contextlib.suppress(_TaskLostError):
                results.append(self._result(task, nodes[task]))
        return results

    def close(self) -> None:
        """Disconnect, unless the program had connected before."""
        if self._connected:
            self._ray.shutdown()

    def _put(self, function: Callable[[Any, Any], Any], shared: Any) -> Any:
        """Put what all tasks need where each node fetches it once; return a reference to it."""
        # As an array, the bytes are mapped into the tasks.
        pickled = pickle.dumps((function, shared))
        return self._ray.put(np.frombuffer(pickled, np.uint8))

    def _cancel(self, tasks: Iterable[Any]) -> None:
        for task in tasks:
            with contextlib.suppress(Exception):
                self._ray.cancel(task, force=True)

    def _result(self, task: Any, node: str = "of the cluster") -> Any:
        """Wait for a task on a node; return its result, or raise what it raised."""
        try:
            return pickle.loads(self._ray.get(task))
        except self._ray.exceptions.RayError as error:
            # Ray wraps what the function raised.
            cause = getattr(error, "cause", None)
            if isinstance(cause, RuntimeError) and _NO_FUNCTION in str(cause):
                _, _, reason = str(cause).strip().rpartition("\n")
                raise UsageError(
                    f"--ray: node {node} cannot import rlreport {__version__} ({reason}); all "
                    "nodes need it in the Python of their Ray"
                ) from None
            if isinstance(cause, Exception):
                raise cause from None
            # Otherwise the task was lost, with its node or with the cluster.
            raise _TaskLostError(f"--ray: {_first_line(error)}") from None


def _run_task(versions: dict[str, str], data: Any, job: Any) -> bytes:
    """Do one job on a node of the cluster; return its pickled result.

    Args:
        versions: those of the machine that submits the jobs, which the node's must equal.
        data: the pickle of the function and of what all jobs share.
        job: the job.
    """
    for name, version in _versions().items():
        if version != versions[name]:
            node = platform.node()
            raise UsageError(
                f"--ray: node {node} has {name} {version}, this machine {versions[name]}; they "
                "must be equal"
            )
    function, shared = pickle.loads(data)
    # Pickled here, as Ray would keep the result's arrays in the object store.
    return pickle.dumps(function(job, shared), pickle.HIGHEST_PROTOCOL)


def _versions() -> dict[str, str]:
    """Return the versions that must be equal on all nodes for a reproducible report."""
    return {
        "rlreport": __version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
    }


def _connect(address: str) -> tuple[Any, bool]:
    """Return the ``ray`` module, and whether this call connected it to the cluster.

    A connection that the program made before is used as it is, whatever the address.
    """
    try:
        import ray
    except ImportError:
        raise MissingExtraError(
            "--ray needs Ray: pip install 'rlreport[ray]'"
        ) from None
    if ray.is_initialized():
        return ray, False
    if address in ("", "local") or address.startswith("ray://"):
        raise UsageError(
            f"--ray {address}: run rlreport on a node of a running cluster and give 'auto' or "
            f"HOST:PORT; rlreport does not start a cluster and does not support ray:// "
            f"addresses"
        )
    handler_before = signal.getsignal(signal.SIGTERM)
    try:
        _check_port(address)
        # Ray's workers import from the driver's current folder, which may be untrusted. So connect
        # in the folder that contains this package.
        with contextlib.chdir(Path(__file__).resolve().parents[2]):
            ray.init(
                address,
                log_to_driver=False,
                configure_logging=False,
                logging_level=logging.ERROR,
            )
    except Exception as error:
        raise UsageError(f"--ray {address}: {_first_line(error)}") from None
    finally:
        # Ray sets a handler of its own. Only the main thread can set one.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler_before)
    return ray, True


def _check_port(address: str) -> None:
    """Raise OSError or ValueError unless a cluster can be at the address."""
    # If nothing listens at HOST:PORT, Ray would wait minutes, then kill Python.
    host, colon, port = address.rpartition(":")
    if colon:
        try:
            target = (host.strip("[]"), int(port))  # brackets of an IPv6 address
            socket.create_connection(target, _CONNECT_SECONDS).close()
        except (OSError, ValueError, OverflowError) as error:
            raise OSError(
                f"no cluster at {host}:{port} ({_first_line(error)})"
            ) from None
    elif address != "auto":  # for "auto", Ray itself reports that there is no cluster
        raise ValueError("give 'auto' or HOST:PORT")


def _first_line(error: BaseException) -> str:
    line, _, _ = str(error).strip().partition("\n")
    return line[:_MAX_LINE] or type(error).__name__
