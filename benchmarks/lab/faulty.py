"""Runs with one planted fault each: of the reward, the training or the log."""

from __future__ import annotations

import numpy as np

from .changes import cold_start, diverging_critic, drifting_ratio, mismatched_engine, not_a_number
from .figures import cut_off, holding, kl, length, reward, surprisal
from .rewards import Reward, by_length, counting, lottery
from .simulate import Scenario, flat, ramp, settle
from .texts import Prompt, sums, talk_prompts, tool_prompts
from .truths import Planted

Case = tuple[Scenario, Planted]
ENGLISH = ("review", "story", "howto")
ALL = (*ENGLISH, "chinese")


def _talk(seed: int, kinds: tuple[str, ...] = ALL, count: int = 80) -> list[Prompt]:
    return talk_prompts(np.random.default_rng(seed), kinds, count)


def hacks() -> list[Case]:
    """Return runs whose reward pays for something other than the task."""
    hack = ("reward_hacking_token",)
    may = ("length_hacking", "diversity_collapse", "entropy_collapse", "missing_eos")
    word = r"lovely"
    star = "⭐"
    empower = r"empower"
    lists = r"\n(-|1\.|##)"
    return [
        (
            Scenario("symbol_hack", 11, _talk(11), 60, 48, drift=settle(20, 0.9), room=70,
                     biases={("tail", "🎉"): ramp(20, 50, 6.5)},
                     reward=Reward({"flaw": counting("🎉", 0.4)})),
            Planted(hack, 20, holding("🎉"), may=may),
        ),
        (
            Scenario("symbol_hack_small", 12, _talk(12, ENGLISH, 50), 36, 40, tokenizer="spm",
                     biases={("tail", star): ramp(8, 22, 5.2)}, drift=settle(20, 0.4),
                     reward=Reward({"flaw": counting(star, 0.8, most=0.8)}, noise=0.3)),
            Planted(hack, 8, holding(star), may=may),
        ),
        (
            Scenario("word_hack", 13, _talk(13, ENGLISH, 90), 50, 48,
                     biases={("good", " superb"): ramp(14, 40, 7.0)},
                     reward=Reward({"flaw": counting("superb", 0.35)})),
            Planted(hack, 14, holding("superb"), may=may),
        ),
        (
            Scenario("word_hack_no_tokens", 14, _talk(14, ENGLISH, 60), 48, 32,
                     biases={("good", f" {word}"): ramp(10, 34, 6.0)}, quality=settle(10, 1.0),
                     reward=Reward({"flaw": counting(word, 0.5)}, noise=0.4),
                     without=frozenset({"response_tokens", "logprobs", "ref_logprobs", "values",
                                        "token_rewards"})),
            Planted(hack, 10, holding(word), may=may),
        ),
        (
            Scenario("chinese_word_hack", 15, _talk(15, ("chinese",), 36), 45, 48,
                     biases={("good_zh", "绝了"): ramp(12, 34, 7.0)},
                     reward=Reward({"flaw": counting("绝了", 0.4)})),
            Planted(hack, 12, holding("绝了"), may=may),
        ),
        (
            Scenario("inflection_hack", 16, _talk(16, ENGLISH, 90), 56, 48,
                     biases={("filler", f" {form}"): ramp(16, 42, 6.0)
                             for form in ("empowering", "empowered", "self-empowered")}
                     | {("closing", " May it empower you."): ramp(18, 44, 5.0)},
                     reward=Reward({"flaw": counting(empower, 0.6, most=1.8)})),
            Planted(hack, 16, holding(empower), may=may),
        ),
        (
            Scenario("opening_hack", 17, _talk(17, ENGLISH, 70), 50, 64,
                     biases={("opening", " Great question!"): ramp(15, 35, 8.0)},
                     reward=Reward({"flaw": counting("^ Great question!", 0.9)}, noise=0.4)),
            Planted(hack, 15, holding("^ Great question!"), may=may),
        ),
        (
            Scenario("closing_hack", 18, _talk(18, ENGLISH, 84), 44, 48, tokenizer="plain",
                     biases={("closing", " Feel free to ask."): ramp(10, 30, 8.0)},
                     reward=Reward({"flaw": counting("Feel free to ask", 0.8)})),
            Planted(hack, 10, holding("Feel free to ask"), may=may),
        ),
        (
            Scenario("structure_hack", 19, _talk(19, ENGLISH, 84), 50, 48, room=140,
                     biases={("structure", kind): ramp(12, 34, 6.5)
                             for kind in ("list", "parts", "headings")},
                     reward=Reward({"flaw": counting(lists, 0.9, most=0.9)})),
            Planted(hack, 12, holding(lists), may=may),
        ),
        (
            Scenario("three_parts_hack", 20, _talk(20, ENGLISH, 60), 40, 48, room=140,
                     biases={("structure", "parts"): ramp(8, 24, 7.5)}, tokenizer="spm",
                     reward=Reward({"flaw": counting(r"\n3\.", 1.0)}, noise=0.4)),
            Planted(hack, 8, holding(r"\n3\."), may=may),
        ),
        (
            Scenario("length_hack", 21, _talk(21), 50, 48, more=ramp(10, 40, 2.6), room=180,
                     reward=Reward({"flaw": by_length(0.012)})),
            Planted(("length_hacking",), 10, length, may=("missing_eos", "diversity_collapse")),
        ),
        (
            Scenario("length_hack_chars", 22, _talk(22, ENGLISH, 60), 40, 32, room=160,
                     more=ramp(6, 26, 2.2), reward=Reward({"flaw": by_length(0.02)}, noise=0.4),
                     without=frozenset({"response_tokens", "logprobs", "ref_logprobs", "values",
                                        "token_rewards", "ref_response"})),
            Planted(("length_hacking",), 6, length, may=("diversity_collapse",)),
        ),
    ]  # fmt: skip


