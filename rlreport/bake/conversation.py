"""The turns of a response, as its page carries them; see docs/page-data.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rlreport.figures.ragged import spans
from rlreport.rollout import Rollout, Turn
from rlreport.text.messages import Joined, message

MOST_CHARS = 40_000
"""Characters of a turn that a page carries: of a longer one its beginning and its end."""

_END = MOST_CHARS // 4
_BASE64 = re.compile(r"(?:data:[\w.+/-]{1,80};base64,)?[A-Za-z0-9+/_-]{512,}={0,2}")
_LETTERS = re.compile(r"(.)\1{15}")


def conversation_data(rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Return ``conversation``, ``given`` and ``errors`` of the responses that have any."""
    parts = {
        "conversation": {str(r.n): [_turn(turn) for turn in r.conversation] for r in rollouts},
        # Spans of tokens that the policy did not sample.
        "given": {
            str(r.n): spans(~r.sampled).tolist()
            for r in rollouts
            if r.sampled is not None and r.raw_tokens
        },
        "errors": {str(r.n): list(map(_short, r.errors)) for r in rollouts},
    }
    data = {key: {n: value for n, value in part.items() if value} for key, part in parts.items()}
    return {key: part for key, part in data.items() if part}


def _turn(turn: Turn) -> dict[str, Any]:
    """Return a turn without what it lacks."""
    parts = {
        "sampled": turn.sampled,
        "thinking": _short(turn.thinking or ""),
        "calls": [[name, _short(arguments)] for name, arguments in turn.calls],
        "tool": turn.tool,
        "error": _short(turn.error or ""),
    }
    numbers = {"tokens": turn.tokens, "seconds": turn.seconds, "reward": turn.reward}
    return {
        "role": turn.role,
        "text": _short(turn.text),
        **{key: value for key, value in parts.items() if value},
        **{key: value for key, value in numbers.items() if value is not None},
    }


def _short(text: str) -> str:
    """Return a text with base64 replaced by its size, and no longer than a page carries."""
    if len(text) >= 512:
        text = _BASE64.sub(_size, text)
    if len(text) <= MOST_CHARS:
        return text
    left = len(text) - MOST_CHARS
    cut = message("[{count:count} characters left out]", count=left)
    return Joined("\n", [text[: MOST_CHARS - _END], cut, text[-_END:]])


def _size(found: re.Match[str]) -> str:
    text = found[0]
    # A ruler of dashes, or one letter all along, is no base64.
    if not text.startswith("data:") and _LETTERS.search(text[:64]):
        return text
    size = len(text.rpartition(",")[2].rstrip("=")) * 3 // 4
    shown = f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
    return f"[base64, {shown}]"
