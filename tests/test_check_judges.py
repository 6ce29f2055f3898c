"""Single checks: what each finds at, just under and just over its limits, and when it is quiet."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rlreport.check import findings_json, run_checks
from rlreport.check.finding import Onset
from rlreport.check.phrases import glued
from rlreport.check.registry import CHECKS
from rlreport.tables import BadLine, LogFile, Note, NoteKind, Tables
from tests.reading import read, row, write
from tests.schemas import validate
from tests.tables_builder import (
    INDEX,
    SIGN,
    SIZE,
    STEP,
    STEPS,
    WINDOW,
    find,
    make_tables,
    moved,
    run,
    sample,
    severity,
    share,
    tables,
    title,
    word_sample,
)

PLACE = np.arange(STEPS)
IS_ODD = np.where(INDEX % 2, 1.0, 0.0)


FALLING = SIGN + moved(2, 0)


def with_metrics(made: Tables, **metrics: Any) -> Tables:
    """Return a run whose trainer logged these metrics, one number per step; ``__`` is a slash."""
    named = {name.replace("__", "/"): values for name, values in metrics.items()}
    return replace(made, metrics=pd.DataFrame({"step": PLACE, **named}))


def late(first: float, last: float) -> Any:
    """Return a metric that is ``first`` until the last window, then ``last``."""
    return np.where(PLACE < STEPS - WINDOW, first, last)


def critic(
    explained: Any, spread: Any = 1.0, variance: Any = 1.0, **columns: Any
) -> Tables:
    """Returns of this variance in each response; values' spread is in units of the returns'."""
    squares = 10.0 * variance
    unexplained = squares * (1 - explained)
    return tables(
        value_tokens=10.0,
        return_mean=0.0,
        return_m2=squares,
        value_error_mean=0.0,
        value_error_m2=unexplained,
        value_mean=0.0,
        value_m2=squares * spread**2,
        **columns,
    )


def mismatched(column: str, value: float) -> Tables:
    quiet = {"mismatch_ratio": 1.0, "mismatch_k3": 0.0, "mismatch_prob": 0.0}
    # Eight tokens a response keep the mean over tokens exact.
    return tables(**{**quiet, column: value}, mismatch_tokens=8.0)


def narrowing(before: int, often: int, after: int, always: int) -> Tables:
    """Ten groups of ten a step: how many are solved, by how many responses; first and last half."""
    early = STEP < STEPS // 2
    solved = np.where(early, before, after)
    right = np.where(early, often, always)
    group = INDEX // 10
    is_right = (group < solved) & (right > INDEX % 10)
    return tables(prompt_id=group + 10 * STEP, reward=is_right.astype(float))


def groups(alike: int, reward_of_alike: float = 0.0) -> Tables:
    """Each step has 50 groups of two; in its second half, ``alike`` of them earn one reward."""
    group = INDEX // 2
    second_half = np.where(group < alike, reward_of_alike, IS_ODD)
    reward = np.where(STEP < STEPS // 2, 0.5 * IS_ODD, second_half)
    return tables(prompt_id=group, reward=reward)


def fewer_hard_groups(hard: int) -> Tables:
    """Of each step's 50 groups of two, 45 earn nothing, in the last window ``hard``."""
    group = INDEX // 2
    reward = np.where(group < moved(45, hard), 0.0, IS_ODD)
    return tables(prompt_id=group, reward=reward)


def shortened(step: Any, left: Any) -> Tables:
    """So many responses are left of a step, or of each."""
    kept = (step != STEP) | (left > INDEX)
    return make_tables({"step": STEP[kept], "reward": SIGN[kept]})


def falling(peak: int, end: float) -> Tables:
    """The reward rises to 1 at the peak, then falls evenly to ``end``."""
    rise = np.minimum(STEP / peak, 1.0) if peak else np.ones(len(STEP))
    last_window = STEPS - WINDOW
    fall = np.clip((STEP - peak) / (last_window - peak), 0, 1)
    trend = rise + (end - 1) * fall
    return tables(reward=trend + 0.1 * SIGN)


def dropping_to(end: float) -> Tables:
    """The reward rises from 0 to 1 in step 10 and is ``end`` from step 28 on."""
    trend = np.select([STEP < 10, STEP < 28], [0.0, 1.0], end)
    return tables(reward=trend + SIGN / 100)


def dipping(end: int) -> Tables:
    """The reward is 1, and 0 from step 16 until ``end``."""
    is_up = (STEP < 16) | (end <= STEP)
    return tables(reward=is_up.astype(float) + 0.1 * SIGN)


def winning(wins: float) -> Tables:
    """The reward rises; this share of responses beats that of the reference."""
    reward = STEP / STEPS
    has_won = share(wins, wins)
    gap = 2 * has_won - 1
    return tables(reward=reward, ref_reward=reward - gap)


def clipped_ratio(ratio: float, outside: float) -> Tables:
    return tables(ratio_tokens=16.0, ratio_mean=ratio, ratio_outside=outside)


def longer(ratio: float, r: float) -> Tables:
    """Lengths that vary by a token in each step, and rewards that correlate with them at r."""
    other = np.where(INDEX % 4 < 2, 1.0, -1.0)
    reward = r * SIGN + np.sqrt(1 - r * r) * other
    tokens = moved(40, 40 * ratio) + SIGN
    return tables(response_tokens=tokens, reward=reward)


def running_into_a_limit(sign: int) -> Tables:
    """Responses grow until step 30, then all have 128 tokens; longer ones earn ``sign``."""
    growing = 40 + STEP + 5 * SIGN
    tokens = np.where(STEP < 30, growing, 128.0)
    return tables(response_tokens=tokens, reward=sign * SIGN)


def with_stubs(first: float, last: float) -> Tables:
    """A share of responses has three tokens, the rest 20."""
    tokens = np.where(share(first, last) == 1, 3.0, 20.0)
    return tables(response_tokens=tokens)


def fewer_long_responses(few: int) -> Tables:
    """``few`` responses of each step have 2,000 tokens until step 30, others about 20."""
    is_long = (few > INDEX) & (STEP < 30)
    return tables(response_tokens=np.where(is_long, 2000.0, 20.0) + SIGN)


def empty_from(since: int) -> Tables:
    """All responses are empty from a step on."""
    is_empty = since <= STEP
    tokens = np.where(is_empty, 1.0, 40.0)
    chars = np.where(is_empty, 0, 160)
    return tables(response_tokens=tokens, response_chars=chars, finished=1.0)


def cut_off(spread: float) -> Tables:
    """60% of responses do not end, at 256 tokens or at lengths that lie apart."""
    is_cut = INDEX < 60
    lengths = 256.0 + spread * INDEX
    return tables(
        finished=np.where(is_cut, 0.0, 1.0),
        response_tokens=np.where(is_cut, lengths, 80.0),
    )


def at_a_maximum(last: float) -> Tables:
    """In the last window this share of responses has 256 tokens."""
    tokens = np.where(share(0, last) == 1, 256.0, 50.0 + INDEX)
    return tables(response_tokens=tokens)


def repeating(distinct: int, **columns: Any) -> Tables:
    """Ten bigrams a response; in the last window only ``distinct`` responses of a step differ."""
    names = np.where(STEP >= STEPS - WINDOW, INDEX % distinct, INDEX)
    texts = []
    for step, name in zip(STEP.tolist(), names.tolist(), strict=True):
        texts.append([f"{step}.{name}.{k}" for k in range(11)])
    made = tables(**columns)
    made.ngrams = sample(texts)
    return made


def repeating_and_learning(rise: float) -> Tables:
    """Half of the responses of a step differ; the share of right ones rises."""
    chance = 0.2 + rise * STEP / STEPS
    return repeating(50, reward=(chance > LUCK).astype(float))


def few_bigrams(bigrams: int) -> Tables:
    """One response a step, and so many bigrams in the last window."""
    per_step = np.full(STEPS, 25)
    per_step[-1] -= 200 - bigrams
    texts = []
    for step, n in enumerate(per_step.tolist()):
        different = n + 1 if step < STEPS - WINDOW else 2
        texts.append([f"{step}.{k % different}" for k in range(n + 1)])
    return make_tables({"step": PLACE, "reward": PLACE * 0.1}, texts=texts)


