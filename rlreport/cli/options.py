"""Click options, generated from the fields of the classes in ``rlreport.options``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Any, TypeVar

import click
from click.types import FuncParamType

from rlreport.errors import UsageError
from rlreport.options import FigureOptions, ReadOptions, declared

Command = TypeVar("Command", bound=Callable[..., Any])

# Names of the options for reading logs, and of those for GAE (``gamma``, ``lam``)
READING = [field.name for kind in (ReadOptions, FigureOptions) for field in declared(kind)]


def path(value: str | Path) -> str | Path:
    """Convert an output path to a Path; a URL remains a string."""
    return value if "://" in str(value) else Path(value)


def size(value: str | int) -> int:
    """Parse a size such as ``10MB``, ``500kB`` or ``1000`` into bytes; units are decimal."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]?)b?", str(value).strip(), re.IGNORECASE)
    unit = 1000 ** ["", "k", "m", "g"].index(match[2].lower()) if match else 0
    if not match or float(match[1]) * unit < 1:
        raise click.BadParameter(f"{value!r} is not a size such as 10MB, 500kB or 1GB")
    return int(float(match[1]) * unit)


OUT = FuncParamType(path)

fail_on_option = click.option(
    "--fail-on",
    type=click.Choice(["warning", "critical"]),
    help="Exit with status 1 if there is a finding of this severity or worse.",
)


def options(kind: type, *names: str) -> Callable[[Command], Command]:
    """Return a decorator that adds the options of an options class to a click command.

    If ``names`` are given, only these are added. The command gets the values under these names.
    """

    def add(command: Command) -> Command:
        for field in reversed(declared(kind)):
            if not names or field.name in names:
                command = _option(field)(command)
        return command

    return add


def _option(declaration: Field[Any]) -> Callable[[Command], Command]:
    settings, help = declaration.metadata, declaration.metadata["help"]
    default = {} if declaration.default is MISSING else declaration.default
    flags = settings["flags"] or [f"--{declaration.name.replace('_', '-')}"]
    if isinstance(default, bool):
        return click.option(*flags, declaration.name, is_flag=True, help=help)
    attributes: dict[str, Any] = {
        "metavar": settings.get("metavar"),
        "type": _type(settings, default),
    }
    attributes["show_default"] = "size" in settings or settings.get(
        "show", default not in (None, "", (), {})
    )
    if isinstance(default, tuple | dict):
        attributes |= {"multiple": True, "help": f"{help} Repeatable."}
        if isinstance(default, dict):
            attributes["callback"] = _pairs
    else:
        default = settings["show"] if "size" in settings and default else default
        attributes |= {"default": default, "help": help}
    return click.option(*flags, declaration.name, **attributes)


def _type(settings: Mapping[str, Any], default: object) -> Any:
    if "size" in settings:
        return size
    if "choices" in settings:
        return click.Choice(settings["choices"])
    if "low" in settings:
        span = click.FloatRange if isinstance(default, float) else click.IntRange
        return span(settings["low"], settings.get("high"))
    return click.Path() if str(settings.get("metavar")).startswith("FILE") else None


def _pairs(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Parse ``NAME=VALUE`` texts; VALUE may be empty only for options shown as KEY=VALUE."""
    pairs = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and (value or param.metavar == "KEY=VALUE")):
            raise UsageError(f"{param.opts[0]}: write {param.metavar}")
        pairs[name] = value
    return pairs
