/** Prompt, response, reference and ground truth side by side, each foldable. */

import { difference } from "./diff.js";
import { el } from "./dom.js";
import { mark } from "./marks.js";

/** @typedef {{prompt: string | null, response: string | null, ref_response: string | null, ground_truth: string | null}} Texts */

const TITLES = [
  ["prompt", "Prompt", ""],
  ["response", "Response", "policy"],
  ["ref_response", "Reference response", "reference"],
  ["ground_truth", "Ground truth", ""],
];

/**
 * @param {Texts} texts
 * @param {[string, string][]} turns chat turns of the prompt, [] when it has none
 * @param {{query: string, highlights: string[]}} marks
 */
export function textsSection(texts, turns, { query, highlights }) {
  const node = el("section", { class: "texts", "aria-label": "Texts" });
  const bodies = new Map();
  const parts = TITLES.filter(([key]) => texts[key] !== null).map(([key, title, side]) => {
    const body = el("div", { class: "prose", dir: "auto" });
    if (key === "prompt" && turns.length) body.append(...turns.map(turn));
    else body.append(texts[key] || "(empty)");
    bodies.set(key, body);
    return el("details", { open: true, class: side || null, "data-text": key }, el("summary", {}, title), body);
  });
  const both = texts.response !== null && texts.ref_response !== null;
  if (both) node.append(differenceButton(texts, bodies));
  node.append(el("div", { class: "side-by-side" }, ...parts));
  const remark = () => {
    mark("found", node, query ? [query] : []);
    const response = bodies.get("response");
    if (response) mark("finding", response, highlights.map((text) => text.toLowerCase()));
  };
  return { node, remark };
}

/** @param {[string, string]} turn */
function turn([role, text]) {
  return el("div", { class: "turn" }, el("span", { class: "role" }, role), el("span", { dir: "auto" }, text));
}

/** Marks what differs from the reference while pressed. */
function differenceButton(texts, bodies) {
  const button = el("button", { type: "button", "aria-pressed": "false" }, "Mark differences to the reference");
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    const runs = on ? difference(texts.ref_response, texts.response) : null;
    if (on && !runs) {
      button.textContent = "The two share too little to mark";
      button.disabled = true;
      return;
    }
    button.setAttribute("aria-pressed", String(on));
    const side = (kind, tag) =>
      (runs ?? []).filter((run) => run.kind === "same" || run.kind === kind)
        .map((run) => (run.kind === "same" ? document.createTextNode(run.text) : el(tag, {}, run.text)));
    bodies.get("response").replaceChildren(...(runs ? side("added", "ins") : [texts.response]));
    bodies.get("ref_response").replaceChildren(...(runs ? side("removed", "del") : [texts.ref_response]));
  });
  return button;
}
