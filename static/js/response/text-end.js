/** The end of a text, where a response has its answer. */

/** Characters of an end. */
const MOST = 300;
/** An end begins at a word's beginning if there is one within so many characters. */
const WORD_WITHIN = 24;

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
 * Returns the first place, from one on, at which a character begins as a reader sees it.
 * @param {string} text
 * @param {number} from
 */
function wholeFrom(text, from) {
  // Long enough for any character of several code points before and after the place.
  const first = Math.max(0, from - WORD_WITHIN);
  const near = text.slice(first, from + WORD_WITHIN);
  if (!globalThis.Intl?.Segmenter) return isLowSurrogate(text, from) ? from + 1 : from;
  for (const { index } of new Intl.Segmenter(undefined).segment(near))
    if (first + index >= from) return first + index;
  return from;
}

/** @param {string} text @param {number} at */
function isLowSurrogate(text, at) {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff;
}
