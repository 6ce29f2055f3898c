/** Highlights texts with the CSS Custom Highlight API, which does not change nodes. */

import { partsWithQuote, quoteSpan } from "./quote.js";

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

/**
 * Highlights the first place below `root` that has a quote, opens what is folded around it and
 * scrolls there. Returns whether there is one.
 * @param {HTMLElement} root
 * @param {string} quote
 */
export function markQuote(root, quote) {
  const range = rangeOf(root, quote);
  if (!range) return false;
  let node = range.startContainer.parentElement;
  for (; node && node !== root; node = node.parentElement)
    if (node instanceof HTMLDetailsElement) node.open = true;
  globalThis.CSS?.highlights?.set("cited", new Highlight(range));
  revealRange(range);
  return true;
}

/** Returns the first place below `root` that has a quote. @param {Node} root @param {string} quote */
function rangeOf(root, quote) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  /** @type {Text[]} */
  const nodes = [];
  while (walker.nextNode()) {
    const node = /** @type {Text} */ (walker.currentNode);
    if (!node.parentElement?.closest("summary, button, .role")) nodes.push(node);
  }
  const texts = nodes.map((node) => node.data);
  const span = quoteSpan(texts.join(""), quote);
  const parts = partsWithQuote(texts, quote);
  if (!span || !parts) return null;
  const [first, end] = parts;
  const range = document.createRange();
  range.setStart(nodes[first], span[0] - lengthOf(texts, first));
  range.setEnd(nodes[end - 1], span[1] - lengthOf(texts, end - 1));
  return range;
}

/** Returns how long the first texts are together. @param {string[]} texts @param {number} count */
function lengthOf(texts, count) {
  return texts.slice(0, count).join("").length;
}

/** Scrolls to a range, in the page and in every scrollable element. @param {Range} range */
function revealRange(range) {
  const top = () => range.getBoundingClientRect().top;
  for (let node = range.startContainer.parentElement; node; node = node.parentElement) {
    if (node.scrollHeight <= node.clientHeight || !scrolls(node)) continue;
    const box = node.getBoundingClientRect();
    if (top() < box.top || top() > box.bottom) node.scrollTop += top() - box.top - box.height / 3;
  }
  if (top() < 0 || top() > innerHeight) scrollBy(0, top() - innerHeight / 3);
}

/** @param {Element} node */
function scrolls(node) {
  return ["auto", "scroll"].includes(getComputedStyle(node).overflowY);
}
