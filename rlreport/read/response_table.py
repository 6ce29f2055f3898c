"""The merged columns of a scan as the response table and its companions."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.columns import RESPONSE_COLUMNS
from rlreport.figures.ragged import Ints
from rlreport.read.columns import Columns, Extra
from rlreport.read.finish import FROM_TEXT, FROM_TOKEN
from rlreport.read.hashing import pair_hashes
from rlreport.read.partial import Partial, Segment


def row_order(columns: Columns) -> Ints:
    """Return the order of the response table: by step, file, offset and sub."""
    keys = (columns["sub"], columns["offset"], columns["file"], columns["step"])
    return np.lexsort(keys)


def response_table(partial: Partial, order: Ints) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """Return RESPONSE_COLUMNS in this order, and the first row of each prompt.

    Args:
        partial: the merged scan, with at least one row.
        order: int64 (R',): which rows, and their order; sorted by step.
    """
    columns = {name: values[order] for name, values in partial.columns.items()}
    step = columns["step"].astype(np.int64)
    columns["n"] = _position_in_step(step)
    columns["line"] = columns["line"].astype(np.int64) + lines_before(
        partial.segments, columns["file"].astype(np.int64), columns["offset"].astype(np.int64)
    )
    prompt = columns.pop("prompt_hash").astype(np.uint64)
    columns["prompt_id"], _ = pd.factorize(prompt)
    prompt_rows = np.unique(columns["prompt_id"], return_index=True)[1]
    group = columns.pop("group_hash").astype(np.uint64)
    group = pair_hashes(step.astype(np.uint64), np.where(group == 0, prompt, group))
    columns["group"], _ = pd.factorize(group)
    missing = np.full(len(order), np.nan)
    for gap, left, right in (
        ("reward_gap", "reward", "ref_reward"),
        ("valid_reward_gap", "valid_reward", "ref_valid_reward"),
    ):
        if left in columns and right in columns:
            with np.errstate(over="ignore"):
                columns[gap] = columns[left] - columns[right]  # type: ignore[operator]
    columns["finished"] = _finished(columns, partial.ends)
    table = pd.DataFrame(
        {
            column.name: np.asarray(columns.get(column.name, missing), dtype=column.dtype)
            for column in RESPONSE_COLUMNS
        },
        copy=False,
    )
    return table, prompt_rows.astype(np.int64)


def lines_before(segments: list[Segment], files: Ints, offsets: Ints) -> Ints:
    """Return how many lines of the file precede the split in which each row lies."""
    result = np.zeros(len(files), dtype=np.int64)
    for file in sorted({segment.file for segment in segments}):
        own = sorted(segment for segment in segments if segment.file == file)
        starts = np.array([segment.start for segment in own], dtype=np.int64)
        before = np.cumsum([0, *(segment.lines for segment in own)])
        mine = files == file
        result[mine] = before[np.searchsorted(starts, offsets[mine], side="right") - 1]
    return result


def extras_table(
    extras: dict[str, Extra], rows: int, order: Ints
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return one column per further scalar in this order, and how many rows carried each.

    A column that holds any text is of dtype object; missing values are then None.
    """
    table: dict[str, pd.Series] = {}
    carried: dict[str, int] = {}
    for name, extra in extras.items():
        carried[name] = len(extra.rows) + len(extra.texts)
        numbers = np.full(rows, np.nan)
        numbers[extra.rows] = extra.numbers
        if not extra.texts:
            table[name] = pd.Series(numbers[order])
            continue
        texts = np.full(rows, None, dtype=object)
        texts[extra.rows] = [f"{number:g}" for number in extra.numbers.tolist()]
        for row, text in extra.texts.items():
            texts[row] = text
        table[name] = pd.Series(texts[order], dtype=object)
    return pd.DataFrame(table, index=pd.RangeIndex(len(order))), carried


def _position_in_step(step: Ints) -> Ints:
    fresh = np.ones(len(step), dtype=bool)
    fresh[1:] = step[1:] != step[:-1]
    starts = np.flatnonzero(fresh)
    return np.arange(len(step)) - np.repeat(starts, np.diff(np.append(starts, len(step))))


def _finished(columns: Columns, ends: tuple[int, int]) -> NDArray[np.float64]:
    """Blank what EOS would have to tell where the whole run shows none: it may be cut off."""
    finished = columns["finished"].astype(np.float64)
    source = columns.pop("finish_source")
    for kind, count in ((FROM_TOKEN, ends[0]), (FROM_TEXT, ends[1])):
        if not count:
            finished[source == kind] = np.nan
    return finished
