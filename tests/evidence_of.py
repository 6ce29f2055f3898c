"""What each finding claims of one response, stated once more: by its text, its tokens, its reward.

``python -m tests.evidence_of DIR...`` judges logs and counts how many examples fulfil the claim.
"""

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rlreport.check.finding import Example, Finding
from rlreport.check.judge import judge, with_excerpts
from rlreport.check.registry import BY_ID
from rlreport.check.run import Run
from rlreport.flows.load import load_run
from rlreport.options import BuildOptions
from rlreport.read.rollouts import Rollout, Rollouts
from rlreport.read.tables import Scan
from rlreport.summarise.run import summarise
from rlreport.system.workers import Progress
from rlreport.tables import Tables

Claim = Callable[["Shown"], bool | None]


@dataclass
class Shown:
    """A response of the evidence: as it was logged, and its neighbours."""

    finding: Finding
    example: Example
    rollout: Rollout
    row: pd.Series
    responses: pd.DataFrame  # of the run, without validation
    extras: pd.DataFrame
    has_reference: bool
    prompts: dict[int, str]

    @property
    def facts(self) -> Any:
        return self.finding.facts

    @cached_property
    def text(self) -> str:
        return " ".join(self.rollout.response.split())

    @property
    def reward(self) -> float:
        """The reward that is judged: after a change of the reward function, that gap."""
        return float(self.row["reward"])

    def bound(self, name: str) -> float:
        """A limit that the finding crossed."""
        return next(one.bound for one in self.finding.met if one.limit.key == name)

    def limit(self, name: str) -> float:
        return BY_ID[self.finding.id].limits.declared()[name].default

    def tokens(self, name: str) -> Any:
        """A figure of the tokens that the policy sampled, without NaN."""
        values = self.rollout.figures.get(name)
        if values is None:
            return np.zeros(0)
        sampled = self.rollout.sampled
        chosen = values if sampled is None else values[sampled]
        return chosen[np.isfinite(chosen)]

    @property
    def length(self) -> float:
        """Sampled tokens or, if no length in tokens is logged, characters."""
        if self.responses["response_tokens"].notna().any():
            return float(self.row["response_tokens"])
        return float(len(self.rollout.response))

    @property
    def of_group(self) -> pd.DataFrame:
        """The graded responses of its group."""
        same = self.responses["group"] == self.row["group"]
        return self.responses[same].dropna(subset=["reward"])

    @property
    def of_step(self) -> pd.DataFrame:
        return self.responses[self.responses["step"] == self.row["step"]]


def between(low: float, high: float) -> float:
    return (low + high) / 2


def fell(shown: Shown) -> bool:
    end = shown.facts["low"] if shown.facts["kind"] == "dip" else shown.facts["end"]
    return shown.reward < between(end, shown.facts["best"])


def earns_the_end(shown: Shown) -> bool:
    return shown.reward < between(shown.facts["end"], shown.facts["best"])


def second_fell(shown: Shown) -> bool | None:
    second = float(shown.row["valid_reward"])
    if shown.facts["kind"].endswith("fell"):
        return second < between(shown.facts["end"], shown.facts["best"])
    middle = between(shown.facts["trained_start"], shown.facts["trained_end"])
    return second <= shown.facts["start"] and shown.reward > middle


def no_gain(shown: Shown) -> bool:
    if shown.facts["kind"] == "reference":
        return shown.reward <= float(shown.row["ref_reward"])
    return shown.reward <= shown.facts["start"]


def jumped(shown: Shown) -> bool:
    column = "ref_reward" if shown.has_reference else "reward"
    value = float(shown.row[column])
    to_before = abs(value - shown.facts["before"])
    return abs(value - shown.facts["after"]) < to_before


def part_fell(shown: Shown) -> bool | None:
    if shown.facts["part"] not in shown.extras:
        return None
    value = float(shown.extras[shown.facts["part"]][shown.row.name])
    return value < between(shown.facts["start"], shown.facts["end"])


def part_rose(shown: Shown) -> bool | None:
    """The part is nearer to what most earn in the last steps than in the first ones."""
    name = shown.facts["parts"][0]
    if name not in shown.extras:
        return None
    part = shown.extras[name].astype(float)
    steps = shown.responses["step"]
    first = part[steps <= steps.quantile(0.1)].mean()
    last = part[steps >= steps.quantile(0.9)].mean()
    value = part[shown.row.name]
    gained = (value - first) / (last - first)
    # Where both levels lie is not known exactly.
    return None if 0.4 <= gained <= 0.6 else bool(gained > 0.6)


