import assert from "node:assert/strict";
import { test } from "node:test";
import { fieldsOf } from "../../static/js/list/conversation-fields.js";
import { waysOut } from "../../static/js/list/no-rows.js";
import { excerptAround, parseQuery } from "../../static/js/list/query.js";
import { Rows } from "../../static/js/list/rows.js";

const NAMES = new Map([
  ["prompt", "prompt"],
  ["response", "response"],
  ["回答", "response"],
]);

test("a search may begin with its scope, in English or the report's language", () => {
  for (const text of ["response:cook", " Response : cook", "response：Cook", "回答：cook"])
    assert.deepEqual(parseQuery(text, NAMES), { scope: "response", query: "cook" });
  assert.deepEqual(parseQuery("prompt:", NAMES), { scope: "prompt", query: "" });
});

test("what begins with no scope of the list is searched as it is", () => {
  for (const text of ["http://a", "tools:read", "a response:cook", ":", "cook"])
    assert.deepEqual(parseQuery(text, NAMES), { scope: null, query: text });
});

test("an excerpt has the hit, and says what it leaves out", () => {
  const text = `${"a ".repeat(100)}HIT${" b".repeat(100)}`;
  const excerpt = excerptAround(text, 200);
  assert.match(excerpt, /^….*HIT.*…$/);
  assert.equal(excerptAround("short HIT", 6), "short HIT");
});

/** Returns rows of responses in which a word stands in different parts. */
function responses() {
  const about = { unit: "", kind: "text", written: "number", group: "", help: "", shown: true };
  const columns = Object.entries({
    prompt: ["cook rice", "wash", "wash", "wash"],
    response: ["so cook it", "cook", "no", "no"],
    note: [null, null, null, "cook"],
  }).map(([key, strings]) => ({ ...about, key, label: key, numbers: null, strings }));
  const rows = new Rows(columns, 4);
  rows.scopes = ["prompt", "response", "tools"];
  const output = { role: "tool", text: `${"x ".repeat(100)}cook` };
  rows.turns = fieldsOf([undefined, undefined, [output], []]);
  return rows;
}

test("hits are counted in each scope, and found in that of the search alone", () => {
  const rows = responses();
  rows.search("cook");
  assert.deepEqual(rows.order, [0, 1, 2, 3]);
  assert.deepEqual(rows.scopeCounts(), [1, 2, 1]);
  rows.search("cook", "tools");
  assert.deepEqual(rows.order, [2]);
  assert.deepEqual(rows.scopeCounts(), [1, 2, 1]);
});

test("the hit of a row is in the answer if there is one, else where it is", () => {
  const rows = responses();
  rows.search("cook");
  assert.deepEqual(
    [0, 1, 2, 3].map((i) => rows.hit(i).place),
    ["response", "response", "output", "note"],
  );
  rows.search("cook", "prompt");
  assert.deepEqual(
    [0, 1].map((i) => rows.hit(i)?.place),
    ["prompt", undefined],
  );
});

test("a query that grows, shrinks or changes finds what it says", () => {
  const rows = responses();
  for (const [query, found] of [
    ["co", [0, 1, 2, 3]],
    ["cook r", [0]],
    ["cook", [0, 1, 2, 3]],
    ["wash", [1, 2, 3]],
  ]) {
    rows.search(query);
    assert.deepEqual(rows.order, found);
  }
});

test("turns of the policy are its answer, calls and outputs are those of tools", () => {
  const turns = [
    { role: "assistant", text: "said", thinking: "thought", calls: [["read", "a.py"]] },
    { role: "tool", text: "output" },
    { role: "user", text: "go on" },
  ];
  const found = fieldsOf([turns]).map(({ place, scope, strings }) => [place, scope, strings[0]]);
  assert.deepEqual(found, [
    ["turn", "response", "said"],
    ["thinking", "response", "thought"],
    ["call", "tools", "read a.py"],
    ["output", "tools", "output"],
    ["later", "", "go on"],
  ]);
  assert.deepEqual(fieldsOf([undefined, []]), []);
});

test("an empty list offers the changes that list rows, with their number", () => {
  const rows = responses();
  rows.search("rice", "response");
  assert.deepEqual(waysOut(rows), [
    { kind: "everywhere", count: 1 },
    { kind: "unsearched", count: 4 },
  ]);
  rows.require("note", "nothing");
  rows.search("rice", "");
  assert.deepEqual(waysOut(rows), [{ kind: "unfiltered", count: 1 }]);
});
