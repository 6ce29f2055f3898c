"""The command ``rlreport watch``, which rebuilds a report while its logs grow."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlreport.cli.commands import FAILED, LISTED_IN_BUILD, BuildCommand, build
from rlreport.cli.option import option
from rlreport.cli.settings import set_by
from rlreport.cli.terminal import page_to_open, say, say_path
from rlreport.deliver.forms import form_of
from rlreport.errors import RlreportError

if TYPE_CHECKING:
    from rlreport.flows.build import Report


_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


def duration(value: str) -> float:
    """Parse ``30s``, ``5m``, ``2h``, ``1d`` or ``90`` into seconds; 0 raises BadParameter."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", value.strip())
    if not match or not float(match[1]):
        raise click.BadParameter(f"{value!r} is not a time such as 30s, 5m or 2h")
    return float(match[1]) * _SECONDS[match[2]]


# Options of ``build`` that ``watch`` has not
_ONLY_BUILD = ("in_progress", "open_page", "verbose")
_LISTED = [name for name in LISTED_IN_BUILD if name not in _ONLY_BUILD]


@click.command(
    cls=BuildCommand,
    params=[param for param in build.params if param.name not in _ONLY_BUILD],
    listed=(*_LISTED, "every", "until_idle", "live"),
)
@option(
    "--every",
    type=duration,
    metavar="TIME",
    default="5m",
    show_default=True,
    help="Interval between checks for new data.",
    group="Updates",
    from_file="value",
)
@option(
    "--until-idle",
    type=duration,
    metavar="TIME",
    help="End when the logs have not changed for this long, e.g. 2h.",
    group="Updates",
    from_file="value",
)
@option(
    "--live",
    is_flag=True,
    help="Reload pages open in a browser after a rebuild (folder format).",
    group="Updates",
    from_file="value",
)
def watch(
    logs: tuple[str, ...],
    out: str,
    *,
    every: float,
    until_idle: float | None,
    live: bool,
    fail_on: Any,
    **given: Any,
) -> None:
    """Rebuild the report of the rollout LOGS whenever they grow.

    Takes the options of 'rlreport build' and ends with the exit status of the last report. While
    the logs grow, the newest step is marked and excluded from the checks.

    \b
    Examples:
      rlreport watch logs/ -o report --cache auto --live
      rlreport watch logs/ -o report --every 1m --until-idle 2h --fail-on critical
    """
    from rlreport.check.registry import load_thresholds, refuse_unknown
    from rlreport.read.listing import is_url, state_of
    from rlreport.system.own_output import refuse_own_output

    # What would fail every build ends the command at once.
    form_of(out, given["form"])
    refuse_unknown(given["mute"])
    if given["thresholds"]:
        load_thresholds(given["thresholds"])
    # A report does not grow: waiting for it would never end.
    refuse_own_output(Path(log) for log in logs if not is_url(log))
    # Pages open in a browser look for a newer report as often as this command looks for data.
    given["live"] = max(1, int(every)) if live else 0
    given["set_by"] = set_by(click.get_current_context())
    report: Report | None = None  # the last one that was built
    last_state: object = None  # of the logs; None before the first look at them
    grew = False  # whether the logs have grown since the first look
    failed = False  # whether the last build failed
    change_time = time.monotonic()
    try:
        while True:
            state = state_of(logs)
            changed = state != last_state
            if changed:
                grew = last_state is not None
                last_state = state
                change_time = time.monotonic()
            idle = time.monotonic() - change_time
            ending = until_idle is not None and not changed and idle >= until_idle
            # If logs grew, the last report has its newest step marked: it is built once more at the
            # end, when that step counts as complete.
            if changed or failed or (ending and grew):
                in_progress = grew and not ending
                new_report = _build(logs, out, {**given, "in_progress": in_progress})
                failed = new_report is None
                if report is None:  # from the first one on, the page can be opened
                    _say_page(new_report, quiet=given["quiet"])
                report = new_report or report
            if ending:
                break
            wait = every if until_idle is None else min(every, until_idle - idle)
            time.sleep(max(0.1, wait))  # no busy loop shortly before the end
    except KeyboardInterrupt:  # the usual end without ``until_idle``
        if report is None:
            raise
        # Otherwise the last report was written completely, and its status counts.
    if failed:
        consequence = (
            "the last report shows earlier logs" if report else "there is no report"
        )
        say(f"ended after a failed build; {consequence}", err=True)
    _say_page(report, quiet=given["quiet"])
    if report and fail_on and report.verdict.reaches(fail_on):
        sys.exit(FAILED)
    if report is None:
        sys.exit(2)


def _say_page(report: Report | None, *, quiet: bool) -> None:
    """Print the path of the page to open, if there is a report."""
    if report is not None and not quiet:
        say_path(page_to_open(report))


def _build(logs: tuple[str, ...], out: str, given: dict[str, Any]) -> Report | None:
    """Build a report and print a line with the time; return None if the build failed.

    ``given`` are the options; if ``quiet``, only errors are printed.
    """
    from rlreport.api import build as build_report
    from rlreport.tables import counted_responses
    from rlreport.text.messages import sentences

    quiet = given["quiet"]
    now = time.strftime("%H:%M:%S")
    try:
        report = build_report(logs, out, **{**given, "quiet": True})
    except (RlreportError, OSError) as error:
        first_line = str(error).partition("\n")[0]
        say(f"{now}  {first_line}", err=True)
        return None
    if not quiet:
        tables = report.tables
        newest = tables.steps["step"].iloc[-1]
        splits = tables.responses["validation"]
        responses = f", {counted_responses(splits)}" if len(splits) else ""
        verdict = sentences([report.verdict.what, report.verdict.next])
        verdict = report.language.of(verdict)
        say(f"{now}  step {newest}{responses}: {verdict}")
    return report