def with_one_text(first: float, last: float) -> Tables:
    """In each step a share of the responses is one text; all others differ."""
    is_same = share(first, last) == 1
    different = 1e4 + np.arange(len(STEP))
    return tables(response_hash=np.where(is_same, STEP, different))


def with_equal_answers(last: float) -> Tables:
    """Each step has ten prompts; a share of the ten responses to each is one text."""
    prompt = INDEX // 10
    of_prompt = STEP * 100 + prompt
    of_response = 1e4 + STEP * 100 + INDEX
    is_same = share(0.1, last) == 1
    hashes = np.where(is_same, of_prompt, of_response)
    return tables(prompt_id=prompt, response_hash=hashes)


def cut_texts(same: bool) -> Tables:
    """Thirty responses of each step have 500 characters; they are one text, or differ."""
    is_cut = INDEX < 30
    hashes = np.where(is_cut & same, 1, np.arange(len(STEP)))
    return tables(
        response_chars=np.where(is_cut, 500, 100 + INDEX),
        response_hash=hashes,
    )


def of_largest_length(few: int, above: int) -> Tables:
    """``few`` responses of each step have 500 characters; others differ, or have 100."""
    chars = np.where(few > INDEX, 500, 100 + above * INDEX)
    return tables(response_chars=chars)


def entropy(first: float, last: float) -> Any:
    return late(first, last) + 0.001 * (PLACE % 2)


def with_entropy(rise: float) -> Tables:
    """The trainer's entropy collapses, while the reward rises or not."""
    made = tables(reward=SIGN + rise * STEP)
    return with_metrics(made, actor__entropy=entropy(0.9, 0.05))


