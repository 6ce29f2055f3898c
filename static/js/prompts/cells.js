/**
 * Characters in the cells of a monospace grid: what is shown of a text, and how wide it is.
 * rlreport/text/cells.py is the same in Python; a test holds both together.
 */

const JOINER = "\u200d";
export const REPLACEMENT = "\ufffd";

/** What pictures cannot show: controls, also of the direction of text, and lone surrogates. */
const UNPRINTABLE =
  /[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]|[\u202a-\u202e\u2066-\u2069]/gu;
const INVISIBLE = /^(?:[\u00ad\u061c\u180e\u200b-\u200f]|[\u2060-\u2064]|[\ufe00-\ufe0f]|\ufeff)/;

/** @type {Record<string, string>} */
const VISIBLE = { "\n": "↵", "\t": "⇥", "\u2028": "↵", "\u2029": "↵", "\u00a0": " " };

/** Maximum number of marks on a character. */
const MOST_MARKS = 4;

/** First and last code points that take two cells, in hexadecimal. */
const WIDE =
  `1100-115f 231a-231b 23e9-23ec 25fd-25fe 2614-2615 2648-2653 267f 2693 26a1 26aa-26ab 26bd-26be
  26c4-26c5 26ce 26d4 26ea 26f2-26f3 26f5 26fa 26fd 2705 270a-270b 2728 274c 274e 2753-2755 2757
  2795-2797 27b0 27bf 2b1b-2b1c 2b50 2b55 2e80-303e 3041-33ff 3400-4dbf 4e00-a4cf a960-a97c
  ac00-d7a3 f900-faff fe30-fe6f ff01-ff60 ffe0-ffe6 1f300-1f64f 1f680-1f6ff 1f7e0-1f7eb
  1f900-1f9ff 1fa70-1faff 20000-3fffd`
    .split(/\s+/)
    .map((range) => range.split("-").map((code) => parseInt(code, 16)))
    .map(([first, last = first]) => [first, last]);

/**
 * @typedef {object} Cell a character with its marks
 * @property {string} text
 * @property {number} width 1 or 2
 * @property {number} start index of the character in the text, in code points
 */

/**
 * Returns what is shown of a text: line ends as "↵", what cannot be shown as U+FFFD. Marks, joined
 * emoji and skin tones belong to the character before them; a mark without one is on U+FFFD.
 * @param {string} text
 */
export function cells(text) {
  /** @type {Cell[]} */
  const found = [];
  let marks = 0;
  let start = -1;
  for (const character of text.replace(UNPRINTABLE, REPLACEMENT)) {
    start += 1;
    const last = found.at(-1);
    if (last && isPartOf(last, character)) {
      last.text += character;
    } else if (!INVISIBLE.test(character)) {
      marks = last && isMark(character) ? marks + 1 : 0;
      if (!last || !marks) found.push(cellOf(character, start));
      else if (marks <= MOST_MARKS) last.text += character;
    }
  }
  return found;
}

/**
 * Returns whether a character is part of a wide one: a joiner, what it joins, or a skin tone.
 * @param {Cell} last
 * @param {string} character
 */
function isPartOf({ text, width }, character) {
  if (width !== 2) return false;
  const joins = text.endsWith(JOINER);
  return character === JOINER || isSkinTone(character) || (joins && isWide(character));
}

/** @param {string} character @param {number} start @returns {Cell} */
function cellOf(character, start) {
  const shown = isMark(character) ? REPLACEMENT + character : (VISIBLE[character] ?? character);
  return { text: shown, width: isWide(shown) ? 2 : 1, start };
}

/** @param {string} character */
function isSkinTone(character) {
  const code = character.codePointAt(0) ?? 0;
  return code >= 0x1f3fb && code <= 0x1f3ff;
}

/** Returns whether the first character takes two cells. @param {string} text */
function isWide(text) {
  const code = text.codePointAt(0) ?? 0;
  return code >= WIDE[0][0] && WIDE.some(([first, last]) => code >= first && code <= last);
}

/** @param {string} character */
function isMark(character) {
  return /^\p{M}/u.test(character);
}

/**
 * Returns whether a character is part of a longer word: a letter or digit, no wide one.
 * @param {string} text its first character counts
 */
export function isInWord(text) {
  return /^[\p{L}\p{N}\p{M}_]/u.test(text) && !isWide(text);
}
