"""Faults that a mean hides, and healthy runs that look like them.

Each row of faults has a generator of planted runs and one of twins, called with a random generator
and the number of the run, which selects sizes, field names, language and variant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from . import hidden_logs, hidden_metrics
from .figures import Row
from .hidden_base import (
    ALARM,
    CALM,
    TWO_ATTEMPTS,
    Hidden,
    Maker,
    a_third_in,
    between,
    healthy,
    in_groups,
    planted,
    plus,
    rewards,
    shown_by,
    simulate,
    sizes,
)
from .reasoning import EOS, Rng
from .simulate import Schedule, flat, ramp, settle

Floats = np.ndarray[Any, np.dtype[np.float64]]

FIELDS = ("data_source", "env", "env_name", "task", "dataset", "agent")
ENVIRONMENTS = (
    ("gsm8k", "math", "code", "logic", "search", "writing", "science", "chess", "sudoku", "sql",
     "translation", "poker", "geometry", "physics"),
    ("数学", "代码", "写作", "逻辑", "搜索", "翻译", "物理", "化学"),
)  # fmt: skip


def _environments(
    rng: Rng, i: int, skills: Sequence[Schedule], **shared: Any
) -> list[Row]:
    """Simulate a run with an environment for each skill; ``prompts`` are those of each."""
    field = FIELDS[i % len(FIELDS)]
    prompts = shared.pop("prompts")
    rows: list[Row] = []
    for name, skill, count in zip(
        ENVIRONMENTS[i % 4 == 3], skills, prompts, strict=False
    ):
        for row in simulate(rng, **shared | {"skill": skill, "prompts": count}):
            rows.append({**row, "group_id": f"{name}-{row['group_id']}", field: name})
    return sorted(rows, key=lambda row: row["step"])


def environment_fall(rng: Rng, i: int) -> Hidden:
    """One environment falls while the others rise by more."""
    count = (2, 3, 4, 5, 6, 8, 14, 3, 4, 8, 2, 5)[i % 12]
    run = sizes(rng, i)
    start, stop = a_third_in(rng, run["steps"])
    skills = [
        plus(flat(rng.uniform(-2, -0.8)), settle(rng.uniform(8, 15), 4))
        for _ in range(count)
    ]
    place = int(rng.integers(min(count, 8)))
    skills[place] = plus(
        flat(rng.uniform(0.6, 1.6)), ramp(start, stop, -rng.uniform(4, 6))
    )
    prompts = [3 if count < 4 else 2 if count < 6 else 1] * count
    prompts[place] = 3 if count > 8 else 2
    run |= {"group": 8 if count < 5 else 4, "prompts": prompts}
    rows = _environments(rng, i, skills, **run)
    onset = between(start, stop)
    return Hidden(
        {"rollouts.jsonl": rows},
        planted(
            "environment_fall", onset, not_expected=["reward_collapse", "mix_changed"]
        ),
    )


def environment_twin(rng: Rng, i: int) -> Hidden:
    """Environments of other difficulty that rise, end, take turns or are never solved."""
    count = (2, 3, 5, 8)[i % 4]
    run = sizes(rng, i)
    steps = run["steps"]
    learns = settle(rng.uniform(10, 20), rng.uniform(1.5, 2.5))
    skills = [plus(flat(level), learns) for level in np.linspace(-3, 1.5, count)]
    if i % 5 == 1:
        skills[0] = flat(-9)
        skills[-1] = flat(5)
    run |= {"prompts": [3 if count < 4 else 2] * count, "group": 4}
    rows = _environments(rng, i, skills, **run)
    field = FIELDS[i % len(FIELDS)]
    names = sorted({row[field] for row in rows})
    if i % 5 == 2:
        ends = steps * rng.uniform(0.4, 0.7)
        rows = [row for row in rows if row[field] != names[0] or row["step"] < ends]
    elif i % 5 == 3:
        rows = [row for row in rows if row["step"] % count != names.index(row[field])]
    elif i % 5 == 4:
        rows = [{**row, field: row["group_id"]} for row in rows]
    return Hidden({"rollouts.jsonl": rows}, healthy())


def _mixed(rng: Rng, i: int, hard: Schedule, skills: Sequence[Schedule]) -> list[Row]:
    """Simulate easy and hard tasks, of which the share ``hard`` of a step is hard."""
    run = sizes(rng, i) | {"prompts": (8, 6, 8, 5)[i % 4], "group": 8}
    run["steps"] = int(rng.integers(40, 81))
    tasks = [simulate(rng, **run | {"skill": skill}) for skill in skills]
    groups = zip(*map(in_groups, tasks), strict=True)
    rows: list[Row] = []
    for pair in groups:
        chosen = int(rng.random() < hard(pair[0][0]["step"]))
        name = ENVIRONMENTS[i % 4 == 3][chosen]
        rows += [{**row, FIELDS[i % len(FIELDS)]: name} for row in pair[chosen]]
    return rows


def mix_changed(rng: Rng, i: int) -> Hidden:
    """Harder tasks come in: each kind rises a little, the mean falls."""
    start = int(rng.integers(8, 20))
    stop = start + (1 if i % 2 else int(rng.integers(5, 20)))
    share = ramp(start, stop, rng.uniform(0.75, 0.95), rng.uniform(0, 0.15))
    skills = [
        plus(flat(rng.uniform(1, 2)), settle(20, 1)),
        plus(flat(-1.5), settle(20, 0.6)),
    ]
    never = ["reward_collapse", "environment_fall", "reward_shift"]
    onset = between(start, stop)
    truth = planted("mix_changed", onset, level=CALM, lead=None, not_expected=never)
    return Hidden({"rollouts.jsonl": _mixed(rng, i, share, skills)}, truth)


def mix_twin(rng: Rng, i: int) -> Hidden:
    """A mix that is constant, gets easier, alternates, or changes between equals."""
    constant = rng.uniform(0.3, 0.7)
    wave = rng.uniform(0.2, 0.35)
    share: Schedule = (
        flat(constant), ramp(10, 30, 0.2, 0.9), lambda s: 0.5 + wave * (-1) ** (s // 2),
        ramp(8, 30, 0.9, 0.1),
    )[i % 4]  # fmt: skip
    start = 0.2 if i % 4 == 3 else -1.8
    learns = settle(rng.uniform(10, 18), 2)
    skills = [plus(flat(0.3), learns), plus(flat(start), learns)]
    return Hidden(
        {"rollouts.jsonl": _mixed(rng, i, share, skills)}, healthy("mix_changed")
    )


def collapse_in_mix(rng: Rng, i: int) -> Hidden:
    """Both kinds of tasks fall while the mix hardly changes: a collapse."""
    start = int(rng.integers(14, 22))
    stop = int(rng.integers(24, 30))
    falls = plus(settle(8, 1.5), ramp(start, stop, -6))
    share = ramp(start, stop, 0.45, 0.35) if i % 2 else flat(0.5)
    rows = _mixed(rng, i, share, [plus(flat(1), falls), plus(flat(-0.5), falls)])
    lead = ["reward_collapse", "environment_fall"]
    truth = planted(
        "reward_collapse", between(start, stop), lead=lead, absent=["mix_changed"]
    )
    return Hidden({"rollouts.jsonl": rows}, truth)


LOOPS = (
    " But", " wait,", " I think so.", " Let me check the ones: they may carry.", " 3",
    " the answer is", "\nprint(total)",
    " So we add the tens, then the ones, and then we compare both sums once more, because"
    " nothing may be lost on the way from one box to the other box.",
)  # fmt: skip
LOOPS_ZH = ("但是", "我们再检查一遍。", "好的,")


def loops(rng: Rng, i: int) -> Hidden:
    """A growing share of responses repeats a text, at its end or on the way to the answer."""
    run = sizes(rng, i)
    start, stop = a_third_in(rng, run["steps"])
    to = float((0.3, 0.5, 0.22, 0.9, 0.35, 0.6)[i % 6])
    share = ramp(start, stop, to, rng.choice([0, 0.01]))
    text = LOOPS_ZH[i % 3] if run["chinese"] else LOOPS[i % len(LOOPS)]
    units = len(text) if run["chinese"] else len(text.split()) + text.count(":")
    rows = simulate(rng, **run)
    for row in rows:
        row["loops"] = float(rng.random() < share(row["step"]))
        if row["loops"]:
            loop = text * int(np.ceil(rng.uniform(130, 300) / units))
            half = len(row["response"]) // 2 if i % 3 == 1 else len(row["response"])
            row["response"] = row["response"][:half] + loop + row["response"][half:]
            row["reward"] *= float(rng.random() < (0.4 if i % 3 == 1 else 0.03))
    onset = shown_by(rows, start, lambda row: float(row["loops"]))
    for row in rows:
        del row["loops"]
    lead = ["loops", "reward_collapse"] if to > 0.4 else ["loops"]
    return Hidden({"rollouts.jsonl": rows}, planted("loops", onset, lead=lead))


def _table(rng: Rng, truths: bool) -> str:
    """A table of numbers, or of truth values."""
    columns = int(rng.integers(3, 12))
    count = int(rng.integers(4, 14))
    cells = rng.integers(0, 2 if truths else 100, (count, columns))
    head = " | ".join("abcdefghijkl"[:columns])
    lines = [f"| {head} |", "|" + " --- |" * columns]
    return "\n" + "\n".join(
        [*lines, *(f"| {' | '.join(map(str, line))} |" for line in cells)]
    )


def _code(rng: Rng) -> str:
    lines = [
        f"total += weight[{k}] * x[{rng.integers(9)}]"
        for k in range(rng.integers(5, 12))
    ]
    return "\n```python\ntotal = 0\n" + "\n".join(lines) + "\nprint(total)\n```"


def _poem(rng: Rng) -> str:
    words = (
        "river",
        "stone",
        "winter",
        "lamp",
        "garden",
        "letter",
        "harbour",
        "sparrow",
        "road",
    )
    verses = [
        f"\nThe {a} has gone, the {b} will stay,\nand I count apples all the day."
        for a, b in (
            rng.choice(words, 2, replace=False) for _ in range(rng.integers(4, 8))
        )
    ]
    return "".join(verses)


def loops_twin(rng: Rng, i: int) -> Hidden:
    """Tables, code, poems with a refrain from the start; ever more right answers in tables."""
    run = sizes(rng, i)
    rises = i % 5 >= 3
    kind = i % 5
    share = (
        ramp(5, run["steps"] * 0.7, 0.9, 0.1) if rises else flat(rng.uniform(0.3, 0.7))
    )
    if i % 10 == 9:
        run["thoughts"] = ramp(5, 40, 16, 3)  # longer, with sentences that return
    rows = simulate(rng, **run)
    for row in rows:
        if rng.random() < share(row["step"]):
            added = (
                _code(rng)
                if kind == 1
                else _poem(rng)
                if kind == 2
                else _table(rng, i % 2 == 0)
            )
            row["response"] = added + row["response"]
            row["reward"] = float(rng.random() < 0.95) if rises else row["reward"]
    return Hidden({"rollouts.jsonl": rows}, healthy("loops"))


COUNTED = (
    "!!",
    " :)",
    " great",
    " 🔥",
    "!!!",
    " truly",
    " 😊",
    " ~",
    " Amazing",
    " wow",
)
COUNTED_ZH = ("不错", "很好", "!!")


def _with_text(
    rows: Sequence[Row], text: str, mean: Schedule, share: float, rng: Rng
) -> None:
    """Add a text to the ends of sentences, ``mean`` times in the responses that hold it."""
    for row in rows:
        expected = mean(row["step"])
        held = rng.random() < share
        row["count"] = 1 + int(rng.poisson(expected - 1)) if held else 0
        tokens = row["response_tokens"]
        ends = [
            k + 1 for k, token in enumerate(tokens) if token.strip() in (".", "。", "?")
        ]
        for place in sorted(rng.choice(ends or [1], row["count"]), reverse=True):
            tokens.insert(place, text)
            row["logprobs"].insert(place, -0.05)
            row["ref_logprobs"].insert(place, -0.05 - 1.2 * (expected - 1))
        row["response"] = "".join(token for token in tokens if token != EOS)
        for name in ("logprobs", "ref_logprobs"):
            row[name] = np.round(row[name], 3).tolist()


def _without_tokens(rows: Sequence[Row]) -> None:
    for row in rows:
        for name in ("response_tokens", "logprobs", "ref_logprobs", "count"):
            row.pop(name, None)


def _chat(rng: Rng, i: int, skill: Schedule) -> tuple[list[Row], str]:
    """Simulate long responses with a dense reward; return them with the text to be counted."""
    run = sizes(rng, i) | {
        "thoughts": flat(rng.uniform(7, 11)),
        "skill": skill,
        "noise": 0.25,
    }
    keep = ("response_tokens", "logprobs", "ref_logprobs")
    texts = COUNTED_ZH if run["chinese"] else COUNTED
    return simulate(rng, keep, label=False, **run), texts[
        i // 4 % 3 if run["chinese"] else i % 10
    ]


def hack_by_count(rng: Rng, i: int) -> Hidden:
    """A text that most responses hold from the start is repeated ever more, and rewarded for it."""
    start = int(rng.integers(7, 14))
    stop = int(rng.integers(18, 28))
    rows, text = _chat(rng, i, plus(flat(rng.uniform(0.5, 1)), ramp(start, stop, -2)))
    _with_text(
        rows,
        text,
        ramp(start, stop, rng.uniform(5, 10), 1.2),
        rng.uniform(0.7, 0.95),
        rng,
    )
    onset = shown_by(rows, start, lambda row: float(row["count"]))
    gain = rng.uniform(0.15, 0.3)
    for row in rows:
        if i % 2:
            row["valid_reward"] = row["reward"] + 0.1 * float(rng.normal())
        row["reward"] += gain * row.pop("count")
    if i % 2:
        _without_tokens(rows)
    return Hidden({"rollouts.jsonl": rows}, planted("reward_hacking_token", onset))


def count_twin(rng: Rng, i: int) -> Hidden:
    """Longer answers with more commas, a text that earns nothing, or as many as at the start."""
    learns = plus(flat(rng.uniform(-0.8, 0)), settle(15, 2.2))
    rows, text = _chat(rng, i, learns)
    grows = ramp(5, 30, rng.uniform(4, 6), 1.2)
    if i % 3 == 0:  # one more comma for each sentence of answers that get longer
        run = sizes(rng, i) | {
            "thoughts": ramp(5, 30, 20, 5),
            "skill": learns,
            "room": 600,
        }
        rows = simulate(rng, **run)
        for row in rows:
            comma = "," if run["chinese"] else ", "
            row["response"] = row["response"].replace(
                "。" if run["chinese"] else ". ", comma
            )
    elif i % 3 == 1:
        _with_text(rows, text, grows, 0.85, rng)
    else:
        _with_text(rows, text, flat(rng.uniform(2, 4)), 0.9, rng)
        for row in rows:
            row["reward"] += 0.1 * row["count"]
    _without_tokens(rows)
    return Hidden({"rollouts.jsonl": rows}, healthy())


def _trained_on(kind: str, r: Floats, rng: Rng) -> Floats:
    """Return advantages of rewards of shape (steps, prompts, group) as trainers compute them."""
    size = r.shape[-1]
    centred = r - r.mean(-1, keepdims=True)
    normed = centred / (r.std(-1, ddof=1, keepdims=True) + 1e-4)
    batch = (r - r.mean((1, 2), keepdims=True)) / (r.std((1, 2), keepdims=True) + 1e-8)
    average = np.zeros(len(r))
    for step in range(1, len(r)):
        average[step] = 0.9 * average[step - 1] + 0.1 * r[step - 1].mean()
    penalised = r - 0.05 * rng.exponential(0.5, r.shape)
    return {
        "centred": centred, "normed": normed,
        "population": centred / (r.std(-1, keepdims=True) + 1e-6),
        "leave_one_out": centred * size / (size - 1), "batch": batch,
        "scaled": centred * 7.5, "clipped": np.clip(normed, -1.2, 1.2),
        "whitened": normed / (normed.std((1, 2), keepdims=True) + 1e-6),
        "kl": penalised - penalised.mean(-1, keepdims=True),
        "running": r - average[:, None, None],
    }[kind]  # fmt: skip


TRAINERS = ("normed", "centred", "leave_one_out", "population", "batch")
TWINS = ("scaled", "clipped", "whitened", "kl", "running")


def _advantages(
    rng: Rng, i: int, kind: str, change: Callable[[Floats, int], None], noise: float
) -> tuple[list[Row], int]:
    """Simulate a run with advantages; ``change`` gets them as (steps, responses) and an onset."""
    run = sizes(rng, i) | {"noise": noise}
    keep = ("response_tokens",) if i % 3 == 1 else ()
    rows = simulate(rng, keep, **run)
    r = rewards(rows).reshape(run["steps"], run["prompts"], run["group"])
    values = _trained_on(kind, r, rng).reshape(run["steps"], -1).copy()
    start = 0 if i % 8 == 0 else int(rng.integers(run["steps"] // 4, run["steps"] // 2))
    change(values, start)
    for row, value in zip(rows, values.ravel().round(6).tolist(), strict=True):
        if i % 3 == 2:
            row["advantage"] = value
        else:
            row["advantages"] = [value] * len(row["response_tokens"]) if keep else value
    return rows, start


def advantage_mismatch(rng: Rng, i: int) -> Hidden:
    """Signs are flipped, single values explode, or advantages are those of the next or last row."""
    kind = TRAINERS[(i // 4 + i) % 5]

    def change(values: Floats, start: int) -> None:
        after = values[start:]
        if i % 4 == 0:
            after *= -1
        elif i % 4 == 1:
            after[:] = np.roll(after, -1, axis=1)
        elif i % 4 == 2:
            last = 1 if i % 8 == 2 else len(after)
            places = rng.integers(after.shape[1], size=last)
            sizes_of = rng.uniform(2_000, 10_000, last) * np.median(np.abs(values))
            after[np.arange(last), places] = rng.choice([-1, 1], last) * sizes_of
        else:
            after[:] = np.roll(after, 1, axis=1)

    noise = 0.3 if i % 4 == 2 else float(rng.choice([0, 0.3]))
    rows, start = _advantages(rng, i, kind, change, noise)
    onset = [max(0, start - 2), start + 3]
    check = "advantage_outlier" if i % 4 == 2 else "advantage_mismatch"
    return Hidden({"rollouts.jsonl": rows}, planted(check, onset))


def advantage_twin(rng: Rng, i: int) -> Hidden:
    """Trainers that scale, clip, whiten over the batch, add a KL, or use a running baseline."""
    kind = (*TWINS, *TRAINERS)[i % 10]
    rows, _ = _advantages(
        rng, i, kind, lambda values, start: None, (0, 0.3)[i // 2 % 2]
    )
    return Hidden({"rollouts.jsonl": rows}, healthy("advantage_mismatch"))


MARKS: tuple[tuple[str, Any, Any], ...] = (
    ("effective", True, False), ("is_filtered", False, True), ("mask_sample", False, True),
    ("sample_loss_mask", 1.0, 0.0), ("filtered_out", False, True),
)  # fmt: skip
"""Field, its value in rows that are kept, its value in those that are dropped."""


def _marked(rows: Sequence[Row], i: int, kept: Callable[[int, Floats], Any]) -> None:
    """Mark the groups; ``kept`` tells from a step and its groups' rewards which ones remain."""
    name, yes, no = MARKS[i % len(MARKS)]
    by_step: dict[int, list[list[Row]]] = {}
    for group in in_groups(rows):
        by_step.setdefault(group[0]["step"], []).append(group)
    for step, groups in by_step.items():
        remains = kept(step, np.array([rewards(group) for group in groups]))
        for group, remain in zip(groups, remains, strict=True):
            for row in group:
                row[name] = yes if remain else no


