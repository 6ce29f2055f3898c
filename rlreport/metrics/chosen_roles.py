"""Choose metrics for roles that their names do not tell for sure: by the user, or as likely."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlreport.errors import UsageError
from rlreport.metrics.roles import (
    RIGHT,
    ROLES,
    is_known_key,
    roles_of,
    without_prefixes,
)
from rlreport.tables import Note, NoteKind
from rlreport.text.clean import safe_text
from rlreport.text.messages import message

_WORD = re.compile(r"[a-z]+|\d+")
# Words in the names of metrics that may be the reward ...
_REWARD = frozenset("reward rewards return returns score scores proxy".split())
# ... unless one of these says that it is something else: a statistic, a part, a setting
_NO_REWARD = frozenset(
    "std var variance min max median range hist histogram best final target threshold baseline "
    "bias advantage advantages format length len penalty penalties bonus kl entropy loss weight "
    "weights scale coef clip clipped count counts num n zero frac fraction ratio groups model time "
    "sec seconds margin margins chosen rejected gap delta diff ref reference acc accuracy correct "
    "val valid validation eval evaluation test dev held heldout".split()
)
# Words of a reward that is trained on, beside one of _WATCHED that it stands for
_TRAINED = frozenset("proxy learned rm".split())
_WATCHED = frozenset("gold golden oracle true".split())
# Names of rates of right answers that say themselves that they are of training
_OF_TRAINING = re.compile(
    r"(?:.* - )?(?:train|training|rollouts?)[/_.].*", re.IGNORECASE
)
_MAX_NAMED = 5


class Chosen(NamedTuple):
    """Role -> metric, only of the roles that the names alone do not tell; what was chosen how."""

    roles: dict[str, str]
    notes: list[Note]


def choose_roles(table: pd.DataFrame, given: Mapping[str, str]) -> Chosen:
    """Return the roles that the user gave, and those that metrics of the table probably have.

    ``given`` is role -> metric, of ``--role``.

    Raises:
        UsageError: there is no such role or metric.
    """
    names = [str(name) for name in table.columns if name != "step"]
    roles = checked_roles(given, names)
    notes: list[Note] = []
    known = roles_of(names, roles)
    if "reward" not in roles and _is_weak(known.get("reward")):
        others = {name for role, name in known.items() if role != "reward"}
        candidates = _candidates(name for name in names if name not in others)
        if len(candidates) == 1:
            roles["reward"] = candidates[0]
            text = message(
                "{metric} is taken for the reward, as no other metric has such a name; for another "
                "one, pass --role reward=NAME",
                metric=f"`{candidates[0]}`",
            )
            notes.append(Note(NoteKind.METRICS, text, 1))
        elif candidates:
            options = [_option("reward", name) for name in candidates[:_MAX_NAMED]]
            text = message(
                "no metric is surely the reward; choose one: {options}",
                options=" | ".join(options),
            )
            notes.append(Note(NoteKind.FORMAT, text, 1))
    watched = _watched(table, names, roles)
    if watched:
        roles["validation"] = watched
        text = message(
            "{metric} is taken for validation, which the reward should follow; for another metric, "
            "pass --role validation=NAME",
            metric=f"`{watched}`",
        )
        notes.append(Note(NoteKind.METRICS, text, 1))
    return Chosen(roles, notes)


def checked_roles(given: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the roles that the user gave; raise UsageError for an unknown role or metric."""
    logged = sorted(names)
    for role, name in given.items():
        option = f"--role {safe_text(f'{role}={name}')}"
        if role not in ROLES:
            raise UsageError(
                f"{option}: no role is named so; roles: {', '.join(ROLES)}"
            )
        if name not in logged:
            shown = ", ".join(logged[:20]) + (", …" if len(logged) > 20 else "")
            raise UsageError(
                f"{option}: no such trainer metric; found: {shown or 'none'}"
            )
    if len(set(given.values())) < len(given):
        raise UsageError("--role: a metric cannot have two roles")
    return dict(given)


def _option(role: str, name: str) -> str:
    return f"--role {shlex.quote(safe_text(f'{role}={name}'))}"


def _is_weak(metric: str | None) -> bool:
    """Return whether there is no reward, or only a rate of right answers in its place."""
    if metric is None:
        return True
    plain = without_prefixes(metric)
    return not is_known_key(metric) and bool(re.fullmatch(RIGHT, plain))


def _words(name: str) -> set[str]:
    return set(_WORD.findall(name.lower()))


def _candidates(names: Iterable[str]) -> list[str]:
    """Return the metrics that may be the reward by their names."""
    named = []
    for name in names:
        words = _words(name)
        if words & _REWARD and not words & _NO_REWARD and not is_known_key(name):
            named.append(name)
    trained = [name for name in named if not _words(name) & _WATCHED]
    return trained or named


def _watched(
    table: pd.DataFrame, names: list[str], roles: Mapping[str, str]
) -> str | None:
    """Return the metric that the reward should follow, None if validation or no such is logged.

    That is the gold reward beside a proxy, or a rate of right answers logged at fewer steps.
    """
    known = roles_of(names, roles)
    reward = known.get("reward")
    if reward is None or "validation" in known:
        return None
    free = [name for name in names if name not in known.values()]
    gold = [
        name
        for name in free
        if _words(name) & _WATCHED and not _words(name) & _NO_REWARD
    ]
    if len(gold) == 1 and (_words(reward) & (_TRAINED | _REWARD)):
        return gold[0]
    count = int(np.isfinite(table[reward]).sum())
    sparse = [
        name
        for name in free
        if re.fullmatch(RIGHT, without_prefixes(name))
        and not _OF_TRAINING.fullmatch(name)
        and 2 * int(np.isfinite(table[name]).sum()) <= count
    ]
    return min(sparse, key=lambda name: (len(name), name), default=None)
