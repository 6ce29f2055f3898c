"""All checks in order of precedence, their thresholds, and texts that explain the verdict.

The order is: problems that invalidate a run, causes, consequences, notes. Among findings of equal
rank and severity, the one whose check stands first in this order comes first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rlreport.check.check import Check
from rlreport.check.finding import Limit, Limits, Thresholds
from rlreport.check.judges import engine, environments, groups, hacking, log, policy, reward, text
from rlreport.check.noise import Trend
from rlreport.errors import UsageError
from rlreport.system.documents import load_toml, read_bounded

CHECKS: tuple[Check, ...] = (
    # What makes a run invalid.
    *(log.nan_metrics, log.mixed_runs, log.broken_log),
    # Causes.
    *(reward.reward_shift, hacking.reward_hacking_token),
    *(text.length_hacking, engine.stale_rollouts),
    *(engine.engine_mismatch, engine.off_policy_weights, engine.failed_rollouts),
    *(engine.tool_errors, engine.unparsed_calls, engine.markup_turns, engine.empty_results),
    engine.tool_disuse,
    *(policy.gradient_explosion, policy.ratio_drift, policy.no_updates, engine.negative_kl),
    *(engine.value_divergence, groups.advantage_mismatch, groups.zero_variance_groups),
    *(groups.dropped_groups, policy.entropy_explosion),
    # Consequences.
    *(text.loops, reward.reward_collapse, environments.environment_fall),
    *(hacking.watched_reward_fall, text.length_collapse),
    *(text.diversity_collapse, policy.entropy_collapse, text.template_collapse),
    *(
        engine.late_calls,
        engine.void_turns,
        engine.turn_limit,
        engine.unclosed_thinking,
        text.missing_eos,
    ),
    *(policy.kl_explosion, text.language_drift, groups.group_std_fall),
    # Notes.
    groups.missing_grades,
    *(environments.mix_changed, hacking.format_learned, reward.reward_stalled, groups.sharpening),
    *(hacking.reward_part_dominance, groups.uneven_groups, text.cut_texts, log.repeated_steps),
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


@dataclass(frozen=True, slots=True)
class ThresholdRow:
    """A threshold for documentation: section of the file, declaration, and current value."""

    group: str
    limit: Limit[float]
    value: float


def describe(thresholds: Thresholds | None = None) -> list[ThresholdRow]:
    """Return all thresholds with their current values, for the docs and ``rlreport checks``."""
    values = thresholds or Thresholds()
    return [
        ThresholdRow(group, limit, getattr(values[kind], key))
        for group, kind in LIMITS.items()
        for key, limit in kind.declared().items()
    ]


def load_thresholds(path: str | Path) -> Thresholds:
    """Read thresholds from a TOML file (``[kl_explosion]``, ``warn = 10``) over the defaults."""
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
            raise UsageError(f"{path}: unknown check [{name}]; known: {', '.join(LIMITS)}")
        if not isinstance(settings, dict):
            raise UsageError(f"{path}: [{name}] must be a table, such as [{name}]")
        for key, value in settings.items():
            if problem := _problem(LIMITS[name].declared(), key, value):
                raise UsageError(f"{path}: [{name}] {problem}")
    return Thresholds({LIMITS[name].__name__: settings for name, settings in tables.items()})


def _problem(declared: Mapping[str, Limit[float]], key: str, value: object) -> str:
    if key not in declared:
        return f"has no threshold {key!r}; known: {', '.join(declared)}"
    is_integer = isinstance(declared[key].default, int)
    if isinstance(value, bool) or not isinstance(value, int if is_integer else int | float):
        return f"{key} must be {'a whole number' if is_integer else 'a number'}"
    return "" if abs(value) <= sys.float_info.max else f"{key} must be finite"


def _section(title: str, *paragraphs: str) -> tuple[str, tuple[str, ...]]:
    return title, paragraphs


# Sections (title and paragraphs) of the report that explain how the verdict is found
METHOD = (
    _section(
        "The verdict",
        "The worst finding, explained ones included, sets its first word: Broken (critical) or "
        "Warning. A run without such a finding is Healthy if its reward, or the watched reward, "
        "rose by more than chance, or if it was solved from the start; otherwise it is Unclear. "
        "A run of fewer than five steps is not judged.",
        "The death of a run leads: a reward that stays at its lowest value to the end, a reward "
        "that ends further below its start than it had ever been above it, or responses that "
        "are all empty. Critical findings come next, then warnings; within each, first what "
        "makes the run invalid (NaN, holes in the log), then causes, consequences and notes, in "
        "the order below. A cause explains a consequence, or a death, if it can lead to it and "
        "did not begin later: the interval of its onset begins at most one step after that of "
        "the consequence ends. A consequence without an onset is explained, too. Explained "
        "findings are listed under their cause.",
        "The bold sentence says what happened and since when, its gravest effect if both fit into "
        "25 words, and which checkpoint to keep; the second line is the course of the reward and "
        "of the watched reward, a second reward of training (valid_reward) or else that of "
        "validation. “Rose” and “fell” are said only of a change beyond noise.",
        "The checkpoint to keep is named by a step: keep the last one saved at or before it. By "
        "the watched reward, else the reward, it is the latest step that is within noise of the "
        "best before the first critical finding began or, without a critical one, before the "
        "reward was lost; if a step before the first warning is as good, it is the latest of "
        "these. Otherwise it is the last step, unless the reward was lost again, or the watched "
        "reward lies below its best by √(2 ln(n / w)) standard errors. Where nothing was gained, "
        "none is named, and never an incomplete step or one before a change of the reward "
        "function.",
    ),
    _section(
        "The course",
        "Sentence, tiles and charts speak of the same windows of w consecutive values of a "
        "series of n: w = min(max(m, min(10, n / 20)), n / 3), rounded, at least 1; m is 1 for "
        "the watched reward and 3 otherwise. First and last are the means of the first and the "
        "last w values, best is the highest mean (for KL the lowest) of any w consecutive ones, "
        "the earliest of equals. Best is named only if it lies above last by more than "
        "2 + √(2 ln(n / w)) standard errors, because the best of many windows is high by chance.",
        "Each quantity has one leading series: the trainer's metric if it is logged at half of "
        "the steps or more, else the mean over the logged rollouts.",
        "Phases (rise, flat, fall, dead, recovery) are at most five straight pieces, each longer "
        "than w, that fit the series with the least squares; a further piece has to gain "
        "4 ln(n) noise variances. A piece is flat if it changes by less than three standard "
        "errors or 8% of the range, dead if it is flat after a fall and within 3% of the range "
        "above the lowest value. A running median removes spikes. Of a series of more than 300 "
        "values, means are fitted.",
    ),
    _section(
        "Rollouts and trainer metrics",
        "The trainer's mean of a step covers all its rollouts, while a log may hold only some "
        "of them. If the trainer logs a figure at half of the steps or more, checks judge that "
        "series and tiles show it; rollouts give the examples. What a metric measures, and its "
        "unit, follow from its name. Metrics with unknown names are only drawn as charts.",
    ),
    _section(
        "Rise, fall, death",
        "The reward by step is judged over all steps. Its noise is the median absolute "
        "difference of successive steps, which a trend hardly changes; if steps are "
        "autocorrelated, means of several steps have a larger error (AR(1)). It rose if the "
        "slope, or the last window against the first, exceeds that noise. It fell if it lost "
        "part of its gain by more than noise, wherever its best steps lie. The last 3, 5 and 10 "
        "steps are also judged separately. A fall that recovered has a first and a last step.",
    ),
    _section(
        "Environments",
        "If the log names the environment of each response, the reward of each of the 12 largest "
        "is judged like that of the run, with Holm's correction. A fall of the mean is split into "
        "Σ m̄ Δs, from a changed mix, and Σ s̄ Δm, from changed rewards (s: share, m: mean reward; "
        "bars: means of both windows). If the mix explains most of it, the reward did not "
        "collapse.",
    ),
    _section(
        "Windows",
        "Checks compare two windows: the first fifth of the steps and the last, at least three "
        "steps each. A difference must be large enough and significant "
        "by the larger of two standard errors, one over responses (clustered by prompt) and one "
        "over step means.",
        "Checks judge the steps before the first NaN in rewards or log-probabilities. If the "
        "reward function changed, checks of the reward judge its gap to the reference or, "
        "without a reference, the longer part of the run.",
    ),
    _section(
        "Since when",
        "All checks date their findings in the same way, by their own figure per step. The "
        "baseline is the mean of the first three steps or, for a fall, of the best ones. The "
        "figure is smoothed over three steps. The onset is the first step from which it stays "
        "beyond the baseline, to the end, by four standard errors and by a tenth of the whole "
        "change. The interval begins at the first corner of the best ramp (flat, linear, flat) "
        "and ends at the step from which a third of the change remains. A problem present from "
        "the start has the first step as its onset.",
    ),
    _section(
        "Texts that spread",
        "Units are words in lower case, numbers, single CJK characters and runs of punctuation; "
        "texts are one to four of them in a row. A text spreads if the share of sampled "
        "responses that contain it rose significantly, by its log-odds ratio with an "
        "informative Dirichlet prior (Monroe, Colaresi and Quinn 2008, equations 15, 19 and "
        "22). Responses are counted, not occurrences. It is called reward hacking only if "
        "responses that contain it earn more than others of the same step, fewer than half of "
        "the prompts contain it, and something else got worse.",
    ),
    _section(
        "Evidence",
        "Three responses after the onset, of different prompts, the clearest first, and only "
        "such as differ from normal ones in the finding's own figure: beyond nine tenths of the "
        "responses before the onset. If no logged response does, the finding says how many were "
        "looked at. If a prompt recurs, the last response to it before the onset is shown next "
        "to it.",
    ),
    _section(
        "Thresholds",
        "Any threshold can be set in a TOML file given with --thresholds, under the name of its "
        "check. A finding can be set aside with --mute ID=REASON: it is shown as muted, with the "
        "reason.",
        "If a well-known figure reaches half of its threshold without a finding, it is named below "
        "the findings, with the threshold.",
    ),
)