def part_dominates(shown: Shown) -> bool:
    of_step = shown.of_step
    part = shown.extras[shown.facts["part"]].astype(float)
    above = part[shown.row.name] - part[of_step.index].mean()
    gain = shown.reward - of_step["reward"].mean()
    return gain > 0 and above >= shown.bound("share") * gain * (1 - 1e-9)


def equal_group(shown: Shown) -> bool:
    rewards = shown.of_group["reward"]
    if len(rewards) < 2 or np.ptp(rewards) > 1e-5:
        return False
    lowest, best = shown.responses["reward"].agg(["min", "max"])
    is_best = rewards.max() >= best > lowest
    is_wrong = rewards.max() <= lowest < best
    return {
        "solved": is_best,
        "best": is_best,
        "wrong": is_wrong,
        "mixed": is_best or is_wrong,
        "between": not (is_best or is_wrong),
    }.get(shown.facts["kind"], True)


def small_std(shown: Shown) -> bool:
    std = shown.of_group["reward"].std(ddof=0)
    return bool(std < shown.limit("ratio") * shown.facts["start"])


def kl_of(shown: Shown) -> tuple[float, float]:
    """The KL of a response, and per token."""
    ratios = shown.tokens("log_ratio")
    if len(ratios):
        return ratios.sum(), ratios.mean()
    kl = float(shown.row["kl_k1"])
    return kl, kl / shown.row["response_tokens"]


def above_kl(shown: Shown) -> bool:
    kl, per_token = kl_of(shown)
    return all(
        (per_token if "token" in one.limit.key else kl) > one.bound
        for one in shown.finding.met
    )


def surprisal_of(shown: Shown) -> float:
    surprisals = shown.tokens("surprisal")
    return float(surprisals.mean() if len(surprisals) else shown.row["surprisal_mean"])


def certain(shown: Shown) -> bool:
    most = shown.bound("share") * shown.facts["start"]
    return surprisal_of(shown) < min(most, shown.bound("surprisal"))


def random_text(shown: Shown) -> bool:
    surprisal = surprisal_of(shown)
    start = shown.facts["start"]
    return surprisal >= shown.bound(
        "ratio"
    ) * start and surprisal - start >= shown.bound("rise")


def large_update(shown: Shown) -> bool:
    key = shown.finding.met[0].limit.key if shown.finding.met else "outside"
    column = "ratio_outside" if key == "outside" else "ratio_mean"
    tested = shown.finding.met[0]
    value = float(shown.row[column])
    return value < tested.bound if tested.op == "<" else value > tested.bound


def short(shown: Shown) -> bool | None:
    kind = shown.facts["kind"]
    if kind == "empty":
        is_only_end = len(shown.tokens("logp")) == 1 or shown.length <= 1
        return not shown.text or is_only_end
    if kind == "stubs":
        return shown.row["response_tokens"] < shown.facts["tokens"]
    in_tokens = shown.facts["unit"] == "tokens"
    if in_tokens and not np.isfinite(shown.row["response_tokens"]):
        return None
    has_finished = kind != "finished" or shown.row["finished"] == 1
    return has_finished and shown.length < shown.limit("ratio") * shown.facts["start"]


def long_and_paid(shown: Shown) -> bool:
    is_paid = shown.reward > shown.of_step["reward"].mean()
    return is_paid and shown.length >= shown.limit("ratio") * shown.facts["start"]


def cut_off(shown: Shown) -> bool:
    if shown.responses["finished"].fillna(0).mean() < 0.02:
        return shown.length >= 0.99 * shown.responses["response_tokens"].max()
    return shown.row["finished"] != 1


def words_of(text: str) -> str:
    """A text without signs, case and blanks: as phrases are compared."""
    plain = re.sub(r"\W+", " ", text.lower()).strip()
    return plain or " ".join(text.lower().split())


def occurrences(phrase: str, text: str) -> int:
    wanted = words_of(phrase.rstrip("*"))
    if re.search(r"\w", wanted):
        end = "" if phrase.endswith("*") else r"(?!\w)"
        pattern = rf"(?<!\w){re.escape(wanted)}{end}"
        found = len(re.findall(pattern, words_of(text)))
        joined = words_of(text).replace(" ", "")
        return found or joined.count(wanted.replace(" ", ""))
    signs = "".join(phrase.split())
    return "".join(text.split()).count(signs)


