"""Compare one or several runs (NEW) with others (BASE) over their last common steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import xxhash

from rlreport.check.course import course_of
from rlreport.check.finding import Course
from rlreport.check.run import has
from rlreport.check.series import Series, running_mean
from rlreport.comparison.reports import EXTRA, METRICS, PART, TRAINER, trainer_rows
from rlreport.comparison.statistics import (
    LEVEL,
    Band,
    Effect,
    EqualKL,
    at_equal_kl,
    difference_band,
    holm,
    paired_effect,
    unpaired_effect,
)
from rlreport.errors import UsageError
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import rounded
from rlreport.summarise.steps import most_common, rounded_columns
from rlreport.text.clean import number_as_text
from rlreport.text.messages import translatable

# Prompts are paired if all runs share at least this fraction of the smallest run's prompts
LEAST_SHARED = 0.3

LEAST_RUNS = 3  # Minimum number of runs of each side to judge the change, not only these runs
# Fraction of the common steps, counted from the end, over which runs are compared
WINDOW_SHARE = 0.2

# Values of ``pair_by``: match prompts by text, or by group_id. Other values are field names
PROMPT, GROUP = "prompt", "group"

# Columns that are 1 if the rewards of all responses to the prompt are equal: to the best reward of
# all runs (ALL_RIGHT), or lower (ALL_WRONG); otherwise 0
ALL_RIGHT, ALL_WRONG = "all_right", "all_wrong"

TOKENS, CHARACTERS = "response_tokens", "response_chars"
# Columns that mean nothing if the logger cuts texts
OF_WHOLE_TEXTS = (CHARACTERS, "distinct_2", "duplicate")

# Figures that should not get worse: id, name, columns (the first one that all runs have is used),
# and which direction is better: 1 up, -1 down, 0 neither
GUARDRAILS: tuple[tuple[str, str, tuple[str, ...], int], ...] = (
    ("watched_reward", translatable("Watched reward"), ("valid_reward", f"{TRAINER}validation"), 1),
    ("kl", translatable("KL"), ("kl_k1", f"{TRAINER}kl"), -1),
    ("kl_token", translatable("KL per token"), (f"{TRAINER}kl_token",), -1),
    ("length", translatable("Length"), (TOKENS, f"{TRAINER}length", CHARACTERS), -1),
    ("cut_off", translatable("Cut off at the limit"), ("cut_off", f"{TRAINER}truncated"), -1),
    ("surprisal", translatable("Surprisal"), ("surprisal_mean",), 1),
    ("entropy", translatable("Entropy"), (f"{TRAINER}entropy",), 1),
    ("gradient_norm", translatable("Gradient norm"), (f"{TRAINER}grad_norm",), -1),
    ("distinct_2", translatable("Distinct-2"), ("distinct_2",), 1),
    ("duplicates", translatable("Repeated responses"), ("duplicate",), -1),
    ("all_wrong_groups", translatable("Groups without signal, all wrong"), (ALL_WRONG,), -1),
    ("all_right_groups", translatable("Groups without signal, all right"), (ALL_RIGHT,), 0),
    ("pass_at_k", translatable("pass@k"), ("pass_at_k",), 1),
    ("mismatch", translatable("Engine mismatch, k3"), ("mismatch_k3", f"{TRAINER}mismatch_k3"), -1),
    ("tool_errors", translatable("Tool errors"), ("tool_errors", f"{TRAINER}tool_errors"), -1),
)

# Guardrails that never count as better, only as changed, as a collapsed policy improves them
NEVER_BETTER = ("length", "surprisal", "entropy", "gradient_norm")

_SPLITS = {"val": ("val", "eval", "valid", "validation", "test"), "train": ("train",)}

Level = Literal["better", "worse", "no_evidence", "incomparable"]
GuardrailLevel = Literal["better", "worse", "changed", "none", "missing"]


@dataclass(frozen=True, slots=True)
class Side:
    """Response data of one run, prepared for comparison."""

    name: str
    # one row per response: ``step``, ``n`` (its number in the step), ``split``, ``pair`` (a uint64
    # key of the prompt, by which runs are paired) and float64 figures
    responses: pd.DataFrame
    # whether equal ``pair`` values mean equal prompts across runs; false if redacted
    named: bool = True
    unpaired: int = 0  # number of responses left out because they have no pairing key
    trainer: pd.DataFrame = field(default_factory=partial(trainer_rows, pd.DataFrame()))
    cut: bool = False  # whether the logger cuts texts

    @property
    def evaluation(self) -> Course | None:
        """Course of the trainer's validation metric, None if it is not logged."""
        values = self.trainer.get(f"{TRAINER}validation")
        if values is None:
            return None
        series = Series(self.trainer["step"].to_numpy(np.int64), values.to_numpy(np.float64))
        return course_of(series, TRAINER, "watched_reward")


