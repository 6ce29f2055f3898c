"""The fast path compiled: twin of ``FastRows``, its token arrays straight into buffers."""

from __future__ import annotations

from rlreport import native
from rlreport.read.fields import (
    CANONICAL,
    COUNTED_ONLY,
    FINISH_FIELDS,
    FINISH_REASONS,
    LONGEST_EXTRA,
    SCALARS,
    TOKEN_ARRAYS,
)
from rlreport.read.flat_tokens import FlatTokens
from rlreport.read.marks import Place
from rlreport.read.row_writer import RowValues, RowWriter
from rlreport.text.clean import safe_text

_KINDS = {
    "step": "step",
    "prompt": "prompt",
    "response": "response",
    "ref_response": "reference",
    "group_id": "group",
    "response_tokens": "tokens",
    "reward_parts": "odd",
    "turns": "odd",
    **dict.fromkeys(FINISH_FIELDS, "finish"),
    **dict.fromkeys(COUNTED_ONLY, "counted"),
}


class CompiledRows:
    """Reads lines into a writer's batch, as long as every value is of the usual type."""

    def __init__(self, file: int, writer: RowWriter, flat: FlatTokens) -> None:
        assert native.scan is not None
        self._file = file
        self._writer = writer
        self._parser = native.scan.LineParser(
            flat.buffers,
            flat.vocabulary.raw,
            flat.vocabulary,
            _fields(),
            FINISH_REASONS,
            LONGEST_EXTRA,
        )

    def read(self, line_number: int, offset: int, data: bytes, start: int, stop: int) -> bool:
        """Read data[start:stop]; False, and nothing is done, where anything is odd."""
        found = self._parser.read(data, start, stop)
        if found is None:
            return False
        values, extras, counted, named, uneven = found
        batch = self._writer.batch
        place = Place(self._file, offset, line_number)
        for name, value in extras:
            batch.add_extra(name, safe_text(value) if type(value) is str else value)
        for name in counted:
            batch.count(name)
        if uneven:
            batch.marks.add("unequal_lengths", place)
        self._parser.keep(len(batch.rows))
        self._writer.add_texts(RowValues._make(values), place, stop - start, named=named)
        return True


def _fields() -> list[tuple[str, int]]:
    """Return the canonical fields with the parser's kind of each."""
    assert native.scan is not None
    kinds: dict[str, int] = native.scan.KINDS
    fields = [(name, kinds["reward"] + i) for i, name in enumerate(("reward", *SCALARS))]
    fields += [(name, kinds["array"] + i) for i, name in enumerate(TOKEN_ARRAYS)]
    fields += [(name, kinds[kind]) for name, kind in _KINDS.items()]
    known = {name for name, _ in fields}
    return fields + [(name, kinds["ignored"]) for name in sorted(CANONICAL - known)]
