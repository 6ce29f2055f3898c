"""The JSON in pages that scripts read, as types; ``docs/page-data.md`` explains each key.

``python -m tools.page_types`` writes the same types for the scripts, one interface per class here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

from rlreport.columns import BadEnd

# Drawn in Python and by scripts, from the same data
from rlreport.draw.film_strip import FilmCurveData as FilmCurveData
from rlreport.draw.film_strip import FilmRuleData
from rlreport.draw.film_strip import FilmStripData as FilmStripData
from rlreport.draw.film_text import FilmRowData as FilmRowData
from rlreport.text.numbers import NumberKind

# In JSON, NaN is null.
Numbers: TypeAlias = "list[float] | list[float | None] | NDArray[np.float64]"
Texts: TypeAlias = "list[str | None]"


class ColumnData(TypedDict):
    """A column of a list."""

    key: str
    label: str
    unit: str
    kind: str
    help: str
    hidden: bool
    written: NumberKind
    group: str
    term: str
    bad_end: BadEnd
    width: str


class PresetData(TypedDict):
    """A filter and a sort of a list, which one button applies."""

    key: str
    label: str
    help: str
    sort: str
    ranges: NotRequired[dict[str, tuple[float | None, float | None]]]
    words: NotRequired[dict[str, str]]


class BadgeData(TypedDict):
    """A finding that cites a response."""

    id: str
    severity: str
    name: str
    title: str
    token: int | None


class MetricData(TypedDict):
    """A token figure that a page offers."""

    key: str
    label: str
    unit: str
    signed: bool
    help: str


class TurnData(TypedDict):
    """A turn of a conversation, after the prompt."""

    role: str
    text: str
    sampled: NotRequired[bool]
    tokens: NotRequired[tuple[int, int]]
    thinking: NotRequired[str]
    calls: NotRequired[list[tuple[str, str]]]
    tool: NotRequired[str]
    error: NotRequired[str]
    seconds: NotRequired[float]
    reward: NotRequired[float]


class ConversationData(TypedDict):
    """The conversations of responses, each by the response's n."""

    conversation: NotRequired[dict[str, list[TurnData]]]
    errors: NotRequired[dict[str, list[str]]]


class GradingData(TypedDict):
    """How responses were graded, each by the response's n."""

    judged: NotRequired[dict[str, list[tuple[str, str]]]]
    answers: NotRequired[dict[str, tuple[str, int | None]]]


class GroupData(TypedDict):
    """The groups of a step's responses."""

    groups: NotRequired[list[list[int]]]
    siblings: NotRequired[dict[str, list[float | None]]]
    right: NotRequired[list[int | None]]


class BranchData(TypedDict):
    """The branches of a step's rollouts."""

    branches: NotRequired[list[list[int]]]


class TitlesData(TypedDict):
    """Names of what the response panel shows, where it is not a response and its reference."""

    row: str
    response: NotRequired[str]
    ref_response: NotRequired[str]
    other: NotRequired[str]


class SideData(TypedDict):
    """The responses of one run to the prompts of a comparison."""

    key: str
    name: str
    values: dict[str, Numbers]
    answers: dict[str, str]


class SidesData(TypedDict):
    """What the panel of a comparison shows of both responses to each prompt."""

    columns: list[ColumnData]
    sides: list[SideData]
    tokens: list[int]


class PanelData(TypedDict):
    """Responses as the response panel shows them, with their conversations, groups and branches."""

    step: str
    total: int
    n: list[int]
    texts: dict[str, Texts]
    turns: dict[str, list[tuple[str, str]]]
    where: list[str]
    badges: dict[str, list[BadgeData]]
    highlights: list[str]
    conversation: NotRequired[dict[str, list[TurnData]]]
    errors: NotRequired[dict[str, list[str]]]
    judged: NotRequired[dict[str, list[tuple[str, str]]]]
    answers: NotRequired[dict[str, tuple[str, int | None]]]
    groups: NotRequired[list[list[int]]]
    siblings: NotRequired[dict[str, list[float | None]]]
    right: NotRequired[list[int | None]]
    branches: NotRequired[list[list[int]]]


