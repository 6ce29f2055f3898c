/** Finds a quote in a text. Twin: `holds_quote` in `rlreport/pages/quotes.py`. */

/** Characters that count as white space, of any length as one space. */
const BLANKS = /[\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/g;

/**
 * Returns where a text has a quote, as [from, to] in UTF-16 units; null if it does not.
 * @param {string} text
 * @param {string} quote
 * @returns {[number, number] | null}
 */
export function quoteSpan(text, quote) {
  const wanted = quote.replace(BLANKS, " ").replace(/^ | $/g, "");
  if (!wanted) return null;
  let plain = "";
  /** @type {[number, number][]} places after white space: in `plain`, and in the text */
  const places = [[0, 0]];
  let from = 0;
  for (const { 0: blanks, index } of text.matchAll(BLANKS)) {
    plain += `${text.slice(from, index)} `;
    from = index + blanks.length;
    places.push([plain.length, from]);
  }
  plain += text.slice(from);
  const at = plain.indexOf(wanted);
  if (at < 0) return null;
  /** @param {number} place in `plain` */
  const inText = (place) => {
    const [known, there] = /** @type {[number, number]} */ (
      places.findLast(([start]) => start <= place)
    );
    return there + place - known;
  };
  // The last character of a quote is no white space, and so it is as long in the text.
  return [inText(at), inText(at + wanted.length - 1) + 1];
}

/**
 * Returns which of some parts of a text have a quote, as [from, to); null if none has.
 * @param {string[]} parts
 * @param {string} quote
 * @returns {[number, number] | null}
 */
export function partsWithQuote(parts, quote) {
  const span = quoteSpan(parts.join(""), quote);
  if (!span) return null;
  let end = 0;
  const ends = parts.map((part) => (end += part.length));
  let first = ends.findIndex((one) => one > span[0]);
  // A token that begins a character is empty; a later one has the character.
  while (first > 0 && parts[first - 1] === "") first -= 1;
  return [first, ends.findIndex((one) => one >= span[1]) + 1];
}
