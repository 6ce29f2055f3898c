"""Say what was looked for in folders that hold neither rollouts nor trainer metrics."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path

from rlreport.read.listing import is_url
from rlreport.tables import Note, NoteKind
from rlreport.text.clean import safe_text
from rlreport.text.messages import Message, message

_MAX_FOLDERS = 2_000  # Maximum number of folders that are looked at
_MAX_NAMED = 3  # Maximum number of folders that are named

# Matches names of W&B's folders of a run
_WANDB_FOLDER = re.compile(r"(?:offline-)?run-\d{8}_\d{6}-\w+")
_WANDB_FILES = frozenset({"wandb-summary.json", "wandb-metadata.json"})
# Matches names of files of model weights
_WEIGHTS = re.compile(
    r".*\.safetensors|(?:pytorch|tf|adapter)_model.*\.(?:bin|h5)|.*\.distcp"
    r"|(?:model|optim|mp_rank|zero_pp_rank)\w*\.pth?",
)


def absent_notes(paths: Sequence[str | Path]) -> list[Note]:
    """Return what each folder lacks, or is: empty, of W&B without a run file, a checkpoint."""
    notes: list[Note] = []
    for path in paths:
        if not is_url(str(path)) and Path(path).is_dir():
            notes += islice(_notes_on(Path(path)), _MAX_NAMED)
    return notes


def _notes_on(root: Path) -> Iterator[Note]:
    """Yield a note on each folder in ``root`` that lacks something, or that all are empty."""
    empty = True
    for here, folders, names in islice(os.walk(root), _MAX_FOLDERS):
        folders.sort()  # in place, so that ``os.walk`` goes in this order
        empty = empty and not names
        text = _lacks(Path(here), names)
        if text:
            yield Note(NoteKind.ABSENT, text, 1, _name(root, Path(here)))
    if empty:
        text = message(
            "an empty folder; looked for rollouts ({rollouts}) and trainer metrics ({metrics})",
            rollouts=_ROLLOUTS,
            metrics=_METRICS,
        )
        yield Note(NoteKind.ABSENT, text, 1, _name(root, root))


_ROLLOUTS = ".jsonl, .json, .parquet, .db, .eval"
_METRICS = (
    "trainer_state.json, .jsonl, .csv, events.out.tfevents.*, run-*.wandb, "
    "MLflow's metrics/, consoles (.log, .txt, .out)"
)


def _lacks(folder: Path, names: Collection[str]) -> Message | str:
    """Return what the folder of a W&B run or of a checkpoint lacks, "" if it is neither."""
    if _is_of_wandb(folder, names) and not _has_run_file(folder):
        return message(
            "a folder of W&B; looked for its run file run-*.wandb, which has the metrics"
        )
    if any(map(_WEIGHTS.fullmatch, names)) and "trainer_state.json" not in names:
        return message(
            "a checkpoint of model weights; looked for trainer_state.json, which has the metrics"
        )
    return ""


def _is_of_wandb(folder: Path, names: Collection[str]) -> bool:
    if _WANDB_FOLDER.fullmatch(folder.name):
        return True
    in_run = _WANDB_FOLDER.fullmatch(folder.parent.name)  # which is named itself
    return not in_run and not _WANDB_FILES.isdisjoint(names)


def _has_run_file(folder: Path) -> bool:
    # W&B's folder `files` lies in that of the run.
    run = folder.parent if folder.name == "files" else folder
    return any(run.glob("*.wandb"))


def _name(root: Path, folder: Path) -> str:
    relative = folder.relative_to(root).as_posix()
    return safe_text(root.resolve().name if relative == "." else relative)
