"""Render the page and the data files of a comparison of two runs, BASE and NEW."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlreport.about.card import redacted_text
from rlreport.check.finding import Finding
from rlreport.columns import RESPONSE
from rlreport.comparison import words
from rlreport.comparison.compare import Guardrail
from rlreport.comparison.export import compare_json, prompts_table
from rlreport.comparison.outcome import Flip, Outcome
from rlreport.comparison.run import Difference, settings_that_differ
from rlreport.draw.chart import Chart
from rlreport.options import CompareOptions
from rlreport.pages.data import csv
from rlreport.pages.html import canonical_json, environment, script_json
from rlreport.pages.listed import PROMPT_TEXT
from rlreport.pages.page import FOLDER_POLICY, Finish, Maker, Page
from rlreport.pages.page_data import RowsData
from rlreport.pages.scripts import assets
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


PAGE, INDEX = "compare.html", "index.html"


@dataclass(frozen=True, slots=True)
class ComparisonBuilder(Maker):
    """Everything an output format needs to write a comparison."""

    outcome: Outcome
    run: str  # title of the comparison
    options: CompareOptions
    finish: Finish  # encodes a page for the output format
    one_file: bool  # whether the output is one HTML file, not a folder
    shown: int  # maximum number of prompts won or lost (flips) that the page shows
    charts: Sequence[Chart]
    memo: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def view(self) -> dict[str, Any]:
        return self.options.language.of(
            _compare_view(self.outcome, self.charts, self.shown)
        )

    def frame(self) -> Shell:
        """Return the frame of the only page: without navigation and, in one file, asset paths."""
        files = {} if self.one_file else assets(self.options.language).files
        return Shell(
            title=self.run,
            run=self.run,
            kind="compare",
            assets={name: path for name, (path, _) in files.items()},
            csp=FOLDER_POLICY,
        )

    def pages(self) -> Iterator[tuple[str, bytes]]:
        frame = self.frame()
        template = "main/compare.html" if self.one_file else "page.html"
        templates = environment(self.options.language)
        html = templates.get_template(template).render(view=self.view, shell=frame)
        yield self.finish(Page(PAGE, "", frame.title, html))[0]
        if not self.one_file:
            html = templates.get_template("lead_on.html").render(shell=frame, href=PAGE)
            yield self.finish(Page(INDEX, "index", frame.title, html))[0]

    def files(self) -> Iterator[tuple[str, bytes]]:
        yield from self.pages()
        yield from assets(self.options.language).files.values()
        yield (
            "data/compare.json",
            canonical_json(compare_json(self.outcome), indent=True),
        )
        yield "data/prompts.csv", csv(prompts_table(self.outcome))
        for chart in self.charts:
            yield (
                f"data/charts/{chart.name}.vl.json",
                canonical_json(chart.spec, indent=True),
            )

    def nodes(self) -> list[tuple[str, str, str]]:
        return [
            (
                "application/json",
                "compare-json",
                script_json(compare_json(self.outcome)),
            )
        ]


def _compare_view(
    outcome: Outcome, charts: Sequence[Chart], shown: int
) -> dict[str, Any]:
    def title(finding: Finding) -> str:
        return (
            words.check_name(finding.id)
            if outcome.redact
            else finding.title or finding.id
        )

    flips = outcome.flips[:shown]
    changed = outcome.changed
    caveats = words.caveats(outcome)
    left_out = [words.texts_note(outcome)]
    if shown < len(outcome.flips):
        left_out.append(
            message(
                "Only the {some:count} clearest of {all:count} prompts won or lost are shown.",
                some=shown,
                all=len(outcome.flips),
            )
        )
    card, versions = settings_that_differ(outcome.base, outcome.new)
    return {
        "level": _severity(outcome, caveats),
        "sentence": words.sentence(outcome),
        "course": words.learning(outcome),
        "against": caveats,
        "gate": words.gate_sentence(outcome),
        "notes": words.notes(outcome),
        "runs": [
            (side.partition(" ")[0], run.name, run.level, words.run_verdict(run))
            for side, run in outcome.runs
        ],
        "charts": list(charts),
        "equal_kl": words.equal_kl(outcome),
        "guardrails": _guardrails(outcome),
        "findings": [
            (label, [(f.severity, title(f)) for f in changed[change]])
            for change, label in _CHANGES.items()
            if changed[change]
        ],
        "card": _settings("card", _CARD, card, redact=outcome.redact),
        "versions": _settings("versions", _VERSIONS, versions, redact=outcome.redact),
        "flips": _flips(flips),
        "data": _data(flips, outcome),
        "prompts": not outcome.comparison.metrics_alone,  # else these three tables are empty
        "ngrams": _ngrams(outcome),
        "tokens": _tokens(outcome),
        "left_out": [note for note in left_out if note],
        "pairs": [
            _pair(f)
            for f in flips
            if f.new_text is not None and f.base_text is not None
        ],
    }


def _severity(outcome: Outcome, caveats: str) -> str:
    """Return the level that colours the result, "healthy" only if there are no caveats."""
    level = outcome.comparison.level
    if any(run.broken for run in outcome.news):
        return "critical"
    if level == "better" and caveats:
        return "warning"
    if outcome.broken or (level == "better" and not outcome.comparison.has_enough_runs):
        return "info"
    return LEVELS[level]


def _guardrails(outcome: Outcome) -> TableView:
    guardrails = [g for g in outcome.comparison.guardrails if g.level != "missing"]
    note = words.guardrails_note(outcome.comparison)
    columns: Columns = {
        ColumnView("name", message("Figure"), kind="text"): map(
            _guardrail_label, guardrails
        ),
        **attribute_columns(guardrails, _MEANS),
        _EFFECT: [g.effect.value for g in guardrails],
        **attribute_columns([g.effect for g in guardrails], _INTERVAL),
        _SHOWS: [words.guardrail_level(g, outcome.comparison) for g in guardrails],
    }
    ids = [g.id for g in guardrails]
    return table("guardrails", message("Guardrails"), columns, ids=ids, note=note)


def _guardrail_label(guardrail: Guardrail) -> str:
    name = words.guardrail_name(guardrail)
    column = RESPONSE.get(guardrail.column)
    if column is None or not column.unit:
        return name
    return message("{name} ({unit})", name=name, unit=column.unit)


def _settings(
    name: str, caption: str, differences: Sequence[Difference], *, redact: bool
) -> TableView | None:
    if not differences:
        return None
    keys = [difference.key for difference in differences]
    columns: Columns = {_SETTING: keys}
    for side, texts in attribute_columns(differences, _SIDES).items():
        columns[side] = [
            MISSING if text is None else redacted_text(key, text) if redact else text
            for key, text in zip(keys, texts, strict=True)
        ]
    return table(name, caption, columns, ids=keys)


def _flips(flips: Sequence[Flip]) -> TableView:
    missing_cell = Cell(MISSING, None, message("not in the report"))
    ids = range(1, len(flips) + 1)
    columns: Columns = {
        _NUMBER: map(name_cell, ids),
        **attribute_columns(flips, _FLIP_NUMBERS),
        PROMPT_TEXT: map(_prompt, flips),
        _NEW_TEXT: [
            missing_cell if f.new_text is None else _cut(f.new_text) for f in flips
        ],
        _BASE_TEXT: [
            missing_cell if f.base_text is None else _cut(f.base_text) for f in flips
        ],
    }
    hrefs = (f"#r={number}" for number in ids)
    return table(
        "flips", message("Prompts won and lost"), columns, ids=ids, hrefs=hrefs
    )


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


def _data(flips: Sequence[Flip], outcome: Outcome) -> RowsData:
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
        # The table has all texts.
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
        "metrics": [],
        "titles": {
            "row": message("Prompt {n}", n="{n}"),
            "response": message("NEW's response"),
            "ref_response": message("BASE's response"),
            "other": "BASE",
        },
    }


def _where(flip: Flip) -> str:
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


def _ngrams(outcome: Outcome) -> TableView:
    base, new = outcome.counted
    note = (
        message(
            "Counted in {new:count} responses of NEW and {base:count} responses of BASE in the "
            "window.",
            new=new,
            base=base,
        )
        if base and new
        else message(
            "Not counted: a report lacks the texts of the window, or --redact hides them."
        )
    )
    columns = {column: outcome.ngrams[column.key].tolist() for column in _NGRAMS}
    return table("ngrams", message("Texts more frequent in NEW"), columns, note=note)


def _tokens(outcome: Outcome) -> TableView:
    tokens = outcome.tokens.assign(change=100 * outcome.tokens["change"])
    note = message(
        "Needs log-probabilities of both runs, from logs, a folder or a .zip, and no --redact."
    )
    caption = message("Tokens whose share of the KL changed most")
    columns = {column: tokens[column.key].tolist() for column in _TOKENS}
    return table("kl_tokens", caption, columns, note="" if len(tokens) else note)


def _pair(flip: Flip) -> dict[str, str]:
    title = message(
        "{change} (reward {base} → {new})",
        change=words.signed(flip.delta),
        base=figure(flip.base),
        new=figure(flip.new),
    )
    texts = {"base": _cut(flip.base_text or ""), "new": _cut(flip.new_text or "")}
    return {"title": title, "prompt": _prompt(flip), **texts}