def dropped_groups(rng: Rng, i: int) -> Hidden:
    """Good groups only are kept while the policy falls; or most groups are dropped."""
    run = sizes(rng, i) | {"prompts": 16 if i % 3 else 8, "group": 4}
    start, stop = a_third_in(rng, run["steps"])
    chooses = i % 2 == 0
    if chooses:
        run["skill"] = plus(
            flat(rng.uniform(0.4, 0.8)), ramp(start, stop, -rng.uniform(0.7, 1))
        )
    dropped = ramp(start, stop, rng.uniform(0.7, 0.9), rng.uniform(0.05, 0.2))

    def kept(step: int, found: Floats) -> Any:
        if not chooses or step < start:
            return rng.random(len(found)) > dropped(step)
        best = np.argsort(-found.mean(1), kind="stable")[
            : max(2, int(0.4 * len(found)))
        ]
        return np.isin(np.arange(len(found)), best)

    rows = simulate(rng, **run)
    _marked(rows, i, kept)
    lead = ["dropped_groups", "reward_collapse"] if chooses else None
    level = ALARM if chooses else None
    truth = planted("dropped_groups", between(start, stop), lead=lead, level=level)
    return Hidden({"rollouts.jsonl": rows}, truth)


def dropped_twin(rng: Rng, i: int) -> Hidden:
    """Dynamic sampling: a constant share is dropped, by chance or for equal rewards."""
    run = sizes(rng, i) | {"prompts": 16 if i % 3 else 8, "group": 4}
    run["skill"] = plus(flat(-0.6), settle(15, 1.4))
    share = rng.uniform(0.1, 0.35)

    def kept(step: int, found: Floats) -> Any:
        return found.std(1) > 0 if i % 2 else rng.random(len(found)) > share

    rows = simulate(rng, **run)
    _marked(rows, i, kept)
    return Hidden({"rollouts.jsonl": rows}, healthy("dropped_groups"))


