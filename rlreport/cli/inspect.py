"""``rlreport inspect``."""

from __future__ import annotations

from typing import Any

import click

from rlreport.cli.options import READING, options
from rlreport.cli.say import say
from rlreport.options import BuildOptions, FigureOptions, ReadOptions, part


@click.command()
@click.argument("logs", nargs=-1, required=True)
@options(BuildOptions, *READING, "quiet")
def inspect(logs: tuple[str, ...], **given: Any) -> None:
    """Print what is in the rollout LOGS: files, steps, fields, and lines that cannot be read.

    \b
    Examples:
      rlreport inspect logs/
      rlreport inspect run.jsonl --map reward=score
    """
    from rlreport.bake.data_page import note_in_words
    from rlreport.cli.terminal import location
    from rlreport.fields import CANONICAL, FIELDS
    from rlreport.metrics import metrics_beside
    from rlreport.progress import progress_unless
    from rlreport.read.logs import read_logs
    from rlreport.summarise import commonest
    from rlreport.text.messages import steps_in_words
    from rlreport.text.numbers import byte_size, counted

    read, figures = part(ReadOptions, given), part(FigureOptions, given)
    metrics = metrics_beside(logs, read.metrics)
    scan = read_logs(logs, read, figures, progress_unless(given["quiet"]), metrics.paths)
    counts = scan.responses["step"].value_counts()
    usual = commonest(counts.to_numpy())
    say(
        f"{counted(len(scan.responses), 'response')} over {counted(len(counts), 'step')} "
        f"({scan.responses['step'].min()}–{scan.responses['step'].max()})"
        + ("" if usual is None else f", usually {usual:,} a step")
    )
    short = counts[counts < (usual or 0)]
    if len(short):
        say(f"incomplete: {steps_in_words(short.index)}")
    say()
    say("files")
    for file in scan.files:
        left_out = f", {file.bad:,} left out" if file.bad else ""
        say(
            f"  {file.name}  {file.format}, {byte_size(file.size)}, "
            f"{file.rows:,} responses{left_out}" + (f" ({file.why})" if file.why else "")
        )
    if metrics.files:
        say()
        say("trainer metrics")
        for beside in metrics.files:
            of = f"{counted(len(beside.metrics), 'metric')} of {counted(beside.steps, 'step')}"
            say(f"  {beside.name}  {of}")
    say()
    say("fields")
    rows = len(scan.responses)
    for field in FIELDS:
        found = scan.fields.get(field.name, 0)
        state = "all rows" if found == rows else (f"{found:,} rows" if found else "missing")
        say(
            f"  {field.name:18} {state:12} {field.meaning}{'' if field.required else ' (optional)'}"
        )
    for name in (name for name in scan.extras.columns if name not in CANONICAL):
        say(f"  {str(name)[:40]:18} {scan.fields.get(str(name), 0):,} rows   as logged")
    notes = [*scan.notes, *metrics.notes]
    if notes:
        say()
        say("notes")
        for note in notes:
            say(f"  {note_in_words(note)}")
    if scan.bad_lines:
        say()
        say(f"left out: {scan.bad_count:,}")
        for bad in scan.bad_lines:
            say(f"  {location(bad)}: {bad.reason}")
