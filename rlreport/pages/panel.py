"""Data of the response panel: conversation, group, branches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.figures.ragged import spans
from rlreport.read.rollouts import Rollout, Turn
from rlreport.tables import length_column
from rlreport.text.messages import Joined, plural

# Maximum characters of a turn in a page; longer turns keep their beginning and end
MOST_CHARS = 40_000

# Maximum members of a group to list, in log order; shown responses are listed in addition
MOST_SIBLINGS = 64

REWARD_DIGITS = (
    4  # Significant digits of the rewards of group members that the page does not show
)
_END = MOST_CHARS // 4
_BASE64 = re.compile(r"(?:data:[\w.+/-]{1,80};base64,)?[A-Za-z0-9+/_-]{512,}={0,2}")
_LETTERS = re.compile(r"(.)\1{15}")


def conversation_data(rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Return {"conversation", "given": spans of unsampled tokens, "errors"} by n, if not empty."""
    parts: dict[str, dict[str, Any]] = {"conversation": {}, "given": {}, "errors": {}}
    for rollout in rollouts:
        n = str(rollout.n)
        parts["conversation"][n] = [_turn(turn) for turn in rollout.conversation]
        if rollout.sampled is not None and rollout.raw_tokens:
            parts["given"][n] = spans(~rollout.sampled).tolist()
        parts["errors"][n] = [_short(error) for error in rollout.errors]
    filled = {
        key: {n: value for n, value in part.items() if value}
        for key, part in parts.items()
    }
    return {key: part for key, part in filled.items() if part}


def _turn(turn: Turn) -> dict[str, Any]:
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
    """Replace base64 data by its size, and cut the middle of texts longer than MOST_CHARS."""
    if len(text) >= 512:
        text = _BASE64.sub(_size, text)
    if len(text) <= MOST_CHARS:
        return text
    left = len(text) - MOST_CHARS
    cut = plural("[{count} character left out]", "[{count} characters left out]", left)
    return Joined("\n", [text[: MOST_CHARS - _END], cut, text[-_END:]])


def _size(match: re.Match[str]) -> str:
    text = match[0]
    # A line of dashes, or of one repeated letter, is not base64.
    if not text.startswith("data:") and _LETTERS.search(text[:64]):
        return text
    size = len(text.rpartition(",")[2].rstrip("=")) * 3 // 4
    size_text = f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
    return f"[base64, {size_text}]"


def group_data(
    columns: Mapping[str, NDArray[Any]], shown_rows: NDArray[np.int64]
) -> dict[str, Any]:
    """Return ``groups``, ``siblings``, ``right`` (docs/page-data.md); {} if no group is shown."""
    n = columns["n"]
    group = columns["group"]
    rewards = columns["reward"]
    correctness = None if np.isnan(columns["correct"]).all() else columns["correct"]
    lengths = columns[length_column(columns)]
    is_shown = np.zeros(len(n), bool)
    is_shown[shown_rows] = True
    groups: list[list[int]] = []
    siblings: dict[str, list[float | None]] = {}
    order = np.argsort(group, kind="stable")
    cuts = np.flatnonzero(np.diff(group[order])) + 1
    for members in np.split(order, cuts):
        if len(members) < 2 or not is_shown[members].any():
            continue
        entries = members[is_shown[members] | (np.arange(len(members)) < MOST_SIBLINGS)]
        groups.append(n[entries].tolist())
        for row in entries[~is_shown[entries]].tolist():
            reward = float(f"{rewards[row]:.{REWARD_DIGITS}g}")
            values = [
                reward,
                lengths[row],
                *([] if correctness is None else [correctness[row]]),
            ]
            siblings[str(n[row])] = [None if v != v else float(v) for v in values]
    if not groups:
        return {}
    result: dict[str, Any] = {"groups": groups, "siblings": siblings}
    if correctness is not None:
        result["right"] = [
            None if v != v else int(v) for v in correctness[shown_rows].tolist()
        ]
    return result


def branch_data(
    columns: Mapping[str, NDArray[Any]], shown_rows: NDArray[np.int64]
) -> dict[str, list[list[int]]]:
    """Return {"branches": for each rollout of several rows, their n, trained first}, or {}."""
    shown = pd.DataFrame(
        {name: columns[name][shown_rows] for name in ("rollout", "validation", "n")}
    )
    rollouts = shown.dropna().sort_values(["validation", "n"]).groupby("rollout")["n"]
    branches = [members.tolist() for _, members in rollouts if len(members) > 1]
    return {"branches": branches} if branches else {}
