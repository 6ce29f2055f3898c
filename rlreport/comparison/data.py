"""Response data: what a comparison needs of a run, and the file in which reports carry it."""

from __future__ import annotations

import gzip
import io
import re
import warnings

import numpy as np
import orjson
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from rlreport.columns import RESPONSE_COLUMNS
from rlreport.errors import UnusableInputError
from rlreport.read.batch import text_hash
from rlreport.sidefiles import LimitError, load_csv, read_stream
from rlreport.tables import Tables
from rlreport.text.clean import escape, unescape

REPORT = "data/report.json"
PATH = "data/responses.csv.gz"
"""Where the folder and the zip carry what is known of the run, and this data."""

PART = "part:"
"""Column and id of a part of the reward begin so."""

EXTRA = "extra:"
"""Columns of further logged fields begin so."""

ROWS_TOGETHER = 20_000
"""Rows packed as one part, so that the last steps can be kept alone."""

ROWS_AT_ONCE = 5_000
"""Rows whose cells are in memory as text."""

LEVEL = 4
"""Of gzip: digits hardly pack, and level 6 takes three times as long for 5% less."""

MOST_BYTES = 500_000_000
"""Unpacked bytes of response data that are read."""

MAX_CELLS = 50_000_000
"""Cells of response data that are read."""

_FIGURES = [c.name for c in RESPONSE_COLUMNS if c.dtype == "float64" and c.listed]
_FURTHER = ("response_chars", "mismatch_k3", "prompt_chars")
_NEEDED = ("step", "n", "split", "prompt_id", "reward")
_WHOLE = {"step": np.int64, "n": np.int64, "prompt_id": np.int64}
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
        "split": _splits(tables),
        "prompt_id": responses["prompt_id"],
        "group": responses["group"],
    }
    if not redact:
        columns["prompt"] = responses["prompt_hash"]
        if responses["group_hash"].any():
            columns["group_hash"] = responses["group_hash"]
    for name in dict.fromkeys((*_FIGURES, *_FURTHER)):
        columns[name] = responses[name].to_numpy(np.float64)
    columns["cut_off"] = 1 - responses["finished"]
    same = responses.duplicated(["step", "response_hash"], keep=False)
    columns["duplicate"] = same.astype(np.float64)
    columns["zero_variance"] = _zero_variance(responses)
    for name in extras.columns:
        values = extras[name]
        key = f"{PART if name in tables.reward_parts else EXTRA}{name}"
        if is_numeric_dtype(values):
            columns[key] = values.to_numpy(np.float64)
        elif not redact and name != "split":
            columns[key] = values.where(values != "")  # an empty text is no id
    table = pd.DataFrame(columns, copy=False)  # each response's figures stand there once
    empty = [name for name in table if name != "reward" and table[name].isna().all()]
    return table.drop(columns=empty)


def data_of_pages(shown: pd.DataFrame) -> pd.DataFrame:
    """Return response data from the ``step``, ``n``, texts and figures that pages show."""
    same_prompt = shown.groupby(["step", "prompt"], sort=False)
    table = shown[["step", "n", *(name for name in (*_FIGURES, *_FURTHER) if name in shown)]]
    table = table.astype(np.float64).astype(dict.fromkeys(("step", "n"), np.int64))
    table["split"] = "train"
    table["prompt_id"] = pd.factorize(shown["prompt"])[0]
    table["group"] = same_prompt.ngroup()
    table["prompt"] = np.array([text_hash(text) for text in shown["prompt"]], np.uint64)
    if "finished" in table:
        table["cut_off"] = 1 - table["finished"]
    table["duplicate"] = shown.duplicated(["step", "response"], keep=False).astype(np.float64)
    table["zero_variance"] = _zero_variance(table)
    return table.sort_values(["step", "n"], kind="stable", ignore_index=True)


def _splits(tables: Tables) -> pd.Series:
    for table in (tables.responses, tables.extras):
        if "split" in table and not is_numeric_dtype(table["split"]):
            return table["split"].where(table["split"].notna(), "train")
    return pd.Series("train", index=tables.responses.index)


def _zero_variance(responses: pd.DataFrame) -> pd.Series:
    of_group = responses.groupby("group", sort=False)["reward"]
    spread = of_group.transform("max") - of_group.transform("min")
    return (spread < 1e-6).astype(np.float64).where(of_group.transform("count") > 1)


def packed(table: pd.DataFrame, most: int) -> tuple[bytes, int]:
    """Return response data as gzip of CSV, and how many rows it holds: same data, same bytes.

    Of at most ``most`` bytes the last steps have the first claim.
    """
    head = gzip.compress((",".join(_quoted(str(n)) for n in table) + "\n").encode(), 9, mtime=0)
    parts: list[bytes] = []
    kept, size = 0, len(head)
    for stop in range(len(table), 0, -ROWS_TOGETHER):
        start = max(0, stop - ROWS_TOGETHER)
        part = gzip.compress(_rows(table.iloc[start:stop]), LEVEL, mtime=0)
        if size + len(part) > most:
            break
        parts.append(part)
        kept, size = kept + stop - start, size + len(part)
    return head + b"".join(reversed(parts)), kept


def _rows(table: pd.DataFrame) -> bytes:
    lines = []
    for start in range(0, len(table), ROWS_AT_ONCE):
        block = table.iloc[start : start + ROWS_AT_ONCE]
        columns = [_cells(str(name), block[name]) for name in block]
        lines += [b",".join(row) + b"\n" for row in zip(*columns, strict=True)]
    return b"".join(lines)


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
    # A zero byte, or half of a surrogate pair, has no place in a file that others parse.
    text = text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    return '"' + text.replace('"', '""') + '"'


def unpacked(data: bytes, name: str) -> pd.DataFrame:
    """Read back what ``packed`` made, or anything: reports come from elsewhere.

    Raises:
        UnusableInputError: it is no response data.
    """
    broken = UnusableInputError(f"{name}: its {PATH} is broken; build the report again")
    try:
        with gzip.open(io.BytesIO(data)) as stream:
            text = read_stream(stream, MOST_BYTES)
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
    except LimitError as error:
        raise UnusableInputError(f"{name}: its {PATH} is broken: {error}") from None
    except (OSError, EOFError, ValueError, MemoryError, pd.errors.ParserError) as error:
        raise broken from error
    if not set(_NEEDED) <= set(table) or table.empty:
        raise broken
    try:
        table = table.astype(_WHOLE)
        for name in set(_HASHES) & set(table):
            table[name] = _numbers(table[name].tolist())
        for column in sorted(set(map(str, table)) - {"split", *_WHOLE, *_HASHES}):
            if not column.startswith((EXTRA, PART)) or is_numeric_dtype(table[column]):
                table[column] = table[column].astype(np.float64)
            else:
                table[column] = table[column].map(_unescaped)
    except (ValueError, TypeError, OverflowError) as error:
        raise broken from error
    table["split"] = table["split"].map(_unescaped).fillna("train")
    return table.sort_values(["step", "n"], kind="stable", ignore_index=True)


def _unescaped(cell: object) -> object:
    return unescape(cell) if isinstance(cell, str) else cell


def _numbers(texts: list[object]) -> NDArray[np.uint64]:
    if not all(isinstance(text, str) and re.fullmatch("[0-9a-f]{1,16}", text) for text in texts):
        raise ValueError("no hash")
    return np.array([int(str(text), 16) for text in texts], dtype=np.uint64)
