"""Measure how often a comparison gives false alarms, and how often it finds a planted loss.

Null pairs are two halves of one run's responses to each prompt, at random. Losses are planted in
30% of 128 prompts with 8 responses a step and a binary reward, over a window of two steps. Beside
them stands the naive test (Welch's, on responses, unpaired) on the same pairs. Run it as
``python -m benchmarks.compare_power [LOGS...]``; without logs the null runs are made up too.
``python -m benchmarks.compare_power --designs [PAIRS]`` prints false verdicts, better and worse
together, of null pairs with few prompts, rare events, equal rewards and heavy tails; with
``--groups [PAIRS]`` how often groups of runs, and runs of metrics alone, are called worse.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np
import pandas as pd

from rlreport.comparison.compare import Comparison, Side, compare_runs, side_of
from rlreport.comparison.data_file import (
    response_data,
    trainer_rows,
    with_even_blocks,
)
from rlreport.comparison.means import Means, effect_on
from rlreport.comparison.outcome import flips
from rlreport.options import GaeOptions, ReadOptions
from rlreport.read.logs import read_logs
from rlreport.summarise.run import summarise
from rlreport.system.workers import Progress

NULL_PAIRS = 2000
PLANTED_PAIRS = 400
BARS = {0.25: 0.98, 0.17: 0.87, 0.10: 0.50}
"""Points lost -> share of pairs in which a paired test can find it (simulated)."""


DESIGN_PAIRS = 4000
"""Of 400 pairs, a test of exactly 5% would reject more than 6% in every seventh design."""
PROMPTS = (3, 4, 10, 50, 400)
REWARDS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "p = 0.005": lambda random, size: (random.random(size) < 0.005).astype(float),
    "p = 0.03": lambda random, size: (random.random(size) < 0.03).astype(float),
    "p = 0.5": lambda random, size: (random.random(size) < 0.5).astype(float),
    "equal": lambda random, size: np.full(size, 2 / 3),
    "Pareto 1.5": lambda random, size: random.pareto(1.5, size),
}


def null_design(
    rewards: str, prompts: int, responses: int, *, paired: bool, runs: int, seed: int
) -> list[pd.DataFrame]:
    """Return means by prompt of equal runs: BASE runs, then NEW, with other prompts if unpaired."""
    random = np.random.default_rng([seed, prompts, responses, runs])
    means = []
    for run in range(runs + 1):
        reward = REWARDS[rewards](random, prompts * responses).reshape(
            prompts, responses
        )
        first = 0 if paired or run < runs else prompts
        pairs = pd.RangeIndex(first, first + prompts)
        means.append(pd.DataFrame({"reward": reward.mean(axis=1)}, pairs))
    return means


def design_table(responses: int, null_pairs: int) -> float:
    """Print the share of false verdicts of each design; return the largest."""
    print(
        f"\nFalse verdicts of {null_pairs} null pairs, responses per prompt: {responses}\n"
    )
    print(
        "| rewards | prompts are | runs of BASE | "
        + " | ".join(map(str, PROMPTS))
        + " |"
    )
    print("| --- | --- | ---: |" + " ---: |" * len(PROMPTS))
    rates = []
    for rewards, paired, runs in product(REWARDS, (True, False), (1, 3)):
        row = []
        for prompts in PROMPTS:
            wrong = 0
            for seed in range(null_pairs):
                means = null_design(
                    rewards, prompts, responses, paired=paired, runs=runs, seed=seed
                )
                effect = effect_on(
                    Means(means[:-1], means[-1:]), "reward", paired=paired
                )
                wrong += effect.low > 0 or effect.high < 0
            row.append(wrong / null_pairs)
        cells = " | ".join(f"{rate:.1%}" for rate in row)
        print(
            f"| {rewards} | {'paired' if paired else 'others'} | {runs} | {cells} |",
            flush=True,
        )
        rates += row
    return max(rates)


def made_up(
    seed: int, *, lost: float = 0.0, share: float = 0.3, steps: int = 2
) -> tuple[Side, ...]:
    """Return two runs of 128 prompts x 8 responses; a ``share`` of prompts loses in the second."""
    random = np.random.default_rng(seed)
    ability = random.beta(1.5, 1.5, 128)
    chosen = np.arange(128) < round(share * 128)
    sides = []
    for name, chance in (
        ("base", ability),
        ("new", np.clip(ability - lost * chosen, 0, 1)),
    ):
        step, prompt, _ = (a.ravel() for a in np.indices((5 * steps, 128, 8)))
        frame = {
            "step": step,
            "n": prompt,
            "split": "train",
            "pair": prompt.astype(np.uint64),
        }
        frame["reward"] = (random.random(len(prompt)) < chance[prompt]).astype(float)
        frame["response_tokens"] = random.normal(100, 20, len(prompt))
        frame["kl_k1"] = random.gamma(4, 2, len(prompt)) * (1 + ability[prompt])
        sides.append(Side(name, pd.DataFrame(frame)))
    return tuple(sides)


def halves(whole: Side, seed: int) -> tuple[Side, Side]:
    """Return a run's responses to each prompt, split into two random halves."""
    random = np.random.default_rng(seed)
    table = whole.responses.iloc[random.permutation(len(whole.responses))]
    odd = table.groupby("pair").cumcount().to_numpy() % 2 == 1
    parts = (
        table[~odd].sort_values(["step", "n"]),
        table[odd].sort_values(["step", "n"]),
    )
    return Side("one", parts[0]), Side("other", parts[1])


