/** The end of a text, where a response has its answer. */

/** Characters of an end. */
const MOST = 300;
/** An end begins at a word's beginning if there is one within so many characters. */
const WORD_WITHIN = 24;
/** Characters around a place among which one begins as a reader sees it. */
const NEAR = 32;

/**
 * Returns the last characters of a text, from the beginning of a word on; whole characters, as a
 * reader sees them.
 * @param {string} text
 * @param {number} [most]
 */
export function endOf(text, most = MOST) {
  const trimmed = text.trimEnd();
  if (trimmed.length <= most) return trimmed;
  const start = wholeFrom(trimmed, trimmed.length - most);
  const space = trimmed.slice(start, start + WORD_WITHIN).search(/\s\S/);
  return trimmed.slice(space < 0 ? start : start + space + 1);
}

/**
 * Returns whether an end begins inside a word of its text, so that no space comes before it.
 * @param {string} text
 * @param {string} end
 */
export function beginsInside(text, end) {
  const start = text.trimEnd().length - end.length;
  return start > 0 && !/\s/.test(text[start - 1]);
}

/**
 * Returns the first place, from one on, at which a character begins as a reader sees it; if there is
 * none, the last one before it.
 * @param {string} text
 * @param {number} from
 */
function wholeFrom(text, from) {
  const plain = isLowSurrogate(text, from) ? from + 1 : from;
  if (!globalThis.Intl?.Segmenter) return plain;
  // Characters may have several code points. Only the first one here may be cut.
  const first = Math.max(0, from - NEAR);
  const near = text.slice(first, from + NEAR);
  let before = 0;
  for (const { index } of new Intl.Segmenter(undefined).segment(near)) {
    if (first + index >= from) return first + index;
    before = index;
  }
  return before > 0 ? first + before : plain;
}

/** @param {string} text @param {number} at */
function isLowSurrogate(text, at) {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff;
}
