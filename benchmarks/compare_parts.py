"""Measure what a comparison says of why runs differ and for which tasks: how often it is right.

Runs are made up: 128 prompts of three environments and all difficulties, ten steps of 8 responses,
of which the last fifth is compared. Responses have properties that go with their reward: a marked
answer, a cut-off end, another script, a failed tool. Null pairs are two such runs, also with fewer
responses on one side, with other prompts, or with seeds that differ; with logs, they are random
halves of one run's responses. In planted pairs NEW has one loss, and what is estimated of it stands
beside the truth. Run it as ``python -m benchmarks.compare_parts [NULL_PAIRS [LOGS...]]``.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.compare_power import BETWEEN_RUNS, halves, run_of
from rlreport.comparison.compare import Comparison, Side, compare_runs
from rlreport.comparison.data_file import EXTRA
from rlreport.comparison.statistics import LEVEL
from rlreport.figures.ragged import Floats

NULL_PAIRS = 2000
PLANTED_PAIRS = 400
MOST_FALSE = 0.06
PROMPTS = 128
STEPS = 10
ENVIRONMENTS = ("code", "maths", "puzzles")

_Pair = tuple[list[Side], list[Side]]


@dataclass(frozen=True)
class Loss:
    """What NEW loses, and what a comparison should say of it."""

    name: str
    # Shares of responses that lose the answer's mark or their end, and with it their reward
    unmarked: float = 0.0
    cut: float = 0.0
    environment: str = ""  # whose prompts lose ``points``
    is_middle: bool = False  # whether prompts of middle difficulty lose them
    points: float = 0.0
    # What has to be said, "" for nothing: a property named, an environment or difficulty worse
    main: str = ""
    task: str = ""


NO_LOSS = Loss("nothing")
LOSSES = (
    Loss("mark lost in 60% of responses", unmarked=0.6, main="format"),
    Loss("mark lost in 15% of responses", unmarked=0.15, main="format"),
    Loss("30% more cut off", cut=0.3, main="cut_off"),
    Loss("25 points in one environment", environment="maths", points=0.25, task="maths"),
    Loss("15 points in one environment", environment="maths", points=0.15, task="maths"),
    Loss("25 points at middle difficulty", is_middle=True, points=0.25, task="medium"),
)  # fmt: skip


class World(NamedTuple):
    """Prompts that runs have in common: how likely a right answer is, and their environments."""

    ability: Floats
    environment: np.ndarray

    @classmethod
    def made_up(cls, random: np.random.Generator) -> World:
        ability = random.beta(1.5, 1.5, PROMPTS)
        return cls(ability, np.array(ENVIRONMENTS)[np.arange(PROMPTS) % 3])

    def after(self, loss: Loss) -> Floats:
        """Return the chance of a right answer to each prompt after a loss."""
        is_hit = np.zeros(PROMPTS, bool)
        if loss.environment:
            is_hit = self.environment == loss.environment
        if loss.is_middle:
            is_hit = (self.ability > 1 / 3) & (self.ability < 2 / 3)
        return np.clip(self.ability - loss.points * is_hit, 0, 1)


def made_up_run(
    world: World,
    random: np.random.Generator,
    loss: Loss = NO_LOSS,
    *,
    size: int = 8,
    shift: float = 0.0,
    first: int = 0,
) -> Side:
    """Return a run: ``size`` responses a step to each prompt, numbered from ``first``."""
    step, prompt, _ = (a.ravel() for a in np.indices((STEPS, PROMPTS, size)))

    def happens(chance: float | Floats) -> np.ndarray:
        return random.random(len(prompt)) < chance

    chance = np.clip(world.after(loss) + shift, 0, 1)[prompt]
    is_right = happens(chance)
    is_cut = happens(0.1) | happens(loss.cut)
    is_marked = happens(0.9) & ~happens(loss.unmarked)
    is_other = happens(np.where(is_right, 0.02, 0.06))
    has_failed = happens(np.where(is_right, 0.1, 0.3))
    is_rewarded = is_right & ~is_cut & is_marked
    columns = {
        "step": step,
        "n": prompt,
        "split": "train",
        "prompt_id": first + prompt,
        "pair": (first + prompt).astype(np.uint64),
        "reward": is_rewarded.astype(np.float64),
        "response_tokens": random.normal(100, 20, len(prompt)) + 40 * is_cut,
        "kl_k1": random.gamma(4, 2, len(prompt)) * (1 + world.ability[prompt]),
        "cut_off": is_cut.astype(np.float64),
        "answer_format": 8.0 * is_marked,
        "other_script": is_other.astype(np.float64),
        "tool_errors": has_failed.astype(np.float64),
        f"{EXTRA}environment": world.environment[prompt],
    }
    return Side("run", pd.DataFrame(columns))


def pair(seed: int, loss: Loss = NO_LOSS) -> _Pair:
    random = np.random.default_rng([seed, 1])
    world = World.made_up(random)
    return [made_up_run(world, random)], [made_up_run(world, random, loss)]


def unequal_pair(seed: int) -> _Pair:
    """Return equal runs, NEW with a quarter of BASE's responses."""
    random = np.random.default_rng([seed, 2])
    world = World.made_up(random)
    return [made_up_run(world, random)], [made_up_run(world, random, size=2)]


