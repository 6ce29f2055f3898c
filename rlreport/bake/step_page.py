"""The page of one step: key figures, charts, the response list and its data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlreport.bake.context import (
    SAMPLED_FIGURE,
    PageContext,
    RunContext,
    StepJob,
    findings_of_responses,
    reading_order,
)
from rlreport.bake.findings import finding_view
from rlreport.bake.overview_page import distinct_2_note, step_figures
from rlreport.bake.pages import Addresses, packed_json, step_file
from rlreport.bake.panel import conversation_data, group_data
from rlreport.bake.token_codec import figures_present, pack_tokens, token_metrics
from rlreport.bake.views import Cell, ColumnView, Link, TableView, name_cell, number_cell, table
from rlreport.check.finding import Finding
from rlreport.columns import TOKEN_FIGURES
from rlreport.draw.chart import Chart, finite_or_none
from rlreport.draw.step import CHARTED, step_charts
from rlreport.figures.ragged import Floats
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

LEAST_CHARTED = 8  # Minimum number of responses for a step to have charts


@dataclass(frozen=True, slots=True)
class StepRows:
    """The columns of a step, computed once, and the responses that its page lists."""

    rollouts: list[Rollout]  # listed responses: highest reward first, NaN last; ties in log order
    with_tokens: list[Rollout]  # those whose token values the page has
    places: NDArray[np.int64]  # positions of ``rollouts`` in the columns
    # numeric columns of the list, of all responses of the step, and of those listed
    values: dict[str, Floats]
    listed: dict[str, Floats]
    texts: dict[str, list[str | None]]  # text columns of the listed responses


def step_rows(job: StepJob, shown: Sequence[Rollout], context: PageContext) -> StepRows:
    """Compute the columns of a step; ``shown`` are its responses in the order of ``job.shown``."""
    columns, places = job.columns, job.shown
    order = np.lexsort((columns["n"][places], -columns["reward"][places]))
    places, rollouts = places[order], [shown[i] for i in order.tolist()]
    keys = [*(column.key for column in context.columns), "prompt_id"]
    values = {key: columns[key].astype(np.float64, copy=False) for key in keys}
    return StepRows(
        rollouts,
        [shown[i] for i in order.tolist() if i < job.plan.with_tokens],
        places,
        values,
        {key: column[places] for key, column in values.items()},
        {c.key: [shown_text(r, c.key) for r in rollouts] for c in context.text_columns},
    )


def step_view(
    job: StepJob, rows: StepRows, context: PageContext, addresses: Addresses
) -> dict[str, Any]:
    """Return what a step's template prints."""
    plan, linked = job.plan, job.linked
    overview = addresses.page("overview")
    index = linked.index(plan.step)
    all_steps = [Link(message("all of them"), overview)]
    tokens = pack_tokens(
        rows.with_tokens,
        plan.digits,
        context.options,
        advantages_logged=context.advantages_logged,
    )
    data = _data(job, rows, context)
    # Training responses are judged; if there are none, those of validation.
    training = job.columns["validation"] == 0
    judged = training if training.any() else ~training
    charts: list[Chart] = []
    if np.count_nonzero(judged) >= LEAST_CHARTED:
        first = context.first_rewards[: 0 if plan.step == context.first_step else None]
        charted = {name: job.columns[name][judged].astype(np.float64) for name in CHARTED}
        charts = step_charts(charted, first, context.options.language)
    return {
        "step": str(plan.step),
        "previous": _step_link(linked[index - 1], addresses) if index else None,
        "next": _step_link(linked[index + 1], addresses) if index + 1 < len(linked) else None,
        "first": _step_link(linked[0], addresses),
        "all": Link(message("All steps"), overview + ("" if context.one_file else "#steps")),
        "figures": step_figures(context, job),
        "sample_note": _sample_note(job.columns[SAMPLED_FIGURE][judged], context),
        "charts": charts,
        "findings": [{**finding_view(f, addresses), "steps": all_steps} for f in job.findings],
        "responses": _table(job, rows, context, addresses),
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


def _table(job: StepJob, rows: StepRows, context: PageContext, addresses: Addresses) -> TableView:
    step, count, total = job.plan.step, len(rows.rollouts), len(job.columns["n"])
    columns = reading_order(context.columns, context.text_columns)
    values: dict[str, Iterable[Any]] = {
        c.key: rows.texts[c.key][:STATIC_ROWS]
        if c.key in rows.texts
        else number_cells(c.written, rows.listed[c.key])
        for c in columns
    }
    names = [rollout.n for rollout in rows.rollouts[:STATIC_ROWS]]
    findings = findings_of_responses(job.findings, step)
    note = ""
    if count < total:
        note = message(
            "{some:count} of {all:count} shown, chosen by findings, by the extremes of every "
            "metric, and a seeded sample of the rest.",
            some=count,
            all=total,
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
        total=len(rows.rollouts),
    )


def _data(job: StepJob, rows: StepRows, context: PageContext) -> dict[str, Any]:
    """Return the page's data about its responses, the JSON that its scripts read."""
    rollouts, keys = rows.rollouts, [column.key for column in context.columns]
    unranked = SAMPLED_FIGURE if context.sampled else ""
    present = figures_present(rollouts)
    truths = any(c.key == "ground_truth" for c in context.text_columns)
    return {
        "run": context.run,
        "step": str(job.plan.step),
        "total": len(job.columns["n"]),
        "n": [rollout.n for rollout in rollouts],
        "columns": [c.data() for c in (*context.columns, *context.string_columns)],
        "values": {key: rows.listed[key] for key in keys},
        "strings": strings_of(job, rows.places, context),
        "texts": rows.texts,
        "turns": {str(r.n): r.turns for r in rollouts if r.turns},
        "ranks": {
            key: [None] * len(rollouts)
            if key == unranked
            else _ranks(rows.values[key], rows.listed[key])
            for key in keys
        },
        "where": [f"{r.file}:{r.line}" for r in rollouts],
        "badges": _badges(job.findings, job.plan.step),
        "highlights": sorted({text for finding in job.findings for text in finding.texts}),
        "metrics": token_metrics(
            present, context.options, advantages_logged=context.advantages_logged
        ),
        "nan": [figure.label for figure in TOKEN_FIGURES if present.get(figure.name) is False],
        "prompts": job.columns["prompt_id"][rows.places],
        **conversation_data(rollouts),
        **group_data(job.columns, rows.places, ground_truth=truths),
    }


def _not_in_table(texts: Sequence[str | None]) -> list[str | None]:
    """Replace texts by None if the page's HTML table contains them unchanged."""
    return [
        None if i < STATIC_ROWS and "\r" not in (text or "") else text
        for i, text in enumerate(texts)
    ]


def _ranks(values: Floats, listed: Floats) -> list[int | None]:
    """Return the rank among ``values`` of each listed value: 1 = largest, None for NaN."""
    ascending = np.sort(values[~np.isnan(values)])
    ranks = len(ascending) + 1 - np.searchsorted(ascending, listed, side="right")
    return [rank or None for rank in np.where(np.isnan(listed), 0, ranks).tolist()]


def _badges(findings: Sequence[Finding], step: int) -> dict[str, list[dict[str, Any]]]:
    badges: dict[str, list[dict[str, Any]]] = {}
    for finding in findings:
        facts = {key: getattr(finding, key) for key in ("id", "severity", "name", "title")}
        for ref in finding.evidence:
            if ref.step == step:
                badges.setdefault(str(ref.n), []).append({**facts, "token": ref.token})
    return badges


def strings_of(
    job: StepJob, places: NDArray[np.int64], context: PageContext
) -> dict[str, list[str | None]]:
    """Return column key -> texts of the responses at ``places``, for the logged short strings."""
    return {
        c.key: [v if isinstance(v, str) else None for v in job.columns[c.key][places]]
        for c in context.string_columns
    }


def shown_text(rollout: Rollout, key: str) -> str | None:
    """Return a response's text as a table cell shows it: a prompt without chat template tags."""
    if key == "prompt" and rollout.turns:
        return spoken(rollout.turns)
    text: str | None = getattr(rollout, key)
    return text


def number_cells(kind: NumberKind, values: NDArray[np.float64]) -> list[Cell]:
    """Return the first STATIC_ROWS cells of a column, with bars scaled to its largest value."""
    static = zip(values[:STATIC_ROWS].tolist(), _bars(values), strict=False)
    return [number_cell(value, kind, bar=bar) for value, bar in static]


def _bars(values: NDArray[np.float64]) -> list[int]:
    """Return the lengths of bars in twentieths of a cell, 0 for values that are not finite."""
    size = np.where(np.isfinite(values), np.abs(values), 0.0)
    scale = float(size.max(initial=0.0)) or 1.0
    # Divide first, like the scripts of the page: a product may exceed 20 or overflow.
    bars: list[int] = np.ceil(20 * (size / scale)).astype(np.int64).tolist()
    return bars


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


def _sample_note(values: Floats, context: PageContext) -> str:
    if not context.sampled or SAMPLED_FIGURE not in context.tile_names:
        return ""
    return distinct_2_note(sample_note(int((~np.isnan(values)).sum()), len(values)))


def _incomplete(job: StepJob) -> str:
    figures = job.figures
    if not figures["incomplete"][-1]:
        return ""
    return message(
        "Incomplete: {some:count} of the usual {usual:count} responses.",
        some=figures["responses"][-1],
        usual=job.usual_responses,
    )
