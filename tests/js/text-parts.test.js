import assert from "node:assert/strict";
import { test } from "node:test";
import {
  BOTH_ENDS,
  END_CHARS,
  END_ONLY,
  HEAD_CHARS,
  partsOf,
} from "../../static/js/list/text-parts.js";

test("a shared beginning is hidden, the longest one, but never a whole text", () => {
  const prefixes = ["Be brief. ", "Be brief. Sum "];
  assert.deepEqual(partsOf("Be brief. Sum 1", prefixes, null), {
    shared: "Be brief. Sum ",
    head: "1",
    middle: "",
    end: "",
  });
  assert.equal(partsOf("Be brief. ", prefixes, null).shared, "");
});

test("of a text that was cut off, the middle is hidden and the end is shown", () => {
  const text = `${"a".repeat(HEAD_CHARS)}${"b".repeat(7)}${"c".repeat(END_CHARS)}`;
  assert.deepEqual(partsOf(`Well, ${text}`, ["Well, "], BOTH_ENDS), {
    shared: "Well, ",
    head: "a".repeat(HEAD_CHARS),
    middle: "b".repeat(7),
    end: "c".repeat(END_CHARS),
  });
  assert.equal(partsOf(text, [], null).end, "");
});

test("a text that fits is whole, and no character is torn", () => {
  const emoji = "🎉".repeat(HEAD_CHARS + END_CHARS);
  assert.equal(partsOf(emoji, [], BOTH_ENDS).head, emoji);
  const { head, middle, end } = partsOf(`${emoji}🎉`, [], BOTH_ENDS);
  assert.equal(head + middle + end, `${emoji}🎉`);
  assert.equal(middle, "🎉");
});

test("of an answer that is compared only the end is shown", () => {
  const end = "e".repeat(END_ONLY.end);
  assert.deepEqual(partsOf(`aaa${end}`, [], END_ONLY), {
    shared: "",
    head: "",
    middle: "aaa",
    end,
  });
  assert.equal(partsOf(end, [], END_ONLY).head, end);
});
