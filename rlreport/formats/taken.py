"""Which fields of a logged object a format read, and which nobody did.

``watched`` wraps an object, and the objects below it, so that reading a key is remembered;
``RowReader`` tells afterwards what was left. No format keeps a list of what it does not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_DEEPEST = 2
"""Levels below the logged object that are watched: traces of an episode, nodes of a trace."""


class Watched(dict[str, Any]):
    """A logged object that remembers which of its keys were read by ``get`` or ``[]``."""

    __slots__ = ("all_taken", "children", "depth", "read")

    def __init__(self, obj: dict[str, Any], depth: int = 0) -> None:
        super().__init__(obj)
        self.depth = depth
        self.read: set[str] = set()
        self.all_taken = False
        self.children: list[tuple[str, Watched]] = []

    def __getitem__(self, key: str) -> Any:
        return self._child(key, super().__getitem__(key))

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value as ``dict.get`` does, and remember that it was asked for."""
        return self._child(key, super().__getitem__(key)) if key in self else default

    def entry(self, obj: dict[str, Any]) -> Watched:
        """Return an object made of this one's columns, whose keys are this one's."""
        child = Watched(obj, _DEEPEST)
        self.children.append(("", child))
        return child

    def _child(self, key: str, value: Any) -> Any:
        if key in self.read:
            return value
        self.read.add(key)
        if self.depth < _DEEPEST and type(value) in (dict, list):
            value = self._watch(key, value)
            super().__setitem__(key, value)
        return value

    def _watch(self, key: str, value: Any) -> Any:
        if isinstance(value, dict):
            child = Watched(value, self.depth + 1)
            self.children.append((key, child))
            return child
        if not value or not all(type(item) is dict for item in value):
            return value
        items = [Watched(item, self.depth + 1) for item in value]
        self.children += [(key, item) for item in items]
        return items

    def not_taken(self, prefix: str = "") -> Iterator[tuple[str, object]]:
        """Yield name and value of every field that nobody read and that says something."""
        if self.all_taken:
            return
        exploded = any(not key for key, _ in self.children)
        for key, value in self.items():
            if key not in self.read and not exploded and value not in (None, "", [], {}):
                yield f"{prefix}{key}", value
        for key, child in self.children:
            # Columns are told of entry by entry.
            if not key or not exploded:
                yield from child.not_taken(f"{prefix}{key}." if key else prefix)


def all_taken(obj: dict[str, Any]) -> dict[str, Any]:
    """Return a plain copy of an object; if it is watched, every key counts as read."""
    if isinstance(obj, Watched):
        obj.all_taken = True
    return dict(obj)


def take(obj: object, key: str) -> None:
    """Remember a key of an object, if it is watched, as read."""
    if isinstance(obj, Watched):
        obj.read.add(key)
