/** Links to responses to the same prompt at other steps, which keep the reader's settings. */

/** @import { PanelData, RowsData } from "../shared/types.d.ts" */

import { format } from "../shared/address.js";
import { el } from "../shared/dom.js";
import { stepsOfRun } from "../shared/run.js";
import { message } from "../shared/words.js";

/** @typedef {import("../shared/address.js").Address} Address */
/** @typedef {[number, number]} ResponseId step and n */

/** URL parameters that links to other steps keep; token and ranges belong to one step. */
const CARRIED_PARAMS = ["sort", "q", "metric", "b", "scale"];

/** Returns the parameters that links to other responses keep. @param {Address} address */
export function carried(address) {
  const params = new URLSearchParams();
  for (const key of CARRIED_PARAMS) {
    const value = address.get(key);
    if (value !== null) params.set(key, value);
  }
  return params;
}

/**
 * Returns the address of a step or, unless n is null, a response, with the reader's settings.
 * @param {Address} address
 * @param {[number | string, number | null]} id
 */
export function hrefOf(address, [step, n]) {
  const params = new URLSearchParams(n === null ? {} : { r: String(n) });
  for (const [key, value] of carried(address)) params.set(key, value);
  if (address.path) return format(address.path.replace(/[^/]*$/, String(step)), params);
  return `${step}.html${params.size ? format("", params) : ""}`;
}

/**
 * Returns the responses to the prompt of response i at the nearest earlier and later step.
 * @param {PanelData} data
 * @param {number} i −1 for none
 * @returns {{earlier: ResponseId | null, later: ResponseId | null}}
 */
export function samePrompt(data, i) {
  const prompt = data.prompts?.[i];
  const shown = prompt === undefined ? [] : (stepsOfRun()?.prompts?.[prompt] ?? []);
  return neighbours(shown, Number(data.step));
}

/**
 * Returns the last response before a step, and the first one after it.
 * @param {number[]} shown step, n, step, n, … ascending by step
 * @param {number} step
 */
export function neighbours(shown, step) {
  /** @type {ResponseId | null} */
  let earlier = null;
  for (let k = 0; k < shown.length; k += 2) {
    /** @type {ResponseId} */
    const id = [shown[k], shown[k + 1]];
    if (id[0] > step) return { earlier, later: id };
    if (id[0] < step) earlier = id;
  }
  return { earlier, later: null };
}

/**
 * Creates links to the same prompt at the nearest earlier and later step.
 * @param {PanelData} data
 * @param {number} i
 * @param {(id: ResponseId) => string} hrefTo returns the address of a response
 */
export function samePromptLinks(data, i, hrefTo) {
  const { earlier, later } = samePrompt(data, i);
  const links = [];
  if (earlier) {
    const said = message("Same prompt, step {step}", { step: earlier[0] });
    links.push(promptLink(() => hrefTo(earlier), `← ${said}`, "{"));
  }
  if (later) {
    const said = message("Same prompt, step {step}", { step: later[0] });
    links.push(promptLink(() => hrefTo(later), `${said} →`, "}"));
  }
  return links;
}

/** @param {() => string} href @param {string} label @param {string} key */
function promptLink(href, label, key) {
  const title = message("The same prompt, key {key}", { key });
  const node = el("a", { class: "same-prompt", href: href(), title }, label);
  // The address of the page, whose settings the link keeps, may change after it was created.
  node.addEventListener("click", () => (node.href = href()));
  return node;
}

/**
 * Creates a link to all shown responses to the prompt of response i.
 * @param {PanelData} data
 * @param {number} i
 */
export function timelineLink(data, i) {
  const href = stepsOfRun()?.prompt;
  const prompt = data.prompts?.[i];
  if (!href || prompt === undefined) return null;
  return el(
    "a",
    { class: "related", href: href.replaceAll("{prompt}", String(prompt)) },
    message("All responses to this prompt"),
  );
}

/**
 * Makes the links to the previous and the next step keep the open response's prompt, the sort
 * and the search.
 * @param {HTMLElement} root
 * @param {RowsData} data
 * @param {Address} address
 * @param {() => number} open index of the open response, −1 for none
 */
export function keepPrompt(root, data, address, open) {
  /** @param {"prev" | "next"} rel @param {"earlier" | "later"} side */
  const keep = (rel, side) => {
    const link = /** @type {HTMLAnchorElement | null} */ (
      root.querySelector(`.step-nav a[rel=${rel}]`)
    );
    if (!link) return;
    const step = stepIn(link.getAttribute("href") ?? "");
    link.addEventListener("click", () => {
      const there = samePrompt(data, open())[side];
      const isThere = there !== null && String(there[0]) === step;
      link.href = hrefOf(address, [step, isThere ? there[1] : null]);
    });
  };
  keep("prev", "earlier");
  keep("next", "later");
}

/** Returns the step of the address of its page. @param {string} href */
function stepIn(href) {
  return href.replace(/^.*\//, "").replace(/\.html$/, "");
}
