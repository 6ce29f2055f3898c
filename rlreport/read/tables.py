"""Build the tables of responses, of extra log fields and of tools from the rows that were read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.columns import RESPONSE_COLUMNS
from rlreport.figures.metadata import MAX_TOOLS, Ending, ToolCounts
from rlreport.figures.ragged import Floats, Ints
from rlreport.figures.rounding import difference
from rlreport.read.chunk import (
    BRANCH,
    FAILED,
    FIELD_BITS,
    FILTERED,
    FROM_TEXT,
    FROM_TOKEN,
    MAX_EXTRAS,
    Chunk,
    Columns,
    Extra,
    RangeCounts,
    joined_columns,
)
from rlreport.read.detect import LogFiles
from rlreport.read.notes import (
    ODDITIES,
    clear_missing_grades,
    later_attempts,
    restart_note,
    start_note,
    starts_of,
    superseded_rows,
)
from rlreport.read.rollouts import Rollouts, no_rollouts
from rlreport.tables import IN_BRANCH, LogTables, Note, TokenSample, listed_tool
from rlreport.text.clean import number_as_text
from rlreport.text.messages import message, translatable

Hashes = NDArray[np.uint64]
Mask = NDArray[np.bool_]

MAX_PROMPTS = 2_000  # Prompts whose text is read; further ones are listed without it
_BRANCHES = translatable("branches of rollouts: shown, but only the trained row counts")
PROMPT_CHARS = 2_000  # maximum characters of a prompt in the prompt table

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(slots=True, kw_only=True)
class Scan(LogTables):
    """The tables computed from the logs, with the texts and tokens of the chosen responses."""

    name: str  # name of the run, from the folder or file that the user gave
    tokens: TokenSample | None = None  # KL etc. per token; None without token strings
    failed: dict[int, int] = field(default_factory=dict)  # training step -> failed rollouts
    filtered: dict[int, int] = field(default_factory=dict)  # training step -> filtered rollouts
    rollouts: Rollouts = field(default_factory=no_rollouts)  # texts of the chosen responses

    def prompt_texts(self) -> list[str]:
        """Return texts of prompts 0 to MAX_PROMPTS - 1, shortened; "" without a chosen response."""
        prompts = self.responses["prompt_id"].to_numpy()
        ids, first = np.unique(prompts[self.rollouts.places.row], return_index=True)
        texts = [""] * min(MAX_PROMPTS, int(prompts.max(initial=-1)) + 1)
        for number, index in zip(ids.tolist(), first.tolist(), strict=True):
            if number < len(texts):
                texts[number] = (self.rollouts.text("prompt", index) or "")[:PROMPT_CHARS]
        return texts


def no_responses(name: str, notes: list[Note]) -> Scan:
    responses = {column.name: np.empty(0, column.dtype) for column in RESPONSE_COLUMNS}
    return Scan(
        name=name,
        responses=pd.DataFrame(responses),
        extras=pd.DataFrame(index=pd.RangeIndex(0)),
        notes=notes,
    )


@dataclass(slots=True)
class LogRows:
    chunk: Chunk  # all rows, concatenated
    order: Ints  # int64 (R',), which rows of ``chunk`` are in the response table, in its order
    failed: dict[int, int] = field(default_factory=dict)  # training step -> failed rollouts
    filtered: dict[int, int] = field(default_factory=dict)  # training step -> filtered rollouts
    repeated: dict[int, int] = field(default_factory=dict)  # step -> responses of older attempts
    notes: list[Note] = field(default_factory=list)  # on rows left out


def log_rows(chunks: Sequence[Chunk], files: LogFiles, *, keep_restarted: bool) -> LogRows:  # noqa: PLR0914
    """Concatenate chunks and choose the rows of the response table.

    Of each rollout, the last row counts and the others are its branches. Of steps that a restarted
    run logged again, the last attempt is kept unless ``keep_restarted``. Without training rows,
    validation rows count as training rows.
    """
    rows = LogRows(joined_chunk(chunks), np.zeros(0, np.int64))
    columns = rows.chunk.columns
    if not columns:
        return rows
    left_out = columns["left_out"]
    untrained = left_out == BRANCH
    responses = (left_out == 0) | untrained
    if responses.any() and columns["validation"][responses].all():
        columns["validation"] = np.zeros_like(columns["validation"])
    keep = np.ones(len(responses), dtype=bool)
    repeated = np.zeros(len(responses), dtype=bool)
    rollout = columns.get("rollout")
    for file, index in _rows_by_file(columns):
        steps = columns["step"][index].astype(np.int64)
        name = files.sources[file].name
        in_validation = columns["validation"][index] == 1
        older = superseded_rows(steps, in_validation)
        starts = starts_of(steps, in_validation, columns["prompt_hash"][index].astype(np.uint64))
        if keep_restarted and starts.any():
            note, last_only = start_note(starts, steps, name)
            rows.notes.append(note)
            if last_only:
                keep[index[starts < starts[-1]]] = False
                older &= starts == starts[-1]
        keep[index[older]] &= keep_restarted
        older &= responses[index]
        repeated[index[older]] = True
        if older.any():
            rows.notes.append(restart_note(steps[older], name, kept=keep_restarted))
        if rollout is not None:
            keys = {"step": steps, "of": columns["validation"][index], "rollout": rollout[index]}
            keys["left_out"] = left_out[index]
            repeats = pd.DataFrame(keys).duplicated(keep="last").to_numpy()
            branches = repeats & ~np.isnan(rollout[index]) & responses[index] | untrained[index]
            columns["validation"][index[branches]] = IN_BRANCH
    _mark_older_files(rows, keep, repeated, files, keep_restarted=keep_restarted)
    responses &= ~_without_trained_row(rows, responses & keep, files)
    training = keep & (columns["validation"] == 0)
    rows.failed = _by_step(columns, training & (left_out == FAILED))
    rows.filtered = _by_step(columns, training & (left_out == FILTERED))
    rows.repeated = _by_step(columns, training & responses & repeated)
    response_rows = np.flatnonzero(keep & responses)
    names = ("sub", "offset", "file", "validation", "step")
    rows.order = response_rows[np.lexsort([columns[name][response_rows] for name in names])]
    return rows


def _without_trained_row(rows: LogRows, responses: Mask, files: LogFiles) -> Mask:
    """Add notes on branches; return which rows are branches at steps without others, bool (R,)."""
    step, file = (rows.chunk.columns[name].astype(np.int64) for name in ("step", "file"))
    branches = responses & (rows.chunk.columns["validation"] == IN_BRANCH)
    alone: Mask = branches & ~np.isin(step, step[responses & ~branches])
    kinds = (
        ("branches", branches & ~alone, _BRANCHES),
        ("untrained", alone, ODDITIES["untrained"]),
    )
    for kind, mask, text in kinds:
        for number in np.unique(file[mask]).tolist():
            count = int((file[mask] == number).sum())
            name = files.sources[number].name
            rows.notes.append(Note(kind, message(text), count, name))
    return alone


def _by_step(columns: Columns, selection: Mask) -> dict[int, int]:
    steps, rows = np.unique(columns["step"][selection], return_counts=True)
    return dict(zip(steps.tolist(), rows.tolist(), strict=True))


def _mark_older_files(
    rows: LogRows, keep: Mask, repeated: Mask, files: LogFiles, *, keep_restarted: bool
) -> None:
    columns = rows.chunk.columns
    names = [source.name for source in files.sources]
    if len(names) < 2:
        return
    file, step, validation = (
        columns[name].astype(np.int64) for name in ("file", "step", "validation")
    )
    training = keep & (columns["left_out"] == 0) & (validation == 0)
    split_steps = 2 * step + (validation == 1)
    prompts = columns["prompt_hash"].astype(np.uint64)[training]
    for older, newer in later_attempts(file[training], step[training], prompts, names):
        again = (
            keep & np.isin(file, older) & np.isin(split_steps, split_steps[np.isin(file, newer)])
        )
        if not again.any():  # another pair of attempts has marked these rows
            continue
        name = names[int(older.min())]
        rows.notes.append(restart_note(step[again], name, kept=keep_restarted))
        keep[again] = keep_restarted
        repeated |= again


def joined_chunk(chunks: Sequence[Chunk]) -> Chunk:
    joined = Chunk()
    for chunk in chunks:
        base = joined.rows
        for name, extra in chunk.extras.items():
            whole = joined.extras.setdefault(name, Extra())
            whole.rows.frombytes((np.asarray(extra.rows, np.int64) + base).tobytes())
            whole.numbers.extend(extra.numbers)
            whole.texts |= {base + row: text for row, text in extra.texts.items()}
        joined.tools += [(base + row, *tool) for row, *tool in chunk.tools]  # type: ignore[misc]
        joined.rows += chunk.rows
        joined.counts += chunk.counts
        joined.changes += chunk.changes
        joined.remarks.update(chunk.remarks)
        joined.reward_parts |= chunk.reward_parts
        joined.extras_dropped |= chunk.extras_dropped
    joined.columns = joined_columns([chunk.columns for chunk in chunks if chunk.rows])
    return joined


def _rows_by_file(columns: Columns) -> list[tuple[int, Ints]]:
    file, offset, sub = (columns[name].astype(np.int64) for name in ("file", "offset", "sub"))
    rows = np.lexsort((sub, offset, file))
    numbers, starts = np.unique(file[rows], return_index=True)
    return list(zip(numbers.tolist(), np.split(rows, starts[1:]), strict=True))


def response_table(rows: LogRows) -> pd.DataFrame:
    """Return the response table; remove the columns of ``rows.chunk``, to save memory."""
    order = rows.order
    logged = rows.chunk.columns
    columns = {name: logged.pop(name)[order] for name in list(logged)}
    step = columns["step"].astype(np.int64)
    columns["n"] = pd.Series(step).groupby(step).cumcount().to_numpy()
    columns["line"] = columns["line"].astype(np.int64) + lines_before(
        rows.chunk.counts, columns["file"].astype(np.int64), columns["offset"].astype(np.int64)
    )
    # A prompt that occurs in training and in validation gets two ids.
    columns["prompt_id"] = prompt = _ids(columns["validation"], columns["prompt_hash"])
    group = columns["group_hash"].astype(np.uint64)
    group = np.where(group == 0, prompt.astype(np.uint64), group)
    # Branches are in no group.
    group = np.where(columns["validation"] == IN_BRANCH, np.arange(len(order)), group)
    columns["group"] = _ids(step, columns["validation"], group)
    if "rollout" in columns:
        numbers, _ = pd.factorize(columns["rollout"])
        columns["rollout"] = np.where(numbers < 0, np.nan, numbers)
    clear_missing_grades(columns)
    for name, reference in (("reward", "ref_reward"), ("valid_reward", "ref_valid_reward")):
        if name in columns and reference in columns:
            rewards = (columns[of].astype(np.float64) for of in (name, reference))
            columns[f"{name}_gap"] = difference(*rewards)
    missing = np.full(len(order), np.nan)
    _set_endings(columns, columns.get("turns", missing))
    columns["has_texts"] = np.zeros(len(order), np.int8)  # until the choice
    return pd.DataFrame(
        {
            column.name: np.asarray(columns.pop(column.name, missing), dtype=column.dtype)
            for column in RESPONSE_COLUMNS
        },
        copy=False,
    )


def _ids(*keys: NDArray[np.generic]) -> Ints:
    """Return the ordinal, by first appearance, of each row's combination of keys, int64 (R,)."""
    table = pd.DataFrame(dict(enumerate(keys)), copy=False)
    return np.asarray(table.groupby([*table], sort=False).ngroup(), np.int64)


