"""``rlreport check``."""

from __future__ import annotations

import sys
from typing import Any

import click

from rlreport.cli.options import READING, fail_on_option, options
from rlreport.cli.say import say, say_json
from rlreport.options import BuildOptions, FigureOptions, ReadOptions, part
from rlreport.text.language import Language


@click.command()
@click.argument("logs", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as in findings.json.")
@options(BuildOptions, *READING, "thresholds", "mute", "lang", "quiet")
@fail_on_option
def check(logs: tuple[str, ...], as_json: bool, fail_on: Any, **given: Any) -> None:
    """Run the health checks on the rollout LOGS and print the findings, without a report.

    \b
    Examples:
      rlreport check logs/
      rlreport check logs/ --json --fail-on warning
    """
    from rlreport.bake.script_json import canonical_json
    from rlreport.check import Thresholds, findings_json, judge, load_thresholds
    from rlreport.check.registry import refuse_unknown
    from rlreport.check.run import Run
    from rlreport.check.wording import with_excerpts, worded
    from rlreport.cli.terminal import verdict_lines
    from rlreport.display import fetch, prompt_texts
    from rlreport.metrics import metrics_beside
    from rlreport.progress import progress_unless
    from rlreport.read.logs import read_logs
    from rlreport.summarise import summarise

    read, figures = part(ReadOptions, given), part(FigureOptions, given)
    quiet = given["quiet"] or as_json
    refuse_unknown(given["mute"])
    limits = load_thresholds(given["thresholds"]) if given["thresholds"] else Thresholds()
    metrics = metrics_beside(logs, read.metrics)
    scan = read_logs(logs, read, figures, progress_unless(quiet), metrics.paths)
    tables = summarise(scan, prompt_texts(scan, read), metrics)
    found = judge(Run(tables, limits), muted=given["mute"])
    locations = scan.locations()
    verdict = worded(
        with_excerpts(found, tables.responses, lambda rows: fetch(locations, rows, read, figures)),
        sample_note=tables.sample_note,
    )
    if as_json:
        say_json(canonical_json(findings_json(verdict), indent=True))
    elif not quiet:
        for line in verdict_lines(verdict):
            say(Language(given["lang"]).of(line))
    if fail_on and verdict.reaches(fail_on):
        sys.exit(1)
