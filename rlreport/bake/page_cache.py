"""Pages of steps, kept for the next build: ``--cache``.

A page is kept under a hash of all that it is made of: the part of the context that is its own,
its rows with the hashes of their lines, what of them is shown, the program. So it needs no
rules about when it is stale.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from rlreport.bake.pages import Page
from rlreport.bake.responses_page import ListedRows
from rlreport.choose import StepPlan
from rlreport.encoding import decoded, encoded
from rlreport.options import ReadOptions
from rlreport.read import RowLocations
from rlreport.read.cache import kept_formats
from rlreport.store import Store, program, store_at

if TYPE_CHECKING:
    from rlreport.bake.step_pages import StepJob


@dataclass(frozen=True, slots=True)
class KeptPage:
    """A step's page as it was made once.

    Attributes:
        weight: bytes that it takes in its form, with its rows in the list of the run.
        page: path, view and title; None of a page that was too heavy to be shown.
        html: its text, UTF-8.
        listed: its rows in the list of the run.
    """

    weight: int
    page: tuple[str, str, str] | None
    html: NDArray[np.uint8]
    listed: ListedRows


@dataclass(frozen=True, slots=True)
class PageCache:
    """Pages of steps by what they are made of."""

    store: Store

    def get(self, address: bytes) -> tuple[int, Page | None, ListedRows] | None:
        """Return a page's weight, the page unless it was too heavy, and its rows in the list."""
        if not address or (data := self.store.get(address)) is None:
            return None
        try:
            kept = decoded(KeptPage, data)
            page = Page(*kept.page, kept.html.tobytes().decode()) if kept.page else None
        except ValueError:
            return None
        return kept.weight, page, kept.listed

    def put(self, address: bytes, weight: int, page: Page, listed: ListedRows, taken: bool) -> None:
        """Keep a page; of one that is too heavy to be taken only that."""
        if not address:
            return
        with suppress(ValueError):  # text that is no Unicode
            html = np.frombuffer(page.html.encode() if taken else b"", np.uint8)
            names = (page.path, page.view, page.title) if taken else None
            self.store.put(address, encoded(KeptPage(weight, names, html, listed)))


def page_cache(options: ReadOptions) -> PageCache | None:
    """Return the cache that the options name, None where they name none.

    Raises:
        UsageError: it is no folder.
    """
    if not options.cache:
        return None
    return PageCache(store_at(options.cache, options.cache_size))


def page_address(
    job: StepJob,
    plan: StepPlan,
    locations: RowLocations,
    finish: Callable[[Page], tuple[Any, int]],
) -> bytes:
    """Hash all that a page is made of; b"" where the lines of its rows are not known."""
    first = job.responses.index[0]
    rows = plan.rows - first
    responses, context = job.responses, job.context
    if not responses["line_hash"].to_numpy()[rows].all():
        return b""
    files = np.unique(responses["file"].to_numpy()[rows]).tolist()
    formats = kept_formats([locations.formats[file] for file in files], context.read.tokenizer)
    if not formats:
        return b""
    names = [locations.sources[file].name for file in files]
    shown = responses["file"].to_numpy()[rows]
    parts = [
        ("page", program(), finish.__qualname__, context, names, formats, locations.style),
        # Where a line begins does not matter, as it is known by its hash.
        responses.drop(columns=["file", "offset", "length"]),
        np.searchsorted(files, shown),
        job.extras,
        job.texts if context.report.redact else [],
        job.twins,
        job.static,
        (rows, plan.with_tokens, plan.digits, plan.responses, job.candidate.pointed),
    ]
    try:
        return xxhash.xxh3_128_digest(encoded(parts))
    except (TypeError, ValueError):  # text that is no Unicode
        return b""
