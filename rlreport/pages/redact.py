"""Remove logged texts from a report (``--redact``); its numbers remain.

A text becomes e.g. ``[text 3, at most 100 characters]`` (``text.placeholders``); equal texts get
equal numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.check.finding import Example, Finding, LogText
from rlreport.check.parts import (
    is_component,
    metrics_of_parts,
    std_metrics,
    tells_right,
)
from rlreport.check.spreading import SpreadingTexts
from rlreport.check.verdict import Judged
from rlreport.metrics.roles import PLAIN_NAMES, in_unit_of, roles_of
from rlreport.pages.listed import is_numeric
from rlreport.read.rollouts import Rollout, Rollouts, Turn
from rlreport.summarise.environments import environments_of
from rlreport.tables import (
    WITH_FIELD_NAMES,
    WITH_SPLIT_NAMES,
    Note,
    Rescoring,
    Tables,
    listed_tool,
)
from rlreport.text.messages import Message, message
from rlreport.text.placeholders import Redactor, placeholder

# Roles of turns that stay readable; any other name of a role may be private text of the log
_ROLES = frozenset(("system", "developer", "user", "assistant", "tool"))

TOKEN = "▪"  # placeholder of a token

# Names of data splits that stay readable; any other name may be private text of the logs
USUAL_SPLITS = frozenset(("train", "val", "eval", "branch"))

_NAMELESS = message("[a note that contains a name]")

# Pattern of a message's part from the first quotation mark on, which may quote the logs
_QUOTED = re.compile(r"['\"].*", re.DOTALL)


def response_numbers(responses: pd.DataFrame) -> NDArray[np.int64]:
    """Return a number from 1 for each response's text, int64 (R,); equal texts share a number."""
    return pd.factorize(responses["response_hash"])[0] + 1


def redacted(rollout: Rollout, prompt_id: int, text_number: int) -> Rollout:
    """Return a rollout with placeholders for texts and tokens, with all figures of its tokens.

    ``text_number`` is the number of its response's text, see ``response_numbers``.
    """
    masked_tokens = [TOKEN] * len(rollout.raw_tokens)
    ref = rollout.ref_response
    truth = rollout.ground_truth
    return replace(
        rollout,
        # Ids begin at 0, numbers for readers at 1.
        prompt=placeholder("prompt", rollout.prompt, prompt_id + 1),
        response=placeholder("response", rollout.response, text_number),
        ref_response=None if ref is None else placeholder("reference response", ref),
        ground_truth=None if truth is None else placeholder("label", truth),
        turns=[],  # those of the prompt, which has one placeholder for all of them
        conversation=[_redacted_turn(turn) for turn in rollout.conversation],
        errors=[placeholder("error", text) for text in rollout.errors],
        judged=[],
        raw_tokens=masked_tokens,
        tokens=masked_tokens,
        hidden=True,
    )


def _redacted_turn(turn: Turn) -> Turn:
    """Return a turn with its role and its numbers, without thinking, calls, tool and error."""
    return Turn(
        role=turn.role if turn.role in _ROLES else "other",
        text=placeholder("turn", turn.text),
        sampled=turn.sampled,
        tokens=turn.tokens,
        seconds=turn.seconds,
        reward=turn.reward,
    )


def redacted_tables(tables: Tables, redact: Redactor) -> Tables:
    """Return tables with placeholders for texts of the logs, also those that notes quote."""
    prompts = tables.prompts.copy()
    # Prompts whose texts were not read stay empty.
    prompts["prompt"] = [
        placeholder("prompt", text, prompt_id + 1) if text else text
        for prompt_id, text in zip(prompts["prompt_id"], prompts["prompt"], strict=True)
    ]
    tokens = tables.tokens.copy()
    if len(tokens):
        aliases = [
            placeholder("token", text, number)
            for number, text in enumerate(tokens["raw"], 1)
        ]
        tokens["token"] = aliases
        tokens["raw"] = aliases
    tools, tools_used = _redacted_tools(tables.tools, tables.tools_used)
    notes = []
    for note in tables.notes:
        # Names of splits are not in quotation marks.
        text = _NAMELESS if note.kind in WITH_SPLIT_NAMES else note.text
        notes.append(replace(note, text=text))
    hidden = replace(
        tables.without_samples(),
        extras=_redacted_extras(tables.extras, redact),
        prompts=prompts,
        tokens=tokens,
        tools=tools,
        tools_used=tools_used,
        notes=notes,
    )
    return without_quotes(hidden)


