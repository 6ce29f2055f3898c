"""Click options made from the fields of ``rlreport.options``, which variables can set, too."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from rlreport.options import FileValue, declared
from rlreport.text.clean import shortened

AnyCommand = TypeVar("AnyCommand", bound=Callable[..., Any])

PREFIX = "RLREPORT"  # of variables, such as RLREPORT_BUILD_TITLE
PLACES = "rlreport.places"  # key of ``ctx.meta``: option -> where a file sets it
_LONGEST_VALUE = 60  # characters of a value where it is listed


class Option(click.Option):
    """An option with a heading in ``--help``; a variable can set it, and a file if it may.

    ``group`` and ``from_file`` are explained in ``rlreport.options.option``. ``pairs``: it is a
    mapping, given as ``--map FIELD=PATH``.
    """

    def __init__(
        self,
        *flags: Any,
        group: str = "",
        from_file: FileValue = "nothing",
        pairs: bool = False,
        **settings: Any,
    ) -> None:
        if pairs:
            settings["callback"] = _pairs
        super().__init__(*flags, **settings)
        self.group = group
        self.from_file = from_file
        self.pairs = pairs

    @property
    def names(self) -> list[str]:
        """Its names in files and variables: those of its flags, and that in the API."""
        flags = [flag for flag in self.opts if flag.startswith("--")]
        names = [flag.removeprefix("--").replace("-", "_") for flag in flags]
        return list(dict.fromkeys([*names, str(self.name)]))

    def variable(self, ctx: click.Context) -> str:
        """Return the variable that is set for it, that of the command first; else ""."""
        names = [f"{PREFIX}_{ctx.command.name}_{name}".upper() for name in self.names]
        names += [self.envvar] if isinstance(self.envvar, str) else []
        # A variable that is empty counts as one that is not set.
        return next((name for name in names if os.environ.get(name)), "")

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Return the text of its variable, None without one."""
        return os.environ.get(self.variable(ctx))

    def value_from_envvar(self, ctx: click.Context) -> Any:
        """Return what its variable says; of an option with several values, one a line."""
        text = self.resolve_envvar_value(ctx)
        if text and self.multiple:
            return [line for line in text.split("\n") if line.strip()]
        return super().value_from_envvar(ctx)

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Return where its value is from, for an error: the flag, a variable, or a file."""
        source = ctx.get_parameter_source(self.name or "") if ctx else None
        if ctx and source is ParameterSource.ENVIRONMENT:
            return self.variable(ctx)
        if ctx and source is ParameterSource.DEFAULT_MAP:
            return str(ctx.meta[PLACES][self.name])
        return super().get_error_hint(ctx)

    def in_words(self, value: Any) -> str:
        """Return a value that a file or a variable gave, as it is listed.

        What a file could not give is not told, as it may name a machine; of paths, only the names.
        """
        if self.from_file == "nothing":
            return ""
        items = value if isinstance(value, list) else [value]
        if self.pairs:
            texts = [item.partition("=")[0].strip() for item in items]
        elif self.from_file == "path":
            texts = [Path(item).name for item in items]
        else:
            texts = [str(item) for item in items]
        if isinstance(value, bool):
            texts = ["true" if value else "false"]
        return shortened(", ".join(texts), _LONGEST_VALUE)


class FlagOr(click.types.BoolParamType):
    """A flag that can also have one of some texts as its value, such as ``names``."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = tuple(texts)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return one of the texts unchanged; anything else as a flag."""
        return value if value in self.texts else super().convert(value, param, ctx)


def size(value: str | int) -> int:
    """Parse a size such as ``10MB``, ``500kB`` or ``1000`` into bytes (1 kB is 1,000 bytes)."""
    pattern = r"(?P<number>\d+(?:\.\d+)?)\s*(?P<prefix>[kmg]?)b?"
    match = re.fullmatch(pattern, str(value).strip(), re.IGNORECASE)
    size_in_bytes = 0.0  # for a text that does not match: refused like a size of 0
    if match:
        factor = _FACTORS[match["prefix"].lower()]
        size_in_bytes = float(match["number"]) * factor
    if size_in_bytes < 1:
        raise click.BadParameter(f"{value!r} is not a size such as 10MB, 500kB or 1GB")
    return int(size_in_bytes)


