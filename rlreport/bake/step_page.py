"""The page of one step: key figures, charts, the response list and its data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.bake.addresses import Addresses, link, step_file
from rlreport.bake.context import SAMPLED_FIGURE, PageContext, extra_key, is_numeric, reading_order
from rlreport.bake.conversation import conversation_data
from rlreport.bake.findings import finding_view
from rlreport.bake.groups import group_data
from rlreport.bake.key_figures import distinct_2_note, step_figures
from rlreport.bake.token_codec import empty_metrics, pack_tokens, token_metrics
from rlreport.bake.views import Cell, ColumnView, Link, RowView, StepView, TableView, number
from rlreport.check.finding import Finding
from rlreport.draw.chart import Chart
from rlreport.draw.labels import finite_or_none
from rlreport.draw.step import step_charts
from rlreport.rollout import Rollout
from rlreport.text.chat import spoken
from rlreport.text.messages import message, sample_note
from rlreport.text.numbers import NumberKind

STATIC_ROWS = 200
"""Rows written as HTML; a longer list carries the others as data."""

NUMBERED = ColumnView("n", "#", help=message("position in the step, in log order"), written="count")

LISTED_DIGITS = 6
"""Significant digits of numbers in lists over all steps."""

LEAST_CHARTED = 8
"""Responses of a step from which it has charts."""


@dataclass(frozen=True, slots=True)
class StepRows:
    """The rows of one step as its page needs them.

    Attributes:
        step: the step.
        responses: RESPONSE_COLUMNS of all its responses.
        extras: their further columns, same index.
        rollouts: the shown responses, in the order of the list.
        with_tokens: n of the responses whose token data is carried.
        digits: significant digits of token values.
    """

    step: int
    responses: pd.DataFrame
    extras: pd.DataFrame
    rollouts: Sequence[Rollout]
    with_tokens: frozenset[int]
    digits: int


def charts_of(responses: pd.DataFrame, context: PageContext, step: int) -> list[Chart]:
    """Charts of a step, still to be drawn; none of a step of few responses: its list says more."""
    responses = _judged(responses)
    if len(responses) < LEAST_CHARTED:
        return []
    return step_charts(responses, context.first_rows, step=step)


def best_first(rollouts: list[Rollout], responses: pd.DataFrame) -> list[Rollout]:
    """Sort responses as pages list them: highest reward first, NaN last, then in log order."""
    reward = dict(zip(responses["n"].tolist(), responses["reward"].tolist(), strict=True))

    def key(rollout: Rollout) -> tuple[bool, float, int]:
        value = reward[rollout.n]
        return (value != value, -value if value == value else 0.0, rollout.n)

    return sorted(rollouts, key=key)


def _judged(responses: pd.DataFrame) -> pd.DataFrame:
    """The responses of training; those of validation where a step has no other."""
    trained = responses["validation"].to_numpy() == 0
    return responses if trained.all() or not trained.any() else responses[trained]


def step_view(
    rows: StepRows, context: PageContext, addresses: Addresses, charts: Sequence[Chart]
) -> StepView:
    """Builds the view of a step's page."""
    steps = context.steps["step"].to_numpy()
    position = int(np.searchsorted(steps, rows.step))
    findings = context.findings_at(rows.step)
    shown = _Shown(rows, context, addresses)
    overview = addresses.page("overview")
    before, after = _neighbours(rows.step, context.shown_steps)
    with_tokens = [r for r in rows.rollouts if r.n in rows.with_tokens]
    return StepView(
        step=str(rows.step),
        previous=_step_link(before, addresses),
        next=_step_link(after, addresses),
        first=_step_link(context.shown_steps[0], addresses),
        all=Link(message("All steps"), overview + ("" if context.one_file else "#steps")),
        figures=step_figures(context, position),
        sample_note=_sample_note(rows.responses, context),
        charts=list(charts),
        findings=[
            replace(
                finding_view(finding, addresses), steps=[Link(message("all of them"), overview)]
            )
            for finding in findings
        ],
        responses=shown.table(),
        data=shown.data(findings),
        tokens=pack_tokens(
            with_tokens,
            rows.digits,
            context.figures,
            advantages_logged=context.advantages_logged,
        ),
        incomplete=_incomplete(context, position),
        in_progress=context.in_progress == rows.step,
    )


