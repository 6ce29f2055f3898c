"""The page of a comparison: verdict, curves, guardrails, findings, flips, words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rlreport.bake.views import Cell, ColumnView, RowView, TableView, number_cell
from rlreport.card import redacted_text
from rlreport.comparison import words
from rlreport.comparison.flips import Flip
from rlreport.comparison.guardrails import Guardrail
from rlreport.comparison.outcome import Outcome
from rlreport.comparison.run import Found
from rlreport.comparison.settings import Difference, settings_that_differ
from rlreport.draw.chart import Chart
from rlreport.text.messages import figure, listed, marked, message
from rlreport.text.numbers import MISSING

MOST_CHARACTERS = 20_000
"""Characters of a text that are shown; a comparison holds hundreds."""

LEVELS = {
    "better": "healthy",
    "worse": "critical",
    "no_evidence": "info",
    "incomparable": "unjudged",
}


@dataclass(frozen=True, slots=True)
class CompareView:
    """``compare.html``.

    Attributes:
        level: severity by which the verdict is coloured.
        sentence, against, gate: the verdict, what got worse all the same, the gate's answer.
        notes: what a reader has to know, a sentence each.
        runs: of each run: BASE or NEW, its name, the level of its verdict, and that in words.
        charts: of both runs.
        equal_kl: what holds at the same distance from the reference.
        guardrails: figures that should not get worse; ``guardrail_lines`` are its rows.
        findings: heading -> (severity, title) of each.
        card: settings of the runs that differ; None where none does.
        versions: further differences, folded: package versions, defaults, names and places.
        flips: prompts won and lost; ``data`` holds their texts.
        ngrams, tokens: what NEW says more.
        left_out: what is not shown.
    """

    level: str
    sentence: str
    against: str
    gate: str
    notes: list[str]
    runs: list[tuple[str, str, str, str]]
    charts: list[Chart]
    equal_kl: str
    guardrails: TableView
    guardrail_lines: list[GuardrailLine]
    findings: list[tuple[str, list[tuple[str, str]]]]
    card: TableView | None
    versions: TableView | None
    flips: TableView
    data: dict[str, Any]
    ngrams: TableView
    tokens: TableView
    left_out: list[str]
    pairs: list[PairView]


class GuardrailLine(NamedTuple):
    """A figure that should not get worse: of both runs, and what their difference shows."""

    name: Cell
    base: Cell
    new: Cell
    difference: Cell
    low: Cell
    high: Cell
    detectable: Cell
    shows: Cell


@dataclass(frozen=True, slots=True)
class PairView:
    """A flip as text for the short forms: before and after."""

    title: str
    prompt: str
    base: str
    new: str


def compare_view(outcome: Outcome, charts: Sequence[Chart], shown: int) -> CompareView:
    """Build the view.

    Args:
        outcome: the comparison.
        charts: drawn.
        shown: how many flips are shown.
    """
    flips = outcome.comparison.flips[:shown]
    against = words.against(outcome)
    texts_note = words.texts_note(outcome)
    left_out = [texts_note] if texts_note else []
    if shown < len(outcome.comparison.flips):
        left_out.append(
            message(
                "{some:count} of {all:count} prompts won and lost are shown, the clearest.",
                some=shown,
                all=len(outcome.comparison.flips),
            )
        )
    guardrails = outcome.comparison.guardrails
    lines = [(g, _guardrail_line(g, outcome)) for g in guardrails if g.level != "missing"]
    named = [*(("BASE", run) for run in outcome.bases), ("NEW", outcome.new)]
    card, versions = settings_that_differ(outcome.base, outcome.new)
    return CompareView(
        level=_severity(outcome, against),
        sentence=words.sentence(outcome),
        against=against,
        gate=words.failures(outcome),
        notes=words.notes(outcome),
        runs=[(side, run.name, run.level, words.run_verdict(run)) for side, run in named],
        charts=list(charts),
        equal_kl=words.equal_kl(outcome),
        guardrails=_guardrails(guardrails, lines),
        guardrail_lines=[line for _, line in lines],
        findings=_findings(outcome),
        card=_card("card", _SETTINGS, card, outcome),
        versions=_card("versions", _VERSIONS, versions, outcome),
        flips=_flips(flips),
        data=_data(flips, outcome),
        ngrams=_ngrams(outcome),
        tokens=_tokens(outcome),
        left_out=left_out,
        pairs=[
            _pair(flip)
            for flip in flips
            if flip.new_text is not None and flip.base_text is not None
        ],
    )


def _severity(outcome: Outcome, against: str) -> str:
    """Return the level by which the verdict is coloured: a single pair is never green."""
    level = outcome.comparison.level
    if outcome.new.broken:
        return "critical"
    if level == "better" and against:
        return "warning"
    if outcome.broken or (level == "better" and outcome.one_each):
        return "info"
    return LEVELS[level]


def _guardrail_line(one: Guardrail, outcome: Outcome) -> GuardrailLine:
    name, unit, effect = words.guardrail_name(one), words.unit_of(one), one.effect
    base, new, difference, low, high, detectable = map(
        number_cell, (one.base, one.new, effect.value, effect.low, effect.high, effect.mde)
    )
    return GuardrailLine(
        Cell(message("{name} ({unit})", name=name, unit=unit) if unit else name),
        *(base, new, difference, low, high, detectable),
        Cell(words.shown(one, in_a_pair=outcome.one_each)),
    )


def _guardrails(
    found: Sequence[Guardrail], lines: Sequence[tuple[Guardrail, GuardrailLine]]
) -> TableView:
    mean = message("mean of the prompts' means in the window")
    columns = [
        ColumnView("name", message("Figure"), kind="text"),
        ColumnView("base", message("BASE"), help=mean),
        ColumnView("new", message("NEW"), help=mean),
        ColumnView(
            "effect", message("Difference"), help=message("of the shared prompts, NEW − BASE")
        ),
        ColumnView("low", message("Low"), help=message("lower end of the 95% interval")),
        ColumnView("high", message("High"), help=message("upper end of the 95% interval")),
        ColumnView(
            "mde",
            message("Minimum detectable effect"),
            help=message("found in 80% of such comparisons"),
        ),
        ColumnView(
            "level",
            message("Shows"),
            kind="text",
            help=message("by Holm's correction; ~ is nothing"),
        ),
    ]
    rows = [RowView(one.id, list(line)) for one, line in lines]
    missing = [words.guardrail_name(one) for one in found if one.level == "missing"]
    note = message("Not logged by both runs: {names}.", names=listed(missing)) if missing else ""
    return TableView("guardrails", message("Guardrails"), columns, rows, note)


def _findings(outcome: Outcome) -> list[tuple[str, list[tuple[str, str]]]]:
    def told(found: Sequence[Found]) -> list[tuple[str, str]]:
        return [
            (one.severity, words.name_of(one.id) if outcome.redact else one.title or one.id)
            for one in found
        ]

    lists = (
        (message("New"), outcome.changed.new),
        (message("Fixed"), outcome.changed.fixed),
        (message("Still there"), outcome.changed.still),
    )
    return [(label, told(found)) for label, found in lists]


def _card(
    table: str, caption: str, differences: Sequence[Difference], outcome: Outcome
) -> TableView | None:
    if not differences:
        return None
    columns = [ColumnView(key, label, kind="text") for key, label in _CARD]

    def cell(key: str, value: str | None) -> Cell:
        if value is None:
            return Cell(MISSING)
        return Cell(redacted_text(key, value) if outcome.redact else value)

    rows = [
        RowView(d.key, [Cell(d.key), cell(d.key, d.base), cell(d.key, d.new)]) for d in differences
    ]
    return TableView(table, caption, columns, rows)


_SETTINGS = message("What the runs were, where it differs")
_VERSIONS = message("Package versions, defaults, names and places")
_CARD = (("name", message("Setting")), ("base", "BASE"), ("new", "NEW"))

_FLIP_NUMBERS = (
    ColumnView(
        "delta",
        message("Difference"),
        help=message("NEW − BASE, mean rewards of the window"),
    ),
    ColumnView("base", message("BASE"), help=message("mean reward of the prompt in the window")),
    ColumnView("new", message("NEW"), help=message("mean reward of the prompt in the window")),
)
_NEAREST = message("nearest to the prompt's mean")
_FLIP_TEXTS = (
    ColumnView("prompt", message("Prompt"), kind="text"),
    ColumnView("response", message("NEW's response"), kind="text", help=_NEAREST),
    ColumnView("ref_response", message("BASE's response"), kind="text", help=_NEAREST),
)


def _flips(flips: Sequence[Flip]) -> TableView:
    numbered = ColumnView("n", "#", help=message("the clearest difference first"), written="count")
    rows = [
        RowView(
            str(place),
            [
                Cell(str(place), float(place)),
                *(number_cell(value) for value in (f.delta, f.base, f.new)),
                *(_text(text) for text in _texts(f)),
            ],
            href=f"#r={place}",
        )
        for place, f in enumerate(flips, 1)
    ]
    return TableView(
        "flips", message("Prompts won and lost"), [numbered, *_FLIP_NUMBERS, *_FLIP_TEXTS], rows
    )


def _texts(flip: Flip) -> tuple[str | None, str | None, str | None]:
    prompt = (
        flip.prompt
        if flip.prompt is not None
        else message("[prompt {number:count}]", number=flip.number)
    )
    return cut(prompt), cut(flip.new_text), cut(flip.base_text)


def cut(text: str | None, longest: int = MOST_CHARACTERS) -> str | None:
    """Return the beginning of a text, which says how much is missing."""
    if text is None or len(text) <= longest:
        return text
    return message(
        "{text}… ({count:count} characters more)", text=text[:longest], count=len(text) - longest
    )


def _text(text: str | None) -> Cell:
    return Cell(MISSING, None, message("not kept")) if text is None else Cell(text)


def _data(flips: Sequence[Flip], outcome: Outcome) -> dict[str, Any]:
    """Return the rows-data node; see docs/page-data.md."""
    values = {
        "delta": [f.delta for f in flips],
        "base": [f.base for f in flips],
        "new": [f.new for f in flips],
    }
    return {
        "run": outcome.new.name,
        "step": "",
        "total": len(outcome.comparison.flips),
        "n": list(range(1, len(flips) + 1)),
        "columns": [column.data() for column in _FLIP_NUMBERS],
        "values": values,
        "strings": {},
        "texts": {key: [None] * len(flips) for key in ("prompt", "response", "ref_response")},
        "turns": {},
        "ranks": {},
        "where": [_where(f) for f in flips],
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
    (base_step, base_n), (new_step, new_n) = flip.base_response, flip.new_response
    return message(
        "NEW: step {new_step}, response {new_n} · BASE: step {base_step}, response {base_n} (each "
        "nearest to its mean)",
        new_step=new_step,
        new_n=new_n,
        base_step=base_step,
        base_n=base_n,
    )


def _ngrams(outcome: Outcome) -> TableView:
    columns = [
        ColumnView("ngram", message("Text"), kind="token"),
        ColumnView("new", message("Responses of NEW"), written="share"),
        ColumnView("base", message("Responses of BASE"), written="share"),
        ColumnView("z", "z", help=message("how clearly the shares differ, in standard errors")),
    ]
    rows = [
        RowView(
            str(place),
            [
                Cell(record["ngram"]),
                number_cell(record["new_share"], "share"),
                number_cell(record["base_share"], "share"),
                number_cell(record["z"]),
            ],
        )
        for place, record in enumerate(outcome.ngrams.to_dict("records"))
    ]
    base, new = outcome.counted
    note = (
        message(
            "Words of {new:count} responses of NEW and {base:count} of BASE in the window.",
            new=new,
            base=base,
        )
        if base and new
        else message("The texts of the window are not kept.")
    )
    return TableView("ngrams", message("What NEW says more"), columns, rows, note)


def _tokens(outcome: Outcome) -> TableView:
    columns = [
        ColumnView("token", message("Token"), kind="token"),
        ColumnView("new", message("Share of KL in NEW"), written="share"),
        ColumnView("base", message("Share of KL in BASE"), written="share"),
        ColumnView("change", message("Change"), message("points")),
    ]
    rows = [
        RowView(
            str(place),
            [
                Cell(record["token"]),
                *(number_cell(record[key], "share") for key in ("new_share", "base_share")),
                number_cell(100 * record["change"]),
            ],
        )
        for place, record in enumerate(outcome.tokens.to_dict("records"))
    ]
    unknown = message("Tokens of both runs are not known: logs, folders and zips carry them.")
    caption = message("Tokens by change of their share of the KL")
    return TableView("kl_tokens", caption, columns, rows, "" if rows else unknown)


def _pair(flip: Flip) -> PairView:
    literal, change = marked("{change} (reward {base} → {new})"), words.signed(flip.delta)
    title = message(literal, change=change, base=figure(flip.base), new=figure(flip.new))
    prompt, new, base = _texts(flip)
    return PairView(title, prompt or "", base or "", new or "")
