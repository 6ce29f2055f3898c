import assert from "node:assert/strict";
import { test } from "node:test";
import {
  countsOf,
  cutOffTest,
  isOverpaid,
  isPressed,
  press,
  trustworthy,
} from "../../static/js/list/presets.js";
import { Rows } from "../../static/js/list/rows.js";
import { readEntries, toEntries } from "../../static/js/list/table-state.js";

const WORST = { key: "worst", sort: "reward", ranges: { reward: [null, 0] } };
const BEST = { key: "best", sort: "-reward", ranges: { reward: [1, null] } };
const ERRORS = { key: "errors", sort: "", words: { name: "Fault" } };
const PRESETS = [WORST, BEST, ERRORS];

function someRows() {
  const about = { unit: "", kind: "", written: "number", group: "", help: "", shown: true };
  const reward = Float64Array.of(1, 0, 2, -1, NaN);
  const rows = new Rows(
    [
      { ...about, key: "reward", label: "Reward", numbers: reward, strings: null },
      {
        ...about,
        key: "name",
        label: "Name",
        numbers: null,
        strings: ["a", "b", "fault", null, "a fault"],
      },
    ],
    5,
  );
  rows.update();
  return rows;
}

test("a preset filters and sorts, and a second press undoes both", () => {
  const rows = someRows();
  press(WORST, PRESETS, rows);
  assert.deepEqual(rows.order, [3, 1]);
  assert.ok(isPressed(WORST, rows));
  press(WORST, PRESETS, rows);
  assert.deepEqual(rows.order, [0, 1, 2, 3, 4]);
  assert.ok(!isPressed(WORST, rows));
});

test("another preset takes the place of the pressed one", () => {
  const rows = someRows();
  press(ERRORS, PRESETS, rows);
  assert.deepEqual(rows.order, [2, 4]);
  press(BEST, PRESETS, rows);
  assert.deepEqual(rows.order, [2, 0]);
  assert.equal(rows.words.size, 0);
});

test("a preset keeps the reader's own search, and a sort chosen after it", () => {
  const rows = someRows();
  rows.search("fault");
  press(BEST, PRESETS, rows);
  assert.deepEqual(rows.order, [2]);
  rows.sortBy([{ key: "name", down: false }]);
  assert.ok(isPressed(BEST, rows));
  press(BEST, PRESETS, rows);
  assert.deepEqual(rows.sort, [{ key: "name", down: false }]);
  assert.equal(rows.query, "fault");
});

test("a count is that of the rows which a press would list", () => {
  const rows = someRows();
  assert.deepEqual(countsOf(PRESETS, rows), [2, 2, 2]);
  press(WORST, PRESETS, rows);
  assert.deepEqual(countsOf(PRESETS, rows), [2, 2, 2]);
  rows.search("fault");
  assert.deepEqual(countsOf(PRESETS, rows), [0, 1, 2]);
});

test("the address holds a preset as its filter and sort", () => {
  const rows = someRows();
  press(BEST, PRESETS, rows);
  const entries = toEntries(rows);
  assert.deepEqual(entries, [
    ["sort", "-reward"],
    ["min.reward", "1"],
  ]);
  const again = someRows();
  readEntries(again, entries);
  assert.ok(isPressed(BEST, again));
});

test("which responses were cut off is what their preset lists", () => {
  const rows = someRows();
  const isCut = cutOffTest([{ key: "cut_off", sort: "", ranges: { reward: [null, 0] } }], rows);
  assert.deepEqual([0, 1, 2, 3, 4].map(isCut), [false, true, false, true, false]);
  assert.ok(!cutOffTest(PRESETS, rows)(1));
});

test("low rewards are not called the worst where high ones are not earned", () => {
  assert.ok(!isOverpaid("4", { overpaid: [5, 9] }));
  assert.ok(isOverpaid("5", { overpaid: [5, 9] }));
  assert.ok(!isOverpaid("10", { overpaid: [5, 9] }));
  assert.ok(isOverpaid("10", { overpaid: [5, null] }));
  assert.ok(!isOverpaid("10", {}) && !isOverpaid("10", null));
  assert.deepEqual(trustworthy(PRESETS, true), [BEST, ERRORS]);
  assert.deepEqual(trustworthy(PRESETS, false), PRESETS);
  const cited = { ...WORST, ranges: undefined, words: { name: "fault" } };
  assert.deepEqual(trustworthy([cited], true), [cited]);
});
