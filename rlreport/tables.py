"""The tables that checks, charts and pages use instead of the logs.

``read`` makes the tables of responses, other fields and tools, ``summarise`` the others. All are
pandas DataFrames with a RangeIndex; ``rlreport.columns`` documents their columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.figures.constant import take_rows
from rlreport.text.messages import message, phrases, plural, sample_note
from rlreport.times import Times


@dataclass(frozen=True, slots=True)
class LogFile:
    name: str  # path relative to the folder of the logs, never absolute
    size: int  # bytes
    rows: int = 0  # number of its rows in the response table
    lines: int = 0
    bad: int = 0  # number of lines that cannot be read
    format: str = "rlboard"  # id of the log format
    why: str = ""  # how the format was detected


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that cannot be read (line 0: a whole file); ``torn``: the file ends within it."""

    file: str
    line: int
    reason: str
    torn: bool = False


class NoteKind(StrEnum):
    """What a ``Note`` is about."""

    # Values of rows that are repaired or left out; ``read.remarks`` has their texts
    UNEQUAL_LENGTHS = "unequal_lengths"
    SENTINEL = "sentinel"
    PADS = "pads"
    NESTED = "nested"
    NOT_TOKENS = "not_tokens"
    NOT_A_NUMBER = "not_a_number"
    NOT_TEXT = "not_text"
    TOLERANT = "tolerant"
    REASONLESS = "reasonless"
    BAD_MASK = "bad_mask"
    BAD_TURNS = "bad_turns"
    BAD_SPANS = "bad_spans"
    LONG_TEXT = "long_text"
    MANY_EXTRAS = "many_extras"
    UNREAD_FIELDS = "not_taken"  # fields that are not recognized
    MISSING_GRADES = "missing_grades"  # responses without a valid reward

    # Rows that count in part or not at all
    UNTRAINED = "untrained"
    FILTERED_OUT = "filtered_out"
    FAILED = "failed"
    BRANCHES = "branches"
    SPLIT = "split"  # responses of a split that are shown but not judged
    OTHER_SPLIT_ROWS = "other_split_rows"
    RESTART = "restart"
    SHORTENED = "shortened"
    MIXED_UNITS = "mixed_units"

    # Steps and runs
    NO_STEP = "no_step"  # neither rows nor paths have a step
    PATH_STEP = "path_step"  # rows without a step get that of their path
    SEVERAL_RUNS = "several_runs"  # the logs look like several runs
    SEVERAL_STARTS = "several_starts"  # one log holds several starts of a run

    # Files
    FORMAT = "format"  # how a file is read, if its reader has to know
    NOT_A_LOG = "not_a_log"
    OTHER_FILE = "other_file"  # a file that is not named like a log
    EMPTY_FILE = "empty_file"
    REPEATED_FILE = "repeated_file"
    PARTLY_LOGGED = "partly_logged"  # the trainer logs a part of the responses
    OTHER_RUN = "other_run"  # files that another run left in the folder
    EVALUATION = "evaluation"  # an evaluation overwrote rows of training
    WEIGHTS = "weights"  # of the parts of the reward
    CHANGED = "changed"  # a log changed while it was read
    SIBLING = "sibling"  # files that are read together with a log next to them
    REPORTS = "reports"  # reports of rlreport lie among the logs
    OTHER_SPLIT = "other_split"  # files of a data split that are not read
    ABSENT = "absent"  # what a folder lacks

    # What is beside the logs
    METRICS = "metrics"
    CARD = "card"
    CHARTS = "charts"  # chart functions that failed
    NOTES = "notes"  # the file of the author's notes
    SCORE = "score"  # responses that a reward function of the user gave no reward
    SET_BY = "set_by"  # options that files or variables set


# Kinds of notes that are no problem: ``--strict`` allows them.
HARMLESS = frozenset(
    {
        NoteKind.UNREAD_FIELDS,
        NoteKind.FORMAT,
        NoteKind.SPLIT,
        NoteKind.SIBLING,
        NoteKind.PATH_STEP,
        NoteKind.NO_STEP,
        NoteKind.REPORTS,
        NoteKind.BRANCHES,
        NoteKind.EVALUATION,
        NoteKind.PARTLY_LOGGED,
        NoteKind.WEIGHTS,
        NoteKind.SET_BY,
    }
)

