"""Leave texts and names out of the runs of a comparison, which may be earlier reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from rlreport.about.card import run_card
from rlreport.comparison.data_file import EXTRA, METRICS, PART
from rlreport.comparison.omitted import (
    Condition,
    conditions_of,
    has_value,
    shown_condition,
)
from rlreport.comparison.run import ComparedRun
from rlreport.comparison.saved import (
    EarlierReport,
    ResponseId,
    report_about,
    section,
)
from rlreport.comparison.words import check_name
from rlreport.errors import UsageError
from rlreport.options import CompareOptions
from rlreport.pages.listed import is_numeric
from rlreport.pages.public import public_settings, public_values, without_common_words
from rlreport.read.rollouts import Rollout
from rlreport.text.messages import message
from rlreport.text.placeholders import placeholder
from rlreport.text.private import PUBLIC, PrivateNames, names_in, owners_in

_CONFIG = "config."  # Prefix of the run's settings in ``ComparedRun.facts``


def hidden_report(
    run: ComparedRun,
    report: EarlierReport,
    conditions: Sequence[Condition],
    *,
    public: bool,
) -> ComparedRun:
    """Return the run of an earlier report without texts that the report still has.

    Args:
        run: the run, with all that its report has.
        report: that report.
        conditions: which prompts are left out.
        public: whether sentences that may contain names are left out, too.

    Raises:
        UsageError: no response of the report has the field of a condition.
    """
    settings = section(report.about, "settings")
    if settings.get("redact"):
        return run
    own = _own_conditions(settings.get("omit_prompts"))
    of_own = _ids(report.responses, own, report.name)
    ids = _ids(report.responses, conditions, report.name)
    run = _without_texts(run, ids - of_own)
    run = replace(run, hidden=frozenset(ids | of_own))
    # Sentences and tokens of a report come from all of its texts.
    quotes_more = not set(conditions) <= set(own)
    if quotes_more:
        run = replace(run, tokens=None)
    if quotes_more or (public and not settings.get("public")):
        run = _without_sentences(run)
    return run


def _own_conditions(value: object) -> list[Condition]:
    """Return the conditions with which a report was built; others may have written it."""
    texts = value if isinstance(value, list) else []
    return conditions_of(
        [one for one in texts if isinstance(one, str) and "=" in one[1:]]
    )


def _ids(
    responses: pd.DataFrame, conditions: Iterable[Condition], name: str
) -> set[ResponseId]:
    """Return the responses of a report to prompts that meet one of the conditions."""
    if (responses["split"] == METRICS).all():  # trainer metrics alone
        return set()
    is_omitted = np.zeros(len(responses), np.bool_)
    for condition in conditions:
        names = (f"{EXTRA}{condition.field}", f"{PART}{condition.field}")
        column = next((one for one in names if one in responses), condition.field)
        if column not in (*names, "split") or column not in responses:
            raise UsageError(
                f"--omit-prompts {condition}: no response of {name} has a field "
                f"{condition.field!r}"
            )
        is_omitted |= has_value(responses[column], condition.value)
    prompts = responses["prompt_id"]
    rows = responses[prompts.isin(prompts[is_omitted].unique())]
    return set(rows[["step", "n"]].itertuples(index=False, name=None))


def _without_texts(run: ComparedRun, ids: set[ResponseId]) -> ComparedRun:
    """Return a run with placeholders for the texts of some responses, and without their tokens."""
    if not ids:
        return run
    table = run.side.responses
    places = table[["step", "n"]].itertuples(index=False, name=None)
    from_one = (table["prompt_id"] + 1).tolist()
    numbers = dict(zip(places, from_one, strict=True))

    def texts(wanted: Iterable[ResponseId]) -> dict[ResponseId, tuple[str, str]]:
        found = run.texts(wanted)
        for one in found.keys() & ids:
            prompt, response = found[one]
            found[one] = (
                placeholder("prompt", prompt, numbers.get(one)),
                placeholder("response", response),
            )
        return found

    def rollouts(
        wanted: Iterable[ResponseId], longest: int
    ) -> dict[ResponseId, Rollout]:
        return run.rollouts([one for one in wanted if one not in ids], longest)

    return replace(run, texts=texts, rollouts=rollouts)


def _without_sentences(run: ComparedRun) -> ComparedRun:
    """Return a run whose findings have the names of their checks instead of sentences."""
    findings = {
        id: replace(finding, title=check_name(id))
        for id, finding in run.findings.items()
    }
    return replace(run, findings=findings, what="")


def names_of_runs(runs: Sequence[str | Path]) -> PrivateNames:
    """Return what hides the private names of several runs, logs or reports, alike."""
    found: set[str] = set()
    for run in runs:
        found |= owners_in(str(run))
        about = report_about(run)
        if about is None:
            found |= names_in(run_card([run]).entries)
        else:
            found |= names_in(_entries(about))
    return PrivateNames(without_common_words(found))


def _entries(about: Mapping[str, object]) -> dict[str, object]:
    entries = section(section(about, "card"), "entries")
    return {str(name): value for name, value in entries.items()}


def learn_fields(names: PrivateNames, run: ComparedRun) -> None:
    """Let ``names`` hide what settings and logged fields of a run tell to be private names."""
    settings = {key.removeprefix(_CONFIG): value for key, value in run.facts.items()}
    found = names_in(settings)
    for column in map(str, run.side.responses.columns):
        values = run.side.responses[column]
        if column.startswith(EXTRA) and not is_numeric(values):
            field = column.removeprefix(EXTRA)
            for text in values.dropna().unique():
                found |= names_in({field: text})
    names.learn(without_common_words(found))


def public_side(
    runs: Sequence[ComparedRun], side: str, names: PrivateNames
) -> list[ComparedRun]:
    """Return the runs of a side, called by it and numbered if they are several."""
    if len(runs) == 1:
        return [public_compared(runs[0], side, names)]
    public = []
    for number, run in enumerate(runs, 1):
        public.append(public_compared(run, f"{side} {number}", names))
    return public


def public_compared(run: ComparedRun, name: str, names: PrivateNames) -> ComparedRun:
    """Return a run called ``name`` without private names in its settings and fields."""
    facts = {}
    for key, value in run.facts.items():
        prefix = _CONFIG if key.startswith(_CONFIG) else ""
        public = public_settings({key.removeprefix(prefix): value}, names)
        for public_key, public_value in public.items():
            facts[f"{prefix}{public_key}"] = public_value
    return replace(
        run,
        name=name,
        side=replace(
            run.side, name=name, responses=_public_responses(run.side.responses, names)
        ),
        facts=facts,
        versions=public_settings(run.versions, names),
    )


def _public_responses(responses: pd.DataFrame, names: PrivateNames) -> pd.DataFrame:
    """Return response data without private names in logged fields, and in names of parts."""
    columns = {}
    for column in map(str, responses.columns):
        prefix = next((one for one in (EXTRA, PART) if column.startswith(one)), "")
        if not prefix:
            columns[column] = responses[column]
            continue
        field = column.removeprefix(prefix)
        values = public_values(field, responses[column], names)
        columns[f"{prefix}{names.in_text(field)}"] = values
    return pd.DataFrame(columns)


def hidden_in_words(options: CompareOptions, names: PrivateNames | None) -> list[str]:
    """Return what ``public`` and ``omit_prompts`` hide of a comparison, a sentence each."""
    sentences = [PUBLIC] if options.public else []
    conditions = [
        str(shown_condition(condition, options.redact, names))
        for condition in conditions_of(options.omit_prompts)
    ]
    if conditions:
        omitted = message(
            "The texts of prompts with {conditions} are left out (--omit-prompts).",
            conditions=tuple(conditions),
        )
        sentences.append(omitted)
    return sentences
