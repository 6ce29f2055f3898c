"""Advice with the framework's own setting and the value that it has in this run.

A check declares remedies (``Check.advice``): kinds of settings, and what to do with them. The first
is told that the framework has a setting for, that the run's configuration allows, and that no other
finding rules out. Nothing is guessed: without marks of exactly one framework, only settings of the
configuration are named that are called the same everywhere. Without any, the plain words remain.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, product

from rlreport.check.check import Check, advice_key
from rlreport.check.finding import Facts, Setting
from rlreport.check.settings import (
    FRAMEWORKS,
    OFF,
    OTHER,
    OTHER_FORMATS,
    Framework,
    Keys,
    Move,
    Remedy,
    SettingKey,
    SettingKind,
)
from rlreport.metrics.roles import marked_frameworks
from rlreport.tables import Tables
from rlreport.text.messages import message, sentences, translatable
from rlreport.text.secrets import Scalar

# A value that is longer is not told
MOST_CHARACTERS = 60
# References of a configuration to other entries, and texts that redaction replaced
_NOT_A_VALUE = re.compile(r"\$\{.*|\[text\]", re.DOTALL)
_OFF_WORDS = ("", "false", "none", "null", "no", "off", "no_filter")
_ON_WORDS = ("true", "yes", "on")
_ALL_TOKENS = (0, -1)  # values of top-k that leave out no token
# Entries that W&B adds to the configuration that it saves
_OF_WANDB = ("wandb_version", "_wandb")


@dataclass(frozen=True)
class Setup:
    """How a run was trained: its framework, None if unknown, and its configuration.

    ``entries`` has dotted names, as in ``Card.entries``.
    """

    framework: str | None = None
    entries: Mapping[str, Scalar] = field(default_factory=dict)

    @cached_property
    def table(self) -> Framework:
        """The framework with its settings, or with those that others have by a common name."""
        return FRAMEWORKS.get(self.framework or "", OTHER)

    @cached_property
    def values(self) -> Mapping[str, Scalar]:
        """Name of a setting of the framework -> its value, of those in the configuration.

        Settings may be nested in further groups, such as ``config``: the group that has most of
        them counts.
        """
        names = {_plain(name): name for name in _names(self.table)}
        by_group: defaultdict[str, dict[str, Scalar]] = defaultdict(dict)
        for parts, value in _split_entries(self.entries):
            for start in range(len(parts)):
                name = names.get(".".join(parts[start:]))
                if name is not None and _is_value(value):
                    by_group[".".join(parts[:start])][name] = value
        if not by_group:
            return {}
        most = max(map(len, by_group.values()))
        groups = [group for group, found in by_group.items() if len(found) == most]
        groups.sort(key=_depth)
        # Of groups with equally many, only the outermost can be meant.
        if len(groups) > 1 and _depth(groups[0]) == _depth(groups[1]):
            return {}
        return by_group[groups[0]]


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do: text, its first sentence an imperative, and the settings that it names."""

    text: str
    settings: tuple[Setting, ...] = ()


def setup_of(tables: Tables, entries: Mapping[str, Scalar]) -> Setup:
    """Return the setup of a run, from the formats of its logs, its configuration and metrics."""
    formats = {file.format for file in tables.files}
    framework = sole_framework(formats, entries, tables.metrics.columns)
    return Setup(framework, entries)


def sole_framework(
    formats: Iterable[str], entries: Mapping[str, Scalar], metrics: Iterable[str]
) -> str | None:
    """Return the framework that made a run, None without marks of exactly one.

    Args:
        formats: ids of the formats of its logs.
        entries: dotted name -> value of its configuration.
        metrics: names of its trainer metrics.
    """
    marked = _marked_by_formats(set(formats))
    marked |= _marked_by(entries) | _marked_by_metrics(list(metrics))
    if len(marked) != 1:
        return None
    (name,) = marked
    return name if name in FRAMEWORKS else None


def _marked_by_formats(formats: set[str]) -> set[str]:
    """Return the frameworks that write these log formats, also those not in the table."""
    marked = {
        framework.name
        for framework in FRAMEWORKS.values()
        if not formats.isdisjoint(framework.formats)
    }
    return marked | formats.intersection(OTHER_FORMATS)


def _marked_by(entries: Mapping[str, Scalar]) -> set[str]:
    """Return the frameworks all of whose marks a configuration has, in one group."""
    marks = set(chain.from_iterable(one.marks for one in FRAMEWORKS.values()))
    groups: defaultdict[str, set[str]] = defaultdict(set)  # of each mark
    for parts, _ in _split_entries(entries):
        for start in range(len(parts)):
            for stop in range(start + 1, len(parts) + 1):
                mark = ".".join(parts[start:stop])
                if mark in marks:
                    groups[mark].add(".".join(parts[:start]))
    marked = set()
    for name, framework in FRAMEWORKS.items():
        groups_of_marks = [groups[mark] for mark in framework.marks]
        if set.intersection(*groups_of_marks):
            marked.add(name)
    return marked


