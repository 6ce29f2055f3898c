"""What lists show: their columns, and prompts as short texts."""

from __future__ import annotations

import math
import os.path
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from numpy.typing import NDArray

from rlreport.check.run import has
from rlreport.columns import RESPONSE_COLUMNS
from rlreport.definitions import REWARD_PART
from rlreport.figures.turns import ENDING_WORDS, Ending, several_endings
from rlreport.pages.context import PageContext
from rlreport.pages.redundant import without_redundant
from rlreport.pages.table import ColumnView, number_column
from rlreport.pages.widths import SHORT_STRINGS
from rlreport.read.rollouts import Rollout
from rlreport.tables import Tables
from rlreport.text.chat import turns_as_text
from rlreport.text.clean import shortened
from rlreport.text.messages import message

STEP_LINK = ColumnView("step", message("Step"), kind="link")
REWARD_PATH = ColumnView("path", message("Reward over steps"), kind="path")
PROMPT_TEXT = ColumnView("prompt", message("Prompt"), kind="text")
RESPONSE_TEXT = ColumnView("response", message("Response"), kind="text")
TEXT_COLUMNS = (
    PROMPT_TEXT,
    RESPONSE_TEXT,
    ColumnView("ref_response", message("Reference response"), kind="text"),
    ColumnView("ground_truth", message("Ground truth"), kind="text"),
)

# The only listed column that is computed from a sample of the responses, if there are many
SAMPLED_FIGURE = "distinct_2"

# Columns of the table of steps that are shown as key figures of the run and of each step
TILES = (
    "reward_mean",
    "ref_reward_mean",
    "win_rate",
    "kl_k1_mean",
    "kl_k3_mean",
    "response_tokens_mean",
    "response_chars_mean",
    "surprisal_mean",
    "eos_rate",
    "explained_variance",
    "distinct_2",
)

# Key figures of the run in order, including those that only trainer metrics provide
RUN_TILES = (
    TILES[0],
    "validation_reward_mean",
    *(n for n in TILES[1:] if "chars" not in n),
    "zero_variance_groups",
)


# If more logged fields than this are in a group of columns, all are hidden by default
EXTRAS_SHOWN = 6

# Minimum characters of a shared beginning of prompts, and minimum prompts that have it: a number
# and a fraction; all beginnings together must be those of MOST_PROMPTS
LEAST_SHARED = 20
LEAST_PROMPTS = 4
LEAST_SHARE = 0.1
MOST_PROMPTS = 0.8
PREFIXES = 4  # Maximum number of shared beginnings
PREFIX_SAMPLE = 200  # Maximum prompts to find them in
_WORDS = re.compile(r".*[\s。？！：，、]", re.DOTALL)


class PromptText(str):
    """A prompt in a list, whose beginning is hidden if it is one of ``prefixes``."""

    __slots__ = ("rest", "shared")
    shared: str  # the hidden beginning, "" if nothing is hidden
    rest: str

    def __new__(
        cls, text: str, prefixes: Sequence[str], longest: int | None = None
    ) -> PromptText:
        """Return ``text``, both of its parts cut to ``longest`` characters if that is given."""
        size = _hidden_size(text, prefixes)
        shared = text[:size]
        rest = text[size:]
        if longest:
            shared = shortened(shared, longest)
            rest = shortened(rest, longest)
        prompt = super().__new__(cls, shared + rest)
        prompt.shared = shared
        prompt.rest = rest
        return prompt

    @property
    def brief(self) -> str:
        return f"… {self.rest.lstrip()}" if self.shared else self.rest

    def __html__(self) -> str:
        shared = Markup.escape(self.shared)
        rest = Markup.escape(self.rest)
        return f'<span class="shared">{shared}</span>{rest}' if shared else rest


def _hidden_size(text: str, prefixes: Sequence[str]) -> int:
    """Return how many characters of a prompt to hide: its longest prefix, but never all of it."""
    size = 0
    for prefix in prefixes:
        if text.startswith(prefix) and text[len(prefix) :].strip():
            size = max(size, len(prefix))
    return size


def listed_prompt(
    rollout: Rollout, prefixes: Sequence[str], longest: int | None = None
) -> PromptText:
    return PromptText(turns_as_text(rollout.turns) or rollout.prompt, prefixes, longest)


