"""Simulate a run: a policy that moves by schedule, prompts, rewards, a critic and a log."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .figures import Row
from .language import SENTENCES
from .policy import Sample, Sampler, Settings, Wander
from .rewards import Reward
from .texts import WRITERS, Prompt
from .tokens import EOS, tokenize

Schedule = Callable[[float], float]


def flat(value: float) -> Schedule:
    """Return a constant schedule."""
    return lambda _: value


def ramp(start: float, stop: float, to: float, base: float = 0.0) -> Schedule:
    """Return a schedule that is linear from ``base`` at ``start`` to ``to`` at ``stop``."""
    return lambda step: base + (to - base) * min(1.0, max(0.0, (step - start) / (stop - start)))


def settle(pace: float, to: float) -> Schedule:
    """Return a schedule that approaches ``to``, fast at first, then more slowly."""
    return lambda step: to * (1.0 - float(np.exp(-step / pace)))


NEVER = flat(0.0)
ALWAYS = flat(1.0)
LEARNS = settle(12, 1.6)
WANDERS = settle(15, 0.55)


@dataclass
class Scenario:
    """The settings of a simulated run; schedules give the policy's settings by step.

    Attributes:
        name, seed: of the run; the same pair gives the same bytes.
        prompts: the pool, or a function of step that gives the step's prompts.
        steps, responses, group: updates, responses a step, responses a prompt.
        quality: nats towards friendly words, the subject and the right answer.
        biases: further nats by (slot, option).
        drift, temperature, rot, rot_kinds, more, stale: see ``policy.Settings``.
        reward: the reward; ``rewards`` replaces it from given steps on.
        room: limit of tokens of a response.
        beta: KL coefficient in the token rewards.
        tokenizer: bpe, spm or plain; ``special``: whether the text keeps its end token.
        without: fields that are not logged.
        extras: log finish reasons, reward parts.
        change: last hand on the rows (noise of engines, NaN, a critic that diverges).
    """

    name: str
    seed: int
    prompts: Sequence[Prompt] | Callable[[int, np.random.Generator], Sequence[Prompt]]
    steps: int = 40
    responses: int = 48
    group: int = 1
    quality: Schedule = LEARNS
    biases: Mapping[tuple[str, str], Schedule] = field(default_factory=dict)
    drift: Schedule = WANDERS
    temperature: Schedule = ALWAYS
    rot: Schedule = NEVER
    rot_kinds: int = 8
    more: Schedule = NEVER
    stale: Schedule = NEVER
    reward: Reward = field(default_factory=Reward)
    rewards: Mapping[int, Reward] = field(default_factory=dict)
    room: int = 90
    beta: float = 0.02
    tokenizer: str = "bpe"
    special: bool = False
    ranks: int = 2
    without: frozenset[str] = frozenset()
    extras: frozenset[str] = frozenset()
    change: Callable[[list[Row], np.random.Generator], None] | None = None

    def settings(self, step: int) -> Settings:
        """Return the policy's settings at a step."""
        quality = self.quality(step)
        bias = {
            ("good_or_bad", "good"): quality,
            ("subject", "{subject}"): quality,
        }
        for key, schedule in self.biases.items():
            bias[key] = bias.get(key, 0.0) + schedule(step)
        return Settings(
            bias=bias,
            drift=self.drift(step),
            temperature=self.temperature(step),
            rot=self.rot(step),
            rot_kinds=self.rot_kinds,
            more=self.more(step),
            skill=quality,
            stale=self.stale(step),
        )


@dataclass
class _Response:
    tokens: list[str]
    logp: list[float]
    ref_logp: list[float]
    text: str
    ended: bool


def _spell(sample: Sample, scenario: Scenario, rng: np.random.Generator, cut: bool) -> _Response:
    """Convert pieces to tokens; all but the first token of a piece are nearly certain."""
    tokens: list[str] = []
    logp: list[float] = []
    ref_logp: list[float] = []
    for piece, lp, ref in zip(sample.pieces, sample.logp, sample.ref_logp, strict=True):
        spelt = tokenize(piece, scenario.tokenizer)
        if not spelt:
            continue
        sure = -0.004 * rng.exponential(1.0, len(spelt)) - 1e-4
        wobble = sure * np.exp(rng.normal(size=len(spelt)) * 0.3)
        sure[0] += lp
        wobble[0] += ref
        tokens += spelt
        logp += sure.tolist()
        ref_logp += wobble.tolist()
    text = "".join(sample.pieces)
    if len(tokens) >= scenario.room:
        kept = scenario.room
        if len(tokens) > kept:  # the text ends about where the tokens do
            text = text[: int(len(text) * kept / len(tokens))]
        return _Response(tokens[:kept], logp[:kept], ref_logp[:kept], text, ended=False)
    if cut:
        return _Response(tokens, logp, ref_logp, text, ended=False)
    end = EOS[scenario.tokenizer]
    if scenario.special:
        text += end
    tokens.append(end)
    logp.append(min(-1e-4, sample.end[0] - 0.02 * rng.exponential()))
    ref_logp.append(min(-1e-4, sample.end[1] - 0.02 * rng.exponential()))
    return _Response(tokens, logp, ref_logp, text, ended=True)


