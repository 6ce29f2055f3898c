"""Render the page and the data files of a comparison of two runs, BASE and NEW."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from rlreport.about.card import redacted_text
from rlreport.check.finding import Severity, ToldFinding
from rlreport.columns import RESPONSE, STEP
from rlreport.comparison import words
from rlreport.comparison.export import compare_json, prompts_table
from rlreport.comparison.guardrails import Guardrail
from rlreport.comparison.outcome import Flip, Outcome
from rlreport.comparison.run import ComparedRun, Difference, settings_that_differ
from rlreport.draw.chart import Chart
from rlreport.options import CompareOptions
from rlreport.pages.context import EncodedPage, Maker
from rlreport.pages.data import chart_path, csv
from rlreport.pages.fit import too_large
from rlreport.pages.html import Node, canonical_json, environment, script_json
from rlreport.pages.listed import PROMPT_TEXT
from rlreport.pages.page import FOLDER_POLICY, Encode, RenderedPage, described
from rlreport.pages.page_data import RowsData
from rlreport.pages.scripts import assets
from rlreport.pages.summary import Detail
from rlreport.pages.table import (
    Cell,
    Columns,
    ColumnView,
    Shell,
    TableView,
    attribute_columns,
    name_cell,
    table,
)
from rlreport.text.messages import figure, format_message, message
from rlreport.text.numbers import MISSING

# Maximum characters of each prompt and response on a comparison's page, which has hundreds
MAX_CHARACTERS = 20_000

# Result of the comparison -> level of a verdict, whose colour the page uses for the result
LEVELS = {
    "better": "healthy",
    "worse": "critical",
    "no_evidence": "info",
    "incomparable": "unjudged",
}

_CHANGES = {
    "new": message("New"),
    "fixed": message("Fixed"),
    "still": message("Still there"),
}
_MEAN = message("mean of the prompts' means in the window")
_MEANS = (
    ColumnView("base", message("BASE"), help=_MEAN),
    ColumnView("new", message("NEW"), help=_MEAN),
)
_EFFECT = ColumnView(
    "effect", message("Difference"), help=message("of the shared prompts, NEW − BASE")
)
_INTERVAL = (
    ColumnView("low", message("Low"), help=message("lower end of the 95% interval")),
    ColumnView("high", message("High"), help=message("upper end of the 95% interval")),
    ColumnView(
        "mde",
        message("Minimum detectable effect"),
        help=message("minimum effect detected with 80% power"),
    ),
)
_SHOWS = ColumnView(
    "level",
    message("Result"),
    kind="text",
    help=message("with Holm's correction; ~ means no significant difference"),
)
_CARD = message("Differences in configuration")
_VERSIONS = message("Package versions, defaults, names and locations")
_SETTING = ColumnView("name", message("Setting"), kind="text")
_SIDES = (
    ColumnView("base", "BASE", kind="text"),
    ColumnView("new", "NEW", kind="text"),
)
_REWARD = message("mean reward of the prompt in the window")
_FLIP_NUMBERS = (
    ColumnView(
        "delta",
        message("Difference"),
        help=message("NEW − BASE, mean rewards of the window"),
    ),
    ColumnView("base", message("BASE"), help=_REWARD),
    ColumnView("new", message("NEW"), help=_REWARD),
)
_NEAREST = message("the response whose reward is nearest to the prompt's mean")
_NUMBER = ColumnView(
    "n", "#", help=message("the clearest difference first"), written="count"
)
_NEW_TEXT = ColumnView(
    "response", message("NEW's response"), kind="text", help=_NEAREST
)
_BASE_TEXT = ColumnView(
    "ref_response", message("BASE's response"), kind="text", help=_NEAREST
)
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


PAGE = "compare.html"
INDEX = "index.html"


class ComparedSide(NamedTuple):
    """BASE or NEW at the head of the page."""

    side: str
    name: str
    level: str
    words: str


class ChangedFindings(NamedTuple):
    """Findings that are new, fixed or still there, each as (severity, title)."""

    label: str
    findings: list[tuple[Severity, str]]


@dataclass(frozen=True, slots=True)
class Pair:
    """The responses of both runs to a prompt."""

    title: str
    prompt: str
    base: str
    new: str


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """What the page of a comparison shows; mail and Markdown show parts of it."""

    level: str
    sentence: str
    course: str
    against: str  # caveats
    gate: str
    notes: list[str]
    runs: list[ComparedSide]
    charts: list[Chart]
    equal_kl: str
    guardrails: TableView
    findings: list[ChangedFindings]
    card: TableView | None
    versions: TableView | None
    flips: TableView
    data: RowsData  # for scripts
    prompts: (
        bool  # whether responses are compared; else the next two tables are empty, too
    )
    ngrams: TableView
    tokens: TableView
    left_out: list[str]
    pairs: list[Pair]


@dataclass(frozen=True, slots=True)
class ComparisonPages(Maker):
    """Everything an output form needs to write a comparison."""

    outcome: Outcome
    title: str
    options: CompareOptions
    encode: Encode
    one_file: bool  # whether the output is one HTML file, not a folder
    shown: int  # maximum number of prompts won or lost (flips) that the page shows
    charts: Sequence[Chart]
    memo: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def view(self) -> ComparisonView:
        view = comparison_view(self.outcome, self.charts, self.shown)
        notes = [*view.notes, *self.options.set_by_texts]
        return self.options.language.of(replace(view, notes=notes))

    def summary(self) -> ComparisonSummary:
        return ComparisonSummary(self)

    def fitted(
        self, write: Callable[[ComparisonPages], int], limit: int, *, with_steps: bool
    ) -> tuple[ComparisonPages, int]:
        """Write the comparison with fewer prompts until it fits; return it and its size.

        For the parameters see ``Deliverable.fitted``; a comparison has no pages of steps.
        """
        pages = self
        size = write(pages)
        while size > limit:
            if not pages.shown:
                raise too_large(limit, size)
            # Each attempt writes the whole page: halving needs few of them.
            pages = replace(pages, shown=pages.shown // 2)
            size = write(pages)
        return pages, size

    def frame(self) -> Shell:
        """Return the frame of the only page: without navigation and, in one file, asset paths."""
        files = {} if self.one_file else assets(self.options.language).files
        return Shell(
            title=self.title,
            run=self.title,
            kind="compare",
            assets={name: path for name, (path, _) in files.items()},
            csp=FOLDER_POLICY,
            description=described(words.sentence(self.outcome), self.options.language),
        )

    def pages(self) -> Iterator[EncodedPage]:
        """Yield the only page, and in a folder an index page that leads on to it."""
        frame = self.frame()
        template = "main/compare.html" if self.one_file else "page.html"
        templates = environment(self.options.language)
        html = templates.get_template(template).render(view=self.view, shell=frame)
        # As the first page of one file, it has no name in its address.
        page = RenderedPage(path=PAGE, view="", title=frame.title, html=html)
        yield self.encode(page)
        if not self.one_file:
            html = templates.get_template("lead_on.html").render(shell=frame, href=PAGE)
            index = RenderedPage(INDEX, view="index", title=frame.title, html=html)
            yield self.encode(index)

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield (path in the folder, bytes) of every file of a comparison's folder."""
        for page in self.pages():
            yield page.path, page.content
        yield from assets(self.options.language).files.values()
        data = compare_json(self.outcome)
        yield "data/compare.json", canonical_json(data, indent=True)
        yield "data/prompts.csv", csv(prompts_table(self.outcome))
        for chart in self.charts:
            yield chart_path(chart), canonical_json(chart.spec, indent=True)

    def nodes(self) -> list[Node]:
        """Return the data elements of a one-file comparison."""
        data = script_json(compare_json(self.outcome))
        return [Node("application/json", "compare-json", data)]


