"""The page of one step: key figures, charts, the response list and its data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.bake.context import (
    SAMPLED_FIGURE,
    PageContext,
    RunContext,
    StepJob,
    extra_key,
    findings_of_responses,
    is_numeric,
    reading_order,
)
from rlreport.bake.findings import finding_view
from rlreport.bake.overview_page import distinct_2_note, step_figures
from rlreport.bake.pages import Addresses, packed_json, step_file
from rlreport.bake.panel import GROUP_COLUMNS, conversation_data, group_data, group_figures
from rlreport.bake.token_codec import empty_metrics, pack_tokens, token_metrics
from rlreport.bake.views import Cell, ColumnView, Link, TableView, name_cell, number_cell, table
from rlreport.check.finding import Finding
from rlreport.draw.axes import finite_or_none
from rlreport.draw.chart import Chart
from rlreport.draw.step import step_charts
from rlreport.rollout import Rollout
from rlreport.text.chat import spoken
from rlreport.text.messages import message, sample_note
from rlreport.text.numbers import NumberKind

# Maximum table rows that are written as HTML; further rows are in the page's data only
STATIC_ROWS = 50

NUMBERED = ColumnView("n", "#", help=message("position in the step, in log order"), written="count")

# Significant digits of numbers in data of all steps, e.g. the responses page's table
LISTED_DIGITS = 6

# Keys of a step's page data that the responses page loads, too; see docs/page-data.md
_OF_TEXTS = (
    *("step", "total", "n", "texts", "turns", "where", "badges", "highlights", "prompts"),
    *("conversation", "errors", "groups", "siblings", "right"),
)

_OF_GROUPS = frozenset(column.key for column in GROUP_COLUMNS)

LEAST_CHARTED = 8  # Minimum number of responses for a step to have charts


def _best_first(rollouts: Sequence[Rollout], responses: pd.DataFrame) -> list[Rollout]:
    """Sort responses as pages list them: highest reward first, NaN last; ties in log order."""
    n = responses["n"].to_numpy()
    order = np.lexsort((n, -responses["reward"].to_numpy()))
    rank = {number: index for index, number in enumerate(n[order].tolist())}
    return sorted(rollouts, key=lambda rollout: rank[rollout.n])


def _judged(responses: pd.DataFrame) -> pd.DataFrame:
    """Return a step's training responses; if it has none, its validation responses."""
    trained = responses["validation"] == 0
    return responses[trained] if trained.any() else responses


def step_view(
    job: StepJob, shown: Sequence[Rollout], context: PageContext, addresses: Addresses
) -> dict[str, Any]:
    """Return what a step's template prints; ``shown`` has the most interesting responses first."""
    plan, responses, linked = job.plan, job.responses, job.linked
    overview = addresses.page("overview")
    index = linked.index(plan.step)
    all_steps = [Link(message("all of them"), overview)]
    rollouts = _best_first(shown, responses)
    tokens = pack_tokens(
        _best_first(shown[: plan.with_tokens], responses),
        plan.digits,
        context.options,
        advantages_logged=context.advantages_logged,
    )
    data = _data(job, rollouts, context)
    judged = _judged(responses)
    charts: list[Chart] = []
    if len(judged) >= LEAST_CHARTED:
        charts = step_charts(
            judged, context.first_rewards, step=plan.step, language=context.options.language
        )
    return {
        "step": str(plan.step),
        "previous": _step_link(linked[index - 1], addresses) if index else None,
        "next": _step_link(linked[index + 1], addresses) if index + 1 < len(linked) else None,
        "first": _step_link(linked[0], addresses),
        "all": Link(message("All steps"), overview + ("" if context.one_file else "#steps")),
        "figures": step_figures(context, job),
        "sample_note": _sample_note(judged, context),
        "charts": charts,
        "findings": [{**finding_view(f, addresses), "steps": all_steps} for f in job.findings],
        "responses": _table(job, rollouts, context, addresses),
        "data": {
            **data,
            "texts": {key: _not_in_table(texts) for key, texts in data["texts"].items()},
        },
        "texts": packed_json(
            context.options.language.of({key: data[key] for key in _OF_TEXTS if key in data})
        ),
        "tokens": tokens,
        "incomplete": _incomplete(job),
        "in_progress": job.in_progress,
    }


def _table(
    job: StepJob, rollouts: Sequence[Rollout], context: PageContext, addresses: Addresses
) -> TableView:
    step, places = job.plan.step, places_of(job, rollouts)
    static = rollouts[:STATIC_ROWS]
    numeric = {column.key for column in context.columns}
    columns = reading_order(context.columns, context.text_columns)
    values: dict[str, Iterable[Any]] = {
        c.key: number_cells(c.written, values_of(c.key, job)[places])
        if c.key in numeric
        else [shown_text(rollout, c.key) for rollout in static]
        for c in columns
    }
    names = [rollout.n for rollout in static]
    findings = findings_of_responses(job.findings, step)
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
        total=len(rollouts),
    )


def places_of(job: StepJob, rollouts: Sequence[Rollout]) -> NDArray[np.intp]:
    """Return the positions of ``rollouts`` in ``job.responses``, in the order of ``rollouts``."""
    places: NDArray[np.intp] = pd.Index(job.responses["n"]).get_indexer([r.n for r in rollouts])
    return places


