"""The definitions of a run's figures, and the page that has them: "What the figures mean"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from rlreport.check.limits import Limit, LimitKind, Thresholds
from rlreport.check.registry import BY_ID, LIMITS
from rlreport.check.run import has
from rlreport.columns import PROMPT, STEP, TOKEN_COLUMNS, TOKEN_FIGURES, Column
from rlreport.definitions import (
    GROUPS,
    TEXTS,
    WORDS,
    defined,
    meaning_of,
    sentence_of,
    terms_of_roles,
)
from rlreport.metrics.roles import known_keys, roles_of
from rlreport.pages.context import RunReport
from rlreport.pages.html import environment, gzip_base64
from rlreport.pages.page import Addresses, Page
from rlreport.text.clean import printable, shortened
from rlreport.text.language import Language
from rlreport.text.messages import clauses, message, percent, with_unit
from rlreport.text.numbers import MINUS, exact

# Path of the script with the definitions
TERMS_SCRIPT = "data/terms.js"
# Longest name of a metric that a definition shows, in characters
LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class TermView:
    """The definition of a figure or of a word."""

    term: str
    label: str
    unit: str
    tells: str  # what it is for, "" where the sentence says all
    sentence: str  # what it is
    formula: str
    limits: list[tuple[str, str]]  # name of a check -> its limits
    own: tuple[str, str]  # words before the name of this run's metric, and the name
    # framework -> its names of the metric, where this run's is not known
    trainers: list[tuple[str, list[str]]]
    source: str


@dataclass(frozen=True, slots=True)
class TermsView:
    """What the page of definitions shows: headings, each with its definitions."""

    groups: list[tuple[str, list[TermView]]]


def terms_view(report: RunReport, addresses: Addresses) -> TermsView:
    return report.once("terms", lambda: _terms_view(report))


PAGE = Page(
    "figures", message("What the figures mean"), terms_view, in_navigation=False
)


def _terms_view(report: RunReport) -> TermsView:
    shown = _terms_of(report)
    groups = []
    for heading, columns in GROUPS:
        views = [
            term_view(
                column.term,
                report.run.thresholds,
                own=_own_name(report, column.term, meaning_of(column.term).role),
            )
            for column in columns
            if column.term in shown
        ]
        if views:
            groups.append((message(heading), views))
    return TermsView(groups)


def _terms_of(report: RunReport) -> set[str]:
    """Return the terms of what the log has data for."""
    tables = report.run.tables
    terms = {word.term for word in WORDS}
    terms |= _with_data(STEP.values(), tables.steps)
    terms |= {terms_of_roles().get(role, "") for role in _roles(report)}
    if not report.run.has_responses:
        return terms & defined().keys()
    terms |= {f"responses.{column.key}" for column in report.shared.columns}
    terms |= _with_data(PROMPT.values(), tables.prompts)
    terms |= _with_data(TOKEN_COLUMNS, tables.tokens)
    if len(report.run.spreading.table):
        terms |= {column.term for column in TEXTS}
    for figure in TOKEN_FIGURES:
        if has(tables.responses, _SHOWN_BY[figure.name]):
            terms.add(figure.term)
    return terms & defined().keys()


# Figure of a token -> the column of responses that has values where it has some
_SHOWN_BY = {
    "log_ratio": "kl_k1",
    "kl": "kl_k1",
    "token_reward": "rlhf_reward",
    "value": "value_mean",
    "advantage": "advantage_mean",
    "return": "return_mean",
    "value_error": "value_error_mean",
    "logp": "surprisal_mean",
    "ref_logp": "kl_k1",
    "prob": "surprisal_mean",
    "ref_prob": "kl_k1",
    "surprisal": "surprisal_mean",
    "sampler_logp": "mismatch_k3",
}


def _with_data(columns: Iterable[Column], table: pd.DataFrame) -> set[str]:
    found = (column for column in columns if has(table, column.name))
    # Counts that are 0 everywhere are of what the run does not have.
    return {
        column.term
        for column in found
        if column.dtype not in ("int64", "bool") or table[column.name].any()
    }


def _roles(report: RunReport) -> dict[str, str]:
    """Return role -> name of the trainer's metric, of those logged."""
    tables = report.run.tables
    metrics = map(str, tables.metrics.columns[1:])  # without the step
    return roles_of(metrics, tables.metric_roles)


