/**
 * The texts of a film strip: excerpts of answers, their characters, lines and new words.
 * rlreport/draw/film_text.py is the same in Python; a test holds both together.
 */

/** @import { FilmRow } from "../shared/types.d.ts" */

import { REPLACEMENT, cells, isInWord } from "./cells.js";
import { newWords } from "./word-changes.js";

/** The bin around 0. */
export const MIDDLE = 6;

/** Characters of each part of an answer to which it is cut. */
const EXCERPT = 300;
const BEFORE_CITED = 90;

const LINE_END = "↵";
const SPACES = [" ", LINE_END, "⇥"];

/**
 * Cuts an answer to its beginning and its end, and around a token.
 * @param {string[]} texts of its tokens
 * @param {number[]} bins of the tokens, 0 for one without a value
 * @param {number | null} cited index of a token
 * @returns {Pick<FilmRow, "pieces" | "bins" | "cited">}
 */
export function excerpt(texts, bins, cited) {
  const starts = startsOf(texts.map((text) => countOf(text)));
  const size = starts[texts.length];
  /** @type {[number, number][]} */
  const windows = [
    [0, EXCERPT],
    [Math.max(0, size - EXCERPT), size],
  ];
  if (cited !== null && cited >= 0 && cited < texts.length) {
    const start = Math.max(0, starts[cited] - BEFORE_CITED);
    windows.push([start, start + EXCERPT]);
  }
  windows.sort(([a, aEnd], [b, bEnd]) => a - b || aEnd - bEnd);
  /** @type {[number, number][]} */
  const joined = [];
  for (const [start, stop] of windows) {
    const last = joined.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(stop, last[1]);
    else joined.push([start, stop]);
  }
  /** @type {Pick<FilmRow, "pieces" | "bins" | "cited">} */
  const result = { pieces: [], bins: [], cited: null };
  joined.forEach(([start, stop], number) => {
    let first = starts.findIndex((place) => place >= start);
    if (first < 0) first = starts.length;
    if (first === starts.length || starts[first] > start) first -= 1;
    /** @type {string[]} */
    const piece = [];
    /** @type {number[]} */
    const binsOfPiece = [];
    for (let index = first; index < texts.length && starts[index] < stop; index += 1) {
      if (index === cited && result.cited === null) result.cited = [number, piece.length];
      piece.push(part(texts[index], Math.max(0, start - starts[index]), stop - starts[index]));
      binsOfPiece.push(bins[index]);
    }
    result.pieces.push(piece);
    result.bins.push(binsOfPiece);
  });
  return result;
}

/** Returns the number of code points of a text. @param {string} text */
function countOf(text) {
  let count = 0;
  for (const character of text) count += character.length > 0 ? 1 : 0;
  return count;
}

/**
 * Returns a part of a text, by code points.
 * @param {string} text
 * @param {number} start
 * @param {number} stop
 */
function part(text, start, stop) {
  if (text.length <= stop && start === 0) return text;
  return [...text].slice(start, stop).join("");
}

/** Returns where items of these sizes start, and where the last one ends. @param {number[]} sizes */
export function startsOf(sizes) {
  const starts = [0];
  for (const size of sizes) starts.push(starts[starts.length - 1] + size);
  return starts;
}

/**
 * @typedef {object} Atom a character of the grid
 * @property {string} text
 * @property {number} width
 * @property {number} bin
 * @property {boolean} isCited
 * @property {boolean} isNew
 */

/**
 * Returns the characters of a piece of an answer. A token without text is part of the character
 * that the next one ends. White space that follows each other is one character, and so are bytes
 * that are none (U+FFFD).
 * @param {string[]} texts
 * @param {number[]} bins
 * @param {number} cited index of a token or −1
 */
function atomsOf(texts, bins, cited) {
  const starts = startsOf(texts.map((text) => countOf(text)));
  /** @type {Atom[]} */
  const atoms = [];
  let before = -1;
  let next = 0;
  for (const cell of cells(texts.join(""))) {
    while (next < starts.length && starts[next] <= cell.start) next += 1;
    const token = next - 1;
    let first = token;
    while (first - 1 > before && !texts[first - 1]) first -= 1;
    before = Math.max(before, token);
    const isCited = cited >= first && cited <= token;
    const bin = bins.slice(first, token + 1).reduce(stronger);
    const atom = { text: cell.text, width: cell.width, bin, isCited, isNew: false };
    const last = atoms.at(-1);
    if (last && isOne(last, atom)) merge(last, atom);
    else atoms.push(atom);
  }
  return atoms;
}

/** @param {Atom} first @param {Atom} second */
function isOne(first, second) {
  if (SPACES.includes(first.text)) return SPACES.includes(second.text);
  return first.text === REPLACEMENT && second.text === REPLACEMENT;
}

/** Makes an atom show another one, too. @param {Atom} first @param {Atom} second */
function merge(first, second) {
  if (second.text === LINE_END) first.text = LINE_END;
  first.bin = stronger(first.bin, second.bin);
  first.isCited ||= second.isCited;
}

/** Returns the bin that is further from 0, of equal ones the first. @param {number} a @param {number} b */
function stronger(a, b) {
  return strength(b) > strength(a) ? b : a;
}

/** @param {number} bin */
function strength(bin) {
  return bin ? Math.abs(bin - MIDDLE) + 1 : 0;
}

