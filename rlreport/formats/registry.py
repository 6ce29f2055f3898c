"""Detect a log file's format, and convert its objects (dicts) to canonical rows (see ``base``).

``detect`` returns the format of a file, given its path and first objects. ``refusal`` explains why
a file is not a rollout log. ``RowReader`` converts objects to canonical rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

from rlreport.errors import RowError, UnreadRow, UsageError
from rlreport.fields import (
    CANONICAL,
    AssumedStep,
    UnreadFields,
    add_unread_field,
    kind_of,
)
from rlreport.figures.turns import split_named
from rlreport.formats import renamed
from rlreport.formats.base import BaseFormat, Match, Row, Where
from rlreport.formats.evaluations import ATIF, InspectAI, LMEval
from rlreport.formats.grouped import grouped_format
from rlreport.formats.judged import is_judges
from rlreport.formats.logged import KeyTracker, is_scalar
from rlreport.formats.mapping import (
    Mapped,
    certain_refusal,
    likely_mapping,
    refusal,
    suggest,
)
from rlreport.formats.nemo import NemoGym, NemoRL, NemoRLDistillation
from rlreport.formats.rllm import RLLM
from rlreport.formats.skyrl import SkyRL
from rlreport.formats.slime import Slime
from rlreport.formats.tinker import Tinker
from rlreport.formats.token_names import TokenNames
from rlreport.formats.trl import TRL, Trackio
from rlreport.formats.verifiers import Verifiers
from rlreport.text.clean import safe_text
from rlreport.text.messages import message

__all__ = [
    "Detected",
    "Match",
    "Row",
    "RowError",
    "RowReader",
    "Where",
    "detect",
    "format_by_id",
    "formats",
    "refusal",
    "suggest",
]

# Entry point group of installed formats: classes whose constructor takes no arguments
ENTRY_POINTS = "rlreport.formats"

# In order of preference: of equally confident claims, the first wins
_FORMATS: tuple[Callable[[], BaseFormat], ...] = (
    renamed.RLBoard,
    TRL,
    renamed.Verl,
    NemoRL,
    NemoRLDistillation,
    SkyRL,
    renamed.PrimeRLTokens,
    Verifiers,
    renamed.AReaL,
    renamed.AgileRL,
    renamed.Roll,
    renamed.RollAgentic,
    renamed.Swift,
    renamed.OpenInstruct,
    RLLM,
    renamed.ART,
    Slime,
    Tinker,
    NemoGym,
    Trackio,
    LMEval,
    InspectAI,
    ATIF,
    renamed.Distillation,
    renamed.Conversations,
    renamed.Plain,
)


class Detected(NamedTuple):
    """The format of a file, and why it was chosen."""

    format: BaseFormat
    reason: str


@cache
def formats() -> dict[str, BaseFormat]:
    """Return all formats by id: built-in formats, then those of other packages, sorted by name."""
    built_in = [create() for create in _FORMATS]
    by_id = {form.id: form for form in built_in}
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        form = _installed_format(entry)
        if form.id in by_id:
            raise UsageError(
                f"log format {entry.value}: its id {form.id!r} is already in use"
            )
        by_id[form.id] = form
    return by_id


def _installed_format(entry: EntryPoint) -> BaseFormat:
    """Return the format of another package; raise UsageError if it cannot be loaded."""
    try:
        form = entry.load()()
        if not isinstance(form, BaseFormat):
            raise TypeError("not a subclass of BaseFormat")
    except Exception as error:  # other packages may raise anything
        raise UsageError(
            f"the installed log format {entry.name!r} ({entry.value}) cannot be loaded: {error}"
        ) from error
    return form


def format_by_id(identity: str) -> BaseFormat:
    try:
        return formats()[identity]
    except KeyError:
        raise UsageError(
            f"unknown log format {identity!r}; known formats: {', '.join(formats())}"
        ) from None


def detect(
    name: str,
    objects: Sequence[Row],
    *,
    log_format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    step_from_path: str | None = None,
) -> Detected | None:
    """Return the format of a file, or None if no format fits (``refusal`` explains why).

    ``name`` is the path in the folder of the logs; ``objects`` are the file's first objects (twenty
    are enough). ``log_format`` is used without detection, ``mapping`` is field -> dotted path.
    """
    if log_format is not None:
        form = format_by_id(log_format)
        detected: Detected | None = Detected(form, "named on the command line")
    else:
        detected = _most_confident(name, objects)
    # Who names the response knows the fields.
    if detected is None and log_format is None and "response" not in (mapping or {}):
        detected = _likely(name, objects)
    # A step from the path alone is no format: it needs one that it can complete.
    if not mapping and (detected is None or step_from_path is None):
        return detected
    base = detected.format if detected else None
    mapped = Mapped(dict(mapping or {}), step_from_path, base)
    match = mapped.match(name, objects)
    return Detected(mapped, match.reason) if match else detected


def _most_confident(name: str, objects: Sequence[Row]) -> Detected | None:
    """Return the format with the highest confidence, of equal ones the first; else None."""
    if certain_refusal(name, objects):
        return None
    claims: list[tuple[int, Detected]] = []
    for form in formats().values():
        match = form.match(name, objects)
        if match:
            claims.append((match.confidence, Detected(form, match.reason)))
    if not claims:
        return None
    # ``max`` returns the first of equal ones.
    _, detected = max(claims, key=lambda claim: claim[0])
    return detected


def _likely(name: str, objects: Sequence[Row]) -> Detected | None:
    """Return the format of responses whose fields have other names, None if that is not sure."""
    if certain_refusal(name, objects):
        return None
    mapping = likely_mapping(objects)
    if not mapping:
        grouped = grouped_format(objects)
        if grouped is None:
            return None
        return Detected(grouped, "has a list of responses per prompt")
    fields = tuple(f"{field}={path}" for field, path in mapping.items())
    remark = message(
        "fields are read by their likely names: {fields}; --map FIELD=PATH reads others",
        fields=fields,
    )
    return Detected(
        Mapped(mapping, remark=remark), f"likely names: {', '.join(fields)}"
    )


class Preview(NamedTuple):
    """What the first objects of a file show about its rows."""

    splits: set[str]  # the data splits of the rows, "" for rows that name none
    stepless: bool  # whether any row has no step
    unread: UnreadFields  # fields of the objects that the format does not recognize


class RowReader:
    """A picklable converter of logged objects to rows, which also decodes token ids to strings."""

    def __init__(self, form: BaseFormat, names: TokenNames | None = None) -> None:
        self.format = form
        self._names = names or TokenNames()

    def of_format(self, form: BaseFormat) -> RowReader:
        """Return a reader of another format, with the same tokenizer."""
        return RowReader(form, self._names)

    def __call__(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the canonical rows of ``obj``; an ``UnreadRow`` for each that cannot be read."""
        for row in self.format.rows(obj, where):
            yield row if isinstance(row, UnreadRow) else self._complete(row, where)

    def preview(self, objects: Collection[Row], name: str) -> Preview:
        """Return the ``Preview`` of a file's first objects, skipping those that cannot be read."""
        rows: list[Row] = []
        unread: UnreadFields = {}
        for obj in objects:
            tracked = KeyTracker(obj)
            member = getattr(obj, "member", "")
            # Formats may raise anything on invalid objects; reading the row reports it.
            with suppress(Exception):
                # With a step to assume, rows that have none can be read, too.
                rows += self(tracked, Where(name, step=AssumedStep(1), member=member))
                with suppress(AttributeError, LookupError, TypeError, ValueError):
                    # Keys that only name the version count as read.
                    self.format.writer(tracked)
                for key, value in tracked.unread():
                    add_unread_field(unread, safe_text(key), kind_of(value))
        # A format may pass on fields that become neither a canonical field nor a column.
        for row in rows:
            for key, value in row.items():
                is_kept = is_scalar(value) or is_judges(str(key))
                if value and key not in CANONICAL and not is_kept:
                    add_unread_field(unread, safe_text(str(key)), kind_of(value))
        splits = {split_named(row.get("split")) for row in rows}
        stepless = any(isinstance(row.get("step"), AssumedStep) for row in rows)
        return Preview(splits, stepless, unread)

    def _complete(self, row: Row, where: Where) -> Row:
        """Set texts of token ids, and the split of the file if the row names none."""
        row = self._names.fill(row)
        if row.get("split") is None:
            split = self.format.split(where.name)
            if split:
                row["split"] = split
        return row
