"""Write rollout logs from custom training loops."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Self

import numpy as np
import orjson

from rlreport.errors import OutputError, UsageError
from rlreport.fields import FIELDS
from rlreport.text.clean import safe_value

_OPTIONS = (
    orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE
)
_TOKEN_FIELDS = frozenset(
    field.name
    for field in FIELDS
    if field.kind in ("strings", "floats", "mask") or field.name == "token_ids"
)
_NUMBERS = frozenset(field.name for field in FIELDS if field.kind in ("int", "number"))


class RolloutWriter:
    """A writer of rollout logs, one response per line, in the format of ``docs/log-format.md``.

    Threads and forked processes can share it. Each line is written at once, so that a crash
    loses at most the last line. NaN and infinity are written as null, which is read as
    NaN. In ``reward`` they are written as text, as a reward of null means "not graded".

    Args:
        directory: folder of ``rank_<rank>.jsonl``; created if missing. An existing file is
            continued.
        rank: data-parallel rank of this process; processes of equal rank share a file.

    Raises:
        OutputError: the file cannot be opened or written.
    """

    def __init__(self, directory: str | Path, rank: int = 0) -> None:
        self.path = Path(directory) / f"rank_{rank}.jsonl"
        # Without O_BINARY, Windows would write \r\n for each \n byte.
        flags = os.O_CREAT | os.O_APPEND | os.O_RDWR | getattr(os, "O_BINARY", 0)
        self._file: int | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, flags, 0o666)
        except OSError as error:
            raise OutputError(
                f"{directory}: cannot write a log there: {error.strerror}"
            ) from error
        # Whether the file may end within a line: an earlier process may have crashed, or a write
        # may have failed. The next write begins a new line then.
        self._may_be_torn = True

    def write(
        self, *, step: int, prompt: str, response: str, reward: Any, **fields: Any
    ) -> None:
        """Append one response.

        Args:
            step: training step; a whole number, or an array or tensor with one.
            prompt: prompt of the policy.
            response: text of the response.
            reward: sequence reward; a number, or an array or tensor with one.
            fields: any further field of ``docs/log-format.md`` (``response_tokens``,
                ``logprobs``, ``ref_logprobs``, ``values``, ``token_rewards``,
                ``response_mask``, ``turns``, …), and your own numbers, booleans and short
                strings. Values per token are a list, array or tensor of shape (T,).

        Raises:
            UsageError: a field has the wrong type, arrays per token differ in length, or a value
                cannot be written as JSON.
            OutputError: the line cannot be written, or the writer is closed.
        """
        row = {
            "step": step,
            "prompt": prompt,
            "response": response,
            "reward": reward,
            **fields,
        }
        line = _encode(_validate(row))
        if self._file is None:
            raise OutputError(
                f"{self.path}: the writer is closed; create a new RolloutWriter"
            )
        try:
            if self._may_be_torn:
                _end_torn_line(self._file)
                self._may_be_torn = False
            _append(self._file, line)
        except OSError as error:
            self._may_be_torn = True
            raise OutputError(
                f"{self.path} cannot be written: {error.strerror}"
            ) from error

    def close(self) -> None:
        """Close the log file; if it is closed already, do nothing."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _append(file: int, data: bytes) -> None:
    """Write all of the data, as the system may write a part of it at a time."""
    remainder = memoryview(data)
    while remainder:
        remainder = remainder[os.write(file, remainder) :]


def _end_torn_line(file: int) -> None:
    """Append a line end to a file unless it is empty or ends with one."""
    size = os.fstat(file).st_size
    if size:
        os.lseek(file, size - 1, os.SEEK_SET)
        if os.read(file, 1) != b"\n":
            _append(file, b"\n")


