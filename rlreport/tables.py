"""The tables that all later stages use; ``rlreport.columns`` documents their columns.

``read`` yields the response table, ``summarise`` derives the others from it; checks,
charts and pages read nothing else. All are pandas DataFrames with a RangeIndex.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.text.messages import sample_note


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of the logs, named relative to the folder it was given in (never absolute).

    ``why`` explains how its format was detected.
    """

    name: str
    size: int
    rows: int = 0
    lines: int = 0
    bad: int = 0
    format: str = "rlboard"
    why: str = ""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line (or, with line 0, a file) that could not be used, and why."""

    file: str
    line: int
    reason: str
    torn: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """A remark about the logs, such as skipped lines, with the number of occurrences."""

    kind: str
    text: str
    count: int
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class MetricsFile:
    """A file of trainer metrics: name relative to the logs, number of steps, and metrics."""

    name: str
    steps: int
    metrics: list[str]


_SAMPLES = ("ngrams", "words", "ref_words")

GAP = "<|gap|>"
"""Unit between the two ends of a long response, of which the middle is not sampled."""


@dataclass(frozen=True, slots=True)
class TextSample:
    """The units (tokens, else words) of sampled responses.

    Attributes:
        rows: int64 (S,), rows of the response table, ascending.
        offsets: int64 (S + 1,), where each response's units start in ``units``.
        units: int32 (sum of lengths,), indices into ``vocabulary``.
        vocabulary: tokens as logged, or words and CJK characters.
        unit: ``token`` or ``word``.
        labels: int8 (S,), whether the response contains its label (ground truth): 1 or 0, −1
            without a label; None if not computed.
    """

    rows: NDArray[np.int64]
    offsets: NDArray[np.int64]
    units: NDArray[np.int32]
    vocabulary: list[str]
    unit: str
    labels: NDArray[np.int8] | None = None


@dataclass(frozen=True, slots=True)
class TokenSample:
    """Figures of the tokens in ``texts``: float32, one per unit, NaN where not logged."""

    texts: TextSample
    kl: NDArray[np.float32]
    log_ratio: NDArray[np.float32]
    prob: NDArray[np.float32]
    ref_prob: NDArray[np.float32]
    value_error: NDArray[np.float32]


@dataclass(slots=True, kw_only=True)
class LogTables:
    """The tables that reading yields; later stages do not change them.

    Attributes:
        responses: RESPONSE_COLUMNS, sorted by (step, validation, file, offset, sub).
        extras: same index as ``responses``; one column per further logged scalar
            (float64, or object for short strings).
        positions: critic error by relative position: ``decile`` 0-9, ``count``,
            ``abs_error_mean``, ``value_mean``, ``return_mean`` (empty without values).
        ngrams: tokens (or words) of the sampled responses, whose n-grams are counted; None
            without any text, and once they are counted.
        words: words of the sampled responses, each with its leading space; None like ``ngrams``.
        ref_words: words of the reference responses, None without any.
        sampled: number of responses that figures of texts and tokens are computed from.
        sampled_of: number of responses that these were drawn from: all, or those of training.
        reward_parts: names of extras that are parts of the reward.
        files, bad_lines, notes: files that were read, lines that were not, and remarks.
        bad_count: number of all unreadable lines (``bad_lines`` is capped).
        fields: canonical field -> number of rows that have it.
        tools: one row per step and tool: ``step``, ``tool`` and the sums of its ToolCounts.
    """

    responses: pd.DataFrame
    extras: pd.DataFrame
    positions: pd.DataFrame
    ngrams: TextSample | None = None
    words: TextSample | None = None
    ref_words: TextSample | None = None
    sampled: int = 0
    sampled_of: int = 0
    reward_parts: list[str] = field(default_factory=list)
    files: list[LogFile] = field(default_factory=list)
    bad_lines: list[BadLine] = field(default_factory=list)
    bad_count: int = 0
    notes: list[Note] = field(default_factory=list)
    fields: dict[str, int] = field(default_factory=dict)
    tools: pd.DataFrame = field(default_factory=pd.DataFrame)


@dataclass(slots=True, kw_only=True)
class Tables(LogTables):
    """All tables that checks, charts and pages use.

    Attributes:
        steps: STEP_COLUMNS; a step whose rollouts all failed has a row without responses.
        prompts: PROMPT_COLUMNS.
        tokens: TOKEN_COLUMNS (empty without token strings).
        extras_by_step: ``step`` and the mean of each numeric extra.
        metrics: trainer metrics, ``step`` and one float64 column each (may be empty).
        metrics_files: the files they come from.
        metrics_broken: metric -> steps at which it was NaN or infinite, the first 1,000.
        validation: STEP_COLUMNS of the validation responses, one row per step of ``steps``
            (which summarises training); empty without any.
        in_progress: step that is still being written: marked on charts and not judged; or None.
    """

    steps: pd.DataFrame
    prompts: pd.DataFrame
    tokens: pd.DataFrame
    extras_by_step: pd.DataFrame
    metrics: pd.DataFrame = field(default_factory=pd.DataFrame)
    metrics_files: list[MetricsFile] = field(default_factory=list)
    metrics_broken: dict[str, list[int]] = field(default_factory=dict)
    validation: pd.DataFrame = field(default_factory=pd.DataFrame)
    in_progress: int | None = None

    @property
    def sample_note(self) -> str:
        """Which responses figures of texts and tokens are computed from, "" if from all."""
        return sample_note(self.sampled, self.sampled_of)

    @property
    def steps_with_responses(self) -> int:
        """Number of steps with responses, which can have a page."""
        return len(np.unique(self.responses["step"].to_numpy()))

    def training(self) -> Tables:
        """Return the part that is judged: training responses and steps.

        Samples contain training responses only; their rows are renumbered.
        """
        if self.responses.empty:
            return self
        own = self.responses["validation"].to_numpy() == 0
        held = self.steps["responses"] > 0
        if own.all() and held.all():
            return self
        place = np.cumsum(own) - 1
        return replace(
            self,
            responses=self.responses[own].reset_index(drop=True),
            extras=self.extras[own].reset_index(drop=True),
            steps=self.steps[held].reset_index(drop=True),
            **{
                name: replace(sample, rows=place[sample.rows])
                for name in _SAMPLES
                if (sample := getattr(self, name)) is not None
            },
        )

    def growing(self) -> Tables:
        """Return the tables with the newest step marked as in progress instead of incomplete.

        A run of one step is returned unchanged, as nothing would be left to judge.
        """
        if len(self.steps) < 2:
            return self
        newest = int(self.steps["step"].iloc[-1])
        steps = self.steps.assign(
            incomplete=self.steps["incomplete"] & (self.steps["step"] < newest)
        )
        return replace(self, steps=steps, in_progress=newest)

    def settled(self) -> Tables:
        """Return the part before the step in progress, which is judged."""
        if self.in_progress is None:
            return self
        whole = [line for line in self.bad_lines if not line.torn]
        bad_count = self.bad_count - len(self.bad_lines) + len(whole)
        before = self.between(np.iinfo(np.int64).min, self.in_progress)
        return replace(before, bad_lines=whole, bad_count=bad_count)

    def between(self, start: int, stop: int) -> Tables:
        """Return the part with ``start <= step < stop``; tables by token and prompt stay whole."""
        low, high = np.searchsorted(self.responses["step"].to_numpy(), (start, stop)).tolist()
        samples: dict[str, Any] = {
            name: _cut(sample, low, high)
            for name in _SAMPLES
            if (sample := getattr(self, name)) is not None
        }
        frames: dict[str, Any] = {
            name: frame[(frame["step"] >= start) & (frame["step"] < stop)].reset_index(drop=True)
            for name in ("steps", "validation", "extras_by_step", "tools", "metrics")
            if "step" in (frame := getattr(self, name))
        }
        broken = {
            name: inside
            for name, steps in self.metrics_broken.items()
            if (inside := [step for step in steps if start <= step < stop])
        }
        return replace(
            self,
            responses=self.responses.iloc[low:high].reset_index(drop=True),
            extras=self.extras.iloc[low:high].reset_index(drop=True),
            metrics_broken=broken,
            **samples,
            **frames,
        )

    def beside(self) -> Tables | None:
        """Return the validation part as a separate run, without samples; None if there is none."""
        other = self.responses["validation"].to_numpy() != 0
        if not other.any():
            return None
        return replace(
            self,
            responses=self.responses[other].assign(validation=0).reset_index(drop=True),
            extras=self.extras[other].reset_index(drop=True),
            steps=self.validation[self.validation["responses"] > 0].reset_index(drop=True),
        ).without_samples()

    def without_samples(self) -> Tables:
        """Return the tables without the sampled texts, which take most of the memory."""
        return replace(self, ngrams=None, words=None, ref_words=None)


def _cut(sample: TextSample, low: int, high: int) -> TextSample:
    """Return the sampled texts of rows low to high, with row numbers relative to low."""
    first, last = np.searchsorted(sample.rows, (low, high)).tolist()
    offsets = sample.offsets[first : last + 1]
    return replace(
        sample,
        rows=sample.rows[first:last] - low,
        offsets=offsets - offsets[0],
        units=sample.units[offsets[0] : offsets[-1]],
        labels=None if sample.labels is None else sample.labels[first:last],
    )


def length_column(responses: pd.DataFrame) -> str:
    """Return the name of the column with lengths: in tokens if logged, else in characters."""
    logged = responses["response_tokens"].notna().any()
    return "response_tokens" if logged else "response_chars"
