"""``rlreport check``."""

from __future__ import annotations

import sys
from typing import Any

import click

from rlreport.cli.say import say, say_json
from rlreport.cli.shared import (
    judging_options,
    language_option,
    mutes,
    read_options,
    reading_options,
)
from rlreport.text.language import Language


@click.command()
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON, as in findings.json.")
@judging_options
@language_option
def check(logs: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Run the health checks on the rollout LOGS and say what they find, without a report.

    \b
    Examples:
      rlreport check logs/
      rlreport check logs/ --json --fail-on warning
    """
    from rlreport.bake.script_json import canonical_json
    from rlreport.check import Thresholds, findings_json, judge, load_thresholds
    from rlreport.check.excerpts import with_excerpts
    from rlreport.check.run import Run
    from rlreport.check.wording import worded
    from rlreport.cli.terminal import Terminal, verdict_lines
    from rlreport.display import fetch, prompt_texts
    from rlreport.metrics import metrics_beside
    from rlreport.read.logs import read_logs
    from rlreport.summarise import summarise

    read, figures = read_options(given)
    terminal = Terminal(quiet=given.pop("quiet") or as_json)
    path, muted = given.pop("thresholds"), mutes(given.pop("mute"))
    limits = load_thresholds(path) if path else Thresholds()
    metrics = metrics_beside(logs, read.metrics)
    scan = read_logs(logs, read, figures, terminal.progress, metrics.paths)
    tables = summarise(scan, prompt_texts(scan, read), metrics)
    found = judge(Run(tables, limits), muted=muted)
    locations = scan.locations()
    verdict = worded(
        with_excerpts(found, tables.responses, lambda rows: fetch(locations, rows, read, figures)),
        sample_note=tables.sample_note,
    )
    if as_json:
        say_json(canonical_json(findings_json(verdict), indent=True))
    elif not terminal.quiet:
        for line in verdict_lines(verdict):
            say(Language(given["lang"]).of(line))
    fail_on = given.pop("fail_on")
    if fail_on and verdict.reaches(fail_on):
        sys.exit(1)
