"""A comparison's ``data/compare.json`` (schema: ``rlreport/schemas``) and ``prompts.csv``."""

from __future__ import annotations

from typing import Any

import pandas as pd

from rlreport import __version__
from rlreport.comparison.outcome import Flip, Outcome, prompt_numbers
from rlreport.comparison.statistics import Effect
from rlreport.comparison.words import sentence

SCHEMA = 2
PROMPT_CHARACTERS = 400


def compare_json(outcome: Outcome) -> dict[str, Any]:
    """Return the content of ``compare.json`` as dicts, lists and numbers."""
    comparison, changed = outcome.comparison, outcome.changed
    effect, windows, band = comparison.effect, comparison.windows, comparison.band
    equal_kl = {name: one and one._asdict() for name, one in comparison.equal_kl.items()}
    return {
        "schema": SCHEMA,
        "generator": {"name": "rlreport", "version": __version__},
        "runs": {"base": [run.name for run in outcome.bases], "new": outcome.new.name},
        "levels": {"base": [run.level for run in outcome.bases], "new": outcome.new.level},
        "window": {
            "steps": list(windows.new),
            "steps_base": list(windows.bases[0]),
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
            "step": windows.common.tolist(),
            **{name: values.tolist() for name, values in band._asdict().items()},
        },
        "findings": {
            name: [finding.id for finding in changed[name]] for name in ("new", "fixed", "still")
        },
        "flips": [_flip(flip) for flip in outcome.flips],
        "equal_kl": equal_kl["reward"],
        "equal_kl_watched": equal_kl["valid_reward"],
    }


def prompts_table(outcome: Outcome) -> pd.DataFrame:
    """Return one row per compared prompt: number of responses and mean reward in both runs.

    Only prompts in ``outcome.flips`` (won or lost by NEW) have the beginning of their text.
    """
    inside = outcome.comparison.inside
    sides = [
        frame.groupby("pair")["reward"]
        .agg(["size", "mean"])
        .set_axis([f"{name}_responses", f"{name}_reward"], axis=1)
        for name, frame in (("base", inside[0]), ("new", inside[-1]))
    ]
    table = sides[0].join(sides[1], how="outer").sort_index()
    table["difference"] = table["new_reward"] - table["base_reward"]
    table.insert(0, "prompt_new", table.index.map(prompt_numbers(outcome.new)).astype("Int64"))
    if not outcome.redact and outcome.new.side.named and outcome.base.side.named:
        texts = {flip.pair: (flip.prompt or "")[:PROMPT_CHARACTERS] for flip in outcome.flips}
        table.insert(1, "prompt_hash", [f"{pair:016x}" for pair in table.index])
        table.insert(2, "prompt", [texts.get(pair, "") for pair in table.index])
    return table


def _effect(effect: Effect) -> dict[str, float]:
    return {"effect": effect.value, "low": effect.low, "high": effect.high, "mde": effect.mde}


def _flip(flip: Flip) -> dict[str, Any]:
    response_ids = {"base": flip.base_response, "new": flip.new_response}
    return {
        "prompt": flip.number if flip.prompt is None else flip.prompt[:PROMPT_CHARACTERS],
        "base": flip.base,
        "new": flip.new,
        "delta": flip.delta,
        "responses": {side: {"step": step, "n": n} for side, (step, n) in response_ids.items()},
    }
