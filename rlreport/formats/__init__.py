"""Log formats: which one a file has, and its objects as canonical rows.

``detect`` names the format of a file from its path and first objects, ``refusal`` says why a
file is no rollout log, and ``RowReader`` turns objects into canonical rows (see ``base``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from rlreport.errors import UnreadRow
from rlreport.fields import CANONICAL, NotTaken, count_not_taken, kind_of
from rlreport.formats.base import Format, Match, Row, RowError, Where
from rlreport.formats.ids import TokenNames
from rlreport.formats.logged import Watched, is_scalar, read_all
from rlreport.formats.refusal import refusal, suggest
from rlreport.formats.registry import Detected, detect, format_by_id, formats
from rlreport.text.messages import message

__all__ = [
    "Detected",
    "Format",
    "Match",
    "Row",
    "RowError",
    "RowReader",
    "Where",
    "beside",
    "detect",
    "format_by_id",
    "formats",
    "refusal",
    "suggest",
]


def beside(form: Format, path: str, listed: Collection[Path]) -> Format | str:
    """Return a file's format as the files near it make it, or why the file is not to be read.

    Args:
        form: the format, as detected.
        path: where the file lies.
        listed: where all files of the logs lie.
    """
    configure = getattr(form, "beside", None)
    found: Format | str = configure(Path(path), listed) if configure else form
    return found


class RowReader:
    """Objects of one format as canonical rows, with token strings and texts filled from ids.

    Small and picklable; a worker process gets its own copy.

    Args:
        form: the format, from ``Detected.format``.
        names: names of token ids, shared by all files.
    """

    def __init__(self, form: Format, names: TokenNames | None = None) -> None:
        self._format = form
        self._names = names or TokenNames()
        self._not_taken: NotTaken = {}

    @property
    def rewarded(self) -> bool:
        """Whether the format logs rewards at all."""
        return bool(getattr(self._format, "rewarded", True))

    @property
    def alone(self) -> bool:
        """Whether rows come of the object alone, by code of this package."""
        ours = type(self._format).__module__.startswith("rlreport.")
        return ours and bool(getattr(self._format, "alone", False))

    def __call__(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the canonical rows of ``obj``; raise RowError where it cannot be one.

        Of several rows, one that cannot be read stands as an ``UnreadRow``.
        """
        watched = Watched(obj)
        try:
            for row in self._format.rows(watched, where):
                if isinstance(row, UnreadRow):
                    yield row
                else:
                    yield self._completed(read_all(row) if row is watched else row, where)
        except RowError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # An installed format may trust its logs; a hostile object still costs itself only.
            raise RowError(
                message("no {format} object: {why}", format=self._format.id, why=repr(error)[:160])
            ) from error
        for name, value in watched.unread():
            count_not_taken(self._not_taken, name, kind_of(value))

    def splits_of(self, objects: Collection[Row], name: str) -> set[object]:
        """Return the splits that the rows of a file's first objects name."""
        found: set[object] = set()
        for obj in objects:
            with suppress(RowError, RecursionError):
                found |= {row["split"] for row in self(obj, Where(name)) if "split" in row}
        self._not_taken = {}  # these objects are read again
        return found

    def take_not_taken(self) -> NotTaken:
        """Hand over the fields that no one read since the last call."""
        taken, self._not_taken = self._not_taken, {}
        return taken

    def _completed(self, row: Row, where: Where) -> Row:
        """Fill in what ids and path say, and drop what is neither a field nor a column."""
        row = self._names.fill(row)
        advantage, tokens = row.get("advantages"), row.get("response_tokens")
        if isinstance(advantage, int | float):
            if isinstance(tokens, list):
                row["advantages"] = [advantage] * len(tokens)
            else:
                row["advantage"] = row.pop("advantages")
        if row.get("split") is None and (split := self._format.split(where.name)):
            row["split"] = split
        for name in [n for n in row if not (n in CANONICAL or is_scalar(row[n]))]:
            value = row.pop(name)
            if value not in (None, "", [], {}):
                count_not_taken(self._not_taken, name, kind_of(value))
        return row
