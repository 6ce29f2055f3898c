"""Files for scripts and notebooks: ``data/*``."""

from __future__ import annotations

import csv as writer
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from rlreport import __version__
from rlreport.bake.addresses import PROMPTS
from rlreport.bake.context import RunContext
from rlreport.bake.data_page import note_in_words, settings, versions
from rlreport.bake.script_json import canonical_json
from rlreport.check import findings_json
from rlreport.choose import Plan
from rlreport.draw.chart import Chart
from rlreport.text.clean import escape

TOKENS_LISTED = 10_000


def exports(context: RunContext, charts: Sequence[Chart]) -> Iterator[tuple[str, bytes]]:
    """Yield (path below the root, bytes) of every exported file but ``report.json``."""
    tables = context.tables
    yield "data/findings.json", canonical_json(findings_json(context.verdict), indent=True)
    yield "data/steps.csv", csv(tables.steps)
    yield PROMPTS, csv(tables.prompts)
    if len(tables.tokens):
        yield "data/tokens.csv", csv(tables.tokens.head(TOKENS_LISTED))
    for chart in charts:
        yield f"data/charts/{chart.name}.vl.json", canonical_json(chart.spec, indent=True)


def report_json(context: RunContext, plan: Plan) -> dict[str, Any]:
    """Return ``report.json``: run, settings, versions, table of steps, findings, files."""
    tables, verdict = context.tables, findings_json(context.verdict)
    return {
        "schema": verdict.pop("schema"),
        "generator": {"name": "rlreport", "version": __version__},
        "built": context.stamp or None,
        "run": context.run,
        "responses": len(tables.responses),
        "sampled": {"responses": tables.sampled, "of": tables.sampled_of},
        "settings": {one.key: one.value for one in settings(context)},
        "versions": dict(versions()),
        "card": context.card.as_json(),
        "steps": tables.steps.to_dict("records"),
        **verdict,
        "files": [
            {
                "name": file.name,
                "format": file.format,
                "bytes": file.size,
                "lines": file.lines,
                "responses": file.rows,
                "left_out": file.bad,
            }
            for file in tables.files
        ],
        "metrics_files": [asdict(file) for file in tables.metrics_files],
        "bad_lines": [asdict(line) for line in tables.bad_lines],
        "bad_lines_in_all": tables.bad_count,
        "notes": [note_in_words(note) for note in tables.notes],
        "fields": tables.fields,
        "shown": {
            "steps": [step.step for step in plan.steps],
            "responses": plan.responses,
            "left_out": context.left_out,
        },
    }


def csv(table: pd.DataFrame) -> bytes:
    """Return CSV with Unix line ends, exact numbers, texts escaped by ``text.clean``."""
    texts = table.select_dtypes(include=["object", "string"])
    safe = table.assign(**{str(name): texts[name].map(_escaped) for name in texts.columns})
    text = io.StringIO()
    # Every text in quotation marks: a bare CR in one would begin a row of its own.
    safe.to_csv(text, index=False, lineterminator="\n", quoting=writer.QUOTE_NONNUMERIC)
    return text.getvalue().encode("utf-8", "replace")


def _escaped(cell: object) -> object:
    return escape(cell) if isinstance(cell, str) else cell
