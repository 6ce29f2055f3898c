"""The token arrays of a batch in the compiled parser's buffers, instead of an object for each."""

from __future__ import annotations

from dataclasses import dataclass

from rlreport import native
from rlreport.figures.ragged import offsets_of
from rlreport.read.batch import RawTokens, TokenFields
from rlreport.read.fields import TOKEN_ARRAYS
from rlreport.read.token_rows import TokenRows
from rlreport.read.vocabulary import Vocabulary


@dataclass(slots=True)
class TakenTokens:
    """What the rows of a batch hold; its floats are good until the next batch is begun.

    Attributes:
        rows: side by side.
        carried: field -> rows that carried it.
    """

    rows: TokenRows
    carried: dict[str, int]


class FlatTokens:
    """Collects the tokens of rows, as they are parsed or as they were read another way."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        assert native.scan is not None
        self.vocabulary = vocabulary
        self.buffers = native.scan.TokenBuffers()

    def add(self, row: int, own: TokenFields) -> bool:
        """Add the tokens of a row of the batch; False where what should be strings is not."""
        ids, strings = None, True
        if isinstance(own.tokens, RawTokens):
            ids, counts = self.vocabulary.raw_numbers([own.tokens.text])
            strings = bool(counts[0] == own.tokens.strings)
        elif own.tokens is not None:
            ids = self.vocabulary.numbers(list(own.tokens))
        columns = [own.buffers.get(name) for name in TOKEN_ARRAYS]
        self.buffers.append(row, own.size, ids if strings else None, columns)
        return strings

    def take(self) -> TakenTokens:
        """Hand over what was collected, and start again."""
        rows, lengths, ids, named, columns, nan_values, carried, texts = self.buffers.take()
        arrays = {
            name: column
            for name, column in zip(TOKEN_ARRAYS, columns, strict=True)
            if column is not None
        }
        counts = dict(zip(TOKEN_ARRAYS, carried, strict=True))
        tokens = TokenRows(rows, offsets_of(lengths), ids, named, arrays, nan_values)
        return TakenTokens(tokens, {"response_tokens": texts, **counts})
