"""The tables every later stage stands on: what each column means, its unit and its dtype.

``read`` yields the response table, ``summarise`` derives the others from it; checks,
charts and pages read nothing else. All are pandas DataFrames with a RangeIndex and
float64 columns unless said; NaN means "the log cannot feed it".
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Column:
    """One documented column of a table."""

    name: str
    dtype: str
    unit: str
    meaning: str


def _columns(*rows: tuple[str, str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(*row) for row in rows)


RESPONSE_COLUMNS = _columns(
    ("step", "int64", "", "training step"),
    ("n", "int64", "", "position in its step, in log order; (step, n) names a response everywhere"),
    ("file", "int64", "", "index into Scan.files"),
    ("line", "int64", "", "line number in that file, from 1"),
    ("offset", "int64", "bytes", "where the line starts (decompressed bytes)"),
    ("length", "int64", "bytes", "length of the line without its line end"),
    ("sub", "int64", "", "row inside the line, for formats that log several rows in one line"),
    ("prompt_id", "int64", "", "index into the prompt table: equal cleaned prompt text"),
    ("group", "int64", "", "ordinal of the group: same group_id (else same prompt) and same step"),
    ("reward", "float64", "", "sequence reward"),
    ("ref_reward", "float64", "", "reward of the reference's response to the same prompt"),
    ("reward_gap", "float64", "", "reward - ref_reward"),
    ("valid_reward", "float64", "", "second reward that is only watched"),
    ("ref_valid_reward", "float64", "", "the reference's second reward"),
    ("valid_reward_gap", "float64", "", "valid_reward - ref_valid_reward"),
    ("response_tokens", "float64", "tokens", "tokens after padding is dropped"),
    ("response_chars", "int64", "characters", "characters of the response after cleaning"),
    ("ref_response_chars", "float64", "characters", "characters of the reference response"),
    ("prompt_chars", "int64", "characters", "characters of the prompt after cleaning"),
    ("log_ratio_mean", "float64", "nats", "mean over tokens of logp - ref_logp"),
    ("log_ratio_min", "float64", "nats", "smallest token log-ratio"),
    ("log_ratio_max", "float64", "nats", "largest token log-ratio"),
    ("kl_k1", "float64", "nats", "sum over tokens of the log-ratio (k1)"),
    ("kl_k3", "float64", "nats", "sum over tokens of k3 = exp(-log_ratio) - 1 + log_ratio"),
    ("kl_k3_mean", "float64", "nats", "mean over tokens of k3"),
    ("kl_max", "float64", "nats", "largest token k3"),
    ("kl_max_position", "float64", "", "position (from 0) of the token with the largest k3"),
    ("surprisal_mean", "float64", "nats", "mean over tokens of -logp"),
    ("logp_tokens", "float64", "tokens", "tokens with a finite logp (weights surprisal_mean)"),
    ("rlhf_reward", "float64", "", "sum over tokens of token_rewards"),
    ("non_score_reward", "float64", "", "rlhf_reward - reward"),
    ("value_tokens", "float64", "tokens", "tokens with a finite value and return"),
    ("value_mean", "float64", "", "mean of the critic's values"),
    ("value_m2", "float64", "", "sum of squared deviations of the values from value_mean"),
    ("return_mean", "float64", "", "mean of the GAE returns"),
    ("return_m2", "float64", "", "sum of squared deviations of the returns from return_mean"),
    ("value_error_mean", "float64", "", "mean of value - return"),
    ("value_error_m2", "float64", "", "sum of squared deviations of value - return from its mean"),
    ("advantage_mean", "float64", "", "mean over tokens of the advantage (logged, else GAE)"),
    ("advantage_logged_mean", "float64", "", "mean over tokens of the logged advantages"),
    (
        "kl_penalty_n",
        "float64",
        "tokens",
        "tokens before the last with finite token_reward and log_ratio",
    ),
    ("kl_penalty_x", "float64", "", "sum of log_ratio over those tokens"),
    ("kl_penalty_y", "float64", "", "sum of token_reward over those tokens"),
    ("kl_penalty_xx", "float64", "", "sum of log_ratio squared over those tokens"),
    ("kl_penalty_xy", "float64", "", "sum of log_ratio * token_reward over those tokens"),
    ("kl_penalty_yy", "float64", "", "sum of token_reward squared over those tokens"),
    ("mismatch_tokens", "float64", "tokens", "tokens with sampler and trainer logprobs"),
    ("mismatch_ratio", "float64", "", "mean over those of exp|trainer - sampler|"),
    ("mismatch_k3", "float64", "nats", "mean over those of k3 of trainer against sampler"),
    ("mismatch_prob", "float64", "", "mean over those of |trainer prob - sampler prob|"),
    ("ratio_tokens", "float64", "tokens", "tokens with old and new logprobs"),
    ("ratio_mean", "float64", "", "mean over those of exp(new - old)"),
    ("ratio_outside", "float64", "", "share of those outside 1 +- 0.2"),
    ("finished", "float64", "", "1 ends with EOS or a stop reason, 0 cut off, NaN cannot be told"),
    ("distinct_2", "float64", "", "distinct bigrams / bigrams inside the response"),
    ("response_hash", "uint64", "", "hash of the cleaned response text; equal text, equal hash"),
    ("nan_values", "int64", "", "NaN, infinite or null numbers met in this row's required figures"),
)
"""One row per response, sorted by (step, file, offset, sub)."""

STEP_COLUMNS = _columns(
    ("step", "int64", "", "training step"),
    ("responses", "int64", "", "responses logged"),
    ("prompts", "int64", "", "distinct prompts"),
    ("reward_mean", "float64", "", "mean reward"),
    ("reward_std", "float64", "", "population standard deviation of the reward"),
    ("reward_min", "float64", "", "smallest reward"),
    ("reward_max", "float64", "", "largest reward"),
    ("ref_reward_mean", "float64", "", "mean reward of the reference"),
    ("ref_reward_std", "float64", "", "population standard deviation of ref_reward"),
    ("reward_gap_mean", "float64", "", "mean of reward - ref_reward"),
    ("valid_reward_mean", "float64", "", "mean of the watched reward"),
    ("ref_valid_reward_mean", "float64", "", "mean of the reference's watched reward"),
    ("win_rate", "float64", "", "share with reward > ref_reward among those with both"),
    ("lose_rate", "float64", "", "share with reward < ref_reward among those with both"),
    ("log_ratio_mean", "float64", "nats", "mean over responses of the mean over tokens"),
    ("kl_k1_mean", "float64", "nats", "mean over responses of the sum of log_ratio"),
    ("kl_k1_std", "float64", "nats", "population standard deviation of the same"),
    ("kl_k1_min", "float64", "nats", "smallest response sum of log_ratio"),
    ("kl_k1_max", "float64", "nats", "largest response sum of log_ratio"),
    ("kl_k1_negative", "float64", "", "share of responses with a negative sum"),
    ("kl_k3_mean", "float64", "nats", "mean over responses of the sum of k3"),
    ("kl_k3_std", "float64", "nats", "population standard deviation of the same"),
    ("response_tokens_mean", "float64", "tokens", "mean length"),
    ("response_tokens_std", "float64", "tokens", "population standard deviation of the length"),
    ("response_chars_mean", "float64", "characters", "mean length in characters"),
    ("response_chars_std", "float64", "characters", "its population standard deviation"),
    ("ref_response_chars_mean", "float64", "characters", "mean length of the reference responses"),
    ("surprisal_mean", "float64", "nats", "mean over all tokens of -logp"),
    ("value_mean", "float64", "", "mean over all tokens of the value"),
    ("value_std", "float64", "", "population standard deviation over all tokens of the value"),
    ("return_mean", "float64", "", "mean over all tokens of the return"),
    ("return_std", "float64", "", "population standard deviation over all tokens of the return"),
    ("explained_variance", "float64", "", "1 - Var(return - value) / Var(return), over all tokens"),
    ("distinct_2", "float64", "", "distinct bigrams / bigrams over the step's responses"),
    ("bigrams", "float64", "", "bigrams over the step's responses"),
    (
        "duplicate_rate",
        "float64",
        "",
        "share of responses whose text another response of the step has",
    ),
    ("eos_rate", "float64", "", "share of finished responses among those that can be told"),
    ("rlhf_reward_mean", "float64", "", "mean over responses of the sum of token_rewards"),
    ("non_score_reward_mean", "float64", "", "mean of rlhf_reward - reward"),
    (
        "kl_coefficient",
        "float64",
        "",
        "KL coefficient inferred from token_rewards against log_ratio",
    ),
    ("kl_coefficient_r2", "float64", "", "share of variance that fit explains"),
    ("reward_length_r", "float64", "", "correlation of reward and length inside the step"),
    ("reward_kl_r", "float64", "", "correlation of reward and kl_k1 inside the step"),
    ("groups", "int64", "", "groups with at least two responses"),
    ("zero_variance_groups", "float64", "", "share of those whose reward std is < 1e-6"),
    ("group_std_mean", "float64", "", "mean over those of the population std of the reward"),
    ("group_best_mean", "float64", "", "mean over those of the best reward"),
    ("mismatch_ratio", "float64", "", "mean over tokens of exp|trainer - sampler|"),
    ("mismatch_k3", "float64", "nats", "mean over tokens of k3 of trainer against sampler"),
    ("mismatch_prob", "float64", "", "mean over tokens of |trainer prob - sampler prob|"),
    ("ratio_mean", "float64", "", "mean over tokens of exp(new - old)"),
    ("ratio_outside", "float64", "", "share of tokens outside 1 +- 0.2"),
    ("incomplete", "bool", "", "fewer responses than the run's usual step"),
    ("nan_values", "int64", "", "numbers skipped by the means above"),
)
"""One row per step, ascending. Written as ``data/steps.csv`` (all-empty columns included)."""

PROMPT_COLUMNS = _columns(
    ("prompt_id", "int64", "", "index of the prompt, by first appearance"),
    ("prompt", "object", "", "cleaned prompt text, cut to 400 characters"),
    ("responses", "int64", "", "responses over the run"),
    ("steps", "int64", "", "steps it was seen in"),
    ("first_step", "int64", "", "first step"),
    ("last_step", "int64", "", "last step"),
    ("reward_first", "float64", "", "mean reward in its first step"),
    ("reward_last", "float64", "", "mean reward in its last step"),
    ("reward_gain", "float64", "", "reward_last - reward_first"),
    ("reward_mean", "float64", "", "mean over its responses"),
    ("reward_min", "float64", "", "smallest"),
    ("reward_max", "float64", "", "largest"),
    ("ref_reward_mean", "float64", "", "mean reward of the reference on it"),
    ("win_rate", "float64", "", "share with reward > ref_reward"),
    ("never_won", "bool", "", "has references, and reward was never above them"),
    (
        "losing_streak",
        "int64",
        "",
        "responses in a row, up to the last, that did not beat the reference",
    ),
    ("kl_k1_mean", "float64", "nats", "mean sum of log_ratio"),
    ("group_std_mean", "float64", "", "mean std of the reward inside its groups"),
    ("best_step", "int64", "", "step of its best response"),
    ("best_n", "int64", "", "n of its best response"),
    ("worst_step", "int64", "", "step of its worst response"),
    ("worst_n", "int64", "", "n of its worst response"),
)
"""One row per distinct prompt. Written as ``data/prompts.csv``."""

TOKEN_COLUMNS = _columns(
    ("token", "object", "", "token string as readable text (one token stays one token)"),
    ("raw", "object", "", "token string as logged"),
    ("count", "int64", "", "occurrences"),
    ("kl_share", "float64", "", "share of the run's summed k3"),
    ("kl_mean", "float64", "nats", "mean k3"),
    ("log_ratio_mean", "float64", "nats", "mean log-ratio"),
    ("abs_log_ratio_mean", "float64", "nats", "mean |log-ratio|"),
    ("prob_mean", "float64", "", "mean probability under the policy"),
    ("ref_prob_mean", "float64", "", "mean probability under the reference"),
    ("count_first", "int64", "", "occurrences in the first window of steps"),
    ("count_last", "int64", "", "occurrences in the last window of steps"),
    ("prob_first", "float64", "", "mean probability in the first window"),
    ("prob_last", "float64", "", "mean probability in the last window"),
    ("prob_change", "float64", "", "prob_last - prob_first"),
    ("abs_value_error_mean", "float64", "", "mean |value - return|"),
    ("example_step", "Int64", "", "step of the sampled response with the largest KL that holds it"),
    ("example_n", "Int64", "", "position of that response in its step"),
    ("example_position", "Int64", "tokens", "where it first stands there, from 0"),
)
"""One row per token string. Written as ``data/tokens.csv``."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of the logs, named relative to the folder it was given in (never absolute).

    ``why`` says in words why it was taken for its format.
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
    """A line (or a whole file, line 0) that could not be used, and why."""

    file: str
    line: int
    reason: str
    torn: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """Something about the logs a reader should know: repaired, skipped, or odd, with its count."""

    kind: str
    text: str
    count: int
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class MetricsFile:
    """A file of trainer metrics: its name beside the logs, its steps, and the metrics it logs."""

    name: str
    steps: int
    metrics: list[str]


