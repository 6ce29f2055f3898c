"""The exported files of a comparison: ``compare.json`` and the table of prompts."""

from __future__ import annotations

from typing import Any

import pandas as pd

from rlreport import __version__
from rlreport.comparison.outcome import Flip, Outcome, prompt_numbers
from rlreport.comparison.statistics import Effect
from rlreport.comparison.words import sentence
from rlreport.figures.rounding import difference
from rlreport.summarise.steps import rounded_columns

SCHEMA = 3
PROMPT_CHARACTERS = 400


def compare_json(outcome: Outcome) -> dict[str, Any]:
    comparison = outcome.comparison
    changed = outcome.changed
    effect = comparison.effect
    windows = comparison.windows
    band = comparison.band
    equal_kl = {
        name: one and one._asdict() for name, one in comparison.equal_kl.items()
    }
    return {
        "schema": SCHEMA,
        "generator": {"name": "rlreport", "version": __version__},
        "runs": {
            "base": [r.name for r in outcome.bases],
            "new": [r.name for r in outcome.news],
        },
        "levels": {
            "base": [run.level for run in outcome.bases],
            "new": [run.level for run in outcome.news],
        },
        "window": {
            "steps": windows.new,
            "steps_base": windows.bases[0],
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
            {
                "id": g.id,
                "base": g.base,
                "new": g.new,
                **_effect(g.effect),
                "level": g.level,
            }
            for g in comparison.guardrails
        ],
        "curves": {
            "step": windows.common.tolist(),
            **{name: values.tolist() for name, values in band._asdict().items()},
        },
        "findings": {
            name: [one.id for one in changed[name]]
            for name in ("new", "fixed", "still")
        },
        "flips": [_flip(flip) for flip in outcome.flips],
        "speed": {name: one._asdict() for name, one in comparison.speed.items()}
        or None,
        "equal_kl": equal_kl["reward"],
        "equal_kl_watched": equal_kl["valid_reward"],
    }


def prompts_table(outcome: Outcome) -> pd.DataFrame:
    """Return a row per compared prompt: unless redacted, with hash and, if in ``flips``, text."""
    sides = [
        frame.groupby("pair")["reward"]
        .agg(responses="size", reward="mean")
        .add_prefix(prefix)
        for prefix, frame in zip(
            ("base_", "new_"), outcome.comparison.compared, strict=True
        )
    ]
    table: pd.DataFrame = sides[0].join(sides[1], how="outer").sort_index()
    table["difference"] = difference(table["new_reward"], table["base_reward"])
    table = rounded_columns(table)
    table.insert(
        0, "prompt_new", table.index.map(prompt_numbers(outcome.new)).astype("Int64")
    )
    if not outcome.redact and outcome.new.side.named and outcome.base.side.named:
        texts = {
            flip.pair: (flip.prompt or "")[:PROMPT_CHARACTERS] for flip in outcome.flips
        }
        table.insert(1, "prompt_hash", [f"{pair:016x}" for pair in table.index])
        table.insert(2, "prompt", [texts.get(pair, "") for pair in table.index])
    return table


def _effect(effect: Effect) -> dict[str, float]:
    return {
        "effect": effect.value,
        "low": effect.low,
        "high": effect.high,
        "mde": effect.mde,
    }


def _flip(flip: Flip) -> dict[str, Any]:
    prompt = flip.number if flip.prompt is None else flip.prompt[:PROMPT_CHARACTERS]
    responses = {"base": flip.base_response, "new": flip.new_response}
    return {
        "prompt": prompt,
        **{name: getattr(flip, name) for name in ("base", "new", "delta")},
        "responses": {
            side: {"step": step, "n": n} for side, (step, n) in responses.items()
        },
    }