class ComparisonSummary:
    """The summary of a comparison, for mail and Markdown."""

    mail_template = "compare_email"
    markdown_template = "compare.md"
    details: Sequence[Detail] = (
        Detail(8, 1_500),
        Detail(4, 800),
        Detail(2, 300),
        Detail(0, 0),
    )
    plain_notes = ""

    def __init__(self, pages: ComparisonPages) -> None:
        self.pages = pages

    @property
    def headline(self) -> str:
        return words.headline(self.pages.outcome)

    @cached_property
    def view(self) -> ComparisonView:
        return self.pages.view

    def charts(self, width: int) -> list[Chart]:
        return list(self.pages.charts)

    def markdown_values(self, detail: Detail) -> dict[str, Any]:
        return {}


def comparison_view(
    outcome: Outcome, charts: Sequence[Chart], shown: int
) -> ComparisonView:
    """Return what the page shows; ``shown``: maximum number of prompts won or lost."""
    flips = outcome.flips[:shown]
    caveats = words.caveats(outcome)
    card, versions = settings_that_differ(outcome.base, outcome.new)
    return ComparisonView(
        level=_severity(outcome, caveats),
        sentence=words.sentence(outcome),
        course=words.learning(outcome),
        against=caveats,
        gate=words.gate_sentence(outcome),
        notes=words.notes(outcome),
        runs=[_compared_side(label, run) for label, run in outcome.runs],
        charts=list(charts),
        equal_kl=words.equal_kl(outcome),
        guardrails=_guardrails_table(outcome),
        findings=_changed_findings(outcome),
        card=_settings_table("card", _CARD, card, redact=outcome.redact),
        versions=_settings_table(
            "versions", _VERSIONS, versions, redact=outcome.redact
        ),
        flips=_flips_table(flips),
        data=_rows_data(flips, outcome),
        prompts=not outcome.comparison.metrics_alone,
        ngrams=_ngrams_table(outcome),
        tokens=_tokens_table(outcome),
        left_out=_left_out(outcome, shown),
        pairs=[
            _pair(flip)
            for flip in flips
            if flip.new_text is not None and flip.base_text is not None
        ],
    )


