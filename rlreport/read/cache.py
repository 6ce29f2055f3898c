"""What a scan found, kept for the next build: ``--cache``.

A partial is kept under all that it depends on but the logs' bytes: the program, the options, the
format, where the lines lie. It is taken again only if those bytes are the same, too: by a stamp
of the files that tells so from outside, or else by a hash of what was read. Any doubt is a miss.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import xxhash

from rlreport.columns import RESPONSE_COLUMNS
from rlreport.encoding import decoded, encoded
from rlreport.options import RESTARTS, FigureOptions, ReadOptions
from rlreport.read.batch import RowScalars
from rlreport.read.ngrams import UnitSample
from rlreport.read.partial import Partial
from rlreport.read.scan import Scanner
from rlreport.read.splits import NATIVE, LogFormat, Split
from rlreport.read.token_totals import COUNTS, DECILES, SUMS, TokenTotals
from rlreport.store import Store, program, store_at

_WHOLE_FILES = ("lines", "json", "parquet", "torch", "eval")
"""Containers that are one file each; a database may have a log of writes beside it."""

_SCALARS = frozenset(RowScalars._fields) - {"finish"}


@dataclass(slots=True)
class Kept:
    """A partial, and what the logs were that it was made of.

    Attributes:
        stamps: of the files, "" where none can be trusted.
        digests: hash of the bytes read.
        partial: the files in it count from 0, as do the leaves.
    """

    stamps: str
    digests: str
    partial: Partial


@dataclass(frozen=True, slots=True)
class PartialCache:
    """Partials of tasks, kept from one build to the next."""

    store: Store
    options: ReadOptions
    figures: FigureOptions

    def load(self, splits: Sequence[Split]) -> Partial | None:
        """Return what a scan of these splits would find, None where that is not known."""
        if not (address := self._address(splits)) or (data := self.store.get(address)) is None:
            return None
        try:
            kept = decoded(Kept, data)
            same = kept.stamps and kept.stamps == _stamps(splits)
            if not same and not (kept.digests and kept.digests == _digests(splits)):
                return None
            _check(kept.partial, splits)
        except ValueError:
            return None
        files = dict(enumerate(sorted({split.file for split in splits})))
        return _moved(kept.partial, files, splits[0].leaf)

    def scan(self, splits: Sequence[Split], scanner: Scanner) -> Partial:
        """Scan splits and keep what was found, if they stay as they are meanwhile."""
        if not (address := self._address(splits)):
            return scanner.scan(splits)
        stamps, digests = _stamps(splits), _digests(splits)
        partial = scanner.scan(splits)
        same = stamps and stamps == _stamps(splits)
        if same or (digests and digests == _digests(splits)):
            files = {file: i for i, file in enumerate(sorted({split.file for split in splits}))}
            apart = _moved(partial, files, -splits[0].leaf)
            with suppress(TypeError, ValueError):  # text that is no Unicode
                self.store.put(address, encoded(Kept(stamps if same else "", digests, apart)))
        return partial

    def _address(self, splits: Sequence[Split]) -> bytes:
        """Tell what a partial depends on; b"" where that is not known."""
        settings = replace(
            self.options,
            workers=0,
            strict=False,
            restarts=RESTARTS[0],
            metrics=(),
            cache="",
            cache_size=0,
            ray=None,
        )
        places = [
            (split.source.path, split.source.name, split.start, split.stop is None)
            for split in splits
        ]
        formats = kept_formats([split.format for split in splits], settings.tokenizer)
        try:
            told = encoded(["partial", program(), settings, self.figures, places, formats])
        except (TypeError, ValueError):  # a name that is no Unicode
            return b""
        return told if formats else b""


def partial_cache(options: ReadOptions, figures: FigureOptions) -> PartialCache | None:
    """Return the cache that the options name, None where they name none.

    Raises:
        UsageError: it is no folder.
    """
    if not options.cache:
        return None
    return PartialCache(store_at(options.cache, options.cache_size), options, figures)


def kept_formats(formats: Sequence[LogFormat], tokenizer: str | None) -> list[str]:
    """Tell formats from any other; none where one of them looks at more than the file's lines.

    Args:
        formats: of files.
        tokenizer: the file that names their tokens.
    """
    told: dict[int, str] = {}
    for form in formats:
        alone = form.reader.alone if form.reader else form.id == NATIVE
        if not alone or form.container not in _WHOLE_FILES:
            return []
        if id(form) not in told:
            # What a reader met so far is no part of it: a scan takes it out.
            told[id(form)] = xxhash.xxh3_128_hexdigest(pickle.dumps(form, 5))
    return [*(told[id(form)] for form in formats), _content(tokenizer) if tokenizer else ""]


def _stamps(splits: Sequence[Split]) -> str:
    """Return the stamps of all files, "" where one of them tells nothing."""
    found = [split.source.stamp() for split in splits]
    return "" if None in found else " ".join(map(str, found))


def _digests(splits: Sequence[Split]) -> str:
    """Return a hash of all that is read, "" where it cannot be read."""
    found = [split.source.digest(split.start, split.stop) for split in splits]
    return "" if None in found else " ".join(one.hex() for one in found if one is not None)


@cache
def _content(path: str) -> str:
    with open(path, "rb") as file:  # noqa: PTH123 - a path as given
        return xxhash.xxh3_128_hexdigest(file.read())


def _moved(partial: Partial, files: Mapping[int, int], leaves: int) -> Partial:
    """Return a partial with other numbers for its files, in the same order, and other leaves."""
    columns = dict(partial.columns)
    if partial.rows:
        numbers, places = np.unique(columns["file"], return_inverse=True)
        columns["file"] = np.array([files[n] for n in numbers.tolist()], np.int64)[places]
    said = partial.diagnostics
    return replace(
        partial,
        columns=columns,
        segments=[segment._replace(file=files[segment.file]) for segment in partial.segments],
        diagnostics=replace(
            said,
            oddities={
                kind: oddity._replace(first=oddity.first._replace(file=files[oddity.first.file]))
                for kind, oddity in said.oddities.items()
            },
            unread=[
                line._replace(position=line.position._replace(file=files[line.position.file]))
                for line in said.unread
            ],
        ),
        # A task is an aligned subtree: its first leaf is the first of a node on every level.
        totals={
            (level, index + (leaves >> level)): totals
            for (level, index), totals in partial.totals.items()
        },
    )


def _check(partial: Partial, splits: Sequence[Split]) -> None:
    """Raise ValueError where a partial does not hang together, as no scan leaves it."""
    rows, files = partial.rows, len({split.file for split in splits})
    columns = partial.columns
    dtypes = {column.name: column.dtype for column in RESPONSE_COLUMNS}
    known = dtypes.keys() | _SCALARS | {"finished", "finish_source", "bigrams", "distinct_2"}
    _insist(rows >= 0 and all(len(values) == rows for values in columns.values()))
    _insist(all(values.ndim == 1 for values in columns.values()))
    _insist(columns.keys() <= known and (not rows or columns.keys() >= _REQUIRED))
    for name in _REQUIRED & columns.keys():
        wanted = dtypes.get(name, "int64")
        _insist(columns[name].dtype == wanted)
    places = [columns["file"]] if rows else []
    places.append(np.array([segment.file for segment in partial.segments], np.int64))
    positions = [line.position for line in partial.diagnostics.unread]
    positions += [oddity.first for oddity in partial.diagnostics.oddities.values()]
    places.append(np.array([position.file for position in positions], np.int64))
    _insist(all(_within(one, files) for one in places))
    for extra in partial.extras.values():
        _insist(len(extra.rows) == len(extra.numbers) and _within(extra.rows, rows))
        _insist(all(0 <= row < rows for row in extra.texts))
    hashes = partial.hashes
    _insist(hashes.ndim == 1 and len(hashes) == len(partial.strings) and _ascending(hashes))
    for sample in (partial.sample, partial.references):
        _check_sample(sample, rows, len(hashes))
    for (level, index), totals in partial.totals.items():
        _insist(0 <= level < 63 and 0 <= index << level < len(splits))
        _check_totals(totals)
        place = np.searchsorted(hashes, totals.tokens)
        _insist(not len(place) or place.max() < len(hashes))
        _insist(bool((hashes[place] == totals.tokens).all()))
    _insist(all(_ascending(hashes) for hashes in partial.bigrams.values()))


_REQUIRED = frozenset(
    name for name, kind in RowScalars.__annotations__.items() if kind in ("int", int)
) | {"validation"}


def _check_sample(sample: UnitSample, rows: int, units: int) -> None:
    each = (sample.steps, sample.priorities, sample.rows, sample.tokens)
    _insist(len({len(part) for part in each}) == 1 and _within(sample.rows, rows))
    offsets = sample.offsets
    _insist(len(offsets) == len(sample.steps) + 1 and offsets[0] == 0)
    _insist(bool((np.diff(offsets) >= 0).all()) and offsets[-1] == len(sample.units))
    _insist(_within(sample.units, units))


def _check_totals(totals: TokenTotals) -> None:
    size = len(totals.bins)
    _insist(totals.counts.shape == (len(COUNTS), size) and totals.sums.shape == (len(SUMS), size))
    _insist(totals.tokens.shape == (size,))
    _insist(totals.tenths.shape == (DECILES,) and totals.tenth_sums.shape == (3, DECILES))
    _insist(0 <= totals.shift < 64 and _ascending(totals.steps))


def _ascending(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> bool:
    return bool((values[1:] > values[:-1]).all())  # type: ignore[operator]


def _within(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]], size: int) -> bool:
    return values.ndim == 1 and (not len(values) or bool(values.min() >= 0 and values.max() < size))


def _insist(holds: object) -> None:
    if not holds:
        raise ValueError("does not hang together")
