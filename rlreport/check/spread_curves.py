"""How far each text spread over the run: at first, at its peak, at the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlreport.check.curve import Curve
from rlreport.check.finding import Onset
from rlreport.check.limits import meets
from rlreport.check.run import event_onset, onset_of
from rlreport.check.series import Series
from rlreport.check.spreading import SpreadingTexts


@dataclass(frozen=True, slots=True)
class TextSpread:
    """The share of responses that contain a text, over the steps."""

    text: str
    curve: Curve  # its levels: ``first``, ``highest`` and ``last``
    onset: Onset | None  # when it began to spread, None if that is not clear
    has_died_out: bool


def text_spreads(spreading: SpreadingTexts, ratio: float) -> dict[str, TextSpread]:
    """Return text -> how it spread, in the order of ``spreading``.

    A text has died out if its share at the end is at most its highest level / ``ratio``, the
    threshold ``Spreading.ratio``: the factor by which a share must grow to have spread.
    """
    spreads = {}
    for text, shares in spreading.by_step.groupby("ngram", sort=False):
        steps = shares["step"].to_numpy(np.int64)
        curve = Series(steps, shares["share"].to_numpy(np.float64)).curve
        if curve is None:
            continue
        onset = event_onset(curve.climb) or event_onset(curve.hump) or onset_of(curve)
        has_died_out = meets("<=", curve.last.value, curve.highest.value / ratio)
        spreads[str(text)] = TextSpread(str(text), curve, onset, has_died_out)
    return spreads
