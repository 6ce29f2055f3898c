import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { namePlaces } from "../../static/js/charts/names.js";

const CASES = JSON.parse(
  readFileSync(new URL("../data/name_places.json", import.meta.url), "utf-8"),
);

test("names stand where rlreport/draw/names.py puts them", () => {
  assert.ok(CASES.length > 4);
  for (const { what, lines, height, places } of CASES) {
    const found = namePlaces(lines, height);
    const rounded = found?.map((place) => Math.round(place * 1000) / 1000) ?? null;
    assert.deepEqual(rounded, places, what);
  }
});
