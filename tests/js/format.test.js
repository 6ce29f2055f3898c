import assert from "node:assert/strict";
import { test } from "node:test";
import { MISSING, exact, ordinal, precise, written } from "../../static/js/shared/format.js";

test("numbers have three significant digits, a minus sign and groups of thousands", () => {
  assert.equal(written(0.123456), "0.123");
  assert.equal(written(-2.5), "−2.50");
  assert.equal(written(1234567), "1,234,567");
  assert.equal(written(1e12), "1.00e12");
  assert.equal(written(0.00001234), "1.23e−5");
});

test("what is missing is a dash, and zero is not missing", () => {
  for (const value of [null, undefined, NaN]) assert.equal(written(value), MISSING);
  assert.equal(written(0), "0");
});

test("a share is a percentage whose digits do not claim more than there is", () => {
  assert.equal(written(0.5, "share"), "50.0%");
  assert.equal(written(1, "share"), "100%");
  assert.equal(written(0.0012, "share"), "0.120%");
});

test("a rounded negative number is not minus zero", () => {
  assert.equal(written(-0.2, "count"), "0");
});

test("an exact text parses to the value itself", () => {
  for (const value of [0.1, 1 / 3, -1e-7, 123456789.123, 1e21, 5e-324]) {
    assert.equal(Number(exact(value)), value);
  }
});

test("infinity is written as a sign", () => {
  assert.equal(written(-Infinity), "−∞");
  assert.equal(precise(Infinity), "∞");
});

test("ranks of eleven to thirteen end in th", () => {
  const ranks = [1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(ordinal);
  const expected = ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"];
  assert.deepEqual(ranks, expected);
});
