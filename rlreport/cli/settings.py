"""Values of options from ``rlreport.toml`` and ``pyproject.toml``.

Such a file may be a stranger's, beside logs to be looked at. What it may set is declared with each
option (``from_file``), and everything else is refused by name.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

from rlreport.cli.option import PLACES, PREFIX, Option
from rlreport.errors import UsageError
from rlreport.options import SETTINGS_FILE, SetBy

PROJECT_FILE = "pyproject.toml"
# Names of the tables: the commands that take settings
TABLES = ("build", "check", "compare", "index", "inspect", "watch")


class Place(NamedTuple):
    """Where a file sets an option."""

    file: Path
    table: str  # such as "tool.rlreport.build"
    key: str

    def __str__(self) -> str:
        return f"{self.file}: [{self.table}] {self.key}"


class Settings(NamedTuple):
    """What files set: by option, its value for click, and where it is set."""

    values: dict[str, Any]
    places: dict[str, Place]


class _Table(NamedTuple):
    """The table of a command in a file of settings."""

    file: Path
    name: str
    values: Mapping[str, Any]

    def place(self, key: str) -> Place:
        return Place(self.file, self.name, key)


def read_settings(command: click.Command, logs: Sequence[str]) -> Settings:
    """Return what the files of settings say of a command's options.

    ``logs`` are the paths that the command was given: without an ``rlreport.toml`` in the current
    folder, the one beside the first of them is read. It comes before ``pyproject.toml``.

    Raises:
        UsageError: a file cannot be read, or says something that it may not say.
    """
    settings = Settings({}, {})
    for table in _tables(str(command.name), logs):
        found = _settings_of(table, command)
        for name, value in found.values.items():
            settings.values.setdefault(name, value)
            settings.places.setdefault(name, found.places[name])
    return settings


def set_by(ctx: click.Context) -> list[SetBy]:
    """Return what files and variables set, of the options that the command line did not give."""
    found: dict[str, list[tuple[str, str]]] = {}  # by file, "" for variables
    for param in ctx.command.params:
        if not isinstance(param, Option):
            continue
        name = str(param.name)
        source = ctx.get_parameter_source(name)
        if source is ParameterSource.DEFAULT_MAP:
            place: Place = ctx.meta[PLACES][name]
            words = param.in_words(ctx.lookup_default(name))
            found.setdefault(place.file.name, []).append((place.key, words))
        elif source is ParameterSource.ENVIRONMENT:
            words = param.in_words(param.value_from_envvar(ctx))
            found.setdefault("", []).append((param.variable(ctx), words))
    return [SetBy(file, tuple(values)) for file, values in found.items()]


def _tables(command: str, logs: Sequence[str]) -> list[_Table]:
    """Return the tables of a command in the files of settings, the one that counts first."""
    tables = []
    file = _settings_file(logs)
    if file:
        content = _content(file)
        _refuse_unknown_tables(file, content)
        tables.append(_table(file, content, command))
    project = Path(PROJECT_FILE)
    if project.is_file():
        content = _content(project)
        tools = _table(project, content, "tool").values
        own = _table(project, tools, "rlreport", "tool.")
        if own.values:
            _refuse_unknown_tables(project, own.values, f"{own.name}.")
            tables.append(_table(project, own.values, command, f"{own.name}."))
    used = [table for table in tables if table.values]
    for table in used:
        _refuse_link(table.file)
    return used


def _settings_file(logs: Sequence[str]) -> Path | None:
    """Return ``rlreport.toml`` in the current folder, else beside the first local log, or None."""
    from rlreport.read.listing import is_url, root_of

    file = Path(SETTINGS_FILE)
    local = [log for log in logs if not is_url(log)]
    if not os.path.lexists(file) and local:
        file = root_of(Path(local[0])) / SETTINGS_FILE
    # A link that leads nowhere is refused with a reason, rather than passed over.
    return file if os.path.lexists(file) else None


def _content(file: Path) -> dict[str, Any]:
    from rlreport.system.documents import read_toml

    return read_toml(file, "settings")


def _table(
    file: Path, content: Mapping[str, Any], name: str, prefix: str = ""
) -> _Table:
    """Return a table of a file, empty if it is not there; raise UsageError if it is no table."""
    values = content.get(name, {})
    if not isinstance(values, dict):
        raise UsageError(f"{file}: {prefix}{name} must be a table")
    return _Table(file, f"{prefix}{name}", values)


def _refuse_unknown_tables(
    file: Path, content: Mapping[str, Any], prefix: str = ""
) -> None:
    for name, value in content.items():
        if name in TABLES:
            continue
        known = ", ".join(f"[{prefix}{table}]" for table in TABLES)
        what = f"unknown table [{prefix}{name}]"
        if not isinstance(value, dict):
            what = f"{name} must be in the table of a command"
        raise UsageError(f"{file}: {what}; tables: {known}")


def _refuse_link(file: Path) -> None:
    """Raise UsageError if a file of settings is a link to one of another folder."""
    if not _is_inside(file.parent, file):
        raise UsageError(
            f"{file}: is a link to another folder; its settings are refused"
        )


def _settings_of(table: _Table, command: click.Command) -> Settings:
    """Return what a table sets, or raise UsageError with the file, the table and the key."""
    settings = Settings({}, {})
    for key, value in table.values.items():
        option = _option_named(key, command, table)
        name = str(option.name)
        place = table.place(key)
        if name in settings.values:
            raise UsageError(f"{place}: the same option as {settings.places[name]}")
        if option.from_file == "nothing":
            _, flag = max((len(one), one) for one in option.opts)
            variable = f"{PREFIX}_{command.name}_{option.names[0]}".upper()
            raise UsageError(
                f"{place}: cannot be set by a file, which may be a stranger's; give {flag}, or "
                f"set the variable {variable}"
            )
        try:
            settings.values[name] = _value(option, value, table.file.parent)
        except ValueError as error:
            raise UsageError(f"{place}: {error}") from None
        settings.places[name] = place
    return settings


def _option_named(key: str, command: click.Command, table: _Table) -> Option:
    """Return the option that a key names, with hyphens or underscores; else raise UsageError."""
    options = {}
    for param in command.params:
        if isinstance(param, Option):
            options.update(dict.fromkeys(param.names, param))
    option = options.get(key.replace("-", "_"))
    if option is None:
        from difflib import get_close_matches

        similar = get_close_matches(key, options, n=1)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        raise UsageError(f"{table.place(key)}: unknown option{hint}")
    return option


def _value(option: Option, value: object, folder: Path) -> Any:
    """Return a value as click takes it; raise ValueError if it is of another type than needed.

    Texts that are paths are relative to ``folder``, which they may not leave.
    """
    if option.pairs:
        return _pairs(option, value)
    if option.multiple:
        items = value if isinstance(value, list) else [value]
        texts = [
            _text(item, f"a list of texts, each {option.metavar}") for item in items
        ]
        return _paths(option, texts, folder)
    if option.is_flag:
        if isinstance(value, bool) or value in getattr(option.type, "texts", ()):
            return value
        raise ValueError(f"must be true or false; got {value!r:.40}")
    if isinstance(option.type, click.IntRange | click.FloatRange):
        return _number(value, whole=isinstance(option.type, click.IntRange))
    if isinstance(option.type, click.types.FuncParamType):  # a size or a time
        return str(value) if _is_number(value) else _text(value, "a text or a number")
    return _paths(option, [_text(value, "a text")], folder)[0]


def _pairs(option: Option, value: object) -> list[str]:
    """Return a table as the values of a repeated option such as ``--map FIELD=PATH``."""
    if not isinstance(value, dict):
        name, _, content = str(option.metavar).partition("=")
        raise ValueError(f'must be a table such as {{{name} = "{content}"}}')
    if any("=" in name for name in value):
        raise ValueError("a name in this table cannot contain =")
    return [f"{name}={_scalar(content)}" for name, content in value.items()]


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if _is_number(value) else _text(value, "a table of texts")


def _text(value: object, needed: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be {needed}; got {value!r:.40}")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: object, *, whole: bool) -> object:
    """Return a number; raise ValueError for other values, NaN and infinity."""
    fits = isinstance(value, int) if whole else _is_number(value)
    if isinstance(value, bool) or not fits or not math.isfinite(float(str(value))):
        kind = "a whole number" if whole else "a finite number"
        raise ValueError(f"must be {kind}; got {value!r:.40}")
    return value


def _paths(option: Option, texts: list[str], folder: Path) -> list[str]:
    """Return the values of an option; raise ValueError if one is a path that leaves ``folder``."""
    from rlreport.read.listing import is_url

    if option.from_file != "path":
        return texts
    for text in texts:
        if is_url(text) or not _is_inside(folder, folder / text):
            raise ValueError(
                f"{text!r:.80} is outside the folder of this file; refused"
            )
    return [str(folder / text) for text in texts]


def _is_inside(folder: Path, path: Path) -> bool:
    """Return whether a path lies in a folder, and does so after links in it are followed."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # a NUL, or links in a circle
        return False
