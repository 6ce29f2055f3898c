/** Texts of ours that readers see: whole messages, so that another language is a catalogue. */

/** Message → what it is in the report's language; filled when the report is built. */
const WORDS = {};

/** @typedef {Record<string, string | number>} Places */

/**
 * The message with its places filled; it stands here as a literal in double quotes, by which
 * rlreport/text/catalogue.py finds it.
 * @param {string} literal "{shown} of {all}"
 * @param {Places} [places]
 */
export function message(literal, places = {}) {
  return filled(/** @type {any} */ (WORDS)[literal] ?? literal, places);
}

/**
 * The message for a count: that for one, or that for any other number.
 * @param {string} one
 * @param {string} other
 * @param {number} count
 * @param {Places} [places]
 */
export function plural(one, other, count, places = {}) {
  const [single, several] = /** @type {any} */ (WORDS)[one] ?? [one, other];
  return filled(count === 1 ? single : several, places);
}

/** A message that is passed on to `message` later. @param {string} literal */
export function marked(literal) {
  return literal;
}

/** @param {string} said @param {Places} places */
function filled(said, places) {
  return said.replace(/\{(\w+)\}/g, (_, name) => String(places[name] ?? ""));
}
