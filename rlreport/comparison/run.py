"""Load one run of a comparison: its response data, findings, settings and texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rlreport.about.card import card_texts, run_card
from rlreport.check.course import Course
from rlreport.check.finding import Onset, Rank, Severity, ToldFinding
from rlreport.check.sentence import translatable_title
from rlreport.check.verdict import Verdict
from rlreport.comparison.compare import Side, side_of
from rlreport.comparison.data_file import METRICS_FILE, response_data, trainer_rows
from rlreport.comparison.saved import (
    BOOKKEEPING,
    EarlierReport,
    ResponseId,
    section,
    verdict_of,
)
from rlreport.formats.logged import dicts
from rlreport.options import CompareOptions, GaeOptions, part
from rlreport.read.rollouts import Rollout, Rollouts
from rlreport.summarise.steps import most_common
from rlreport.tables import Tables
from rlreport.text.clean import one_line, without_controls
from rlreport.text.messages import sample_note

# Matches names (or sections) of settings that affect training
_TRAINING = re.compile(
    r"(^|[._])(lr|learning_rate|beta|kl|model|data|dataset|train_files|val_files|reward|temperature|"
    r"top_[kp]|batch_size|num_generations|group|rollout|n|length|tokens|clip|eps\w*|loss|adv\w*|"
    r"algo\w*|seed|epochs?|max_steps|warmup|optim\w*|lora|gamma|lam|entropy)([._]|$)"
)

# Values of a setting that count as if it were missing
UNSET = {None, "null", "None", "", "False", "false"}

# Matches names of metrics that are the number of responses of a step
_COUNTS_RESPONSES = re.compile(
    r"(?:^|[/.])(?:num|n)_(?:rollouts|responses|completions)$"
)
MOST_RESPONSES = 1e9  # of a step; more are no number of responses

# Characters of a verdict's sentence; usual ones have half of them at most
LONGEST_WHAT = 600

CUT = "cut_texts"  # Id of the note that the logger cuts texts

# Function: ids of responses -> {id: (prompt, response)}; ids without a text are left out
Texts = Callable[[Iterable[ResponseId]], dict[ResponseId, tuple[str, str]]]
# Function: ids of responses, maximum number of tokens of each -> {id: rollout with its tokens};
# ids without tokens, or with more of them, are left out
TokenReader = Callable[[Iterable[ResponseId], int], dict[ResponseId, Rollout]]


def _no_tokens(wanted: Iterable[ResponseId], longest: int) -> dict[ResponseId, Rollout]:
    """Return {}: the tokens of a run that has none."""
    return {}


@dataclass(frozen=True, slots=True)
class ComparedRun:
    name: str
    side: Side
    level: str  # level of the report's verdict on the run, such as ``critical``
    lead: str | None  # id of the main finding, None without warnings
    # id -> finding (detected problem), a warning or critical
    findings: Mapping[str, ToldFinding]
    texts: Texts
    # the verdict's sentence on what happened, "" if its report has none; translatable if the run
    # was read from logs
    what: str = ""
    notes: int = 0  # number of findings that are notes, neither warnings nor critical
    # whether it was read from logs, so that all texts are available
    from_logs: bool = False
    rollouts: TokenReader = _no_tokens
    # responses of which placeholders replace the texts
    hidden: frozenset[ResponseId] = frozenset()
    # table of ``token`` and ``kl_share``, None if its report has none
    tokens: pd.DataFrame | None = None
    # name -> value of the run's metadata and settings, also gamma and lambda
    facts: Mapping[str, str] = field(default_factory=dict)
    # package versions and settings with which its report was built
    versions: Mapping[str, str] = field(default_factory=dict)
    dropped: int = 0  # number of responses whose figures its report does not contain
    # the sample used for distinct-2 and tokens, "" if all responses were used
    sample_note: str = ""

    @property
    def broken(self) -> bool:
        return self.level == "critical"

    @property
    def collapsed(self) -> bool:
        """Whether its verdict is critical or a collapse was found, which may improve figures."""
        return self.broken or any(name.endswith("_collapse") for name in self.findings)


def of_logs(  # noqa: PLR0917
    path: str | Path,
    name: str,
    tables: Tables,
    rollouts: Rollouts,
    verdict: Verdict,
    options: CompareOptions,
) -> ComparedRun:
    """Return a run whose logs, at ``path``, were read and judged; ``name`` stands for it."""
    # gamma and lambda change figures, so that runs should have the same
    gae = part(GaeOptions, options)
    settings = {option: f"{value:g}" for option, value in vars(gae).items()}
    side = replace(
        side_of(name, response_data(tables), pair_by=options.pair_by),
        trainer=trainer_rows(tables.metrics, tables.metric_roles),
        cut=any(finding.id == CUT for finding in verdict.findings),
        trainer_leads=_is_of_trainer(verdict.courses.get("reward")),
        batch=_batch_size(tables.metrics),
    )
    findings = {
        finding.id: finding
        for finding in verdict.findings
        if finding.severity != "info"
    }
    return ComparedRun(
        name=name,
        side=side,
        level=verdict.level,
        lead=verdict.lead,
        findings=findings,
        texts=_text_reader(rollouts, tables),
        what=verdict.what,
        notes=len(verdict.findings) - len(findings),
        from_logs=True,
        hidden=_hidden_ids(rollouts),
        rollouts=_token_reader(rollouts, tables),
        tokens=_token_shares(tables) if len(tables.tokens) else None,
        facts=settings | card_texts(run_card([path]).entries),
        sample_note=tables.sample_note,
    )


def _is_of_trainer(course: Course | None) -> bool:
    return course is not None and course.source == "metrics"


def _is_rewards_of_trainer(course: Mapping[str, Any]) -> bool:
    """Return the same of a course of ``report.json``, if it is that of the reward."""
    is_metric = section(course, "series").get("file") == Path(METRICS_FILE).name
    return is_metric and course.get("quantity") == "reward"


def _batch_size(metrics: pd.DataFrame) -> int | None:
    """Return the usual number of responses of a step if a metric tells it, else None.

    Settings do not tell: the same name counts prompts in one trainer and responses in another.
    """
    for name in map(str, metrics.columns):
        if _COUNTS_RESPONSES.search(name):
            counts = metrics[name].to_numpy(np.float64)
            counts = counts[np.isfinite(counts) & (counts == np.floor(counts))]
            usual = most_common(counts)
            if usual is not None and 0 < usual < MOST_RESPONSES:
                return int(usual)
    return None


def _text_reader(rollouts: Rollouts, tables: Tables) -> Texts:
    """Return a function that reads the texts of responses from the rollouts of a run."""
    readable = _readable_rows(rollouts, tables)

    def texts(wanted: Iterable[ResponseId]) -> dict[ResponseId, tuple[str, str]]:
        responses = rollouts.read(readable(wanted), with_tokens=0)
        found = {}
        for one in responses:
            found[one.step, one.n] = (one.prompt, one.response)
        return found

    return texts


def _token_reader(rollouts: Rollouts, tables: Tables) -> TokenReader:
    """Return a function that reads the tokens of responses from the rollouts of a run."""
    readable = _readable_rows(rollouts, tables)

    def tokens(wanted: Iterable[ResponseId], longest: int) -> dict[ResponseId, Rollout]:
        rows = np.array(readable(wanted), np.int64)
        rows = rows[rollouts.lengths[rollouts.indices(rows)] <= longest]
        responses = rollouts.read(rows)
        return {
            (one.step, one.n): one
            for one in responses
            if one.raw_tokens and not one.hidden
        }

    return tokens


def _hidden_ids(rollouts: Rollouts) -> frozenset[ResponseId]:
    """Return the ids of those responses of which a mask hides the texts."""
    mask = rollouts.mask
    if mask is None:
        return frozenset()
    places = rollouts.places
    hidden = [mask.hides(row) for row in places.row.tolist()]
    hidden_places = places.take(np.flatnonzero(hidden))
    steps = hidden_places.step.tolist()
    return frozenset(zip(steps, hidden_places.n.tolist(), strict=True))


def _readable_rows(
    rollouts: Rollouts, tables: Tables
) -> Callable[[Iterable[ResponseId]], list[int]]:
    """Return a function: ids of responses -> rows of the response table, of those to be read."""
    steps = tables.responses["step"].to_numpy(np.int64)
    chosen = frozenset(rollouts.places.row.tolist())

    def rows(wanted: Iterable[ResponseId]) -> list[int]:
        # Rows are ordered by step: response n is n rows after the first one of its step.
        found = [
            int(np.searchsorted(steps, step)) + n for step, n in sorted(set(wanted))
        ]
        return [row for row in found if row in chosen]

    return rows


def of_report(report: EarlierReport, pair_by: str) -> ComparedRun:
    """Return the run of an earlier report; ``pair_by`` is as for ``side_of``."""
    about = report.about  # its ``report.json``, which may lack any key
    name = _text(about.get("run")) or report.name
    level, lead = verdict_of(about)
    settings = _texts(section(about, "settings"))
    all_findings = dicts(about.get("findings"))
    findings = [
        _finding(finding)
        for finding in all_findings
        if finding.get("severity") in ("critical", "warning")
    ]
    metrics = report.metrics()
    courses = dicts(section(about, "verdict").get("course"))
    side = replace(
        side_of(name, report.responses, pair_by=pair_by),
        trainer=trainer_rows(metrics, _texts(section(about, "metric_roles"))),
        trainer_leads=any(map(_is_rewards_of_trainer, courses)),
        batch=_batch_size(metrics),
        cut=any(finding.get("id") == CUT for finding in all_findings),
    )
    # As of logs: gamma and lambda, then the run's configuration
    facts = {key: settings[key] for key in ("gamma", "lam") if key in settings}
    return ComparedRun(
        name=name,
        side=side,
        level=level,
        lead=_text(lead.get("id")) if lead else None,
        findings={finding.id: finding for finding in findings},
        texts=report.texts,
        what=_sentence(section(about, "verdict").get("what")),
        notes=sum(finding.get("severity") == "info" for finding in all_findings),
        rollouts=report.rollouts,
        tokens=report.tokens(),
        facts=facts | card_texts(section(section(about, "card"), "entries")),
        versions=settings | _texts(section(about, "versions")),
        dropped=_dropped(report),
        sample_note=_sample_note(section(about, "sampled")),
    )


def _dropped(report: EarlierReport) -> int:
    """Return the number of responses whose figures a report does not contain."""
    count = report.about.get("responses")
    return max(0, count - len(report.responses)) if isinstance(count, int) else 0


def _sample_note(sampled: Mapping[str, Any]) -> str:
    """Return the note on the sample of responses that a report used, "" if it used all."""
    size = sampled.get("responses")
    total = sampled.get("of")
    if isinstance(size, int) and isinstance(total, int):
        return sample_note(size, total)
    return ""


def _token_shares(tables: Tables) -> pd.DataFrame:
    """Return ``token`` and ``kl_share``, with tokens as in the exported table of a report."""
    tokens = tables.tokens["token"].astype(str).map(without_controls)
    return pd.DataFrame({"token": tokens, "kl_share": tables.tokens["kl_share"]})


def _finding(finding: Mapping[str, Any]) -> ToldFinding:
    """Return a finding of ``report.json`` with what a comparison needs of it."""
    step = section(finding, "onset").get("step")
    title = translatable_title(finding, _text(finding.get("title")))
    # A comparison shows the step alone, not the interval in which the onset may lie.
    onset = None
    if isinstance(step, int):
        onset = Onset(step=step, low=step, high=step)
    return ToldFinding(
        id=_text(finding.get("id")),
        severity=Severity(finding["severity"]),
        rank=Rank.NOTE,  # a comparison does not use it
        onset=onset,
        title=title,
    )


def _sentence(value: object) -> str:
    """Return a sentence of a report, which others may have written, as a line of usual length."""
    return one_line(value, LONGEST_WHAT) if isinstance(value, str) else ""


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: _text(value) for key, value in values.items()}


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)


class Difference(NamedTuple):
    """A setting with its value in run BASE and in run NEW, None where the setting is missing."""

    key: str
    base: str | None
    new: str | None


def settings_that_differ(
    base: ComparedRun, new: ComparedRun
) -> tuple[list[Difference], list[Difference]]:
    """Return (relevant, other) differences; relevant ones start with those that affect training."""
    both_configured = _has_configuration(base) and _has_configuration(new)
    # A setting may be in ``facts`` and ``versions``; it is listed once.
    differences = dict.fromkeys(
        [
            *_differences(base.facts, new.facts),
            *_differences(base.versions, new.versions),
        ]
    )
    relevant: list[Difference] = []
    others: list[Difference] = []
    for setting in differences:
        if _is_relevant(setting, both_configured=both_configured):
            relevant.append(setting)
        else:
            others.append(setting)
    # False sorts before True.
    relevant.sort(key=lambda setting: not affects_training(setting.key))
    return relevant, others


def _has_configuration(run: ComparedRun) -> bool:
    return any(key.startswith("config.") for key in run.facts)


def _differences(base: Mapping[str, str], new: Mapping[str, str]) -> list[Difference]:
    """Return the settings that differ, by name; [] if a run has none."""
    if not base or not new:
        return []
    return [
        Difference(key, base.get(key), new.get(key))
        for key in sorted({*base, *new})
        if base.get(key) != new.get(key)
    ]


def _is_relevant(setting: Difference, *, both_configured: bool) -> bool:
    """Return whether a difference of a setting may explain a difference of the results.

    ``both_configured``: whether both runs have a configuration.
    """
    if not setting.key.startswith("config."):
        return setting.key in ("gamma", "lam")
    # If only one run has a configuration, all its settings differ. A setting that is missing in
    # one run and off in the other does not.
    if not both_configured or {setting.base, setting.new} <= UNSET:
        return False
    return affects_training(setting.key) or not BOOKKEEPING.search(setting.key)


def affects_training(key: str) -> bool:
    """Return whether a setting's name is that of one that affects training."""
    return "version" not in key and bool(_TRAINING.search(key.lower()))
