"""Unit strings (tokens, words) as small numbers, and hashes of whole arrays of them.

Hashes are 64 bits, the same in every process and on every machine.
"""

from __future__ import annotations

import json

import numpy as np
import orjson
import xxhash
from numpy.typing import NDArray

from rlreport.figures.ragged import Ints
from rlreport.text.special import EOS_TOKENS

Ids = NDArray[np.int32]
Hashes = NDArray[np.uint64]

_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

_WORD_BYTES = 8
_LONGEST_VECTORISED = 64
_QUOTE, _BACKSLASH = 34, 92
_ODD = np.uint64(0x9E3779B97F4A7C15)
_FULL = np.uint64(0xFFFFFFFFFFFFFFFF)
# Keeps the first k of eight little-endian bytes.
_MASKS = np.array(
    [0, *(int(_FULL) >> (64 - 8 * k) for k in range(1, _WORD_BYTES + 1))], dtype=np.uint64
)


class Vocabulary:
    r"""Numbers strings in the order they are met; one string, one number.

    A token is usually known by the hash of its raw JSON, so that no Python string is made
    for it; only a raw form met for the first time is decoded, which is also where
    ``\u0120`` and ``Ġ`` become the same token.

    Attributes:
        strings: by number.
    """

    def __init__(self, pad_tokens: tuple[str, ...] = ()) -> None:
        self.strings: list[str] = []
        self._pad_tokens = frozenset(pad_tokens)
        self._ids: dict[str, int] = {}
        self._hashes = np.zeros(0, dtype=np.uint64)
        self._pads: list[int] = []
        self._ends: list[int] = []
        self._by_raw = _HashTable()

    def __len__(self) -> int:
        return len(self.strings)

    @property
    def hashes(self) -> Hashes:
        """uint64, by number; equal in every process."""
        known = len(self._hashes)
        if known < len(self.strings):
            # Only the new ones: most batches bring few.
            fresh = [
                xxhash.xxh3_64_intdigest(string.encode(errors="surrogatepass"))
                for string in self.strings[known:]
            ]
            self._hashes = np.concatenate([self._hashes, np.array(fresh, dtype=np.uint64)])
        return self._hashes

    def pads(self, ids: Ids) -> NDArray[np.bool_] | None:
        """Tell which of these tokens are padding; None where no token is."""
        return _among(ids, self._pads)

    def ends(self, ids: Ids) -> NDArray[np.bool_]:
        """Tell which of these tokens end a response."""
        found = _among(ids, self._ends)
        return np.zeros(len(ids), dtype=bool) if found is None else found

    def number_of(self, string: str) -> int:
        """Return the number of a string, -1 where it was not met."""
        return self._ids.get(string, -1)

    def numbers(self, strings: list[str]) -> Ids:
        """Return the number of each string, int32 (len,)."""
        known = self._ids
        try:
            return np.array([known[string] for string in strings], dtype=np.int32)
        except KeyError:
            for string in strings:
                if string not in known:
                    self._add(string)
        return np.array([known[string] for string in strings], dtype=np.int32)

    def raw_numbers(self, arrays: list[bytes]) -> tuple[Ids, Ints]:
        """Return the numbers of all strings in raw JSON arrays, int32, and how many each holds.

        Args:
            arrays: one array a row, ``["a","b"]``; one that holds anything else counts -1.
        """
        raw = b"".join(arrays)
        data = np.frombuffer(raw + bytes(_WORD_BYTES), dtype=np.uint8)
        quotes = _string_quotes(data, raw)
        starts = quotes[0::2] + 1
        lengths = quotes[1::2] - starts
        keys = _raw_hashes(data, raw, starts, lengths)
        ids = self._by_raw.get(keys)
        unknown = np.flatnonzero(ids < 0)
        if len(unknown):
            fresh, first, inverse = np.unique(keys[unknown], return_index=True, return_inverse=True)
            places = unknown[first]
            spans = zip(starts[places].tolist(), lengths[places].tolist(), strict=True)
            new = self.numbers(_decoded([raw[start : start + size] for start, size in spans]))
            self._by_raw.put(fresh, new)
            ids[unknown] = new[inverse]
        sizes = np.array([len(array) for array in arrays], dtype=np.int64)
        stops = np.searchsorted(starts, np.cumsum(sizes))
        counts = np.diff(stops, prepend=0)
        # Quotes, commas and two brackets are all that stands around strings.
        inside = np.diff(np.append(0, np.cumsum(lengths))[stops], prepend=0)
        plain = sizes == np.maximum(inside + 3 * counts + 1, 2)
        return ids, np.where(plain, counts, -1)

    def _add(self, string: str) -> int:
        number = self._ids[string] = len(self.strings)
        self.strings.append(string)
        if string in self._pad_tokens:
            self._pads.append(number)
        if string in EOS_TOKENS:
            self._ends.append(number)
        return number


