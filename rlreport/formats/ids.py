"""Token ids without strings: shown as ``#17``, or named by a tokenizer file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from rlreport.errors import MissingExtraError, UsageError
from rlreport.formats.base import Row
from rlreport.text.clean import is_special
from rlreport.text.numbers import byte_size
from rlreport.text.tokens import Style, detect_style, readable_tokens

MOST_BYTES = 500_000_000
"""Bytes of a tokenizer file at most; the largest known ones have 33 MB."""


class TokenNames:
    """Names of token ids.

    Args:
        tokenizer: path of a ``tokenizer.json`` of the ``tokenizers`` library; None for ``#17``.

    Raises:
        UsageError: when the file cannot be read as one.
        MissingExtraError: when the library is not installed.
    """

    def __init__(self, tokenizer: str | None = None) -> None:
        self._path = tokenizer
        self._tokenizer = None if tokenizer is None else _load(tokenizer)
        self._style = Style.PLAIN
        if self._tokenizer is not None:
            self._style = detect_style(self._tokenizer.get_vocab())

    def __reduce__(self) -> tuple[type[TokenNames], tuple[str | None]]:
        """Travel to another process as the path alone."""
        return TokenNames, (self._path,)

    def strings(self, ids: Sequence[int]) -> list[str]:
        """Return the token strings of ``ids``, as a tokenizer's vocabulary writes them."""
        if self._tokenizer is None:
            return [f"#{token}" for token in ids]
        return [self._tokenizer.id_to_token(token) or f"#{token}" for token in ids]

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``: special tokens left out, or ``#17 #19`` without names."""
        strings = self.strings(ids)
        if self._tokenizer is None:
            return " ".join(strings)
        tokens = readable_tokens(strings, self._style)
        return "".join(token for token in tokens if not is_special(token))

    def fill(self, row: Row) -> Row:
        """Give a canonical row that has ids the strings and texts that it lacks, in place."""
        ids = row.get("token_ids")
        if isinstance(ids, list):
            if row.get("response_tokens") is None:
                row["response_tokens"] = self.strings(ids)
            if row.get("response") is None:
                mask = row.get("response_mask")
                if isinstance(mask, list) and len(mask) == len(ids):
                    ids = [token for token, wrote in zip(ids, mask, strict=True) if wrote]
                row["response"] = self.text(ids)
        if row.get("prompt") is None and isinstance(row.get("prompt_token_ids"), list):
            row["prompt"] = self.text(row["prompt_token_ids"])
        if "ground_truth_ids" in row:
            row["ground_truth"] = self.text(row.pop("ground_truth_ids"))
        return row


@lru_cache(maxsize=4)
def _load(path: str) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtraError(
            "--tokenizer needs the tokenizers library: pip install 'rlreport[tokenizer]'"
        ) from None
    # A pipe or a device would be read for ever.
    if not Path(path).is_file() or Path(path).stat().st_size > MOST_BYTES:
        raise UsageError(f"--tokenizer {path}: no file of at most {byte_size(MOST_BYTES)}")
    try:
        return Tokenizer.from_file(path)
    except Exception as error:  # the library raises bare Exception
        raise UsageError(
            f"{path} is no tokenizer file of the tokenizers library: {error}"
        ) from None
