/** A plot of token metrics over the token position; a click selects the token. */

import { el, svg } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { message } from "../shared/words.js";

const WIDTH = 1000;
const HEIGHT = 100;
const BUCKETS = 1000;

/**
 * @param {{label: string, unit: string, values: Float64Array}[]} lines the first is solid, the
 *   second dashed
 * @param {(i: number) => void} pick
 */
export function linePlot(lines, pick) {
  const size = lines[0].values.length;
  const [low, high] = extent(lines.map((line) => line.values));
  const x = (i) => (WIDTH * (i + 0.5)) / size;
  const y = (value) => HEIGHT - (HEIGHT * (value - low)) / (high - low);
  const here = svg("line", { class: "here", y1: 0, y2: HEIGHT, x1: -9, x2: -9 });
  const zero =
    low < 0 && high > 0 && svg("line", { class: "zero", x1: 0, x2: WIDTH, y1: y(0), y2: y(0) });
  const [first, second] = lines.map(({ label, unit }) =>
    unit ? message("{label}, {unit}", { label, unit }) : label,
  );
  const name = second === undefined ? first : message("{first} and {second}", { first, second });
  const ends = { name, low: written(low), high: written(high) };
  const plot = svg(
    "svg",
    {
      class: "line-plot",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": message("{name} over {count} positions, from {low} to {high}", {
        ...ends,
        count: written(size, "count"),
      }),
    },
    zero,
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
  const node = el(
    "div",
    { class: "line" },
    el(
      "div",
      { class: "line-label" },
      el("span", {}, message("{name}: {low} to {high}", ends)),
      el("span", {}, message("position 0 to {last}", { last: written(size - 1, "count") })),
    ),
    plot,
  );
  const select = (i) => {
    for (const end of ["x1", "x2"]) here.setAttribute(end, String(x(i)));
  };
  return { node, select };
}

/** @param {Float64Array[]} all @returns {[number, number]} */
function extent(all) {
  let [low, high] = [Infinity, -Infinity];
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

/** Returns SVG path data; long lines keep the minimum and maximum of each bucket of tokens. */
function path(values, x, y) {
  const width = Math.max(1, values.length / BUCKETS);
  let d = "";
  let pen = "M";
  const add = (i) => {
    d += `${pen}${x(i).toFixed(1)} ${y(values[i]).toFixed(1)}`;
    pen = "L";
  };
  for (let b = 0; b * width < values.length; b += 1) {
    const end = Math.min(values.length, Math.floor((b + 1) * width));
    let [least, most] = [-1, -1];
    for (let i = Math.floor(b * width); i < end; i += 1) {
      if (!Number.isFinite(values[i])) continue;
      if (least < 0 || values[i] < values[least]) least = i;
      if (most < 0 || values[i] > values[most]) most = i;
    }
    if (least < 0) pen = "M";
    else for (const i of least === most ? [least] : [least, most].sort((a, b2) => a - b2)) add(i);
  }
  return d;
}
