"""Which format each file has, and how its objects become canonical rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlreport.errors import RlreportError
from rlreport.read.tolerant import RowError

if TYPE_CHECKING:
    from rlreport.formats import RowReader

NATIVE = "rlboard"


@dataclass(frozen=True, slots=True)
class LogFormat:
    """A file's format: picklable, and light where the format is the native one.

    Attributes:
        id: shown to the user.
        container: ``lines``, ``json`` or ``parquet``.
        reader: turns an object into canonical rows; None for native rows, which need none.
        why: why the file is taken for this, in words.
    """

    id: str = NATIVE
    container: str = "lines"
    reader: RowReader | None = None
    why: str = ""

    @property
    def rewarded(self) -> bool:
        """Whether its files hold rewards at all."""
        return self.reader is None or self.reader.rewarded

    def rows(self, obj: dict[str, Any], name: str, line: int, index: int) -> list[dict[str, Any]]:
        """Return the canonical rows of an object.

        Raises:
            RowError: it cannot be one.
        """
        if self.reader is None:
            return [obj]
        return list(self._rows(self.reader, obj, name, line, index))

    def _rows(
        self, reader: RowReader, obj: dict[str, Any], name: str, line: int, index: int
    ) -> Iterator[dict[str, Any]]:
        from rlreport.formats.base import Where

        try:
            yield from reader(obj, Where(name, line, index))
        except RlreportError:
            raise
        except Exception as error:
            # Formats meet objects of any shape, and may come from other packages.
            said = str(error) if isinstance(error, ValueError) else repr(error)
            raise RowError(f"no {self.id} row: {said:.200}") from None


NATIVE_LINES = LogFormat()
