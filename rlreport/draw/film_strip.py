"""Draw the film strip: answers at several steps as rows of a monospace grid, with their rewards.

Tokens have the colour of their log-ratio, and words that the row above does not have are
underlined. ``static/js/prompts/film-strip.js`` draws the same in the browser, for any width; a
test holds both together. So all words are in the data, translated, and lengths are counted in
cells, as no font is measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import NamedTuple, TypedDict

from rlreport.draw.film_text import (
    BINS,
    MIDDLE,
    Atom,
    FilmRowData,
    Row,
    ShownLine,
    fitting,
    marked_rows,
    paragraph,
    shown_lines,
)
from rlreport.draw.theme import SMALL, tokens
from rlreport.text.numbers import written

WIDTH = 1000  # of the static drawing, in pixels; the widest that is drawn

_CELL = 7.2  # width of a cell, in pixels
_LINE = 18  # height of a line
_FONT = 12  # font size of the grid
_BASELINE = 13  # of a line, below its top
_GUTTER = 140  # width of what stands left of the grid
_GUTTER_LINES = 3  # of each thing that is said there
_LEAST_WIDE = 620  # minimum width of a drawing with such a gutter; else it stands above
_MOST_COLUMNS = 120
_LEAST_COLUMNS = 24
_LINES = 4  # Maximum number of lines of an answer
_NARROW_LINES = 6
_PAD = 7  # above and below a row
_CURVE = 56  # height of the plot of rewards
_RULE = 15  # height of the label of a rule
_AXIS = 20
_NARROW_LEFT = 44  # left of the plot, without a gutter
_TICK = 4  # below the axis, at the step of a row
_LABEL_ROOM = 8  # between labels of the axis, in pixels
_LEGEND_LEFT = 126  # of the first colour, at least
_MARGIN = 16  # of a picture
_SWATCH = 14  # width of a colour of the legend
_NARROW_SWATCH = 8
_LETTER = 6.1  # mean width of a letter of a caption
_GUTTER_LETTERS = (_GUTTER - 10) / _LETTER  # 10: the space between gutter and grid
_BOLD_LETTER = 7.2
_TITLE_LETTER = 7.6
_INKS = {1: "ink-end", 11: "ink-end", 2: "ink-strong", 10: "ink-strong"}
_MONO = (
    "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', "
    "'Noto Sans Mono CJK SC', monospace"
)
_SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK SC', sans-serif"
_LIGHT = {
    **tokens("light"),
    "ink-end": "#fff",
    "ink-strong": "#000",
    "ink-soft": "#000",
    "mono": _MONO,
    "sans": _SANS,
}
# What a picture, which has no style sheet, has instead of custom properties
_PICTURE = {f"var(--{name})": value for name, value in _LIGHT.items()}


class FilmCurveData(TypedDict):
    """The rewards above a film strip."""

    low: float
    high: float
    means: list[tuple[int, float]]
    dots: list[tuple[int, float]]  # the answers; without them, rows have no circle
    reach: float  # the line is dashed between means that are further apart
    words: str


class FilmRuleData(TypedDict):
    """A vertical rule through the rewards above a film strip."""

    step: int
    words: str
    colour: str
    dashed: bool


class FilmStripData(TypedDict):
    """A film strip, drawn by ``rlreport/draw/film_strip.py`` and ``prompts/film-strip.js``."""

    title: str
    caption: str
    ends: tuple[str, str] | None
    curve: FilmCurveData | None
    rules: list[FilmRuleData]
    rows: list[FilmRowData]


class Mark(NamedTuple):
    """An SVG element."""

    name: str
    attributes: dict[str, str]
    children: tuple[Mark | str, ...] = ()

    def markup(self, values: Mapping[str, str] = MappingProxyType({})) -> str:
        """Return the element as text; ``values`` replace values of attributes."""
        attributes = "".join(
            f' {name}="{escape(values.get(value, value))}"'
            for name, value in self.attributes.items()
        )
        inner = "".join(
            child.markup(values)
            if isinstance(child, Mark)
            else escape(child, quote=False)
            for child in self.children
        )
        return f"<{self.name}{attributes}>{inner}</{self.name}>"


def _px(value: float) -> str:
    """Return pixels with at most one decimal."""
    tenths = math.floor(10 * value + 0.5)
    sign = "-" if tenths < 0 else ""
    whole, decimal = divmod(abs(tenths), 10)
    return f"{sign}{whole}.{decimal}" if decimal else f"{sign}{whole}"


def _text(x: float, y: float, words: str, **attributes: str) -> Mark:
    named = {name.replace("_", "-"): value for name, value in attributes.items()}
    place = {"x": _px(x), "y": _px(y)}
    return Mark("text", place | named, (words,))


class _Frame(NamedTuple):
    """Where things are in a drawing."""

    width: float
    left: float  # of the grid, and of the plot of a wide drawing
    columns: int
    is_wide: bool

    @property
    def plot_left(self) -> float:
        return self.left if self.is_wide else _NARROW_LEFT

    @property
    def plot_right(self) -> float:
        return min(self.width - 8, self.left + self.columns * _CELL)


def _frame(width: float) -> _Frame:
    is_wide = width >= _LEAST_WIDE
    left = _GUTTER if is_wide else 0
    columns = math.floor((width - left) / _CELL)
    columns = min(max(columns, _LEAST_COLUMNS), _MOST_COLUMNS)
    return _Frame(width, left, columns, is_wide)


def film_strip(data: FilmStripData, width: float, *, is_picture: bool = False) -> Mark:
    """Draw a strip ``width`` pixels wide.

    A picture has its title and its caption inside, a margin, and no links.
    """
    frame = _frame(width)
    marks: list[Mark] = []
    y = 0.0
    if is_picture:
        for line in paragraph(data["title"], width / _TITLE_LETTER, 2):
            y += 20
            bold = {"font_size": "15", "font_weight": "bold", "fill": "var(--text)"}
            marks.append(_text(0, y - 4, line, **bold))
        y += 8
    if data["curve"]:
        curve, height = _curve(data, data["curve"], frame)
        marks.append(_moved(y, curve))
        y += height
    for row in marked_rows(data["rows"]):
        drawn, height = _row(row, frame, is_picture=is_picture)
        marks.append(_moved(y, drawn))
        y += height
    marks.append(_path(f"M0,{_px(y)}h{_px(width)}", stroke="var(--line)"))
    if data["ends"]:
        marks.append(_moved(y, _legend(data["ends"], frame)))
        y += 30
    if is_picture:
        for line in paragraph(data["caption"], width / _LETTER, 6):
            y += 16
            small = {"font_size": str(SMALL), "fill": "var(--muted)"}
            marks.append(_text(0, y, line, **small))
    margin = _MARGIN if is_picture else 0
    whole_width = _px(width + 2 * margin)
    whole_height = _px(y + 2 * margin)
    fonts = {"font-size": str(_FONT), "font-family": "var(--sans)"}
    parts = [Mark("g", fonts, tuple(marks))]
    if is_picture:
        fonts["transform"] = f"translate({margin},{margin})"
        box = f"M0,0h{whole_width}v{whole_height}h-{whole_width}z"
        parts.insert(0, _path(box, fill="var(--page)"))
    attributes = {
        "xmlns": "http://www.w3.org/2000/svg",
        "viewBox": f"0 0 {whole_width} {whole_height}",
        "width": whole_width,
        "height": whole_height,
        "fill": "none",
        "role": "img" if is_picture else "group",
        "aria-label": fitting(data["title"], 200),
    }
    return Mark("svg", attributes, tuple(parts))


def picture(data: FilmStripData, width: float) -> str:
    """Return a strip as an SVG in light colours that needs no style sheet."""
    return film_strip(data, width, is_picture=True).markup(_PICTURE)


def _moved(y: float, marks: Sequence[Mark]) -> Mark:
    return Mark("g", {"transform": f"translate(0,{_px(y)})"}, tuple(marks))


def _path(d: str, **attributes: str) -> Mark:
    named = {name.replace("_", "-"): value for name, value in attributes.items()}
    return Mark("path", {"d": d, **named})


def _row(row: Row, frame: _Frame, *, is_picture: bool) -> tuple[list[Mark], float]:
    """Return the marks of a row, and its height."""
    data = row.data
    lines = shown_lines(
        row.pieces, frame.columns, _LINES if frame.is_wide else _NARROW_LINES
    )
    head, y = _gutter(data, frame)
    least = y
    if frame.is_wide:
        y = _PAD
    marks: list[Mark] = []
    if data["above"]:
        above = fitting(data["above"], (frame.width - frame.left) / _BOLD_LETTER)
        marks.append(_text(frame.left, y + _BASELINE, above, fill="var(--muted)"))
        y += _LINE
    marks += _grid(lines, y, frame)
    height = max(least, y + _LINE * len(lines) + _PAD)
    hairline = _path(f"M0,0h{_px(frame.width)}", stroke="var(--line)")
    if is_picture or not data["href"]:
        return [hairline, *head, *marks], height
    # All of the row is a link; its name is read out instead of the parts of its text.
    area = _path(
        f"M0,0h{_px(frame.width)}v{_px(height)}h-{_px(frame.width)}z",
        fill="transparent",
    )
    attributes = {"href": data["href"], "aria-label": fitting(data["name"], 300)}
    return [hairline, Mark("a", attributes, (area, *head, *marks))], height


def _gutter(data: FilmRowData, frame: _Frame) -> tuple[list[Mark], float]:
    """Return the label of a row, which says whose answer it is, and the height that it needs.

    It stands left of the grid, or in one line above it if the drawing is narrow.
    """
    baseline = _PAD + _BASELINE
    bold = {"font_weight": "bold", "fill": "var(--text)"}
    if not frame.is_wide:
        words = " · ".join([data["head"], *data["about"]])
        label = fitting(words, frame.width / _BOLD_LETTER)
        return [_text(0, baseline, label, **bold)], _PAD + _LINE
    marks = [_text(0, baseline, data["head"], **bold)]
    for words in data["about"]:
        for line in paragraph(words, _GUTTER_LETTERS, _GUTTER_LINES):
            baseline += _LINE
            marks.append(_text(0, baseline, line, fill="var(--muted)"))
    bottom = baseline - _BASELINE + _LINE
    return marks, bottom + _PAD


def _grid(lines: Sequence[ShownLine], top: float, frame: _Frame) -> list[Mark]:
    """Return the coloured cells, the letters and the lines below new words."""
    colours: dict[int, list[str]] = {}
    letters: list[Mark] = []
    new: list[str] = []
    boxes: list[str] = []
    for number, line in enumerate(lines):
        y = top + _LINE * number
        atoms = line.atoms
        places = [0, *accumulate(atom.width for atom in atoms)]
        for first, stop in _alike([atom.bin for atom in atoms]):
            one = atoms[first].bin
            if one not in (0, MIDDLE):
                box = _box(frame, places[first], places[stop], y + 1, _LINE - 2)
                colours.setdefault(one, []).append(box)
        for first, stop in _alike([atom.is_new for atom in atoms]):
            end = _end(atoms, stop)
            if atoms[first].is_new and end > first:
                x = _px(frame.left + _CELL * places[first])
                length = _px(_CELL * (places[end] - places[first]))
                new.append(f"M{x},{_px(y + _BASELINE + 2.5)}h{length}")
        for first, stop in _alike([atom.is_cited for atom in atoms]):
            if atoms[first].is_cited:
                box = _box(frame, places[first], places[stop], y + 0.5, _LINE - 1)
                boxes.append(box)
        letters += _letters(atoms, places, y, frame)
        if line.goes_on:
            x_after = frame.left + _CELL * (places[-1] + 0.5)
            letters.append(_text(x_after, y + _BASELINE, "…", fill="var(--muted)"))
    marks = [
        _path("".join(colours[one]), fill=f"var(--div-{one})")
        for one in sorted(colours)
    ]
    ink = {"font-family": "var(--mono)", "fill": "var(--ink-soft)"}
    marks.append(Mark("g", ink, tuple(letters)))
    if new:
        marks.append(_path("".join(new), stroke="var(--text)"))
    if boxes:
        marks.append(_path("".join(boxes), stroke="var(--text)", stroke_width="1.5"))
    return marks


def _box(frame: _Frame, first: int, stop: int, y: float, height: float) -> str:
    x = _px(frame.left + _CELL * first)
    width = _px(_CELL * (stop - first))
    return f"M{x},{_px(y)}h{width}v{_px(height)}h-{width}z"


def _alike(keys: Sequence[object]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last + 1 of neighbours that are equal."""
    first = 0
    for index in range(1, len(keys) + 1):
        if index == len(keys) or keys[index] != keys[first]:
            yield first, index
            first = index


