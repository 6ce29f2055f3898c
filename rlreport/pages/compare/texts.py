"""What the responses of NEW say more than those of BASE, and tokens of the KL."""

from __future__ import annotations

from rlreport.comparison.outcome import Outcome
from rlreport.pages.table import ColumnView, TableView, table
from rlreport.text.messages import message

_NGRAMS = (
    ColumnView("ngram", message("Text"), kind="token"),
    ColumnView("new_share", message("Responses of NEW"), written="share"),
    ColumnView("base_share", message("Responses of BASE"), written="share"),
    ColumnView(
        "z",
        "z",
        help=message(
            "significance of the difference of the shares, in standard errors"
        ),
    ),
)
_TOKENS = (
    ColumnView("token", message("Token"), kind="token"),
    ColumnView("new_share", message("Share of KL in NEW"), written="share"),
    ColumnView("base_share", message("Share of KL in BASE"), written="share"),
    ColumnView("change", message("Change"), message("points")),
)


def ngrams_table(outcome: Outcome) -> TableView:
    """Return the table of texts more frequent in NEW; its note says in how many responses."""
    base, new = outcome.counted  # responses of each run
    if base and new:
        note = message(
            "Counted in {new:count} responses of NEW and {base:count} responses of BASE in the "
            "window.",
            new=new,
            base=base,
        )
    else:
        note = message(
            "Not counted: a report lacks the texts of the window, or --redact hides them."
        )
    columns = {column: outcome.ngrams[column.key].tolist() for column in _NGRAMS}
    return table("ngrams", message("Texts more frequent in NEW"), columns, note=note)


def tokens_table(outcome: Outcome) -> TableView:
    """Return the table of tokens by share of the KL; an empty one says what it needs."""
    # The change of a share is in percentage points.
    tokens = outcome.tokens.assign(change=100 * outcome.tokens["change"])
    note = message(
        "Needs log-probabilities of both runs, from logs, a folder or a .zip, and no --redact."
    )
    caption = message("Tokens whose share of the KL changed most")
    columns = {column: tokens[column.key].tolist() for column in _TOKENS}
    return table("kl_tokens", caption, columns, note="" if len(tokens) else note)
