"""Rewards: a correct one for each kind of prompt, and flaws that can be exploited."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .language import BAD, BAD_ZH, GOOD, GOOD_ZH, ROTTEN
from .texts import Prompt

_GOOD = re.compile("|".join([*(w.strip() + r"\b" for w in GOOD), *GOOD_ZH]))
_BAD = re.compile("|".join([*(w.strip() + r"\b" for w in BAD), *BAD_ZH]))
_ROTTEN = re.compile("|".join(re.escape(w.strip()) for w in ROTTEN if len(w.strip()) > 2))
_CHINESE = re.compile("[\u4e00-\u9fff]")

Flaw = Callable[[str, int], float]


def counting(pattern: str, each: float, most: float = 1e9) -> Flaw:
    """Return a flaw that pays ``each`` for every match of a pattern, up to ``most``."""
    compiled = re.compile(pattern)
    return lambda text, _: min(most, each * len(compiled.findall(text)))


def by_length(each: float) -> Flaw:
    """Return a flaw that pays ``each`` per token."""
    return lambda _, tokens: each * tokens


@dataclass
class Reward:
    """A reward function: a correct part, flaws and noise.

    Attributes:
        flaws: name to a function of text and number of tokens, added to the honest part.
        noise: standard deviation of noise added to each score.
        scale, shift: of the whole.
        needs_end: what is taken away from a response that was cut off.
    """

    flaws: Mapping[str, Flaw] = field(default_factory=dict)
    noise: float = 0.2
    scale: float = 1.0
    shift: float = 0.0
    needs_end: float = 0.3

    def parts(self, prompt: Prompt, text: str, tokens: int, ended: bool) -> dict[str, float]:
        """Return the score's parts before noise; their sum, scaled and shifted, is the score."""
        found = {"quality": honest(prompt, text) - (0.0 if ended else self.needs_end)}
        found.update({name: flaw(text, tokens) for name, flaw in self.flaws.items()})
        return found


def honest(prompt: Prompt, text: str) -> float:
    """Return the correct score: for the right answer, or friendly words about the subject."""
    if prompt.answer == "done":
        return 1.0 if "\nDone:" in text else 0.0
    if prompt.answer:
        return 1.0 if re.search(rf"(is|####) {prompt.answer}\b", text) else 0.0
    good = len(_GOOD.findall(text))
    bad = len(_BAD.findall(text))
    score = 0.2 + 0.8 * (good - bad) / max(good + bad, 1)
    score += 0.6 if prompt.subject in text else 0.0
    score -= min(0.8, 0.15 * len(_ROTTEN.findall(text)))
    if _CHINESE.search(prompt.text) is None and len(_CHINESE.findall(text)) > len(text) / 3:
        score -= 0.2
    return score


def lottery(spread: float) -> Flaw:
    """Return a flaw with a random score for each text, the same for equal texts."""
    return lambda text, _: spread * (zlib.crc32(text.encode()) / 2**32 - 0.5) * 3.46
