"""What stands for a text that a report leaves out: "[text 3, at most 100 characters]".

A hash or the exact length would let readers guess short texts from a list of words.
"""

from __future__ import annotations


class Redactor:
    """Replaces texts by e.g. "[text 3, at most 100 characters]"; equal texts get equal numbers."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> str:
        number = self._numbers.setdefault(text, len(self._numbers) + 1)
        return placeholder("text", text, number)


def placeholder(kind: str, text: str, number: int | None = None) -> str:
    """Return what stands for a text of a kind, such as "prompt", with its number and length."""
    # The next power of ten, at least 10: "at most 1,000" of 101 to 1,000 characters.
    digits = len(str(max(len(text) - 1, 0)))
    longest = 10**digits
    numbered = kind if number is None else f"{kind} {number}"
    return f"[{numbered}, at most {longest:,} characters]"
