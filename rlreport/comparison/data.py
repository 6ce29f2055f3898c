"""Response data, the input of comparisons: one row of figures per response; its file format."""

from __future__ import annotations

import gzip
import io
import warnings

import numpy as np
import orjson
import pandas as pd
from pandas.api.types import is_numeric_dtype

from rlreport.columns import RESPONSE_COLUMNS
from rlreport.errors import UnusableInputError
from rlreport.figures.response import is_cut_off
from rlreport.system.documents import LimitError, load_csv, read_stream
from rlreport.tables import Tables
from rlreport.text.clean import escape, safe_text, unescape

REPORT = "data/report.json"
# Paths in a report's folder or zip: the run's metadata and figures, and the response data
PATH = "data/responses.csv.gz"

PART = "part:"  # Prefix of the columns and guardrail ids of reward parts (components of the reward)
EXTRA = "extra:"  # Prefix of the columns of logged fields that are not reward parts
# Rows per gzip member; to save space, members with the first steps are dropped as a whole
ROWS_TOGETHER = 10_000

COMPRESSION = 4  # Level of gzip; level 6 takes three times as long and saves only 5%
MAX_BYTES = 500_000_000  # Maximum decompressed size in bytes of a report's response data
MAX_CELLS = 50_000_000  # Maximum number of table cells of a report's response data
_FIGURES = dict.fromkeys(
    [
        *(c.name for c in RESPONSE_COLUMNS if c.dtype == "float64" and c.listed),
        *("response_chars", "mismatch_k3", "prompt_chars"),
    ]
)
# Value of ``split`` in rows with the trainer's means of a step, not figures of one response
METRICS = "metrics"

_TRAINER_FIGURES = {
    "reward": "reward_mean",
    "kl_k1": "kl_k1_mean",
    "response_tokens": "response_tokens_mean",
}
_NUMBERS = ("step", "n", "prompt_id")
_HASHES = ("prompt", "group_hash")


def response_data(tables: Tables, *, redact: bool = False) -> pd.DataFrame:
    """Return a table of one row per response with its figures and the ids of its prompt.

    ``redact`` leaves out texts and also hashes, which would confirm a guessed prompt.

    Returns:
        ``step``, ``n``, ``split``, ``prompt_id``, ``prompt`` (hash), ``group``, ``group_hash``,
        figures such as ``reward``, ``cut_off``, ``duplicate`` and ``zero_variance`` (0 or 1),
        ``extra:NAME`` and ``part:NAME``; figures that no response has are left out. A run with
        trainer metrics only has the rows of ``trainer_data``.
    """
    if tables.responses.empty:
        return trainer_data(tables.steps)
    responses, extras = tables.responses, tables.extras
    columns: dict[str, object] = {
        "step": responses["step"],
        "n": responses["n"],
        "split": "train",
        "prompt_id": responses["prompt_id"],
        "group": responses["group"],
    }
    if not redact:
        columns["prompt"] = responses["prompt_hash"]
        if responses["group_hash"].any():
            columns["group_hash"] = responses["group_hash"]
    columns |= {name: responses[name].to_numpy(np.float64) for name in _FIGURES}
    columns["cut_off"] = is_cut_off(*(responses[n].to_numpy() for n in ("finished", "stopped")))
    columns["duplicate"] = responses.duplicated(["step", "response_hash"], keep=False).astype(float)
    columns["zero_variance"] = _zero_variance(responses)
    for name in extras.columns:
        values = extras[name]
        key = f"{PART if name in tables.reward_parts else EXTRA}{name}"
        if is_numeric_dtype(values):
            columns[key] = values.to_numpy(np.float64)
        elif name == "split":
            columns["split"] = values.fillna("train")
        elif not redact:
            columns[key] = values.where(values != "")  # an empty string identifies nothing
    table = pd.DataFrame(columns, copy=False)
    empty = [name for name in table if name != "reward" and table[name].isna().all()]
    return table.drop(columns=empty)


def trainer_data(steps: pd.DataFrame) -> pd.DataFrame:
    """Return a table of one row per step with the trainer's means, for a run without responses.

    ``split`` is METRICS. ``prompt_id`` is the number of a block of adjacent steps, as these are
    correlated like responses to one prompt. With S steps in the last fifth of the run, a block has
    about S ** (1 / 3) steps.
    """
    size = max(1, round((len(steps) / 5) ** (1 / 3)))
    block = np.arange(len(steps)) // size
    table = pd.DataFrame(
        {"step": steps["step"], "n": 0, "split": METRICS, "prompt_id": block, "group": block}
    )
    for name, column in _TRAINER_FIGURES.items():
        if name == "reward" or steps[column].notna().any():
            table[name] = steps[column]
    return table


