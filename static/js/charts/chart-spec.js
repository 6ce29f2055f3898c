/** Adapts a chart's specification to the page's theme, zoom and scale. */

/** @import { Axis, Layer, LayeredSpec, Range, Row, Scale, Spec } from "./spec.d.ts" */

import { recoloured } from "./colours.js";
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

/** Minimum distance of two curve names at the right edge, in pixels. */
const LABEL_GAP = 13;

/** Margin of an axis beyond its values, as a share of their extent. */
const MARGIN = 0.06;

/** Layers of the names of curves: the page's colour behind them, and the names. */
const LABELS = ["halo", "label"];
/** Where names of curves stand, see `_labels` in rlreport/draw/curves.py. */
const LABEL_ABOVE = 6;
const LABEL_BELOW = 13;
const FALLING_PIXELS = 8;
const FALLING_PART = 0.12;
/** Least distance of a name from the top of the plot, in pixels; where rules have labels, more. */
const LABEL_TOP = 8;
const BELOW_RULES = 21;
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
 * Places the names of curves at the right edge, each above the last visible value of its curve, or
 * below it where the curve falls. `_labels` in rlreport/draw/curves.py does the same.
 * @param {LayeredSpec} spec
 * @param {Range | null} shownSteps null for all
 */
function placeLabels(spec, shownSteps) {
  const layers = spec.layer.filter(isOfNames);
  const [axis] = yAxes(spec);
  const steps = shownSteps ?? stepsOf(spec.data.values);
  if (!axis?.scale.domain || !steps) return;
  const hasRules = spec.layer.some(({ name = "" }) => name.endsWith("_label"));
  for (const layer of layers) {
    const named = (layer.data ?? { values: [] }).values.map((label) => {
      const values = valuesOf(spec.data.values, label.series, steps);
      return { ...label, place: baselineOf(values, steps, spec.height, axis.scale) };
    });
    const labels = named.filter(({ place }) => Number.isFinite(place));
    moveApart(labels, hasRules ? BELOW_RULES : LABEL_TOP);
    layer.data = { values: labels };
    layer.transform = [];
    layer.encoding.x = { value: "width" };
    layer.encoding.y = { field: "place", type: "quantitative", scale: null };
  }
}

/** @param {Layer} layer */
function isOfNames({ name = "" }) {
  return LABELS.includes(name);
}

/**
 * Returns the baseline of a curve's name in pixels from the top, NaN if the curve has no value.
 * @param {{step: number, value: number}[]} values
 * @param {Range} steps that are shown
 * @param {number} height of the plot
 * @param {Scale} scale
 */
function baselineOf(values, [first, last], height, scale) {
  const near = last - FALLING_PART * (last - first);
  const before = values.find(({ step }) => step >= near) ?? values.at(-1);
  const end = height * depthOf(values.at(-1)?.value ?? NaN, scale);
  const falls = end - height * depthOf(before?.value ?? NaN, scale) > FALLING_PIXELS;
  return Math.min(end + (falls ? LABEL_BELOW : -LABEL_ABOVE), height - 3);
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
 * Moves names of curves up until none covers another, and down where the topmost leaves the plot.
 * @param {{place: number}[]} labels
 * @param {number} top
 */
function moveApart(labels, top) {
  labels.sort((a, b) => b.place - a.place); // the lowest first
  for (let k = 1; k < labels.length; k += 1) {
    labels[k].place = Math.min(labels[k].place, labels[k - 1].place - LABEL_GAP);
  }
  labels.forEach((label, k) => {
    label.place = Math.max(label.place, top + (labels.length - 1 - k) * LABEL_GAP);
  });
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
