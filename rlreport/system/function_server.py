"""Serve one function of a user's file: a line of JSON in is a call, a line out is its result.

``function_process`` runs this file as a script, in a process of its own. It imports nothing of
rlreport, so that the user's file finds the modules that it would find without rlreport.
"""

from __future__ import annotations

import asyncio
import importlib.machinery
import importlib.util
import inspect
import json
import math
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

# A parameter of this name tells whose signature a function has.
TRL = "completions"
VERL = "solution_str"
# TRL passes functions under these names, with which a reward function logs further values.
_LOGGING = ("log_extra", "log_metric")
_MOST_CHARS = 20_000  # of an exception's text, which ``function_process`` cuts further
_MOST_OF_NAME = 80
_MOST_NAMES = 20

Function = Callable[..., Any]


class _Refused(Exception):
    """The file has no function that can be used; the message says why.

    ``text`` is that of an exception of the user's code.
    """

    def __init__(self, why: str, text: str = "") -> None:
        super().__init__(why)
        self.text = text


def main() -> None:
    """Load the function that the command line names, describe it, and serve calls until the end."""
    file = Path(sys.argv[1])
    calls = _Calls()
    calls.next()
    try:
        function = _function(_loaded(file), sys.argv[2], file)
        described = _described(function)
    except _Refused as error:
        calls.answer({"refused": str(error), "text": error.text})
        return
    calls.answer(described)
    for call in iter(calls.next, None):
        calls.answer(_answer(function, call, file))


class _Calls:
    """The pipes for calls and answers; what the user's code reads and prints is empty."""

    def __init__(self) -> None:
        # Copies that programs which the user's code starts do not inherit
        self._requests = os.fdopen(os.dup(0), "rb")
        self._answers = os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        self._process = os.getpid()
        self._own: dict[str, Any] = {}  # what tells this call's answer from other lines
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave)

    def next(self) -> dict[str, Any] | None:
        """Return the next call, None at the end."""
        line = self._requests.readline()
        if not line:
            return None
        call: dict[str, Any] = json.loads(line)
        self._own = {name: call.pop(name) for name in ("token", "number")}
        return call

    def answer(self, answer: dict[str, Any]) -> None:
        """Answer the call; a copy of this process, which the user's code forked, ends instead."""
        if os.getpid() != self._process:
            os._exit(0)
        line = json.dumps(answer | self._own).encode()
        # The first line end is that of whatever the user's code may have written into the pipe
        self._answers.write(b"\n" + line + b"\n")
        self._answers.flush()

    def _leave(self) -> None:
        """Close the pipes in a forked process, which may live longer than this one."""
        with suppress(OSError):
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (self._requests, self._answers):
                os.dup2(nothing, stream.fileno(), inheritable=False)
            os.close(nothing)


def _loaded(file: Path) -> ModuleType:
    """Import the file, with its folder first in ``sys.path``."""
    name = file.stem
    loader = importlib.machinery.SourceFileLoader(name, str(file))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent))
    sys.modules[name] = module  # pickles and dataclasses look it up
    try:
        loader.exec_module(module)
    except BaseException as error:
        why = f"cannot be imported: {_where(error, file)}"
        raise _Refused(why, _text(error)) from None
    return module


def _function(module: ModuleType, name: str, file: Path) -> Function:
    """Return the function called ``name``; without a name the only one with a known signature."""
    if name:
        named: Function | None = getattr(module, name, None)
        if not callable(named):
            raise _Refused(f"has no function {name!r}; {_listed(_callables(module))}")
        return named
    candidates = {
        candidate: function
        for candidate, function in _callables(module).items()
        if _is_known(function)
    }
    if len(candidates) != 1:
        listed = _listed(candidates or _callables(module))
        if candidates:
            raise _Refused(
                f"has several reward functions; {listed}. Name one: {file.name}:NAME"
            )
        raise _Refused(
            f"has no function with a parameter {TRL!r} (TRL) or {VERL!r} (verl); {listed}"
        )
    return candidates.popitem()[1]


def _callables(module: ModuleType) -> dict[str, Function]:
    """Return the public functions and callable objects that the file itself defines."""
    found = {}
    for name, value in vars(module).items():
        is_own = getattr(value, "__module__", None) == module.__name__
        if (
            is_own
            and callable(value)
            and not inspect.isclass(value)
            and name[:1] != "_"
        ):
            found[name] = value
    return found


def _listed(functions: Iterable[str]) -> str:
    names = _names(sorted(functions))
    return f"its functions are {names}" if names else "it defines no function"


