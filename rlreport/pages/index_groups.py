"""Groups of an index: runs that differ in their seed alone, and families of such groups."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from os.path import commonprefix
from typing import NamedTuple

from rlreport.comparison.saved import SEEDS, name_without_seed
from rlreport.pages.family import FamilyRow, Levels, is_relevant
from rlreport.pages.index_metrics import Metric
from rlreport.pages.index_rows import IndexRun
from rlreport.text.messages import message

# Configurations of one family have at least this part of the names of their settings in common
SHARED_NAMES = 0.5
_SEPARATORS = "-_./: "


class Group(NamedTuple):
    name: str
    runs: list[IndexRun]  # runs that differ in their seed alone, or a single run

    @property
    def is_several(self) -> bool:
        return len(self.runs) > 1

    @property
    def is_broken(self) -> bool:
        """Whether the verdict on any of its runs is critical."""
        return any(run.level == "critical" for run in self.runs)

    def values(self, quantity: str, level: str = "last") -> list[float]:
        """Return a level of a quantity in each run, or its error (``Metric``), NaN without one."""
        found = [run.metrics.get(quantity, Metric()) for run in self.runs]
        return [getattr(metric, level) for metric in found]


def grouped(runs: Sequence[IndexRun]) -> list[Group]:
    """Return groups of runs that differ only in their seed.

    Runs belong together if their names are the same but for the seed. Those whose names have no
    seed belong together if their configurations are the same but for the seed. A run that belongs
    to no other is a group of its own.
    """
    counts = Counter(run.name for run in runs)
    groups: dict[str, Group] = {}
    for run in runs:
        # What the names of a group's runs have in common, "" without a seed in the name
        shared = "" if run.is_unread else name_without_seed(run.name)
        if shared == SEEDS:  # the name says nothing else, but its folder may
            shared = run.place.rpartition("/")[0] or shared
        key = shared or run.without_seed
        # The group has no name of its own: it is named after its first run.
        unique_name = run.name if counts[run.name] == 1 else run.place
        others = message("{name} and others", name=unique_name)
        # Without a seed in name and configuration, its address keeps the run apart from others.
        group = groups.setdefault(key or run.href, Group(shared or others, []))
        group.runs.append(run)
    return [_with_own_name(group) for group in groups.values()]


def _with_own_name(group: Group) -> Group:
    """Return a group with the name of its run if it has a single one."""
    return group if group.is_several else Group(group.runs[0].name, group.runs)


def families(groups: Sequence[Group]) -> list[list[Group]]:
    """Return families of groups: those whose configurations have mostly the same settings.

    They are the runs of one project. Groups without a configuration are a family, too. The largest
    family is first.
    """
    found: list[tuple[frozenset[str], list[Group]]] = []
    for group in groups:
        if group.runs[0].is_unread:
            continue
        names = frozenset(filter(is_relevant, group.runs[0].settings))
        for of_family, members in found:
            if _are_alike(names, of_family):
                members.append(group)
                break
        else:
            found.append((names, [group]))
    return sorted((members for _, members in found), key=len, reverse=True)


def _are_alike(names: frozenset[str], others: frozenset[str]) -> bool:
    if not names or not others:
        return not names and not others
    return len(names & others) >= SHARED_NAMES * len(names | others)


def shared_start(groups: Sequence[Group]) -> str:
    """Return the words that the names of all groups begin with, and the mark after them."""
    names = [group.name for group in groups]
    shared = commonprefix(names)  # noqa: RUF071
    return shared[: max(map(shared.rfind, _SEPARATORS)) + 1]


def family_name(groups: Sequence[Group]) -> str:
    """Return what the names of a family's groups begin with, else the first name and "others"."""
    shared = shared_start(groups).rstrip(_SEPARATORS)
    return shared or message("{name} and others", name=groups[0].name)


def score_of(groups: Sequence[Group]) -> str:
    """Return the score by which groups are compared: validation if two have it, else the reward."""
    has_validation = [any(map(math.isfinite, g.values("validation"))) for g in groups]
    return "validation" if sum(has_validation) >= 2 else "reward"


def mean(values: Sequence[float]) -> float:
    """Return the mean of the finite values, NaN without any."""
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else math.nan


def by_score(groups: Sequence[Group]) -> list[Group]:
    """Return groups by the last level of their score, the best first."""
    score = score_of(groups)

    def rank(group: Group) -> float:
        last = mean(group.values(score))
        return math.inf if math.isnan(last) else -last  # NaN has no order

    return sorted(groups, key=rank)


def family_rows(groups: Sequence[Group]) -> list[FamilyRow]:
    """Return the rows of a family, the best first."""
    # A setting that differs within a group, such as the seed, tells no groups apart.
    within = set[str]()
    for group in groups:
        within |= _disagreed(group)
    return [_family_row(group, within) for group in by_score(groups)]


def _family_row(group: Group, within: set[str]) -> FamilyRow:
    """Return the row of a group, without the settings that differ ``within`` any of them."""
    runs = group.runs
    settings = runs[0].settings
    return FamilyRow(
        name=group.name,
        levels=[run.level for run in runs],
        settings={key: settings[key] for key in settings if key not in within},
        href=None if group.is_several else runs[0].href,
        validation=_levels(group, "validation"),
        reward=_levels(group, "reward"),
        steps=[run.steps for run in runs],
        harm=[run.since if run.is_harmed else math.nan for run in runs],
    )


def _disagreed(group: Group) -> set[str]:
    """Return the settings that differ between the runs of a group."""
    first, *others = (run.settings for run in group.runs)
    found = set[str]()
    for settings in others:
        for key in {*first, *settings}:
            if repr(first.get(key, ...)) != repr(settings.get(key, ...)):
                found.add(key)
    return found


def _levels(group: Group, quantity: str) -> Levels:
    metrics = [run.metrics.get(quantity, Metric()) for run in group.runs]
    return Levels(
        best=group.values(quantity, "best"),
        last=group.values(quantity, "last"),
        best_errors=group.values(quantity, "best_se"),
        last_errors=group.values(quantity, "last_se"),
        is_percentage=any(metric.is_percentage for metric in metrics),
    )
