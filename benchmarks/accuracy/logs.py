"""Runs whose log is of several runs or attempts, or lacks a part; groups dropped; parts of rewards.

Files are logs of the simulated word problems of ``benchmarks.lab``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.accuracy.family import (
    ANY,
    Drawn,
    Family,
    Random,
    Row,
    line_of,
    read_rows,
)
from benchmarks.accuracy.policy import slowly_begins
from benchmarks.accuracy.reward import any_log, levels, mean_reward, responses_of
from benchmarks.accuracy.shapes import (
    Floats,
    Sizes,
    begins,
    learning_curve,
    onset_between,
    random_sizes,
    rise_between,
    wander,
)
from benchmarks.lab import hidden_base, hidden_logs
from rlreport.check.finding import Finding, Severity
from rlreport.check.verdict import Judged
from rlreport.tables import Tables
from tests.law_families_metrics import metrics_log
from tests.tables_builder import make_tables

NOTE = (Severity.INFO,)

Files = dict[str, list[Row]]


def _settings(random: Random) -> dict[str, Any]:
    """Return settings of a small run that learns: 20 to 36 steps of four groups of four."""
    run = hidden_base.sizes(random, int(random.integers(24)))
    return run | {"steps": int(random.integers(20, 37)), "prompts": 4, "group": 4}


def _simulated(random: Random, *keep: str) -> list[Row]:
    """Return the rows of a small run; of the fields of tokens only those in ``keep`` remain."""
    return hidden_base.simulate(random, keep, **_settings(random))


# The last step of twins
MOST_STEPS = 45
# Numbers of hidden runs of sixteen rows a step, without those in which a rank ends early
SMALL = [number for number in range(3, 60, 6) if number % 5]


def _twin(make: hidden_base.Maker, random: Random) -> Files:
    """Return the files of a hidden run with an unusual log, up to a step."""
    files = make(random, SMALL[random.integers(len(SMALL))]).files
    return {name: _before(rows, MOST_STEPS) for name, rows in files.items()}


def _steps_of(rows: list[Row]) -> int:
    return 1 + max(row["step"] for row in rows)


def _before(rows: Iterable[Row], stop: float) -> list[Row]:
    return [row for row in rows if row["step"] < stop]


def _in_ranks(rows: list[Row]) -> Files:
    """Return the files of two ranks, each with the half of the groups."""
    files: Files = {"rank_0.jsonl": [], "rank_1.jsonl": []}
    for row in rows:
        files[f"rank_{row['group_id'] % 2}.jsonl"].append(row)
    return files


RUN_NAMES = (
    ("run_a/rollouts.jsonl", "run_b/rollouts.jsonl"),
    ("seed_1.jsonl", "seed_2.jsonl"),
    ("baseline/rollouts.jsonl", "lower-kl/rollouts.jsonl"),
    ("2026-06-12/rollouts.jsonl", "2026-06-13/rollouts.jsonl"),
    ("grpo-run-1.jsonl", "grpo-run-2.jsonl"),
)
"""Names of the logs of two runs that lie in one folder."""


def _two_runs(random: Random, strength: float) -> Drawn:
    """Two runs in one folder, of which one has a share of the other's steps."""
    if not strength:
        makers = (hidden_logs.two_attempts, hidden_logs.two_attempts_twin)
        return Drawn(read_rows(_twin(makers[random.integers(2)], random)))
    rows = _simulated(random)
    steps = max(2, round(strength * _steps_of(rows)))
    other = _settings(random) | {"steps": steps}
    names = RUN_NAMES[random.integers(len(RUN_NAMES))]
    both = random.permutation(2)
    logs = (rows, hidden_base.simulate(random, **other))
    files = {name: logs[which] for name, which in zip(names, both, strict=True)}
    return Drawn(read_rows(files))


def _torn_lines(random: Random, strength: float) -> Drawn:
    """A share of lines that several processes wrote into each other, or that lack their end."""
    rows = _simulated(random)
    lines = [line_of(row) for row in rows]
    torn = random.random(len(lines)) < strength
    # A share of few lines is at least one of them.
    torn[random.integers(len(lines))] |= strength > 0
    for at in np.flatnonzero(torn).tolist():
        length = len(lines[at])
        lines[at] = lines[at][: int(length * random.uniform(0.1, 0.9))]
    return Drawn(read_rows({"rollouts.jsonl": lines}))