@dataclass(frozen=True, slots=True)
class NgramSample:
    """Responses in which n-grams are counted: all of them, or a seeded sample per step.

    Attributes:
        rows: int64 (S,), indices into the response table, ascending.
        offsets: int64 (S + 1,), where each response's units start in ``units``.
        units: int32 (sum of lengths,), indices into ``vocabulary``.
        vocabulary: unit strings: tokens as logged, or words and CJK characters.
        per_step: most responses kept per step; every response of a smaller step is in.
        unit: ``token`` or ``word``.
    """

    rows: NDArray[np.int64]
    offsets: NDArray[np.int64]
    units: NDArray[np.int32]
    vocabulary: list[str]
    per_step: int
    unit: str


@dataclass(slots=True)
class Tables:
    """Everything the checks, the charts and the pages are made from.

    Attributes:
        responses: RESPONSE_COLUMNS.
        extras: same index as ``responses``; one column per further logged scalar
            (float64, or object for short strings).
        steps: STEP_COLUMNS.
        prompts: PROMPT_COLUMNS.
        tokens: TOKEN_COLUMNS (empty without token strings).
        positions: critic error by relative position: ``decile`` 0-9, ``count``,
            ``abs_error_mean``, ``value_mean``, ``return_mean`` (empty without values).
        extras_by_step: ``step`` and the mean of each numeric extra.
        ngrams: units of a sample of responses, None without any text, and once counted.
        ref_ngrams: the same of the reference responses, None without them.
        reward_parts: names of extras that are parts of the reward.
        files, bad_lines, notes: what was read, and what was not.
        bad_count: unreadable lines in all (``bad_lines`` is capped).
        fields: canonical field -> rows that carried it.
        metrics: trainer metrics, ``step`` and one float64 column each (may be empty).
        metrics_files: the files they come from.
    """

    responses: pd.DataFrame
    extras: pd.DataFrame
    steps: pd.DataFrame
    prompts: pd.DataFrame
    tokens: pd.DataFrame
    positions: pd.DataFrame
    extras_by_step: pd.DataFrame
    ngrams: NgramSample | None = None
    ref_ngrams: NgramSample | None = None
    reward_parts: list[str] = field(default_factory=list)
    files: list[LogFile] = field(default_factory=list)
    bad_lines: list[BadLine] = field(default_factory=list)
    bad_count: int = 0
    notes: list[Note] = field(default_factory=list)
    fields: dict[str, int] = field(default_factory=dict)
    metrics: pd.DataFrame = field(default_factory=pd.DataFrame)
    metrics_files: list[MetricsFile] = field(default_factory=list)
