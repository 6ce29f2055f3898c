"""The run's card as text: nested by indentation, so that it is found and copied as it stands."""

from __future__ import annotations

from rlreport.bake.views import CardView
from rlreport.card import Card, Scalar

_DEEPEST = 12
_INDENT = "  "


def card_view(card: Card) -> CardView | None:
    """Build the view; None where nothing is known of the run."""
    if card.withheld:
        return CardView("What the run was: left out with the names", "")
    if not (card.entries or card.hidden or card.cut):
        return None
    count = len(card.entries)
    said = [f"{count:,} {'entry' if count == 1 else 'entries'} from {', '.join(card.sources)}"]
    if card.hidden:
        said.append(f"{card.hidden:,} left out, as they look like secrets")
    if card.cut:
        said.append(f"{card.cut:,} left out for their number or length")
    return CardView(f"What the run was: {'; '.join(said)}", "\n".join(_lines(card)))


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
