"""Output forms: what OUT's suffix, or ``--format``, chooses."""

from __future__ import annotations

from pathlib import Path

from rlreport.deliver import email, folder, markdown, one_file, zip
from rlreport.deliver.fit import deliver
from rlreport.deliver.form import Form
from rlreport.errors import UsageError

FORMS: tuple[Form, ...] = (
    folder.FORM,
    one_file.FORM,
    email.FORM,
    markdown.FORM,
    zip.FORM,
)

__all__ = ["FORMS", "Form", "deliver", "form_of"]


def form_of(out: Path, name: str | None = None) -> Form:
    """The form called ``name``, else the one that OUT's suffix names, else the folder.

    Raises:
        UsageError: there is no such form.
    """
    if name is not None:
        for form in FORMS:
            if form.id == name:
                return form
        known = ", ".join(form.id for form in FORMS)
        raise UsageError(f"--format {name}: unknown; choose one of {known}")
    by_suffix = {form.suffix: form for form in FORMS}
    return by_suffix.get(out.suffix.lower(), by_suffix[""])
