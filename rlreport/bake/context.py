"""What every page of one report shares; small and picklable, so that workers can bake pages."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

from rlreport.bake.views import ColumnView
from rlreport.check.finding import Finding, Verdict
from rlreport.draw.step import StepDesigns
from rlreport.options import FigureOptions, ReadOptions, ReportOptions


@dataclass(frozen=True, slots=True)
class PageContext:
    """Facts that pages need beyond their own rows.

    Attributes:
        run: name of the run.
        steps: the table of steps.
        shown_steps: steps with a page, ascending.
        verdict: outcome of the checks.
        columns: numeric columns of the response list, for every step the same.
        string_columns: short-string columns as logged.
        text_columns: ``prompt``, ``response`` and what else is logged.
        first_rows: response table of the first step, for the ghost histogram.
        designs: specifications of the step charts without data.
        usual_responses: responses of a usual step, None when steps differ.
        file_names: log files by index.
        metrics_names: files of trainer metrics.
        one_file: pages are views of one file.
        advantages_logged: advantages are the log's, not recomputed.
        left_out: sentences about what is not shown.
        asset_files: logical name -> file of the shared assets, empty in one file.
    """

    run: str
    steps: pd.DataFrame
    shown_steps: list[int]
    verdict: Verdict
    columns: list[ColumnView]
    string_columns: list[ColumnView]
    text_columns: list[ColumnView]
    first_rows: pd.DataFrame
    designs: StepDesigns
    usual_responses: int | None
    file_names: list[str]
    metrics_names: list[str]
    report: ReportOptions
    read: ReadOptions
    figures: FigureOptions
    one_file: bool = False
    advantages_logged: bool = False
    left_out: list[str] = field(default_factory=list)
    asset_files: dict[str, str] = field(default_factory=dict)
    stamp: str = ""

    def findings_at(self, step: int) -> list[Finding]:
        """Findings that name ``step``, or a response of it."""
        return [
            finding
            for finding in self.verdict.findings
            if step in finding.steps or any(ref.step == step for ref in finding.responses)
        ]
