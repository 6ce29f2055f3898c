"""The rows of prompts won and lost for scripts, from which the panel is made."""

from __future__ import annotations

from collections.abc import Sequence

from rlreport.comparison.labels import Labels
from rlreport.comparison.outcome import Flip, Outcome
from rlreport.pages.compare.flips import flip_numbers, shared_prefixes
from rlreport.pages.compare.sides import sides_data
from rlreport.pages.page_data import RowsData, TitlesData
from rlreport.text.messages import message


def rows_data(
    flips: Sequence[Flip], outcome: Outcome, with_tokens: Sequence[int]
) -> RowsData:
    """Return the rows of prompts won and lost for scripts; see docs/page-data.md.

    ``with_tokens``: numbers of the prompts, from 1, whose tokens are kept.
    """
    labels = outcome.labels
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
        "where": [_where(flip, labels) for flip in flips],
        "prefixes": {"prompt": shared_prefixes(flips)},
        "strings": {},
        "turns": {},
        "ranks": {},
        "badges": {},
        "highlights": [],
        "titles": _titles(labels),
        "compared": sides_data(flips, outcome, with_tokens),
    }


def _titles(labels: Labels) -> TitlesData:
    return {
        # Scripts fill in the number.
        "row": message(
            "Prompt {n}: {new} against {base}",
            n="{n}",
            new=labels.new,
            base=labels.base,
        ),
        "response": labels.new,
        "ref_response": labels.base,
        "other": labels.base,
    }


def _where(flip: Flip, labels: Labels) -> str:
    """Return which response of each run the page shows for a prompt."""
    base_step, base_n = flip.base_response
    new_step, new_n = flip.new_response
    return message(
        "{base}: step {base_step}, response {base_n} · {new}: step {new_step}, response {new_n} "
        "(each nearest to its mean)",
        base=labels.base,
        base_step=base_step,
        base_n=base_n,
        new=labels.new,
        new_step=new_step,
        new_n=new_n,
    )
