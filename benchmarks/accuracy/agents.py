"""Runs of agents with tools: calls that fail or are not read, turns without end, and healthy ones.

Rollouts are those of the laboratory's agent; what it asks, says and gets, and how a framework logs
its turns, differ by run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.accuracy import forms
from benchmarks.accuracy.family import Drawn, Family, Healthy, Random, Row, read_rows
from benchmarks.accuracy.shapes import Floats, Sizes, begins, onset_between
from benchmarks.accuracy.texts import change_of, hit, text_sizes
from benchmarks.lab.agents import Agent, rollouts
from benchmarks.lab.simulate import ramp
from rlreport.tables import Tables

SHAPES = ((2, 8), (4, 4), (4, 6), (6, 4), (4, 8))
"""Prompts a step, rollouts a prompt."""

PLACES = (
    "Lisbon Oslo Kyoto Lima Perth Quito Tunis Riga Hanoi Turin Bergen Lagos".split()
)
PLACES_ZH = "上海 成都 西安 南京 厦门 青岛 昆明 武汉 苏州 长沙 广州 大连".split()
ASKS = (
    "How many people live in {}?",
    "What is the weather in {} today?",
    "How far is the airport from the centre of {}?",
    "Who is the mayor of {}?",
)
ASKS_ZH = (
    "{}今天的天气怎么样?",
    "{}有多少人口?",
    "从{}到北京的火车多少钱?",
    "{}最高的楼是哪一座?",
)
LOOKS = (
    "Let me look.",
    "I will search for that first.",
    "First I need more information.",
    "Let me check this with a tool.",
    "The last result is not enough, so I go on.",
    "I should verify the number.",
)
LOOKS_ZH = (
    "我先查一下。",
    "需要更多信息。",
    "让我用工具核对一下。",
    "上一步的结果还不够,继续查找。",
    "先搜索相关资料。",
)
GIVES_UP = ("I keep looking.", "I need one more search.", "Let me try another query.")
GIVES_UP_ZH = ("我再查一次。", "还需要继续搜索。", "换一个关键词试试。")
ANSWERS = ("The answer is {}.", "So it is {}.", "I found it: {}.", "Answer: {}")
ANSWERS_ZH = ("答案是{}。", "结果为{}。", "查到了,是{}。")
MARKUPS = (
    "<function={tool}>{given}",
    '[TOOL_CALLS][{{"name": "{tool}", "arguments": {given}}}]',
    '<|python_tag|>{{"name": "{tool}", "parameters": {given}}}',
    "```tool_code\n{tool}({given})\n```",
    "Action: {tool}\nAction Input: {given}",
)
"""Calls in the syntax of other models and frameworks, of which a run has one."""
ERRORS = (
    "TimeoutError: the sandbox timed out after 30 s",
    "Error: connection refused",
    '{"error": "rate limit exceeded", "code": 429}',
    'Traceback (most recent call last):\n  File "<stdin>", line 1\nOSError: no space left',
    "HTTP 503 Service Unavailable",
    "执行失败: 沙箱超时",
)
NOTHING = (
    "[]",
    "No results found.",
    '{"results": []}',
    "未找到相关结果。",
)

_Form = Callable[[Random, Sequence[Row]], forms.Files]
CALLING: tuple[_Form, ...] = (forms.own, forms.verl, forms.verifiers)
"""Forms in which calls of tools can be logged."""
WITH_REASON: tuple[_Form, ...] = (forms.own, forms.verifiers)
"""Those of them that also say why a rollout ended, or keep a turn without text."""


def run_of(random: Random, sizes: Sizes, **settings: Any) -> list[Row]:
    """Return the rows of a run of an agent that learns, steps from 1; see ``Agent``."""
    chinese = bool(random.random() < 0.4)
    places = PLACES_ZH if chinese else PLACES
    asks = ASKS_ZH if chinese else ASKS
    questions = [ask.format(place) for place in places for ask in asks]
    epochs = sizes.steps * sizes.prompts // len(questions) + 1
    # Each epoch has an order of its own.
    order = [random.permutation(questions) for _ in range(epochs)]
    start = random.uniform(0.1, 0.4)
    solved = ramp(0, sizes.steps * random.uniform(0.5, 1), start + 0.4, start)
    usual = {
        "steps": sizes.steps,
        "prompts": sizes.prompts,
        "each": sizes.group,
        "most_turns": int(random.integers(6, 11)),
        "solved": solved,
        "retries": False,
        "questions": np.concatenate(order).tolist(),
        "looks": LOOKS_ZH if chinese else LOOKS,
        "gives_up": GIVES_UP_ZH if chinese else GIVES_UP,
        "answers": ANSWERS_ZH if chinese else ANSWERS,
        "queries": places,
    }
    rows = [*rollouts(random, Agent(**(usual | settings)))]
    for row in rows:
        row["step"] += 1
    return rows


def logged(
    random: Random, rows: Sequence[Row], choices: Sequence[_Form] = CALLING
) -> Tables:
    """Return the tables of rows that are written in one of these forms."""
    return read_rows(choices[int(random.integers(len(choices)))](random, rows))


def _share(
    random: Random, sizes: Sizes, strength: float, before: float
) -> tuple[Callable[[int], float], tuple[int, int]]:
    """Return a share that rises by step, counted from 0, and the onset, counted from 1."""
    start, stop = begins(random, sizes)
    share = ramp(start, stop, max(strength, before), before)
    return share, onset_between(start, stop)


def _with_fault(
    name: str,
    before: float = 0.02,
    choices: Sequence[_Form] = CALLING,
    **words: Sequence[str],
) -> Callable[[Random, float], Drawn]:
    """Return what draws runs with a fault of the laboratory's agent; a healthy one has ``before``.

    Of each of ``words``, a run has one.
    """

    def draw(random: Random, strength: float) -> Drawn:
        sizes = text_sizes(random, SHAPES)
        share, onset = _share(random, sizes, strength, before)
        chosen = {key: (str(random.choice(options)),) for key, options in words.items()}
        rows = run_of(random, sizes, faults={name: share}, **chosen)
        return Drawn(logged(random, rows, choices), onset)

    return draw


def _no_reason(random: Random, strength: float) -> Drawn:
    """Rollouts that end after the tool's last answer, without a reason or an answer."""
    sizes = text_sizes(random, SHAPES)
    share, onset = _share(random, sizes, strength, 0.02)
    rows = run_of(random, sizes, faults={"turn_limit": share})
    for row in rows:
        if row.pop("finish_reason") == "max_turns":
            row["turns"].pop()
    return Drawn(logged(random, rows), onset)


