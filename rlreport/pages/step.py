"""The page of one step: key figures, charts, the response list, and the data of its panel.

``docs/page-data.md`` specifies the data that its scripts read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check import trust
from rlreport.check.finding import ToldFinding
from rlreport.columns import TOKEN_FIGURES
from rlreport.draw.chart import Chart, finite_or_none
from rlreport.draw.step_charts import CHARTED, step_charts
from rlreport.figures.ragged import Floats
from rlreport.pages.context import (
    PageContext,
    RunReport,
    StepJob,
    findings_of_responses,
)
from rlreport.pages.figures import figures_in_words, step_figures
from rlreport.pages.findings import FindingLink, finding_link
from rlreport.pages.html import packed_json
from rlreport.pages.listed import (
    CITED,
    FINDING,
    RESPONSE_TEXT,
    SAMPLED_FIGURE,
    list_filters,
    listed_prompt,
    prompt_prefixes,
    reading_order,
)
from rlreport.pages.page import Addresses
from rlreport.pages.page_data import BadgeData, RowsData, RunData, StepTextsData
from rlreport.pages.plan import shown_prompts
from rlreport.pages.presets import cut_off, presets
from rlreport.pages.redact import TOKEN
from rlreport.pages.response_panel import (
    branch_data,
    conversation_data,
    grading_data,
    group_data,
)
from rlreport.pages.response_text import ResponseText
from rlreport.pages.table import (
    Cell,
    ColumnView,
    KeyFigure,
    Link,
    TableView,
    fitting,
    name_cell,
    number_cell,
    table,
)
from rlreport.pages.token_data import pack_tokens, token_metrics
from rlreport.pages.widths import SHORT_STRINGS
from rlreport.read.rollouts import Rollout
from rlreport.read.token_columns import TokenColumns
from rlreport.summarise.steps import NO_VARIANCE
from rlreport.tables import RowRole, counted_in_all
from rlreport.text.messages import listed, message
from rlreport.text.numbers import NumberKind

# Columns that the response list has only if responses have groups
_GROUP_STD = message("population std of the group's rewards")
GROUP_COLUMNS = (
    ColumnView(
        "group",
        message("Group no."),
        help=message("the same for all responses of a group"),
        hidden=True,
        written="count",
    ),
    ColumnView(
        "group_mean",
        message("Group mean"),
        help=message("mean reward of the group"),
        hidden=True,
    ),
    ColumnView("group_std", message("Group std"), help=_GROUP_STD, hidden=True),
    ColumnView(
        "group_advantage",
        message("Advantage in group"),
        message("computed"),
        help=message("(reward − group mean) / group std, computed from the rewards"),
        hidden=True,
    ),
)


def group_figures(responses: pd.DataFrame) -> dict[str, NDArray[np.float64]]:
    """Return the values of GROUP_COLUMNS of all responses: column key -> float64 (rows,).

    NaN rewards are ignored; all columns are NaN for groups with fewer than two non-NaN rewards.
    The advantage is that of GRPO (Shao et al. 2024) without ε, NaN if the std is below NO_VARIANCE:
    such a std is a rounding error.
    """
    of_group = responses.groupby(["step", "group"])["reward"]
    several = of_group.transform("count") > 1
    mean = of_group.transform("mean").where(several)
    std = of_group.transform("std", ddof=0).where(several)
    advantage = ((responses["reward"] - mean) / std).where(std >= NO_VARIANCE)
    parts = (responses["group"].where(several), mean, std, advantage)
    return {
        column.key: part.to_numpy(np.float64)
        for column, part in zip(GROUP_COLUMNS, parts, strict=True)
    }


# Maximum table rows that are written as HTML; further rows are in the page's data only
STATIC_ROWS = 50

NUMBERED = ColumnView(
    "n", "#", help=message("position in the step, in log order"), written="count"
)

FULL_BAR = 20  # Length of the longest bar behind numbers, see ``Cell.bar``

LEAST_CHARTED = 8  # Minimum number of responses for a step to have charts


@dataclass(frozen=True, slots=True)
class StepRows:
    """The columns of a step, computed once, and the responses that its page lists."""

    # listed responses: highest reward first, NaN last; ties in log order
    rollouts: list[Rollout]
    tokens: TokenColumns  # of those whose token values the page has
    places: NDArray[np.int64]  # positions of ``rollouts`` in the columns
    # numeric columns of the list, of all responses of the step, and of those listed
    values: dict[str, Floats]
    listed: dict[str, Floats]
    texts: dict[str, list[str | None]]  # text columns of the listed responses
    prefixes: tuple[str, ...]  # beginnings that most responses of the step share


def step_rows(job: StepJob, shown: Sequence[Rollout], context: PageContext) -> StepRows:
    """Compute the columns of a step, and the order of its list: highest reward first.

    ``shown`` are the responses of the page in the order of ``job.shown``: by interest.
    """
    columns = job.columns
    numbers = columns["n"][job.shown]
    rewards = columns["reward"][job.shown]
    order = np.lexsort((numbers, -rewards))  # the last key counts most; NaN are last
    places = job.shown[order]
    rollouts = [shown[i] for i in order.tolist()]
    keys = [*(column.key for column in context.columns), "prompt_id"]
    # All responses of the step, in log order: ranks are among all of them.
    values = {key: columns[key].astype(np.float64, copy=False) for key in keys}
    listed = {key: column[places] for key, column in values.items()}
    prefixes: tuple[str, ...] = ()
    if not context.options.redact:
        shown_texts = [one.response for one in rollouts if not one.hidden]
        prefixes = prompt_prefixes(shown_texts)
    texts = {
        column.key: _texts(rollouts, column.key, context)
        for column in context.text_columns
    }
    if RESPONSE_TEXT.key in texts:
        is_cut = cut_off(listed, strings_of(job, places, context)).tolist()
        texts[RESPONSE_TEXT.key] = [
            ResponseText.of(rollout.response, prefixes, is_cut=cut)
            for rollout, cut in zip(rollouts, is_cut, strict=True)
        ]
    return StepRows(
        rollouts=rollouts,
        tokens=_tokens(job, order, context),
        places=places,
        values=values,
        listed=listed,
        texts=texts,
        prefixes=prefixes,
    )


def _tokens(
    job: StepJob, order: NDArray[np.int64], context: PageContext
) -> TokenColumns:
    """Return the tokens of the first responses of the plan, in the order of the list."""
    rows = job.selection.rows[order[order < job.plan.with_tokens]]
    rollouts = job.selection.rollouts
    tokens = TokenColumns.read(rollouts, rows)
    if context.options.redact:
        return tokens.masked(TOKEN)
    if rollouts.mask is None:
        return tokens
    numbers = rollouts.places.n[rollouts.indices(rows)].tolist()
    hides = map(rollouts.mask.hides, rows.tolist())
    hidden = {n for n, hides_row in zip(numbers, hides, strict=True) if hides_row}
    is_hidden = np.array([n in hidden for n in tokens.n], np.bool_)
    return tokens.masked_at(is_hidden, TOKEN)


def _texts(
    rollouts: Sequence[Rollout], key: str, context: PageContext
) -> list[str | None]:
    """Return a text column; prompts without the tags of a chat template."""
    if key == "prompt":
        return [listed_prompt(rollout, context.prefixes) for rollout in rollouts]
    return [getattr(rollout, key) for rollout in rollouts]


@dataclass(frozen=True, slots=True)
class StepView:
    """What the page of a step shows."""

    step: str
    incomplete: bool
    in_progress: bool
    previous: Link | None
    next: Link | None
    first: Link
    all: Link  # to the overview's table of steps
    figures: list[KeyFigure]
    in_words: str  # the figures as a line of text
    findings: list[FindingLink]
    charts: list[Chart]
    responses: TableView
    data: RowsData  # for scripts; without the texts that the table has
    texts: str  # packed, for the responses page


def step_view(
    job: StepJob, rows: StepRows, context: PageContext, addresses: Addresses
) -> StepView:
    """Return what the page of a step shows; links lead to other steps that have a page."""
    step = job.plan.step
    linked = job.linked
    index = linked.index(step)
    previous = None
    if index > 0:
        previous = _step_link(linked[index - 1], addresses)
    following = None
    if index + 1 < len(linked):
        following = _step_link(linked[index + 1], addresses)
    overview = addresses.page("overview")
    # In one file, what follows "#" is the name of a page.
    table_of_steps = overview if context.one_file else f"{overview}#steps"
    figures = step_figures(context, job)
    data = rows_data(job, rows, context)
    # The page has no text twice; the responses page, which has no such table, gets all of them.
    not_in_table = {key: _not_in_table(texts) for key, texts in rows.texts.items()}
    return StepView(
        step=str(step),
        incomplete=job.figures["incomplete"][-1],  # of this step, which is the last
        in_progress=job.in_progress,
        previous=previous,
        next=following,
        first=_step_link(linked[0], addresses),
        all=Link(message("All steps"), table_of_steps),
        figures=figures,
        in_words=figures_in_words(figures),
        findings=[finding_link(finding, addresses) for finding in job.findings],
        charts=_charts(job, context),
        responses=_responses_table(job, rows, context, addresses),
        data={**data, "texts": not_in_table},
        texts=packed_json(context.options.language.of(_texts_data(data))),
    )


def step_tokens(job: StepJob, rows: StepRows, context: PageContext) -> str:
    """Return the packed tokens of a step's responses, "" if none are kept."""
    has_values = rows.tokens.has_values
    metrics = token_metrics(
        has_values, context.options, advantages_logged=context.advantages_logged
    )
    nan = [f.label for f in TOKEN_FIGURES if has_values.get(f.name) is False]
    of = context.options.language.of
    return pack_tokens(rows.tokens, job.plan.digits, of(metrics), of(nan))


