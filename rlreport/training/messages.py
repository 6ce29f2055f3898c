"""What the process of a training, the one that waits for its end, and the builds tell each other.

All imports are of the standard library, as the waiting process must stay small.
"""

from __future__ import annotations

from typing import Any, TypedDict

from rlreport.ended import Ended


class Request(TypedDict):
    """What to build; the same for all reports of a training."""

    parent: int  # id of the process of the training
    out: str
    options: dict[str, Any]  # of ``rlreport.build``, as JSON has them
    logs: list[str]  # the user's; [] for those that the trainer writes to ``folder``
    folder: str  # where the trainer writes, "" without a trainer
    journal: str  # file of the metrics logged so far, "" without any
    state: dict[str, Any]  # of the trainer, without its history; {} without a trainer
    settings: str  # file with the trainer's arguments, "" without any
    began: float  # time in seconds
    resumed: bool  # whether the trainer goes on from a checkpoint


class Message(TypedDict, total=False):
    """A line, as JSON, that the waiting process gets after the request."""

    type: str  # BUILD, END or CANCEL
    ended: Ended  # how the training ended; missing if it goes on


BUILD = "build"  # build a report while the training goes on
END = "end"  # build the last report
CANCEL = "cancel"  # build no further report


class Answer(TypedDict, total=False):
    """A line, as JSON, that a build writes."""

    # to print: how the training ended, the verdict and the path of the report
    lines: list[str]
    error: str  # why there is no report
