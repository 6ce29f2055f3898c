"""The output forms, chosen by the suffix of the output path or by ``--format``."""

from __future__ import annotations

from pathlib import Path

from rlreport.deliver import folder, mail, markdown, one_file
from rlreport.deliver.form import Form
from rlreport.errors import UsageError

# In the order of the help of ``-o``
FORMS = {
    form.id: form
    for form in (
        folder.FORM,
        one_file.FORM,
        mail.FORM,
        markdown.FORM,
        folder.ZIP,
    )
}

# Suffixes of other file types; an output path with one is rejected, not used as a folder name
OTHER_SUFFIXES = frozenset(
    (
        ".csv .tsv .json .jsonl .xml .yaml .toml .txt .log .parquet "
        ".pdf .png .jpg .jpeg .gif .svg .webp .doc .docx .xlsx .pptx "
        ".htm .xhtml .rst .tex .ipynb .py .gz .zst .xz .bz2 .tar .7z"
    ).split()
)


def form_of(out: Path | str, name: str | None = None) -> Form:
    """Return the form of an output path, or the one called ``name`` (``--format``) if given.

    The suffix of the path selects the form; without a suffix of a form, it is a folder.

    Raises:
        UsageError: there is no such form, or the suffix is that of another type of file.
    """
    if str(out) == "-":
        raise UsageError(
            "-o -: give an output path; reports are not written to standard output"
        )
    if name is not None:
        if name not in FORMS:
            raise UsageError(
                f"--format {name}: unknown; choose one of {', '.join(FORMS)}"
            )
        return FORMS[name]
    suffix = Path(out).suffix.lower()
    by_suffix = {form.suffix: form for form in FORMS.values() if form.suffix}
    if suffix in OTHER_SUFFIXES - by_suffix.keys():
        known = ", ".join(sorted(by_suffix))
        raise UsageError(
            f"{out}: reports cannot be written as {suffix}; use {known} or --format"
        )
    return by_suffix.get(suffix, FORMS["folder"])
