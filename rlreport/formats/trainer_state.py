"""What transformers' trainer says of a run: ``trainer_state.json``, and numbers that it logged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from rlreport.formats import logged
from rlreport.formats.base import FileStamp
from rlreport.formats.logged import dicts
from rlreport.system import coerce

NAME = "trainer_state.json"
# Logged once, when training ends
_SUMMARY = "train_runtime"

# Settings of transformers' trainer: where one of them is, ``max_steps`` is the trainer's, and not
# that of an agent's episode
_OF_TRAINER = frozenset({"logging_steps", "save_steps", "num_train_epochs"})


@dataclass(frozen=True, slots=True)
class TrainerLog:
    """What a trainer logged, as far as it says which rollouts are of the run.

    Attributes:
        numbers: step -> metric, named as TRL does, -> value.
        is_whole: whether it has all that the trainer logged until its last step.
        has_ended: whether training ended at its last step.
    """

    numbers: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    is_whole: bool = False
    has_ended: bool = False

    @property
    def last_step(self) -> int | None:
        return max(self.numbers, default=None)


@lru_cache(maxsize=8)
def log_of_states(states: tuple[FileStamp, ...]) -> TrainerLog:
    """Return what trainer states say, one per checkpoint: the longest has all that others have."""
    documents = [logged.document_of(file) for file in states]
    histories = [dicts(document.get("log_history")) for document in documents]
    if not histories:
        return TrainerLog()
    latest = max(range(len(histories)), key=lambda i: len(histories[i]))
    numbers: dict[int, dict[str, float]] = {}
    is_summarized = False
    for entry in histories[latest]:
        step = coerce.integer(entry.get("step"))
        if step is None:
            continue
        is_summarized = is_summarized or _SUMMARY in entry
        numbers.setdefault(step, {}).update(coerce.reals(entry))
    step = coerce.integer(documents[latest].get("global_step"))
    planned = planned_in(documents[latest])
    is_complete = planned is not None and step is not None and step >= planned
    return TrainerLog(
        numbers,
        is_whole=True,
        has_ended=bool(numbers) and (is_summarized or is_complete),
    )


def planned_in(settings: Mapping[str, object]) -> int | None:
    """Return the planned number of steps in settings by their (dotted) names, None without one."""
    for name, value in settings.items():
        prefix, _, last = name.rpartition(".")
        of_trainer = last == "max_steps" and any(
            f"{prefix}.{other}".lstrip(".") in settings for other in _OF_TRAINER
        )
        planned = coerce.integer(value)  # −1 and null are no plan
        is_plan = of_trainer or last == "total_training_steps"
        if is_plan and planned is not None and planned > 0:
            return planned
    return None


def planned_steps(
    metrics: Iterable[Path], settings: Mapping[str, object]
) -> int | None:
    """Return how many steps a run was to have: by its trainer's state, else by its settings."""
    for path in metrics:
        if path.name.endswith(NAME):
            stamp = FileStamp.of(path)
            planned = planned_in(logged.document_of(stamp)) if stamp else None
            if planned is not None:
                return planned
    return planned_in(settings)
