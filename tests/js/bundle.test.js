import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { basename, delimiter } from "node:path";
import { test } from "node:test";
import vm from "node:vm";

/** Bundles as pages carry them; tests/test_scripts.py writes them. */
const paths = (process.env.RLREPORT_BUNDLES ?? "").split(delimiter).filter(Boolean);

/** Returns the least of a browser that a bundle touches before the page is parsed. */
function browser() {
  const root = { classList: { add() {} }, dataset: {} };
  return {
    CustomEvent: class {},
    document: {
      readyState: "loading",
      documentElement: root,
      addEventListener() {},
      dispatchEvent() {},
    },
    localStorage: { getItem: () => null },
  };
}

for (const path of paths) {
  test(`the bundle leaks no global: ${basename(path)}`, () => {
    const context = vm.createContext(browser());
    const names = () => vm.runInContext("Object.getOwnPropertyNames(globalThis)", context);
    const before = names();
    vm.runInContext(readFileSync(path, "utf8"), context);
    assert.deepEqual(names(), before);
  });
}
