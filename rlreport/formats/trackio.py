"""Trackio's tables and traces, from its database or the parquet files that it exports.

The database is one SQLite file a project, opened to be read and nothing else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlreport.formats import logged
from rlreport.formats.base import BaseFormat, Match, Row, RowError, Where, each, has_keys, named
from rlreport.formats.logged import columns, dicts, mapping, present
from rlreport.formats.messages import conversation_fields, is_messages
from rlreport.formats.rlboard import Plain
from rlreport.formats.trl import TRL
from rlreport.text.messages import message

if TYPE_CHECKING:
    import sqlite3

_ENTRY = ("run_name", "step", "timestamp")
_REWARDS = ("reward", "score")
_KNOWN = frozenset({*_REWARDS, "group_id", "duration_ms", "latency_ms", "status", "error"})
_NUMBERS = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}

MAX_VALUE = 64_000_000
"""Bytes of a stored value read at most."""

_QUERIES = {
    "metrics": "SELECT run_name, step, timestamp, metrics FROM metrics "
    "WHERE CAST(metrics AS TEXT) LIKE '%\"trackio.table\"%' ORDER BY rowid",
    "traces": "SELECT run_name, step, timestamp, key, trace_index, messages, metadata "
    "FROM traces ORDER BY rowid",
}
"""Entries that hold a table, and conversations; entries of numbers alone are no rollouts."""


class Trackio(BaseFormat):
    """Entries of a run: tables as TRL or anyone logs them, and traces with a reward."""

    id = "trackio"
    description = "Trackio: tables of completions, and traces whose metadata hold a reward"
    files = ("<project>.db", "<project>_traces.parquet", "<project>.parquet")
    container = "sqlite"

    def match(self, name: str, objects: Sequence[Row]) -> Match | None:
        """Claim entries of which one is a trace, or holds a table."""
        if not has_keys(objects, *_ENTRY):
            return None
        if any("messages" in obj and "metadata" in obj for obj in objects):
            return Match(95, named((*_ENTRY, "messages", "metadata")))
        if any(_tables(obj) for obj in objects):
            return Match(95, f"{named(_ENTRY)}, and tables")
        return None

    def rows(self, obj: Row, where: Where) -> Iterator[Row]:
        """Yield the rows of an entry's tables, or the one of a trace."""
        if "messages" in obj:
            yield _trace(obj, where)
            return
        step = logged.step_of(obj.get("step"), where)
        rows = (row for table in _tables(obj) for row in table)
        yield from each(rows, lambda row: _table_row(row, where, step))


def _tables(obj: Row) -> list[list[Row]]:
    """Return the rows of each table of an entry."""
    names = [key for key in obj if mapping(dict.get(obj, key)).get("_type") == "trackio.table"]
    return [dicts(obj[key].get("_value")) for key in names]


def _number(value: Any) -> Any:
    """Undo how Trackio writes what JSON has no number for."""
    return float(_NUMBERS[value]) if isinstance(value, str) and value in _NUMBERS else value


def _table_row(values: Row, where: Where, step: int) -> Row:
    row = {k: _number(values[k]) for k in values}
    row = {**row, "step": row.get("step", step)}
    if "prompt" in row and "completion" in row:
        return next(TRL().rows(row, where))
    if Plain().match(where.name, [row]):
        return next(Plain().rows(row, where))
    raise RowError(message("a table without prompt, completion and reward"))


def _trace(obj: Row, where: Where) -> Row:
    messages, about = (
        logged.from_json(obj.get("messages")),
        mapping(logged.from_json(obj.get("metadata"))),
    )
    if not is_messages(messages):
        raise RowError(message("`messages` are no messages"))
    reward = next((about[key] for key in _REWARDS if key in about), None)
    if reward is None:
        raise RowError(message("a trace whose metadata hold no `reward`"))
    millis = logged.real(about.get("duration_ms", about.get("latency_ms")))
    failed = about.get("error") or about.get("status") == "error"
    return {
        **columns(about, _KNOWN),
        **conversation_fields(messages),
        "step": logged.step_of(obj.get("step"), where),
        "reward": logged.parse_number(reward),
        "run": logged.text(obj.get("run_name")),
        **present(
            group_id=logged.text_if_any(about.get("group_id")),
            seconds=None if millis is None else millis / 1000,
            errors=[logged.text(about.get("error")) or "error"] if failed else None,
        ),
    }


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
                        yield index, _entry(dict(found))
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


def _entry(found: dict[str, Any]) -> Row:
    metrics = found.pop("metrics", None)
    row = {k: v.decode(errors="replace") if isinstance(v, bytes) else v for k, v in found.items()}
    if metrics is None:
        return row
    return {**logged.json_object(metrics), **row}
