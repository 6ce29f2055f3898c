"""The run's card as text: nested by indentation, so that it is found and copied as it stands."""

from __future__ import annotations

from rlreport.bake.views import CardView
from rlreport.card import Card, Scalar
from rlreport.text.messages import clauses, listed, message, plural

_DEEPEST = 12
_INDENT = "  "


def card_view(card: Card) -> CardView | None:
    """Build the view; None where nothing is known of the run."""
    if card.withheld:
        return CardView(message("What the run was: left out with the names"), "")
    if not (card.entries or card.hidden or card.cut):
        return None
    sources = listed(card.sources)
    count = len(card.entries)
    said = [
        plural("{count} entry from {files}", "{count} entries from {files}", count, files=sources)
    ]
    if card.hidden:
        said.append(
            plural(
                "{count} left out, as it looks like a secret",
                "{count} left out, as they look like secrets",
                card.hidden,
            )
        )
    if card.cut:
        said.append(message("{count:count} left out for their number or length", count=card.cut))
    told = message("What the run was: {what}", what=clauses(said))
    return CardView(told, "\n".join(_lines(card)))


def _lines(card: Card) -> list[str]:
    lines: list[str] = []
    above: list[str] = []
    for name, value in card.entries.items():
        *groups, last = name.split(".", _DEEPEST)
        shared = 0
        while shared < min(len(above), len(groups)) and above[shared] == groups[shared]:
            shared += 1
        for depth in range(shared, len(groups)):
            lines.append(f"{_INDENT * depth}{groups[depth]}:")
        above = groups
        lines.append(f"{_INDENT * len(groups)}{last}: {written(value)}")
    return lines


def written(value: Scalar) -> str:
    """Write a value as configuration files do, on one line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(value.split()) if isinstance(value, str) else str(value)
