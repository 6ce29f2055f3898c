"""Choose the consoles that are read among the files of a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from rlreport.errors import RlreportError
from rlreport.formats.metric_rows import COUNTER, Record
from rlreport.metrics.console_files import names_in
from rlreport.metrics.console_steps import is_of_rl
from rlreport.metrics.roles import without_prefixes
from rlreport.read.lines import DAMAGED
from rlreport.read.listing import without_suffixes
from rlreport.text.messages import translatable

COPY = translatable(
    "a console whose metrics are in another file, too, and there without rounding: not read"
)
SUPERVISED = translatable(
    "a console of training without a reward, such as SFT, next to one with a reward: not read"
)

_FIRST = 50  # records in which the names of metrics are looked up
# Fraction of the metrics of a console that another file has if it is of the same training
_COMMON = 0.5


def consoles_to_omit(
    consoles: Sequence[Path], others: Iterable[Iterable[Record]]
) -> dict[Path, str]:
    """Return console -> why it is not read; ``others`` are the records of each other file."""
    logged: set[str] = set()
    for records in others:
        logged |= _names(records)
    names_of = {path: set(map(without_prefixes, names_in(path))) for path in consoles}
    has_rl = is_of_rl(logged) or any(map(is_of_rl, names_of.values()))
    omitted: dict[Path, str] = {}
    for path, names in names_of.items():
        if names and len(names & logged) >= _COMMON * len(names):
            omitted[path] = COPY
        elif has_rl and not is_of_rl(names):
            omitted[path] = SUPERVISED
    return omitted


def _names(records: Iterable[Record]) -> set[str]:
    """Return the metrics in the first records of a file, without prefixes such as ``train/``."""
    names: set[str] = set()
    try:
        for _, metrics in islice(records, _FIRST):
            names |= metrics.keys()
    except (*DAMAGED, RlreportError, ValueError):
        pass  # reading the file tells why
    return {without_prefixes(name) for name in names if not name.startswith(COUNTER)}


def runs_of(consoles: Iterable[tuple[Path, str]]) -> dict[Path, str]:
    """Return console -> the name of its run, given that of its folder.

    Several consoles in one folder are of several runs, called by their files.
    """
    by_path = dict(consoles)
    counts = Counter(path.parent for path in by_path)
    return {
        path: run
        if counts[path.parent] == 1
        else _joined(run, without_suffixes(path.name))
        for path, run in by_path.items()
    }


def _joined(run: str, name: str) -> str:
    return name if run == "." else f"{run}/{name}"
