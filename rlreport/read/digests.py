"""Hashes of responses, by which the cache knows what is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from rlreport.figures.ragged import Ints, offsets_of

DIGEST_BYTES = 16


def digests_of(
    spans: Ints,
    texts: NDArray[np.uint8],
    flags: NDArray[np.uint8],
    lengths: Ints,
    tokens: Mapping[str, NDArray[Any]],
) -> NDArray[np.uint8]:
    """Return a hash of all of each response, uint8 (R, DIGEST_BYTES).

    The first four are as in ``RolloutPart``; ``tokens`` has columns of all tokens, (N,) each.
    """
    digests = np.empty((len(lengths), DIGEST_BYTES), np.uint8)
    names = repr(list(tokens)).encode()
    # What is hashed of a response is one string of bytes: sizes tell where each part of it ends.
    sizes = spans[:, :, 1] - spans[:, :, 0]
    is_logged = spans[:, :, 0] >= 0
    heads = np.column_stack([lengths, flags, sizes, is_logged])
    bounds = pairwise(offsets_of(lengths).tolist())
    responses = zip(heads, spans.tolist(), bounds, strict=True)
    for row, (head, spans_of_row, (first, stop)) in enumerate(responses):
        digest = xxhash.xxh3_128(names)
        digest.update(head.data)
        for start, end in spans_of_row:
            if start >= 0:
                digest.update(texts[start:end].data)
        for values in tokens.values():
            digest.update(values[first:stop].data)
        digests[row] = np.frombuffer(digest.digest(), np.uint8)
    return digests


def string_hashes(strings: Sequence[str]) -> NDArray[np.uint64]:
    """Return a hash of each string, which does not depend on how strings are numbered."""
    hashes = [
        xxhash.xxh3_64_intdigest(string.encode(errors="surrogatepass"))
        for string in strings
    ]
    # Without strings, all tokens have the number 0
    return np.array(hashes or [0], np.uint64)
