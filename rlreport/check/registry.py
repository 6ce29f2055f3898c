"""The checks, in the order in which they lead: what invalidates a run, causes, consequences, notes.

Among findings of one rank and severity this order decides which comes first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rlreport.check.check import Check
from rlreport.check.judges import (
    agents,
    engine,
    groups,
    hacking,
    length,
    log,
    policy,
    reward,
    text,
)
from rlreport.check.limits import Limit, Limits, Thresholds
from rlreport.check.windows import Trend
from rlreport.errors import UsageError
from rlreport.sidefiles import load_toml, read_bounded

CHECKS: tuple[Check, ...] = (
    log.nan_metrics,
    log.mixed_runs,
    log.broken_log,
    reward.reward_shift,
    groups.missing_grades,
    hacking.reward_hacking_token,
    length.length_hacking,
    engine.stale_rollouts,
    engine.mismatch_by_turn,
    engine.engine_mismatch,
    engine.off_policy_weights,
    agents.failed_rollouts,
    agents.tool_errors,
    agents.tool_disuse,
    engine.gradient_explosion,
    engine.ratio_drift,
    engine.negative_kl,
    engine.value_divergence,
    groups.zero_variance_groups,
    policy.entropy_explosion,
    reward.reward_collapse,
    hacking.watched_reward_fall,
    length.length_collapse,
    text.diversity_collapse,
    policy.entropy_collapse,
    text.template_collapse,
    agents.void_turns,
    agents.turn_limit,
    agents.unclosed_thinking,
    length.missing_eos,
    policy.kl_explosion,
    text.language_drift,
    groups.group_std_fall,
    hacking.format_learned,
    reward.reward_stalled,
    groups.persistent_losers,
    groups.not_sharpening,
    hacking.reward_part_dominance,
    groups.uneven_groups,
    length.cut_texts,
    log.lost_columns,
)

BY_ID: dict[str, Check] = {check.id: check for check in CHECKS}

LIMITS: dict[str, type[Limits]] = {
    "trend": Trend,
    **{check.id: check.limits for check in CHECKS if check.limits.declared()},
}
"""Threshold classes by their section in a thresholds file: ``trend`` and the ids of checks."""

MAX_TOML = 1_000_000
"""Largest thresholds file that is read, in bytes."""


def refuse_unknown(ids: Iterable[str]) -> None:
    """Raise UsageError if an id is not that of a check."""
    for name in ids:
        if name not in BY_ID:
            raise UsageError(f"--mute {name}: unknown check; known: {', '.join(BY_ID)}")


@dataclass(frozen=True, slots=True)
class ThresholdRow:
    """A threshold as documented: its section, its declaration and its current value."""

    group: str
    limit: Limit[float]
    value: float


def describe(thresholds: Thresholds | None = None) -> list[ThresholdRow]:
    """Return all thresholds, for the docs and ``rlreport checks``."""
    values = thresholds or Thresholds()
    return [
        ThresholdRow(group, limit, getattr(values[kind], key))
        for group, kind in LIMITS.items()
        for key, limit in kind.declared().items()
    ]


def load_thresholds(path: str | Path) -> Thresholds:
    """Read thresholds from TOML (``[kl_explosion]``, ``warn = 10``); others keep their defaults.

    Raises:
        UsageError: the file cannot be read, is not TOML, or holds an unknown section, an
            unknown key or a value that is not a finite number.
    """
    file = Path(path)
    try:
        # Pipes and devices may be endless.
        if file.exists() and not (file.is_file() and file.stat().st_size <= MAX_TOML):
            raise UsageError(f"{path}: is no file of at most {MAX_TOML:,} bytes; give a TOML file")
        tables = load_toml(read_bounded(file, MAX_TOML).decode())
    except OSError as error:
        raise UsageError(f"{path}: cannot read thresholds: {error.strerror or error}") from error
    except ValueError as error:  # no UTF-8, no TOML, a number of thousands of digits, NUL in a name
        raise UsageError(f"{path}: not valid TOML: {error}") from error
    for name, settings in tables.items():
        if name not in LIMITS:
            raise UsageError(f"{path}: unknown check [{name}]; known: {', '.join(LIMITS)}")
        if not isinstance(settings, dict):
            raise UsageError(f"{path}: [{name}] must be a table, such as [{name}]")
        _validate(settings, LIMITS[name].declared(), f"{path}: [{name}]")
    return Thresholds({LIMITS[name].__name__: settings for name, settings in tables.items()})


def _validate(
    settings: Mapping[str, object], declared: Mapping[str, Limit[float]], where: str
) -> None:
    """Raise UsageError for an unknown key, or a value of the wrong type."""
    for key, value in settings.items():
        if key not in declared:
            raise UsageError(f"{where} has no threshold {key!r}; known: {', '.join(declared)}")
        whole = isinstance(declared[key].default, int)
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            kind = "a whole number" if whole else "a number"
            raise UsageError(f"{where} {key} must be {kind}, not {_shorten(value)}")
        if not abs(value) <= sys.float_info.max:
            raise UsageError(f"{where} {key} must be finite, not {_shorten(value)}")


def _shorten(value: object) -> str:
    try:
        return f"{value!r:.40}"
    except ValueError:  # Python refuses to write out such an integer
        return "one of thousands of digits"
