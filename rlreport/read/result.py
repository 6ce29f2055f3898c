"""What reading the logs gives."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.read.log_format import LogFormat
from rlreport.read.places import Places
from rlreport.read.sources import Source
from rlreport.tables import BadLine, LogFile, NgramSample, Note
from rlreport.text.tokens import detect_style

_STYLE_TOKENS = 5000


@dataclass(slots=True)
class Scan:
    """Every figure of the logs, and where each response lies.

    Attributes:
        name: of the run: the folder or file that was given.
        files: the log files, in the order of ``file`` in the response table.
        responses: RESPONSE_COLUMNS, sorted by (step, file, offset, sub).
        extras: same index; further scalars: float64, or object for short strings.
        reward_parts: names of extras that are parts of the reward.
        prompt_rows: int64 (prompts,), row of the first response to each prompt_id.
        tokens: one row per bin of steps and token: ``bin_start`` and ``bin_stop`` (first and
            last step of the bin), ``token`` (as logged), ``count``, how many of those had a
            finite figure (``log_ratios``, ``probs``, ``ref_probs``, ``value_errors``) and the
            sums ``kl``, ``log_ratio``, ``abs_log_ratio``, ``prob``, ``ref_prob`` and
            ``abs_value_error``.
        positions: ``decile`` 0-9 of the response, ``count``, ``abs_error_mean``,
            ``value_mean``, ``return_mean``; empty without values.
        bigrams: ``step``, ``bigrams`` and ``distinct``.
        ngrams, ref_ngrams: units of a sample of responses and reference responses.
        bad_lines: lines that could not be used, the first thousand.
        bad_count: all of them.
        notes: what was repaired, left out or odd.
        fields: field -> rows that carried it.
        sources, formats: the files as opened, for the second pass.
    """

    name: str
    files: list[LogFile]
    responses: pd.DataFrame
    extras: pd.DataFrame
    reward_parts: list[str]
    prompt_rows: NDArray[np.int64]
    tokens: pd.DataFrame
    positions: pd.DataFrame
    bigrams: pd.DataFrame
    ngrams: NgramSample | None
    ref_ngrams: NgramSample | None
    bad_lines: list[BadLine] = field(default_factory=list)
    bad_count: int = 0
    notes: list[Note] = field(default_factory=list)
    fields: dict[str, int] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)
    formats: list[LogFormat] = field(default_factory=list)

    def places(self) -> Places:
        """Return where the responses lie, to read some back (also in another process)."""
        tokens = self.tokens["token"].unique()
        style = detect_style(tokens[:_STYLE_TOKENS]) if len(tokens) else None
        file, line, offset, length, sub, step, n = (
            self.responses[name].to_numpy()
            for name in ("file", "line", "offset", "length", "sub", "step", "n")
        )
        return Places(self.sources, self.formats, file, line, offset, length, sub, step, n, style)
