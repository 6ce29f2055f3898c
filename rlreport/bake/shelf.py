"""Where finished pages lie until the report is delivered: put there by whoever bakes them.

What a page is made of and its text stay with the process that bakes it; what comes back is where
it lies. So a report of any size needs no room in the process that delivers it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from rlreport.bake.responses_page import ListedRows
from rlreport.choose import Plan, StepPlan
from rlreport.pool import Pool


class Shelved(NamedTuple):
    """A page on a shelf: its path below the report's root, its name there, and its bytes.

    ``md5`` is what a store says of it, "" on a disk; ``name`` is "" where the report that is
    replaced has the same page already.
    """

    path: str
    name: str
    size: int
    md5: str


class Shelf(ABC):
    """A place for finished pages.

    Attributes:
        seen: whether whoever bakes sees it too.
        moved: pages of the report that lie elsewhere than in its folder, by their paths.
    """

    def __init__(self) -> None:
        self.seen = False
        self.moved: dict[str, Shelved] = {}

    @abstractmethod
    def put(self, path: str, data: bytes) -> Shelved:
        """Put a page there, under a new name: of a job that is done twice each has its own.

        Raises:
            Exception: it cannot be written to.
        """

    @abstractmethod
    def read(self, page: Shelved) -> bytes:
        """Return a page."""

    @abstractmethod
    def move(self, page: Shelved, place: Path) -> None:
        """Move a page to its place in the report's folder, or see to it that it gets there."""

    @abstractmethod
    def clear(self) -> None:
        """Remove what is there."""

    def show(self, pool: Pool) -> None:
        """Find out whether all processes of a pool read and write what lies there."""
        question = self.put("", secrets.token_bytes(32))
        asked = self.read(question)
        answers = pool.everywhere(self.answer, question)
        self.seen = all(isinstance(a, Shelved) and self.read(a) == asked for a in answers)

    def answer(self, question: Shelved) -> Shelved:
        """Read what another process put there, and put the same there."""
        return self.put("", self.read(question))


class FolderShelf(Shelf):
    """A folder beside the report's place, on the same disk."""

    def __init__(self, root: Path) -> None:
        """Take a folder that is there."""
        super().__init__()
        self.root = root.absolute()

    def put(self, path: str, data: bytes) -> Shelved:
        """See Shelf; OSError where the folder is not there, or not any more."""
        name = new_name()
        (self.root / name).write_bytes(data)
        return Shelved(path, name, len(data), "")

    def read(self, page: Shelved) -> bytes:
        """See Shelf."""
        return (self.root / page.name).read_bytes()

    def move(self, page: Shelved, place: Path) -> None:
        """See Shelf."""
        mask = os.umask(0)
        os.umask(mask)
        place.parent.mkdir(parents=True, exist_ok=True)
        (self.root / page.name).replace(place)
        if place.stat().st_mode & 0o777 != (mode := 0o666 & ~mask):  # that of another node
            place.chmod(mode)

    def clear(self) -> None:
        """See Shelf."""
        shutil.rmtree(self.root)
        self.root.mkdir()


def new_name() -> str:
    """Return a name that no other page has."""
    return f"{secrets.token_hex(8)}.html"


def md5(data: bytes) -> str:
    """Return what stores say of a file."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class ShelvedPage:
    """A finished page of a step, as forms take it; ``bytes`` reads it."""

    shelf: Shelf
    page: Shelved

    def __bytes__(self) -> bytes:
        """Return its content."""
        return self.shelf.read(self.page)

    def move(self, place: Path) -> None:
        """Move it to its place, once."""
        self.shelf.move(self.page, place)


@dataclass(frozen=True, slots=True)
class BakedStep:
    """A page as its form takes it, and what it shows.

    Attributes:
        content: path below the report's root and bytes; or where they lie.
        weight: bytes that it takes in its form, with ``listed``.
        plan: what it shows.
        listed: its rows in the list of the run.
    """

    content: tuple[str, bytes] | Shelved
    weight: int
    plan: StepPlan
    listed: ListedRows


def put_on(shelf: Shelf, page: BakedStep) -> BakedStep:
    """Put a page on a shelf, unless it cannot be put there: then who asked for it shall do it."""
    if isinstance(page.content, Shelved):
        return page
    try:
        return replace(page, content=shelf.put(*page.content))
    except Exception:  # of any store; this process may have come after those that were asked
        return page


class StepPages:
    """The pages of the steps, on a shelf; iterating gives them in order."""

    def __init__(self, shelf: Shelf, steps_in_all: int) -> None:
        self.plan = Plan([], steps_in_all)
        self.listed: list[ListedRows] = []
        self._shelf = shelf
        self._pages: list[Shelved] = []

    def add(self, page: BakedStep) -> None:
        """Keep the page of the next step, and its rows in the list of the run."""
        content = page.content
        self._pages.append(content if isinstance(content, Shelved) else self._shelf.put(*content))
        self.plan.steps.append(page.plan)
        self.listed.append(page.listed)

    def __iter__(self) -> Iterator[tuple[str, ShelvedPage]]:
        for page in self._pages:
            yield page.path, ShelvedPage(self._shelf, page)