# Kinds of notes that consist of names from the logs: redaction replaces their texts as a whole,
# those with names of splits always, those with names of fields if names are redacted, too.
WITH_SPLIT_NAMES = frozenset({NoteKind.SPLIT, NoteKind.OTHER_SPLIT})
WITH_FIELD_NAMES = frozenset({NoteKind.UNREAD_FIELDS, NoteKind.WEIGHTS})


@dataclass(frozen=True, slots=True)
class Note:
    """A remark about the logs; ``count``: the number of files, lines or rows it concerns."""

    kind: NoteKind
    text: str
    count: int
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class MetricsFile:
    """A file of trainer metrics: path relative to the logs, number of steps, metric names."""

    name: str
    steps: int
    metrics: list[str]


class Unscored(NamedTuple):
    """Why responses have no new reward.

    Attributes:
        reason: what the function did; its text may quote what is logged.
        rows: the number of such responses.
        step: the step of the first of them.
        n: its number in the step.
    """

    reason: str
    rows: int
    step: int
    n: int


@dataclass(frozen=True, slots=True)
class Rescoring:
    """How a function of the user (``--score``) gave responses the reward ``valid_reward``.

    Attributes:
        function: its name with its file, such as ``grade.py:correct``.
        responses: the number of responses it was to score, of all roles.
        scored: how many of them have a reward of it.
        unscored: why the others have none, the most frequent reason first.
    """

    function: str
    responses: int
    scored: int
    unscored: tuple[Unscored, ...] = ()

    @property
    def missing(self) -> str:
        """How many responses have no reward of it, and why in most cases; "" if all have one."""
        if not self.unscored:
            return ""
        counts = {"some": self.responses - self.scored, "all": self.responses}
        reason = self.unscored[0].reason
        if len(self.unscored) == 1:
            return message(
                "{some:count} of {all:count} responses not scored: {reason}",
                reason=reason,
                **counts,
            )
        return message(
            "{some:count} of {all:count} responses not scored; the most frequent reason: {reason}",
            reason=reason,
            **counts,
        )


class RowRole(IntEnum):
    """What a response is to the run: values of the column ``validation``."""

    TRAINING = 0
    VALIDATION = 1
    BRANCH = 2  # a branch of a rollout that was not trained


def counted_responses(splits: pd.Series | NDArray[np.int8]) -> str:
    """Return how many responses there are: "720 responses", or those of training and all others.

    ``splits`` are their values of ``validation``. What counts responses says which ones, so that
    a page never has two numbers for the same words.
    """
    training, validation, branches = _by_role(splits)
    if not validation and not branches:
        return plural("{count} response", "{count} responses", training)
    return message(
        "{training} (and {others})",
        training=plural(
            "{count} training response", "{count} training responses", training
        ),
        others=_roles_in_words(0, validation, branches),
    )


def counted_in_all(splits: pd.Series | NDArray[np.int8]) -> str:
    """Return the number of all responses, followed by those of each role if there are several.

    ``splits`` are their values of ``validation``.
    """
    counts = _by_role(splits)
    in_all = plural("{count} response", "{count} responses", sum(counts))
    logged_roles = [count for count in counts if count > 0]
    if len(logged_roles) < 2:
        return in_all
    return message("{total} ({parts})", total=in_all, parts=_roles_in_words(*counts))


def _by_role(splits: pd.Series | NDArray[np.int8]) -> tuple[int, int, int]:
    """Return the number of responses of training, of validation and of untrained branches."""
    values = np.asarray(splits)
    validation = int((values == RowRole.VALIDATION).sum())
    branches = int((values == RowRole.BRANCH).sum())
    return len(values) - validation - branches, validation, branches


def _roles_in_words(training: int, validation: int, branches: int) -> str:
    """Return a list such as "12 of training, 4 of validation", without counts of 0."""
    parts: list[str] = []
    if training:
        parts.append(message("{count:count} of training", count=training))
    if validation:
        parts.append(message("{count:count} of validation", count=validation))
    if branches:
        parts.append(
            message("{count:count} of branches that were not trained", count=branches)
        )
    return phrases(parts)


_SAMPLES = ("ngrams", "words", "ref_words")

# Steps of metrics and of rollouts get separate charts if the gap between them is wider than so many
# times the steps that both cover: on a common axis, each would be a point
_APART = 10

