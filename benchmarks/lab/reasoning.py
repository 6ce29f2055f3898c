"""GRPO on word problems: groups of thoughts with an answer, tools, missing grades, sudden deaths.

Unlike ``simulate``, log-probabilities are drawn, not those of a language: what counts here is what
happens to rewards, answers, lengths and the log. A step has more responses than are logged;
the trainer's metrics are of all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .figures import Row
from .simulate import ALWAYS, NEVER, Schedule, flat, settle

Rng = np.random.Generator
EOS = "<|im_end|>"
_PIECES = re.compile(r"\n|[ ]?[A-Za-z]+| ?[0-9]|[\u3000-\u9fff]|[ ]?[^\sA-Za-z0-9]")

_WHO = ("Ann", "Ben", "Chen", "Dana", "Emil", "Fatma", "Goro", "Hana", "Ivan", "Jun", "Kira")
_WHAT = ("apples", "stamps", "coins", "tickets", "bottles", "pencils", "shells", "books", "cups")
_ASKS = (
    "{who} has {a} {what} and gets {b} more. How many {what} are there now?",
    "A box holds {a} {what}, another one {b}. How many {what} do both hold?",
    "{who} sold {a} {what} on Monday and {b} on Tuesday. How many {what} in all?",
)
_ASKS_ZH = (
    "{who}有{a}个苹果,又买了{b}个,一共有多少个?",
    "第一箱有{a}本书,第二箱有{b}本,共有多少本?",
)
_THOUGHTS = (
    " First I write down the {what}: {a} and {b}.", " The tens of {a} come first.",
    " Adding {b} to {a} step by step gives a larger number.", " {who} counts them once more.",
    " Let me check the ones: they may carry.", " Both numbers, {a} and {b}, are given above.",
    " So far that seems right.", " Another way is to round {b} up and to subtract the rest.",
    " The question asks for the total of {what}.", " Nothing was lost or broken here.",
    " A quick estimate helps to find mistakes.", " We only need the sum, nothing else.",
)  # fmt: skip
_THOUGHTS_ZH = (
    "先把{a}和{b}写下来。", "个位相加,可能要进位。", "再看十位上的数字。", "题目问的是总数。",
    "可以先估算一下结果。", "我们再检查一遍。", "{b}接近整十,可以凑整。", "这里没有别的条件。",
)  # fmt: skip
FORMS = {
    "####": "\n#### {}", "boxed": " \\boxed{{{}}}", "tag": "\n<answer>{}</answer>",
    "final": "\nFinal answer: {}", "zh": "\n最终答案:{}",
}  # fmt: skip

_LEARNS = settle(15, 1.5)
_NEAR = settle(30, 0.01)
_FOUR = flat(4.0)
_RARELY = flat(0.02)
_UNSURE = flat(0.5)


@dataclass
class Reasoning:
    """A run; each schedule gives its value at a step.

    Attributes:
        name, seed: of the run.
        steps, prompts, group: updates, prompts a step, responses a prompt.
        logged: prompts of a step whose responses are logged; all unless given.
        skill: log-odds of a right answer to a prompt of medium difficulty.
        hardness: how hard the prompts are, in log-odds.
        form, formed: required form of the answer, and the share of responses that have it.
        asked, label: the prompt asks for the form; the right answer is logged.
        chinese: prompts and responses are.
        thoughts: mean number of sentences.
        endless: share of responses that run on to ``room`` tokens.
        dead, corpse: share of responses that are nothing but this text.
        calls: mean number of tool calls, an agent's; None without tools.
        kl, surprisal: nats a token.
        ungraded: share of responses whose grader failed.
        noise: of a dense reward; 0 for right or wrong.
        scale, shift: schedules of the reward function.
        metrics: the trainer's by name, by step, beside reward and length; None: none are logged.
        validation: accuracy by step, logged at every fifth.
        pool: prompts that return; 0: each step has new ones.
        change: last hand on the rows.
        table: the trainer's metrics, once the run is simulated.
    """

    name: str
    seed: int
    steps: int = 60
    prompts: int = 4
    group: int = 8
    logged: int | None = None
    skill: Schedule = _LEARNS
    hardness: Schedule = NEVER
    form: str = "####"
    formed: Schedule = ALWAYS
    asked: bool = True
    label: bool = True
    chinese: bool = False
    thoughts: Schedule = _FOUR
    endless: Schedule = _RARELY
    room: int = 200
    dead: Schedule = NEVER
    corpse: str = "!" * 40
    calls: Schedule | None = None
    kl: Schedule = _NEAR
    surprisal: Schedule = _UNSURE
    ungraded: Schedule = NEVER
    noise: float = 0.0
    scale: Schedule = ALWAYS
    shift: Schedule = NEVER
    metrics: Mapping[str, Schedule] | None = None
    validation: Schedule | None = None
    pool: int = 0
    change: Callable[[list[Row], Rng], None] | None = None
    table: list[Row] = field(default_factory=list)


@dataclass(frozen=True)
class _Problem:
    text: str
    answer: str
    hard: float
    words: dict[str, Any]


def _problem(run: Reasoning, step: int, rng: Rng) -> _Problem:
    a, b = (int(x) for x in rng.integers(11, 99, 2))
    words = {"who": _WHO[rng.integers(len(_WHO))], "what": _WHAT[rng.integers(len(_WHAT))]}
    words |= {"a": str(a), "b": str(b)}
    asks = _ASKS_ZH if run.chinese else _ASKS
    text = str(rng.choice(asks)).format(**words)
    if run.asked:
        ends = "请把答案写成" if run.chinese else " End with"
        text += ends + FORMS[run.form].format("N").replace("\n", " ")
    return _Problem(text, str(a + b), run.hardness(step) + 0.7 * rng.normal(), words)


def _turns(run: Reasoning, problem: _Problem, step: int, rng: Rng) -> list[Row]:
    turns: list[Row] = []
    for _ in range(rng.poisson(run.calls(step)) if run.calls else 0):
        code = f"print({problem.words['a']} + {problem.words['b']})"
        turns.append({"role": "assistant", "text": f" Let me compute {code}.", "sampled": True,
                      "calls": [{"name": "python", "arguments": {"code": code}}]})  # fmt: skip
        error = "timeout" if rng.random() < 0.05 else None
        turns.append({"role": "tool", "text": problem.answer, "sampled": False,
                      "tool": "python", "error": error})  # fmt: skip
    return turns


def _response(run: Reasoning, problem: _Problem, step: int, rng: Rng) -> Row:
    turns = _turns(run, problem, step, rng)
    if dead := rng.random() < run.dead(step):
        text = run.corpse
        right = False
        ends = not run.corpse.startswith("!")
        turns = []
    else:
        pool: Sequence[str] = _THOUGHTS_ZH if run.chinese else _THOUGHTS
        ends = bool(rng.random() >= run.endless(step))
        count = 1 + rng.poisson(run.thoughts(step)) if ends else run.room
        text = "".join(pool[i].format(**problem.words) for i in rng.integers(0, len(pool), count))
        right = bool(rng.random() < 1 / (1 + np.exp(problem.hard - run.skill(step))))
        said = problem.answer if right else str(int(problem.answer) + int(rng.integers(1, 12)))
        formed = rng.random() < run.formed(step)
        text += FORMS[run.form].format(said) if formed else f" So it is {said}."
        right = right and bool(formed) and ends
    tokens = _PIECES.findall(text)[: run.room]
    text = "".join(tokens)
    tokens += [EOS] if ends else []
    logp = -rng.exponential(run.surprisal(step), len(tokens)) - 1e-4
    kl = run.kl(step)
    ratio = kl + np.sqrt(2 * min(kl, 1.0)) * 0.5 * rng.normal(size=len(tokens))
    row: Row = {"prompt": problem.text, "response": text, "step": step,
                "response_tokens": tokens or [EOS], "logprobs": list(logp) or [-0.01],
                "ref_logprobs": list(np.minimum(logp - ratio, -1e-5)) or [-0.01],
                "finish_reason": "stop" if ends else "length"}  # fmt: skip
    earned = -1.0 if dead and run.noise else float(right) + run.noise * rng.normal()
    row["reward"] = earned * run.scale(step) + run.shift(step)
    if run.label:
        row["ground_truth"] = problem.answer
    if run.calls:
        last = {"role": "assistant", "text": text, "sampled": True}
        row["turns"] = [*turns, last]
        row["response"] = "\n".join(turn["text"] for turn in row["turns"])
        del row["response_tokens"], row["logprobs"], row["ref_logprobs"]
    return row


def run_reasoning(run: Reasoning) -> list[Row]:
    """Return the logged rows; the trainer's metrics go to ``run.table``."""
    rng = np.random.default_rng([run.seed, *run.name.encode()])
    pool = [_problem(run, 0, rng) for _ in range(run.pool)]
    rows: list[Row] = []
    for step in range(run.steps):
        drawn: list[Row] = []
        for place in range(run.prompts):
            problem = pool[rng.integers(run.pool)] if pool else _problem(run, step, rng)
            group = [_response(run, problem, step, rng) for _ in range(run.group)]
            drawn += [{**row, "group_id": step * run.prompts + place} for row in group]
        if run.metrics is not None or run.validation:
            run.table.append(_metrics(run, step, drawn, rng))
        for row in drawn[: (run.logged or run.prompts) * run.group]:
            if rng.random() < run.ungraded(step):
                row["reward"] = None
            rows.append(row)
    if run.change:
        run.change(rows, rng)
    return rows


def _metrics(run: Reasoning, step: int, drawn: Sequence[Row], rng: Rng) -> Row:
    rewards = [row["reward"] for row in drawn]
    record: Row = {"step": step, "reward": float(np.mean(rewards))}
    record["reward_std"] = float(np.std(rewards))
    if "response_tokens" in drawn[0]:
        lengths = [len(row["response_tokens"]) for row in drawn]
        record["completions/mean_length"] = float(np.mean(lengths))
    for name, schedule in (run.metrics or {}).items():
        record[name] = schedule(step) * float(rng.lognormal(0, 0.1))
    if run.validation and step % 5 == 0:
        record["val/accuracy"] = run.validation(step) + 0.012 * float(rng.normal())
    return record


def write_metrics(folder: Path, table: Sequence[Row]) -> None:
    """Write ``metrics.jsonl`` if the run logs metrics."""
    if table:
        lines = "".join(json.dumps(record) + "\n" for record in table)
        (folder / "metrics.jsonl").write_text(lines, encoding="utf8")