def _lost_steps(random: Random, strength: float) -> Drawn:
    """A share of the run whose steps were not written, as the disk was full."""
    rows = _simulated(random)
    steps = _steps_of(rows)
    if not strength:
        return Drawn(read_rows(_in_ranks(rows)))
    count = max(1, round(strength * steps))
    start = int(random.integers(3, steps - count - 2))
    kept = [row for row in rows if not start <= row["step"] < start + count]
    return Drawn(read_rows(_in_ranks(kept)), (start - 1, start + count))


def _rank_ends(random: Random, strength: float) -> Drawn:
    """A rank that writes nothing in the last share of the run."""
    rows = _simulated(random)
    steps = _steps_of(rows)
    files = _in_ranks(rows)
    end = steps - max(2, round(strength * steps)) if strength else steps
    files["rank_1.jsonl"] = _before(files["rank_1.jsonl"], end)
    return Drawn(read_rows(files), (end - 1, end))


ATTEMPTS = (
    ("rollouts.jsonl", "rollouts_resumed.jsonl"),
    ("attempt_a/rollouts.jsonl", "attempt_b/rollouts.jsonl"),
    ("run-0612.jsonl", "run-0613.jsonl"),
    ("log.jsonl", "log.restart.jsonl"),
    ("rollouts.jsonl", "rollouts.jsonl"),
)
"""Names of the logs of an attempt and of the next, which may be the same."""


def _resumed(random: Random, strength: float) -> Drawn:
    """A run that was resumed from a checkpoint: a share of its steps is logged twice."""
    if not strength:
        twin = hidden_logs.two_attempts_twin
        return Drawn(read_rows(_twin(twin, random)))
    run = _settings(random)
    steps = run["steps"]
    count = max(2, round(strength * steps))
    # Each attempt has steps of its own.
    stop = int(random.integers(count + 2, steps - 1))
    back = stop - count
    attempts = [hidden_base.simulate(random, **run) for _ in range(2)]
    again = [row for row in attempts[1] if row["step"] >= back]
    first, second = ATTEMPTS[random.integers(len(ATTEMPTS))]
    files: Files = {first: _before(attempts[0], stop)}
    files.setdefault(second, []).extend(again)
    return Drawn(read_rows(files), (back, back))


USUAL = {"loss": 0.05, "grad_norm": 0.4, "kl": 0.004, "entropy": 0.7}
"""What a trainer logs, and its usual value."""


def _trainer_records(random: Random, steps: int) -> list[Row]:
    """Return a record of the trainer for each step; an evaluation of every fifth is in it."""
    records: list[Row] = []
    for step in range(steps):
        noisy = {
            name: value * float(random.lognormal(0, 0.2))
            for name, value in USUAL.items()
        }
        record: Row = {"step": step, **noisy}
        if step % 5 == 0:  # there is none at others
            level = 0.4 + 0.1 * step / steps
            record["val/accuracy"] = float(random.normal(level, 0.01))
        records.append(record)
    return records


def _nan(random: Random, strength: float) -> Drawn:
    """A figure that is NaN at so many steps in a row: of the trainer, a reward or a token's."""
    kind = str(random.choice([*USUAL, "reward", "logprobs"]))
    keep = ("logprobs", "response_tokens") if kind == "logprobs" else ()
    rows = _simulated(random, *keep)
    steps = _steps_of(rows)
    start = int(random.uniform(0.3, 0.6) * steps)
    stop = start + int(strength)
    records = _trainer_records(random, steps)
    for row in records if kind in USUAL else rows:
        if not start <= row["step"] < stop:
            continue
        is_list = kind == "logprobs"
        row[kind] = [math.nan] * len(row[kind]) if is_list else math.nan
    files = {"rollouts.jsonl": rows, "metrics.jsonl": records}
    return Drawn(read_rows(files), (start, start))


DROPPED = (
    ("scores", "batch/filtered_prompts_pct", 1.0),
    ("reward/avg_raw_reward", "async/keep_rate", -1.0),
    ("train/reward", "train/dynamic_filtering_pass_rate", -100.0),
)
"""Names of the reward and of the share that is dropped or, of a negative scale, kept."""


