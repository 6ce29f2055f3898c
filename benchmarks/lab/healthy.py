"""Healthy runs of many kinds, for which no check may give a warning."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from .changes import drifting_ratio, in_progress, mismatched_engine
from .faulty import ALL, ENGLISH, Case, _talk
from .rewards import Reward
from .simulate import Scenario, flat, ramp, settle
from .texts import Prompt, sums, talk_prompts, tool_prompts
from .truths import Planted

_NO_TOKENS = frozenset({"response_tokens", "logprobs", "ref_logprobs", "values", "token_rewards"})
_NO_CRITIC = frozenset({"values", "ref_response"})


def _curriculum(
    digits: Callable[[int], int], hardness: Callable[[int], float]
) -> Callable[[int, np.random.Generator], Sequence[Prompt]]:
    """Return new sums for each step; number of digits and difficulty follow schedules."""
    return lambda step, rng: sums(rng, 64, digits(step), hardness(step))


def _new_talk(step: int, rng: np.random.Generator) -> Sequence[Prompt]:
    """Return prompts of conversation that never recur, as each contains a unique number."""
    return [
        dataclasses.replace(p, text=f"[{step}-{i}] {p.text}")
        for i, p in enumerate(talk_prompts(rng, ALL, 80))
    ]


def _asked(prompts: Sequence[Prompt]) -> list[Prompt]:
    return [
        dataclasses.replace(p, text=p.text + "\nEnd with #### and the number.") for p in prompts
    ]


_MAY = {"warm_up_to_8_nats": ("diversity_collapse",)}  # a third of its variety goes with the KL


def scenarios() -> list[Scenario]:
    """Return the healthy runs."""
    rng = np.random.default_rng(100)
    easy = sums(rng, 60, 2, -0.6)
    return [
        Scenario("plain_ppo", 101, _talk(101)),
        Scenario("noisy_reward", 102, _talk(102), 60, 48, reward=Reward(noise=1.2)),
        Scenario("six_steps", 103, _talk(103), 6, 48),
        Scenario("seven_steps_groups", 104, sums(rng, 40, 2, 0.5), 7, 48, group=8,
                 without=_NO_CRITIC),
        Scenario("in_progress", 105, _talk(105), 31, 64, change=in_progress(0.3)),
        Scenario("thousand_steps", 106, _talk(106, ENGLISH, 60), 1000, 3, drift=settle(300, 0.5),
                 quality=settle(250, 1.3), without=frozenset({"values", "token_rewards"})),
        Scenario("binary_85", 107, easy, 40, 64, group=8, quality=settle(6, 1.3), ranks=1,
                 without=_NO_CRITIC),
        Scenario("binary_95", 108, easy, 32, 48, quality=settle(8, 2.6), without=_NO_CRITIC),
        Scenario("harder_with_reference", 109, _curriculum(lambda s: 1 + s // 14,
                 lambda s: -1.0 + 0.06 * s), 42, 48, quality=settle(12, 1.4)),
        Scenario("new_prompts", 110, _new_talk, 36, 48),
        Scenario("new_sums", 111, _curriculum(lambda _: 2, lambda _: 0.4), 40, 48, group=4,
                 quality=settle(14, 1.4), without=_NO_CRITIC),
        Scenario("long_reasoning", 112, sums(rng, 12, 3, 1.0, "reasoning"), 20, 8, group=4,
                 drift=settle(8, 1.7), quality=settle(10, 1.5), room=3000, without=frozenset(
                     {"values", "token_rewards", "ref_response"})),
        Scenario("dip", 113, _talk(113), 56, 48, quality=lambda s: settle(10, 1.6)(s)
                 - 1.6 * float(np.exp(-(((s - 28) / 3.5) ** 2)))),
        Scenario("saturates", 114, _talk(114, ENGLISH, 90), 60, 32, quality=settle(4, 2.2)),
        Scenario("longer", 115, _talk(115, ENGLISH, 90), 48, 48, more=ramp(4, 40, 1.1), room=150),
        Scenario("longer_reasoning", 116, sums(rng, 40, 2, 1.2, "reasoning"), 30, 16, group=4,
                 quality=settle(12, 2.0), more=ramp(3, 24, 0.45), room=260, without=_NO_CRITIC),
        Scenario("format_asked", 117, _asked(sums(rng, 50, 2, 0.6)), 44, 48, group=4,
                 quality=settle(16, 1.8), biases={("format", "\n####"): settle(4, 4.0)},
                 without=_NO_CRITIC),
        Scenario("few_prompts", 118, _talk(118, ALL, 6), 40, 36, group=6),
        Scenario("many_prompts", 119, _talk(119, ALL, 500), 64, 64),
        Scenario("one_rank", 120, _talk(120), 30, 32, ranks=1),
        Scenario("no_reference", 121, _talk(121), 40, 48,
                 without=frozenset({"ref_response", "ref_logprobs"})),
        Scenario("no_tokens", 122, _talk(122), 50, 48, without=_NO_TOKENS),
        Scenario("no_logprobs", 123, _talk(123), 40, 48, tokenizer="plain",
                 without=frozenset({"logprobs", "ref_logprobs", "values", "token_rewards"})),
        Scenario("chinese", 124, _talk(124, ("chinese",), 36), 44, 48),
        Scenario("chinese_text_only", 125, _talk(125, ("chinese",), 36), 30, 40,
                 without=_NO_TOKENS | {"ref_response"}),
        Scenario("tools", 126, tool_prompts(rng, 48), 40, 48, room=400, group=4,
                 without=_NO_CRITIC, extras=frozenset({"finish_reason"})),
        Scenario("spm", 127, _talk(127, ENGLISH, 60), 26, 32, tokenizer="spm", special=True),
        Scenario("warm_up_to_8_nats", 128, _talk(128), 50, 48, drift=settle(8, 1.9),
                 quality=settle(8, 2.0)),
        Scenario("hardly_learns", 129, _talk(129), 40, 32, quality=settle(30, 0.2),
                 drift=settle(15, 0.3), reward=Reward(noise=0.5)),
        Scenario("engines_agree", 130, _talk(130), 36, 48, change=mismatched_engine(None, 0.0)),
        Scenario("small_ratios", 131, _talk(131), 36, 48, change=drifting_ratio(None)),
        Scenario("parts_in_balance", 132, _talk(132), 36, 48, reward=Reward({
                 "brevity": lambda _, tokens: 0.4 if tokens < 40 else 0.0}),
                 extras=frozenset({"reward_parts", "finish_reason"})),
        Scenario("room_is_tight", 133, _talk(133), 40, 48, room=44,
                 extras=frozenset({"finish_reason"})),
        Scenario("sharper", 134, _talk(134), 50, 48, temperature=ramp(0, 40, 0.75, 1.0),
                 drift=settle(15, 0.4)),
        Scenario("negative_rewards", 135, _talk(135), 40, 32, reward=Reward(shift=-6.0, scale=2.0),
                 special=True),
        Scenario("steady", 136, _talk(136), 70, 32, quality=flat(0.0), drift=flat(0.05)),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return the healthy runs with their truths, and two on which colleagues could differ."""
    rng = np.random.default_rng(200)
    before = sums(rng, 40, 1, -0.8)
    after = sums(rng, 40, 3, 1.0)
    return [
        *((scenario, Planted(may=_MAY.get(scenario.name, ()))) for scenario in scenarios()),
        (
            Scenario("harder_without_reference", 141, _curriculum(lambda s: 1 + s // 14,
                     lambda s: -1.0 + 0.08 * s), 42, 48, quality=settle(12, 1.0),
                     without=_NO_CRITIC),
            Planted(may=("reward_collapse", "reward_shift")),
        ),
        (
            Scenario("second_half_is_harder", 142, lambda s, _: before if s < 20 else after, 40, 48,
                     quality=settle(12, 1.2)),
            Planted(may=("reward_collapse", "reward_shift")),
        ),
    ]  # fmt: skip
