"""The page of a comparison: verdict, curves, guardrails, findings, flips, words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from rlreport.bake.views import Cell, ColumnView, RowView, TableView, number_cell
from rlreport.card import redacted_text
from rlreport.comparison import words
from rlreport.comparison.figures import Flip
from rlreport.comparison.outcome import Outcome
from rlreport.comparison.settings import Difference, settings_that_differ
from rlreport.draw.chart import Chart
from rlreport.text.messages import figure, listed, marked, message
from rlreport.text.numbers import MISSING

MAX_CHARACTERS = 20_000
"""Characters of a text that are shown; a comparison holds hundreds."""

LEVELS = {
    "better": "healthy",
    "worse": "critical",
    "no_evidence": "info",
    "incomparable": "unjudged",
}


def compare_view(outcome: Outcome, charts: Sequence[Chart], shown: int) -> dict[str, Any]:
    """Return what the templates of a comparison print, with the first ``shown`` flips.

    ``runs`` has (BASE or NEW, name, level, verdict in words) of each run, ``findings`` each
    heading with (severity, title) of its findings, ``pairs`` the flips whose texts are known.
    """
    flips = outcome.flips[:shown]
    against = words.against(outcome)
    texts_note = words.texts_note(outcome)
    left_out = [texts_note] if texts_note else []
    if shown < len(outcome.flips):
        left_out.append(
            message(
                "{some:count} of {all:count} prompts won and lost are shown, the clearest.",
                some=shown,
                all=len(outcome.flips),
            )
        )
    named = [*(("BASE", run) for run in outcome.bases), ("NEW", outcome.new)]
    card, versions = settings_that_differ(outcome.base, outcome.new)
    return {
        "level": _severity(outcome, against),
        "sentence": words.sentence(outcome),
        "against": against,
        "gate": words.failures(outcome),
        "notes": words.notes(outcome),
        "runs": [(side, run.name, run.level, words.run_verdict(run)) for side, run in named],
        "charts": list(charts),
        "equal_kl": words.equal_kl(outcome),
        "guardrails": _guardrails(outcome),
        "findings": _findings(outcome),
        "card": _settings("card", _SETTINGS, card, redact=outcome.redact),
        "versions": _settings("versions", _VERSIONS, versions, redact=outcome.redact),
        "flips": _flips(flips),
        "data": _data(flips, outcome),
        "ngrams": _ngrams(outcome),
        "tokens": _tokens(outcome),
        "left_out": left_out,
        "pairs": [_pair(f) for f in flips if f.new_text is not None and f.base_text is not None],
    }


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


def _cells(columns: Sequence[ColumnView], values: Iterable[float | str]) -> list[Cell]:
    """Return a row's cells: numbers as their columns write them, texts as they are."""
    return [
        number_cell(value, column.written) if isinstance(value, float) else Cell(value)
        for column, value in zip(columns, values, strict=True)
    ]


def _guardrails(outcome: Outcome) -> TableView:
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
    rows, missing = [], []
    for one in outcome.comparison.guardrails:
        name, unit, effect = words.guardrail_name(one), words.unit_of(one), one.effect
        if one.level == "missing":
            missing.append(name)
            continue
        label = message("{name} ({unit})", name=name, unit=unit) if unit else name
        numbers = (one.base, one.new, effect.value, effect.low, effect.high, effect.mde)
        values = (label, *numbers, words.shown(one, in_a_pair=outcome.one_each))
        rows.append(RowView(one.id, _cells(columns, values)))
    note = message("Not logged by both runs: {names}.", names=listed(missing)) if missing else ""
    return TableView("guardrails", message("Guardrails"), columns, rows, note)


def _findings(outcome: Outcome) -> list[tuple[str, list[tuple[str, str]]]]:
    lists = (
        (message("New"), outcome.changed.new),
        (message("Fixed"), outcome.changed.fixed),
        (message("Still there"), outcome.changed.still),
    )
    return [
        (
            label,
            [
                (f.severity, words.name_of(f.id) if outcome.redact else f.title or f.id)
                for f in findings
            ],
        )
        for label, findings in lists
    ]


def _settings(
    table: str, caption: str, differences: Sequence[Difference], *, redact: bool
) -> TableView | None:
    if not differences:
        return None
    columns = [ColumnView(key, label, kind="text") for key, label in _CARD]
    rows = []
    for key, *values in differences:
        texts = (redacted_text(key, v) if redact and v is not None else v for v in values)
        shown = (MISSING if text is None else text for text in texts)
        rows.append(RowView(key, _cells(columns, (key, *shown))))
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
                *(
                    Cell(MISSING, None, message("not kept")) if text is None else Cell(text)
                    for text in _texts(f)
                ),
            ],
            href=f"#r={place}",
        )
        for place, f in enumerate(flips, 1)
    ]
    return TableView(
        "flips", message("Prompts won and lost"), [numbered, *_FLIP_NUMBERS, *_FLIP_TEXTS], rows
    )


def _texts(flip: Flip) -> tuple[str | None, str | None, str | None]:
    prompt = flip.prompt
    if prompt is None:
        prompt = message("[prompt {number:count}]", number=flip.number)
    return cut(prompt), cut(flip.new_text), cut(flip.base_text)


def cut(text: str | None, longest: int = MAX_CHARACTERS) -> str | None:
    """Return the beginning of a text, which says how much is missing."""
    if text is None or len(text) <= longest:
        return text
    return message(
        "{text}… ({count:count} characters more)", text=text[:longest], count=len(text) - longest
    )


def _data(flips: Sequence[Flip], outcome: Outcome) -> dict[str, Any]:
    """Return the rows-data node; see docs/page-data.md."""
    return {
        "run": outcome.new.name,
        "step": "",
        "total": len(outcome.flips),
        "n": list(range(1, len(flips) + 1)),
        "columns": [column.data() for column in _FLIP_NUMBERS],
        "values": {key: [getattr(f, key) for f in flips] for key in ("delta", "base", "new")},
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
        ColumnView("new_share", message("Responses of NEW"), written="share"),
        ColumnView("base_share", message("Responses of BASE"), written="share"),
        ColumnView("z", "z", help=message("how clearly the shares differ, in standard errors")),
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
    rows = _rows(columns, outcome.ngrams)
    return TableView("ngrams", message("What NEW says more"), columns, rows, note)


def _tokens(outcome: Outcome) -> TableView:
    columns = [
        ColumnView("token", message("Token"), kind="token"),
        ColumnView("new_share", message("Share of KL in NEW"), written="share"),
        ColumnView("base_share", message("Share of KL in BASE"), written="share"),
        ColumnView("change", message("Change"), message("points")),
    ]
    rows = _rows(columns, outcome.tokens.assign(change=100 * outcome.tokens["change"]))
    unknown = message("Tokens of both runs are not known: logs, folders and zips carry them.")
    caption = message("Tokens by change of their share of the KL")
    return TableView("kl_tokens", caption, columns, rows, "" if rows else unknown)


def _rows(columns: Sequence[ColumnView], frame: pd.DataFrame) -> list[RowView]:
    records = frame[[column.key for column in columns]].to_dict("split")["data"]
    return [RowView(str(i), _cells(columns, record)) for i, record in enumerate(records)]


def _pair(flip: Flip) -> dict[str, str]:
    literal, change = marked("{change} (reward {base} → {new})"), words.signed(flip.delta)
    title = message(literal, change=change, base=figure(flip.base), new=figure(flip.new))
    prompt, new, base = _texts(flip)
    return {"title": title, "prompt": prompt or "", "base": base or "", "new": new or ""}
