import assert from "node:assert/strict";
import { test } from "node:test";
import { isSame, stepsOf, zoomOf, zoomText } from "../../static/js/charts/zoom.js";

test("a zoom is the same after it was in an address", () => {
  for (const zoom of [
    [20, 48],
    [-3, 2],
    [-9, -4],
    [0.5, 1.25],
    [0, 1000000],
  ]) {
    assert.deepEqual(zoomOf(zoomText(zoom)), zoom);
  }
});

test("a drag ends at whole steps, unless it holds only few of them", () => {
  assert.equal(zoomText([19.7, 48.2]), "20-48");
  assert.equal(zoomText([19.75, 21.25]), "19.75-21.25");
});

test("what is no range of steps does not zoom", () => {
  for (const text of [null, "", "20", "48-20", "20-20", "a-b", "1e3-2e3", "20-48-50", "<b>-2"]) {
    assert.equal(zoomOf(text), null, String(text));
  }
});

test("steps of rows are those of all rows, in any order", () => {
  assert.deepEqual(stepsOf([{ step: 5 }, { step: -1 }, {}, { step: 3 }]), [-1, 5]);
  assert.equal(stepsOf([{ step: 5 }]), null);
  assert.ok(isSame(null, null) && isSame([1, 2], [1, 2]));
  assert.ok(!isSame([1, 2], null) && !isSame([1, 2], [1, 3]));
});
