"""A run's configuration (card): configuration files, ``--meta``, git state; no likely secrets."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rlreport.about.credentials import Scalar, is_secret, named_value
from rlreport.errors import RowError, UsageError
from rlreport.system.documents import load_config
from rlreport.text.clean import safe_text
from rlreport.text.messages import clauses, listed, message, plural

# Paths of configuration files, relative to the folder of the logs or to its parent
CONFIGURATIONS = (
    "config.yaml", "config.yml", "config.json", "config.toml", ".hydra/config.yaml", "args.json",
    "training_args.json", "training_args.yaml", "trainer_state.json",
)  # fmt: skip

MOST_ENTRIES = 2_000  # maximum number of entries
MOST_CHARACTERS = 500  # maximum characters of a name or a value
MOST_IN_ALL = 60_000  # maximum characters of all names and values together
_MAX_BITS = 63  # larger integers are replaced by a description
_MAX_CHECKED = 20_000  # only this many characters of a value are searched for secrets
_MAX_DEPTH = 24  # values nested deeper are ignored
_MAX_NESTING, _INDENT = 12, "  "  # maximum nesting, and indentation per level, on a page
# Entries of configuration files that are results of the run, not settings
_RESULT_ENTRIES = ("log_history",)

_PROSE_NAME = re.compile(r"prompt|system|template|instruct", re.IGNORECASE)
_NUMBER = r"[-+]?[0-9.]+(?:e[-+]?[0-9]+)?"
_NUMBERS_OR_CONSTANT = re.compile(rf"{_NUMBER}(?:, {_NUMBER})*|True|False|null")
# Matches names, paths, URLs and ``${references}``, which are never prose
_IDENTIFIER = re.compile(r"[\w.,:/@=+~${}\[\]-]{1,200}", re.ASCII)


@dataclass(slots=True)
class Card:
    """The configuration of a run (card): names with values, without likely secrets."""

    # dotted name such as ``optim.lr`` -> value; later sources replace earlier values
    entries: dict[str, Scalar] = field(default_factory=dict)
    # where the entries come from: file names without folders, ``--meta``, ``git``
    sources: list[str] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)  # the configuration files among them
    secrets: set[str] = field(default_factory=set)  # names of the entries omitted as likely secrets
    cut: int = 0  # number of entries omitted because of MOST_ENTRIES or MOST_IN_ALL
    # one sentence per configuration file that could not be read
    notes: list[str] = field(default_factory=list)
    withheld: bool = False  # whether entries existed, but ``--redact=names`` removed all of them

    @property
    def hidden(self) -> int:
        """Number of entries omitted as likely secrets."""
        return len(self.secrets)

    def as_json(self) -> dict[str, Any]:
        """Return the run's configuration as a dict for ``report.json``."""
        return {name: getattr(self, name) for name in ("entries", "sources", "hidden", "cut")}

    def without_texts(self) -> Card:
        """Return a copy in which ``[text]`` replaces values that may be prose, such as a prompt."""
        entries = {
            name: redacted_text(name, value) if isinstance(value, str) else value
            for name, value in self.entries.items()
        }
        return replace(self, entries=entries)


def run_card(
    logs: Sequence[str | Path],
    *,
    configs: Sequence[str | Path] = (),
    meta: Mapping[str, str] | None = None,
    git: bool = False,
) -> Card:
    """Collect the configuration of a run.

    Args:
        logs: paths of the logs. Without ``configs``, configuration files next to them are read.
        configs: configuration files to read (YAML, JSON or TOML).
        meta: further entries, from ``--meta KEY=VALUE``.
        git: whether to add the commit, branch and dirty state of the current folder.

    Raises:
        UsageError: a file of ``configs`` cannot be read; for other files, a note is added.
    """
    card = Card()
    for path in map(Path, configs or _configurations_of(logs)):
        try:
            values = load_config(path)
        except (OSError, ValueError) as error:
            reason = message(
                "{file}: cannot be read as a configuration: {why}",
                file=path.name,
                why=_error_text(error),
            )
            if configs:
                raise UsageError(f"--config {reason}") from None
            card.notes.append(reason)
            continue
        if isinstance(values, Mapping):
            settings = {k: v for k, v in values.items() if k not in _RESULT_ENTRIES}
            _add(card, path.name, settings)
            card.paths.append(path)
        elif configs:
            raise UsageError(f"--config {path.name}: contains no names with values")
    if meta:
        _add(card, "--meta", meta)
    if git:
        _add(card, "git", _git())
    return card


def configured(folder: Path) -> list[Path]:
    """Return the paths of the configuration files that exist in a folder."""
    return [folder / name for name in CONFIGURATIONS if (folder / name).is_file()]


def redacted_text(name: str, text: str) -> str:
    """Return a configuration value, or ``[text]`` if its name or form suggests prose."""
    if _NUMBERS_OR_CONSTANT.fullmatch(text):
        return text
    harmless = _IDENTIFIER.fullmatch(text) and not _PROSE_NAME.search(name)
    return text if harmless else "[text]"


def card_texts(entries: Mapping[str, Any]) -> dict[str, str]:
    """Return configuration values as text, with ``config.`` before each name, for a comparison."""
    return {
        f"config.{name}": "null" if value is None else str(value)
        for name, value in card_values(entries).items()
    }


def card_values(entries: Mapping[str, Any]) -> dict[str, Scalar]:
    """Flatten the configuration in an earlier report to dotted names; drop likely secrets."""
    return {
        name: _short(value) if isinstance(value, str) else value
        for name, value in islice(_scalars(entries), MOST_ENTRIES)
        if not is_secret(name, value)
    }


