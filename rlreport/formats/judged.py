"""What a judge of a response read and wrote, found by the names of logged fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from rlreport.fields import CANONICAL

# Maximum number of texts of a response, and characters of each; longer ones keep both ends
MOST_TEXTS = 8
MOST_CHARS = 8_000
_END = MOST_CHARS // 4
# Names of more characters are not looked at: the search takes time quadratic in the length of a
# name, and the names looked at are remembered
_LONGEST_NAME = 200

# Not ``reasoning``, which the policy itself may have written, nor ``finish_reason``
_NAME = re.compile(
    r"judge|judgment|grader|critique|feedback|rationale|justification|explanation|verdict"
    r"|(?:reward|scor|grad|verif|critic|rubric|eval|rm)[a-z]*(?:[_. -]model)?[_. -]"
    r"(?:reason|text|output|response|prompt|comment|message)s?$"
    r"|(?:^|\.)reasons?$",
    re.IGNORECASE,
)


def is_judges(name: str) -> bool:
    """Return whether a field of this name has what a judge read or wrote."""
    return len(name) <= _LONGEST_NAME and _is_judges(name)


@lru_cache(maxsize=4096)
def _is_judges(name: str) -> bool:
    return bool(_NAME.search(name))


def judges_texts(record: Mapping[str, object]) -> dict[str, str]:
    """Return name -> text of what a judge read or wrote, also one level within objects."""
    texts: dict[str, str] = {}
    if record.keys() <= CANONICAL:
        return texts
    for name, value in _texts(record):
        if value.strip():
            texts.setdefault(name, _bounded(value))
        if len(texts) == MOST_TEXTS:
            break
    return texts


def _texts(record: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield name and text of what a grader wrote, also one level deeper ("judge.reason")."""
    for key, value in record.items():
        if key in CANONICAL:
            continue
        items = value.items() if isinstance(value, dict) else [("", value)]
        for inner, one in items:
            name = f"{key}.{inner}" if inner else str(key)
            if not is_judges(name):
                continue
            if isinstance(one, str):
                yield name, one
            elif (
                isinstance(one, list)
                and one
                and all(isinstance(part, str) for part in one)
            ):
                yield name, "\n".join(one)


def _bounded(text: str) -> str:
    if len(text) <= MOST_CHARS:
        return text
    return f"{text[: MOST_CHARS - _END]}\n[…]\n{text[-_END:]}"