def unpaired_pair(seed: int) -> _Pair:
    """Return equal runs with other prompts."""
    random = np.random.default_rng([seed, 3])
    base = made_up_run(World.made_up(random), random)
    return [base], [made_up_run(World.made_up(random), random, first=PROMPTS)]


def seeds(seed: int) -> _Pair:
    """Return 3 against 3 runs whose seeds move all of their rewards."""
    random = np.random.default_rng([seed, 4])
    world = World.made_up(random)
    runs = [
        made_up_run(world, random, shift=random.normal(0, BETWEEN_RUNS))
        for _ in range(6)
    ]
    return runs[:3], runs[3:]


def said(ends: Comparison) -> set[str]:
    """Return what a comparison says: names of its parts that tell the runs apart.

    Those with "worse: " in front say that NEW is worse.
    """
    parts = set()
    if ends.level in ("better", "worse"):
        parts |= {"reward", f"{ends.level}: reward"}
    if any(one.level == "worse" for one in ends.guardrails):
        parts.add("worse: guardrail")
    why = ends.decomposition
    if why.main or why.main_part:
        parts.add("main")
    if any(one.p <= 1 - LEVEL for one in why.properties):
        parts.add("property")
    for table in ("environments", "difficulties"):
        for task in getattr(ends.tasks, table):
            if task.level in ("better", "worse"):
                parts |= {table, f"{task.level}: {table}"}
    changes = set(ends.prompt_changes["change"])
    if "regressed" in changes:
        parts |= {"prompts", "worse: prompts"}
    if "improved" in changes:
        parts.add("prompts")
    if any(part.startswith("worse: ") for part in parts):
        parts.add("worse anywhere")
    return parts


SAID = {
    "reward better or worse": "reward",
    "reward worse": "worse: reward",
    "a guardrail worse": "worse: guardrail",
    "a property named": "main",
    "a property's share changed": "property",
    "an environment differs": "environments",
    "a difficulty differs": "difficulties",
    "a prompt improved or regressed": "prompts",
    "worse anywhere": "worse anywhere",
}
"""What a table shows -> part in ``said``."""


