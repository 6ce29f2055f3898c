/** The same prompt at other steps, and what of the address goes along from step to step. */

import { format } from "./address.js";
import { el } from "./dom.js";
import { message } from "./words.js";

/** @typedef {import("./address.js").Address} Address */
/** @typedef {[number, number]} Name step and n */

/** What a reader has set stays when the step changes; token and ranges belong to one step. */
const KEPT = ["sort", "q", "metric", "b", "scale"];

/**
 * Address of a step, with a response of it or without, and with what the reader has set.
 * @param {Address} address
 * @param {[number | string, number | null]} name
 */
export function hrefOf(address, [step, n]) {
  const params = new URLSearchParams();
  if (n !== null) params.set("r", String(n));
  for (const key of KEPT) {
    const value = address.get(key);
    if (value !== null) params.set(key, value);
  }
  if (address.path) return format(address.path.replace(/[^/]*$/, String(step)), params);
  return `${step}.html${params.size ? format("", params) : ""}`;
}

/**
 * Links to the prompt of response i at the nearest earlier and later step that shows it.
 * @param {any} data
 * @param {number} i
 * @param {Address} address
 */
export function twinLinks(data, i, address) {
  const [before, after] = data.twins?.[data.n[i]] ?? [null, null];
  const link = (name, label, key) => {
    const node = name && el("a", { class: "twin", href: hrefOf(address, name), title: message("The same prompt, key {key}", { key }) }, label(name[0]));
    // The address may change after the link was made.
    node?.addEventListener("click", () => (node.href = hrefOf(address, name)));
    return node;
  };
  const links = [
    link(before, (step) => `← ${message("Same prompt, step {step}", { step })}`, "{"),
    link(after, (step) => `${message("Same prompt, step {step}", { step })} →`, "}"),
  ].filter(Boolean);
  return links;
}

/**
 * Makes the links to the previous and the next step keep the open response's prompt, the sort
 * and the search.
 * @param {HTMLElement} root
 * @param {any} data
 * @param {Address} address
 * @param {() => number} open index of the open response, −1 for none
 */
export function keepAlong(root, data, address, open) {
  for (const [rel, side] of /** @type {[string, 0 | 1][]} */ ([["prev", 0], ["next", 1]])) {
    const link = /** @type {HTMLAnchorElement | null} */ (root.querySelector(`.step-nav a[rel=${rel}]`));
    if (!link) continue;
    const step = (link.getAttribute("href") ?? "").replace(/^.*\//, "").replace(/\.html$/, "");
    link.addEventListener("click", () => {
      const twin = open() < 0 ? null : data.twins?.[data.n[open()]]?.[side];
      link.href = hrefOf(address, [step, twin && String(twin[0]) === step ? twin[1] : null]);
    });
  }
}
