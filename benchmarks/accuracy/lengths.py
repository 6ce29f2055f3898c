"""Runs whose responses shrink, are padded, or no longer end; texts that the logger cuts."""

from __future__ import annotations

import numpy as np

from benchmarks.accuracy.family import ANY, Drawn, Family, Random
from benchmarks.accuracy.policy import (
    columns_of,
    keys_of,
    policy_log,
    slowly_begins,
    stopped,
    usual_policy,
)
from benchmarks.accuracy.reward import levels, mean_reward, responses_of
from benchmarks.accuracy.shapes import (
    Floats,
    Sizes,
    begins,
    lengths,
    onset_between,
    random_sizes,
    rise_between,
)
from rlreport.check.finding import Severity
from rlreport.tables import Tables
from tests.law_families_metrics import metrics_log
from tests.tables_builder import make_tables

NOTE = (Severity.INFO,)


def _worse_answers(random: Random, strength: float) -> Drawn:
    """Responses shrink; they become too short to think, and fewer of them are right."""
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    start, stop = slowly_begins(random, sizes)
    lost = strength * rise_between(sizes, start, stop)
    policy = usual_policy(random, sizes)
    policy["length"] = policy["length"] * (1 - lost)
    chance = chance * (1 - 0.7 * lost)
    log = policy_log(random, sizes, chance, "length", policy)
    return Drawn(log, onset_between(start, stop))


