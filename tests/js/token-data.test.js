import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { test } from "node:test";
import { decodeTokens, unpack } from "../../static/js/shared/data.js";

/** Packs words as four planes of bytes, the lowest first. @param {number[]} words */
function planes(words) {
  return [0, 8, 16, 24].flatMap((shift) => words.map((word) => (word >>> shift) & 255));
}

/** Packs tokens as docs/page-data.md says: mantissas in zigzag, exponents of ten as bytes. */
function packed({ n, lengths, ids, columns }) {
  const header = { n, lengths, text: ["a", ""], raw: [null, "Ġ"], columns: Object.keys(columns) };
  const text = new TextEncoder().encode(JSON.stringify(header));
  const size = new Uint8Array(new Uint32Array([text.length]).buffer);
  const figures = Object.values(columns).flatMap((values) => [
    ...planes(values.map(([mantissa]) => ((mantissa << 1) ^ (mantissa >> 31)) >>> 0)),
    ...values.map(([, exponent]) => exponent & 255),
  ]);
  return Uint8Array.from([...size, ...text, ...planes(ids), ...figures]);
}

const BYTES = packed({
  n: [4, 9],
  lengths: [2, 1],
  ids: [0, 1, 0],
  columns: {
    logp: [
      [-123456, -5],
      [0, 0],
      [0, -128],
    ],
    kl: [
      [7, 2],
      [2 ** 30, 0],
      [-1, -10],
    ],
  },
});

test("token values are exactly the decimals that were packed", () => {
  const data = decodeTokens(BYTES);
  assert.deepEqual([...data.columns.get("logp")], [-1.23456, 0, NaN]);
  assert.deepEqual([...data.columns.get("kl")], [700, 2 ** 30, -1e-10]);
});

test("each response has its tokens", () => {
  const data = decodeTokens(BYTES);
  assert.deepEqual([...data.ids], [0, 1, 0]);
  assert.deepEqual(data.spans.get(4), [0, 2]);
  assert.deepEqual(data.spans.get(9), [2, 3]);
});

test("a token's string is its text, unless it was logged as another", () => {
  const data = decodeTokens(BYTES);
  assert.equal(data.raw(0), "a");
  assert.equal(data.raw(1), "Ġ");
});

test("a page's data are unpacked from base64 of gzip", async () => {
  const text = gzipSync(BYTES).toString("base64");
  assert.deepEqual(await unpack(`\n${text}\n`), BYTES);
});
