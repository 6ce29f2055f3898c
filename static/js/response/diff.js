/** Word differences of two texts; in Chinese and Japanese, differences of characters. */

/** @typedef {"same" | "removed" | "added"} Kind */
/** @typedef {{kind: Kind, text: string}} Run */

/** Maximum number of edits; texts that differ more are not compared. */
const MOST_EDITS = 2000;

/** @param {string} text @returns {string[]} */
export function words(text) {
  if (!globalThis.Intl?.Segmenter) return text.match(/\w+|\s+|[^\w\s]/gu) ?? [];
  const cut = new Intl.Segmenter(undefined, { granularity: "word" });
  return Array.from(cut.segment(text), ({ segment }) => segment).flatMap((segment) =>
    // The segmenter guesses words of Han characters; compare single characters instead.
    /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]+$/u.test(segment)
      ? [...segment]
      : [segment],
  );
}

/**
 * Returns the shortest edit script (Myers 1986) as a list of same, removed and added texts.
 * @param {string} before
 * @param {string} after
 * @returns {Run[] | null} null if they differ too much
 */
export function difference(before, after) {
  const a = words(before);
  const b = words(after);
  // Most of two responses to a prompt is often alike at both ends, which is cheap to find.
  const room = Math.min(a.length, b.length);
  const head = countAlike(room, (k) => a[k] === b[k]);
  const tail = countAlike(room - head, (k) => a.at(-1 - k) === b.at(-1 - k));
  const aEnd = a.length - tail;
  const bEnd = b.length - tail;
  const steps = trace(a.slice(head, aEnd), b.slice(head, bEnd));
  if (!steps) return null;
  return joined([
    { kind: "same", text: a.slice(0, head).join("") },
    ...steps,
    { kind: "same", text: a.slice(aEnd).join("") },
  ]);
}

/**
 * Returns how many of the numbers from 0 to below `most` pass before the first that does not.
 * @param {number} most
 * @param {(k: number) => boolean} passes
 */
function countAlike(most, passes) {
  let count = 0;
  while (count < most && passes(count)) count += 1;
  return count;
}

/** Joins neighbours of the same kind, without empty ones. @param {Run[]} steps */
function joined(steps) {
  /** @type {Run[]} */
  const runs = [];
  for (const { kind, text } of steps) {
    if (!text) continue;
    const last = runs.at(-1);
    if (last?.kind === kind) last.text += text;
    else runs.push({ kind, text });
  }
  return runs;
}

/**
 * Finds the number of edits. `furthest` has, for each diagonal k = x − y, the largest x that the
 * edits so far reach; its copies before each round (diagonals −edits−1 … edits+1) are the trace
 * from which the edit script is reconstructed.
 * @param {string[]} a
 * @param {string[]} b
 */
function trace(a, b) {
  const most = Math.min(a.length + b.length, MOST_EDITS);
  const middle = most + 1;
  const furthest = new Int32Array(2 * most + 3).fill(-1);
  furthest[middle + 1] = 0;
  /** @type {Int32Array[]} */
  const history = [];
  for (let edits = 0; edits <= most; edits += 1) {
    history.push(furthest.slice(middle - edits - 1, middle + edits + 2));
    for (let k = -edits; k <= edits; k += 2) {
      const at = middle + k;
      let x = fromAbove(furthest, at, k, edits) ? furthest[at + 1] : furthest[at - 1] + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      furthest[at] = x;
      if (x >= a.length && x - k >= b.length) return walkBack(history, a, b);
    }
  }
  return null;
}

/**
 * Returns whether the furthest path to diagonal k adds a word of `b`, not removes one of `a`.
 * @param {Int32Array} furthest
 * @param {number} at index of diagonal k in it
 * @param {number} k
 * @param {number} edits
 */
function fromAbove(furthest, at, k, edits) {
  if (k === -edits) return true;
  if (k === edits) return false;
  return furthest[at - 1] < furthest[at + 1];
}

/**
 * Follows the trace from the ends of both texts to their beginnings.
 * @param {Int32Array[]} history
 * @param {string[]} a
 * @param {string[]} b
 */
function walkBack(history, a, b) {
  /** @type {Run[]} */
  const steps = [];
  let x = a.length;
  let y = b.length;
  for (let edits = history.length - 1; edits > 0; edits -= 1) {
    const furthest = history[edits];
    const k = x - y;
    const at = edits + 1 + k;
    const added = fromAbove(furthest, at, k, edits);
    const fromX = added ? furthest[at + 1] : furthest[at - 1];
    const fromY = fromX - (added ? k + 1 : k - 1);
    for (; x > fromX && y > fromY; x -= 1, y -= 1) steps.push({ kind: "same", text: a[x - 1] });
    if (added) steps.push({ kind: "added", text: b[y - 1] });
    else steps.push({ kind: "removed", text: a[x - 1] });
    x = fromX;
    y = fromY;
  }
  // Before the first edit, the texts are alike.
  for (; x > 0; x -= 1) steps.push({ kind: "same", text: a[x - 1] });
  return steps.reverse();
}