def naive_worse(ends: Comparison) -> bool:
    """Return whether Welch's test on responses, which ignores prompts, calls NEW worse."""
    base, new = (side["reward"].dropna().to_numpy() for side in ends.compared)
    error = np.sqrt(base.var(ddof=1) / len(base) + new.var(ddof=1) / len(new))
    return bool(new.mean() - base.mean() < -1.96 * error)


def null_pairs(runs: Sequence[Side]) -> Iterator[tuple[Side, Side]]:
    """Yield NULL_PAIRS pairs of runs that do not differ."""
    for seed in range(NULL_PAIRS):
        if runs:
            yield halves(runs[seed % len(runs)], seed)
        else:
            yield made_up(seed)  # type: ignore[misc]


BETWEEN_RUNS = 0.05
"""Standard deviation of the rewards of runs that differ in their seed alone."""


def seeds(
    random: np.random.Generator, ability: np.ndarray, first: int, lost: float = 0.0
) -> pd.DataFrame:
    """Return the prompts' means of a run of 8 responses, whose seed moves all of its rewards."""
    chosen = np.arange(len(ability)) < round(0.3 * len(ability))
    chance = np.clip(ability + random.normal(0, BETWEEN_RUNS) - lost * chosen, 0, 1)
    rewards = random.binomial(8, chance) / 8
    return pd.DataFrame({"reward": rewards}, pd.RangeIndex(first, first + len(ability)))


def trainer_means(random: np.random.Generator) -> pd.DataFrame:
    """Return blocks of the last of 100 steps of a metric: a level with AR(1) noise of 0.5."""
    noise = np.zeros(100)
    for step in range(1, 100):
        noise[step] = 0.5 * noise[step - 1] + random.normal(0, 0.1)
    table = trainer_rows(pd.DataFrame({"step": np.arange(100), "reward": 0.5 + noise}))
    window = with_even_blocks(table[table["step"] >= 80])
    return window.groupby("pair").mean().rename(columns={"trainer:reward": "reward"})


def group_table(pairs: int) -> float:
    """Print how often groups of runs are called worse; return the largest share of null pairs."""
    print(
        "| runs | what | null: worse | 25 points | 10 points |\n| --- | --- | ---: | ---: | ---: |"
    )
    largest = 0.0
    for bases, news, paired in (
        (3, 3, True),
        (3, 3, False),
        (2, 2, True),
        (1, 3, True),
        (3, 1, True),
        (5, 5, True),
    ):
        shares = []
        for lost in (0.0, 0.25, 0.1):
            found = 0
            for seed in range(pairs if not lost else PLANTED_PAIRS):
                random = np.random.default_rng([seed, bases, news])
                ability = random.beta(1.5, 1.5, 128)
                others = random.beta(1.5, 1.5, 128)
                new, first = (ability, 0) if paired else (others, 128)
                means = Means(
                    [seeds(random, ability, 0) for _ in range(bases)],
                    [seeds(random, new, first, lost) for _ in range(news)],
                )
                found += effect_on(means, "reward", paired=paired).high < 0
            shares.append(found / (pairs if not lost else PLANTED_PAIRS))
        what = "paired" if paired else "other prompts"
        print(
            f"| {bases} against {news} | {what} | "
            + " | ".join(f"{s:.1%}" for s in shares)
            + " |"
        )
        largest = max(largest, shares[0])
    found = 0
    for seed in range(pairs):
        random = np.random.default_rng([seed, 7])
        means = Means([trainer_means(random)], [trainer_means(random)])
        found += effect_on(means, "reward", paired=False).high < 0
    print(f"| 1 against 1 | metrics, AR(1) of 0.5 | {found / pairs:.1%} | | |")
    return max(largest, found / pairs)


