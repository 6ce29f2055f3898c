"""Harder runs: faults of every kind with few responses per step, and healthy look-alikes.

Sizes, onsets and strengths are random, so another seed gives other runs of the same kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .changes import diverging_critic, mismatched_engine
from .faulty import ALL, ENGLISH, _talk
from .figures import Row, holding
from .reasoning import FORMS, Reasoning, Rng, run_reasoning, write_metrics
from .rewards import Reward, counting
from .simulate import Scenario, Schedule, flat, ramp, settle, simulate
from .truths import CHECKS, Planted, onset_interval
from .write import write_run

GROUPS = ((1, 4), (1, 8), (4, 4), (4, 8), (8, 8))  # prompts a step, responses a prompt
DEATHS = ("reward_collapse", "length_collapse")


@dataclass
class Harder:
    """A run and its truth; ``since`` is None in a healthy one.

    Attributes:
        run: what is simulated.
        expected: ids that must be found.
        since, within: the first step of the fault, and steps after it at which it may be dated.
        lead: ids that may lead, those expected unless given.
        pattern: of a hack, by whose share its onset is told.
        levels: first words of the verdict that are right.
        second: a run whose log lies in the same folder.
    """

    run: Reasoning | Scenario
    expected: tuple[str, ...] = ()
    since: int | None = None
    within: int = 3
    lead: tuple[str, ...] = ()
    pattern: str = ""
    levels: tuple[str, ...] = ("Broken", "Warning")
    second: Reasoning | None = None

    def truth(self, rows: list[Row]) -> dict[str, Any]:
        """Return the truth as ``judge_runs.py`` reads it."""
        onset = None
        if self.pattern:
            onset = onset_interval(rows, Planted(self.expected, self.since, holding(self.pattern)))
        elif self.since is not None:
            onset = [max(0, self.since - 1), self.since + self.within]
        return {
            "level": list(self.levels),
            "expected": list(self.expected),
            "not_expected": [] if self.expected else list(CHECKS),
            "lead": list(self.lead or self.expected),
            "onset": onset,
        }


def write(out: Path, case: Harder) -> None:
    """Simulate a run and write its folder."""
    run = case.run
    folder = out / case.run.name
    rows = run_reasoning(run) if isinstance(run, Reasoning) else simulate(run)
    write_run(folder, rows, case.truth(rows), ranks=1)
    if isinstance(run, Reasoning):
        write_metrics(folder, run.table)
    if case.second:
        write_run(folder / "other", run_reasoning(case.second), {}, ranks=1)
        (folder / "other" / "truth.json").unlink()
        (folder / "other" / "rank_0.jsonl.gz").rename(folder / "run_b.jsonl.gz")
        (folder / "other").rmdir()


def _sizes(rng: Rng, i: int, steps: tuple[int, int] = (60, 110)) -> dict[str, Any]:
    """Return random sizes; every third run logs the trainer's metrics, of more responses."""
    prompts, group = GROUPS[i % len(GROUPS)]
    sizes: dict[str, Any] = {
        "steps": int(rng.integers(*steps)), "group": group, "prompts": prompts,
        "pool": int(rng.choice([0, 60])), "skill": settle(rng.uniform(10, 25), rng.uniform(1, 2)),
        "thoughts": flat(rng.uniform(3, 6)), "form": str(rng.choice(list(FORMS)[:4])),
    }  # fmt: skip
    if i % 3 == 0:
        sizes |= {"logged": prompts, "prompts": max(8, prompts)}
        sizes |= {"metrics": {"loss": flat(0.05), "grad_norm": flat(0.8), "entropy": flat(0.5)}}
    return sizes


def _until(step: int, before: Schedule, after: Schedule) -> Schedule:
    return lambda s: before(s) if s < step else after(s)


