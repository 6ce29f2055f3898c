/** Which parts of a text a cell shows: what differs from other rows, and how a cut text ends. */

/**
 * Characters of the beginning and of the end of a response that was cut off. Twins of those in
 * rlreport/pages/response_text.py.
 */
export const HEAD_CHARS = 60;
export const END_CHARS = 59;

/** @typedef {{head: number, end: number}} Shown how many characters at both ends of a text are shown */

/** What is shown of a response that was cut off. @type {Shown} */
export const BOTH_ENDS = { head: HEAD_CHARS, end: END_CHARS };
/**
 * What is shown of the responses of a comparison. Twin of that in rlreport/pages/compare/flips.py.
 * @type {Shown}
 */
export const END_ONLY = { head: 0, end: 110 };

/**
 * @typedef {object} Parts a text in order
 * @property {string} shared hidden beginning, "" for none
 * @property {string} head "" if only the end is shown
 * @property {string} middle hidden part, "" for none
 * @property {string} end shown in a line of its own, "" if nothing is hidden before it
 */

/**
 * Splits a text into what a cell shows and what it hides.
 * @param {string} text
 * @param {string[]} prefixes beginnings that rows share
 * @param {Shown | null} shown null if its beginning is
 * @returns {Parts}
 */
export function partsOf(text, prefixes, shown) {
  const size = sharedLength(text, prefixes);
  const shared = text.slice(0, size);
  const rest = text.slice(size);
  if (!shown || !isLonger(rest, shown.head + shown.end))
    return { shared, head: rest, middle: "", end: "" };
  const head = firstOf(rest, shown.head);
  const end = lastOf(rest, shown.end);
  return { shared, head, middle: rest.slice(head.length, rest.length - end.length), end };
}

/**
 * Returns the length of a text's longest shared beginning, after which it goes on.
 * @param {string} text
 * @param {string[]} prefixes
 */
function sharedLength(text, prefixes) {
  const found = prefixes.filter((one) => text.startsWith(one) && text.slice(one.length).trim());
  return Math.max(0, ...found.map((one) => one.length));
}

// A character may take two places of a string.

/** @param {string} text @param {number} count of characters */
function isLonger(text, count) {
  return Array.from(text.slice(0, 2 * (count + 1))).length > count;
}

/** @param {string} text @param {number} count */
function firstOf(text, count) {
  return Array.from(text.slice(0, 2 * count))
    .slice(0, count)
    .join("");
}

/** @param {string} text @param {number} count */
function lastOf(text, count) {
  return Array.from(text.slice(-2 * count))
    .slice(-count)
    .join("");
}
