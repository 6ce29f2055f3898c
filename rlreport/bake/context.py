"""What the pages of one report share, and the columns of their lists."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.bake.views import ColumnView, number_column
from rlreport.card import Card
from rlreport.check.finding import Finding, Verdict
from rlreport.check.limits import Thresholds
from rlreport.columns import RESPONSE_COLUMNS, Column
from rlreport.options import FigureOptions, ReadOptions, ReportOptions
from rlreport.tables import Tables
from rlreport.text.messages import message

TEXT_COLUMNS = (
    ColumnView("prompt", message("Prompt"), kind="text"),
    ColumnView("response", message("Response"), kind="text"),
    ColumnView("ref_response", message("Reference response"), kind="text"),
    ColumnView("ground_truth", message("Ground truth"), kind="text"),
)

SAMPLED_FIGURE = "distinct_2"
"""The column of steps and responses that comes from the sample."""

TILES = (
    *("reward_mean", "ref_reward_mean", "win_rate", "kl_k1_mean", "kl_k3_mean"),
    *("response_tokens_mean", "response_chars_mean", "surprisal_mean", "eos_rate"),
    *("explained_variance", "distinct_2"),
)
"""Columns of the table of steps that are key figures of the run and of a step."""

RUN_TILES = (TILES[0], "validation_reward_mean", *TILES[1:])
"""Key figures of the run in their order, with those that only a trainer's metrics may feed."""


class RunFigure(NamedTuple):
    """A key figure of the run: its column, its values by step, means of both windows."""

    column: Column
    values: NDArray[np.float64]
    first: float
    last: float


EXTRAS_SHOWN = 6
"""Extras of a group above which all of them are hidden at first."""

LONGEST_NAME = 40
"""Longer names of fields stay as they are logged."""


@dataclass(frozen=True, kw_only=True)
class PageContext:
    """What the pages of steps share; picklable, so that workers can render them.

    Attributes:
        columns: numeric columns of the response list, the same for every step.
        string_columns: short-string columns as logged.
        text_columns: ``prompt``, ``response`` and what else is logged.
        first_rewards: ``step`` and ``reward`` of the first step's responses.
        file_aliases: aliases of log files by name, where names are redacted.
        asset_files: logical name -> file of the shared assets, empty in one file.
        stamp: time of building, or "".
        tile_names: columns of the table of steps that are key figures.
        sampled: figures of texts and tokens come from a sample of the responses.
    """

    run: str
    report: ReportOptions
    read: ReadOptions
    figures: FigureOptions
    columns: list[ColumnView]
    string_columns: list[ColumnView]
    text_columns: list[ColumnView]
    first_rewards: pd.DataFrame
    one_file: bool
    advantages_logged: bool
    file_aliases: dict[str, str]
    asset_files: dict[str, str]
    stamp: str
    tile_names: tuple[str, ...]
    sampled: bool


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What the page of a step says about the run.

    Attributes:
        figures: rows of the table of steps: the first, the previous, and this step as the last.
        linked: steps with a page that it links to, ascending: itself, its neighbours, the first.
        findings: those that name the step, reduced to what concerns it.
        usual_responses: responses of a usual step where this one is incomplete.
        in_progress: the step is still written.
    """

    figures: pd.DataFrame
    linked: list[int]
    findings: list[Finding]
    usual_responses: int | None
    in_progress: bool


@dataclass(frozen=True, kw_only=True)
class RunContext(PageContext):
    """What the pages of the run need.

    Attributes:
        windows: first and last step of the run's first window and of its last.
        window_figures: their rows, as those of the table of steps.
        shown_steps: steps with a page, ascending.
        usual_responses: responses of a usual step, None when steps differ.
        mixed: why the logs look like several runs, or "".
        trainer_figures: key figures of the run from the trainer's metrics, by column.
        left_out: sentences about what is not shown.
        listed: most responses of a step in the list of the run.
    """

    tables: Tables
    windows: tuple[tuple[int, int], tuple[int, int]]
    window_figures: pd.DataFrame
    shown_steps: list[int]
    verdict: Verdict
    usual_responses: int | None
    thresholds: Thresholds
    card: Card
    mixed: str
    trainer_figures: dict[str, RunFigure]
    left_out: list[str] = field(default_factory=list)
    listed: int = 0

    @property
    def steps(self) -> pd.DataFrame:
        """The table of steps."""
        return self.tables.steps

    def of_steps(self) -> PageContext:
        """Return what pages of steps share, without what else the run brings."""
        return PageContext(**{item.name: getattr(self, item.name) for item in fields(PageContext)})

    def step_facts(self, step: int) -> StepFacts:
        """Return what the page of a step says about the run."""
        findings = [
            finding.at(step)
            for finding in self.verdict.findings
            if step in finding.steps or any(ref.step == step for ref in finding.shown)
        ]
        place = bisect_left(self.shown_steps, step)
        linked = {self.shown_steps[0], *self.shown_steps[max(0, place - 1) : place + 2]}
        linked |= {f.onset.step for f in findings if f.onset} & set(self.shown_steps)
        row = int(np.searchsorted(self.steps["step"].to_numpy(), step))
        columns = ["step", "responses", "incomplete", *self.tile_names]
        figures = self.steps[columns].iloc[sorted({0, max(0, row - 1), row})]
        usual = self.usual_responses if figures["incomplete"].iat[-1] else None
        in_progress = step == self.tables.in_progress
        return StepFacts(figures, sorted(linked), findings, usual, in_progress)


def findings_of_responses(findings: Sequence[Finding], step: int) -> dict[int, list[str]]:
    """Return names of the findings that point at responses of ``step``, by n."""
    names: dict[int, list[str]] = {}
    for finding in findings:
        for n in sorted({ref.n for ref in finding.evidence if ref.step == step}):
            names.setdefault(n, []).append(finding.name)
    return names


def fed(steps: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Return the columns of the table of steps that have numbers; no characters beside tokens."""
    known = [name for name in names if steps[name].notna().any()]
    tokens = "response_tokens_mean" in known
    return [name for name in known if not (tokens and name == "response_chars_mean")]


