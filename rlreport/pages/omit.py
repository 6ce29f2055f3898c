"""Leave out the texts of some prompts (``--omit-prompts FIELD=VALUE``); their numbers remain.

A prompt is left out if a response to it has the value, with all responses to it. What only these
responses contain is replaced by placeholders: texts, tokens, phrases, names of tools, and texts of
further logged fields. A phrase or a token that another response contains, too, is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.finding import Example, Finding
from rlreport.check.spreading import SpreadingTexts
from rlreport.check.verdict import Judged
from rlreport.comparison.omitted import OmittedPrompts
from rlreport.figures.ragged import Ints
from rlreport.pages.listed import is_numeric
from rlreport.pages.redact import (
    USUAL_SPLITS,
    hidden_finding,
    redacted,
    response_numbers,
    without_quotes,
)
from rlreport.read.rollouts import HAS_TOKENS, Mask, Rollout, Rollouts
from rlreport.summarise.environments import environments_of
from rlreport.tables import Tables, listed_tool
from rlreport.text.placeholders import Redactor, placeholder

Bools = NDArray[np.bool_]


class Numbers(NamedTuple):
    """Numbers from 1 that stand for the texts of a response: of its prompt, and its own."""

    prompt: int
    response: int


@dataclass(frozen=True, slots=True)
class PromptMask:
    """Replaces the texts of all responses to the prompts that are left out; see ``Mask``."""

    numbers: Mapping[int, Numbers]  # by row of the response table

    def hides(self, row: int) -> bool:
        """Return whether the texts of a row are left out."""
        return row in self.numbers

    def masked(self, row: int, rollout: Rollout) -> Rollout:
        """Return the response of a row, with placeholders if its prompt is left out."""
        numbers = self.numbers.get(row)
        if numbers is None:
            return rollout
        # Ids of prompts begin at 0.
        return redacted(rollout, numbers.prompt - 1, numbers.response)

    def take(self, rows: Ints) -> PromptMask:
        """Return a mask of these rows alone."""
        those = [row for row in rows.tolist() if row in self.numbers]
        return PromptMask({row: self.numbers[row] for row in those})


@dataclass(frozen=True, slots=True)
class Masks:
    """Several masks, one after the other; see ``Mask``."""

    masks: tuple[Mask, ...]

    def hides(self, row: int) -> bool:
        """Return whether one of them hides the texts of a row."""
        return any(mask.hides(row) for mask in self.masks)

    def masked(self, row: int, rollout: Rollout) -> Rollout:
        """Return the response of a row with what all of them show."""
        for mask in self.masks:
            rollout = mask.masked(row, rollout)
        return rollout

    def take(self, rows: Ints) -> Masks:
        """Return the masks of these rows alone."""
        return Masks(tuple(mask.take(rows) for mask in self.masks))


def with_mask(
    rollouts: Rollouts, responses: pd.DataFrame, omitted: OmittedPrompts
) -> Rollouts:
    """Return rollouts whose texts are hidden if their prompt is left out.

    What a mask of ``rollouts`` hides stays hidden. ``responses`` is the table of all responses.
    """
    if not omitted:
        return rollouts
    rows = np.flatnonzero(omitted.rows(responses))
    prompt_ids = responses["prompt_id"].to_numpy()[rows].tolist()
    of_responses = response_numbers(responses)[rows].tolist()
    numbers = {}
    for row, prompt_id, response in zip(
        rows.tolist(), prompt_ids, of_responses, strict=True
    ):
        # Ids begin at 0.
        numbers[row] = Numbers(prompt=prompt_id + 1, response=response)
    mask: Mask = PromptMask(numbers)
    if rollouts.mask is not None:
        mask = Masks((mask, rollouts.mask))
    return replace(rollouts, mask=mask)


class Shown:
    """Decides which texts of findings may be shown: those that occur in a response that may be."""

    def __init__(
        self,
        omitted: OmittedPrompts,
        tables: Tables,
        rollouts: Rollouts,
        phrases: Iterable[str],
    ) -> None:
        """Collect what is known to be shown.

        Args:
            omitted: the prompts that are left out.
            tables: those of the run, not redacted.
            rollouts: the responses whose texts were read, without a mask.
            phrases: phrases that occur in a response that may be shown.
        """
        hides = omitted.rows(tables.responses)
        rows = rollouts.places.row
        self._rollouts = rollouts
        self._indices = np.flatnonzero(~hides[rows])  # of the chosen responses
        self._texts: list[str] | None = None  # read when they are needed
        self._names: set[str] = {
            *phrases,
            *map(str, tables.metrics.columns),
            *map(str, tables.extras.columns),
            *tables.reward_parts,
            *shown_tools(tables, hides),
        }
        still_open = _open_fields(omitted, tables)
        for name, values in tables.extras.items():
            if not is_numeric(values):
                is_shown = ~hides | (str(name) in still_open)
                self._names.update(map(str, values[is_shown].dropna().unique()))

    def tokens(self) -> set[str]:
        """Return the token strings, as logged, of responses that may be shown."""
        is_seen = np.zeros(len(self._rollouts.vocabulary), np.bool_)
        for index in self._indices.tolist():
            if self._rollouts.flags[index] & HAS_TOKENS:
                start = int(self._rollouts.starts[index])
                stop = start + int(self._rollouts.lengths[index])
                is_seen[self._rollouts.ids[start:stop]] = True
        self._rollouts.unload()
        numbers = np.flatnonzero(is_seen).tolist()
        return {self._rollouts.vocabulary[number] for number in numbers}

    def __call__(self, text: str) -> bool:
        return text in self._names or self._occurs(text)

    def _occurs(self, text: str) -> bool:
        """Return whether a text occurs in a response; blanks of any length are the same."""
        if self._texts is None:
            texts = self._rollouts.each_text("response", self._indices)
            self._texts = [_in_one_line(one or "") for one in texts]
            self._rollouts.unload()
        wanted = _in_one_line(text)
        return bool(wanted) and any(wanted in one for one in self._texts)


def _in_one_line(text: str) -> str:
    return " ".join(text.split()).casefold()


def _open_fields(omitted: OmittedPrompts, tables: Tables) -> set[str]:
    """Return the fields whose values stay readable, also of prompts that are left out."""
    fields = {condition.field for condition in omitted.conditions}
    environments = environments_of(tables.training())
    if environments:
        fields.add(environments.column)
    return fields


def shown_tools(tables: Tables, hides: Bools) -> set[str]:
    """Return the names of tools that answered in a response that may be shown."""
    if tables.tools.empty:
        return set()
    lines = tables.tools_used[~hides].dropna().unique()
    return set("\n".join(lines).split("\n")) if len(lines) else set()


def shown_phrases(
    spreading: SpreadingTexts, responses: pd.DataFrame, omitted: OmittedPrompts
) -> list[str]:
    """Return the phrases that occur in a response that may be shown.

    ``responses`` is the table that ``spreading.counts`` belongs to.
    """
    is_shown = ~omitted.rows(responses)
    return [
        name
        for name, counts in spreading.counts.items()
        if (counts[is_shown] > 0).any()
    ]


def omitted_verdict(
    verdict: Judged[Finding],
    omitted: OmittedPrompts,
    responses: pd.DataFrame,
    hide: Callable[[str], str],
) -> Judged[Finding]:
    """Return a verdict with placeholders for what may not be shown; its numbers stay.

    Args:
        verdict: what the checks found, with excerpts.
        omitted: the prompts that are left out.
        responses: the table of all responses.
        hide: returns a text, or the placeholder of one that may not be shown.
    """
    rows = responses[omitted.rows(responses)]
    places = set(rows[["step", "n"]].itertuples(index=False, name=None))

    def excerpt_of(example: Example) -> str | None:
        if example.excerpt is None or (example.step, example.n) not in places:
            return example.excerpt
        return placeholder("response", example.excerpt)

    def hidden(finding: Any) -> Any:
        return hidden_finding(finding, hide, excerpt_of)

    return replace(
        verdict,
        findings=list(map(hidden, verdict.findings)),
        muted=[replace(one, finding=hidden(one.finding)) for one in verdict.muted],
        pair=hidden(verdict.pair),
    )


def omitted_tables(
    tables: Tables, omitted: OmittedPrompts, shown: Shown, redact: Redactor
) -> Tables:
    """Return tables with placeholders for texts that only the prompts left out have.

    What notes and bad lines quote is left out of all of them, as nothing tells its prompt.
    """
    hides = omitted.rows(tables.responses)
    prompts = tables.prompts.copy()
    is_omitted = np.isin(prompts["prompt_id"].to_numpy(), omitted.prompts)
    prompts["prompt"] = [
        placeholder("prompt", text, prompt_id + 1) if text and is_hidden else text
        for prompt_id, text, is_hidden in zip(
            prompts["prompt_id"], prompts["prompt"], is_omitted.tolist(), strict=True
        )
    ]
    tools, tools_used = _omitted_tools(tables, hides)
    hidden = replace(
        tables,
        prompts=prompts,
        tokens=_omitted_tokens(tables.tokens, shown),
        tools=tools,
        tools_used=tools_used,
        extras=_omitted_extras(tables, omitted, hides, redact),
    )
    return without_quotes(hidden)


def _omitted_tokens(tokens: pd.DataFrame, shown: Shown) -> pd.DataFrame:
    """Return the table of tokens with placeholders for those of prompts left out alone."""
    if tokens.empty:
        return tokens
    seen = shown.tokens()
    texts = tokens["token"].tolist()
    strings = tokens["raw"].tolist()
    for number, raw in enumerate(strings):
        if raw not in seen:
            alias = placeholder("token", raw, number + 1)
            texts[number] = alias
            strings[number] = alias
    return tokens.assign(token=texts, raw=strings)


def _omitted_tools(tables: Tables, hides: Bools) -> tuple[pd.DataFrame, pd.Series]:
    """Return the tables of tools with names such as "tool 2" for those not shown elsewhere."""
    tools = tables.tools
    if tools.empty:
        return tools, tables.tools_used
    seen = shown_tools(tables, hides)
    aliases: dict[str, str] = {}
    for number, name in enumerate(tools["tool"].unique(), 1):
        listed = listed_tool(name)
        aliases[name] = name if listed in seen else f"tool {number}"
    of_listed = {listed_tool(name): alias or "?" for name, alias in aliases.items()}

    def renamed(lines: str | None) -> str | None:
        if not lines:
            return lines
        return "\n".join(of_listed[line] for line in lines.split("\n"))

    used = tables.tools_used.map(renamed)
    return tools.assign(tool=tools["tool"].map(aliases)), used


def _omitted_extras(
    tables: Tables, omitted: OmittedPrompts, hides: Bools, redact: Redactor
) -> pd.DataFrame:
    """Return further logged fields with placeholders for texts of the prompts left out.

    The fields of the conditions and that of the environment stay.
    """
    result = tables.extras.copy()
    still_open = _open_fields(omitted, tables)
    for name, values in tables.extras.items():
        if is_numeric(values) or str(name) in still_open:
            continue
        cells = values.tolist()
        for row in np.flatnonzero(hides).tolist():
            cell = cells[row]
            if isinstance(cell, str) and cell not in USUAL_SPLITS:
                cells[row] = redact(cell)
        result[name] = pd.Series(cells, index=values.index, dtype=object)
    return result