def side_of(name: str, responses: pd.DataFrame, *, pair_by: str = PROMPT) -> Side:
    """Prepare a run's responses, with prompts identified by ``pair_by``; raise if it is missing."""
    if pair_by == PROMPT:
        named = PROMPT in responses
        pairs = responses[PROMPT if named else "prompt_id"].astype(np.uint64)
        return Side(name, responses.assign(pair=pairs), named)
    columns = ["group_hash"] if pair_by == GROUP else [f"{EXTRA}{pair_by}", f"{PART}{pair_by}"]
    values = next((responses[column] for column in columns if column in responses), pd.Series())
    values = values[values > 0] if pair_by == GROUP else values.dropna().map(_hash)
    if values.empty:
        raise UsageError(f"--pair-by {pair_by}: no response of {name!r} has this field")
    paired = responses.loc[values.index].assign(pair=values.astype(np.uint64))
    return Side(name, paired, unpaired=len(responses) - len(paired))


def _hash(value: object) -> int:
    # An id logged as 17 in one run and as "17" in another is the same, as for group_id.
    text = number_as_text(value) if isinstance(value, float) else str(value)
    return xxhash.xxh3_64_intdigest(text.encode())


class Windows(NamedTuple):
    """First and last compared step of each BASE and each NEW run, and the steps that all share."""

    bases: list[tuple[int, int]]
    news: list[tuple[int, int]]
    common: Ints

    @property
    def new(self) -> tuple[int, int]:
        return self.news[0]


def windows(frames: Sequence[pd.DataFrame], bases: int) -> Windows:
    """Choose the steps to compare, given the responses of each run, the BASE runs first.

    These are the last fifth of the common steps if the last of them is in the last fifth of the
    range that all runs cover. Otherwise they are each run's steps in that fifth of the range, or if
    a run has none there, the last fifth of each run's steps.
    """
    steps = [np.unique(frame["step"].to_numpy(np.int64)) for frame in frames]
    common = reduce(np.intersect1d, steps)
    low = max(run[0] for run in steps)
    high = min(run[-1] for run in steps)
    start = high - WINDOW_SHARE * (high - low)
    chosen_steps = [run[(run >= start) & (run <= high)] for run in steps]
    if len(common) and common[-1] >= start:
        chosen_steps = [_last_fifth(common)] * len(steps)
    elif low > high or not all(map(len, chosen_steps)):
        chosen_steps = [_last_fifth(run) for run in steps]
    ends = [(int(run[0]), int(run[-1])) for run in chosen_steps]
    return Windows(ends[:bases], ends[bases:], common)


def _last_fifth(steps: Ints) -> Ints:
    return steps[-max(1, round(len(steps) * WINDOW_SHARE)) :]


class Reached(NamedTuple):
    """Steps at which the first BASE and the first NEW run reached a reward, None for never."""

    reward: float
    base: int | None
    new: int | None


