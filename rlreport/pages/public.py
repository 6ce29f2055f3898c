"""Leave names out of a report for everybody (``--public``); texts of prompts and responses stay.

Left out are names of files, folders, hosts, people and projects (``text.private``), wherever they
stand outside of what the model read and wrote: in the configuration, in further logged fields, in
notes on the logs, in names of fields and metrics, in messages of errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from rlreport.about.card import CONFIGURATIONS, Card
from rlreport.check.parts import tells_right
from rlreport.fields import CANONICAL
from rlreport.figures.ragged import Ints
from rlreport.metrics.roles import PLAIN_NAMES, is_known_key, words_of_keys
from rlreport.pages.listed import is_numeric
from rlreport.pages.redact import (
    file_aliases,
    nameless_rescoring,
    unquoted,
    with_file_aliases,
)
from rlreport.read.rollouts import Rollout, Rollouts, Turn
from rlreport.tables import Note, NoteKind, Tables
from rlreport.text.messages import Joined, Message, message
from rlreport.text.private import PrivateNames, names_in, owners_in

_NAME = message("[name]")
# Texts in notes that are no names: numbers, options, kinds of values
_PLAIN = re.compile(r"[\d\s.,:%–+-]*|--[a-z-]+(?: [A-Z=]+)?")
_USUAL_FILES = frozenset(Path(name).name for name in CONFIGURATIONS)


@dataclass(frozen=True, slots=True)
class NameMask:
    """Hides private names in what is logged of a response beside its texts; see ``Mask``.

    These are messages of errors, which quote paths and hosts, and fields of a judge.
    """

    names: tuple[str, ...]  # private wherever they stand, sorted

    def hides(self, row: int) -> bool:
        """Return False: no text of a response is left out as a whole."""
        return False

    def masked(self, row: int, rollout: Rollout) -> Rollout:
        """Return a response without private names in errors and in fields of a judge."""
        has_error = any(turn.error for turn in rollout.conversation)
        if rollout.hidden or not (rollout.errors or rollout.judged or has_error):
            return rollout
        names = PrivateNames(self.names)  # numbers begin anew with each response

        def hidden(turn: Turn) -> Turn:
            return replace(turn, error=turn.error and names.in_text(turn.error))

        return replace(
            rollout,
            errors=list(map(names.in_text, rollout.errors)),
            conversation=list(map(hidden, rollout.conversation)),
            judged=[
                (name, names.in_value(name, text)) for name, text in rollout.judged
            ],
        )

    def take(self, rows: Ints) -> NameMask:
        """Return the mask itself, which is that of any row."""
        return self


class PublicRun(NamedTuple):
    """A run without private names."""

    tables: Tables
    rollouts: Rollouts
    card: Card


def private_names(
    card: Card, tables: Tables, logs: Sequence[object], run: str
) -> set[str]:
    """Return the names of a run that are private wherever they stand.

    Args:
        card: its configuration.
        tables: with the fields that it logs.
        logs: paths of the logs, of which the owners of home folders count.
        run: the run's name in a tracker, "" without one.
    """
    found = names_in(card.entries)
    for log in logs:
        found.update(owners_in(str(log)))
    for name, values in tables.extras.items():
        if not is_numeric(values):
            for text in values.dropna().unique():
                found.update(names_in({str(name): text}))
    found |= {run} if len(run) > 2 else set()
    return without_common_words(found)


def without_common_words(names: Iterable[str]) -> set[str]:
    """Return names without those that metrics and fields of any run have, such as "reward".

    They name nobody, and without them metrics would no longer be recognized.
    """
    common = words_of_keys() | CANONICAL

    def is_common(name: str) -> bool:
        tells = name.isalpha() and tells_right(name)
        return name.lower() in common or is_known_key(name) or tells

    return {name for name in names if not is_common(name)}


def public_run(
    tables: Tables, rollouts: Rollouts, card: Card, names: PrivateNames
) -> PublicRun:
    """Return a run without private names; ``names`` knows those of ``private_names``."""
    card = public_card(card, names)
    files = file_aliases(tables)
    tables = _with_public_columns(tables, names)
    vocabulary = _vocabulary(tables)
    renamed = with_file_aliases(
        tables,
        files,
        lambda text: _public_text(text, names, vocabulary),
        lambda note: _public_note(note, names, vocabulary),
    )
    renamed.extras = public_extras(tables.extras, names)
    if tables.rescoring is not None:
        renamed.rescoring = nameless_rescoring(tables.rescoring)
    file_names = [files.get(name, _NAME) for name in rollouts.places.names]
    rollouts = replace(
        rollouts,
        places=rollouts.places._replace(names=file_names),
        mask=NameMask(names.known),
    )
    return PublicRun(renamed, rollouts, card)


def public_card(card: Card, names: PrivateNames) -> Card:
    """Return a configuration without private names in its entries, sources and notes."""
    sources = []
    for number, source in enumerate(card.sources, 1):
        is_usual = source in _USUAL_FILES or source in ("--meta", "git")
        sources.append(source if is_usual else f"file {number}")
    return replace(
        card,
        entries=public_settings(card.entries, names),
        sources=sources,
        notes=[_public_text(note, names, frozenset()) for note in card.notes],
    )


def public_settings(entries: Mapping[str, Any], names: PrivateNames) -> dict[str, Any]:
    """Return settings, by dotted name, without private names in names and texts."""
    public = {}
    for name, value in entries.items():
        text = names.in_value(name, value) if isinstance(value, str) else value
        public[names.in_text(name)] = text
    return public


def public_extras(extras: pd.DataFrame, names: PrivateNames) -> pd.DataFrame:
    """Return further logged fields without private names in their texts."""
    result = extras.copy()
    for name, values in extras.items():
        result[name] = public_values(str(name), values, names)
    return result


def public_values(name: str, values: pd.Series, names: PrivateNames) -> pd.Series:
    """Return the values of a logged field without private names in its texts."""
    if is_numeric(values):
        return values
    texts = [text for text in values.dropna().unique() if isinstance(text, str)]
    public = {text: names.in_value(name, text) for text in texts}
    cells = [public.get(cell, cell) for cell in values]
    return pd.Series(cells, values.index, dtype=object)


def public_notes(notes: Sequence[Note], names: PrivateNames) -> list[Note]:
    """Return notes that were made later without private names."""
    return [
        replace(note, text=_public_text(note.text, names, frozenset()))
        for note in notes
    ]


def _public_note(note: Note, names: PrivateNames, vocabulary: frozenset[str]) -> str:
    """Return the text of a note; that on options has no values, see ``set_by_texts``."""
    if note.kind == NoteKind.SET_BY:
        return note.text
    return _public_text(note.text, names, vocabulary)


def _public_text(text: str, names: PrivateNames, vocabulary: frozenset[str]) -> str:
    """Return a text of a note: what the logs put into it only if it is in the vocabulary.

    What is no message, such as the reason why a line cannot be read, is searched for names.
    """

    def hidden(value: Any) -> Any:
        match value:
            case Message():
                places = {name: hidden(one) for name, one in value.places.items()}
                return Message(value.literal, places, value.plural, value.number)
            case Joined():
                return Joined(value.separator, map(hidden, value.parts))
            case tuple():
                return tuple(map(hidden, value))
            case str():
                is_open = value in vocabulary or _PLAIN.fullmatch(value)
                return value if is_open else _NAME
        return value

    if isinstance(text, Message | Joined):
        public: str = hidden(text)
        return public
    return names.in_place(unquoted(text))


def _vocabulary(tables: Tables) -> frozenset[str]:
    """Return the texts in notes that are names of fields, metrics and formats."""
    return frozenset(
        [
            *CANONICAL,
            *PLAIN_NAMES.values(),
            *tables.metric_roles,
            *map(str, tables.extras.columns),
            *map(str, tables.metrics.columns),
            *(file.format for file in tables.files),
            *tables.fields,
        ]
    )


def _with_public_columns(tables: Tables, names: PrivateNames) -> Tables:
    """Return tables whose fields and metrics have no private names in theirs."""
    extras = map(str, tables.extras.columns)
    fields = _aliases(chain(extras, tables.fields), names.in_text)
    metrics = _aliases(map(str, tables.metrics.columns), names.in_text)
    changed = [name for name, alias in (fields | metrics).items() if name != alias]
    if not changed:
        return tables
    return replace(
        _with_metric_names(tables, metrics, names),
        extras=tables.extras.rename(columns=fields),
        extras_by_step=tables.extras_by_step.rename(columns=fields),
        reward_parts=[fields[name] for name in tables.reward_parts],
        fields={fields[name]: rows for name, rows in tables.fields.items()},
        times=tables.times.without_names(),
    )


def _with_metric_names(
    tables: Tables, aliases: Mapping[str, str], names: PrivateNames
) -> Tables:
    """Return tables with other names of the trainer's metrics; ``aliases``: name -> alias."""
    files = []
    for file in tables.metrics_files:
        named = [aliases.get(name, names.in_text(name)) for name in file.metrics]
        files.append(replace(file, metrics=named))
    roles = tables.metric_roles.items()
    broken = tables.metrics_broken.items()
    return replace(
        tables,
        metrics=tables.metrics.rename(columns=aliases),
        metrics_files=files,
        metric_roles={role: aliases.get(name, name) for role, name in roles},
        metrics_broken={aliases[name]: steps for name, steps in broken},
    )


def _aliases(columns: Iterable[str], public: Callable[[str], str]) -> dict[str, str]:
    """Return name -> public name of columns; different ones stay different."""
    aliases: dict[str, str] = {}
    used: set[str] = set()
    for name in dict.fromkeys(columns):
        alias = public(name)
        number = 1
        while alias in used:
            number += 1
            alias = f"{public(name)} {number}"
        used.add(alias)
        aliases[name] = alias
    return aliases
