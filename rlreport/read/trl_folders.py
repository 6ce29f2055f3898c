"""Which files of TRL's completions are read, and how: by their content and the trainer's log."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from rlreport.errors import RowError
from rlreport.formats.trainer_state import TrainerLog, log_of_states, planned_in
from rlreport.formats.trl import TRL
from rlreport.formats.trl_folder import (
    Content,
    FolderContent,
    Origin,
    content_of,
    folder_content,
    logged_share,
    repeated_files,
)
from rlreport.read.lines import DAMAGED, LogFormat
from rlreport.system import coerce
from rlreport.system.stores import Source
from rlreport.tables import Note, NoteKind
from rlreport.text.clean import safe_text
from rlreport.text.messages import message

# Metrics of which a log says which rows are whose, after the prefixes of trackers
_USED = re.compile(r"(?:eval_)?(?:reward|rewards/.+/mean)")
_FUNCTION = re.compile(r"(?:eval_)?rewards/(.+)/mean")
_NO_FUNCTIONS = frozenset({"reward", "advantage", "step"})


@dataclass(frozen=True, slots=True)
class Trainer:
    """What is known of the trainer of a run besides its rollouts.

    Attributes:
        files: the files of its metrics.
        metrics: its metrics, ``step`` and a column for each; empty without any.
        settings: its configuration: dotted name -> value.
    """

    files: Sequence[Path] = ()
    metrics: pd.DataFrame = field(default_factory=pd.DataFrame)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class TRLFiles:
    """What becomes of the files of TRL's completions.

    Attributes:
        formats: name of a file -> its format; of others, the format remains.
        left_out: names of files that are not read.
        overwritten: steps whose rows of training an evaluation overwrote.
        partial: those of them whose files lack rows of the evaluation.
        notes: what readers should know of the files.
    """

    formats: dict[str, LogFormat] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)
    overwritten: set[int] = field(default_factory=set)
    partial: set[int] = field(default_factory=set)
    notes: list[Note] = field(default_factory=list)

    def note(self, kind: NoteKind, text: str, files: Sequence[str] = ()) -> None:
        """Add a note, on these files or on the folder."""
        first = min(files, default=None)
        self.notes.append(Note(kind, text, max(1, len(files)), first))


def trl_files(
    sources: Sequence[Source], formats: Sequence[LogFormat], trainer: Trainer
) -> TRLFiles:
    """Return what becomes of the files among ``sources`` that are TRL's completions."""
    folders: dict[str, list[tuple[Source, LogFormat]]] = {}
    for source, log_format in zip(sources, formats, strict=True):
        if log_format.id == TRL.id and log_format.container == "parquet":
            folder = source.name.rpartition("/")[0]
            folders.setdefault(folder, []).append((source, log_format))
    result = TRLFiles()
    for files in folders.values():
        # The metrics that were found are those of a run, not of several.
        known = (
            trainer if len(folders) == 1 else replace(trainer, metrics=pd.DataFrame())
        )
        _add_folder(result, files, known)
    return result


def _add_folder(
    result: TRLFiles, files: Sequence[tuple[Source, LogFormat]], trainer: Trainer
) -> None:
    """Add what becomes of the files of one folder, in order of step."""
    contents = {source.name: _content(source) for source, _ in files}
    form = files[0][1].reader.format
    log = TrainerLog()
    if isinstance(form, TRL) and form.states:
        log = log_of_states(form.states)
    if not log.numbers:
        log = _log_of_metrics(trainer)
    columns = _columns(contents)
    named = _functions_of(log)
    functions = [name for name in columns if name in named] if named else columns
    folder = folder_content(contents, functions, log, _weights_in(trainer.settings))
    repeats = repeated_files(contents)
    weights = dict(zip(functions, folder.weights or (), strict=False))
    for source, log_format in files:
        is_evaluated = source.name in folder.evaluated
        reader = log_format.reader
        if not isinstance(reader.format, TRL):
            continue
        configured = reader.format.configured(
            tuple(functions) if named else None, weights, evaluated=is_evaluated
        )
        result.formats[source.name] = replace(
            log_format,
            reader=reader.of_format(configured),
            split="val" if is_evaluated else log_format.split,
        )
    result.left_out |= folder.others.keys() | repeats.keys()
    trained = set(folder.steps_of(folder.trained))
    result.overwritten |= set(folder.steps_of(folder.evaluated)) - trained
    result.partial |= set(folder.steps_of(folder.partial)) - trained
    _note_repeats(result, repeats, folder)
    _note_others(result, folder)
    _note_evaluations(result, folder)
    _note_functions(result, folder, is_named=bool(named))
    _note_weights(result, folder)
    _note_share(result, folder, trainer.settings)


