/** Creates DOM nodes; strings become text nodes, never markup. */

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {string | number | boolean | null | undefined | ((event: never) => void)} Property */
/** @typedef {Record<string, Property>} Properties */

/**
 * Creates an element. `on…` properties are listeners, the others attributes;
 * null, undefined and false leave an attribute out, true writes it empty.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Properties} [properties]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  fill(node, properties, children);
  return node;
}

/**
 * Creates an SVG element, see `el`.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Properties} [properties]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function svg(tag, properties = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(node, properties, children);
  return node;
}

/** @param {Element} node @param {Properties} properties @param {Child[]} children */
function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) setProperty(node, name, value);
  for (const child of children) {
    if (!isAbsent(child)) node.append(child instanceof Node ? child : String(child));
  }
}

/** @param {Element} node @param {string} name @param {Property} value */
function setProperty(node, name, value) {
  if (isAbsent(value)) return;
  if (typeof value === "function") {
    node.addEventListener(name.slice("on".length), /** @type {EventListener} */ (value));
  } else {
    node.setAttribute(name, value === true ? "" : String(value));
  }
}

/** @param {unknown} value @returns {value is null | undefined | false} */
function isAbsent(value) {
  return value === null || value === undefined || value === false;
}

/**
 * Returns a name as nodes, which may be broken after "_", ".", "/", ":" like names in the page's
 * HTML, but not within numbers. The twin of `breakable` in rlreport/pages/template_files.py.
 * @param {string} name
 */
export function breakable(name) {
  const parts = name.split(/(?<=[_./:])(?<!\d\.(?=\d))(?=[^_./:])/);
  return parts.flatMap((part, k) => [...(k > 0 ? [el("wbr")] : []), ...withWholeNumbers(part)]);
}

/** @param {string} text */
function withWholeNumbers(text) {
  const parts = text.split(/(\d+(?:\.\d+)?e-\d+)/i); // those with odd indices are numbers
  const nodes = parts.map((part, k) =>
    k % 2 ? el("span", { class: "whole-number" }, part) : part,
  );
  return nodes.filter((node) => node !== "");
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
 * @returns {unknown}
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
