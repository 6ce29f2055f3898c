/**
 * Which words of a text are new, compared with another text.
 * rlreport/text/word_changes.py is the same in Python; a test holds both together.
 */

/**
 * Returns which words of `after` are not in the longest common subsequence with `before`. Of
 * several it is the one that is found from the end, where words of `before` are skipped first;
 * so it is not `difference` of response/diff.js, which may choose another one.
 * @param {string[]} before
 * @param {string[]} after
 */
export function newWords(before, after) {
  const width = after.length + 1;
  const lengths = new Uint16Array((before.length + 1) * width);
  for (let i = 1; i <= before.length; i += 1) {
    for (let j = 1; j < width; j += 1) {
      const isSame = before[i - 1] === after[j - 1];
      const [above, left] = [lengths[(i - 1) * width + j], lengths[i * width + j - 1]];
      lengths[i * width + j] = isSame
        ? lengths[(i - 1) * width + j - 1] + 1
        : Math.max(above, left);
    }
  }
  const isNew = after.map(() => true);
  let i = before.length;
  let j = after.length;
  while (i > 0 && j > 0) {
    if (before[i - 1] === after[j - 1]) {
      i -= 1;
      j -= 1;
      isNew[j] = false;
    } else if (lengths[(i - 1) * width + j] >= lengths[i * width + j - 1]) {
      i -= 1;
    } else {
      j -= 1;
    }
  }
  return isNew;
}