# Stands for the middle of a long response, if only its start and end are in the sample
GAP = "<|gap|>"


# Metrics end early if more than this part of the steps of rollouts, and more than one, come after
_MOST_AFTER = 0.1


def ends_early(end: int, steps: NDArray[np.int64]) -> bool:
    """Return whether a series with the last step ``end`` ends long before the ``steps`` do."""
    after = int(np.count_nonzero(steps > end))
    return after > max(1, _MOST_AFTER * len(steps))


class Extent(NamedTuple):
    """How far a run is logged."""

    last_step: int
    planned_steps: int | None  # None if it is not known
    metrics_end: int | None  # last step of the metrics if they end early, else None

    @property
    def is_short(self) -> bool:
        """Whether the log ends before the planned number of steps."""
        return self.planned_steps is not None and self.last_step < self.planned_steps


@dataclass(frozen=True, slots=True)
class TextSample:
    """The texts of S sampled responses as units: tokens, or words and CJK characters."""

    rows: NDArray[np.int64]  # (S,), row numbers in the response table, ascending
    # (S + 1,), start of each response in ``units``, then their end
    offsets: NDArray[np.int64]
    units: NDArray[np.int32]  # (sum of lengths,), indices into ``vocabulary``
    vocabulary: list[str]  # tokens as logged, or words and CJK characters
    unit: str  # ``token`` or ``word``


@dataclass(frozen=True, slots=True)
class TokenSample:
    """Numbers for each token in ``texts``: arrays as long as ``texts.units``, NaN if not logged."""

    texts: TextSample
    kl: NDArray[np.float32]
    log_ratio: NDArray[np.float32]
    prob: NDArray[np.float32]
    value_error: NDArray[np.float32]


def listed_tool(name: object) -> str:
    """Return a tool's name as ``tools_used`` has it: "?" for a tool without a name."""
    return str(name) or "?"


