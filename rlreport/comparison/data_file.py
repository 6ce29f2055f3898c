"""The response data that reports carry for comparisons: written and read."""

from __future__ import annotations

import gzip
import io
import math
import warnings
import zipfile
import zlib
from collections.abc import Mapping

import numpy as np
import orjson
import pandas as pd
from pandas.api.types import is_numeric_dtype

from rlreport.check.parts import metrics_of_parts
from rlreport.check.run import has
from rlreport.columns import RESPONSE_COLUMNS
from rlreport.errors import UnusableInputError
from rlreport.figures.ragged import Ints
from rlreport.figures.tokens import is_cut_off
from rlreport.metrics.roles import in_unit_of, roles_of
from rlreport.summarise.steps import passes_of
from rlreport.system.documents import LimitError, load_csv, read_stream
from rlreport.system.gzipped import gzipped
from rlreport.tables import Tables
from rlreport.text.clean import escape, safe_text, unescape, without_controls

# Path of the response data in a report's folder or zip
PATH = "data/responses.csv.gz"

PART = "part:"  # Prefix of the columns and guardrail ids of reward parts (components of the reward)
EXTRA = "extra:"  # Prefix of the columns of logged fields that are not reward parts
# Rows per gzip member; to save space, members with the first steps are dropped as a whole
ROWS_TOGETHER = 10_000

COMPRESSION = 4  # Level of gzip; level 6 takes three times as long and saves only 5%
# Maximum size in bytes of the response data, compressed or not, and of a one-file report
MAX_DATA = 500_000_000
MAX_CELLS = 50_000_000  # Maximum number of cells of each of a report's tables
_LISTED = [c.name for c in RESPONSE_COLUMNS if c.dtype == "float64" and c.listed]
_UNLISTED = [
    "response_chars",
    "mismatch_k3",
    "answer_format",
    "other_script",
    "correct",
]
_FIGURES = dict.fromkeys([*_LISTED, *_UNLISTED])
# Value of ``split`` in rows with the trainer's means of a step, not figures of one response
METRICS = "metrics"
_EQUAL = 1e-6  # Rewards that differ by less are equal, but for rounding

_TRAINER_FIGURES = ("reward", "kl_k1", "response_tokens")
# Prefix of the columns of the trainer's metrics, before their role
TRAINER = "trainer:"
METRICS_FILE = "data/metrics.csv"  # Path of the exported trainer metrics
_NUMBERS = ("step", "n", "prompt_id")
_HASHES = ("prompt", "group_hash")


def response_data(tables: Tables, *, redact: bool = False) -> pd.DataFrame:
    """Return a row per response with figures and prompt ids, or ``trainer_data`` without responses.

    If ``redact``, it has no texts and no hashes of texts. Texts have no control characters, whether
    the table is packed or not, so that a run and its report have the same ids.
    """
    if tables.responses.empty:
        return trainer_data(tables.steps)
    responses = tables.responses
    columns: dict[str, object] = {
        "step": responses["step"],
        "n": responses["n"],
        "split": "train",
        "prompt_id": responses["prompt_id"],
        "group": responses["group"],
    }
    if not redact:  # a hash would confirm a guessed prompt
        columns["prompt"] = responses["prompt_hash"]
        # 0 stands for no group id.
        if responses["group_hash"].any():
            columns["group_hash"] = responses["group_hash"]
    for name in _FIGURES:
        columns[name] = responses[name].to_numpy(np.float64)
    columns["cut_off"] = is_cut_off(
        responses["finished"].to_numpy(), responses["ending"].to_numpy()
    )
    is_duplicate = responses.duplicated(["step", "response_hash"], keep=False)
    columns["duplicate"] = is_duplicate.astype(float)
    columns["zero_variance"] = _zero_variance(responses)
    columns["pass_at_k"] = _pass_at_k(responses)
    columns |= _extra_columns(tables, redact=redact)
    table = pd.DataFrame(columns, copy=False)
    not_logged = [name for name in table if table[name].isna().all()]
    # ``unpacked`` takes data without the column of rewards for broken.
    return table.drop(columns=[name for name in not_logged if name != "reward"])


def _zero_variance(responses: pd.DataFrame) -> pd.Series:
    """Return 1 if the rewards of the response's group are equal, else 0; NaN for a single one."""
    rewards = responses.groupby("group", sort=False)["reward"]
    spread = rewards.transform("max") - rewards.transform("min")
    alike = (spread < _EQUAL).astype(np.float64)
    return alike.where(rewards.transform("count") > 1)


