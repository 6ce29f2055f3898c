"""Detect that the logs given as one run come from several runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlreport.about.card import configured
from rlreport.tables import Note, NoteKind, RowRole, Tables
from rlreport.text.messages import message

_MAX_NAMED = 3  # names listed in a note
# Minimum fraction of steps (or prompts) that several runs share
_MIN_SHARED_FRACTION = 0.8
# Minimum number of steps (or of prompts per step) that several runs share
_MIN_SHARED_COUNT = 3

_RUN_NAME = re.compile(
    r"(?:^|[-_.])(?:run|seed|exp|experiment|trial)[-_.=]?(?:\d+|[a-z])?(?:$|[-_.])",
    re.IGNORECASE,
)
# Pattern of a rank's number in a name, such as ``rank_0``; ``{more}``: more words, ``|word``
RANK = (
    r"(?:(?:global|local|dp|data)[-_.]?)?(?:rank|worker|proc(?:ess)?|gpu|node|host|device|shard|dp"
    r"|replica|part|chunk|server|actor|split{more})s?(?:[-_.]?worker)?[-_.=]?\d+"
)

# Matches names of files and folders that are parts of one run, such as ``rank_0``, ``val``
PART_NAME = re.compile(
    RANK.replace("{more}", "|rollout|step|iter(?:ation)?|epoch|global_step")
    + r"|\d+|train(?:ing)?|val(?:id(?:ation)?)?|test|eval(?:uation)?|dev",
    re.IGNORECASE,
)

_COMPRESSION_SUFFIX = re.compile(r"\.(?:gz|zst|zip)$", re.IGNORECASE)


def several_runs(
    logs: Sequence[str | Path], tables: Tables, *, named: bool = True
) -> Note | None:
    """Return a note if the logs look like several runs, else None.

    ``named``: whether the note names the files or folders that look like runs.
    """
    if all("/" not in file.name for file in tables.files):
        return _several_files(tables, named=named)
    contents = _contents_by_folder(tables)
    if contents is None or len(contents) < 2:
        return None
    steps_of_folders = [folder.steps for folder in contents.values()]
    common_steps = set.intersection(*steps_of_folders)
    if not common_steps:
        return None
    folders = [f"{top}/" for top in contents]
    same_files = len({frozenset(folder.files) for folder in contents.values()}) == 1
    fewest = min(map(len, steps_of_folders))
    share_steps = len(common_steps) >= _MIN_SHARED_FRACTION * fewest
    # Rows without a step all have the same one: to share only that proves nothing, as with a
    # folder for each trial.
    if same_files and share_steps and len(common_steps) > 1:
        why = message(
            "they share {steps:count} steps in files of the same names",
            steps=len(common_steps),
        )
    elif all(_has_configuration(logs, top) for top in contents):
        why = message("each has its own configuration")
    else:
        return None
    return _note(folders, why, named=named)


@dataclass(slots=True)
class _FolderContent:
    """What a folder of logs has: paths of files in it, and the steps of training in them."""

    files: set[str] = field(default_factory=set)  # without suffixes of compression
    steps: set[int] = field(default_factory=set)


def _contents_by_folder(tables: Tables) -> dict[str, _FolderContent] | None:
    """Return the content of each top folder; None if these are parts of one run.

    They are if one has a name such as ``rank_0``, or if there is a file next to them.
    """
    is_training = tables.responses["validation"] == RowRole.TRAINING
    rows = tables.responses.loc[is_training, ["file", "step"]]
    steps_of_file = rows.drop_duplicates().groupby("file")["step"].agg(set)
    contents: dict[str, _FolderContent] = {}
    for index, file in enumerate(tables.files):
        top, slash, inner_path = file.name.partition("/")
        if not slash or PART_NAME.fullmatch(top):
            return None
        folder = contents.setdefault(top, _FolderContent())
        folder.files.add(_COMPRESSION_SUFFIX.sub("", inner_path))
        folder.steps.update(steps_of_file.get(index, ()))
    return contents


def _several_files(tables: Tables, *, named: bool) -> Note | None:
    """Return the note if each of the files, all in one folder, looks like a run.

    ``named``: whether the note names them.
    """
    names = [file.name.partition(".")[0] for file in tables.files]
    other_names = [name for name in names if not _RUN_NAME.search(name)]
    # A name such as ``rank_0`` or ``val`` is that of a part of one run.
    if len(names) < 2 or any(map(PART_NAME.search, other_names)):
        return None
    # Names of runs and common steps suffice; with other names, prompts must be the same, too.
    columns = ["step", "prompt_id"] if other_names else ["step"]
    is_training = tables.responses["validation"] == RowRole.TRAINING
    keys = tables.responses.loc[is_training, ["file", *columns]].drop_duplicates()
    files_with_key = keys.groupby(columns).size()
    shared = int((files_with_key == len(names)).sum())  # keys that all files have
    keys_of_file = keys["file"].value_counts()
    # A file without rows of training has no count.
    fewest = keys_of_file.reindex(range(len(names)), fill_value=0).min()
    if shared < max(_MIN_SHARED_COUNT, _MIN_SHARED_FRACTION * fewest):
        return None
    return _note(names, message("their steps overlap"), named=named)


def _note(names: list[str], why: str, *, named: bool) -> Note:
    """Return the note that ``names`` look like several runs, and why.

    ``named``: whether the note lists the names.
    """
    more = "…" if len(names) > _MAX_NAMED else ""
    shown = (*names[:_MAX_NAMED], more)
    text = message(
        "{names} look like {runs:count} runs, as {why}: every figure here mixes them. Build a "
        "report of each, with its own path or --run NAME; rlreport index lists them and rlreport "
        "compare compares two. If they are one run, pass --merge.",
        names=shown if named else message("the logs"),
        runs=len(names),
        why=why,
    )
    return Note(NoteKind.SEVERAL_RUNS, text, len(names))


def _has_configuration(logs: Sequence[str | Path], top: str) -> bool:
    """Return whether the folder ``top`` in, or above, one of the logs has a configuration.

    ``top`` is a name; ``logs`` are the paths that the user gave, files or folders.
    """
    folders: list[Path] = []
    for log in logs:
        if "://" in str(log):  # configurations are read from local folders only
            continue
        root = Path(log)
        # The path is that of the folder itself, of one around it, or of something in it.
        folders.append(root if root.name == top else root / top)
        folders += [parent for parent in root.parents if parent.name == top]
    return any(configured(folder) for folder in folders)
