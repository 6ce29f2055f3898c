import assert from "node:assert/strict";
import { test } from "node:test";
import { stretchedPath } from "../../static/js/charts/still.js";
import { composed, withDensity, wrapped } from "../../static/js/shared/pictures.js";

/** Every character is as wide as 60% of its size. */
const measure = (text, size) => 0.6 * size * [...text].length;
const page = { measure, colourOf: (name) => `<${name}>`.replace(/[<>]/g, "#") };
const DRAWING =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 425 100"><path stroke="var(--policy)"/></svg>';

test("a text is broken between words, beside Chinese characters, and within very long words", () => {
  const widthOf = (text) => text.length;
  assert.deepEqual(wrapped("one two three", 8, widthOf), ["one two", "three"]);
  assert.deepEqual(wrapped("奖励在第三步下降", 4, widthOf), ["奖励在第", "三步下降"]);
  assert.deepEqual(wrapped("abcdefghij", 4, widthOf), ["abcd", "efgh", "ij"]);
  assert.deepEqual(wrapped("", 4, widthOf), []);
  assert.deepEqual(wrapped("steps 0–59; run\u00a0x", 13, widthOf), ["steps 0–59;", "run\u00a0x"]);
});

test("a picture has its size in mm, its words, and the light colours", () => {
  const words = { title: "A & <b>", caption: "caption ".repeat(20).trim() };
  const picture = composed(DRAWING, words, 85, page);
  assert.match(picture, /^<svg [^>]*width="85mm" height="[\d.]+mm" viewBox="0 0 425 [\d.]+"/);
  assert.match(picture, /A &amp; &lt;b&gt;/);
  assert.ok(picture.match(/<text [^>]*>caption/g).length > 1, "a long caption has several lines");
  assert.match(picture, /stroke="#policy#"/);
  assert.doesNotMatch(picture, /var\(/);
  assert.match(picture, /<svg x="8" y="5" width="409"/, "a small margin");
});

test("names of curves stand in rows above the drawing, as many as there is room for", () => {
  const entry = (title) => ({ title, colour: "var(--policy)", dash: "6,3" });
  const key = ["first", "second", "x".repeat(40)].map(entry);
  const picture = composed(DRAWING, { title: "T", caption: "", key }, 85, page);
  const heights = [...picture.matchAll(/<path d="M[\d.]+ ([\d.]+)h22"/g)].map(([, y]) => Number(y));
  assert.equal(heights.length, 3);
  assert.equal(heights[0], heights[1]);
  assert.ok(heights[2] > heights[1]);
});

test("a drawing without a size is refused", () => {
  const words = { title: "T", caption: "" };
  assert.throws(() => composed("<svg></svg>", words, 85, page), /no size/);
});

test("a path is stretched across alone", () => {
  assert.equal(stretchedPath("M10,5L20,6h4v3H8V1Z", 2), "M20 5L40 6h8v3H16V1Z");
  assert.equal(stretchedPath("M1 2h0M3 4h0", 10), "M10 2h0M30 4h0");
  assert.equal(stretchedPath("M-1.5,2v-3", 2), "M-3 2v-3");
});

test("a PNG says that it has 300 dots per inch", () => {
  const png = new Uint8Array(60).map((_, k) => k);
  const dense = withDensity(png);
  assert.equal(dense.length, 81);
  assert.deepEqual([...dense.slice(0, 33)], [...png.slice(0, 33)]);
  assert.deepEqual([...dense.slice(54)], [...png.slice(33)]);
  const chunk = new DataView(dense.buffer, 33, 21);
  assert.equal(String.fromCharCode(...dense.slice(37, 41)), "pHYs");
  assert.equal(chunk.getUint32(8), 11811);
  assert.equal(chunk.getUint32(17), 0x78a53f76); // as other programs write it
});
