"""Score logged responses anew with a reward function of the user, which ``--score`` names.

Workers keep what the function takes of each row (``row_arguments``) with the row's texts. When all
rows are read, ``rescore`` calls the function for those that are in the response table, in whole
groups of a step. The rewards become ``valid_reward``, the second reward.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import orjson
import pandas as pd

from rlreport.errors import UsageError
from rlreport.fields import CANONICAL, LARGEST_NUMBER
from rlreport.figures.ragged import Floats, Ints
from rlreport.read.rollouts import unload
from rlreport.read.spool import SpooledTexts
from rlreport.system.function_process import (
    CallError,
    FunctionProcess,
    Results,
    Signature,
)
from rlreport.tables import Rescoring, Unscored
from rlreport.text.chat import is_messages
from rlreport.text.messages import message

# A call has whole groups of one step, as many as fit into so many responses and bytes; a group
# that does not fit is cut.
BATCH_ROWS = 64
BATCH_BYTES = 8 << 20
# Calls that end their process take up to the time limit each. Scoring ends after so many of them,
# and earlier if no response was scored yet.
MOST_STOPS = 100
MOST_STOPS_AT_FIRST = 5
# Maximum number of reasons that are listed why responses have no reward
MOST_REASONS = 20
_NOT_TRIED = message("not tried, as too many calls ended their process")

# Parameters that get the label if the log has no field of their name
LABELS = ("ground_truth", "answer", "solution", "target", "label", "gts")
# What verl passes where a row has no such field
_VERL_DEFAULTS: dict[str, Any] = {"data_source": None, "extra_info": {}}
# Fields that are no columns of a data set: longer lists of numbers have one per token.
_LONGEST_LIST = 64
_TEXT_FIELDS = frozenset({"prompt", "prompts", "completion", "completions", "messages"})
_NO_COLUMNS = (CANONICAL | _TEXT_FIELDS) - {"ground_truth"}


def row_arguments(
    signature: Signature, record: Mapping[str, Any], obj: Mapping[str, Any] | None
) -> str:
    """Return as JSON what a function takes of one row: parameter -> value.

    Args:
        signature: that of the function.
        record: the row with the canonical fields.
        obj: the logged object, if it has this row only: its fields are passed as they are logged.
    """
    names = (*signature.required, *signature.optional)
    logged = {**record, **(obj or {})}
    label = record.get("ground_truth")
    if label is not None:
        logged.setdefault("ground_truth", label)
        for name in LABELS:
            if name in names:
                logged.setdefault(name, label)
    if signature.per_row:
        given = _arguments_of_verl(record, logged)
    else:
        given = _arguments_of_trl(record, logged)
    # What the trainer passes comes before a logged field of the same name.
    available = {**logged, **given}
    arguments = {name: available[name] for name in names if name in available}
    # A function with ``**kwargs`` gets all columns of the data set from TRL, none from verl.
    if signature.is_open and not signature.per_row:
        arguments |= {name: given[name] for name in ("prompts", "completions")}
        for name, value in logged.items():
            if name not in _NO_COLUMNS and not _is_long(value):
                arguments.setdefault(str(name), value)
    return _as_json(arguments)


def _arguments_of_verl(
    record: Mapping[str, Any], logged: Mapping[str, Any]
) -> dict[str, Any]:
    given = {"solution_str": record["response"]}
    for name, default in _VERL_DEFAULTS.items():
        given[name] = logged.get(name, default)
    if not isinstance(given["extra_info"], dict):
        given["extra_info"] = {}
    return given


def _arguments_of_trl(
    record: Mapping[str, Any], logged: Mapping[str, Any]
) -> dict[str, Any]:
    """Return prompt and completion: texts, or both lists of messages if the prompt is logged so."""
    prompt = logged.get("prompt")
    if not is_messages(prompt):
        turns = record.get("prompt_turns")
        prompt = record["prompt"]
        if isinstance(turns, list) and turns:
            prompt = [{"role": role, "content": text} for role, text in turns]
    completion = logged.get("completion")
    if not is_messages(completion):
        turns = record.get("turns")
        completion = record["response"]
        if isinstance(turns, list) and turns:
            completion = [
                {"role": turn.get("role"), "content": turn.get("text")}
                for turn in turns
                if isinstance(turn, Mapping)
            ]
    if is_messages(prompt) and isinstance(completion, str):
        completion = [{"role": "assistant", "content": completion}]
    given = {"prompts": prompt, "completions": completion}
    if record.get("token_ids") is not None:
        given["completion_ids"] = record["token_ids"]
    return given


def _is_long(value: object) -> bool:
    is_list = isinstance(value, list) and len(value) > _LONGEST_LIST
    return is_list and isinstance(value[0], int | float)  # type: ignore[index]


def _as_json(arguments: dict[str, Any]) -> str:
    try:
        return orjson.dumps(arguments, option=orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:
        # Lone surrogates, integers beyond 64 bits, bytes, dates
        return json.dumps(arguments, default=str)


class ScoreFunction(NamedTuple):
    """A reward function of the user that scores the responses, and what reports call it."""

    process: FunctionProcess
    name: str


@dataclass(slots=True)
class _Outcome:
    """The rewards so far, float64 (R,), and why rows have none: reason -> (count, first row)."""

    rewards: Floats
    unscored: dict[str, list[int]] = field(default_factory=dict)
    stops: int = 0  # calls that ended the function's process

    @property
    def is_over(self) -> bool:
        """Whether so many calls ended their process that no more are tried."""
        has_any = bool(np.isfinite(self.rewards).any())
        return self.stops >= (MOST_STOPS if has_any else MOST_STOPS_AT_FIRST)

    def put(self, row: int, reward: float | None, reason: str) -> None:
        if reward is not None and abs(reward) <= LARGEST_NUMBER:
            self.rewards[row] = reward
            return
        reason = reason or message("returned a number that is too large")
        if reason not in self.unscored and len(self.unscored) == MOST_REASONS:
            reason = message("other reasons")
        counted = self.unscored.setdefault(reason, [0, row])
        counted[0] += 1
        counted[1] = min(counted[1], row)


class Rescored(NamedTuple):
    """The new rewards of the response table, float64 (R,), NaN without one, and what they are."""

    rewards: Floats
    about: Rescoring


def rescore(
    process: FunctionProcess,
    function: str,
    responses: pd.DataFrame,
    calls: SpooledTexts,
    advance: Callable[[float], object],
) -> Rescored:
    """Score all responses of the table.

    Args:
        process: calls the function.
        function: its name, with its file.
        responses: the response table, R rows.
        calls: ``row_arguments`` of each of its rows.
        advance: is told how many more responses are done.

    Raises:
        UsageError: the function gave no response a reward, or returned no list of rewards.
    """
    outcome = _Outcome(np.full(len(responses), np.nan))
    for rows in _batches(responses, calls, process.signature):
        _score_batch(process, calls, rows, outcome, advance)
        unload(calls.maps)
    unscored = []
    steps = responses["step"].to_numpy(np.int64)
    numbers = responses["n"].to_numpy(np.int64)
    for reason, (count, row) in outcome.unscored.items():
        place = int(steps[row]), int(numbers[row])
        unscored.append(Unscored(reason, count, *place))
    unscored.sort(key=lambda one: (-one.rows, one.reason))
    scored = int(np.isfinite(outcome.rewards).sum())
    if not scored:
        reasons = "; ".join(f"{one.reason} ({one.rows:,})" for one in unscored[:3])
        raise UsageError(f"{function} gave no reward to any response: {reasons}")
    about = Rescoring(function, len(responses), scored, tuple(unscored))
    return Rescored(outcome.rewards, about)


def _score_batch(
    process: FunctionProcess,
    calls: SpooledTexts,
    rows: Ints,
    outcome: _Outcome,
    advance: Callable[[float], object],
) -> None:
    """Score rows in one call or, if that fails, each in a call of its own.

    ``advance`` is told after each call, as one may take up to the time limit.
    """
    ready: list[int] = []
    arguments: list[dict[str, Any]] = []
    for row in rows.tolist():
        of_row = orjson.loads(calls.text(row) or "{}")
        missing = [n for n in process.signature.required if n not in of_row]
        if missing:
            outcome.put(
                row, None, message("not logged: {fields}", fields=", ".join(missing))
            )
        else:
            ready.append(row)
            arguments.append(of_row)
    advance(len(rows) - len(ready))
    if len(ready) > 1 and not outcome.is_over:
        try:
            results = _call(process, arguments)
        except CallError as error:
            outcome.stops += error.stopped
        else:
            _put_results(ready, results, outcome)
            advance(len(ready))
            return
    for row, of_row in zip(ready, arguments, strict=True):
        if outcome.is_over:
            outcome.put(row, None, _NOT_TRIED)
            advance(1)
            continue
        try:
            results = _call(process, [of_row])
        except CallError as error:
            outcome.stops += error.stopped
            outcome.put(row, None, error.reason)
        else:
            _put_results([row], results, outcome)
        advance(1)


def _put_results(rows: Sequence[int], results: Results, outcome: _Outcome) -> None:
    for number, (row, reward) in enumerate(zip(rows, results.rewards, strict=True)):
        outcome.put(row, reward, results.reasons.get(number, ""))


def _call(process: FunctionProcess, rows: Sequence[dict[str, Any]]) -> Results:
    """Call the function for rows: with lists, or a function of one row with its values."""
    if process.signature.per_row:
        return process.call(rows[0], 1)
    arguments: dict[str, list[Any]] = {}
    for name in sorted(set[str]().union(*rows)):
        arguments[name] = [row.get(name) for row in rows]
    return process.call(arguments, len(rows))


def _batches(
    responses: pd.DataFrame, calls: SpooledTexts, signature: Signature
) -> Iterator[Ints]:
    """Yield the rows of each call, by step and group."""
    step = responses["step"].to_numpy(np.int64)
    group = responses["group"].to_numpy(np.int64)
    order = np.lexsort((np.arange(len(step)), group, step))  # by the last key first
    if signature.per_row:
        yield from order.reshape(-1, 1)
        return
    batch: list[int] = []
    size = 0  # bytes
    for part in _parts_of_groups(order, step, group):
        part_size = calls.size(part)
        is_full = len(batch) + len(part) > BATCH_ROWS
        is_large = size + part_size > BATCH_BYTES
        if batch and (is_full or is_large or step[batch[0]] != step[part[0]]):
            yield np.array(batch, np.int64)
            batch = []
            size = 0
        batch += part.tolist()
        size += part_size
    if batch:
        yield np.array(batch, np.int64)


def _parts_of_groups(order: Ints, step: Ints, group: Ints) -> Iterator[Ints]:
    """Yield the rows of each group in each step, of large groups BATCH_ROWS at a time."""
    is_new_step = np.diff(step[order]) != 0
    is_new_group = np.diff(group[order]) != 0
    starts = np.flatnonzero(is_new_step | is_new_group) + 1
    for rows in np.split(order, starts):
        for start in range(0, len(rows), BATCH_ROWS):
            yield rows[start : start + BATCH_ROWS]
