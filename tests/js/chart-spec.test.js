import assert from "node:assert/strict";
import { test } from "node:test";
import { positive, specFor } from "../../static/js/charts/chart-spec.js";

const NONE = new Map();
const STILL = { zoom: null, log: false, smoothing: "auto" };

/** Returns a chart of one curve over the steps, with its name at the right edge. */
function chart(values) {
  return {
    height: 100,
    data: { values: values.map((value, step) => ({ step, series: "policy", value })) },
    params: [{ name: "at" }, { name: "smoothing", value: 0, bind: {} }],
    layer: [
      {
        name: "line",
        mark: { type: "line", color: "#AABBCC" },
        encoding: {
          x: { field: "step", axis: {}, scale: {} },
          y: { field: "value", title: "Reward", axis: {}, scale: { domain: [0, 10] } },
        },
      },
      { name: "interaction", mark: { type: "rule" }, encoding: {} },
      {
        name: "label",
        mark: { type: "text" },
        encoding: {},
        data: { values: [{ series: "policy" }] },
      },
      { name: "marked_bar", mark: { type: "bar" }, encoding: {} },
    ],
  };
}

const layer = (spec, name) => spec.layer.find((one) => one.name === name);

test("the report's specification is not changed", () => {
  const spec = chart([1, 2, 3]);
  const before = structuredClone(spec);
  specFor(spec, NONE, { zoom: [0, 1], log: true, smoothing: 0.5 });
  assert.deepEqual(spec, before);
});

test("colours are those of the theme", () => {
  const spec = specFor(chart([1]), new Map([["#aabbcc", "#112233"]]), STILL);
  assert.equal(layer(spec, "line").mark.color, "#112233");
});

test("a zoom shows its steps, and the values at them with a margin", () => {
  const spec = specFor(chart([0, 4, 6, 100]), NONE, { ...STILL, zoom: [1, 2] });
  const { x, y } = layer(spec, "line").encoding;
  assert.deepEqual(x.scale.domain, [1, 2]);
  assert.ok(y.scale.domain[0] < 4 && y.scale.domain[0] > 3.8);
  assert.ok(y.scale.domain[1] > 6 && y.scale.domain[1] < 6.2);
  assert.equal(layer(spec, "marked_bar"), undefined);
});

test("a curve's name is above its end, or below it where the curve falls", () => {
  const values = [...Array(50).fill(5), 5, 4, 3, 2, 9];
  const placeIn = (zoom) => {
    const spec = specFor(chart(values), NONE, { ...STILL, zoom });
    return layer(spec, "label").data.values[0].place;
  };
  assert.equal(placeIn([0, 49]), 50 - 6); // level, in the middle of the axis
  // The last value is near the lower end, and its name stays in the plot.
  assert.equal(placeIn([0, 53]), 97);
});

test("names of curves that end alike are above and below them", () => {
  const spec = chart([5, 5]);
  spec.data.values.push({ step: 1, series: "reference", value: 5 });
  layer(spec, "label").data.values.push({ series: "reference" });
  const log = specFor(spec, NONE, { ...STILL, zoom: [0, 1] });
  const [policy, reference] = layer(log, "label").data.values;
  assert.equal(policy.place, 50 - 6);
  assert.equal(reference.place, 50 + 13);
});

test("names without room beside the lines do not hide them", () => {
  const spec = chart([9.9, 9.9]);
  for (const [series, value] of [
    ["b", 9.8],
    ["c", 9.7],
  ]) {
    spec.data.values.push({ step: 0, series, value }, { step: 1, series, value });
    layer(spec, "label").data.values.push({ series });
  }
  spec.layer.push({ ...layer(spec, "label"), name: "halo" });
  const shown = specFor(spec, NONE, { ...STILL, zoom: null, placesLabels: true });
  assert.deepEqual(layer(shown, "halo").data.values, []);
  const places = layer(shown, "label").data.values.map(({ place }) => place);
  assert.ok(places.every((place, k) => k === 0 || Math.abs(place - places[k - 1]) >= 13));
});

test("a logarithmic axis is offered for lines of positive values alone", () => {
  const rows = (...values) => values.map((value) => ({ value, kept: true }));
  assert.deepEqual(positive(chart([]), rows(1, 10, null)), [1, 10]);
  assert.equal(positive(chart([]), rows(0, 10)), null);
  assert.equal(positive(chart([]), rows(2, 2)), null);
  const bars = chart([]);
  layer(bars, "line").mark.type = "bar";
  assert.equal(positive(bars, rows(1, 10)), null);
});

test("a logarithmic axis says that it is one", () => {
  const spec = specFor(chart([1, 100]), NONE, { ...STILL, log: true });
  const { y } = layer(spec, "line").encoding;
  assert.equal(y.scale.type, "log");
  assert.equal(y.title, "Reward, logarithmic");
});

test("smoothing is asked once for all charts, not by each", () => {
  const spec = specFor(chart([1]), NONE, { ...STILL, smoothing: 0.7 });
  const { value, bind } = spec.params.find(({ name }) => name === "smoothing");
  assert.equal(value, 0.7);
  assert.equal(bind, undefined);
});
