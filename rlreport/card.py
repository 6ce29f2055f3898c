"""Metadata of a run: its configuration without secrets."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rlreport.credentials import Scalar, is_secret, named_value
from rlreport.errors import RowError, UsageError
from rlreport.sidefiles import load_config
from rlreport.text.clean import safe_text
from rlreport.text.messages import clauses, listed, message, plural

CONFIGURATIONS = (
    "config.yaml", "config.yml", "config.json", "config.toml", ".hydra/config.yaml", "args.json",
    "training_args.json", "training_args.yaml", "trainer_state.json",
)  # fmt: skip
"""Configuration files that are looked for in a folder of logs and in its parent."""

MOST_ENTRIES = 2_000
MOST_CHARACTERS = 500
MOST_IN_ALL = 60_000  # maximum characters of all names and values, as every format contains them
_MAX_BITS = 63
_MAX_CHECKED = 20_000  # characters of a value in which a secret is looked for
_MAX_DEPTH = 24
_DEEPEST, _INDENT = 12, "  "  # of the entries as a page nests them
_RECORDED = ("log_history",)
"""Entries of configuration files that are results of the run, not settings."""

_PROSE_NAME = re.compile(r"prompt|system|template|instruct", re.IGNORECASE)
_NUMBER = r"[-+]?[0-9.]+(?:e[-+]?[0-9]+)?"
_NO_PROSE = re.compile(rf"{_NUMBER}(?:, {_NUMBER})*|True|False|null")
_IDENTIFIER = re.compile(r"[\w.,:/@=+~${}\[\]-]{1,200}", re.ASCII)
"""Names, paths, URLs and references, which are not prose in any language."""


@dataclass(slots=True)
class Card:
    """Metadata of a run.

    Attributes:
        entries: dotted name -> value, in the order of the sources; later ones replace earlier.
        sources: names of the files (without their folders), ``--meta``, ``git``.
        secrets: names of entries omitted as likely secrets.
        cut: number of entries omitted as there are too many.
        notes: sentences on files that could not be read.
        withheld: whether ``--redact=names`` hides entries.
    """

    entries: dict[str, Scalar] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    secrets: set[str] = field(default_factory=set)
    cut: int = 0
    notes: list[str] = field(default_factory=list)
    withheld: bool = False

    @property
    def hidden(self) -> int:
        """Number of entries omitted as likely secrets."""
        return len(self.secrets)

    def as_json(self) -> dict[str, Any]:
        """Return the metadata for ``report.json``."""
        return {name: getattr(self, name) for name in ("entries", "sources", "hidden", "cut")}

    def without_texts(self) -> Card:
        """Return the metadata without values that may be prose, such as a system prompt."""
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
    """Collect the metadata of a run.

    Args:
        logs: paths of the logs; configuration next to them is used unless ``configs`` is given.
        configs: configuration files (yaml, json, toml) to read instead.
        meta: further entries.
        git: add commit, branch and dirty state of the checkout in the current folder.

    Raises:
        UsageError: a file of ``configs`` cannot be read; others become notes.
    """
    card = Card()
    for path in map(Path, configs or _configurations_of(logs)):
        try:
            values = load_config(path)
        except (OSError, ValueError) as error:
            reason = message(
                "{file}: cannot be read as a configuration: {why}",
                file=path.name,
                why=_reason(error),
            )
            if configs:
                raise UsageError(f"--config {reason}") from None
            card.notes.append(reason)
            continue
        if isinstance(values, Mapping):
            settings = {k: v for k, v in values.items() if k not in _RECORDED}
            _add(card, path.name, settings)
        elif configs:
            raise UsageError(f"--config {path.name}: contains no names with values")
    if meta:
        _add(card, "--meta", meta)
    if git:
        _add(card, "git", _git())
    return card


def configured(folder: Path) -> list[Path]:
    """Return the configuration files in a folder."""
    return [folder / name for name in CONFIGURATIONS if (folder / name).is_file()]


def redacted_text(name: str, text: str) -> str:
    """Return a text, or a placeholder if it may be prose."""
    if _NO_PROSE.fullmatch(text):
        return text
    harmless = _IDENTIFIER.fullmatch(text) and not _PROSE_NAME.search(name)
    return text if harmless else "[text]"


def card_texts(entries: Mapping[str, Any]) -> dict[str, str]:
    """Return entries as texts under ``config.``, for a comparison."""
    return {
        f"config.{name}": "null" if value is None else str(value)
        for name, value in card_values(entries).items()
    }


def card_values(entries: Mapping[str, Any]) -> dict[str, Scalar]:
    """Return the entries of an earlier report, without likely secrets."""
    return {
        name: _short(value) if isinstance(value, str) else value
        for name, value in islice(_flat(entries), MOST_ENTRIES)
        if not is_secret(name, value)
    }


def _configurations_of(logs: Sequence[str | Path]) -> list[Path]:
    """Return the configuration files in the folder of the logs, or in its parent."""
    candidates = set()
    for path in (Path(log) for log in logs if "://" not in str(log)):
        folder = path if path.is_dir() else path.parent
        candidates.add(tuple(configured(folder) or configured(folder.parent)))
    # Logs with different configurations are several runs.
    candidates.discard(())
    return list(candidates.pop()) if len(candidates) == 1 else []


def _add(card: Card, source: str, values: Mapping[str, Any]) -> None:
    """Add nested values, except likely secrets."""
    card.sources.append(source)
    room = MOST_IN_ALL - sum(len(name) + len(str(value)) for name, value in card.entries.items())
    for name, value in _flat(values):
        shown = _short(value) if isinstance(value, str) else value
        size = len(name) + len(str(shown))
        if is_secret(name, value):
            card.secrets.add(name)
            card.entries.pop(name, None)
        elif len(card.entries) < MOST_ENTRIES and size <= room:
            card.entries[name] = shown
            room -= size
        else:
            card.cut += 1
            card.entries.pop(name, None)


def _flat(values: Mapping[str, Any]) -> Iterator[tuple[str, Scalar]]:
    """Yield (dotted name, scalar); lists of scalars become one text.

    Depth and number are limited, as YAML aliases may be recursive.
    """
    for name, value in islice(_nodes("", values, 0), 4 * MOST_ENTRIES):
        if not isinstance(value, (Mapping, list, tuple)):
            yield name, value


def _nodes(name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, value) of a value and of everything nested in it."""
    if isinstance(value, Mapping):
        yield name, value
        named = named_value({_text(key): child for key, child in value.items()})
        children: Iterable[tuple[Any, Any]] = named.items()
    elif isinstance(value, (list, tuple)):
        if not any(isinstance(item, (Mapping, list, tuple)) for item in value):
            yield name, _text(", ".join(_text(item) for item in value[:100]))
            return
        yield name, value
        children = enumerate(value)
    else:
        large = isinstance(value, int) and value.bit_length() > _MAX_BITS
        plain = not large and isinstance(value, (bool, int, float, type(None)))
        yield name, value if plain else _text(value)
        return
    for key, child in children if depth < _MAX_DEPTH else ():
        below = f"{name}." if name else ""
        yield from _nodes(_short(f"{below}{_short(_text(key))}"), child, depth + 1)


