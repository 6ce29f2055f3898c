"""Call Vega: in a process of its own within ``vega_process``, else in this process.

V8, which runs Vega, takes a third of a second to start, holds Python's lock while it works, and
rules out forking in its process. A process of its own starts V8 while this one imports packages and
reads logs, and draws while this one renders pages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from rlreport.errors import RlreportError
from rlreport.system.workers import JobProcess, job_process

# Bytes of virtual memory to leave for V8, which reserves 64 GiB when it starts (measured)
ADDRESS_SPACE = 65 << 30
_NOTHING = '{"$schema": "https://vega.github.io/schema/vega/v6.json", "marks": []}'
_MOST_FAILURES = 10  # Maximum number of errors that V8 is assumed to keep; one was seen
_PANIC = "PanicException"  # of Rust code; it is no Exception

_processes: list[JobProcess] = []  # that of the current ``vega_process``, if any


class _Calls(NamedTuple):
    """A function of vl_convert, such as "vega_to_svg", and what it is called with."""

    function: str
    inputs: Sequence[str]  # a call each: a chart as JSON, or an SVG
    options: dict[str, Any]


@contextmanager
def vega_process(workers: int = 0) -> Iterator[None]:
    """Let a process of its own call Vega in this context, unless there is to be one process only.

    ``workers``: the option of that name, 0 for one per core. Contexts may be nested.
    """
    if _processes or (workers or os.cpu_count() or 1) == 1:
        yield
        return
    with job_process(_call_all) as process:
        if process is None:
            yield
            return
        process.send(_Calls("vega_to_svg", [_NOTHING], {}))  # starts V8
        _processes.append(process)
        try:
            yield
        finally:
            _processes.clear()


def start_converting(
    function: str, inputs: Sequence[str], **options: Any
) -> Callable[[], list[Any]]:
    """Start to call a function of vl_convert; return a function that waits for the results.

    Without a process of its own, Vega is called when the results are wanted.

    Args:
        function: its name, such as "vega_to_svg".
        inputs: a call each: a chart as JSON, or an SVG.
        options: further arguments of every call.
    """
    calls = _Calls(function, inputs, options)
    process = _processes[0] if _processes else None
    if process is None or not process.is_ours:
        return lambda: _call_all(calls)
    number = process.send(calls)
    return lambda: process.result(number)


def convert(function: str, content: str, **options: Any) -> Any:
    """Call a function of vl_convert, and return its result; see ``start_converting``."""
    return start_converting(function, [content], **options)()[0]


def _call_all(calls: _Calls, shared: None = None) -> list[Any]:
    if _process_of_v8() != os.getpid():
        raise RlreportError(
            "charts cannot be drawn in a process that was forked from one that had drawn charts; "
            "start it with the method 'spawn' of multiprocessing"
        )
    call = getattr(_vl_convert(), calls.function)
    return [_called(call, content, calls.options) for content in calls.inputs]


def _called(call: Callable[..., Any], content: str, options: dict[str, Any]) -> Any:
    """Call Vega; if it raises an error, the next call does not raise what is left of it."""
    try:
        return call(content, **options)
    except ValueError:
        _forget_failures()
        raise
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise ValueError(str(error)) from None


def _forget_failures() -> None:
    """Convert nothing until that succeeds, after a conversion that failed.

    A conversion that fails in several places, such as at each link that Vega refuses, raises one
    of these errors; V8 keeps another and raises it in the next conversion, whatever that is.
    """
    for _ in range(_MOST_FAILURES):
        with suppress(ValueError):
            _vl_convert().vega_to_svg(_NOTHING)
            return


@cache
def _process_of_v8() -> int:
    """Return the id of the process in which V8 starts: in one forked later it would hang."""
    return os.getpid()


@cache
def _vl_convert() -> Any:
    check_address_space()
    import vl_convert  # starts V8 at its first call

    return vl_convert


def check_address_space() -> None:
    """Raise RlreportError if V8 could not start within the limit of virtual memory (Linux)."""
    if sys.platform != "linux":
        return
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    # The first number is the size of the process in pages of memory.
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    needed = ADDRESS_SPACE + pages * resource.getpagesize()
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise RlreportError(
            f"each process may use {limit / 1e9:.1f} GB of address space (ulimit -v), but drawing "
            f"charts reserves {needed / 1e9:.1f} GB of it, most of it never used as memory; "
            "start rlreport from a shell without this limit, or run 'rlreport check' or 'rlreport "
            "inspect', which draw nothing"
        )
