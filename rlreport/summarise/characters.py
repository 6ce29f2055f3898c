"""Merge adjacent tokens that are pieces of one character, such as the bytes of an emoji."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlreport.figures.ragged import Ints
from rlreport.tables import TextSample, TokenSample
from rlreport.text.clean import REPLACEMENT
from rlreport.text.tokens import Style, detect_style, token_bytes, token_text

# Maximum number of tokens that are merged. A character has at most four bytes, but a token may
# end one character and begin the next one.
MAX_PIECES = 8

Bools = NDArray[np.bool_]


class Characters(NamedTuple):
    """A token sample whose units are tokens, or several tokens that form whole characters."""

    sample: TokenSample
    names: list[str]  # readable text of each entry of the vocabulary
    starts: Ints  # index of each unit's first token in the units of the original sample
    sizes: Ints  # number of tokens of each unit


def whole_characters(sample: TokenSample) -> Characters:
    """Merge tokens that form whole characters where they stand next to each other.

    Tokens whose bytes never become a character stay as they are. The figures of merged tokens:

    - KL, log-ratio: the sum over the tokens, as log-probabilities add up
    - probability: the product over the tokens
    - value error: the mean of the absolute values

    Each is NaN if it is missing for one of the tokens.
    """
    texts = sample.texts
    style = detect_style(texts.vocabulary)
    names = [token_text(token, style) for token in texts.vocabulary]
    encoded = [_bytes(token, style) for token in texts.vocabulary]
    follows = _follows(texts, encoded)
    if not follows.any():
        starts = np.arange(len(texts.units))
        return Characters(sample, names, starts, np.ones_like(starts))
    vocabulary = _Vocabulary(list(texts.vocabulary), names, encoded)
    merged = _merge(texts.units, follows, vocabulary)
    starts = np.flatnonzero(~follows)
    sizes = np.diff(np.append(starts, len(follows)))
    errors = np.add.reduceat(np.abs(sample.value_error), starts) / sizes
    of_units = replace(
        texts,
        offsets=np.searchsorted(starts, texts.offsets),
        units=merged[starts],
        vocabulary=vocabulary.raw,
    )
    merged_sample = TokenSample(
        of_units,
        kl=np.add.reduceat(sample.kl, starts),
        log_ratio=np.add.reduceat(sample.log_ratio, starts),
        prob=np.multiply.reduceat(sample.prob, starts),
        value_error=errors.astype(np.float32),
    )
    return Characters(merged_sample, names, starts, sizes)


class _Vocabulary:
    """The strings of tokens, to which those of merged tokens are added."""

    def __init__(self, raw: list[str], names: list[str], encoded: list[bytes]) -> None:
        self.raw = raw  # as logged
        self.names = names  # as readable text
        self._encoded = encoded
        self._number_of = {token: number for number, token in enumerate(raw)}

    def merged(self, tokens: list[int]) -> int:
        """Return the number of tokens as one string, −1 if they do not form characters."""
        if len(tokens) > MAX_PIECES:
            return -1
        try:
            text = b"".join([self._encoded[token] for token in tokens]).decode()
        except UnicodeDecodeError:
            return -1
        raw = "".join([self.raw[token] for token in tokens])
        # The same character may also be a token of its own.
        number = self._number_of.setdefault(raw, len(self.raw))
        if number == len(self.raw):
            self.raw.append(raw)
            self.names.append(text.replace("\0", REPLACEMENT))
        return number


def _merge(
    units: NDArray[np.int32], follows: Bools, vocabulary: _Vocabulary
) -> NDArray[np.int32]:
    """Return the units, the first of each group of tokens replaced by what they form together.

    ``follows`` are the units that belong to the one before. In place, it loses those of groups
    that form no characters.
    """
    merged = units.copy()
    count = len(vocabulary.raw)
    starts = np.flatnonzero(~follows)
    sizes = np.diff(np.append(starts, len(follows)))
    for size in np.unique(sizes[sizes > 1]).tolist():
        firsts = starts[sizes == size]
        places = firsts[:, np.newaxis] + np.arange(size)
        group_of, distinct = _distinct(units[places], count)
        numbers = np.array([vocabulary.merged(group) for group in distinct.tolist()])
        is_merged = numbers[group_of] >= 0
        merged[firsts[is_merged]] = numbers[group_of[is_merged]]
        follows[places[~is_merged].ravel()] = False
    return merged


def _bytes(token: str, style: Style) -> bytes:
    """Return a token's bytes; none for a special token, which is part of no character."""
    if style is Style.PLAIN:  # parts of characters cannot be restored
        return b""
    return token_bytes(token, style) or b""


def _follows(texts: TextSample, encoded: list[bytes]) -> Bools:
    """Return which units may go on with a character that the one before began, bool (N,).

    ``encoded`` are the bytes of each entry of the vocabulary. Not all that is joined is a
    character: bytes may be missing at the end, or out of range.
    """
    of_tokens = np.array([_ends(token) for token in encoded], np.int64)
    head, size, missing = of_tokens[texts.units].T
    is_inner = (head == size) & (size > 0)  # it has bytes within a character only
    place = np.arange(len(texts.units))
    # The last place that begins a character, or has a whole one, and how many bytes followed it
    begins = np.maximum.accumulate(np.where(is_inner, 0, place))
    bytes_until = np.cumsum(np.where(is_inner, size, 0))
    pending = np.where(is_inner[begins], 0, missing[begins])
    pending -= bytes_until - bytes_until[begins]
    before = np.append(0, pending[:-1])
    fits = np.where(is_inner, head <= before, head == before)
    result: Bools = (before > 0) & (head > 0) & fits
    # No character extends over two texts.
    text_starts = texts.offsets[:-1]
    result[text_starts[text_starts < len(result)]] = False
    return result


def _ends(token: bytes) -> tuple[int, int, int]:
    """Return how a token begins and ends, given its UTF-8 bytes.

    That is how many bytes at its start continue a character, how many it has, and how many its
    last character lacks.
    """
    head = next(
        (i for i, byte in enumerate(token) if not 0x80 <= byte <= 0xBF), len(token)
    )
    missing = 0
    for length, byte in enumerate(reversed(token[-3:]), 1):
        if byte >= 0xC2:  # the first byte of a character of two, three or four
            of_character = 4 if byte >= 0xF0 else 3
            if byte < 0xE0:
                of_character = 2
            missing = max(0, of_character - length)
        if not 0x80 <= byte <= 0xBF:
            break
    return head, len(token), missing


def _distinct(groups: NDArray[np.int32], count: int) -> tuple[Ints, Ints]:
    """Return the number of each group among the distinct ones, and these.

    ``groups`` are of one size, (groups, size), with entries below ``count``.
    """
    numbers = groups[:, 0].astype(np.int64)
    for column in groups.T[1:]:
        # Numbered anew for each column, so that the product cannot overflow
        numbers = pd.factorize(numbers * count + column)[0]
    _, first = np.unique(numbers, return_index=True)
    return numbers, groups[first].astype(np.int64)
