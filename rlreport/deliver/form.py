"""What an output form is, and which there are."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from rlreport.bake.report import Bakery
from rlreport.choose import CostModel


class Form(Protocol):
    """An output form: one file of this package and one line in the registry.

    Attributes:
        id: name for ``--format``.
        suffix: suffix of OUT that chooses it, "" for the folder.
        folder: whether it is a folder.
        pictures: whether it has a folder of pictures beside it.
        one_file: whether its pages are views of one file.
        default_size: bytes it may have unless told.
        cost: what parts of a report weigh in it.
    """

    id: str
    suffix: str
    folder: bool
    pictures: bool
    one_file: bool
    default_size: int
    cost: CostModel

    def write(self, bakery: Bakery, place: Path) -> None:
        """Writes the report to ``place``, a fresh path (an empty folder for folder forms).

        A form with pictures writes them to ``pictures_of(place)``.
        """
