"""Pages of steps kept for the next build (``--cache``), under a hash of what they are made of.

A page depends on its own step only: what the rest of the run says about it is in ``data/run.js``.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
import orjson
import pandas as pd
import xxhash

from rlreport.bake.responses_page import ListedRows
from rlreport.options import ReadOptions
from rlreport.store import Store, pack, store_at, unpack


class RenderedStep(NamedTuple):
    """A page: path and bytes, its size in the output format, its rows in the list of the run."""

    content: tuple[str, bytes]
    weight: int
    listed: ListedRows


@dataclass(frozen=True, slots=True)
class PageCache:
    """Rendered pages by key; b"" is the key of a page that is not kept."""

    store: Store

    def get(self, key: bytes) -> RenderedStep | None:
        """Return the page of this key, None without one."""
        if not key or (data := self.store.get(key)) is None:
            return None
        try:
            head, (content,) = unpack(data)
            return RenderedStep((head["path"], content.tobytes()), head["weight"], head["listed"])
        except (ValueError, TypeError, LookupError):
            return None

    def put(self, key: bytes, page: RenderedStep) -> RenderedStep:
        """Keep a page and return it."""
        (path, content), weight, listed = page
        head = {"path": path, "weight": weight, "listed": listed}
        if key:
            with suppress(TypeError):  # text that is not Unicode
                self.store.put(key, pack(head, [np.frombuffer(content, np.uint8)]))
        return page


def page_cache(options: ReadOptions) -> PageCache | None:
    """Return the cache that the options name, None if they name none.

    Raises:
        UsageError: it is not a folder.
    """
    return PageCache(store_at(options.cache, options.cache_size)) if options.cache else None


def digest(*values: object) -> bytes:
    """Return a hash of dataclasses, containers, tables, arrays, texts and numbers.

    Raises:
        TypeError: a value holds something else, or text that is not Unicode.
    """
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS
    return xxhash.xxh3_128_digest(orjson.dumps(values, _plain, options))


def _plain(value: Any) -> object:
    match value:
        case pd.DataFrame():
            return {str(name): value[name].to_numpy() for name in value.columns}
        case np.ndarray() if value.dtype != object:
            data = xxhash.xxh3_128_hexdigest(value.tobytes())
            return [str(value.dtype), value.shape, data]
        case np.ndarray() | np.generic():
            return value.tolist()
        case set() | frozenset():
            return sorted(value)
        case tuple():
            return list(value)
        case PurePath():
            return str(value)
    raise TypeError(type(value).__name__)