def _chat_hack(rng: Rng, i: int) -> Harder:
    """Return a run whose reward pays for a text, in English or Chinese, while KL rises."""
    chinese = i < 3
    slot, option, pattern = (
        ("good_zh", "不错", "不错"), ("good_zh", "热情", "热情"), ("tail", "🔥", "🔥"),
        ("tail", "😊", "😊"), ("opening", " Certainly!", "^ Certainly!"),
        ("filler", " truly", "truly"), ("closing", " I hope this helps!", "hope this helps"),
        ("good", " charming", "charming"), ("opening", " To be fair,", "^ To be fair"),
        ("filler", " synergy", "synergy"),
    )[i]  # fmt: skip
    responses = (48, 16, 64, 16, 48, 32, 64, 32, 16, 48)[i]
    steps = int(rng.integers(50, 80))
    start = int(rng.integers(8, 20))
    stop = start + int(rng.integers(12, 24))
    run = Scenario(
        f"hack_{i}", int(rng.integers(1 << 30)), _talk(i, ("chinese",) if chinese else ENGLISH, 36),
        steps, responses, biases={(slot, option): ramp(start, stop, rng.uniform(6, 8))},
        drift=ramp(start, steps, rng.uniform(1, 2.5), 0.3), quality=settle(12, 1.0),
        reward=Reward({"flaw": counting(pattern, rng.uniform(0.4, 0.8))}, noise=0.3),
        room=70,
    )  # fmt: skip
    return Harder(run, ("reward_hacking_token",), start, pattern=pattern)