def _redacted_rescoring(about: Rescoring | None) -> Rescoring | None:
    """Return it without the texts of exceptions, which may quote a response."""
    if about is None:
        return None
    unscored = [
        one._replace(reason=one.reason.partition(": ")[0]) for one in about.unscored
    ]
    return replace(about, unscored=tuple(unscored))


def _redacted_extras(extras: pd.DataFrame, redact: Redactor) -> pd.DataFrame:
    """Return further logged fields with placeholders for texts, but for usual names of splits.

    Numbers, and columns of numbers, stay as they are.
    """

    def hidden(cell: Any) -> Any:
        if isinstance(cell, str) and cell not in USUAL_SPLITS:
            return redact(cell)
        return cell

    result = extras.copy()
    for name, values in extras.items():
        if not is_numeric(values):
            result[name] = [hidden(cell) for cell in values]
    return result


def _redacted_tools(
    tools: pd.DataFrame, used: pd.Series
) -> tuple[pd.DataFrame, pd.Series]:
    """Return ``tools`` and ``used`` with names such as "tool 1".

    Names of tools are output of the model, too. ``used`` has, for each response, the tools that
    answered in it as lines of a text.
    """
    if tools.empty:
        return tools, used
    tool_names = tools["tool"].unique()
    aliases = {name: f"tool {number}" for number, name in enumerate(tool_names, 1)}
    # ``used`` has names as lists show them.
    listed_aliases = {listed_tool(name): alias for name, alias in aliases.items()}

    def without_tool_names(lines: str | None) -> str | None:
        if not lines:
            return lines
        return "\n".join(listed_aliases[line] for line in lines.split("\n"))

    return tools.assign(tool=tools["tool"].map(aliases)), used.map(without_tool_names)


def file_aliases(tables: Tables) -> dict[str, str]:
    """Return name -> alias of each file of rollouts ("file 1") and of metrics ("metrics 1")."""
    files = {file.name: f"file {i}" for i, file in enumerate(tables.files, 1)}
    metrics = {
        file.name: f"metrics {i}" for i, file in enumerate(tables.metrics_files, 1)
    }
    return {**files, **metrics}


def with_file_aliases(
    tables: Tables,
    files: dict[str, str],
    reason_of: Callable[[str], str],
    text_of: Callable[[Note], str],
) -> Tables:
    """Return tables with other names of files, also in notes and bad lines.

    Args:
        tables: the tables.
        files: name -> alias; files that only notes name are added with the next numbers.
        reason_of: returns what is shown of the reason why a line cannot be read.
        text_of: returns what is shown of a note's text.
    """

    def alias(file: str) -> str:
        return files.setdefault(file, f"file {len(files) + 1}")

    bad_lines = [
        replace(bad, file=alias(bad.file), reason=reason_of(bad.reason))
        for bad in tables.bad_lines
    ]
    notes = [
        replace(note, file=note.file and alias(note.file), text=text_of(note))
        for note in tables.notes
    ]
    listed_files = [
        replace(file, name=files[file.name], why="") for file in tables.files
    ]
    metrics_files = [
        replace(file, name=files.get(file.name, file.name))
        for file in tables.metrics_files
    ]
    return replace(
        tables,
        files=listed_files,
        metrics_files=metrics_files,
        bad_lines=bad_lines,
        notes=notes,
    )


