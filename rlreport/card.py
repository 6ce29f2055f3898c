"""Metadata of a run: its configuration without secrets."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rlreport.credentials import Scalar, is_secret, named_value
from rlreport.errors import RowError, UsageError
from rlreport.sidefiles import load_config
from rlreport.text.clean import safe_text
from rlreport.text.messages import message

FOUND_BESIDE = (
    "config.yaml",
    "config.yml",
    "config.json",
    "config.toml",
    ".hydra/config.yaml",
    "args.json",
    "training_args.json",
    "training_args.yaml",
    "trainer_state.json",
)
"""Configuration files that are looked for in a folder of logs and in its parent."""

MOST_ENTRIES = 2_000
MOST_CHARACTERS = 500
MOST_IN_ALL = 60_000
"""Maximum characters of all names and values, as every format contains them."""

_BITS = 63
_LOOKED_AT = 20_000
_DEEPEST = 24
_RECORDED = ("log_history",)
"""Entries of configuration files with figures of the run instead of settings."""

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
        hidden: number of entries omitted as likely secrets.
        cut: number of entries omitted as there are too many.
        notes: sentences on files that could not be read.
        withheld: there are entries, which ``--redact=names`` hides.
    """

    entries: dict[str, Scalar] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    hidden: int = 0
    cut: int = 0
    notes: list[str] = field(default_factory=list)
    withheld: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the metadata for ``report.json``."""
        return {name: getattr(self, name) for name in ("entries", "sources", "hidden", "cut")}

    def without_texts(self) -> Card:
        """Return the metadata without values that may be prose, such as a system prompt."""
        shown = {name: redacted_value(name, value) for name, value in self.entries.items()}
        return replace(self, entries=shown)


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
        configs: configuration files (yaml, json, toml), instead of those found.
        meta: further entries.
        git: add commit, branch and whether there are changes, of the current folder's checkout.

    Raises:
        UsageError: a file of ``configs`` cannot be read; others become notes.
    """
    builder = _Builder()
    for given in configs:
        builder.add_file(Path(given), required=True)
    if not configs:
        for found in found_beside(logs):
            builder.add_file(found, required=False)
    if meta:
        builder.add("--meta", dict(meta))
    if git:
        builder.add("git", _git())
    return builder.card


def found_beside(logs: Sequence[str | Path]) -> list[Path]:
    """Return the configuration files in the folder of the logs, or in its parent."""
    found: set[tuple[Path, ...]] = set()
    for place in (Path(given) for given in logs if "://" not in str(given)):
        folder = place if place.is_dir() else place.parent
        found.add(tuple(configured(folder) or configured(folder.parent)))
    # Logs with different configurations are several runs.
    found.discard(())
    return list(found.pop()) if len(found) == 1 else []


def configured(folder: Path) -> list[Path]:
    """Return the configuration files in a folder."""
    return [folder / name for name in FOUND_BESIDE if (folder / name).is_file()]


def redacted_value(name: str, value: Scalar) -> Scalar:
    """Return a value, or a placeholder if it may be prose."""
    return redacted_text(name, value) if isinstance(value, str) else value


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
        for name, value in list(_flat(entries, "", 0))[:MOST_ENTRIES]
        if not is_secret(name, value)
    }


class _Builder:
    """Collect entries in ``card`` and count the omitted ones."""

    def __init__(self) -> None:
        self.card = Card()
        self._hidden: set[str] = set()
        self._room = MOST_IN_ALL

    def add_file(self, path: Path, *, required: bool) -> None:
        """Add a configuration file.

        Raises:
            UsageError: the user named it and it cannot be read.
        """
        try:
            found = load_config(path)
        except (OSError, ValueError) as error:
            reason = message(
                "{file}: cannot be read as a configuration: {why}",
                file=path.name,
                why=_reason(error),
            )
            if required:
                raise UsageError(f"--config {reason}") from None
            self.card.notes.append(reason)
            return
        if isinstance(found, Mapping):
            self.add(path.name, {k: v for k, v in found.items() if k not in _RECORDED})
        elif required:
            raise UsageError(f"--config {path.name}: contains no names with values")

    def add(self, source: str, values: Mapping[str, Any]) -> None:
        """Add nested values."""
        card, entries = self.card, self.card.entries
        card.sources.append(source)
        for name, value in _flat(values, "", 0):
            if is_secret(name, value):
                self._hidden.add(name)
                card.hidden = len(self._hidden)
                entries.pop(name, None)
                continue
            size = len(name) + min(len(str(value)), MOST_CHARACTERS)
            if len(entries) < MOST_ENTRIES and size <= self._room:
                self._room -= size
                entries[name] = _short(value) if isinstance(value, str) else value
            else:
                entries.pop(name, None)
                card.cut += 1


def _flat(value: Any, name: str, depth: int) -> Iterator[tuple[str, Scalar]]:
    """Yield (dotted name, scalar); lists of scalars become one text.

    Depth and number are limited, as YAML aliases may be recursive.
    """
    left = 4 * MOST_ENTRIES
    waiting = [iter([(name, value)])]
    while waiting and left:
        at, inner = next(waiting[-1], (None, None))
        if at is None:
            waiting.pop()
            continue
        left -= 1
        deep = depth + len(waiting) - 1
        if isinstance(inner, Mapping) and deep < _DEEPEST:
            pairs = {_text(key): child for key, child in inner.items()}
            waiting.append(_children(at, named_value(pairs).items()))
        elif isinstance(inner, int) and inner.bit_length() > _BITS:
            yield at, _in_words(inner)
        elif isinstance(inner, (bool, int, float)) or inner is None:
            yield at, inner
        elif isinstance(inner, (list, tuple)):
            if any(isinstance(item, (Mapping, list, tuple)) for item in inner):
                if deep < _DEEPEST:
                    waiting.append(_children(at, enumerate(inner)))
            else:
                yield at, _text(", ".join(_text(item) for item in inner[:100]))
        else:
            yield at, _text(inner)


def _children(name: str, items: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, value); long names are shortened."""
    prefix = f"{name}." if name else ""
    for key, child in items:
        yield _short(f"{prefix}{_short(_text(key))}"), child


def _text(value: object) -> str:
    """Return a value as printable text, long enough to recognize a secret."""
    if isinstance(value, int) and value.bit_length() > _BITS:
        return _in_words(value)  # str() refuses thousands of digits
    return safe_text(str(value)[:_LOOKED_AT])


def _in_words(number: int) -> str:
    return f"a whole number of {number.bit_length():,} bits"


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
        try:
            process = subprocess.run(
                ["git", "--no-optional-locks", *words],
                capture_output=True,
                timeout=10,
                check=True,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return process.stdout.decode("utf-8", "replace").strip()

    commit = git("rev-parse", "HEAD")
    if not commit:
        return {}
    changed = git("status", "--porcelain", "--untracked-files=no")
    return {
        "git.commit": commit,
        "git.branch": git("rev-parse", "--abbrev-ref", "HEAD"),
        "git.dirty": None if changed is None else bool(changed),
    }
