"""Hidden runs with an unusual log: two attempts at some steps, steps only in paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .figures import Row
from .hidden_base import CALM, QUIET, TWO_ATTEMPTS, Hidden, healthy, planted, simulate, sizes
from .reasoning import Rng


def _between(rows: list[Row], first: int, stop: int) -> list[Row]:
    return [row for row in rows if first <= row["step"] < stop]


def _by_rank(rows: list[Row], ranks: int, name: str) -> dict[str, list[Row]]:
    """Distribute the groups over the files of ranks; ``name`` has a placeholder for the rank."""
    files: dict[str, list[Row]] = {name.format(rank): [] for rank in range(ranks)}
    for row in rows:
        files[name.format(row["group_id"] % ranks)].append(row)
    return files


def two_attempts(rng: Rng, i: int) -> Hidden:
    """A run that was resumed from an earlier step, in another file or in the same one."""
    run = sizes(rng, i)
    steps = run["steps"]
    kind = i % 5
    stop = int(rng.integers(steps // 2, steps - 5))
    back = stop - int(rng.integers(4, max(5, stop // 2)))
    first = _between(simulate(rng, **run), 0, stop)
    if kind == 3:
        run["group"] //= 2
    second = _between(simulate(rng, **run), back, steps)
    if kind == 4:  # the same prompts, of which a part was sampled again
        whole = simulate(rng, **run)
        first = _between(whole, 0, stop)
        second = _between(whole, back, steps)
        second = [row for row in second if row["group_id"] % run["prompts"]]
    if kind == 1:
        files = {"rollouts.jsonl": first + second}
    else:
        a, b = (
            ("rollouts.jsonl", "rollouts_resumed.jsonl"), ("", ""),
            ("attempt_a/rollouts.jsonl", "attempt_b/rollouts.jsonl"),
            ("run-0612.jsonl", "run-0613.jsonl"), ("log.jsonl", "log.restart.jsonl"),
        )[kind]  # fmt: skip
        files = {a: first, b: second}
    never = [check for check in QUIET if check != "mixed_runs"]
    truth = planted(TWO_ATTEMPTS, level=CALM, lead=None, onset=None, not_expected=never)
    return Hidden(dict(files), truth)


def two_attempts_twin(rng: Rng, i: int) -> Hidden:
    """Rank files with other last steps, rows in any order, a log that was continued."""
    run = sizes(rng, i)
    kind = i % 5
    rows = simulate(rng, **run)
    steps = run["steps"]
    ranks = 2 if run["prompts"] == 6 else 4
    if kind == 0:
        files = _by_rank(rows, ranks, "rank_{}.jsonl")
        files["rank_1.jsonl"] = _between(files["rank_1.jsonl"], 0, steps - int(rng.integers(1, 4)))
    elif kind == 1:
        files = {"rollouts.jsonl": [rows[k] for k in rng.permutation(len(rows))]}
    elif kind == 2:
        cut = steps // 2
        names = ("rollouts_part1.jsonl", "rollouts_part2.jsonl")
        files = dict(zip(names, (_between(rows, 0, cut), _between(rows, cut, steps)), strict=True))
    elif kind == 3:
        files = _by_rank(rows, ranks, "worker-{}/rollouts.jsonl")
        name = "worker-1/rollouts.jsonl"
        files[name] = [row for row in files[name] if rng.random() < 0.75]
    else:
        # Responses of long rollouts arrive up to two steps later than others of their step.
        late = [row["step"] + 2.2 * float(rng.random()) for row in rows]
        files = {
            "rollouts.jsonl": [rows[k] for k in sorted(range(len(rows)), key=late.__getitem__)]
        }
    return Hidden(dict(files), healthy(TWO_ATTEMPTS))


PATHS = (
    "step_{step}/rank_{rank}.jsonl", "global_step_{step}/rollouts.jsonl",
    "iter-{step}/shard_{rank}.jsonl", "rollouts_{step}.jsonl", "{step}.jsonl",
    "step_{step:05d}/rank_{rank}.jsonl", "dump/global_step_{step}/train.jsonl",
    "iter-{step}.jsonl", "rank_{rank}/step_{step}.jsonl", "train_rollouts_{step}.jsonl",
    "step_{step}/rollouts-0000{rank}-of-00002.jsonl", "node-{rank}/global_step_{step}/gen.jsonl",
)  # fmt: skip
ONE_STEP = (
    "rank_{rank}.jsonl", "shard_{rank}.jsonl", "part-0000{rank}-of-00002.jsonl",
    "worker_{rank}/rollouts.jsonl", "node-{rank}/rank_0.jsonl", "dp{rank}.jsonl",
)  # fmt: skip
OTHER_NUMBERS = (
    "step_9000/rollouts.jsonl", "qwen2.5-7b/iter-3/rollouts.jsonl", "2026-11-27/rollouts.jsonl",
    "global_step_40/rank_{rank}.jsonl", "rollouts_7.jsonl", "seed_12/rank_{rank}.jsonl",
)  # fmt: skip


def _in_paths(rows: list[Row], path_of: Callable[[Row], str], keep: bool) -> dict[str, Any]:
    files: dict[str, list[Row]] = {}
    for row in rows:
        kept = {name: value for name, value in row.items() if keep or name != "step"}
        files.setdefault(path_of(row), []).append(kept)
    return dict(files)


def step_in_path(rng: Rng, i: int) -> Hidden:
    """Rows without a step in files whose paths have one: each first, fifth or tenth step."""
    run = sizes(rng, i) | {"prompts": 4, "group": 4}
    every = (1, 5, 10)[i % 3]
    first = int(rng.choice([0, 1, 100]))

    def path_of(row: Row) -> str:
        step = first + every * row["step"]
        return PATHS[i % len(PATHS)].format(step=step, rank=row["group_id"] % 2)

    files = _in_paths(simulate(rng, **run), path_of, keep=False)
    return Hidden(files, {"steps": run["steps"], "not_expected": QUIET})


def no_step_in_path(rng: Rng, i: int) -> Hidden:
    """A single step whose paths number ranks or shards, or rows that have their own step."""
    run = sizes(rng, i) | {"prompts": 4, "group": 4}
    names = OTHER_NUMBERS if i % 2 else ONE_STEP
    steps = run["steps"] if i % 2 else 1

    def path_of(row: Row) -> str:
        return names[i // 2 % len(names)].format(rank=row["group_id"] % 2)

    rows = simulate(rng, **run | {"steps": steps})
    truth = {"steps": steps, "not_expected": QUIET}
    return Hidden(_in_paths(rows, path_of, keep=bool(i % 2)), truth)
