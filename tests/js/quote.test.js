import assert from "node:assert/strict";
import { test } from "node:test";

import { partsWithQuote, quoteSpan } from "../../static/js/shared/quote.js";

/** @param {string} text @param {string} quote */
function found(text, quote) {
  const span = quoteSpan(text, quote);
  return span && text.slice(...span);
}

test("white space of a quote may differ in length and kind", () => {
  assert.equal(found("It is\n\n  very good.", "is very\tgood"), "is\n\n  very good");
  assert.equal(found("a b", "a b"), "a b");
  assert.equal(found("  a", " a "), "a");
});

test("a quote that is not there, or is blank, has no place", () => {
  assert.equal(found("It is good.", "It is bad"), null);
  assert.equal(found("It is good.", "it is"), null);
  assert.equal(found("a b", " \n"), null);
  assert.equal(found("", "a"), null);
});

test("places are right after emoji and Chinese text", () => {
  assert.equal(found("这家店 🎉🎉 很  好。", "🎉 很 好"), "🎉 很  好");
});

test("the tokens of a quote are those that have a part of it", () => {
  const tokens = ["It", " is", "\n", "", " ver", "y good", "."];
  assert.deepEqual(partsWithQuote(tokens, "is very"), [1, 6]);
  assert.deepEqual(partsWithQuote(tokens, "."), [6, 7]);
  assert.deepEqual(partsWithQuote(tokens, "It"), [0, 1]);
  assert.equal(partsWithQuote(tokens, "was"), null);
  assert.deepEqual(partsWithQuote(["a", "", "", "🎉", "b"], "🎉"), [1, 4]);
});
