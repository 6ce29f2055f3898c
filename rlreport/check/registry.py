"""All checks in order of precedence, and their thresholds.

The order is: problems that invalidate a run, causes, consequences, notes. Among findings of equal
rank and severity, the one whose check stands first in this order comes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rlreport.check.check import Check
from rlreport.check.judges import (
    advantages,
    agents,
    batches,
    critic,
    diversity,
    environments,
    episodes,
    grading,
    groups,
    hacking,
    kl,
    labels,
    length,
    log,
    loops,
    metrics,
    policy,
    ranks,
    reference,
    reward,
    reward_parts,
    sampler,
    texts,
    tokens,
)
from rlreport.check.limits import Limits, Thresholds, problem_of
from rlreport.check.windows import Trend
from rlreport.errors import UsageError
from rlreport.system.documents import read_toml

CHECKS: tuple[Check, ...] = (
    # What makes a run invalid.
    log.nan_metrics,
    log.mixed_runs,
    log.broken_log,
    texts.answers_other_prompt,
    # Causes.
    reward.reward_shift,
    hacking.reward_hacking_token,
    reward_parts.unearned_gain,
    length.length_hacking,
    ranks.rank_differs,
    texts.garbled,
    texts.copied_responses,
    labels.rewards_shifted,
    labels.label_lost,
    labels.right_answers_unpaid,
    labels.label_reward_mismatch,
    grading.grader_inconsistent,
    grading.best_reward_gone,
    sampler.stale_rollouts,
    sampler.engine_mismatch,
    sampler.off_policy_weights,
    agents.failed_rollouts,
    agents.tool_errors,
    agents.unparsed_calls,
    agents.markup_turns,
    agents.empty_results,
    agents.tool_disuse,
    policy.gradient_explosion,
    policy.ratio_drift,
    metrics.tiny_responses,
    metrics.no_updates,
    batches.recurring_drops,
    reference.reference_is_policy,
    reference.reference_is_other,
    sampler.negative_kl,
    tokens.reward_not_trained,
    tokens.mask_covers_environment,
    tokens.eos_not_sampled,
    critic.value_divergence,
    advantages.advantage_mismatch,
    advantages.advantage_outlier,
    groups.zero_variance_groups,
    groups.dropped_groups,
    policy.entropy_explosion,
    # Consequences.
    loops.loops,
    reward.reward_collapse,
    environments.environment_fall,
    metrics.constant_reward,
    hacking.watched_reward_fall,
    reward_parts.part_falls,
    length.length_collapse,
    diversity.diversity_collapse,
    policy.entropy_collapse,
    diversity.template_collapse,
    agents.late_calls,
    agents.void_turns,
    agents.turn_limit,
    agents.unclosed_thinking,
    length.missing_eos,
    kl.kl_explosion,
    diversity.language_drift,
    groups.group_std_fall,
    # Notes.
    groups.missing_grades,
    environments.mix_changed,
    hacking.format_learned,
    labels.format_rewarded,
    reward.reward_stalled,
    groups.sharpening,
    hacking.reward_part_dominance,
    reward_parts.part_stays_zero,
    length.cut_texts,
    tokens.temperature,
    tokens.improbable_duplicates,
    tokens.tokens_are_not_text,
    metrics.clip_share_contradicts,
    metrics.sources_disagree,
    metrics.impossible_values,
    sampler.stuck_rollouts,
    episodes.passing_episode,
    log.repeated_steps,
    advantages.advantage_baseline,
    batches.uneven_groups,
    batches.order_repeated,
)

BY_ID: dict[str, Check] = {check.id: check for check in CHECKS}

# Section of a thresholds file ("trend" or a check's id) -> class of the thresholds in it
LIMITS: dict[str, type[Limits]] = {
    "trend": Trend,
    **{check.id: check.limits for check in CHECKS if check.limits.declared()},
}


def refuse_unknown(ids: Iterable[str]) -> None:
    """Raise UsageError if one of the ids that --mute names is not that of a check."""
    for check_id in ids:
        if check_id not in BY_ID:
            available = ", ".join(BY_ID)
            raise UsageError(
                f"--mute {check_id}: unknown check; available checks: {available}"
            )


def load_thresholds(path: str | Path) -> Thresholds:
    """Read a TOML file of thresholds (``[kl_explosion]``, ``warn = 10``) or raise UsageError."""
    sections = read_toml(Path(path), "thresholds")
    for name, settings in sections.items():
        problem = _problem_of_section(name, settings)
        if problem:
            raise UsageError(f"{path}: {problem}")
    # ``Thresholds`` are found by the class that declares them, not by the name of the section.
    return Thresholds(
        {LIMITS[name].__name__: settings for name, settings in sections.items()}
    )


def _problem_of_section(name: str, settings: object) -> str:
    """Return what is wrong with a section of a thresholds file, "" if nothing is.

    Args:
        name: the name of the section: "trend" or the id of a check that has thresholds.
        settings: what the file has under this name, a dict if it is a section at all.
    """
    if name not in LIMITS:
        return f"unknown section [{name}]; known: {', '.join(LIMITS)}"
    if not isinstance(settings, dict):
        return f"{name} must be a table: list its thresholds under [{name}]"
    declared = LIMITS[name].declared()
    for key, value in settings.items():
        problem = problem_of(declared, key, value)
        if problem:
            return f"[{name}] {problem}"
    return ""