def prompt_prefixes(prompts: Iterable[str]) -> tuple[str, ...]:
    """Return up to PREFIXES shared beginnings of prompts; () unless MOST_PROMPTS have one."""
    texts = _sample_of(prompts)
    least = max(LEAST_PROMPTS, LEAST_SHARE * len(texts))
    remaining = texts
    prefixes: list[str] = []
    while len(remaining) >= least and len(prefixes) < PREFIXES:
        # Cut the beginning after a whole word: "Solve the fo" is no instruction.
        whole_words = _WORDS.match(_best_prefix(remaining, least))
        if whole_words is None or len(whole_words[0]) < LEAST_SHARED:
            break
        prefix = whole_words[0]
        prefixes.append(prefix)
        remaining = [text for text in remaining if not text.startswith(prefix)]
    covered = len(texts) - len(remaining)
    return tuple(prefixes) if covered >= MOST_PROMPTS * len(texts) else ()


def _sample_of(prompts: Iterable[str]) -> list[str]:
    """Return at most about PREFIX_SAMPLE different prompts, sorted."""
    texts = [text for text in dict.fromkeys(prompts) if text]
    stride = max(1, math.ceil(len(texts) / PREFIX_SAMPLE))
    return sorted(texts[::stride])


def _best_prefix(texts: Sequence[str], least: float) -> str:
    """Return the beginning of ``least`` or more sorted texts whose hiding saves most characters.

    It saves its length times the number of texts; "" if none has LEAST_SHARED characters.
    """
    # In sorted order, all texts that share a beginning stand next to each other.
    common = [len(os.path.commonprefix(pair)) for pair in pairwise(texts)]  # noqa: RUF071
    best = ""
    saved = 0
    for first, text in enumerate(texts):
        length = len(text)  # of the beginning that all texts from first to last share
        for last in range(first + 1, len(texts)):
            length = min(length, common[last - 1])
            if length < LEAST_SHARED:  # it only gets shorter
                break
            count = last - first + 1
            if count >= least and count * length > saved:
                saved = count * length
                best = text[:length]
    return best


