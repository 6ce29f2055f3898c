"""Tell what a binary file is by its first bytes, so that a message can say so."""

from __future__ import annotations

from pathlib import Path

from rlreport.text.messages import message, translatable

MAGIC_BYTES = 16  # at the start of a file

_KINDS = {
    b"\x89PNG\r\n": translatable("a PNG image"),
    b"\xff\xd8\xff": translatable("a JPEG image"),
    b"GIF8": translatable("a GIF image"),
    b"%PDF-": translatable("a PDF document"),
    b"SQLite format 3\0": translatable("an SQLite database"),
    b"PK\x03\x04": translatable("a zip archive"),
    b"PK\x05\x06": translatable("an empty zip archive"),
    b"\x1f\x8b": translatable("a gzip archive"),
    b"\x28\xb5\x2f\xfd": translatable("a zstd archive"),
    b"BZh": translatable("a bzip2 archive"),
    b"\xfd7zXZ": translatable("an xz archive"),
    b"PAR1": translatable("a Parquet table"),
    b"ARROW1": translatable("an Arrow table"),
    b"\x89HDF": translatable("an HDF5 file"),
    b"\x93NUMPY": translatable("a NumPy array"),
    b"GGUF": translatable("model weights (GGUF)"),
    b"\x7fELF": translatable("a program"),
    b":W&B": translatable("a run file of W&B"),
}
_SAFETENSORS = translatable("model weights (safetensors)")
_PICKLE = translatable("a Python pickle, which is not opened as it could run code")
_MAX_HEADER = 1 << 32  # bytes of the header of safetensors
_PICKLE_PROTOCOLS = (2, 3, 4, 5)


def binary_kind(head: bytes) -> str:
    """Return what the file with this beginning is, as a message; "" for text and unknown files."""
    for magic, kind in _KINDS.items():
        if head.startswith(magic):
            return message(kind)
    # The length of the header in 8 bytes, then the header, which is JSON
    length = int.from_bytes(head[:8], "little")
    if head[8:10] == b'{"' and length < _MAX_HEADER:
        return message(_SAFETENSORS)
    if head[:1] == b"\x80" and len(head) > 1 and head[1] in _PICKLE_PROTOCOLS:
        return message(_PICKLE)
    return ""


def binary_kind_of(path: Path) -> str:
    """Return what a file is by ``binary_kind``, "" if it cannot be opened."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return binary_kind(file.read(MAGIC_BYTES))
    except OSError:
        return ""
