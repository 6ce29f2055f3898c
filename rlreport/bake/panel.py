"""Data for the panel that shows a response, its turns and its group; see docs/page-data.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.bake.context import extra_key, is_numeric
from rlreport.bake.views import ColumnView
from rlreport.figures.ragged import spans
from rlreport.rollout import Rollout, Turn
from rlreport.summarise.steps import NO_VARIANCE
from rlreport.tables import length_column
from rlreport.text.messages import Joined, message

# Maximum characters of a turn in a page; longer turns keep their beginning and end
MOST_CHARS = 40_000

# Maximum members of a group to list, in log order; shown responses are listed in addition
MOST_SIBLINGS = 64

REWARD_DIGITS = 4  # Significant digits of the rewards of group members that the page does not show
_END = MOST_CHARS // 4
_BASE64 = re.compile(r"(?:data:[\w.+/-]{1,80};base64,)?[A-Za-z0-9+/_-]{512,}={0,2}")
_LETTERS = re.compile(r"(.)\1{15}")
_CORRECT = re.compile(extra_key(r"(is_)?(correct|acc|accuracy)(/mean)?"), re.IGNORECASE)


def conversation_data(rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Return {"conversation": n -> turns, "given": n -> spans of unsampled tokens, "errors": …}."""
    parts: dict[str, dict[str, Any]] = {"conversation": {}, "given": {}, "errors": {}}
    for rollout in rollouts:
        n = str(rollout.n)
        parts["conversation"][n] = [_turn(turn) for turn in rollout.conversation]
        if rollout.sampled is not None and rollout.raw_tokens:
            parts["given"][n] = spans(~rollout.sampled).tolist()
        parts["errors"][n] = [_short(error) for error in rollout.errors]
    filled = {key: {n: value for n, value in part.items() if value} for key, part in parts.items()}
    return {key: part for key, part in filled.items() if part}


def _turn(turn: Turn) -> dict[str, Any]:
    """Return a turn as a dict (JSON object); empty values are omitted."""
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
    cut = message("[{count:count} characters left out]", count=left)
    return Joined("\n", [text[: MOST_CHARS - _END], cut, text[-_END:]])


def _size(match: re.Match[str]) -> str:
    text = match[0]
    # A line of dashes, or of one repeated letter, is not base64.
    if not text.startswith("data:") and _LETTERS.search(text[:64]):
        return text
    size = len(text.rpartition(",")[2].rstrip("=")) * 3 // 4
    size_text = f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
    return f"[base64, {size_text}]"


# Columns that the response list has only if responses have groups
GROUP_COLUMNS = (
    ColumnView(
        "group", message("Group no."), help=message("the same for all responses of a group"),
        hidden=True, written="count",
    ),
    ColumnView(
        "group_mean", message("Group mean"), help=message("mean reward of the group"), hidden=True
    ),
    ColumnView(
        "group_std", message("Group std"), help=message("population std of the group's rewards"),
        hidden=True,
    ),
    ColumnView(
        "group_advantage", message("Advantage in group"),
        help=message("(reward − group mean) / group std, computed from the rewards"), hidden=True,
    ),
)  # fmt: skip


def group_figures(responses: pd.DataFrame) -> dict[str, NDArray[np.float64]]:
    """Return the values of GROUP_COLUMNS of all responses: column key -> float64 (rows,).

    NaN rewards are ignored; all columns are NaN for groups with fewer than two non-NaN rewards.
    The advantage is that of GRPO (Shao et al. 2024) without ε, NaN if the std is below NO_VARIANCE.
    """
    of_group = responses.groupby(["step", "group"])["reward"]
    several = of_group.transform("count") > 1
    with np.errstate(over="ignore", invalid="ignore"):
        mean = of_group.transform("mean").where(several)
        std = of_group.transform("std", ddof=0).where(several)
        advantage = ((responses["reward"] - mean) / std).where(std >= NO_VARIANCE)
    group = responses["group"].where(several)
    parts = (group, mean, std, advantage)
    return {
        column.key: part.to_numpy(np.float64)
        for column, part in zip(GROUP_COLUMNS, parts, strict=True)
    }


def group_data(
    columns: Mapping[str, NDArray[Any]], shown_rows: NDArray[np.int64], *, ground_truth: bool
) -> dict[str, Any]:
    """Return the groups of a step's shown responses, as ``groups``, ``siblings`` and ``right``.

    ``groups``: n of the members of each group. ``siblings``: n of a member that is not shown ->
    reward, length, correctness. ``right``: correctness of the shown responses, if it is known.

    Args:
        columns: ``StepJob.columns``.
        shown_rows: positions of the shown responses, in the order of the list.
        ground_truth: whether the log holds ground truths.
    """
    n, group, rewards = columns["n"], columns["group"], columns["reward"]
    correctness = _correctness(columns, ground_truth=ground_truth)
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
            values = [reward, lengths[row], *([] if correctness is None else [correctness[row]])]
            siblings[str(n[row])] = [None if v != v else float(v) for v in values]
    if not groups:
        return {}
    result: dict[str, Any] = {"groups": groups, "siblings": siblings}
    if correctness is not None:
        result["right"] = [None if v != v else int(v) for v in correctness[shown_rows].tolist()]
    return result


def _correctness(
    columns: Mapping[str, NDArray[Any]], *, ground_truth: bool
) -> NDArray[np.float64] | None:
    """Return 1 for correct, 0 for wrong, NaN for unknown responses; None if it is not logged.

    Read from a 0/1 column named like "is_correct" or "acc"; else, if the log has ground truths
    and the reward has exactly two values, the larger one means correct.
    """
    for key, values in columns.items():
        if _CORRECT.fullmatch(key) and is_numeric(values):
            graded = values.astype(np.float64)
            if np.isin(graded[~np.isnan(graded)], (0.0, 1.0)).all():
                return graded
    reward = columns["reward"]
    distinct_rewards = np.unique(reward[~np.isnan(reward)])
    if not ground_truth or len(distinct_rewards) != 2:
        return None
    return np.where(np.isnan(reward), np.nan, (reward == distinct_rewards[1]).astype(np.float64))