def _zero_variance(responses: pd.DataFrame) -> pd.Series:
    rewards = responses.groupby("group", sort=False)["reward"]
    spread = rewards.transform("max") - rewards.transform("min")
    return (spread < 1e-6).astype(np.float64).where(rewards.transform("count") > 1)


def packed(table: pd.DataFrame, most: int) -> tuple[bytes, int]:
    """Return response data as reproducible gzipped CSV, and the number of rows in it.

    Rows of the first steps are dropped until it has at most ``most`` bytes.
    """
    names = ",".join(_quoted(str(name)) for name in table)
    head = gzip.compress(f"{names}\n".encode(), 9, mtime=0)
    parts: list[bytes] = []
    rows, size = 0, len(head)
    for stop in range(len(table), 0, -ROWS_TOGETHER):
        block = table.iloc[max(0, stop - ROWS_TOGETHER) : stop]
        columns = [_cells(str(name), block[name]) for name in block]
        lines = b"".join(b",".join(row) + b"\n" for row in zip(*columns, strict=True))
        part = gzip.compress(lines, COMPRESSION, mtime=0)
        if size + len(part) > most:
            break
        parts.append(part)
        rows, size = rows + len(block), size + len(part)
    return head + b"".join(reversed(parts)), rows


def _cells(name: str, values: pd.Series) -> list[bytes]:
    if name in _HASHES:
        return [b"%016x" % value for value in values.tolist()]
    if not is_numeric_dtype(values):
        numbers, distinct = pd.factorize(values.map(str, na_action="ignore"))  # -1 is missing
        texts = [*(_quoted(escape(text)).encode() for text in distinct), b""]
        return [texts[number] for number in numbers.tolist()]
    array = values.to_numpy()
    if array.dtype.kind == "f":
        array = np.where(np.isfinite(array), array, np.nan)
    encoded = orjson.dumps(np.ascontiguousarray(array), option=orjson.OPT_SERIALIZE_NUMPY)
    return encoded[1:-1].replace(b"null", b"").split(b",")


def _quoted(text: str) -> str:
    return '"' + safe_text(text).replace('"', '""') + '"'


def unpacked(data: bytes, name: str) -> pd.DataFrame:
    """Parse response data that ``packed`` wrote; ``data`` may be damaged or malicious.

    Raises:
        UnusableInputError: ``data`` is not response data; the message begins with ``name``.
    """
    try:
        with gzip.open(io.BytesIO(data)) as stream:
            text = read_stream(stream, MAX_BYTES)
        with warnings.catch_warnings():
            # Pandas from 3.1 on warns that float_precision is not needed; every version warns if
            # only some ids of a column look like numbers.
            warnings.simplefilter("ignore")
            table = load_csv(
                text,
                MAX_CELLS,
                dtype={"split": str, **dict.fromkeys(_HASHES, str)},
                keep_default_na=False,
                na_values=[""],
                float_precision="round_trip",
            )
        if not {*_NUMBERS, "split", "reward"} <= set(table) or table.empty:
            raise ValueError("no responses")
        table = table.astype(dict.fromkeys(_NUMBERS, np.int64))
        for column in set(map(str, table)) - set(_NUMBERS):
            values = table[column]
            is_text = column.startswith((EXTRA, PART)) and not is_numeric_dtype(values)
            if column in _HASHES:
                table[column] = np.array([int(text, 16) for text in values], np.uint64)
            elif column == "split" or is_text:
                table[column] = values.map(_unescaped)
            else:
                table[column] = values.astype(np.float64)
    except LimitError as error:
        raise UnusableInputError(f"{name}: its {PATH} is broken: {error}") from None
    except (OSError, EOFError, ValueError, TypeError, OverflowError, MemoryError) as error:
        raise UnusableInputError(f"{name}: its {PATH} is broken; build the report again") from error
    table["split"] = table["split"].fillna("train")
    return table.sort_values(["step", "n"], kind="stable", ignore_index=True)


def _unescaped(cell: object) -> object:
    return unescape(cell) if isinstance(cell, str) else cell
