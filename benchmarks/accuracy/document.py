"""The page docs/accuracy.md: tables of what was found, raised wrongly, and dated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from benchmarks.accuracy.counts import Counts, found_at
from benchmarks.accuracy.families import FAMILIES, HEALTHY
from benchmarks.accuracy.family import Family
from benchmarks.accuracy.measure import POWER, Seen
from rlreport.check.registry import CHECKS

TEMPLATE = Path(__file__).with_name("page.md")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "accuracy.md"
PICTURE = PAGE.with_name("pictures") / "accuracy-power.svg"


def page(seen: Sequence[Seen]) -> str:
    """Return the text of the page."""
    tables = {
        "summary": _summary(seen),
        "checks": table_of_families(seen),
        "power": _table_of_power(seen),
        "alarms": _table_of_alarms(seen),
    }
    filled = {name: "\n".join(lines) for name, lines in tables.items()}
    return TEMPLATE.read_text(encoding="utf-8").format(**filled)


def _summary(seen: Sequence[Seen]) -> Iterator[str]:
    clear = [one for one in seen if _is_clear(one)]
    found = Counts.of([one.found for one in clear])
    dated = [one.away for one in clear if one.away is not None]
    right = Counts.of([away == 0 for away in dated])
    healthy = [one for one in seen if _is_healthy(one)]
    alarms = Counts.of([one.alarms for one in healthy])
    low, high = alarms.bounds
    yield "| | |"
    yield "|---|---|"
    yield f"| clear faults found | {found} ({found.percent}, {found.interval}) |"
    yield f"| onset within the interval in which the fault begins | {right} ({right.percent}) |"
    yield (
        f"| healthy runs with a warning | {alarms}: "
        f"{1000 * alarms.share:.1f} in 1,000 "
        f"({1000 * low:.1f}–{1000 * high:.1f}) |"
    )
    yield f"| checks with a family of runs | {len({f.check for f in FAMILIES})} |"


_FAMILIES = {family.key: family for family in FAMILIES}


def _is_clear(one: Seen) -> bool:
    family = _FAMILIES.get(one.key)
    return family is not None and one.strength == family.strengths[-1]


def _is_healthy(one: Seen) -> bool:
    family = _FAMILIES.get(one.key)
    return one.strength == 0 and (family is None or family.healthy_twins)


def table_of_families(seen: Sequence[Seen]) -> Iterator[str]:
    """Yield the lines of the table of families, in the order of the checks."""
    heads = (
        "check",
        "fault",
        "strength",
        "found",
        "95%",
        "onset right",
        "steps away",
        "twins with this finding",
    )
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    places = {check.id: place for place, check in enumerate(CHECKS)}
    families = sorted(FAMILIES, key=lambda one: places.get(one.check, -1))
    for family in families:
        row = _row(family, [one for one in seen if one.key == family.key])
        if row:
            yield row


def _row(family: Family, seen: Sequence[Seen]) -> str:
    """Return the line of a family at its clear strength; empty if it was not measured."""
    strength = family.strengths[-1]
    clear = [one for one in seen if one.strength == strength]
    twins = [one for one in seen if one.strength == 0]
    if not clear:
        return ""
    found = Counts.of([one.found for one in clear])
    away = [one.away for one in clear if one.away is not None]
    right = Counts.of([steps == 0 for steps in away])
    wrong = [step for step in away if step]
    distance = f"{median(wrong):g}" if wrong else "–"
    false = Counts.of([one.found for one in twins])
    cells = (
        f"`{family.check}`",
        family.name,
        f"{strength:g} {family.unit}",
        str(found),
        found.interval,
        str(right),
        distance,
        str(false),
    )
    return f"| {' | '.join(cells)} |"


def _table_of_power(seen: Sequence[Seen]) -> Iterator[str]:
    yield "| fault | found by effect |"
    yield "|---|---|"
    for family in FAMILIES:
        if family.check not in POWER:
            continue
        cells = []
        for strength in family.strengths:
            found = found_at(seen, family.key, strength)
            if found.runs:
                cells.append(f"{strength:g}: {found.percent}")
        yield f"| `{family.check}`, {family.name} ({family.unit}) | {', '.join(cells)} |"


def _table_of_alarms(seen: Sequence[Seen]) -> Iterator[str]:
    healthy = [one for one in seen if _is_healthy(one)]
    by_check = Counter(name for one in healthy for name in one.alarms)
    yield f"Of {len(healthy):,} healthy runs, in how many each check warned; all others never did."
    yield ""
    yield "| check | runs with its warning | in 1,000 |"
    yield "|---|---|---|"
    for name, count in by_check.most_common():
        yield f"| `{name}` | {count} | {1000 * count / len(healthy):.2f} |"
    yield ""
    yield "| healthy runs | with any warning | 95% |"
    yield "|---|---|---|"
    for family in HEALTHY:
        runs = [one for one in healthy if one.key == family.key]
        alarms = Counts.of([one.alarms for one in runs])
        if runs:
            yield f"| {family.name} | {alarms} | {alarms.interval} |"
    twins = [one for one in healthy if one.key in _FAMILIES]
    if twins:
        alarms = Counts.of([one.alarms for one in twins])
        yield f"| twins of the faulty families | {alarms} | {alarms.interval} |"