def _configurations_of(logs: Sequence[str | Path]) -> list[Path]:
    """Return the configuration files in the folder of the logs, or else in its parent."""
    candidates = set()
    for path in (Path(log) for log in logs if "://" not in str(log)):
        folder = path if path.is_dir() else path.parent
        candidates.add(tuple(configured(folder) or configured(folder.parent)))
    # Logs with different configurations are several runs, so that none applies.
    candidates.discard(())
    return list(candidates.pop()) if len(candidates) == 1 else []


def _add(card: Card, source: str, values: Mapping[str, Any]) -> None:
    """Add the nested ``values`` of a source to ``card`` under dotted names, without secrets."""
    card.sources.append(source)
    room = MOST_IN_ALL - sum(len(name) + len(str(value)) for name, value in card.entries.items())
    for name, value in _scalars(values):
        short_value = _short(value) if isinstance(value, str) else value
        size = len(name) + len(str(short_value))
        if is_secret(name, value):
            card.secrets.add(name)
            card.entries.pop(name, None)
        elif len(card.entries) < MOST_ENTRIES and size <= room:
            card.entries[name] = short_value
            room -= size
        else:
            card.cut += 1
            card.entries.pop(name, None)


def _scalars(values: Mapping[str, Any]) -> Iterator[tuple[str, Scalar]]:
    """Flatten nested values to (dotted name, scalar) pairs; a list of scalars becomes one text.

    Depth and number of values are limited, as YAML aliases can make a value contain itself.
    """
    for name, value in islice(_nodes("", values, 0), 4 * MOST_ENTRIES):
        if not isinstance(value, (Mapping, list, tuple)):
            yield name, value


def _nodes(name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, value) for a value and for all values nested in it, parents first."""
    if isinstance(value, Mapping):
        yield name, value
        pairs = named_value({_text(key): child for key, child in value.items()})
        children: Iterable[tuple[Any, Any]] = pairs.items()
    elif isinstance(value, (list, tuple)):
        if not any(isinstance(item, (Mapping, list, tuple)) for item in value):
            yield name, _text(", ".join(_text(item) for item in value[:100]))
            return
        yield name, value
        children = enumerate(value)
    else:
        is_large = isinstance(value, int) and value.bit_length() > _MAX_BITS
        is_json_scalar = not is_large and isinstance(value, (bool, int, float, type(None)))
        yield name, value if is_json_scalar else _text(value)
        return
    for key, child in children if depth < _MAX_DEPTH else ():
        prefix = f"{name}." if name else ""
        yield from _nodes(_short(f"{prefix}{_short(_text(key))}"), child, depth + 1)


def _text(value: object) -> str:
    """Return a value as printable text of at most _MAX_CHECKED characters."""
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        # str() fails for integers of thousands of digits
        return f"a whole number of {value.bit_length():,} bits"
    return safe_text(str(value)[:_MAX_CHECKED])


def _short(text: str) -> str:
    """Return a text, cut to MOST_CHARACTERS and marked with "…" if it is longer."""
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "…"


def _error_text(error: BaseException) -> str:
    """Return the message of an error that occurred while reading a file."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return error.reason if isinstance(error, RowError) else str(error)[:200]


def _git() -> dict[str, Scalar]:
    """Return commit, branch and dirty state of the current folder; {} outside a git checkout."""

    def git(*words: str) -> str | None:
        command = ["git", "--no-optional-locks", *words]
        try:
            process = subprocess.run(
                command, capture_output=True, timeout=10, check=True, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return process.stdout.decode("utf-8", "replace").strip()

    commit = git("rev-parse", "HEAD")
    if not commit:
        return {}
    changes = git("status", "--porcelain", "--untracked-files=no")
    return {
        "git.commit": commit,
        "git.branch": git("rev-parse", "--abbrev-ref", "HEAD"),
        "git.dirty": None if changes is None else bool(changes),
    }


def card_view(card: Card) -> dict[str, str] | None:
    """Return a dict with a ``summary`` and all entries as ``text``; None if there is no entry."""
    if card.withheld:
        return {"summary": message("Configuration: omitted by --redact=names"), "text": ""}
    if not (card.entries or card.hidden or card.cut):
        return None
    entries, files = len(card.entries), listed(card.sources)
    parts = [
        plural("{count} entry from {files}", "{count} entries from {files}", entries, files=files)
    ]
    if card.hidden:
        parts.append(
            plural(
                "{count} omitted as a likely secret",
                "{count} omitted as likely secrets",
                card.hidden,
            )
        )
    if card.cut:
        parts.append(
            message("{count:count} omitted, as the configuration is too long", count=card.cut)
        )
    summary = message("Configuration: {what}", what=clauses(parts))
    return {"summary": summary, "text": "\n".join(_card_lines(card))}


def _card_lines(card: Card) -> list[str]:
    """Return the entries as indented lines, as in YAML: ``a.b`` is ``b:`` below a line ``a:``."""
    lines: list[str] = []
    previous_groups: list[str] = []
    for name, value in card.entries.items():
        *groups, label = name.split(".", _MAX_NESTING)
        lines += [
            f"{_INDENT * depth}{group}:"
            for depth, group in enumerate(groups)
            if groups[: depth + 1] != previous_groups[: depth + 1]
        ]
        previous_groups = groups
        lines.append(f"{_INDENT * len(groups)}{label}: {_value_text(value)}")
    return lines


def _value_text(value: Scalar) -> str:
    """Return a value on one line, written as in JSON; texts are not quoted."""
    if isinstance(value, str):
        return " ".join(value.split())
    return str(value) if type(value) in (int, float) else json.dumps(value)
