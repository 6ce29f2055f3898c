"""The steps that tables of steps list: all, or of a long run every n-th and those with a page."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from rlreport.draw.chart import evenly
from rlreport.pages.page import STEPS, Addresses
from rlreport.text.messages import message, sentences

# A page with more rows takes seconds to open
MOST_LISTED = 1_000


class ListedSteps(NamedTuple):
    """Rows of the table of steps, and a note on those that are left out ("" if none are)."""

    steps: pd.DataFrame
    note: str


def listed_steps(steps: pd.DataFrame, addresses: Addresses) -> ListedSteps:
    """Choose the steps to list: up to MOST_LISTED at equal distances, and all that have a page."""
    count = len(steps)
    if count <= MOST_LISTED:
        return ListedSteps(steps, "")
    has_page = steps["step"].isin(addresses.steps).to_numpy()
    is_listed = has_page.copy()
    is_listed[evenly(count, MOST_LISTED)] = True
    listed = steps[is_listed]
    if has_page.any():
        note = message(
            "{some:count} of {all:count} steps: all that have a page, and others at equal "
            "distances.",
            some=len(listed),
            all=count,
        )
    else:
        note = message(
            "{some:count} of {all:count} steps.", some=len(listed), all=count
        )
    where = message("{file} lists all steps.", file=STEPS)
    return ListedSteps(
        listed, sentences([note, where if addresses.file(STEPS) else ""])
    )
