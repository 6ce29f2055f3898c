/** Translatable messages of the page; each is a whole sentence or label. */

/**
 * Message → its translation into the report's language, two with a count; filled in when the report
 * is built.
 * @type {Record<string, string | string[]>}
 */
const WORDS = {};

/** @typedef {Record<string, string | number>} Places */

/**
 * Returns a translated message with its placeholders filled in. Callers pass a literal in double
 * quotes, so that tools/catalogue.py finds it.
 * @param {string} literal "{shown} of {all}"
 * @param {Places} [places]
 */
export function message(literal, places = {}) {
  return filled(translated(literal), places);
}

/**
 * Returns the message `one` if the count is 1, else `other`, translated and filled in.
 * @param {string} one
 * @param {string} other
 * @param {number} count
 * @param {Places} [places]
 */
export function plural(one, other, count, places = {}) {
  const [single, several] = WORDS[one] ?? [one, other];
  return filled(count === 1 ? single : several, places);
}

/** Marks a literal for translation, to be passed to `message` later. @param {string} literal */
export function marked(literal) {
  return literal;
}

/** @param {string} literal without a count */
function translated(literal) {
  return /** @type {string} */ (WORDS[literal] ?? literal);
}

/** @param {string} said @param {Places} places */
function filled(said, places) {
  return said.replace(/\{(\w+)\}/g, (_, name) => String(places[name] ?? ""));
}

/**
 * Returns a message as nodes; its placeholders are replaced by elements.
 * @param {string} literal "Smoothing {choice}"
 * @param {Record<string, Node>} places
 * @returns {(Node | string)[]}
 */
export function nodes(literal, places) {
  // Splitting by a pattern with a group gives texts and the names between them, in turn.
  const parts = translated(literal).split(/\{(\w+)\}/);
  return parts.map((part, k) => (k % 2 === 1 ? places[part] : part));
}

/** Joins items with commas, without empty ones. @param {(string | null)[]} items */
export function listed(items) {
  return items.filter(Boolean).join(message(", "));
}

/**
 * Appends the unit, if any, to a formatted number.
 * @param {string} number
 * @param {string} [unit]
 */
export function withUnit(number, unit) {
  return unit ? message("{number} {unit}", { number, unit }) : number;
}
