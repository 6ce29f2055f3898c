/** Adapts a chart's specification to the page's theme, zoom and scale. */

/** @import { NamedLine } from "./names.js" */
/** @import { Axis, Layer, LayeredSpec, Range, Row, Scale, Spec } from "./spec.d.ts" */

import { recoloured } from "./colours.js";
import { ABOVE, BELOW, falls, GAP, namePlaces } from "./names.js";
import { stepsOf } from "./zoom.js";
import { message } from "../shared/words.js";

/**
 * @typedef {object} ViewState
 * @property {Range | null} zoom
 * @property {boolean} log
 * @property {number | "auto"} smoothing
 * @property {boolean} [placesLabels] whether the plot has another height than the specification
 * @property {boolean} [bare] whether the y axis has no title
 */

/** Margin of an axis beyond its values, as a share of their extent. */
const MARGIN = 0.06;

/** Layers of the names of curves: the page's colour behind them, and the names. */
const LABELS = ["halo", "label"];
/** Height of letters, and what labels of rules take at the top of the plot, in pixels. */
const LETTERS = 8;
const LABELS_OF_RULES = 13;
/** Layer of marks that are drawn across the whole plot, and would be in the way when zoomed. */
const MARKED_BARS = "marked_bar";

/**
 * Returns a copy of a specification in the colours of the theme and in the state of the page.
 * @param {Spec} spec
 * @param {Map<string, string>} colours
 * @param {ViewState} state
 * @returns {Spec}
 */
export function specFor(spec, colours, state) {
  const copy = recoloured(spec, colours);
  setSmoothing(copy, state.smoothing);
  if (state.log) makeLogarithmic(/** @type {LayeredSpec} */ (copy));
  const isOverSteps = copy.params?.some(({ name }) => name === "at");
  if (state.bare) for (const axis of yAxes(copy)) axis.title = "";
  if (isOverSteps) showSteps(/** @type {LayeredSpec} */ (copy), state);
  return copy;
}

/** @param {LayeredSpec} spec @param {ViewState} state */
function showSteps(spec, { zoom, log, placesLabels }) {
  addInteraction(spec);
  if (zoom) zoomIn(spec, zoom, log);
  if (zoom || log || placesLabels) placeLabels(spec, zoom);
}

/** @param {Spec} spec @param {number | "auto"} smoothing */
function setSmoothing(spec, smoothing) {
  const parameter = spec.params?.find(({ name }) => name === "smoothing");
  if (!parameter) return;
  parameter.value = smoothing;
  delete parameter.bind; // the page asks once for all charts
}

/**
 * Adds the selection of steps to zoom to, and a layer to shade; cuts marks off at the axes.
 * @param {LayeredSpec} spec
 */
function addInteraction(spec) {
  spec.params.push({
    name: "zoom",
    select: { type: "interval", encodings: ["x"] },
    views: ["interaction"],
  });
  spec.layer.unshift(pointedAt());
  for (const layer of spec.layer) {
    const isBeyondPlot = isOfNames(layer) || layer.name === MARKED_BARS;
    if (!isBeyondPlot) layer.mark = { ...layer.mark, clip: true };
  }
}

/**
 * Returns a layer, empty at first, that shades the steps of the finding under the pointer.
 * @returns {Layer}
 */
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

/** @param {LayeredSpec} spec @param {Range} steps @param {boolean} log */
function zoomIn(spec, steps, log) {
  // A logarithmic axis has the extent of all values already.
  const extent = log ? null : extentWithin(spec.data.values ?? [], steps);
  for (const axis of yAxes(spec)) {
    if (extent && !axis.scale.type) axis.scale = { ...axis.scale, domain: extent };
  }
  spec.layer = spec.layer.filter(({ name }) => name !== MARKED_BARS);
  for (const { encoding } of spec.layer) {
    if (encoding.x?.axis) encoding.x.scale = { ...encoding.x.scale, domain: steps, zero: false };
  }
}

/**
 * Returns the extent of the values between two steps, with a margin; null if they do not differ.
 * @param {Row[]} rows
 * @param {Range} steps
 * @returns {Range | null}
 */
function extentWithin(rows, [from, to]) {
  const shown = rows.filter(({ step = NaN }) => step >= from && step <= to);
  const values = shown.flatMap(({ value, low, high }) => [value, low, high]).filter(isFiniteNumber);
  const low = Math.min(...values);
  const high = Math.max(...values);
  const margin = MARGIN * (high - low);
  return high > low ? [low - margin, high + margin] : null;
}

/** @param {unknown} value @returns {value is number} */
function isFiniteNumber(value) {
  return Number.isFinite(value);
}

/**
 * Places the names of curves at the right edge, as `_labels` in rlreport/draw/curves.py does. Where
 * they have no room, they are over the lines, which they do not hide.
 * @param {LayeredSpec} spec
 * @param {Range | null} shownSteps null for all
 */
function placeLabels(spec, shownSteps) {
  const [axis] = yAxes(spec);
  const steps = shownSteps ?? stepsOf(spec.data.values);
  if (!axis?.scale.domain || !steps) return;
  const named = namesIn(spec)
    .map((row) => ({ row, line: lineOf(row, spec, steps, axis.scale) }))
    .filter(({ line }) => line.x.length);
  const lines = named.map(({ line }) => line);
  const height = spec.height - heightOfLabels(spec);
  const free = namePlaces(lines, height);
  const places = free ?? crowded(lines, height);
  const labels = named.map(({ row }, k) => ({ ...row, place: spec.height - places[k] }));
  for (const layer of spec.layer.filter(isOfNames)) {
    layer.data = { values: layer.name === "halo" && !free ? [] : labels };
    layer.transform = [];
    layer.encoding.x = { value: "width" };
    layer.encoding.y = { field: "place", type: "quantitative", scale: null };
  }
}

