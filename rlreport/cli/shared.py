"""Options that several commands take, and what they become."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rlreport.errors import UsageError
from rlreport.options import DEFAULT_PAD_TOKENS, RESTARTS, FigureOptions, ReadOptions
from rlreport.text.language import TAGS, Language

if TYPE_CHECKING:
    _Whole = click.ParamType[int]
    AnyType = click.ParamType[Any]
else:  # before click 8.5 it is no generic class
    _Whole = AnyType = click.ParamType

Command = TypeVar("Command", bound=Callable[..., Any])

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmg]?)b?\s*", re.IGNORECASE)


class Size(_Whole):
    """Bytes: ``10MB``, ``500kB``, ``1GB`` or a plain number; units are decimal."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes of a written size."""
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(str(value))
        unit = 1000 ** ["", "k", "m", "g"].index(match[2].lower()) if match else 0
        if not match or float(match[1]) * unit < 1:
            self.fail(f"{value!r} is not a size such as 10MB, 500kB or 1GB", param, ctx)
        return int(float(match[1]) * unit)


SIZE = Size()


class Place(AnyType):
    """Where a report goes: a path, or a URL, which stays text."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Path of a file or folder, text of a URL."""
        return value if "://" in str(value) else Path(value)


PLACE = Place()


def reading_options(command: Command) -> Command:
    """Adds LOGS and the options of reading and of the formulas."""
    return click.argument("logs", nargs=-1, required=True)(options_of_reading(command))


def options_of_reading(command: Command) -> Command:
    """Adds the options of reading and of the formulas."""
    options = (
        click.option(
            "--pad-token",
            multiple=True,
            metavar="TEXT",
            help="A further padding token to drop (repeatable). Usual ones are known.",
        ),
        click.option(
            "--system-end-token",
            metavar="TEXT",
            help="Drop everything of a prompt up to and including the last TEXT.",
        ),
        click.option("--log-format", metavar="ID", help="Log format; detected unless given."),
        click.option(
            "--map",
            "mapping",
            multiple=True,
            metavar="FIELD=PATH",
            help="Take FIELD from the dotted PATH of each object, e.g. reward=score (repeatable).",
        ),
        click.option(
            "--step-from-path",
            metavar="REGEX",
            help="Take the step from the file's path: first group, or the one named 'step'.",
        ),
        click.option("--split", metavar="NAME", help="Which split to read, e.g. train or val."),
        click.option(
            "--tokenizer",
            type=click.Path(),
            metavar="FILE",
            help="tokenizer.json that turns logged token ids into strings.",
        ),
        click.option(
            "--restarts",
            type=click.Choice(RESTARTS),
            default="all",
            show_default=True,
            help="Rows of a step that a restarted run logged twice: keep all, or the last.",
        ),
        click.option(
            "--metrics",
            multiple=True,
            type=click.Path(),
            metavar="FILE",
            help="Trainer metrics to plot beside (repeatable); found beside the logs unless given.",
        ),
        click.option("--strict", is_flag=True, help="Fail where anything would be left out."),
        click.option(
            "--max-line",
            type=SIZE,
            default="256MB",
            show_default=True,
            help="Longest line that is read.",
        ),
        click.option(
            "--workers",
            type=click.IntRange(0, 256),
            default=0,
            show_default="one a core",
            help="Processes that read and draw.",
        ),
        click.option(
            "--ray",
            metavar="ADDRESS",
            help="Read and draw on the Ray cluster at ADDRESS (HOST:PORT), or 'auto' for the one "
            "that this machine is a node of; see docs/integrations.md.",
        ),
        click.option(
            "--cache",
            default="",
            metavar="DIR|auto",
            help="Folder to keep what was found in, so that the next build reads what is new; "
            "'auto' is the user's cache.",
        ),
        click.option(
            "--cache-size",
            type=SIZE,
            default="20GB",
            show_default=True,
            help="Size the cache may have; what was not used longest goes first.",
        ),
        click.option(
            "--gamma",
            type=click.FloatRange(0, 1),
            default=1.0,
            show_default=True,
            help="Discount of GAE.",
        ),
        click.option(
            "--lam",
            type=click.FloatRange(0, 1),
            default=0.95,
            show_default=True,
            help="λ of GAE.",
        ),
        click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def judging_options(command: Command) -> Command:
    """Adds the options of the health checks: their thresholds, and when to fail."""
    options = (
        click.option(
            "--thresholds",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="TOML file with thresholds of the checks; see 'rlreport checks'.",
        ),
        click.option(
            "--mute",
            multiple=True,
            metavar="ID=REASON",
            help="Set a finding aside; it is shown as muted with its reason (repeatable).",
        ),
        click.option(
            "--fail-on",
            type=click.Choice(["warning", "critical"]),
            help="Exit with status 1 when there is such a finding or a worse one.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def language_option(command: Command) -> Command:
    """Adds the language of what people read."""
    return click.option(
        "--lang",
        type=click.Choice(list(TAGS)),
        default=Language().code,
        show_default=True,
        help="Language of pages, findings, mail and Markdown; data/ stays English.",
    )(command)


def mutes(pairs: Sequence[str]) -> dict[str, str]:
    """Takes ``ID=REASON`` apart.

    Raises:
        UsageError: one has no reason, or names no check.
    """
    from rlreport.check.registry import refuse_unknown

    found = {}
    for pair in pairs:
        name, _, reason = pair.partition("=")
        if not reason.strip():
            raise UsageError(f"--mute {pair}: write ID=REASON, for example negative_kl=top-k is on")
        found[name.strip()] = reason.strip()
    refuse_unknown(found)
    return found


def read_options(given: dict[str, Any]) -> tuple[ReadOptions, FigureOptions]:
    """Takes the reading options out of a command's parameters.

    Raises:
        UsageError: ``--map`` cannot be understood.
    """
    mapping = {}
    for pair in given.pop("mapping"):
        field, equals, path = pair.partition("=")
        if not (equals and field and path):
            raise UsageError(f"--map {pair}: write FIELD=PATH, for example reward=score")
        mapping[field] = path
    figures = FigureOptions(given.pop("gamma"), given.pop("lam"))
    pad_tokens = (*DEFAULT_PAD_TOKENS, *given.pop("pad_token"))
    keys = (
        *("system_end_token", "log_format", "step_from_path", "split", "tokenizer", "restarts"),
        *("strict", "max_line", "workers", "ray", "cache", "cache_size"),
    )
    return (
        ReadOptions(
            pad_tokens=tuple(dict.fromkeys(pad_tokens)),
            mapping=mapping,
            metrics=given.pop("metrics"),
            **{key: given.pop(key) for key in keys},
        ),
        figures,
    )