LINES = {
    "list": r"(?m)^\s*[-*•‣–]\s+\S",
    "numbers": r"(?m)^\s*\(?\d{1,2}[.):]",
    "headings": r"(?m)^\s*#{1,6}\s+\S",
    "parts": r"\n\s*\n",
}


def carries_text(shown: Shown) -> bool:
    text = shown.rollout.response
    if shown.facts["kind"] == "structure":
        names = LINES if shown.facts["text"] == "structure" else [shown.facts["text"]]
        return any(len(re.findall(LINES[name], text)) >= 2 for name in names)
    least = shown.facts["share_start"] if shown.facts["kind"] == "often" else 0
    return occurrences(shown.facts["text"], text) > least


def loops_so(shown: Shown) -> bool:
    """What the title quotes comes three times or more, always at the same distance."""
    quoted = "".join(shown.facts["text"].split())
    text = "".join(shown.text.split())
    starts = [found.start() for found in re.finditer(re.escape(quoted), text)]
    distances = np.diff(starts)
    return bool((np.diff(distances) == 0).any())


def scripts_of(word: str) -> set[str]:
    return {
        unicodedata.name(letter, "?").split()[0] for letter in word if letter.isalpha()
    }


def is_garbled(shown: Shown) -> bool:
    """A word of three scripts, a character that is none, or U+FFFD in many places."""
    if not shown.text:  # of a made-up run without texts
        return bool(shown.row["garbled"] == 1)
    text = shown.rollout.response.rstrip("\ufffd \n")
    places = len(re.findall("\ufffd+", text))
    if places >= 3 or text.count("\ufffd") > len(text) / 5:
        return True
    # Letters of one writing system have several names: they count as one.
    together = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "KATAKANA-HIRAGANA": "CJK"}
    mixed = False
    for word in re.findall(r"\w+", text):
        scripts = {together.get(name, name) for name in scripts_of(word)}
        mixed = mixed or len(scripts) >= 3
    odd = [letter for letter in text if unicodedata.category(letter) == "Cn"]
    return mixed or any(not "\U0001f000" <= letter <= "\U0001ffff" for letter in odd)


def other_script(shown: Shown) -> bool:
    def main(text: str) -> str:
        letters = [letter for letter in text if letter.isalpha()]
        return Counter(
            next(iter(scripts_of(letter))) for letter in letters
        ).most_common(1)[0][0]

    return main(shown.rollout.response) != main(shown.rollout.prompt)


def copies(shown: Shown) -> int:
    """How many responses to its prompt in its step are equal to it."""
    keys = ["prompt_id", "response_hash"]
    is_equal = (shown.of_step[keys] == shown.row[keys]).all(axis=1)
    return int(is_equal.sum())


def is_right(shown: Shown) -> bool:
    """The answer is the label, as far as a search in the text tells."""
    label = (shown.rollout.ground_truth or "").split("####")[-1].strip()
    plain = re.sub(r"[\s,$]", "", shown.rollout.response).lower()
    is_held = re.sub(r"[\s,$]", "", label).lower() in plain
    return is_held or shown.row["label_hit"] == 1


def is_lowest(shown: Shown) -> bool:
    return bool(shown.reward <= shown.responses["reward"].min() + 1e-9)


def is_best(shown: Shown) -> bool:
    return bool(shown.reward >= shown.responses["reward"].max() - 1e-9)


def twin(shown: Shown) -> bool | None:
    same = shown.of_step["response_hash"] == shown.row["response_hash"]
    prompts = shown.of_step.loc[same, "prompt_id"].nunique()
    if "twins" in shown.facts:
        return prompts > 1
    first = shown.responses[shown.responses["step"] < shown.row["step"]]["distinct_2"]
    rare, usual = first.quantile([0.05, 0.2])
    distinct = shown.row["distinct_2"]
    # The first window of steps, of which the limit is a tenth, is not known here.
    return None if rare <= distinct < usual else bool(distinct < rare)


def thinks_on(shown: Shown) -> bool | None:
    text = shown.rollout.response
    if any(turn.thinking for turn in shown.rollout.conversation):
        return None
    opened = text.count("<think>") + shown.rollout.prompt.rstrip().endswith("<think>")
    return opened > 0 and text.count("</think>") < max(opened, 1)


