"""Output formats, chosen by the suffix of the output path or by ``--format``."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path

from rlreport.deliver.form import Form
from rlreport.errors import UsageError

FORMS = {
    "folder": "rlreport.deliver.folder:FOLDER",
    "html": "rlreport.deliver.one_file:FORM",
    "email": "rlreport.deliver.email:FORM",
    "markdown": "rlreport.deliver.markdown:FORM",
    "zip": "rlreport.deliver.folder:ZIP",
}
"""Id of each format -> where it is; imported on first use."""

OTHER_SUFFIXES = {
    *(".csv", ".tsv", ".json", ".jsonl", ".xml", ".yaml", ".toml", ".txt", ".log", ".parquet"),
    *(".pdf", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".doc", ".docx", ".xlsx", ".pptx"),
    *(".htm", ".xhtml", ".rst", ".tex", ".ipynb", ".py"),
    *(".gz", ".zst", ".xz", ".bz2", ".tar", ".7z"),
}
"""Suffixes of other kinds of files: a folder of such a name would surprise."""

__all__ = ["FORMS", "Form", "form_of", "forms"]


@cache
def forms() -> dict[str, Form]:
    """Return all formats by id."""
    return {name: _form(name) for name in FORMS}


def form_of(out: Path | str, name: str | None = None) -> Form:
    """Return the format with the id ``name``, else that of the suffix of OUT, else the folder.

    Raises:
        UsageError: there is no such format, or the suffix is that of another kind of file.
    """
    suffix = Path(out).suffix.lower()
    if name is None and not suffix:
        name = "folder"  # without importing the others
    if name is None:
        by_suffix = {form.suffix: form for form in reversed(forms().values())}
        if suffix in OTHER_SUFFIXES - by_suffix.keys():
            known = ", ".join(sorted(filter(None, by_suffix)))
            raise UsageError(
                f"{out}: reports cannot be written as {suffix}; use {known} or --format"
            )
        return by_suffix.get(suffix, _form("folder"))
    if name not in FORMS:
        raise UsageError(f"--format {name}: unknown; choose one of {', '.join(FORMS)}")
    return _form(name)


def _form(name: str) -> Form:
    module, _, attribute = FORMS[name].partition(":")
    form: Form = getattr(importlib.import_module(module), attribute)
    return form
