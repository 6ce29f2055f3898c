/** The menu "Link": copies the way to what is on the screen, and goes where such a text leads. */

/** @import { Binding } from "./keys.js" */

import { copies } from "../shared/copy.js";
import { el } from "../shared/dom.js";
import { linkText } from "../shared/link.js";
import { menu } from "../shared/menu.js";
import { hrefOf, readPlace } from "../shared/place.js";
import { stepsOfRun } from "../shared/run.js";
import { message } from "../shared/words.js";

/**
 * @param {HTMLElement} tools
 * @param {{where: () => string, oneFile: boolean}} page `where` returns the place of the open
 *   response in the log
 * @returns {Binding[]}
 */
export function mountShare(tools, { where, oneFile }) {
  /** @type {HTMLInputElement | null} */
  let field = null;
  const { node, sheet } = menu(message("Link"), () => {
    const text = linkText(where());
    const copy = el("button", { type: "button" }, message("Copy link"));
    copies(copy, () => text);
    sheet.replaceChildren(copy, el("p", { class: "link-text" }, text));
    if (!stepsOfRun()) return;
    const form = goTo(oneFile);
    field = form.querySelector("input");
    sheet.append(form);
  });
  sheet.classList.add("share");
  tools.append(node);
  if (!stepsOfRun()) return [];
  const open = () => {
    sheet.showPopover();
    field?.focus();
  };
  return [{ keys: ["g"], what: message("go to a step or a response"), run: open }];
}

/** Returns the form that goes where a text leads. @param {boolean} oneFile */
function goTo(oneFile) {
  const field = el("input", {
    type: "text",
    name: "place",
    autocomplete: "off",
    placeholder: message("step 44, response 1"),
  });
  const status = el("output", { class: "note" });
  const form = el(
    "form",
    {},
    el("label", {}, message("Go to"), field),
    el("button", { type: "submit" }, message("Go")),
    status,
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const { href, problem } = resolved(field.value, oneFile);
    status.textContent = problem;
    if (!href) return;
    /** @type {HTMLElement | null} */ (form.closest("[popover]"))?.hidePopover();
    location.assign(href);
  });
  return form;
}

/**
 * Returns the address that a text leads to, or why it leads nowhere.
 * @param {string} text
 * @param {boolean} oneFile
 * @returns {{href: string, problem: string}}
 */
function resolved(text, oneFile) {
  const place = readPlace(text);
  if (!place) {
    const problem = message("A step, a response or a copied link is expected, such as 44/1.");
    return { href: "", problem };
  }
  const { page, params } = place;
  if (page === null) return { href: onThisPage(params, oneFile), problem: "" };
  const [, step] = /^steps\/(-?\d+)$/.exec(page) ?? [];
  if (step && !stepsOfRun()?.steps.includes(Number(step))) {
    return { href: "", problem: message("This report has no page of step {step}.", { step }) };
  }
  // The overview of one file has the name of that file.
  const known = step || isInNavigation(page, oneFile) ? page : "";
  return { href: fromRoot(hrefOf({ page: known, params }, oneFile), oneFile), problem: "" };
}

/** @param {URLSearchParams} params @param {boolean} oneFile */
function onThisPage(params, oneFile) {
  const [view] = location.hash.split("?");
  const path = oneFile && view.startsWith("#/") ? `${view}?` : "#";
  return path + params;
}

/** @param {string} page @param {boolean} oneFile */
function isInNavigation(page, oneFile) {
  const address = hrefOf({ page, params: new URLSearchParams() }, oneFile);
  /** @type {NodeListOf<HTMLAnchorElement>} */
  const links = document.querySelectorAll("header.site nav a");
  return [...links].some((link) => link.href === fromRoot(address, oneFile));
}

/** Returns an address relative to the report's root in full. @param {string} href @param {boolean} oneFile */
function fromRoot(href, oneFile) {
  if (oneFile) return new URL(href, location.href).href;
  // Pages of steps are in a folder; the data of the run is in one beside it.
  /** @type {HTMLScriptElement | null} */
  const script = document.querySelector('script[src*="data/run.js"]');
  return new URL(`../${href}`, script?.src ?? location.href).href;
}
