"""Both responses to each prompt won or lost, as the panel shows them: figures, answers, tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from rlreport.check.run import has
from rlreport.columns import RESPONSE_COLUMNS, STEP, TOKEN_FIGURES
from rlreport.comparison.data_file import EXTRA, PART
from rlreport.comparison.outcome import Flip, Outcome
from rlreport.comparison.pair_tokens import TokenPair
from rlreport.comparison.saved import ResponseId
from rlreport.definitions import REWARD_PART
from rlreport.figures.rounding import significant
from rlreport.pages.listed import extra_columns
from rlreport.pages.page_data import MetricData, SideData, SidesData
from rlreport.pages.plan import FINEST_DIGITS
from rlreport.pages.table import ColumnView, number_column
from rlreport.pages.token_data import pack_tokens
from rlreport.read.token_columns import TokenColumns, figures_with_values
from rlreport.text.labels import final_answer
from rlreport.text.language import Language
from rlreport.text.messages import message

MOST_LOGGED = 24  # Maximum number of logged fields, parts of the reward among them
_DIGITS = 6  # significant digits of the figures

# Of all responses to the prompt in the window
_MEAN = ColumnView(
    "mean_reward",
    message("Mean reward of the prompt"),
    help=message("mean reward of the prompt in the window"),
    term=STEP["reward_mean"].term,
)


def sides_data(
    flips: Sequence[Flip], outcome: Outcome, with_tokens: Sequence[int]
) -> SidesData:
    """Return what the panel shows of both responses; see docs/page-data.md.

    ``with_tokens``: numbers of the prompts, from 1, whose tokens are kept.
    """
    labels = outcome.labels
    base_table, new_table = outcome.comparison.compared
    base = _rows_of(base_table, [flip.base_response for flip in flips])
    new = _rows_of(new_table, [flip.new_response for flip in flips])
    base = base.assign(**{_MEAN.key: [flip.base for flip in flips]})
    new = new.assign(**{_MEAN.key: [flip.new for flip in flips]})
    headers = {_MEAN.key: _MEAN, **_columns_of(base, new)}
    columns = {
        name: column
        for name, column in headers.items()
        if has(base, name) or has(new, name)
    }
    base_texts = [flip.base_text for flip in flips]
    new_texts = [flip.new_text for flip in flips]
    return {
        "columns": [column.data() for column in columns.values()],
        "sides": [
            _side("base", labels.base, base, columns, base_texts),
            _side("new", labels.new, new, columns, new_texts),
        ],
        "tokens": list(with_tokens),
    }


def _side(
    key: str,
    name: str,
    rows: pd.DataFrame,
    columns: dict[str, ColumnView],
    texts: Sequence[str | None],
) -> SideData:
    """Return what scripts show of the responses of one side; ``texts`` are in their order."""
    answers = {}
    for number, text in enumerate(texts, start=1):
        answer = final_answer(text or "")
        if answer.is_explicit:  # the last words of a text need not be its answer
            answers[str(number)] = answer.text
    return {
        "key": key,
        "name": name,
        "values": {
            column.key: significant(rows[of], _DIGITS) for of, column in columns.items()
        },
        "answers": answers,
    }


def _rows_of(table: pd.DataFrame, ids: Sequence[ResponseId]) -> pd.DataFrame:
    """Return the rows of responses, in the order of their ids."""
    if not ids:
        return table.iloc[:0]
    return table.set_index(["step", "n"]).reindex(pd.MultiIndex.from_tuples(ids))


def _columns_of(base: pd.DataFrame, new: pd.DataFrame) -> dict[str, ColumnView]:
    """Return column of both tables -> its header: figures of the report, then logged ones."""
    both = [
        str(name)
        for name in new
        if name in base and _is_float(base[name]) and _is_float(new[name])
    ]
    columns = {}
    for column in RESPONSE_COLUMNS:
        is_length = column.name == "response_chars" and "response_tokens" in both
        if column.listed and column.name in both and not is_length:
            columns[column.name] = number_column(column)
    parts = [name for name in both if name.startswith(PART)]
    others = [name for name in both if name.startswith(EXTRA)]
    for name in [*parts, *others][:MOST_LOGGED]:
        is_part = name in parts
        prefix = PART if is_part else EXTRA
        (column_view,) = extra_columns(
            [name.removeprefix(prefix)],
            message("Parts of the reward") if is_part else message("Logged fields"),
            term=REWARD_PART if is_part else "",
        )
        columns[name] = replace(column_view, key=name)
    return columns


def _is_float(column: pd.Series) -> bool:
    return bool(pd.api.types.is_float_dtype(column))


def packed_pair(pair: TokenPair, language: Language) -> str:
    """Return the packed tokens of both responses, "" if neither has any.

    As responses of a step, BASE's is number 0 and NEW's number 1, like their ``sides``.
    """
    rollouts = [
        replace(rollout, n=n)
        for n, rollout in enumerate((pair.base, pair.new))
        if rollout is not None
    ]
    tokens = TokenColumns.of(rollouts)
    has_values = tokens.has_values
    nan = [f.label for f in TOKEN_FIGURES if has_values.get(f.name) is False]
    metrics: list[MetricData] = [
        {
            "key": figure.name,
            "label": figure.label,
            "unit": figure.unit,
            "signed": figure.signed,
            "help": figure.help,
        }
        for figure in TOKEN_FIGURES
        if has_values.get(figure.name)
    ]
    return pack_tokens(tokens, FINEST_DIGITS, language.of(metrics), language.of(nan))


def terms_of_tokens(pairs: Sequence[TokenPair]) -> set[str]:
    """Return the terms of the figures that the token views of pairs offer."""
    terms = set()
    for pair in pairs:
        rollouts = [rollout for rollout in pair if rollout is not None]
        has_values = figures_with_values(rollouts)
        terms |= {f.term for f in TOKEN_FIGURES if has_values.get(f.name)}
    return terms