def _failed(random: Random, strength: float) -> Drawn:
    """Rollouts whose environment fails to start: an error, and no response."""
    sizes = text_sizes(random, SHAPES)
    rows = run_of(random, sizes)
    share, onset = change_of(random, sizes, strength, random.choice([0.0, 0.03]))
    error = str(random.choice(ERRORS))
    is_verifiers = random.random() < 0.4
    for row in hit(random, rows, share):
        row |= {"response": "", "turns": [], "reward": 0.0, "errors": [error]}
        row["finish_reason"] = "error"
    files = forms.verifiers(random, rows) if is_verifiers else forms.own(random, rows)
    return Drawn(read_rows(files), onset)


def _void(random: Random, strength: float) -> Drawn:
    """Turns that say nothing, or only think, after which the environment asks to go on."""
    sizes = text_sizes(random, SHAPES)
    rows = run_of(random, sizes)
    share, onset = change_of(random, sizes, strength)
    says = str(random.choice(["", "\n\n", "<think>\nLet me think.\n</think>\n\n"]))
    for row in rows:
        row["turns"] = _with_void_turns(random, row, share, says)
    return Drawn(logged(random, rows, WITH_REASON), onset)


def _with_void_turns(random: Random, row: Row, share: Floats, says: str) -> list[Row]:
    """Return a row's turns with empty ones: the share of all turns of the policy."""
    share_of_step = share[row["step"] - 1]
    turns: list[Row] = []
    for turn in row["turns"]:
        # So many empty turns before each other one of the policy
        is_policy = turn["role"] == "assistant"
        rate = share_of_step / (1 - share_of_step) if is_policy else 0.0
        for _ in range(random.poisson(rate)):
            turns.append({"role": "assistant", "text": says, "sampled": True})
            turns.append({"role": "user", "text": "Continue.", "sampled": False})
        turns.append(turn)
    return turns