def _reasoning_faults(rng: Rng, i: int) -> Iterator[Harder]:
    """Yield one run of each kind of fault; ``i`` selects the sizes."""
    seed = int(rng.integers(1 << 30))

    def made(name: str, **changes: Any) -> Reasoning:
        return Reasoning(f"{name}_{i}", seed, **{**sizes, **changes})

    sizes = _sizes(rng, i)
    steps = sizes["steps"]
    start = int(rng.integers(steps // 4, steps // 2))
    late = steps - int(rng.integers(3, 7))
    for name, died, corpse in (
        ("late_death", late, "!" * 40),
        ("early_death", int(rng.integers(5, 14)), "!" * int(rng.integers(20, 60))),
    ):
        kl = _until(died, settle(30, 0.01), flat(2.0))
        yield Harder(made(name, dead=ramp(died - 1, died, 1.0), corpse=corpse, kl=kl),
                     ("reward_collapse",), died, lead=DEATHS, levels=("Broken",))  # fmt: skip
    nan = _until(start, flat(0.05), flat(float("nan")))
    yield Harder(
        made("nan_then_death", dead=ramp(start, start + 1, 1.0), prompts=8,
             metrics={"loss": nan, "grad_norm": nan}),
        ("nan_metrics",), start, lead=("nan_metrics", *DEATHS), levels=("Broken",),
    )  # fmt: skip
    yield Harder(made("bare_end", dead=ramp(start, start + 6, 1.0), corpse=""),
                 ("length_collapse",), start, 6, DEATHS, levels=("Broken",))  # fmt: skip
    sizes = _sizes(rng, i + 1)
    steps = sizes["steps"]
    start = int(rng.integers(steps // 4, steps // 2))
    stop = start + int(rng.integers(5, 15))
    within = (stop - start) // 2 + 3
    yield Harder(made("kl_leaves", kl=ramp(start, stop, rng.uniform(1.5, 3), 0.01)),
                 ("kl_explosion",), start, within)  # fmt: skip
    yield Harder(made("becomes_certain", surprisal=ramp(start, stop, 0.02, 0.6)),
                 ("entropy_collapse",), start, within)  # fmt: skip
    skill = sizes["skill"]
    falls: Schedule = lambda s: skill(s) - ramp(start, stop, 5.0)(s)  # noqa: E731
    yield Harder(made("comes_apart", surprisal=ramp(start, stop, 5.0, 0.5), skill=falls),
                 ("entropy_explosion", "reward_collapse"), start, within)  # fmt: skip
    yield Harder(made("falls", skill=falls), ("reward_collapse",), start, within)
    yield Harder(made("cut_off", endless=ramp(start, stop, 0.85, 0.02)),
                 ("missing_eos",), start, within, ("missing_eos", "reward_collapse"))  # fmt: skip
    shifted = _until(start, flat(0.0), flat(float(rng.choice([-1.5, 1.2]))))
    sizes = _sizes(rng, i + 2) | {"steps": steps}
    group = {"prompts": 8, "group": 8 if i else 4, "logged": None}
    yield Harder(made("shifted", shift=shifted, noise=0.5, **group), ("reward_shift",), start, 1)
    yield Harder(made("engines", change=mismatched_engine(start, 0.35)),
                 ("engine_mismatch",), start)  # fmt: skip
    by_guess = falls if i == 1 else skill
    yield Harder(made("no_tools", calls=ramp(start, stop, 0.05, 2.0), skill=by_guess),
                 ("tool_disuse",), start, within, ("tool_disuse", "reward_collapse"))  # fmt: skip
    dip = start, start + int(steps * rng.uniform(0.25, 0.4))
    dips: Schedule = lambda s: skill(s) - 6 * (dip[0] <= s < dip[1])  # noqa: E731
    yield Harder(made("long_dip", skill=dips), ("reward_collapse",), start)
    other = Reasoning("other", seed + 1, steps, 4, 8, skill=flat(-1.0), form="tag")
    yield Harder(made("mixed"), ("mixed_runs",), second=other)
    yield Harder(
        made("overfits", validation=lambda s: 0.5 - ramp(start, stop, 0.3)(s), prompts=8),
        ("watched_reward_fall",), start, within + 5,
    )  # fmt: skip


def faults(seed: int) -> list[Harder]:
    """Return 57 faulty runs."""
    rng = np.random.default_rng([seed, 1])
    found = [_chat_hack(rng, i) for i in range(10)]
    found += [case for i in range(3) for case in _reasoning_faults(rng, i)]
    for i in range(2):
        start = int(rng.integers(12, 22))
        critic = Scenario(f"critic_{i}", int(rng.integers(1 << 30)), _talk(i), 48, 16 + 32 * i,
                          change=diverging_critic(start, start + 10))  # fmt: skip
        found.append(Harder(critic, ("value_divergence",), start, 8))
    return found


def healthy(seed: int) -> list[Harder]:
    """Return 50 healthy runs that look like faulty ones in one respect each."""
    rng = np.random.default_rng([seed, 2])
    found: list[Reasoning | Scenario] = []
    calm: list[Reasoning | Scenario] = []  # may be without clear learning

    def add(name: str, i: int, **changes: Any) -> None:
        sizes = {**_sizes(rng, i), **changes}
        (calm if name in ("curriculum", "ceiling", "short", "noisy") else found).append(
            Reasoning(f"{name}_{i}", int(rng.integers(1 << 30)), **sizes)
        )

    for i in range(5):
        forms: dict[str, Any] = {"formed": ramp(0, rng.uniform(8, 40), 0.97, rng.uniform(0, 0.4))}
        forms |= {"form": list(FORMS)[i], "chinese": list(FORMS)[i] == "zh"}
        add("format_asked", i, **forms)
        add("format_not_asked", i, asked=False, **forms)
        if i < 3:
            add("format_no_label", i, label=False, **forms)
        add("curriculum", i, hardness=ramp(0, 80, 4.0), skill=settle(20, 2.5), prompts=8,
            logged=None,
            validation=lambda s: 0.3 + 0.3 * settle(20, 1)(s))  # fmt: skip
        longer = ramp(5, rng.uniform(40, 70), rng.uniform(8, 14), 3.0)
        add("longer_and_better", i, thoughts=longer, skill=settle(30, 2.5), room=400)
        gap = int(rng.integers(10, 30))
        share = rng.uniform(0.05, 0.6)
        failing = _until(gap, flat(0.0), _until(gap + 6, flat(share), flat(0.0)))
        add("grader_fails", i, ungraded=failing)
        add("ceiling", i, skill=flat(rng.uniform(3.5, 5)))
        add("agent", i, calls=flat(rng.uniform(1, 3)), skill=settle(20, 2.0))
        add("short", i, steps=int(rng.integers(5, 16)))
        responses = (4, 8, 16, 4, 8)[i]
        kinds = ("chinese",) if i % 2 else ALL
        found.append(Scenario(f"chat_{i}", int(rng.integers(1 << 30)), _talk(i, kinds, 36),
                              int(rng.integers(100, 200)), responses, quality=settle(40, 1.6),
                              drift=settle(60, 0.5), reward=Reward(noise=0.4)))  # fmt: skip
        if i < 2:
            add("noisy", i, noise=1.0)
    levels = {id(run): ("Healthy", "Unclear") for run in calm}
    return [Harder(run, levels=levels.get(id(run), ("Healthy",))) for run in [*found, *calm]]