def _letters(
    atoms: Sequence[Atom], places: Sequence[int], y: float, frame: _Frame
) -> Iterator[Mark]:
    """Yield texts of one ink whose letters have one width; each is as long as its cells.

    So letters stand on their cells in any font. A space does not end a text.
    """
    for first, stop in _runs(atoms):
        text = "".join(atom.text for atom in atoms[first:stop])
        x = frame.left + _CELL * places[first]
        attributes = {"textLength": _px(_CELL * (places[stop] - places[first]))}
        if _kind(atoms[first]) == "other":  # such letters may be joined
            attributes["lengthAdjust"] = "spacingAndGlyphs"
        ink = _INKS.get(atoms[first].bin)
        if ink:
            attributes["fill"] = f"var(--{ink})"
        yield _text(x, y + _BASELINE, text, **attributes)


def _runs(atoms: Sequence[Atom]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last + 1 atom of letters that look alike; spaces end no run."""
    first = -1
    last = -1  # the last letter
    for index, atom in enumerate(atoms):
        if atom.text == " ":
            continue
        if first >= 0 and _look(atoms[last]) != _look(atom):
            yield first, last + 1
            first = -1
        if first < 0:
            first = index
        last = index
    if first >= 0:
        yield first, last + 1


def _end(atoms: Sequence[Atom], stop: int) -> int:
    """Return where atoms that end at ``stop`` end without spaces."""
    while stop and atoms[stop - 1].text == " ":
        stop -= 1
    return stop


def _look(atom: Atom) -> tuple[str, str]:
    return _kind(atom), _INKS.get(atom.bin, "")


def _kind(atom: Atom) -> str:
    if atom.width == 2:
        return "wide"
    return "ascii" if atom.text.isascii() else "other"


def _legend(ends: tuple[str, str], frame: _Frame) -> list[Mark]:
    """Return the colours with the words at both ends."""
    low, high = ends
    start = max(frame.left, _LEGEND_LEFT)
    swatch = _SWATCH if frame.is_wide else _NARROW_SWATCH
    small = {"font_size": str(SMALL), "fill": "var(--muted)"}
    marks = [_text(start - 6, 22, low, text_anchor="end", **small)]
    for one in range(1, BINS + 1):
        box = f"M{_px(start + swatch * (one - 1))},12h{swatch}v12h-{swatch}z"
        marks.append(_path(box, fill=f"var(--div-{one})"))
    x = start + swatch * BINS + 6
    words = fitting(high, (frame.width - x) / _LETTER)
    marks.append(_text(x, 22, words, **small))
    return marks


class _Plot(NamedTuple):
    """The plot of rewards: limits of both axes, and where they are in pixels."""

    left: float
    right: float
    top: float
    steps: tuple[float, float]
    values: tuple[float, float]

    def x(self, step: float) -> float:
        low, high = self.steps
        part = (step - low) / (high - low) if high > low else 0.5
        return self.left + 6 + part * (self.right - self.left - 12)

    def y(self, value: float) -> float:
        low, high = self.values
        room = 0.06 * (high - low) or 1.0
        part = (value - low + room) / (high - low + 2 * room)
        return self.top + _CURVE * (1 - part)


def _curve(
    data: FilmStripData, curve: FilmCurveData, frame: _Frame
) -> tuple[list[Mark], float]:
    """Return the rewards over the steps with their rules, and the height of all this."""
    rules = data["rules"]
    ringed = [
        (row["step"], row["reward"])
        for row in data["rows"]
        if row["reward"] is not None and curve["dots"]
    ]
    points = [*curve["means"], *curve["dots"], *ringed]
    values = [value for _, value in points]
    plot = _Plot(
        left=frame.plot_left,
        right=frame.plot_right,
        top=_RULE * len(rules) + 4,
        steps=(curve["low"], curve["high"]),
        values=(min(values), max(values)),
    )
    small = {"font_size": str(SMALL), "fill": "var(--muted)"}
    marks = []
    for value in sorted(set(plot.values)):
        number_y = plot.y(value) + 4
        marks.append(
            _text(plot.left - 6, number_y, written(value), text_anchor="end", **small)
        )
    grid_y = _px(math.floor(plot.y(plot.values[1])) + 0.5)
    across = _px(plot.right - plot.left)
    marks.append(_path(f"M{_px(plot.left)},{grid_y}h{across}", stroke="var(--line)"))
    if frame.is_wide:
        marks.append(_text(0, plot.top + 12, curve["words"], **small))
    for index, rule in enumerate(rules):
        marks += _rule(rule, index, plot)
    marks += _points(curve, plot)
    for step, reward in ringed:
        ring = {
            "cx": _px(plot.x(step)),
            "cy": _px(plot.y(reward)),
            "r": "4.5",
            "stroke": "var(--text)",
            "stroke-width": "1.5",
        }
        marks.append(Mark("circle", ring))
    marks += _axis([row["step"] for row in data["rows"]], plot)
    return marks, plot.top + _CURVE + _AXIS + 4


def _axis(steps: Sequence[float], plot: _Plot) -> list[Mark]:
    """Return the axis, with a tick at each of the steps of the rows."""
    bottom = plot.top + _CURVE
    y = _px(math.floor(bottom) + 0.5)
    line = f"M{_px(plot.left)},{y}h{_px(plot.right - plot.left)}"
    marks = [_path(line, stroke="var(--muted)")]
    ticks = [f"M{_px(plot.x(step))},{y}v{_TICK}" for step in steps]
    if ticks:
        marks.append(_path("".join(ticks), stroke="var(--text)", stroke_width="1.5"))
    look = {"text_anchor": "middle", "font_size": str(SMALL), "fill": "var(--muted)"}
    for x, label in _labels([*steps, *plot.steps], plot):
        marks.append(_text(x, bottom + 16, label, **look))
    return marks


def _points(curve: FilmCurveData, plot: _Plot) -> list[Mark]:
    """Return the dots of answers and the line of means, dashed where it spans many steps."""
    dots = [f"M{_place(dot, plot)}h.01" for dot in curve["dots"]]
    marks = [
        _path(
            "".join(dots),
            stroke="var(--policy)",
            stroke_opacity="0.45",
            stroke_width="4",
            stroke_linecap="round",
        )
    ]
    line = ""
    gaps = ""
    for before, point in pairwise(curve["means"]):
        start = f"M{_place(before, plot)}"
        end = f"L{_place(point, plot)}"
        if point[0] - before[0] > curve["reach"]:
            gaps += start + end
            continue
        # A line that goes on begins once.
        is_begun = line.endswith(f"L{_place(before, plot)}")
        line += end if is_begun else start + end
    look = {"stroke": "var(--policy)", "stroke_linejoin": "round"}
    if line:
        marks.append(_path(line, stroke_width="1.75", **look))
    if gaps:
        marks.append(_path(gaps, stroke_dasharray="2 4", **look))
    return marks


def _place(point: tuple[int, float], plot: _Plot) -> str:
    step, value = point
    return f"{_px(plot.x(step))},{_px(plot.y(value))}"


def _labels(steps: Sequence[float], plot: _Plot) -> Iterator[tuple[float, str]]:
    """Yield labels of steps with their places where there is room; the first ones come first."""
    spans: list[tuple[float, float]] = []
    for step in steps:
        x = plot.x(step)
        label = written(step, "count")
        half = len(label) * _LETTER / 2
        left = x - half - _LABEL_ROOM
        right = x + half + _LABEL_ROOM
        if all(right <= start or stop <= left for start, stop in spans):
            spans.append((x - half, x + half))
            yield x, label


def _rule(rule: FilmRuleData, index: int, plot: _Plot) -> list[Mark]:
    """Return a rule with its label, on the side on which there is more room."""
    x = plot.x(rule["step"])
    y = _RULE * index
    ink = f"var(--{rule['colour']})"
    dash = {"stroke_dasharray": "4 3"} if rule["dashed"] else {}
    place = _px(math.floor(x) + 0.5)
    line = _path(f"M{place},{_px(y + 2)}V{_px(plot.top + _CURVE)}", stroke=ink, **dash)
    is_left = x < (plot.left + plot.right) / 2
    label = _text(
        x + 4 if is_left else x - 4,
        y + 11,
        rule["words"],
        font_size=str(SMALL),
        text_anchor="start" if is_left else "end",
        fill=ink,
    )
    return [line, label]