@dataclass(slots=True, kw_only=True)
class LogTables:
    """The tables made while reading the logs; later stages do not change their content.

    Attributes:
        responses: one row per response, see RESPONSE_COLUMNS.
        extras: one row per response; a column per other logged scalar (float64; text: object).
        ngrams: tokens (or words) of the sampled responses, for counting n-grams; None if no
            texts are logged, or after ``without_samples()``.
        words: words of the sampled responses, each with its leading space; may be None, too.
        ref_words: words of the reference policy's responses to the same prompts, or None.
        sampled: number of sampled responses; statistics of texts and tokens use only these.
        sampled_of: number of responses from which these were sampled.
        reward_parts: names of the columns of ``extras`` that are components of the reward.
        files, notes: log files that were read, and remarks about the logs.
        bad_lines, bad_count: the first unreadable lines, and the number of all of them.
        fields: canonical or extra field -> number of responses that have it.
        tools: one row per step and tool: ``step``, ``tool``, and summed counts (see ToolCounts).
        tools_used: object (R,): which of these tools answered in each response, one a line (see
            ``listed_tool``); None if none did. Empty if the run has no tools.
        repeated: step -> number of its training responses that a restarted run logged again.
        rescoring: how ``valid_reward`` was made by a function of the user, None if it was not.
        incomplete_from: step from which on rows may be missing, as a log was cut, deleted or
            replaced while it was read; None if there is none.
        overwritten: steps whose training responses an evaluation overwrote in the log.
        partly_validated: those of them of which the log lacks responses of the evaluation.
    """

    responses: pd.DataFrame
    extras: pd.DataFrame
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
    tools_used: pd.Series = field(default_factory=lambda: pd.Series(dtype=object))
    repeated: dict[int, int] = field(default_factory=dict)
    rescoring: Rescoring | None = None
    incomplete_from: int | None = None
    overwritten: list[int] = field(default_factory=list)
    partly_validated: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Tables(LogTables):
    """All tables that checks, charts and pages use.

    Attributes:
        steps: one row per step, see STEP_COLUMNS; also steps without training responses.
        prompts: one row per prompt, see PROMPT_COLUMNS.
        tokens: one row per token string, see TOKEN_COLUMNS; empty if no tokens are logged.
        extras_by_step: ``step`` and the mean of each numeric column of ``extras``.
        metrics: ``step`` and one float64 column per trainer metric; may be empty.
        metrics_files: the files from which ``metrics`` were read.
        metric_roles: role -> metric, where the metric's name does not tell its role, see
            ``metrics.roles``: as chosen by the user, or as likely.
        metrics_broken: metric -> the first 1,000 steps with a value of NaN or beyond ±1e150.
        validation: like ``steps``, but computed from the validation responses; empty without any.
        in_progress: step that the run is still writing, which the checks ignore, or None.
        planned_steps: number of steps that the run was to have, None if it is unknown.
        times: when the run was logged, durations of steps and phases, and throughput.
    """

    steps: pd.DataFrame
    prompts: pd.DataFrame
    tokens: pd.DataFrame
    extras_by_step: pd.DataFrame
    metrics: pd.DataFrame = field(default_factory=pd.DataFrame)
    metrics_files: list[MetricsFile] = field(default_factory=list)
    metric_roles: dict[str, str] = field(default_factory=dict)
    metrics_broken: dict[str, list[int]] = field(default_factory=dict)
    validation: pd.DataFrame = field(default_factory=pd.DataFrame)
    in_progress: int | None = None
    planned_steps: int | None = None
    times: Times = field(default_factory=Times)

    @property
    def sample_note(self) -> str:
        """Text such as "from a sample of 10 of 20 responses"; "" if all or none were sampled."""
        return sample_note(self.sampled, self.sampled_of)

    @property
    def steps_with_responses(self) -> int:
        """Number of steps that have responses; only these can have a page."""
        return len(np.unique(self.responses["step"].to_numpy()))

    @property
    def metrics_apart(self) -> bool:
        """Whether the steps of the metrics are too far from those of rollouts for a common axis.

        This is so if the gap between them is over _APART times as wide as both together.
        """
        if self.responses.empty or "step" not in self.metrics:
            return False
        ranges = []
        for steps in (self.steps["step"], self.metrics["step"]):
            ranges.append((steps.min(), steps.max()))
        (low_first, low_last), (high_first, high_last) = sorted(ranges)
        gap = high_first - low_last  # negative if they overlap
        covered = 1 + (low_last - low_first) + (high_last - high_first)
        return bool(gap > _APART * covered)

    @property
    def extent(self) -> Extent | None:
        """How far the run is logged, None without a step."""
        ends: list[int] = []
        if len(self.steps):
            ends.append(int(self.steps["step"].max()))
        ends += self.overwritten[-1:]
        metrics_end = None
        if "step" in self.metrics and len(self.metrics) and not self.metrics_apart:
            end = int(self.metrics["step"].max())
            ends.append(end)
            with_responses = self.steps.loc[self.steps["responses"] > 0, "step"]
            if ends_early(end, with_responses.to_numpy(np.int64)):
                metrics_end = end
        if not ends:
            return None
        return Extent(max(ends), self.planned_steps, metrics_end)

    def training(self) -> Tables:
        """Return the tables with training responses only, and without steps of 0 responses.

        Responses of validation and untrained branches are removed, but not their ``prompts``.
        A run without rollouts is returned unchanged.
        """
        if self.responses.empty:
            return self
        in_training = self.responses["validation"].to_numpy() == RowRole.TRAINING
        has_responses = self.steps["responses"] > 0
        if in_training.all() and has_responses.all():
            return self
        # The number that each kept row gets. All rows in samples are of training.
        new_rows = np.cumsum(in_training) - 1
        samples: dict[str, Any] = {}
        for name in _SAMPLES:
            sample = getattr(self, name)
            if sample is not None:
                samples[name] = replace(sample, rows=new_rows[sample.rows])
        # ``tools_used`` has a value per row, or none at all.
        tools_used = self.tools_used[in_training[: len(self.tools_used)]]
        return replace(
            self,
            responses=take_rows(self.responses, in_training),
            extras=self.extras[in_training].reset_index(drop=True),
            tools_used=tools_used.reset_index(drop=True),
            steps=self.steps[has_responses].reset_index(drop=True),
            **samples,
        )

    def mark_in_progress(self) -> Tables:
        """Return the tables with the newest step as ``in_progress``, and not as ``incomplete``.

        A step that the run is still writing may lack responses without anything being wrong. A run
        of one step is unchanged, as the checks would have no step left.
        """
        if len(self.steps) < 2:
            return self
        newest = int(self.steps["step"].iloc[-1])
        steps = self.steps.assign(
            incomplete=self.steps["incomplete"] & (self.steps["step"] < newest)
        )
        return replace(self, steps=steps, in_progress=newest)

    @property
    def judged_before(self) -> int | None:
        """First step that is not judged, in progress or incomplete; None if all are judged.

        The first step with training responses is always judged: the checks need one.
        """
        marked = [
            step
            for step in (self.in_progress, self.incomplete_from)
            if step is not None
        ]
        if not marked:
            return None
        first_marked = min(marked)
        steps_with_responses = self.steps.loc[self.steps["responses"] > 0, "step"]
        if not len(steps_with_responses):
            return first_marked
        always_judged = int(steps_with_responses.min())
        return max(first_marked, always_judged + 1)

    def without_step_in_progress(self) -> Tables:
        """Return tables of the steps before ``judged_before``; all steps if that is None.

        Bad lines within which a file ends are removed, too: the run is still writing them.
        """
        if self.judged_before is None:
            return self
        complete_lines = [line for line in self.bad_lines if not line.torn]
        torn_count = len(self.bad_lines) - len(complete_lines)
        bad_count = self.bad_count - torn_count
        earlier_steps = self.between(np.iinfo(np.int64).min, self.judged_before)
        return replace(earlier_steps, bad_lines=complete_lines, bad_count=bad_count)

    def between(self, start: int, stop: int) -> Tables:
        """Return tables of ``start <= step < stop``; ``prompts`` and ``tokens`` are unchanged."""
        # Responses are sorted by step, so those of the steps are the rows from ``low`` to ``high``.
        response_steps = self.responses["step"].to_numpy()
        low, high = np.searchsorted(response_steps, (start, stop)).tolist()
        samples: dict[str, Any] = {}
        for name in _SAMPLES:
            sample = getattr(self, name)
            if sample is not None:
                samples[name] = _cut(sample, low, high)
        frames: dict[str, Any] = {}
        for name in ("steps", "validation", "extras_by_step", "tools", "metrics"):
            frame = getattr(self, name)
            if "step" in frame:  # else it is empty, as nothing of it is logged
                is_inside = (frame["step"] >= start) & (frame["step"] < stop)
                frames[name] = frame[is_inside].reset_index(drop=True)
        broken_steps = {}
        for name, steps in self.metrics_broken.items():
            steps_inside = [step for step in steps if start <= step < stop]
            if steps_inside:
                broken_steps[name] = steps_inside
        return replace(
            self,
            responses=self.responses.iloc[low:high].reset_index(drop=True),
            extras=self.extras.iloc[low:high].reset_index(drop=True),
            metrics_broken=broken_steps,
            **samples,
            **frames,
        )

    def validation_tables(self) -> Tables | None:
        """Return tables with the responses, extras and steps of validation; None without any.

        They have no samples of texts, which are of training.
        """
        in_validation = self.responses["validation"].to_numpy() == RowRole.VALIDATION
        if not in_validation.any():
            return None
        responses = take_rows(self.responses, in_validation)
        steps = self.validation[self.validation["responses"] > 0]
        return replace(
            self,
            # Marked as those of training, as what uses the tables looks at these only.
            responses=responses.assign(validation=int(RowRole.TRAINING)),
            extras=self.extras[in_validation].reset_index(drop=True),
            steps=steps.reset_index(drop=True),
        ).without_samples()

    def without_samples(self) -> Tables:
        """Return the tables without sampled texts, which take most of the memory."""
        return replace(self, ngrams=None, words=None, ref_words=None)


def _cut(sample: TextSample, low: int, high: int) -> TextSample:
    """Return the sample of rows ``low`` to ``high`` (exclusive), which become 0, 1, …"""
    # Not all rows are sampled: the positions in the sample of those that are, in ascending order
    first, end = np.searchsorted(sample.rows, (low, high)).tolist()
    # One more than texts: the end of the last
    offsets = sample.offsets[first : end + 1]
    return replace(
        sample,
        rows=sample.rows[first:end] - low,
        offsets=offsets - offsets[0],
        units=sample.units[offsets[0] : offsets[-1]],
    )


def length_column(responses: pd.DataFrame | Mapping[str, NDArray[np.float64]]) -> str:
    """Return "response_tokens" if any response has that length, else "response_chars"."""
    missing = np.isnan(np.asarray(responses["response_tokens"], np.float64)).all()
    return "response_chars" if missing else "response_tokens"
