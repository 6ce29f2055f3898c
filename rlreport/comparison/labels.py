"""What the sides of a comparison are called: a setting that differs, or their runs' names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from rlreport.about.card import redacted_text
from rlreport.comparison.run import ComparedRun, Difference, settings_that_differ
from rlreport.comparison.saved import SEEDS, name_without_seed
from rlreport.text.clean import one_line, shared_beginning, shortened
from rlreport.text.messages import message

LONGEST = 40  # Maximum characters of a name in a label
LONGEST_VALUE = 24  # and of a setting's value
_KEPT = 12  # Characters that stay before the first difference of two long names
_MOST_READ = 2_000  # Characters of a name that are looked at
_WORD_END = re.compile(r"[-_.:=\s/\\]")
_RIGHT_TO_LEFT = {"R", "AL", "AN"}
_LEFT_TO_RIGHT_MARK = "\u200e"


@dataclass(frozen=True, slots=True)
class Labels:
    """Names of the sides, as one line each; they differ.

    If a single setting differs, ``base`` is such as "group_size 8" and ``setting`` is "group_size".
    Otherwise the runs' names are used and ``setting`` is None.
    """

    base: str
    new: str
    setting: str | None = None
    base_value: str = ""  # such as "8"; "" if the setting is not set in BASE

    @property
    def against(self) -> str:
        """BASE's name after that of NEW: "8" in "group_size 4 is worse than 8"."""
        return self.base_value or self.base


def labels_of(
    bases: Sequence[ComparedRun], news: Sequence[ComparedRun], *, redact: bool = False
) -> Labels:
    """Return the names of both sides; ``redact`` hides values that may be private."""
    changed = changed_settings(bases, news)
    if len(changed) == 1:
        base_value, new_value = values_of(changed[0], redact=redact)
        if base_value != new_value:  # two private values look alike
            setting = _short_key(changed[0].key, [*bases, *news])
            return Labels(
                base=_with_value(setting, base_value),
                new=_with_value(setting, new_value),
                setting=setting,
                base_value="" if changed[0].base is None else base_value,
            )
    base, new = _told_apart(_side_name(bases), _side_name(news), LONGEST)
    return Labels(base, new)


def changed_settings(
    bases: Sequence[ComparedRun], news: Sequence[ComparedRun]
) -> list[Difference]:
    """Return the settings that are equal within each side, and differ between the sides.

    Seeds are no change, unless nothing else differs.
    """
    relevant, _ = settings_that_differ(bases[0], news[0])
    changed = [
        setting
        for setting in relevant
        if _all_have(bases, setting.key, setting.base)
        and _all_have(news, setting.key, setting.new)
    ]
    return [one for one in changed if "seed" not in one.key.lower()] or changed


def _all_have(runs: Sequence[ComparedRun], key: str, value: str | None) -> bool:
    return all(run.facts.get(key) == value for run in runs)


def values_of(setting: Difference, *, redact: bool) -> tuple[str, str]:
    """Return a setting's values in BASE and in NEW as short texts that differ if the values do."""
    base = setting.base
    new = setting.new
    if redact:
        base = None if base is None else redacted_text(setting.key, base)
        new = None if new is None else redacted_text(setting.key, new)
    if base is not None and new is not None:
        if base == new:
            return shortened(base, LONGEST_VALUE), shortened(new, LONGEST_VALUE)
        return _told_apart(base, new, LONGEST_VALUE)
    return _value(base), _value(new)


def _value(text: str | None) -> str:
    if text is None:
        return message("not set")
    return one_line(text, LONGEST_VALUE) or "“”"


def _with_value(setting: str, value: str) -> str:
    return message("{setting} {value}", setting=setting, value=value)


def _short_key(key: str, runs: Sequence[ComparedRun]) -> str:
    """Return the last parts of a dotted name: as few as no other setting of the runs ends with."""
    parts = key.removeprefix("config.").split(".")
    keys = set().union(*(run.facts for run in runs))
    others = keys - {key}
    for count in range(1, len(parts)):
        ending = ".".join(parts[-count:])
        if not any(f".{other}".endswith(f".{ending}") for other in others):
            return one_line(ending, LONGEST)
    return one_line(".".join(parts), LONGEST)


def _side_name(runs: Sequence[ComparedRun]) -> str:
    """Return the name of a side's run, or of several: what they share without their seeds."""
    names = [_last_part(run.name) for run in runs]
    if len(runs) == 1:
        return names[0]
    shared = {name_without_seed(name) for name in names}
    if len(shared) == 1 and not shared & {"", SEEDS}:
        return shared.pop()
    name = one_line(names[0], LONGEST)
    if len(set(names)) == 1:
        return message("{name} ({count:count} runs)", name=name, count=len(runs))
    return message("{name} (and {count:count} more)", name=name, count=len(runs) - 1)


def _last_part(name: str) -> str:
    """Return a run's name; of a path, its last part."""
    name = name[-_MOST_READ:]
    return re.split(r"[/\\]", name.rstrip("/\\ "))[-1] or name


def _told_apart(base: str, new: str, longest: int) -> tuple[str, str]:
    """Return both texts as one line each, shortened so that they still differ."""
    base = _as_line(base)
    new = _as_line(new)
    if _visible(base) == _visible(new):
        return (
            f"{_in_direction(shortened(base, longest))} (BASE)".lstrip(),
            f"{_in_direction(shortened(new, longest))} (NEW)".lstrip(),
        )
    # What both begin with is left out where a text is too long, up to the end of a word.
    first_difference = shared_beginning(base, new)
    start = max(0, first_difference - _KEPT)
    word_end = _WORD_END.search(base, start, first_difference)
    if word_end and start:
        start = word_end.end()
    return (
        _in_direction(_cut(base, start, longest)),
        _in_direction(_cut(new, start, longest)),
    )


def _as_line(text: str) -> str:
    # A message stays one, so that it can be translated.
    line = one_line(text[:_MOST_READ], _MOST_READ)
    return text if line == text else line


def _cut(text: str, start: int, longest: int) -> str:
    """Shorten a text that is too long, first by what is before ``start``."""
    if len(text) <= longest:
        return text or "“”"
    if start:
        text = f"…{text[start:]}"
    return shortened(text, longest)


def _visible(text: str) -> str:
    """Return a text without characters of no width."""
    return "".join(one for one in text if unicodedata.category(one) != "Cf")


def _in_direction(text: str) -> str:
    """Return a text between marks that keep the order of the words around it, if it needs them."""
    if any(unicodedata.bidirectional(one) in _RIGHT_TO_LEFT for one in text):
        return f"{_LEFT_TO_RIGHT_MARK}{text}{_LEFT_TO_RIGHT_MARK}"
    return text
