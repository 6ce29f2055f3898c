"""The summary of a GitHub Actions job: the Markdown form, appended where the runner says."""

from __future__ import annotations

import os
from pathlib import Path

from rlreport.deliver.form import Builder
from rlreport.errors import OutputError, UsageError

VARIABLE = "GITHUB_STEP_SUMMARY"
MOST_BYTES = 1_048_576
"""What GitHub takes as the summary of one step."""


def summary_file() -> Path:
    """The file that the runner reads the job's summary from.

    Raises:
        UsageError: there is none: this is no step of GitHub Actions.
    """
    name = os.environ.get(VARIABLE)
    if not name:
        raise UsageError(f"--github-summary: {VARIABLE} is not set; this is for GitHub Actions")
    return Path(name)


def append_summary(builder: Builder, file: Path) -> None:
    """Appends the summary, without pictures, as detailed as the file has room for.

    Raises:
        OutputError: the file is full or cannot be written.
    """
    from rlreport.deliver.markdown import MOST_CHARACTERS, summary_text  # few reports need it

    try:
        taken = file.stat().st_size if file.exists() else 0
        room = MOST_BYTES - taken - 1
        text = summary_text(builder, most_bytes=min(room, 4 * MOST_CHARACTERS)).encode()
        if len(text) > room:
            raise OutputError(f"{VARIABLE}: has no room left, GitHub takes {MOST_BYTES:,} bytes")
        with file.open("ab") as stream:
            stream.write(b"\n" + text)
    except OSError as error:
        raise OutputError(f"{VARIABLE}: cannot be written: {error.strerror}") from error
