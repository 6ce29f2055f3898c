"""Which words of a text are new, compared with another text.

``static/js/prompts/word-changes.js`` is the same in JavaScript; a test holds both together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def new_words(before: Sequence[str], after: Sequence[str]) -> list[bool]:
    """Return which words of ``after`` are not in the longest common subsequence with ``before``.

    Of several common subsequences it is the one that is found from the end, where words of
    ``before`` are skipped first. The time is proportional to the product of both lengths.
    """
    number: dict[str, int] = {}
    ids = [number.setdefault(word, len(number)) for word in (*before, *after)]
    after_ids = np.array(ids[len(before) :], np.int32)
    # lengths[i][j]: of the longest common subsequence of the first i and the first j words
    height = len(before) + 1
    width = len(after) + 1
    lengths = np.zeros((height, width), np.int32)
    for i, word in enumerate(ids[: len(before)]):
        is_same = np.equal(after_ids, word).astype(np.int32)
        best = np.maximum(lengths[i, 1:], lengths[i, :-1] + is_same)
        lengths[i + 1, 1:] = np.maximum.accumulate(best) if len(best) else best
    is_new = [True] * len(after)
    i = len(before)
    j = len(after)
    while i and j:
        if before[i - 1] == after[j - 1]:
            is_new[j - 1] = False
            i -= 1
            j -= 1
        elif lengths[i - 1, j] >= lengths[i, j - 1]:
            i -= 1
        else:
            j -= 1
    return is_new
