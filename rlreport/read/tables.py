"""Build the tables of responses, of extra log fields and of tools from the rows that were read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.columns import RESPONSE_COLUMNS
from rlreport.figures.constant import compact, take
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import difference
from rlreport.figures.turns import MAX_TOOLS, Ending, ToolCounts
from rlreport.read.chunk import (
    FIELD_BITS,
    MAX_EXTRAS,
    FinishSource,
    RangeCounts,
)
from rlreport.read.grades import clear_missing_grades
from rlreport.read.kept_rows import Hashes, LogRows
from rlreport.read.rollouts import Rollouts
from rlreport.read.spool import no_rollouts
from rlreport.read.texts import Columns
from rlreport.tables import LogTables, Note, RowRole, TokenSample, listed_tool
from rlreport.text.clean import number_as_text

MAX_PROMPTS = 2_000  # Prompts whose text is read; further ones are listed without it
PROMPT_CHARS = 2_000  # maximum characters of a prompt in the prompt table

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(slots=True, kw_only=True)
class Scan(LogTables):
    """The tables computed from the logs, with the texts and tokens of the chosen responses."""

    name: str  # name of the run, from the folder or file that the user gave
    tokens: TokenSample | None = None  # KL etc. per token; None without token strings
    # training step -> failed rollouts
    failed: dict[int, int] = field(default_factory=dict)
    # training step -> filtered rollouts
    filtered: dict[int, int] = field(default_factory=dict)
    starts: int = 1  # the largest number of starts of a run in one log
    # texts of the chosen responses
    rollouts: Rollouts = field(default_factory=no_rollouts)

    def prompt_texts(self) -> list[str]:
        """Return texts of prompts 0 to MAX_PROMPTS - 1, shortened; "" without a chosen response."""
        prompts = self.responses["prompt_id"].to_numpy()
        # Prompts of the chosen responses, and the index in ``rollouts`` of the first of each
        ids, first = np.unique(prompts[self.rollouts.places.row], return_index=True)
        texts = [""] * min(MAX_PROMPTS, int(prompts.max(initial=-1)) + 1)
        for prompt_id, index in zip(ids.tolist(), first.tolist(), strict=True):
            if prompt_id < len(texts):
                text = self.rollouts.text("prompt", index) or ""
                texts[prompt_id] = text[:PROMPT_CHARS]
        self.rollouts.unload()
        return texts


def no_responses(name: str, notes: list[Note]) -> Scan:
    """Return the tables of a run of which there are trainer metrics only."""
    responses = {column.name: np.empty(0, column.dtype) for column in RESPONSE_COLUMNS}
    return Scan(
        name=name,
        responses=pd.DataFrame(responses),
        extras=pd.DataFrame(index=pd.RangeIndex(0)),
        notes=notes,
    )


def response_table(rows: LogRows) -> pd.DataFrame:
    """Return the response table; remove the columns of ``rows.chunk``, to save memory."""
    order = rows.order
    logged = rows.chunk.columns
    columns = {name: take(logged.pop(name), order) for name in list(logged)}
    step = columns["step"].astype(np.int64)
    # The number of each response in its step
    columns["n"] = pd.Series(step).groupby(step).cumcount().to_numpy()
    # Rows have the line's number in its byte range.
    columns["line"] = columns["line"].astype(np.int64) + lines_before(
        rows.chunk.counts,
        columns["file"].astype(np.int64),
        columns["offset"].astype(np.int64),
    )
    # A prompt that occurs in training and in validation gets two ids.
    prompt = _ids(columns["validation"], columns["prompt_hash"])
    columns["prompt_id"] = prompt
    columns["group"] = _groups(columns, prompt)
    # Numbers instead of hashes. ``factorize`` gives NaN, no rollout, the number -1.
    numbers, _ = pd.factorize(columns["rollout"])
    columns["rollout"] = np.where(numbers < 0, np.nan, numbers)
    clear_missing_grades(columns)
    for name in ("reward", "valid_reward"):
        reward = columns[name].astype(np.float64)
        reference = columns[f"ref_{name}"].astype(np.float64)
        columns[f"{name}_gap"] = difference(reward, reference)
    missing = np.full(len(order), np.nan)  # of a column that no row has
    _set_endings(columns, columns.get("turns", missing))
    _count_plain_markup(columns)
    columns["has_texts"] = np.zeros(len(order), np.int8)  # until the choice
    return pd.DataFrame(
        {
            column.name: compact(
                np.asarray(columns.pop(column.name, missing), dtype=column.dtype)
            )
            for column in RESPONSE_COLUMNS
        },
        copy=False,
    )


def _groups(columns: Columns, prompt: Ints) -> Ints:
    """Return ids of groups: responses of a step to one prompt, if no group is logged, (R,).

    ``prompt`` has the ids of the responses' prompts.
    """
    roles = columns["validation"]
    group = columns["group_hash"].astype(np.uint64)
    group = np.where(group == 0, prompt.astype(np.uint64), group)
    # Branches are in no group: each gets one of its own.
    group = np.where(roles == RowRole.BRANCH, np.arange(len(group)), group)
    return _ids(columns["step"].astype(np.int64), roles, group)


def _ids(*keys: NDArray[np.generic]) -> Ints:
    """Return the ordinal, by first appearance, of each row's combination of keys, int64 (R,)."""
    table = pd.DataFrame(dict(enumerate(keys)), copy=False)
    return np.asarray(table.groupby([*table], sort=False).ngroup(), np.int64)


