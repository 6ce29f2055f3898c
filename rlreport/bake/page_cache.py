"""Pages of steps, kept for the next build: ``--cache``.

A page is kept under a hash of all that it is made of: the part of the context that is its own,
its rows with the hashes of their lines, what of them is shown, the program. So it needs no
rules about when it is stale. What any new step may change is no part of that, and made anew:
its links to the same prompts at other steps, and how the list of the run has its rows.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import xxhash
from numpy.typing import NDArray

from rlreport.bake.context import OfStep
from rlreport.bake.pages import Page
from rlreport.bake.responses_page import ListedRows, listed_now
from rlreport.bake.script_json import script_json
from rlreport.choose import StepPlan
from rlreport.encoding import decoded, encoded
from rlreport.options import ReadOptions
from rlreport.read.cache import kept_formats
from rlreport.store import Store, program, store_at

if TYPE_CHECKING:
    from rlreport.bake.report import ReportBuilder
    from rlreport.bake.step_page import StepTwins
    from rlreport.bake.step_pages import Shared, StepJob


@dataclass(frozen=True, slots=True)
class KeptPage:
    """A step's page as it was made once.

    Attributes:
        names: its path, view and title.
        html: its text, UTF-8.
        twins: where in it the links to the same prompts begin and end.
        listed: its rows in the list of the run.
        in_list: bytes that they take there.
    """

    names: tuple[str, str, str]
    html: NDArray[np.uint8]
    twins: tuple[int, int]
    listed: ListedRows
    in_list: int


@dataclass(frozen=True, slots=True)
class PageCache:
    """Pages of steps by what they are made of."""

    store: Store

    def get(
        self, address: bytes, twins: StepTwins, job: StepJob, plan: StepPlan
    ) -> tuple[Page, ListedRows, int | None] | None:
        """Return a page with these links, its rows in the list of the run, and what they weigh.

        The last is None where the list has them in another way than it had.
        """
        if not address or (data := self.store.get(address)) is None:
            return None
        try:
            kept = decoded(KeptPage, data)
            begin, end = kept.twins
            if not 0 <= begin <= end <= len(kept.html):
                return None
            html = kept.html[:begin].tobytes() + _written(twins) + kept.html[end:].tobytes()
            page = Page(*kept.names, html.decode())
            pointed = job.candidate.pointed
            now = listed_now(kept.listed, len(plan.rows), job.context, pointed, job.static)
        except (ValueError, KeyError):
            return None
        return (page, now[0], kept.in_list if now[1] else None) if now else None

    def put(
        self, address: bytes, twins: StepTwins, page: Page, listed: ListedRows, in_list: int
    ) -> None:
        """Keep a page with these links."""
        if not address:
            return
        with suppress(ValueError):  # text that is no Unicode
            html, links = page.html.encode(), _written(twins)
            if html.count(links) == 1:  # else it cannot be told where they stand
                place = (html.index(links), html.index(links) + len(links))
                names = (page.path, page.view, page.title)
                own = KeptPage(names, np.frombuffer(html, np.uint8), place, listed, in_list)
                self.store.put(address, encoded(own))


def _written(twins: StepTwins) -> bytes:
    """Return the member of the rows' data that holds the links, as ``script_json`` writes it."""
    return b'"twins":' + script_json(twins).encode()


def page_cache(options: ReadOptions) -> PageCache | None:
    """Return the cache that the options name, None where they name none.

    Raises:
        UsageError: it is no folder.
    """
    if not options.cache:
        return None
    return PageCache(store_at(options.cache, options.cache_size))


def shared_address(builder: ReportBuilder) -> bytes:
    """Hash what the pages of all steps are made of; b"" where they are not kept."""
    context = builder.context
    if not context.read.cache:
        return b""
    kinds = [(name, values.dtype.str) for name, values in _columns(builder).items()]
    finish, style = builder.finish.__qualname__, builder.locations.style
    # How much of the page the list of the run has is no part of it, see ``listed_now``.
    shared = replace(context.of_steps, listed=0)
    try:
        told = encoded(["page", program(), finish, shared, style, kinds])
    except (TypeError, ValueError):  # text that is no Unicode
        return b""
    return xxhash.xxh3_128_digest(told)


def rows_address(builder: ReportBuilder, rows: slice) -> bytes:
    """Hash all that the tables say of some responses; b"" where pages are not kept."""
    if not builder.context.read.cache:
        return b""
    hasher = xxhash.xxh3_128()
    try:
        for values in _columns(builder).values():
            own = values[rows]
            hasher.update(encoded(own) if own.dtype == object else own.tobytes())
    except (TypeError, ValueError):  # text that is no Unicode
        return b""
    return hasher.digest()


def _columns(builder: ReportBuilder) -> dict[str, NDArray[np.generic]]:
    """Return all columns of responses that pages are made of."""

    def made() -> dict[str, NDArray[np.generic]]:
        # Where a line begins does not matter, as it is known by its hash.
        told = builder.tables.responses, builder.tables.extras.add_prefix("extra:")
        return {
            str(name): np.ascontiguousarray(table[name].to_numpy())
            for table in told
            for name in table.columns
            if name not in ("file", "offset", "length")
        }

    return builder.once("columns", made)


def page_address(job: StepJob, plan: StepPlan, shared: Shared) -> bytes:
    """Hash all that a page is made of; b"" where the lines of its rows are not known."""
    responses, context, locations = job.responses, job.context, shared.locations
    rows = plan.rows - responses.index[0]
    if not (shared.address and job.address and responses["line_hash"].to_numpy()[rows].all()):
        return b""
    shown = responses["file"].to_numpy()[rows]
    files = np.unique(shown).tolist()
    formats = kept_formats([locations.formats[file] for file in files], context.read.tokenizer)
    if not formats:
        return b""
    parts = [
        [locations.sources[file].name for file in files],
        formats,
        np.searchsorted(files, shown),
        [getattr(context, name) for name in OfStep._fields if name != "finding_places"],
        job.texts if context.report.redact else [],
        (rows, plan.with_tokens, plan.digits, plan.responses),
    ]
    try:
        return xxhash.xxh3_128_digest(shared.address + job.address + encoded(parts))
    except (TypeError, ValueError):  # text that is no Unicode
        return b""