def speed_of(base: Series, new: Series) -> dict[str, Reached]:
    """Return when each run reached "half" and "most" (90%) of the better run's gain, {} if none."""
    courses = [c for c in (course_of(series, "reward") for series in (base, new)) if c]
    leading = max((c for c in courses if c.gained), key=lambda c: c.best.value, default=None)
    if leading is None or len(courses) < 2:
        return {}
    gain = leading.best.value - leading.first.value
    targets = {"half": leading.first.value + 0.5 * gain, "most": leading.first.value + 0.9 * gain}
    return {
        name: Reached(target, *(_reached(course, target) for course in courses))
        for name, target in targets.items()
    }


def _reached(course: Course, target: float) -> int | None:
    """Return the last step of the first window with a mean of ``target`` or more, or None."""
    windows = np.flatnonzero(running_mean(course.values, course.window) >= target)
    return int(course.steps[windows[0] + course.window - 1]) if len(windows) else None


class Guardrail(NamedTuple):
    """A figure that should not get worse, such as the KL or the response length."""

    id: str
    column: str
    base: float  # mean over prompts and runs
    new: float
    effect: Effect
    level: GuardrailLevel  # Holm-corrected for several guardrails


class Means(NamedTuple):
    """Each prompt's mean figures, indexed by ``pair``: a table per run."""

    bases: list[pd.DataFrame]
    news: list[pd.DataFrame]

    def have(self, column: str) -> bool:
        return all(has(table, column) for table in (*self.bases, *self.news))


def effect_on(means: Means, column: str, *, paired: bool) -> Effect:
    """Return the difference NEW - BASE of one figure, NaN if a run does not have the figure."""
    if not means.have(column):
        return Effect(paired=paired)
    base, new = ([table[column] for table in runs] for runs in means)
    if not paired:
        return unpaired_effect(base, new)
    runs = pd.concat([*base, *new], axis=1, join="inner").sort_index().to_numpy(np.float64).T
    return paired_effect(runs[: len(base)], runs[len(base) :])


def _mean_of_runs(runs: Iterable[pd.DataFrame], column: str) -> float:
    """Return the mean over runs of a column's mean; NaN if none has it."""
    means = [table[column].mean() for table in runs if column in table]
    return rounded(float(np.mean(means))) if means else np.nan


def _guardrails(means: Means, trainer: Means, *, paired: bool) -> list[Guardrail]:
    """Compare all GUARDRAILS and reward parts, with p-values corrected for multiple testing.

    Figures that the responses lack come from trainer metrics, with blocks of steps as units.
    """
    parts = [n for n in map(str, means.news[0]) if n.startswith(PART) and n in means.bases[0]]
    guardrails = []
    directions = {}
    for name, _, columns, better in (*GUARDRAILS, *((part, "", (part,), 1) for part in parts)):
        column = next((c for c in columns if means.have(c) or trainer.have(c)), columns[0])
        tables = trainer if column.startswith(TRAINER) else means
        base, new = (_mean_of_runs(runs, column) for runs in tables)
        effect = effect_on(tables, column, paired=paired and tables is means)
        guardrails.append(Guardrail(name, column, base, new, effect, "missing"))
        directions[name] = better
    logged = [g for g in guardrails if np.isfinite(g.effect.low)]
    corrected = zip(logged, holm([g.effect.p for g in logged]), strict=True)
    levels = {g.id: _guardrail_level(g, p, directions[g.id]) for g, p in corrected}
    return [g._replace(level=levels.get(g.id, "missing")) for g in guardrails]


def _guardrail_level(guardrail: Guardrail, p: float, better: int) -> GuardrailLevel:
    improvement = guardrail.effect.value * better
    if p > 1 - LEVEL or guardrail.effect.value == 0:
        return "none"
    if improvement < 0:
        return "worse"
    return "better" if improvement > 0 and guardrail.id not in NEVER_BETTER else "changed"