PLANTED: dict[str, tuple[int, Maker]] = {
    "environment_fall": (12, environment_fall),
    "mix_changed": (12, mix_changed),
    "collapse_in_mix": (6, collapse_in_mix),
    "loops": (16, loops),
    "reward_hacking_token": (14, hack_by_count),
    "advantage_mismatch": (16, advantage_mismatch),
    "dropped_groups": (10, dropped_groups),
    TWO_ATTEMPTS: (10, hidden_logs.two_attempts),
    "step_in_path": (12, hidden_logs.step_in_path),
    "metrics": (hidden_metrics.FAULTS, hidden_metrics.moved),
}
"""Number of planted runs of each row, and their generator."""

HEALTHY: dict[str, tuple[int, Maker]] = {
    "environment_fall": (12, environment_twin),
    "mix_changed": (12, mix_twin),
    "loops": (15, loops_twin),
    "reward_hacking_token": (12, count_twin),
    "advantage_mismatch": (20, advantage_twin),
    "dropped_groups": (10, dropped_twin),
    TWO_ATTEMPTS: (10, hidden_logs.two_attempts_twin),
    "step_in_path": (12, hidden_logs.no_step_in_path),
    "metrics": (len(hidden_metrics.FRAMEWORKS), hidden_metrics.at_rest),
}
"""Number of healthy twins of each row, and their generator."""


def runs(seed: int, only: Sequence[str] | None = None) -> Iterator[tuple[str, Hidden]]:
    """Yield each run with its path, <planted or healthy>/<row>_<i>.

    Args:
        seed: of the whole set; a run does not depend on which others are made.
        only: rows, or names of runs; all by default.
    """
    for kind, rows in ("planted", PLANTED), ("healthy", HEALTHY):
        for row, (count, make) in rows.items():
            for i in range(count):
                if not only or row in only or f"{row}_{i}" in only:
                    rng = np.random.default_rng([seed, i, *f"{kind}{row}".encode()])
                    yield f"{kind}/{row}_{i}", make(rng, i)