def _charts(job: StepJob, context: PageContext) -> list[Chart]:
    """Return the charts of a step, [] if it has too few responses."""
    # Training responses are judged; if there are none, those of validation.
    judged = job.columns["validation"] == RowRole.TRAINING
    if not judged.any():
        judged = ~judged
    if np.count_nonzero(judged) < LEAST_CHARTED:
        return []
    columns = {}
    for name in CHARTED:
        columns[name] = job.columns[name][judged].astype(np.float64)
    is_first = job.plan.step == context.first_step
    # The first step is not compared with itself.
    first_rewards = context.first_rewards[:0] if is_first else context.first_rewards
    return step_charts(columns, first_rewards, context.options.language)


def _responses_table(
    job: StepJob, rows: StepRows, context: PageContext, addresses: Addresses
) -> TableView:
    """Return the first STATIC_ROWS responses as a table, which scripts extend to all rows."""
    step = job.plan.step
    count = len(rows.rollouts)
    total = len(job.columns["n"])
    names = [rollout.n for rollout in rows.rollouts[:STATIC_ROWS]]
    columns: dict[ColumnView, Sequence[Any]] = {NUMBERED: list(map(name_cell, names))}
    for column in reading_order(context.columns, context.text_columns):
        if column.key in rows.texts:
            columns[column] = rows.texts[column.key][:STATIC_ROWS]
        else:  # all values are given, as bars are scaled to the largest of them
            columns[column] = number_cells(column.written, rows.listed[column.key])
    findings = findings_of_responses(job.findings, step)
    note = ""
    if count < total:
        note = message(
            "{some:count} of {all} shown: those cited by findings, the extremes of every metric, "
            "and a random sample of the rest.",
            some=count,
            all=counted_in_all(job.columns["validation"]),
        )
    if context.one_file:
        hrefs = [addresses.response(step, n) for n in names]
    else:  # a response is a part of this page
        hrefs = [f"#r={n}" for n in names]
    return table(
        "responses",
        message("Responses of step {step}", step=step),
        fitting(columns),
        ids=names,
        hrefs=hrefs,
        badges=[findings.get(n, []) for n in names],
        note=note,
    )