def _content(source: Source) -> Content:
    """Return what a file holds, without rows if it cannot be read: reading it gives the reason."""
    try:
        return content_of(source)
    except (RowError, *DAMAGED):
        return Content(step=-1, rows=0, digest=source.name)


def _columns(contents: Mapping[str, Content]) -> list[str]:
    """Return the columns of numbers of the first file, those of functions as TRL orders them."""
    first = next((one for one in contents.values() if one.rows), None)
    if first is None:
        return []
    # Of a column without any number in the first file, another file tells whether it has numbers.
    with_numbers: set[str] = set()
    for content in contents.values():
        with_numbers |= {name for name, (_, count) in content.sums.items() if count}
    return [name for name in first.sums if name in with_numbers - _NO_FUNCTIONS]


def _functions_of(log: TrainerLog) -> set[str]:
    names: set[str] = set()
    for numbers in log.numbers.values():
        matches = map(_FUNCTION.fullmatch, numbers)
        names |= {match[1] for match in matches if match}
    return names


def _log_of_metrics(trainer: Trainer) -> TrainerLog:
    """Return what the metrics of a run say of its rollouts."""
    metrics = trainer.metrics
    if "step" not in metrics:
        return TrainerLog()
    steps = metrics["step"].tolist()
    numbers: dict[int, dict[str, float]] = {int(step): {} for step in steps}
    for column in metrics.columns:
        name = _name_in_trl(str(column))
        if not _USED.fullmatch(name):
            continue
        for step, value in zip(steps, metrics[column].tolist(), strict=True):
            if math.isfinite(value):
                numbers[int(step)][name] = value
    last = max(numbers, default=0)
    planned = planned_in(trainer.settings)
    return TrainerLog(numbers, has_ended=planned is not None and last >= planned)


def _name_in_trl(name: str) -> str:
    """Return TRL's name of a metric, which trackers get as ``train/…`` and ``eval/…``."""
    plain = name.removeprefix("train/")
    return f"eval_{plain.removeprefix('eval/')}" if plain.startswith("eval/") else plain


def _weights_in(settings: Mapping[str, Any]) -> list[float] | None:
    """Return ``reward_weights`` of a configuration, None if it has none."""
    for name, value in settings.items():
        if name.rpartition(".")[2] != "reward_weights":
            continue
        try:
            weights = [float(item) for item in str(value).split(",")]
        except ValueError:  # such as null
            return None
        return weights if all(map(math.isfinite, weights)) else None
    return None


def _note_repeats(
    result: TRLFiles, repeats: Mapping[str, str], folder: FolderContent
) -> None:
    names = [name for name in repeats if name not in folder.others]
    if names:
        text = message(
            "files that repeat earlier rows (of {file}) under a new step, as TRL does; left out",
            file=min(repeats.values()),
        )
        result.note(NoteKind.REPEATED_FILE, text, names)