def spread_in_groups(last: float, drift: float) -> Tables:
    made = tables(prompt_id=INDEX // 10, reward=SIGN + drift * STEP)
    made.steps["group_std_mean"] = np.where(made.steps["step"] < 30, 1.0, last)
    return made


def shared_of(column: str, first: float, last: float) -> Tables:
    figures = {"tool_calls": 1.0, "turns": 2.0, column: share(first, last)}
    return tables(**figures)


def disused_tools(calls: float, *reward: float) -> Tables:
    """Calls of tools fall to 0 in the last window."""
    return tables(
        tool_calls=moved(calls, 0) + 0.1 * calls * SIGN,
        reward=moved(*reward) + 0.1 * SIGN,
    )


def with_critic_of_itself(error: float) -> Tables:
    """A critic that explains its targets, and errs by so much of what came."""
    outcomes = {"mc_return_mean": 0.0, "mc_return_m2": 10.0}
    errors = {"mc_error_mean": 0.0, "mc_error_m2": error}
    return critic(0.9, **outcomes, **errors)


def with_fewer_returns(left: float) -> Tables:
    """A critic that is wrong in the last window, where returns vary only by ``left``."""
    explained = moved(0.8, -9)
    spread = moved(1, 10**0.5)
    return critic(explained, spread, moved(1, left))


def logged_at(*steps: int) -> Tables:
    """Return a run that logged these steps only."""
    rows = np.repeat(steps, 4)
    return make_tables({"step": rows, "reward": rows})


def in_two_files(first: int) -> Tables:
    """Return a run whose second file begins in step ``first``."""
    files = [LogFile("a.jsonl", 1), LogFile("b.jsonl", 1)]
    return replace(tables(file=(first <= STEP).astype(int)), files=files)


LATE: Any = STEP >= 20
LUCK: Any = np.random.default_rng(5).random(len(STEP))
NOISE = np.random.default_rng(3).normal(size=len(STEP))

Expected = dict[str | None, Any]
"""Severity that a check finds -> the arguments of the runs in which it finds it."""

ENDINGS: Expected = {
    None: [(0.0, 0.19), (0.4, 0.5)],
    "warning": [(0.0, 0.2), (0.51, 0.51)],
}


def just_below_and_above(limit: float) -> Expected:
    return {None: [limit * 0.999, limit], "warning": [limit * 1.001]}


def looping_late(reward: float) -> Tables:
    """Loops begin in step 20; two of three responses earn a reward, with a loop or without."""
    is_paid = np.where(np.arange(len(STEP)) % 3, 1.0, 0.0)
    return looping(np.where(LATE, 0.3, 0.0), reward=reward * is_paid)


def dropping_equal_groups(rise: float) -> Tables:
    """Drop the groups whose responses earn the same."""
    reward = graded(rise)
    spread = pd.Series(reward).groupby(GROUP).transform("std")
    return dropping(reward, spread == 0)


def dropping_a_share(first: float, last: float, rise: float) -> Tables:
    """Drop a share of the responses by chance."""
    is_dropped = np.where(LATE, last, first) > LUCK
    return dropping(graded(rise), is_dropped)


def spreading_mark(first: float, last: float, lift: float = 1.0) -> Tables:
    """A share of the responses ends in a mark and earns more by ``lift``."""
    held = share(first, last)
    return spreading(held, [["#"]], paid(lift * held))


def spreading_units(*units: str) -> Tables:
    """These units spread to most responses and are paid."""
    held = share(0.02, 0.9)
    return spreading(held, [units], paid(held))


def spreading_where_paid(rich: int) -> Tables:
    """A word spreads in responses to the ``rich`` prompts that are always paid better."""
    is_rich = rich > INDEX
    held = is_rich * share(0.02, 0.5)
    return spreading(held, [["Ġsea"]], paid(is_rich), prompt_id=INDEX)


LIMITS: dict[str, tuple[Callable[..., Tables], Expected]] = {
    "kl_explosion: the KL of a stretch of steps": (
        lambda kl: tables(kl_k1=moved(1, kl), reward=FALLING),
        {None: [9.99, 10.0], "warning": [10.01, 50.0], "critical": [50.01]},
    ),
    "kl_explosion: while no score falls": (
        lambda kl: tables(kl_k1=moved(1, kl)),
        {None: [10.0], "warning": [10.01, 5000.0]},
    ),
    "kl_explosion: one that was high for half of the run": (
        lambda kl: tables(kl_k1=moved(30, kl)),
        {"warning": [5]},
    ),
    "kl_explosion: the trainer's own KL": (
        lambda kl: with_metrics(
            tables(reward=SIGN + moved(2, 0)), objective__kl=late(0.1, kl)
        ),
        {None: [10.0], "warning": [11.0], "critical": [51.0]},
    ),
    "kl_explosion: from the first step on, without a rise": (
        lambda kl: with_metrics(tables(), objective__kl=kl),
        {None: [10.0], "warning": [11.0, 51.0]},
    ),
    "negative_kl: more than rounding": (
        lambda mean: tables(kl_k1=mean),
        {None: [-0.009, -0.01], "warning": [-0.011]},
    ),
    "negative_kl: three standard errors below zero in a block of steps": (
        lambda mean: tables(kl_k1=NOISE + mean),
        {None: [-0.18], "warning": [-0.2]},
    ),
    "negative_kl: half of the responses below zero": (
        lambda size: tables(kl_k1=size * SIGN),
        {None: [1.0]},
    ),
    "value_divergence: explained variance": (
        critic,
        {
            None: [0.5, 0.0],
            "info": [-0.01, -0.5],
            "warning": [-0.51],
        },
    ),
    "value_divergence: the spread of values": (
        partial(critic, 0.5),
        {None: [4.9, 5.0], "warning": [5.1]},
    ),
    "value_divergence: a critic that is right of itself, and errs by so much of what came": (
        with_critic_of_itself,
        {"warning": [30.0], None: [5.0]},
    ),
    "value_divergence: returns that no longer vary": (
        with_fewer_returns,
        {"warning": [1.0], None: [1e-5]},
    ),
    "ratio_drift: the mean, its limits lower beyond, and the share outside": (
        clipped_ratio,
        {
            None: [
                (1.0, 0.1),
                (0.5, 0.1),
                (2.0, 0.1),
                (1.0, 0.3),
            ],
            "warning": [
                (0.49, 0.1),
                (2.01, 0.1),
                (1.0, 0.31),
            ],
        },
    ),
    "ratio_drift: the trainer's own ratio": (
        lambda ratio: with_metrics(tables(), val__ratio=ratio),
        {None: [1.0], "warning": [2.5]},
    ),
    "ratio_drift: the clip fraction of the trainer": (
        lambda clipped: with_metrics(tables(), actor__pg_clipfrac=clipped),
        {None: [0.3], "warning": [0.31]},
    ),
    "engine_mismatch: mismatch_ratio": (
        partial(mismatched, "mismatch_ratio"),
        just_below_and_above(1.055),
    ),
    "engine_mismatch: mismatch_k3": (
        partial(mismatched, "mismatch_k3"),
        just_below_and_above(1.1e-3),
    ),
    "engine_mismatch: mismatch_prob": (
        partial(mismatched, "mismatch_prob"),
        just_below_and_above(0.011),
    ),
    "zero_variance_groups: groups of one reward, and groups that are solved": (
        groups,
        {
            None: [24, 25],
            "warning": [26],
            "info": [(40, 1.0)],
        },
    ),
    "zero_variance_groups: hard groups that become fewer where the run learns": (
        fewer_hard_groups,
        {"info": [30], "warning": [45]},
    ),
    "group_std_fall: against the first ten steps": (
        spread_in_groups,
        {
            "warning": [(0.09, 0.0)],
            None: [(0.11, 0.0)],
            "info": [(0.09, 0.1)],
        },
    ),
    "broken_log: steps with fewer responses": (
        shortened,
        {
            None: [(20, 90), (39, 90)],
            "warning": [(20, 89)],
            "info": [(39, 50)],
        },
    ),
    "broken_log: steps of no usual size": (
        lambda more: shortened(STEP, 20 + more * STEP),
        {None: [2]},
    ),
    "broken_log: gaps in an even cadence": (
        logged_at,
        {
            None: [
                tuple(range(10)),
                (1, *range(100, 1000, 100)),
                (0, 1, 3, 7, 8, 20, 21),
            ],
            "warning": [(0, 1, 2, 3, 5, 6, 7, 8)],
        },
    ),
    "broken_log: files that follow each other are no ranks": (
        in_two_files,
        {None: [20]},
    ),
    "reward_collapse: a third of the gain": (
        dropping_to,
        {None: [0.66, 0.65], "warning": [0.64]},
    ),
    "reward_collapse: a dip that recovers": (
        dipping,
        {"info": [22], "critical": [40]},
    ),
    "reward_collapse: wherever the peak lies": (
        falling,
        {
            "critical": [(0, 0.0), (3, -1.5)],
            "warning": [(20, 0.4)],
            None: [(20, 0.9)],
        },
    ),
    "reward_stalled: a gain beyond chance": (
        lambda gain: tables(reward=NOISE + gain * STEP / STEPS),
        {"info": [0.0, 0.1], None: [1.0]},
    ),
    "reward_stalled: wins and losses": (
        winning,
        {"info": [0.49, 0.5], None: [0.51]},
    ),
    "entropy_collapse: the part that is left, and nats": (
        lambda first, last: tables(surprisal_mean=moved(first, last), logp_tokens=16.0),
        {
            None: [
                (1.0, 0.21),
                (1.0, 0.2),
                (2.0, 0.31),
                (2.0, 0.3),
            ],
            "warning": [(1.0, 0.19), (2.0, 0.29)],
        },
    ),
    "entropy_collapse: of the trainer, in a run that learns or not": (
        with_entropy,
        {"warning": [0], "info": [1]},
    ),
    "entropy_explosion: of the trainer": (
        lambda last: with_metrics(tables(), actor__entropy=entropy(0.5, last)),
        {None: [0.5], "warning": [4.0]},
    ),
    "length_hacking: until lengths run into their limit": (
        running_into_a_limit,
        {"warning": [1], None: [-1]},
    ),
    "length_hacking: longer responses, and length that is paid": (
        longer,
        {
            None: [(1.49, 0.8), (2.0, 0.39)],
            "warning": [
                (1.5, 0.8),
                (1.51, 0.8),
                (2.0, 0.4 + 1e-9),
                (2.0, 0.41),
            ],
        },
    ),
    "length_collapse: half of the length": (
        lambda ratio: tables(response_tokens=moved(100, 100 * ratio)),
        {None: [0.51, 0.5], "warning": [0.49]},
    ),
    "length_collapse: responses of at most three tokens": (
        with_stubs,
        {
            None: [(0.0, 0.1)],
            "warning": [(0.0, 0.11)],
            "info": [(0.3, 0.3), (0.3, 0.05)],
        },
    ),
    "length_collapse: a few long responses less": (
        fewer_long_responses,
        {None: [10], "warning": [90]},
    ),
    "length_collapse: four tokens": (
        lambda size: tables(response_tokens=size),
        {None: [4.0]},
    ),
    "length_collapse: all responses empty at the end, or always": (
        empty_from,
        {"critical": [37], "info": [0]},
    ),
    "missing_eos: a share that rose, or is over half": (
        lambda first, last: tables(finished=1 - share(first, last)),
        {
            None: [(0.0, 0.19), (0.5, 0.5)],
            "warning": [(0.0, 0.2), (0.51, 0.51)],
            "info": [(0.6, 0.3)],
        },
    ),
    "missing_eos: a high share counts only at one length": (
        cut_off,
        {"warning": [0], None: [1]},
    ),
    "missing_eos: all responses, by their finish reason": (
        lambda ended: tables(finished=ended, response_tokens=50.0 + INDEX),
        {"warning": [0.0], None: [1.0]},
    ),
    "missing_eos: lengths that come to pile up at one maximum": (
        at_a_maximum,
        {None: [0.19], "warning": [0.21]},
    ),
    "sharpening: of each step's groups of ten, how many any response solves, and how many solve": (
        narrowing,
        {
            "info": [(10, 2, 6, 8)],
            None: [
                (10, 2, 10, 8),  # as many groups are solved
                (10, 6, 6, 5),  # pass@1 falls
                (6, 2, 10, 8),  # more groups are solved
            ],
        },
    ),
    "diversity_collapse: distinct bigrams": (
        repeating,
        {None: [71, 70], "warning": [69]},
    ),
    "diversity_collapse: a checked run that learns": (
        repeating_and_learning,
        {"info": [0.5], "warning": [0.0]},
    ),
    "diversity_collapse: few bigrams": (few_bigrams, {None: [199], "warning": [200]}),
    "diversity_collapse: identical responses": (
        with_one_text,
        {
            None: [(0.1, 0.5), (0.6, 0.6), (0.9, 0.6)],
            "warning": [(0.1, 0.51)],
        },
    ),
    "diversity_collapse: equal answers to one prompt": (
        with_equal_answers,
        {None: [0.9]},
    ),
    "cut_texts: one text that is repeated": (
        cut_texts,
        {None: [True], "info": [False]},
    ),
    "cut_texts: many of one largest length, and few": (
        of_largest_length,
        {"info": [(30, 1)], None: [(10, 0)]},
    ),
    "loops: their share": (
        lambda first, last: looping(np.where(LATE, last, first)),
        {
            "warning": [(0.0, 0.3)],
            None: [(0.0, 0.07), (0.3, 0.3)],
        },
    ),
    "loops: that earn the same, or no reward": (
        looping_late,
        {"info": [1.0, np.nan]},
    ),
    "dropped_groups: those without variance": (
        dropping_equal_groups,
        {None: [-0.3, 0.0, 0.3]},
    ),
    "advantage_mismatch: a wrong sign from the start, in a run that learns or not": (
        lambda rise: advantages(-centred(graded(rise)), reward=graded(rise)),
        {"critical": [0.0], "info": [0.6]},
    ),
    "dropped_groups: more than half, if it was less": (
        dropping_a_share,
        {
            "warning": [(0.2, 0.7, 0.0)],
            "info": [(0.2, 0.7, 0.6)],
            None: [(0.6, 0.6, 0.0), (0.2, 0.45, 0.0)],
        },
    ),
    "reward_hacking_token: one that spreads with the reward": (
        spreading_mark,
        {
            None: [
                (0.02, 0.19),
                (0.1, 0.29),
                (0.5, 0.9),
                (0.9, 0.1),
            ],
            "warning": [(0.02, 0.2), (0.1, 0.3)],
        },
    ),
    "reward_hacking_token: what is paid more": (
        lambda lift: spreading_mark(0.02, 0.6, lift),
        {None: [0.0, 0.1], "critical": [1.0]},
    ),
    "reward_hacking_token: special tokens and blanks are formatting": (
        spreading_units,
        {None: [("<|im_end|>",), ("Ċ", "Ċ")]},
    ),
    "reward_hacking_token: a word of the prompts that are paid better": (
        spreading_where_paid,
        {None: [50]},
    ),
    "tool_disuse: calls that fall, whatever the reward does": (
        disused_tools,
        {
            "warning": [
                (2, 0, 0),
                (2, 0, 1),
                (2, 1, 0),
            ],
            None: [(0.1, 0, 0)],
        },
    ),
    "tool_errors": (partial(shared_of, "tool_errors"), ENDINGS),
    "unparsed_calls": (partial(shared_of, "unparsed_calls"), ENDINGS),
    "turn_limit": (partial(shared_of, "at_turn_limit"), ENDINGS),
    "unclosed_thinking": (partial(shared_of, "unclosed_thinking"), ENDINGS),
    "void_turns": (
        lambda last: tables(turns=1.0, void_turns=share(0.0, last)),
        {None: [0.1], "warning": [0.11]},
    ),
    "stale_rollouts": (
        lambda part: tables(lag=moved(0, 8 * part)),
        {None: [1.0], "warning": [1.1]},
    ),
}
"""Check and what it judges, to a maker of runs, and the severity found to arguments of its."""


def limit_cases() -> list[tuple[str, str | None, Any]]:
    """Return (claim, severity, arguments) for each case of LIMITS."""
    cases = []
    for claim, (_, expected) in LIMITS.items():
        for found, values in expected.items():
            cases += [(claim, found, value) for value in values]
    return cases


@pytest.mark.parametrize(("claim", "found", "value"), limit_cases())
def test_a_check_warns_beyond_its_limits_only(
    claim: str, found: str | None, value: Any
) -> None:
    make = LIMITS[claim][0]
    made = make(*value) if isinstance(value, tuple) else make(value)
    assert severity(claim.partition(":")[0], made) == found


@pytest.mark.parametrize(
    "check",
    [
        "kl_explosion",
        "ratio_drift",
        "zero_variance_groups",
        "entropy_explosion",
        "gradient_explosion",
        "failed_rollouts",
        "reward_hacking_token",
    ],
)
def test_a_check_without_what_it_needs_does_not_run(check: str) -> None:
    assert run(check, tables()).needs


def test_kl_explosion_names_the_token_that_is_furthest_out() -> None:
    is_last = (STEP == STEPS - 1) & (INDEX == SIZE - 1)
    kl = np.where(is_last, 90.0, 20.0)
    result = find("kl_explosion", tables(kl_k1=kl, kl_max_position=4.0))
    assert result.evidence[0].step == STEPS - 1
    assert [example.token for example in result.evidence] == [4, 4, 4]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (5, "info"),
        (6, "warning"),
    ],
)
@pytest.mark.parametrize(
    ("name", "small"),
    [
        ("objective/kl", 2.0),
        ("kl", 0.02),
    ],
)
def test_an_excursion_of_the_kl_is_a_note_and_a_long_one_a_warning(
    name, small, steps, expected
):
    is_large = (PLACE >= 12) & (12 + steps > PLACE)
    kl = np.where(is_large, small * 100, small)
    found = find("kl_explosion", with_metrics(tables(), **{name: kl}))
    assert found.severity == expected
    assert found.onset is not None
    assert (found.onset.step, found.until) == (12, 11 + steps)
    in_small = with_metrics(tables(), **{name: kl / 1000})
    assert severity("kl_explosion", in_small) is None


