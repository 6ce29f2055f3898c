"""Remove logged texts from a report (``--redact``); its numbers remain.

A text becomes e.g. ``[text 3, at most 100 characters]``; equal texts get equal numbers. A hash or
the exact length would let readers guess short texts from a list of words.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.finding import Example, Finding, LogText
from rlreport.check.spreading import SpreadingTexts
from rlreport.check.verdict import Judged
from rlreport.metrics.roles import PLAIN_NAMES, in_unit_of, roles_of
from rlreport.pages.listed import is_numeric
from rlreport.read.rollouts import Numbers, Rollout, Rollouts, Turn
from rlreport.summarise.environments import environments_of
from rlreport.tables import (
    WITH_FIELD_NAMES,
    WITH_SPLIT_NAMES,
    Tables,
    listed_tool,
)
from rlreport.text.messages import Message, message

# Roles of turns that stay readable; any other name of a role may be private text of the log
_ROLES = frozenset(("system", "developer", "user", "assistant", "tool"))

# Names of data splits that stay readable; any other name may be private text of the logs
USUAL_SPLITS = frozenset(("train", "val", "eval", "branch"))

_NAMELESS = message("[a note that contains a name]")

# Pattern of a message's part from the first quotation mark on, which may quote the logs
_QUOTED = re.compile(r"['\"].*", re.DOTALL)


class Redactor(Numbers):
    """Replaces texts by e.g. "[text 3, at most 100 characters]"; equal texts get equal numbers."""

    def __call__(self, text: str) -> str:
        return _placeholder("text", text, self[text] + 1)


def _placeholder(kind: str, text: str, number: int | None = None) -> str:
    longest = 10 ** max(1, len(str(max(len(text) - 1, 0))))
    numbered = kind if number is None else f"{kind} {number}"
    return f"[{numbered}, at most {longest:,} characters]"


def response_numbers(responses: pd.DataFrame) -> NDArray[np.int64]:
    """Return a number from 1 for each response's text, int64 (R,); equal texts share a number."""
    return pd.factorize(responses["response_hash"])[0] + 1


def redacted(rollout: Rollout, prompt_id: int, number: int) -> Rollout:
    """Return a rollout with placeholders for texts and tokens, with all figures of its tokens."""
    masked_tokens = ["▪"] * len(rollout.raw_tokens)
    ref = rollout.ref_response
    truth = rollout.ground_truth
    return replace(
        rollout,
        prompt=_placeholder("prompt", rollout.prompt, prompt_id + 1),
        response=_placeholder("response", rollout.response, number),
        ref_response=None if ref is None else _placeholder("reference response", ref),
        ground_truth=None if truth is None else _placeholder("label", truth),
        turns=[],
        conversation=[
            Turn(
                turn.role if turn.role in _ROLES else "other",
                _placeholder("turn", turn.text),
                turn.sampled,
                turn.tokens,
                seconds=turn.seconds,
                reward=turn.reward,
            )
            for turn in rollout.conversation
        ],
        errors=[_placeholder("error", text) for text in rollout.errors],
        raw_tokens=masked_tokens,
        tokens=masked_tokens,
    )


def redacted_tables(tables: Tables, redact: Redactor) -> Tables:
    """Return tables with placeholders for texts of the logs, also those that notes quote."""
    prompts = tables.prompts.copy()
    tokens = tables.tokens.copy()
    # Prompts whose texts were not read stay empty.
    prompts["prompt"] = [
        _placeholder("prompt", text, prompt_id + 1) if text else text
        for prompt_id, text in zip(prompts["prompt_id"], prompts["prompt"], strict=True)
    ]
    if len(tokens):
        tokens["token"] = tokens["raw"] = [
            _placeholder("token", text, number)
            for number, text in enumerate(tokens["raw"], 1)
        ]
    tools, tools_used = _redacted_tools(tables.tools, tables.tools_used)
    texts = [name for name, values in tables.extras.items() if not is_numeric(values)]
    extras = tables.extras.copy()
    for name in texts:
        extras[name] = [
            redact(cell) if isinstance(cell, str) and cell not in USUAL_SPLITS else cell
            for cell in extras[name]
        ]
    return replace(
        tables.without_samples(),
        extras=extras,
        prompts=prompts,
        tokens=tokens,
        tools=tools,
        tools_used=tools_used,
        bad_lines=[
            replace(bad, reason=_unquoted(bad.reason)) for bad in tables.bad_lines
        ],
        notes=[
            replace(
                note,
                text=_NAMELESS
                if note.kind in WITH_SPLIT_NAMES
                else _unquoted(note.text),
            )
            for note in tables.notes
        ],
    )


