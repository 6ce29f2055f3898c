"""``data/compare.json`` and ``prompts.csv``; ``rlreport/schemas`` has the JSON Schema."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from rlreport import __version__
from rlreport.comparison.flips import Flip
from rlreport.comparison.guardrails import Guardrail
from rlreport.comparison.outcome import FlipTexts, Outcome
from rlreport.comparison.statistics import EqualKL
from rlreport.comparison.words import sentence

SCHEMA = 1
PROMPT_CHARACTERS = 400


def compare_json(outcome: Outcome) -> dict[str, Any]:
    """Return the comparison as plain values, keys in a fixed order."""
    comparison = outcome.comparison
    effect = comparison.effect
    return {
        "schema": SCHEMA,
        "generator": {"name": "rlreport", "version": __version__},
        "runs": {"base": [run.name for run in outcome.bases], "new": outcome.new.name},
        "window": {
            "steps": list(comparison.windows.new),
            "steps_base": list(comparison.windows.base),
            "split": comparison.split,
        },
        "gate": {"failed": list(outcome.gate.failed), "exit": outcome.gate.exit},
        "verdict": {
            "level": comparison.level,
            "sentence": sentence(outcome),
            "effect": _number(effect.value),
            "low": _number(effect.low),
            "high": _number(effect.high),
            "mde": _number(effect.mde),
            "pairs": effect.pairs if effect.paired else 0,
            "only_base": comparison.only_base,
            "only_new": comparison.only_new,
            "paired": effect.paired,
            "reasons": list(comparison.reasons),
        },
        "guardrails": [_guardrail(guardrail) for guardrail in comparison.guardrails],
        "curves": {
            "step": comparison.steps.tolist(),
            "difference": _numbers(comparison.band.difference.tolist()),
            "low": _numbers(comparison.band.low.tolist()),
            "high": _numbers(comparison.band.high.tolist()),
        },
        "findings": {
            "new": [found.id for found in outcome.changed.new],
            "fixed": [found.id for found in outcome.changed.fixed],
            "still": [found.id for found in outcome.changed.still],
        },
        "flips": [_flip(flip) for flip in outcome.flips],
        "equal_kl": _equal_kl(comparison.equal_kl),
        "equal_kl_watched": _equal_kl(comparison.equal_kl_watched),
    }


def prompts_table(outcome: Outcome) -> pd.DataFrame:
    """Return every prompt of the window with both sides' responses and mean rewards.

    The beginning of the text stands where a flip shows it.
    """
    table = outcome.comparison.prompts
    texts = {
        flip.flip.pair: flip.prompt[:PROMPT_CHARACTERS]
        for flip in outcome.flips
        if flip.prompt is not None
    }
    numbers = outcome.new.side.responses.drop_duplicates("pair").set_index("pair")["prompt_id"]
    named = table.drop(columns="pair")
    named.insert(0, "prompt_new", table["pair"].map(numbers + 1).astype("Int64"))
    if not outcome.redact and outcome.new.side.named and outcome.base.side.named:
        named.insert(1, "prompt_hash", [f"{pair:016x}" for pair in table["pair"].tolist()])
        named.insert(2, "prompt", [texts.get(pair, "") for pair in table["pair"].tolist()])
    return named


def _guardrail(guardrail: Guardrail) -> dict[str, Any]:
    effect = guardrail.effect
    return {
        "id": guardrail.id,
        "base": _number(guardrail.base),
        "new": _number(guardrail.new),
        "effect": _number(effect.value),
        "low": _number(effect.low),
        "high": _number(effect.high),
        "mde": _number(effect.mde),
        "level": guardrail.level,
    }


def _flip(told: FlipTexts) -> dict[str, Any]:
    flip: Flip = told.flip
    return {
        "prompt": told.number if told.prompt is None else told.prompt[:PROMPT_CHARACTERS],
        "base": _number(flip.base),
        "new": _number(flip.new),
        "delta": _number(flip.delta),
        "responses": {
            "base": {"step": flip.base_response[0], "n": flip.base_response[1]},
            "new": {"step": flip.new_response[0], "n": flip.new_response[1]},
        },
    }


def _equal_kl(found: EqualKL | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "effect": _number(found.effect),
        "low": _number(found.low),
        "high": _number(found.high),
        "overlap": _number(found.overlap),
    }


def _numbers(values: list[float]) -> list[float | None]:
    return [_number(value) for value in values]


def _number(value: float) -> float | None:
    """Return a number as JSON can hold it: what is not finite is null."""
    return float(value) if math.isfinite(value) else None
