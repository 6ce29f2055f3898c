"""Hash values of several types, the same in every process and on every machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass

import numpy as np
import xxhash

from rlreport.text.messages import Joined, Message


def fingerprint(*values: object) -> bytes:
    """Return a hash of 16 bytes: equal for equal values, different for others.

    Values are numbers, texts, bytes, None, arrays, functions of modules, dataclasses, and
    sequences, mappings and sets of these. A mapping's order counts, as a page may show it.

    Raises:
        TypeError: a value of another type, of which nothing says when two are equal.
    """
    hasher = xxhash.xxh3_128()
    for piece in _pieces(values):
        # With its length, so that no two sequences of pieces have the same bytes
        hasher.update(len(piece).to_bytes(8, "little"))
        hasher.update(piece)
    return hasher.digest()


def _pieces(value: object) -> Iterator[bytes]:
    """Yield a value's type, then its parts, as bytes."""
    yield type(value).__qualname__.encode()
    match value:
        case Message() | Joined():  # two may be the same in English only
            _, parts = value.__reduce__()
            yield from _pieces(parts)
        case str():
            yield value.encode("utf-8", "surrogatepass")
        case bytes():
            yield value
        case None | bool() | int() | float() | np.generic():
            yield repr(value).encode()
        case np.ndarray():
            yield from _pieces_of_array(value)
        case Mapping():
            yield from _pieces_of_all(list(value.items()))
        case AbstractSet():
            yield from _pieces_of_all(sorted(value, key=repr))
        case tuple() | list():
            yield from _pieces_of_all(value)
        case _ if is_dataclass(value):
            names = [field.name for field in fields(value)]
            yield from _pieces_of_all([(name, getattr(value, name)) for name in names])
        case _ if hasattr(value, "__qualname__"):
            yield f"{value.__module__}.{value.__qualname__}".encode()
        case _:
            raise TypeError(f"no fingerprint of a {type(value).__qualname__}")


def _pieces_of_all(values: list[object] | tuple[object, ...]) -> Iterator[bytes]:
    yield repr(len(values)).encode()
    for value in values:
        yield from _pieces(value)


def _pieces_of_array(array: np.ndarray) -> Iterator[bytes]:
    if array.dtype == object:
        yield from _pieces(array.tolist())
        return
    yield f"{array.dtype.str} {array.shape}".encode()
    yield np.ascontiguousarray(array).tobytes()