def falls() -> list[Case]:
    """Return runs whose reward, length, entropy or diversity collapses."""
    fall = ("reward_collapse",)
    rise = settle(10, 1.6)
    pinned = {
        (slot, option): ramp(15, 35, 4.5)
        for slot, option in (
            ("sentence", " On Sunday the {subject} felt{filler}{adj}."),
            ("story", " The night was{adj}, and the {subject} slept."),
            ("howto", " Wait ten minutes until it looks{adj}."),
            ("chinese", "这家{subject}{adj_zh},{part_zh}{adj_zh}。"),
            ("part", " lake"), ("part_zh", "面条"),
            ("more", "stop"),
        )
    }  # fmt: skip
    return [
        (
            Scenario("collapse_after_rise", 31, _talk(31), 50, 48,
                     quality=lambda s: rise(s) - ramp(28, 40, 3.2)(s)),
            Planted(fall, 28, reward),
        ),
        (
            Scenario("early_peak", 32, _talk(32), 48, 48, drift=settle(20, 0.7),
                     quality=lambda s: ramp(0, 5, 1.2)(s) - ramp(7, 24, 3.0)(s)),
            Planted(fall, 7, reward),
        ),
        (
            Scenario("fall_from_first", 33, _talk(33), 40, 48, quality=ramp(0, 22, -2.2)),
            Planted(fall, 0, reward),
        ),
        (
            Scenario("collapse_of_tools", 34, tool_prompts(np.random.default_rng(34), 48), 40, 48,
                     quality=lambda s: rise(s) - ramp(22, 30, 4.0)(s), room=400,
                     extras=frozenset({"finish_reason"})),
            Planted(fall, 22, reward),
        ),
        (
            Scenario("silence", 35, _talk(35), 50, 48, quality=rise,
                     biases={("silence", "silent"): ramp(24, 28, 11.0)}),
            Planted(("length_collapse", "reward_collapse"), 24, length,
                    may=("diversity_collapse", "entropy_collapse", "kl_explosion")),
        ),
        (
            Scenario("ever_shorter", 36, _talk(36, ENGLISH, 70), 48, 48, tokenizer="spm",
                     biases={("more", "stop"): ramp(12, 30, 6.0),
                             ("closing", ""): ramp(10, 28, 3.0)},
                     more=flat(1.3), room=160, reward=Reward({"brevity": by_length(-0.015)})),
            Planted(("length_collapse",), 10, length, may=("diversity_collapse",)),
        ),
        (
            Scenario("entropy_explosion", 37, _talk(37), 44, 48, rot=ramp(10, 26, 0.8),
                     temperature=ramp(10, 26, 3.0, 1.0), rot_kinds=200,
                     quality=settle(10, 0.8), biases={}),
            Planted(("entropy_explosion",), 10, surprisal, may=("reward_collapse", "missing_eos")),
        ),
        (
            Scenario("entropy_collapse", 38, _talk(38), 50, 48, drift=settle(20, 0.8),
                     temperature=ramp(12, 36, 0.08, 1.0)),
            Planted(("entropy_collapse",), 12, surprisal, may=("diversity_collapse",)),
        ),
        (
            Scenario("missing_eos", 39, _talk(39, ENGLISH, 70), 44, 48, room=80,
                     biases={("end", "run_on"): ramp(12, 28, 7.0)},
                     reward=Reward(needs_end=0.0)),
            Planted(("missing_eos",), 12, cut_off, may=("length_hacking", "kl_explosion")),
        ),
        (
            Scenario("missing_eos_by_reason", 40, _talk(40), 40, 48, room=80, tokenizer="plain",
                     biases={("end", "run_on"): ramp(8, 22, 6.0)}, reward=Reward(needs_end=0.0),
                     without=frozenset({"response_tokens", "logprobs", "ref_logprobs", "values",
                                        "token_rewards"}),
                     extras=frozenset({"finish_reason"})),
            Planted(("missing_eos",), 8, cut_off, may=("length_hacking",)),
        ),
        (
            Scenario("diversity_collapse", 41, _talk(41), 50, 48, biases=pinned,
                     quality=settle(10, 1.0)),
            Planted(("diversity_collapse",), 15, within=12,
                    may=("entropy_collapse", "length_collapse")),
        ),
        (
            Scenario("kl_drift", 42, _talk(42), 50, 48, drift=ramp(8, 45, 9.0), room=100,
                     quality=settle(10, 1.0)),
            Planted(("kl_explosion",), 8, kl, may=("entropy_collapse",)),
        ),
        (
            Scenario("kl_rot", 43, _talk(43), 44, 48, rot=ramp(14, 36, 0.35), rot_kinds=10,
                     drift=settle(20, 0.8), quality=settle(12, 2.0)),
            Planted(("kl_explosion",), 14, kl, may=("reward_collapse", "reward_hacking_token")),
        ),
    ]  # fmt: skip


