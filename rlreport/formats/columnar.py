"""Lines that hold a whole step as columns, taken apart into rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlreport.formats.base import Match, Row, RowError, has_keys, named
from rlreport.formats.taken import Watched
from rlreport.text.messages import message


def match_columns(objects: Sequence[Row], keys: tuple[str, ...]) -> Match | None:
    """Claim objects in which every one of ``keys`` is a list."""
    if not has_keys(objects, *keys):
        return None
    if not all(isinstance(obj[key], list) for obj in objects for key in keys):
        return None
    return Match(95, f"{named(keys)}, as columns")


def explode(obj: Row, key: str) -> Iterator[Row]:
    """Yield one dict per entry of column ``key``; values that are no column repeat in each.

    Raises:
        RowError: when ``key`` is no list, or a column has another length than it.
    """
    column = obj.get(key)
    if not isinstance(column, list):
        raise RowError(message("{field} is no column", field=f"`{key}`"))
    size = len(column)
    for name, values in obj.items():
        if isinstance(values, list) and len(values) != size:
            raise RowError(
                message(
                    "column {field} has {values} values, {other} has {size}",
                    field=f"`{name}`",
                    values=len(values),
                    other=f"`{key}`",
                    size=size,
                )
            )
    for i in range(size):
        entry = {
            name: values[i] if isinstance(values, list) else values for name, values in obj.items()
        }
        yield obj.entry(entry) if isinstance(obj, Watched) else entry
