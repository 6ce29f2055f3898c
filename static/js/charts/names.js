/**
 * Places of the names of curves: in the plot, beside the ends of their lines, where no line is.
 * rlreport/draw/names.py does the same; tests/data/name_places.json holds both together.
 */

/** Least vertical distance of two names, in pixels. */
export const GAP = 13;
/** Pixels from a line to the baseline of a name above and below it. */
export const ABOVE = 6;
export const BELOW = 13;
/** Pixels that letters take above and below their baseline. */
const ASCENT = 9;
const DESCENT = 3;
/** Most pixels between the end of a line and its name. */
const MOST_AWAY = 40;
/** A name is below its line if that falls by so many pixels in this last part of the axis. */
const FALLING_PIXELS = 8;
const FALLING_PART = 0.12;
/** Width of a character, what is free beside a name, and the narrowest plot, in pixels. */
const CHARACTER = 5.6;
const BESIDE = 8;
const NARROWEST = 298;

/**
 * @typedef {object} NamedLine
 * @property {string} name
 * @property {number[]} x ascending from 0 to 1
 * @property {number[]} y pixels from the lower end of the plot
 */
/** @typedef {[low: number, high: number]} Span */
/** @typedef {{place: number, isBetter: boolean}} Candidate */

/**
 * Returns the baseline of each name in pixels from the lower end, null without room for all.
 * @param {NamedLine[]} lines
 * @param {number} height of the plot, without what other labels take at its top
 */
export function namePlaces(lines, height) {
  /** @type {number[] | null} */
  let found = null;
  let least = lines.length + 1;
  for (const chosen of product(lines.map((line) => candidates(line, lines, height)))) {
    const places = chosen.map(({ place }) => place);
    const cost = chosen.filter(({ isBetter }) => !isBetter).length;
    if (cost < least && areApart(places)) {
      found = places;
      least = cost;
    }
  }
  return found;
}

/** Returns each choice of one item of each list. @param {Candidate[][]} lists */
function product(lists) {
  /** @type {Candidate[][]} */
  let choices = [[]];
  for (const list of lists) {
    choices = choices.flatMap((chosen) => list.map((item) => [...chosen, item]));
  }
  return choices;
}

/** @param {number[]} places */
function areApart(places) {
  const sorted = [...places].sort((a, b) => a - b);
  return sorted.every((place, k) => k === 0 || place - sorted[k - 1] >= GAP);
}

/**
 * Returns whether a line falls at its end, so that its name is below it.
 * @param {NamedLine} line
 */
export function falls({ x, y }) {
  const before = y[x.findIndex((place) => place >= 1 - FALLING_PART)];
  return before !== undefined && before - y[y.length - 1] > FALLING_PIXELS;
}

/** @param {NamedLine} line @param {NamedLine[]} lines @param {number} height */
function candidates(line, lines, height) {
  const start = 1 - (line.name.length * CHARACTER + BESIDE) / NARROWEST;
  const spans = lines.map((one) => spanOf(one, start));
  const [low, high] = spanOf(line, start);
  const end = line.y[line.y.length - 1];
  const isFalling = falls(line);
  /** @type {Candidate[]} */
  const both = [
    { place: raised(high + ABOVE, spans), isBetter: !isFalling },
    { place: lowered(low - BELOW, spans), isBetter: isFalling },
  ];
  return both.filter(
    ({ place }) =>
      place >= DESCENT && place <= height - ASCENT && Math.abs(place - end) <= MOST_AWAY,
  );
}

/** Returns the lowest and the highest place of a line from `start` on. @param {NamedLine} line @param {number} start @returns {Span} */
function spanOf({ x, y }, start) {
  const inside = y.filter((_, k) => x[k] >= start);
  const values = [at(start, x, y), y[y.length - 1], ...inside];
  return [Math.min(...values), Math.max(...values)];
}

/** Returns the place of a line at `x`, between its points. @param {number} place @param {number[]} x @param {number[]} y */
function at(place, x, y) {
  const after = x.findIndex((one) => one >= place);
  if (after < 0) return y[y.length - 1];
  if (after === 0) return y[0];
  const part = (place - x[after - 1]) / (x[after] - x[after - 1]);
  return y[after - 1] + part * (y[after] - y[after - 1]);
}

/** Returns the next baseline from a place upwards at which a name covers no line. @param {number} place @param {Span[]} spans */
function raised(place, spans) {
  const ascending = [...spans].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  return ascending.reduce((now, span) => (covers(now, span) ? span[1] + ABOVE : now), place);
}

/** @param {number} place @param {Span[]} spans */
function lowered(place, spans) {
  const descending = [...spans].sort((a, b) => b[1] - a[1]);
  return descending.reduce((now, span) => (covers(now, span) ? span[0] - BELOW : now), place);
}

/** @param {number} place @param {Span} span */
function covers(place, [low, high]) {
  return place - DESCENT < high && place + ASCENT > low;
}
