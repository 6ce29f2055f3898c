"""Write rollout logs from custom training loops."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
import weakref
import zlib
from pathlib import Path
from typing import Any, Self

import numpy as np
import orjson

from rlreport.errors import OutputError, UsageError
from rlreport.fields import FIELDS, LARGEST_STEP
from rlreport.system.stores import zstd
from rlreport.text.clean import safe_value

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE
_SUFFIXES = {None: ".jsonl", "gz": ".jsonl.gz", "zst": ".jsonl.zst"}
_GZIP_WINDOW = 31
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
        directory: folder of ``rank_<rank>.jsonl``; created if missing. An existing plain file is
            continued; if a compressed file exists, ``rank_<rank>.1.jsonl.gz`` is started.
        rank: data-parallel rank of this process; processes of equal rank share a plain file.
        compression: None, ``"gz"`` or ``"zst"``. Each line is flushed, which costs some of the
            compression ratio.

    Raises:
        UsageError: ``compression`` is unknown.
        OutputError: the file cannot be opened or written.
    """

    def __init__(
        self, directory: str | Path, rank: int = 0, compression: str | None = None
    ) -> None:
        if compression not in _SUFFIXES:
            raise UsageError(f"compression is None, 'gz' or 'zst', not {compression!r}")
        self._folder = Path(directory)
        self._rank = rank
        self._compression = compression
        self._compressor: tuple[Any, int] | None = None
        self._file: int | None = None
        self._torn = False
        self._lock = threading.Lock()
        self._open()
        _writers.add(self)

    def write(self, *, step: int, prompt: str, response: str, reward: Any, **fields: Any) -> None:
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
            UsageError: a field has the wrong type or cannot be written as JSON, or arrays per
                token differ in length; the message names the field.
            OutputError: the line cannot be written, or the writer is closed.
        """
        row = {"step": step, "prompt": prompt, "response": response, "reward": reward, **fields}
        line = _encode(_validate(row))
        with self._lock:
            if self._file is None:
                raise OutputError(f"{self.path} is closed")
            try:
                if self._torn:  # data after an incomplete write could not be read
                    self._reopen()
                if self._compressor is not None:
                    stream, flush = self._compressor
                    line = stream.compress(line) + stream.flush(flush)
                _append(self._file, line)
            except OSError as error:
                self._torn = True
                raise OutputError(f"{self.path} cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Finish and close the log file; if it is closed already, do nothing."""
        with self._lock:
            if self._file is None:
                return
            try:
                if self._compressor is not None and not self._torn:
                    _append(self._file, self._compressor[0].flush())
            finally:
                os.close(self._file)
                self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _reopen(self) -> None:
        old_file = self._file
        self._open()
        self._torn = False
        if old_file is not None:
            os.close(old_file)

    def _after_fork(self) -> None:
        """In a forked child, replace the lock, and start a new file if the log is compressed."""
        self._lock = threading.Lock()
        if self._file is not None and self._compression is not None:
            self._reopen()

    def _open(self) -> None:
        # Without O_BINARY, Windows would write \r\n for each \n byte.
        flags = os.O_CREAT | os.O_APPEND | os.O_RDWR | getattr(os, "O_BINARY", 0)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if self._compression is None:
                self.path = self._folder / f"rank_{self._rank}.jsonl"
                self._file = os.open(self.path, flags, 0o666)
                _end_torn_line(self._file)
            else:
                self.path, self._file = self._open_new(flags | os.O_EXCL)
                self._compressor = _compressor(self._compression)
        except OSError as error:
            raise OutputError(f"{self._folder}: no log can be written: {error.strerror}") from error

    def _open_new(self, flags: int) -> tuple[Path, int]:
        """Create a file with an unused name: an existing compressed file is never appended to."""
        for number in itertools.count():
            name = f"rank_{self._rank}{f'.{number}' if number else ''}"
            path = self._folder / f"{name}{_SUFFIXES[self._compression]}"
            with contextlib.suppress(FileExistsError):
                return path, os.open(path, flags, 0o666)
        raise AssertionError


_writers: weakref.WeakSet[RolloutWriter] = weakref.WeakSet()


def _after_fork() -> None:
    for writer in list(_writers):
        writer._after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork)


