"""``data/compare.json`` and ``prompts.csv``; ``rlreport/schemas`` has the JSON Schema."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pandas as pd

from rlreport import __version__
from rlreport.comparison.figures import Flip
from rlreport.comparison.outcome import Outcome
from rlreport.comparison.statistics import Effect
from rlreport.comparison.words import sentence

SCHEMA = 2
PROMPT_CHARACTERS = 400


def compare_json(outcome: Outcome) -> dict[str, Any]:
    """Return the comparison as plain values, to be written by ``canonical_json``."""
    comparison = outcome.comparison
    effect, band = comparison.effect, comparison.band
    return {
        "schema": SCHEMA,
        "generator": {"name": "rlreport", "version": __version__},
        "runs": {"base": [run.name for run in outcome.bases], "new": outcome.new.name},
        "levels": {"base": [run.level for run in outcome.bases], "new": outcome.new.level},
        "window": {
            "steps": list(comparison.windows.new),
            "steps_base": list(comparison.windows.base),
            "split": comparison.split,
        },
        "gate": {"failed": list(outcome.gate.failed), "exit": outcome.gate.exit},
        "verdict": {
            "level": comparison.level,
            "sentence": sentence(outcome),
            **_effect(effect),
            "pairs": effect.pairs if effect.paired else 0,
            "only_base": comparison.only_base,
            "only_new": comparison.only_new,
            "paired": effect.paired,
            "reasons": comparison.reasons,
        },
        "guardrails": [
            {"id": g.id, "base": g.base, "new": g.new, **_effect(g.effect), "level": g.level}
            for g in comparison.guardrails
        ],
        "curves": {
            "step": comparison.steps.tolist(),
            "difference": band.difference.tolist(),
            "low": band.low.tolist(),
            "high": band.high.tolist(),
        },
        "findings": {
            "new": [found.id for found in outcome.changed.new],
            "fixed": [found.id for found in outcome.changed.fixed],
            "still": [found.id for found in outcome.changed.still],
        },
        "flips": [_flip(flip) for flip in outcome.flips],
        "equal_kl": comparison.equal_kl and asdict(comparison.equal_kl),
        "equal_kl_watched": comparison.equal_kl_watched and asdict(comparison.equal_kl_watched),
    }


def prompts_table(outcome: Outcome) -> pd.DataFrame:
    """Return every prompt of the window with both sides' responses and mean rewards.

    The beginning of the text stands where a flip shows it.
    """
    table = outcome.comparison.prompts
    texts = {
        flip.pair: flip.prompt[:PROMPT_CHARACTERS]
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


def _effect(effect: Effect) -> dict[str, float]:
    return {"effect": effect.value, "low": effect.low, "high": effect.high, "mde": effect.mde}


def _flip(flip: Flip) -> dict[str, Any]:
    ends = {"base": flip.base_response, "new": flip.new_response}
    return {
        "prompt": flip.number if flip.prompt is None else flip.prompt[:PROMPT_CHARACTERS],
        "base": flip.base,
        "new": flip.new,
        "delta": flip.delta,
        "responses": {side: {"step": step, "n": n} for side, (step, n) in ends.items()},
    }