# Uncompleted responses are assumed to have ended at a turn limit if at least this share of them
# has the largest number of turns, and that number is at least LEAST_LIMIT
PILED_UP, LEAST_LIMIT = 0.2, 4


def _set_endings(columns: Columns, turns: Floats) -> None:
    """Set ``ending``, ``finished`` and ``at_turn_limit`` from logged reasons, or infer them."""
    source, ending, finished = (columns[n] for n in ("finish_source", "ending", "finished"))
    del columns["finish_source"]
    for kind in (FROM_TOKEN, FROM_TEXT):
        # If no response of the run has an end token, the log may omit them: finished is unknown.
        if not finished[source == kind].any():
            finished[source == kind] = np.nan
    for split in np.unique(columns["validation"]):
        of_split = columns["validation"] == split
        unfinished = of_split & (ending == Ending.UNFINISHED)
        most = np.max(turns, initial=0.0, where=of_split & np.isfinite(turns))
        at_most = unfinished & (turns == most)
        if most >= LEAST_LIMIT and at_most.sum() >= PILED_UP * unfinished.sum():
            ending[at_most] = Ending.MOST_TURNS
    at_limit = np.isin(ending, (Ending.TURN_LIMIT, Ending.MOST_TURNS)).astype(np.float64)
    inferred = ending == Ending.MOST_TURNS
    at_limit[(ending == 0) | ((ending == Ending.UNFINISHED) & ~inferred.any())] = np.nan
    if not (at_limit == 1).any():
        # An unknown reason may be the limit, and without turns there may be no limit.
        at_limit[np.isnan(finished) | np.isnan(turns)] = np.nan
    columns["at_turn_limit"] = at_limit
    # Without a logged reason, ``finished`` comes from the last token or the text.
    ending[(ending == 0) & (finished == 1)] = Ending.FINISHED
    ending[(ending == 0) & (finished == 0)] = Ending.CUT_OFF