def kl_course(made: Tables) -> dict[str, Any]:
    """Return the course of the KL as in ``findings.json``."""
    content = findings_json(run_checks(made))
    validate(content, "findings")
    (course,) = (one for one in content["verdict"]["course"] if one["quantity"] == "kl")
    return course


def above_the_limit(made: Tables) -> list[dict[str, Any]]:
    events = kl_course(made)["events"]
    return [event for event in events if event["kind"] == "above"]


def test_an_excursion_of_the_kl_is_an_event_of_its_course() -> None:
    is_large = (PLACE >= 12) & (PLACE < 18)
    made = with_metrics(tables(), kl=np.where(is_large, 2.0, 0.02))
    (event,) = above_the_limit(made)
    assert event["onset"] == event["low"] == event["high"] == 12
    assert event["until"] == 17
    assert (event["before"], event["level"], event["z"]) == (0.02, 2.0, None)
    found = find("kl_explosion", made)
    assert found.onset is not None
    assert (found.onset.step, found.until) == (12, 17)


def test_a_kl_that_stays_high_is_above_until_the_end() -> None:
    (event,) = above_the_limit(tables(kl_k1=np.where(STEP < 12, 1.0, 30.0)))
    assert (event["onset"], event["until"]) == (12, STEPS - 1)
    assert (event["before"], event["level"]) == (1.0, 30.0)


def test_a_kl_that_is_high_from_the_start_has_no_level_before() -> None:
    (event,) = above_the_limit(tables(kl_k1=np.full(len(STEP), 30.0)))
    assert (event["onset"], event["before"], event["level"]) == (0, None, 30.0)


def test_a_kl_around_or_below_its_limit_has_no_such_event() -> None:
    in_stretch = (STEP >= 12) & (STEP < 18)
    around = tables(kl_k1=np.where(in_stretch, 10.8, 8.0))
    found = find("kl_explosion", around)
    assert found.onset is None
    assert not above_the_limit(around)
    assert not above_the_limit(tables(kl_k1=np.full(len(STEP), 5.0)))


PAIR = INDEX // 2
"""Groups of two."""


def test_groups_of_one_reward_from_the_start_teach_nothing() -> None:
    finding = find("zero_variance_groups", tables(prompt_id=PAIR, reward=1.0))
    assert finding.severity == "warning"
    assert "all responses of the run earn the same reward" in title(finding)


def test_groups_of_one_reward_are_no_loss_with_a_critic() -> None:
    with_critic = tables(prompt_id=PAIR, reward=1.0, value_mean=0.1)
    assert run("zero_variance_groups", with_critic).needs


def test_groups_that_are_all_solved_are_a_note_and_all_failed_a_warning() -> None:
    reward = np.where(INDEX < 80, 1.0, INDEX % 2)
    solved = find("zero_variance_groups", tables(prompt_id=PAIR, reward=reward))
    assert solved.severity == "info"
    assert "harder prompts would teach more" in title(solved)
    failed = tables(prompt_id=PAIR, reward=1 - reward)
    assert severity("zero_variance_groups", failed) == "warning"


def with_nan_rewards(is_nan: Any) -> Tables:
    reward = np.where(is_nan, np.nan, 1.0)
    return tables(reward=reward, nan_values=is_nan.astype(int))


SOON = STEP >= 12
MANY_NAN = SOON & (INDEX >= 3) & (INDEX < 9)


@pytest.mark.parametrize(
    ("is_nan", "level"),
    [
        (SOON & (INDEX == 3), "warning"),
        ((STEP == 12) & (INDEX == 3), "info"),
        (MANY_NAN, "critical"),
    ],
    ids=["one a step", "one", "six a step"],
)
def test_nan_rewards_are_judged_by_their_number(is_nan: Any, level: str) -> None:
    assert severity("nan_metrics", with_nan_rewards(is_nan)) == level


def test_the_first_step_with_nan_rewards_is_named() -> None:
    result = find("nan_metrics", with_nan_rewards(MANY_NAN))
    assert "step 12" in title(result)
    example = result.evidence[0]
    assert (example.step, example.n) == (12, 3)


