"""The overview: verdict, key figures, charts, extreme responses and the table of steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rlreport.bake.addresses import Addresses
from rlreport.bake.context import SAMPLED_FIGURE, PageContext, fed
from rlreport.bake.findings import verdict_view
from rlreport.bake.key_figures import distinct_2_note, run_figures, windows_in_words
from rlreport.bake.views import (
    CardView,
    Cell,
    ColumnView,
    Num,
    OverviewView,
    RowView,
    TableView,
    number,
    number_cell,
    number_column,
)
from rlreport.card import Card
from rlreport.choose import Extreme
from rlreport.columns import RESPONSE, STEP
from rlreport.credentials import Scalar
from rlreport.draw.chart import Chart
from rlreport.rollout import Rollout
from rlreport.text.chat import spoken
from rlreport.text.clean import shortened
from rlreport.text.messages import clauses, listed, message, plural, sentences, told, with_unit

SNIPPET_CHARS = 400
MOST_NAMED = 3
"""Files of trainer metrics that are named; the data page names them all."""

_DEEPEST = 12
_INDENT = "  "


STEPS_SHOWN = (
    *(
        "responses",
        "failed_rollouts",
        "reward_mean",
        "reward_std",
        "ref_reward_mean",
        "win_rate",
        "lose_rate",
    ),
    *("valid_reward_mean", "kl_k1_mean", "kl_k3_mean", "log_ratio_mean"),
    *("response_tokens_mean", "response_chars_mean", "surprisal_mean", "eos_rate"),
    *("distinct_2", "explained_variance", "zero_variance_groups"),
)
"""Columns of the table of steps, where the log feeds them."""


def overview_view(
    context: PageContext,
    addresses: Addresses,
    charts: Sequence[Chart],
    extremes: Sequence[tuple[Extreme, Rollout]],
    responses_in_all: int,
    not_drawn: Sequence[str] = (),
) -> OverviewView:
    """Builds the view of the overview.

    Args:
        context: what every page shares.
        addresses: addresses as seen from the overview.
        charts: charts of the run, in order.
        extremes: extreme responses with their text.
        responses_in_all: responses logged.
        not_drawn: sentences about columns without a chart.
    """
    return OverviewView(
        verdict=verdict_view(context.verdict, addresses),
        figures=run_figures(context),
        windows=windows_in_words(context),
        charts=sorted(charts, key=lambda chart: chart.group),  # one heading a group
        extremes=_extremes(extremes, addresses),
        steps=_steps(context, addresses),
        summary=_summary(context, responses_in_all),
        left_out=context.left_out,
        not_drawn=list(not_drawn),
        card=card_view(context.card),
        mixed=context.mixed,
    )


def _summary(context: PageContext, responses_in_all: int) -> str:
    steps = context.steps["step"]
    ranks = len(context.file_names)
    files = plural("{count} file", "{count} files", ranks)
    responses = plural("{count} response", "{count} responses", responses_in_all)
    places = {"responses": responses, "files": files, "low": steps.iloc[0], "high": steps.iloc[-1]}
    if len(steps) == 1:
        said = told("{responses} at step {low}, from {files}.", places)
    else:
        said = message(
            "{responses} over {steps:count} steps ({low}–{high}), from {files}.",
            steps=len(steps),
            **places,
        )
    sample = context.sample_note
    texts = message("Counts of texts and tokens come {sample}.", sample=sample) if sample else ""
    return sentences([said, texts, _metrics(context.metrics_names)])


def card_view(card: Card) -> CardView | None:
    """The run's card as text, nested by indentation; None where nothing is known of the run."""
    if card.withheld:
        return CardView(message("What the run was: left out with the names"), "")
    if not (card.entries or card.hidden or card.cut):
        return None
    sources = listed(card.sources)
    count = len(card.entries)
    said = [
        plural("{count} entry from {files}", "{count} entries from {files}", count, files=sources)
    ]
    if card.hidden:
        said.append(
            plural(
                "{count} left out, as it looks like a secret",
                "{count} left out, as they look like secrets",
                card.hidden,
            )
        )
    if card.cut:
        said.append(message("{count:count} left out for their number or length", count=card.cut))
    summary = message("What the run was: {what}", what=clauses(said))
    return CardView(summary, "\n".join(_card_lines(card)))


