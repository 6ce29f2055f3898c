"""Recognize the metrics of steps in the console logs of trainers: verl's and DeepSpeed-Chat's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

# Metric -> its number as printed
Cells = dict[str, str]

# Start of the metrics of a step in a line of verl's log: "step:1 - actor/loss:0.1 - …"
_VERL = rb"\bstep:(\d{1,15}) - (?=\S+:)"
# That of DeepSpeed-Chat's: "epoch: 0|step: 3|ppo_ep: 1|act_loss: 0.1|…", later "Epoch: 0 | Step: …"
_DEEPSPEED = rb"(?i)\bepoch: (\d{1,9}) ?\| ?step: (\d{1,15}) ?\|(?= ?ppo)"
_VERL_STEP = re.compile(_VERL)
_DEEPSPEED_STEP = re.compile(_DEEPSPEED)
# The mean reward of DeepSpeed-Chat stands in a line of its own, maybe with a moving average.
_DEEPSPEED_REWARD = re.compile(rb"(?i)\baverage reward score: ?([-+.\w]+)")
REWARD = "average_reward_score"

_VERL_PAIR = re.compile(r"(\S+):(?:np\.\w+\()?([-+.\w]+)\)?$")
_DEEPSPEED_PAIR = re.compile(r"(\w[\w ]*):\s*([-+.\w]+)")
_ANSI = re.compile(rb"\x1b\[[0-9;]*m")


def has_steps(head: bytes) -> bool:
    """Return whether a log with this beginning has lines of metrics."""
    return any(pattern.search(head) for pattern in (_VERL_STEP, _DEEPSPEED_STEP))


def console_steps(lines: Iterable[bytes]) -> Iterator[tuple[int, Cells]]:
    """Yield each step of a console log with its metrics as they are printed."""
    deepspeed = _DeepSpeedSteps()
    for line in lines:
        plain = _ANSI.sub(b"", line)
        start = _VERL_STEP.search(plain)
        if start is not None:
            yield int(start[1]), _verl_cells(plain[start.end() :])
        else:
            yield from deepspeed.read(plain)
    yield from deepspeed.rest()


def _verl_cells(metrics: bytes) -> Cells:
    cells: Cells = {}
    for pair in metrics.decode(errors="replace").strip().split(" - "):
        match = _VERL_PAIR.fullmatch(pair)
        if match:
            cells[match[1]] = match[2]
    return cells


@dataclass(slots=True)
class _DeepSpeedSteps:
    """The steps of DeepSpeed-Chat: losses in one line, the mean reward in one of the next.

    It counts steps from 0 in each epoch; here they go on counting.
    """

    epoch: int = 0
    before: int = 0  # number of steps in earlier epochs
    step: int = -1  # as counted here, −1 before the first
    cells: Cells = field(default_factory=dict)

    def read(self, line: bytes) -> Iterator[tuple[int, Cells]]:
        """Take a line; yield the step before it, which is complete, if it begins another."""
        start = _DEEPSPEED_STEP.search(line)
        if start is not None:
            yield from self.rest()
            self._begin(int(start[1]), int(start[2]))
            self.cells = _deepspeed_cells(line[start.end() :])
            return
        reward = _DEEPSPEED_REWARD.search(line)
        if reward is not None and self.step >= 0:
            self.cells[REWARD] = reward[1].decode(errors="replace")

    def rest(self) -> Iterator[tuple[int, Cells]]:
        """Yield the step that was begun, if any."""
        if self.cells:
            yield self.step, self.cells
        self.cells = {}

    def _begin(self, epoch: int, step: int) -> None:
        if epoch > self.epoch and self.before + step <= self.step:
            self.before = self.step + 1 - step
        elif epoch < self.epoch:
            self.before = 0  # the run was started again
        self.epoch = epoch
        self.step = self.before + step


def _deepspeed_cells(metrics: bytes) -> Cells:
    """Return the metrics of a line; "Actor Loss" becomes "actor_loss"."""
    cells: Cells = {}
    for part in metrics.decode(errors="replace").split("|"):
        match = _DEEPSPEED_PAIR.fullmatch(part.strip())
        if match:
            name = match[1].strip().lower()
            cells[name.replace(" ", "_")] = match[2]
    # The number of a pass over the same rollouts is no metric.
    for name in ("ppo_ep", "ppo_epoch"):
        cells.pop(name, None)
    return cells
