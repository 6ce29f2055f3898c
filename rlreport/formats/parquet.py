"""Read the rows of parquet files in bounded memory.

A few kilobytes of parquet can expand to gigabytes, because repeated values are stored once. So the
footer is checked first, and texts stay dictionary-encoded until a few rows at a time are decoded.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

from rlreport.errors import MissingExtraError, RowError
from rlreport.formats.base import Row
from rlreport.system.documents import MAX_COLUMNS, LimitError
from rlreport.text.messages import message

MAX_FOOTER = 32_000_000  # Maximum bytes of the footer, which describes columns and row groups
# Maximum number of schema elements and of row groups; pyarrow recurses into nested elements
MAX_ELEMENTS = 8_000

# Uncompressed bytes allowed per byte of the file, in addition to MAX_UNPACKED or MAX_TEXT
MAX_GROWTH = 200

# Uncompressed bytes that even the smallest file may have; MAX_GROWTH allows large files more
MAX_UNPACKED = 256_000_000

# Number of values that even the smallest file may have; each list element counts as one
MAX_VALUES = 20_000_000

MAX_VALUE_GROWTH = 20  # Number of values allowed per byte of the file, in addition to MAX_VALUES
# Bytes of decoded texts, including repetitions, that even the smallest file may have
MAX_TEXT = 1_000_000_000

MAX_ROW_TEXT = 256_000_000  # Maximum bytes of the decoded texts of one row
_BATCH_ROWS = 256
_BATCH_VALUES = 4_000_000
_BATCH_TEXT = 64_000_000  # bytes
_FEW_BYTES = 1_000_000  # texts that cannot exceed this are not counted


@contextmanager
def _open_parquet(file: IO[bytes]) -> Iterator[Any]:
    """Open a file as ``pyarrow.parquet.ParquetFile`` that reads texts dictionary-encoded."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError(
            "reading parquet logs needs pyarrow: pip install 'rlreport[parquet]'"
        ) from None
    try:
        _check_footer(file)
        with pq.ParquetFile(file, thrift_container_size_limit=MAX_ELEMENTS) as parquet:
            metadata = parquet.metadata
        _check_metadata(metadata, file.seek(0, io.SEEK_END))
        leaves = [metadata.schema.column(i) for i in range(metadata.num_columns)]
        texts = [leaf.path for leaf in leaves if leaf.logical_type.type == "STRING"]
        file.seek(0)
        with pq.ParquetFile(file, metadata=metadata, read_dictionary=texts) as parquet:
            yield parquet
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | RowError):
            raise
        raise RowError(message("no parquet file: {why}", why=str(error))) from None


def parquet_rows(
    file: IO[bytes],
    wanted: set[int] | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[tuple[int, Row]]:
    """Yield (index, row) for the rows of a file.

    Args:
        file: binary stream.
        wanted: indices of the rows to yield, or None for all.
        columns: names of the columns to read, or None for all.

    Raises:
        RowError: the file is not a parquet file, or too large.
        MissingExtraError: pyarrow is not installed.
    """
    with _open_parquet(file) as parquet:
        start, budget = 0, MAX_TEXT + MAX_GROWTH * file.seek(0, io.SEEK_END)
        for group in range(parquet.num_row_groups):
            stop = start + parquet.metadata.row_group(group).num_rows
            if wanted is None or any(start <= index < stop for index in wanted):
                for batch in _batches(parquet, group, columns):
                    budget -= _text_bytes(batch)
                    if budget < 0:
                        raise LimitError(message("its texts take too much memory when decoded"))
                    rows = range(start, start + batch.num_rows)
                    if wanted is None or wanted.intersection(rows):
                        numbered = zip(rows, _rows(batch), strict=True)
                        yield from (row for row in numbered if wanted is None or row[0] in wanted)
                    start += batch.num_rows
            start = stop


def _batches(parquet: Any, group: int, columns: Sequence[str] | None) -> Iterator[Any]:
    """Yield the rows of a row group in batches, which have fewer rows if rows have many values."""
    metadata = parquet.metadata.row_group(group)
    values = sum(metadata.column(i).num_values for i in range(metadata.num_columns))
    rows = max(1, min(_BATCH_ROWS, _BATCH_VALUES * metadata.num_rows // max(1, values)))
    yield from parquet.iter_batches(batch_size=rows, row_groups=[group], columns=columns)


def _rows(batch: Any) -> Iterator[Row]:
    """Yield the rows of a batch, decoded in several parts if their texts are too large together."""
    size, middle = _text_bytes(batch), batch.num_rows // 2
    if size <= (_BATCH_TEXT if middle else MAX_ROW_TEXT):
        yield from batch.to_pylist()
    elif middle:
        yield from _rows(batch.slice(0, middle))
        yield from _rows(batch.slice(middle))
    else:
        raise LimitError(message("its texts take too much memory when decoded"))


def _text_bytes(batch: Any) -> int:
    """Return the bytes that a batch's texts take when decoded, including repetitions."""
    import pyarrow as pa
    import pyarrow.compute as pc

    size = 0
    arrays = list(batch.columns)
    while arrays:
        array = arrays.pop()
        kind = array.type
        if pa.types.is_struct(kind):
            arrays += array.flatten()
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            arrays.append(array.flatten())
        elif pa.types.is_dictionary(kind) and array.dictionary.nbytes * len(array) >= _FEW_BYTES:
            lengths = pc.take(pc.binary_length(array.dictionary), array.indices)
            size += pc.sum(lengths).as_py() or 0
    return size


def _check_footer(file: IO[bytes]) -> None:
    """Raise LimitError if the footer declares more than MAX_FOOTER bytes."""
    file.seek(max(0, file.seek(0, io.SEEK_END) - 8))
    length, mark = file.read(4), file.read(4)
    if mark == b"PAR1" and int.from_bytes(length, "little") > MAX_FOOTER:
        raise LimitError(message("a footer of over {most:count} bytes", most=MAX_FOOTER))


def _check_metadata(metadata: Any, size: int) -> None:
    """Raise LimitError if there are too many columns, or too much data for ``size`` bytes."""
    if metadata.num_columns > MAX_COLUMNS:
        raise LimitError(message("a table of over {most:count} columns", most=MAX_COLUMNS))
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    chunks = [group.column(i) for group in groups for i in range(metadata.num_columns)]
    unpacked, values = MAX_UNPACKED + MAX_GROWTH * size, MAX_VALUES + MAX_VALUE_GROWTH * size
    if sum(max(0, chunk.total_uncompressed_size) for chunk in chunks) > unpacked:
        raise LimitError(
            message(
                "over {most:count} bytes uncompressed, too much for its size; split the file",
                most=unpacked,
            )
        )
    if max(metadata.num_rows, sum(chunk.num_values for chunk in chunks)) > values:
        raise LimitError(
            message("more than {most:count} values, too many for its size", most=values)
        )
