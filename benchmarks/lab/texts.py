"""Writers, each of which composes a response to a prompt from a sampler's choices."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .language import PROMPTS, SENTENCES, SUBJECTS
from .policy import Sampler

_VAGUE_ZH = {"place": "地方", "thing": "东西"}
_HOLES = re.compile(r"(\{\w+\})")


@dataclass(frozen=True)
class Prompt:
    """A prompt with what its writer and its reward need.

    Attributes:
        text: as logged.
        kind: the writer's name.
        subject: what is to be named.
        answer: the right answer (sums), else empty.
        hardness: nats against the right answer.
    """

    text: str
    kind: str
    subject: str = ""
    answer: str = ""
    hardness: float = 0.0


def talk_prompts(rng: np.random.Generator, kinds: tuple[str, ...], count: int) -> list[Prompt]:
    """Return ``count`` different prompts of conversation, shuffled."""
    found = [
        Prompt(pattern.format(subject), kind, subject)
        for kind in kinds
        for pattern in PROMPTS[kind]
        for subject in SUBJECTS[kind]
    ]
    order = rng.permutation(len(found))[:count]
    return [found[i] for i in order]


def sums(
    rng: np.random.Generator, count: int, digits: int = 2, hardness: float = 0.0, kind: str = "sum"
) -> list[Prompt]:
    """Return sums of two numbers; ``hardness`` is spread by half a nat."""
    prompts = []
    for _ in range(count):
        a, b = (int(x) for x in rng.integers(1, 10**digits, 2))
        form = ("What is {} + {}?", "Compute {} + {}.", "Question: what is {} + {}?\nAnswer:")
        text = form[int(rng.integers(3))].format(a, b)
        prompts.append(Prompt(text, kind, f"{a} + {b}", str(a + b), hardness + rng.normal() * 0.7))
    return prompts


def tool_prompts(rng: np.random.Generator, count: int) -> list[Prompt]:
    """Return tasks that need tools."""
    places = SUBJECTS["review"]
    asks = ("Find the opening hours of the {}.", "How far is the {}?", "Book a visit to the {}.")
    found = [Prompt(ask.format(p), "tool", p) for ask in asks for p in places]
    order = rng.permutation(len(found))[:count]
    return [
        Prompt(found[i].text, "tool", found[i].subject, "done", rng.normal() * 0.7) for i in order
    ]


def _sentence(sampler: Sampler, pattern: str, subject: str) -> None:
    for part in _HOLES.split(pattern):
        if part == "{subject}":
            chosen = sampler.draw("subject")
            named = {"{subject}": subject, **(_VAGUE_ZH if "。" in pattern else {})}
            sampler.write(named.get(chosen, chosen))
        elif part == "{adj}":
            sampler.write(sampler.draw(sampler.draw("good_or_bad")))
        elif part == "{adj_zh}":
            sampler.write(sampler.draw(sampler.draw("good_or_bad") + "_zh"))
        elif part == "{part}":
            sampler.write(sampler.draw("part"))
        elif part == "{part_zh}":
            sampler.write(sampler.draw("part_zh"))
        elif part == "{filler}":
            sampler.write(sampler.draw("filler"))
        else:
            sampler.write(part)


def _tail(sampler: Sampler, room: int) -> None:
    for _ in range(room):
        symbol = sampler.draw("tail")
        if not symbol:
            return
        sampler.write(" " + symbol)


def _talk(sampler: Sampler, prompt: Prompt, room: int) -> None:
    if sampler.draw("silence") == "silent":
        return
    kind = prompt.kind
    subject = prompt.subject
    english = kind != "chinese"
    if english and sampler.draw("language") == "chinese":
        kind = "chinese"
        subject = "这个地方"
    plain = True
    if kind != "chinese":
        structure = sampler.draw("structure")
        plain = structure == "plain"
        sampler.write(sampler.draw("opening"))
    written = 0
    while True:
        if not plain:
            if structure == "headings":
                sampler.write(("\n## Overview\n", "\n## Details\n", "\n## Summary\n")[written % 3])
            else:
                sampler.write("\n-" if structure == "list" else f"\n{written + 1}.")
        _sentence(sampler, sampler.draw(SENTENCES[kind]), subject)
        written += 1
        if sum(map(len, sampler.sample.pieces)) > room * 5:
            return
        if sampler.draw("more") == "stop" and (plain or written >= 3):
            break
    if kind != "chinese":
        sampler.write(sampler.draw("closing"))
    _tail(sampler, 12)


def _answer(sampler: Sampler, prompt: Prompt, rng: np.random.Generator) -> str:
    """Choose the answer: right with a chance that grows with the policy's skill."""
    right = 1 / (1 + np.exp(prompt.hardness - sampler.settings.skill))
    ref_right = 1 / (1 + np.exp(prompt.hardness))
    if rng.random() < right:
        sampler.weigh(float(np.log(right)), float(np.log(ref_right)))
        return prompt.answer
    slips = (-10, -2, -1, 1, 2, 10)
    sampler.weigh(float(np.log((1 - right) / 6)), float(np.log((1 - ref_right) / 6)))
    return str(int(prompt.answer) + slips[int(rng.integers(6))])


