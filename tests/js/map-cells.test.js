import assert from "node:assert/strict";
import { test } from "node:test";
import { addressOf, boxOf, cellAt, moved, wordsOf } from "../../static/js/prompts/map-cells.js";

/** Three prompts of the training and one of validation, at two columns of two steps and one of one. */
const DATA = {
  prompts: [7, 8, 9, 4],
  names: ["a", "b", "c", "d"],
  linked: [1, 0, 1, 1],
  low: [0, 2, 4],
  high: [1, 3, 4],
  count: [8, 8, 0, 8, 8, 8, 1, 8, 8, 8, 8, 8],
  value: [3, 8, null, 0, 0, 0, 1, 4, 4, 4, 4, 4],
  measure: "solved",
  training: 3,
  gap: 6,
  row: 10,
  address: "prompts.html#p={prompt}",
};

test("a place on the map is the cell that is drawn there", () => {
  for (let row = 0; row < 4; row += 1) {
    for (let column = 0; column < 3; column += 1) {
      const box = boxOf(DATA, { row, column });
      const cell = cellAt(DATA, box.left + box.width / 2, box.top + box.height / 2);
      assert.deepEqual(cell, { row, column });
    }
  }
});

test("between training and validation there is no cell", () => {
  assert.equal(cellAt(DATA, 0.5, 33), null);
  assert.deepEqual(cellAt(DATA, 1, 46), { row: 3, column: 2 });
});

test("keys move to the next cell and stop at the edges", () => {
  const first = { row: 0, column: 0 };
  assert.deepEqual(moved(DATA, first, "ArrowDown"), { row: 1, column: 0 });
  assert.deepEqual(moved(DATA, first, "ArrowUp"), first);
  assert.deepEqual(moved(DATA, first, "End"), { row: 0, column: 2 });
  assert.deepEqual(moved(DATA, { row: 3, column: 2 }, "ArrowRight"), { row: 3, column: 2 });
  assert.deepEqual(moved(DATA, first, "PageDown"), { row: 3, column: 0 });
  assert.equal(moved(DATA, first, "x"), null);
});

test("a cell says its steps and what its responses earned", () => {
  assert.equal(wordsOf(DATA, { row: 0, column: 0 }), "steps 0–1: 3 of 8 solved");
  assert.equal(wordsOf(DATA, { row: 0, column: 2 }), "step 4: no response");
  const rewards = { ...DATA, measure: "reward" };
  assert.equal(
    wordsOf(rewards, { row: 2, column: 0 }),
    "steps 0–1: mean reward 1.00 of 1 response",
  );
});

test("a prompt without a response in the report has no address", () => {
  assert.equal(addressOf(DATA, 0), "prompts.html#p=7");
  assert.equal(addressOf(DATA, 1), null);
});
