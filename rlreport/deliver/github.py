"""Job summaries of GitHub Actions: the Markdown format without pictures."""

from __future__ import annotations

import os
from pathlib import Path

from rlreport.deliver.form import Builder
from rlreport.errors import OutputError, UsageError

VARIABLE = "GITHUB_STEP_SUMMARY"
MOST_BYTES = 1_048_576
"""Maximum size of the summary of one step."""


def summary_file() -> Path:
    """Return the file from which the runner reads the job summary.

    Raises:
        UsageError: not running in GitHub Actions.
    """
    name = os.environ.get(VARIABLE)
    if not name:
        raise UsageError(f"--github-summary: {VARIABLE} is not set; use it in GitHub Actions")
    return Path(name)


def append_summary(builder: Builder, file: Path) -> None:
    """Append the summary with as much detail as fits.

    Raises:
        OutputError: the file is full or cannot be written.
    """
    from rlreport.deliver.markdown import MOST_CHARACTERS, summary_text

    try:
        used = file.stat().st_size if file.exists() else 0
        room = MOST_BYTES - used - 1
        text = summary_text(builder, most_bytes=min(room, 4 * MOST_CHARACTERS)).encode()
        if len(text) > room:
            raise OutputError(f"{VARIABLE}: is full; GitHub accepts {MOST_BYTES:,} bytes")
        with file.open("ab") as stream:
            stream.write(b"\n" + text)
    except OSError as error:
        raise OutputError(f"{VARIABLE}: cannot be written: {error.strerror}") from error
