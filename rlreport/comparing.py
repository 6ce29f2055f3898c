"""Build the report that compares two runs: read → compare → draw → bake → deliver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlreport.bake.comparison import ComparisonBuilder
from rlreport.bake.report import stamp
from rlreport.check import Thresholds, load_thresholds
from rlreport.comparison import outcome as words
from rlreport.comparison.outcome import Gate, Outcome, outcome_of
from rlreport.comparison.reports import report_about
from rlreport.comparison.run import compared_run
from rlreport.deliver import form_of
from rlreport.deliver.fit import deliver_comparison
from rlreport.deliver.markdown import append_summary, summary_file
from rlreport.deliver.publish import Destination, check_destination, publishing
from rlreport.draw.step import comparison_charts
from rlreport.draw.svg import check_address_space, drawn
from rlreport.errors import UsageError
from rlreport.options import CompareOptions
from rlreport.system.stores import shown
from rlreport.system.workers import Progress
from rlreport.text.messages import message


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """The result of ``build_comparison``: a written report that compares BASE with NEW."""

    out: Destination  # output path, or URL without credentials
    form: str  # id of the output format, such as ``html``
    size: int  # size of the report in bytes
    # the results: reward difference, guardrails (other metrics, checked for harm), prompts won or
    # lost, findings
    outcome: Outcome

    @property
    def gate(self) -> Gate:
        """The result of ``--fail-on`` (gate): its conditions, those that were met, exit status."""
        return self.outcome.gate

    @property
    def gate_sentence(self) -> str:
        """The result of ``--fail-on`` (gate) as a sentence, "" if that option is not given."""
        return words.gate_sentence(self.outcome)

    @property
    def sentence(self) -> str:
        """The verdict as text: runs that broke, then the reward difference with its interval."""
        return words.sentence(self.outcome)

    @property
    def notes(self) -> list[str]:
        """What readers should know about the comparison, one sentence each."""
        return words.notes(self.outcome)


def build_comparison(
    bases: Sequence[str | Path],
    new: str | Path,
    out: Destination,
    options: CompareOptions,
    progress: Progress,
) -> ComparisonReport:
    """Write the report that compares the run ``new`` with ``bases``: one run, or several seeds.

    If that fails, an earlier report at ``out`` is unchanged.

    Raises:
        RlreportError: an option, a run or the destination cannot be used.
    """
    form, language = form_of(out, options.form), options.language
    limits = load_thresholds(options.thresholds) if options.thresholds else Thresholds()
    form.check(options)
    check_destination(out, form)
    check_address_space()
    summary = summary_file() if options.github_summary else None
    if options.metrics and sum(report_about(source) is None for source in (*bases, new)) > 1:
        raise UsageError(
            "--metrics: one metrics file cannot belong to several runs; build a report of each "
            "run with its metrics, and compare the reports"
        )
    runs = [compared_run(source, options, limits, progress) for source in (*bases, new)]
    outcome = outcome_of(runs[:-1], runs[-1], options)
    title = message("{new} against {base}", new=outcome.new.name, base=outcome.base.name)
    comparison = outcome.comparison
    charts = comparison_charts(
        comparison.windows.common.astype(float),
        *comparison.curves,
        comparison.band,
        comparison.paths,
    )
    builder = ComparisonBuilder(
        outcome,
        options.title or language.of(title),
        options,
        stamp(options),
        form.finish,
        form.one_file,
        len(outcome.flips),
        drawn(charts, language),
    )
    with publishing(out, form) as path:
        builder, size = deliver_comparison(
            path, form, options.max_size or form.default_size, builder
        )
    if summary:
        append_summary(builder, summary)
    return ComparisonReport(shown(out) if isinstance(out, str) else out, form.id, size, outcome)
