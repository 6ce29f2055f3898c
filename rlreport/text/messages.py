"""Messages of the interface: English as they stand, with what it takes to say them otherwise.

Every text of ours that a reader sees is one literal with named places, passed through
``message`` or ``plural`` (or marked with ``marked`` where it is filled later), so that another
language is a gettext catalogue. A message is a string, the English one: whatever is written
for machines takes it as it is. ``Language.of`` says it in the reader's language, at the edge:
when a page is rendered, a chart drawn, a line printed. So no language is set anywhere, builds
of two languages share a process, and what goes to another process takes its places along.
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
"""What stands in the places of a message: texts, messages, numbers, tuples of them."""


class Message(str):
    """A text of the interface.

    Attributes:
        literal: English with named places, the key in the catalogue.
        places: what stands there.
        plural: the literal for every count but 1, "" where nothing is counted.
        number: what chooses between the two.
    """

    __slots__ = ("literal", "number", "places", "plural")
    literal: str
    places: Places
    plural: str
    number: int

    def __new__(
        cls, literal: str, places: Places | None = None, plural: str = "", number: int = 1
    ) -> Message:
        """Make the message; as a string it is English."""
        chosen = plural if plural and number != 1 else literal
        text = super().__new__(cls, filled(chosen, places or {}))
        text.literal, text.places, text.plural, text.number = literal, places or {}, plural, number
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return Message, (self.literal, self.places, self.plural, self.number)


class Joined(str):
    """Texts with a separator between them, which is a message itself."""

    __slots__ = ("parts", "separator")
    parts: tuple[str, ...]
    separator: str

    def __new__(cls, separator: str, parts: Iterable[str]) -> Joined:
        """Make the text; as a string it is English."""
        filled_parts = tuple(part for part in parts if part)
        text = super().__new__(cls, between(separator).join(filled_parts))
        text.separator, text.parts = separator, filled_parts
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return Joined, (self.separator, self.parts)


def message(literal: str, **places: object) -> str:
    """Return the message with its places filled; see ``told`` for how each is written."""
    return told(literal, places)


def told(literal: str, facts: Places) -> str:
    """Return the message with its places filled from facts: ``{share:percent} of responses``.

    How a fact is written stands behind the colon: figure, percent, count, quoted; ``capital``
    begins a sentence with it, ``small`` goes on with it, ``clause`` takes the full stop off one.
    A tuple is a list of what it holds. A fact that is absent is "–".
    """
    known = isinstance(literal, Message | Joined) or not literal
    return literal if known else Message(literal, facts)


def plural(one: str, other: str, count: int, **places: object) -> str:
    """Return the message for a count, which stands at ``{count}``: "{count} steps"."""
    return Message(one, {"count": whole(count), **places}, other, count)


def marked(literal: str) -> str:
    """Mark a literal as a message that is passed on later."""
    return literal


def between(separator: str) -> str:
    """Return a separator without the places around it, which say what it stands between.

    With them a catalogue can leave nothing between sentences, or tell items from clauses.
    """
    return _AROUND.sub("", separator)


def listed(items: Iterable[str]) -> str:
    """Return items as a list in a sentence."""
    return Joined(marked(", "), items)


def phrases(items: Iterable[str]) -> str:
    """Return short clauses of one sentence."""
    return Joined(marked("{clause}, {next}"), items)


def clauses(items: Iterable[str]) -> str:
    """Return clauses as one sentence holds them, each of some length."""
    return Joined(marked("{clause}; {next}"), items)


def sentences(items: Iterable[str]) -> str:
    """Return sentences one after another; empty ones leave nothing behind."""
    return Joined(marked("{sentence} {next}"), items)


def figure(value: object) -> str:
    """Return the number as pages write it: three significant digits."""
    return written(float(value)) if isinstance(value, int | float) else MISSING


def percent(share: object) -> str:
    """Return a share as whole per cent, with more digits where it is below one per cent."""
    if not isinstance(share, int | float) or not math.isfinite(share):
        return MISSING
    if 0 < abs(share) < 0.01:
        return written(share, "share")
    return f"{written(100 * share, 'count')}%"


def whole(number: object) -> str:
    """Return a count with thousands separated."""
    return written(float(number), "count") if isinstance(number, int | float) else MISSING


def quoted(text: object) -> str:
    """Return a text in quotes on one line."""
    return "“" + " ".join(str(text).split()) + "”"


def with_unit(number: str, unit: str) -> str:
    """Return a written number with its unit, where it has one: "3.2 nats"."""
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
    """Return which responses figures come from, as a phrase; "" if it is all of them."""
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
    """Return a literal, in any language, with its places filled; braces in those are text.

    ``translate`` puts a message that stands in a place into the same language.
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