def _decoded(raw: list[bytes]) -> list[str]:
    """Decode the insides of JSON strings."""
    try:
        strings: list[str] = orjson.loads(b'["' + b'","'.join(raw) + b'"]')
    except orjson.JSONDecodeError:
        strings = []
    if len(strings) == len(raw):
        return strings
    # Lone surrogates are no JSON for orjson, and quite possible in logs.
    return [json.loads(b'"' + piece + b'"') for piece in raw]


def _among(ids: Ids, few: list[int]) -> NDArray[np.bool_] | None:
    found: NDArray[np.bool_] | None = None
    for number in few:
        same = ids == number
        found = same if found is None else found | same
    return found


def _string_quotes(data: NDArray[np.uint8], raw: bytes) -> Ints:
    """Return the places of the quotes that open or close a string."""
    quotes = data == _QUOTE
    if b"\\" not in raw:
        return np.flatnonzero(quotes)
    backslashes = data == _BACKSLASH
    if b"\\\\" not in raw:
        quotes[1:] &= ~backslashes[:-1]
        return np.flatnonzero(quotes)
    # A quote is escaped if an odd number of backslashes stands before it.
    places = np.flatnonzero(quotes)
    suspects = np.flatnonzero(backslashes[places - 1])
    odd = np.zeros(len(suspects), dtype=bool)
    running = np.arange(len(suspects))
    depth = 1
    while len(running):
        odd[running] ^= True
        depth += 1
        before = places[suspects[running]] - depth
        running = running[(before >= 0) & backslashes[before]]
    keep = np.ones(len(places), dtype=bool)
    keep[suspects[odd]] = False
    return places[keep]


def _raw_hashes(data: NDArray[np.uint8], raw: bytes, starts: Ints, lengths: Ints) -> Hashes:
    """Hash the byte strings data[start:start + length], 64 bits each, eight bytes at a time."""
    # A view of the eight bytes from every offset on, aligned or not.
    words = np.ndarray((len(data) - _WORD_BYTES + 1,), np.dtype("<u8"), data, strides=(1,))
    first = words[starts] & _MASKS[np.minimum(lengths, _WORD_BYTES)]
    # JSON holds no raw NUL, so the zeros after a short token cannot be part of another one.
    keys = first * _ODD
    longer = np.flatnonzero(lengths > _WORD_BYTES)
    done = _WORD_BYTES
    while len(longer) and done < _LONGEST_VECTORISED:
        left = lengths[longer] - done
        word = words[starts[longer] + done] & _MASKS[np.minimum(left, _WORD_BYTES)]
        keys[longer] = mix(keys[longer] ^ word)
        longer = longer[left > _WORD_BYTES]
        done += _WORD_BYTES
    for i in longer.tolist():
        keys[i] = xxhash.xxh3_64_intdigest(raw[starts[i] : starts[i] + lengths[i]])
    # Zero marks a free place in the table.
    keys[keys == 0] = 1
    return keys


