"""Leaves the words out of a report: figures stay, and which texts are equal.

A text becomes a number in order of appearance and a class of length. A hash or an exact length
would let whoever has a list of words tell which of them a short text is.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.bake.context import is_numeric
from rlreport.check.finding import Example, Fact, Finding, LogText, Verdict
from rlreport.check.spreading import SpreadingTexts
from rlreport.read.detect import OTHER_SPLIT
from rlreport.read.logs import SPLIT, UNREAD_FIELDS
from rlreport.rollout import Rollout, Turn
from rlreport.tables import Note, Tables
from rlreport.text.messages import Message, message

_ROLES = frozenset(("system", "developer", "user", "assistant", "tool"))
"""Roles that tell nothing; whatever else stands for one may be text."""

USUAL_SPLITS = frozenset(("train", "val", "eval"))
"""Usual names of splits; any other comes from the logs."""

_NAMELESS = message("[a note that tells a name]")

_QUOTED = re.compile(r"['\"].*", re.DOTALL)
"""What follows a quotation mark in a reason may be taken from the logs."""


class Redactor:
    """Numbers texts from 1 in order of appearance; an equal text has an equal number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> str:
        """What stands for a text."""
        return stand_in("text", text, self._numbers.setdefault(text, len(self._numbers) + 1))


def stand_in(kind: str, text: str, number: int | None = None) -> str:
    """What stands for a text: its kind, number and class of length, a power of ten."""
    longest = 10 ** max(1, len(str(max(len(text) - 1, 0))))
    numbered = kind if number is None else f"{kind} {number}"
    return f"[{numbered}, at most {longest:,} characters]"


def response_numbers(responses: pd.DataFrame) -> NDArray[np.int64]:
    """Numbers of the responses' texts from 1 in order of appearance, int64 (R,)."""
    return pd.factorize(responses["response_hash"])[0] + 1


def redacted(rollout: Rollout, prompt_id: int, number: int) -> Rollout:
    """The response without its words; tokens keep their figures and places.

    Args:
        rollout: the response.
        prompt_id: of its prompt.
        number: of its text, one of ``response_numbers``.
    """
    hidden = ["▪"] * len(rollout.raw_tokens)
    ref, truth = rollout.ref_response, rollout.ground_truth
    return replace(
        rollout,
        prompt=stand_in("prompt", rollout.prompt, prompt_id + 1),
        response=stand_in("response", rollout.response, number),
        ref_response=None if ref is None else stand_in("reference response", ref),
        ground_truth=None if truth is None else stand_in("label", truth),
        turns=[],
        conversation=[
            Turn(
                turn.role if turn.role in _ROLES else "other",
                stand_in("turn", turn.text),
                turn.sampled,
                turn.tokens,
                seconds=turn.seconds,
                reward=turn.reward,
            )
            for turn in rollout.conversation
        ],
        errors=[stand_in("error", text) for text in rollout.errors],
        raw_tokens=hidden,
        tokens=hidden,
    )


def redacted_tables(tables: Tables, redact: Redactor) -> Tables:
    """The tables without prompts, token strings, logged strings, n-grams or quoted bad lines."""
    prompts = tables.prompts.copy()
    # A prompt whose text was not read back stays empty.
    prompts["prompt"] = [
        stand_in("prompt", text, prompt_id + 1) if text else text
        for prompt_id, text in zip(prompts["prompt_id"], prompts["prompt"], strict=True)
    ]
    extras = tables.extras.copy()
    for name in extras.columns:
        if not is_numeric(extras[name]):
            extras[name] = [
                redact(value) if isinstance(value, str) else value for value in extras[name]
            ]
    tokens = tables.tokens.copy()
    if len(tokens):
        tokens["token"] = tokens["raw"] = [
            stand_in("token", text, place) for place, text in enumerate(tokens["raw"], 1)
        ]
    return replace(
        tables.without_samples(),
        extras=extras,
        prompts=prompts,
        tokens=tokens,
        tools=_numbered_tools(tables.tools),
        bad_lines=[replace(bad, reason=_unquoted(bad.reason)) for bad in tables.bad_lines],
        notes=[replace(note, text=_note_text(note, redact)) for note in tables.notes],
    )