class _Shown:
    """The shown responses with their figures, in the order of the list."""

    def __init__(self, rows: StepRows, context: PageContext, addresses: Addresses) -> None:
        self.rows = rows
        self.context = context
        self.addresses = addresses
        by_n = pd.Index(rows.responses["n"])
        self.places: NDArray[np.intp] = by_n.get_indexer([r.n for r in rows.rollouts])
        self.in_all = {
            c.key: values_of(c.key, rows.responses, rows.extras) for c in context.columns
        }
        self.values = {key: values[self.places] for key, values in self.in_all.items()}

    def table(self) -> TableView:
        rollouts = self.rows.rollouts[:STATIC_ROWS]
        columns = reading_order(self.context.columns, self.context.text_columns)
        blamed = self.context.blamed_at(self.rows.step)
        first = np.arange(len(rollouts))
        numbers = {
            c.key: number_cells(c.written, self.values[c.key], first)
            for c in columns
            if c.key in self.values
        }
        rows = [
            RowView(
                str(rollout.n),
                [Cell(str(rollout.n), float(rollout.n))]
                + [
                    numbers[c.key][i] if c.key in numbers else text_cell(shown_text(rollout, c.key))
                    for c in columns
                ],
                href=self._address(rollout.n),
                badges=blamed.get(rollout.n, []),
            )
            for i, rollout in enumerate(rollouts)
        ]
        return TableView(
            "responses",
            message("Responses of step {step}", step=self.rows.step),
            [NUMBERED, *columns],
            rows,
            self._note(),
        )

    def _address(self, n: int) -> str | None:
        """Address of a response on its own page."""
        if self.context.one_file:
            return self.addresses.response(self.rows.step, n)
        return f"#r={n}"

    def _note(self) -> str:
        in_all, shown = len(self.rows.responses), len(self.rows.rollouts)
        if shown == in_all:
            return ""
        return message(
            "{some:count} of {all:count} shown, chosen by findings, by the extremes of every "
            "metric, and a seeded sample of the rest.",
            some=shown,
            all=in_all,
        )

    def data(self, findings: Sequence[Finding]) -> dict[str, Any]:
        """The rows-data node; see docs/page-data.md."""
        rollouts, context = self.rows.rollouts, self.context
        texts = {
            column.key: [
                None if i < STATIC_ROWS and "\r" not in (text or "") else text
                for i, text in enumerate(shown_text(rollout, column.key) for rollout in rollouts)
            ]
            for column in context.text_columns
        }
        return {
            "run": context.run,
            "step": str(self.rows.step),
            "total": len(self.rows.responses),
            "n": [rollout.n for rollout in rollouts],
            "columns": [c.data() for c in (*context.columns, *context.string_columns)],
            "values": dict(self.values),
            "strings": strings_of(self.rows.extras, self.places),
            "texts": texts,
            "turns": {str(r.n): r.turns for r in rollouts if r.turns},
            "ranks": {c.key: self._ranks(c.key) for c in context.columns},
            "where": [f"{r.file}:{r.line}" for r in rollouts],
            "badges": self._badges(findings),
            "highlights": sorted({text for f in findings for text in f.texts}),
            "metrics": token_metrics(rollouts),
            "nan": empty_metrics(rollouts),
            "prompts": self.rows.responses["prompt_id"].to_numpy()[self.places],
            **conversation_data(rollouts),
            **group_data(
                self.rows.responses,
                self.rows.extras,
                [rollout.n for rollout in rollouts],
                ground_truth=any(c.key == "ground_truth" for c in context.text_columns),
            ),
        }

    def _ranks(self, key: str) -> list[int | None]:
        """Ranks of the shown responses among all of the step, 1 is the largest value."""
        if key == SAMPLED_FIGURE and self.context.sampled:
            return [None] * len(self.places)
        values = self.in_all[key]
        known = np.sort(values[~np.isnan(values)])
        mine = self.values[key]
        ranks = (len(known) - np.searchsorted(known, mine, side="right") + 1).tolist()
        missing = np.isnan(mine).tolist()
        return [None if gone else rank for gone, rank in zip(missing, ranks, strict=True)]

    def _badges(self, findings: Sequence[Finding]) -> dict[str, list[dict[str, Any]]]:
        badges: dict[str, list[dict[str, Any]]] = {}
        for finding in findings:
            for ref in finding.evidence:
                if ref.step == self.rows.step:
                    badges.setdefault(str(ref.n), []).append(
                        {
                            "id": finding.id,
                            "severity": finding.severity,
                            "title": finding.title,
                            "token": ref.token,
                        }
                    )
        return badges


