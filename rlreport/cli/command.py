"""Commands whose options have headings, and can be set by files and variables."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import chain
from typing import Any

import click

from rlreport.cli.option import PLACES, Option
from rlreport.cli.settings import read_settings, set_by
from rlreport.cli.terminal import say
from rlreport.options import GROUPS, SetBy

Records = list[tuple[str, str]]  # flags and help of options

MOST_LISTED = 14  # options that ``--help`` lists
_ALL = "rlreport.all"  # key of ``ctx.meta``: whether ``--help-all`` was given
_WIDEST_FLAGS = 30  # columns; the help of wider flags begins on a line of its own


class Command(click.Command):
    """A command that takes settings from files and variables, and groups its options.

    ``listed`` are the names of the options that ``--help`` lists; ``--help-all`` lists all.
    """

    def __init__(self, *args: Any, listed: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.listed = frozenset(listed)
        self._ignore_files = Option(
            ["--ignore-files"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_set_from_files,
            help="Take no options from rlreport.toml and pyproject.toml.",
            group="Other",
        )
        self._help_all = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_all,
            help="Show all options and exit.",
        )

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, those that every command has last."""
        *own, help_option = super().get_params(ctx)
        return [*own, self._ignore_files, help_option, self._help_all]

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the options under their headings: the listed ones, or all."""
        groups = option_groups(self, ctx)
        count = sum(map(len, groups.values()))
        if count > MOST_LISTED and not ctx.meta.get(_ALL):
            groups = option_groups(self, ctx, self.listed)
        widths = [len(flag) for flag, _ in chain.from_iterable(groups.values())]
        width = min(max(widths), _WIDEST_FLAGS)
        for heading, records in groups.items():
            with formatter.section(heading):
                # Padded, so that the help of all groups begins in one column
                padded = [(flag.ljust(width), text) for flag, text in records]
                formatter.write_dl(padded)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, after a line on each file whose settings it uses."""
        if not ctx.params.get("quiet"):
            for source in set_by(ctx):
                say(settings_line(source), err=True)
        return super().invoke(ctx)


def option_groups(
    command: click.Command,
    ctx: click.Context,
    listed: Container[str] | None = None,
) -> dict[str, Records]:
    """Return heading -> (flags, help) of the options, of all or of those listed and of help."""
    groups: dict[str, Records] = {group: [] for group in GROUPS}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        is_help = not {"--help", "--help-all"}.isdisjoint(param.opts)
        is_listed = listed is None or param.name in listed or is_help
        if record and is_listed and not isinstance(param, click.Argument):
            group = getattr(param, "group", "") or GROUPS[-1]
            groups[group].append(record)
    return {group: records for group, records in groups.items() if records}


def settings_line(source: SetBy) -> str:
    """Return a line such as ``rlreport.toml: mute = kl_explosion, lang = zh``."""
    values = [f"{name} = {value}" if value else name for name, value in source.values]
    return f"{source.file or 'environment'}: {', '.join(values)}"


def _set_from_files(ctx: click.Context, param: click.Parameter, ignored: bool) -> None:
    """Take defaults of the options from files, as a callback of ``--ignore-files``.

    It is called after the arguments are known, as these are eager, and before all other options.
    """
    if ignored or ctx.resilient_parsing:
        return
    paths: list[str] = []
    for argument in ctx.command.params:
        if isinstance(argument, click.Argument):
            paths += ctx.params.get(str(argument.name)) or ()
    settings = read_settings(ctx.command, paths)
    ctx.default_map = settings.values
    ctx.meta[PLACES] = settings.places


def _print_all(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    """Print the help with all options and exit, as a callback of ``--help-all``."""
    if asked and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()