class StepTextsData(PanelData):
    """The part of a step's rows that the responses page loads, too: ``data/texts.js``."""

    prompts: NDArray[np.int64]


class RowsData(PanelData):
    """The rows of a step's page, or of a comparison: ``script.rows-data``."""

    run: str
    columns: list[ColumnData]
    values: Mapping[str, Numbers]
    strings: dict[str, Texts]
    ranks: dict[str, list[int | None]]
    prompts: NotRequired[NDArray[np.int64]]
    prefixes: NotRequired[dict[str, tuple[str, ...]]]
    filters: NotRequired[dict[str, str]]
    presets: NotRequired[list[PresetData]]
    advantage: NotRequired[Literal["logged"]]
    titles: NotRequired[TitlesData]
    compared: NotRequired[SidesData]


class RunListData(TypedDict):
    """The rows of the responses page: ``script.list-data``."""

    run: str
    total: int
    n: list[int]
    columns: list[ColumnData]
    values: Mapping[str, Numbers]
    strings: dict[str, Texts]
    texts: dict[str, Texts]
    filters: NotRequired[dict[str, str]]
    presets: NotRequired[list[PresetData]]
    address: str
    prompt: str


class PromptsData(TypedDict):
    """The shown responses to each prompt: ``script.prompts-data``."""

    run: str
    prompts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    step: NDArray[np.int64]
    n: NDArray[np.int64]
    reward: NDArray[np.float64]
    length: NDArray[np.float64]
    lengthLabel: str
    ratioHelp: str
    ratioUnit: str
    which: NDArray[np.int64]
    cited: dict[str, tuple[str, int | None]]
    points: NDArray[np.int64]
    at: NDArray[np.int64]
    mean: NDArray[np.float64]
    low: float
    high: float
    reach: float
    twoRewards: bool
    rules: list[FilmRuleData]
    address: str
    all: str
    redacted: bool


class RunData(TypedDict):
    """What pages of steps say about the whole run: ``data/run.js``."""

    steps: list[int]
    tokens: list[int]
    rewards: list[float | None]
    prompts: dict[str, list[int]]
    href: str
    prompt: str
    overpaid: NotRequired[tuple[int, int | None]]
    live: NotRequired[int]
    built: NotRequired[str]


class PromptTokens(TypedDict):
    """The tokens of a prompt, which responses share."""

    n: list[int]
    count: int
    ids: list[int]


class TokensHeader(TypedDict):
    """The header of a step's token values: ``data/tokens/STEP.js``."""

    digits: int
    metrics: list[MetricData]
    nan: NotRequired[list[str]]
    given: NotRequired[dict[str, list[tuple[int, int]]]]
    n: list[int]
    lengths: list[int]
    text: list[str]
    raw: list[str | None]
    columns: list[str]
    prompts: NotRequired[list[PromptTokens]]


class ChartRows(TypedDict):
    """The rows of a chart, as columns: ``data`` of the specification in ``script.spec``."""

    columns: dict[str, list[Any]]


class PromptMapData(TypedDict):
    """The cells of the map of prompts × steps, row by row: ``script.map-data``."""

    prompts: list[int]
    names: list[str]
    linked: list[int]
    low: list[int]
    high: list[int]
    count: list[int]
    value: list[float | None]
    measure: str
    training: int
    gap: int
    row: int
    address: str


class SideMapData(TypedDict):
    """The columns of the map of prompts × sides: ``script.side-map-data``."""

    prompts: list[int]
    names: list[str]
    rows: list[int]
    base: list[float | None]
    new: list[float | None]
    change: list[str]
    words: dict[str, str]
    sides: list[str]


class IndexMetricData(TypedDict):
    """A metric of the runs of an index; its lists have a value for each row of the list."""

    key: str
    label: str
    headers: list[str]
    unit: str
    written: NumberKind
    first: Numbers
    best: Numbers
    last: Numbers
    percentages: list[bool]
    paths: list[str]
