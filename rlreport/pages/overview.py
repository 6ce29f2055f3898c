"""The overview: verdict, findings, key figures, charts, extremes, turns and the table of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from rlreport.about.card import card_view
from rlreport.columns import RESPONSE, STEP
from rlreport.draw.chart import Chart, evenly
from rlreport.draw.run_charts import not_drawn
from rlreport.metrics.roles import logging_advice, roles_of
from rlreport.pages.agents import environments_table, turns_table
from rlreport.pages.context import RunContext
from rlreport.pages.figures import logged_part, windows_in_words
from rlreport.pages.findings import verdict_view
from rlreport.pages.listed import (
    PROMPT_TEXT,
    RESPONSE_TEXT,
    STEP_LINK,
    columns_with_data,
    listed_prompt,
)
from rlreport.pages.page import Addresses
from rlreport.pages.plan import TOOL_ERRORS, Extreme
from rlreport.pages.table import (
    Cell,
    ColumnView,
    KeyFigure,
    TableView,
    name_cell,
    number_cell,
    number_columns_of,
    table,
)
from rlreport.read.changed import changes_in_words
from rlreport.read.rollouts import Rollout
from rlreport.tables import NoteKind, Tables, counted_responses
from rlreport.text.clean import shortened
from rlreport.text.messages import (
    format_message,
    listed,
    message,
    plural,
    sentences,
    with_unit,
)

SNIPPET_CHARS = 400
MOST_ROWS = 1_000  # Maximum steps in the table of a run that logs trainer metrics but no responses
MOST_OPEN = (
    8  # Maximum number of charts that are visible before further ones are unfolded
)
MOST_NAMED = 3  # Maximum number of trainer metrics files the summary names; the data page lists all
# Columns of the overview's table of steps; columns without data are left out
STEPS_SHOWN = (
    "responses",
    "failed_rollouts",
    "reward_mean",
    "reward_std",
    "ref_reward_mean",
    "win_rate",
    "lose_rate",
    "valid_reward_mean",
    "kl_k1_mean",
    "kl_k3_mean",
    "log_ratio_mean",
    "response_tokens_mean",
    "response_chars_mean",
    "surprisal_mean",
    "eos_rate",
    "distinct_2",
    "explained_variance",
    "zero_variance_groups",
)

# Kinds of trainer metrics that the table of steps lists if no responses are logged
ROLES_SHOWN = ("validation", "kl", "kl_token", "entropy")


def overview_view(
    context: RunContext,
    addresses: Addresses,
    charts: Sequence[Chart],
    extremes: Sequence[tuple[Extreme, Rollout]],
    figures: Sequence[KeyFigure],
) -> dict[str, Any]:
    return {
        "verdict": verdict_view(context.verdict, addresses),
        "figures": figures,
        "windows": windows_in_words(context),
        "logged": logged_part(context),
        **charts_by_place(charts),
        "extremes": _extremes(extremes, context.prefixes, addresses),
        "turns": turns_table(context, addresses),
        "environments": environments_table(context, addresses),
        "steps": _steps(context, addresses),
        "summary": _summary(context.tables),
        "left_out": context.left_out,
        "not_drawn": not_drawn(context.tables),
        "card": card_view(context.card),
        "warnings": _warnings(context),
        "advice": logging_advice(map(str, context.tables.metrics.columns[1:]))
        if context.tables.responses.empty
        else None,
    }


def _warnings(context: RunContext) -> str:
    """Return what readers must know of the logs before they read the verdict."""
    tables = context.tables
    several_runs_lead = context.verdict.level == "unjudged" and context.verdict.lead
    texts = []
    for note in tables.notes:
        if note.kind == NoteKind.NO_STEP:
            texts.append(message("{one:capital}.", one=note.text))
        elif note.kind == NoteKind.SEVERAL_RUNS and not several_runs_lead:
            texts.append(note.text)
    return sentences([*texts, changes_in_words(tables.notes, tables.judged_before)])


def charts_by_place(charts: Sequence[Chart]) -> dict[str, Any]:
    """Return {"lead", "reward": chart or None, "charts": the visible ones, "more": collapsed}."""
    single_charts = {c.place: c for c in charts if c.place in ("lead", "reward")}
    room = MOST_OPEN - len(single_charts)
    first = [c for c in charts if c.place == "open"]
    more = first[room:] + [c for c in charts if c.place == "more"]
    groups = list(
        dict.fromkeys(["", *(chart.group for chart in more)])
    )  # one heading per group
    return {
        "lead": single_charts.get("lead"),
        "reward": single_charts.get("reward"),
        "charts": first[:room],
        "more": sorted(more, key=lambda chart: groups.index(chart.group)),
    }


def _summary(tables: Tables) -> str:
    steps = tables.steps["step"].tolist()
    names = [file.name for file in tables.metrics_files]
    few = len(names) <= MOST_NAMED
    metrics_files = (
        listed(names) if few else plural("{count} file", "{count} files", len(names))
    )
    places = {"low": steps[0], "high": steps[-1], "steps": len(steps)}
    if tables.responses.empty:
        metrics = len(tables.metrics.columns) - 1
        return message(
            "{metrics} of the trainer over {steps:count} steps ({low}–{high}), from {files}. No "
            "rollouts are logged.",
            metrics=plural("{count} metric", "{count} metrics", metrics),
            files=metrics_files,
            **places,
        )
    places["responses"] = counted_responses(tables.responses["validation"])
    places["files"] = plural("{count} file", "{count} files", len(tables.files))
    if len(steps) == 1:
        logs = format_message("{responses} at step {low}, from {files}.", places)
    else:
        logs = format_message(
            "{responses} over {steps:count} steps ({low}–{high}), from {files}.", places
        )
    sample = tables.sample_note
    texts = (
        message("Counts of texts and tokens come {sample}.", sample=sample)
        if sample
        else ""
    )
    metrics_note = message("Trainer metrics from {names}.", names=metrics_files)
    return sentences([logs, texts, metrics_note if names else ""])


_WHICH = ColumnView("which", message("Which"), kind="link")


def _extremes(
    extremes: Sequence[tuple[Extreme, Rollout]],
    prefixes: Sequence[str],
    addresses: Addresses,
) -> TableView:
    rollouts = [rollout for _, rollout in extremes]
    return table(
        "extremes",
        message("Extreme responses of the run"),
        {
            _WHICH: [Cell(extreme.label, extreme.label) for extreme, _ in extremes],
            ColumnView("value", message("Extreme")): [
                _extreme_cell(e) for e, _ in extremes
            ],
            ColumnView("step", message("Step")): [name_cell(r.step) for r in rollouts],
            PROMPT_TEXT: [listed_prompt(r, prefixes, SNIPPET_CHARS) for r in rollouts],
            RESPONSE_TEXT: [
                shortened(r.response, SNIPPET_CHARS) or message("(empty)")
                for r in rollouts
            ],
        },
        ids=[f"{r.step}-{r.n}-{extreme.metric}" for extreme, r in extremes],
        hrefs=[
            addresses.response(
                r.step,
                r.n,
                token=extreme.token,
                turn="error" if extreme.metric == TOOL_ERRORS else None,
            )
            for extreme, r in extremes
        ],
    )


def extreme_number(extreme: Extreme) -> Cell:
    return number_cell(extreme.value, RESPONSE[extreme.metric].kind)


def _extreme_cell(extreme: Extreme) -> Cell:
    value = extreme_number(extreme)
    unit = RESPONSE[extreme.metric].unit
    if value.text == "1" and unit == "tokens":
        return value._replace(text=plural("{count} token", "{count} tokens", 1))
    return value._replace(text=with_unit(value.text, unit))


def _steps(context: RunContext, addresses: Addresses) -> TableView:
    steps = context.tables.steps
    note = ""
    columns = [STEP[name] for name in columns_with_data(steps, STEPS_SHOWN)]
    if not context.has_rollouts and len(steps) > MOST_ROWS:
        note = message(
            "{some:count} of {all:count} steps.", some=MOST_ROWS, all=len(steps)
        )
        steps = steps.iloc[evenly(len(steps), MOST_ROWS)]
    for name in ("failed_rollouts", "responses"):
        if not steps[name].any():
            columns = [c for c in columns if c.name != name]
    names = steps["step"].tolist()
    trainer = pd.DataFrame()
    if not context.has_rollouts:
        metrics = context.tables.metrics.set_index("step").reindex(names)
        roles = roles_of(map(str, metrics.columns))
        trainer = metrics[[roles[role] for role in ROLES_SHOWN if role in roles]]
    return table(
        "steps",
        message("Steps"),
        {
            STEP_LINK: map(name_cell, names),
            **number_columns_of(steps, columns),
            **{
                ColumnView(f"metric:{name}", str(name)): trainer[name]
                for name in trainer
            },
        },
        ids=names,
        hrefs=[addresses.step(step) for step in names],
        badges=[
            _step_badges(context, step, incomplete)
            for step, incomplete in zip(
                names, steps["incomplete"].tolist(), strict=True
            )
        ],
        note=note,
    )


def _step_badges(context: RunContext, step: int, incomplete: bool) -> list[str]:
    verdict = context.verdict
    badges = [message("incomplete")] if incomplete else []
    if step == context.tables.in_progress:
        badges.append(message("in progress"))
    return badges + [
        f.name for f in verdict.findings if f.id == verdict.lead and step in f.steps
    ]
