"""Read rollout dumps written by ``torch.save``, with torch's weights-only loader.

Unpickling can run arbitrary code, but this loader only creates plain values and tensors and rejects
everything else. NumPy arrays are rejected, too, because NumPy does not validate their state.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from rlreport.errors import RowError
from rlreport.formats.base import Row
from rlreport.system.documents import LimitError, open_zip
from rlreport.text.messages import message

# Maximum bytes of a dump without its tensors; all of these are in memory at once
MAX_PICKLE = 256_000_000

# Maximum cost (size) of a dump's values in all, as a short pickle can repeat a value endlessly
_MAX_COST = 1 << 28

# Basic cost (size) of a value, to which its number of elements or characters is added
_BASE_COST = 64

_MAX_DEPTH = 64
_EXPORT = (
    'where you trust it, export it: python -c "import json, sys, torch; '
    "[print(json.dumps(s, default=lambda v: v.tolist() if hasattr(v, 'tolist') else str(v))) "
    "for s in torch.load(sys.argv[1], weights_only=False)['samples']]\" N.pt > N.jsonl"
)
# Key added to each sample: the rollout id (training step) of its file
ROLLOUT_ID = "dump.rollout_id"


def torch_rows(file: IO[bytes], wanted: set[int] | None = None) -> Iterator[tuple[int, Row]]:
    """Yield (index, sample) for the samples of a dump ``{"rollout_id": …, "samples": […]}``.

    ``wanted`` are the indices of the samples to yield; None for all.

    Raises:
        RowError: torch is not installed, its loader rejects the file, or the dump is too large.
    """
    dump = _load(file)
    samples = dump.get("samples") if isinstance(dump, dict) else None
    if not isinstance(samples, list):
        raise RowError(message("not a dump of rollouts: it has no list `samples`"))
    budget = _Budget()
    for index, sample in enumerate(samples):
        if isinstance(sample, dict) and (wanted is None or index in wanted):
            yield index, {**budget.plain(sample), ROLLOUT_ID: dump.get("rollout_id")}


def _load(file: IO[bytes]) -> Any:
    try:
        import torch
    except ImportError:
        raise RowError(
            f"reading a .pt file needs torch (pip install torch); or, {_EXPORT}"
        ) from None
    _check(file)
    # With mmap, tensors of a local file stay on disk until they are used.
    path = getattr(file, "name", None)
    try:
        if isinstance(path, str | Path) and Path(path).is_file():
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        file.seek(0)
        return torch.load(file, map_location="cpu", weights_only=True)
    except (Exception, MemoryError) as error:  # the unpickler may raise anything
        text = " ".join(str(error).partition("WeightsUnpickler error: ")[2].split())
        reason = (text or repr(error)).partition(" Please ")[0][:160]
        raise RowError(
            message(
                "no dump of plain values and tensors ({why}); {export}", why=reason, export=_EXPORT
            )
        ) from None


def _check(file: IO[bytes]) -> None:
    """Raise RowError if the file was not written by ``torch.save``, or is too large."""
    try:
        with open_zip(file) as archive:
            infos = archive.infolist()
    except LimitError:
        raise
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise RowError(message("no file of torch.save: {why}", why=str(error))) from None
    if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
        raise RowError(message("no file of torch.save: it is compressed"))
    if sum(info.file_size for info in infos if info.filename.endswith(".pkl")) > MAX_PICKLE:
        raise RowError(
            message(
                "over {most:count} bytes that are no tensors; {export}",
                most=MAX_PICKLE,
                export=_EXPORT,
            )
        )


class _Budget:
    """A converter of loaded values to JSON types, with a limit on their total cost (size)."""

    def __init__(self) -> None:
        self._left = _MAX_COST

    def plain(self, value: Any, depth: int = 0) -> Any:
        """Convert a value; tensors of 2 or more dimensions become a text with their shape.

        Raises:
            RowError: all values so far are too large together, or this one is too deeply nested.
        """
        size = value.numel() if hasattr(value, "numel") else _size(value)
        flat = len(value.shape) <= 1 if hasattr(value, "numel") else True
        self._left -= _BASE_COST + (size if flat else 1)
        if self._left < 0 or depth > _MAX_DEPTH:
            raise RowError(message("too large or too deeply nested; convert it to .jsonl"))
        if isinstance(value, dict):
            return {str(key): self.plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            if all(type(item) in (int, float) for item in value):
                return list(value)
            return [self.plain(item, depth + 1) for item in value]
        if hasattr(value, "numel"):
            return _tensor_values(value) if flat else f"tensor of shape {tuple(value.shape)}"
        return value if value is None or isinstance(value, str | int | float) else str(value)


def _tensor_values(tensor: Any) -> Any:
    """Return a tensor's numbers, or a text with its shape if it is sparse or quantized."""
    try:
        return tensor.tolist()
    except (RuntimeError, TypeError, ValueError):
        return f"tensor of shape {tuple(tensor.shape)}"


def _size(value: Any) -> int:
    """Return the length + 1 of a string, bytes or collection, and 1 for other values."""
    return len(value) + 1 if isinstance(value, str | bytes | list | tuple | dict | set) else 1
