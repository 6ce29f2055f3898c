import assert from "node:assert/strict";
import { test } from "node:test";
import {
  boxOf,
  changeOf,
  columnAt,
  moved,
  promptOf,
  rewardsOf,
  spoken,
} from "../../static/js/prompts/side-cells.js";

/** Three prompts, of which the list has the first and the last one. */
const DATA = {
  prompts: [7, 8, 9],
  names: ["How many?", "", "How far?"],
  rows: [1, 0, 2],
  base: [1, 0.5, null],
  new: [0, 0.5, 1],
  change: ["regressed", "same", "improved"],
  words: { regressed: "Regressed", same: "Same within noise", improved: "Improved" },
  sides: ["group_size 8", "group_size 4"],
};

test("a place on the map is the column that is drawn there", () => {
  for (let column = 0; column < 3; column += 1) {
    const box = boxOf(DATA, { row: 0, column }, 70);
    assert.equal(box.height, 70);
    assert.deepEqual(columnAt(DATA, box.left + box.width / 2), { row: 0, column });
  }
  assert.equal(columnAt(DATA, 1).column, 2);
  assert.equal(columnAt(DATA, -0.01).column, 0);
});

test("keys move along the prompts and stop at the ends", () => {
  const at = (/** @type {number} */ column) => ({ row: 0, column });
  assert.deepEqual(moved(DATA, at(0), "ArrowRight"), at(1));
  assert.deepEqual(moved(DATA, at(0), "ArrowLeft"), at(0));
  assert.deepEqual(moved(DATA, at(1), "PageDown"), at(2));
  assert.deepEqual(moved(DATA, at(1), "Home"), at(0));
  assert.deepEqual(moved(DATA, at(1), "End"), at(2));
  assert.equal(moved(DATA, at(1), "ArrowDown"), null);
  assert.equal(moved(DATA, at(1), "constructor"), null);
});

test("a column says what became of its prompt, with both rewards under the sides' names", () => {
  assert.equal(changeOf(DATA, { row: 0, column: 0 }), "Regressed");
  assert.deepEqual(rewardsOf(DATA, { row: 0, column: 2 }), [
    { label: "group_size 8", value: "–" },
    { label: "group_size 4", value: "1.00" },
  ]);
  assert.deepEqual(promptOf(DATA, { row: 0, column: 0 }), {
    label: "Prompt 7",
    value: "How many?",
  });
  const words = spoken(DATA, { row: 0, column: 0 });
  assert.equal(words, "How many?, Regressed, group_size 8: 1.00, group_size 4: 0");
  // A prompt that the list does not have is named by its number.
  assert.ok(spoken(DATA, { row: 0, column: 1 }).startsWith("Prompt 8, Same within noise"));
});
