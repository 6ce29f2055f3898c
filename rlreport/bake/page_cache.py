"""Pages of steps kept for the next build (``--cache``), under a hash of what they are made of.

A page depends on its own step only: what the rest of the run says about it is in ``data/run.js``.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import xxhash

from rlreport.bake.responses_page import ListedRows
from rlreport.options import ReadOptions
from rlreport.read.cache import format_keys
from rlreport.read.readback import RowLocations
from rlreport.store import Store, pack, program, store_at, unpack

if TYPE_CHECKING:
    from rlreport.bake.report import ReportBuilder
    from rlreport.bake.step_pages import StepJob


class RenderedStep(NamedTuple):
    """A page: path and bytes, its size in the output format, its rows in the list of the run."""

    content: tuple[str, bytes]
    weight: int
    listed: ListedRows


@dataclass(frozen=True, slots=True)
class PageCache:
    """Rendered pages by key."""

    store: Store

    def get(self, key: bytes) -> RenderedStep | None:
        """Return the page of this key, None without one."""
        if not key or (data := self.store.get(key)) is None:
            return None
        try:
            head, (content,) = unpack(data)
            listed = head["listed"]
            rows = ListedRows(
                listed["step"],
                listed["n"],
                {k: np.array(v, np.float64) for k, v in listed["values"].items()},
                listed["strings"],
                listed["texts"],
            )
            return RenderedStep((head["path"], content.tobytes()), head["weight"], rows)
        except (ValueError, TypeError, LookupError):
            return None

    def put(self, key: bytes, page: RenderedStep) -> None:
        """Keep a page."""
        (path, content), weight, listed = page
        values = {name: own.tolist() for name, own in listed.values.items()}
        head = {"path": path, "weight": weight, "listed": replace(listed, values=values)}
        if key:
            with suppress(TypeError):  # text that is not Unicode
                self.store.put(key, pack(head, [np.frombuffer(content, np.uint8)]))


def page_cache(options: ReadOptions) -> PageCache | None:
    """Return the cache that the options name, None if they name none.

    Raises:
        UsageError: it is not a folder.
    """
    return PageCache(store_at(options.cache, options.cache_size)) if options.cache else None


def shared_key(builder: ReportBuilder) -> bytes:
    """Hash what the pages of all steps are made of."""
    context, finish = builder.context, builder.finish
    shared = replace(context.of_steps, listed=0)
    parts = ("page", program(), finish.__qualname__, shared, builder.locations.style)
    return digest(parts)


def page_key(job: StepJob, run: bytes, locations: RowLocations) -> bytes:
    """Hash everything that a page is made of; b"" if the lines of its rows are not known."""
    responses, context = job.responses, job.context
    rows = job.plan.rows - responses.index[0]
    if not responses["line_hash"].to_numpy()[rows].all():
        return b""
    file = responses["file"].to_numpy()[rows]
    files = np.unique(file).tolist()
    formats = format_keys([locations.formats[one] for one in files], context.read.tokenizer)
    if not formats:
        return b""
    # Where a line lies does not matter, as its hash is known; the page names its file and number.
    responses = responses.drop(columns=["file", "offset", "length"])
    names = [locations.sources[one].name for one in files]
    places = replace(context, finding_places={}, listed=0)
    plan = (rows, job.plan.with_tokens, job.plan.digits)
    return digest(
        (
            run,
            names,
            np.searchsorted(files, file),
            formats,
            responses,
            job.extras,
            places,
            plan,
            job.texts,
        )
    )


def digest(value: object) -> bytes:
    """Return a hash of dataclasses, containers, tables, arrays, texts and numbers.

    Raises:
        TypeError: the value holds something else.
    """
    hasher = xxhash.xxh3_128()
    _feed(hasher, value)
    return hasher.digest()


def _feed(hasher: Any, value: Any) -> None:
    if isinstance(value, str):
        hasher.update(b"s" + value.encode(errors="surrogatepass") + b"\0")
    elif value is None or isinstance(value, bool | int | float | bytes):
        hasher.update(f"{type(value).__name__}{value!r}\0".encode())
    elif isinstance(value, pd.DataFrame):
        _feed(hasher, {str(name): value[name].to_numpy() for name in value.columns})
    elif isinstance(value, np.ndarray):
        hasher.update(f"a{value.dtype}{value.shape}".encode())
        if value.dtype == object:
            _feed(hasher, value.tolist())
        else:
            hasher.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Enum):
        _feed(hasher, value.name)
    elif is_dataclass(value) and not isinstance(value, type):
        hasher.update(type(value).__name__.encode())
        for one in fields(value):
            _feed(hasher, getattr(value, one.name))
    elif isinstance(value, dict):
        hasher.update(f"d{len(value)}".encode())
        for name, one in value.items():
            _feed(hasher, name)
            _feed(hasher, one)
    elif isinstance(value, list | tuple | set | frozenset):
        items = sorted(value) if isinstance(value, set | frozenset) else value
        hasher.update(f"l{len(items)}".encode())
        for one in items:
            _feed(hasher, one)
    elif isinstance(value, np.generic):
        _feed(hasher, value.item())
    elif hasattr(value, "__fspath__"):
        _feed(hasher, str(value))
    else:
        raise TypeError(type(value).__name__)