def _compressor(compression: str) -> tuple[Any, int]:
    if compression == "gz":
        return zlib.compressobj(1, zlib.DEFLATED, _GZIP_WINDOW), zlib.Z_SYNC_FLUSH
    return zstd.ZstdCompressor(level=1), zstd.ZstdCompressor.FLUSH_BLOCK


def _append(file: int, data: bytes) -> None:
    remainder = memoryview(data)
    while remainder:
        remainder = remainder[os.write(file, remainder) :]


def _end_torn_line(file: int) -> None:
    """End an incomplete last line, so that the next row starts on a new line."""
    size = os.fstat(file).st_size
    if size:
        os.lseek(file, size - 1, os.SEEK_SET)
        if os.read(file, 1) != b"\n":
            _append(file, b"\n")


def _validate(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with one-number arrays as numbers; raise UsageError if a value is invalid."""
    result: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    for name, original in row.items():
        value = _array_or_number(original) if hasattr(original, "detach") else original
        # One number may apply to all tokens, such as the advantage in GRPO.
        is_scalar = isinstance(value, int | float | None) or getattr(value, "shape", None) == ()
        if name in _TOKEN_FIELDS and not is_scalar:
            sizes[name] = _token_count(name, value)
        else:
            value = _number(name, value)
        result[name] = value
    for name, size in sizes.items():
        first, expected = next(iter(sizes.items()))
        if size != expected:
            raise UsageError(
                f"{name} has {size} entries, {first} has {expected}; expected one per token"
            )
    step = result["step"]
    if isinstance(step, bool) or not isinstance(step, int | np.integer):
        if not isinstance(step, float | np.floating) or not float(step).is_integer():
            raise UsageError(f"step is a whole number, not {step!r:.60}")
        result["step"] = int(step)
    if abs(result["step"]) > LARGEST_STEP:
        raise UsageError(f"step is at most 2**53, not {result['step']:.3g}")
    for name in ("prompt", "response"):
        if not isinstance(result[name], str):
            raise UsageError(f"{name} is text, not {result[name]!r:.60}")
    if not isinstance(result["reward"], int | float | np.generic | None):
        raise UsageError(f"reward is a number, not {result['reward']!r:.60}")
    if result["reward"] is not None and not np.isfinite(result["reward"]):
        result["reward"] = str(result["reward"])  # null means a missing grade
    return result


def _number(name: str, value: Any) -> Any:
    is_array = hasattr(value, "shape")
    if not is_array and not (name in _NUMBERS and isinstance(value, list | tuple)):
        return value
    size = int(np.prod(value.shape)) if is_array else len(value)
    if size == 1:
        return value.reshape(-1)[0].item() if is_array else value[0]
    if name in _NUMBERS:
        raise UsageError(f"{name} must be a single number; it has {size}")
    return value


def _token_count(name: str, value: Any) -> int:
    shape = getattr(value, "shape", None)
    if shape is not None and len(shape) != 1:
        raise UsageError(f"{name} has the shape {tuple(shape)}, not (tokens,)")
    try:
        return len(value)
    except TypeError:
        raise UsageError(
            f"{name} must be a list, array or tensor with one entry per token"
        ) from None


def _encode(row: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(row, default=_array_or_number, option=_OPTIONS)
    except TypeError:
        # orjson refuses lone surrogates and integers beyond 64 bits.
        try:
            text = json.dumps(
                row, default=lambda value: np.asarray(_array_or_number(value)).tolist()
            )
        except (TypeError, ValueError) as error:
            raise UsageError(f"a field cannot be logged: {error}") from error
        plain = safe_value(json.loads(text, parse_constant=lambda name: None))
        return json.dumps(plain, ensure_ascii=False).encode() + b"\n"


def _array_or_number(value: Any) -> Any:
    """Convert a tensor or array to a number or to an array that orjson can write."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if value.is_floating_point():
            value = value.float()
        value = value.numpy()
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        if array.dtype.name == "bfloat16":
            return np.ascontiguousarray(array.astype(np.float32))
        raise TypeError(f"{type(value).__name__} is not a text, number, list, array or tensor")
    return array.item() if array.ndim == 0 else np.ascontiguousarray(array)