def run_of(logs: str) -> Side:
    """Read the logs of a run and return its response data."""
    scan = read_logs([logs], ReadOptions(workers=1), GaeOptions(), Progress())
    data = response_data(summarise(scan))
    return side_of(scan.name, data)


def main(logs: Sequence[str]) -> bool:
    """Print the table; return whether every limit is met."""
    worse = 0
    anywhere = 0
    naive = 0
    for base, new in null_pairs([run_of(path) for path in logs]):
        ends = compare_runs([base], [new])
        worse += ends.level == "worse"
        anywhere += ends.level == "worse" or any(
            g.level == "worse" for g in ends.guardrails
        )
        naive += naive_worse(ends)
    print(
        "| pairs | what | paired | naive | bar |\n| ---: | --- | ---: | ---: | ---: |"
    )
    rates = [count / NULL_PAIRS for count in (worse, anywhere, naive)]
    print(
        f"| {NULL_PAIRS:,} | null: reward worse | {rates[0]:.1%} | {rates[2]:.1%} | |"
    )
    print(f"| {NULL_PAIRS:,} | null: worse anywhere | {rates[1]:.1%} | | at most 6% |")
    met = rates[1] <= 0.06
    for lost, bar in BARS.items():
        found = 0
        plain = 0
        top = 0
        for seed in range(PLANTED_PAIRS):
            base, new = made_up(10_000 + seed, lost=lost)
            ends = compare_runs([base], [new])
            found += ends.level == "worse"
            plain += naive_worse(ends)
            top += sum(f.pair < round(0.3 * 128) for f in flips(ends, most=10))
        power = found / PLANTED_PAIRS
        hits = top / PLANTED_PAIRS
        met &= power >= bar - 0.03 and (lost < 0.25 or hits >= 8)
        planted = (
            f"{lost * 100:.0f} points in 30% of prompts; planted of top ten: {hits:.1f}"
        )
        naively = plain / PLANTED_PAIRS
        print(
            f"| {PLANTED_PAIRS} | {planted} | {power:.1%} | {naively:.1%} | {bar - 0.03:.0%} |"
        )
    wrong = 0
    naively = 0
    for seed in range(PLANTED_PAIRS):
        base = made_up(20_000 + seed)[0]
        new = made_up(30_000 + seed)[1]
        # Prompts of their own, whose difficulty the naive test takes for a difference.
        apart = new.responses.assign(pair=new.responses["pair"] + np.uint64(1000))
        ends = compare_runs([base], [Side("new", apart)])
        wrong += ends.level == "worse"
        naively += naive_worse(ends)
    rates = [wrong / PLANTED_PAIRS, naively / PLANTED_PAIRS]
    print(
        f"| {PLANTED_PAIRS} | null, other prompts: worse | {rates[0]:.1%} | {rates[1]:.1%} | |"
    )
    return met


if __name__ == "__main__":
    if sys.argv[1:2] == ["--designs"]:
        pairs = int(sys.argv[2]) if sys.argv[2:] else DESIGN_PAIRS
        sys.exit(max(design_table(responses, pairs) for responses in (1, 8)) > 0.06)
    if sys.argv[1:2] == ["--groups"]:
        sys.exit(group_table(int(sys.argv[2]) if sys.argv[2:] else NULL_PAIRS) > 0.06)
    sys.exit(not main(sys.argv[1:]))