def _note_text(note: Note, redact: Redactor) -> str:
    """Return the text of a note without quotations and logged names of splits."""
    text = note.text
    if note.kind in (SPLIT, OTHER_SPLIT) and isinstance(text, Message):
        splits = {
            name: split if split in USUAL_SPLITS else redact(split)
            for name, split in text.places.items()
        }
        text = message(text.literal, **splits)
    return _unquoted(text)


def _numbered_tools(tools: pd.DataFrame) -> pd.DataFrame:
    """The table of tools with numbers for names, which are a model's output too."""
    if tools.empty:
        return tools
    return tools.assign(tool=[f"tool {code + 1}" for code in pd.factorize(tools["tool"])[0]])


def without_names(tables: Tables) -> tuple[Tables, dict[str, str]]:
    """The tables without names of further fields and of files, before anything speaks of them.

    Returns:
        The tables, and each log file's name -> what stands for it.
    """
    known = set(tables.fields) - set(map(str, tables.extras.columns))
    fields = {name: name for name in known}
    fields |= {str(name): f"field {i}" for i, name in enumerate(tables.extras.columns, 1)}
    files = {file.name: f"file {i}" for i, file in enumerate(tables.files, 1)}
    metrics = {file.name: f"metrics {i}" for i, file in enumerate(tables.metrics_files, 1)}
    names = {**files, **metrics}

    def other(name: str) -> str:
        return names.setdefault(name, f"file {len(names) + 1}")

    def unnamed(text: str) -> str:
        text = _unquoted(text)
        told = any(name in text for name in (*names, *map(str, tables.extras.columns)))
        return _NAMELESS if told else text

    return (
        replace(
            tables,
            extras=tables.extras.rename(columns=fields),
            extras_by_step=tables.extras_by_step.rename(columns=fields),
            reward_parts=[fields[name] for name in tables.reward_parts],
            fields={fields[name]: rows for name, rows in tables.fields.items()},
            files=[replace(file, name=files[file.name], why="") for file in tables.files],
            metrics_files=[replace(f, name=metrics[f.name]) for f in tables.metrics_files],
            bad_lines=[
                replace(bad, file=other(bad.file), reason=unnamed(bad.reason))
                for bad in tables.bad_lines
            ],
            notes=[
                replace(
                    note,
                    file=note.file and other(note.file),
                    text=_NAMELESS if note.kind == UNREAD_FIELDS else unnamed(note.text),
                )
                for note in tables.notes
            ],
        ),
        files,
    )


def redacted_verdict(verdict: Verdict, redact: Redactor) -> Verdict:
    """The verdict with the texts of its facts and its excerpts replaced; words come later."""

    def hidden(finding: Finding) -> Finding:
        return replace(
            finding,
            facts={name: _redacted_fact(fact, redact) for name, fact in finding.facts.items()},
            texts=tuple(redact(text) for text in finding.texts),
            evidence=tuple(_redacted_example(example, redact) for example in finding.evidence),
        )

    return replace(
        verdict,
        findings=[hidden(finding) for finding in verdict.findings],
        muted=[replace(muted, finding=hidden(muted.finding)) for muted in verdict.muted],
    )


def redacted_ngrams(spreading: SpreadingTexts, redact: Redactor) -> SpreadingTexts:
    """The spreading texts as numbers."""
    return SpreadingTexts(
        _redacted_ngrams(spreading.table, redact), _redacted_ngrams(spreading.by_step, redact)
    )


def _redacted_fact(fact: Fact, redact: Redactor) -> Fact:
    if isinstance(fact, tuple):
        return tuple(_redacted_fact(part, redact) for part in fact)
    if isinstance(fact, Message):
        return _unquoted(fact)
    return redact(fact) if isinstance(fact, LogText) else fact


def _redacted_example(example: Example, redact: Redactor) -> Example:
    return replace(
        example,
        excerpt=None if example.excerpt is None else redact(example.excerpt),
        before=example.before and _redacted_example(example.before, redact),
        look_for="",
    )


def _redacted_ngrams(table: pd.DataFrame, redact: Redactor) -> pd.DataFrame:
    return table.assign(ngram=table["ngram"].map(redact)) if len(table) else table


def _unquoted(text: str) -> str:
    if isinstance(text, Message) and _QUOTED.search(text):
        told = {name: "[text]" if type(v) is str else v for name, v in text.places.items()}
        text = Message(text.literal, told, text.plural, text.number)
    return text if not _QUOTED.search(text) else _QUOTED.sub("[text]", text)
