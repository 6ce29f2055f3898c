"""The page of one step: key figures, charts, the response list and its data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

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
from rlreport.bake.findings import finding_view
from rlreport.bake.key_figures import distinct_2_note, step_figures
from rlreport.bake.pages import Addresses, link, step_file
from rlreport.bake.panel import conversation_data, group_data
from rlreport.bake.token_codec import empty_metrics, pack_tokens, token_metrics
from rlreport.bake.views import Cell, ColumnView, Link, TableView, name_cell, number_cell, table
from rlreport.check.finding import Finding
from rlreport.choose import StepPlan
from rlreport.draw.axes import finite_or_none
from rlreport.draw.chart import Chart
from rlreport.draw.step import step_charts
from rlreport.draw.svg import drawn
from rlreport.rollout import Rollout
from rlreport.text.chat import spoken
from rlreport.text.messages import message, sample_note
from rlreport.text.numbers import NumberKind

STATIC_ROWS = 200
"""Maximum rows written as HTML; further rows of a list are included as data."""

NUMBERED = ColumnView("n", "#", help=message("position in the step, in log order"), written="count")

LISTED_DIGITS = 6
"""Significant digits of numbers in lists over all steps."""

LEAST_CHARTED = 8
"""Minimum number of responses for a step to have charts."""


@dataclass(frozen=True, slots=True)
class StepJob:
    """What a worker needs to render the page of a step.

    Attributes:
        plan: what the page shows.
        responses: RESPONSE_COLUMNS of all responses of the step.
        extras: their extra columns, with the same index.
        texts: numbers that replace redacted texts, see ``response_numbers``.
        facts: facts about the run that the page states.
    """

    plan: StepPlan
    responses: pd.DataFrame
    extras: pd.DataFrame
    texts: list[int]
    facts: StepFacts


def _best_first(rollouts: Sequence[Rollout], responses: pd.DataFrame) -> list[Rollout]:
    """Sort responses as pages list them: highest reward first, NaN last, then in log order."""
    ordered = responses.sort_values(["reward", "n"], ascending=[False, True])
    rank = {n: place for place, n in enumerate(ordered["n"].tolist())}
    return sorted(rollouts, key=lambda rollout: rank[rollout.n])


def _judged(responses: pd.DataFrame) -> pd.DataFrame:
    """Return the training responses of a step, or its validation responses if it has none."""
    trained = responses["validation"] == 0
    return responses[trained] if trained.any() else responses


def step_view(
    job: StepJob, shown: Sequence[Rollout], context: PageContext, addresses: Addresses
) -> dict[str, Any]:
    """Return the view of a step's page; ``shown`` is sorted by interest, highest first."""
    plan, facts, responses = job.plan, job.facts, job.responses
    overview, linked = addresses.page("overview"), facts.linked
    place = linked.index(plan.step)
    every = [link(message("all of them"), overview)]
    rollouts = _best_first(shown, responses)
    tokens = pack_tokens(
        _best_first(shown[: plan.with_tokens], responses),
        plan.digits,
        context.figures,
        advantages_logged=context.advantages_logged,
    )
    judged = _judged(responses)
    charts: list[Chart] = []
    if len(judged) >= LEAST_CHARTED:
        charts = step_charts(judged, context.first_rewards, step=plan.step)
    return {
        "step": str(plan.step),
        "previous": _step_link(linked[place - 1], addresses) if place else None,
        "next": _step_link(linked[place + 1], addresses) if place + 1 < len(linked) else None,
        "first": _step_link(linked[0], addresses),
        "all": link(message("All steps"), overview + ("" if context.one_file else "#steps")),
        "figures": step_figures(context, facts),
        "sample_note": _sample_note(judged, context),
        "charts": drawn(charts, context.report.language),
        "findings": [{**finding_view(f, addresses), "steps": every} for f in facts.findings],
        "responses": _table(job, rollouts, context, addresses),
        "data": _data(job, rollouts, context),
        "tokens": tokens,
        "incomplete": _incomplete(facts),
        "in_progress": facts.in_progress,
    }


def _table(
    job: StepJob, rollouts: Sequence[Rollout], context: PageContext, addresses: Addresses
) -> TableView:
    step, places = job.plan.step, _places(job, rollouts)
    static = rollouts[:STATIC_ROWS]
    first = np.arange(len(static))
    numeric = {column.key for column in context.columns}
    columns = reading_order(context.columns, context.text_columns)
    values: dict[str, Iterable[Any]] = {
        c.key: number_cells(c.written, values_of(c.key, job.responses, job.extras)[places], first)
        if c.key in numeric
        else [shown_text(rollout, c.key) for rollout in static]
        for c in columns
    }
    names = [rollout.n for rollout in static]
    findings = findings_of_responses(job.facts.findings, step)
    note = ""
    if len(rollouts) < len(job.responses):
        note = message(
            "{some:count} of {all:count} shown, chosen by findings, by the extremes of every "
            "metric, and a seeded sample of the rest.",
            some=len(rollouts),
            all=len(job.responses),
        )
    return table(
        "responses",
        message("Responses of step {step}", step=step),
        [NUMBERED, *columns],
        {**values, "n": map(name_cell, names)},
        ids=names,
        hrefs=[addresses.response(step, n) if context.one_file else f"#r={n}" for n in names],
        badges=[findings.get(n, []) for n in names],
        note=note,
    )


