"""Output forms: what OUT's suffix, or ``--format``, chooses."""

from __future__ import annotations

import importlib
from functools import cache
from mimetypes import MimeTypes
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
        if suffix.lower() not in by_suffix and MimeTypes(()).guess_type(f"x{suffix}")[0]:
            known = ", ".join(sorted(one for one in by_suffix if one))
            raise UsageError(f"{out}: no report is written as {suffix}; choose {known} or --format")
        return by_suffix.get(suffix.lower(), _form("folder"))
    if name not in FORMS:
        raise UsageError(f"--format {name}: unknown; choose one of {', '.join(FORMS)}")
    return _form(name)


def _form(name: str) -> Form:
    form: Form = importlib.import_module(FORMS[name]).FORM
    return form