def carried_fields(rows: LogRows) -> dict[str, int]:
    """Return canonical field -> number of responses with it; call before ``response_table``."""
    bits = rows.chunk.columns["carried"].astype(np.int64)[rows.order]
    counts = {name: int(np.count_nonzero(bits & bit)) for name, bit in FIELD_BITS.items()}
    return {name: count for name, count in counts.items() if count}


def lines_before(counts: Sequence[RangeCounts], files: Ints, offsets: Ints) -> Ints:
    """Return the number of lines in each row's file before the row's byte range, (R,)."""
    ranges = pd.DataFrame(counts, columns=RangeCounts._fields, dtype=np.int64).sort_values("start")
    ranges["before"] = ranges.groupby("file")["lines"].cumsum() - ranges["lines"]
    rows = pd.DataFrame({"file": files, "start": offsets}).sort_values("start")
    rows["before"] = pd.merge_asof(rows, ranges, on="start", by="file")["before"].to_numpy()
    return rows["before"].sort_index().to_numpy()


def extras_table(rows: LogRows) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return up to MAX_EXTRAS extra fields as a table, and field -> number of responses with it."""
    order = rows.order
    count = rows.chunk.rows
    table: dict[str, pd.Series] = {}
    carried: dict[str, int] = {}
    for name, extra in sorted(rows.chunk.extras.items()):
        numbers = np.full(count, np.nan)
        has_value = np.zeros(count, dtype=bool)
        logged = np.asarray(extra.rows, dtype=np.int64)
        numbers[logged] = extra.numbers
        has_value[logged] = True
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
        column = np.full(count, None, dtype=object)
        column[logged] = [*map(number_as_text, extra.numbers)]
        column[list(extra.texts)] = list(extra.texts.values())
        table[name] = pd.Series(column[order], dtype=object)
    return pd.DataFrame(table, index=pd.RangeIndex(len(order))), carried


def tool_table(rows: LogRows) -> pd.DataFrame:
    """Return ToolCounts by training step for MAX_TOOLS tools; call before ``response_table``."""
    names = ["step", "tool", *ToolCounts._fields]
    if not rows.chunk.tools:
        return pd.DataFrame([], columns=names)
    columns = rows.chunk.columns
    table = pd.DataFrame(rows.chunk.tools, columns=["row", *names[1:]])
    is_training: NDArray[np.bool_] = np.zeros(rows.chunk.rows, dtype=bool)
    is_training[rows.order] = columns["validation"][rows.order] == 0
    table = table[is_training[table["row"]]]
    table["step"] = columns["step"][table["row"]]
    answers = table.groupby("tool")["answers"].sum()
    top_tools = sorted(answers.index, key=lambda tool: (-answers[tool], tool))[:MAX_TOOLS]
    selection = table[table["tool"].isin(top_tools)]
    return selection.groupby(["step", "tool"], as_index=False)[names[2:]].sum()[names]


def tools_used(rows: LogRows, tools: pd.DataFrame) -> pd.Series:
    """Return which of ``tools`` answered in each response, see ``LogTables.tools_used``."""
    if tools.empty:
        return pd.Series(dtype=object)
    known = set(tools["tool"])
    used = np.full(rows.chunk.rows, None, dtype=object)
    for row, tool, *_ in rows.chunk.tools:
        if tool in known:
            name = listed_tool(tool)
            used[row] = name if used[row] is None else f"{used[row]}\n{name}"
    return pd.Series(used[rows.order], dtype=object)


def mix(values: Hashes) -> Hashes:
    """Hash 64-bit numbers without collisions (SplitMix64, Steele et al. 2014, as in pandas)."""
    return pd.util.hash_array(values + _GOLDEN)
