"""The extreme responses of a run: those with the lowest or highest value of a metric."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rlreport.columns import RESPONSE
from rlreport.pages.context import RunReport
from rlreport.pages.listed import PROMPT_TEXT, RESPONSE_TEXT, listed_prompt
from rlreport.pages.page import Addresses
from rlreport.pages.plan import TOOL_ERRORS, Extreme, extremes
from rlreport.pages.redact import redacted, response_numbers
from rlreport.pages.table import ColumnView, TableView, name_cell, table
from rlreport.read.rollouts import Rollout
from rlreport.text.clean import shortened
from rlreport.text.messages import clauses, message, plural, with_unit
from rlreport.text.numbers import written

SNIPPET_CHARS = 400  # Maximum characters of a prompt or response in tables
_EXTREME = ColumnView("extreme", message("Extreme"), kind="text")


class ExtremeResponse(NamedTuple):
    """A response, and the extremes that it is."""

    extremes: list[Extreme]
    rollout: Rollout

    @property
    def words(self) -> str:
        """Return the extremes with their values: "Highest reward: 1.2; longest: 812 tokens"."""
        named = [
            message("{name:lower}: {value}", name=one.label, value=_value(one))
            for one in self.extremes
        ]
        return message("{one:capital}", one=clauses(named))


def extreme_responses(report: RunReport) -> list[ExtremeResponse]:
    return report.once("extremes", lambda: _extreme_responses(report))


def _extreme_responses(report: RunReport) -> list[ExtremeResponse]:
    found = extremes(report.run.tables.responses)
    by_row: dict[int, list[Extreme]] = {}
    for extreme in found:
        by_row.setdefault(extreme.row, []).append(extreme)
    rollouts = responses_of(report, by_row)
    return [ExtremeResponse(those, rollouts[row]) for row, those in by_row.items()]


def responses_of(report: RunReport, rows: Iterable[int]) -> dict[int, Rollout]:
    """Return row of the response table -> its texts, with placeholders if texts are redacted.

    All rows must have texts.
    """
    responses = report.run.tables.responses
    # A row that is given several times is read once.
    unique_rows = sorted({int(row) for row in rows})
    rollouts = report.run.rollouts.read(unique_rows, with_tokens=0)
    if report.run.options.redact:
        prompts = responses["prompt_id"].to_numpy()[unique_rows].tolist()
        numbers = response_numbers(responses)[unique_rows].tolist()
        rollouts = list(map(redacted, rollouts, prompts, numbers))
    return dict(zip(unique_rows, rollouts, strict=True))


def shown_responses(report: RunReport) -> int:
    """Return how many responses have their text on pages of steps or, without any, the overview."""
    if report.step_pages:
        return sum(map(len, report.shown_rows))
    return len(extreme_responses(report))


def extremes_table(
    found: Sequence[ExtremeResponse], prefixes: Sequence[str], addresses: Addresses
) -> TableView:
    """Return the table of extremes; ``prefixes`` of prompts are hidden."""
    rollouts = [one.rollout for one in found]
    empty = message("(empty)")
    return table(
        "extremes",
        message("Extreme responses of the run"),
        {
            _EXTREME: [one.words for one in found],
            ColumnView("step", message("Step")): [name_cell(r.step) for r in rollouts],
            PROMPT_TEXT: [listed_prompt(r, prefixes, SNIPPET_CHARS) for r in rollouts],
            RESPONSE_TEXT: [
                shortened(r.response, SNIPPET_CHARS) or empty for r in rollouts
            ],
        },
        ids=[f"{r.step}-{r.n}" for r in rollouts],
        hrefs=[_address(one, addresses) for one in found],
    )


def _value(extreme: Extreme) -> str:
    """Return the value with its unit, such as "812 tokens"."""
    column = RESPONSE[extreme.metric]
    text = written(extreme.value, column.kind)
    if text == "1" and column.unit == "tokens":  # not "1 tokens"
        return plural("{count} token", "{count} tokens", 1)
    return with_unit(text, column.unit)


def _address(one: ExtremeResponse, addresses: Addresses) -> str | None:
    """Return the address of an extreme response, at the token or turn that it is about."""
    with_token = [extreme for extreme in one.extremes if extreme.token is not None]
    first = (with_token or one.extremes)[0]
    is_tool_error = first.metric == TOOL_ERRORS
    return addresses.response(
        one.rollout.step,
        one.rollout.n,
        token=first.token,
        # "error" opens the panel at the first turn with an error.
        turn="error" if is_tool_error else None,
    )