def _redacted_tools(
    tools: pd.DataFrame, used: pd.Series
) -> tuple[pd.DataFrame, pd.Series]:
    """Return both with "tool 1", … for the names of tools, which are model output, too."""
    if tools.empty:
        return tools, used
    names = {
        name: f"tool {number}" for number, name in enumerate(tools["tool"].unique(), 1)
    }
    listed = {listed_tool(name): alias for name, alias in names.items()}

    def without_tool_names(lines: str | None) -> str | None:
        return lines and "\n".join(listed[line] for line in lines.split("\n"))

    return tools.assign(tool=tools["tool"].map(names)), used.map(without_tool_names)


def without_names(tables: Tables, rollouts: Rollouts) -> tuple[Tables, Rollouts]:
    """Replace names of extra fields, metrics and files by "field 1" etc. or well-known names."""
    extras = [str(name) for name in tables.extras.columns]
    fields = {name: name for name in tables.fields if name not in extras}
    fields |= {
        name: f"field {i}" for i, name in enumerate(extras, 1) if name != "split"
    }
    fields["split"] = "split"
    environments = environments_of(tables.training())
    if environments:  # its name is one of a few that everyone uses
        fields[environments.column] = environments.column
    metrics_logged = [str(name) for name in tables.metrics.columns[1:]]
    metric_names = {name: f"metric {i}" for i, name in enumerate(metrics_logged, 1)}
    roles = roles_of(metrics_logged)
    metric_names |= {name: PLAIN_NAMES[role] for role, name in roles.items()}
    # A plain name does not tell the unit.
    in_units = {
        name: in_unit_of(role, name, tables.metrics[name].to_numpy(np.float64))
        for role, name in roles.items()
    }
    files = {file.name: f"file {i}" for i, file in enumerate(tables.files, 1)}
    metrics = {
        file.name: f"metrics {i}" for i, file in enumerate(tables.metrics_files, 1)
    }
    names = {**files, **metrics}

    def alias(name: str) -> str:
        return names.setdefault(name, f"file {len(names) + 1}")

    def nameless(text: str) -> str:
        text = _unquoted(text)
        return _NAMELESS if any(name in text for name in (*names, *extras)) else text

    renamed = replace(
        tables,
        extras=tables.extras.rename(columns=fields),
        extras_by_step=tables.extras_by_step.rename(columns=fields),
        reward_parts=[fields[name] for name in tables.reward_parts],
        fields={fields[name]: rows for name, rows in tables.fields.items()},
        files=[replace(file, name=files[file.name], why="") for file in tables.files],
        metrics=tables.metrics.assign(**in_units).rename(columns=metric_names),
        metrics_broken={
            metric_names[name]: at for name, at in tables.metrics_broken.items()
        },
        metrics_files=[
            replace(
                file,
                name=metrics[file.name],
                metrics=sorted(
                    metric_names.get(name, _NAMELESS) for name in file.metrics
                ),
            )
            for file in tables.metrics_files
        ],
        bad_lines=[
            replace(bad, file=alias(bad.file), reason=nameless(bad.reason))
            for bad in tables.bad_lines
        ],
        notes=[
            replace(
                note,
                file=note.file and alias(note.file),
                text=_NAMELESS
                if note.kind in WITH_FIELD_NAMES
                else nameless(note.text),
            )
            for note in tables.notes
        ],
    )
    file_names = [files.get(name, _NAMELESS) for name in rollouts.places.names]
    return renamed, replace(rollouts, places=rollouts.places._replace(names=file_names))


def redacted_verdict(verdict: Judged[Finding], redact: Redactor) -> Judged[Finding]:
    """Return a verdict with placeholders for excerpts and log texts that its sentences quote."""

    def hidden(value: Any) -> Any:
        match value:
            case Finding():
                facts = {name: hidden(fact) for name, fact in value.facts.items()}
                texts = tuple(map(redact, value.texts))
                return replace(
                    value, facts=facts, texts=texts, evidence=hidden(value.evidence)
                )
            case Example():
                excerpt = None if value.excerpt is None else redact(value.excerpt)
                return replace(
                    value, excerpt=excerpt, before=hidden(value.before), look_for=""
                )
            case tuple():
                return tuple(map(hidden, value))
            case Message():
                return _unquoted(value)
            case LogText():
                return redact(value)
        return value

    muted = [replace(muted, finding=hidden(muted.finding)) for muted in verdict.muted]
    return replace(verdict, findings=list(map(hidden, verdict.findings)), muted=muted)


def redacted_ngrams(spreading: SpreadingTexts, redact: Redactor) -> SpreadingTexts:
    table, by_step = (
        frame.assign(ngram=frame["ngram"].map(redact)) if len(frame) else frame
        for frame in (spreading.table, spreading.by_step)
    )
    return SpreadingTexts(table, by_step)


def _unquoted(text: str) -> str:
    if isinstance(text, Message) and _QUOTED.search(text):
        places = {
            name: "[text]" if type(v) is str else v for name, v in text.places.items()
        }
        text = Message(text.literal, places, text.plural, text.number)
    return _QUOTED.sub("[text]", text) if _QUOTED.search(text) else text