def _marked_by_metrics(metrics: Sequence[str]) -> set[str]:
    """Return the frameworks that log metrics with such names, also those not in the table."""
    marked = marked_frameworks(metrics) - set(FRAMEWORKS)
    for framework in FRAMEWORKS.values():
        for name, mark in product(metrics, framework.metrics):
            if name.startswith(mark) or f"/{mark}" in name:
                marked.add(framework.name)
    return marked


def _split_entries(
    entries: Mapping[str, Scalar],
) -> Iterator[tuple[list[str], Scalar]]:
    """Yield the parts of each entry's name, and its value."""
    from_wandb = any(name.startswith(_OF_WANDB) for name in entries)
    for name, value in entries.items():
        parts = _plain(name).split(".")
        # W&B saves {lr: {desc: null, value: 1.0}}.
        if from_wandb and len(parts) > 1 and parts[1] == "value":
            del parts[1]
        yield parts, value


def _depth(group: str) -> int:
    """Return the number of groups in a dotted name, 0 for ""."""
    return group.count(".") + 1 if group else 0


def _plain(name: str) -> str:
    """Return a setting's name as configurations have it: ``--kl-coef`` is ``kl_coef``."""
    return name.removeprefix("--").replace("-", "_")


def _names(framework: Framework) -> Iterator[str]:
    for keys in framework.keys.values():
        for key in keys:
            yield key.name
            yield from key.switches


def advice_for(
    check: Check,
    facts: Facts,
    setup: Setup,
    excluded: frozenset[Remedy] = frozenset(),
) -> Advice:
    """Return the advice on a finding of ``check`` with these facts.

    Args:
        check: the check that found it.
        facts: of the finding.
        setup: how the run was trained.
        excluded: what the other findings rule out.
    """
    of_kind = check.suggestions.get(advice_key(facts), "")
    plain = message(of_kind or check.suggestion)
    words_before = of_kind or check.before_setting
    is_refused = False
    for remedy in check.remedies(facts):
        keys = setup.table.keys.get(remedy.kind)
        if keys is None:
            continue
        key = _chosen(keys, setup.values)
        if key is None or (remedy.if_logged and key.name not in setup.values):
            continue
        advice = None
        if Remedy(remedy.move, remedy.kind) not in excluded:
            advice = _setting_advice(remedy, key, setup.values)
        if advice is None:
            is_refused = is_refused or remedy.move not in (Move.SEE, Move.ABOVE_ZERO)
            continue
        if remedy.after:
            before = message(words_before or check.suggestion)
            return Advice(sentences([before, advice.text]), advice.settings)
        return advice
    if is_refused:
        return Advice(message(check.otherwise or words_before or plain))
    return Advice(plain)


def _setting_advice(
    remedy: Remedy, key: SettingKey, values: Mapping[str, Scalar]
) -> Advice | None:
    """Return a sentence on a setting, None if its value does not allow the move."""
    now = _Now(key, remedy.kind, values)
    moves = {
        Move.LOWER: now.lower,
        Move.RAISE: now.higher,
        Move.ABOVE_ZERO: now.above_zero,
        Move.ENABLE: now.enable,
        Move.NEUTRAL: now.neutral,
        Move.SEE: now.see,
    }
    return moves[remedy.move]()


def _chosen(keys: Keys, values: Mapping[str, Scalar]) -> SettingKey | None:
    """Return the one of several settings of a kind that counts in this run."""
    possible = [key for key in keys if not key.if_logged or key.name in values]
    counting = [key for key in possible if _state(key, values) is True]
    unknown = [
        key for key in possible if _state(key, values) is None and key.name in values
    ]
    plain = [key for key in possible if not key.switches]
    logged = [key for key in plain if values.get(key.name) is not None]
    ordered = (*counting, *unknown, *logged, *plain, *possible)
    return ordered[0] if ordered else None


def _state(key: SettingKey, values: Mapping[str, Scalar]) -> bool | None:
    """Return whether a switch of a setting is on, None if that is unknown or it has none."""
    states = [
        _is_on(values[switch]) if switch in values else None for switch in key.switches
    ]
    if any(states):
        return True
    return False if states and None not in states else None


