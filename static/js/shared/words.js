/** Texts of ours that readers see: whole messages, so that another language is a catalogue. */

/** Message → what it is in the report's language; filled when the report is built. */
const WORDS = {};

/** @typedef {Record<string, string | number>} Places */

/**
 * The message with its places filled; it stands here as a literal in double quotes, by which
 * tools/catalogue.py finds it.
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

/**
 * The message as nodes, where a place is a control or an element.
 * @param {string} literal "Smoothing {choice}"
 * @param {Record<string, Node>} places
 * @returns {(Node | string)[]}
 */
export function nodes(literal, places) {
  const said = /** @type {any} */ (WORDS)[literal] ?? literal;
  return said.split(/\{(\w+)\}/).map((part, k) => (k % 2 ? places[part] : part));
}

/** Items as a list in a sentence; what is empty or false is no item. @param {(string | false)[]} items */
export function listed(items) {
  return items.filter(Boolean).join(message(", "));
}

/** A written number with its unit, where it has one. @param {string} number @param {string} [unit] */
export function withUnit(number, unit) {
  return unit ? message("{number} {unit}", { number, unit }) : number;
}
