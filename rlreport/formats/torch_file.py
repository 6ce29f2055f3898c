"""Rollout dumps that ``torch.save`` wrote, read by torch's weights-only loader.

Unpickling can run arbitrary code; that loader only creates plain values and tensors, and rejects
everything else. NumPy arrays are rejected, too, as NumPy does not validate their state.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from rlreport.errors import RowError
from rlreport.formats.base import Row
from rlreport.sidefiles import LimitError, open_zip
from rlreport.text.messages import message

MAX_PICKLE = 256_000_000
"""Maximum bytes of a dump without its tensors; they are in memory at once."""

_MOST = 1 << 28
"""Maximum cost of the values of a dump, as a few bytes of pickle can repeat values endlessly."""

_WALKED = 64
"""Cost of a value in addition to its number of elements or characters."""

_DEEPEST = 64
_EXPORT = (
    'where you trust it, export it: python -c "import json, sys, torch; '
    "[print(json.dumps(s, default=lambda v: v.tolist() if hasattr(v, 'tolist') else str(v))) "
    "for s in torch.load(sys.argv[1], weights_only=False)['samples']]\" N.pt > N.jsonl"
)
ROLLOUT_ID = "dump.rollout_id"
"""Key added to each sample: the rollout id (training step) of its file."""


def torch_rows(file: IO[bytes], wanted: set[int] | None = None) -> Iterator[tuple[int, Row]]:
    """Yield (index, sample) of a dump ``{"rollout_id": …, "samples": […]}``.

    ``wanted`` are the indices of the samples to yield; None for all.

    Raises:
        RowError: torch is not installed, or its loader rejects the file.
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
    # Tensors of a local file stay on disk until they are used.
    path = getattr(file, "name", None)
    try:
        if isinstance(path, str | Path) and Path(path).is_file():
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        file.seek(0)
        return torch.load(file, map_location="cpu", weights_only=True)
    except (Exception, MemoryError) as error:  # its unpickler raises what it meets
        text = " ".join(str(error).partition("WeightsUnpickler error: ")[2].split())
        reason = (text or repr(error)).partition(" Please ")[0][:160]
        raise RowError(
            message(
                "no dump of plain values and tensors ({why}); {export}", why=reason, export=_EXPORT
            )
        ) from None


def _check(file: IO[bytes]) -> None:
    """Raise RowError for a file that torch did not write, or that does not fit into memory."""
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
    """Converts loaded values to JSON types, up to a maximum cost."""

    def __init__(self) -> None:
        self._left = _MOST

    def plain(self, value: Any, depth: int = 0) -> Any:
        """Return a value with 1-D tensors as lists; of other tensors only the shape, as text.

        Raises:
            RowError: the values cost too much.
        """
        size = value.numel() if hasattr(value, "numel") else _size(value)
        flat = len(value.shape) <= 1 if hasattr(value, "numel") else True
        self._left -= _WALKED + (size if flat else 1)
        if self._left < 0 or depth > _DEEPEST:
            raise RowError(message("too large or too deeply nested; convert it to .jsonl"))
        if isinstance(value, dict):
            return {str(key): self.plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            if all(type(item) in (int, float) for item in value):
                return list(value)
            return [self.plain(item, depth + 1) for item in value]
        if hasattr(value, "numel"):
            return _listed(value) if flat else f"tensor of shape {tuple(value.shape)}"
        return value if value is None or isinstance(value, str | int | float) else str(value)


def _listed(tensor: Any) -> Any:
    """Return a tensor as a list; its shape as text if it is sparse or quantized."""
    try:
        return tensor.tolist()
    except (RuntimeError, TypeError, ValueError):
        return f"tensor of shape {tuple(tensor.shape)}"


def _size(value: Any) -> int:
    return len(value) + 1 if isinstance(value, str | bytes | list | tuple | dict | set) else 1
