"""Charts of the tokens page: texts that spread through the responses."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlreport.draw.chart import Chart
from rlreport.draw.curves import curve_chart
from rlreport.draw.frame import Frame
from rlreport.draw.labels import label
from rlreport.draw.series import PALETTE, Series
from rlreport.text.messages import message, plural

MOST_TEXTS = 6


def token_charts(by_step: pd.DataFrame) -> list[Chart]:
    """The share of responses that hold each spreading text over the steps, still to be drawn.

    Args:
        by_step: ``step``, ``ngram`` (text as the model wrote it), ``share`` (0-1); the most
            telling text first. Texts beyond the first MOST_TEXTS are not drawn.
    """
    known = by_step[by_step["share"].notna()] if len(by_step) else by_step
    if known.empty:
        return []
    texts = list(dict.fromkeys(known["ngram"]))
    shares = known.drop_duplicates(["step", "ngram"]).pivot(
        index="step", columns="ngram", values="share"
    )
    shares = shares.sort_index()
    series = [
        # Names are quoted: a text may be a space or look like a word of ours.
        Series(f"text_{i}", f"“{label(text, 18)}”", shares[text].to_numpy(np.float64), *_look(i))
        for i, text in enumerate(texts[:MOST_TEXTS])
    ]
    left_out = len(texts) - len(series)
    chart = curve_chart(
        Frame(shares.index.to_numpy(np.float64)),
        "spreading",
        message("Texts that spread"),
        series,
        axis=message("share of responses that hold the text"),
        wide=True,
        percent=True,
        right=170,
        note=plural("{count} more is in the table.", "{count} more are in the table.", left_out)
        if left_out
        else "",
    )
    return [chart] if chart else []


def _look(index: int) -> tuple[None, None, str, tuple[int, ...]]:
    return (None, None, *PALETTE[index])
