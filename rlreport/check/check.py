"""What a check is: a judgement of the tables, with the words that go with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rlreport.check.finding import Finding, NotRun, ResponseRef, Severity
from rlreport.check.thresholds import Thresholds
from rlreport.tables import Tables

MOST_RESPONSES = 5
"""Responses that a finding shows at most."""

CANDIDATES = 50
"""Most extreme responses among which those of different steps come first."""

Result = Finding | NotRun | None


@dataclass(frozen=True, slots=True)
class Need:
    """What a check needs: in words, and the columns of the response table that prove it."""

    words: str
    columns: tuple[str, ...]

    def met(self, tables: Tables) -> bool:
        """Say whether every column holds at least one number."""
        return all(has(tables.responses, column) for column in self.columns)


REWARD = Need("reward", ("reward",))
REF_REWARD = Need("ref_reward", ("ref_reward",))
LOGPROBS = Need("logprobs", ("surprisal_mean",))
KL = Need("logprobs and ref_logprobs", ("kl_k1",))


@dataclass(frozen=True, slots=True)
class Check:
    """A health check.

    Attributes:
        id: its name in findings and in the thresholds file.
        looks_for: what it looks for, in one line.
        needs: fields without which it cannot run.
        charts: names of the charts a finding speaks of.
        why: why a finding matters.
        suggestion: what to try.
        source: where its threshold comes from.
        judge: the judgement itself; called only when the needs are met.
        trend: compares windows of steps, so a run that is too short is not judged.
        needs_also: what ``judge`` itself asks for, in words, where no column proves it.
    """

    id: str
    looks_for: str
    needs: tuple[Need, ...]
    charts: tuple[str, ...]
    why: str
    suggestion: str
    source: str
    judge: Callable[[Tables, Thresholds], Result]
    trend: bool = True
    needs_also: str = ""

    def run(self, tables: Tables, thresholds: Thresholds) -> Result:
        """Judge the tables: a finding, what the check needs, or None when all is well."""
        missing = [need.words for need in self.needs if not need.met(tables)]
        if missing:
            return self.not_run(", ".join(missing))
        shortest = thresholds.trend.shortest_run
        if self.trend and len(tables.steps) < shortest:
            return self.too_short(tables, thresholds)
        return self.judge(tables, thresholds)

    def too_short(self, tables: Tables, thresholds: Thresholds) -> NotRun:
        """Say that the run has too few steps for a trend."""
        shortest = thresholds.trend.shortest_run
        return self.not_run(
            f"at least {shortest} steps; the run is too short to judge ({len(tables.steps)})"
        )

    def not_run(self, needs: str) -> NotRun:
        """Say what the check needs."""
        return NotRun(self.id, needs)

    def finding(
        self,
        severity: Severity,
        title: str,
        *,
        steps: Iterable[int] = (),
        responses: Iterable[ResponseRef] = (),
        ngrams: Iterable[str] = (),
        why: str = "",
        suggestion: str = "",
    ) -> Finding:
        """Return a finding of this check with its words filled in."""
        return Finding(
            id=self.id,
            severity=severity,
            title=title,
            steps=tuple(sorted(set(steps))),
            responses=tuple(responses)[:MOST_RESPONSES],
            why=why or self.why,
            suggestion=suggestion or self.suggestion,
            source=self.source,
            charts=self.charts,
            ngrams=tuple(ngrams),
        )


def has(frame: pd.DataFrame, column: str) -> bool:
    """Say whether a table has a column with at least one number in it."""
    return column in frame and bool(frame[column].notna().any())


def refs(responses: pd.DataFrame, *, token: str | None = None) -> list[ResponseRef]:
    """Name the first responses of a table, with the token at the position in column ``token``."""
    named = []
    for row in responses.head(MOST_RESPONSES).itertuples(index=False):
        position = getattr(row, token) if token else np.nan
        at = int(position) if np.isfinite(position) else None
        named.append(ResponseRef(int(row.step), int(row.n), at))  # type: ignore[arg-type]
    return named


def extremes(
    rows: pd.DataFrame, by: str, *, highest: bool = False, token: str | None = None
) -> list[ResponseRef]:
    """Name the responses with the lowest (or highest) figures, of different steps if possible.

    Args:
        rows: part of the response table.
        by: column to order by; NaN is left out, ties keep the log's order.
        highest: from the highest down.
        token: column with the position of the token to blame.
    """
    figures = rows[by].to_numpy(dtype=np.float64)
    order = np.argsort(-figures if highest else figures, kind="stable")[:CANDIDATES]
    chosen = rows.iloc[order[np.isfinite(figures[order])]]
    turn = chosen.groupby("step", sort=False).cumcount().to_numpy()
    return refs(chosen.iloc[np.argsort(turn, kind="stable")], token=token)
