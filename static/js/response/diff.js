/** Word differences of two texts; in Chinese and Japanese, differences of characters. */

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
 * @returns {{kind: "same" | "removed" | "added", text: string}[] | null} null if they differ too much
 */
export function difference(before, after) {
  const [a, b] = [words(before), words(after)];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  const room = Math.min(a.length, b.length) - head;
  while (tail < room && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const steps = trace(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  if (!steps) return null;
  const runs = [];
  const add = (kind, text) => {
    if (!text) return;
    if (runs.at(-1)?.kind === kind) runs.at(-1).text += text;
    else runs.push({ kind, text });
  };
  add("same", a.slice(0, head).join(""));
  for (const { kind, text } of steps) add(kind, text);
  add("same", a.slice(a.length - tail).join(""));
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

/** Returns whether the furthest path to diagonal k adds a word of `b`, not removes one of `a`. */
function fromAbove(furthest, at, k, edits) {
  return k === -edits || (k !== edits && furthest[at - 1] < furthest[at + 1]);
}

/** @param {Int32Array[]} history @param {string[]} a @param {string[]} b */
function walkBack(history, a, b) {
  const steps = [];
  let [x, y] = [a.length, b.length];
  for (let edits = history.length - 1; edits >= 0; edits -= 1) {
    const [furthest, k] = [history[edits], x - y];
    const at = edits + 1 + k;
    const added = fromAbove(furthest, at, k, edits);
    const fromX = edits === 0 ? 0 : added ? furthest[at + 1] : furthest[at - 1];
    const fromY = edits === 0 ? 0 : fromX - (added ? k + 1 : k - 1);
    for (; x > fromX && y > fromY; x -= 1, y -= 1) steps.push({ kind: "same", text: a[x - 1] });
    if (edits === 0) break;
    if (added) steps.push({ kind: "added", text: b[y - 1] });
    else steps.push({ kind: "removed", text: a[x - 1] });
    [x, y] = [fromX, fromY];
  }
  return steps.reverse();
}
