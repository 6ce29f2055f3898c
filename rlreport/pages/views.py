"""Parts of pages, formatted for the templates, and the data that the pages of a report share."""

from __future__ import annotations

import math
import os.path
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate, count, pairwise, repeat, takewhile
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup
from numpy.typing import NDArray

from rlreport.about.card import Card
from rlreport.check.finding import Finding, Verdict
from rlreport.check.run import has
from rlreport.check.spreading import SpreadingTexts
from rlreport.choose import StepPlan, left_out
from rlreport.columns import RESPONSE_COLUMNS, Column
from rlreport.figures.metadata import ENDING_WORDS, several_endings
from rlreport.options import BuildOptions
from rlreport.read.rollouts import Rollout, Rollouts, Selection
from rlreport.tables import Tables, counted_in_all
from rlreport.text.chat import turns_as_text
from rlreport.text.clean import shortened
from rlreport.text.messages import message
from rlreport.text.numbers import MISSING, NumberKind, exact, written

NOT_IN_LOG = message("not in the log")


@dataclass(frozen=True, slots=True)
class Link:
    """A link: its text, and its address relative to the page (None: shown as plain text)."""

    text: str
    href: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnView:
    key: str
    label: str
    unit: str = ""
    # ``number``, ``text`` (clamped to two lines), ``flag``, ``link``, ``token`` (monospaced) or
    # ``path`` (the cell's text is SVG path data in a box 100 × 24)
    kind: str = "number"
    help: str = ""  # one sentence shown on hover of the header
    hidden: bool = False  # whether the reader must select the column to see it
    written: NumberKind = "number"  # format of the column's numbers
    group: str = ""  # heading above the column's name in menus, "" for computed figures

    def data(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


Columns = dict[ColumnView, Iterable[Any]]  # Columns of a table, with a value for each row


class Cell(NamedTuple):
    text: str  # displayed text
    value: float | str | None = None  # value to sort by, None sorts last
    exact: str = ""  # text on hover: the exact value, or why it is missing
    bar: int = 0  # length of a bar behind the number, in twentieths of the cell's width
    href: str | None = None  # address that the cell's text links to


@dataclass(frozen=True, slots=True)
class RowView:
    """A table row; ``id`` is the response's n, the step, or the prompt id."""

    id: str
    cells: list[Cell]
    href: str | None = None
    badges: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TableView:
    id: str
    caption: str
    columns: list[ColumnView]
    rows: list[RowView]
    note: str = ""  # which rows are left out, such as "128 of 1,024 shown, chosen by …"

    def others(self, row: RowView) -> Iterator[tuple[tuple[str, str, bool], Cell]]:
        """Yield ((kind, key, hidden) of its column, cell) for each cell of a row but the first."""
        # Templates unpack tuples ten times faster than they look up attributes.
        columns = ((column.kind, column.key, column.hidden) for column in self.columns[1:])
        return zip(columns, row.cells[1:], strict=True)


@dataclass(frozen=True, slots=True)
class Change:
    """A change since another step, e.g. "+0.31 since step 99"; direction: up, down or flat."""

    since: str
    delta: Cell
    direction: str


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """A key figure of a step with its changes, or of the run with its first and best value."""

    key: str
    label: str
    unit: str
    now: Cell
    first: Cell | None = None
    best: Cell | None = None
    changes: list[Change] = field(default_factory=list)
    sparkline: str = ""  # SVG path data in a box 100 × 24
    help: str = ""


@dataclass(frozen=True, slots=True)
class Shell:
    """The frame of a page: its title, navigation and assets."""

    title: str
    run: str
    kind: str  # ``overview``, ``step``, …; the template of ``<main>`` has that name
    root: str = ""  # address of the report's root relative to this page ("" or "../")
    # key and link of each entry of the main navigation
    nav: list[tuple[str, Link]] = field(default_factory=list)
    # logical name ("style", "vega", "report") -> address relative to the page
    assets: dict[str, str] = field(default_factory=dict)
    csp: str = ""  # value of the Content-Security-Policy meta element


def number_cell(
    value: float | None, kind: NumberKind = "number", why_missing: str = NOT_IN_LOG, bar: int = 0
) -> Cell:
    """Return the cell of a number in the format ``kind``; None and NaN count as missing."""
    if value is None or math.isnan(value):
        return Cell(MISSING, None, why_missing, bar)
    return _number_cell(float(value), kind, bar)


@lru_cache(maxsize=1 << 14)  # many cells of a table are equal
def _number_cell(value: float, kind: NumberKind, bar: int) -> Cell:
    return Cell(written(value, kind), value, exact(value), bar)


def name_cell(name: int, href: str | None = None) -> Cell:
    return Cell(str(name), float(name), href=href)


def number_column(column: Column) -> ColumnView:
    """Return the header of a column of numbers, hidden if ``column.listed`` is "hidden"."""
    return ColumnView(
        column.name,
        column.label,
        column.unit,
        help=column.help,
        hidden=column.listed == "hidden",
        written=column.kind,
    )


def number_columns_of(frame: pd.DataFrame, columns: Iterable[Column]) -> Columns:
    return {number_column(column): frame[column.name].astype(float) for column in columns}


def attribute_columns(items: Sequence[object], columns: Iterable[ColumnView]) -> Columns:
    return {column: [getattr(item, column.key) for item in items] for column in columns}


def table(
    name: str,
    caption: str,
    columns: Mapping[ColumnView, Iterable[Any]],
    *,
    ids: Iterable[object] | None = None,
    hrefs: Iterable[str | None] = repeat(None),
    badges: Iterable[list[str]] = repeat([]),
    note: str = "",
) -> TableView:
    """Build a table; each of ``columns`` has one number, text, None or Cell per row.

    ``ids`` are a response's n, a step or a prompt id; 0, 1, … by default. ``badges`` follow the
    first cell of a row, ``note`` says what was left out.
    """
    cells = zip(*(_cells(values, column) for column, values in columns.items()), strict=True)
    rows = [
        RowView(str(row_id), list(row), href, words)
        for row_id, row, href, words in zip(ids or count(), cells, hrefs, badges, strict=False)
    ]
    return TableView(name, caption, list(columns), rows, note)


def _cells(values: Iterable[Any], column: ColumnView) -> Iterator[Cell]:
    for value in values:
        if isinstance(value, Cell):
            yield value
        elif column.kind == "number":
            yield number_cell(value, column.written)
        else:
            yield Cell(MISSING, None, message("not logged")) if value is None else Cell(value)


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
RUN_TILES = (TILES[0], "validation_reward_mean", *(n for n in TILES[1:] if "chars" not in n))


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

    def __new__(cls, text: str, prefixes: Sequence[str], longest: int | None = None) -> PromptText:
        sizes = [len(p) for p in prefixes if text.startswith(p) and text[len(p) :].strip()]
        size = max(sizes, default=0)
        parts = [shortened(part, longest or len(part)) for part in (text[:size], text[size:])]
        prompt = super().__new__(cls, "".join(parts))
        prompt.shared, prompt.rest = parts
        return prompt

    @property
    def brief(self) -> str:
        return f"… {self.rest.lstrip()}" if self.shared else self.rest

    def __html__(self) -> str:
        shared = Markup.escape(self.shared)
        rest = Markup.escape(self.rest)
        return f'<span class="shared">{shared}</span>{rest}' if shared else rest


def listed_prompt(
    rollout: Rollout, prefixes: Sequence[str], longest: int | None = None
) -> PromptText:
    return PromptText(turns_as_text(rollout.turns) or rollout.prompt, prefixes, longest)


def prompt_prefixes(prompts: Iterable[str]) -> tuple[str, ...]:
    """Return up to PREFIXES shared beginnings of prompts; () unless MOST_PROMPTS have one."""
    texts = list(dict.fromkeys(filter(None, prompts)))
    texts = sorted(texts[:: -(-len(texts) // PREFIX_SAMPLE) or 1])
    least = max(LEAST_PROMPTS, LEAST_SHARE * len(texts))
    remaining = texts
    found = list[str]()
    while len(remaining) >= least and len(found) < PREFIXES:
        pairs = pairwise(remaining)
        common = [len(os.path.commonprefix(p)) for p in pairs]  # noqa: RUF071 (characters are meant)
        best = 0
        prefix = ""
        for first, text in enumerate(remaining):
            lengths = accumulate(common[first:], min)
            for number, length in enumerate(takewhile(LEAST_SHARED.__le__, lengths), 2):
                if number >= least and number * length > best:
                    best = number * length
                    prefix = text[:length]
        words = _WORDS.match(prefix)
        if words is None or len(words[0]) < LEAST_SHARED:
            break
        found.append(words[0])
        remaining = [text for text in remaining if not text.startswith(words[0])]
    return tuple(found) if len(texts) - len(remaining) >= MOST_PROMPTS * len(texts) else ()


@dataclass(frozen=True, kw_only=True)
class PageContext:
    """Data shared by the pages of steps; picklable, so that worker processes can render them."""

    run: str  # title of the report
    options: BuildOptions
    columns: list[ColumnView]  # numeric columns of the response list, the same for every step
    string_columns: list[ColumnView]  # columns of short strings: the ending, further logged fields
    environment: str  # key of the string column that names the environment, "" without one
    text_columns: list[ColumnView]  # columns of the logged texts: prompt, response, …
    prefixes: tuple[str, ...]  # beginnings that most prompts share, which lists hide
    has_rollouts: bool  # whether responses are logged, not only trainer metrics
    first_step: int  # the first step with training responses
    first_rewards: NDArray[np.float64]  # rewards of these responses
    one_file: bool
    advantages_logged: bool
    # name of a style sheet or script -> path; empty for a one-file report
    asset_files: dict[str, str]
    # columns of the table of steps that are shown as key figures, in order
    tile_names: tuple[str, ...]
    sampled: bool  # whether figures of texts and tokens are computed from a sample of the responses


@dataclass(frozen=True, slots=True)
class StepJob:
    """What a worker needs to render the page of a step."""

    plan: StepPlan  # which responses the page shows, and in which detail
    selection: Selection  # the texts and tokens of ``plan.rows``
    # all responses of the step: RESPONSE_COLUMNS, further logged fields by ``extra_key``, and with
    # ``--redact`` the number that replaces the response's text
    columns: dict[str, NDArray[Any]]
    shown: NDArray[np.int64]  # positions of ``plan.rows`` in ``columns``
    # columns of the table of steps, with values of the first, the previous and this step
    figures: dict[str, list[Any]]
    # this step and those the page links to: neighbours, the first, onsets of findings
    linked: list[int]
    findings: list[Finding]  # findings that refer to the step, without data of other steps
    in_progress: bool  # whether the step is still being written


class StepPage(NamedTuple):
    plan: StepPlan
    content: tuple[str, bytes]  # path in the report folder, and content
    weight: int  # bytes that the page and ``texts`` take in the output, depending on its format
    listed: dict[str, Any]  # the responses as rows of the responses page, see ``ListedRows``
    texts: str  # gzipped full texts of these responses, which the responses page searches


@dataclass(frozen=True, kw_only=True)
class RunContext(PageContext):
    """Data for the pages about the whole run, whose logs were read and checked."""

    chosen: Rollouts  # the responses that pages may show, with their texts and tokens
    tables: Tables
    verdict: Verdict
    spreading: SpreadingTexts  # phrases that became more frequent in responses during the run
    card: Card  # the configuration of the run
    author_notes: str  # Markdown text of the author's notes, "" without any
    listed: int = 0  # maximum number of responses of a step on the responses page
    plans: list[StepPlan]  # steps that get a page, each with its responses ranked by interest
    # their rendered pages; empty until they are rendered
    step_pages: list[StepPage] = field(default_factory=list)
    # content of ``data/responses.csv.gz``, and the number of its rows
    response_data: tuple[bytes, int] = (b"", 0)
    metrics_data: bytes = b""  # content of ``data/metrics.csv``, empty if there is no such file

    @property
    def windows(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """First and last window of steps of the run, each as (first step, last step)."""
        if self.verdict.windows:
            return self.verdict.windows
        # a very short run
        steps = self.tables.without_step_in_progress().training().steps["step"].tolist()
        return (steps[0], steps[0]), (steps[-1], steps[-1])

    @property
    def shown_steps(self) -> list[int]:
        return [plan.step for plan in self.plans]

    @property
    def left_out(self) -> list[str]:
        """Sentences about what the report does not show."""
        responses = self.tables.responses
        sentences = list[str]()
        if self.step_pages:
            has_views = any(plan.arrays for plan in self.plans)  # else no token strings
            token_responses = int((responses["response_tokens"] > 0).sum()) if has_views else 0
            plans = [page.plan for page in self.step_pages]
            steps = self.tables.steps_with_responses
            sentences = left_out(plans, steps, responses["validation"], token_responses)
        count = self.response_data[1]
        total = len(responses)
        if not count and total:  # mail and Markdown have no data files
            text = message("The report contains no data file with the figures of each response.")
            sentences.append(text)
        elif count < total:
            text = message(
                "The data files contain the figures of the last {some:count} of {all} only.",
                some=count,
                all=counted_in_all(responses["validation"]),
            )
            sentences.append(text)
        if len(self.tables.metrics) and not (self.metrics_data or self.one_file):
            text = message("metrics.csv is left out, as the trainer metrics are too large.")
            sentences.append(text)
        return sentences


def findings_of_responses(findings: Sequence[Finding], step: int) -> dict[int, list[str]]:
    names: dict[int, list[str]] = {}
    for finding in findings:
        for n in sorted({ref.n for ref in finding.evidence if ref.step == step}):
            names.setdefault(n, []).append(finding.name)
    return names


def columns_with_data(steps: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Return those ``names`` with data, without ``response_chars_mean`` if tokens are logged."""
    columns = [name for name in names if steps[name].notna().any()]
    tokens = "response_tokens_mean" in columns
    return [name for name in columns if not (tokens and name == "response_chars_mean")]


def number_columns(tables: Tables) -> list[ColumnView]:
    """Return numeric columns of the response list; logged fields are last, hidden if many."""
    responses = tables.responses
    extras = tables.extras
    parts = tables.reward_parts
    base_columns = [c for c in RESPONSE_COLUMNS if c.listed and responses[c.name].notna().any()]
    tokens = any(c.name == "response_tokens" for c in base_columns)
    columns = []
    logged = has(responses, "advantage_logged_mean")
    for base in base_columns:
        column = number_column(base)
        hidden = column.hidden or (tokens and column.key == "response_chars")
        help_text = column.help
        if tables.sample_note and column.key == SAMPLED_FIGURE:
            help_text = message("{help}; of sampled responses only", help=help_text)
        if column.key == "advantage_mean":
            hidden &= not logged
            column = replace(column, unit=message("logged") if logged else message("GAE"))
        columns.append(replace(column, hidden=hidden, help=help_text))
    extra_names = [n for n in extras.columns if is_numeric(extras[n]) and extras[n].notna().any()]
    extra_names = [n for n in extra_names if n != "advantage"]  # it is column ``advantage_mean``
    for group, names in (
        (message("Parts of the reward"), [name for name in extra_names if name in parts]),
        (message("Logged fields"), [name for name in extra_names if name not in parts]),
    ):
        columns += extra_columns(names, group, hidden=len(names) > EXTRAS_SHOWN)
    return columns


def extra_columns(
    names: Sequence[object], group: str, *, kind: str = "number", hidden: bool = False
) -> list[ColumnView]:
    return [
        ColumnView(extra_key(name), str(name), kind=kind, hidden=hidden, group=group)
        for name in names
    ]


def reading_order(numbers: Sequence[ColumnView], texts: Sequence[ColumnView]) -> list[ColumnView]:
    """Return the visible columns in order: reward, texts, KL and length, then all others."""
    ranks = {"reward": 0, "prompt": 1, "response": 1, "finding": 1}
    ranks |= {"kl_k1": 2, "response_tokens": 2, "response_chars": 2}
    visible_columns = [c for c in (*numbers, *texts) if not c.hidden]
    return sorted(visible_columns, key=lambda c: ranks.get(c.key, 4 if c.kind == "text" else 3))


_WHY_ENDED = message(
    "why the response ended, as logged; otherwise inferred from its end token, text or turns"
)
_ENDING = ColumnView("ending", message("How it ended"), kind="text", help=_WHY_ENDED, hidden=True)


_TOOLS_USED = message("the tools that answered in the response")
# Key in ``TOOLS`` of static/js/list/rows.js, too: a text of several lines, each of them a value
TOOLS = ColumnView("tools", message("Tools"), kind="text", help=_TOOLS_USED, hidden=True)


def string_columns(tables: Tables) -> list[ColumnView]:
    """Return the headers of columns of short strings, all hidden: endings, tools, logged fields."""
    extras = tables.extras
    names = [name for name in extras.columns if not is_numeric(extras[name])]
    columns = extra_columns(names, message("Logged fields"), kind="text", hidden=True)
    endings = [_ENDING] if several_endings(tables.responses["ending"]) else []
    tools = [TOOLS] if len(tables.tools_used) else []
    return [*endings, *tools, *columns]


def ending_texts(codes: pd.Series) -> NDArray[np.object_]:
    """Return how each response ended in words, None where it is not known; shape (R,)."""
    words = {int(end): message(text) for end, text in ENDING_WORDS.items()}
    return np.array([words.get(code) for code in codes.tolist()], np.object_)


def list_filters(context: PageContext) -> dict[str, dict[str, str]]:
    """Return {"filters": {key of a column of strings: label of "all values"}}, or {}."""
    keys = {column.key for column in context.string_columns}
    labels = {
        context.environment: message("All environments"),
        _ENDING.key: message("All endings"),
        TOOLS.key: message("All tools"),
        extra_key("split"): message("All splits"),  # branches are in none
    }
    filters = {key: label for key, label in labels.items() if key in keys}
    return {"filters": filters} if filters else {}


def extra_key(name: object) -> str:
    """Return the column key of a logged field: ``extra:`` keeps it apart from built-in columns."""
    return f"extra:{name}"


def is_numeric(values: pd.Series | NDArray[Any]) -> bool:
    return bool(np.issubdtype(np.asarray(values).dtype, np.number))