def _compared_side(label: str, run: ComparedRun) -> ComparedSide:
    side = label.partition(" ")[0]  # ``BASE`` of ``BASE (seed1)``
    return ComparedSide(side, run.name, run.level, words.run_verdict(run))


def _changed_findings(outcome: Outcome) -> list[ChangedFindings]:
    """Return the findings that are new, fixed and still there, without empty lists."""
    result = []
    for change, label in _CHANGES.items():
        findings = outcome.changed[change]
        titles = [(one.severity, _title(one, outcome)) for one in findings]
        if titles:
            result.append(ChangedFindings(label, titles))
    return result


def _title(finding: ToldFinding, outcome: Outcome) -> str:
    if outcome.redact:
        return words.check_name(finding.id)
    return finding.title or finding.id


def _left_out(outcome: Outcome, shown: int) -> list[str]:
    """Return sentences on the texts and prompts that the page does not show.

    ``shown``: maximum number of prompts won or lost.
    """
    notes = []
    texts = words.texts_note(outcome)
    if texts:
        notes.append(texts)
    if shown < len(outcome.flips):
        some = message(
            "Only the {some:count} clearest of {all:count} prompts won or lost are shown.",
            some=shown,
            all=len(outcome.flips),
        )
        notes.append(some)
    return notes


def _severity(outcome: Outcome, caveats: str) -> str:
    """Return the level that colours the result, "healthy" only if there are no caveats.

    A broken run is one whose verdict is critical: its better figures may mislead.
    """
    level = outcome.comparison.level
    if any(run.broken for run in outcome.news):
        return "critical"
    if level == "better" and caveats:
        return "warning"
    # Better than a broken run of BASE, or than too few runs, is no good news yet.
    if outcome.broken or (level == "better" and not outcome.comparison.has_enough_runs):
        return "info"
    return LEVELS[level]


def _guardrails_table(outcome: Outcome) -> TableView:
    """Return the table of guardrails (figures that must not get worse) that have values."""
    comparison = outcome.comparison
    guardrails = [g for g in comparison.guardrails if g.level != "missing"]
    effects = [guardrail.effect for guardrail in guardrails]
    columns: Columns = {
        ColumnView("name", message("Figure"), kind="text"): map(
            _guardrail_label, guardrails
        )
    }
    columns |= attribute_columns(guardrails, _MEANS)
    columns[_EFFECT] = [effect.value for effect in effects]
    columns |= attribute_columns(effects, _INTERVAL)
    columns[_SHOWS] = [words.guardrail_level(g, comparison) for g in guardrails]
    return table(
        "guardrails",
        message("Guardrails"),
        columns,
        ids=[guardrail.id for guardrail in guardrails],
        note=words.guardrails_note(comparison),
    )


