/** Decodes the packed token data; docs/page-data.md specifies the bytes. */

const MISSING_EXPONENT = -128;
const POWERS = Float64Array.from({ length: 130 }, (_, i) => Number(`1e${i}`));

/** Tokens and token figures of the responses of a page. */
export class TokenData {
  /**
   * @param {{n: number[], lengths: number[], text: string[], raw: (string | null)[]}} header
   * @param {Uint32Array} ids index into the vocabulary, for every token of every response
   * @param {Map<string, Float64Array>} columns shipped metrics, aligned with ids
   */
  constructor(header, ids, columns) {
    this.vocabulary = header.text;
    this.strings = header.raw;
    this.ids = ids;
    this.columns = columns;
    /** @type {Map<number, [number, number]>} n → start and end in ids */
    this.spans = new Map();
    let start = 0;
    header.n.forEach((n, i) => {
      this.spans.set(n, [start, start + header.lengths[i]]);
      start += header.lengths[i];
    });
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
  let at = 4 + headerSize;
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, at)));
  const total = header.lengths.reduce((sum, length) => sum + length, 0);
  const planes = () => {
    const words = new Uint32Array(total);
    for (let plane = 0; plane < 4; plane += 1, at += total) {
      for (let i = 0; i < total; i += 1) words[i] |= bytes[at + i] << (8 * plane);
    }
    return words;
  };
  const ids = planes();
  const columns = new Map();
  for (const key of header.columns) {
    const zigzag = planes();
    const exponents = new Int8Array(bytes.buffer, bytes.byteOffset + at, total);
    at += total;
    columns.set(key, decimals(zigzag, exponents));
  }
  return new TokenData(header, ids, columns);
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