@dataclass(frozen=True)
class Comparison:
    """Differences between BASE and NEW in their windows; curves are of each side's first run."""

    split: str  # compared split: ``val``, ``train`` or ``all``
    bases: int  # number of BASE runs
    # responses of each BASE run, then of each NEW run, in that split, at all steps
    responses: list[pd.DataFrame]
    windows: Windows
    inside: list[pd.DataFrame]  # those of ``responses`` whose steps are in the window of their run
    named: bool  # whether prompts can be identified in all runs (none is redacted)
    effect: Effect  # difference NEW - BASE of the reward
    guardrails: list[Guardrail]
    shared: int  # number of prompts that all runs have in their windows
    only_base: int  # number of prompts in the window of a BASE run but not in that of NEW
    only_new: int  # number of prompts in the window of NEW but not in that of every BASE run
    cut: bool  # whether the logger cuts a run's texts

    @property
    def metrics_alone(self) -> bool:
        return any((frame["split"] == METRICS).all() for frame in self.responses)

    @property
    def has_enough_runs(self) -> bool:
        """Whether each side has LEAST_RUNS runs, so that the verdict is about the change."""
        return min(self.bases, len(self.responses) - self.bases) >= LEAST_RUNS

    @property
    def level(self) -> Level:
        """Verdict on the reward: "better" or "worse" if the difference's interval excludes 0."""
        if not np.isfinite(self.effect.low):
            return "incomparable"
        if self.effect.high < 0:
            return "worse"
        return "better" if self.effect.low > 0 else "no_evidence"

    @property
    def ends(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        return self.responses[0], self.responses[self.bases]

    @property
    def compared(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Compared responses of the first BASE run, and of the first NEW run."""
        return self.inside[0], self.inside[self.bases]

    @cached_property
    def _rewards(self) -> tuple[pd.Series, pd.Series]:
        base, new = (
            rounded_columns(frame.groupby("step")[["reward"]].mean())["reward"]
            for frame in self.ends
        )
        return base, new

    @property
    def curves(self) -> tuple[Floats, Floats]:
        """Mean reward of the first BASE run and of NEW at each common step."""
        common = self.windows.common
        base, new = (mean.reindex(common).to_numpy(np.float64) for mean in self._rewards)
        return base, new

    @cached_property
    def speed(self) -> dict[str, Reached]:
        means = [mean.dropna() for mean in self._rewards]
        return speed_of(
            *(Series(m.index.to_numpy(np.int64), m.to_numpy(np.float64)) for m in means)
        )

    @cached_property
    def band(self) -> Band:
        """Reward of NEW minus BASE at each common step, with a 95% band for the whole curve."""
        return difference_band(*self.ends, self.windows.common, paired=self.effect.paired)

    @cached_property
    def equal_kl(self) -> dict[str, EqualKL | None]:
        """Reward column -> NEW - BASE at equal KL; None if not logged or KL ranges are disjoint."""
        return {
            reward: at_equal_kl(*self.ends, reward)
            if all(has(frame, column) for frame in self.ends for column in (reward, "kl_k1"))
            else None
            for reward in ("reward", "valid_reward")
        }

    @property
    def paths(self) -> list[pd.DataFrame]:
        """BASE's and NEW's ``step``, ``distance`` (√KL in √nats) and ``reward``; [] without KL."""
        if not all(has(frame, "kl_k1") for frame in self.ends):
            return []
        means = (frame.groupby("step")[["kl_k1", "reward"]].mean().dropna() for frame in self.ends)
        return [
            rounded_columns(m.assign(distance=np.sqrt(m["kl_k1"].clip(lower=0.0))).reset_index())
            for m in means
        ]

    @property
    def reasons(self) -> list[str]:
        """Reasons why the comparison is limited, as keys of ``outcome.REASONS``."""
        reasons = []
        if not (self.windows.common >= self.windows.new[1]).any():
            reasons.append("other_steps")
        if self.metrics_alone:
            reasons.append("metrics_alone")
        elif not self.effect.paired:
            reasons.append("few_common_prompts" if self.named else "redacted")
        if self.level == "incomparable":
            scored = all(has(frame, "reward") for frame in self.inside)
            reasons.append("few_prompts" if scored else "no_reward")
        elif (np.isfinite(self.band.difference) & np.isnan(self.band.low)).any():
            reasons.append("no_band")
        return reasons


def compare_runs(bases: Sequence[Side], news: Sequence[Side]) -> Comparison:
    """Compare NEW with BASE, one or several runs each, over their last common steps."""
    sides = [*bases, *news]
    split, responses = _common_split(_comparable_responses(sides))
    if len(set(map(_usual_group, responses))) > 1:
        responses = [frame.assign(pass_at_k=np.nan) for frame in responses]
    limits = windows(responses, len(bases))
    inside, trainer = (
        [
            frame[frame["step"].between(*window)]
            for frame, window in zip(frames, (*limits.bases, *limits.news), strict=True)
        ]
        for frames in (responses, [side.trainer for side in sides])
    )
    means = _means(inside, len(bases))
    base_prompts, new_prompts = ([table.index for table in runs] for runs in means)
    paired = _pairable([*base_prompts, *new_prompts])
    in_all = [reduce(pd.Index.intersection, side) for side in (base_prompts, new_prompts)]
    in_any = [reduce(pd.Index.union, side) for side in (base_prompts, new_prompts)]
    return Comparison(
        split,
        len(bases),
        responses,
        limits,
        inside,
        all(side.named for side in sides),
        effect_on(means, "reward", paired=paired),
        _guardrails(means, _means(trainer, len(bases)), paired=paired),
        shared=len(in_all[0].intersection(in_all[1])),
        only_base=len(in_any[0].difference(in_all[1])),
        only_new=len(in_any[1].difference(in_all[0])),
        cut=any(side.cut for side in sides),
    )


def _usual_group(frame: pd.DataFrame) -> int | None:
    """Return the usual number of responses with pass@k in a group (its k), or None."""
    sizes = frame.groupby("group")["pass_at_k"].count() if "pass_at_k" in frame else pd.Series()
    return most_common(sizes[sizes > 0].to_numpy())


def _means(frames: Sequence[pd.DataFrame], bases: int) -> Means:
    tables = [rounded_columns(frame.groupby("pair").mean(numeric_only=True)) for frame in frames]
    return Means(tables[:bases], tables[bases:])


def _comparable_responses(sides: Sequence[Side]) -> list[pd.DataFrame]:
    """Return runs' responses with ALL_RIGHT and ALL_WRONG, but not OF_WHOLE_TEXTS if any were cut.

    Prompts of redacted runs get keys that match those of no other run.
    """
    cut = OF_WHOLE_TEXTS if any(side.cut for side in sides) else ()
    best = float(np.fmax.reduce([side.responses["reward"].max() for side in sides]))
    frames = []
    for number, side in enumerate(sides, 1):
        frame = side.responses.drop(columns=[name for name in cut if name in side.responses])
        if not side.named:
            frame = frame.assign(pair=frame["pair"] + np.uint64(number << 40))
        if "zero_variance" in frame:
            alike = frame["zero_variance"]
            right = frame["reward"] >= best
            frame = frame.assign(**{ALL_RIGHT: alike * right, ALL_WRONG: alike * ~right})
        frames.append(frame)
    return frames


def _common_split(frames: list[pd.DataFrame]) -> tuple[str, list[pd.DataFrame]]:
    """Return the split ("val" if its prompts pair, else "train", else "all") and its responses."""
    for name, names in _SPLITS.items():
        cut = [frame[frame["split"].isin(names)] for frame in frames]
        if all(map(len, cut)):
            prompts = [pd.Index(frame["pair"].unique()) for frame in cut]
            if name == "train" or _pairable(prompts):
                return name, cut
    return "all", frames


def _pairable(prompts: Sequence[pd.Index]) -> bool:
    shared = reduce(pd.Index.intersection, prompts)
    return len(shared) >= max(1.0, LEAST_SHARED * min(map(len, prompts)))
