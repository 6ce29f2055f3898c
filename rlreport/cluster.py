"""Processes of a Ray cluster behind the same ``Executor`` as those of this machine (``--ray``).

The cluster is the user's: none is started, no environment is made on it, no GPU asked for. Tasks
are functions of this package, which has to be the same on every node. What is large stays in the
cluster's object store, where it is merged; a task whose node dies is done again elsewhere.
"""

from __future__ import annotations

import contextlib
import logging
import platform
import queue
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import numpy as np

from rlreport import __version__
from rlreport.errors import MissingExtraError, RlreportError, UsageError
from rlreport.store import program

_RETRIES = 3
_PATIENCE = 120.0
"""Seconds that a node has to say which program it has."""

_IDLE = 30.0
"""Seconds after which it is said that no task could begin."""

_REACHED = 10.0
_NAMED = 3


class RayExecutor(Executor):
    """The processes of a cluster; futures are finished by a thread of its own."""

    def __init__(self, address: str, say: Callable[[str], None]) -> None:
        """Connect to the cluster at ``address``, unless this program is connected already.

        Args:
            address: of the cluster.
            say: told once where no task can begin.

        Raises:
            MissingExtraError: Ray is not installed.
            UsageError: no cluster is there, or it is of another version.
        """
        self._ray, self._own = _connected(address)
        self._task = self._ray.remote(
            num_cpus=1, num_gpus=0, max_retries=_RETRIES, scheduling_strategy="SPREAD"
        )(_checked)
        self._merge = self._ray.remote(num_cpus=1, num_gpus=0, max_retries=_RETRIES)(_call)
        self._versions = _versions()
        self._running: dict[Any, Future[Any]] = {}
        self._done: queue.SimpleQueue[tuple[Any, Future[Any], object] | None] = queue.SimpleQueue()
        threading.Thread(target=self._finish, daemon=True).start()
        self._say, self._asked = say, False

    @property
    def count(self) -> int:
        """Processes that the cluster has room for."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See Executor."""
        ref = self._task.remote(self._versions, function, *args, **kwargs)
        return self._future(ref, lambda result: result)

    def submit_apart(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Submit a function that returns a pair; the second is not fetched: a reference to it."""
        task = self._task.options(num_returns=2)
        small, large = task.remote(self._versions, function, *args)
        return self._future(small, lambda result: (result, large))

    def merge(self, function: Callable[..., Any], *references: Any) -> Any:
        """Return a reference to what a function makes of what the references stand for."""
        return self._merge.remote(function, *references)

    def value(self, reference: Any) -> Any:
        """Fetch what a reference stands for; its arrays cannot be written to.

        Raises:
            Exception: what its task raised.
        """
        try:
            return self._ray.get(reference)
        except Exception as error:
            raise _cause(error) from None

    def share(self, packed: bytes) -> Any:
        """Put bytes where every task finds them; a node gets them once."""
        return self._ray.put(np.frombuffer(packed, np.uint8))

    def check(self, logs: Sequence[str], tokenizer: str | None = None) -> None:
        """Check that every node has this program, and sees these files as they are here.

        Args:
            logs: local files, by absolute path; the first, the last and one between stand for all.
            tokenizer: a further one.

        Raises:
            UsageError: one has not, or does not; it is named.
        """
        some = sorted({0, len(logs) // 2, len(logs) - 1}) if logs else []
        files = [*dict.fromkeys(logs[i] for i in some), *([tokenizer] if tokenizer else [])]
        sizes = {file: _size(file) for file in files}
        wrong = []

        def tell() -> Any:
            # Travels by value: a node without this program shall be able to say so.
            try:
                from rlreport.cluster import _size, _versions
            except ImportError as error:
                return str(error)
            return _versions(), {file: _size(file) for file in files}

        for node, told in self._told_by_nodes(tell):
            if isinstance(told, str):
                wrong.append(f"{node}: {told}")
                continue
            versions, seen = told
            wrong += [
                f"{node}: has {name} {versions.get(name)}, here it is {own}"
                for name, own in self._versions.items()
                if versions.get(name) != own
            ]
            unseen = [file for file in files if seen.get(file) != sizes[file]]
            if unseen:
                wrong.append(
                    f"{node}: does not see {unseen[0]} as it is here; logs have to lie in a "
                    "store, or on a disk that all nodes share"
                )
        if wrong:
            more = f"; and {len(wrong) - _NAMED:,} more" if len(wrong) > _NAMED else ""
            raise UsageError(f"--ray: node {'; '.join(wrong[:_NAMED])}{more}")

    def everywhere(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Return what a function returns on every node that lives, or what is wrong there."""
        told = dict(self._told_by_nodes(_call, function, *args))
        return [told[node] for node in self._nodes().keys() & told.keys()]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True, **_: object) -> None:
        """End what runs, and the connection if it was made here."""
        self._done.put(None)
        for ref in list(self._running):
            with contextlib.suppress(Exception):
                self._ray.cancel(ref, force=True)
        self._running.clear()
        if self._own:
            self._ray.shutdown()

    def _future(self, ref: Any, settle: Callable[[Any], object]) -> Future[Any]:
        outer: Future[Any] = Future()
        outer.set_running_or_notify_cancel()
        self._watch()
        self._running[ref] = outer
        # Ray's own thread must not be kept by those who wait for the result.
        ref.future().add_done_callback(lambda inner: self._done.put((ref, inner, settle)))
        return outer

    def _watch(self) -> None:
        """Say it once where the first tasks wait for a CPU: a task that does nothing waits too."""
        if self._asked:
            return
        self._asked = True
        first = self._merge.remote(int)

        def look() -> None:
            with contextlib.suppress(Exception):  # as after the connection has ended
                begun = self._ray.wait([first], timeout=_IDLE)[0]
                if self._running and not begun:
                    self._say(
                        f"--ray: no CPU of the cluster is free: {len(self._running):,} tasks wait "
                        f"for one each, and it has {self.count:,}"
                    )

        threading.Thread(target=look, daemon=True).start()

    def _finish(self) -> None:
        while (item := self._done.get()) is not None:
            ref, inner, settle = item
            outer = self._running.pop(ref, None)
            if outer is None:
                continue
            if (error := inner.exception()) is not None:
                outer.set_exception(_cause(error))
            else:
                outer.set_result(settle(inner.result()))  # type: ignore[operator]

    def _nodes(self) -> dict[str, str]:
        """Nodes that work, by what they are called."""
        return {
            f"{node.get('NodeName') or node['NodeManagerAddress']} ({node['NodeID'][:8]})": node[
                "NodeID"
            ]
            for node in self._ray.nodes()
            if node["Alive"] and node["Resources"].get("CPU")
        }

    def _told_by_nodes(self, tell: Callable[..., Any], *args: Any) -> Iterator[tuple[str, Any]]:
        """Yield each node with what a function returns there, or with what is wrong."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        asked = {}
        for name, node in self._nodes().items():
            where = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
            task = self._ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=where)(tell)
            asked[task.remote(*args)] = name
        ready, late = self._ray.wait(
            list(asked), num_returns=len(asked), timeout=_PATIENCE, fetch_local=False
        )
        for ref in ready:
            try:
                yield asked[ref], self._ray.get(ref)
            except Exception as error:
                yield asked[ref], _first_line(error)
        for ref in late:
            yield asked[ref], f"did not answer within {_PATIENCE:.0f} s"


def _connected(address: str) -> tuple[Any, bool]:
    try:
        import ray
    except ImportError:
        raise MissingExtraError("--ray needs Ray: pip install 'rlreport[ray]'") from None
    if ray.is_initialized():
        return ray, False
    if address in ("", "local") or address.startswith("ray://"):
        raise UsageError(
            f"--ray {address}: give 'auto', or HOST:PORT of a cluster that runs, on one of its "
            "nodes; none is started, and Ray's client is not used"
        )
    _reach(address)
    handler = signal.getsignal(signal.SIGTERM)
    main = threading.current_thread() is threading.main_thread()
    try:
        # Ray lets its workers import from the current folder, which is not to be trusted.
        with contextlib.chdir(Path(__file__).resolve().parents[1]):
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=False,
            )
    except Exception as error:
        raise UsageError(f"--ray {address}: {_first_line(error)}") from None
    finally:
        if main:
            signal.signal(signal.SIGTERM, handler)
    return ray, True


def _reach(address: str) -> None:
    """Fail at once where nobody listens: Ray would try for minutes, and then end the process.

    Raises:
        UsageError: nobody listens at HOST:PORT.
    """
    host, colon, port = address.rpartition(":")
    if address == "auto":
        with contextlib.suppress(Exception):  # it is Ray's own, and may be called otherwise
            from ray._private.services import canonicalize_bootstrap_address

            host, colon, port = (canonicalize_bootstrap_address("auto") or "").rpartition(":")
        if not colon:
            return  # Ray itself says that there is none
    elif not colon:
        raise UsageError(f"--ray {address}: give 'auto' or HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACHED).close()
    except (OSError, ValueError, OverflowError) as error:
        raise UsageError(
            f"--ray {address}: no cluster at {host}:{port} ({_first_line(error)})"
        ) from None


def _versions() -> dict[str, str]:
    """Return what has to be the same everywhere for the same bytes to come out."""
    return {
        "rlreport": f"{__version__} ({program()[-32:-20]})",
        "Python": platform.python_version(),
        "NumPy": np.__version__,
    }


def _checked(versions: dict[str, str], function: Callable[..., Any], *args: Any) -> Any:
    """Do a task, on a node that may have come after the others were checked."""
    if versions != (own := _versions()):
        raise UsageError(f"--ray: node {platform.node()} has {own}, here it is {versions}")
    return function(*args)


def _call(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


def _size(file: str) -> int:
    """Bytes of a file, -1 where there is none."""
    try:
        return Path(file).stat().st_size
    except OSError:
        return -1


def _cause(error: BaseException) -> BaseException:
    """Return what a task raised, or what is to be said of one that was lost."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, Exception):
        return cause
    if type(error).__module__.startswith("ray."):
        return RlreportError(f"--ray: {_first_line(error)}")
    return error


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]