def columns_with_data(steps: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Return those ``names`` with data, without ``response_chars_mean`` if tokens are logged."""
    columns = [name for name in names if steps[name].notna().any()]
    if "response_tokens_mean" not in columns:
        return columns
    return [name for name in columns if name != "response_chars_mean"]


def number_columns(tables: Tables) -> list[ColumnView]:
    """Return numeric columns of the response list; logged fields are last, hidden if many.

    A column without any value is left out.
    """
    responses = tables.responses
    base_columns = [
        column
        for column in RESPONSE_COLUMNS
        if column.listed and responses[column.name].notna().any()
    ]
    in_tokens = any(column.name == "response_tokens" for column in base_columns)
    columns = []
    for base in base_columns:
        column = number_column(base)
        if column.key == "response_chars" and in_tokens:
            column = replace(column, hidden=True)
        elif column.key == "advantage_mean":
            column = _advantage_column(column, responses)
        elif column.key == SAMPLED_FIGURE and tables.sample_note:
            note = message("{help}; of sampled responses only", help=column.help)
            column = replace(column, help=note)
        columns.append(column)
    logged = _logged_number_columns(tables)
    values = {c.key: responses[c.key].to_numpy(np.float64) for c in columns}
    for name in tables.extras.columns:
        if is_numeric(tables.extras[name]):
            values[extra_key(name)] = tables.extras[name].to_numpy(np.float64)
    return without_redundant(
        columns,
        logged,
        values,
        responses["step"].to_numpy(),
        responses["prompt_id"].to_numpy(np.int64),
    )


def _advantage_column(column: ColumnView, responses: pd.DataFrame) -> ColumnView:
    """Return the column with where advantages are from; logged ones are always shown."""
    if has(responses, "advantage_logged_mean"):
        return replace(column, unit=message("logged"), hidden=False)
    return replace(column, unit=message("GAE"))


def _logged_number_columns(tables: Tables) -> list[ColumnView]:
    """Return the columns of the reward's parts, then those of other logged numbers.

    A column is hidden until the reader selects it if its group has more than EXTRAS_SHOWN.
    """
    parts: list[object] = []
    others: list[object] = []
    for name, values in tables.extras.items():
        if name == "advantage":  # it is column ``advantage_mean``
            continue
        if is_numeric(values) and values.notna().any():
            names = parts if name in tables.reward_parts else others
            names.append(name)
    return [
        *extra_columns(
            parts,
            message("Parts of the reward"),
            hidden=len(parts) > EXTRAS_SHOWN,
            term=REWARD_PART,
        ),
        *extra_columns(
            others, message("Logged fields"), hidden=len(others) > EXTRAS_SHOWN
        ),
    ]


def extra_columns(
    names: Sequence[object],
    group: str,
    *,
    kind: str = "number",
    hidden: bool = False,
    term: str = "",
) -> list[ColumnView]:
    """Return columns of logged fields; ``term``: key of what they are, "" if that is not known."""
    return [
        ColumnView(
            extra_key(name),
            str(name),
            kind=kind,
            hidden=hidden,
            group=group,
            term=term,
        )
        for name in names
    ]


def reading_order(
    numbers: Sequence[ColumnView], texts: Sequence[ColumnView]
) -> list[ColumnView]:
    """Return the visible columns in order: reward, texts, KL and length, then all others."""
    visible_columns = [c for c in (*numbers, *texts) if not c.hidden]
    return sorted(visible_columns, key=_reading_rank)


# Columns that come first; other numbers follow, then other texts
_FIRST_COLUMNS = {
    "reward": 0,
    "prompt": 1,
    "response": 1,
    "finding": 1,
    "kl_k1": 2,
    "response_tokens": 2,
    "response_chars": 2,
}


def _reading_rank(column: ColumnView) -> int:
    if column.key in _FIRST_COLUMNS:
        return _FIRST_COLUMNS[column.key]
    return 4 if column.kind == "text" else 3


_WHY_ENDED = message(
    "why the response ended, as logged; otherwise inferred from its end token, text or turns"
)
ENDING = ColumnView(
    "ending",
    message("How it ended"),
    kind="text",
    help=_WHY_ENDED,
    hidden=True,
    width=SHORT_STRINGS,
)


_TOOLS_USED = message("the tools that answered in the response")
# Key in ``TOOLS`` of static/js/list/rows.js, too: a text of several lines, each of them a value
TOOLS = ColumnView(
    "tools",
    message("Tools"),
    kind="text",
    help=_TOOLS_USED,
    hidden=True,
    width=SHORT_STRINGS,
)

# The findings that cite a response; scripts look for ``CITED`` of the presets
_CITING = message("findings that cite the response")
FINDING = ColumnView("finding", message("Finding"), kind="text", help=_CITING)
_HOW_MANY = message("number of findings that cite the response")
CITED = ColumnView(
    "cited", message("Findings"), help=_HOW_MANY, hidden=True, written="count"
)

_ERRORS = message(
    "tool calls that returned an error or could not be parsed, and 1 if the rollout ended in one"
)
ERRORS = ColumnView(
    "errors",
    message("Errors"),
    help=_ERRORS,
    hidden=True,
    written="count",
    bad_end="high",
)


def error_counts(responses: pd.DataFrame) -> NDArray[np.float64]:
    """Return the values of ERRORS: float64 (R,), NaN where nothing is logged that would tell."""
    endings = responses["ending"].to_numpy()
    of_calls = responses[["tool_errors", "unparsed_calls"]].to_numpy(np.float64)
    in_error = np.where(endings == Ending.ERROR, 1, 0)
    counts = np.nansum(of_calls, axis=1) + in_error
    is_known = np.isfinite(of_calls).any(axis=1) | (endings > 0)
    return np.where(is_known, counts, np.nan)


def string_columns(tables: Tables) -> list[ColumnView]:
    """Return the columns of short strings: endings, tools, logged fields; all are hidden."""
    extras = tables.extras
    names = [name for name in extras.columns if not is_numeric(extras[name])]
    columns = [
        replace(column, width=SHORT_STRINGS)
        for column in extra_columns(
            names, message("Logged fields"), kind="text", hidden=True
        )
    ]
    endings = [ENDING] if several_endings(tables.responses["ending"]) else []
    tools = [TOOLS] if len(tables.tools_used) else []
    return [*endings, *tools, *columns]


def ending_texts(codes: pd.Series) -> NDArray[np.object_]:
    """Return how each response ended in words, None where it is not known; shape (R,)."""
    words = {int(ending): message(text) for ending, text in ENDING_WORDS.items()}
    texts = [words.get(code) for code in codes.tolist()]
    return np.array(texts, np.object_)


def list_filters(context: PageContext) -> dict[str, str]:
    """Return key -> label of "all values", of the columns of strings that have a filter."""
    keys = {column.key for column in context.string_columns}
    labels = {
        context.environment: message("All environments"),  # "" (no column) without one
        ENDING.key: message("All endings"),
        TOOLS.key: message("All tools"),
        SPLIT: message("All splits"),  # branches are in none
    }
    return {key: label for key, label in labels.items() if key in keys}


def extra_key(name: object) -> str:
    """Return the column key of a logged field: ``extra:`` keeps it apart from built-in columns."""
    return f"extra:{name}"


def is_numeric(values: pd.Series | NDArray[Any]) -> bool:
    return bool(np.issubdtype(np.asarray(values).dtype, np.number))


# Key of the column of data splits, and its value of rows that were not trained: lists show these
# only if its filter selects them. Twins of ``SPLIT`` and ``BRANCH`` in static/js/list/rows.js
SPLIT = extra_key("split")
BRANCH = "branch"
