"""One run of a comparison: its response data, findings and texts, from logs or a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rlreport.card import card_texts, run_card
from rlreport.check import Thresholds, judge
from rlreport.check.run import Run
from rlreport.check.wording import translatable_title, worded
from rlreport.comparison.data import response_data
from rlreport.comparison.earlier import Earlier, Place, Texts, earlier_report, verdict_of
from rlreport.comparison.side import PROMPT, Side, side_of
from rlreport.display import fetch, prompt_texts
from rlreport.metrics import metrics_beside
from rlreport.options import FigureOptions, ReadOptions
from rlreport.progress import Progress
from rlreport.read.logs import read_logs
from rlreport.read.readback import RowLocations
from rlreport.summarise import summarise
from rlreport.tables import Tables
from rlreport.text.clean import unescape
from rlreport.text.messages import sample_note


class Found(NamedTuple):
    """A finding of a run; ``onset`` is the step at which it began."""

    id: str
    severity: str
    title: str
    onset: int | None = None


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run of a comparison.

    Attributes:
        level: level of its verdict.
        lead: id of the leading finding, None without a warning.
        findings: warnings and critical findings by id.
        texts: returns prompt and response of those (step, n) whose texts are known.
        from_logs: whether all texts are known.
        tokens: ``token`` and ``kl_share``, None where the report carries none.
        facts: run card, gamma and lambda.
        versions: package versions and settings of its report.
        dropped: responses whose figures its report does not carry.
        sample_note: from which responses its distinct-2 and tokens come, "" if from all.
    """

    name: str
    side: Side
    level: str
    lead: str | None
    findings: Mapping[str, Found]
    texts: Callable[[Iterable[Place]], dict[Place, Texts]]
    from_logs: bool = False
    tokens: pd.DataFrame | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    dropped: int = 0
    sample_note: str = ""

    @property
    def broken(self) -> bool:
        """Whether its verdict is critical."""
        return self.level == "critical"

    @property
    def collapsed(self) -> bool:
        """Whether it is broken, or something in it collapsed: what shrank is no improvement."""
        return self.broken or any(name.endswith("_collapse") for name in self.findings)


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
    verdict = worded(judge(Run(tables, thresholds)))
    return ComparedRun(
        scan.name,
        side_of(scan.name, response_data(tables), pair_by=pair_by),
        verdict.level,
        verdict.lead,
        {
            f.id: Found(f.id, f.severity, f.title, f.onset.step if f.onset else None)
            for f in verdict.findings
            if f.severity != "info"
        },
        _text_reader(scan.locations(), tables, read, figures),
        from_logs=True,
        tokens=tables.tokens[["token", "kl_share"]] if len(tables.tokens) else None,
        facts={
            "gamma": f"{figures.gamma:g}",
            "lam": f"{figures.lam:g}",
            **card_texts(run_card([given]).entries),
        },
        sample_note=tables.sample_note,
    )


def _text_reader(
    locations: RowLocations, tables: Tables, read: ReadOptions, figures: FigureOptions
) -> Callable[[Iterable[Place]], dict[Place, Texts]]:
    steps = tables.responses["step"].to_numpy(np.int64)

    def texts(wanted: Iterable[Place]) -> dict[Place, Texts]:
        rows = [int(np.searchsorted(steps, step)) + n for step, n in sorted(set(wanted))]
        rollouts = fetch(locations, rows, read, figures)
        texts = {(one.step, one.n): (one.prompt, one.response) for one in rollouts}
        locations.close()
        return texts

    return texts


def _of_report(report: Earlier, pair_by: str) -> ComparedRun:
    about, count = report.about, report.about.get("responses")
    name = _text(about.get("run")) or report.name
    level, lead = verdict_of(about)
    listed = about.get("findings")
    findings = [
        _found(one)
        for one in (listed if isinstance(listed, list) else [])
        if isinstance(one, dict) and one.get("severity") in ("critical", "warning")
    ]
    return ComparedRun(
        name,
        side_of(name, report.responses, pair_by=pair_by),
        level,
        _text(lead.get("id")) if lead else None,
        {one.id: one for one in findings},
        report.texts,
        tokens=_tokens(report),
        facts=_facts(about),
        versions=_texts(about, "settings") | _texts(about, "versions"),
        dropped=max(0, count - len(report.responses)) if isinstance(count, int) else 0,
        sample_note=_sample_note(about.get("sampled")),
    )


def _found(finding: Mapping[str, Any]) -> Found:
    onset = finding.get("onset")
    step = onset.get("step") if isinstance(onset, dict) else None
    return Found(
        _text(finding.get("id")),
        _text(finding.get("severity")),
        translatable_title(finding, _text(finding.get("title"))),
        step if isinstance(step, int) else None,
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
    settings = {k: v for k, v in _texts(about, "settings").items() if k in ("gamma", "lam")}
    card = about.get("card")
    entries = card.get("entries") if isinstance(card, dict) else None
    return settings | card_texts(entries if isinstance(entries, dict) else {})


def _texts(about: Mapping[str, Any], group: str) -> dict[str, str]:
    values = about.get(group)
    known = values if isinstance(values, dict) else {}
    return {str(key): _text(value) for key, value in known.items()}


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)
