"""The comparison: runs → compare → draw → bake → deliver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlreport.bake.comparison import (
    ComparisonBuilder,
    ComparisonContext,
    ComparisonVerdict,
    charts_of,
)
from rlreport.bake.report import stamp
from rlreport.check import Thresholds, load_thresholds
from rlreport.comparison.earlier import report_about
from rlreport.comparison.outcome import Gate, Outcome, outcome_of
from rlreport.comparison.run import compared_run
from rlreport.comparison.words import failures, notes, sentence
from rlreport.deliver import form_of
from rlreport.deliver.fit import deliver_comparison
from rlreport.deliver.markdown import append_summary, summary_file
from rlreport.deliver.publish import Destination, check_destination, publishing
from rlreport.errors import UsageError
from rlreport.options import CompareOptions, FigureOptions, ReadOptions, ReportOptions, part
from rlreport.progress import Progress
from rlreport.read.remote import shown
from rlreport.text.messages import message


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """A comparison that was written.

    Attributes:
        out: its path or URL.
        form: id of its format.
        size: bytes.
        outcome: the comparison: effect, guardrails, flips, findings.
        gate: the conditions that failed, and the exit status.
        sentence: the verdict in words.
        notes: sentences on its limits.
    """

    out: Destination
    form: str
    size: int
    outcome: Outcome
    gate: Gate
    sentence: str
    notes: list[str]

    @property
    def gate_sentence(self) -> str:
        """Result of the gate, "" without ``fail_on``."""
        return failures(self.outcome)


def build_comparison(
    bases: Sequence[str | Path],
    new: str | Path,
    out: Destination,
    options: CompareOptions,
    progress: Progress,
) -> ComparisonReport:
    """Compare runs and write the comparison; ``out`` is replaced whole or left as it was.

    Raises:
        RlreportError: an option, a run or the destination cannot be used.
    """
    read, report = part(ReadOptions, options), part(ReportOptions, options)
    chosen_form = form_of(out, report.form)
    limits = load_thresholds(report.thresholds) if report.thresholds else Thresholds()
    chosen_form.check(report)
    check_destination(out, chosen_form)
    summary = summary_file() if report.github_summary else None
    if read.metrics and sum(report_about(given) is None for given in (*bases, new)) > 1:
        raise UsageError(
            "--metrics: the metrics of one trainer do not fit several runs; build a report of each "
            "run with its metrics, and compare the reports"
        )
    runs = [
        compared_run(
            given,
            pair_by=options.pair_by,
            read=read,
            figures=part(FigureOptions, options),
            thresholds=limits,
            progress=progress,
        )
        for given in (*bases, new)
    ]
    outcome = outcome_of(
        runs[:-1],
        runs[-1],
        seed=report.seed,
        fail_on=options.fail_on,
        margin=options.margin,
        require_evidence=options.require_evidence,
        redact=bool(report.redact),
    )
    title = message("{new} against {base}", new=outcome.new.name, base=outcome.base.name)
    builder = ComparisonBuilder(
        outcome,
        ComparisonContext(
            report.title or report.language.of(title),
            report,
            stamp(report),
            ComparisonVerdict(outcome.comparison.level, report.language.of(sentence(outcome))),
        ),
        chosen_form.finish,
        chosen_form.one_file,
        len(outcome.flips),
        charts_of(outcome, report.language),
    )
    limit = report.max_size or chosen_form.default_size
    with publishing(out, chosen_form) as path:
        builder, size = deliver_comparison(path, chosen_form, limit, builder)
    if summary:
        append_summary(builder, summary)
    return ComparisonReport(
        shown(out) if isinstance(out, str) else out,
        chosen_form.id,
        size,
        outcome,
        outcome.gate,
        sentence(outcome),
        notes(outcome),
    )