def null_table(designs: dict[str, Callable[[int], _Pair]], pairs: int) -> bool:
    """Print how often equal runs are told apart; return whether it is seldom enough.

    There are ``pairs`` null pairs of the first design, and half as many of each other one.
    """
    rates: dict[str, list[float]] = {what: [] for what in SAID}
    heads = []
    for number, (name, design) in enumerate(designs.items()):
        count = pairs if number == 0 else max(1, pairs // 2)
        heads.append(f"{name} ({count:,})")
        parts: Counter[str] = Counter()
        for seed in range(count):
            parts.update(said(compare_runs(*design(seed))))
        for what, part in SAID.items():
            rates[what].append(parts[part] / count)
    print("| null pairs | " + " | ".join(heads) + " |")
    print("| --- |" + " ---: |" * len(heads))
    for what, row in rates.items():
        print(f"| {what} | " + " | ".join(f"{rate:.1%}" for rate in row) + " |")
    return max(map(max, rates.values())) <= MOST_FALSE


def planted_table(pairs: int) -> None:
    """Print how often planted losses are named, and their size as estimated and in truth."""
    print(
        "| planted | effect | worse | named | another named | part of it | truth | error of it |"
    )
    print("| --- |" + " ---: |" * 7)
    for loss in LOSSES:
        is_worse = is_named = is_wrong = 0
        effects = []
        estimates = []
        truths = []
        for seed in range(pairs):
            ends = compare_runs(*pair(seed, loss))
            is_worse += ends.level == "worse"
            effects.append(ends.effect.value)
            named = names(ends, loss)
            wanted = loss.main or loss.task
            is_named += wanted in named[:1]
            is_wrong += bool(set(named) - {wanted})
            estimates.append(estimate(ends, loss))
            truths.append(truth(seed, loss))
        errors = np.array(estimates) - np.array(truths)
        figures = [
            f"{np.mean(effects):+.3f}",
            f"{is_worse / pairs:.1%}",
            f"{is_named / pairs:.1%}",
            # Of the classes beside it, prompts at the edges lose, too.
            "" if loss.is_middle else f"{is_wrong / pairs:.1%}",
            f"{np.nanmean(estimates):+.3f}",
            f"{np.mean(truths):+.3f}",
            f"{np.nanstd(errors):.3f}",
        ]
        print(f"| {loss.name} | " + " | ".join(figures) + " |", flush=True)


def names(ends: Comparison, loss: Loss) -> list[str]:
    """Return the property that is named or, if tasks lose, those called worse, the worst first."""
    if loss.main:
        main = ends.decomposition.main
        return [main.id] if main else []
    tasks = ends.tasks.environments if loss.environment else ends.tasks.difficulties
    worst_first = sorted(tasks, key=lambda task: task.effect.value)
    return [task.name for task in worst_first if task.level == "worse"]


def estimate(ends: Comparison, loss: Loss) -> float:
    """Return the part of the effect that is said to go with the loss, or the task's difference."""
    if loss.main:
        properties = ends.decomposition.properties
        return next((one.part for one in properties if one.id == loss.main), np.nan)
    tasks = ends.tasks.environments if loss.environment else ends.tasks.difficulties
    return next((one.effect.value for one in tasks if one.name == loss.task), np.nan)


def truth(seed: int, loss: Loss) -> float:
    """Return what ``estimate`` estimates, of the chances that ``made_up_run`` draws from."""
    world = World.made_up(np.random.default_rng([seed, 1]))
    kept = 0.9 * 0.9  # whole and marked responses
    if loss.main:
        # A lost mark or end takes the reward, and nothing else changes: all of it goes with it.
        return float(-kept * world.ability.mean() * (loss.unmarked or loss.cut))
    before = world.ability
    after = world.after(loss)
    if loss.environment:
        is_in = world.environment == loss.environment
    else:
        # The third in the middle for BASE
        rank = np.argsort(np.argsort(before, kind="stable"))
        is_in = (rank >= PROMPTS / 3) & (rank < PROMPTS * 2 / 3)
    return float(kept * (after - before)[is_in].mean())


def main(pairs: int, logs: Sequence[str]) -> bool:
    """Print both tables; return whether every limit is met."""
    designs: dict[str, Callable[[int], _Pair]] = {
        "1 against 1": pair,
        "8 responses against 2": unequal_pair,
        "other prompts": unpaired_pair,
        "3 against 3, seeds differ": seeds,
    }
    if logs:
        runs = [run_of(path) for path in logs]

        def parts_of_a_run(seed: int) -> _Pair:
            one, other = halves(runs[seed % len(runs)], seed)
            return [one], [other]

        designs = {"halves of a run": parts_of_a_run}
    met = null_table(designs, pairs)
    print(flush=True)
    if not logs:
        planted_table(PLANTED_PAIRS)
    return met


if __name__ == "__main__":
    null_pairs = int(sys.argv[1]) if sys.argv[1:] else NULL_PAIRS
    sys.exit(not main(null_pairs, sys.argv[2:]))
