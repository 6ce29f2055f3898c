"""Leaves the words out of a report: lengths, figures and hashes stay."""

from __future__ import annotations

import re
from dataclasses import replace

import pandas as pd
import xxhash

from rlreport.bake.context import is_numeric
from rlreport.check.finding import Finding, Verdict
from rlreport.check.ngrams import SpreadingNgrams
from rlreport.check.words import repr_text
from rlreport.rollout import Rollout
from rlreport.tables import Tables

_QUOTED = re.compile(r"['\"].*", re.DOTALL)
"""What follows a quotation mark in a reason may be taken from the logs."""


def redacted_text(text: str) -> str:
    """Stands for a text: its length and a hash, so that equal texts can be told."""
    return (
        f"[{len(text):,} characters, {xxhash.xxh3_64_hexdigest(text.encode('utf-8', 'replace'))}]"
    )


def redacted(rollout: Rollout) -> Rollout:
    """The response without its words; tokens keep their figures and places."""
    hidden = ["▪"] * len(rollout.raw_tokens)
    return replace(
        rollout,
        prompt=redacted_text(rollout.prompt),
        response=redacted_text(rollout.response),
        ref_response=None if rollout.ref_response is None else redacted_text(rollout.ref_response),
        ground_truth=None if rollout.ground_truth is None else redacted_text(rollout.ground_truth),
        turns=[],
        raw_tokens=hidden,
        tokens=hidden,
    )


def redacted_tables(tables: Tables) -> Tables:
    """The tables without prompts, token strings, logged strings, n-grams or quoted bad lines."""
    prompts = tables.prompts.copy()
    # A prompt whose text was not read back stays empty.
    prompts["prompt"] = [redacted_text(text) if text else text for text in prompts["prompt"]]
    extras = tables.extras.copy()
    for name in extras.columns:
        if not is_numeric(extras[name]):
            extras[name] = extras[name].map(_redacted_string).astype(object)
    tokens = tables.tokens.copy()
    if len(tokens):
        tokens["token"] = tokens["raw"] = tokens["raw"].map(redacted_text)
    return replace(
        tables,
        extras=extras,
        prompts=prompts,
        tokens=tokens,
        ngrams=None,
        ref_ngrams=None,
        bad_lines=[replace(bad, reason=_unquoted(bad.reason)) for bad in tables.bad_lines],
        notes=[replace(note, text=_unquoted(note.text)) for note in tables.notes],
    )


def redacted_verdict(verdict: Verdict, tables: Tables) -> Verdict:
    """The verdict without n-grams and quotations of bad lines; both may stand in its titles."""
    titles = {
        repr_text(ngram): repr_text(redacted_text(ngram))
        for finding in verdict.findings
        for ngram in finding.ngrams
    }
    titles |= {bad.reason: _unquoted(bad.reason) for bad in tables.bad_lines}
    return replace(
        verdict,
        sentence=_replaced(verdict.sentence, titles),
        findings=[_redacted_finding(finding, titles) for finding in verdict.findings],
    )


def redacted_ngrams(spreading: SpreadingNgrams) -> SpreadingNgrams:
    """The spreading texts as hashes."""
    return SpreadingNgrams(_hashed_ngrams(spreading.table), _hashed_ngrams(spreading.by_step))


def _redacted_finding(finding: Finding, titles: dict[str, str]) -> Finding:
    return replace(
        finding,
        title=_replaced(finding.title, titles),
        ngrams=tuple(redacted_text(ngram) for ngram in finding.ngrams),
    )


def _replaced(text: str, replacements: dict[str, str]) -> str:
    for shown, redaction in replacements.items():
        text = text.replace(shown, redaction)
    return text


def _hashed_ngrams(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(ngram=table["ngram"].map(redacted_text)) if len(table) else table


def _redacted_string(value: object) -> object:
    return redacted_text(value) if isinstance(value, str) else value


def _unquoted(text: str) -> str:
    return _QUOTED.sub("[text]", text)
