"""Data of the response panel: conversation, group, branches."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.pages.page_data import (
    BranchData,
    ConversationData,
    GradingData,
    GroupData,
    TurnData,
)
from rlreport.read.rollouts import Rollout, Turn
from rlreport.tables import length_column
from rlreport.text.labels import final_answer, is_hit, usable_label
from rlreport.text.messages import Joined, plural

# Maximum characters of a turn in a page; longer turns keep their beginning and end
MOST_CHARS = 40_000

# Maximum members of a group to list, in log order; shown responses are listed in addition
MOST_SIBLINGS = 64

# Significant digits of the rewards of group members that the page does not show
REWARD_DIGITS = 4
_END = MOST_CHARS // 4  # characters that are kept of the end of a longer turn
_LEAST_BASE64 = 512  # shorter base64 stays as it is
_BASE64 = re.compile(
    rf"(?:data:[\w.+/-]{{1,80}};base64,)?[A-Za-z0-9+/_-]{{{_LEAST_BASE64},}}={{0,2}}"
)
_REPEATED = re.compile(r"(.)\1{15}")


def conversation_data(rollouts: Sequence[Rollout]) -> ConversationData:
    """Return turns and errors of the responses that have any.

    docs/page-data.md describes ``conversation`` and ``errors``, by the response's n.
    """
    turns: dict[str, list[TurnData]] = {}
    errors: dict[str, list[str]] = {}
    for rollout in rollouts:
        n = str(rollout.n)
        if rollout.conversation:
            turns[n] = [_turn(turn) for turn in rollout.conversation]
        if rollout.errors:
            errors[n] = [_short(error) for error in rollout.errors]
    data: ConversationData = {}
    if turns:
        data["conversation"] = turns
    if errors:
        data["errors"] = errors
    return data


def grading_data(rollouts: Sequence[Rollout]) -> GradingData:
    """Return texts of judges, and final answers of responses that have a ground truth.

    docs/page-data.md describes ``judged`` and ``answers``.
    """
    judged: dict[str, list[tuple[str, str]]] = {}
    answers: dict[str, tuple[str, int | None]] = {}
    for rollout in rollouts:
        n = str(rollout.n)
        if rollout.judged:
            judged[n] = rollout.judged
        if rollout.ground_truth is None:
            continue
        answer = final_answer(rollout.response)
        if not answer.is_explicit:  # the last words of a text need not be its answer
            continue
        label = usable_label(rollout.ground_truth)
        answers[n] = answer.text, None if label is None else int(is_hit(answer, label))
    data: GradingData = {}
    if judged:
        data["judged"] = judged
    if answers:
        data["answers"] = answers
    return data


def _turn(turn: Turn) -> TurnData:
    """Return a turn for scripts: only what it has, as pages have thousands of turns."""
    data: TurnData = {"role": turn.role, "text": _short(turn.text)}
    if turn.sampled:
        data["sampled"] = True
    if turn.thinking:
        data["thinking"] = _short(turn.thinking)
    if turn.calls:
        data["calls"] = [(name, _short(arguments)) for name, arguments in turn.calls]
    if turn.tool:
        data["tool"] = turn.tool
    if turn.error:
        data["error"] = _short(turn.error)
    if turn.tokens is not None:
        data["tokens"] = turn.tokens
    if turn.seconds is not None:
        data["seconds"] = turn.seconds
    if turn.reward is not None:
        data["reward"] = turn.reward
    return data


def _short(text: str) -> str:
    """Replace base64 data by its size, and cut the middle of texts longer than MOST_CHARS."""
    if len(text) >= _LEAST_BASE64:
        text = _BASE64.sub(_base64_size, text)
    if len(text) <= MOST_CHARS:
        return text
    left = len(text) - MOST_CHARS
    cut = plural("[{count} character left out]", "[{count} characters left out]", left)
    return Joined("\n", [text[: MOST_CHARS - _END], cut, text[-_END:]])


def _base64_size(match: re.Match[str]) -> str:
    """Return what replaces base64 data, such as "[base64, 1.2 MB]"; other text unchanged."""
    text = match[0]
    # A line of dashes, or of one repeated letter, is not base64.
    if not text.startswith("data:") and _REPEATED.search(text[:64]):
        return text
    # Four characters encode three bytes.
    size = len(text.rpartition(",")[2].rstrip("=")) * 3 // 4
    size_text = f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
    return f"[base64, {size_text}]"


def group_data(
    columns: Mapping[str, NDArray[Any]], shown_rows: NDArray[np.int64]
) -> GroupData:
    """Return the groups of which the page shows a response, with what it says of the others.

    docs/page-data.md describes ``groups``, ``siblings`` and ``right``; {} if no group is shown.

    Args:
        columns: those of all responses of the step.
        shown_rows: positions of the page's responses in these columns.
    """
    numbers = columns["n"]
    group = columns["group"]
    is_shown = np.zeros(len(numbers), bool)
    is_shown[shown_rows] = True
    siblings = _SiblingFigures.of(columns)
    groups: list[list[int]] = []
    not_shown: dict[str, list[float | None]] = {}
    # Sorting is stable, so the members of a group stay in log order.
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order])) + 1
    for members in np.split(order, starts):  # rows of ``columns``
        if len(members) < 2 or not is_shown[members].any():
            continue
        # A group may have thousands of members: the shown ones and the first are listed.
        is_first = np.arange(len(members)) < MOST_SIBLINGS
        entries = members[is_shown[members] | is_first]
        groups.append(numbers[entries].tolist())
        for row in entries[~is_shown[entries]].tolist():
            not_shown[str(numbers[row])] = siblings.at(row)
    if not groups:
        return {}
    data: GroupData = {"groups": groups, "siblings": not_shown}
    if siblings.correct is not None:
        grades = siblings.correct[shown_rows].tolist()
        data["right"] = [None if math.isnan(grade) else int(grade) for grade in grades]
    return data


@dataclass(frozen=True, slots=True)
class _SiblingFigures:
    """What the panel says of members of a group that the page does not show."""

    reward: NDArray[np.float64]
    length: NDArray[np.float64]
    correct: NDArray[np.float64] | None  # None if it is known of no response

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[Any]]) -> _SiblingFigures:
        correct = columns["correct"]
        return cls(
            reward=columns["reward"],
            length=columns[length_column(columns)],
            correct=None if np.isnan(correct).all() else correct,
        )

    def at(self, row: int) -> list[float | None]:
        """Return reward, length and, if it is known of any, whether the response is right."""
        values = [float(f"{self.reward[row]:.{REWARD_DIGITS}g}"), self.length[row]]
        if self.correct is not None:
            values.append(self.correct[row])
        return [None if math.isnan(value) else float(value) for value in values]


def branch_data(
    columns: Mapping[str, NDArray[Any]], shown_rows: NDArray[np.int64]
) -> BranchData:
    """Return ``branches``, {} if there are none: the responses that belong to one rollout.

    For each rollout that was logged as several responses (branches), it has the numbers n of those
    that the page shows, the trained one first. For the parameters see ``group_data``.
    """
    if not np.isfinite(columns["rollout"][shown_rows]).any():  # as in most runs
        return {}
    names = ("rollout", "validation", "n")
    shown = pd.DataFrame({name: columns[name][shown_rows] for name in names})
    # Responses without a rollout are dropped, as their ``rollout`` is NaN. ``validation`` is a
    # ``RowRole``, of which TRAINING is the smallest.
    ordered = shown.dropna().sort_values(["validation", "n"])
    rollouts = ordered.groupby("rollout")["n"]
    branches = [numbers.tolist() for _, numbers in rollouts if len(numbers) > 1]
    return {"branches": branches} if branches else {}