def number_columns(
    responses: pd.DataFrame, extras: pd.DataFrame, parts: Sequence[str], *, sampled: bool = False
) -> list[ColumnView]:
    """Return the numeric columns of the response list with any value, in reading order.

    Parts of the reward (named by ``parts``) and other extras come last; when those are many, they
    are hidden at first. ``sampled`` says that texts are counted in a sample of the responses.
    """
    listed = [c for c in RESPONSE_COLUMNS if c.listed and responses[c.name].notna().any()]
    tokens = any(c.name == "response_tokens" for c in listed)
    columns = []
    for column in map(number_column, listed):
        hidden = column.hidden or (tokens and column.key == "response_chars")
        help_text = column.help
        if sampled and column.key == SAMPLED_FIGURE:
            help_text = message("{help}; of sampled responses only", help=help_text)
        columns.append(replace(column, hidden=hidden, help=help_text))
    logged = [n for n in extras.columns if is_numeric(extras[n]) and extras[n].notna().any()]
    for group, names in (
        (message("Parts of the reward"), [name for name in logged if name in parts]),
        (message("Logged fields"), [name for name in logged if name not in parts]),
    ):
        columns += extra_columns(names, group, hidden=len(names) > EXTRAS_SHOWN)
    return columns


def extra_columns(
    names: Sequence[object], group: str, *, kind: str = "number", hidden: bool = False
) -> list[ColumnView]:
    """Return the headers of further columns as logged, in words if these are unambiguous."""
    words = [in_words(str(name)) for name in names]
    clear = len(set(words)) == len(words)
    return [
        ColumnView(
            extra_key(name),
            label if clear else str(name),
            kind=kind,
            help=message("“{name}” as logged", name=name),
            hidden=hidden,
            group=group,
        )
        for name, label in zip(names, words, strict=True)
    ]


def in_words(name: str) -> str:
    """Return a field's name as words, "Format reward" for ``format_reward``, if it has any."""
    if not re.fullmatch(r"[A-Za-z0-9]+([_/.-][A-Za-z0-9]+)*", name) or len(name) > LONGEST_NAME:
        return name
    words = re.sub(r"[_/.-]+(?=\D)", " ", name)
    return words[0].upper() + words[1:]


def reading_order(numbers: Sequence[ColumnView], texts: Sequence[ColumnView]) -> list[ColumnView]:
    """Return the columns that a list shows: reward, texts, KL and length, then all others."""
    ranks = {"reward": 0, "prompt": 1, "response": 1, "finding": 1}
    ranks |= {"kl_k1": 2, "response_tokens": 2, "response_chars": 2}
    shown = [c for c in (*numbers, *texts) if not c.hidden]
    return sorted(shown, key=lambda c: ranks.get(c.key, 4 if c.kind == "text" else 3))


def string_columns(extras: pd.DataFrame) -> list[ColumnView]:
    """Return the short-string columns as logged."""
    names = [name for name in extras.columns if not is_numeric(extras[name])]
    return extra_columns(names, message("Logged fields"), kind="text", hidden=True)


def extra_key(name: object) -> str:
    """Return the key of a further logged column, distinct from those of our own columns."""
    return f"extra:{name}"


def is_numeric(values: pd.Series) -> bool:
    """Say whether a further column holds numbers."""
    return bool(np.issubdtype(values.to_numpy().dtype, np.number))
