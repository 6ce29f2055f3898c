"""Logs of several runs that were given as one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rlreport.card import configured
from rlreport.tables import Note, Tables
from rlreport.text.messages import message

SEVERAL_RUNS = "several_runs"  # kind of the note that the logs look like several runs
_MAX_NAMED = 3
_SHARED = 0.8
_LEAST_SHARED = 3
"""Steps, or prompts of a step, that files of several runs have in common: this part and number."""

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


def several_runs(logs: Sequence[str | Path], tables: Tables, *, named: bool = True) -> Note | None:
    """Return a note if the logs look like several runs.

    They do if their top-level folders each hold every step in files of the same names, or
    have a configuration each and steps in common; or if files of one folder that are named
    like runs, not like ranks, hold the same steps and prompts.

    Args:
        logs: paths of the logs.
        tables: what was read.
        named: whether names of folders may be shown.
    """
    paths = [file.name.partition("/") for file in tables.files]
    if not any(slash for _, slash, _ in paths):
        return _several_files(tables, named=named)
    if any(not slash or _PART_OF_A_RUN.fullmatch(top) for top, slash, _ in paths):
        return None
    folders = list(dict.fromkeys(top for top, _, _ in paths))
    rows = tables.responses[tables.responses["validation"] == 0]
    folder_of_row = np.array([folders.index(top) for top, _, _ in paths])[rows["file"]]
    steps = [set(rows.loc[folder_of_row == k, "step"]) for k in range(len(folders))]
    if len(folders) < 2 or not set.intersection(*steps):
        return None
    files = {frozenset(below for top, _, below in paths if top == folder) for folder in folders}
    same = set.intersection(*steps) == set.union(*steps) and len(files) == 1
    if not same and not all(_configured(logs, folder) for folder in folders):
        return None
    count = message("{count:count} folders", count=len(folders))
    places = {"folders": _enumerated(folders) if named else count, "runs": len(folders)}
    text = (
        message(
            "{folders} look like {runs:count} runs, as each has every step in files of the same "
            "names: every figure here mixes them. Build a report of each; rlreport index lists "
            "them and rlreport compare compares two. If they are one run, pass --merge.",
            **places,
        )
        if same
        else message(
            "{folders} look like {runs:count} runs, as each has its own configuration: every "
            "figure here mixes them. Build a report of each; rlreport index lists them and "
            "rlreport compare compares two. If they are one run, pass --merge.",
            **places,
        )
    )
    return Note(SEVERAL_RUNS, text, 1)


def _several_files(tables: Tables, *, named: bool) -> Note | None:
    """Return a note if the files of one folder look like a run each.

    Files named after runs or seeds need the same steps; others the same prompts at each step,
    too, as each environment of a run may have a file of its own.
    """
    names = [file.name.partition(".")[0] for file in tables.files]
    if len(names) < 2 or any(_PART_OF_A_RUN.search(name) for name in names if not _runs([name])):
        return None
    rows = tables.responses[tables.responses["validation"] == 0]
    columns = ["step"] if _runs(names) else ["step", "prompt_id"]
    steps = [
        set(rows.loc[rows["file"] == i, columns].itertuples(index=False, name=None))
        for i in range(len(names))
    ]
    shared = len(set.intersection(*steps))
    if shared < _LEAST_SHARED or shared < _SHARED * min(map(len, steps)):
        return None
    files = message("{count:count} files", count=len(names))
    return Note(
        SEVERAL_RUNS,
        message(
            "{files} look like {runs:count} runs, as each has the same steps: every figure here "
            "mixes them. Build a report of each; rlreport index lists them and rlreport compare "
            "compares two. If they are one run, pass --merge.",
            files=_enumerated(names, "") if named else files,
            runs=len(names),
        ),
        1,
    )


def _runs(names: Sequence[str]) -> bool:
    """Say whether all names are those of runs, such as run1 or seed_42."""
    return all(_A_RUN.search(name) for name in names)


def _configured(logs: Sequence[str | Path], top: str) -> bool:
    roots = [Path(given) for given in logs if "://" not in str(given)]
    folders = [root if root.name == top else root / top for root in roots]
    folders += [parent for root in roots for parent in root.parents if parent.name == top]
    return any(configured(folder) for folder in folders)


def _enumerated(names: list[str], end: str = "/") -> str:
    shown = [f"{name}{end}" for name in names[:_MAX_NAMED]]
    if more := len(names) - len(shown):
        return message("{names} and {more:count} more", names=tuple(shown), more=more)
    return message("{names} and {last}", names=tuple(shown[:-1]), last=shown[-1])