def advantage(shown: Shown) -> bool:
    """An advantage that is not what its reward earns in its group."""
    logged = "advantage_logged_mean"
    value = float(shown.row[logged])
    rewards = shown.of_group["reward"]
    expected = shown.reward - rewards.mean()
    if shown.facts.get("punished"):
        return bool(shown.reward == rewards.max() > rewards.min() and value < 0)
    if shown.facts["kind"] == "sign":
        return value * expected <= 0
    if shown.facts["kind"] == "other":
        # With and without the std as a divisor
        usual = (expected, expected / max(rewards.std(ddof=0), 1e-9))
        return min(abs(value - one) for one in usual) > 0.1
    of_group = shown.responses[shown.responses["group"] == shown.row["group"]]
    return any(
        np.ptp(same) > 0
        for _, same in of_group.groupby("reward")[logged]
        if len(same) > 1
    )


def named(text: str) -> set[str]:
    """The words of a text; of Chinese, the pairs of characters."""
    joined = re.sub(r"(?<=[^\x00-\x7f])\s+(?=[^\x00-\x7f])", "", text.lower())
    runs = re.findall(r"[^\W\x00-\x7f]+", joined)
    pairs: set[str] = set()
    for run in runs:
        pairs.update(map("".join, pairwise(run)))
    return pairs | set(re.findall(r"[a-z0-9]+", joined))


def answers_another(shown: Shown) -> bool:
    """It has more of the words that only another prompt of its step has than of its own ones."""
    words = {
        prompt: named(shown.prompts[prompt])
        for prompt in shown.of_step["prompt_id"].unique()
    }
    times = Counter(chain.from_iterable(words.values()))
    only_once = {word for word, count in times.items() if count == 1}
    telling = named(shown.text) & only_once
    shared = {prompt: len(own & telling) for prompt, own in words.items()}
    own = shared.pop(shown.row["prompt_id"])
    return max(shared.values()) > own


def unlike_the_others(shown: Shown) -> bool:
    """On the side of its source's mean."""
    columns = {
        "length": "response_tokens",
        "garbled": "garbled",
        "nan": "nan_values",
        "failed": "ending",
    }
    value = shown.facts["value"]
    others = shown.facts["others"]
    own = (
        np.log(shown.row["mismatch_ratio"])
        if shown.facts["kind"] == "mismatch"
        else float(shown.row[columns[shown.facts["kind"]]])
    )
    if shown.facts["kind"] in ("length", "mismatch"):
        return abs(own - value) < abs(own - others)
    return own > 0


def not_trained(shown: Shown) -> bool:
    """It earns more than its step, but Σ token rewards is not above that of its step."""
    means_of_step = shown.of_step[["reward", "rlhf_reward"]].mean()
    is_good = shown.reward > means_of_step["reward"]
    return bool(
        is_good and shown.row["rlhf_reward"] <= means_of_step["rlhf_reward"] + 1e-9
    )


def far_from_one(shown: Shown) -> bool:
    """Of a ratio or its logarithm: outside of the range that the check allows."""
    weight = np.exp(float(shown.row["log_weight"]))
    return bool(weight < shown.limit("low") or weight > shown.limit("high"))


def disagrees(shown: Shown) -> bool:
    """One of the figures of sampler against trainer is beyond its limit."""
    keys = [one.limit.key for one in shown.finding.met]
    times = shown.limit("times") if "times" in keys else 1.0
    for key in ("k3", "prob", "ratio"):
        agreement = 1.0 if key == "ratio" else 0.0
        bound = agreement + times * (shown.limit(key) - agreement)
        if float(shown.row[f"mismatch_{key}"]) > bound:
            return True
    return False


def errs(shown: Shown) -> bool:
    """The critic's values err by more than a constant would."""
    found = []
    for returns, error in (("return", "value_error"), ("mc_return", "mc_error")):
        if shown.responses[f"{error}_m2"].notna().any():
            rows = shown.responses
            tokens = rows["value_tokens"]
            of_row = rows[f"{returns}_mean"]
            apart = (of_row - np.average(of_row.fillna(0), weights=tokens)) ** 2
            spread = (rows[f"{returns}_m2"] + tokens * apart).sum() / tokens.sum()
            square = shown.row[f"{error}_m2"] / shown.row["value_tokens"]
            square += (shown.row[f"{error}_mean"] - rows[f"{error}_mean"].mean()) ** 2
            found.append(bool(square > spread))
    return any(found)