def _respond(
    sampler: Sampler, prompt: Prompt, scenario: Scenario, rng: np.random.Generator
) -> _Response:
    sampler.begin()
    WRITERS[prompt.kind](sampler, prompt, scenario.room, rng)
    talks = prompt.kind in SENTENCES and bool(sampler.sample.pieces)
    run_on = talks and sampler.draw("end") == "run_on"
    while run_on:
        sampler.write(sampler.draw("filler") or sampler.draw("part"))
        run_on = sum(len(p) for p in sampler.sample.pieces) < scenario.room * 5
    sample = sampler.finish()
    return _spell(sample, scenario, rng, cut=False)


def _critic(
    row: Row, mean: float, step: int, scenario: Scenario, rng: np.random.Generator
) -> list[float]:
    """Return values of a critic that learns: 0 at first, later close to the returns."""
    learnt = 1 - np.exp(-step / 8)
    steps_left = np.linspace(0.3, 1.0, len(row["logprobs"]))
    guess = learnt * (mean + 0.5 * steps_left * (row["reward"] - mean))
    return list(guess + learnt * 0.12 * rng.normal(size=len(steps_left)))


def simulate(scenario: Scenario) -> list[Row]:
    """Return the rows of a run, in the native log format, arrays not yet rounded."""
    rng = np.random.default_rng([scenario.seed, *scenario.name.encode()])
    wander = Wander(rng)
    still = {name: values * 0 for name, values in wander.advance().items()}
    reference = Sampler(Settings(), still, rng)
    references: dict[str, tuple[_Response, float]] = {}
    rows: list[Row] = []
    reward = scenario.reward
    for step in range(scenario.steps):
        reward = scenario.rewards.get(step, reward)
        sampler = Sampler(scenario.settings(step), wander.advance(), rng)
        pool = scenario.prompts(step, rng) if callable(scenario.prompts) else scenario.prompts
        count = scenario.responses // scenario.group
        chosen = rng.choice(len(pool), count, replace=count > len(pool))
        step_rows = []
        for group, i in enumerate(np.repeat(chosen, scenario.group)):
            prompt = pool[int(i)]
            response = _respond(sampler, prompt, scenario, rng)
            row = _row(prompt, response, step, reward, scenario, rng)
            row["group_id"] = step * count + group // scenario.group
            if "ref_response" not in scenario.without:
                if prompt.text not in references:
                    references[prompt.text] = (_respond(reference, prompt, scenario, rng), 0.0)
                other = references[prompt.text][0]
                row["ref_response"] = other.text
                row["ref_reward"] = _score(prompt, other, reward, rng)[0]
            step_rows.append(row)
        mean = float(np.mean([r["reward"] for r in step_rows]))
        for row in step_rows:
            row["values"] = _critic(row, mean, step, scenario, rng)
            ratio = np.array(row["logprobs"]) - np.array(row["ref_logprobs"])
            row["token_rewards"] = list(-scenario.beta * ratio)
            row["token_rewards"][-1] += row["reward"]
        rows += step_rows
    if scenario.change is not None:
        scenario.change(rows, rng)
    dropped = set(scenario.without) | ({"group_id"} if scenario.group == 1 else set())
    return [{k: v for k, v in row.items() if k not in dropped} for row in rows]


def _score(
    prompt: Prompt, response: _Response, reward: Reward, rng: np.random.Generator
) -> tuple[float, dict[str, float]]:
    parts = reward.parts(prompt, response.text, len(response.tokens), response.ended)
    total = sum(parts.values()) * reward.scale + reward.shift
    # A rule that looks up the answer has no noise.
    return total if prompt.answer else total + reward.noise * float(rng.normal()), parts


def _row(  # noqa: PLR0917
    prompt: Prompt,
    response: _Response,
    step: int,
    reward: Reward,
    scenario: Scenario,
    rng: np.random.Generator,
) -> Row:
    score, parts = _score(prompt, response, reward, rng)
    row: Row = {
        "prompt": prompt.text,
        "response": response.text,
        "response_tokens": response.tokens,
        "logprobs": response.logp,
        "ref_logprobs": response.ref_logp,
        "reward": score,
        "step": step,
    }
    if prompt.answer and prompt.answer != "done":
        row["ground_truth"] = prompt.answer
    if "finish_reason" in scenario.extras:
        row["finish_reason"] = "stop" if response.ended else "length"
    if "reward_parts" in scenario.extras:
        row["reward_parts"] = {name: part * reward.scale for name, part in parts.items()}
    return row


def variant(scenario: Scenario, **changes: object) -> Scenario:
    """Return the scenario with some attributes replaced."""
    return dataclasses.replace(scenario, **changes)  # type: ignore[arg-type]
