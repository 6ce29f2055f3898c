"""Templates: where they lie, and their compiled form in a wheel.

The build hook imports this module, so that it needs Jinja and the standard library alone.
"""

from __future__ import annotations

import re
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from rlreport.text.clean import one_line

# Folder, below the templates of a wheel, of Python modules compiled from them by this version of
# Jinja: another version reads the templates themselves. See hatch_build.py.
COMPILED = f"jinja-{jinja2.__version__}"

# Where ``breakable`` lets a name be broken
_CODE = re.compile(r"`([^`]+)`")
_AFTER_MARK = re.compile(r"(?<=[_./:])(?<!\d\.(?=\d))(?=[^_./:])")
# A number that browsers break after its hyphen
_EXPONENT = re.compile(r"(\d+(?:\.\d+)?e-\d+)", re.IGNORECASE)
_WHOLE = Markup('<span class="whole-number">{}</span>')
_WBR = Markup("<wbr>")


def package_folder(name: str) -> Path:
    """Return the folder ``name`` in the package or, in a checkout, next to it; raise if missing."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(
        f"rlreport's own folder {name!r} is missing: reinstall rlreport"
    )


def source_environment() -> jinja2.Environment:
    """Return the Jinja environment without translations; compiled templates come first."""
    folder = package_folder("templates")
    loader: jinja2.BaseLoader = jinja2.FileSystemLoader(folder)
    if (folder / COMPILED).is_dir():
        loader = jinja2.ChoiceLoader([jinja2.ModuleLoader(folder / COMPILED), loader])
    result = jinja2.Environment(
        loader=loader,
        autoescape=lambda name: name is None or not name.endswith(".txt"),  # plain text
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        extensions=["jinja2.ext.i18n"],
    )
    result.policies["ext.i18n.trimmed"] = True
    result.newstyle_gettext = True  # type: ignore[attr-defined]
    # Filters must be known when templates are compiled.
    result.filters["breakable"] = breakable
    result.filters["with_code"] = with_code
    result.filters["one_line"] = one_line
    return result


def with_code(text: str) -> Markup:
    """Return a text as HTML in which names of settings in backticks are set as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def breakable(name: str) -> Markup:
    """Return a name that may be broken after ``_``, ``.``, ``/``, ``:`` where a line is too short.

    Browsers break a name such as ``is_completed`` anywhere or nowhere, as it is one word to them.
    Numbers in it, such as ``0.5`` and ``5e-06``, are not broken. Its twin is in
    static/js/shared/dom.js.
    """
    return _WBR.join(map(_with_whole_numbers, _AFTER_MARK.split(name)))


def _with_whole_numbers(text: str) -> Markup:
    parts = _EXPONENT.split(text)  # those with odd indices are numbers
    return Markup().join(
        _WHOLE.format(part) if place % 2 else part for place, part in enumerate(parts)
    )


def compile_templates(folder: Path) -> None:
    """Compile templates to modules in ``folder``, but for Markdown, which needs more filters."""
    source_environment().compile_templates(
        folder,
        zip=None,
        filter_func=lambda name: not name.endswith(".md"),
        ignore_errors=False,
    )
