/**
 * Draws the film strip: answers at several steps as rows of a monospace grid, with their rewards.
 * rlreport/draw/film_strip.py draws the same in Python, where the sizes are explained; a test
 * holds both together.
 */

/** @import { FilmCurve, FilmRow, FilmRule, FilmStrip, Span } from "../shared/types.d.ts" */
/** @import { Atom, Line } from "./film-text.js" */

import { written } from "../shared/format.js";
import { MIDDLE, fitting, markedRows, paragraph, shownLines, startsOf } from "./film-text.js";

export const WIDTH = 1000;
const CELL = 7.2;
const LINE = 18;
const BASELINE = 13;
const GUTTER = 140;
/** Lines of each thing that is said there. */
const GUTTER_LINES = 3;
const LEAST_WIDE = 620;
const MOST_COLUMNS = 120;
const LEAST_COLUMNS = 24;
const LINES = 4;
const NARROW_LINES = 6;
const PAD = 7;
const CURVE = 56;
const RULE = 15;
const AXIS = 20;
const NARROW_LEFT = 44;
const TICK = 4;
const LABEL_ROOM = 8;
const LEGEND_LEFT = 126;
const MARGIN = 16;
const SWATCH = 14;
const NARROW_SWATCH = 8;
const BINS = 11;
const LETTER = 6.1;
const BOLD_LETTER = 7.2;
const TITLE_LETTER = 7.6;
/** @type {Record<number, string>} */
const INKS = { 1: "ink-end", 11: "ink-end", 2: "ink-strong", 10: "ink-strong" };
const SMALL = { "font-size": "11", fill: "var(--muted)" };
const BOLD = { "font-weight": "bold", fill: "var(--text)" };

/** What a picture, which has no style sheet, has instead of custom properties but colours. */
const PICTURE = {
  "ink-end": "#fff",
  "ink-strong": "#000",
  "ink-soft": "#000",
  mono: "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Noto Sans Mono CJK SC', monospace",
  sans: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK SC', sans-serif",
};

/**
 * @typedef {object} Mark an SVG element
 * @property {string} name
 * @property {Record<string, string>} attributes
 * @property {(Mark | string)[]} children
 */

/**
 * Draws a strip `width` pixels wide. A picture has its title and its caption inside, a margin,
 * and no links.
 * @param {FilmStrip} data
 * @param {number} width
 * @param {boolean} [isPicture]
 * @returns {Mark}
 */
export function filmStrip(data, width, isPicture = false) {
  const frame = frameOf(width);
  /** @type {Mark[]} */
  const marks = [];
  let y = 0;
  /** @param {[Mark[], number]} part its marks, and its height */
  const add = ([drawn, height]) => {
    marks.push(moved(y, drawn));
    y += height;
  };
  if (isPicture) {
    const lines = paragraph(data.title, width / TITLE_LETTER, 2);
    const look = { "font-size": "15", ...BOLD };
    marks.push(...lines.map((line, k) => text(0, 20 * k + 16, line, look)));
    y += 20 * lines.length + 8;
  }
  if (data.curve) add(curveMarks(data, data.curve, frame));
  const pieces = markedRows(data.rows);
  data.rows.forEach((row, i) => add(rowMarks(row, pieces[i], frame, isPicture)));
  marks.push(path(`M0,${px(y)}h${px(width)}`, { stroke: "var(--line)" }));
  if (data.ends) add([legend(data.ends, frame), 30]);
  if (isPicture) {
    const lines = paragraph(data.caption, width / LETTER, 6);
    marks.push(...lines.map((line, k) => text(0, y + 16 * (k + 1), line, SMALL)));
    y += 16 * lines.length;
  }
  return whole(data, marks, [width, y], isPicture);
}

/**
 * Returns the element of a drawing of this size; a picture has a ground and a margin.
 * @param {FilmStrip} data
 * @param {Mark[]} marks
 * @param {[number, number]} size
 * @param {boolean} isPicture
 * @returns {Mark}
 */
function whole(data, marks, size, isPicture) {
  const margin = isPicture ? MARGIN : 0;
  const [width, height] = size.map((length) => px(length + 2 * margin));
  /** @type {Record<string, string>} */
  const fonts = { "font-size": "12", "font-family": "var(--sans)" };
  /** @type {Mark[]} */
  const children = [{ name: "g", attributes: fonts, children: marks }];
  if (isPicture) {
    fonts.transform = `translate(${margin},${margin})`;
    children.unshift(path(`M0,0h${width}v${height}h-${width}z`, { fill: "var(--page)" }));
  }
  const attributes = {
    xmlns: "http://www.w3.org/2000/svg",
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    fill: "none",
    role: isPicture ? "img" : "group",
    "aria-label": fitting(data.title, 200),
  };
  return { name: "svg", attributes, children };
}

