"""Find trainer metrics in JSON by their shape: rows, columns, runs, and settings next to them.

A shape is told by what most of its rows are. These are metrics:

- rows: a list of objects with a step, numbers, and maybe lists and texts, one or few per step;
- columns: ``{"step": [0, 1], "loss": [0.5, 0.4]}``, also without steps, which are then numbered;
- steps: ``{"0": {"loss": 0.5}, "1": {"loss": 0.4}}``;
- any of these under a key of an object, such as ``log_history``; under several keys, they are
  parts of one run, or runs if they have the same metrics at the same steps.

A single object of numbers, such as final scores, is none of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlreport.formats.base import Row, split_of
from rlreport.formats.logged import dicts
from rlreport.formats.metric_rows import (
    KIND_KEYS,
    OTHER_STEP_KEYS,
    STEP_KEYS,
    TEXT_KEYS,
    numbers_of,
    own_step_key,
    prefixed,
    step_in,
    step_key,
    whole,
)
from rlreport.metrics.roles import roles_of

HEAD = 200  # rows at the start of a file by which its shape is told
INDEX = ""  # stands for the key of the step if rows are numbered in their order
MAX_RUNS = 200  # in a document

_LEAST_ROWS = 3  # that are numbered in their order
_MAX_LEVELS = 3  # of objects that are searched for rows
_MAX_KEYS = 2_000  # of an object that is searched
_LONG = 200  # characters of a text that is no name
_DISTINCT = 0.8  # share of rows with a step of their own, of rows with long texts
# Roles of what only a trainer logs: a table of answers has rewards, but none of these
_OF_TRAINER = frozenset(
    "loss kl kl_token entropy grad_norm clip_fraction learning_rate ratio".split()
)
# Names of columns that hold the values of a curve
_CURVE = re.compile(
    r".+[_ ](?:history|hist|curve|trace|over_time|by_step|per_step)", re.IGNORECASE
)
# Keys of what is logged for each token of a response
_TOKEN_KEYS = frozenset(
    "token_ids response_tokens prompt_tokens logprobs loss_mask messages".split()
)
# What an object calls its settings
_SETTINGS = (
    "config",
    "args",
    "hparams",
    "hyperparameters",
    "hyper_parameters",
    "params",
    "settings",
    "configuration",
    "training_args",
)
# Kinds of events that are a configuration
_OF_SETTINGS = re.compile(
    r"(?:run_|train(?:ing)?_)?(?:config(?:uration)?|args|hparams|hyperparameters|settings|params"
    r"|start(?:ed)?|init|meta(?:data)?|header)"
)
_NOT_SETTINGS = KIND_KEYS | {"timestamp", "time", "ts", "argv", "_timestamp"}
_STEP_AS_TEXT = re.compile(r"[0-9]{1,15}")
_HISTORY = "log_history"  # of transformers; nothing else in its document is a metric


@dataclass(slots=True)
class Series:
    """The rows of metrics of a run.

    Attributes:
        rows: one or more per step, each with what it logs.
        step: the key of the step, INDEX to number the rows.
        left_out: names of columns of another length, which are in no row.
    """

    rows: list[Row]
    step: str
    left_out: list[str] = field(default_factory=list)

    def with_steps(self) -> list[Row]:
        """Return the rows with their step under ``step``."""
        return [stepped(row, self.step, number) for number, row in enumerate(self.rows)]


@dataclass(slots=True)
class Document:
    """What a JSON document holds: run -> its series (several are parts of the run), settings."""

    runs: dict[str, list[Series]] = field(default_factory=dict)
    settings: Row = field(default_factory=dict)


def stepped(row: Row, key: str, number: int) -> Row:
    """Return a row with its step under a key of STEP_KEYS; ``number`` is its place in the log."""
    if key in STEP_KEYS:
        return row
    rest = {name: value for name, value in row.items() if name != key}
    return {**rest, "step": number if key == INDEX else row.get(key)}


def step_of_rows(rows: Sequence[Row]) -> str | None:
    """Return the key of the step if most rows are metrics (INDEX to number them), else None.

    ``rows`` are those at the start of a log.
    """
    logged = [row for row in rows if numbers_of(row)]
    if not logged or 2 * len(logged) < len(rows):
        return None
    # What has tokens is a response. One that has texts may be one, if there are several a step.
    if 2 * sum(map(_has_tokens, logged)) > len(logged):
        return None
    has_texts = 2 * sum(map(_has_texts, logged)) > len(logged)
    key = step_key(logged)
    if key is None:
        names: set[str] = set()
        for row in logged:
            names |= numbers_of(row).keys()
        is_of_trainer = not _OF_TRAINER.isdisjoint(roles_of(names))
        enough = len(logged) >= _LEAST_ROWS
        if not is_of_trainer or not enough or has_texts:
            return None
        # Where any row names its step, the others are not numbered.
        names_of_steps = map(own_step_key, without_settings(logged))
        return next((name for name in names_of_steps if name is not None), INDEX)
    if has_texts:
        steps = [step_in(stepped(row, key, 0)) for row in logged]
        if len(logged) < 2 or len(set(steps)) < _DISTINCT * len(logged):
            return None
    return key


def _has_tokens(row: Row) -> bool:
    return any(isinstance(row.get(key), list) for key in _TOKEN_KEYS)


def _has_texts(row: Row) -> bool:
    """Return whether a row has a text of a rollout, or one that is too long for a name."""
    return any(
        isinstance(value, str) and (name in TEXT_KEYS or len(value) > _LONG)
        for name, value in row.items()
    )


def document_of(value: Any) -> Document:
    """Return the series of metrics in a JSON document, by run; without any if it has no shape."""
    if isinstance(value, list):
        series = _series_of(value)
        return Document({"": [series]} if series else {})
    if not isinstance(value, dict):
        return Document()
    history = value.get(_HISTORY)
    if isinstance(history, list):
        series = _series_of(history)
        return Document({"": [series]} if series else {})
    found = _search(value, (), 0)
    return Document(_runs_of(found), settings_in(value))


def _series_of(value: Any) -> Series | None:
    """Return the series that a value is, None if it is none."""
    if isinstance(value, list):
        rows = dicts(value)
        if not rows or 2 * len(rows) < len(value):
            return None
        step = step_of_rows(rows[:HEAD])
        return None if step is None else Series(rows, step)
    if isinstance(value, dict):
        return _by_step(value) or _by_column(value)
    return None


def _by_step(obj: Mapping[str, Any]) -> Series | None:
    """Return the series of an object whose keys are steps, and whose values have numbers."""
    if len(obj) < 2 or not all(map(_STEP_AS_TEXT.fullmatch, obj)):
        return None
    # Steps are logged in their order, or sorted as texts; numbers of prompts as they were drawn.
    steps = list(map(int, obj))
    if steps != sorted(steps) and list(obj) != sorted(obj):
        return None
    rows = [
        {**value, "step": int(key)}
        for key, value in obj.items()
        if isinstance(value, dict)
    ]
    if 2 * len(rows) < len(obj) or step_of_rows(rows[:HEAD]) is None:
        return None
    return Series(rows, "step")


def _by_column(obj: Mapping[str, Any]) -> Series | None:
    """Return the series of an object of columns: lists of numbers, or numbers by step."""
    columns = {
        name: value
        for name, value in obj.items()
        if isinstance(value, list) and _is_column(value)
    }
    counting = _counting_column(obj, columns)
    if counting:
        steps: list[Any] = obj[counting]
        columns.pop(counting, None)
    else:
        # Most columns have one value per step; others count something else.
        lengths = Counter(len(column) for column in columns.values())
        length = max(lengths, key=lambda one: (lengths[one], one), default=0)
        if length < _LEAST_ROWS:
            return None
        is_of_trainer = not _OF_TRAINER.isdisjoint(roles_of(columns))
        if not is_of_trainer and not any(map(_CURVE.fullmatch, columns)):
            return None  # such as the scores of answers
        steps = list(range(length))
    used = {
        name: column for name, column in columns.items() if len(column) == len(steps)
    }
    if not used:
        return None
    cells = zip(*used.values(), strict=True)
    values = [dict(zip(used, row, strict=True)) for row in cells]
    left_out = [name for name in columns if name not in used]
    if not counting:
        return Series(values, INDEX, left_out)
    rows = [{"step": steps[i], **row} for i, row in enumerate(values)]
    by_step = {whole(row["step"]): row for row in rows}
    for name, value in obj.items():
        if isinstance(value, dict) and _is_by_step(value):
            for key, number in value.items():
                step = int(key)
                if step not in by_step:
                    by_step[step] = {"step": step}
                    rows.append(by_step[step])
                by_step[step][name] = number
    # Steps that repeat may be those of a restart: they stay in their order.
    if _ascends([row["step"] for row in rows]):
        rows.sort(key=lambda row: row["step"])
    return Series(rows, "step", left_out)


def _counting_column(obj: Mapping[str, Any], columns: Mapping[str, list[Any]]) -> str:
    """Return the name of the column of ``obj`` that has the steps, INDEX without any.

    ``columns`` are those of numbers. One that is named like a step is used whatever its values.
    """
    lists = [name for name, value in obj.items() if _is_list(value)]
    by_name = {name.lower(): name for name in lists}
    named = [by_name[key.lower()] for key in STEP_KEYS if key.lower() in by_name]
    for name in named:
        if _ascends(obj[name]):
            return name
    if named:
        return named[0]
    for key in OTHER_STEP_KEYS:
        name = by_name.get(key, INDEX)
        if name in columns and step_key([{key: value} for value in columns[name]]):
            return name
    return INDEX


def _is_list(value: object) -> bool:
    """Return whether a value is a list of several plain values."""
    return (
        isinstance(value, list)
        and len(value) > 1
        and not any(isinstance(one, list | dict) for one in value)
    )


def _is_column(values: list[Any]) -> bool:
    """Return whether a list has numbers, or null, and more than one."""
    if len(values) < 2:
        return False
    numbers = sum(isinstance(value, int | float) for value in values)
    nulls = sum(value is None for value in values)
    return numbers > 0 and numbers + nulls == len(values)


def _ascends(values: list[Any]) -> bool:
    steps = [whole(value) for value in values]
    return None not in steps and len(set(steps)) == len(steps)


def _is_by_step(value: Mapping[str, Any]) -> bool:
    """Return whether an object has a number for each of some steps."""
    return bool(value) and all(
        _STEP_AS_TEXT.fullmatch(key) and isinstance(number, int | float)
        for key, number in value.items()
    )


Found = tuple[tuple[str, ...], Series]  # keys that lead to a series, and the series


def _search(obj: Mapping[str, Any], path: tuple[str, ...], level: int) -> list[Found]:
    """Return all series in an object with the keys that lead to them, ``path`` to the object.

    What stands in columns of the object itself counts only if it has no rows.
    """
    rows: list[Found] = []
    for key in list(obj)[:_MAX_KEYS]:
        value = obj[key]
        if key.lower() in _SETTINGS:
            continue
        if isinstance(value, list):
            series = _series_of(value)
            if series:
                rows.append(((*path, key), series))
    if rows:
        return rows
    own = _series_of(obj)
    if own:
        return [(path, own)]
    inner: list[Found] = []
    if level < _MAX_LEVELS:
        for key in list(obj)[:_MAX_KEYS]:
            if isinstance(obj[key], dict) and key.lower() not in _SETTINGS:
                inner += _search(obj[key], (*path, key), level + 1)
    return inner[:MAX_RUNS]


def _runs_of(found: Sequence[Found]) -> dict[str, list[Series]]:
    """Return run -> its series: of several, whether they are runs or parts of one."""
    if len(found) < 2:
        return {"": [series for _, series in found]} if found else {}
    parts = [_part_of_run(path, series) for path, series in found]
    seen: set[tuple[str, int | None]] = set()
    clash = False
    for part in parts:
        own = _values_at(part)
        clash = clash or not seen.isdisjoint(own)
        seen |= own
    if not clash:
        return {"": parts}
    runs: dict[str, list[Series]] = {}
    tops = {path[0] for path, _ in found}
    for path, series in found:
        # A run's own parts, such as {"a": {"train": [...], "eval": [...]}}, have its first key.
        name = path[0] if len(tops) > 1 else "/".join(path)
        runs.setdefault(name, []).append(_part_of_run(path[1:], series))
    return runs


def _part_of_run(path: Sequence[str], series: Series) -> Series:
    """Return a series with the split that its keys name before its metrics, such as ``eval/``."""
    split = split_of("/".join(path)) or ""
    if split in ("", "train"):
        return series
    rows = [_prefixed_row(row, split, series) for row in series.rows]
    return Series(rows, series.step, series.left_out)


def _prefixed_row(row: Row, split: str, series: Series) -> Row:
    prefixed_row: Row = {}
    for name, value in row.items():
        key = name if _is_step(name, series) else prefixed(split, name)
        prefixed_row[key] = value
    return prefixed_row


def _is_step(name: str, series: Series) -> bool:
    return name == series.step or name in STEP_KEYS or name in KIND_KEYS


def _values_at(series: Series) -> set[tuple[str, int | None]]:
    """Return (metric, step) of the values at the start of a series."""
    values: set[tuple[str, int | None]] = set()
    for row in series.with_steps()[:HEAD]:
        step = step_in(row)
        values.update((name, step) for name in numbers_of(row))
    return values


def settings_in(obj: Row) -> Row:
    """Return the settings that an object has beside its metrics, {} without any."""
    for key, value in obj.items():
        if key.lower() in _SETTINGS and isinstance(value, dict):
            return value
    return {}


def without_settings(rows: Sequence[Row]) -> list[Row]:
    """Return the rows at the start of a log that are no configuration."""
    return [row for row in rows if not configuration_of(row)]


def configuration_of(row: Row) -> Row:
    """Return the settings in a row that is a configuration instead of metrics, {} if it is none."""
    settings = settings_in(row)
    if settings:
        return settings
    kinds = [str(row[key]).lower() for key in row if key in KIND_KEYS]
    if any(map(_OF_SETTINGS.fullmatch, kinds)):
        names = [name for name in row if name not in _NOT_SETTINGS]
        return {name: row[name] for name in names}
    return {}