@dataclass(frozen=True)
class _Now:
    """A setting in a run: each method returns advice for one move, None if it makes no sense."""

    key: SettingKey
    kind: SettingKind
    values: Mapping[str, Scalar]

    @cached_property
    def is_logged(self) -> bool:
        return self.key.name in self.values

    @cached_property
    def value(self) -> Scalar:
        """Its value, that without configuration if it is not logged."""
        return self.values.get(self.key.name, self.key.default)

    @cached_property
    def number(self) -> float | None:
        return _number(self.value)

    @property
    def is_zero(self) -> bool:
        """Whether it is logged as 0, or as null where this means the same."""
        if not self.is_logged:
            return False
        if self.value is None:
            return not self.key.no_limit
        return self.number is not None and self.number <= 0

    def lower(self) -> Advice | None:
        if self.kind is SettingKind.GRADIENT_CLIP and self.is_zero:
            return self._above_zero()
        # Whether what counts only with a switch is in use has to be known.
        if self.key.switches and not _state(self.key, self.values):
            return None
        if self.number is None and (self.is_logged or self.key.default is not None):
            return None
        if self.number is not None and self.number <= self.key.least:
            return None
        return self._told(translatable("Lower `{key}`"))

    def higher(self) -> Advice | None:
        if self.key.switches and _state(self.key, self.values) is False:
            return self._with_switch() if self.kind in OFF else None
        if self.is_zero and self.kind in OFF:
            return self._above_zero()
        # null is no limit, and what is no number cannot be raised.
        if self.number is None and (self.is_logged or self.key.no_limit):
            return None
        # Above 1, the sampler prefers what the policy holds to be improbable.
        is_warm = self.number is not None and self.number >= 1
        if self.kind is SettingKind.TEMPERATURE and is_warm:
            return None
        return self._told(translatable("Raise `{key}`"))

    def above_zero(self) -> Advice | None:
        return self._above_zero() if self.is_zero and self.kind in OFF else None

    def enable(self) -> Advice | None:
        if _is_on(self.value):
            return None
        if self.key.on is None:
            return self._told(translatable("Set `{key}`"))
        if self.key.on:
            return self._told(translatable("Set `{key}` to {to}"), to=self.key.on)
        return self._told(translatable("Switch on `{key}`"))

    def neutral(self) -> Advice | None:
        if not self.is_logged or self.number is None or self.number == self.key.off:
            return None
        if self.kind is SettingKind.TOP_K and self.number in _ALL_TOKENS:
            return None
        to = _shown(self.key.off) or ""
        return self._told(translatable("Set `{key}` to {to}"), to=to)

    def see(self) -> Advice | None:
        has_no_effect = self.key.off is not None and self.value == self.key.off
        if has_no_effect or (self.is_logged and self.value is None):
            return None
        return self._told(translatable("See `{key}`"))

    def _told(self, literal: str, **places: str) -> Advice:
        """Return the sentence with the value, if it is known and short."""
        text = message(literal, key=self.key.name, **places)
        shown = _shown(self.value) if self.is_logged else None
        if shown is not None:
            text = message("{text} ({value} here)", text=text, value=shown)
        value = self.value if shown is not None else None
        return self._ended(text, Setting(self.key.name, value))

    def _ended(self, text: str, setting: Setting) -> Advice:
        """Return the sentence, and what else it needs unless that is known to be on."""
        if self.key.switches and _state(self.key, self.values) is None:
            switch = self.key.switches[0]
            text = message(
                "{text}; it counts only with `{switch}`", text=text, switch=switch
            )
        return Advice(message("{text}.", text=text), (setting,))

    def _above_zero(self) -> Advice:
        text = message(
            "Set `{key}` above 0 ({value} here: {missing})",
            key=self.key.name,
            value=_shown(self.value) or "0",
            missing=message(OFF[self.kind]),
        )
        return self._ended(text, Setting(self.key.name, self.value))

    def _with_switch(self) -> Advice:
        switch = self.key.switches[0]
        text = message(
            "Switch on `{switch}` ({value} here: {missing}), with `{key}` above 0.",
            switch=switch,
            value=_shown(self.values[switch]) or "false",
            missing=message(OFF[self.kind]),
            key=self.key.name,
        )
        coefficient = self.values.get(self.key.name)
        settings = (
            Setting(switch, self.values[switch]),
            Setting(self.key.name, coefficient),
        )
        return Advice(text, settings)


def _is_value(value: Scalar) -> bool:
    return not (isinstance(value, str) and _NOT_A_VALUE.fullmatch(value.strip()))


def _is_on(value: Scalar) -> bool:
    """Return whether a value switches something on."""
    if isinstance(value, str):
        text = value.strip().lower()
        if text in (*_OFF_WORDS, *_ON_WORDS):
            return text in _ON_WORDS
        number = _number(text)
        return number is None or number != 0
    return bool(value)


def _number(value: Scalar) -> float | None:
    """Return a value as a number, also if a configuration has it as a text; None if it is none."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _shown(value: Scalar) -> str | None:
    """Return a value as text: 8, 1e-6, true, null; None if it is too long."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        # 1e-06 is 1e-6
        return re.sub(r"e([-+])0*(\d)", r"e\1\2", f"{value:.10g}").replace("e+", "e")
    text = " ".join(str(value).split())
    return text if 0 < len(text) <= MOST_CHARACTERS else None