def _count_plain_markup(columns: Columns) -> None:
    """Add turns with calls in plain text to ``markup_turns``, if other calls of the run were read.

    A framework that parses calls from plain text, such as ReAct's, may log no others.
    """
    if "plain_markup_turns" not in columns:
        return
    plain = columns.pop("plain_markup_turns").astype(np.float64)
    if (columns["tool_calls"].astype(np.float64) > 0).any():
        columns["markup_turns"] = columns["markup_turns"].astype(np.float64) + plain


# Uncompleted responses are assumed to have ended at a turn limit if at least this share of them
# has the largest number of turns, and that number is at least LEAST_LIMIT
PILED_UP = 0.2
LEAST_LIMIT = 4
# Without any reason, conversations of that number are stopped if most of them end in a call or an
# answer and most shorter ones do not: in a game, or where a tool ends the task, all lengths do.
# A few long ones are no limit, so at least this share of all has to be stopped
MOSTLY = 0.5
AT_TURN_LIMIT = 0.05


def _set_endings(columns: Columns, turns: Floats) -> None:
    """Set ``ending``, ``finished`` and ``at_turn_limit`` from logged reasons, or infer them."""
    for name in ("ending", "finished"):
        columns[name] = columns[name].copy()  # they are changed below
    _forget_put_end_tokens(columns)
    is_inferred = columns["finish_source"] != FinishSource.REASON
    _forget_absent_end_tokens(columns)
    _infer_token_limit(columns, turns, is_inferred)
    _infer_turn_limit(columns, turns)
    has_limit = _infer_unlogged_turn_limit(columns, turns)
    # Before the endings below, which come from the last token or the text: these tell no turns.
    columns["at_turn_limit"] = _at_turn_limit(columns, turns, has_limit)
    ending = columns["ending"]
    has_no_reason = ending == 0
    ending[has_no_reason & (columns["finished"] == 1)] = Ending.FINISHED
    ending[has_no_reason & (columns["finished"] == 0)] = Ending.CUT_OFF


# End tokens with a smaller log-probability were not sampled, but put at a limit, if so many of all
# end tokens have one: a single one may be a rare draw
UNLIKELY_END = -8.0
MANY_UNLIKELY = 0.05