def without_names(tables: Tables, rollouts: Rollouts) -> tuple[Tables, Rollouts]:
    """Replace names of extra fields, metrics and files by "field 1" etc. or well-known names."""
    # Name -> alias
    fields = _field_aliases(tables)
    files = file_aliases(tables)
    metrics_files = {file.name: files[file.name] for file in tables.metrics_files}
    extras = [str(name) for name in tables.extras.columns]

    def nameless(text: str) -> str:
        """Return a text of a note, or what replaces all of it if it contains a name."""
        text = unquoted(text)
        names = (*files, *extras)
        return _NAMELESS if any(name in text for name in names) else text

    def text_of(note: Note) -> str:
        return _NAMELESS if note.kind in WITH_FIELD_NAMES else nameless(note.text)

    renamed = replace(
        with_file_aliases(
            _without_metric_names(tables, metrics_files), files, nameless, text_of
        ),
        extras=tables.extras.rename(columns=fields),
        extras_by_step=tables.extras_by_step.rename(columns=fields),
        reward_parts=[fields[name] for name in tables.reward_parts],
        times=tables.times.without_names(),
        fields={fields[name]: rows for name, rows in tables.fields.items()},
    )
    if tables.rescoring is not None:
        renamed.rescoring = nameless_rescoring(tables.rescoring)
    file_names = [files.get(name, _NAMELESS) for name in rollouts.places.names]
    return renamed, replace(rollouts, places=rollouts.places._replace(names=file_names))


def nameless_rescoring(about: Rescoring) -> Rescoring:
    """Return it without the function's name, and with the kinds of exceptions alone."""
    unscored = []
    for one in about.unscored:
        kind, _, _ = one.reason.partition(" (")
        unscored.append(one._replace(reason=kind.partition(": ")[0]))
    return replace(
        about,
        function="function 1",
        unscored=tuple(unscored),
    )


def _field_aliases(tables: Tables) -> dict[str, str]:
    """Return name -> alias of each field; canonical and well-known ones keep their names."""
    extras = [str(name) for name in tables.extras.columns]
    aliases = {name: name for name in tables.fields if name not in extras}
    for number, name in enumerate(extras, 1):
        aliases[name] = f"field {number}"
    # Without what a part of the reward is, it could not be judged.
    for name, alias in _part_aliases(tables).items():
        if name in aliases:
            aliases[name] = alias
    aliases["split"] = "split"
    environments = environments_of(tables.training())
    if environments:  # its name is one of a few that everyone uses
        aliases[environments.column] = environments.column
    return aliases


def _part_aliases(tables: Tables) -> dict[str, str]:
    """Return name -> alias of each part of the reward, such as "accuracy" and "part 2"."""
    names = [*tables.reward_parts, *metrics_of_parts(map(str, tables.metrics.columns))]
    aliases = {}
    for number, name in enumerate(dict.fromkeys(names), 1):
        kind = "part" if is_component(name) else "penalty"
        if tells_right(name):
            kind = "accuracy"
        aliases[name] = f"{kind} {number}"
    right = [name for name in aliases if tells_right(name)]
    if right:
        # The shortest name stands in for validation, see ``quantities.accuracy``.
        aliases[min(right, key=len)] = "accuracy"
    return aliases


def _metric_aliases(tables: Tables) -> dict[str, str]:
    """Return name -> alias of each metric without a role."""
    logged = [str(name) for name in tables.metrics.columns[1:]]  # without the step
    aliases = {name: f"metric {number}" for number, name in enumerate(logged, 1)}
    for number, name in enumerate(std_metrics(logged), 1):
        aliases[name] = f"rewards/part {number}/std"
    part_aliases = _part_aliases(tables)
    for part, name in metrics_of_parts(logged).items():
        aliases[name] = f"rewards/{part_aliases[part]}"
    return aliases


