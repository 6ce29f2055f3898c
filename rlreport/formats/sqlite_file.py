"""Trackio's database: one SQLite file a project, opened to be read and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from rlreport.formats.base import Row, RowError
from rlreport.text.messages import message

if TYPE_CHECKING:
    import sqlite3

MAX_VALUE = 64_000_000
"""Bytes of a stored value read at most."""

_QUERIES = {
    "metrics": "SELECT run_name, step, timestamp, metrics FROM metrics "
    "WHERE CAST(metrics AS TEXT) LIKE '%\"trackio.table\"%' ORDER BY rowid",
    "traces": "SELECT run_name, step, timestamp, key, trace_index, messages, metadata "
    "FROM traces ORDER BY rowid",
}
"""Entries that hold a table, and conversations; entries of numbers alone are no rollouts."""


def sqlite_rows(file: Any, wanted: set[int] | None = None) -> Iterator[tuple[int, Row]]:
    """Yield (index, row) of Trackio's entries, as its own parquet export has them.

    Args:
        file: path, or binary stream of a local file.
        wanted: indices; None for all.

    Raises:
        RowError: it is no database of Trackio's, or lies elsewhere.
    """
    import sqlite3

    path = file if isinstance(file, str | Path) else getattr(file, "name", None)
    if not isinstance(path, str | Path) or not Path(path).is_file():
        raise RowError(message("no local file: a database is read from a disk"))
    try:
        with contextlib.closing(_open(Path(path))) as database:
            index = 0
            for query in _queries(database):
                for found in database.execute(query):
                    if wanted is None or index in wanted:
                        yield index, _row(dict(found))
                    index += 1
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        raise RowError(message("no database of Trackio's: {why}", why=str(error))) from None


def _open(path: Path) -> sqlite3.Connection:
    import sqlite3

    address = f"{path.resolve().as_uri()}?mode=ro"
    try:
        database = sqlite3.connect(address, uri=True)
        database.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        # A write-ahead log needs a folder that can be written to; without one it is left out.
        database = sqlite3.connect(f"{address}&immutable=1", uri=True)
    database.row_factory = sqlite3.Row
    # A file may bring views and functions of its own; none of them is run.
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA query_only = ON")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
    return database


def _queries(database: sqlite3.Connection) -> list[str]:
    plain = "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
    tables = {
        name
        for name, sql in database.execute(plain)
        if isinstance(sql, str) and sql.upper().startswith("CREATE TABLE")
    }
    return [
        query
        for name, query in _QUERIES.items()
        if name in tables and not _computes(database, name)
    ]


def _computes(database: sqlite3.Connection, table: str) -> bool:
    """Say whether a table has a column that is computed when it is read."""
    columns = database.execute("SELECT hidden FROM pragma_table_xinfo(?)", (table,))
    return any(hidden for (hidden,) in columns)


def _row(found: dict[str, Any]) -> Row:
    metrics = found.pop("metrics", None)
    row = {k: v.decode(errors="replace") if isinstance(v, bytes) else v for k, v in found.items()}
    if metrics is None:
        return row
    try:
        logged = orjson.loads(metrics)
    except ValueError:
        logged = None
    return {**logged, **row} if isinstance(logged, dict) else row