def neighbour_hits(shown: Shown) -> bool:
    away = shown.facts["away"] * (1 if shown.facts["kind"] == "before" else -1)
    other = shown.responses["label_hit"].get(shown.row.name - away)
    return is_best(shown) and shown.row["label_hit"] == 0 and other == 1


def slope_of(shown: Shown) -> bool:
    names = ("tokens", "sampler", "trainer", "square", "product")
    count, sampler, trainer, square, product = (shown.row[f"rare_{n}"] for n in names)
    slope = (product - sampler * trainer / count) / (square - sampler**2 / count)
    return slope > 1.1 if shown.facts["slope"] > 1 else slope < 0.9


def never_right(shown: Shown) -> bool:
    return not (shown.of_group["correct"] == 1).any()


def neither_best_nor_lowest(shown: Shown) -> bool:
    return not is_best(shown) and not is_lowest(shown)


def negative_kl(shown: Shown) -> bool:
    kl, _ = kl_of(shown)
    return kl < 0


def far_advantage(shown: Shown) -> bool:
    logged = "advantage_logged_mean"
    usual = shown.responses[logged].abs().median()
    return bool(abs(shown.row[logged]) > 100 * usual)


def of_uneven_group(shown: Shown) -> bool:
    is_of_group = shown.responses["group"] == shown.row["group"]
    return bool(is_of_group.sum() != shown.facts["size"])


def tiny(shown: Shown) -> bool:
    return bool(shown.row["response_tokens"] < shown.bound("tokens"))


def constant(shown: Shown) -> bool:
    distance = abs(shown.reward - shown.facts["level"])
    return bool(distance < 0.1 * shown.responses["reward"].std())


def stale(shown: Shown) -> bool:
    return bool(shown.row["lag"] > shown.bound("lag"))


def as_long_as_all(shown: Shown) -> bool:
    return len(shown.rollout.response) >= 0.99 * shown.facts["most"]


def right_and_unpaid(shown: Shown) -> bool:
    return is_right(shown) and is_lowest(shown)


def wrong_and_paid(shown: Shown) -> bool:
    return shown.row["label_hit"] == 0 and is_best(shown)


def unlike_its_label(shown: Shown) -> bool:
    if shown.row["label_hit"] == 0:
        return is_best(shown)
    return is_lowest(shown)


def graded_otherwise(shown: Shown) -> bool:
    is_equal = shown.of_group["response_hash"] == shown.row["response_hash"]
    return bool(shown.of_group["reward"][is_equal].nunique() > 1)


def copied(shown: Shown) -> bool:
    return copies(shown) > 1


def improbable_copy(shown: Shown) -> bool:
    logp = -surprisal_of(shown) * shown.row["logp_tokens"]
    return bool(logp < shown.limit("logp")) and copied(shown)


def has_nan(shown: Shown) -> bool:
    return bool(shown.row["nan_values"] > 0) or not np.isfinite(shown.reward)


def empty_answer(shown: Shown) -> bool | None:
    turns = shown.rollout.conversation
    answers = [turn for turn in turns if turn.role == "tool" and not turn.error]
    return any(not turn.text.strip() for turn in answers) if turns else None


def calls_less(shown: Shown) -> bool:
    most = shown.bound("ratio") * shown.facts["start"]
    return bool(shown.row["tool_calls"] < most)


def same_logps(shown: Shown) -> bool:
    largest = np.abs(shown.tokens("log_ratio")).max(initial=0)
    return bool(max(largest, shown.row["log_ratio_most"]) < 1e-5)


def improbable_end(shown: Shown) -> bool:
    return bool(shown.row["end_logp"] < shown.limit("logp"))


def other_tokens(shown: Shown) -> bool:
    return bool(shown.row["tokens_fit"] == 0)


