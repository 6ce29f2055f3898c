"""Messages of the interface: English strings that can be translated later.

Every text that users read is a literal with named placeholders such as ``{count} steps``. It is
passed to ``message`` or ``plural``, or to ``translatable`` if placeholders get their values later.
gettext catalogues translate the literals. A message is a ``str`` with the English text, which
machine-readable output contains. ``Language.of`` translates it when a page is rendered, a chart
is drawn or a line is printed; there is no global language. Messages can be pickled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from rlreport.text.numbers import MISSING, short, written

_PLACE = re.compile(r"\{(\w+)(?::(\w+))?\}")
_OUTER_PLACEHOLDERS = re.compile(r"^\{\w+\}|\{\w+\}$")

# Values for the placeholders of a message: texts, messages, numbers, or tuples of them
Places = Mapping[str, Any]
_Join = Callable[[Iterable[str]], str]


class Message(str):
    """A text of the interface: a ``str`` in English that can be translated."""

    __slots__ = ("literal", "number", "places", "plural")
    # English text with named placeholders, the key of the translation (msgid)
    literal: str
    places: Places  # values of the placeholders
    plural: str  # the literal for counts other than 1, "" if nothing is counted
    number: int  # the count, which selects ``literal`` or ``plural``

    def __new__(
        cls,
        literal: str,
        places: Places | None = None,
        plural: str = "",
        number: int = 1,
    ) -> Message:
        # English has two forms; ``Language.of`` chooses among those of its language.
        chosen = plural if plural and number != 1 else literal
        text = super().__new__(cls, filled(chosen, places or {}))
        text.literal = literal
        text.places = places or {}
        text.plural = plural
        text.number = number
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return Message, (self.literal, self.places, self.plural, self.number)


class Joined(str):
    """The texts that are not empty, joined by a separator; all of them can be translated."""

    __slots__ = ("parts", "separator")
    parts: tuple[str, ...]
    separator: str  # with placeholders around it; see ``bare_separator``

    def __new__(cls, separator: str, parts: Iterable[str]) -> Joined:
        nonempty_parts = tuple(part for part in parts if part)
        text = super().__new__(cls, bare_separator(separator).join(nonempty_parts))
        text.separator = separator
        text.parts = nonempty_parts
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return Joined, (self.separator, self.parts)


def message(literal: str, **places: object) -> str:
    """Create a message such as ``message("step {step}", step=3)``; see ``format_message``."""
    return format_message(literal, places)


def format_message(literal: str, facts: Places) -> str:
    """Create a message from a literal such as ``{share:percent} of responses``.

    ``facts`` maps placeholders to values. A placeholder may name a format after a colon:
    ``figure``, ``short``, ``percent`` and ``count`` format numbers; ``quoted`` puts a text in
    quotes, ``capital`` makes its first letter upper case, ``lower`` lower case unless it is that of
    an abbreviation, ``clause`` removes the full stop at its
    end. A tuple is written as a list, None as "–". A message is returned unchanged.
    """
    is_message = isinstance(literal, Message | Joined) or not literal
    return literal if is_message else Message(literal, facts)


def plural(one: str, other: str, count: int, **places: object) -> str:
    """Create a message from ``one`` if ``count`` is 1, else from ``other``; fill in ``{count}``."""
    return Message(one, {"count": whole(count), **places}, other, count)


def translatable(literal: str) -> str:
    """Return a literal unchanged; the call lets tools find it as a text to translate."""
    return literal


def bare_separator(separator: str) -> str:
    """Return a separator without the placeholders around it: ", " for "{clause}, {next}".

    The placeholders show translators what is joined: clauses or items of a list. With them, a
    translation can also be an empty separator: "{sentence}{next}".
    """
    return _OUTER_PLACEHOLDERS.sub("", separator)


# Functions that join the texts that are not empty: items of a list, clauses, and sentences
listed: _Join = partial(Joined, translatable(", "))
phrases: _Join = partial(Joined, translatable("{clause}, {next}"))
clauses: _Join = partial(Joined, translatable("{clause}; {next}"))
sentences: _Join = partial(Joined, translatable("{sentence} {next}"))


def figure(value: object) -> str:
    """Format a number with three significant digits; "–" if it is not a number."""
    return written(float(value)) if isinstance(value, int | float) else MISSING


def short_figure(value: object) -> str:
    """Format a number with two significant digits, as people say it; "–" if it is no number."""
    return short(float(value), 2) if isinstance(value, int | float) else MISSING


def percent(share: object) -> str:
    """Format a fraction in whole percent (below 1%: one significant digit); "–" if not finite."""
    if not isinstance(share, int | float) or not math.isfinite(share):
        return MISSING
    if 0 < abs(share) < 0.01:
        return f"{short(100 * share, 1)}%"
    return f"{written(100 * share, 'count')}%"


def whole(number: object) -> str:
    """Format a count with thousands separators; "–" if it is not a number."""
    return (
        written(float(number), "count") if isinstance(number, int | float) else MISSING
    )


def quoted(text: object) -> str:
    """Put a text in quotes, with a single space for each run of white space."""
    return "“" + " ".join(str(text).split()) + "”"


def with_unit(number: str, unit: str) -> str:
    return message("{number} {unit}", number=number, unit=unit) if unit else number


def span(steps: object) -> str:
    """Format a (first, last) pair of steps: "step 4" or "steps 48–59"; "–" if it is no tuple."""
    if not isinstance(steps, tuple):
        return MISSING
    low, high = steps
    if low == high:
        return message("step {step}", step=low)
    return message("steps {low}–{high}", low=low, high=high)


def sample_note(sampled: int, total: int) -> str:
    """Return "from a sample of 10 of 20 responses" for 10 and 20; "" if all or none are sampled."""
    if not 0 < sampled < total:
        return ""
    return message(
        "from a sample of {some:count} of {all:count} responses",
        some=sampled,
        all=total,
    )


def _capital(value: object) -> str:
    text = str(value)
    return text[:1].upper() + text[1:]


def _lower(value: object) -> str:
    text = str(value)
    is_abbreviation = text[1:2].isupper() or not text[1:2].isalpha()
    return text if is_abbreviation else text[:1].lower() + text[1:]


def clause(text: object) -> str:
    """Return a text without the full stop at its end."""
    return str(text).removesuffix(".").removesuffix("。")


def filled(
    literal: str, places: Places, translate: Callable[[Any], Any] | None = None
) -> str:
    """Replace the placeholders in a literal (or its translation) with their formatted values.

    ``translate``, if given, is applied to each value first. Braces in values stay as they are.
    """

    def fill(place: re.Match[str]) -> str:
        name = place[1]
        format_name = place[2] or ""  # after a colon
        if name not in places:
            raise KeyError(f"no value for {place[0]} in {literal!r}")
        return _format_value(places[name], _FORMS[format_name], translate)

    return _PLACE.sub(fill, literal)


def _format_value(
    value: Any, form: Callable[[object], str], translate: Callable[[Any], Any] | None
) -> str:
    """Return the value of a placeholder as text; ``form`` is applied to each item of a tuple.

    ``translate``, if given, is applied to the value before, and to the commas between items.
    """
    if value is None:
        return MISSING
    if isinstance(value, tuple):
        items = listed([_format_value(item, form, translate) for item in value])
        return str(translate(items) if translate else items)
    return form(translate(value) if translate else value)


_FORMS: dict[str, Callable[[object], str]] = {
    "": str,
    "figure": figure,
    "short": short_figure,
    "percent": percent,
    "count": whole,
    "quoted": quoted,
    "capital": _capital,
    "lower": _lower,
    "clause": clause,
}