def _card_lines(card: Card) -> list[str]:
    lines: list[str] = []
    above: list[str] = []
    for name, value in card.entries.items():
        *groups, last = name.split(".", _DEEPEST)
        shared = 0
        while shared < min(len(above), len(groups)) and above[shared] == groups[shared]:
            shared += 1
        for depth in range(shared, len(groups)):
            lines.append(f"{_INDENT * depth}{groups[depth]}:")
        above = groups
        lines.append(f"{_INDENT * len(groups)}{last}: {_written(value)}")
    return lines


def _written(value: Scalar) -> str:
    """Write a value as configuration files do, on one line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(value.split()) if isinstance(value, str) else str(value)


def _metrics(names: Sequence[str]) -> str:
    if not names:
        return ""
    if len(names) > MOST_NAMED:
        return message("Trainer metrics from {count:count} files.", count=len(names))
    return message("Trainer metrics from {names}.", names=listed(names))


def _extremes(extremes: Sequence[tuple[Extreme, Rollout]], addresses: Addresses) -> TableView:
    columns = [
        ColumnView("which", message("Which"), kind="link"),
        ColumnView("value", message("Extreme")),
        ColumnView("step", message("Step")),
        ColumnView("prompt", message("Prompt"), kind="text"),
        ColumnView("response", message("Response"), kind="text"),
    ]
    rows = []
    for extreme, rollout in extremes:
        href = addresses.response(rollout.step, rollout.n, extreme.token)
        if href and extreme.at_error:
            href += "&turn=error"
        value, unit = extreme_number(extreme), RESPONSE[extreme.metric].unit
        rows.append(
            RowView(
                f"{rollout.step}-{rollout.n}-{extreme.metric}",
                [
                    Cell(extreme.label, extreme.label, href=href),
                    Cell(with_unit(value.text, unit), value.value, value.exact),
                    Cell(str(rollout.step), float(rollout.step)),
                    Cell(snippet(spoken(rollout.turns) or rollout.prompt)),
                    Cell(snippet(rollout.response)),
                ],
                href=href,
            )
        )
    return TableView("extremes", message("Extreme responses of the run"), columns, rows)


def extreme_number(extreme: Extreme) -> Num:
    """The value that makes a response extreme."""
    return number(extreme.value, RESPONSE[extreme.metric].kind)


def _steps(context: PageContext, addresses: Addresses) -> TableView:
    shown = [STEP[name] for name in fed(context.steps, STEPS_SHOWN)]
    if not context.steps["failed_rollouts"].any():
        shown = [c for c in shown if c.name != "failed_rollouts"]
    columns = [ColumnView("step", message("Step"), kind="link"), *map(number_column, shown)]
    values = {c.name: context.steps[c.name].to_numpy(np.float64) for c in shown}
    rows = []
    for i, step in enumerate(context.steps["step"].tolist()):
        href = addresses.step(step)
        cells = [Cell(str(step), float(step), href=href)]
        cells += [number_cell(float(values[c.name][i]), c.kind) for c in shown]
        rows.append(RowView(str(step), cells, href, _step_badges(context, step, i)))
    sampled = any(c.name == SAMPLED_FIGURE for c in shown)
    note = distinct_2_note(context.sample_note) if sampled else ""
    return TableView("steps", message("Steps"), columns, rows, note)


def _step_badges(context: PageContext, step: int, position: int) -> list[str]:
    lead = context.verdict.lead
    badges = [f.name for f in context.verdict.findings if f.id == lead and step in f.steps]
    if step == context.in_progress:
        badges.insert(0, message("in progress"))
    return ([message("incomplete")] if context.steps["incomplete"].iloc[position] else []) + badges


def snippet(text: str | None, chars: int = SNIPPET_CHARS) -> str:
    """The beginning of a text, which may not be logged."""
    return shortened(text or "", chars)


def token_responses(responses: pd.DataFrame) -> int:
    """Responses that have tokens."""
    return int((responses["response_tokens"].fillna(0) > 0).sum())
