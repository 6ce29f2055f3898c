"""The overview: verdict, key figures, charts, extreme responses and the table of steps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlreport.bake.context import SAMPLED_FIGURE, RunContext, fed
from rlreport.bake.findings import verdict_view
from rlreport.bake.key_figures import distinct_2_note, run_figures, windows_in_words
from rlreport.bake.pages import Addresses
from rlreport.bake.views import (
    Cell,
    ColumnView,
    TableView,
    name_cell,
    number_cell,
    number_column,
    table,
)
from rlreport.card import Card
from rlreport.choose import Extreme
from rlreport.columns import RESPONSE, STEP
from rlreport.credentials import Scalar
from rlreport.draw.chart import Chart
from rlreport.draw.small_multiples import not_drawn
from rlreport.rollout import Rollout
from rlreport.tables import Tables
from rlreport.text.chat import spoken
from rlreport.text.clean import shortened
from rlreport.text.messages import clauses, listed, message, plural, sentences, told, with_unit

SNIPPET_CHARS = 400
MOST_NAMED = 3
"""Files of trainer metrics that are named; the data page names them all."""

_DEEPEST = 12
_INDENT = "  "

STEPS_SHOWN = (
    *("responses", "failed_rollouts", "reward_mean", "reward_std", "ref_reward_mean"),
    *("win_rate", "lose_rate", "valid_reward_mean", "kl_k1_mean", "kl_k3_mean", "log_ratio_mean"),
    *("response_tokens_mean", "response_chars_mean", "surprisal_mean", "eos_rate"),
    *("distinct_2", "explained_variance", "zero_variance_groups"),
)
"""Columns of the table of steps, where the log feeds them."""


def overview_view(
    context: RunContext,
    addresses: Addresses,
    charts: Sequence[Chart],
    extremes: Sequence[tuple[Extreme, Rollout]],
) -> dict[str, Any]:
    """Return the view of the overview."""
    return {
        "verdict": verdict_view(context.verdict, addresses),
        "figures": run_figures(context),
        "windows": windows_in_words(context),
        "charts": sorted(charts, key=lambda chart: chart.group),  # one heading per group
        "extremes": _extremes(extremes, addresses),
        "steps": _steps(context, addresses),
        "summary": _summary(context.tables),
        "left_out": context.left_out,
        "not_drawn": not_drawn(context.tables),
        "card": card_view(context.card),
        "mixed": context.mixed,
    }


def _summary(tables: Tables) -> str:
    steps = tables.steps["step"].tolist()
    places = {
        "responses": plural("{count} response", "{count} responses", len(tables.responses)),
        "files": plural("{count} file", "{count} files", len(tables.files)),
        "low": steps[0],
        "high": steps[-1],
        "steps": len(steps),
    }
    if len(steps) == 1:
        logs = told("{responses} at step {low}, from {files}.", places)
    else:
        logs = told("{responses} over {steps:count} steps ({low}–{high}), from {files}.", places)
    sample = tables.sample_note
    texts = message("Counts of texts and tokens come {sample}.", sample=sample) if sample else ""
    names, metrics = [file.name for file in tables.metrics_files], ""
    if len(names) > MOST_NAMED:
        metrics = message("Trainer metrics from {count:count} files.", count=len(names))
    elif names:
        metrics = message("Trainer metrics from {names}.", names=listed(names))
    return sentences([logs, texts, metrics])


def card_view(card: Card) -> dict[str, str] | None:
    """Return the run's card as text, nested by indentation; None if nothing is known."""
    if card.withheld:
        return {"summary": message("What the run was: left out with the names"), "text": ""}
    if not (card.entries or card.hidden or card.cut):
        return None
    entries, files = len(card.entries), listed(card.sources)
    parts = [
        plural("{count} entry from {files}", "{count} entries from {files}", entries, files=files)
    ]
    if card.hidden:
        parts.append(
            plural(
                "{count} left out, as it looks like a secret",
                "{count} left out, as they look like secrets",
                card.hidden,
            )
        )
    if card.cut:
        parts.append(message("{count:count} left out for their number or length", count=card.cut))
    summary = message("What the run was: {what}", what=clauses(parts))
    return {"summary": summary, "text": "\n".join(_card_lines(card))}


