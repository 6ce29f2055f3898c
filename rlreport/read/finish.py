"""Who finished: by a logged reason, by a last EOS token, or by an EOS token in the text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlreport.read.batch import Batch
from rlreport.read.token_rows import TokenRows
from rlreport.read.vocabulary import Vocabulary
from rlreport.text.special import EOS_TOKENS

FROM_REASON, FROM_TOKEN, FROM_TEXT = 1, 2, 3
"""What tells that a response was finished; 0 where nothing does."""

_ENDINGS = tuple(EOS_TOKENS)
_LAST_LETTERS = frozenset(token[-1] for token in EOS_TOKENS)


class Finish:
    """Who of a batch's rows finished.

    Attributes:
        finished: float64 (R,), 1 or 0; NaN where nothing tells.
        source: int8 (R,), what tells.
        ends: EOS tokens met, and texts that end with one. A run without any may have had
            them stripped: then neither can tell.
    """

    def __init__(self, reasons: NDArray[np.float64]) -> None:
        self.finished = reasons.copy()
        self.source = np.where(np.isnan(reasons), 0, FROM_REASON).astype(np.int8)
        self.ends = (0, 0)

    def look_at_tokens(self, tokens: TokenRows, vocabulary: Vocabulary) -> None:
        """Fill in the rows with tokens."""
        filled = (np.diff(tokens.offsets) > 0) & tokens.named
        last = tokens.ids[tokens.offsets[1:][filled] - 1]
        rows = tokens.rows[filled]
        untold = self.source[rows] == 0
        self.finished[rows[untold]] = vocabulary.ends(last)[untold]
        self.source[rows[untold]] = FROM_TOKEN
        self.ends = (int(vocabulary.ends(tokens.ids).sum()), self.ends[1])

    def look_at_texts(self, batch: Batch) -> None:
        """Fill in the rows without tokens."""
        ends = 0
        for i, text in enumerate(batch.texts):
            if text is None or self.source[i]:
                continue
            stripped = text.rstrip()
            ended = stripped[-1:] in _LAST_LETTERS and stripped.endswith(_ENDINGS)
            self.finished[i] = ended
            self.source[i] = FROM_TEXT
            ends += ended
        self.ends = (self.ends[0], ends)
