"""``rlreport compare``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from rlreport.cli.options import OUT, options
from rlreport.cli.terminal import say
from rlreport.errors import UsageError
from rlreport.options import CompareOptions
from rlreport.text.language import Language


@click.command(short_help="Compare two runs.")
@click.argument("runs", nargs=-1, required=True, metavar="BASE... NEW")
@click.option(
    "-o",
    "--out",
    type=OUT,
    default=Path("comparison"),
    show_default=True,
    help="Output path, or URL such as s3://bucket/run; the suffix selects the format as in "
    "'rlreport build'.",
)
@options(CompareOptions)
def compare(runs: tuple[str, ...], out: Path | str, **given: Any) -> None:
    """Compare the run NEW with BASE: logs, or earlier reports (folder, .zip, .html).

    Give BASE several times for several seeds. Exit status: 1 if a --fail-on condition is met, 2
    for unusable input, 3 if --require-evidence found no difference, otherwise 0. With status 1
    and 3 the comparison is still written.

    \b
    Examples:
      rlreport compare main-report/ logs/ -o comparison
      rlreport compare seed1/ seed2/ seed3/ new/ -o comparison.html
      rlreport compare main.zip logs/ -o comment.md --fail-on worse --margin 0.01
    """
    from rlreport.api import compare as compare_runs
    from rlreport.deliver.publish import page_at

    if len(runs) < 2:
        raise UsageError("compare: give BASE and NEW, logs or earlier reports")
    if str(out) == "-":
        raise UsageError("-o -: compare needs an output path")
    comparison = compare_runs(runs[:-1], runs[-1], out, **given)
    if not given["quiet"]:
        translate = Language(given["lang"]).of
        say(translate(comparison.sentence))
        for note in comparison.notes:
            say(f"  {translate(note)}")
        if comparison.gate_sentence:
            say(translate(comparison.gate_sentence))
        is_folder = comparison.form == "folder"
        say(str(page_at(comparison.out, "compare.html") if is_folder else comparison.out))
    if comparison.gate.exit:
        sys.exit(comparison.gate.exit)
