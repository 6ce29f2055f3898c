"""Output forms: what OUT's suffix, or ``--format``, chooses."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path

from rlreport.deliver.form import Form
from rlreport.errors import UsageError

FORMS = {
    "folder": "rlreport.deliver.folder",
    "html": "rlreport.deliver.one_file",
    "email": "rlreport.deliver.email",
    "markdown": "rlreport.deliver.markdown",
    "zip": "rlreport.deliver.zip",
}
"""Each form's id and the module that has it as ``FORM``; imported when it is asked for."""

OTHER_FILES = {
    *(".csv", ".tsv", ".json", ".jsonl", ".xml", ".yaml", ".toml", ".txt", ".log", ".parquet"),
    *(".pdf", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".doc", ".docx", ".xlsx", ".pptx"),
    *(
        ".htm",
        ".xhtml",
        ".rst",
        ".tex",
        ".ipynb",
        ".py",
        ".gz",
        ".zst",
        ".xz",
        ".bz2",
        ".tar",
        ".7z",
    ),
}
"""Suffixes of files that a report is not, as which a folder would surprise."""

__all__ = ["FORMS", "Form", "form_of", "forms"]


@cache
def forms() -> dict[str, Form]:
    """All forms by id, in the order of the registry."""
    return {name: _form(name) for name in FORMS}


def form_of(out: Path | str, name: str | None = None) -> Form:
    """The form called ``name``, else the one that OUT's suffix names, else the folder.

    Raises:
        UsageError: there is no such form, or the suffix is that of another kind of file.
    """
    suffix = Path(out).suffix
    if name is None and not suffix:
        name = "folder"  # without a look at the others, which take long to import
    if name is None:
        by_suffix = {form.suffix: form for form in reversed(forms().values())}
        if suffix.lower() in OTHER_FILES - by_suffix.keys():
            known = ", ".join(sorted(one for one in by_suffix if one))
            raise UsageError(f"{out}: no report is written as {suffix}; choose {known} or --format")
        return by_suffix.get(suffix.lower(), _form("folder"))
    if name not in FORMS:
        raise UsageError(f"--format {name}: unknown; choose one of {', '.join(FORMS)}")
    return _form(name)


def _form(name: str) -> Form:
    form: Form = importlib.import_module(FORMS[name]).FORM
    return form
