"""The rows of prompts won and lost for scripts, from which the panel is made."""

from __future__ import annotations

from collections.abc import Sequence

from rlreport.comparison.outcome import Flip, Outcome
from rlreport.pages.compare.flips import flip_numbers
from rlreport.pages.page_data import RowsData
from rlreport.text.messages import message


def rows_data(flips: Sequence[Flip], outcome: Outcome) -> RowsData:
    """Return the rows of prompts won and lost for scripts; see docs/page-data.md."""
    return {
        "run": outcome.new.name,
        "step": "",
        "total": len(outcome.flips),
        "n": list(range(1, len(flips) + 1)),
        "columns": [column.data() for column in flip_numbers(outcome.labels)],
        "values": {
            "delta": [flip.delta for flip in flips],
            "base": [flip.base for flip in flips],
            "new": [flip.new for flip in flips],
        },
        # None: scripts read the texts from the table, which has all of them.
        "texts": {
            "prompt": [None] * len(flips),
            "response": [None] * len(flips),
            "ref_response": [None] * len(flips),
        },
        "where": [_where(flip) for flip in flips],
        "strings": {},
        "turns": {},
        "ranks": {},
        "badges": {},
        "highlights": [],
        "titles": {
            "row": message("Prompt {n}", n="{n}"),  # scripts fill in the number
            "response": message("NEW's response"),
            "ref_response": message("BASE's response"),
            "other": "BASE",
        },
    }


def _where(flip: Flip) -> str:
    """Return which response of each run the page shows for a prompt."""
    base_step, base_n = flip.base_response
    new_step, new_n = flip.new_response
    return message(
        "NEW: step {new_step}, response {new_n} · BASE: step {base_step}, response {base_n} (each "
        "nearest to its mean)",
        new_step=new_step,
        new_n=new_n,
        base_step=base_step,
        base_n=base_n,
    )