_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


def option(*flags: str, **settings: Any) -> Callable[[AnyCommand], AnyCommand]:
    """Return the decorator that adds an ``Option`` to a command."""
    return click.option(*flags, cls=Option, **settings)


fail_on_option = option(
    "--fail-on",
    type=click.Choice(["warning", "critical"]),
    help="Exit with status 1 if there is a finding of this severity or worse.",
    group="Checks",
    from_file="value",
)


verbose_option = option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Print all findings with their examples, limits that are close, and checks not run.",
    group="Other",
    from_file="value",
)


open_option = option(
    "--open",
    "open_page",
    is_flag=True,
    help="Open the page in the browser; without a display, only print its path.",
    group="Output",
)


def out_option(default: str, help: str) -> Callable[[AnyCommand], AnyCommand]:
    """Return the decorator that adds the option ``--out`` to a command."""
    return option(
        "-o",
        "--out",
        default=default,
        show_default=True,
        metavar="PATH",
        help=help,
        group="Output",
    )


def options(kind: type, *names: str) -> Callable[[AnyCommand], AnyCommand]:
    """Return a decorator that adds options of the class ``kind`` to a command, by default all."""

    def add(command: AnyCommand) -> AnyCommand:
        # Click lists the option that was added last first.
        for field in reversed(declared(kind)):
            if not names or field.name in names:
                command = _declared_option(field)(command)
        return command

    return add


def _declared_option(declaration: Field[Any]) -> Callable[[AnyCommand], AnyCommand]:
    """Return the decorator that adds the click option for a field of an options class.

    The type of the default selects the kind of option: bool a flag, tuple or dict one that can be
    given several times, others one with a value.
    """
    settings = declaration.metadata  # see ``rlreport.options.option``
    # The default of a dict is made by a factory.
    default = {} if declaration.default is MISSING else declaration.default
    flags = settings["flags"] or [f"--{declaration.name.replace('_', '-')}"]
    where = {"group": settings["group"], "from_file": settings["from_file"]}
    if isinstance(default, bool):
        texts = [one for one in settings.get("choices", ()) if isinstance(one, str)]
        return option(
            *flags,
            declaration.name,
            is_flag=True,
            type=FlagOr(texts),
            help=settings["help"],
            **where,
        )
    repeatable = isinstance(default, tuple | dict)
    is_worth_showing = default not in (None, "", (), {})
    return option(
        *flags,
        declaration.name,
        metavar=settings.get("metavar"),
        type=_type(settings, default),
        default=None if repeatable else default,
        show_default=settings.get("show", is_worth_showing),
        multiple=repeatable,
        pairs=isinstance(default, dict),
        envvar=settings.get("variable"),
        help=f"{settings['help']} Repeatable." if repeatable else settings["help"],
        **where,
    )


def _type(settings: Mapping[str, Any], default: object) -> Any:
    """Return the click type of an option, None for text."""
    if "size" in settings:
        return size
    if "choices" in settings:
        return click.Choice(settings["choices"])
    if "low" in settings:
        range_type = click.FloatRange if isinstance(default, float) else click.IntRange
        return range_type(min=settings["low"], max=settings.get("high"))
    is_file = str(settings.get("metavar")).startswith("FILE")  # also "FILE.py"
    return click.Path() if is_file else None


def _pairs(
    ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]
) -> dict[str, str]:
    """Return the dict of a repeated option such as ``--map FIELD=PATH``, as a callback of click.

    A name that is given several times with different values is an error.
    """
    pairs: dict[str, str] = {}
    # An entry of the configuration (--meta) may be empty; a path or a reason may not.
    may_be_empty = param.metavar == "KEY=VALUE"
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and (value or may_be_empty)):
            raise click.BadParameter(f"{text!r} must have the form {param.metavar}")
        if pairs.setdefault(name, value) != value:
            raise click.BadParameter(
                f"{name} is given twice, as {pairs[name]!r} and as {value!r}"
            )
    return pairs
