import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { Address, format } from "../../static/js/shared/address.js";

/** Calls of the history, as [method, address]. @type {[string, string][]} */
let calls = [];

beforeEach(() => {
  calls = [];
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout"] });
  globalThis.addEventListener = () => {};
  globalThis.location = {
    href: "file:///report.html#r=17&sort=-reward",
    hash: "#r=17&sort=-reward",
  };
  const write = (method) => (_state, _title, url) => {
    calls.push([method, url]);
    globalThis.location.hash = url.includes("#") ? url.slice(url.indexOf("#")) : "";
  };
  globalThis.history = { replaceState: write("replaceState"), pushState: write("pushState") };
});

test("a path and parameters are a hash, and nothing is #", () => {
  assert.equal(format("", new URLSearchParams({ r: "1" })), "#r=1");
  assert.equal(format("/steps/2", new URLSearchParams({ r: "1" })), "#/steps/2?r=1");
  assert.equal(format("/steps/2", new URLSearchParams()), "#/steps/2");
  assert.equal(format("", new URLSearchParams()), "#");
});

test("a change keeps other parameters, and null removes one", () => {
  const address = new Address();
  address.set({ metric: "kl", sort: null });
  assert.deepEqual(address.entries(), [
    ["r", "17"],
    ["metric", "kl"],
  ]);
});

test("many changes at once are two writes, as browsers limit them", () => {
  const address = new Address();
  for (let token = 0; token < 50; token += 1) address.set({ token });
  mock.timers.runAll();
  assert.equal(calls.length, 2);
  assert.match(calls[1][1], /token=49$/);
});

test("a pushed change is an entry of its own after the state before it", () => {
  const address = new Address();
  address.set({ q: "a" });
  address.set({ q: "ab" });
  address.set({ r: 3 }, { push: true });
  assert.deepEqual(
    calls.map(([method]) => method),
    ["replaceState", "replaceState", "pushState"],
  );
});

test("listeners hear a change once, and none after their signal is aborted", () => {
  const address = new Address();
  const gone = new AbortController();
  const heard = mock.fn();
  address.onChange(heard, gone.signal);
  address.set({ r: 2 });
  address.set({ r: 2 });
  gone.abort();
  address.set({ r: 3 });
  assert.equal(heard.mock.callCount(), 1);
});

test("the path of a one-file report is not a parameter", () => {
  globalThis.location.hash = "#/steps/100?r=17&q=a%3Fb";
  const address = new Address();
  assert.equal(address.path, "/steps/100");
  assert.equal(address.get("q"), "a?b");
});