def _note_others(result: TRLFiles, folder: FolderContent) -> None:
    """Add a note on the files of another run, for each reason."""
    for origin in Origin:
        names = [name for name, why in folder.others.items() if why is origin]
        if not names:
            continue
        steps = _steps_in_words(folder.steps_of(names))
        texts = {
            Origin.LATER: message(
                "files of {steps} left out: they are of another run in the same folder, as this "
                "one ended before",
                steps=steps,
            ),
            Origin.UNLOGGED: message(
                "files of {steps} left out: they are of another run in the same folder, as the "
                "trainer logged nothing then",
                steps=steps,
            ),
            Origin.DIFFERENT: message(
                "files of {steps} left out: they are of another run in the same folder, as the "
                "trainer logged other mean rewards",
                steps=steps,
            ),
            Origin.OLDER: message(
                "files of {steps} left out: they are of another run in the same folder, as files "
                "of earlier steps are newer",
                steps=steps,
            ),
        }
        result.note(NoteKind.OTHER_RUN, texts[origin], names)


def _steps_in_words(steps: Sequence[int]) -> str:
    """Return "step 3", "steps 3 to 9", or "4 steps from 3 to 9" if others are between them."""
    ends = {"low": steps[0], "high": steps[-1]}
    if len(steps) == 1:
        return message("step {low}", **ends)
    if len(steps) == steps[-1] - steps[0] + 1:
        return message("steps {low} to {high}", **ends)
    return message("{n:count} steps from {low} to {high}", n=len(steps), **ends)


def _note_evaluations(result: TRLFiles, folder: FolderContent) -> None:
    """Add a note on the files that an evaluation overwrote."""
    if not folder.evaluated:
        return
    if folder.partial:
        text = message(
            "files with responses of an evaluation, which overwrote those of training; they lack a "
            "part of the evaluation, so validation is the trainer's mean"
        )
    else:
        text = message(
            "files with responses of an evaluation, which overwrote those of training"
        )
    result.note(NoteKind.EVALUATION, text, sorted(folder.evaluated))


def _note_functions(result: TRLFiles, folder: FolderContent, *, is_named: bool) -> None:
    if not is_named and folder.contents:
        text = message(
            "no trainer_state.json names the reward functions: all columns of decimal numbers "
            "count as rewards"
        )
        result.note(NoteKind.FORMAT, text, list(folder.contents))


def _note_weights(result: TRLFiles, folder: FolderContent) -> None:
    """Add a note if the rewards of responses are no plain sums, or may not be."""
    if len(folder.functions) < 2 or not folder.trained:
        return
    if folder.weights is None:
        text = message(
            "the weights of the reward functions are not known: the reward of a response is the "
            "plain sum of its functions"
        )
    elif set(folder.weights) == {1.0}:
        return
    else:
        products = [
            message("{weight} × {name}", weight=f"{weight:g}", name=safe_text(name))
            for name, weight in zip(folder.functions, folder.weights, strict=True)
        ]
        text = message(
            "the reward of a response is {sum}, by `reward_weights` of the configuration",
            sum=" + ".join(products),
        )
        if folder.solved:
            text = message(
                "the reward of a response is {sum}: weights solved from the logged mean rewards",
                sum=" + ".join(products),
            )
    result.note(NoteKind.WEIGHTS, text)


def _note_share(
    result: TRLFiles, folder: FolderContent, settings: Mapping[str, Any]
) -> None:
    """Add a note if only the last generation before each log event is logged."""
    share = logged_share(folder, _steps_per_generation(settings))
    if share is None:
        return
    text = message(
        "{logged:count} of {all:count} responses logged ({share:percent}): files hold the last "
        "generation of every {distance} steps; logging_steps=1 logs all of them",
        logged=share.logged,
        all=share.responses,
        share=share.logged / share.responses,
        distance=share.distance,
    )
    result.note(NoteKind.PARTLY_LOGGED, text)


def _steps_per_generation(settings: Mapping[str, Any]) -> int:
    """Return the number of optimizer steps that use one generation; 1, the default, if unknown."""

    def setting(name: str, default: int) -> int:
        value = coerce.integer(settings.get(name))
        return value if value is not None and value > 0 else default

    accumulated = setting("gradient_accumulation_steps", 1)
    batches = setting("steps_per_generation", accumulated)
    return max(1, batches * setting("num_iterations", 1) // accumulated)