def _pass_at_k(responses: pd.DataFrame) -> pd.Series:
    """Return pass@k of the response's group, NaN for a response that is not graded."""
    # Groups of validation may have another size, and so another k.
    parts = []
    # Iteration copies all columns that it is given.
    graded = responses[["validation", "step", "group", "correct"]]
    for _, split in graded.groupby("validation"):
        parts.append(pd.Series(passes_of(split).at_k, split.index))
    passes = pd.concat(parts).sort_index()
    # One row of a group has its pass@k; "first" skips the NaN of the others.
    of_groups: pd.Series = passes.groupby(responses["group"]).transform("first")
    return of_groups.where(responses["correct"].notna())


def _extra_columns(tables: Tables, *, redact: bool) -> dict[str, object]:
    """Return column -> values of the logged fields of responses; without texts if redacted.

    A field "split" is the column of splits; other columns are named after the field and a prefix.
    """
    columns: dict[str, object] = {}
    for name in tables.extras.columns:
        values = tables.extras[name]
        prefix = PART if name in tables.reward_parts else EXTRA
        key = without_controls(f"{prefix}{name}")
        if is_numeric_dtype(values):
            columns[key] = values.to_numpy(np.float64)
        elif name == "split":
            columns["split"] = values.fillna("train").map(without_controls)
        elif not redact:
            nonempty = values.where(values != "")  # an empty string identifies nothing
            columns[key] = nonempty.map(without_controls, na_action="ignore")
    return columns


def trainer_data(steps: pd.DataFrame) -> pd.DataFrame:
    """Return a table of one row per step with the trainer's means, for a run without responses.

    ``split`` is METRICS. ``prompt_id`` is the number of a block of adjacent steps, as these are
    correlated like responses to one prompt. With S steps in the last fifth of the run, a block has
    about √S steps.
    """
    block = _block_numbers(len(steps))
    columns = {
        "step": steps["step"],
        "n": 0,
        "split": METRICS,
        "prompt_id": block,
        "group": block,
    }
    for name in _TRAINER_FIGURES:
        # ``unpacked`` takes data without the column of rewards for broken.
        if name == "reward" or has(steps, f"{name}_mean"):
            columns[name] = steps[f"{name}_mean"]
    return pd.DataFrame(columns)