@pytest.mark.parametrize(
    ("steps", "of_logprobs", "of_values"),
    [
        ((30,), "info", "info"),
        ((30, 31, 32), "critical", "warning"),
        ((39,), "warning", "warning"),
    ],
)
def test_nan_that_lasts_is_critical_in_logprobs_and_a_warning_in_values(
    steps, of_logprobs, of_values
):
    bad = np.isin(STEP, steps) & (INDEX == 0)
    known = {
        "nan_values": bad.astype(int),
        "response_tokens": 10.0,
        "surprisal_mean": 1.0,
    }
    logprobs = tables(**known, logp_tokens=np.where(bad, 7.0, 10.0))
    assert severity("nan_metrics", logprobs) == of_logprobs
    assert severity("nan_metrics", tables(**known, logp_tokens=10.0)) == of_values
    assert severity("nan_metrics", tables()) is None


@pytest.mark.parametrize(
    ("metric", "steps", "expected"),
    [
        ("loss", range(35, 40), "critical"),
        ("grad_norm", range(10, 13), "critical"),
        ("actor/grad_norm", [10], "info"),
        ("loss", [39], "warning"),
        ("loss", range(3), "info"),  # mixed precision looks for its loss scale
        ("entropy", range(35, 40), "warning"),
        ("kl", range(40), None),  # never logged a number
        ("loss", range(1, 40, 2), None),  # logged at every other step
        ("speed", range(40), None),
    ],
)
def test_nan_of_the_trainer(metric: str, steps: Any, expected: str | None) -> None:
    made = broken(metric, list(steps), PLACE / STEPS)
    assert severity("nan_metrics", made) == expected


def broken(metric: str, steps: list[int], mean: Any, **columns: Any) -> Tables:
    """Return a run whose trainer logged a mean of the reward, and NaN of a metric at steps."""
    values = np.where(np.isin(PLACE, steps), np.nan, 0.5)
    made = with_metrics(tables(**columns), reward=mean, **{metric: values})
    return replace(made, metrics_broken={metric: steps})


def test_nan_in_one_of_a_steps_updates_begins_the_steps_without_a_number() -> None:
    made = broken("loss", list(range(31, STEPS)), PLACE / STEPS)
    steps_with_nan = [12, *range(30, STEPS)]
    made = replace(made, metrics_broken={"loss": steps_with_nan})
    finding = find("nan_metrics", made)
    assert finding.onset is not None and finding.onset.step == 30


ADVICE_SINCE = [(0, "See how"), (30, "Go back")]


@pytest.mark.parametrize(("since", "begins"), ADVICE_SINCE)
def test_no_checkpoint_is_better_than_a_nan_that_is_there_from_the_first_step(
    since: int, begins: str
) -> None:
    made = broken("grad_norm", list(range(since, STEPS)), PLACE / STEPS)
    verdict = run_checks(made)
    (told,) = (one for one in verdict.findings if one.id == "nan_metrics")
    assert told.suggestion.startswith(begins)


def test_a_nan_before_the_reward_dies_leads_and_explains_its_death() -> None:
    alive = PLACE / STEPS + 0.02 * np.random.default_rng(0).normal(size=STEPS)
    made = broken(
        "loss",
        [30],
        np.where(PLACE < 31, alive + 1, 0.0),
        reward=np.where(STEP < 31, SIGN + STEP / 10, -9.0),
        response_tokens=np.where(STEP < 31, 40.0 + INDEX, 1024.0),
    )
    verdict = run_checks(made)
    assert verdict.lead == "nan_metrics"
    assert verdict.sentence.startswith("Broken: the trainer's loss is NaN in step 30; ")
    (collapse,) = (one for one in verdict.findings if one.id == "reward_collapse")
    assert collapse.explained_by == "nan_metrics"
    assert verdict.findings[0].facts["series_from"] == "metrics"


def test_unreadable_lines_warn_from_a_thousandth_on() -> None:
    file = LogFile("a.jsonl", 1, rows=2000, lines=4004, bad=4)
    line = BadLine("a.jsonl", 17, "not JSON")
    made = replace(tables(), files=[file])
    for count, expected in ((4, "info"), (5, "warning")):
        made = replace(made, bad_lines=[line] * count, bad_count=count)
        assert severity("broken_log", made) == expected
    assert "a.jsonl:17" in title(find("broken_log", made))


def test_a_torn_last_line_is_a_note() -> None:
    torn = BadLine("a.jsonl", 4001, "torn", torn=True)
    made = replace(tables(), bad_lines=[torn], bad_count=1)
    assert severity("broken_log", made) == "info"


def test_cut_arrays_are_a_note() -> None:
    cut = Note(NoteKind.UNEQUAL_LENGTHS, "cut to the shorter", 3)
    assert severity("broken_log", replace(tables(), notes=[cut])) == "info"


@pytest.mark.parametrize(
    ("end", "named"),
    [
        (38, False),
        (37, True),
        (20, True),
    ],
)
def test_a_rank_that_stops_early(end: int, named: bool) -> None:
    rank = INDEX % 2
    kept = (rank == 0) | (end >= STEP)
    columns = {"step": STEP, "reward": SIGN, "file": rank}
    made = make_tables({name: values[kept] for name, values in columns.items()})
    files = [LogFile("rank_0.jsonl", 1), LogFile("rank_1.jsonl", 1)]
    finding = run("broken_log", replace(made, files=files)).finding
    assert (finding is not None and "rank_1.jsonl" in title(finding)) == named


def ungraded(where: Any, reward: Any = None, kind: int = 2, **columns: Any) -> Tables:
    graded_reward = SIGN + STEP / 10 if reward is None else reward
    return tables(
        reward=np.where(where, np.nan, graded_reward),
        missing_grade=np.where(where, kind, 0),
        **columns,
    )


def test_one_missing_grade_is_a_note_and_masked_responses_are_never_more() -> None:
    one = ungraded((STEP == 7) & (INDEX == 0), kind=1)
    result = find("missing_grades", one)
    assert (result.severity, result.onset) == ("info", Onset(7, 7, 7))
    assert "1 of 4,000 responses" in title(result)
    assert severity("missing_grades", tables()) is None
    assert severity("nan_metrics", one) is None
    assert severity("missing_grades", ungraded(INDEX < 50, kind=3)) == "info"