def _forget_put_end_tokens(columns: Columns) -> None:
    """Set ``finished`` to 0 where it follows from an end token that was probably not sampled."""
    if "end_logp" not in columns:
        return
    logp = columns["end_logp"].astype(np.float64)
    is_decided = (columns["finish_source"] == FinishSource.TOKEN) & np.isfinite(logp)
    is_unlikely = is_decided & (logp < UNLIKELY_END)
    if is_unlikely.sum() > MANY_UNLIKELY * is_decided.sum():
        columns["finished"][is_unlikely] = 0.0


def _forget_absent_end_tokens(columns: Columns) -> None:
    """Set ``finished`` to NaN where an end token decides it but no response has one.

    The log may omit end tokens, so nobody knows which responses are finished.
    """
    source = columns.pop("finish_source")  # no column of the response table
    finished = columns["finished"]
    for kind in (FinishSource.TOKEN, FinishSource.TEXT):
        of_kind = source == kind
        if not finished[of_kind].any():
            finished[of_kind] = np.nan


# The largest length is taken for a limit of tokens if it is at least LEAST_TOKENS, a number that
# people choose, and the length of at least this share of responses (but not of nearly all)...
AT_TOKEN_LIMIT = 0.05
MOST_AT_TOKEN_LIMIT = 0.98
LEAST_TOKENS = 16
ROUND_NUMBERS = (8, 10)
# ... and of more than those that are shorter by less than this part
NEAR_LIMIT = 0.1
# If all responses of that length end with an end token, it has to be a number that only people
# choose: answers of one form may all have 40 tokens
LEAST_PLAIN = 64
PLAIN_NUMBERS = (32, 50)


def _infer_token_limit(
    columns: Columns, turns: Floats, is_inferred: NDArray[np.bool_]
) -> None:
    """Set ``finished`` where no logged reason does, if lengths pile up at a limit of tokens.

    Responses of exactly that length are cut off, also if a trainer put an end token there. Shorter
    ones finished, where nothing tells. Conversations are left out, as their limit may be one of
    each turn.

    Args:
        columns: of the response table.
        turns: number of turns, (rows,).
        is_inferred: whether no reason is logged, bool (rows,).
    """
    tokens = columns.get("response_tokens")
    if tokens is None:
        return
    length = tokens.astype(np.float64)
    environment = columns.get("env_tokens", np.zeros(len(length)))
    is_single = ~(turns > 1) & ~(environment.astype(np.float64) > 0)
    finished = columns["finished"]
    # An end token that the policy probably sampled is none that was put.
    was_sampled = columns.get("end_logp", np.full(len(length), np.nan)) >= UNLIKELY_END
    for role in np.unique(columns["validation"]):
        # Training, validation and branches may have limits of their own.
        of_role = (columns["validation"] == role) & is_single & np.isfinite(length)
        limit = _token_limit(length[of_role])
        if limit is None:
            continue
        is_unknown = of_role & np.isnan(finished.astype(np.float64))
        finished[is_unknown] = length[is_unknown] < limit
        at_limit = of_role & is_inferred & (length == limit)
        if (finished[at_limit] == 0).any() or _is_plain_limit(limit):
            finished[at_limit & ~was_sampled] = 0.0


def _is_plain_limit(limit: float) -> bool:
    """Return whether a length alone tells that it is a limit, and no answer's usual length."""
    return limit >= LEAST_PLAIN and any(limit % size == 0 for size in PLAIN_NUMBERS)


def _token_limit(lengths: Floats) -> float | None:
    """Return the limit of tokens at which the lengths of responses pile up, None without one."""
    limit = float(lengths.max(initial=0.0))
    if limit < LEAST_TOKENS or all(limit % size for size in ROUND_NUMBERS):
        return None
    at_limit = int((lengths == limit).sum())
    near = int((lengths >= (1 - NEAR_LIMIT) * limit).sum()) - at_limit
    share = at_limit / len(lengths)
    is_usual = AT_TOKEN_LIMIT <= share <= MOST_AT_TOKEN_LIMIT
    return limit if is_usual and at_limit > near else None


