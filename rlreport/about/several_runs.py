"""Detect that the logs given as one run come from several runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rlreport.about.card import configured
from rlreport.tables import Note, NoteKind, RowRole, Tables
from rlreport.text.messages import message

_MAX_NAMED = 3  # names listed in a note
_MIN_SHARED_FRACTION = (
    0.8  # minimum fraction of steps (or prompts) that several runs share
)
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
_PART_NAME = re.compile(
    RANK.replace("{more}", "|rollout|step|iter(?:ation)?|epoch|global_step")
    + r"|\d+|train(?:ing)?|val(?:id(?:ation)?)?|test|eval(?:uation)?|dev",
    re.IGNORECASE,
)

_COMPRESSION_SUFFIX = re.compile(r"\.(?:gz|zst|zip)$", re.IGNORECASE)


def several_runs(
    logs: Sequence[str | Path], tables: Tables, *, named: bool = True
) -> Note | None:
    """Return a note (with names if ``named``) if the logs look like several runs, else None."""
    if all("/" not in file.name for file in tables.files):
        return _several_files(tables, named=named)
    rows = tables.responses.loc[
        tables.responses["validation"] == RowRole.TRAINING, ["file", "step"]
    ]
    steps = rows.drop_duplicates().groupby("file")["step"].agg(set)
    steps_of: dict[str, set[int]] = {}
    files_of: dict[str, set[str]] = {}
    for i, file in enumerate(tables.files):
        top, slash, inner_path = file.name.partition("/")
        if not slash or _PART_NAME.fullmatch(top):
            return None
        files_of.setdefault(top, set()).add(_COMPRESSION_SUFFIX.sub("", inner_path))
        steps_of.setdefault(top, set()).update(steps.get(i, ()))
    common_steps = set.intersection(*steps_of.values())
    if len(files_of) < 2 or not common_steps:
        return None
    folders = [f"{top}/" for top in files_of]
    same_files = len(set(map(frozenset, files_of.values()))) == 1
    fewest = min(map(len, steps_of.values()))
    shares_steps = len(common_steps) >= _MIN_SHARED_FRACTION * fewest
    # A single step is what rows without any step have, such as those of trials, one a folder.
    if same_files and shares_steps and len(common_steps) > 1:
        why = message(
            "they share {steps:count} steps in files of the same names",
            steps=len(common_steps),
        )
    elif all(_has_configuration(logs, top) for top in files_of):
        why = message("each has its own configuration")
    else:
        return None
    return _note(folders, why, named=named)


def _several_files(tables: Tables, *, named: bool) -> Note | None:
    """Return the note if each of the files, all in one folder, looks like a run."""
    names = [file.name.partition(".")[0] for file in tables.files]
    other_names = [name for name in names if not _RUN_NAME.search(name)]
    if len(names) < 2 or any(map(_PART_NAME.search, other_names)):
        return None
    # Names of runs and common steps suffice; with other names, prompts must be the same, too.
    columns = ["step", "prompt_id"] if other_names else ["step"]
    in_training = tables.responses["validation"] == RowRole.TRAINING
    keys = tables.responses.loc[in_training, ["file", *columns]].drop_duplicates()
    files_with_key = keys.groupby(columns).size()
    shared = int((files_with_key == len(names)).sum())
    counts = keys["file"].value_counts()
    # A file without rows of training has no count.
    fewest = counts.reindex(range(len(names)), fill_value=0).min()
    if shared < max(_MIN_SHARED_COUNT, _MIN_SHARED_FRACTION * fewest):
        return None
    return _note(names, message("their steps overlap"), named=named)


def _note(names: list[str], why: str, *, named: bool) -> Note:
    """Return the note that ``names`` look like several runs, and ``why``."""
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
    """Return whether the folder ``top`` in, or above, one of the logs has a configuration."""
    folders: list[Path] = []
    for log in logs:
        if "://" in str(log):
            continue
        root = Path(log)
        folders.append(root if root.name == top else root / top)
        folders += [parent for parent in root.parents if parent.name == top]
    return any(configured(folder) for folder in folders)