def values_of(key: str, responses: pd.DataFrame, extras: pd.DataFrame) -> NDArray[np.float64]:
    """A column of the response list over all given responses."""
    if key in responses.columns:
        return responses[key].to_numpy(np.float64)
    name = next(c for c in extras.columns if extra_key(c) == key)
    return extras[name].to_numpy(np.float64)


def strings_of(extras: pd.DataFrame, places: NDArray[np.intp]) -> dict[str, list[str | None]]:
    """Short strings as logged, of the rows at ``places``: column key -> strings."""
    return {
        extra_key(name): [_string(v) for v in extras[name].to_numpy()[places]]
        for name in extras.columns
        if not is_numeric(extras[name])
    }


def shown_text(rollout: Rollout, key: str) -> str | None:
    """A text of a response as cells have it: a prompt's chat template as turns."""
    if key == "prompt" and rollout.turns:
        return spoken(rollout.turns)
    text: str | None = getattr(rollout, key)
    return text


def number_cells(
    kind: NumberKind, values: NDArray[np.float64], places: NDArray[np.int64]
) -> list[Cell]:
    """The cells of a column at ``places``, the largest of all its values with the longest bar."""
    bars = _bars(values)
    shown = zip(places.tolist(), values[places].tolist(), strict=True)
    return [
        Cell(text, value, exact, bars[place])
        for place, (text, exact, value) in ((place, number(v, kind)) for place, v in shown)
    ]


def text_cell(text: str | None) -> Cell:
    """The cell of a text, which may not be logged."""
    return Cell("–", None, message("not logged")) if text is None else Cell(text)


def _bars(values: NDArray[np.float64]) -> list[int]:
    """Lengths of the bars in twentieths; none where a value is not finite."""
    size = np.where(np.isfinite(values), np.abs(values), 0.0)
    scale = float(size.max(initial=0.0)) or 1.0
    # The share first, as the page does it: a product may exceed 20, or overflow.
    return [math.ceil(20 * (one / scale)) for one in size.tolist()]


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _neighbours(step: int, shown: Sequence[int]) -> tuple[int | None, int | None]:
    place = shown.index(step)
    before = shown[place - 1] if place > 0 else None
    return before, shown[place + 1] if place + 1 < len(shown) else None


def _step_link(step: int | None, addresses: Addresses) -> Link | None:
    return None if step is None else link(message("Step {step}", step=step), addresses.step(step))


def steps_data(context: PageContext, prompts: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return what pages of steps say about the whole run: see docs/page-data.md.

    Args:
        context: what every page shares.
        prompts: where prompts are shown that occur at several steps, see ``shown_prompts``.
    """
    places = np.searchsorted(context.steps["step"].to_numpy(), context.shown_steps)
    rewards = context.steps["reward_mean"].to_numpy()[places]
    titles = {finding.id: finding.title for finding in context.verdict.findings}
    return {
        "steps": context.shown_steps,
        "findings": context.report.language.of(titles),
        "rewards": [finite_or_none(value) for value in rounded(rewards).tolist()],
        "prompts": prompts,
        "href": "#/steps/{step}" if context.one_file else "../" + step_file("{step}"),
    }


def rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Numbers to LISTED_DIGITS significant digits."""
    return np.array([float(f"{value:.{LISTED_DIGITS}g}") for value in values.tolist()])


def _sample_note(responses: pd.DataFrame, context: PageContext) -> str:
    if not context.sampled or SAMPLED_FIGURE not in context.tile_names:
        return ""
    responses = _judged(responses)
    counted = int(responses[SAMPLED_FIGURE].notna().sum())
    return distinct_2_note(sample_note(counted, len(responses)))


def _incomplete(context: PageContext, position: int) -> str:
    if not context.steps["incomplete"].iat[position]:
        return ""
    return message(
        "Incomplete: {some:count} of the usual {usual:count} responses.",
        some=context.steps["responses"].to_numpy()[position].item(),
        usual=context.usual_responses,
    )
