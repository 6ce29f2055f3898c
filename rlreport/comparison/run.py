"""One run of a comparison: its response data, findings and texts, from logs or a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rlreport.card import card_texts, run_card
from rlreport.check import Thresholds, judge
from rlreport.check.run import Run
from rlreport.check.wording import retold, worded
from rlreport.comparison.data import response_data
from rlreport.comparison.earlier import Earlier, Place, Texts, earlier_report
from rlreport.comparison.side import PROMPT, Side, side_of
from rlreport.display import fetch, prompt_texts
from rlreport.metrics import metrics_beside
from rlreport.options import FigureOptions, ReadOptions
from rlreport.progress import Progress
from rlreport.read.logs import read_logs
from rlreport.read.readback import RowLocations
from rlreport.summarise import summarise
from rlreport.tables import Tables
from rlreport.text.cells import unescape
from rlreport.text.messages import sample_note


@dataclass(frozen=True, slots=True)
class Found:
    """A finding of a run: what it is, how bad, and its title."""

    id: str
    severity: str
    title: str


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run of a comparison.

    Attributes:
        name: of the run.
        side: its responses.
        findings: by id, notes left out.
        texts: gives prompt and response of those (step, n) whose texts are known.
        from_logs: whether texts are read from the logs, so that all are known.
        redacted: whether a report left its texts out.
        tokens: ``token`` and ``kl_share``, None where the form carries none.
        facts: what the run was, for the card: settings and versions.
        dropped: rows of the run that its report carries no figures of.
        sample_note: from which responses its distinct-2 and tokens come, "" if from all.
    """

    name: str
    side: Side
    findings: dict[str, Found]
    texts: Callable[[Iterable[Place]], dict[Place, Texts]]
    from_logs: bool = False
    redacted: bool = False
    tokens: pd.DataFrame | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    dropped: int = 0
    sample_note: str = ""


def compared_run(
    given: str | Path,
    *,
    pair_by: str = PROMPT,
    read: ReadOptions,
    figures: FigureOptions,
    thresholds: Thresholds,
    progress: Progress,
) -> ComparedRun:
    """Read one run: logs, or an earlier report (folder, zip or one file).

    Raises:
        RlreportError: it cannot be read; says why.
    """
    if report := earlier_report(given):
        return _of_report(report, pair_by)
    metrics = metrics_beside([given], read.metrics)
    scan = read_logs([given], read, figures, progress, metrics.paths)
    tables = summarise(scan, prompt_texts(scan, read), metrics)
    name, locations = scan.name, scan.locations()
    verdict = worded(judge(Run(tables, thresholds)))
    data = response_data(tables)
    return ComparedRun(
        name,
        side_of(name, data, pair_by=pair_by),
        {f.id: Found(f.id, f.severity, f.title) for f in verdict.findings if f.severity != "info"},
        _reader(locations, tables, read, figures),
        from_logs=True,
        tokens=tables.tokens[["token", "kl_share"]] if len(tables.tokens) else None,
        facts={
            "gamma": f"{figures.gamma:g}",
            "lam": f"{figures.lam:g}",
            **card_texts(run_card([given]).entries),
        },
        sample_note=tables.sample_note,
    )


def _reader(
    locations: RowLocations, tables: Tables, read: ReadOptions, figures: FigureOptions
) -> Callable[[Iterable[Place]], dict[Place, Texts]]:
    steps = tables.responses["step"].to_numpy(np.int64)

    def texts(wanted: Iterable[Place]) -> dict[Place, Texts]:
        places = sorted(set(wanted))
        starts = np.searchsorted(steps, [step for step, _ in places])
        rows = [int(start) + n for start, (_, n) in zip(starts, places, strict=True)]
        found = {
            (rollout.step, rollout.n): (rollout.prompt, rollout.response)
            for rollout in fetch(locations, rows, read, figures)
        }
        locations.close()
        return found

    return texts


def _of_report(report: Earlier, pair_by: str) -> ComparedRun:
    about = report.about
    name = _text(about.get("run")) or report.name
    found = [
        Found(
            _text(one.get("id")),
            _text(one.get("severity")),
            retold(one, _text(one.get("title"))),
        )
        for one in _list(about.get("findings"))
        if isinstance(one, dict) and one.get("severity") in ("critical", "warning")
    ]
    responses = report.responses
    in_all = about.get("responses")
    return ComparedRun(
        name,
        side_of(name, responses, pair_by=pair_by),
        {one.id: one for one in found},
        report.texts,
        redacted=report.redacted,
        tokens=_tokens(report),
        facts=_facts(about),
        dropped=max(0, in_all - len(responses)) if isinstance(in_all, int) else 0,
        sample_note=_sample_note(about.get("sampled")),
    )


def _sample_note(sampled: object) -> str:
    counts = sampled if isinstance(sampled, dict) else {}
    some, of = counts.get("responses"), counts.get("of")
    return sample_note(some, of) if isinstance(some, int) and isinstance(of, int) else ""


def _tokens(report: Earlier) -> pd.DataFrame | None:
    table = None if report.redacted else report.table("data/tokens.csv")
    if table is None or not {"token", "kl_share"} <= set(table):
        return None
    tokens = table["token"].map(unescape)
    shares = pd.to_numeric(table["kl_share"], errors="coerce")
    return pd.DataFrame({"token": tokens, "kl_share": shares})


def _facts(about: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for group in ("settings", "versions"):
        values = about.get(group)
        if isinstance(values, dict):
            found.update({str(key): _text(value) for key, value in values.items()})
    card = about.get("card")
    entries = card.get("entries") if isinstance(card, dict) else None
    return {**found, **card_texts(entries if isinstance(entries, dict) else {})}


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
