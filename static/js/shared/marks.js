/** Highlights texts with the CSS Custom Highlight API, which does not change nodes. */

/** @type {Map<string, Map<Node, Range[]>>} name of the highlight → root node → ranges */
const marked = new Map();

/**
 * Highlights every occurrence of `needles` below `root`, instead of those highlighted before.
 * @param {"found" | "finding"} name
 * @param {Node} root
 * @param {string[]} needles lower case
 * @param {string} [inside] selector of the elements in which occurrences count
 */
export function mark(name, root, needles, inside = "*") {
  if (!globalThis.CSS?.highlights) return;
  const places = marked.get(name) ?? new Map();
  marked.set(name, places);
  for (const place of places.keys()) if (!place.isConnected) places.delete(place);
  places.delete(root);
  const wanted = needles.filter(Boolean);
  if (wanted.length) places.set(root, ranges(root, wanted, inside));
  CSS.highlights.set(name, new Highlight(...[...places.values()].flat()));
}

/** @param {Node} root @param {string[]} needles @param {string} inside */
function ranges(root, needles, inside) {
  const found = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.nodeValue ?? "";
    const lower = text.toLowerCase();
    // Lower-casing may change the length ("İ"), and then positions would be wrong.
    if (lower.length !== text.length) continue;
    if (!needles.some((needle) => lower.includes(needle))) continue;
    const parent = walker.currentNode.parentElement;
    if (!parent?.closest(inside) || parent.closest(".where")) continue;
    for (const needle of needles) {
      for (
        let at = lower.indexOf(needle);
        at >= 0;
        at = lower.indexOf(needle, at + needle.length)
      ) {
        const range = document.createRange();
        range.setStart(walker.currentNode, at);
        range.setEnd(walker.currentNode, at + needle.length);
        found.push(range);
      }
    }
  }
  return found;
}
