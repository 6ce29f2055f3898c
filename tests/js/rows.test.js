import assert from "node:assert/strict";
import { test } from "node:test";
import { Rows, csvOf, formatSort, parseSort, toJson } from "../../static/js/list/rows.js";

const about = { unit: "", kind: "", written: "number", group: "", help: "", shown: true };

/** Returns rows of columns of numbers (NaN for missing ones) or of texts (null for missing ones). */
function rowsOf(columns) {
  const described = Object.entries(columns).map(([key, values]) => {
    const isText = values.every((value) => typeof value !== "number");
    const numbers = isText ? null : Float64Array.from(values);
    return { ...about, key, label: key, numbers, strings: isText ? values : null };
  });
  return new Rows(described, Object.values(columns)[0].length);
}

test("missing values are last in either direction", () => {
  const rows = rowsOf({ reward: [2, NaN, 1, 3], name: ["b", "a", null, "c"] });
  rows.sortBy([{ key: "reward", down: false }]);
  assert.deepEqual(rows.order, [2, 0, 3, 1]);
  rows.sortBy([{ key: "reward", down: true }]);
  assert.deepEqual(rows.order, [3, 0, 2, 1]);
  rows.sortBy([{ key: "name", down: true }]);
  assert.deepEqual(rows.order, [3, 0, 1, 2]);
});

test("equal rows are sorted by the next key, then as logged", () => {
  const rows = rowsOf({ a: [1, 1, 0, 1], b: [1, 2, 9, 1] });
  rows.sortBy([
    { key: "a", down: true },
    { key: "b", down: true },
  ]);
  assert.deepEqual(rows.order, [1, 0, 3, 2]);
});

test("a sort by an unknown column is the usual one", () => {
  const rows = rowsOf({ a: [1, 2] });
  rows.defaultSort = [{ key: "a", down: true }];
  rows.sortBy([{ key: "nothing", down: false }]);
  assert.deepEqual(rows.order, [1, 0]);
});

test("a search ignores case and white space, and looks at all texts", () => {
  const rows = rowsOf({
    prompt: ["Two  plus\ntwo", "x", null],
    answer: ["4", "TWO PLUS two", "5"],
  });
  rows.search("  two plus TWO ");
  assert.deepEqual(rows.order, [0, 1]);
});

test("a missing value is outside every range", () => {
  const rows = rowsOf({ reward: [0, NaN, 1] });
  rows.limit("reward", [-Infinity, Infinity]);
  assert.deepEqual(rows.order, [0, 2]);
  rows.limit("reward", null);
  assert.deepEqual(rows.order, [0, 1, 2]);
});

test("a chart's brush does not hide what the chart shows", () => {
  const rows = rowsOf({ a: [1, 2, 3], b: [1, 2, 3] });
  rows.limit("a", [2, 3]);
  rows.limit("b", [1, 2]);
  assert.deepEqual(rows.passing(), [1]);
  assert.deepEqual(rows.passing(new Set(["b"])), [1, 2]);
});

test("tools are filtered one by one, and whole", () => {
  const rows = rowsOf({ tools: ["search\ncalculator", "calc", null] });
  rows.filters = new Map([["tools", "All tools"]]);
  rows.require("tools", "calculator");
  assert.deepEqual(rows.order, [0]);
  rows.require("tools", "calc");
  assert.deepEqual(rows.order, [1]);
});

test("branches are listed only if their split is selected", () => {
  const rows = rowsOf({ "extra:split": ["train", "branch", null] });
  rows.update();
  assert.deepEqual(rows.order, [0, 2]);
  rows.require("extra:split", "branch");
  assert.deepEqual(rows.order, [1]);
});

test("sort keys are a text and back", () => {
  assert.deepEqual(parseSort("-reward,kl"), [
    { key: "reward", down: true },
    { key: "kl", down: false },
  ]);
  assert.equal(formatSort(parseSort("-reward,kl")), "-reward,kl");
});

test("a copied cell is no formula, and its control characters are written out", () => {
  const csv = csvOf(["a"], [["=1+1"], ["0007"], ['say "hi"'], ["\x1b[2J"], [-1.5], [null]]);
  assert.equal(csv, ["a", "'=1+1", "'0007", '"say ""hi"""', "\\x1b[2J", "-1.5", ""].join("\n"));
});

test("copied JSON has the listed rows in their order, and null for what is missing", () => {
  const rows = rowsOf({ reward: [1, NaN], name: ["a", null] });
  rows.sortBy([{ key: "reward", down: true }]);
  assert.deepEqual(JSON.parse(toJson(rows)), [
    { reward: 1, name: "a" },
    { reward: null, name: null },
  ]);
});

/** Returns rows with a column of levels, whose texts are translated and whose ids are not. */
function rowsOfLevels() {
  const levels = {
    ...about,
    key: "verdict",
    label: "verdict",
    numbers: null,
    strings: ["健康", "故障", "警告", "健康"],
    ids: ["healthy", "critical", "warning", "healthy"],
    ranks: Float64Array.of(5, 0, 1, 5),
  };
  return new Rows([levels], 4);
}

test("rows with one of several ids are listed, and all without any", () => {
  const rows = rowsOfLevels();
  rows.toggleOnly("verdict", "critical");
  assert.deepEqual(rows.order, [1]);
  rows.toggleOnly("verdict", "healthy");
  assert.deepEqual(rows.order, [0, 1, 3]);
  assert.deepEqual(rows.passing(new Set(["verdict"])), [0, 1, 2, 3]);
  rows.toggleOnly("verdict", "critical");
  rows.toggleOnly("verdict", "healthy");
  assert.deepEqual(rows.order, [0, 1, 2, 3]);
  assert.equal(rows.isFiltered, false);
});

test("levels are sorted by their severity, not by their words", () => {
  const rows = rowsOfLevels();
  rows.sortBy([{ key: "verdict", down: false }]);
  assert.deepEqual(rows.order, [1, 2, 0, 3]);
});

test("a search finds what is in hidden columns only where cells show hits elsewhere", () => {
  const column = (key, strings, shown) => ({ key, kind: "text", strings, numbers: null, shown });
  const rows = new Rows([column("run", ["a", "b"], true), column("path", ["b", "b"], false)], 2);
  rows.search("b");
  assert.deepEqual(rows.order, [1]);
  rows.scopes = ["response"];
  rows.forgetTexts();
  rows.search("b");
  assert.deepEqual(rows.order, [0, 1]);
});
