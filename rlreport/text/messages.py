"""Messages of the interface: English strings that can be translated later.

Every text that a reader sees is one literal with named placeholders, passed to ``message`` or
``plural`` (or to ``marked``, if it is filled later), so that a gettext catalogue adds a language.
A message is a string with the English text; machine-readable output uses it as it is.
``Language.of`` translates it at the edge: when a page is rendered, a chart is drawn or a line is
printed. There is no global language, so builds in two languages can share a process. Messages
are picklable together with their values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rlreport.text.numbers import MISSING, written

_PLACE = re.compile(r"\{(\w+)(?::(\w+))?\}")
_AROUND = re.compile(r"^\{\w+\}|\{\w+\}$")

Places = Mapping[str, Any]
"""Values for the placeholders of a message: texts, messages, numbers, or tuples of them."""


class Message(str):
    """A text of the interface.

    Attributes:
        literal: English text with named placeholders, the key in the catalogue.
        places: values of the placeholders.
        plural: the literal for counts other than 1, "" if nothing is counted.
        number: the count, which selects ``literal`` or ``plural``.
    """

    __slots__ = ("literal", "number", "places", "plural")
    literal: str
    places: Places
    plural: str
    number: int

    def __new__(
        cls, literal: str, places: Places | None = None, plural: str = "", number: int = 1
    ) -> Message:
        """Create the message; its value as a string is English."""
        chosen = plural if plural and number != 1 else literal
        text = super().__new__(cls, filled(chosen, places or {}))
        text.literal, text.places, text.plural, text.number = literal, places or {}, plural, number
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return Message, (self.literal, self.places, self.plural, self.number)


class Joined(str):
    """Texts joined by a separator, which is a message itself and so can be translated."""

    __slots__ = ("parts", "separator")
    parts: tuple[str, ...]
    separator: str

    def __new__(cls, separator: str, parts: Iterable[str]) -> Joined:
        """Join the texts; the value as a string is English."""
        filled_parts = tuple(part for part in parts if part)
        text = super().__new__(cls, between(separator).join(filled_parts))
        text.separator, text.parts = separator, filled_parts
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return Joined, (self.separator, self.parts)


def message(literal: str, **places: object) -> str:
    """Return the message with its placeholders filled; see ``told`` for the formats."""
    return told(literal, places)


def told(literal: str, facts: Places) -> str:
    """Return the message with its placeholders filled: ``{share:percent} of responses``.

    The format follows the colon. Numbers and texts: figure, percent, count, quoted. Texts only:
    ``capital`` capitalizes the first letter, ``small`` makes it lower case, ``clause`` removes
    the full stop. Tuples are written as lists, missing facts as "–".
    """
    known = isinstance(literal, Message | Joined) or not literal
    return literal if known else Message(literal, facts)


def plural(one: str, other: str, count: int, **places: object) -> str:
    """Return the message for a count, which replaces ``{count}``: "{count} steps"."""
    return Message(one, {"count": whole(count), **places}, other, count)


def marked(literal: str) -> str:
    """Mark a literal for translation; ``message`` or ``told`` is called with it later."""
    return literal


def between(separator: str) -> str:
    """Return a separator without the placeholders around it, which name what it separates.

    They let a catalogue distinguish separators of items and clauses, or use an empty separator.
    """
    return _AROUND.sub("", separator)


def listed(items: Iterable[str]) -> str:
    """Return items joined as a list in a sentence."""
    return Joined(marked(", "), items)


def phrases(items: Iterable[str]) -> str:
    """Return clauses joined by commas."""
    return Joined(marked("{clause}, {next}"), items)


def clauses(items: Iterable[str]) -> str:
    """Return clauses that may contain commas, joined by semicolons."""
    return Joined(marked("{clause}; {next}"), items)


def sentences(items: Iterable[str]) -> str:
    """Return sentences joined by spaces; empty ones are dropped."""
    return Joined(marked("{sentence} {next}"), items)


def figure(value: object) -> str:
    """Return a number with three significant digits, as on pages."""
    return written(float(value)) if isinstance(value, int | float) else MISSING


def percent(share: object) -> str:
    """Return a share as a whole percentage, with more digits below one percent."""
    if not isinstance(share, int | float) or not math.isfinite(share):
        return MISSING
    if 0 < abs(share) < 0.01:
        return written(share, "share")
    return f"{written(100 * share, 'count')}%"


def whole(number: object) -> str:
    """Return a count with thousands separators."""
    return written(float(number), "count") if isinstance(number, int | float) else MISSING


def quoted(text: object) -> str:
    """Return a text in quotes on one line."""
    return "“" + " ".join(str(text).split()) + "”"


def with_unit(number: str, unit: str) -> str:
    """Return a formatted number with its unit, if it has one: "3.2 nats"."""
    return message("{number} {unit}", number=number, unit=unit) if unit else number


def span(steps: object) -> str:
    """Return consecutive steps by their ends: "step 4" or "steps 48–59"."""
    if not isinstance(steps, tuple):
        return MISSING
    low, high = steps
    if low == high:
        return message("step {step}", step=low)
    return message("steps {low}–{high}", low=low, high=high)


def sample_note(some: int, of: int) -> str:
    """Return a phrase such as "from a sample of 10 of 20 responses", "" if these are all."""
    if not 0 < some < of:
        return ""
    return message("from a sample of {some:count} of {all:count} responses", some=some, all=of)


def steps_in_words(steps: Iterable[int]) -> str:
    """Return steps as short text: "3, 5 and 8" or "3–40 (12 steps)"."""
    known = sorted(steps)
    if len(known) > 4:
        places = {"low": known[0], "high": known[-1]}
        return plural("{low}–{high} ({count} step)", "{low}–{high} ({count} steps)", len(known),
                      **places)  # fmt: skip
    if len(known) < 2:
        return "".join(map(str, known))
    return message("{steps} and {last}", steps=tuple(map(str, known[:-1])), last=known[-1])


def _capital(value: object) -> str:
    text = str(value)
    return text[:1].upper() + text[1:]


def _clause(text: object) -> str:
    return str(text).removesuffix(".").removesuffix("。")


def _small(value: object) -> str:
    text = str(value)
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def filled(literal: str, places: Places, translate: Callable[[Any], Any] | None = None) -> str:
    """Return a literal, in any language, with its placeholders filled.

    Braces in the values are not placeholders. ``translate`` translates values that are messages.
    """

    def fill(place: re.Match[str]) -> str:
        return _written(places.get(place[1]), _FORMS[place[2] or ""], translate)

    return _PLACE.sub(fill, literal)


def _written(
    value: Any, form: Callable[[object], str], translate: Callable[[Any], Any] | None
) -> str:
    if value is None:
        return MISSING
    if isinstance(value, tuple):
        items = listed([_written(item, form, translate) for item in value])
        return str(translate(items) if translate else items)
    return form(translate(value) if translate else value)


_FORMS: dict[str, Callable[[object], str]] = {
    "": str,
    "figure": figure,
    "percent": percent,
    "count": whole,
    "quoted": quoted,
    "capital": _capital,
    "clause": _clause,
    "small": _small,
}