# Id of a check -> what its findings claim of one response
CLAIMS: dict[str, Claim] = {
    "reward_collapse": fell,
    "environment_fall": earns_the_end,
    "watched_reward_fall": second_fell,
    "reward_stalled": no_gain,
    "reward_shift": jumped,
    "part_falls": part_fell,
    "unearned_gain": part_rose,
    "reward_part_dominance": part_dominates,
    "zero_variance_groups": equal_group,
    "group_std_fall": small_std,
    "kl_explosion": above_kl,
    "reference_is_other": above_kl,
    "advantage_mismatch": advantage,
    "answers_other_prompt": answers_another,
    "rank_differs": unlike_the_others,
    "reward_not_trained": not_trained,
    "off_policy_weights": far_from_one,
    "engine_mismatch": disagrees,
    "value_divergence": errs,
    "rewards_shifted": neighbour_hits,
    "temperature": slope_of,
    "entropy_collapse": certain,
    "entropy_explosion": random_text,
    "ratio_drift": large_update,
    "length_hacking": long_and_paid,
    "length_collapse": short,
    "missing_eos": cut_off,
    "unclosed_thinking": thinks_on,
    "loops": loops_so,
    "reward_hacking_token": carries_text,
    "format_learned": carries_text,
    "diversity_collapse": twin,
    "language_drift": other_script,
    "garbled": is_garbled,
    "sharpening": never_right,
    "best_reward_gone": neither_best_nor_lowest,
    "negative_kl": negative_kl,
    "advantage_outlier": far_advantage,
    "uneven_groups": of_uneven_group,
    "tiny_responses": tiny,
    "constant_reward": constant,
    "stale_rollouts": stale,
    "cut_texts": as_long_as_all,
    "right_answers_unpaid": right_and_unpaid,
    "format_rewarded": right_and_unpaid,
    "label_lost": wrong_and_paid,
    "label_reward_mismatch": unlike_its_label,
    "grader_inconsistent": graded_otherwise,
    "copied_responses": copied,
    "improbable_duplicates": improbable_copy,
    "nan_metrics": has_nan,
    "empty_results": empty_answer,
    "tool_disuse": calls_less,
    "reference_is_policy": same_logps,
    "eos_not_sampled": improbable_end,
    "tokens_are_not_text": other_tokens,
}
# Id of a check -> the column that is above 0
POSITIVE = {
    "dropped_groups": "dropped",
    "missing_grades": "missing_grade",
    "tool_errors": "tool_errors",
    "unparsed_calls": "unparsed_calls",
    "late_calls": "late_calls",
    "markup_turns": "markup_turns",
    "void_turns": "void_turns",
    "turn_limit": "at_turn_limit",
    "mask_covers_environment": "env_trained_tokens",
}


def claim_of(check: str) -> Claim | None:
    """What findings of a check claim of one response, None if they claim nothing."""
    if check in POSITIVE:
        return lambda shown: bool(shown.row[POSITIVE[check]] > 0)
    return CLAIMS.get(check)


def contains_place(shown: Shown) -> bool | None:
    """Whether the excerpt shows the place that the finding tells of; None without one."""
    example = shown.example
    excerpt = example.excerpt
    if excerpt is None:  # of a made-up run
        return None
    inside = excerpt.strip("…")
    if example.turn is not None:
        words = shown.rollout.conversation[example.turn].words
        if inside not in " ".join(words.split()):
            return False
    if example.look_for and occurrences(example.look_for, shown.rollout.response):
        return occurrences(example.look_for, inside) > 0
    if example.token is not None and example.token < len(shown.rollout.tokens):
        token = "".join(shown.rollout.tokens[example.token].split())
        return token in "".join(inside.split())
    if example.at_end:
        return shown.text.endswith(inside) or example.turn is not None
    return None


@dataclass
class Outcome:
    """What is true of the evidence of one finding."""

    id: str
    number: int = 0  # examples
    fulfil: int = 0
    unknown: int = 0  # whose claim cannot be stated by what is logged
    wrong: tuple[str, ...] = ()  # what is not as it should be
    unseen: int = 0


@dataclass
class TextsOfTables:
    """Stands for the rollouts of a made-up run, of which only tables exist."""

    tables: Tables

    def read(self, rows: list[int]) -> list[Rollout]:
        return [self._rollout(row) for row in rows]

    def _rollout(self, row: int) -> Rollout:
        responses = self.tables.responses
        text = ""
        words = self.tables.words
        if words is not None and row in words.rows:
            index = int(np.searchsorted(words.rows, row))
            units = words.units[words.offsets[index] : words.offsets[index + 1]]
            # Words of made-up texts may come without the blanks between them.
            text = " ".join(words.vocabulary[unit] for unit in units)
        step = int(responses["step"].iloc[row])
        n = int(responses["n"].iloc[row])
        return Rollout(step, n, file="", line=0, prompt="", response=text)