def role_of_metrics(report: RunReport) -> dict[str, str]:
    """Return name of a trainer's metric -> its role, of those with one."""
    return {name: role for role, name in _roles(report).items()}


def term_view(
    term: str, thresholds: Thresholds | None, *, own: tuple[str, str] = ("", "")
) -> TermView:
    """Return a definition.

    Args:
        term: of a figure or a word in ``defined``.
        thresholds: those that judged the run, None to leave them out.
        own: words and the name of the run's metric of the figure.
    """
    column = defined()[term]
    meaning = meaning_of(term)
    limits = [] if thresholds is None else limits_in_words(meaning.limits, thresholds)
    return TermView(
        term=term,
        label=column.label,
        unit=column.unit,
        tells=message(meaning.tells),
        sentence=sentence_of(term),
        formula=meaning.formula if meaning.formula != column.help else "",
        limits=limits,
        own=own,
        trainers=[] if any(own) else names_of_trainers(meaning.role),
        source=message(meaning.source),
    )


def packed_definitions(terms: Iterable[str], language: Language) -> str:
    """Return the definitions of these terms as HTML, packed; "" if none is defined.

    They are for several runs, which may have been judged by other limits: none are named.
    """
    wanted = set(terms)
    views = [term_view(term, None) for term in defined() if term in wanted]
    if not views:
        return ""
    macros = environment(language).get_template("macros/terms.html")
    entry = macros.make_module().term  # type: ignore[attr-defined]
    html = "".join(entry(view) for view in language.of(views))
    return gzip_base64(f"<dl>{html}</dl>".encode("utf-8", "replace"))


def _own_name(report: RunReport, term: str, role: str) -> tuple[str, str]:
    """Return words and the name of this run's metric of a role, both "" without one."""
    name = _roles(report).get(role)
    if name is None:
        return "", ""
    courses = report.run.verdict.courses.values()
    is_source = any(
        course.source == "metrics" and course.column == name for course in courses
    )
    words = message("Your trainer logs it as")
    if is_source or not report.run.has_responses or term.startswith("metric."):
        words = message("From your trainer's metric")
    return words, shortened(printable(name), LONGEST_NAME)


def limits_in_words(
    names: Iterable[str], thresholds: Thresholds
) -> list[tuple[str, str]]:
    """Return (name of a check, its limits for this run).

    ``names`` are those of thresholds, such as "kl_explosion.warn".
    """
    by_check: dict[str, list[str]] = {}
    for name in names:
        group, key = name.split(".")
        limit = LIMITS[group].declared()[key]
        by_check.setdefault(group, []).append(_limit_in_words(limit, thresholds))
    return [(_check_name(group), clauses(texts)) for group, texts in by_check.items()]


def _check_name(group: str) -> str:
    name = message(BY_ID[group].name) if group in BY_ID else message("windows")
    return message("{one:capital}", one=name)


def _limit_in_words(limit: Limit[float], thresholds: Thresholds) -> str:
    """Return what a limit is compared with, and its value: "KL per token (warning): 0.1 nats"."""
    value = thresholds.value(limit)
    number = percent(value) if limit.kind is LimitKind.SHARE else exact(value)
    number = number.replace("-", MINUS)
    return message(
        "{meaning}: {value}",
        meaning=message(limit.meaning),
        value=with_unit(number, message(limit.unit)),
    )


def names_of_trainers(role: str) -> list[tuple[str, list[str]]]:
    """Return (framework, names of its metrics of a role), the most preferred name first."""
    names: dict[str, list[str]] = {}
    for key in known_keys():
        if key.role == role:
            names.setdefault(key.framework, []).append(key.key)
    return list(names.items())
