"""Response data: what a comparison needs of a run, and the file in which reports carry it."""

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
from rlreport.read.batch import text_hash
from rlreport.sidefiles import LimitError, load_csv, read_stream
from rlreport.tables import Tables
from rlreport.text.clean import escape, safe_text, unescape

REPORT = "data/report.json"
PATH = "data/responses.csv.gz"
"""Where the folder and the zip carry what is known of the run, and this data."""

PART = "part:"
"""Column and id of a part of the reward begin so."""

EXTRA = "extra:"
"""Columns of further logged fields begin so."""

ROWS_TOGETHER = 10_000
"""Rows packed as one part, so that the last steps can be kept alone."""

COMPRESSION = 4
"""Level of gzip: digits hardly pack, and level 6 takes three times as long for 5% less."""

MAX_BYTES = 500_000_000
"""Unpacked bytes of response data that are read."""

MAX_CELLS = 50_000_000
"""Cells of response data that are read."""

_FIGURES = dict.fromkeys(
    [
        *(c.name for c in RESPONSE_COLUMNS if c.dtype == "float64" and c.listed),
        *("response_chars", "mismatch_k3", "prompt_chars"),
    ]
)
_NUMBERS = ("step", "n", "prompt_id")
_HASHES = ("prompt", "group_hash")


def response_data(tables: Tables, *, redact: bool = False) -> pd.DataFrame:
    """Return a row per response, with what identifies its prompt and all its figures.

    ``redact`` leaves hashes and texts out, as guessed prompts could be confirmed by their hashes.

    Returns:
        ``step``, ``n``, ``split``, ``prompt_id``, ``prompt`` (hash), ``group``, ``group_hash``,
        listed figures, ``cut_off``, ``duplicate`` and ``zero_variance`` (0 or 1),
        ``extra:NAME`` and ``part:NAME``; figures that no response has are left out.
    """
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
    columns["cut_off"] = 1 - responses["finished"]
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
            columns[key] = values.where(values != "")  # an empty text is no id
    table = pd.DataFrame(columns, copy=False)  # each response's figures stand there once
    empty = [name for name in table if name != "reward" and table[name].isna().all()]
    return table.drop(columns=empty)


def data_of_pages(responses: pd.DataFrame) -> pd.DataFrame:
    """Return response data from the ``step``, ``n``, texts and figures that pages show."""
    table = responses[["step", "n", *(name for name in _FIGURES if name in responses)]]
    table = table.astype(np.float64).astype({"step": np.int64, "n": np.int64})
    table["split"] = "train"
    table["prompt_id"] = pd.factorize(responses["prompt"])[0]
    table["group"] = responses.groupby(["step", "prompt"], sort=False).ngroup()
    table["prompt"] = np.array([text_hash(text) for text in responses["prompt"]], np.uint64)
    if "finished" in table:
        table["cut_off"] = 1 - table["finished"]
    table["duplicate"] = responses.duplicated(["step", "response"], keep=False).astype(float)
    table["zero_variance"] = _zero_variance(table)
    return table.sort_values(["step", "n"], kind="stable", ignore_index=True)


def _zero_variance(responses: pd.DataFrame) -> pd.Series:
    of_group = responses.groupby("group", sort=False)["reward"]
    spread = of_group.transform("max") - of_group.transform("min")
    return (spread < 1e-6).astype(np.float64).where(of_group.transform("count") > 1)


def packed(table: pd.DataFrame, most: int) -> tuple[bytes, int]:
    """Return response data as gzip of CSV, and how many rows it holds: same data, same bytes.

    Of at most ``most`` bytes the last steps have the first claim.
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
    written = orjson.dumps(np.ascontiguousarray(array), option=orjson.OPT_SERIALIZE_NUMPY)
    return written[1:-1].replace(b"null", b"").split(b",")


def _quoted(text: str) -> str:
    return '"' + safe_text(text).replace('"', '""') + '"'


def unpacked(data: bytes, name: str) -> pd.DataFrame:
    """Read back what ``packed`` made, or anything: reports come from elsewhere.

    Raises:
        UnusableInputError: it is no response data.
    """
    try:
        with gzip.open(io.BytesIO(data)) as stream:
            text = read_stream(stream, MAX_BYTES)
        with warnings.catch_warnings():
            # From 3.1 on pandas reads exactly unasked, and warns of the argument. It also warns
            # of ids of which some look like numbers.
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
