"""Collect a run's configuration (its card), without credentials."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rlreport.errors import RowError, UsageError
from rlreport.system.documents import load_config
from rlreport.text.clean import safe_text, shortened
from rlreport.text.messages import clauses, listed, message, plural
from rlreport.text.secrets import Scalar, assigns_secret, is_secret, named_value

# Paths of configuration files, relative to the folder of the logs or to its parent
CONFIGURATIONS = (
    "config.yaml",
    "config.yml",
    "config.json",
    "config.toml",
    ".hydra/config.yaml",
    "args.json",
    "training_args.json",
    "training_args.yaml",
    "rlreport_args.json",
    "trainer_state.json",
)

MOST_ENTRIES = 2_000  # maximum number of entries
MOST_CHARACTERS = 500  # maximum characters of a name or a value
MOST_IN_ALL = 60_000  # maximum characters of all names and values together
_MAX_BITS = 63  # larger integers are replaced by a description
_MAX_CHECKED = 20_000  # only this many characters of a value are searched for secrets
_MAX_ITEMS = 100  # of a list, that are shown
_MAX_ERROR = 200  # characters of an error's message
_NESTED = (Mapping, list, tuple)
_MAX_DEPTH = 24  # values nested deeper are ignored
# Maximum nesting, and indentation per level, on a page
_MAX_NESTING = 12
_INDENT = "  "
# Entries of configuration files that are results of the run, not settings
_RESULT_ENTRIES = ("log_history",)
# The settings in a ``trainer_state.json``, whose other entries are bookkeeping
_STATE = "trainer_state.json"
_SETTINGS_IN_STATE = frozenset(
    {
        "eval_steps",
        "logging_steps",
        "max_steps",
        "num_train_epochs",
        "save_steps",
        "train_batch_size",
    }
)

_PROSE_NAME = re.compile(r"prompt|system|template|instruct", re.IGNORECASE)
_CARD_NUMBER = r"[-+]?[0-9.]+(?:e[-+]?[0-9]+)?"
_NUMBERS_OR_CONSTANT = re.compile(
    rf"{_CARD_NUMBER}(?:, {_CARD_NUMBER})*|True|False|null"
)
# Matches names, paths, URLs and ``${references}``, which are never prose
_IDENTIFIER = re.compile(r"[\w.,:/@=+~${}\[\]-]{1,200}", re.ASCII)


@dataclass(slots=True)
class Card:
    """The configuration of a run (card): names with values, without likely secrets.

    Attributes:
        entries: dotted name such as ``optim.lr`` -> value; later sources replace earlier values.
        sources: where the entries come from: file names without folders, ``--meta``, ``git``.
        paths: the configuration files among them.
        secrets: names of the entries omitted as likely secrets.
        cut: number of entries omitted because of MOST_ENTRIES or MOST_IN_ALL.
        notes: one sentence per configuration file that could not be read.
        withheld: whether entries existed, but ``--redact=names`` removed all of them.
    """

    entries: dict[str, Scalar] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    secrets: set[str] = field(default_factory=set)
    cut: int = 0
    notes: list[str] = field(default_factory=list)
    withheld: bool = False

    def as_json(self) -> dict[str, Any]:
        facts = {name: getattr(self, name) for name in ("entries", "sources", "cut")}
        return facts | {"hidden": len(self.secrets)}

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
    tracked: tuple[str, Mapping[str, Any]] | None = None,
) -> Card:
    """Return the configuration of a run, from files, ``meta`` and, with ``git``, the commit.

    The files are ``configs`` or, without any, those next to the logs, and ``tracked``: the name of
    a tracker's file, and the configuration in it. A file that cannot be read raises UsageError if
    it is one of ``configs``, else it becomes a note.
    """
    card = Card()
    # Later sources replace values of earlier ones: trackers, files, then --meta, then git.
    if tracked is not None and not configs:
        _add(card, *tracked)
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
            _add(card, path.name, _settings_in(path, values))
            card.paths.append(path)
        elif configs:  # a list or a scalar
            raise UsageError(f"--config {path.name}: contains no settings")
    if meta:
        _add(card, "--meta", meta)
    if git:
        _add(card, "git", _git())
    return card


def _settings_in(path: Path, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the entries of a configuration file without those that are results of the run."""
    if path.name == _STATE:
        return {k: v for k, v in values.items() if k in _SETTINGS_IN_STATE}
    return {k: v for k, v in values.items() if k not in _RESULT_ENTRIES}


