import assert from "node:assert/strict";
import { test } from "node:test";
import { splitThinking } from "../../static/js/response/conversation.js";

const thought = (text, closed = true) => ({ text, closed });

test("thinking is apart from the answer", () => {
  assert.deepEqual(splitThinking("<think>why</think>\n\nSo."), [thought("why"), "So."]);
});

test("if the chat template opens the thinking, the text begins with it", () => {
  assert.deepEqual(splitThinking("why</think>So."), [thought("why"), "So."]);
});

test("thinking that never ends is said to", () => {
  assert.deepEqual(splitThinking("Hm <think>why"), ["Hm ", thought("why", false)]);
});

test("a text without tags is one part, and an empty one none", () => {
  assert.deepEqual(splitThinking("a < b"), ["a < b"]);
  assert.deepEqual(splitThinking(""), []);
});

test("of very many tags, the rest is text", () => {
  const parts = splitThinking("<think></think>a".repeat(5000));
  assert.ok(parts.length < 300);
  assert.equal(typeof parts.at(-1), "string");
});

test("no character is lost between the tags", () => {
  const text = "a<think>b</think>c<think>d</think>e";
  const parts = splitThinking(text).map((part) => part.text ?? part);
  assert.equal(parts.join(""), "abcde");
});