def _infer_turn_limit(columns: Columns, turns: Floats) -> None:
    """Set ``ending`` of unfinished responses to MOST_TURNS if they pile up at that number."""
    ending = columns["ending"]
    for role in np.unique(columns["validation"]):
        # Training, validation and branches may have limits of their own.
        of_role = columns["validation"] == role
        unfinished = of_role & (ending == Ending.UNFINISHED)
        most = np.max(turns, initial=0.0, where=of_role & np.isfinite(turns))
        at_most = unfinished & (turns == most)
        if most >= LEAST_LIMIT and at_most.sum() >= PILED_UP * unfinished.sum():
            ending[at_most] = Ending.MOST_TURNS


def _infer_unlogged_turn_limit(columns: Columns, turns: Floats) -> NDArray[np.bool_]:
    """Set ``ending`` of conversations without a reason to MOST_TURNS if they were stopped there.

    Returns which conversations without a reason are below or at a limit found so, bool (R,).
    """
    ending = columns["ending"]
    has_limit = np.zeros(len(turns), bool)
    is_open = columns.pop("open_end", np.full(len(turns), np.nan)) == 1
    for role in np.unique(columns["validation"]):
        # Training, validation and branches may have limits of their own.
        of_role = (columns["validation"] == role) & np.isfinite(turns)
        reasonless = of_role & (ending == 0)
        most = np.max(turns, initial=0.0, where=of_role)
        longest = reasonless & (turns == most)
        shorter = reasonless & (turns < most)
        if most < LEAST_LIMIT or not (longest.any() and shorter.any()):
            continue
        stopped = longest & is_open
        is_pile = stopped.sum() >= AT_TURN_LIMIT * reasonless.sum()
        are_stopped = is_open[longest].mean() > MOSTLY > is_open[shorter].mean()
        most_open_are_longest = stopped.sum() >= PILED_UP * (reasonless & is_open).sum()
        if is_pile and are_stopped and most_open_are_longest:
            ending[stopped] = Ending.MOST_TURNS
            has_limit |= reasonless
    return has_limit


def _at_turn_limit(
    columns: Columns, turns: Floats, has_limit: NDArray[np.bool_]
) -> Floats:
    """Return 1 if a response ended at its limit of turns, 0 if not, NaN if unknown, (R,).

    Args:
        columns: of the response table, with ``ending``.
        turns: the number of turns of each response, NaN if it is unknown.
        has_limit: which responses without a reason have a known limit.
    """
    ending = columns["ending"]
    is_inferred = ending == Ending.MOST_TURNS
    is_unknown = (ending == 0) & ~has_limit
    if not is_inferred.any():
        # What stopped unfinished responses may have been the limit.
        is_unknown = is_unknown | (ending == Ending.UNFINISHED)
    at_limit = is_inferred | (ending == Ending.TURN_LIMIT)
    if not at_limit.any():
        # An unknown reason may be the limit, and without turns there may be no limit.
        is_unknown |= np.isnan(columns["finished"]) | np.isnan(turns)
    return np.where(is_unknown, np.nan, at_limit.astype(np.float64))


def carried_fields(rows: LogRows) -> dict[str, int]:
    """Return canonical field -> number of responses with it; call before ``response_table``."""
    bits = rows.chunk.columns["carried"].astype(np.int64)[rows.order]
    counts = {
        name: int(np.count_nonzero(bits & bit)) for name, bit in FIELD_BITS.items()
    }
    return {name: count for name, count in counts.items() if count}


