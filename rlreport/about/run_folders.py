"""Tell by its name whether a folder is a run, or a part of the run whose folder it is in."""

from __future__ import annotations

import re

from rlreport.about.several_runs import PART_NAME

# Words that make up the names of folders with the records of one run, such as ``global_step_4``
_OF_RECORDS = frozenset(
    "annotation annotations batch checkpoint checkpoints ckpt ckpts completion completions "
    "dev dump dumped dumps effective episode episodes epoch eval export exports file files "
    "generation generations global iter iteration local media rank response responses rollout "
    "rollouts sample samples shard split state states step steps stream table test token "
    "trace traces train training traj trajectories trajectory val valid validation worker".split()
)
# Those of folders for the records of one run, or of several: of a tracker, of logs
_OF_PLACES = frozenset(
    "artifact artifacts data events evals evaluation evaluations history log logs metric metrics "
    "mlflow monitor monitors output outputs result results stats tb tensorboard trackio "
    "wandb".split()
)
_BETWEEN_WORDS = re.compile(r"[-_. ]+|(?<=[a-z])(?=\d)")
_NUMBER = re.compile(r"\d{1,6}")  # a longer one is a date or an id


def has_records(name: str) -> bool:
    """Return whether a folder of this name has records of one run, such as ``step_3``.

    All that is in it, whatever it is called, is of that run.
    """
    return not is_number(name) and (
        PART_NAME.fullmatch(name) is not None or _consists_of(name, _OF_RECORDS)
    )


def is_place(name: str) -> bool:
    """Return whether a folder of this name is a place for records, such as ``logs``, ``wandb``.

    They are of the run in whose folder it is, unless it has folders of several.
    """
    return _consists_of(name, _OF_RECORDS | _OF_PLACES)


def is_number(name: str) -> bool:
    """Return whether a name is that of a part or of a run, which only its place can tell."""
    return _NUMBER.fullmatch(name) is not None


def _consists_of(name: str, words: frozenset[str]) -> bool:
    parts = [part for part in _BETWEEN_WORDS.split(name.lower()) if part]
    has_word = any(part in words for part in parts)
    return has_word and all(part in words or is_number(part) for part in parts)
