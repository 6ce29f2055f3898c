"""Dataclasses and arrays as bytes and back, without pickle: reading them runs no code.

What is written is a skeleton of JSON and the arrays after it, raw. What is read is held against
the types that are wanted, so that bytes from anywhere give such a value or an error.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import orjson
import pandas as pd

from rlreport.text.messages import Joined, Message

T = TypeVar("T")

_PLAIN = (str, int, bool, type(None))
_EITHER = (Union, types.UnionType)
_KINDS = "iufb"
_SIZE_BYTES = 8


def encoded(value: object) -> bytes:
    """Encode dataclasses, named tuples, containers, frames, arrays, texts and numbers.

    Equal values give equal bytes, but for the order of a dict, which counts.

    Raises:
        TypeError, ValueError: the value holds something else, or text that is no Unicode.
    """
    arrays: list[bytes] = []
    skeleton = orjson.dumps(_packed(value, arrays))
    return b"".join([len(skeleton).to_bytes(_SIZE_BYTES, "little"), skeleton, *arrays])


def decoded(kind: type[T], data: bytes) -> T:
    """Decode what ``encoded`` made of a value of this type; arrays are views that are read-only.

    Raises:
        ValueError: the bytes are no such value.
    """
    end = _SIZE_BYTES + int.from_bytes(data[:_SIZE_BYTES], "little")
    reader = _Reader(data, end)
    try:
        value: T = reader.read(kind, orjson.loads(memoryview(data)[_SIZE_BYTES:end]))
    except (TypeError, LookupError, OverflowError, RecursionError, AttributeError) as error:
        raise ValueError(f"not what was encoded: {error!r}") from None
    if reader.place != len(data):
        raise ValueError("bytes are left over")
    return value


def _packed(value: Any, arrays: list[bytes]) -> Any:
    if isinstance(value, Message | Joined):
        return _unsaid(value)
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, np.generic):
        return _packed(value.item(), arrays)
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return _packed(value.tolist(), arrays)
        if value.dtype.kind not in _KINDS:
            raise TypeError(f"an array of {value.dtype}")
        arrays.append(np.ascontiguousarray(value).tobytes())
        return [value.dtype.str, *value.shape]
    if isinstance(value, pd.DataFrame):
        return [[str(name), _packed(value[name].to_numpy(), arrays)] for name in value.columns]
    if is_dataclass(value):
        return [_packed(getattr(value, item.name), arrays) for item in fields(value)]
    if isinstance(value, Mapping):
        return [[_packed(k, arrays), _packed(v, arrays)] for k, v in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(_packed(item, arrays) for item in value)
    if isinstance(value, list | tuple):
        if all(type(item) in _PLAIN for item in value):
            return list(value)
        return [_packed(item, arrays) for item in value]
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"cannot encode {type(value)}")


class _Reader:
    """Builds a value of its skeleton, and takes the arrays as they come.

    Attributes:
        place: where the next array begins.
    """

    def __init__(self, data: bytes, place: int) -> None:
        self._data = data
        self.place = place

    def read(self, kind: Any, found: Any) -> Any:
        if kind is str and isinstance(found, dict):
            return _said(found)
        if kind in _PLAIN:
            if type(found) is not kind:
                raise ValueError(f"{kind} was wanted, not {found!r:.50}")
            return found
        if kind is float:
            return float.fromhex(found)
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is np.ndarray:
            return self._array(arguments, found)
        if origin in _EITHER:
            return None if found is None else self.read(_only(arguments), found)
        if origin is Literal:
            if found not in arguments:
                raise ValueError(f"{found!r:.50} is none of {arguments}")
            return found
        if not isinstance(found, list):
            raise ValueError(f"{kind} was wanted, not {found!r:.50}")
        if origin is dict:
            key, value = arguments
            return {self.read(key, k): self.read(value, v) for k, v in found}
        if origin in (list, set):
            (item,) = arguments
            either = get_args(item) if get_origin(item) in _EITHER else (item,)
            if set(map(type, found)) <= {*either} & {*_PLAIN}:
                return origin(found)
            return origin(self.read(item, one) for one in found)
        if origin is tuple:
            return tuple(self._each(arguments, found))
        return kind(*self._each(_members(kind), found))

    def _each(self, kinds: tuple[Any, ...], found: list[Any]) -> Iterator[Any]:
        if len(kinds) != len(found):
            raise ValueError(f"{len(found)} values where {len(kinds)} are wanted")
        return (self.read(kind, one) for kind, one in zip(kinds, found, strict=True))

    def _array(self, arguments: tuple[Any, ...], found: list[Any]) -> np.ndarray[Any, Any]:
        name, *shape = found
        dtype = np.dtype(name)
        wanted = get_args(arguments[1])[0]
        if dtype.kind not in _KINDS or not np.issubdtype(dtype, wanted):
            raise ValueError(f"an array of {dtype}, not of {wanted}")
        if any(type(size) is not int or size < 0 for size in shape):
            raise ValueError("an array of an impossible shape")
        count = 1
        for size in shape:
            count *= size
        array = np.frombuffer(self._data, dtype, count, self.place).reshape(shape)
        self.place += array.nbytes
        return array


def _unsaid(value: Any) -> Any:
    """Take a message apart, whose places hold texts, messages, numbers and lists of them."""
    if isinstance(value, Joined):
        return {"joined": [value.separator, _unsaid(value.parts)]}
    if isinstance(value, Message):
        places = [[name, _unsaid(place)] for name, place in value.places.items()]
        return {"message": [value.literal, places, value.plural, value.number]}
    if isinstance(value, tuple | list):
        return [_unsaid(item) for item in value]
    if isinstance(value, np.generic):
        return _unsaid(value.item())
    return {"float": value.hex()} if isinstance(value, float) else value


def _said(found: Any) -> Any:
    """Build what ``_unsaid`` took apart."""
    if isinstance(found, list):
        return tuple(map(_said, found))
    if not isinstance(found, dict):
        return found
    ((kind, parts),) = found.items()
    if kind == "float":
        return float.fromhex(parts)
    if kind == "joined":
        return Joined(parts[0], _said(parts[1]))
    literal, places, plural, number = parts
    names = [name for said in (literal, plural) for _, name, _, _ in Formatter().parse(said)]
    if not all(name is None or name.isidentifier() for name in names):
        raise ValueError("a message whose places are no names")
    return Message(literal, {name: _said(place) for name, place in places}, plural, number)


def _only(arguments: tuple[Any, ...]) -> Any:
    (kind,) = (argument for argument in arguments if argument is not type(None))
    return kind


@cache
def _members(kind: type) -> tuple[Any, ...]:
    """Return the types of a dataclass's or named tuple's members."""
    hints = get_type_hints(kind)
    names = [item.name for item in fields(kind)] if is_dataclass(kind) else kind._fields  # type: ignore[attr-defined]
    return tuple(hints[name] for name in names)
