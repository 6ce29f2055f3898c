import assert from "node:assert/strict";
import { test } from "node:test";
import { Scale, extremes, valuesOf } from "../../static/js/response/metrics.js";

const metric = (key, signed = false) => ({ key, signed, label: key, unit: "", help: "" });

function tokens(columns) {
  const entries = Object.entries(columns).map(([key, values]) => [key, Float64Array.from(values)]);
  return { ids: new Uint32Array(entries[0][1].length), columns: new Map(entries) };
}

test("what is not shipped is derived from what is", () => {
  const data = tokens({ logp: [-1, -2], log_ratio: [0.5, -0.5] });
  assert.deepEqual([...valuesOf(data, "ref_logp")], [-1.5, -1.5]);
  assert.deepEqual([...valuesOf(data, "surprisal")], [1, 2]);
  assert.equal(valuesOf(data, "value_error"), null);
});

test("the KL of a small log-ratio keeps its digits", () => {
  const ratios = [1e-9, -1e-6, 0.01, 0.1249, 0.2];
  const data = tokens({ log_ratio: ratios });
  const kl = valuesOf(data, "kl");
  ratios.forEach((ratio, k) => {
    // x²/2 − x³/6 + x⁴/24 − …, summed from the smallest term.
    let series = 0;
    let factorial = 1;
    const terms = [];
    for (let n = 1; n <= 30; n += 1) {
      factorial *= n;
      if (n >= 2) terms.push((-ratio) ** n / factorial);
    }
    for (const term of terms.reverse()) series += term;
    assert.ok(Math.abs(kl[k] / series - 1) < 1e-13, `${ratio}`);
  });
});

test("a missing value is missing in what is derived from it", () => {
  const data = tokens({ value: [1, NaN], advantage: [NaN, 1] });
  assert.deepEqual([...valuesOf(data, "return")], [NaN, NaN]);
});

test("unlikely tokens are extreme, and both ends of a signed metric are", () => {
  const values = Float64Array.from([-3, NaN, 2, -0.1]);
  assert.deepEqual(extremes(values, metric("logp")), [0, 3, 2]);
  assert.deepEqual(extremes(values, metric("log_ratio", true)), [0, 2, 3]);
});

test("extremes of values are counted from their median", () => {
  const values = Float64Array.from([10, 11, 12, 1]);
  assert.equal(extremes(values, metric("value", true))[0], 3);
});

test("an outlier does not make all other values pale", () => {
  const values = Float64Array.from({ length: 200 }, (_, i) => (i === 0 ? 1000 : i / 200));
  const scale = new Scale(values, metric("kl"));
  assert.ok(scale.high < 1);
  assert.ok(scale.clipped >= 1);
  assert.equal(scale.className(1000), "seq-9");
});

test("a colour scale of probabilities is from 0 to 1, dark where a token was unlikely", () => {
  const scale = new Scale(Float64Array.from([0.5, 0.6]), metric("prob"));
  assert.deepEqual([scale.low, scale.high], [0, 1]);
  assert.equal(scale.className(0), "seq-9");
  assert.equal(scale.className(1), "seq-1");
});

test("a scale of equal values, or of none, still has colours", () => {
  assert.equal(new Scale(Float64Array.from([0, 0]), metric("kl")).className(0), "seq-1");
  assert.equal(new Scale(Float64Array.from([NaN]), metric("kl", true)).className(NaN), "none");
});

test("the largest numbers have the colours of the ends", () => {
  const scale = new Scale(Float64Array.from([-1e308, 0, 1e308]), metric("kl", true));
  const names = [-1e308, 0, 1e308, Infinity].map((value) => scale.className(value));
  assert.deepEqual(names, ["div-1", "div-6", "div-11", "div-11"]);
});
