"""Rendered pages of steps in the cache, by a hash of all that they are made of."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from rlreport.pages.context import PageContext, StepJob, StepPage
from rlreport.pages.encoded import EncodedPage
from rlreport.pages.page import Encode
from rlreport.system.cache import Store, fingerprint, pack, program, store_at, unpack

# Fields of ``StepJob`` that number the rows of all responses: a page shows no such number, and an
# earlier step that grew moves those of later ones. What else they have is added apart.
_OF_RUN = ("plan", "selection")


@dataclass(frozen=True, slots=True)
class KeptPages:
    """The cache of a report's pages."""

    store: Store
    common: bytes  # fingerprint of what all pages are made of: program and settings

    @classmethod
    def of(cls, context: PageContext, encode: Encode) -> KeptPages | None:
        """Return the cache that the options name, None without one."""
        options = context.options
        if not options.cache:
            return None
        # Without the options that change no page
        same_pages = replace(
            options, workers=0, cache="", ray=None, quiet=True, max_size=None
        )
        common = fingerprint((program(), encode, replace(context, options=same_pages)))
        return cls(store_at(options.cache), common)

    def key(self, job: StepJob) -> bytes:
        """Return the key of a step's page."""
        return b"page " + fingerprint((self.common, _inputs(job)))

    def page(self, key: bytes, job: StepJob) -> StepPage | None:
        """Return the page of a step from the cache, None if it is not there."""
        kept = self.store.get(key)
        return None if kept is None else _unpacked(kept, job)

    def keep(self, key: bytes, page: StepPage) -> None:
        """Put the page of a step into the cache."""
        with suppress(TypeError):  # a text that JSON cannot represent
            self.store.put(key, _packed(page))


def _inputs(job: StepJob) -> tuple[Any, ...]:
    """Return all that the page of a step is made of, but what all pages share."""
    # Columns of equal values take the memory of one, or not: their pickles would differ.
    columns = job.columns.items()
    job = replace(job, columns={n: np.ascontiguousarray(v) for n, v in columns})
    of_step = [
        getattr(job, field.name) for field in fields(job) if field.name not in _OF_RUN
    ]
    plan = job.plan
    detail = (plan.step, plan.pinned, plan.arrays, plan.with_tokens, plan.digits)
    return of_step, detail, _content(job)


def _content(job: StepJob) -> tuple[Any, ...]:
    """Return what tells a step's responses apart from others, in the order on the page."""
    rollouts = job.selection.rollouts
    indices = rollouts.indices(job.selection.rows)
    places = rollouts.places.take(indices)
    return (
        places.n,
        places.line,
        [places.names[file] for file in places.file.tolist()],
        rollouts.digests[indices],  # of texts, tokens and values per token
        # of the run
        list(rollouts.figures),
        rollouts.style,
        rollouts.mask and rollouts.mask.take(places.row),
    )


def _packed(page: StepPage) -> bytes:
    """Return all of a page but its plan, which the next build has."""
    listed = page.listed
    # Apart, as numbers may be NaN, which JSON does not have
    numbers = [name for name in listed if _are_floats(listed[name])]
    encoded = page.page.load()
    beside, tokens = encoded.beside or ("", b"")
    head = {
        "path": encoded.path,
        "weight": encoded.weight,
        "beside": beside,
        "texts": page.texts,
        "has_tokens": page.has_tokens,
        "names": list(listed),
        "numbers": numbers,
        "others": {name: listed[name] for name in listed if name not in numbers},
    }
    arrays = [np.frombuffer(content, np.uint8) for content in (encoded.content, tokens)]
    arrays += [np.array(listed[name], np.float64) for name in numbers]
    return pack(head, arrays)


def _are_floats(values: object) -> bool:
    return isinstance(values, list) and {float}.issuperset(map(type, values))


def _unpacked(data: bytes, job: StepJob) -> StepPage:
    head, arrays = unpack(data)
    content, tokens, *numbers = arrays
    columns: dict[str, Any] = dict(head["others"])
    for name, values in zip(head["numbers"], numbers, strict=True):
        columns[name] = values.tolist()
    beside = (head["beside"], tokens.tobytes()) if head["beside"] else None
    page = EncodedPage(head["path"], content.tobytes(), head["weight"], beside)
    listed = {name: columns[name] for name in head["names"]}  # in the order rendered
    return StepPage(job.plan, page, listed, head["texts"], head["has_tokens"])