def _places(job: StepJob, rollouts: Sequence[Rollout]) -> NDArray[np.intp]:
    """Return the rows of ``job.responses`` that are shown, in the order of the list."""
    places: NDArray[np.intp] = pd.Index(job.responses["n"]).get_indexer([r.n for r in rollouts])
    return places


def _data(job: StepJob, rollouts: Sequence[Rollout], context: PageContext) -> dict[str, Any]:
    """Return the rows-data node; see docs/page-data.md."""
    responses, places, findings = job.responses, _places(job, rollouts), job.facts.findings
    columns = {c.key: values_of(c.key, responses, job.extras) for c in context.columns}
    unranked = {SAMPLED_FIGURE} if context.sampled else set()
    texts = {
        column.key: [
            None if i < STATIC_ROWS and "\r" not in (text or "") else text
            for i, text in enumerate(shown_text(rollout, column.key) for rollout in rollouts)
        ]
        for column in context.text_columns
    }
    names = [rollout.n for rollout in rollouts]
    truths = any(c.key == "ground_truth" for c in context.text_columns)
    return {
        "run": context.run,
        "step": str(job.plan.step),
        "total": len(responses),
        "n": names,
        "columns": [c.data() for c in (*context.columns, *context.string_columns)],
        "values": {key: values[places] for key, values in columns.items()},
        "strings": strings_of(job.extras, places),
        "texts": texts,
        "turns": {str(r.n): r.turns for r in rollouts if r.turns},
        "ranks": {
            key: [None] * len(places) if key in unranked else _ranks(values, places)
            for key, values in columns.items()
        },
        "where": [f"{r.file}:{r.line}" for r in rollouts],
        "badges": _badges(findings, job.plan.step),
        "highlights": sorted({text for finding in findings for text in finding.texts}),
        "metrics": token_metrics(rollouts),
        "nan": empty_metrics(rollouts),
        "prompts": responses["prompt_id"].to_numpy()[places],
        **conversation_data(rollouts),
        **group_data(responses, job.extras, names, ground_truth=truths),
    }


def _ranks(values: NDArray[np.float64], places: NDArray[np.intp]) -> list[int | None]:
    """Return the ranks of some values among all, 1 is the largest; None for NaN."""
    ranks = pd.Series(values).rank(method="min", ascending=False).to_numpy()[places]
    return [None if math.isnan(rank) else int(rank) for rank in ranks.tolist()]


def _badges(findings: Sequence[Finding], step: int) -> dict[str, list[dict[str, Any]]]:
    badges: dict[str, list[dict[str, Any]]] = {}
    for finding in findings:
        facts = {"id": finding.id, "severity": finding.severity, "title": finding.title}
        for ref in finding.evidence:
            if ref.step == step:
                badges.setdefault(str(ref.n), []).append({**facts, "token": ref.token})
    return badges


def values_of(key: str, responses: pd.DataFrame, extras: pd.DataFrame) -> NDArray[np.float64]:
    """Return the values of a column of the response list for all given responses."""
    if key in responses.columns:
        return responses[key].to_numpy(np.float64)
    name = next(c for c in extras.columns if extra_key(c) == key)
    return extras[name].to_numpy(np.float64)


def strings_of(extras: pd.DataFrame, places: NDArray[np.intp]) -> dict[str, list[str | None]]:
    """Return the logged short strings of the rows at ``places``: column key -> strings."""
    return {
        extra_key(name): [v if isinstance(v, str) else None for v in values.to_numpy()[places]]
        for name, values in extras.items()
        if not is_numeric(values)
    }


def shown_text(rollout: Rollout, key: str) -> str | None:
    """Return a text of a response as shown in cells; chat templates of prompts become turns."""
    if key == "prompt" and rollout.turns:
        return spoken(rollout.turns)
    text: str | None = getattr(rollout, key)
    return text


def number_cells(
    kind: NumberKind, values: NDArray[np.float64], places: NDArray[np.int64]
) -> list[Cell]:
    """Return the cells of a column at ``places``; the largest value has the longest bar."""
    bars = _bars(values)
    numbers = zip(places.tolist(), values[places].tolist(), strict=True)
    return [number_cell(value, kind)._replace(bar=bars[place]) for place, value in numbers]


def _bars(values: NDArray[np.float64]) -> list[int]:
    """Return the lengths of bars in twentieths, 0 for values that are not finite."""
    size = np.where(np.isfinite(values), np.abs(values), 0.0)
    scale = float(size.max(initial=0.0)) or 1.0
    # Divide first, like the page: a product may exceed 20 or overflow.
    return [math.ceil(20 * (one / scale)) for one in size.tolist()]


def _step_link(step: int, addresses: Addresses) -> Link:
    return link(message("Step {step}", step=step), addresses.step(step))


def steps_data(context: RunContext, prompts: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return the data about the whole run for pages of steps, see docs/page-data.md.

    Args:
        context: data shared by the pages of the run.
        prompts: steps that show a prompt that occurs at several steps, see ``shown_prompts``.
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
    """Return the values rounded to LISTED_DIGITS significant digits."""
    return np.array([float(f"{value:.{LISTED_DIGITS}g}") for value in values.tolist()])


def _sample_note(responses: pd.DataFrame, context: PageContext) -> str:
    if not context.sampled or SAMPLED_FIGURE not in context.tile_names:
        return ""
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
