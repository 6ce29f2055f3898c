/** A plot of token metrics over the token position; a click selects the token. */

import { el, svg } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { message } from "../shared/words.js";

const WIDTH = 1000;
const HEIGHT = 100;
const BUCKETS = 1000;

/** @typedef {{label: string, unit: string, values: Float64Array}} Line */

/** @typedef {(of: number) => number} Coordinate in the plot, of a token or a value */

/**
 * @param {Line[]} lines the first is solid, the second dashed
 * @param {(i: number) => void} pick
 */
export function linePlot(lines, pick) {
  const size = lines[0].values.length;
  const [low, high] = extent(lines.map((line) => line.values));
  /** @type {Coordinate} */
  const x = (i) => (WIDTH * (i + 0.5)) / size;
  /** @type {Coordinate} */
  const y = (value) => HEIGHT - (HEIGHT * (value - low)) / (high - low);
  const ends = { name: nameOf(lines), low: written(low), high: written(high) };
  const count = written(size, "count");
  const here = svg("line", { class: "here", y1: 0, y2: HEIGHT, x1: -9, x2: -9 });
  const plot = svg(
    "svg",
    {
      class: "line-plot",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": message("{name} over {count} positions, from {low} to {high}", {
        ...ends,
        count,
      }),
    },
    low < 0 && high > 0 && svg("line", { class: "zero", x1: 0, x2: WIDTH, y1: y(0), y2: y(0) }),
    ...lines.map(({ values }, k) =>
      svg("path", { d: path(values, x, y), class: k ? "second" : null }),
    ),
    here,
  );
  plot.addEventListener("click", (event) => {
    const box = plot.getBoundingClientRect();
    const i = Math.floor((size * (event.clientX - box.left)) / box.width);
    pick(Math.max(0, Math.min(size - 1, i)));
  });
  const range = el("span", {}, message("{name}: {low} to {high}", ends));
  const last = written(size - 1, "count");
  const positions = el("span", {}, message("position 0 to {last}", { last }));
  const node = el(
    "div",
    { class: "line" },
    el("div", { class: "line-label" }, range, positions),
    plot,
  );
  /** @param {number} i */
  const select = (i) => {
    for (const end of ["x1", "x2"]) here.setAttribute(end, String(x(i)));
  };
  return { node, select };
}

/** @param {Line[]} lines */
function nameOf(lines) {
  const [first, second] = lines.map(({ label, unit }) =>
    unit ? message("{label}, {unit}", { label, unit }) : label,
  );
  return second === undefined ? first : message("{first} and {second}", { first, second });
}

/**
 * Returns the least and the largest finite value, apart in any case.
 * @param {Float64Array[]} all
 * @returns {[number, number]}
 */
function extent(all) {
  let low = Infinity;
  let high = -Infinity;
  for (const values of all) {
    for (const value of values) {
      if (!Number.isFinite(value)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (low > high) return [0, 1];
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}

/**
 * Returns SVG path data; long lines keep the minimum and maximum of each bucket of tokens.
 * @param {Float64Array} values
 * @param {Coordinate} x
 * @param {Coordinate} y
 */
export function path(values, x, y) {
  const width = Math.max(1, values.length / BUCKETS);
  let data = "";
  let pen = "M";
  for (let bucket = 0; bucket * width < values.length; bucket += 1) {
    const start = Math.floor(bucket * width);
    const end = Math.min(values.length, Math.floor((bucket + 1) * width));
    const extremes = extremesOf(values, start, end);
    if (!extremes.length) pen = "M"; // a gap
    for (const i of extremes) {
      data += `${pen}${x(i).toFixed(1)} ${y(values[i]).toFixed(1)}`;
      pen = "L";
    }
  }
  return data;
}

/**
 * Returns the indices of the least and the largest value in a range, ascending; none for NaN alone.
 * @param {Float64Array} values
 * @param {number} start
 * @param {number} end
 */
function extremesOf(values, start, end) {
  let least = -1;
  let most = -1;
  for (let i = start; i < end; i += 1) {
    if (!Number.isFinite(values[i])) continue;
    if (least < 0 || values[i] < values[least]) least = i;
    if (most < 0 || values[i] > values[most]) most = i;
  }
  if (least < 0) return [];
  if (least === most) return [least];
  return least < most ? [least, most] : [most, least];
}