def _block_numbers(count: int) -> Ints:
    """Assign ``count`` steps to blocks; return the number of each step's block, from 0."""
    # Steps per block: √(count / 5), but at least 15 blocks in all, so that the last fifth has some
    size = max(1, min(round((count / 5) ** 0.5), count // 15))
    return np.repeat(np.arange(count, dtype=np.int64), size)[:count]


def with_even_blocks(window: pd.DataFrame) -> pd.DataFrame:
    """Return some adjacent rows of ``trainer_rows`` or ``trainer_data`` in blocks of even length.

    Every block counts the same, also one of which the window has a single step.
    """
    if window.empty:
        return window
    pairs = window["pair"]
    usual_size = int(pairs.value_counts().iloc[0])
    count = math.ceil(len(window) / usual_size)
    blocks = np.arange(len(window)) * count // len(window)
    first = pairs.iloc[0]
    return window.assign(pair=(first + blocks).astype(pairs.dtype))


def trainer_rows(
    metrics: pd.DataFrame, metric_roles: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return a row per step: ``step``, ``pair`` and the metrics, in columns by their role.

    ``pair`` is the number of a block of adjacent steps, see ``trainer_data``. A column is named
    TRAINER and the role, such as ``trainer:kl``; parts of the reward have the prefix PART. Other
    metrics are left out.
    ``metric_roles`` are those of the tables.
    """
    if "step" not in metrics:
        return pd.DataFrame({"step": [], "pair": []})
    columns: dict[str, object] = {
        "step": metrics["step"],
        "pair": _block_numbers(len(metrics)),
    }
    names = list(map(str, metrics.columns[1:]))  # column 0 is ``step``
    roles = roles_of(names, metric_roles)
    for role, name in roles.items():
        values = metrics[name].to_numpy(np.float64)
        columns[f"{TRAINER}{role}"] = in_unit_of(role, name, values)
    in_use = set(roles.values())
    for part, name in metrics_of_parts(names).items():
        if name not in in_use:
            columns[f"{PART}{part}"] = metrics[name].to_numpy(np.float64)
    return pd.DataFrame(columns)


def pack_table(table: pd.DataFrame, most: int) -> tuple[bytes, int]:
    """Return the last rows that fit into ``most`` bytes as gzipped CSV, and their number."""
    names = ",".join(_quoted(str(name)) for name in table)
    head = gzipped(f"{names}\n".encode(), level=9)
    parts: list[bytes] = []  # each a gzip member of its own; together they are one file
    rows = 0
    size = len(head)
    # Backwards, as the last rows are those that are kept
    for stop in range(len(table), 0, -ROWS_TOGETHER):
        block = table.iloc[max(0, stop - ROWS_TOGETHER) : stop]
        columns = [_cells(str(name), block[name]) for name in block]
        cells_by_row = zip(*columns, strict=True)
        lines = b"".join(b",".join(cells) + b"\n" for cells in cells_by_row)
        part = gzipped(lines, COMPRESSION)
        if size + len(part) > most:
            break
        parts.append(part)
        rows += len(block)
        size += len(part)
    return head + b"".join(reversed(parts)), rows


def _cells(name: str, values: pd.Series) -> list[bytes]:
    """Return the cells of a CSV column, as encoded texts; "" for NaN and infinite numbers."""
    if name in _HASHES:
        return [b"%016x" % value for value in values.tolist()]
    if not is_numeric_dtype(values):
        codes, distinct = pd.factorize(values.map(str, na_action="ignore"))
        texts = [_quoted(escape(text)).encode() for text in distinct]
        texts.append(b"")  # missing values have the code -1, the index of the last text
        return [texts[code] for code in codes.tolist()]
    array = np.ascontiguousarray(values.to_numpy())
    if array.dtype.kind == "f":
        array = np.where(np.isfinite(array), array, np.nan)
    # JSON of an array without its brackets is as fast a writer of numbers as there is; its null,
    # which stands for NaN, becomes an empty cell.
    encoded = orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)
    return encoded[1:-1].replace(b"null", b"").split(b",")


def _quoted(text: str) -> str:
    return '"' + safe_text(text).replace('"', '""') + '"'


# Exceptions raised by a file that is broken
UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    zlib.error,
    zipfile.BadZipFile,
    RuntimeError,
)


def unpacked(data: bytes, name: str) -> pd.DataFrame:
    """Parse response data that ``pack_table`` wrote; raise UnusableInputError if it is broken.

    ``name`` is the path of the report, for the error.
    """
    try:
        table = _parsed(data)
        if not {*_NUMBERS, "split", "reward"} <= set(table) or table.empty:
            raise ValueError("no responses")
        table = table.astype(dict.fromkeys(_NUMBERS, np.int64))
        if table.duplicated(["step", "n"]).any():
            raise ValueError("two rows of one response")
        for column in set(map(str, table)) - set(_NUMBERS):
            table[column] = _restored(column, table[column])
    except LimitError as error:
        raise UnusableInputError(f"{name}: its {PATH} is broken: {error}") from None
    except (*UNREADABLE, TypeError, OverflowError, MemoryError) as error:
        raise UnusableInputError(
            f"{name}: its {PATH} is broken; build the report again"
        ) from error
    table["split"] = table["split"].fillna("train")
    return table.sort_values(["step", "n"], kind="stable", ignore_index=True)


def _parsed(data: bytes) -> pd.DataFrame:
    """Return the table in gzipped CSV, with hashes and splits as texts; an empty cell is NaN."""
    with gzip.open(io.BytesIO(data)) as stream:
        text = read_stream(stream, MAX_DATA)
    with warnings.catch_warnings():
        # Pandas from 3.1 on warns that float_precision is not needed; every version warns if
        # only some ids of a column look like numbers.
        warnings.simplefilter("ignore")
        return load_csv(
            text,
            MAX_CELLS,
            dtype={"split": str, **dict.fromkeys(_HASHES, str)},
            keep_default_na=False,
            na_values=[""],
            float_precision="round_trip",
        )


def _restored(column: str, values: pd.Series) -> pd.Series | np.ndarray:
    """Return a column as it was before it was packed."""
    if column in _HASHES:
        return np.array([int(text, 16) for text in values], np.uint64)
    is_text = column.startswith((EXTRA, PART)) and not is_numeric_dtype(values)
    if column == "split" or is_text:
        return values.map(_unescaped)
    return values.astype(np.float64)


def _unescaped(cell: object) -> object:
    return unescape(cell) if isinstance(cell, str) else cell
