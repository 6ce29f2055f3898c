import assert from "node:assert/strict";
import { test } from "node:test";
import { Rows } from "../../static/js/list/rows.js";
import { readEntries, toEntries } from "../../static/js/list/table-state.js";

function someRows() {
  const about = { unit: "", kind: "", written: "number", group: "", help: "", shown: true };
  const rows = new Rows(
    [
      { ...about, key: "reward", label: "Reward", numbers: Float64Array.of(1, 2), strings: null },
      { ...about, key: "name", label: "Name", numbers: null, strings: ["a", "b"] },
      { ...about, key: "tools", label: "Tools", numbers: null, strings: ["Calc", null] },
      { ...about, key: "level", label: "Level", numbers: null, strings: ["", ""], ids: ["a", "b"] },
    ],
    2,
  );
  rows.filters = new Map([["tools", "All tools"]]);
  return rows;
}

test("what is written is read again", () => {
  const entries = [
    ["sort", "-reward"],
    ["q", "two words"],
    ["min.reward", "0.5"],
    ["max.reward", "2"],
    ["is.level", "a,b"],
    ["has.name", "a"],
    ["has.tools", "Calc"],
  ];
  const rows = someRows();
  readEntries(rows, entries);
  assert.deepEqual(toEntries(rows), entries);
});

test("what a table has not is ignored", () => {
  const rows = someRows();
  readEntries(rows, [
    ["sort", "-nothing"],
    ["min.name", "1"],
    ["min.reward", "many"],
    ["max.reward", " "],
    ["has.reward", "1"],
    ["has.nothing", "x"],
    ["is.level", "c,constructor"],
    ["is.name", "a"],
  ]);
  assert.deepEqual(toEntries(rows), []);
});

test("words are compared in lower case, values of a select as they are", () => {
  const rows = someRows();
  readEntries(rows, [
    ["has.name", " A "],
    ["has.tools", "Calc"],
  ]);
  assert.deepEqual(
    [...rows.words],
    [
      ["name", "a"],
      ["tools", "Calc"],
    ],
  );
});

test("what the address no longer says is forgotten", () => {
  const rows = someRows();
  readEntries(rows, [["min.reward", "1"]]);
  readEntries(rows, []);
  assert.equal(rows.ranges.size, 0);
});
