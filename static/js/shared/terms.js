/**
 * Names of figures that open their definition: elements with `data-term`, the key of a definition
 * on the page "What the figures mean", whose entry a popover shows.
 */

import { unpack } from "./data.js";
import { el } from "./dom.js";
import { format } from "./address.js";
import { runScript } from "./scripts.js";
import { message } from "./words.js";

/** Space between the popover, its name and the edges of the window, in pixels. */
const GAP = 8;

/** @type {Promise<Document> | null} */
let loading = null;

/** Returns the page of definitions; rejects if the report has none. */
function definitions() {
  loading ??= load();
  return loading;
}

async function load() {
  const src = document.body.dataset.terms;
  if (src) await runScript(src);
  const packed = src ? globalThis.rlreportTerms : nodeOfDefinitions()?.textContent;
  if (!packed) throw new Error("this report has no definitions");
  const text = new TextDecoder().decode(await unpack(packed));
  return new DOMParser().parseFromString(text, "text/html");
}

/** Returns the node with the definitions, which one file has: a page or, in a comparison, theirs. */
function nodeOfDefinitions() {
  return document.querySelector('script.view[data-view="figures"], script.terms-data');
}

/** Returns whether there are definitions to open. */
function hasDefinitions() {
  return Boolean(document.body.dataset.terms) || nodeOfDefinitions() !== null;
}

/** Returns the link to the page of definitions, null if there is none, as in a comparison. */
function pageLink() {
  return /** @type {HTMLAnchorElement | null} */ (
    document.querySelector("footer.site a.to-figures")
  );
}

/** Returns the address of a definition. @param {HTMLAnchorElement} page @param {string} term */
function addressOf(page, term) {
  const [file, view] = page.href.split("#");
  return file + format(view ?? "", new URLSearchParams({ term }));
}

/**
 * Returns a small button that opens a definition, for names that do something else on a click.
 * @param {string} term
 * @param {string} name
 */
export function termButton(term, name) {
  return el(
    "button",
    {
      type: "button",
      class: "what",
      "data-opens": term,
      "aria-haspopup": "dialog",
      "aria-label": message("What is “{name}”?", { name }),
    },
    "?",
  );
}

/** Makes the names within an element open their definitions. @param {ParentNode} root */
export function mountTerms(root) {
  if (!hasDefinitions()) return;
  /** @type {NodeListOf<HTMLElement>} */
  const names = root.querySelectorAll("[data-term]:not(th)");
  for (const node of names) {
    const term = node.dataset.term ?? "";
    node.removeAttribute("data-term");
    node.closest("dt")?.removeAttribute("title");
    if (node.querySelector("a, button") || node.closest("a, button, summary, label")) {
      node.append(termButton(term, node.textContent.trim()));
      continue;
    }
    const button = el("button", {
      type: "button",
      class: "term",
      "data-opens": term,
      "aria-haspopup": "dialog",
    });
    button.append(...node.childNodes);
    node.append(button);
  }
}

/**
 * Makes the header of a sortable column open its definition.
 * @param {HTMLTableCellElement} cell
 * @param {string} name
 */
export function addTermButton(cell, name) {
  const term = cell.dataset.term;
  if (term && hasDefinitions()) cell.append(termButton(term, name));
}

/** The popover that shows a definition. */
class TermCard {
  constructor() {
    this.node = el("div", {
      class: "term-card",
      popover: true,
      role: "dialog",
      tabindex: -1,
      "aria-label": message("Definition"),
    });
    document.body.append(this.node);
    /** @type {HTMLElement | null} the name whose definition is shown */
    this.opener = null;
    this.node.addEventListener("toggle", (event) => event.newState === "closed" && this.closed());
    addEventListener("scroll", () => this.place(), { passive: true, capture: true });
    addEventListener("resize", () => this.place());
  }

  get isOpen() {
    return this.node.matches(":popover-open");
  }

  /**
   * Shows the definition of a name.
   * @param {HTMLElement} name
   * @param {HTMLAnchorElement | null} page that has it
   */
  async open(name, page) {
    const term = name.dataset.opens ?? "";
    const found = (await definitions()).getElementById(`term=${term}`);
    if (!found || !name.isConnected) return;
    const entry = /** @type {HTMLElement} */ (document.importNode(found, true));
    entry.removeAttribute("id");
    const close = el(
      "button",
      { type: "button", onclick: () => this.node.hidePopover() },
      message("Close"),
    );
    const more = page && el("a", { href: addressOf(page, term) }, page.textContent);
    this.node.replaceChildren(el("dl", {}, entry), el("p", { class: "more" }, more, close));
    this.opener = name;
    this.node.showPopover();
    this.place();
    this.node.focus({ preventScroll: true });
  }

  /** Gives the focus back to the name, unless the reader has gone on. */
  closed() {
    const { activeElement } = document;
    const isLost = activeElement === document.body || this.node.contains(activeElement);
    if (isLost) this.opener?.focus({ preventScroll: true });
    this.opener = null;
  }

  /** Places the popover below its name, above it if there is more room, inside the window. */
  place() {
    if (!this.opener || !this.isOpen) return;
    const { style, offsetWidth: width, offsetHeight: height } = this.node;
    const at = this.opener.getBoundingClientRect();
    const below = innerHeight - at.bottom - 2 * GAP;
    const isBelow = height <= below || below >= at.top - 2 * GAP;
    const top = isBelow ? at.bottom + GAP : at.top - GAP - height;
    const { clientWidth } = document.documentElement;
    style.left = `${Math.max(GAP, Math.min(at.left, clientWidth - width - GAP))}px`;
    style.top = `${Math.max(GAP, Math.min(top, innerHeight - height - GAP))}px`;
  }
}

/** Opens definitions in a popover, wherever a name is pressed. */
export function startTerms() {
  const card = new TermCard();
  document.addEventListener("click", (event) => {
    const target = /** @type {Element} */ (event.target);
    if (card.isOpen && target.closest(".term-card a")) card.node.hidePopover();
    const name = /** @type {HTMLElement | null} */ (target.closest("[data-opens]"));
    if (!name) return;
    event.preventDefault();
    card.open(name, pageLink());
  });
}
