"""The one way data reaches a script: JSON that cannot end its node or hold a NaN."""

from __future__ import annotations

import base64
import gzip
import math
from typing import Any

import numpy as np
import orjson
from markupsafe import Markup

# `<` and `&` cannot start markup, U+2028/9 end a line in old JavaScript parsers.
_UNSAFE = "<>&\u2028\u2029"


def script_json(value: Any) -> Markup:
    """Serialise ``value`` for an inert ``<script type="application/json">`` node.

    NaN and infinities become null, keys are sorted, ``<``, ``>``, ``&``, U+2028 and U+2029
    are escaped, lone surrogates become U+FFFD.

    Raises:
        TypeError: a value is of a type JSON does not know.
    """
    text = canonical_json(value).decode()
    for character in _UNSAFE:
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def packed_json(value: Any) -> str:
    """Serialise ``value`` as ``script_json`` does, for nodes that hold much."""
    return packed(canonical_json(value), level=6)


def packed(content: bytes, *, level: int) -> str:
    """Return base64 of gzip: the same bytes give the same characters, none of them markup."""
    zipped = gzip.compress(content, compresslevel=level, mtime=0)
    return base64.b64encode(zipped).decode("ascii")


def canonical_json(value: Any, *, indent: bool = False) -> bytes:
    """Serialise ``value`` as UTF-8 JSON: same value, same bytes; NaN and infinities are null."""
    options = orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    if indent:
        options |= orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    try:
        return orjson.dumps(value, option=options)
    except TypeError:
        # orjson refuses lone surrogates and numpy's object arrays.
        return orjson.dumps(_plain(value), option=options)


def _plain(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_plain(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case np.ndarray() | np.generic():
            return _plain(value.tolist())
        case float():
            return value if math.isfinite(value) else None
        case _:
            return value
