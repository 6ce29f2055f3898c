"""Write the types of the pages' JSON for the scripts: ``python -m tools.page_types``."""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping
from pathlib import Path
from typing import (
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import numpy as np

from rlreport.pages import page_data

TARGET = Path(__file__).resolve().parents[1] / "static/js/shared/page-data.d.ts"
HEAD = """/**
 * The JSON in pages, as docs/page-data.md explains it. Made by `python -m tools.page_types`;
 * change rlreport/pages/page_data.py, not this file.
 */
"""
PLAIN = {str: "string", bool: "boolean", int: "number", type(None): "null", Any: "any"}
LISTS = (list, tuple, np.ndarray)


def page_types() -> str:
    """Return the TypeScript interfaces of all classes of ``rlreport.pages.page_data``."""
    parts = [HEAD]
    for kind in vars(page_data).values():
        # Those that another module declares, too
        if is_typeddict(kind):
            parts.append(_interface(kind))
    return "\n".join(parts)


def _interface(kind: type) -> str:
    about = inspect.getdoc(kind) or ""
    lines = [
        f"/** {about.replace('``', '`')} */",
        f"export interface {kind.__name__} {{",
    ]
    for key, hint in get_type_hints(kind, include_extras=True).items():
        optional = get_origin(hint) is NotRequired
        value = get_args(hint)[0] if optional else hint
        lines.append(f"  {key}{'?' if optional else ''}: {type_of(value)};")
    return "\n".join([*lines, "}", ""])


def type_of(hint: Any) -> str:
    """Return the TypeScript type of a value's JSON, in which NaN of a float is null."""
    origin = get_origin(hint)
    arguments = get_args(hint)
    if hint is float:
        return "number"
    if hint in PLAIN:
        return PLAIN[hint]
    if origin is Literal:
        return " | ".join(f'"{value}"' for value in arguments)
    if origin in {Union, types.UnionType}:
        return " | ".join(_union_members(arguments))
    if origin in {dict, Mapping}:
        return f"Record<string, {type_of(arguments[1])}>"
    if origin in LISTS:
        return _list_type(origin, arguments)
    return str(hint.__name__)  # another interface


def _union_members(arguments: tuple[Any, ...]) -> list[str]:
    """Return the different types of a union; a list with nulls covers one without."""
    members = list(dict.fromkeys(type_of(argument) for argument in arguments))
    return [name for name in members if f"({name[:-2]} | null)[]" not in members]


def _list_type(origin: type, arguments: tuple[Any, ...]) -> str:
    if origin is np.ndarray:
        (element,) = get_args(arguments[1])
        return "(number | null)[]" if issubclass(element, np.floating) else "number[]"
    if origin is tuple and arguments[-1] is not Ellipsis:
        return f"[{', '.join(map(type_of, arguments))}]"
    element = type_of(arguments[0])
    return f"({element})[]" if " | " in element else f"{element}[]"


if __name__ == "__main__":
    TARGET.write_text(page_types(), "utf-8")
