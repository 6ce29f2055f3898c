"""What moved, in words: names of figures, and the line "From about step 35 on: KL × 3, …"."""

from __future__ import annotations

from collections.abc import Sequence

from rlreport.check.breaks import level_in
from rlreport.check.course import SCORES, Quantity
from rlreport.check.course_words import numbers_of
from rlreport.check.curve import Curve
from rlreport.check.events import Event
from rlreport.check.moved import Figure, Moved, MovedFigures, recoveries
from rlreport.check.prepared import Kind
from rlreport.figures.rounding import rounded
from rlreport.text.messages import (
    clauses,
    message,
    phrases,
    span,
    translatable,
    with_unit,
)
from rlreport.text.numbers import short

# Most figures whose numbers the line has, and most stretches that it names
MOST_TOLD = 4
MOST_STRETCHES = 2
# A positive figure that no score is grew "× 5" from this factor on
TIMES = 2.0
# Beyond this factor, both levels say more
MOST_TIMES = 1000.0
# Below this part of the range of a figure, a level is nearly zero, and no factor is told
NEARLY_ZERO = 0.1

_NAMES: dict[Quantity, str] = {
    "reward": translatable("reward"),
    "validation": translatable("validation"),
    "second_reward": translatable("second reward"),
    "kl": translatable("KL"),
    "length": translatable("length"),
    "entropy": translatable("entropy"),
}
# Columns whose label needs its heading to be understood
_NAMES_OF_COLUMNS = {"eos_rate": translatable("finished responses")}


def name_of(figure: Figure) -> str:
    """Return the name of a figure inside a line: of a quantity or a column, or as it is logged."""
    if figure.quantity in _NAMES:
        return message(_NAMES[figure.quantity])
    if figure.column is not None and figure.of == "quantity":
        name = _NAMES_OF_COLUMNS.get(figure.column.name)
        return (
            message(name) if name else message("{one:lower}", one=figure.column.label)
        )
    return figure.name or figure.course.column


def title_of(figure: Figure) -> str:
    """Return the name with a capital letter, or as it is logged, with the unit."""
    name = heading_of(figure)
    unit = unit_of(figure)
    return message("{label} ({unit})", label=name, unit=unit) if unit else name


def heading_of(figure: Figure) -> str:
    """Return the name with a capital letter, or as it is logged."""
    if figure.quantity in _NAMES:
        return message("{one:capital}", one=name_of(figure))
    if figure.column is not None and figure.of == "quantity":
        return figure.column.label
    return name_of(figure)


def unit_of(figure: Figure) -> str:
    """Return the unit of a figure, "" if it has none or it is not known."""
    if figure.course.unit == "%":
        return "%"
    if figure.column is not None:
        return figure.column.unit
    # Every trainer logs lengths in tokens; a KL may be that of a token or of a response.
    return message("tokens") if figure.quantity == "length" else ""


def moved_in_words(moved: MovedFigures) -> str:
    """Return what moved around the onset, or over the run, and what recovered; "" if nothing."""
    stretches = recoveries(moved)[:MOST_STRETCHES]
    # What a stretch says of a figure is not said twice.
    told = set[int]()
    for stretch in stretches:
        told.update(stretch.figures)
    told = {index for index in told if moved.figures[index].move.until is not None}
    near = [
        one
        for index, one in enumerate(moved.figures)
        if index not in told
        and (one.is_near or moved.onset is None)
        and _has_levels(one)
    ][:MOST_TOLD]
    lines = []
    if near:
        changes = phrases(_change(one) for one in near)
        literal = message("Moved most: {changes}", changes=changes)
        if moved.onset is not None:
            literal = message(
                "From about step {step:count} on: {changes}",
                step=moved.onset.step,
                changes=changes,
            )
        lines.append(literal)
    for stretch in stretches:
        figures = [
            _excursion(moved.figures[index].figure, event)
            for index, event in stretch.figures.items()
        ][:MOST_TOLD]
        lines.append(
            message(
                "{steps}: {figures}, recovered",
                steps=span(stretch.steps),
                figures=phrases(figures),
            )
        )
    if not lines:
        return ""
    return message("{one:capital}.", one=clauses(lines))


def _has_levels(moved: Moved) -> bool:
    """Return whether the levels of a break are those of the course, which all outputs print."""
    return moved.move.is_event or moved.figure.quantity is None


def _change(moved: Moved) -> str:
    """Return the change of a figure at its break: "KL × 3", "length 29 → 61 tokens".

    A level that is neither the first nor the last, nor the best, has its steps.
    """
    figure = moved.figure
    move = moved.move
    is_plain = move.of_before is None and move.until is None
    times = _times(figure, move.before, move.after) if is_plain else ""
    if times:
        return message("{name} × {times}", name=name_of(figure), times=times)
    before, after = _numbers(figure, [move.before, move.after])
    places = {
        "name": name_of(figure),
        "before": before,
        "after": with_unit(after, _spoken_unit(figure)),
    }
    if move.until is not None:
        steps = span((move.step, move.until))
        return message("{name} {before} → {after} in {steps}", steps=steps, **places)
    if move.of_before is not None:
        steps = span(move.of_before)
        return message("{name} {before} ({steps}) → {after}", steps=steps, **places)
    return message("{name} {before} → {after}", **places)


def _excursion(figure: Figure, event: Event) -> str:
    """Return the extreme level of a figure in a stretch of steps: "reward 0", "KL 40 nats"."""
    number = _numbers(figure, [level_in(event, figure.curve)])[0]
    return message(
        "{name} {value}",
        name=name_of(figure),
        value=with_unit(number, _spoken_unit(figure)),
    )


def _times(figure: Figure, before: float, after: float) -> str:
    """Return how many times a figure grew, "" if that says nothing.

    That is so of scores and shares, below TIMES, and from a level that is nearly zero.
    """
    is_bounded = figure.is_share or figure.quantity in SCORES or figure.of == "part"
    if is_bounded or before <= _nearly_zero(figure.curve):
        return ""
    if not TIMES <= after / before < MOST_TIMES:
        return ""
    return short(rounded(after / before), 2 if after < 10 * before else 1)


def _nearly_zero(curve: Curve) -> float:
    """Return below which level a curve is as good as zero: in its noise, or far below its range."""
    span = curve.highest.value - curve.lowest.value
    # A size may be fitted as its logarithm: then its noise is no difference of values.
    noise = 0.0 if curve.kind is Kind.SIZE else curve.noise
    return max(noise, NEARLY_ZERO * span)


def _numbers(figure: Figure, values: Sequence[float]) -> list[str]:
    if figure.is_share:
        return [f"{short(100 * value, 2)}%" for value in values]
    return numbers_of(values, figure.course)


def _spoken_unit(figure: Figure) -> str:
    unit = unit_of(figure)
    return "" if unit == "%" else unit


def described(moved: Moved) -> str:
    """Return a sentence with the numbers of a figure, for those who cannot see its chart."""
    curve = moved.figure.curve
    levels = (curve.first, curve.last, curve.lowest, curve.highest)
    numbers = _numbers(moved.figure, [level.value for level in levels])
    first, last, lowest, highest = numbers
    return message(
        "{name}: {first} in {start}, {last} in {end}; lowest {lowest}, highest {highest}.",
        name=heading_of(moved.figure),
        first=first,
        start=span(curve.first.steps),
        last=last,
        end=span(curve.last.steps),
        lowest=lowest,
        highest=highest,
    )