def _without_metric_names(tables: Tables, files: Mapping[str, str]) -> Tables:
    """Return tables with other names of the trainer's metrics; ``files``: name -> alias.

    A metric with a role, such as "kl", gets the plain name of that role, others "metric 1" etc.
    """
    logged = [str(name) for name in tables.metrics.columns[1:]]  # without the step
    aliases = _metric_aliases(tables)
    in_units = {}
    roles = roles_of(logged, tables.metric_roles)
    for role, name in roles.items():
        aliases[name] = PLAIN_NAMES[role]
        # A plain name does not tell the unit.
        values = tables.metrics[name].to_numpy(np.float64)
        in_units[name] = in_unit_of(role, name, values)
    metrics_files = []
    for file in tables.metrics_files:
        metrics = sorted(aliases.get(name, _NAMELESS) for name in file.metrics)
        renamed = replace(file, name=files[file.name], metrics=metrics)
        metrics_files.append(renamed)
    return replace(
        tables,
        metrics=tables.metrics.assign(**in_units).rename(columns=aliases),
        metric_roles={},  # plain names tell their roles
        metrics_broken={
            aliases[name]: at for name, at in tables.metrics_broken.items()
        },
        metrics_files=metrics_files,
    )


def redacted_verdict(verdict: Judged[Finding], redact: Redactor) -> Judged[Finding]:
    """Return a verdict with placeholders for excerpts and log texts that its sentences quote."""

    def excerpt_of(example: Example) -> str | None:
        return None if example.excerpt is None else redact(example.excerpt)

    def hidden(value: Any) -> Any:
        return hidden_finding(value, redact, excerpt_of)

    muted = [replace(muted, finding=hidden(muted.finding)) for muted in verdict.muted]
    findings = list(map(hidden, verdict.findings))
    return replace(verdict, findings=findings, muted=muted, pair=hidden(verdict.pair))


def hidden_finding(
    value: Any,
    hide: Callable[[str], str],
    excerpt_of: Callable[[Example], str | None],
) -> Any:
    """Return a finding, or a part of one, with placeholders; numbers stay as they are.

    Args:
        value: the finding, an example, a fact, a tuple of them, or None.
        hide: returns what is shown of a text of the logs.
        excerpt_of: returns what is shown of an example's excerpt.
    """

    def hidden(part: Any) -> Any:
        return hidden_finding(part, hide, excerpt_of)

    match value:
        case Finding():
            facts = {name: hidden(fact) for name, fact in value.facts.items()}
            texts = tuple(map(hide, value.texts))
            return replace(
                value, facts=facts, texts=texts, evidence=hidden(value.evidence)
            )
        case Example():
            # ``look_for`` is a text of the log, too; it is of no use without the response.
            return replace(
                value,
                excerpt=excerpt_of(value),
                before=hidden(value.before),
                look_for="",
            )
        case tuple():
            return tuple(map(hidden, value))
        case Message():
            return unquoted(value)
        case LogText():
            return hide(value)
    return value


def redacted_ngrams(
    spreading: SpreadingTexts, hide: Callable[[str], str]
) -> SpreadingTexts:
    """Return the phrases as ``hide`` shows them."""
    return SpreadingTexts(
        _hidden_texts(spreading.table, hide), _hidden_texts(spreading.by_step, hide)
    )


def _hidden_texts(frame: pd.DataFrame, hide: Callable[[str], str]) -> pd.DataFrame:
    if frame.empty:
        return frame
    return frame.assign(ngram=frame["ngram"].map(hide))


def without_quotes(tables: Tables) -> Tables:
    """Return tables whose notes, bad lines and exceptions quote nothing of the logs."""
    notes = [replace(note, text=unquoted(note.text)) for note in tables.notes]
    bad_lines = [replace(bad, reason=unquoted(bad.reason)) for bad in tables.bad_lines]
    return replace(
        tables,
        notes=notes,
        bad_lines=bad_lines,
        rescoring=_redacted_rescoring(tables.rescoring),
    )


def unquoted(text: str) -> str:
    """Return a text without what it may quote of the logs.

    Texts in a message become "[text]"; without a message, all from the first quotation mark on.
    """
    if not _QUOTED.search(text):
        return text
    if isinstance(text, Message):
        # Plain strings are of the logs; a place that is a Message is our own text.
        places = {
            name: "[text]" if type(value) is str else value
            for name, value in text.places.items()
        }
        text = Message(text.literal, places, text.plural, text.number)
        if not _QUOTED.search(text):  # only a place had a quotation: it stays a message
            return text
    return _QUOTED.sub("[text]", text)
