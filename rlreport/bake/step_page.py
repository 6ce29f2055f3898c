"""The page of one step: key figures, charts, the response list and its data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.bake.addresses import Addresses, link, step_file
from rlreport.bake.context import (
    SAMPLED_FIGURE,
    PageContext,
    RunContext,
    StepFacts,
    extra_key,
    findings_of_responses,
    is_numeric,
    reading_order,
)
from rlreport.bake.conversation import conversation_data
from rlreport.bake.findings import finding_view
from rlreport.bake.groups import group_data
from rlreport.bake.key_figures import distinct_2_note, step_figures
from rlreport.bake.token_codec import empty_metrics, pack_tokens, token_metrics
from rlreport.bake.views import Cell, ColumnView, Link, TableView, name_cell, number, table
from rlreport.check.finding import Finding
from rlreport.draw.axes import finite_or_none
from rlreport.draw.chart import Chart
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


@dataclass(frozen=True)
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

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """Rows of ``responses`` that are shown, in the order of the list."""
        by_n = pd.Index(self.responses["n"])
        places: NDArray[np.intp] = by_n.get_indexer([r.n for r in self.rollouts])
        return places

    def values(self, key: str) -> NDArray[np.float64]:
        """Return a column of the list for all responses of the step."""
        return values_of(key, self.responses, self.extras)


def charts_of(responses: pd.DataFrame, context: PageContext, step: int) -> list[Chart]:
    """Return the charts of a step, not drawn yet; of few responses the list says more."""
    responses = _judged(responses)
    if len(responses) < LEAST_CHARTED:
        return []
    return step_charts(responses, context.first_rewards, step=step)


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
    rows: StepRows,
    facts: StepFacts,
    context: PageContext,
    addresses: Addresses,
    charts: Sequence[Chart],
) -> dict[str, Any]:
    """Return the view of a step's page."""
    overview, linked = addresses.page("overview"), facts.linked
    place = linked.index(rows.step)
    before = linked[place - 1] if place else None
    after = linked[place + 1] if place + 1 < len(linked) else None
    every = [link(message("all of them"), overview)]
    with_tokens = [r for r in rows.rollouts if r.n in rows.with_tokens]
    return {
        "step": str(rows.step),
        "previous": _step_link(before, addresses),
        "next": _step_link(after, addresses),
        "first": _step_link(linked[0], addresses),
        "all": link(message("All steps"), overview + ("" if context.one_file else "#steps")),
        "figures": step_figures(context, facts),
        "sample_note": _sample_note(rows.responses, context),
        "charts": charts,
        "findings": [{**finding_view(f, addresses), "steps": every} for f in facts.findings],
        "responses": _table(rows, facts, context, addresses),
        "data": _data(rows, facts, context),
        "tokens": pack_tokens(
            with_tokens,
            rows.digits,
            context.figures,
            advantages_logged=context.advantages_logged,
        ),
        "incomplete": _incomplete(facts),
        "in_progress": facts.in_progress,
    }


def _table(
    rows: StepRows, facts: StepFacts, context: PageContext, addresses: Addresses
) -> TableView:
    rollouts, places = rows.rollouts[:STATIC_ROWS], rows.places
    first = np.arange(len(rollouts))
    numeric = {column.key for column in context.columns}
    columns = reading_order(context.columns, context.text_columns)
    values: dict[str, Iterable[Any]] = {
        c.key: number_cells(c.written, rows.values(c.key)[places], first)
        if c.key in numeric
        else [shown_text(rollout, c.key) for rollout in rollouts]
        for c in columns
    }
    names = [rollout.n for rollout in rollouts]
    in_file = context.one_file
    findings = findings_of_responses(facts.findings, rows.step)
    note = ""
    if len(rows.rollouts) < len(rows.responses):
        note = message(
            "{some:count} of {all:count} shown, chosen by findings, by the extremes of every "
            "metric, and a seeded sample of the rest.",
            some=len(rows.rollouts),
            all=len(rows.responses),
        )
    return table(
        "responses",
        message("Responses of step {step}", step=rows.step),
        [NUMBERED, *columns],
        {**values, "n": map(name_cell, names)},
        ids=names,
        hrefs=[addresses.response(rows.step, n) if in_file else f"#r={n}" for n in names],
        badges=[findings.get(n, []) for n in names],
        note=note,
    )