def rows_data(job: StepJob, rows: StepRows, context: PageContext) -> RowsData:
    """Return the rows of a step's page for scripts, with all texts; see docs/page-data.md."""
    rollouts = rows.rollouts
    keys = [column.key for column in context.columns]
    described = [*context.columns, *context.string_columns]
    values: dict[str, Floats] = {key: rows.listed[key] for key in keys}
    strings = strings_of(job, rows.places, context)
    cited_by = findings_of_responses(job.findings, job.plan.step)
    if cited_by:
        names = [cited_by.get(rollout.n, []) for rollout in rollouts]
        numbers = [float(len(one)) for one in names]
        described += [CITED, replace(FINDING, hidden=True, width=SHORT_STRINGS)]
        values[CITED.key] = np.array(numbers)
        strings[FINDING.key] = [listed(one) if one else None for one in names]
    data: RowsData = {
        "run": context.title,
        "step": str(job.plan.step),
        "total": len(job.columns["n"]),
        "n": [rollout.n for rollout in rollouts],
        "columns": [column.data() for column in described],
        "values": values,
        "strings": strings,
        "texts": rows.texts,
        "turns": {str(r.n): r.turns for r in rollouts if r.turns},
        "ranks": _ranks_of_step(job, rows, context),
        "where": [f"{r.file}:{r.line}" for r in rollouts],
        "badges": _badges(job.findings, job.plan.step),
        "highlights": _highlights(job.findings),
        "prompts": job.columns["prompt_id"][rows.places],
    }
    parts = (
        conversation_data(rollouts),
        grading_data(rollouts),
        group_data(job.columns, rows.places),
        branch_data(job.columns, rows.places),
    )
    for part in parts:
        data.update(cast("RowsData", part))  # they have some of its keys
    prefixes = {"prompt": context.prefixes, "response": rows.prefixes}
    if any(prefixes.values()):
        data["prefixes"] = {key: shared for key, shared in prefixes.items() if shared}
    filters = list_filters(context)
    if filters:
        data["filters"] = filters
    if np.isfinite(job.columns["advantage_logged_mean"]).any():
        data["advantage"] = "logged"
    data["presets"] = presets(values, strings, distrusting=_distrusting(job))
    return data


