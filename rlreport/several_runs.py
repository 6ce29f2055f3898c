"""Detect logs of several runs that were given as one run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from rlreport.card import configured
from rlreport.tables import Note, Tables
from rlreport.text.messages import message

SEVERAL_RUNS = "several_runs"
"""Kind of the note that the logs look like several runs."""

_MAX_NAMED = 3
_SHARED = 0.8
_LEAST_SHARED = 3
"""Minimum fraction and number of steps, or prompts per step, that files of several runs share."""

_A_RUN = re.compile(
    r"(?:^|[-_.])(?:run|seed|exp|experiment|trial)[-_.=]?(?:\d+|[a-z])?(?:$|[-_.])", re.IGNORECASE
)
_PART_OF_A_RUN = re.compile(
    r"(?:(?:global|local|dp|data)[-_.]?)?(?:rank|worker|proc(?:ess)?|gpu|node|host|device|shard|dp"
    r"|replica|part|chunk|server|actor|rollout|step|iter(?:ation)?|epoch|global_step|split)s?"
    r"(?:[-_.]?worker)?[-_.=]?\d+|\d+|train(?:ing)?|val(?:id(?:ation)?)?|test|eval(?:uation)?|dev",
    re.IGNORECASE,
)
"""Names of folders that one run writes: for its ranks, its steps, its splits."""

_PACKED = re.compile(r"\.(?:gz|zst)$", re.IGNORECASE)


def several_runs(logs: Sequence[str | Path], tables: Tables, *, named: bool = True) -> Note | None:
    """Return a note if the logs look like several runs.

    They do if their top-level folders share steps in files of the same names, or have a
    configuration each and steps in common; or if files of one folder that are named
    like runs, not like ranks, hold the same steps and prompts.

    Args:
        logs: paths of the logs.
        tables: tables of the logs.
        named: whether names of folders may be shown.
    """
    if all("/" not in file.name for file in tables.files):
        return _several_files(tables, named=named)
    steps = _training(tables)[["file", "step"]].drop_duplicates().groupby("file")["step"].agg(set)
    steps_of: dict[str, set[int]] = {}
    files_of: dict[str, set[str]] = {}
    for i, file in enumerate(tables.files):
        top, slash, below = file.name.partition("/")
        if not slash or _PART_OF_A_RUN.fullmatch(top):
            return None
        files_of.setdefault(top, set()).add(_PACKED.sub("", below))
        steps_of.setdefault(top, set()).update(steps.get(i, ()))
    everywhere = set.intersection(*steps_of.values())
    if len(files_of) < 2 or not everywhere:
        return None
    folders = [f"{top}/" for top in files_of]
    places = {
        "folders": _enumerated(folders)
        if named
        else message("{count:count} folders", count=len(folders)),
        "runs": len(folders),
    }
    same_files = len(set(map(frozenset, files_of.values()))) == 1
    if same_files and len(everywhere) >= _SHARED * min(map(len, steps_of.values())):
        text = message(
            "{folders} look like {runs:count} runs, as they share {steps:count} steps in files of "
            "the same names: every figure here mixes them. Build a report of each; rlreport index "
            "lists them and rlreport compare compares two. If they are one run, pass --merge.",
            steps=len(everywhere),
            **places,
        )
    elif all(_configured(logs, top) for top in files_of):
        text = message(
            "{folders} look like {runs:count} runs, as each has its own configuration: every "
            "figure here mixes them. Build a report of each; rlreport index lists them and "
            "rlreport compare compares two. If they are one run, pass --merge.",
            **places,
        )
    else:
        return None
    return Note(SEVERAL_RUNS, text, 1)


def _several_files(tables: Tables, *, named: bool) -> Note | None:
    """Return a note if the files of one folder look like a run each.

    Files named after runs or seeds need the same steps; others the same prompts at each step,
    too, as each environment of a run may have a file of its own.
    """
    names = [file.name.partition(".")[0] for file in tables.files]
    if len(names) < 2 or any(_PART_OF_A_RUN.search(name) for name in names if not _runs([name])):
        return None
    columns = ["step"] if _runs(names) else ["step", "prompt_id"]
    keys = _training(tables)[["file", *columns]].drop_duplicates()
    shared = int((keys.groupby(columns).size() == len(names)).sum())
    fewest = keys["file"].value_counts().reindex(range(len(names)), fill_value=0).min()
    if shared < max(_LEAST_SHARED, _SHARED * fewest):
        return None
    text = message(
        "{files} look like {runs:count} runs, as each has the same steps: every figure here "
        "mixes them. Build a report of each; rlreport index lists them and rlreport compare "
        "compares two. If they are one run, pass --merge.",
        files=_enumerated(names) if named else message("{count:count} files", count=len(names)),
        runs=len(names),
    )
    return Note(SEVERAL_RUNS, text, 1)


def _training(tables: Tables) -> pd.DataFrame:
    responses = tables.responses
    return responses[responses["validation"] == 0]


def _runs(names: Sequence[str]) -> bool:
    """Return whether all names look like names of runs, such as run1 or seed_42."""
    return all(_A_RUN.search(name) for name in names)


def _configured(logs: Sequence[str | Path], top: str) -> bool:
    roots = [Path(given) for given in logs if "://" not in str(given)]
    folders = [root if root.name == top else root / top for root in roots]
    folders += [parent for root in roots for parent in root.parents if parent.name == top]
    return any(configured(folder) for folder in folders)


def _enumerated(names: list[str]) -> str:
    listed = tuple(names[:_MAX_NAMED])
    if more := len(names) - len(listed):
        return message("{names} and {more:count} more", names=listed, more=more)
    return message("{names} and {last}", names=listed[:-1], last=listed[-1])