class _HashTable:
    """uint64 keys to int32 numbers, looked up for a whole array at once (linear probing)."""

    def __init__(self) -> None:
        self._count = 0
        self._allocate(1 << 14)

    def _allocate(self, size: int) -> None:
        self._shift = np.uint64(64 - (size.bit_length() - 1))
        self._keys = np.zeros(size, dtype=np.uint64)
        self._numbers = np.full(size, -1, dtype=np.int32)

    def get(self, keys: Hashes) -> Ids:
        """Return the number of each key, -1 where unknown."""
        last = len(self._keys) - 1
        places = (keys >> self._shift).astype(np.int64)
        stored = self._keys[places]
        numbers = self._numbers[places]
        searching = np.flatnonzero(stored != keys)
        numbers[searching] = -1
        searching = searching[stored[searching] != 0]
        while len(searching):
            places[searching] = (places[searching] + 1) & last
            there = self._keys[places[searching]]
            hits = there == keys[searching]
            numbers[searching[hits]] = self._numbers[places[searching[hits]]]
            searching = searching[~hits & (there != 0)]
        return numbers

    def put(self, keys: Hashes, numbers: Ids) -> None:
        """Add distinct, unknown keys."""
        self._count += len(keys)
        if self._count * 4 > len(self._keys):
            old = np.flatnonzero(self._keys)
            keys = np.concatenate([self._keys[old], keys])
            numbers = np.concatenate([self._numbers[old], numbers])
            self._allocate(1 << (self._count * 8 - 1).bit_length())
        last = len(self._keys) - 1
        places = (keys >> self._shift).astype(np.int64)
        while len(keys):
            # Of several keys that want one free place, the first gets it.
            free = np.flatnonzero(self._keys[places] == 0)
            taken, first = np.unique(places[free], return_index=True)
            chosen = free[first]
            self._keys[taken] = keys[chosen]
            self._numbers[taken] = numbers[chosen]
            left = np.ones(len(keys), dtype=bool)
            left[chosen] = False
            keys, numbers, places = keys[left], numbers[left], (places[left] + 1) & last


def mix(values: Hashes) -> Hashes:
    """Scatter 64-bit numbers (the finaliser of SplitMix64, Steele et al. 2014); a bijection."""
    mixed = values + _GOLDEN
    mixed ^= mixed >> np.uint64(30)
    mixed *= _FIRST
    mixed ^= mixed >> np.uint64(27)
    mixed *= _SECOND
    mixed ^= mixed >> np.uint64(31)
    return mixed


def pair_hashes(left: Hashes, right: Hashes) -> Hashes:
    """Hash ordered pairs of hashes."""
    return mix(left * _GOLDEN + right)


def order_of(hashes: Hashes) -> NDArray[np.int64]:
    """Return an order that makes hashes ascend, int64 (N,); equal ones keep theirs.

    The low bits give way to the places, so that numbers are sorted rather than places by
    numbers, which NumPy does ten times as fast.
    """
    places = np.arange(len(hashes), dtype=np.uint64)
    low = np.uint64((1 << len(hashes).bit_length()) - 1)
    packed = (hashes & ~low) | places
    packed.sort()
    order = (packed & low).astype(np.int64)
    ordered = hashes[order]
    # Rarely two hashes differ in the lost bits only.
    return order if (ordered[1:] >= ordered[:-1]).all() else np.argsort(hashes, kind="stable")


def row_priorities(files: Hashes, offsets: NDArray[np.int64], subs: NDArray[np.int64]) -> Hashes:
    """Give every row a number that looks random and depends on its place in the logs only.

    That is the hash of its file's name, where its line begins, and its number there, (R,) each.
    """
    place = mix(files) + offsets.astype(np.uint64)
    return mix(mix(place) + subs.astype(np.uint64))


def grouped(keys: Hashes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a stable order that puts equal keys together, and where each group starts in it.

    Runs that ascend already, as in two tables side by side, are merged rather than sorted.
    """
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    return order, np.flatnonzero(fresh)