def _for_some_steps(random: Random, strength: float) -> Drawn:
    """Responses are longer for some steps, from a tenth to a fifth of the run, and as before."""
    sizes = random_sizes(random, 50, 150)
    chance, _ = levels(random, sizes)
    count = max(4, int(sizes.steps * random.uniform(0.1, 0.2)))
    start = int(random.integers(sizes.steps // 4, sizes.steps // 2))
    policy = usual_policy(random, sizes)
    of_episode = np.arange(start, start + count)
    longer = policy["length"].copy()
    longer[of_episode] *= max(strength, 1.0)
    policy["length"] = longer
    log = policy_log(random, sizes, chance, "length", policy)
    return Drawn(log, onset_between(start, start))


def _paid_to_be_short(random: Random, strength: float) -> Drawn:
    """A penalty for each token: responses shrink while answers stay as they are."""
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    start, stop = slowly_begins(random, sizes)
    policy = usual_policy(random, sizes)
    usual = policy["length"].mean()
    policy["length"] = policy["length"] * (
        1 - strength * rise_between(sizes, start, stop)
    )
    if strength:
        chance = stopped(chance, start)
    columns = responses_of(random, sizes, chance, **columns_of(random, sizes, **policy))
    penalty = random.uniform(0.3, 1.0) if strength else 0.0
    spread = columns["reward"].std()
    columns["reward"] = (
        columns["reward"] - penalty * spread * columns["response_tokens"] / usual
    )
    return Drawn(make_tables(columns), onset_between(start, stop))


def _empty(random: Random, strength: float) -> Drawn:
    """A share of responses that stop at once, after one to three tokens, and earn nothing."""
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    start, stop = begins(random, sizes)
    usual = np.full(sizes.steps, random.uniform(60, 500))
    tokens = lengths(random, usual, sizes.responses)
    columns = responses_of(random, sizes, chance)
    share = np.repeat(strength * rise_between(sizes, start, stop), sizes.responses)
    is_empty = random.random(tokens.size) < share
    tokens = np.where(is_empty, random.integers(1, 4, tokens.size), tokens)
    lowest = columns["reward"].min()
    columns["reward"] = np.where(is_empty, lowest, columns["reward"])
    columns["response_tokens"] = tokens
    columns["response_chars"] = 4 * tokens
    if random.random() < 0.5:
        columns["finished"] = np.ones(tokens.size)
    return Drawn(make_tables(columns), onset_between(start, stop))


def _padded(random: Random, strength: float) -> Drawn:
    """A reward model that pays for length: responses become ``strength`` times as long.

    Healthy: responses may become three times as long as answers become right, and long ones earn
    no more than short ones.
    """
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    start, stop = slowly_begins(random, sizes)
    times = strength or random.uniform(1, 3)
    usual = random.uniform(60, 500)
    by_step = usual * times ** rise_between(sizes, start, stop)
    tokens = lengths(random, by_step, sizes.responses)
    columns = responses_of(random, sizes, chance)
    columns["response_tokens"] = tokens
    if strength:
        columns["reward"] = _paid_by_length(random, sizes, np.log(tokens / usual))
    return Drawn(make_tables(columns), onset_between(start, stop))


def _paid_by_length(random: Random, sizes: Sizes, log_length: Floats) -> Floats:
    """Return rewards of a model that knows a little of quality, which stays, and of length."""
    of_prompts = random.normal(0, 0.5, sizes.steps * sizes.prompts)
    quality = np.repeat(of_prompts, sizes.group) + random.normal(0, 1, log_length.size)
    by_step = log_length.reshape(sizes.steps, -1)
    spread = by_step.std(1).mean()
    return quality + random.uniform(0.6, 1.2) * log_length / spread


def _endless(random: Random, strength: float) -> Drawn:
    """Responses that do not end before the limit: the end token is masked, or loops come up."""
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    start, stop = begins(random, sizes)
    usual = random.uniform(0, 0.05)
    more = max(strength - usual, 0.0) * rise_between(sizes, start, stop)
    share = usual + more
    chance = chance * (1 - more)  # what is cut off has no answer
    onset = onset_between(start, stop)
    if random.random() < 0.5:
        return Drawn(_cut_metrics(random, sizes, chance, share), onset)
    limit = random.integers(500, 4000)
    mean = np.full(sizes.steps, limit * random.uniform(0.1, 0.3))
    tokens = np.minimum(lengths(random, mean, sizes.responses), limit - 1)
    is_cut = random.random(tokens.size) < np.repeat(share, sizes.responses)
    columns = responses_of(random, sizes, chance)
    columns["response_tokens"] = np.where(is_cut, limit, tokens)
    if random.random() < 0.6:
        columns["finished"] = 1.0 - is_cut
    return Drawn(make_tables(columns), onset)


def _cut_metrics(random: Random, sizes: Sizes, chance: Floats, share: Floats) -> Tables:
    """Return a run of trainer metrics: the share that is cut off, or that finished."""
    kind = str(random.choice(["truncated", "truncated", "finished"]))
    names = keys_of(kind)
    reward, told = names[random.integers(len(names))]
    counted = random.binomial(sizes.responses, share) / sizes.responses
    series = {
        reward: mean_reward(random, sizes, chance),
        told: 1 - counted if kind == "finished" else counted,
    }
    return metrics_log(sizes.steps, **series)


def _cut_by_logger(random: Random, strength: float) -> Drawn:
    """A logger that keeps so many characters of a text: a share of responses is longer."""
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    mean = random.uniform(300, 4000) * (1 + random.uniform(-0.3, 0.3) * sizes.time)
    chars = lengths(random, mean, sizes.responses)
    if strength:
        chars = np.minimum(chars, np.ceil(np.quantile(chars, 1 - strength)))
    return Drawn(make_tables(responses_of(random, sizes, chance, response_chars=chars)))


FAMILIES = (
    Family(
        check="length_collapse",
        name="responses shrink, and answers become worse",
        unit="of the length",
        strengths=(0.3, 0.5, 0.7, 0.85, 0.95),
        draw=_worse_answers,
    ),
    Family(
        check="length_collapse",
        name="a penalty pays for short responses",
        unit="of the length",
        strengths=(0.3, 0.5, 0.7, 0.85, 0.95),
        draw=_paid_to_be_short,
    ),
    Family(
        check="length_collapse",
        name="responses stop at once",
        unit="of responses",
        strengths=(0.05, 0.15, 0.4, 1.0),
        draw=_empty,
    ),
    Family(
        check="length_hacking",
        name="the reward model pays for length",
        unit="times as long",
        strengths=(1.3, 1.7, 2.5, 4.0),
        draw=_padded,
    ),
    Family(
        check="missing_eos",
        name="responses no longer end",
        unit="of responses",
        strengths=(0.1, 0.25, 0.5, 0.9),
        draw=_endless,
        severities=ANY,
    ),
    Family(
        check="passing_episode",
        name="responses are longer for some steps",
        unit="times as long",
        strengths=(1.5, 2.0, 3.0, 5.0),
        draw=_for_some_steps,
        severities=NOTE,
    ),
    Family(
        check="cut_texts",
        name="the logger cuts long texts",
        unit="of responses",
        strengths=(0.1, 0.3, 0.6, 0.9),
        draw=_cut_by_logger,
        severities=NOTE,
    ),
)