/**
 * Returns a strip as an SVG in light colours that needs no style sheet.
 * @param {FilmStrip} data
 * @param {number} width
 * @param {Record<string, string>} colours light ones, by name
 */
export function picture(data, width, colours) {
  const named = Object.entries({ ...colours, ...PICTURE });
  const values = new Map(named.map(([name, value]) => [`var(--${name})`, value]));
  return markup(filmStrip(data, width, true), values);
}

/**
 * Returns an element as text; `values` replace values of attributes.
 * @param {Mark} mark
 * @param {Map<string, string>} [values]
 * @returns {string}
 */
export function markup({ name, attributes, children }, values = new Map()) {
  const named = Object.entries(attributes).map(
    ([key, value]) => ` ${key}="${escaped(values.get(value) ?? value)}"`,
  );
  const inner = children.map((child) =>
    typeof child === "string" ? withoutTags(child) : markup(child, values),
  );
  return `<${name}${named.join("")}>${inner.join("")}</${name}>`;
}

/** @param {string} words */
function withoutTags(words) {
  return words.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

/** @param {string} value */
function escaped(value) {
  return withoutTags(value).replace(/"/g, "&quot;").replace(/'/g, "&#x27;");
}

/** Returns pixels with at most one decimal. @param {number} value */
function px(value) {
  const tenths = Math.floor(10 * value + 0.5);
  const sign = tenths < 0 ? "-" : "";
  const size = Math.abs(tenths);
  const decimal = size % 10;
  return `${sign}${(size - decimal) / 10}${decimal ? `.${decimal}` : ""}`;
}

/**
 * @param {number} x
 * @param {number} y
 * @param {string} words
 * @param {Record<string, string>} attributes
 * @returns {Mark}
 */
function text(x, y, words, attributes) {
  return { name: "text", attributes: { x: px(x), y: px(y), ...attributes }, children: [words] };
}

/** @param {string} d @param {Record<string, string>} attributes @returns {Mark} */
function path(d, attributes) {
  return { name: "path", attributes: { d, ...attributes }, children: [] };
}

/** @param {number} y @param {Mark[]} children @returns {Mark} */
function moved(y, children) {
  return { name: "g", attributes: { transform: `translate(0,${px(y)})` }, children };
}

/** @typedef {ReturnType<typeof frameOf>} Frame where things are in a drawing */

/** @param {number} width */
function frameOf(width) {
  const isWide = width >= LEAST_WIDE;
  const left = isWide ? GUTTER : 0;
  const most = Math.max(Math.floor((width - left) / CELL), LEAST_COLUMNS);
  const columns = Math.min(most, MOST_COLUMNS);
  return {
    width,
    left,
    columns,
    isWide,
    plotLeft: isWide ? left : NARROW_LEFT,
    plotRight: Math.min(width - 8, left + columns * CELL),
  };
}

/**
 * Returns the marks of a row, and its height.
 * @param {FilmRow} row
 * @param {Atom[][]} pieces
 * @param {Frame} frame
 * @param {boolean} isPicture
 * @returns {[Mark[], number]}
 */
function rowMarks(row, pieces, frame, isPicture) {
  const lines = shownLines(pieces, frame.columns, frame.isWide ? LINES : NARROW_LINES);
  const [head, least] = gutter(row, frame);
  let y = frame.isWide ? PAD : least;
  /** @type {Mark[]} */
  const marks = [];
  if (row.above) {
    const above = fitting(row.above, (frame.width - frame.left) / BOLD_LETTER);
    marks.push(text(frame.left, y + BASELINE, above, { fill: "var(--muted)" }));
    y += LINE;
  }
  marks.push(...grid(lines, y, frame));
  const height = Math.max(least, y + LINE * lines.length + PAD);
  const across = px(frame.width);
  const hairline = path(`M0,0h${across}`, { stroke: "var(--line)" });
  if (isPicture || !row.href) return [[hairline, ...head, ...marks], height];
  const area = path(`M0,0h${across}v${px(height)}h-${across}z`, { fill: "transparent" });
  const attributes = { href: row.href, "aria-label": fitting(row.name, 300) };
  return [[hairline, { name: "a", attributes, children: [area, ...head, ...marks] }], height];
}

/**
 * Returns which answer it is, and the height that this needs.
 * @param {FilmRow} row
 * @param {Frame} frame
 * @returns {[Mark[], number]}
 */
function gutter({ head, about }, frame) {
  let y = PAD + BASELINE;
  if (!frame.isWide) {
    const words = fitting([head, ...about].join(" · "), frame.width / BOLD_LETTER);
    return [[text(0, y, words, BOLD)], PAD + LINE];
  }
  const marks = [text(0, y, head, BOLD)];
  for (const words of about) {
    for (const line of paragraph(words, (GUTTER - 10) / LETTER, GUTTER_LINES)) {
      y += LINE;
      marks.push(text(0, y, line, { fill: "var(--muted)" }));
    }
  }
  return [marks, y - BASELINE + LINE + PAD];
}

/**
 * Returns the coloured cells, the letters and the lines below new words.
 * @param {Line[]} lines
 * @param {number} top
 * @param {Frame} frame
 */
function grid(lines, top, frame) {
  /** @type {Map<number, string>} bin → its cells */
  const colours = new Map();
  /** @type {Mark[]} */
  const letters = [];
  let underlines = "";
  let boxes = "";
  lines.forEach(({ atoms, goesOn }, number) => {
    const y = top + LINE * number;
    const places = startsOf(atoms.map(({ width }) => width));
    /** @param {number} at cell */
    const x = (at) => frame.left + CELL * at;
    /** @param {Span} span @param {number} inset */
    const box = ([first, stop], inset) => {
      const across = px(CELL * (places[stop] - places[first]));
      const down = px(LINE - 2 * inset);
      return `M${px(x(places[first]))},${px(y + inset)}h${across}v${down}h-${across}z`;
    };
    for (const span of alike(atoms.map(({ bin }) => bin))) {
      const { bin } = atoms[span[0]];
      if (bin) colours.set(bin, (colours.get(bin) ?? "") + box(span, 1));
    }
    for (const span of alike(atoms.map(({ isCited }) => isCited)))
      if (atoms[span[0]].isCited) boxes += box(span, 0.5);
    for (const [first, stop] of newSpans(atoms)) {
      const length = px(CELL * (places[stop] - places[first]));
      underlines += `M${px(x(places[first]))},${px(y + BASELINE + 2.5)}h${length}`;
    }
    letters.push(...lettersOf(atoms, places, y, frame));
    const after = x(places[atoms.length] + 0.5);
    if (goesOn) letters.push(text(after, y + BASELINE, "…", { fill: "var(--muted)" }));
  });
  colours.delete(MIDDLE);
  const marks = [...colours]
    .sort(([a], [b]) => a - b)
    .map(([bin, d]) => path(d, { fill: `var(--div-${bin})` }));
  const ink = { "font-family": "var(--mono)", fill: "var(--ink-soft)" };
  marks.push({ name: "g", attributes: ink, children: letters });
  if (underlines) marks.push(path(underlines, { stroke: "var(--text)" }));
  if (boxes) marks.push(path(boxes, { stroke: "var(--text)", "stroke-width": "1.5" }));
  return marks;
}

/** Returns where new words are, without a space at their end. @param {Atom[]} atoms */
function newSpans(atoms) {
  const spans = alike(atoms.map(({ isNew }) => isNew)).filter(([first]) => atoms[first].isNew);
  return spans
    .map(([first, stop]) => /** @type {Span} */ ([first, withoutSpaces(atoms, stop)]))
    .filter(([first, stop]) => stop > first);
}

/**
 * Returns the first and the last + 1 of neighbours that are equal.
 * @param {unknown[]} keys
 */
function alike(keys) {
  /** @type {[number, number][]} */
  const found = [];
  let first = 0;
  for (let index = 1; index <= keys.length; index += 1) {
    if (index < keys.length && keys[index] === keys[first]) continue;
    found.push([first, index]);
    first = index;
  }
  return found;
}

/**
 * Returns texts of one ink whose letters have one width; each is as long as its cells, so that
 * letters stand on their cells in any font.
 * @param {Atom[]} atoms
 * @param {number[]} places
 * @param {number} y
 * @param {Frame} frame
 */
function lettersOf(atoms, places, y, frame) {
  return runsOf(atoms).map(([first, stop]) => {
    const words = atoms.slice(first, stop).map((atom) => atom.text);
    const x = frame.left + CELL * places[first];
    /** @type {Record<string, string>} */
    const attributes = { textLength: px(CELL * (places[stop] - places[first])) };
    if (kindOf(atoms[first]) === "other") attributes.lengthAdjust = "spacingAndGlyphs";
    const ink = INKS[atoms[first].bin];
    if (ink) attributes.fill = `var(--${ink})`;
    return text(x, y + BASELINE, words.join(""), attributes);
  });
}

/** @param {Atom[]} atoms */
function runsOf(atoms) {
  /** @type {[number, number][]} */
  const runs = [];
  let first = -1;
  let last = -1;
  atoms.forEach((atom, index) => {
    if (atom.text === " ") return;
    if (first >= 0 && lookOf(atoms[last]) !== lookOf(atom)) {
      runs.push([first, last + 1]);
      first = -1;
    }
    if (first < 0) first = index;
    last = index;
  });
  if (first >= 0) runs.push([first, last + 1]);
  return runs;
}

/** Returns where atoms that end at `stop` end without spaces. @param {Atom[]} atoms @param {number} stop */
function withoutSpaces(atoms, stop) {
  let end = stop;
  while (end > 0 && atoms[end - 1].text === " ") end -= 1;
  return end;
}

/** @param {Atom} atom */
function lookOf(atom) {
  return `${kindOf(atom)} ${INKS[atom.bin] ?? ""}`;
}

/** @param {Atom} atom */
function kindOf({ text: shown, width }) {
  if (width === 2) return "wide";
  return /^[\0-\x7f]*$/.test(shown) ? "ascii" : "other";
}

/**
 * Returns the colours with the words at both ends.
 * @param {[string, string]} ends
 * @param {Frame} frame
 */
function legend([low, high], frame) {
  const start = Math.max(frame.left, LEGEND_LEFT);
  const swatch = frame.isWide ? SWATCH : NARROW_SWATCH;
  const marks = [text(start - 6, 22, low, { "text-anchor": "end", ...SMALL })];
  for (let bin = 1; bin <= BINS; bin += 1) {
    const box = `M${px(start + swatch * (bin - 1))},12h${swatch}v12h-${swatch}z`;
    marks.push(path(box, { fill: `var(--div-${bin})` }));
  }
  const x = start + swatch * BINS + 6;
  marks.push(text(x, 22, fitting(high, (frame.width - x) / LETTER), SMALL));
  return marks;
}

/** @typedef {{left: number, right: number, top: number, x: (step: number) => number, y: (value: number) => number}} Plot */

/**
 * Returns the plot of rewards: where steps and values are in it, in pixels.
 * @param {Frame} frame
 * @param {number} top
 * @param {[number, number]} steps limits
 * @param {[number, number]} values limits
 * @returns {Plot}
 */
function plotOf({ plotLeft: left, plotRight: right }, top, [first, last], [low, high]) {
  const room = 0.06 * (high - low) || 1;
  return {
    left,
    right,
    top,
    x: (step) => {
      const share = last > first ? (step - first) / (last - first) : 0.5;
      return left + 6 + share * (right - left - 12);
    },
    y: (value) => top + CURVE * (1 - (value - low + room) / (high - low + 2 * room)),
  };
}

/**
 * Returns the rewards over the steps with their rules, and the height of all this.
 * @param {FilmStrip} data
 * @param {FilmCurve} curve
 * @param {Frame} frame
 * @returns {[Mark[], number]}
 */
function curveMarks({ rules, rows }, curve, frame) {
  const ringed = curve.dots.length ? rows.flatMap(ringOf) : [];
  const values = [...curve.means, ...curve.dots, ...ringed].map(([, value]) => value);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const plot = plotOf(frame, RULE * rules.length + 4, [curve.low, curve.high], [low, high]);
  const marks = [...new Set([low, high])].map((value) =>
    text(plot.left - 6, plot.y(value) + 4, written(value), { "text-anchor": "end", ...SMALL }),
  );
  const across = px(plot.right - plot.left);
  const gridY = px(Math.floor(plot.y(high)) + 0.5);
  marks.push(path(`M${px(plot.left)},${gridY}h${across}`, { stroke: "var(--line)" }));
  if (frame.isWide) marks.push(text(0, plot.top + 12, curve.words, SMALL));
  rules.forEach((rule, index) => marks.push(...ruleMarks(rule, index, plot)));
  marks.push(...points(curve, plot));
  for (const [step, reward] of ringed) {
    const attributes = {
      cx: px(plot.x(step)),
      cy: px(plot.y(reward)),
      r: "4.5",
      stroke: "var(--text)",
      "stroke-width": "1.5",
    };
    marks.push({ name: "circle", attributes, children: [] });
  }
  const steps = rows.map(({ step }) => step);
  marks.push(...axisMarks(steps, [curve.low, curve.high], plot));
  return [marks, plot.top + CURVE + AXIS + 4];
}

/** Returns the place of a row's circle in the plot. @param {FilmRow} row @returns {[number, number][]} */
function ringOf({ step, reward }) {
  return reward === null ? [] : [[step, reward]];
}

/**
 * Returns the axis, with a tick at each of the steps of the rows.
 * @param {number[]} steps
 * @param {[number, number]} ends
 * @param {Plot} plot
 */
function axisMarks(steps, ends, plot) {
  const bottom = plot.top + CURVE;
  const y = px(Math.floor(bottom) + 0.5);
  const line = `M${px(plot.left)},${y}h${px(plot.right - plot.left)}`;
  const marks = [path(line, { stroke: "var(--muted)" })];
  const ticks = steps.map((step) => `M${px(plot.x(step))},${y}v${TICK}`);
  if (ticks.length)
    marks.push(path(ticks.join(""), { stroke: "var(--text)", "stroke-width": "1.5" }));
  for (const [x, label] of labels([...steps, ...ends], plot))
    marks.push(text(x, bottom + 16, label, { "text-anchor": "middle", ...SMALL }));
  return marks;
}

/**
 * Returns the dots of answers and the line of means, dashed where it spans many steps.
 * @param {FilmCurve} curve
 * @param {Plot} plot
 */
function points({ means, dots, reach }, plot) {
  /** @param {[number, number]} point */
  const place = ([step, value]) => `${px(plot.x(step))},${px(plot.y(value))}`;
  const marks = [
    path(dots.map((dot) => `M${place(dot)}h.01`).join(""), {
      stroke: "var(--policy)",
      "stroke-opacity": "0.45",
      "stroke-width": "4",
      "stroke-linecap": "round",
    }),
  ];
  let line = "";
  let gaps = "";
  means.slice(1).forEach((point, k) => {
    const before = means[k];
    const start = `M${place(before)}`;
    const end = `L${place(point)}`;
    if (point[0] - before[0] > reach) {
      gaps += start + end;
      return;
    }
    const isBegun = line.endsWith(`L${place(before)}`);
    line += isBegun ? end : start + end;
  });
  const look = { stroke: "var(--policy)", "stroke-linejoin": "round" };
  if (line) marks.push(path(line, { "stroke-width": "1.75", ...look }));
  if (gaps) marks.push(path(gaps, { "stroke-dasharray": "2 4", ...look }));
  return marks;
}

/**
 * Returns labels of steps with their places where there is room; the first ones come first.
 * @param {number[]} steps
 * @param {Plot} plot
 */
function labels(steps, plot) {
  /** @type {[number, string][]} */
  const chosen = [];
  /** @type {Span[]} */
  const spans = [];
  for (const step of steps) {
    const x = plot.x(step);
    const label = written(step, "count");
    const half = (label.length * LETTER) / 2;
    const left = x - half - LABEL_ROOM;
    const right = x + half + LABEL_ROOM;
    if (!spans.every(([start, stop]) => right <= start || stop <= left)) continue;
    spans.push([x - half, x + half]);
    chosen.push([x, label]);
  }
  return chosen;
}

/**
 * Returns a rule with its label, on the side on which there is more room.
 * @param {FilmRule} rule
 * @param {number} index
 * @param {Plot} plot
 */
function ruleMarks({ step, words, colour, dashed }, index, plot) {
  const x = plot.x(step);
  const y = RULE * index;
  const ink = `var(--${colour})`;
  const line = path(`M${px(Math.floor(x) + 0.5)},${px(y + 2)}V${px(plot.top + CURVE)}`, {
    stroke: ink,
    ...(dashed ? { "stroke-dasharray": "4 3" } : {}),
  });
  const isLeft = x < (plot.left + plot.right) / 2;
  const label = text(isLeft ? x + 4 : x - 4, y + 11, words, {
    "font-size": "11",
    "text-anchor": isLeft ? "start" : "end",
    fill: ink,
  });
  return [line, label];
}
