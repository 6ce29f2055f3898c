"""Build the comparison of two runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from rlreport.about.card import Card
from rlreport.check import Thresholds, judge, load_thresholds
from rlreport.check.run import Run
from rlreport.check.sentence import with_texts
from rlreport.check.spreading import spreading_texts
from rlreport.comparison.guardrail_words import caveats
from rlreport.comparison.headline import changed, run_lines, sentence
from rlreport.comparison.learning import learning
from rlreport.comparison.omitted import OmittedPrompts, conditions_of
from rlreport.comparison.outcome import Gate, Outcome, outcome_of
from rlreport.comparison.prompt_words import prompts_note
from rlreport.comparison.remarks import gate_sentence, notes
from rlreport.comparison.run import ComparedRun, of_logs, of_report
from rlreport.comparison.saved import earlier_report, report_about, seeds_at
from rlreport.comparison.why import why
from rlreport.deliver.deliver import deliver
from rlreport.deliver.form import Form
from rlreport.deliver.forms import FORMS, form_of
from rlreport.deliver.markdown import append_summary, summary_file
from rlreport.deliver.publish import Destination, check_destination, publishing
from rlreport.draw.comparison import comparison_charts
from rlreport.draw.svg import drawn
from rlreport.draw.vega import check_address_space
from rlreport.errors import UnusableInputError, UsageError
from rlreport.flows.hidden_runs import (
    hidden_in_words,
    hidden_report,
    learn_fields,
    names_of_runs,
    public_side,
)
from rlreport.flows.hide import hide_names, hide_texts
from rlreport.flows.load import load_run
from rlreport.options import CompareOptions
from rlreport.pages.comparison import ComparisonPages
from rlreport.pages.public import private_names
from rlreport.system.stores import shown
from rlreport.system.workers import Progress
from rlreport.text.clean import printable
from rlreport.text.messages import message
from rlreport.text.private import PrivateNames


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """The result of ``build_comparison``: a written report that compares BASE with NEW."""

    out: Destination  # output path, or URL without credentials
    form: str  # id of the output format, such as ``html``
    size: int  # size of the report in bytes
    # reward difference, guardrails (other metrics, checked for harm), prompts won or lost, findings
    outcome: Outcome
    first_page: ClassVar[str] = "compare.html"  # of a folder

    def __repr__(self) -> str:
        """Return the result, the remarks and the result of ``fail_on``, and the path."""
        lines = [self.sentence, *self.notes, self.gate_sentence, str(self.out)]
        return "\n".join(printable(line) for line in lines if line)

    @property
    def gate(self) -> Gate:
        """Conditions of ``--fail-on``, those that were met, and the exit status of the command."""
        return self.outcome.gate

    @property
    def gate_sentence(self) -> str:
        """The result of ``--fail-on``, or that ``--require-evidence`` is not met; otherwise ""."""
        return gate_sentence(self.outcome)

    @property
    def sentence(self) -> str:
        """The result as text: broken runs, then the reward difference with its interval."""
        return sentence(self.outcome)

    @property
    def notes(self) -> list[str]:
        """Broken and warned runs, settings that differ, what the difference goes with, limits."""
        remarks = [
            *run_lines(self.outcome),
            changed(self.outcome),
            why(self.outcome),
            prompts_note(self.outcome.comparison),
            learning(self.outcome),
            caveats(self.outcome),
            *notes(self.outcome),
        ]
        return [remark for remark in remarks if remark]


def build_comparison(
    bases: Sequence[str | Path],
    news: Sequence[str | Path],
    out: Destination,
    options: CompareOptions,
    progress: Progress,
) -> ComparisonReport:
    """Compare ``news`` with ``bases``, one run or several seeds each, and write a report.

    What can be refused is refused before the runs are read, which may take long.
    """
    form = form_of(out, options.form)
    thresholds = Thresholds()
    if options.thresholds:
        thresholds = load_thresholds(options.thresholds)
    form.check(options)
    check_destination(out, form)
    check_address_space()
    summary = summary_file() if options.github_summary else None
    bases = _seeds(bases)
    news = _seeds(news)
    _refuse_incomparable([*bases, *news], options)
    names = names_of_runs([*bases, *news]) if options.public else None
    load = partial(
        compared_run,
        options=options,
        thresholds=thresholds,
        progress=progress,
        names=names,
    )
    base_runs = list(map(load, bases))
    new_runs = list(map(load, news))
    if names is not None:
        for run in (*base_runs, *new_runs):
            learn_fields(names, run)
        base_runs = public_side(base_runs, "base", names)
        new_runs = public_side(new_runs, "new", names)
    with progress.stage(message("comparing")):
        outcome = outcome_of(base_runs, new_runs, options)
        outcome = replace(outcome, hidden_in_words=hidden_in_words(options, names))
    with progress.stage(message("drawing")):
        pages = _pages(outcome, options, form)
    max_size = options.max_size or form.default_size
    with publishing(out, form) as path:
        # The pages that were written may have fewer details, to fit in the size.
        pages, size = deliver(path, form, pages, limit=max_size, progress=progress)
    if summary:
        append_summary(pages, summary)
    return ComparisonReport(
        out=shown(out) if isinstance(out, str) else out,
        form=form.id,
        size=size,
        outcome=outcome,
    )


def _seeds(runs: Sequence[str | Path]) -> list[str | Path]:
    """Return the runs of one side; a folder of seeds stands for the runs in it."""
    seeds: list[str | Path] = []
    for run in runs:
        seeds += seeds_at(run)
    return seeds


def _refuse_incomparable(runs: Sequence[str | Path], options: CompareOptions) -> None:
    """Raise an error for reports without figures, and for metrics that would be of several runs."""
    # Suffix -> what a report with it is, such as "mail"
    without_figures = {
        form.suffix: form.words for form in FORMS.values() if not form.comparable
    }
    for run in runs:
        kind = without_figures.get(Path(run).suffix.lower())
        # A folder of logs may have any name.
        if kind and not Path(run).is_dir():
            raise UnusableInputError(
                f"{run}: {kind} has no figures; compare the logs instead"
            )
    if not options.metrics:
        return
    # Earlier reports have their own metrics.
    logs = [run for run in runs if report_about(run) is None]
    if len(logs) > 1:
        raise UsageError(
            "--metrics: one metrics file cannot belong to several runs; build a report of each "
            "run with its metrics, and compare the reports"
        )


def compared_run(
    path: str | Path,
    options: CompareOptions,
    thresholds: Thresholds,
    progress: Progress,
    names: PrivateNames | None = None,
) -> ComparedRun:
    """Return one run, from its logs or from an earlier report (folder, zip or one file).

    A report was judged when it was built; ``thresholds`` are for logs. ``names`` hides those of a
    public comparison, None if it is not public.
    """
    conditions = conditions_of(options.omit_prompts)
    report = earlier_report(path)
    if report:
        run = of_report(report, options.pair_by)
        return hidden_report(run, report, conditions, public=options.public)
    loaded = load_run([path], options, progress)
    if names is not None:
        names.learn(private_names(Card(), loaded.tables, [path], ""))
    omitted = OmittedPrompts.of(loaded.tables, conditions)
    card = Card()  # the settings that are compared are read from the logs' folder
    named = hide_names(loaded, card, options, names)
    tables = named.tables.without_step_in_progress()
    with progress.stage(message("checking")):
        judged_run = Run(tables, thresholds)
        judged = judge(judged_run)
    rollouts = named.rollouts
    if omitted and not options.redact:
        phrases = spreading_texts(judged_run)
        hidden = hide_texts(judged, phrases, tables, rollouts, omitted, options)
        judged = hidden.judged
        rollouts = hidden.rollouts
        # Pairs are found by the fields as they are logged.
        tables = replace(tables, tokens=hidden.tables.tokens)
    verdict = with_texts(judged)
    return of_logs(path, named.name, tables, rollouts, verdict, options)


def _pages(outcome: Outcome, options: CompareOptions, form: Form) -> ComparisonPages:
    """Return the pages of a comparison with all details, before they are fitted in a size."""
    labels = outcome.labels
    title = message("{new} against {base}", new=labels.new, base=labels.against)
    return ComparisonPages(
        outcome=outcome,
        title=options.title or options.language.of(title),
        options=options,
        encode=form.encode,
        one_file=form.one_file,
        shown=len(outcome.flips),  # all prompts that were won or lost
        with_tokens=len(outcome.flips),
        charts=drawn(comparison_charts(outcome), options.language),
    )
