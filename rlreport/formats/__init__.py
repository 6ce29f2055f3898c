"""Log formats: which one a file has, and its objects as canonical rows.

``detect`` names the format of a file from its path and first objects, ``refusal`` says why a
file is no rollout log, and ``RowReader`` turns objects into canonical rows (see ``base``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rlreport.errors import UnreadRow
from rlreport.fields import NotTaken, count_not_taken, kind_of
from rlreport.formats import logged
from rlreport.formats.base import Format, Match, Row, RowError, Where
from rlreport.formats.ids import TokenNames
from rlreport.formats.mapping import Mapped, suggest
from rlreport.formats.refusal import certain_refusal, refusal
from rlreport.formats.registry import format_by_id, formats
from rlreport.formats.taken import Watched, all_taken
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


@dataclass(frozen=True, slots=True)
class Detected:
    """The format of a file, and why it is taken for that."""

    format: Format
    reason: str


def detect(
    name: str,
    objects: Sequence[Row],
    *,
    log_format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    step_from_path: str | None = None,
) -> Detected | None:
    """Name the format of a file, or None when it is no rollout log (``refusal`` says why).

    Args:
        name: path relative to the logs' folder, parts joined by ``/``.
        objects: the file's first objects (twenty are plenty).
        log_format: id of a format to take without looking.
        mapping: canonical field to dotted path, as the user gave it.
        step_from_path: regular expression that finds the step in ``name``.

    Raises:
        UsageError: unknown format id, unknown mapped field, or a bad expression.
    """
    if log_format is not None:
        found: Detected | None = Detected(format_by_id(log_format), "named on the command line")
    else:
        found = None if certain_refusal(name, objects) else _best(name, objects)
    if not mapping and (found is None or step_from_path is None):
        return found
    mapped = Mapped(dict(mapping or {}), step_from_path, found.format if found else None)
    match = mapped.match(name, objects)
    return Detected(mapped, match.reason) if match else found


def beside(form: Format, path: str, listed: Collection[Path]) -> Format | str:
    """Return a file's format as the files beside it make it, or why the file is not to be read.

    Args:
        form: the format, as detected.
        path: where the file lies.
        listed: where all files of the logs lie.
    """
    look = getattr(form, "beside", None)
    if look is None:
        return form
    found: Format | str = look(Path(path), listed)
    return found


def _best(name: str, objects: Sequence[Row]) -> Detected | None:
    claims = [(form, form.match(name, objects)) for form in formats().values()]
    made = [(form, match) for form, match in claims if match]
    if not made:
        return None
    form, match = max(made, key=lambda claim: claim[1].confidence)
    return Detected(form, match.reason)


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
        own = type(self._format).__module__.startswith("rlreport.")
        return own and bool(getattr(self._format, "alone", False))

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
                    # A row that is the object itself is looked through as a row.
                    yield self._settled(all_taken(row) if row is watched else row, where)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            if isinstance(error, RowError):
                raise
            # An installed format may trust its logs; a hostile object still costs itself only.
            raise RowError(
                message("no {format} object: {why}", format=self._format.id, why=repr(error)[:160])
            ) from error
        for name, value in watched.not_taken():
            count_not_taken(self._not_taken, name, kind_of(value))

    def splits_of(self, objects: Sequence[Row], name: str) -> set[object]:
        """Return the splits that the rows of a file's first objects name."""
        found: set[object] = set()
        for obj in objects:
            with suppress(RowError, RecursionError):
                found |= {row["split"] for row in self(obj, Where(name)) if "split" in row}
        # What was looked at is read again, and told of then.
        self._not_taken = {}
        return found

    def take_not_taken(self) -> NotTaken:
        """Hand over the fields that no one read since the last call."""
        taken, self._not_taken = self._not_taken, {}
        return taken

    def _settled(self, row: Row, where: Where) -> Row:
        row = _spread(self._names.fill(row))
        if row.get("split") is None and (split := self._format.split(where.name)):
            row["split"] = split
        for name in [name for name, value in row.items() if not logged.is_kept(name, value)]:
            value = row.pop(name)
            if value not in (None, "", [], {}):
                count_not_taken(self._not_taken, name, kind_of(value))
        return row


def _spread(row: Row) -> Row:
    """Spread an advantage logged as one number over the tokens; without tokens it is a column."""
    advantage = row.get("advantages")
    if isinstance(advantage, int | float):
        tokens = row.get("response_tokens")
        if isinstance(tokens, list):
            row["advantages"] = [advantage] * len(tokens)
        else:
            row["advantage"] = row.pop("advantages")
    return row
