"""Sampling from the language, with the policy's and the reference's log-probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .language import ROTTEN, SLOTS

Floats = NDArray[np.float64]


@dataclass
class Settings:
    """How a policy differs from the reference at one step.

    Attributes:
        bias: nats added to the logit of (slot, option).
        drift: scale of the policy's own wandering from the reference, nats a logit.
        temperature: divides the logits; below 1 the policy is more certain.
        rot: chance that a piece of text is replaced by a fragment.
        rot_kinds: how many fragments the policy draws from (its entropy when it comes apart).
        more: nats towards another sentence instead of the end.
        skill: nats towards the right answer (sums).
        stale: how much of the sampler's logits are the reference's, while the log-probabilities
            are the policy's: samples that it finds less likely than the reference does, as
            forced lengths and old weights bring about; the KL estimate becomes negative.
    """

    bias: Mapping[tuple[str, str], float] = field(default_factory=dict)
    drift: float = 0.0
    temperature: float = 1.0
    rot: float = 0.0
    rot_kinds: int = 8
    more: float = 0.0
    skill: float = 0.0
    stale: float = 0.0


@dataclass
class Sample:
    """Pieces of text of one response with log-probabilities of each piece's first token."""

    pieces: list[str] = field(default_factory=list)
    logp: list[float] = field(default_factory=list)
    ref_logp: list[float] = field(default_factory=list)
    end: tuple[float, float] = (0.0, 0.0)
    ended: bool = True


def _log_softmax(logits: Floats) -> Floats:
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


class Wander:
    """The direction in which a policy drifts from the reference: fixed, plus a random walk."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._fixed = {name: rng.normal(size=len(s.options)) for name, s in SLOTS.items()}
        self._moving = {name: rng.normal(size=len(s.options)) for name, s in SLOTS.items()}

    def advance(self) -> dict[str, Floats]:
        """Return the direction of the next step, by slot, of unit scale."""
        direction = {}
        for name, moving in self._moving.items():
            self._moving[name] = 0.9 * moving + 0.44 * self._rng.normal(size=moving.size)
            direction[name] = 0.9 * self._fixed[name] + 0.4 * self._moving[name]
        return direction


class Sampler:
    """Samples choices for one step; ``sample`` collects the current response."""

    def __init__(
        self, settings: Settings, direction: Mapping[str, Floats], rng: np.random.Generator
    ) -> None:
        self.settings = settings
        self._rng = rng
        self._tables: dict[str, tuple[Floats, Floats, Floats]] = {}
        for name, slot in SLOTS.items():
            ref = np.log(np.array(slot.weights))
            logits = ref + settings.drift * direction[name] * _WANDERS.get(name, 1.0)
            for (of, option), nats in settings.bias.items():
                if of == name:
                    logits[slot.options.index(option)] += nats
            if name == "more":
                logits[0] += settings.more
            logp = _log_softmax(logits / settings.temperature)
            sampled = (1 - settings.stale) * logits / settings.temperature + settings.stale * ref
            p = np.exp(_log_softmax(sampled))
            self._tables[name] = np.cumsum(p), logp, _log_softmax(ref)
        self.begin()

    def begin(self) -> None:
        """Start a new response."""
        self.sample = Sample()
        self._pending = (0.0, 0.0)

    def draw(self, slot: str) -> str:
        """Choose an option without writing it; the next piece gets its log-probability."""
        cumulative, logp, ref = self._tables[slot]
        i = int(np.searchsorted(cumulative, self._rng.random() * cumulative[-1]))
        self._pending = (self._pending[0] + logp[i], self._pending[1] + ref[i])
        return SLOTS[slot].options[i]

    def weigh(self, logp: float, ref_logp: float) -> None:
        """Add the log-probabilities of a choice made elsewhere to the next piece."""
        self._pending = (self._pending[0] + logp, self._pending[1] + ref_logp)

    def write(self, text: str) -> None:
        """Write a piece or, with the chance ``rot``, a fragment instead."""
        if not text:
            return
        logp, ref = self._pending
        rot = self.settings.rot
        if rot and self._rng.random() < rot:
            kinds = min(self.settings.rot_kinds, len(ROTTEN))
            text = ROTTEN[int(self._rng.integers(kinds))]
            # Variants beyond the list (cased, spaced, joined) share its surface forms.
            logp = float(np.log(rot / self.settings.rot_kinds))
            ref = -self._rng.uniform(7.0, 12.0)
        elif rot:
            logp += float(np.log1p(-rot))
        self.sample.pieces.append(text)
        self.sample.logp.append(logp)
        self.sample.ref_logp.append(ref)
        self._pending = (0.0, 0.0)

    def finish(self) -> Sample:
        """End the response; pending log-probabilities go to the end-of-text token."""
        self.sample.end = self._pending
        return self.sample


_RARE = ("opening", "closing", "tail", "structure", "language", "end", "filler", "more", "format")
_WANDERS = {"good_or_bad": 0.1, "subject": 0.1, "silence": 0.1, **dict.fromkeys(_RARE, 0.3)}
"""How far slots wander: what the reward holds, little; what is hardly ever sampled, less."""
