/** Differences of two texts by words (single characters in Chinese or Japanese). */

/** Above this many edits two texts share too little for marks to help. */
const MOST_EDITS = 2000;

/** @param {string} text @returns {string[]} */
export function words(text) {
  if (!globalThis.Intl?.Segmenter) return text.match(/\w+|\s+|[^\w\s]/gu) ?? [];
  const cut = new Intl.Segmenter(undefined, { granularity: "word" });
  return Array.from(cut.segment(text), ({ segment }) => segment).flatMap((segment) =>
    // The dictionary groups Han characters into guessed words; a difference is shown by character.
    /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]+$/u.test(segment) ? [...segment] : [segment],
  );
}

/**
 * The shortest edit script (Myers 1986), as runs of one kind.
 * @param {string} before
 * @param {string} after
 * @returns {{kind: "same" | "removed" | "added", text: string}[] | null} null when too different
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
 * `furthest` holds, for each diagonal k = x − y, how far along `a` so many edits reach; what it
 * was before each round is kept for the way back (diagonals −edits−1 … edits+1).
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

/** Whether the furthest way to diagonal k adds a word of `b` rather than removes one of `a`. */
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
