"""Build the comparison of two runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlreport.check import Thresholds, load_thresholds
from rlreport.comparison import words
from rlreport.comparison.outcome import Gate, Outcome, outcome_of
from rlreport.comparison.run import compared_run
from rlreport.comparison.saved import report_about, seeds_at
from rlreport.deliver.fit import deliver_comparison
from rlreport.deliver.forms import FORMS, form_of
from rlreport.deliver.markdown import append_summary, summary_file
from rlreport.deliver.publish import Destination, check_destination, publishing
from rlreport.draw.comparison import comparison_charts
from rlreport.draw.svg import check_address_space, drawn
from rlreport.errors import UnusableInputError, UsageError
from rlreport.options import CompareOptions
from rlreport.pages.comparison import ComparisonBuilder
from rlreport.system.stores import shown
from rlreport.system.workers import Progress
from rlreport.text.messages import message


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """The result of ``build_comparison``: a written report that compares BASE with NEW."""

    out: Destination  # output path, or URL without credentials
    form: str  # id of the output format, such as ``html``
    size: int  # size of the report in bytes
    # reward difference, guardrails (other metrics, checked for harm), prompts won or lost, findings
    outcome: Outcome

    @property
    def gate(self) -> Gate:
        """Conditions of ``--fail-on``, those that were met, and the exit status of the command."""
        return self.outcome.gate

    @property
    def gate_sentence(self) -> str:
        """The result of ``--fail-on``, or that ``--require-evidence`` is not met; otherwise ""."""
        return words.gate_sentence(self.outcome)

    @property
    def sentence(self) -> str:
        """The verdict as text: broken runs, then the reward difference with its interval."""
        return words.sentence(self.outcome)

    @property
    def notes(self) -> list[str]:
        """Remarks on the comparison, such as limits of its evidence, one sentence each."""
        learning = words.learning(self.outcome)
        return [*([learning] if learning else []), *words.notes(self.outcome)]


def build_comparison(
    bases: Sequence[str | Path],
    news: Sequence[str | Path],
    out: Destination,
    options: CompareOptions,
    progress: Progress,
) -> ComparisonReport:
    """Compare ``news`` with ``bases``, one run or several seeds each, and write a report."""
    form = form_of(out, options.form)
    language = options.language
    limits = load_thresholds(options.thresholds) if options.thresholds else Thresholds()
    form.check(options)
    check_destination(out, form)
    check_address_space()
    summary = summary_file() if options.github_summary else None
    bases, news = (
        [run for path in side for run in seeds_at(path)] for side in (bases, news)
    )
    without_figures = {
        form.suffix: form.words for form in FORMS.values() if not form.comparable
    }
    for run in (*bases, *news):
        if (kind := without_figures.get(Path(run).suffix.lower())) and not Path(
            run
        ).is_dir():
            raise UnusableInputError(
                f"{run}: {kind} has no figures; compare the logs instead"
            )
    if (
        options.metrics
        and sum(report_about(source) is None for source in (*bases, *news)) > 1
    ):
        raise UsageError(
            "--metrics: one metrics file cannot belong to several runs; build a report of each "
            "run with its metrics, and compare the reports"
        )
    runs = [
        compared_run(source, options, limits, progress) for source in (*bases, *news)
    ]
    outcome = outcome_of(runs[: len(bases)], runs[len(bases) :], options)
    title = message(
        "{new} against {base}", new=outcome.new.name, base=outcome.base.name
    )
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
    return ComparisonReport(
        shown(out) if isinstance(out, str) else out, form.id, size, outcome
    )