def _data(rows: StepRows, facts: StepFacts, context: PageContext) -> dict[str, Any]:
    """Return the rows-data node; see docs/page-data.md."""
    rollouts, places = rows.rollouts, rows.places
    columns = {c.key: rows.values(c.key) for c in context.columns}
    unranked = {SAMPLED_FIGURE} if context.sampled else set()
    texts = {
        column.key: [
            None if i < STATIC_ROWS and "\r" not in (text or "") else text
            for i, text in enumerate(shown_text(rollout, column.key) for rollout in rollouts)
        ]
        for column in context.text_columns
    }
    return {
        "run": context.run,
        "step": str(rows.step),
        "total": len(rows.responses),
        "n": [rollout.n for rollout in rollouts],
        "columns": [c.data() for c in (*context.columns, *context.string_columns)],
        "values": {key: values[places] for key, values in columns.items()},
        "strings": strings_of(rows.extras, places),
        "texts": texts,
        "turns": {str(r.n): r.turns for r in rollouts if r.turns},
        "ranks": {
            key: [None] * len(places) if key in unranked else _ranks(values, places)
            for key, values in columns.items()
        },
        "where": [f"{r.file}:{r.line}" for r in rollouts],
        "badges": _badges(facts.findings, rows.step),
        "highlights": sorted({text for f in facts.findings for text in f.texts}),
        "metrics": token_metrics(rollouts),
        "nan": empty_metrics(rollouts),
        "prompts": rows.responses["prompt_id"].to_numpy()[places],
        **conversation_data(rollouts),
        **group_data(
            rows.responses,
            rows.extras,
            [rollout.n for rollout in rollouts],
            ground_truth=any(c.key == "ground_truth" for c in context.text_columns),
        ),
    }


def _ranks(values: NDArray[np.float64], places: NDArray[np.intp]) -> list[int | None]:
    """Return the ranks of some values among all, 1 is the largest; None for NaN."""
    known = np.sort(values[~np.isnan(values)])
    some = values[places]
    ranks = (len(known) - np.searchsorted(known, some, side="right") + 1).tolist()
    return [
        None if missing else rank
        for missing, rank in zip(np.isnan(some).tolist(), ranks, strict=True)
    ]


def _badges(findings: Sequence[Finding], step: int) -> dict[str, list[dict[str, Any]]]:
    badges: dict[str, list[dict[str, Any]]] = {}
    for finding in findings:
        facts = {"id": finding.id, "severity": finding.severity, "title": finding.title}
        for ref in finding.evidence:
            if ref.step == step:
                badges.setdefault(str(ref.n), []).append({**facts, "token": ref.token})
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


def _bars(values: NDArray[np.float64]) -> list[int]:
    """Lengths of the bars in twentieths; none where a value is not finite."""
    size = np.where(np.isfinite(values), np.abs(values), 0.0)
    scale = float(size.max(initial=0.0)) or 1.0
    # The share first, as the page does it: a product may exceed 20, or overflow.
    return [math.ceil(20 * (one / scale)) for one in size.tolist()]


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _step_link(step: int | None, addresses: Addresses) -> Link | None:
    return None if step is None else link(message("Step {step}", step=step), addresses.step(step))


def steps_data(context: RunContext, prompts: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return what pages of steps say about the whole run: see docs/page-data.md.

    Args:
        context: what the pages of the run need.
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


def _incomplete(facts: StepFacts) -> str:
    figures = facts.figures
    if not figures["incomplete"].iat[-1]:
        return ""
    return message(
        "Incomplete: {some:count} of the usual {usual:count} responses.",
        some=figures["responses"].tolist()[-1],
        usual=facts.usual_responses,
    )