def _many_dropped(random: Random, strength: float) -> Drawn:
    """Groups are dropped for equal rewards, in the end nearly all, and the policy stays as it is.

    Healthy: a constant share of the groups is dropped.
    """
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    start, stop = slowly_begins(random, sizes)
    usual = random.uniform(0.05, 0.35)
    more = max(strength - usual, 0.0) * rise_between(sizes, start, stop)
    if strength:
        chance = chance[0] + wander(random, sizes.steps, 0.02)
    onset = onset_between(start, stop)
    if random.random() < 0.5:
        reward, told, scale = DROPPED[random.integers(len(DROPPED))]
        counted = random.binomial(sizes.prompts * 4, usual + more) / sizes.prompts / 4
        shown = counted if scale > 0 else 1 - counted
        series = {
            reward: mean_reward(random, sizes, chance),
            told: shown * abs(scale),
        }
        return Drawn(metrics_log(sizes.steps, **series), onset)
    groups = sizes.steps * sizes.prompts
    is_dropped = random.random(groups) < np.repeat(usual + more, sizes.prompts)
    dropped = np.repeat(is_dropped, sizes.group).astype(np.float64)
    columns = responses_of(random, sizes, chance, dropped=dropped)
    return Drawn(make_tables(columns), onset)


def _worst_dropped(random: Random, strength: float) -> Drawn:
    """A policy that gets worse, and a trainer that drops the worst groups: a growing share."""
    sizes = random_sizes(random)
    chance, gain = levels(random, sizes)
    start, stop = slowly_begins(random, sizes)
    risen = rise_between(sizes, start, stop)
    share = np.full(sizes.steps, random.uniform(0.05, 0.2))
    if strength:
        chance = chance.max() - 0.4 * gain * risen + wander(random, sizes.steps, 0.01)
        share = share + max(strength - share[0], 0.0) * risen
    columns = responses_of(random, sizes, chance)
    by_group = columns["reward"].reshape(sizes.steps, sizes.prompts, sizes.group)
    # The place of each group among those of its step, the worst one first; equal ones at random
    order = by_group.mean(2) + 1e-6 * random.random((sizes.steps, sizes.prompts))
    place = (order.argsort(1).argsort(1) + random.random(order.shape)) / sizes.prompts
    if not strength:
        place = random.random(order.shape)  # by chance, as for full queues
    is_dropped = place < share[:, None]
    columns["dropped"] = np.repeat(is_dropped.ravel(), sizes.group).astype(np.float64)
    return Drawn(make_tables(columns), onset_between(start, stop))


def _parts_log(random: Random, sizes: Sizes, parts: dict[str, Floats]) -> Tables:
    """Return rollouts whose reward is the sum of parts, of each response."""
    step = np.repeat(np.arange(1, sizes.steps + 1), sizes.responses)
    prompt = np.repeat(np.arange(sizes.steps * sizes.prompts), sizes.group)
    reward = np.sum(list(parts.values()), axis=0)
    columns = {"step": step, "prompt_id": prompt, "reward": reward}
    return make_tables(columns, extras=pd.DataFrame(parts), reward_parts=list(parts))


def _right(random: Random, sizes: Sizes, chance: Floats) -> Floats:
    """Return whether each answer is right, 0 or 1, (responses of the run,)."""
    drawn = random.random(sizes.steps * sizes.responses)
    return (drawn < np.repeat(chance, sizes.responses)).astype(np.float64)


def _one_part(random: Random, strength: float) -> Drawn:
    """A part whose scale is so many times that of the other one; both parts are learned."""
    sizes = random_sizes(random)
    chance, gain = levels(random, sizes)
    right = _right(random, sizes, np.clip(chance, 0.2, 0.8))
    scale = right.std() * (strength or 1.0)
    noise = random.normal(0, 0.9, right.size)
    learned = np.repeat(learning_curve(random, sizes), sizes.responses)
    style = scale * (noise + gain / right.std() * learned)
    return Drawn(_parts_log(random, sizes, {"accuracy": right, "style": style}))


def _never_paid(random: Random, strength: float) -> Drawn:
    """A part whose parser misses a share of the answers that should earn it."""
    sizes = random_sizes(random)
    chance, _ = levels(random, sizes)
    right = _right(random, sizes, chance)
    is_formed = random.random(right.size) < random.uniform(0.5, 0.95)
    is_seen = random.random(right.size) >= strength
    formed = (is_formed & is_seen).astype(np.float64)
    parts = {"accuracy": right, "format": 0.5 * formed}
    if random.random() < 0.5:
        return Drawn(_parts_log(random, sizes, parts))
    means = {
        f"rewards/{name}/mean": part.reshape(sizes.steps, -1).mean(1)
        for name, part in parts.items()
    }
    total = np.sum(list(means.values()), axis=0)
    return Drawn(metrics_log(sizes.steps, reward=total, **means))