def lines_before(counts: Sequence[RangeCounts], files: Ints, offsets: Ints) -> Ints:
    """Return the number of lines in each row's file before the row's byte range, (R,).

    ``counts`` are of all ranges that were read, ``files`` and ``offsets`` of the rows.
    """
    ranges = pd.DataFrame(counts, columns=RangeCounts._fields, dtype=np.int64)
    ranges = ranges.sort_values("start")
    ranges["before"] = ranges.groupby("file")["lines"].cumsum() - ranges["lines"]
    ranges_of_file = dict(list(ranges.groupby("file")))
    order = np.argsort(files, kind="stable")
    numbers, first = np.unique(files[order], return_index=True)
    rows_of_files = np.split(order, first[1:])
    before = np.zeros(len(files), np.int64)
    for number, rows in zip(numbers.tolist(), rows_of_files, strict=True):
        of_file = ranges_of_file[number]
        # A row's range is the last one that starts at or before its offset.
        starts = of_file["start"].to_numpy()
        row_range = np.searchsorted(starts, offsets[rows], side="right") - 1
        before[rows] = of_file["before"].to_numpy()[row_range]
    return before


def extras_table(rows: LogRows) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return up to MAX_EXTRAS extra fields as a table, and field -> number of responses with it."""
    order = rows.order
    count = rows.chunk.rows
    table: dict[str, pd.Series] = {}
    carried: dict[str, int] = {}
    for name, extra in sorted(rows.chunk.extras.items()):
        # Over all rows that were read; ``order`` picks those of the table.
        numbers = np.full(count, np.nan)
        has_value = np.zeros(count, dtype=bool)
        rows_with_number = np.asarray(extra.rows, dtype=np.int64)
        numbers[rows_with_number] = extra.numbers
        has_value[rows_with_number] = True
        has_value[list(extra.texts)] = True
        times = int(np.count_nonzero(has_value[order]))
        if not times:  # logged only in rows that are left out
            continue
        if len(table) == MAX_EXTRAS:
            rows.chunk.extras_dropped = True
            break
        carried[name] = times
        if not extra.texts:
            table[name] = pd.Series(numbers[order])
            continue
        # A field with any text is a column of texts.
        column = np.full(count, None, dtype=object)
        column[rows_with_number] = [*map(number_as_text, extra.numbers)]
        column[list(extra.texts)] = list(extra.texts.values())
        table[name] = pd.Series(column[order], dtype=object)
    return pd.DataFrame(table, index=pd.RangeIndex(len(order))), carried


def tool_table(rows: LogRows) -> pd.DataFrame:
    """Return ToolCounts by training step for MAX_TOOLS tools; call before ``response_table``."""
    counts = list(ToolCounts._fields)
    names = ["step", "tool", *counts]
    if not rows.chunk.tools:
        return pd.DataFrame([], columns=names)
    columns = rows.chunk.columns
    table = pd.DataFrame(rows.chunk.tools, columns=["row", "tool", *counts])
    is_training: NDArray[np.bool_] = np.zeros(rows.chunk.rows, dtype=bool)
    is_training[rows.order] = columns["validation"][rows.order] == RowRole.TRAINING
    table = table[is_training[table["row"]]]
    table["step"] = columns["step"][table["row"]]
    answers = table.groupby("tool")["answers"].sum()
    # Of equally used tools, the first by name
    most_used = sorted(answers.index, key=lambda tool: (-answers[tool], tool))
    selection = table[table["tool"].isin(most_used[:MAX_TOOLS])]
    by_tool = selection.groupby(["step", "tool"], as_index=False)
    return by_tool[counts].sum()[names]


def tools_used(rows: LogRows, tools: pd.DataFrame) -> pd.Series:
    """Return which of ``tools`` answered in each response, see ``LogTables.tools_used``."""
    if tools.empty:
        return pd.Series(dtype=object)
    counted_tools = set(tools["tool"])
    # Names of each row's tools, one a line; None without tools
    used = np.full(rows.chunk.rows, None, dtype=object)
    for row, tool, *_ in rows.chunk.tools:
        if tool in counted_tools:
            name = listed_tool(tool)
            used[row] = name if used[row] is None else f"{used[row]}\n{name}"
    return pd.Series(used[rows.order], dtype=object)


def mix(values: Hashes) -> Hashes:
    """Hash 64-bit numbers without collisions (SplitMix64, Steele et al. 2014, as in pandas)."""
    return pd.util.hash_array(values + _GOLDEN)
