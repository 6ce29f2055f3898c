"""The output forms, chosen by the suffix of the output path or by ``--format``."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from rlreport.errors import UsageError
from rlreport.options import OutputOptions
from rlreport.system.own_output import MARKS

if TYPE_CHECKING:
    from rlreport.pages.comparison import ComparisonBuilder
    from rlreport.pages.page import Finish
    from rlreport.pages.report import ReportBuilder


# What is written in an output format: the report of one run, or a comparison
Builder: TypeAlias = "ReportBuilder | ComparisonBuilder"

# Suffixes of other file types; an output path with one is rejected, not used as a folder name
OTHER_SUFFIXES = {
    ".csv",
    ".tsv",
    ".json",
    ".jsonl",
    ".xml",
    ".yaml",
    ".toml",
    ".txt",
    ".log",
    ".parquet",
    ".pdf",
    ".png",
    ".jpg",
    ".jpeg",
    ".gif",
    ".svg",
    ".webp",
    ".doc",
    ".docx",
    ".xlsx",
    ".pptx",
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
}


@dataclass(frozen=True)
class Form:
    id: str
    words: str  # what it is, for the help of ``-o``
    # functions as ``module:function``, imported on first use: one writes a whole report, the other
    # encodes a page, see ``pages.templates.Finish``
    writer: str
    encoder: str = "rlreport.deliver.folder:encode_page"
    suffix: str = ""  # of the output path, which selects the format
    # regular expression that only files of the format match, anchored at their start or end; a
    # later build replaces these. Folders have a manifest instead
    mark: bytes = b""
    folder: bool = False
    pictures: bool = False  # written to a folder next to the file
    one_file: bool = False  # all pages are embedded in one HTML file
    pages: bool = False  # has a page per step
    comparable: bool = (
        True  # if not, `compare` refuses the suffix: there are no figures to read
    )
    default_size: int = 10_000_000

    @property
    def finish(self) -> Finish:
        encode: Finish = _imported(self.encoder)
        return encode

    def write(self, builder: Builder, path: Path) -> None:
        """Write the report to a new path, or into an empty folder."""
        _imported(self.writer)(builder, path)

    def check(self, options: OutputOptions) -> None:
        if self.id == "email":
            parse = _imported("rlreport.deliver.mail:addresses")
            parse("--to", *options.to)
            parse("--from", *filter(None, [options.sender]))
        elif options.to or options.sender or options.subject:
            raise UsageError(
                "--to, --from and --subject need the mail format; give -o NAME.eml"
            )


FORMS = {
    form.id: form
    for form in (
        Form(
            "folder",
            "folder",
            "rlreport.deliver.folder:write_folder",
            folder=True,
            pages=True,
            default_size=100_000_000,
        ),
        Form(
            "html",
            "one file",
            "rlreport.deliver.one_file:write_file",
            "rlreport.deliver.one_file:encode_view",
            suffix=".html",
            mark=MARKS["html"],
            one_file=True,
            pages=True,
        ),
        Form(
            "email",
            "mail",
            "rlreport.deliver.mail:write_mail",
            "rlreport.deliver.mail:encode_attached_view",
            suffix=".eml",
            mark=MARKS["email"],
            one_file=True,
            pages=True,
            comparable=False,
        ),
        Form(
            "markdown",
            "Markdown with a folder of pictures",
            "rlreport.deliver.markdown:write_markdown",
            suffix=".md",
            mark=MARKS["markdown"],
            pictures=True,
            comparable=False,
        ),
        Form(
            "zip",
            "zipped folder",
            "rlreport.deliver.folder:write_zip",
            "rlreport.deliver.folder:encode_zipped_page",
            suffix=".zip",
            mark=MARKS["zip"],
            pages=True,
            default_size=100_000_000,
        ),
    )
}


def form_of(out: Path | str, name: str | None = None) -> Form:
    """Return the format ``name``, or of the suffix, else folder; UsageError for OTHER_SUFFIXES."""
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


def _imported(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)