def _learns(random: Random) -> Tables:
    """A few errors and failures of all kinds, as many at the end as at the start."""
    sizes = text_sizes(random, SHAPES)
    usual = {
        "turn_limit": 0.05,
        "unparsed_calls": 0.04,
        "empty_results": 0.05,
        "tool_errors": 0.08,
        "late_calls": 0.03,
    }
    most = {name: share * random.uniform(0, 1.5) for name, share in usual.items()}
    # What the policy does wrong becomes rarer as it learns.
    learned = sizes.steps * random.uniform(0.3, 1.0)
    faults = {
        name: ramp(0, learned, share * random.uniform(0.2, 1.0), share)
        for name, share in most.items()
    }
    for name in ("empty_results", "tool_errors"):
        faults[name] = ramp(0, 1, most[name], most[name])
    return logged(random, run_of(random, sizes, faults=faults, errors=ERRORS))


def _learns_format(random: Random) -> Tables:
    """Half of the first calls cannot be parsed; the policy learns their format, and is right."""
    sizes = text_sizes(random, SHAPES)
    start = random.uniform(0.3, 0.7)
    learned = sizes.steps * random.uniform(0.1, 0.4)
    faults = {"unparsed_calls": ramp(0, learned, 0.02, start)}
    return logged(random, run_of(random, sizes, faults=faults))


FAMILIES = (
    Family(
        check="failed_rollouts",
        name="environments that fail to start",
        unit="of rollouts",
        strengths=(0.1, 0.3, 0.6),
        draw=_failed,
    ),
    Family(
        check="tool_errors",
        name="one of two tools breaks",
        unit="of its calls",
        strengths=(0.3, 0.6, 0.9),
        draw=_with_fault("tool_errors", before=0.05, errors=ERRORS),
    ),
    Family(
        check="unparsed_calls",
        name="arguments that end too early",
        unit="of calls",
        strengths=(0.1, 0.3, 0.6),
        draw=_with_fault("unparsed_calls"),
    ),
    Family(
        check="markup_turns",
        name="calls in another model's syntax",
        unit="of calls",
        strengths=(0.1, 0.3, 0.6),
        draw=_with_fault("markup_turns", before=0.0, markups=MARKUPS),
    ),
    Family(
        check="empty_results",
        name="one of two tools answers with an empty text",
        unit="of its answers",
        strengths=(0.3, 0.6, 0.9),
        draw=_with_fault("empty_results", before=0.05),
    ),
    Family(
        check="empty_results",
        name="one of two tools says that it found nothing",
        unit="of its answers",
        strengths=(0.3, 0.6, 0.9),
        draw=_with_fault("empty_results", before=0.05, nothing=NOTHING),
    ),
    Family(
        check="late_calls",
        name="a call after the final answer",
        unit="of rollouts",
        strengths=(0.3, 0.6, 0.9),
        draw=_with_fault(
            "late_calls",
            finals=(
                "<answer>{}</answer>",
                "So it is \\boxed{{{}}}. I check once more.",
            ),
        ),
    ),
    Family(
        check="void_turns",
        name="turns that say nothing or only think",
        unit="of turns",
        strengths=(0.05, 0.15, 0.4),
        draw=_void,
    ),
    Family(
        check="turn_limit",
        name="rollouts that go on to the limit, which is logged",
        unit="of rollouts",
        strengths=(0.1, 0.3, 0.6),
        draw=_with_fault("turn_limit", choices=WITH_REASON),
    ),
    Family(
        check="turn_limit",
        name="rollouts that go on to the limit, without a reason",
        unit="of rollouts",
        strengths=(0.1, 0.3, 0.6),
        draw=_no_reason,
    ),
)
HEALTHY = (
    Healthy(name="an agent that learns", draw=_learns),
    Healthy(name="an agent that learns to write calls", draw=_learns_format),
)
