"""rewardspy's rules as a baseline: its thresholds, written anew with NumPy.

Thresholds and windows as in the detectors of github.com/AvAdiii/rewardspy, sensitivity
"medium", window of 100 rollouts, lengths in characters. It judges online, after each rollout; a
rule counts as fired if it ever fired, so what comes after a first alarm is not followed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .figures import Row, reward

WINDOW = 100
MEANS = {
    "variance": ("diversity_collapse", "reward_hacking_token", "zero_variance_groups"),
    "slope": ("reward_collapse", "reward_shift", "reward_hacking_token"),
    "ceiling": ("reward_hacking_token",),
    "length": ("length_hacking", "length_collapse", "missing_eos"),
    "component": ("reward_part_dominance",),
    "groups": ("zero_variance_groups",),
}
"""Which findings each rule may count for, generously."""


def _cusum(rewards: Sequence[float]) -> int | None:
    """First rollout at which the sum of deviations beyond 0.5 from the mean passes 5."""
    up = down = 0.0
    base = float(np.mean(rewards[:20]))
    for i in range(20, len(rewards)):
        up = max(0.0, up + rewards[i] - base - 0.5)
        down = max(0.0, down - (rewards[i] - base) - 0.5)
        if max(up, down) > 5.0:
            return i
    return None


def _first(fires: Any) -> int | None:
    where = np.flatnonzero(fires)
    return int(where[0]) if where.size else None


def judge(rows: Sequence[Row]) -> dict[str, int]:
    """Return the step at which each rule first fires, by rule; those that never do are absent."""
    rows = sorted((r for r in rows if np.isfinite(reward(r))), key=lambda r: int(r["step"]))
    rewards = np.array([reward(r) for r in rows])
    lengths = np.array([float(len(r["response"])) for r in rows])
    fired: dict[str, int | None] = {"slope": _cusum(list(rewards))}
    if len(rows) >= WINDOW:
        rolling = np.lib.stride_tricks.sliding_window_view(rewards, WINDOW)
        # The baseline is frozen when the window first is full: its first fifth.
        base = rewards[: WINDOW // 5].std()
        if base >= 1e-6:
            fired["variance"] = _first(rolling.std(axis=1) / base < 0.2)
        highest = np.maximum.accumulate(rewards)[WINDOW - 1 :]
        at_ceiling = (rolling >= 0.99 * highest[:, None]).mean(axis=1)
        fired["ceiling"] = _first((at_ceiling > 0.8) & (highest > 0))
        spread = lengths[:WINDOW].std()
        if spread >= 1 and len(rows) >= 2 * WINDOW:
            means = np.lib.stride_tricks.sliding_window_view(lengths, WINDOW).mean(axis=1)
            drifted = np.abs(means - lengths[:WINDOW].mean()) / spread > 3
            drifted[:WINDOW] = False
            fired["length"] = _first(drifted)
    found = {
        rule: int(rows[min(i + (0 if rule == "slope" else WINDOW - 1), len(rows) - 1)]["step"])
        for rule, i in fired.items()
        if i is not None
    }
    for rule, step in (("component", _component(rows)), ("groups", _groups(rows))):
        if step is not None:
            found[rule] = step
    return found


def _component(rows: Sequence[Row]) -> int | None:
    """A part's mean over the window is more than three quarters of all parts' means."""
    parts: Sequence[Mapping[str, float]] = [r["reward_parts"] for r in rows if "reward_parts" in r]
    if len(parts) < 30 or len(parts[0]) < 2:
        return None
    table = np.array([[p.get(name, 0.0) for name in parts[0]] for p in parts])
    for i in range(30, len(table) + 1):
        means = np.abs(table[max(0, i - WINDOW) : i].mean(axis=0))
        if means.sum() > 1e-6 and means.max() / means.sum() > 0.75:
            return int(rows[i - 1]["step"])
    return None


def _groups(rows: Sequence[Row]) -> int | None:
    """More than half of the last 500 groups have no variance."""
    groups: dict[Any, list[float]] = defaultdict(list)
    for row in rows:
        if "group_id" in row:
            groups[row["step"], row["group_id"]].append(reward(row))
    collapsed = np.array([np.std(g) < 1e-6 for g in groups.values()])
    for i in range(20, len(collapsed) + 1):
        if collapsed[max(0, i - 500) : i].mean() > 0.5:
            return int(list(groups)[i - 1][0])
    return None


def table(runs: Mapping[str, tuple[Sequence[Row], Mapping[str, Any]]]) -> list[str]:
    """Return lines: what the rules say of each run beside its truth, and the sums.

    A finding is found if a rule fires that may stand for it; a rule that fires and stands for
    nothing expected (nor anything on which the truth is silent) is a false alarm. The onset
    is the step at which the first right rule fires.
    """
    lines: list[str] = []
    expected = found = alarms = disturbed = healthy = inside = onsets = 0
    for name, (rows, truth) in runs.items():
        fired = judge(rows)
        hit = {c for c in truth["expected"] if any(c in MEANS[rule] for rule in fired)}
        wrong = [rule for rule in fired if all(c in truth["not_expected"] for c in MEANS[rule])]
        right = [step for rule, step in fired.items() if set(MEANS[rule]) & hit]
        expected, found = expected + len(truth["expected"]), found + len(hit)
        alarms += len(wrong)
        if not truth["expected"]:
            healthy, disturbed = healthy + 1, disturbed + bool(wrong)
        if truth["onset"]:
            onsets += 1
            inside += bool(right) and truth["onset"][0] <= min(right) <= truth["onset"][1]
        said = ", ".join(f"{rule} {step}" for rule, step in fired.items()) or "-"
        lines.append(f"{name:26} {said:44} found {sorted(hit)} wrong {wrong}")
    lines.append(
        f"rewardspy's rules: found {found} of {expected}; wrong {alarms}, on {disturbed} of "
        f"{healthy} healthy runs; onset right in {inside} of {onsets}"
    )
    return lines
