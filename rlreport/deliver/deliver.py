"""Write a report in an output form, with as much detail as its size limit allows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TypeVar

from rlreport.deliver.form import Deliverable, Form
from rlreport.deliver.publish import size_of, write_manifests
from rlreport.system.own_output import pictures_of
from rlreport.system.workers import Progress
from rlreport.text.messages import message

D = TypeVar("D", bound=Deliverable)


def deliver(
    path: Path, form: Form, report: D, *, limit: int, progress: Progress
) -> tuple[D, int]:
    """Write the most detailed report of up to ``limit`` bytes; return it and its size.

    Raises:
        OutputError: even the smallest version is too large.
    """

    def write(version: D) -> int:
        """Write a version in place of the one before; return its size in bytes."""
        with progress.stage(message("writing")):
            _remove(path, form)
            form.write(version, path)
            write_manifests(path, form)
            return size_of(path)

    return report.fitted(write, limit, with_steps=form.pages)


def _remove(path: Path, form: Form) -> None:
    """Remove a version that was too large; a folder stays, empty."""
    if form.folder:
        shutil.rmtree(path)
        path.mkdir()
    else:
        path.unlink(missing_ok=True)
        shutil.rmtree(pictures_of(path), ignore_errors=True)
