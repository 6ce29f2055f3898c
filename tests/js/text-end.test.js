import assert from "node:assert/strict";
import { test } from "node:test";

import { beginsInside, endOf } from "../../static/js/response/text-end.js";

test("a short text is its own end, without the space behind it", () => {
  assert.equal(endOf("It is 42.\n\n"), "It is 42.");
  assert.equal(endOf(""), "");
});

test("the end of a long text begins at a word", () => {
  const text = `${"word ".repeat(100)}answer`;
  const end = endOf(text, 30);
  assert.ok(end.length <= 30);
  assert.ok(end.startsWith("word "));
  assert.ok(text.endsWith(end));
  assert.equal(beginsInside(text, end), false);
});

test("a text without spaces is cut between its characters", () => {
  const text = "答案是四十二".repeat(100);
  const end = endOf(text, 31);
  assert.equal(end.length, 31);
  assert.equal(beginsInside(text, end), true);
});

test("no character is cut in two, however many code points it has", () => {
  const family = "👩‍👩‍👧";
  for (let most = 1; most < 3 * family.length; most += 1) {
    const end = endOf(family.repeat(20), most);
    assert.equal(end.length % family.length, 0, `${most}: ${end}`);
    assert.ok(end.length > 0 && end.length <= Math.max(most, family.length));
  }
});
