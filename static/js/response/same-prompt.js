/** Links to responses to the same prompt at other steps, which keep the reader's settings. */

import { format } from "../shared/address.js";
import { el } from "../shared/dom.js";
import { stepsOfRun } from "../shared/run.js";
import { message } from "../shared/words.js";

/** @typedef {import("../shared/address.js").Address} Address */
/** @typedef {[number, number]} ResponseId step and n */

/** URL parameters that links to other steps keep; token and ranges belong to one step. */
const CARRIED_PARAMS = ["sort", "q", "metric", "b", "scale"];

/**
 * Returns the address of a step or, unless n is null, a response, with the reader's settings.
 * @param {Address} address
 * @param {[number | string, number | null]} id
 */
export function hrefOf(address, [step, n]) {
  const params = new URLSearchParams();
  if (n !== null) params.set("r", String(n));
  for (const key of CARRIED_PARAMS) {
    const value = address.get(key);
    if (value !== null) params.set(key, value);
  }
  if (address.path) return format(address.path.replace(/[^/]*$/, String(step)), params);
  return `${step}.html${params.size ? format("", params) : ""}`;
}

/**
 * Returns the responses to the prompt of response i at the nearest earlier and later step.
 * @param {any} data
 * @param {number} i -1 for none
 * @returns {[ResponseId | null, ResponseId | null]}
 */
export function samePrompt(data, i) {
  const shown = (i >= 0 && stepsOfRun()?.prompts?.[data.prompts?.[i]]) || [];
  const step = Number(data.step);
  /** @type {ResponseId | null} */
  let earlier = null;
  for (let k = 0; k < shown.length; k += 2) {
    if (shown[k] > step) return [earlier, [shown[k], shown[k + 1]]];
    if (shown[k] < step) earlier = [shown[k], shown[k + 1]];
  }
  return [earlier, null];
}

/**
 * Creates links to the same prompt at the nearest earlier and later step.
 * @param {any} data
 * @param {number} i
 * @param {Address} address
 */
export function samePromptLinks(data, i, address) {
  const [earlier, later] = samePrompt(data, i);
  const link = (id, label, key) => {
    const node =
      id &&
      el(
        "a",
        {
          class: "same-prompt",
          href: hrefOf(address, id),
          title: message("The same prompt, key {key}", { key }),
        },
        label(id[0]),
      );
    // The address may change after the link was created.
    node?.addEventListener("click", () => (node.href = hrefOf(address, id)));
    return node;
  };
  return [
    link(earlier, (step) => `← ${message("Same prompt, step {step}", { step })}`, "{"),
    link(later, (step) => `${message("Same prompt, step {step}", { step })} →`, "}"),
  ].filter(Boolean);
}

/**
 * Creates a link to all shown responses to the prompt of response i.
 * @param {any} data
 * @param {number} i
 */
export function timelineLink(data, i) {
  const href = stepsOfRun()?.prompt;
  const prompt = data.prompts?.[i];
  if (!href || prompt === undefined) return null;
  return el(
    "a",
    { class: "related", href: href.replaceAll("{prompt}", prompt) },
    message("All responses to this prompt"),
  );
}

/**
 * Makes the links to the previous and the next step keep the open response's prompt, the sort
 * and the search.
 * @param {HTMLElement} root
 * @param {any} data
 * @param {Address} address
 * @param {() => number} open index of the open response, -1 for none
 */
export function keepPrompt(root, data, address, open) {
  for (const [rel, side] of /** @type {[string, 0 | 1][]} */ ([
    ["prev", 0],
    ["next", 1],
  ])) {
    const link = /** @type {HTMLAnchorElement | null} */ (
      root.querySelector(`.step-nav a[rel=${rel}]`)
    );
    if (!link) continue;
    const step = (link.getAttribute("href") ?? "").replace(/^.*\//, "").replace(/\.html$/, "");
    link.addEventListener("click", () => {
      const there = samePrompt(data, open())[side];
      link.href = hrefOf(address, [step, there && String(there[0]) === step ? there[1] : null]);
    });
  }
}