def _validate(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row to write, its numbers normalized; raise UsageError if a value is invalid."""
    result: dict[str, Any] = {}
    token_counts: dict[str, int] = {}  # of each field with a value per token
    for name, original in row.items():
        is_tensor = hasattr(original, "detach")
        value = _array_or_number(original) if is_tensor else original
        if name in _TOKEN_FIELDS and not _is_scalar(value):
            token_counts[name] = _token_count(name, value)
        else:
            value = _number(name, value)
        result[name] = value
    _check_counts(token_counts)
    result["step"] = _whole_step(result["step"])
    for name in ("prompt", "response"):
        if not isinstance(result[name], str):
            raise UsageError(f"{name} must be text, got {result[name]!r:.60}")
    reward = result["reward"]
    if not isinstance(reward, int | float | np.generic | None):
        raise UsageError(f"reward must be a number, got {reward!r:.60}")
    # JSON has no NaN: it would become null, which means a missing grade.
    if reward is not None and not np.isfinite(reward):
        result["reward"] = str(reward)
    return result


def _is_scalar(value: Any) -> bool:
    """Return whether a value is one number, which may apply to all tokens, as GRPO's advantage."""
    if isinstance(value, int | float | None):
        return True
    return getattr(value, "shape", None) == ()


def _check_counts(token_counts: dict[str, int]) -> None:
    """Raise UsageError if fields differ in their number of tokens (field -> number)."""
    if not token_counts:
        return
    first_name, expected = next(iter(token_counts.items()))
    for name, count in token_counts.items():
        if count != expected:
            raise UsageError(
                f"{name} has {count} entries, {first_name} has {expected}; "
                "expected one per token"
            )


def _whole_step(step: Any) -> Any:
    """Return a step as an integer; raise UsageError if it is not whole."""
    is_bool = isinstance(step, bool)  # an int, too, for Python
    if isinstance(step, int | np.integer) and not is_bool:
        return step
    is_float = isinstance(step, float | np.floating)
    if not is_float or not float(step).is_integer():
        raise UsageError(f"step must be an integer, got {step!r:.60}")
    return int(step)


def _number(name: str, value: Any) -> Any:
    """Return the number in an array of one, for any field; other values unchanged.

    A field ``name`` that must be a number (_NUMBERS) may also be a list of one; for an array or a
    list of another size, raise UsageError.
    """
    must_be_number = name in _NUMBERS
    if hasattr(value, "shape"):
        size = int(np.prod(value.shape))
        if size == 1:
            return value.reshape(-1)[0].item()
    elif must_be_number and isinstance(value, list | tuple):
        size = len(value)
        if size == 1:
            return value[0]
    else:
        return value
    if must_be_number:
        raise UsageError(f"{name} must be a single number, got {size} numbers")
    return value


def _token_count(name: str, value: Any) -> int:
    """Return how many tokens a field has values for; raise UsageError for another shape."""
    shape = getattr(value, "shape", None)
    if shape is not None and len(shape) != 1:
        raise UsageError(f"{name} must have the shape (tokens,), got {tuple(shape)}")
    try:
        return len(value)
    except TypeError:
        raise UsageError(
            f"{name} must be a list, array or tensor with one entry per token"
        ) from None


def _encode(row: dict[str, Any]) -> bytes:
    """Return a row as a line of JSON; raise UsageError if JSON has no such value."""
    try:
        return orjson.dumps(row, default=_array_or_number, option=_OPTIONS)
    except TypeError:
        # orjson refuses lone surrogates and integers beyond 64 bits, which ``json`` writes.
        try:
            text = json.dumps(row, default=_as_plain)
        except (TypeError, ValueError) as error:
            raise UsageError(f"a field cannot be written as JSON: {error}") from error
        # Read it again, so that NaN and infinity become null, and lone surrogates are replaced.
        plain = safe_value(json.loads(text, parse_constant=lambda name: None))
        return json.dumps(plain, ensure_ascii=False).encode() + b"\n"


def _as_plain(value: Any) -> Any:
    """Return a tensor or array as nested lists, or a number if 0-dimensional."""
    return np.asarray(_array_or_number(value)).tolist()


def _array_or_number(value: Any) -> Any:
    """Return a tensor or array as an array that orjson can write, or a number if 0-dimensional."""
    if hasattr(value, "detach"):  # a tensor of PyTorch
        value = value.detach().cpu()
        if value.is_floating_point():  # NumPy has no bfloat16
            value = value.float()
        value = value.numpy()
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":  # bool, int, uint, float
        if (
            array.dtype.name == "bfloat16"
        ):  # of JAX, whose type NumPy does not know as a float
            return np.ascontiguousarray(array.astype(np.float32))
        raise TypeError(
            f"{type(value).__name__} is not text, a number, list, array or tensor"
        )
    return array.item() if array.ndim == 0 else np.ascontiguousarray(array)