/**
 * Returns the characters of rows, with the words marked that the row above does not have.
 * @param {FilmRow[]} rows
 * @returns {Atom[][][]} row → piece → characters
 */
export function markedRows(rows) {
  /** @type {string[] | null} */
  let before = null;
  return rows.map((row) => {
    const [place, token] = row.cited ?? [-1, -1];
    const pieces = row.pieces.map((texts, number) =>
      atomsOf(texts, row.bins[number], number === place ? token : -1),
    );
    const words = pieces.map(wordsOf);
    const now = words.flat().map(({ text }) => text);
    // Answers to different prompts are not compared.
    if (before !== null && !row.above) {
      const flags = newWords(before, now);
      pieces.forEach((piece, number) => {
        markNew(piece, words[number], flags.splice(0, words[number].length));
      });
    }
    before = now;
    return pieces;
  });
}

/** @typedef {{text: string, first: number, stop: number}} Word stop: its last + 1 atom */

/** Returns the words of a piece: letters and digits together, other characters alone. @param {Atom[]} atoms */
function wordsOf(atoms) {
  /** @type {Word[]} */
  const words = [];
  atoms.forEach(({ text }, index) => {
    if (SPACES.includes(text)) return;
    const last = words.at(-1);
    if (last && last.stop === index && isInWord(last.text) && isInWord(text)) {
      last.text += text;
      last.stop = index + 1;
    } else {
      words.push({ text, first: index, stop: index + 1 });
    }
  });
  return words;
}

/**
 * Marks new words, and what is between two of them.
 * @param {Atom[]} atoms
 * @param {Word[]} words
 * @param {boolean[]} flags of the words, whether they are new
 */
function markNew(atoms, words, flags) {
  let stopBefore = -1;
  words.forEach(({ first, stop }, k) => {
    if (flags[k]) {
      for (let i = stopBefore >= 0 ? stopBefore : first; i < stop; i += 1) atoms[i].isNew = true;
    }
    stopBefore = flags[k] ? stop : -1;
  });
}

/** @typedef {{atoms: Atom[], goesOn: boolean}} Line goesOn: what follows is left out */

/**
 * Returns up to `most` lines: the first ones and the last ones, and those of the citation.
 * @param {Atom[][]} pieces
 * @param {number} columns
 * @param {number} most
 * @returns {Line[]}
 */
export function shownLines(pieces, columns, most) {
  /** @type {Atom[][]} */
  const lines = [];
  /** @type {Set<number>} */
  const gaps = new Set();
  for (const piece of pieces) {
    lines.push(...wrapped(piece, columns - 2));
    gaps.add(lines.length - 1);
  }
  const chosen = chosenLines(lines, most);
  return chosen.map((index) => {
    const isLast = index === lines.length - 1;
    const goesOn = !isLast && (!chosen.includes(index + 1) || gaps.has(index));
    return { atoms: lines[index], goesOn };
  });
}

/** @param {Atom[][]} lines @param {number} most */
function chosenLines(lines, most) {
  const count = lines.length;
  if (count <= most) return [...lines.keys()];
  const cited = lines.findIndex((line) => line.some(({ isCited }) => isCited));
  const wanted = [0, count - 1];
  if (cited >= 0) wanted.push(cited, Math.min(cited + 1, count - 1), Math.max(cited - 1, 0));
  for (let k = 1; k < count; k += 1) wanted.push(k, count - 1 - k);
  return [...new Set(wanted)].slice(0, most).sort((a, b) => a - b);
}

/**
 * Breaks a piece into lines, after a space or a wide character where there is one.
 * @param {Atom[]} atoms
 * @param {number} columns
 */
function wrapped(atoms, columns) {
  /** @type {Atom[][]} */
  const lines = [];
  let start = 0;
  let stop = 0;
  let used = 0;
  let index = 0;
  while (index < atoms.length) {
    const { text, width } = atoms[index];
    if (used + width > columns && text !== " ") {
      if (stop <= start) stop = index;
      lines.push(atoms.slice(start, stop));
      start = stop;
      index = stop;
      used = 0;
      continue;
    }
    used += width;
    index += 1;
    if (text === " " || text === LINE_END || width === 2) stop = index;
  }
  if (start < atoms.length) lines.push(atoms.slice(start));
  return lines.length ? lines : [[]];
}

/**
 * Returns a text of at most so many cells, cut with an ellipsis.
 * @param {string} words
 * @param {number} letters
 */
export function fitting(words, letters) {
  const found = cells(words);
  const size = found.reduce((sum, { width }) => sum + width, 0);
  if (size <= letters) return found.map(({ text }) => text).join("");
  let used = 1;
  let kept = "";
  for (const { text, width } of found) {
    used += width;
    if (used > letters) break;
    kept += text;
  }
  return `${kept.trimEnd()}…`;
}

/**
 * Breaks words into up to `most` lines of so many cells.
 * @param {string} words
 * @param {number} letters
 * @param {number} most
 */
export function paragraph(words, letters, most) {
  const atoms = cells(words).map((cell) => ({ ...cell, bin: 0, isCited: false, isNew: false }));
  const lines = wrapped(atoms, Math.floor(letters)).map((line) =>
    line
      .map(({ text }) => text)
      .join("")
      .trim(),
  );
  if (lines.length <= most) return lines;
  const rest = lines.slice(most - 1).join(" ");
  return [...lines.slice(0, most - 1), fitting(rest, letters)];
}
