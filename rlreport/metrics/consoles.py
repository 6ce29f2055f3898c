"""Recognize rows of metrics in the console logs of trainers: a class for each trainer.

To add a trainer: a subclass of ``Trainer``, and its name in ``TRAINERS``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from rlreport.fields import LARGEST_STEP
from rlreport.formats.metric_rows import STEP_KEYS, TEXT_KEYS, step_in
from rlreport.metrics.console_rows import (
    MAX_DICT,
    Cells,
    PrintedDict,
    Row,
    printed_dict,
)
from rlreport.metrics.lines import STEP, UnusedRows, number
from rlreport.metrics.progress_bars import Bar, Bars
from rlreport.text.messages import translatable

# Dicts of a piece that are no rows, after which the rest of the piece is not read
MOST_OTHERS = 500
OTHERS = translatable(
    "parts of the console have very many dicts that are no rows of metrics: their rest is left out"
)

# What a dict has that is a row of metrics, among other numbers
_METRIC = re.compile(r"loss|reward|score|return|grad_norm|objective/|train_runtime")


class Trainer(ABC):
    """Reads the rows of one trainer, given a console piece by piece.

    Attributes:
        name: of the trainer, for messages.
        sign: what each piece contains that it reads; to look for it is fast.
        mark: what a row begins with.
        gave_up: whether the rest of the piece was not read.
    """

    name: ClassVar[str]
    sign: ClassVar[bytes] = b""
    mark: ClassVar[re.Pattern[bytes]]
    gave_up: bool = False

    @abstractmethod
    def read(self, piece: bytes, bars: Bars) -> Iterator[Row]:
        """Take a piece, and report its progress bars to ``bars``; yield rows that are complete."""

    def rest(self) -> Iterator[Row]:
        """Yield a row that was begun, at the end of the console."""
        yield from ()


class Verl(Trainer):
    """Lines such as "step:1 - actor/loss:0.1 - …" of verl."""

    name = "verl"
    sign = b"step:"
    mark = re.compile(rb"\bstep:(\d{1,15}) - (?=\S{1,500}?:)")
    _pair = re.compile(r"(\S+):(?:np\.\w+\()?([-+.\w]+)\)?$")

    def read(self, piece: bytes, bars: Bars) -> Iterator[Row]:
        start = self.mark.search(piece)
        if start is None:
            return
        cells: Cells = {}
        text = piece[start.end() :].decode(errors="replace").strip()
        for pair in text.split(" - "):
            match = self._pair.fullmatch(pair)
            if match:
                cells[match[1]] = match[2]
        yield Row(cells, step=int(start[1]))


@dataclass(slots=True)
class _Epochs:
    """Numbers steps that a trainer counts anew in each epoch."""

    # Number of the first epoch: epochs are counted from 1, or from 0 if one has this number
    first_epoch: int = 1
    # Of the step numbered last, without a known length of epochs
    last_epoch: int = 0
    last_number: int = -1
    steps_before: int = 0  # number of steps in the epochs before it

    def number(self, epoch: int, step: int, length: int | None = None) -> int:
        """Return the number of a step of an epoch in the run, from 0.

        Args:
            epoch: the epoch, as the trainer counts.
            step: the step in this epoch.
            length: number of steps of an epoch, None if it is not known.
        """
        if length is None:
            return self._number_after_last(epoch, step)
        self.first_epoch = min(self.first_epoch, epoch)
        return (epoch - self.first_epoch) * length + step

    def _number_after_last(self, epoch: int, step: int) -> int:
        has_new_count = self.steps_before + step <= self.last_number
        if epoch > self.last_epoch and has_new_count:
            # The steps of this epoch follow the last one of the epoch before.
            self.steps_before = self.last_number + 1 - step
        elif epoch < self.last_epoch:
            self.steps_before = 0  # the run was started again
        self.last_epoch = epoch
        self.last_number = self.steps_before + step
        return self.last_number


@dataclass(slots=True)
class DeepSpeedChat(Trainer):
    """Lines such as "epoch: 0|step: 3|ppo_ep: 1|act_loss: 0.1|…" of DeepSpeed-Chat.

    Newer ones are "Epoch: 0 | Step: 3 | PPO Epoch: 1 | Actor Loss: …". The mean reward stands in a
    line of its own, maybe with a moving average. Steps are counted from 0 in each epoch.
    """

    name: ClassVar[str] = "DeepSpeed-Chat"
    sign: ClassVar[bytes] = b": "
    mark: ClassVar[re.Pattern[bytes]] = re.compile(
        rb"(?i)\bepoch: (\d{1,9}) ?[|,] ?step: (\d{1,15}) ?[|,](?= ?ppo)"
    )
    _reward: ClassVar[re.Pattern[bytes]] = re.compile(
        rb"(?i)\baverage reward score: ?([-+.\w]{1,40})"
    )
    _pair: ClassVar[re.Pattern[str]] = re.compile(r"(\w[\w ]*):\s*([-+.\w]+)")

    epochs: _Epochs = field(default_factory=_Epochs)
    row: Row | None = None

    def read(self, piece: bytes, bars: Bars) -> Iterator[Row]:
        lower = piece.lower()
        if b"step: " in lower:
            start = self.mark.search(piece)
            if start is not None:
                yield from self.rest()
                step = self.epochs.number(int(start[1]), int(start[2]))
                self.row = Row(self._cells(piece[start.end() :]), step=step)
        elif b"average reward score" in lower and self.row is not None:
            reward = self._reward.search(piece)
            if reward is not None:
                self.row.cells["average_reward_score"] = reward[1].decode()

    def rest(self) -> Iterator[Row]:
        if self.row is not None:
            yield self.row
        self.row = None

    def _cells(self, metrics: bytes) -> Cells:
        """Return the metrics of a line; "Actor Loss" becomes "actor_loss"."""
        cells: Cells = {}
        for part in re.split(r"[|,]", metrics.decode(errors="replace")):
            match = self._pair.fullmatch(part.strip())
            if match:
                name = match[1].strip().lower()
                cells[name.replace(" ", "_")] = match[2]
        # The number of a pass over the same rollouts is no metric.
        for name in ("ppo_ep", "ppo_epoch"):
            cells.pop(name, None)
        return cells


@dataclass(slots=True)
class MiniMind(Trainer):
    """Lines such as "Epoch:[1/1](7/9751), Reward: -2.2, KL_ref: …" of MiniMind and its forks.

    Older ones are "Epoch: 1, Step: 7/9751, Actor Loss: …" and "Epoch:[1/2](7/9751) loss:8.9 lr:…".
    """

    name: ClassVar[str] = "MiniMind"
    sign: ClassVar[bytes] = b"Epoch:"
    mark: ClassVar[re.Pattern[bytes]] = re.compile(
        rb"\bEpoch:(?:\[(\d{1,9})/\d{1,9}\]\((\d{1,12})/(\d{1,12})\)"
        rb"| (\d{1,9}), Step: (\d{1,12})/(\d{1,12})),? ?"
    )
    _pair: ClassVar[re.Pattern[str]] = re.compile(
        r"([A-Za-z][\w&/ ]{0,60}?): ?([-+]?(?:\d[\d.]{0,40}(?:e[-+]?\d{1,4})?|nan|inf))"
        r"(?=[, ]|$)"
    )
    # The same metric has one name; "AvgLen" is "avg_len" here.
    _names: ClassVar[dict[str, str]] = {
        "avg_len": "avg_response_len",
        "len": "avg_response_len",
        "grp_std": "group_reward_std",
        "kl_ref": "kl_ref",
    }

    epochs: _Epochs = field(default_factory=_Epochs)

    def read(self, piece: bytes, bars: Bars) -> Iterator[Row]:
        start = self.mark.search(piece)
        if start is None:
            return
        epoch, step, total = (int(group) for group in start.groups() if group)
        cells: Cells = {}
        text = piece[start.end() :].decode(errors="replace")
        for match in self._pair.finditer(text):
            name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", match[1].strip())
            name = name.lower().replace(" ", "_")
            cells[self._names.get(name, name)] = match[2]
        _name_kl(cells)
        if cells:
            yield Row(cells, step=self.epochs.number(epoch, step, total), total=total)


def _name_kl(cells: Cells) -> None:
    """Give a row's estimates of KL names that say what they are, by what else the row has.

    MiniMind changed what it prints under the same names.
    """
    if "adv_std" in cells and "kl_ref" in cells:  # train_grpo.py
        cells["kl_ref"] = _negated(cells["kl_ref"])  # printed is ref_logp − logp
    elif "group_reward_std" in cells and "kl" in cells:  # train_agent.py, the same
        cells["kl_ref"] = _negated(cells.pop("kl"))
    elif (
        "kl" in cells and "kl_ref" in cells
    ):  # train_ppo.py until 2026: sums over tokens
        cells["policy_change_sum"] = cells.pop("kl")
        cells["ref_log_ratio_sum"] = cells.pop("kl_ref")


def _negated(cell: str) -> str:
    return cell[1:] if cell.startswith("-") else f"-{cell.removeprefix('+')}"


@dataclass(slots=True)
class HFTrainer(Trainer):
    """Dicts such as "{'loss': 0.01, 'reward': 0.5, 'epoch': 0.1}" of transformers' Trainer and TRL.

    They may stand anywhere in a line, between progress bars, be cut by bars, or be wrapped. A row
    has no step of its own.
    """

    name: ClassVar[str] = "the Hugging Face Trainer and TRL"
    mark: ClassVar[re.Pattern[bytes]] = re.compile(
        rb"""\{(?=['"][A-Za-z_][\w/@.+ -]{0,200}['"]: ?|\s*$)"""
    )
    # Before the row: which process or node printed it
    _writer: ClassVar[re.Pattern[bytes]] = re.compile(
        rb"\brank ?\d{1,6}\b|\bdefault\d{1,6}\b|\bpid=\d{1,9}\b|\[\d{1,6},\d{1,6}\]<std\w+>",
        re.IGNORECASE,
    )
    # TRL's tables of completions have frames.
    _frames: ClassVar[tuple[bytes, ...]] = tuple(
        sign.encode() for sign in ("│", "┃", "║")
    )
    _most_pieces: ClassVar[int] = 64  # of a row that is wrapped
    _recent_rows: ClassVar[int] = 16  # rows that a copy may be of

    begun: bytes = b""  # of a row that is cut
    pieces: int = 0  # number of pieces of it
    gave_up: bool = False
    bars_before: dict[Bar, int] = field(default_factory=dict)
    writer: bytes = b""
    recent: deque[tuple[bytes, Row]] = field(
        default_factory=lambda: deque(maxlen=HFTrainer._recent_rows)
    )

    def read(self, piece: bytes, bars: Bars) -> Iterator[Row]:
        if b"{" not in piece and not self.begun:
            bars.read(piece)
            return
        if piece.lstrip().startswith(self._frames):
            return
        start = self.mark.search(piece)
        if start is None and self.begun:
            yield from self._go_on(piece, bars)
            return
        position = 0
        others = 0  # number of dicts that are no rows
        # Of one byte a character, the text has the positions of the piece.
        text = piece.decode("latin-1")
        while start is not None:
            prefix = piece[position : start.start()]
            bars.read(prefix)
            writer = self._writer.search(prefix[-200:])
            self.writer = writer[0] if writer else b""
            self.begun = b""
            self.pieces = 0
            self.bars_before = dict(bars.done)
            row, printed = self._row(text, start.start())
            if row is not None:
                yield from self._distinct(row)
            elif printed.is_cut:
                self.begun = bars.read(piece[start.start() :])
                return
            else:
                others += 1
            position = printed.end
            if others == MOST_OTHERS:
                self.gave_up = True
                break
            start = self.mark.search(piece, position)
        bars.read(piece[position:])

    def _go_on(self, piece: bytes, bars: Bars) -> Iterator[Row]:
        """Take a piece while a row is cut off."""
        self.pieces += 1
        text = self.begun + bars.read(piece)
        if self.pieces > self._most_pieces or len(text) > MAX_DICT:
            self.begun = b""
            return
        row, printed = self._row(text.decode("latin-1"))
        self.begun = text if printed.is_cut else b""
        if row is not None:
            yield from self._distinct(row)

    def _row(self, text: str, begin: int = 0) -> tuple[Row | None, PrintedDict]:
        """Return the row in a text of bytes or None, and its dict, from ``begin`` on."""
        printed = printed_dict(text, begin)
        if printed.cells is None:
            return None, printed
        named = {_utf8(name): cell for name, cell in printed.cells.items()}
        return _row_of(printed._replace(cells=named)), printed

    def _distinct(self, row: Row) -> Iterator[Row]:
        """Yield the row, unless another process printed it, too, or it is printed twice."""
        row.bars = self.bars_before
        for writer, other in self.recent:
            is_equal = other.cells == row.cells and other.bars == row.bars
            is_of_another = (
                writer != self.writer and other.cells.keys() == row.cells.keys()
            )
            is_at_place = other.epoch == row.epoch and other.step == row.step
            if is_at_place and (is_equal or is_of_another):
                return
        self.recent.append((self.writer, row))
        yield row


def _utf8(name: str) -> str:
    """Return a name that was read with one character a byte."""
    return name if name.isascii() else name.encode("latin-1").decode(errors="replace")


def _row_of(printed: PrintedDict) -> Row | None:
    """Return the row of a dict, None if it is not one of metrics."""
    cells = printed.cells
    # A row of a rollout has texts, and a configuration hardly any numbers.
    if not cells or 2 * len(printed.others) > len(cells):
        return None
    if not TEXT_KEYS.isdisjoint(printed.others):
        return None
    step, total = _own_step(cells)
    epoch = cells.pop("epoch", None)
    has_place = epoch is not None or step is not None
    if not has_place or not any(map(_METRIC.search, cells)):
        return None
    # transformers rounds the loss to four decimals, so that a loss of 0.0 is any small number.
    if cells.get("loss") in ("0.0", "-0.0"):
        cells["loss"] = "0.0000"
    kind = "train"
    if all(name.startswith(("eval_", "test_")) for name in cells):
        kind = "eval"
    elif "train_runtime" in cells:
        kind = "summary"
    position = None if epoch is None else number(epoch)
    return Row(cells, step, total=total, epoch=position, kind=kind)


def _own_step(cells: Cells) -> tuple[int | None, int | None]:
    """Remove the step from a dict's numbers; return it, and how many steps are planned."""
    found: dict[str, float | str] = {}
    for key in STEP_KEYS:
        cell = cells.pop(key, "")
        value = cell if "/" in cell else number(cell)
        if value is not None:
            found[key] = value
    texts = [value for value in found.values() if isinstance(value, str)]
    total = int(texts[0].partition("/")[2]) if texts else None  # such as "3/100"
    return step_in(found), total


# The trainers whose consoles are read
TRAINERS: tuple[type[Trainer], ...] = (Verl, DeepSpeedChat, MiniMind, HFTrainer)


def console_rows(
    pieces: Iterable[tuple[int, bytes]], bars: Bars, unused: UnusedRows | None = None
) -> Iterator[Row]:
    """Yield the rows of all trainers in a console, given the pieces of its lines.

    What is not read is added to ``unused``.
    """
    counted = unused or UnusedRows()
    trainers = [trainer() for trainer in TRAINERS]
    signs = [(trainer.sign, trainer) for trainer in trainers]
    line = 0
    for line, piece in pieces:
        for sign, trainer in signs:
            if sign in piece:
                yield from _usable(trainer.read(piece, bars), line, counted)
                if trainer.gave_up:
                    trainer.gave_up = False
                    counted.add(OTHERS, line)
    for trainer in trainers:
        yield from _usable(trainer.rest(), line, counted)


def _usable(rows: Iterable[Row], line: int, unused: UnusedRows) -> Iterator[Row]:
    """Yield the rows of a line; add those with a step that is too large to ``unused``."""
    for row in rows:
        row.line = line
        if row.step is None or abs(row.step) <= LARGEST_STEP:
            yield row
        else:
            unused.add(STEP, line)
