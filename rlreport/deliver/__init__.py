"""Output formats, chosen by the suffix of the output path or by ``--format``."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from rlreport import __version__
from rlreport.errors import UsageError
from rlreport.options import OutputOptions
from rlreport.system.own_output import MARKS

if TYPE_CHECKING:
    from rlreport.pages.comparison import ComparisonBuilder
    from rlreport.pages.report import ReportBuilder
    from rlreport.pages.templates import Finish, Page

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

_ZIP_LEVEL = 9
_ZIP_HEADERS = 76  # bytes of a file's local and central headers in a zip besides its name
_MANIFEST_ENTRY = 8  # bytes of a file's entry in the manifest besides its name


@dataclass(frozen=True)
class Form:
    id: str
    words: str  # what it is, for the help of ``-o``
    # functions as ``module:function``, imported on first use: one writes a whole report, the other
    # encodes a page, see ``pages.templates.Finish``
    writer: str
    encoder: str = "rlreport.deliver:encode_page"
    suffix: str = ""  # of the output path, which selects the format
    # regular expression that only files of the format match, anchored at their start or end; a
    # later build replaces these. Folders have a manifest instead
    mark: bytes = b""
    folder: bool = False
    pictures: bool = False  # written to a folder next to the file
    one_file: bool = False  # all pages are embedded in one HTML file
    pages: bool = False  # has a page per step
    comparable: bool = True  # if not, `compare` refuses the suffix: there are no figures to read
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
            parse = _imported("rlreport.deliver.email:addresses")
            parse("--to", *options.to)
            parse("--from", *filter(None, [options.sender]))
        elif options.to or options.sender or options.subject:
            raise UsageError("--to, --from and --subject need the mail format; give -o NAME.eml")


FORMS = {
    form.id: form
    for form in (
        Form(
            "folder",
            "folder",
            "rlreport.deliver:write_folder",
            folder=True,
            pages=True,
            default_size=100_000_000,
        ),
        Form(
            "html",
            "one file",
            "rlreport.deliver.email:write_file",
            "rlreport.deliver.email:encode_view",
            suffix=".html",
            mark=MARKS["html"],
            one_file=True,
            pages=True,
        ),
        Form(
            "email",
            "mail",
            "rlreport.deliver.email:write_mail",
            "rlreport.deliver.email:encode_attached_view",
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
            "rlreport.deliver:write_zip",
            "rlreport.deliver:encode_zipped_page",
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
        raise UsageError("-o -: give an output path; reports are not written to standard output")
    if name is not None:
        if name not in FORMS:
            raise UsageError(f"--format {name}: unknown; choose one of {', '.join(FORMS)}")
        return FORMS[name]
    suffix = Path(out).suffix.lower()
    by_suffix = {form.suffix: form for form in FORMS.values() if form.suffix}
    if suffix in OTHER_SUFFIXES - by_suffix.keys():
        known = ", ".join(sorted(by_suffix))
        raise UsageError(f"{out}: reports cannot be written as {suffix}; use {known} or --format")
    return by_suffix.get(suffix, FORMS["folder"])


def encode_page(page: Page) -> tuple[tuple[str, bytes], int]:
    """Return (path in the report, content) of a page, and the bytes it adds to a folder."""
    content = page.html.encode("utf-8", "replace")
    return (page.path, content), len(content) + len(page.path) + _MANIFEST_ENTRY


def write_folder(builder: Builder, folder: Path) -> None:
    for path, content in builder.files():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def encode_zipped_page(page: Page) -> tuple[tuple[str, bytes], int]:
    """Return (path in the report, content) of a page, and the bytes it adds to a zip."""
    content = page.html.encode("utf-8", "replace")
    packed = len(zlib.compress(content, _ZIP_LEVEL, -zlib.MAX_WBITS))
    return (page.path, content), packed + 2 * len(page.path) + _ZIP_HEADERS


def write_zip(builder: Builder, path: Path) -> None:
    """Write a zip with the report's files at its root; equal reports give equal bytes."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in builder.files():
            entry = zipfile.ZipInfo(name)  # dated 1980, so that equal reports have equal bytes
            entry.create_system = 3  # Unix
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, compresslevel=_ZIP_LEVEL)
        archive.comment = f"rlreport {__version__}".encode()


def _imported(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)
