"""Runs in which nothing happens, with the noise that real rollouts have."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlreport.tables import Tables, TextSample
from tests.tables_builder import make_tables

STEPS, RESPONSES, PROMPTS, GROUP = 40, 64, 150, 4
UNITS, VOCABULARY = 24, 400
WORDS = [f"w{i}" for i in range(VOCABULARY)]


def null_run(seed: int) -> Tables:
    """Make a run without trend: prompts differ, return, and come in groups; steps wander.

    Every figure has an effect of its prompt, one of its step and noise of its own, of
    sizes drawn anew for each run; half of the runs have a KL of zero in expectation, and
    a quarter learns from groups, without a critic. A prompt has words of its own, some of
    which earn more.
    """
    rng = np.random.default_rng(seed)
    rows = STEPS * RESPONSES
    step = np.repeat(np.arange(STEPS), RESPONSES)
    prompt = rng.integers(0, PROMPTS, (STEPS, RESPONSES // GROUP)).repeat(GROUP, axis=1).ravel()
    of_step = rng.uniform(0, 0.3, 8)
    of_prompt = rng.uniform(0.2, 1.0, 8)

    def noisy(i: int) -> Any:
        wander = of_step[i] * rng.normal(size=STEPS)[step]
        kind = of_prompt[i] * rng.normal(size=PROMPTS)[prompt]
        return wander + kind + rng.normal(size=rows)

    tokens = np.maximum(np.exp(3.4 + 0.2 * noisy(1)).round(), 2.0)
    kl = noisy(2) * 1.5 if seed % 2 else 3 + noisy(2)
    value_error = 0.3 * np.abs(noisy(3)) + 0.1
    texts = _texts(rng, prompt)
    held = np.asarray(texts.units).reshape(rows, UNITS)
    reward = noisy(0) + 0.3 * (held % 50 == 7).any(axis=1)
    critic = {
        "value_tokens": tokens,
        "value_mean": 0.2 * noisy(7),
        "value_m2": tokens * 0.02,
        "return_mean": reward * 0.3,
        "return_m2": tokens * 0.3,
        "value_error_mean": value_error - value_error.mean(),
        "value_error_m2": tokens * 0.25,
    }
    apart = np.random.default_rng([seed, 1])
    watched = 0.2 * apart.normal(size=STEPS)[step] + apart.normal(size=rows)
    return make_tables(
        {
            "step": step,
            "prompt_id": prompt,
            "file": np.tile([0, 1], rows // 2),
            "reward": reward,
            "ref_reward": noisy(4) - 0.3,
            "valid_reward": watched,
            "response_tokens": tokens,
            "response_chars": (tokens * 4).astype(np.int64),
            "kl_k1": kl,
            "kl_k3": np.abs(kl),
            "kl_max_position": np.zeros(rows),
            "surprisal_mean": np.exp(-0.5 + 0.3 * noisy(5)),
            "finished": (noisy(6) < 1.8).astype(float),
            **(critic if seed % 4 else {}),
            "mismatch_tokens": tokens,
            "mismatch_ratio": 1.01 + 0.002 * noisy(1),
            "mismatch_k3": 3e-4 * np.exp(0.2 * noisy(1)),
            "mismatch_prob": 0.003 * np.exp(0.2 * noisy(1)),
            "ratio_tokens": tokens,
            "ratio_mean": 1 + 0.03 * noisy(2),
            "ratio_outside": np.clip(0.08 + 0.02 * noisy(2), 0, 1),
            "response_hash": rng.integers(0, 2000, rows).astype(np.uint64),
        },
        ngrams=texts,
        words=texts,
    )


def _texts(rng: np.random.Generator, prompt: Any) -> TextSample:
    """Draw words of a skewed vocabulary, a third of them from the prompt's own."""
    common = np.minimum(rng.zipf(1.4, (len(prompt), UNITS)) - 1, VOCABULARY - 1)
    own = rng.integers(0, VOCABULARY, (PROMPTS, 5))
    picked = own[prompt[:, None], rng.integers(0, 5, (len(prompt), UNITS))]
    units = np.where(rng.random((len(prompt), UNITS)) < 0.3, picked, common)
    offsets = np.arange(len(prompt) + 1) * UNITS
    return TextSample(np.arange(len(prompt)), offsets, units.ravel(), WORDS, "token")