def _data(job: StepJob, rollouts: Sequence[Rollout], context: PageContext) -> dict[str, Any]:
    """Return the page's data about its responses, the JSON that its scripts read."""
    responses, places = job.responses, places_of(job, rollouts)
    columns = {c.key: values_of(c.key, job) for c in context.columns}
    unranked = {SAMPLED_FIGURE} if context.sampled else set()
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
        "texts": {
            column.key: [shown_text(rollout, column.key) for rollout in rollouts]
            for column in context.text_columns
        },
        "turns": {str(r.n): r.turns for r in rollouts if r.turns},
        "ranks": {
            key: [None] * len(places) if key in unranked else _ranks(values, places)
            for key, values in columns.items()
        },
        "where": [f"{r.file}:{r.line}" for r in rollouts],
        "badges": _badges(job.findings, job.plan.step),
        "highlights": sorted({text for finding in job.findings for text in finding.texts}),
        "metrics": token_metrics(
            rollouts, context.options, advantages_logged=context.advantages_logged
        ),
        "nan": empty_metrics(rollouts),
        "prompts": responses["prompt_id"].to_numpy()[places],
        **conversation_data(rollouts),
        **group_data(responses, job.extras, names, ground_truth=truths),
    }


def _not_in_table(texts: Sequence[str | None]) -> list[str | None]:
    """Replace texts by None if the page's HTML table contains them unchanged."""
    return [
        None if i < STATIC_ROWS and "\r" not in (text or "") else text
        for i, text in enumerate(texts)
    ]


def _ranks(values: NDArray[np.float64], places: NDArray[np.intp]) -> list[int | None]:
    """Return the rank among all values of each value at ``places``: 1 = largest, None for NaN."""
    ascending, selection = np.sort(values[~np.isnan(values)]), values[places]
    ranks = len(ascending) + 1 - np.searchsorted(ascending, selection, side="right")
    pairs = zip(selection.tolist(), ranks.tolist(), strict=True)
    return [None if math.isnan(value) else rank for value, rank in pairs]


def _badges(findings: Sequence[Finding], step: int) -> dict[str, list[dict[str, Any]]]:
    badges: dict[str, list[dict[str, Any]]] = {}
    for finding in findings:
        facts = {key: getattr(finding, key) for key in ("id", "severity", "name", "title")}
        for ref in finding.evidence:
            if ref.step == step:
                badges.setdefault(str(ref.n), []).append({**facts, "token": ref.token})
    return badges


def values_of(key: str, job: StepJob) -> NDArray[np.float64]:
    """Return the values of a column of the response list for all responses of a step."""
    if key in _OF_GROUPS:
        return group_figures(job.responses)[key]
    if key in job.responses.columns:
        return job.responses[key].to_numpy(np.float64)
    name = next(c for c in job.extras.columns if extra_key(c) == key)
    return job.extras[name].to_numpy(np.float64)


def strings_of(extras: pd.DataFrame, places: NDArray[np.intp]) -> dict[str, list[str | None]]:
    """Return column key -> texts of the rows at ``places``, for the text columns of ``extras``."""
    return {
        extra_key(name): [v if isinstance(v, str) else None for v in values.to_numpy()[places]]
        for name, values in extras.items()
        if not is_numeric(values)
    }


def shown_text(rollout: Rollout, key: str) -> str | None:
    """Return a response's text as a table cell shows it: a prompt without chat template tags."""
    if key == "prompt" and rollout.turns:
        return spoken(rollout.turns)
    text: str | None = getattr(rollout, key)
    return text


def number_cells(kind: NumberKind, values: NDArray[np.float64]) -> Iterator[Cell]:
    """Yield the cells of a column of numbers, with bars scaled to the largest absolute value."""
    for value, bar in zip(values.tolist(), _bars(values), strict=True):
        yield number_cell(value, kind)._replace(bar=bar)


def _bars(values: NDArray[np.float64]) -> list[int]:
    """Return the lengths of bars in twentieths of a cell, 0 for values that are not finite."""
    size = np.where(np.isfinite(values), np.abs(values), 0.0)
    scale = float(size.max(initial=0.0)) or 1.0
    # Divide first, like the scripts of the page: a product may exceed 20 or overflow.
    return [math.ceil(20 * (value / scale)) for value in size.tolist()]


def _step_link(step: int, addresses: Addresses) -> Link:
    return Link(message("Step {step}", step=step), addresses.step(step))


def steps_data(context: RunContext, prompts: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return the data about the whole run that each step's page loads; see docs/page-data.md.

    Args:
        context: data shared by the pages of the run.
        prompts: prompt id -> [step, n, step, n, …] of its responses, from ``shown_prompts``.
    """
    places = np.searchsorted(context.steps["step"].to_numpy(), context.shown_steps)
    rewards = context.steps["reward_mean"].to_numpy()[places]
    titles = {finding.id: finding.title for finding in context.verdict.findings}
    return {
        "steps": context.shown_steps,
        "findings": context.options.language.of(titles),
        "rewards": [finite_or_none(value) for value in rounded(rewards).tolist()],
        "prompts": prompts,
        "href": "#/steps/{step}" if context.one_file else "../" + step_file("{step}"),
        "prompt": Addresses(root="../", one_file=context.one_file).prompt("{prompt}"),
    }


def rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values rounded to LISTED_DIGITS significant digits."""
    return np.array([float(f"{value:.{LISTED_DIGITS}g}") for value in values.tolist()])


def _sample_note(responses: pd.DataFrame, context: PageContext) -> str:
    if not context.sampled or SAMPLED_FIGURE not in context.tile_names:
        return ""
    counted = int(responses[SAMPLED_FIGURE].notna().sum())
    return distinct_2_note(sample_note(counted, len(responses)))


def _incomplete(job: StepJob) -> str:
    figures = job.figures
    if not figures["incomplete"].iat[-1]:
        return ""
    return message(
        "Incomplete: {some:count} of the usual {usual:count} responses.",
        some=figures["responses"].tolist()[-1],
        usual=job.usual_responses,
    )