def _distrusting(job: StepJob) -> ToldFinding | None:
    """Return the finding that says that a low reward is no sign of a bad response of the step.

    It cites one of them: whether it holds for a step without is in ``RunData.overpaid``.
    """
    citing = [finding for finding in job.findings if finding.evidence]
    return trust.first_distrusting(citing)


def _texts_data(data: RowsData) -> StepTextsData:
    """Return the part of a step's rows that the responses page loads, too."""
    keys = StepTextsData.__annotations__
    return cast("StepTextsData", {k: v for k, v in data.items() if k in keys})


def _not_in_table(texts: Sequence[str | None]) -> list[str | None]:
    """Return texts for scripts, None for those that scripts can read from the page's table.

    Browsers replace a carriage return in HTML: a text that has one cannot be read from there.
    """
    return [
        None if i < STATIC_ROWS and "\r" not in (text or "") else text
        for i, text in enumerate(texts)
    ]


def _ranks_of_step(
    job: StepJob, rows: StepRows, context: PageContext
) -> dict[str, list[int | None]]:
    """Return column key -> the ranks of the listed responses among all of the step but branches."""
    is_ranked = job.columns["validation"] != RowRole.BRANCH
    ranks: dict[str, list[int | None]] = {}
    for column in context.columns:
        listed = rows.listed[column.key]
        # A rank among a sample would not be one in the step.
        if context.sampled and column.key == SAMPLED_FIGURE:
            ranks[column.key] = [None] * len(listed)
        else:
            ranks[column.key] = _ranks(rows.values[column.key][is_ranked], listed)
    return ranks


def _ranks(values: Floats, listed: Floats) -> list[int | None]:
    """Return the rank among ``values`` of each listed value: 1 = largest, None for NaN."""
    ascending = np.sort(values[~np.isnan(values)])
    # One more than the number of larger values
    ranks = len(ascending) + 1 - np.searchsorted(ascending, listed, side="right")
    ranks = np.where(np.isnan(listed), 0, ranks)
    return [rank or None for rank in ranks.tolist()]


def _badges(findings: Sequence[ToldFinding], step: int) -> dict[str, list[BadgeData]]:
    """Return n -> the findings that cite this response of the step."""
    badges: dict[str, list[BadgeData]] = {}
    for finding in findings:
        for example in finding.evidence:
            if example.step != step:
                continue
            badge: BadgeData = {
                "id": finding.id,
                "severity": finding.severity,
                "name": finding.name,
                "title": finding.title,
                "token": example.token,
            }
            badges.setdefault(str(example.n), []).append(badge)
    return badges


def _highlights(findings: Sequence[ToldFinding]) -> list[str]:
    """Return the texts that findings are about, which the panel marks in responses."""
    texts = set[str]()
    for finding in findings:
        texts.update(finding.texts)
    return sorted(texts)


def strings_of(
    job: StepJob, places: NDArray[np.int64], context: PageContext
) -> dict[str, list[str | None]]:
    """Return key -> texts (None if missing) at ``places``, for each of ``string_columns``."""
    strings = {}
    for column in context.string_columns:
        values = job.columns[column.key][places]
        strings[column.key] = [v if isinstance(v, str) else None for v in values]
    return strings


def number_cells(kind: NumberKind, values: NDArray[np.float64]) -> list[Cell]:
    """Return the first STATIC_ROWS cells of a column, bars scaled to its largest magnitude."""
    size = np.where(np.isfinite(values), np.abs(values), 0.0)
    scale = float(size.max(initial=0.0)) or 1.0
    # Divide first, like the scripts of the page: a product may exceed the full bar or overflow.
    bars = np.ceil(FULL_BAR * (size / scale)).astype(np.int64)
    static = zip(values[:STATIC_ROWS].tolist(), bars.tolist(), strict=False)
    return [number_cell(value, kind, bar=bar) for value, bar in static]


def _step_link(step: int, addresses: Addresses) -> Link:
    return Link(message("Step {step}", step=step), addresses.step(step))


def run_data(report: RunReport) -> RunData:
    """Return the data about the whole run that each step's page loads; see docs/page-data.md."""
    run = report.run
    steps = run.tables.steps.set_index("step").loc[report.shown_steps]
    rewards = steps["reward_mean"].tolist()
    # Relative to pages of steps, which are in a folder of their own.
    addresses = Addresses(root="../", one_file=report.shared.one_file)
    data: RunData = {
        "steps": report.shown_steps,
        "tokens": [page.plan.step for page in report.step_pages if page.has_tokens],
        "rewards": [finite_or_none(value) for value in rewards],
        "prompts": shown_prompts(run.tables.responses, report.shown_rows),
        "href": addresses.any_step("{step}"),
        "prompt": addresses.responses_to("{prompt}"),
    }
    overpaid = trust.overpaid_steps(run.verdict)
    if overpaid is not None:
        data["overpaid"] = overpaid
    return data
