"""Leave out the texts and the names of a run that the options hide."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from rlreport.about.card import Card
from rlreport.check import Thresholds
from rlreport.check.finding import Finding
from rlreport.check.run import Run
from rlreport.check.spreading import SpreadingTexts
from rlreport.check.verdict import Judged
from rlreport.comparison.omitted import OmittedPrompts
from rlreport.flows.load import LoadedRun
from rlreport.options import OutputOptions
from rlreport.pages.omit import (
    Shown,
    omitted_tables,
    omitted_verdict,
    shown_phrases,
    with_mask,
)
from rlreport.pages.public import public_run
from rlreport.pages.redact import (
    redacted_ngrams,
    redacted_tables,
    redacted_verdict,
    without_names,
)
from rlreport.read.rollouts import Rollouts
from rlreport.tables import Tables
from rlreport.text.placeholders import Redactor
from rlreport.text.private import PrivateNames


class NamedRun(NamedTuple):
    """A run with the names that may be shown."""

    name: str
    tables: Tables
    rollouts: Rollouts
    card: Card


def hide_names(
    run: LoadedRun, card: Card, options: OutputOptions, names: PrivateNames | None
) -> NamedRun:
    """Return a run without the names that ``redact`` and ``public`` hide.

    ``names`` hides those of a public report, None if the report is not public.
    """
    if options.redact_names:
        return NamedRun("run", *without_names(run.tables, run.rollouts), card)
    if names is not None:
        return NamedRun("run", *public_run(run.tables, run.rollouts, card, names))
    return NamedRun(run.name, run.tables, run.rollouts, card)


class Hidden(NamedTuple):
    """What was judged, without the texts that the options hide."""

    judged: Judged[Finding]
    spreading: SpreadingTexts
    tables: Tables  # without samples, which are large and which no later stage needs
    rollouts: Rollouts


def hide_texts(  # noqa: PLR0917
    judged: Judged[Finding],
    spreading: SpreadingTexts,
    tables: Tables,
    rollouts: Rollouts,
    omitted: OmittedPrompts,
    options: OutputOptions,
) -> Hidden:
    """Replace the texts that ``redact`` and ``omit_prompts`` hide by placeholders."""
    redact = Redactor()
    if options.redact:
        return Hidden(
            redacted_verdict(judged, redact),
            redacted_ngrams(spreading, redact),
            redacted_tables(tables, redact),
            rollouts,
        )
    if not omitted:
        plain = replace(spreading, counts={})
        return Hidden(judged, plain, tables.without_samples(), rollouts)
    phrases = shown_phrases(spreading, _judged_responses(tables), omitted)
    shown = Shown(omitted, tables, rollouts, phrases)

    def hide(text: str) -> str:
        return text if shown(text) else redact(text)

    return Hidden(
        omitted_verdict(judged, omitted, tables.responses, hide),
        redacted_ngrams(spreading, hide),
        omitted_tables(tables.without_samples(), omitted, shown, redact),
        with_mask(rollouts, tables.responses, omitted),
    )


def _judged_responses(tables: Tables) -> pd.DataFrame:
    """Return the table of the responses that the checks have seen."""
    complete = tables.without_step_in_progress()
    return Run(complete, Thresholds()).responses