def with_settings(card: Card, source: str, settings: Mapping[str, Any]) -> Card:
    """Return a card with the settings that a log has; entries that the card has already stay."""
    added = deepcopy(card)
    known = card.entries.keys() | card.secrets
    new = {name: value for name, value in _scalars(settings) if name not in known}
    _add(added, source, new)
    return added


def configured(folder: Path) -> list[Path]:
    """Return the configuration files in a folder."""
    return [folder / name for name in CONFIGURATIONS if (folder / name).is_file()]


def redacted_text(name: str, text: str) -> str:
    """Return a configuration value, or "[text]" if its name or form suggests prose."""
    if _NUMBERS_OR_CONSTANT.fullmatch(text):
        return text
    harmless = _IDENTIFIER.fullmatch(text) and not _PROSE_NAME.search(name)
    return text if harmless else "[text]"


def card_texts(entries: Mapping[str, Any]) -> dict[str, str]:
    """Return the entries of a configuration as texts, by ``config.`` and their dotted name."""
    return {
        f"config.{name}": "null" if value is None else str(value)
        for name, value in card_values(entries).items()
    }


def card_values(entries: Mapping[str, Any]) -> dict[str, Scalar]:
    """Flatten the configuration in an earlier report to dotted names; drop likely secrets."""
    return {
        name: _shortened(value)
        for name, value in islice(_scalars(entries), MOST_ENTRIES)
        if not is_secret(name, value)
    }


def _shortened(value: Scalar) -> Scalar:
    return shortened(value, MOST_CHARACTERS) if isinstance(value, str) else value


def _configurations_of(logs: Sequence[str | Path]) -> list[Path]:
    """Return the configuration files in the folder of the logs or, without any, the one above it.

    [] if the logs have different ones.
    """
    candidates: list[list[Path]] = []
    for log in logs:
        if "://" in str(log):  # only local folders are searched
            continue
        path = Path(log)
        folder = path if path.is_dir() else path.parent
        config_files = configured(folder) or configured(folder.parent)
        if config_files and config_files not in candidates:
            candidates.append(config_files)
    # Logs with different configurations are several runs, so that none applies.
    return candidates[0] if len(candidates) == 1 else []


def _add(card: Card, source: str, values: Mapping[str, Any]) -> None:
    """Add the entries of a source to the card, without likely secrets and up to the limits."""
    card.sources.append(source)
    sizes = [len(name) + len(str(value)) for name, value in card.entries.items()]
    room = MOST_IN_ALL - sum(sizes)  # characters left for names and values
    for name, value in _scalars(values):
        short_value = _shortened(value)
        size = len(name) + len(str(short_value))
        # An entry that is omitted must not leave the value of an earlier source. The value is
        # judged before it is shortened, as its end may be the secret.
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
    """Yield (dotted name, value) of all scalars in nested values."""
    # The nodes include mappings and lists, a few of them for each scalar.
    for name, value in islice(_nodes("", values, 0), 4 * MOST_ENTRIES):
        if not isinstance(value, _NESTED):
            yield name, value