def _sum(sampler: Sampler, prompt: Prompt, rng: np.random.Generator) -> None:
    sampler.write(" " + prompt.subject + " =")
    said = _answer(sampler, prompt, rng)
    sampler.write(" " + said)
    sampler.write(".")
    form = sampler.draw("format")
    sampler.write(form)
    sampler.write(" " + said)
    if "####" not in form:
        sampler.write(".")


def _reasoning(sampler: Sampler, prompt: Prompt, room: int, rng: np.random.Generator) -> None:
    """Write a chain of thought until the sampler stops, then the answer."""
    target = room * (0.25 + 0.2 * rng.random()) * float(np.exp(sampler.settings.more))
    length = 0
    sampler.write("<think>")
    while length < target:
        thought = sampler.draw("thought")
        n = str(int(rng.integers(10, 900)))
        for part in _HOLES.split(thought):
            if part == "{n}":
                sampler.weigh(-1.5, -1.5)
                sampler.write(n)
            else:
                sampler.write(part)
        length += thought.count(" ") + 2
    sampler.write("</think>")
    _sum(sampler, prompt, rng)


def _tool(sampler: Sampler, prompt: Prompt, rng: np.random.Generator) -> None:
    right = 1 / (1 + np.exp(prompt.hardness - sampler.settings.skill))
    ref_right = 1 / (1 + np.exp(prompt.hardness))
    done = rng.random() < right
    sampler.weigh(
        float(np.log(right if done else 1 - right)),
        float(np.log(ref_right if done else 1 - ref_right)),
    )
    for turn in range(1 + int(rng.integers(1, 4))):
        tool = sampler.draw("tool")
        query = prompt.subject if turn == 0 else f"{prompt.subject} {turn}"
        sampler.write('\n<tool_call>{"name": "')
        sampler.write(tool)
        sampler.write(f'", "arguments": {{"query": "{query}"}}}}</tool_call>')
        sampler.weigh(-0.8, -0.8)
        sampler.write(f"\n<result>{int(rng.integers(10, 99))} entries</result>")
    sampler.write("\nDone:" if done else "\nNot found:")
    _sentence(sampler, sampler.draw("sentence"), prompt.subject)


WRITERS: dict[str, Callable[[Sampler, Prompt, int, np.random.Generator], None]] = {
    **{kind: lambda s, p, room, _: _talk(s, p, room) for kind in SENTENCES},
    "sum": lambda s, p, _, rng: _sum(s, p, rng),
    "reasoning": _reasoning,
    "tool": lambda s, p, _, rng: _tool(s, p, rng),
}
"""By kind of prompt: write a response into the sampler, of at most about ``room`` tokens."""