@dataclass
class Judgement:
    """A run, what the checks find in it, and its texts."""

    tables: Tables
    rollouts: Rollouts | TextsOfTables

    @classmethod
    def of(cls, scan: Scan) -> "Judgement":
        return cls(summarise(scan), scan.rollouts)

    @cached_property
    def run(self) -> Run:
        return Run(self.tables.without_step_in_progress())

    @cached_property
    def findings(self) -> list[Finding]:
        judged = judge(self.run)
        if isinstance(self.rollouts, TextsOfTables):
            return judged.findings
        return with_excerpts(judged, self.tables.responses, self.rollouts).findings

    def shown(self, finding: Finding, example: Example) -> Shown:
        responses = self.run.responses
        everything = self.tables.responses
        is_it, is_in_all = (
            (table["step"] == example.step) & (table["n"] == example.n)
            for table in (responses, everything)
        )
        (rollout,) = self.rollouts.read(np.flatnonzero(is_in_all).tolist())
        return Shown(
            finding=finding,
            example=example,
            rollout=rollout,
            row=responses.loc[responses.index[is_it][0]],
            responses=responses,
            extras=self.run.tables.extras,
            has_reference=bool(responses["ref_reward"].notna().any()),
            prompts=dict(self.run.tables.prompts[["prompt_id", "prompt"]].to_numpy()),
        )

    def outcome(self, finding: Finding) -> Outcome:
        outcome = Outcome(finding.id, unseen=finding.unseen)
        claim = claim_of(finding.id)
        wrong: list[str] = []
        for example in finding.evidence:
            shown = self.shown(finding, example)
            place = f"{example.step}-{example.n}"
            fulfils = None if claim is None else claim(shown)
            outcome.number += 1
            outcome.fulfil += bool(fulfils)
            outcome.unknown += int(fulfils is None)
            if fulfils is not None and not fulfils:
                wrong.append(f"{place} does not fulfil it: {example.excerpt!r}")
            if not is_in_steps(finding, example):
                wrong.append(f"{place} is not of its steps")
            if contains_place(shown) is False:
                wrong.append(f"{place} does not show the place: {example.excerpt!r}")
            if example.before is not None:
                wrong += self._wrong_before(finding, example.before, claim)
        outcome.wrong = tuple(wrong)
        return outcome

    def _wrong_before(
        self, finding: Finding, before: Example, claim: Claim | None
    ) -> Iterator[str]:
        """Yield what is wrong with a response that is shown for comparison."""
        place = f"{before.step}-{before.n}, before,"
        if finding.onset is None or before.step >= finding.onset.step:
            yield f"{place} lies in its steps"
        if claim is not None and claim(self.shown(finding, before)):
            yield f"{place} fulfils it: {before.excerpt!r}"


def outcomes(tables: Tables, rollouts: Rollouts) -> Iterator[Outcome]:
    """Yield what is true of the evidence of each finding of a run."""
    judgement = Judgement(tables, rollouts)
    for finding in judgement.findings:
        yield judgement.outcome(finding)


def is_in_steps(finding: Finding, example: Example) -> bool:
    onset = finding.onset
    is_after = onset is None or example.step >= onset.step
    return is_after and (finding.until is None or example.step <= finding.until)


def load(path: Path) -> tuple[Tables, Rollouts]:
    options = BuildOptions(workers=1, quiet=True)
    loaded = load_run([path], options, Progress())
    return loaded.tables, loaded.rollouts


def main(folders: list[str]) -> None:
    total: Counter[str] = Counter()
    by_id: dict[str, Counter[str]] = {}
    for folder in folders:
        try:
            found = list(outcomes(*load(Path(folder))))
        except Exception as error:
            print(f"{folder}: {type(error).__name__}: {str(error)[:80]}")
            continue
        for one in found:
            counts = by_id.setdefault(one.id, Counter())
            for counter in (counts, total):
                counter["findings"] += 1
                counter["examples"] += one.number
                counter["fulfil"] += one.fulfil
                counter["unknown"] += one.unknown
                counter["wrong"] += len(one.wrong)
                counter["unseen"] += int(one.unseen > 0)
            for line in one.wrong:
                print(f"{folder} {one.id}: {line}")
    for name, counts in by_id.items():
        print(f"{name:24} {dict(counts)}")
    print(dict(total))


if __name__ == "__main__":
    main(sys.argv[1:])
