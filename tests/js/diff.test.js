import assert from "node:assert/strict";
import { test } from "node:test";
import { difference, words } from "../../static/js/response/diff.js";

const side = (runs, without) =>
  runs
    .filter(({ kind }) => kind !== without)
    .map(({ text }) => text)
    .join("");

test("the runs of either side are that side's text", () => {
  const pieces = ["a ", "b", "  c", "中", "\n", "a "];
  for (let k = 0; k < 400; k += 1) {
    const text = (seed) =>
      Array.from({ length: (seed * 7) % 9 }, (_, i) => pieces[(seed * (i + 3)) % 6]).join("");
    const before = text(k);
    const after = text(k * 5 + 1);
    const runs = difference(before, after);
    assert.equal(side(runs, "added"), before);
    assert.equal(side(runs, "removed"), after);
  }
});

test("equal texts are one run, and empty ones none", () => {
  assert.deepEqual(difference("a b", "a b"), [{ kind: "same", text: "a b" }]);
  assert.deepEqual(difference("", ""), []);
});

test("a changed word is removed and added, nothing more", () => {
  assert.deepEqual(difference("one two three", "one 2 three"), [
    { kind: "same", text: "one " },
    { kind: "removed", text: "two" },
    { kind: "added", text: "2" },
    { kind: "same", text: " three" },
  ]);
});

test("in Chinese, characters are compared", () => {
  assert.deepEqual(words("你好 ok"), ["你", "好", " ", "ok"]);
});

test("texts that differ too much are not compared", () => {
  const numbers = (from) => Array.from({ length: 1500 }, (_, i) => from + i).join(" ");
  assert.equal(difference(numbers(0), numbers(1e6)), null);
});
