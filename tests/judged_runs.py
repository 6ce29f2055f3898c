"""Made-up runs with a known truth: what leads, and since when; or that nothing is wrong."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from rlreport.tables import Tables, TextSample
from tests.tables_builder import make_tables

WORDS = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(200)]
FORMS = ("empower", "empowers", "empowered", "empowering", "empowerment")
FILLERS = ("really", "quite", "so", "very", "indeed", "just")
Texts = Callable[[Any, int], list[str]]
By = Callable[[Any, Any], Any]


def made(
    seed: int,
    *,
    steps: int = 50,
    each: int = 40,
    reward: By = lambda step, rng: 0.5 * step / 50,
    texts: Texts | None = None,
    pays: Callable[[list[str]], float] | None = None,
    noise: float = 0.5,
    **columns: By,
) -> Tables:
    """Make a run with ``noise`` of its prompts and of its responses, ``each`` a step.

    A response earns its mean ``reward`` and what its text ``pays`` above that.
    """
    rng = np.random.default_rng(seed)
    step = np.repeat(np.arange(steps), each)
    prompt = rng.integers(0, 60, len(step))
    units = [(texts or plain)(rng, int(s)) for s in step]
    earned = np.array([pays(words) for words in units]) if pays else 0.0
    ease = 0.3 * rng.normal(size=60)[prompt]
    filled = {
        "step": step,
        "prompt_id": prompt,
        "response_tokens": np.array([len(words) for words in units], float),
        "kl_k1": 2 * step / steps + 0.5 * rng.normal(size=len(step)),
        "surprisal_mean": np.exp(-0.5 + 0.2 * rng.normal(size=len(step))),
        "finished": (rng.random(len(step)) < 0.97).astype(float),
    }
    expected = reward(step, rng) + earned
    filled["reward"] = expected + noise * (ease + rng.normal(size=len(step)))
    for name, column in columns.items():
        filled[name] = column(step, rng)
    return make_tables(filled, texts=units, unit="word")


def plain(rng: Any, step: int, length: int = 12) -> list[str]:
    ranks = rng.zipf(1.3, length) - 1
    return [WORDS[rank] for rank in np.minimum(ranks, len(WORDS) - 1)]


def spread(step: int, start: int = 15) -> float:
    """Return the share of responses that a habit has spread to: 3% until ``start``."""
    return float(np.clip(0.03 + (step - start) / 20, 0.03, 0.95))


def ending(tail: Callable[[Any], list[str]]) -> Texts:
    """Return texts of which ever more end in what ``tail`` gives."""

    def texts(rng: Any, step: int) -> list[str]:
        words = plain(rng, step)
        if rng.random() < spread(step):
            words += tail(rng)
        return words

    return texts


def beginning(*head: str) -> Texts:
    """Return texts of which ever more begin with a phrase, whose words are common elsewhere."""

    def texts(rng: Any, step: int) -> list[str]:
        words = plain(rng, step)
        for word in head:
            words.insert(int(rng.integers(2, len(words) - 2)), word)
        return [*head, *words] if rng.random() < spread(step) else words

    return texts


def padded(rng: Any, step: int) -> list[str]:
    extra = more_words(rng, step)
    words = plain(rng, step)
    return words + [FILLERS[i] for i in rng.integers(0, len(FILLERS), extra)]


def longer(rng: Any, step: int) -> list[str]:
    return plain(rng, step, 12 + more_words(rng, step))


def more_words(rng: Any, step: int) -> int:
    """Draw by how many words a response is longer; from step 15 on one more in each step."""
    return int(rng.poisson(max(0, step - 15)))


def group_run(seed: int, share: By) -> Tables:
    """Return a run of eight responses to each of six prompts a step, reward 0 or 1."""
    rng = np.random.default_rng(seed)
    step = np.repeat(np.arange(40), 48)
    drawn = rng.integers(0, 200, (40, 6))
    prompt = drawn.repeat(8, axis=1).ravel()
    reward = (rng.random(len(step)) < share(step, rng)).astype(float)
    return make_tables({"step": step, "prompt_id": prompt, "reward": reward})


def normal(mean: Callable[[Any], Any], std: float) -> By:
    return lambda step, rng: mean(step) + std * rng.normal(size=len(step))


def saturating(step: Any, rng: Any) -> Any:
    """Return a share that rises fast from 0.58 to 0.92."""
    return 0.58 + 0.34 * (1 - np.exp(-step / 2))


def dipping(step: Any, rng: Any) -> Any:
    """Return a reward that rises but for the steps 21 to 25."""
    is_low = (step > 20) & (step < 26)
    return step / 50 - 1.5 * is_low


def rising_until_lowered(by: float) -> By:
    """Return a reward that rises, and is lower by a constant from step 25 on."""
    return lambda step, rng: 0.5 * step / 50 + lowered(step, by)


def lowered(step: Any, by: float) -> Any:
    return np.where(step >= 25, -by, 0.0)


def slope(start: int, by_step: float, limit: float) -> Callable[[Any], Any]:
    """Return a figure that is 0 until ``start``, then rises evenly to a limit."""
    return lambda step: np.clip((step - start) * by_step, 0, limit)


def growing_surprisal(step: Any) -> Any:
    return 0.6 + np.clip((step - 10) / 10, 0, 3)


def some_forms(rng: Any) -> list[str]:
    return [FORMS[i] for i in rng.integers(0, len(FORMS), 2)]


def pay_of_forms(words: list[str]) -> float:
    forms = [word for word in words if word in FORMS]
    return 0.6 * len(forms)


def pay_of_opening(words: list[str]) -> float:
    return 1.0 if words[:2] == ["great", "question"] else 0.0


HEALTHY: dict[str, Callable[[int], Tables]] = {
    "a watched reward that stays": partial(
        made, valid_reward=normal(lambda step: 0.5, 0.2)
    ),
    "a thousand steps of three": partial(made, steps=1000, each=3),
    "long reasoning": partial(
        made,
        response_tokens=normal(lambda step: 1500, 50),
        kl_k1=normal(lambda step: 105 * step / 50, 5),
    ),
    "binary at 85%": partial(group_run, share=lambda step, rng: 0.85),
    "fast and binary": partial(group_run, share=saturating),
    "a dip that recovers": partial(made, reward=dipping),
    "a habit that does not pay": partial(made, texts=ending(lambda rng: ["truly"])),
    "longer, unpaid": partial(made, texts=longer),
}

Fault = tuple[Callable[[int], Tables], str, tuple[int, int]]

FAULTY: dict[str, Fault] = {
    "a watched reward that falls": (
        partial(
            made,
            valid_reward=normal(
                lambda step: 0.5 - 0.03 * np.maximum(step - 20, 0), 0.2
            ),
        ),
        "watched_reward_fall",
        (19, 30),
    ),
    "a fall from the start": (
        partial(made, reward=lambda step, rng: -step / 20),
        "reward_collapse",
        (1, 15),  # a quarter of 50 steps, and noise
    ),
    "a word": (
        partial(
            made,
            texts=ending(lambda rng: ["truly"] * int(rng.integers(1, 5))),
            pays=lambda words: 0.5 * words.count("truly"),
        ),
        "reward_hacking_token",
        (14, 24),
    ),
    "forms of a word": (
        partial(
            made,
            texts=ending(some_forms),
            pays=pay_of_forms,
        ),
        "reward_hacking_token",
        (14, 24),
    ),
    "an opening": (
        partial(
            made,
            texts=beginning("great", "question"),
            pays=pay_of_opening,
        ),
        "reward_hacking_token",
        (14, 24),
    ),
    "length": (
        partial(made, texts=padded, pays=lambda words: 0.06 * len(words)),
        "length_hacking",
        (14, 26),
    ),
    "an entropy bonus": (
        partial(
            made,
            reward=lambda step, rng: 0 * step,
            surprisal_mean=normal(growing_surprisal, 0.1),
            kl_k1=normal(slope(10, by_step=2, limit=60), 2),
        ),
        "entropy_explosion",
        (10, 18),
    ),
    "another reward function": (
        partial(
            made,
            reward=rising_until_lowered(by=1.2),
            ref_reward=normal(lambda step: lowered(step, by=1.2), 0.5),
        ),
        "reward_shift",
        (25, 25),
    ),
    "another reward function, no reference": (
        partial(made, reward=rising_until_lowered(by=1.5)),
        "reward_shift",
        (25, 25),
    ),
    "KL of short responses": (
        partial(made, kl_k1=normal(slope(20, by_step=3, limit=90), 2)),
        "kl_explosion",
        (20, 28),  # a quarter of a rise by 3 a step from step 20 on
    ),
    "groups that teach nothing": (
        partial(group_run, share=lambda step, rng: 0.01 + 0.0 * step),
        "zero_variance_groups",
        (0, 4),
    ),
}


SHARES = {
    "tool_errors": 0.08,
    "unparsed_calls": 0.05,
    "void_turns": 0.03,
    "at_turn_limit": 0.03,
    "unclosed_thinking": 0.04,
    "markup_turns": 0.05,
    "late_calls": 0.05,
    "empty_results": 0.1,
}
"""What responses of agents have, and how many of them."""

# Checks of what null runs do not log beyond ``Check.needs``: metrics, environments
NOT_IN_NULL_RUNS = (
    "gradient_explosion",
    "no_updates",
    "environment_fall",
    "mix_changed",
    "failed_rollouts",
    "reward_part_dominance",
    "uneven_groups",
    # They need words of prompts, ranks, parts or metrics: ``law_cases`` has correct logs
    "answers_other_prompt",
    "rank_differs",
    "part_falls",
    "unearned_gain",
    "part_stays_zero",
    "clip_share_contradicts",
    "sources_disagree",
    "impossible_values",
)
# Columns that checks need and null runs have, so that the checks are held to be quiet there
NULL_COLUMNS = (
    "at_turn_limit",
    "empty_results",
    "kl_k1",
    "lag",
    "late_calls",
    "log_weight",
    "logp_tokens",
    "markup_turns",
    "mismatch_k3",
    "prompt_id",
    "response_chars",
    "reward",
    "surprisal_mean",
    "tool_calls",
    "tool_errors",
    "unclosed_thinking",
    "unparsed_calls",
    "void_turns",
)
NULL_CRITIC_COLUMNS = ("return_m2", "value_error_m2")
NULL_STEPS = 40
RESPONSES = 64
PROMPTS = 150
GROUP = 4
UNITS = 24
VOCABULARY = 400
NULL_WORDS = [f"w{i}" for i in range(VOCABULARY)]


def null_run(seed: int) -> Tables:
    """Make a run without trend: prompts differ, return, and come in groups; steps wander.

    Every figure has an effect of its prompt, one of its step and noise of its own, of
    sizes drawn anew for each run; half of the runs have a KL of zero in expectation, and
    a quarter learns from groups, without a critic. A prompt has words of its own, some of
    which earn more.
    """
    rng = np.random.default_rng(seed)
    rows = NULL_STEPS * RESPONSES
    step = np.repeat(np.arange(NULL_STEPS), RESPONSES)
    drawn = rng.integers(0, PROMPTS, (NULL_STEPS, RESPONSES // GROUP))
    prompt = drawn.repeat(GROUP, axis=1).ravel()
    of_step = rng.uniform(0, 0.3, 8)
    of_prompt = rng.uniform(0.2, 1.0, 8)

    def noisy(i: int) -> Any:
        wander = of_step[i] * rng.normal(size=NULL_STEPS)[step]
        kind = of_prompt[i] * rng.normal(size=PROMPTS)[prompt]
        return wander + kind + rng.normal(size=rows)

    tokens = np.maximum(np.exp(3.4 + 0.2 * noisy(1)).round(), 2.0)
    # Low enough per token for a policy whose reference is the model that it started from
    kl = noisy(2) * 1.5 if seed % 2 else 1 + noisy(2)
    value_error = 0.3 * np.abs(noisy(3)) + 0.1
    texts = null_texts(rng, prompt)
    is_paid = np.asarray(texts.units).reshape(rows, UNITS) % 50 == 7
    reward = noisy(0) + 0.3 * is_paid.any(axis=1)
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
    watched_of_step = 0.2 * apart.normal(size=NULL_STEPS)
    columns = {
        "step": step,
        "prompt_id": prompt,
        "file": np.tile([0, 1], rows // 2),
        "reward": reward,
        "ref_reward": noisy(4) - 0.3,
        "valid_reward": watched_of_step[step] + apart.normal(size=rows),
        "response_tokens": tokens,
        "response_chars": (tokens * 4).astype(np.int64),
        "kl_k1": kl,
        "kl_k3": np.abs(kl),
        "kl_max_position": np.zeros(rows),
        "surprisal_mean": np.exp(-0.5 + 0.3 * noisy(5)),
        "finished": (noisy(6) < 1.8).astype(float),
    }
    columns |= {
        "mismatch_tokens": tokens,
        "mismatch_ratio": 1.01 + 0.002 * noisy(1),
        "mismatch_k3": 3e-4 * np.exp(0.2 * noisy(1)),
        "mismatch_prob": 0.003 * np.exp(0.2 * noisy(1)),
        "ratio_tokens": tokens,
        "ratio_mean": 1 + 0.03 * noisy(2),
        "ratio_outside": np.clip(0.08 + 0.02 * noisy(2), 0, 1),
    }
    if seed % 4:
        columns |= critic
    columns["response_hash"] = rng.integers(0, 2000, rows).astype(np.uint64)
    columns["turns"] = 2.0 + apart.poisson(1, rows)
    columns["tool_calls"] = 1.0 + apart.poisson(1, rows)
    for name, share in SHARES.items():
        columns[name] = (apart.random(rows) < share).astype(float)
    columns["lag"] = apart.integers(0, 4, rows).astype(float)
    columns["log_weight"] = 0.15 * apart.normal(size=rows)
    columns["other_script"] = (apart.random(rows) < 0.03).astype(float)
    return make_tables(columns, ngrams=texts, words=texts)


def null_texts(rng: np.random.Generator, prompt: Any) -> TextSample:
    """Draw words of a skewed vocabulary, a third of them from the prompt's own."""
    shape = (len(prompt), UNITS)
    common = np.minimum(rng.zipf(1.4, shape) - 1, VOCABULARY - 1)
    own = rng.integers(0, VOCABULARY, (PROMPTS, 5))
    picked = own[prompt[:, None], rng.integers(0, 5, shape)]
    units = np.where(rng.random(shape) < 0.3, picked, common)
    offsets = np.arange(len(prompt) + 1) * UNITS
    return TextSample(
        np.arange(len(prompt)), offsets, units.ravel(), NULL_WORDS, "token"
    )
