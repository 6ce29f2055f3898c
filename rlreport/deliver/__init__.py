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

__all__ = ["FORMS", "Form", "form_of", "forms"]


@cache
def forms() -> dict[str, Form]:
    """All forms by id, in the order of the registry."""
    return {name: importlib.import_module(module).FORM for name, module in FORMS.items()}


def form_of(out: Path, name: str | None = None) -> Form:
    """The form called ``name``, else the one that OUT's suffix names, else the folder.

    Raises:
        UsageError: there is no such form.
    """
    if name is None:
        by_suffix = {form.suffix: form for form in reversed(forms().values())}
        return by_suffix.get(out.suffix.lower(), forms()["folder"])
    if name not in FORMS:
        raise UsageError(f"--format {name}: unknown; choose one of {', '.join(FORMS)}")
    return forms()[name]