def _names(names: Iterable[Any]) -> str:
    return ", ".join(map(_name, list(names)[:_MOST_NAMES]))


def _name(name: Any) -> str:
    """Return the name of a type or function, which user code may set to anything."""
    text = name[:_MOST_OF_NAME] if isinstance(name, str) else "?"
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def _parameters(function: Function) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # such as a function of a compiled module
        return {}


def _is_known(function: Function) -> bool:
    return not {TRL, VERL}.isdisjoint(_parameters(function))


def _described(function: Function) -> dict[str, Any]:
    """Return the function's name and parameters; refuse one with another signature."""
    parameters = _parameters(function)
    name = _name(getattr(function, "__name__", type(function).__name__))
    is_open = False
    required: list[str] = []
    optional: list[str] = []
    for parameter in parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            is_open = True
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            raise _Refused(f"{name}: its parameters have to be passed by name")
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            is_required = parameter.default is parameter.empty
            (required if is_required else optional).append(parameter.name)
    if not _is_known(function):
        raise _Refused(
            f"{name} has neither a parameter {TRL!r} (TRL) nor {VERL!r} (verl), but "
            f"{_names(parameters) or 'none'}"
        )
    return {
        "name": name,
        "per_row": VERL in parameters,
        "required": [one for one in required if one not in _LOGGING],
        "optional": optional,
        "open": is_open,
    }


def _answer(function: Function, call: dict[str, Any], file: Path) -> dict[str, Any]:
    """Return the results of a call: a number or null for each response, and reasons for null."""
    try:
        return _results(function, call)
    except BaseException as error:  # also SystemExit
        return {"failed": _where(error, file), "text": _text(error)}


def _results(function: Function, call: dict[str, Any]) -> dict[str, Any]:
    """Call the function, and return its rewards or why its result is refused."""
    arguments = call["arguments"]
    for name in _LOGGING:
        if name in _parameters(function):
            arguments[name] = lambda *_: None
    result = function(**arguments)
    if inspect.isawaitable(result):
        result = asyncio.run(_awaited(result))
    results = [_score(result)] if call["per_row"] else _items(result)
    size = call["size"]
    refused = ""
    if results is None:
        refused = f"returned {_kind(result)}, not a list of {size} rewards"
    elif len(results) != size:
        refused = f"returned {len(results)} rewards for {size} completions"
    if results is None or refused:
        return {"refused": refused, "text": ""}
    rewards = []
    reasons = {}
    for number, item in enumerate(results):
        reward, reason = _number(item)
        rewards.append(reward)
        if reason:
            reasons[str(number)] = reason
    return {"rewards": rewards, "reasons": reasons}


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result


def _items(result: Any) -> list[Any] | None:
    """Return a list, an array or a tensor as a list, None for anything else."""
    if hasattr(result, "tolist"):
        result = result.tolist()
    if isinstance(result, str | bytes | dict) or not isinstance(result, Iterable):
        return None
    return list(result)


def _score(result: Any) -> Any:
    """Return the score that a function of verl returns alone, in a dict or first in a list."""
    if isinstance(result, dict):
        return result["score"]
    if isinstance(result, list | tuple) and result:
        return result[0]
    return result


def _number(item: Any) -> tuple[float | None, str]:
    """Return (a finite number, ""), or (None, why it is none)."""
    if hasattr(item, "item"):  # of NumPy or a tensor
        try:
            item = item.item()
        except (TypeError, ValueError, RuntimeError):
            return None, f"returned {_kind(item)}, not a number"
    if item is None:
        return None, "returned None"
    if not isinstance(item, bool | int | float):
        return None, f"returned {_kind(item)}, not a number"
    try:
        number = float(item)
    except OverflowError:
        return None, "returned a number that is too large"
    if not math.isfinite(number):
        return None, f"returned {number}"
    return number, ""


def _kind(value: Any) -> str:
    return f"a value of type {_name(type(value).__name__)}"


def _where(error: BaseException, file: Path) -> str:
    """Return an exception's type, and the last line of the user's file that it passed."""
    line = None
    if isinstance(error, SyntaxError) and error.filename == str(file):
        line = error.lineno
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == str(file):
            line = frame.lineno
    place = f" ({file.name}, line {line})" if line else ""
    return f"{_name(type(error).__name__)}{place}"


def _text(error: BaseException) -> str:
    try:
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        return str(text)[:_MOST_CHARS]
    except BaseException:  # also SystemExit
        return ""


if __name__ == "__main__":
    main()
