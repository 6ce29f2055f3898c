"""All checks in order of precedence, and their thresholds.

The order is: problems that invalidate a run, causes, consequences, notes. Among findings of equal
rank and severity, the one whose check stands first in this order comes first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from rlreport.check.check import Check
from rlreport.check.finding import Limit, Limits, Thresholds
from rlreport.check.judges import engine, environments, groups, hacking, log, policy, reward, text
from rlreport.check.noise import Trend
from rlreport.errors import UsageError
from rlreport.system.documents import load_toml, read_bounded

CHECKS: tuple[Check, ...] = (
    # What makes a run invalid.
    log.nan_metrics,
    log.mixed_runs,
    log.broken_log,
    # Causes.
    reward.reward_shift,
    hacking.reward_hacking_token,
    text.length_hacking,
    engine.stale_rollouts,
    engine.engine_mismatch,
    engine.off_policy_weights,
    engine.failed_rollouts,
    engine.tool_errors,
    engine.unparsed_calls,
    engine.markup_turns,
    engine.empty_results,
    engine.tool_disuse,
    policy.gradient_explosion,
    policy.ratio_drift,
    policy.no_updates,
    engine.negative_kl,
    engine.value_divergence,
    groups.advantage_mismatch,
    groups.zero_variance_groups,
    groups.dropped_groups,
    policy.entropy_explosion,
    # Consequences.
    text.loops,
    reward.reward_collapse,
    environments.environment_fall,
    hacking.watched_reward_fall,
    text.length_collapse,
    text.diversity_collapse,
    policy.entropy_collapse,
    text.template_collapse,
    engine.late_calls,
    engine.void_turns,
    engine.turn_limit,
    engine.unclosed_thinking,
    text.missing_eos,
    policy.kl_explosion,
    text.language_drift,
    groups.group_std_fall,
    # Notes.
    groups.missing_grades,
    environments.mix_changed,
    hacking.format_learned,
    reward.reward_stalled,
    groups.sharpening,
    hacking.reward_part_dominance,
    text.cut_texts,
    log.repeated_steps,
)

BY_ID: dict[str, Check] = {check.id: check for check in CHECKS}

# Section of a thresholds file ("trend" or a check's id) -> class of the thresholds in it
LIMITS: dict[str, type[Limits]] = {
    "trend": Trend,
    **{check.id: check.limits for check in CHECKS if check.limits.declared()},
}

MAX_TOML = 1_000_000  # Maximum size of a thresholds file, in bytes


def refuse_unknown(ids: Iterable[str]) -> None:
    for name in ids:
        if name not in BY_ID:
            raise UsageError(f"--mute {name}: unknown check; available checks: {', '.join(BY_ID)}")


def load_thresholds(path: str | Path) -> Thresholds:
    """Read a TOML file of thresholds (``[kl_explosion]``, ``warn = 10``) or raise UsageError."""
    file = Path(path)
    try:
        # Pipes and devices may be endless.
        if file.exists() and not (file.is_file() and file.stat().st_size <= MAX_TOML):
            raise UsageError(f"{path}: must be a TOML file of at most {MAX_TOML:,} bytes")
        tables = load_toml(read_bounded(file, MAX_TOML).decode())
    except OSError as error:
        raise UsageError(f"{path}: cannot read thresholds: {error.strerror or error}") from error
    except ValueError as error:  # no UTF-8, no TOML, a number of thousands of digits, NUL in a name
        raise UsageError(f"{path}: not valid TOML: {error}") from error
    for name, settings in tables.items():
        if name not in LIMITS:
            raise UsageError(f"{path}: unknown section [{name}]; known: {', '.join(LIMITS)}")
        if not isinstance(settings, dict):
            raise UsageError(f"{path}: {name} must be a table: list its thresholds under [{name}]")
        for key, value in settings.items():
            if problem := _problem(LIMITS[name].declared(), key, value):
                raise UsageError(f"{path}: [{name}] {problem}")
    return Thresholds({LIMITS[name].__name__: settings for name, settings in tables.items()})


def _problem(declared: Mapping[str, Limit[float]], key: str, value: object) -> str:
    if key not in declared:
        return f"has no threshold {key!r}; known: {', '.join(declared)}"
    is_integer = isinstance(declared[key].default, int)
    if isinstance(value, bool) or not isinstance(value, int if is_integer else int | float):
        return f"{key} must be {'an integer' if is_integer else 'a number'}"
    return "" if abs(value) <= sys.float_info.max else f"{key} must be finite"