FIELDS = ("data_source", "env", "task", "dataset")


def _harder_tasks(random: Random, strength: float) -> Drawn:
    """The share of hard tasks rises by ``strength``; the policy learns a little of each kind."""
    sizes = random_sizes(random, 40, 120)
    start, stop = begins(random, sizes)
    usual = random.uniform(0.0, 0.2)
    share = usual + strength * (1 - usual) * rise_between(sizes, start, stop)
    of_prompt = np.repeat(share, sizes.prompts)
    is_hard = random.random(of_prompt.size) < of_prompt
    gain = random.uniform(0.02, 0.1) * sizes.time
    easy = random.uniform(0.6, 0.8) + gain
    hard = random.uniform(0.1, 0.3) + gain
    chance = np.where(
        is_hard, np.repeat(hard, sizes.prompts), np.repeat(easy, sizes.prompts)
    )
    reward = random.random(chance.size * sizes.group) < np.repeat(chance, sizes.group)
    columns = responses_of(random, sizes, easy)
    columns["reward"] = reward.astype(np.float64)
    names = np.where(np.repeat(is_hard, sizes.group), "olympiad", "gsm8k")
    extras = pd.DataFrame({str(random.choice(FIELDS)): names})
    return Drawn(make_tables(columns, extras=extras), onset_between(start, stop))


def _learns(random: Random, strength: float) -> Drawn:
    """A run whose share of right answers rises by ``strength``."""
    sizes = random_sizes(random)
    start = random.uniform(0.1, 0.5)
    curve = start + strength * learning_curve(random, sizes)
    chance = curve + wander(random, sizes.steps, random.uniform(0.0, 0.02))
    return Drawn(any_log(random, sizes, chance))


def tells_rise(judged: Judged[Finding]) -> bool:
    """Return whether a verdict says that a run is healthy and its reward rose."""
    reward = judged.courses.get("reward")
    return judged.level == "healthy" and reward is not None and reward.rose


FAMILIES = (
    Family(
        check="mixed_runs",
        name="two runs in one folder",
        unit="of the steps",
        strengths=(0.2, 0.5, 1.0),
        draw=_two_runs,
    ),
    Family(
        check="broken_log",
        name="lines are torn",
        unit="of lines",
        strengths=(0.0001, 0.01, 0.1),
        draw=_torn_lines,
        severities=ANY,
    ),
    Family(
        check="broken_log",
        name="steps are missing",
        unit="of the steps",
        strengths=(0.02, 0.1, 0.3),
        draw=_lost_steps,
    ),
    Family(
        check="broken_log",
        name="a rank stops writing",
        unit="of the steps",
        strengths=(0.05, 0.2, 0.5),
        draw=_rank_ends,
    ),
    Family(
        check="repeated_steps",
        name="a run was resumed",
        unit="of the steps",
        strengths=(0.05, 0.2, 0.5),
        draw=_resumed,
        severities=NOTE,
    ),
    Family(
        check="nan_metrics",
        name="a figure is NaN",
        unit="steps in a row",
        strengths=(1, 3, 8),
        draw=_nan,
        severities=ANY,
    ),
    Family(
        check="dropped_groups",
        name="most groups are dropped",
        unit="of groups",
        strengths=(0.4, 0.6, 0.8, 0.95),
        draw=_many_dropped,
        severities=ANY,
    ),
    Family(
        check="dropped_groups",
        name="the worst groups are dropped while the policy gets worse",
        unit="of groups",
        strengths=(0.3, 0.5, 0.8),
        draw=_worst_dropped,
        severities=ANY,
    ),
    Family(
        check="reward_part_dominance",
        name="one part is of a larger scale",
        unit="times",
        strengths=(1.5, 3.0, 10.0),
        draw=_one_part,
        severities=NOTE,
    ),
    Family(
        check="part_stays_zero",
        name="a parser misses what should be paid",
        unit="of responses",
        strengths=(0.9, 0.999, 1.0),
        draw=_never_paid,
        severities=NOTE,
    ),
    Family(
        check="mix_changed",
        name="harder tasks come in",
        unit="of the tasks",
        strengths=(0.2, 0.4, 0.8),
        draw=_harder_tasks,
        severities=NOTE,
    ),
    Family(
        check="learning",
        name="the reward rises",
        unit="points",
        strengths=(0.0, 0.03, 0.06, 0.1, 0.2, 0.4),
        draw=_learns,
        twins=False,  # a run that learns nothing may be told so
        verdict=tells_rise,
    ),
)
