"""The exported files of a comparison: ``compare.json`` and the table of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from rlreport import __version__
from rlreport.check.finding import Finding
from rlreport.comparison.guardrails import Guardrail
from rlreport.comparison.headline import sentence
from rlreport.comparison.outcome import Flip, Outcome, prompt_numbers
from rlreport.comparison.saved import ResponseId
from rlreport.comparison.statistics import Effect, EqualKL
from rlreport.figures.rounding import difference
from rlreport.summarise.steps import rounded_columns

SCHEMA = 3
PROMPT_CHARACTERS = 400  # maximum length of a prompt


def compare_json(outcome: Outcome) -> dict[str, Any]:
    """Return the content of ``compare.json``, see ``schemas/compare.schema.json``."""
    comparison = outcome.comparison
    changed = outcome.changed
    windows = comparison.windows
    speed = {name: reached._asdict() for name, reached in comparison.speed.items()}
    band = comparison.band
    equal_kl = comparison.equal_kl
    return {
        "schema": SCHEMA,
        "generator": {"name": "rlreport", "version": __version__},
        "runs": {
            "base": [run.name for run in outcome.bases],
            "new": [run.name for run in outcome.news],
        },
        "levels": {
            "base": [run.level for run in outcome.bases],
            "new": [run.level for run in outcome.news],
        },
        "window": {  # of the first run of each side
            "steps": windows.new,
            "steps_base": windows.bases[0],
            "split": comparison.split,
        },
        "gate": {"failed": list(outcome.gate.failed), "exit": outcome.gate.exit},
        "verdict": _verdict(outcome),
        "guardrails": [_guardrail(guardrail) for guardrail in comparison.guardrails],
        "curves": {
            "step": windows.common.tolist(),
            "difference": band.difference.tolist(),
            "low": band.low.tolist(),
            "high": band.high.tolist(),
        },
        "findings": {
            "new": _ids(changed["new"]),
            "fixed": _ids(changed["fixed"]),
            "still": _ids(changed["still"]),
        },
        "flips": [_flip(flip) for flip in outcome.flips],
        "speed": speed or None,
        "equal_kl": _equal_kl(equal_kl["reward"]),
        "equal_kl_second_reward": _equal_kl(equal_kl["valid_reward"]),
    }


def _verdict(outcome: Outcome) -> dict[str, Any]:
    """Return the verdict on the reward, with the difference NEW - BASE and its interval."""
    comparison = outcome.comparison
    effect = comparison.effect
    return {
        "level": comparison.level,
        "sentence": sentence(outcome),
        **_effect(effect),
        "pairs": effect.pairs if effect.paired else 0,
        "only_base": comparison.only_base,
        "only_new": comparison.only_new,
        "paired": effect.paired,
        "reasons": comparison.reasons,
    }


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
