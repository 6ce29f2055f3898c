/** Creates DOM nodes; strings become text nodes, never markup. */

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Creates an element. `on…` properties are listeners, the others attributes;
 * null, undefined and false leave an attribute out, true writes it empty.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...Child} children
 * @returns {any}
 */
export function el(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/**
 * Creates an SVG element, see `el`.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...Child} children
 * @returns {any}
 */
export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

/** @param {Element} node @param {Record<string, any>} props @param {Child[]} children */
function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

/** Returns a name as nodes, which may be broken after "_", ".", "/", ":" like names in the page's HTML. @param {string} name */
export function breakable(name) {
  return name
    .split(/(?<=[_./:])(?=[^_./:])/)
    .flatMap((part, at) => (at ? [el("wbr"), part] : [part]));
}

let ids = 0;

/** Returns an id that no other element has, also after views of a one-file report changed. */
export function uid(prefix = "id") {
  ids += 1;
  return `${prefix}-${ids}`;
}

/**
 * Returns the parsed content of a JSON script element, null if there is none.
 * @param {ParentNode} root
 * @param {string} selector
 * @returns {any}
 */
export function readJson(root, selector) {
  const text = root.querySelector(selector)?.textContent?.trim();
  return text ? JSON.parse(text) : null;
}

/** Returns whether the event's target is a control that handles keys. @param {Event} event */
export function isTyping(event) {
  const target = /** @type {Element} */ (event.target);
  return Boolean(target.closest?.("input:not([type=checkbox]), select, textarea, dialog"));
}