def _text(value: object) -> str:
    """Return a value as printable text, cut only where it is too long to search for secrets."""
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        # str() refuses thousands of digits
        return f"a whole number of {value.bit_length():,} bits"
    return safe_text(str(value)[:_MAX_CHECKED])


def _short(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "…"


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    # Messages of parsers quote the file, which may contain secrets.
    return error.reason if isinstance(error, RowError) else str(error)[:200]


def _git() -> dict[str, Scalar]:
    """Return commit, branch and dirty state of the current folder; empty outside of git."""

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
    """Return the run's card as text, nested by indentation; None if nothing is known."""
    if card.withheld:
        return {"summary": message("Configuration: left out with the names"), "text": ""}
    if not (card.entries or card.hidden or card.cut):
        return None
    entries, files = len(card.entries), listed(card.sources)
    parts = [
        plural("{count} entry from {files}", "{count} entries from {files}", entries, files=files)
    ]
    if card.hidden:
        parts.append(
            plural(
                "{count} left out, as it looks like a secret",
                "{count} left out, as they look like secrets",
                card.hidden,
            )
        )
    if card.cut:
        parts.append(message("{count:count} left out for their number or length", count=card.cut))
    summary = message("Configuration: {what}", what=clauses(parts))
    return {"summary": summary, "text": "\n".join(_card_lines(card))}


def _card_lines(card: Card) -> list[str]:
    lines: list[str] = []
    above: list[str] = []
    for name, value in card.entries.items():
        *groups, last = name.split(".", _DEEPEST)
        lines += [
            f"{_INDENT * depth}{group}:"
            for depth, group in enumerate(groups)
            if groups[: depth + 1] != above[: depth + 1]
        ]
        above = groups
        lines.append(f"{_INDENT * len(groups)}{last}: {_written(value)}")
    return lines


def _written(value: Scalar) -> str:
    """Write a value as configuration files do, on one line."""
    if isinstance(value, str):
        return " ".join(value.split())
    return str(value) if type(value) in (int, float) else json.dumps(value)
