"""The exported files of a comparison: ``compare.json`` and the table of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from rlreport import __version__
from rlreport.about.card import redacted_text
from rlreport.check.finding import Finding
from rlreport.comparison.compare import Comparison
from rlreport.comparison.decomposition import Decomposition, Property, RewardPart
from rlreport.comparison.guardrails import Guardrail
from rlreport.comparison.headline import sentence
from rlreport.comparison.labels import Labels
from rlreport.comparison.outcome import Flip, Outcome, prompt_numbers
from rlreport.comparison.run import settings_that_differ
from rlreport.comparison.saved import ResponseId
from rlreport.comparison.scale import Levels
from rlreport.comparison.statistics import Effect, EqualKL
from rlreport.comparison.tasks import CHANGES, Task
from rlreport.comparison.why import why
from rlreport.figures.rounding import difference
from rlreport.summarise.steps import rounded_columns

SCHEMA = 4
PROMPT_CHARACTERS = 400  # maximum length of a prompt


def compare_json(outcome: Outcome) -> dict[str, Any]:
    """Return the content of ``compare.json``, see ``schemas/compare.schema.json``."""
    comparison = outcome.comparison
    changed = outcome.changed
    windows = comparison.windows
    speed = {name: reached._asdict() for name, reached in comparison.speed.items()}
    equal_kl = comparison.equal_kl
    return {
        "schema": SCHEMA,
        "generator": {"name": "rlreport", "version": __version__},
        **_runs(outcome),
        "window": {  # of the first run of each side
            "steps": windows.new,
            "steps_base": windows.bases[0],
            "split": comparison.split,
        },
        "labels": _labels(outcome.labels),
        "changed": _changed(outcome),
        "gate": {"failed": list(outcome.gate.failed), "exit": outcome.gate.exit},
        "verdict": _verdict(outcome),
        "parts": _parts(outcome.decomposition),
        "tasks": _tasks(outcome),
        "prompts": _prompt_counts(comparison),
        "guardrails": [_guardrail(guardrail) for guardrail in comparison.guardrails],
        "curves": _curves(comparison),
        "findings": {
            "new": _ids(changed["new"]),
            "fixed": _ids(changed["fixed"]),
            "still": _ids(changed["still"]),
        },
        "flips": [_flip(flip) for flip in outcome.flips],
        "speed": speed or None,
        "equal_kl": _equal_kl(equal_kl.get("reward")),
        "equal_kl_second_reward": _equal_kl(equal_kl.get("valid_reward")),
    }


def _runs(outcome: Outcome) -> dict[str, Any]:
    """Return the names of the runs of each side, and the levels of their own verdicts."""
    return {
        "runs": {
            "base": [run.name for run in outcome.bases],
            "new": [run.name for run in outcome.news],
        },
        "levels": {
            "base": [run.level for run in outcome.bases],
            "new": [run.level for run in outcome.news],
        },
    }


def _labels(labels: Labels) -> dict[str, Any]:
    """Return what the sides are called, and the setting after whose values they are."""
    return {"base": labels.base, "new": labels.new, "setting": labels.setting}


def _curves(comparison: Comparison) -> dict[str, Any]:
    """Return the difference NEW - BASE at the common steps, with its band."""
    band = comparison.band
    return {
        "step": comparison.windows.common.tolist(),
        "difference": band.difference.tolist(),
        "low": band.low.tolist(),
        "high": band.high.tolist(),
    }


def _verdict(outcome: Outcome) -> dict[str, Any]:
    """Return the verdict on the reward, with the difference NEW - BASE and its interval."""
    comparison = outcome.comparison
    effect = comparison.effect
    base, new = comparison.reward_means
    return {
        "level": comparison.level,
        "sentence": sentence(outcome),
        "why": why(outcome),
        "base": base,
        "new": new,
        **_effect(effect),
        "pairs": effect.pairs if effect.paired else 0,
        "only_base": comparison.only_base,
        "only_new": comparison.only_new,
        "paired": effect.paired,
        "trainer": _levels(comparison.trainer_levels),
        "reference": _levels(comparison.reference),
        "reasons": comparison.reasons,
    }


def _levels(levels: Levels | None) -> dict[str, float] | None:
    return None if levels is None else levels._asdict()


def _changed(outcome: Outcome) -> list[dict[str, str | None]]:
    """Return the settings that differ with both values, null where one is not set."""
    relevant, _ = settings_that_differ(outcome.base, outcome.new)
    return [
        {
            "setting": setting.key.removeprefix("config."),
            "base": _value(setting.key, setting.base, redact=outcome.redact),
            "new": _value(setting.key, setting.new, redact=outcome.redact),
        }
        for setting in relevant
    ]


def _value(key: str, value: str | None, *, redact: bool) -> str | None:
    return redacted_text(key, value) if redact and value is not None else value


def _parts(decomposition: Decomposition) -> dict[str, Any]:
    """Return what the difference goes with; ``main`` and ``main_part`` are those of ``why``."""
    main = decomposition.main
    main_part = decomposition.main_part
    return {
        "properties": [_property(one) for one in decomposition.properties],
        "reward_parts": [_reward_part(one) for one in decomposition.reward_parts],
        "main": main.id if main else None,
        "main_part": main_part.name if main_part else None,
    }


def _property(found: Property) -> dict[str, Any]:
    return {
        **found._asdict(),
        "contrast": found.contrast._asdict(),
        "share": _effect(found.share),
        "within": _effect(found.within),
    }


def _reward_part(found: RewardPart) -> dict[str, Any]:
    return {**found._asdict(), "effect": _effect(found.effect)}


def _tasks(outcome: Outcome) -> dict[str, Any]:
    """Return the difference by environment and by difficulty."""
    tasks = outcome.tasks
    return {
        "field": tasks.field,
        "environments": [_task(task) for task in tasks.environments],
        "difficulties": [_task(task) for task in tasks.difficulties],
    }


def _task(task: Task) -> dict[str, Any]:
    effect = _effect(task.effect)
    return {**task._asdict(), "effect": effect.pop("effect"), **effect}


def _prompt_counts(comparison: Comparison) -> dict[str, int] | None:
    """Return how many prompts improved, regressed and so on.

    None if they are not paired, or if rewards are on different scales.
    """
    if not comparison.effect.paired or comparison.reference is not None:
        return None
    changes = comparison.prompt_changes["change"]
    return {change: int((changes == change).sum()) for change in CHANGES.values()}


def _guardrail(guardrail: Guardrail) -> dict[str, Any]:
    return {
        "id": guardrail.id,
        "base": guardrail.base,
        "new": guardrail.new,
        **_effect(guardrail.effect),
        "level": guardrail.level,
    }


def _effect(effect: Effect) -> dict[str, float]:
    return {
        "effect": effect.value,
        "low": effect.low,
        "high": effect.high,
        "mde": effect.mde,
    }


def _ids(findings: Sequence[Finding]) -> list[str]:
    return [finding.id for finding in findings]


def _equal_kl(effect: EqualKL | None) -> dict[str, float] | None:
    return None if effect is None else effect._asdict()


def _flip(flip: Flip) -> dict[str, Any]:
    """Return a prompt won or lost, its mean rewards, and the responses nearest to these."""
    # Without texts, the prompt's number in NEW stands for it.
    prompt = flip.number if flip.prompt is None else flip.prompt[:PROMPT_CHARACTERS]
    return {
        "prompt": prompt,
        "base": flip.base,
        "new": flip.new,
        "delta": flip.delta,
        "responses": {
            "base": _response(flip.base_response),
            "new": _response(flip.new_response),
        },
    }


def _response(response: ResponseId) -> dict[str, int]:
    step, n = response
    return {"step": step, "n": n}


def prompts_table(outcome: Outcome) -> pd.DataFrame:
    """Return a row per compared prompt, with the rewards of both sides and their difference.

    Unless redacted, it also has the hash of the prompt, and the text of a prompt in ``flips``.
    """
    base, new = outcome.comparison.compared  # of the first run of each side
    base_rewards = _rewards_by_prompt(base).add_prefix("base_")
    new_rewards = _rewards_by_prompt(new).add_prefix("new_")
    table = base_rewards.join(new_rewards, how="outer").sort_index()
    table["difference"] = difference(table["new_reward"], table["base_reward"])
    table = rounded_columns(table)
    # Nullable integers, as NEW has no number for a prompt that only BASE has
    numbers = table.index.map(prompt_numbers(outcome.new))
    table.insert(0, "prompt_new", numbers.astype("Int64"))
    if not outcome.redact and outcome.new.side.named and outcome.base.side.named:
        texts = {}
        for flip in outcome.flips:
            texts[flip.pair] = (flip.prompt or "")[:PROMPT_CHARACTERS]
        table.insert(1, "prompt_hash", [f"{pair:016x}" for pair in table.index])
        table.insert(2, "prompt", [texts.get(pair, "") for pair in table.index])
    return table


def _rewards_by_prompt(responses: pd.DataFrame) -> pd.DataFrame:
    """Return the number of ``responses`` and the mean ``reward``, by ``pair``."""
    rewards = responses.groupby("pair")["reward"]
    return pd.DataFrame({"responses": rewards.size(), "reward": rewards.mean()})