/** Returns the rows of the names of curves. @param {LayeredSpec} spec */
function namesIn(spec) {
  return spec.layer.find(({ name }) => name === "label")?.data?.values ?? [];
}

/** Returns what labels of rules take at the top of the plot. @param {LayeredSpec} spec */
function heightOfLabels(spec) {
  return spec.layer.some(({ name = "" }) => name.endsWith("_label")) ? LABELS_OF_RULES : 0;
}

/**
 * Returns the line of a curve in the plot.
 * @param {Row} row of its name
 * @param {LayeredSpec} spec
 * @param {Range} steps that are shown
 * @param {Scale} scale
 * @returns {NamedLine}
 */
function lineOf({ series = "", label }, spec, steps, scale) {
  const [first, last] = steps;
  const values = valuesOf(spec.data.values, series, steps);
  return {
    name: String(label ?? series),
    x: values.map(({ step }) => (step - first) / (last - first || 1)),
    y: values.map(({ value }) => spec.height * (1 - depthOf(value, scale))),
  };
}

/**
 * Returns places of names that have no room beside all lines: near their ends, and moved apart.
 * @param {NamedLine[]} lines
 * @param {number} height of the plot, without what other labels take at its top
 */
function crowded(lines, height) {
  const wanted = lines.map((line) => {
    const end = line.y[line.y.length - 1];
    return Math.max(end + (falls(line) ? -BELOW : ABOVE), 3);
  });
  const order = wanted.map((_, k) => k).sort((a, b) => wanted[a] - wanted[b]);
  order.forEach((k, rank) => {
    const below = order[rank - 1];
    if (rank) wanted[k] = Math.max(wanted[k], wanted[below] + GAP);
  });
  order.forEach((k, rank) => {
    wanted[k] = Math.min(wanted[k], height - LETTERS - (order.length - 1 - rank) * GAP);
  });
  return wanted;
}

/** @param {Layer} layer */
function isOfNames({ name = "" }) {
  return LABELS.includes(name);
}

/**
 * Returns how far a value lies below the top of an axis, 1 at its bottom.
 * @param {number} value
 * @param {Scale} scale
 */
function depthOf(value, { type, domain }) {
  const onAxis = type === "log" ? Math.log : Number;
  const [bottom, top] = /** @type {Range} */ (domain).map(onAxis);
  return (top - onAxis(value)) / (top - bottom);
}

/**
 * Returns the values of a curve between two steps.
 * @param {Row[]} rows
 * @param {string | undefined} series
 * @param {Range} steps
 * @returns {{step: number, value: number}[]}
 */
function valuesOf(rows, series, [from, to]) {
  const found = [];
  for (const { series: of, step = NaN, value } of rows) {
    if (of === series && step >= from && step <= to && isFiniteNumber(value))
      found.push({ step, value });
  }
  return found;
}

/**
 * Returns the y encodings of all layers with a y axis, which have the same scale and title.
 * @param {Spec} spec
 * @returns {Axis[]}
 */
function yAxes(spec) {
  const channels = (spec.layer ?? []).map((layer) => layer.encoding?.y);
  const axes = channels.filter((channel) => channel?.axis && channel.scale);
  return /** @type {Axis[]} */ (axes);
}

/**
 * Returns the first and the last step of the axis of a chart over the steps.
 * @param {Spec} spec
 * @returns {Range | null}
 */
export function extentOf(spec) {
  const axis = spec.layer?.find(({ encoding }) => encoding.x?.axis)?.encoding.x;
  return axis?.scale?.domain ?? null;
}

/**
 * Returns the extent of the y values, null if a logarithmic axis cannot show all of them.
 * @param {Spec} spec
 * @param {Row[]} rows
 * @returns {Range | null}
 */
export function positive(spec, rows) {
  const [axis] = yAxes(spec);
  if (!axis || axis.scale.type) return null;
  // Bars begin at 0, which a logarithmic axis does not have.
  const hasPoints = spec.layer?.some(({ mark }) => ["line", "circle"].includes(mark.type));
  if (!hasPoints) return null;
  const shown = rows.filter(({ kept }) => kept !== false);
  const values = shown.map((row) => row[axis.field]).filter(isFiniteNumber);
  const low = Math.min(...values);
  const high = Math.max(...values);
  return low > 0 && high > low ? [low, high] : null;
}

/** @param {LayeredSpec} spec */
function makeLogarithmic(spec) {
  const extent = positive(spec, spec.data.values);
  if (!extent) return;
  const [low, high] = extent;
  const margin = (high / low) ** MARGIN;
  for (const axis of yAxes(spec)) {
    axis.scale = { type: "log", domain: [low / margin, high * margin], nice: false };
    axis.axis = { ...axis.axis, format: "~g", labelOverlap: true };
    axis.title = message("{axis}, logarithmic", { axis: axis.title });
  }
  spec.layer = spec.layer.filter(({ name }) => name !== "zero");
  for (const layer of spec.layer) {
    layer.mark = { ...layer.mark, clip: true };
    layer.transform = [...(layer.transform ?? []), ...cutAt(layer, low / margin)];
  }
}

/**
 * Returns transforms that raise a layer's values of 0 or below, which the axis lacks, to its edge.
 * @param {Layer} layer
 * @param {number} edge
 */
function cutAt(layer, edge) {
  const { y, y2 } = /** @type {{y?: Axis, y2?: Axis}} */ (layer.encoding);
  const fields = [y?.field, y2?.field].filter((field) => field !== undefined);
  return fields.map((field) => ({
    calculate: `isValid(datum['${field}']) ? max(datum['${field}'], ${edge}) : null`,
    as: field,
  }));
}
