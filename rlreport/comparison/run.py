"""One run of a comparison: its response data, findings, settings and texts."""

from __future__ import annotations

import re
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
from rlreport.comparison.compare import Side, side_of
from rlreport.comparison.data import response_data
from rlreport.comparison.earlier import (
    Earlier,
    ResponseId,
    earlier_report,
    findings_of,
    section,
    verdict_of,
)
from rlreport.display import fetch, prompt_texts
from rlreport.metrics import metrics_beside
from rlreport.options import CompareOptions, FigureOptions, ReadOptions, part
from rlreport.progress import Progress
from rlreport.read.logs import read_logs
from rlreport.read.readback import RowLocations
from rlreport.summarise import summarise
from rlreport.tables import Tables
from rlreport.text.messages import sample_note

_TRAINING = re.compile(
    r"(^|[._])(lr|learning_rate|beta|kl|model|data|dataset|train_files|val_files|reward|temperature|"
    r"top_[kp]|batch_size|num_generations|group|rollout|n|length|tokens|clip|eps\w*|loss|adv\w*|"
    r"algo\w*|seed|epochs?|max_steps|warmup|optim\w*|lora|gamma|lam|entropy)([._]|$)"
)
"""Names, or names of sections, of settings that affect training."""

_BOOKKEEPING = re.compile(
    r"version|commit|host|(^|[._])(dir|path|name|run|id|project|entity|port)$|_(dir|id)$|"
    r"(run|experiment)_name|wandb|logg|save|output|timestamp|device|num_workers|report_to|push_to"
)
"""Package versions, and settings with names and locations."""

_UNSET = {None, "null", "None", "", "False", "false"}
"""Values that mean "off": equal to a missing setting."""

Texts = Callable[[Iterable[ResponseId]], dict[ResponseId, tuple[str, str]]]
"""Returns prompt and response of the given responses, as far as texts are known."""


class RunFinding(NamedTuple):
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
        lead: id of the leading finding, None without warnings.
        findings: warnings and critical findings by id.
        from_logs: whether it was read from logs, so that all texts are known.
        tokens: ``token`` and ``kl_share``, None if the report has none.
        facts: run card, gamma and lambda.
        versions: package versions and settings of its report.
        dropped: number of responses whose figures its report lacks.
        sample_note: the sample behind its distinct-2 and tokens, "" if all responses were used.
    """

    name: str
    side: Side
    level: str
    lead: str | None
    findings: Mapping[str, RunFinding]
    texts: Texts
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
        """Whether it is broken or has a collapse, so that lower figures are no improvement."""
        return self.broken or any(name.endswith("_collapse") for name in self.findings)


def compared_run(
    path: str | Path, options: CompareOptions, thresholds: Thresholds, progress: Progress
) -> ComparedRun:
    """Read one run: logs, or an earlier report (folder, zip or one file).

    Raises:
        RlreportError: it cannot be read.
    """
    if report := earlier_report(path):
        return _of_report(report, options.pair_by)
    read, figures = part(ReadOptions, options), part(FigureOptions, options)
    metrics = metrics_beside([path], read.metrics, read.run)
    scan = read_logs([path], read, figures, progress, metrics.paths)
    tables = summarise(scan, prompt_texts(scan, read), metrics)
    verdict = worded(judge(Run(tables, thresholds)))
    return ComparedRun(
        scan.name,
        side_of(scan.name, response_data(tables), pair_by=options.pair_by),
        verdict.level,
        verdict.lead,
        {
            f.id: RunFinding(f.id, f.severity, f.title, f.onset.step if f.onset else None)
            for f in verdict.findings
            if f.severity != "info"
        },
        _text_reader(scan.locations(), tables, read, figures)
        if len(tables.responses)
        else _no_texts,
        from_logs=True,
        tokens=tables.tokens[["token", "kl_share"]] if len(tables.tokens) else None,
        facts={
            "gamma": f"{figures.gamma:g}",
            "lam": f"{figures.lam:g}",
            **card_texts(run_card([path]).entries),
        },
        sample_note=tables.sample_note,
    )


def _no_texts(wanted: Iterable[ResponseId]) -> dict[ResponseId, tuple[str, str]]:
    """Return the texts of a run of which only the trainer's metrics are logged: none."""
    return {}


def _text_reader(
    locations: RowLocations, tables: Tables, read: ReadOptions, figures: FigureOptions
) -> Texts:
    steps = tables.responses["step"].to_numpy(np.int64)

    def texts(wanted: Iterable[ResponseId]) -> dict[ResponseId, tuple[str, str]]:
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
    settings, sampled = _texts(section(about, "settings")), section(about, "sampled")
    some, of = sampled.get("responses"), sampled.get("of")
    findings = [
        _finding(one)
        for one in findings_of(about)
        if one.get("severity") in ("critical", "warning")
    ]
    return ComparedRun(
        name,
        side_of(name, report.responses, pair_by=pair_by),
        level,
        _text(lead.get("id")) if lead else None,
        {one.id: one for one in findings},
        report.texts,
        tokens=report.tokens(),
        facts={
            **{key: settings[key] for key in ("gamma", "lam") if key in settings},
            **card_texts(section(section(about, "card"), "entries")),
        },
        versions=settings | _texts(section(about, "versions")),
        dropped=max(0, count - len(report.responses)) if isinstance(count, int) else 0,
        sample_note=sample_note(some, of) if isinstance(some, int) and isinstance(of, int) else "",
    )


def _finding(finding: Mapping[str, Any]) -> RunFinding:
    texts = {key: _text(finding.get(key)) for key in ("id", "severity", "title")}
    step = section(finding, "onset").get("step")
    title = translatable_title(finding, texts["title"])
    onset = step if isinstance(step, int) else None
    return RunFinding(texts["id"], texts["severity"], title, onset)


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: _text(value) for key, value in values.items()}


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)


class Difference(NamedTuple):
    """A setting and its values in BASE and in NEW, None if a run does not have it."""

    key: str
    base: str | None
    new: str | None


def settings_that_differ(
    base: ComparedRun, new: ComparedRun
) -> tuple[list[Difference], list[Difference]]:
    """Return settings that differ (those of training first), and differences that are collapsed.

    Collapsed are package versions, defaults, names and locations, and the configuration of a run
    if the other run has none.
    """
    configured = all(any(key.startswith("config.") for key in run.facts) for run in (base, new))
    differing = dict.fromkeys(
        Difference(key, one.get(key), other.get(key))
        for one, other in ((base.facts, new.facts), (base.versions, new.versions))
        for key in (sorted({*one, *other}) if one and other else ())
        if one.get(key) != other.get(key)
    )
    listed = [one for one in differing if _matters(one, configured=configured)]
    folded = [one for one in differing if one not in listed]
    return sorted(listed, key=lambda one: not _of_training(one.key)), folded


def _matters(one: Difference, *, configured: bool) -> bool:
    if not one.key.startswith("config."):
        return one.key in ("gamma", "lam")
    default = {one.base, one.new} <= _UNSET
    return (
        configured and not default and (_of_training(one.key) or not _BOOKKEEPING.search(one.key))
    )


def _of_training(key: str) -> bool:
    return "version" not in key and bool(_TRAINING.search(key.lower()))
