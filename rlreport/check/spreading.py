"""Texts that spread through the responses, and how much reward they bring.

The structure of responses (lists, headings) counts as a text.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.ngrams import SAME, Bools, Search, Text
from rlreport.check.noise import centred
from rlreport.check.run import Run
from rlreport.figures.ragged import Floats, Ints
from rlreport.text.tokens import STRUCTURES

MAX_TEXTS = 20
"""Most texts in the table."""

MIN_RECURRENCE = 5
"""Mean number of responses per prompt from which rewards are compared within prompts, too."""

MAX_RULE_VALUES = 8
"""A reward with no more distinct values comes from a rule or a label, not from a model."""

EXAMPLES = 5
ANY_FORM = "structure"

COLUMNS = (
    *("kind", "ngram", "share_first", "share_last", "z", "reward_lift", "lift", "lift_z"),
    *("of_gain", "asked", "examples"),
)
BY_STEP = ("step", "ngram", "share")


@dataclass(frozen=True, slots=True)
class SpreadingTexts:
    """The texts that spread.

    Attributes:
        table: one row per text, the largest z first: ``kind`` (text, stem, opening, closing,
            structure), ``ngram`` (as people write it), ``share_first`` and ``share_last`` (of
            responses, in the first steps or the reference, and in the last window), ``z``
            (log-odds), ``reward_lift`` (mean reward of responses with the text less that of
            others of the same step and prompt, since its onset), ``lift`` (the same in std),
            ``lift_z``, ``of_gain`` (what its spread earns, as a part of the reward's gain),
            ``asked`` (share of its responses whose prompt contains it) and ``examples``
            ((step, n) of the last window, rewards high to low).
        by_step: ``step``, ``ngram``, ``share``; long form.
        counts: text -> float64 (rows of the run,): how often the response contains it, NaN
            outside the sample.
    """

    table: pd.DataFrame
    by_step: pd.DataFrame
    counts: dict[str, Floats] = field(default_factory=dict)

    def without_counts(self) -> SpreadingTexts:
        """Return a copy for pages, without the counts per response."""
        return replace(self, counts={})


def _structures(run: Run, search: Search) -> list[Text]:
    """Return the structure (lists, headings) that spreads, or "any" if responses mix several."""
    bits = run.responses["structure"].to_numpy(np.int64)[search.words.sample.rows]
    masks = {ANY_FORM: -1} | {name: 1 << bit for bit, name in enumerate(STRUCTURES)}
    start, of_start = search.start, search.start.stop - search.start.start
    forms = []
    for name, mask in masks.items() if of_start else ():
        counts = np.asarray(bits & mask != 0, np.int64)
        after, before = (counts[part].sum(keepdims=True) for part in (search.end, start))
        rose, z = search.spread(after.astype(float), before.astype(float), of_start)
        if rose.all():
            shares = float(before[0]) / of_start, float(after[0]) / search.of_end
            forms.append(Text("structure", name, counts, (), *shares, float(z[0])))
    if forms and forms[0].name == ANY_FORM:
        return [one for one in forms[1:] if _alike(one.counts, forms[0].counts)][:1] or forms[:1]
    return forms


def _alike(first: Ints, second: Ints) -> bool:
    return bool(((first > 0) & (second > 0)).sum() >= SAME * ((first > 0) | (second > 0)).sum())


# Rewards may be close to the float64 maximum.
@np.errstate(over="ignore", invalid="ignore")
def spreading_texts(run: Run) -> SpreadingTexts:
    """Find the texts that are far more frequent in the last window than in the first steps.

    Shares are of responses, so a response that repeats a symbol counts once. Empty without a
    sample of words, or without a baseline.
    """
    table: list[dict[str, object]] = []
    series = [pd.DataFrame(columns=BY_STEP)]
    counts_of: dict[str, Floats] = {}
    search = None if run.tables.words is None else Search(run, run.tables.words)
    if search is None or not (search.of_end and search.of_baseline):
        return SpreadingTexts(pd.DataFrame(columns=COLUMNS), series[0])
    rows = search.words.sample.rows
    lifts = Lift(run, rows)
    gain = max(
        float(np.nan_to_num(run.change(run.column(name)).difference, nan=0.0))
        for name in ("reward", "reward_gap")
    )
    length = run.change(run.column(run.length))
    growth = max(1.0, length.last / length.first) if length.rose else 1.0
    in_last_window = run.step_index >= len(run.steps) - len(run.last.steps)
    for text in sorted([*_structures(run, search), *search.texts()], key=lambda one: -one.z):
        counts = np.full(len(run.responses), np.nan)
        counts[rows] = text.counts
        shares = has_text(counts)
        moved = run.change(shares)
        by_length = 1 - (1 - moved.first) ** growth  # expected in longer responses
        if text.name in counts_of or (growth > 1 and moved.last < search.limits.ratio * by_length):
            continue
        if run.first is not None and not moved.rose:
            continue
        by_step = run.by_step(shares)
        onset = run.onset(by_step)
        since = onset.low if onset else None
        lift, in_std, z = lifts.effect(text.counts > 0, since)
        often = run.change(counts).difference
        earned = max(lift * moved.difference, lifts.effect(text.counts, since)[0] * often)
        best = run.responses[in_last_window & (shares == 1)]
        best = best.sort_values("reward", ascending=False, kind="stable")
        table.append(
            {
                "kind": text.kind,
                "ngram": text.name,
                "share_first": text.before,
                "share_last": text.after,
                "z": text.z,
                "reward_lift": lift,
                "lift": in_std,
                "lift_z": z,
                "of_gain": earned / gain if gain > 0 else np.nan,
                "asked": search.asked(text, best["prompt_id"].to_numpy()),
                "examples": list(zip(best["step"][:EXAMPLES], best["n"][:EXAMPLES], strict=True)),
            }
        )
        finite = np.isfinite(by_step)
        series.append(
            pd.DataFrame({"step": run.steps[finite], "ngram": text.name, "share": by_step[finite]})
        )
        counts_of[text.name] = counts
        if len(table) == MAX_TEXTS:
            break
    by_step_of = pd.concat(series[1:] or series)
    return SpreadingTexts(pd.DataFrame(table, columns=COLUMNS), by_step_of, counts_of)


class Lift:
    """How much more reward responses with a text earn than others of their step and prompt.

    Prompts that recur often enough are compared only with themselves; otherwise any word of
    easy prompts would seem to earn reward.
    """

    def __init__(self, run: Run, rows: Ints) -> None:
        reward = run.column("reward")[rows]
        self.known: Bools = np.isfinite(reward)
        self.steps = run.responses["step"].to_numpy(np.int64)[rows][self.known]
        self.prompts = run.responses["prompt_id"].to_numpy(np.int64)[rows][self.known]
        self.recurring = len(self.prompts) >= MIN_RECURRENCE * max(len(np.unique(self.prompts)), 1)
        self.reward = self.centred(reward[self.known])

    def centred(self, values: Floats) -> Floats:
        """Return the values minus the mean of their step, and of their prompt if prompts recur."""
        values = centred(values, self.steps)
        for _ in range(3 if self.recurring else 0):  # alternate until both means are about zero
            values = centred(centred(values, self.prompts), self.steps)
        return values

    def effect(self, figure: NDArray[np.generic], since: int | None) -> tuple[float, float, float]:
        """Return the effect of a figure per response on the reward, the same in std, and its z."""
        after = self.steps >= (self.steps.min(initial=0) if since is None else since)
        x = self.centred(figure[self.known].astype(np.float64))[after]
        y = self.reward[after]
        varied, spread = float((x * x).sum()), float((y * y).sum())
        explained = len(np.unique(self.steps[after]))
        explained += len(np.unique(self.prompts[after])) if self.recurring else 0
        freedom = len(x) - explained - 2
        if varied < 1e-9 or spread < 1e-9 or freedom < 1:
            return np.nan, np.nan, np.nan
        shared = float((x * y).sum())
        r = np.clip(shared / np.sqrt(varied * spread), -0.999999, 0.999999)
        in_std = shared / varied / float(np.sqrt(spread / len(y)))
        return shared / varied, in_std, float(np.arctanh(r) * np.sqrt(freedom))


def has_text(counts: Floats) -> Floats:
    """Return 1 for each response that contains a text, 0 for others, NaN outside the sample."""
    return np.where(np.isfinite(counts), counts > 0, np.nan)


def is_verifiable(run: Run) -> bool:
    """Return whether a label or a rule decides the reward, rather than a model."""
    values = np.unique(run.column("reward")[np.isfinite(run.column("reward"))])
    return label_contained(run) is not None or len(values) <= MAX_RULE_VALUES


def label_contained(run: Run) -> float | None:
    """Return the share of best-rewarded responses with their label in them, None without labels."""
    words = run.tables.words
    if words is None or words.labels is None or 2 * (words.labels >= 0).sum() < len(words.rows):
        return None
    late = (words.rows >= run.last.rows.start) & (words.labels >= 0)
    reward = run.column("reward")[words.rows]
    best = late & (reward >= np.nanmax(reward[late], initial=-np.inf) - 1e-9)
    return float((words.labels[best] == 1).mean()) if best.any() else None