def _card_lines(card: Card) -> list[str]:
    lines: list[str] = []
    above: list[str] = []
    for name, value in card.entries.items():
        *groups, last = name.split(".", _DEEPEST)
        lines += [
            f"{_INDENT * depth}{group}:"
            for depth, group in enumerate(groups)
            if groups[: depth + 1] != above[: depth + 1]
        ]
        above = groups
        lines.append(f"{_INDENT * len(groups)}{last}: {_written(value)}")
    return lines


def _written(value: Scalar) -> str:
    """Write a value as configuration files do, on one line."""
    if isinstance(value, str):
        return " ".join(value.split())
    return str(value) if type(value) in (int, float) else json.dumps(value)


def _extremes(extremes: Sequence[tuple[Extreme, Rollout]], addresses: Addresses) -> TableView:
    columns = [
        ColumnView("which", message("Which"), kind="link"),
        ColumnView("value", message("Extreme")),
        ColumnView("step", message("Step")),
        ColumnView("prompt", message("Prompt"), kind="text"),
        ColumnView("response", message("Response"), kind="text"),
    ]
    return table(
        "extremes",
        message("Extreme responses of the run"),
        columns,
        {
            "which": [Cell(extreme.label, extreme.label) for extreme, _ in extremes],
            "value": [_extreme_cell(extreme) for extreme, _ in extremes],
            "step": [name_cell(rollout.step) for _, rollout in extremes],
            "prompt": [snippet(spoken(r.turns) or r.prompt) for _, r in extremes],
            "response": [snippet(rollout.response) for _, rollout in extremes],
        },
        ids=[f"{r.step}-{r.n}-{extreme.metric}" for extreme, r in extremes],
        hrefs=[
            (addresses.response(r.step, r.n, extreme.token) or "")
            + ("&turn=error" if extreme.at_error and r.step in addresses.steps else "")
            for extreme, r in extremes
        ],
    )


def extreme_number(extreme: Extreme) -> Cell:
    """Return the value that makes a response extreme."""
    return number_cell(extreme.value, RESPONSE[extreme.metric].kind)


def _extreme_cell(extreme: Extreme) -> Cell:
    value, unit = extreme_number(extreme), RESPONSE[extreme.metric].unit
    if value.text == "1" and unit == "tokens":
        return value._replace(text=plural("{count} token", "{count} tokens", 1))
    return value._replace(text=with_unit(value.text, unit))


def _steps(context: RunContext, addresses: Addresses) -> TableView:
    steps = context.steps
    shown = [STEP[name] for name in fed(steps, STEPS_SHOWN)]
    if not steps["failed_rollouts"].any():
        shown = [c for c in shown if c.name != "failed_rollouts"]
    names = steps["step"].tolist()
    sampled = any(c.name == SAMPLED_FIGURE for c in shown)
    return table(
        "steps",
        message("Steps"),
        [ColumnView("step", message("Step"), kind="link"), *map(number_column, shown)],
        {
            **{c.name: steps[c.name].to_numpy(np.float64).tolist() for c in shown},
            "step": map(name_cell, names),
        },
        ids=names,
        hrefs=[addresses.step(step) for step in names],
        badges=[
            _step_badges(context, step, incomplete)
            for step, incomplete in zip(names, steps["incomplete"].tolist(), strict=True)
        ],
        note=distinct_2_note(context.tables.sample_note) if sampled else "",
    )


def _step_badges(context: RunContext, step: int, incomplete: bool) -> list[str]:
    verdict = context.verdict
    badges = [message("incomplete")] if incomplete else []
    if step == context.tables.in_progress:
        badges.append(message("in progress"))
    return badges + [f.name for f in verdict.findings if f.id == verdict.lead and step in f.steps]


def snippet(text: str | None, chars: int = SNIPPET_CHARS) -> str:
    """The beginning of a text, which may not be logged."""
    return shortened(text or "", chars)
