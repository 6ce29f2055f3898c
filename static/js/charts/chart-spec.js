/** Adapts a chart's specification to the page's theme, zoom and scale. */

import { recoloured } from "./colours.js";
import { message } from "../shared/words.js";

/** @typedef {{zoom: [number, number] | null, log: boolean, smoothing: number | "auto"}} ViewState */

/**
 * @param {any} spec
 * @param {Map<string, string>} colours
 * @param {ViewState} state
 */
export function specFor(spec, colours, { zoom, log, smoothing }) {
  const copy = recoloured(spec, colours);
  const over = copy.params?.some(({ name }) => name === "at");
  for (const param of copy.params ?? []) {
    if (param.name !== "smoothing") continue;
    param.value = smoothing;
    delete param.bind; // the page asks once for all charts
  }
  if (log) logarithmic(copy);
  if (!over) {
    if (log) placeLabels(copy, null);
    return copy;
  }
  const pointer = copy.layer.find(({ name }) => name === "interaction");
  copy.params.push({
    name: "zoom",
    select: { type: "interval", encodings: ["x"] },
    views: [pointer.name],
  });
  copy.layer.unshift(pointedAt());
  const inside = zoom && !log && within(copy.data?.values ?? [], zoom);
  for (const layer of copy.layer) {
    const { y } = layer.encoding;
    if (inside && y?.axis && !y.scale.type) {
      y.scale = { ...y.scale, domain: inside };
    }
    if (!["label", "marked_bar"].includes(layer.name)) layer.mark = { ...layer.mark, clip: true };
    if (zoom && layer.encoding.x?.axis)
      Object.assign(layer.encoding.x.scale, { domain: zoom, zero: false });
  }
  if (zoom) copy.layer = copy.layer.filter(({ name }) => name !== "marked_bar");
  if (zoom || log) placeLabels(copy, zoom);
  return copy;
}

/** Minimum distance of two curve names at the right edge, in pixels. */
const LABEL_GAP = 13;

/**
 * Places the names of curves at the right edge, each at the last visible value of its curve.
 * @param {any} spec
 * @param {[number, number] | null} zoom
 */
function placeLabels(spec, zoom) {
  const layer = spec.layer?.find(({ name }) => name === "label");
  const { scale } = yAxes(spec)[0] ?? {};
  if (!layer || !Array.isArray(scale?.domain)) return;
  const [from, to] = zoom ?? [-Infinity, Infinity];
  const axis = scale.type === "log" ? Math.log : (value) => value;
  const [low, high] = scale.domain.map(axis);
  const labels = [];
  for (const label of layer.data.values) {
    const last = spec.data.values.findLast(
      ({ series, step, value }) =>
        series === label.series && step >= from && step <= to && Number.isFinite(value),
    );
    const place = last && (spec.height * (high - axis(last.value))) / (high - low);
    if (Number.isFinite(place))
      labels.push({ ...label, place: Math.min(Math.max(place, 0), spec.height) });
  }
  labels.sort((a, b) => b.place - a.place);
  labels.forEach(
    (label, i) => i && (label.place = Math.min(label.place, labels[i - 1].place - LABEL_GAP)),
  );
  layer.data = { values: labels };
  layer.transform = [];
  layer.encoding.x = { value: "width" };
  layer.encoding.y = { field: "place", type: "quantitative", scale: null };
}

/** Returns the extent of the values between two steps, with a margin; null if they do not differ. */
function within(rows, [from, to]) {
  const shown = rows.filter(({ step }) => step >= from && step <= to);
  const values = shown
    .flatMap(({ value, low, high }) => [value, low, high])
    .filter((value) => Number.isFinite(value));
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const air = 0.06 * (high - low);
  return high > low ? [low - air, high + air] : null;
}

/** Returns a layer, empty at first, that shades the steps of the finding under the pointer. */
function pointedAt() {
  return {
    name: "pointed",
    data: { name: "pointed", values: [] },
    mark: { type: "rect", fillOpacity: 0.12 },
    encoding: {
      x: { field: "from", type: "quantitative" },
      x2: { field: "to" },
      color: { field: "colour", type: "nominal", scale: null },
    },
  };
}

/** Returns the y encodings of all layers with a y axis, which have the same scale and title. */
function yAxes(spec) {
  return (spec.layer ?? [])
    .map((layer) => layer.encoding?.y)
    .filter((place) => place?.axis && place.scale);
}

/**
 * Returns the extent of the y values, null if a logarithmic axis cannot show all of them.
 * @param {any} spec
 * @param {Record<string, any>[]} rows
 */
export function positive(spec, rows) {
  const [axis] = yAxes(spec);
  if (
    !axis ||
    axis.scale.type ||
    !spec.layer?.some(({ mark }) => ["line", "circle"].includes(mark.type))
  )
    return null;
  const values = rows
    .filter(({ kept }) => kept !== false)
    .map((row) => row[axis.field])
    .filter((value) => Number.isFinite(value));
  const low = Math.min(...values);
  const high = Math.max(...values);
  return low > 0 && high > low ? [low, high] : null;
}

function logarithmic(spec) {
  const extent = positive(spec, spec.data.values);
  if (!extent) return;
  const [low, high] = extent;
  const air = (high / low) ** 0.06;
  for (const axis of yAxes(spec)) {
    axis.scale = { type: "log", domain: [low / air, high * air], nice: false };
    axis.axis = { ...axis.axis, format: "~g", labelOverlap: true };
    axis.title = message("{axis}, logarithmic", { axis: axis.title });
  }
  for (const layer of spec.layer) {
    // Values of 0 or below are not on the axis; a band is cut at its edge.
    const fields = Object.entries(layer.encoding).filter(
      ([key, place]) => /^y2?$/.test(key) && place.field,
    );
    layer.mark = { ...layer.mark, clip: true };
    layer.transform = [
      ...(layer.transform ?? []),
      ...fields.map(([, { field }]) => ({
        calculate: `isValid(datum['${field}']) ? max(datum['${field}'], ${low / air}) : null`,
        as: field,
      })),
    ];
  }
  spec.layer = spec.layer.filter(({ name }) => name !== "zero");
}