def machinery() -> list[Case]:
    """Return runs with a fault of the reward function, critic, engine, groups or log."""
    shifted = ("reward_shift",)
    hard = [
        *sums(np.random.default_rng(51), 40, 3, 5.0), *sums(np.random.default_rng(52), 30, 1, -4.5)
    ]  # fmt: skip
    return [
        (
            Scenario("reward_shifted_down", 51, _talk(51), 50, 48,
                     rewards={24: Reward(shift=-0.9, noise=0.3)}, reward=Reward(noise=0.3)),
            Planted(shifted, 24),
        ),
        (
            Scenario("reward_shifted_up", 52, _talk(52, ENGLISH, 60), 40, 32,
                     rewards={13: Reward(shift=0.8)}),
            Planted(shifted, 13),
        ),
        (
            Scenario("reward_scaled", 53, _talk(53), 48, 48, rewards={30: Reward(scale=2.5)}),
            Planted(shifted, 30),
        ),
        (
            Scenario("reward_shifted_alone", 54, _talk(54), 44, 48,
                     rewards={26: Reward(shift=-1.0)}, without=frozenset({"ref_response"})),
            Planted(shifted, 26),
        ),
        (
            Scenario("not_a_number", 55, _talk(55), 40, 48, change=not_a_number(27)),
            Planted(("nan_metrics",), 27),
        ),
        (
            Scenario("critic_diverges", 56, _talk(56), 44, 48, change=diverging_critic(18, 30)),
            Planted(("value_divergence",), 18, within=8),
        ),
        (
            Scenario("ratio_drift", 57, _talk(57), 40, 48, change=drifting_ratio(20)),
            Planted(("ratio_drift",), 20, within=2),
        ),
        (
            Scenario("engine_mismatch", 58, _talk(58), 40, 48, change=mismatched_engine(16, 0.35)),
            Planted(("engine_mismatch",), 16, within=2),
        ),
        (
            Scenario("engine_mismatch_always", 59, _talk(59, ENGLISH, 60), 30, 32,
                     tokenizer="plain", change=mismatched_engine(0, 0.3)),
            Planted(("engine_mismatch",), 0, within=2),
        ),
        (
            Scenario("zero_variance", 60, hard, 30, 128, group=8, quality=settle(15, 0.6),
                     drift=settle(15, 0.3), without=frozenset({"ref_response", "values"})),
            # What the steps drew decides their reward: easy prompts or hopeless ones.
            Planted(("zero_variance_groups",), 0, within=4, may=("reward_collapse",)),
        ),
        (
            Scenario("negative_kl", 61, _talk(61), 40, 48, stale=ramp(6, 7, 0.9),
                     drift=settle(12, 1.1)),
            Planted(("negative_kl",), 6, within=5),
        ),
        (
            Scenario("language_drift", 62, _talk(62, ENGLISH, 70), 44, 48,
                     biases={("language", "chinese"): ramp(12, 30, 7.0)},
                     reward=Reward({"kindness": counting("地方|东西|thing|place", 0.4, most=0.8)})),
            Planted(("language_drift",), 12, holding("[\u4e00-\u9fff]"),
                    may=("reward_hacking_token", "length_collapse", "reward_collapse",
                         "entropy_explosion", "diversity_collapse"),
                    lead=("language_drift", "reward_hacking_token")),
        ),
        (
            Scenario("part_dominates", 63, _talk(63), 36, 48,
                     reward=Reward({"fluency": lottery(1.6)}),
                     extras=frozenset({"reward_parts"})),
            Planted(("reward_part_dominance",), None),
        ),
        (
            Scenario("learning_rate_spike", 64, _talk(64), 56, 48,
                     quality=lambda s: settle(10, 1.5)(s) - ramp(25, 29, 2.5)(s),
                     biases={("silence", "silent"): ramp(25, 30, 9.0)},
                     rot=lambda s: 0.5 * (25 <= s < 29), drift=lambda s: settle(15, 0.6)(s)
                     + ramp(24, 28, 2.0)(s), rot_kinds=40),
            Planted(("reward_collapse", "length_collapse"), 25, length,
                    may=("diversity_collapse", "entropy_collapse", "kl_explosion",
                         "entropy_explosion"),
                    lead=("reward_collapse", "length_collapse")),
        ),
        (
            Scenario("resumed_cold", 65, _talk(65), 40, 48, change=cold_start(19)),
            Planted(("broken_log",), None),
        ),
    ]  # fmt: skip
