/** Decodes the packed token data; docs/page-data.md specifies the bytes. */

/** @import { PromptTokens, TokensHeader } from "./types.d.ts" */

const MISSING_EXPONENT = -128;
/** Powers of ten up to that of the largest exponent; parsed, as computed ones are not exact. */
const POWERS = Float64Array.from({ length: 130 }, (_, i) => Number(`1e${i}`));

/** Tokens and token figures of the responses of a step. */
export class TokenData {
  /**
   * @param {TokensHeader} header
   * @param {Uint32Array} ids index into the vocabulary, for every token of every response
   * @param {Map<string, Float64Array>} columns shipped metrics, aligned with ids
   */
  constructor(header, ids, columns) {
    this.vocabulary = header.text;
    this.strings = header.raw;
    this.ids = ids;
    this.columns = columns;
    /** Metrics on offer. */
    this.metrics = header.metrics;
    /** Labels of metrics that are NaN at every token. */
    this.nan = header.nan ?? [];
    /** n → spans of tokens that the policy did not sample. */
    this.given = header.given ?? {};
    /** @type {Map<number, [number, number]>} n → start and end in ids */
    this.spans = new Map();
    let start = 0;
    header.n.forEach((n, i) => {
      this.spans.set(n, [start, start + header.lengths[i]]);
      start += header.lengths[i];
    });
    /** @type {Map<number, PromptTokens>} n → the tokens of its prompt */
    this.prompts = new Map();
    for (const prompt of header.prompts ?? [])
      for (const n of prompt.n) this.prompts.set(n, prompt);
  }

  /** Returns a token's string as logged. @param {number} id @returns {string} */
  raw(id) {
    return this.strings[id] ?? this.vocabulary[id];
  }
}

/**
 * Unpacks base64 of gzip; the work beyond the base64 happens off the main thread.
 * @param {string} text
 * @returns {Promise<Uint8Array>}
 */
export async function unpack(text) {
  const packed = fromBase64(text.trim());
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** @param {string} text @returns {Uint8Array<ArrayBuffer>} */
function fromBase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** @param {Uint8Array} bytes @returns {TokenData} */
export function decodeTokens(bytes) {
  const headerSize = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const headerEnd = 4 + headerSize;
  /** @type {TokensHeader} */
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, headerEnd)));
  const total = header.lengths.reduce((sum, length) => sum + length, 0);
  const ids = wordsAt(bytes, headerEnd, total);
  const columns = new Map();
  let at = headerEnd + 4 * total;
  for (const key of header.columns) {
    const zigzag = wordsAt(bytes, at, total);
    const exponents = new Int8Array(bytes.buffer, bytes.byteOffset + at + 4 * total, total);
    columns.set(key, decimals(zigzag, exponents));
    at += 5 * total;
  }
  return new TokenData(header, ids, columns);
}

/**
 * Returns 32-bit words whose bytes lie in four planes, the lowest bytes first.
 * @param {Uint8Array} bytes
 * @param {number} start of the first plane
 * @param {number} total number of words
 */
function wordsAt(bytes, start, total) {
  const words = new Uint32Array(total);
  for (let plane = 0; plane < 4; plane += 1) {
    const from = start + plane * total;
    for (let i = 0; i < total; i += 1) words[i] |= bytes[from + i] << (8 * plane);
  }
  return words;
}

/** @param {Uint32Array} zigzag @param {Int8Array} exponents */
function decimals(zigzag, exponents) {
  const values = new Float64Array(zigzag.length);
  for (let i = 0; i < values.length; i += 1) {
    const mantissa = (zigzag[i] >>> 1) ^ -(zigzag[i] & 1);
    const exponent = exponents[i];
    if (exponent === MISSING_EXPONENT) values[i] = NaN;
    // Dividing by an exact power of ten gives the exact decimal, multiplying would not.
    else values[i] = exponent < 0 ? mantissa / POWERS[-exponent] : mantissa * POWERS[exponent];
  }
  return values;
}