def _guardrail_label(guardrail: Guardrail) -> str:
    name = words.guardrail_name(guardrail)
    # Its values are means, as those of steps.
    name_of_mean = f"{guardrail.column.removesuffix('_mean')}_mean"
    column = STEP.get(name_of_mean) or RESPONSE.get(guardrail.column)
    if column is None or not column.unit:
        return name
    return message("{name} ({unit})", name=name, unit=column.unit)


def _settings_table(
    name: str, caption: str, differences: Sequence[Difference], *, redact: bool
) -> TableView | None:
    """Return a table of the settings in which the runs differ, None if there are none.

    ``redact``: whether values that may be private are hidden.
    """
    if not differences:
        return None
    keys = [difference.key for difference in differences]
    columns: Columns = {_SETTING: keys}
    for side, texts in attribute_columns(differences, _SIDES).items():
        columns[side] = [
            _setting_text(key, text, redact=redact)
            for key, text in zip(keys, texts, strict=True)
        ]
    return table(name, caption, columns, ids=keys)


def _setting_text(key: str, text: str | None, *, redact: bool) -> str:
    if text is None:
        return MISSING
    return redacted_text(key, text) if redact else text


def _flips_table(flips: Sequence[Flip]) -> TableView:
    """Return the table of prompts won and lost, numbered from 1, with their responses."""
    ids = range(1, len(flips) + 1)
    columns: Columns = {_NUMBER: map(name_cell, ids)}
    columns |= attribute_columns(flips, _FLIP_NUMBERS)
    columns[PROMPT_TEXT] = map(_prompt, flips)
    columns[_NEW_TEXT] = [_response_cell(flip.new_text) for flip in flips]
    columns[_BASE_TEXT] = [_response_cell(flip.base_text) for flip in flips]
    hrefs = (f"#r={number}" for number in ids)  # open the response panel
    return table(
        "flips", message("Prompts won and lost"), columns, ids=ids, hrefs=hrefs
    )


def _response_cell(text: str | None) -> str | Cell:
    if text is None:
        return Cell(MISSING, None, message("not in the report"))
    return _cut(text)


def _prompt(flip: Flip) -> str:
    if flip.prompt is None:
        return message("[prompt {number:count}]", number=flip.number)
    return _cut(flip.prompt)


def _cut(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    places = {"text": text[:MAX_CHARACTERS], "some": MAX_CHARACTERS, "all": len(text)}
    return format_message(
        "{text}… (first {some:count} of {all:count} characters)", places
    )


def _rows_data(flips: Sequence[Flip], outcome: Outcome) -> RowsData:
    """Return the rows of prompts won and lost for scripts; see docs/page-data.md."""
    return {
        "run": outcome.new.name,
        "step": "",
        "total": len(outcome.flips),
        "n": list(range(1, len(flips) + 1)),
        "columns": [column.data() for column in _FLIP_NUMBERS],
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


def _ngrams_table(outcome: Outcome) -> TableView:
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


def _tokens_table(outcome: Outcome) -> TableView:
    """Return the table of tokens by share of the KL; an empty one says what it needs."""
    # The change of a share is in percentage points.
    tokens = outcome.tokens.assign(change=100 * outcome.tokens["change"])
    note = message(
        "Needs log-probabilities of both runs, from logs, a folder or a .zip, and no --redact."
    )
    caption = message("Tokens whose share of the KL changed most")
    columns = {column: tokens[column.key].tolist() for column in _TOKENS}
    return table("kl_tokens", caption, columns, note="" if len(tokens) else note)


def _pair(flip: Flip) -> Pair:
    """Return the responses to a prompt won or lost, with its rewards as the title."""
    title = message(
        "{change} (reward {base} → {new})",
        change=words.signed(flip.delta),
        base=figure(flip.base),
        new=figure(flip.new),
    )
    return Pair(
        title=title,
        prompt=_prompt(flip),
        base=_cut(flip.base_text or ""),
        new=_cut(flip.new_text or ""),
    )