def test_a_judge_that_is_down_is_a_warning_with_its_steps() -> None:
    down = (STEP >= 20) & (STEP < 25) & (INDEX < 60)
    result = find("missing_grades", ungraded(down, prompt_id=INDEX // 4))
    assert (result.severity, result.rank) == ("warning", "note")
    assert (result.onset, result.until) == (Onset(20, 20, 20), 24)
    assert "In steps 20 to 22, 60% were not graded." in title(result)
    assert "Groups graded only in part: 75, of" in title(result)


def test_steps_of_two_attempts_are_a_note_and_no_hole() -> None:
    again = (STEP >= 2) & (STEP < 38)
    older = np.repeat(STEP[again], 2)
    made = make_tables(
        {
            "step": np.concatenate([STEP, older]),
            "reward": np.concatenate([SIGN, older * 0.1]),
            "file": np.repeat([0, 1], [len(STEP), len(older)]),
        }
    )
    files = [LogFile("b.jsonl", 1), LogFile("a.jsonl", 1)]
    repeated = dict.fromkeys(range(2, 38), 200)
    assert severity("broken_log", replace(made, files=files)) == "warning"
    made = replace(made, files=files, repeated=repeated)
    assert severity("broken_log", made) is None
    result = find("repeated_steps", made)
    assert (result.severity, result.rank) == ("info", "note")
    assert result.steps == tuple(repeated)
    beginning = "Steps logged again after a restart: 36, from 2 to 37."
    assert title(result).startswith(beginning)
    assert "leaves out the 7,200 responses" in title(result)
    assert severity("repeated_steps", tables()) is None


PAID_LENGTH = moved(40, 80) + 10 * SIGN
"""Lengths that double; longer responses of a step earn more."""


def test_length_is_no_hack_where_the_watched_reward_rises() -> None:
    assert severity("length_hacking", tables(response_tokens=PAID_LENGTH)) == "warning"
    watched = STEP + 0.1 * SIGN
    made = tables(response_tokens=PAID_LENGTH, valid_reward=watched)
    assert severity("length_hacking", made) is None


def test_length_is_no_hack_where_groups_do_not_pay_it() -> None:
    # Prompts that need long answers earn more, but inside a prompt length does not pay.
    group = INDEX % 2 + 2 * STEP
    made = tables(prompt_id=INDEX, group=group, response_tokens=PAID_LENGTH)
    assert severity("length_hacking", made) is None


def test_length_checks_fall_back_to_characters() -> None:
    result = find("length_collapse", tables(response_chars=moved(100, 10).astype(int)))
    assert "characters" in title(result)


def test_the_trainers_length_is_judged_from_its_first_steps() -> None:
    fell = 16 + 290 * np.exp(-PLACE / 3) + 0.2 * (PLACE % 2)
    rises = tables(reward=SIGN + STEP)
    found = find("length_collapse", with_metrics(rises, response_length__mean=fell))
    assert (found.severity, found.facts["series_from"]) == ("warning", "metrics")
    assert found.onset and found.onset.step <= 10
    less = with_metrics(rises, response_length__mean=np.maximum(fell, 100))
    assert severity("length_collapse", less) is None


def test_responses_that_never_had_an_end_token_are_not_cut_off() -> None:
    finished = np.where((STEP == 3) & (INDEX < 2), 1.0, 0.0)
    made = tables(finished=finished, response_tokens=50.0 + INDEX)
    assert severity("missing_eos", made) is None
    assert run("missing_eos", tables(finished=finished)).needs


def test_short_responses_are_compared_at_equal_numbers_of_bigrams() -> None:
    rng = np.random.default_rng(0)
    lengths = moved(60, 6).astype(int)
    texts = [rng.integers(0, 15, length).astype(str) for length in lengths]
    made = tables()
    made.ngrams = sample([text.tolist() for text in texts])
    assert severity("diversity_collapse", made) is None


def with_large_gradient(made: Tables, step: int, norm: float = 500.0) -> Tables:
    """Return a run with a norm of 1 at all steps but one."""
    return with_metrics(made, grad_norm=np.where(step == PLACE, norm, 1.0))


def test_a_gradient_explosion_alone_is_a_note() -> None:
    found = find("gradient_explosion", with_large_gradient(tables(), 19))
    assert (found.severity, found.rank) == ("info", "note")


def test_a_gradient_explosion_warns_where_the_reward_falls_after_it() -> None:
    reward = np.where(STEP < 21, 1.0, 0.0)
    dies = tables(reward=reward + 0.1 * SIGN)
    found = find("gradient_explosion", with_large_gradient(dies, 19))
    assert (found.severity, found.rank) == ("warning", "cause")
    assert found.onset and found.onset.step == 19
    early = with_large_gradient(dies, 5)
    assert severity("gradient_explosion", early) == "info"
    smaller = with_large_gradient(dies, 19, norm=100.0)
    assert severity("gradient_explosion", smaller) is None


def test_a_gradient_norm_that_stays_high_is_dated_by_its_first_step() -> None:
    norms = np.where(PLACE < 12, 1.0, 200.0 + PLACE)
    found = find("gradient_explosion", with_metrics(tables(), grad_norm=norms))
    assert found.onset and found.onset.step == 12


@pytest.mark.parametrize("steps", [1, 4])
def test_trends_of_a_short_run_are_too_short_to_judge(steps: int) -> None:
    kept = steps > STEP
    names = [
        "surprisal_mean",
        "logp_tokens",
        "response_tokens",
        "finished",
        "value_tokens",
        "value_error_mean",
        "value_error_m2",
        "return_mean",
        "return_m2",
        "value_mean",
    ]
    columns = dict.fromkeys(names, np.ones(kept.sum()))
    made = make_tables({"step": STEP[kept], "reward": SIGN[kept], **columns})
    verdict = run_checks(made)
    reason = f"(this run has {steps})"
    too_short = {one.id for one in verdict.not_run if reason in one.needs}
    trends = {check.id for check in CHECKS if check.trend}
    assert len(too_short & trends) >= 6
    judged = {finding.id for finding in verdict.findings} | set(verdict.passed)
    assert not trends & judged


def test_sequence_weights_are_those_of_numpy() -> None:
    spread = np.where(STEP < 32, 0.1, 1.5) * SIGN
    found = find("off_policy_weights", tables(log_weight=spread))
    weight = np.exp(np.array([1.5, -1.5]))
    mean = weight.mean()
    mean_square = (weight**2).mean()
    assert found.facts["mean"] == pytest.approx(mean)
    assert found.facts["ess"] == pytest.approx(mean**2 / mean_square)
    assert found.facts["chi2"] == pytest.approx(mean_square - 1)
    assert found.facts["std"] == pytest.approx(weight.std())
    assert "2.35" in title(found)


def test_failed_rollouts_are_judged_by_step() -> None:
    given = tables()
    given.steps["failed_rollouts"] = np.where(given.steps["step"] < 30, 1, 100)
    found = find("failed_rollouts", given)
    assert found.facts["share"] == pytest.approx(0.5)
    assert found.onset and found.onset.step == 30
    given.steps["failed_rollouts"] = 5
    assert run("failed_rollouts", given).passed


def texts_of(rng: Any, step: Any, prompt: Any, link: Any) -> list[list[str]]:
    """Return texts of which a part of the words is the prompt's own."""
    shape = (len(step), 20)
    share_of_prompt = np.broadcast_to(link, len(step))[:, None]
    of_prompt = rng.random(shape) < share_of_prompt
    prompt_words = rng.integers(6, size=shape)
    other_words = rng.integers(300, size=shape)
    texts = []
    for response, prompt_id in enumerate(prompt.tolist()):
        of_the_prompt = [f"p{prompt_id}_{word}" for word in prompt_words[response]]
        of_all = [f"w{word}" for word in other_words[response]]
        text = np.where(of_prompt[response], of_the_prompt, of_all)
        texts.append(text.tolist())
    return texts


def test_templates_are_found_while_surprisal_stays() -> None:
    rng = np.random.default_rng(0)
    step = np.repeat(np.arange(STEPS), 50)
    prompt = np.tile(np.arange(50) // 5, STEPS) + 10 * (step % 3)
    surprisal = np.full(len(step), 0.6)
    columns = {
        "step": step,
        "prompt_id": prompt,
        "reward": step,
        "surprisal_mean": surprisal,
    }

    def made(last: float, **more: Any) -> Tables:
        texts = texts_of(rng, step, prompt, np.where(step < 20, 0.4, last))
        return make_tables({**columns, **more}, texts=texts)

    found = find("template_collapse", made(0.0))
    assert found.onset and found.onset.step in (19, 20, 21)
    assert severity("template_collapse", made(0.4)) is None
    gone = np.where(step < 20, 0.6, 0.1)
    assert severity("template_collapse", made(0.0, surprisal_mean=gone)) is None


def looping(share: Any, **columns: Any) -> Tables:
    """Make responses of 40 words; ``share`` of each step repeat one word after eight others."""
    in_loop = share > INDEX / SIZE
    texts = []
    for response, is_loop in enumerate(in_loop.tolist()):
        beginning = [f" w{(response + 7 * k) % 97}" for k in range(8)]
        rest = [f" x{(response * k) % 89}.{k}" for k in range(32)]
        texts.append(beginning + ([" But"] * 32 if is_loop else rest))
    reward = np.where(in_loop, 0.0, 1.0)
    filled = {"step": STEP, "reward": reward, **columns}
    return make_tables(filled, texts=texts, unit="word")


def test_a_loop_is_shown_with_its_share_its_step_and_its_reward() -> None:
    found = find("loops", looping(np.where(STEP < 20, 0.0, 0.3)))
    assert title(found) == (
        "30% of responses repeat a few words in a loop, such as “But But” (0% at the start); these "
        "earn 0, others 1.00."
    )
    assert found.onset is not None and abs(found.onset.step - 20) <= 1
    assert found.until is None
    assert [example.look_for for example in found.evidence] == ["But But"] * 3
    assert {example.value for example in found.evidence} == {0.8}


def test_loops_that_ended_are_a_note_with_both_steps() -> None:
    share = np.where((STEP >= 10) & (STEP < 20), 0.4, 0.0)
    found = find("loops", looping(share))
    assert found.severity == "info"
    assert found.onset is not None and abs(found.onset.step - 10) <= 1
    assert found.until is not None and abs(found.until - 19) <= 1
    assert title(found).endswith("(0% at the start, 0% at the end).")


def test_loops_explain_the_fall_of_the_reward_that_they_cause() -> None:
    share = np.where(STEP < 24, 0.0, 0.6)
    reward_elsewhere = np.where(STEP < 8, 0.2, 1.0)
    reward = np.where(share > INDEX / SIZE, 0.0, reward_elsewhere)
    verdict = run_checks(looping(share, reward=reward))
    assert verdict.lead == "loops"
    (fall,) = (one for one in verdict.findings if one.id == "reward_collapse")
    assert fall.explained_by == "loops"
    assert verdict.keep_step == 23


GROUP: Any = STEP * 25 + INDEX // 4
"""25 groups of four in each step."""
RNG = np.random.default_rng(1)
EASE = RNG.uniform(0.1, 0.9, GROUP.max() + 1)[GROUP]


def graded(rise: float = 0.0) -> Any:
    """Return rewards of 0 and 1 whose mean rises by so much over the run."""
    chance = np.clip(EASE + rise * (STEP / STEPS - 0.5), 0, 1)
    luck = np.random.default_rng(2).random(len(STEP))
    return (luck < chance).astype(float)


def centred(reward: Any) -> Any:
    return reward - pd.Series(reward).groupby(GROUP).transform("mean").to_numpy()


REWARD = graded()
CENTRED = centred(REWARD)
STD = pd.Series(REWARD).groupby(GROUP).transform("std").to_numpy()
GRPO = CENTRED / (STD + 1e-4)


def advantages(logged: Any, **columns: Any) -> Tables:
    columns = {"reward": REWARD, "group": GROUP, "prompt_id": GROUP, **columns}
    return tables(advantage_logged_mean=logged, **columns)


FAR = GRPO.copy()
FAR[2500] = -1200.0


@pytest.mark.parametrize(
    ("kind", "logged", "before"),
    [
        ("sign", -GRPO, GRPO),
        ("other", np.roll(GRPO, 1), GRPO),
        ("apart", np.random.default_rng(4).permutation(GRPO), GRPO),
    ],
)
def test_advantages_that_come_apart_from_rewards_are_found_and_dated(
    kind, logged, before
) -> None:
    found = find("advantage_mismatch", advantages(np.where(LATE, logged, before)))
    assert found.facts["kind"] == kind
    assert found.onset and found.onset.step == 20
    assert found.severity == "critical"
    assert [example.step >= 20 for example in found.evidence] == [True] * 3


@pytest.mark.parametrize("logged", [GRPO + 0.5, REWARD])
def test_advantages_with_another_baseline_are_not_wrong(logged) -> None:
    found = np.where(LATE, logged, GRPO)
    assert severity("advantage_mismatch", advantages(found)) is None


def test_neighbours_are_also_those_of_the_group() -> None:
    by_group = GRPO.reshape(-1, 4)
    shifted = np.roll(by_group, 1, axis=1).ravel()
    assert find("advantage_mismatch", advantages(shifted)).facts["kind"] == "other"


def test_an_advantage_far_from_all_others_is_found() -> None:
    found = find("advantage_outlier", advantages(FAR))
    assert found.severity == "warning"
    assert found.onset and found.onset.step == 25
    assert found.evidence[0].value == pytest.approx(1200, rel=0.02)
    assert "−1,200" not in title(found)
    assert "1,200" in title(found)


def test_an_advantage_may_be_as_far_from_others_as_its_reward() -> None:
    reward = REWARD.copy()
    reward[2500] = 5000.0
    made = advantages(centred(reward), reward=reward)
    assert severity("advantage_outlier", made) is None


def test_advantages_of_a_critic_are_not_judged() -> None:
    for column in ("value_mean", "rlhf_reward"):
        made = advantages(-GRPO, **{column: 0.5})
        assert run("advantage_mismatch", made).needs
        assert run("advantage_outlier", made).needs


def dropping(reward: Any, dropped: Any) -> Tables:
    return tables(
        reward=reward, group=GROUP, prompt_id=GROUP, dropped=dropped.astype(float)
    )


def test_a_mean_that_rises_only_among_kept_responses_is_found() -> None:
    falls = graded(-0.3)
    most_wrong = LATE & (falls == 0) & (LUCK < 0.8)
    found = find("dropped_groups", dropping(falls, most_wrong))
    assert (found.severity, found.facts["kind"]) == ("warning", "hidden")
    assert found.onset and found.onset.step == 20
    assert [example.step >= 20 for example in found.evidence] == [True] * 3
    assert [example.value for example in found.evidence] == [0.0] * 3
    by_chance = LATE & (LUCK < 0.4)
    assert severity("dropped_groups", dropping(falls, by_chance)) is None


def test_advantages_and_marks_are_read(tmp_path: Path) -> None:
    rows = [
        row(0, advantages=0.5, is_filtered=False),
        row(
            0,
            response="",
            response_tokens=["a", "b"],
            advantages=-0.5,
            mask_sample=True,
        ),
        row(0, response_tokens=["a", "b"], advantages=[0.5, 0.7]),
        row(0, effective=0.0),
    ]
    responses = read(write(tmp_path / "rank_0.jsonl", rows)).responses
    names = ["advantage_logged_mean", "dropped", "masked_reward"]
    expected = [
        [0.5, 0, np.nan],
        [-0.5, 1, 1.0],
        [np.nan, 0, np.nan],
        [np.nan, 1, np.nan],
    ]
    np.testing.assert_array_equal(responses[names], expected)


def test_figures_of_a_step() -> None:
    is_dropped = INDEX % 2 == 1
    fits = advantages(CENTRED, dropped=is_dropped.astype(float)).steps["advantage_fit"]
    assert fits.to_numpy() == pytest.approx(1.0)
    steps = dropping(REWARD, is_dropped).steps
    assert steps["dropped_share"].to_numpy() == pytest.approx(0.5)
    kept = pd.Series(REWARD[~is_dropped]).groupby(STEP[~is_dropped]).mean()
    assert steps["kept_reward_mean"].to_numpy() == pytest.approx(kept.to_numpy())


def test_dropped_groups_are_judged_only_where_they_are_logged() -> None:
    assert run("dropped_groups", tables()).needs


PLAIN = ["Ġthe", "Ġroom", "Ġwas", "Ġclean", "Ġand", "Ġquiet"]


def spreading(
    held: Any, texts: Sequence[Sequence[str]], reward: Any, **columns: Any
) -> Tables:
    """Make a run in which the responses marked in ``held`` end in one of the texts, in turn."""
    made = tables(reward=reward, **columns)
    rng = np.random.default_rng(1)
    in_turn = cycle(texts)
    responses = []
    for is_held in held.tolist():
        text = next(in_turn)
        words = plain_words(rng, 8)
        responses.append([*words, *text] if is_held else words)
    made.words = word_sample(responses)
    return made


def plain_words(rng: Any, count: int) -> list[str]:
    return [PLAIN[i] for i in rng.integers(0, len(PLAIN), count)]


def paid(held: Any) -> Any:
    """Return a reward of noise and one more for those who hold it."""
    return held + np.random.default_rng(2).normal(size=len(STEP))


def test_a_word_that_prompts_ask_for_is_no_hack() -> None:
    held = share(0.02, 0.6)
    made = spreading(held, [["Ġlake"]], paid(held), prompt_id=0)
    assert severity("reward_hacking_token", made) == "critical"
    made.prompts["prompt"] = "Write about the lake."
    assert severity("reward_hacking_token", made) is None


def test_an_emoji_is_counted_however_its_tokens_spell_it() -> None:
    spellings = [
        ["ðŁ", "İ", "ī"],
        ["ĠðŁ", "İ", "ī"],
        ["Ġ", "ðŁİī"],
        ["ðŁİ", "īĊ"],
    ]
    held = share(0.05, 0.9)
    made = spreading(held, [spelling * 4 for spelling in spellings], paid(held))
    result = find("reward_hacking_token", made)
    assert result.texts == ("🎉",)
    assert "“🎉”" in title(result)
    assert result.facts["share"] == pytest.approx(held[STEP >= 32].mean())


def test_forms_of_a_word_are_one_text() -> None:
    held = share(0.02, 0.9)
    forms = [["Ġempower"], ["Ġempowered"], ["Ġempowering"], ["Ġempowerment"]]
    result = find("reward_hacking_token", spreading(held, forms, paid(held)))
    assert result.texts == ("empower*",)


def test_a_long_phrase_is_quoted_whole() -> None:
    phrase = ["ĠThanks", "Ġa", "Ġlot", "Ġfor", "Ġasking", "Ġus"]
    result = find("reward_hacking_token", spreading_units(*phrase))
    assert result.texts == ("Thanks a lot for asking us",)
    beginning = "90% of responses end with “Thanks a lot for asking us”"
    assert title(result).startswith(beginning)


def answers(label: int, reward: Any, held: Any, prompt: str = "2 + 2?") -> Tables:
    """Make a checked run in which the responses marked in ``held`` end in an answer."""
    made = spreading(held, [["ĠFinal", "Ġanswer", ":", "Ġ4"]], reward)
    made.prompts["prompt"] = prompt
    made.responses["label_hit"] = float(label)
    return made


FORMAT_HELD = share(0.02, 0.9)
FORMAT_LUCK = np.random.default_rng(2).random(len(STEP))
FORMAT_PAID = np.where(FORMAT_LUCK < 0.7, FORMAT_HELD, 0.0)
"""Rewards of responses of which 70% with a format earn something, others nothing."""


def test_a_format_that_earns_the_label_is_learned_and_no_hack() -> None:
    made = answers(1, FORMAT_PAID, FORMAT_HELD)
    assert severity("reward_hacking_token", made) is None
    note = find("format_learned", made)
    assert (note.severity, note.texts) == ("info", ("Final answer:",))
    assert "probably the answer format is learned" in title(note)


def test_a_format_that_prompts_ask_for_is_no_finding() -> None:
    prompt = "End with “Final answer: 0”."
    made = answers(1, FORMAT_PAID, FORMAT_HELD, prompt)
    assert severity("format_learned", made) is None


def test_a_format_that_earns_without_the_label_may_be_an_exploit() -> None:
    made = answers(0, FORMAT_PAID, FORMAT_HELD)
    result = find("reward_hacking_token", made)
    assert result.severity == "warning"
    assert title(result).startswith("Format or exploit?")
    assert title(result).endswith("and no validation is logged.")
    assert severity("format_learned", made) is None


def test_a_format_that_earns_nothing_is_a_note() -> None:
    held = share(0.02, 0.6)
    chance = 0.3 + STEP / 100
    reward = (chance > FORMAT_LUCK).astype(float)
    made = answers(1, reward, held)
    assert severity("reward_hacking_token", made) is None
    note = find("format_learned", made)
    assert "without a clear gain in reward" in title(note)


def test_evidence_holds_the_text_and_lies_after_the_onset() -> None:
    held = share(0.02, 0.6)
    made = spreading(held, [["#"]], paid(held))
    result = find("reward_hacking_token", made)
    assert len(result.evidence) == 3
    for response in result.evidence:
        is_response = (response.step == STEP) & (response.n == INDEX)
        assert held[is_response].all()
    assert result.steps == tuple(range(STEPS - 8, STEPS))


def test_the_reference_stands_in_for_the_start_of_a_short_run() -> None:
    step = np.repeat(np.arange(2), 100)
    held = np.tile(np.arange(100) < 50, 2)
    texts = [["fine", "#"] if is_held else ["fine"] for is_held in held]
    reward = held + np.random.default_rng(0).normal(size=200)

    def with_reference(ref_texts: list[list[str]] | None) -> Tables:
        columns = {"step": step, "reward": reward}
        return make_tables(columns, texts=texts, ref_texts=ref_texts, unit="word")

    assert run("reward_hacking_token", with_reference(None)).needs
    without_mark = with_reference([["fine"]] * 200)
    assert severity("reward_hacking_token", without_mark) == "warning"
    assert severity("reward_hacking_token", with_reference(texts)) is None


@pytest.mark.parametrize("hacks", [True, False], ids=["hack", "twin"])
def test_a_text_of_most_responses_that_comes_ever_more_often_is_a_hack(hacks):
    rng = np.random.default_rng(0)
    start = STEPS // 3
    more = 0.6 if hacks else 0.0
    mean_count = 1.3 + more * np.maximum(STEP - start, 0)
    drawn = rng.normal(mean_count, 0.6).round()
    counts = np.clip(drawn, 1, 12).astype(int)
    sizes = rng.integers(8, 12, len(STEP))
    if not hacks:
        sizes += STEP // 2
    texts = []
    for size, count in zip(sizes, counts, strict=True):
        texts.append(plain_words(rng, size) + ["Ġ:)"] * count)
    trend = 0.3 * counts if hacks else 0.02 * STEP
    reward = trend + rng.normal(0, 0.2, len(STEP))
    verdict = run_checks(replace(tables(reward=reward), words=word_sample(texts)))
    found = [one for one in verdict.findings if one.id == "reward_hacking_token"]
    assert bool(found) is hacks
    if hacks:
        assert verdict.lead == "reward_hacking_token"
        facts = found[0].facts
        assert (facts["text"], facts["kind"]) == (":)", "often")
        onset = found[0].onset
        assert onset is not None
        assert start <= onset.step <= STEPS // 2


def test_a_word_counts_also_where_it_is_glued_to_itself_or_to_signs():
    words = ["Ġ4great", "Ġgreatgreat", "Ġgreat", "Ġgreatest", "Ġsome"]
    found = glued(word_sample([words, ["Ġsome"]]), "great")
    assert found.tolist() == [2, 0]  # beside the two that are words


def test_a_word_whose_copies_lack_spaces_carries_the_gain():
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.2 + 0.2 * np.maximum(STEP - 10, 0))
    texts = [plain_words(rng, 10) + ["Ġ" + "great" * count] for count in counts]
    reward = 0.25 * counts + rng.normal(0, 0.3, len(STEP))
    made = replace(tables(reward=reward), words=word_sample(texts))
    assert "great" in str(find("reward_hacking_token", made).facts["text"])


def test_a_word_of_few_responses_that_comes_ever_more_often_in_each_is_a_hack():
    rng = np.random.default_rng(0)
    holds = rng.random(len(STEP)) < 0.4
    more = 0.15 * np.maximum(STEP - 10, 0)
    counts = holds * (1 + rng.poisson(0.1 + more))
    reward = 0.25 * counts + rng.normal(0, 0.3, len(STEP))
    texts = [plain_words(rng, 12) + ["Ġgreat"] * count for count in counts]
    finding = find(
        "reward_hacking_token",
        replace(tables(reward=reward), words=word_sample(texts)),
    )
    assert (finding.facts["text"], finding.facts["kind"]) == ("great", "often")
    assert finding.severity == "warning"  # not in half of the responses
    assert finding.onset is not None
    assert finding.onset.low <= 20


def test_a_habit_of_writing_sums_is_no_finding():
    held = share(0.1, 0.9)
    made = spreading(held, [["="]], paid(held))
    assert severity("reward_hacking_token", made) is None
    assert severity("format_learned", made) is None


def test_some_words_more_are_no_padding():
    few = np.where(STEP < STEPS // 2, 4.0, 9.0) + (INDEX % 3)
    for scale, found in ((1, None), (10, "warning")):
        made = tables(response_tokens=scale * few, reward=few)
        assert severity("length_hacking", made) == found


def test_a_share_at_the_start_is_that_of_more_than_a_few_responses():
    step = np.arange(60)
    hit = np.where(step < 3, 0.0, 1.0)  # a single response in each step
    made = make_tables({"step": step, "at_turn_limit": hit})
    finding = find("turn_limit", made)
    assert finding.facts["before"] == pytest.approx(0.9)


GONE = [(0.0, "critical"), (0.1, "warning")]


@pytest.mark.parametrize(("left", "found"), GONE)
def test_an_accuracy_that_is_gone_is_critical(left, found):
    accuracy = np.where(PLACE < 2, 0.2, left)
    noise = 0.001 * (PLACE % 2) if left else 0.0
    made = with_metrics(
        tables(reward=1.0 + 0.01 * STEP),
        **{"rewards/accuracy/mean": accuracy + noise},
        **{"rewards/format/mean": 1.0 + 0.01 * PLACE - accuracy},
    )
    assert severity("watched_reward_fall", made) == found
