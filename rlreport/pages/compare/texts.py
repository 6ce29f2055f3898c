"""What the responses of NEW say more than those of BASE, and tokens of the KL."""

from __future__ import annotations

from rlreport.comparison.outcome import Outcome
from rlreport.pages.compare.heads import of_sides
from rlreport.pages.table import ColumnView, TableView, table
from rlreport.text.messages import message

_TEXT = ColumnView("ngram", message("Text"), kind="token")
_TOKEN = ColumnView("token", message("Token"), kind="token")
_RESPONSES = ColumnView("share", message("Responses"), written="share")
_KL = ColumnView("share", message("Share of KL"), written="share")
_Z = ColumnView(
    "z",
    "z",
    help=message("significance of the difference of the shares, in standard errors"),
)
_CHANGE = ColumnView("change", message("Change"), message("points"))


def ngrams_table(outcome: Outcome) -> TableView | None:
    """Return the table of texts more frequent in NEW, None without any."""
    ngrams = outcome.ngrams
    if ngrams.empty:
        return None
    base_head, new_head = of_sides(_RESPONSES, outcome.labels)
    base, new = outcome.counted  # responses of each run
    return table(
        "ngrams",
        message("Texts more frequent in NEW"),
        {
            _TEXT: ngrams["ngram"].tolist(),
            base_head: ngrams["base_share"].tolist(),
            new_head: ngrams["new_share"].tolist(),
            _Z: ngrams["z"].tolist(),
        },
        note=message(
            "Counted in {new:count} responses of {new_name} and {base:count} of {base_name} in "
            "the window.",
            new=new,
            base=base,
            new_name=outcome.labels.new,
            base_name=outcome.labels.base,
        ),
    )


def tokens_table(outcome: Outcome) -> TableView | None:
    """Return the table of tokens by share of the KL, None without any."""
    tokens = outcome.tokens
    if tokens.empty:
        return None
    base_head, new_head = of_sides(_KL, outcome.labels)
    return table(
        "kl_tokens",
        message("Tokens whose share of the KL changed most"),
        {
            _TOKEN: tokens["token"].tolist(),
            base_head: tokens["base_share"].tolist(),
            new_head: tokens["new_share"].tolist(),
            # The change of a share is in percentage points.
            _CHANGE: (100 * tokens["change"]).tolist(),
        },
    )