def _nodes(name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, value) of ``value`` and of all in it; a list of scalars is one text.

    ``name`` is the dotted name of ``value``, "" for the whole configuration; ``depth`` is the
    number of mappings and lists around it. Also mappings and lists are yielded, before what is in
    them, so that a caller can limit the work on a value that has many.
    """
    if isinstance(value, Mapping):
        yield name, value
        # {key: API_KEY, value: x} is judged by the name API_KEY.
        pairs = named_value({_text(key): child for key, child in value.items()})
        children: Iterable[tuple[Any, Any]] = pairs.items()
    elif isinstance(value, (list, tuple)):
        text = _text_of_items(value)
        has_nested = any(isinstance(item, _NESTED) for item in value)
        # A name and its value may be lists of one item: [[--password], [hunter2]].
        if not has_nested or assigns_secret(text):
            yield name, text
            return
        yield name, value
        children = enumerate(value)
    else:
        is_number = isinstance(value, (bool, int, float)) and not _is_large(value)
        yield name, value if value is None or is_number else _text(value)
        return
    if depth >= _MAX_DEPTH:
        return
    prefix = f"{name}." if name else ""
    for key, child in children:
        child_name = shortened(prefix + _text(key), MOST_CHARACTERS)
        yield from _nodes(child_name, child, depth + 1)


def _text_of_items(values: Sequence[Any]) -> str:
    """Return the first scalars in a list, and in the lists in it, as one text."""
    scalars: list[Any] = []
    for value in values:
        items = value if isinstance(value, (list, tuple)) else [value]
        scalars += [item for item in items if not isinstance(item, _NESTED)]
        if len(scalars) >= _MAX_ITEMS:
            break
    return _text(", ".join(map(_text, scalars[:_MAX_ITEMS])))


def _is_large(value: object) -> bool:
    return isinstance(value, int) and value.bit_length() > _MAX_BITS


def _text(value: object) -> str:
    if isinstance(value, int) and _is_large(value):
        # str() fails for integers of thousands of digits
        return f"an integer of {value.bit_length():,} bits"
    return safe_text(str(value)[:_MAX_CHECKED])


def _error_text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return error.reason if isinstance(error, RowError) else str(error)[:_MAX_ERROR]


def _git() -> dict[str, Scalar]:
    """Return the commit, the branch and whether files are changed, {} outside of a repository."""

    def git(*words: str) -> str | None:
        """Return what a command prints, None if it fails."""
        # ``git status`` would otherwise lock a repository that is in use.
        command = ["git", "--no-optional-locks", *words]
        try:
            process = subprocess.run(
                command,
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
    changes = git("status", "--porcelain", "--untracked-files=no")
    return {
        "git.commit": commit,
        "git.branch": git("rev-parse", "--abbrev-ref", "HEAD"),
        "git.dirty": None if changes is None else bool(changes),
    }


def card_view(card: Card) -> dict[str, str] | None:
    """Return ``summary`` (one sentence) and ``text`` (the entries) for a page, None if empty.

    A card that has only omitted entries is not empty: the summary tells how many there are.
    """
    if card.withheld:
        return {
            "summary": message("Configuration: omitted by --redact=names"),
            "text": "",
        }
    entries = len(card.entries)
    hidden = len(card.secrets)
    files = listed(card.sources)
    if not (entries or hidden or card.cut):
        return None
    shown = plural(
        "{count} entry from {files}",
        "{count} entries from {files}",
        entries,
        files=files,
    )
    secret = plural(
        "{count} omitted as a likely secret",
        "{count} omitted as likely secrets",
        hidden,
    )
    cut = message(
        "{count:count} omitted, as the configuration is too long", count=card.cut
    )
    parts = [shown, secret if hidden else "", cut if card.cut else ""]
    summary = message("Configuration: {what}", what=clauses(parts))
    return {"summary": summary, "text": "\n".join(_card_lines(card))}


def _card_lines(card: Card) -> list[str]:
    """Return the entries as indented lines, like YAML."""
    lines: list[str] = []
    previous_groups: list[str] = []  # those of the entry before
    for name, value in card.entries.items():
        # ``optim.lr`` is the label "lr" in the group "optim".
        *groups, label = name.split(".", _MAX_NESTING)
        for depth, group in enumerate(groups):
            # A heading where the group, or one around it, begins
            if groups[: depth + 1] != previous_groups[: depth + 1]:
                lines.append(f"{_INDENT * depth}{group}:")
        previous_groups = groups
        lines.append(f"{_INDENT * len(groups)}{label}: {_value_text(value)}")
    return lines


def _value_text(value: Scalar) -> str:
    if isinstance(value, str):
        return " ".join(value.split())
    return str(value) if type(value) in (int, float) else json.dumps(value)
