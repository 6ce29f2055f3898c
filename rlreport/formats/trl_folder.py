"""What the files of one folder of TRL's completions hold: training, an evaluation, another run.

TRL writes a file at each log event, under the number of the step: an evaluation overwrites that of
its step, and what an earlier run left in the folder stays there. The trainer's own log tells which
rows are whose: the mean reward of a file is the one that was logged when the file was written.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import xxhash

from rlreport.figures.ragged import Floats
from rlreport.formats.containers import parquet_rows
from rlreport.formats.trainer_state import TrainerLog
from rlreport.system import coerce
from rlreport.system.stores import Source

# Means in a log are those of float32, or rounded when printed
_CLOSE = 1e-4
# Weights are solved for only if the weighted sums differ from the logged rewards by no more
_EXACT = 1e-6
# Digits of the weights that people choose
_WEIGHT_DIGITS = 4
# Fewest steps beyond one for each weight, of those from which weights are solved
_MORE_STEPS = 2
# Fewest files on both sides of a fall of their times of modification that is no accident
_LEAST_FILES = 3
_EVALUATION = re.compile(r"eval_(?:rewards?/.+/mean|reward)")


class Content(NamedTuple):
    """What a file holds; a file that cannot be read has no rows."""

    step: int  # of the first row, −1 without rows
    rows: int
    digest: str  # of all rows without their step
    # column of numbers, in order -> (sum, number) of its values that are not null
    sums: Mapping[str, tuple[float, int]] = {}
    modified: int | None = None  # ns, None for a remote file

    def sum_of(self, name: str) -> float:
        """Return the sum of a column, null as 0."""
        return self.sums[name][0] if name in self.sums else 0.0

    def count_of(self, name: str) -> int:
        """Return the number of values of a column that are not null."""
        return self.sums[name][1] if name in self.sums else 0


def content_of(file: Source) -> Content:
    """Read a Parquet file to compare it with others and with what the trainer logged."""
    steps: list[int] = []
    sums: dict[str, tuple[float, int]] = {}
    digest = xxhash.xxh3_128()
    modified = file.stamp[1] if file.stamp else None
    with file.open() as stream:
        for obj in parquet_rows(stream):
            steps.append(coerce.integer(obj.pop("step", None)) or 0)
            digest.update(repr(obj).encode("utf-8", "surrogatepass"))
            for name, value in obj.items():
                # A null comes first where a function does not apply to the first row.
                if value is not None and not isinstance(value, float):
                    continue
                total, count = sums.get(name, (0.0, 0))
                if value is not None and math.isfinite(value):
                    total += value
                    count += 1
                sums[name] = (total, count)
    step = steps[0] if steps else -1
    return Content(step, len(steps), digest.hexdigest(), sums, modified)


def repeated_files(files: Mapping[str, Content]) -> dict[str, str]:
    """Return name of a file that repeats the rows of an earlier step -> name of the earlier file.

    TRL writes the completions of its last generation at every log event. If it logs more often than
    it generates, several files are equal except for ``step``. ``files`` are those of one folder, in
    order of step.
    """
    repeats: dict[str, str] = {}
    original = ""  # the last file that repeats no other
    for name, content in files.items():
        before = files.get(original)
        # The same rows at the same step are no repetition by TRL.
        if before and content.digest == before.digest and content.step != before.step:
            repeats[name] = original
        else:
            original = name
    return repeats


class Origin(Enum):
    """Why a file is of another run."""

    LATER = "later"  # its step is beyond the last one of the run
    UNLOGGED = "unlogged"  # the trainer logged nothing at its step
    DIFFERENT = "different"  # its mean reward is not the one that was logged
    OLDER = "older"  # it was written before the files of earlier steps


@dataclass(slots=True)
class FolderContent:
    """What the files of a folder hold, by name.

    Attributes:
        contents: content of each file, in order of step.
        functions: names of the reward functions, in the order of the columns.
        evaluated: files with the rows of an evaluation.
        partial: those of them that lack rows, as their mean is not the one that was logged.
        others: files of another run, and why.
        weights: weight of each function in the reward, None if it is unknown.
        solved: whether the weights were solved from the logged rewards.
    """

    contents: Mapping[str, Content]
    functions: tuple[str, ...]
    evaluated: set[str] = field(default_factory=set)
    partial: set[str] = field(default_factory=set)
    others: dict[str, Origin] = field(default_factory=dict)
    weights: tuple[float, ...] | None = None
    solved: bool = False

    @property
    def trained(self) -> list[str]:
        """The files with rows of training, in order of step."""
        return [
            name
            for name in self.contents
            if name not in self.evaluated and name not in self.others
        ]

    def steps_of(self, names: Iterable[str]) -> list[int]:
        return sorted({self.contents[name].step for name in names})


def folder_content(
    contents: Mapping[str, Content],
    functions: Sequence[str],
    log: TrainerLog,
    weights: Sequence[float] | None,
) -> FolderContent:
    """Return what the files of a folder hold.

    Args:
        contents: content of each file by name, in order of step.
        functions: names of the reward functions, in the order of the columns.
        log: what the trainer logged.
        weights: ``reward_weights`` of the configuration, None if it has none.
    """
    folder = FolderContent(contents, tuple(functions))
    _find_evaluations(folder, log)
    agreeing = _find_others(folder, log)
    _find_older(folder)
    if weights is not None and len(weights) == len(functions):
        folder.weights = tuple(weights)
    else:
        folder.weights = _solved_weights(folder, log, agreeing)
        folder.solved = folder.weights is not None
    return folder


def _find_evaluations(folder: FolderContent, log: TrainerLog) -> None:
    """Set the files of evaluated steps, unless their mean is that of training alone."""
    for name, content in folder.contents.items():
        numbers = log.numbers.get(content.step, {})
        if not any(map(_EVALUATION.fullmatch, numbers)):
            continue
        is_evaluation = _agrees(folder, content, numbers, "eval_")
        if is_evaluation or not _agrees(folder, content, numbers):
            folder.evaluated.add(name)
            if not is_evaluation:
                folder.partial.add(name)


def _agrees(
    folder: FolderContent,
    content: Content,
    numbers: Mapping[str, float],
    prefix: str = "",
) -> bool | None:
    """Return whether the mean of each function is the logged one, None if none is logged."""
    checks: list[bool] = []
    for name in folder.functions:
        logged = numbers.get(f"{prefix}rewards/{name}/mean", math.nan)
        count = content.count_of(name)
        if count and math.isfinite(logged):
            mean = content.sum_of(name) / count
            checks.append(math.isclose(mean, logged, rel_tol=_CLOSE, abs_tol=_EXACT))
    return all(checks) if checks else None


def _find_others(folder: FolderContent, log: TrainerLog) -> list[str]:
    """Set the files of other runs, as far as the log tells; return those that agree with it."""
    agreeing: list[str] = []
    different: list[str] = []
    last = log.last_step
    is_logged = any(content.step in log.numbers for content in folder.contents.values())
    if last is None or not is_logged:
        return agreeing  # the log is that of something else
    for name in folder.trained:
        content = folder.contents[name]
        if content.step > last:
            if log.has_ended:
                folder.others[name] = Origin.LATER
        elif content.step not in log.numbers:
            if log.is_whole:
                folder.others[name] = Origin.UNLOGGED
        else:
            agrees = _agrees(folder, content, log.numbers[content.step])
            if agrees is not None:
                (agreeing if agrees else different).append(name)
    # A log of means over several steps agrees with none of the files.
    if len(agreeing) > len(different):
        folder.others |= dict.fromkeys(different, Origin.DIFFERENT)
        return agreeing
    return []


def _find_older(folder: FolderContent) -> None:
    """Set the last files as of another run if all are older than all files of earlier steps.

    Copies have times of their own: they count only if those of each part rise with the step, which
    no order in which files are copied brings about by accident.
    """
    names = [name for name in folder.contents if name not in folder.others]
    logged_times = [folder.contents[name].modified for name in names]
    times = [time for time in logged_times if time is not None]
    if len(times) < len(names):
        return
    falls = [
        position
        for position, (before, after) in enumerate(pairwise(times), 1)
        if after < before
    ]
    if len(falls) != 1:
        return
    (fall,) = falls
    is_cut = min(fall, len(times) - fall) >= _LEAST_FILES
    if is_cut and max(times[fall:]) < min(times[:fall]):
        folder.evaluated -= set(names[fall:])
        folder.others |= dict.fromkeys(names[fall:], Origin.OLDER)


def _solved_weights(
    folder: FolderContent, log: TrainerLog, agreeing: Sequence[str]
) -> tuple[float, ...] | None:
    """Return the weights by which functions add up to the logged rewards, None if unknown.

    The system has an equation for each step: the means of the functions over all rows, in which
    null counts as 0 as in TRL's sum, and the mean reward. It has to be determined, and its
    solution exact.
    """
    means: list[list[float]] = []
    rewards: list[float] = []
    for step, values in _means_by_step(folder, log, agreeing).items():
        reward = log.numbers[step].get("reward", math.nan)
        if math.isfinite(reward) and all(map(math.isfinite, values)):
            means.append(values)
            rewards.append(reward)
    count = len(folder.functions)
    if not count or not rewards:
        return None
    x = np.array(means, np.float64)
    y = np.array(rewards, np.float64)
    ones = np.ones(count)
    if _misses_by(x, y, ones) <= _EXACT:
        return tuple(ones.tolist())
    if len(y) < count + _MORE_STEPS or np.linalg.matrix_rank(x) < count:
        return None
    solved, *_ = np.linalg.lstsq(x, y, rcond=None)
    weights: list[float] = solved.tolist()
    rounded = [float(f"{weight:.{_WEIGHT_DIGITS}g}") for weight in weights]
    for solution in (rounded, weights):
        if _misses_by(x, y, np.array(solution)) <= _EXACT:
            return tuple(solution)
    return None


def _misses_by(x: Floats, y: Floats, weights: Floats) -> float:
    """Return the largest error of weighted sums, relative to the largest reward."""
    scale = float(max(np.abs(y).max(), np.abs(x).max()))
    error = float(np.abs(x @ weights - y).max())
    return error / scale if scale else error


def _means_by_step(
    folder: FolderContent, log: TrainerLog, agreeing: Sequence[str]
) -> dict[int, list[float]]:
    """Return step -> mean of each function over all rows, null as 0."""
    by_step: dict[int, list[float]] = {}
    for name in agreeing:
        content = folder.contents[name]
        sums = map(content.sum_of, folder.functions)
        by_step[content.step] = [total / content.rows for total in sums]
    if by_step or _has_nulls(folder):
        return by_step
    # The log has means over several steps, of rewards and functions alike.
    keys = [f"rewards/{name}/mean" for name in folder.functions]
    for step, numbers in log.numbers.items():
        if all(key in numbers for key in keys):
            by_step[step] = [numbers[key] for key in keys]
    return by_step


def _has_nulls(folder: FolderContent) -> bool:
    """Return whether a function does not apply to all rows of training."""
    for name in folder.trained:
        content = folder.contents[name]
        counts = map(content.count_of, folder.functions)
        if any(count < content.rows for count in counts):
            return True
    return False


class LoggedShare(NamedTuple):
    """How many responses of training are in the files, of how many."""

    distance: int  # the number of steps from one file to the next
    logged: int
    responses: int


def logged_share(
    folder: FolderContent, steps_per_generation: int = 1
) -> LoggedShare | None:
    """Return how many responses are logged if files have only every few steps, else None.

    Args:
        folder: the files of a folder.
        steps_per_generation: number of steps that use the responses of one generation.
    """
    repeats = repeated_files(folder.contents)
    files = [name for name in folder.contents if name not in folder.others]
    steps = folder.steps_of(files)
    # A first file at step 1 may be that of ``logging_first_step``.
    later = [step for step in steps if step != 1]
    distance = math.gcd(*later) if len(steps) > 1 else 1
    if distance <= steps_per_generation or any(name in repeats for name in files):
        return None
    trained = [folder.contents[name].rows for name in folder.trained]
    if not trained:
        return None
    usual = Counter(trained).most_common(1)[0][0]
    responses = usual * (steps[-1] // steps_per_generation)
    return LoggedShare(distance, sum(trained), responses)
