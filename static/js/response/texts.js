/** Prompt, response, reference and ground truth side by side, each foldable. */

import { difference } from "./diff.js";
import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { mark } from "../shared/marks.js";
import { splitThinking } from "./conversation.js";
import { marked, message } from "../shared/words.js";

/** @typedef {{prompt: string | null, response: string | null, ref_response: string | null, ground_truth: string | null}} Texts */

const TITLES = [
  ["prompt", marked("Prompt"), ""],
  ["response", marked("Response"), "policy"],
  ["ref_response", marked("Reference response"), "reference"],
  ["ground_truth", marked("Ground truth"), ""],
];

/** Maximum number of characters to show; longer texts are cut and get a button. */
const LONG = { prompt: 900, other: 6000 };

/**
 * @param {Texts} texts
 * @param {[string, string][]} turns chat turns of the prompt, [] if it has none
 * @param {{query: string, highlights: string[], titles?: Record<string, string>}} marks texts to
 *   highlight, and headings of the texts if they are not the usual ones
 */
export function textsSection(texts, turns, { query, highlights, titles = {} }) {
  const node = el("section", { class: "texts", "aria-label": message("Texts") });
  const bodies = new Map();
  const parts = TITLES.filter(([key]) => texts[key] !== null).map(([key, title, side]) => {
    const text = texts[key];
    const body = el("div", { class: "prose", dir: "auto" });
    if (key === "prompt" && turns.length) body.append(...turns.map(turn));
    else body.append(...(key === "response" ? splitThinking(text) : [text]));
    if (!text) body.append(message("(empty)"));
    bodies.set(key, body);
    const long = !query && text.length > (LONG[key] ?? LONG.other);
    return el(
      "details",
      { open: true, class: side || null, "data-text": key },
      el("summary", {}, titles[key] ?? message(title)),
      body,
      long && shortened(body, text.length),
    );
  });
  if (texts.response !== null && texts.ref_response !== null)
    parts.splice(
      +(texts.prompt !== null),
      0,
      differenceButton(
        titles.other
          ? message("Mark differences from {other}", { other: titles.other })
          : message("Mark differences from the reference response"),
        texts.response,
        texts.ref_response,
        bodies.get("response"),
        bodies.get("ref_response"),
      ),
    );
  node.append(el("div", { class: "side-by-side" }, ...parts));
  const remark = () => {
    mark("found", node, query ? [query] : []);
    const response = bodies.get("response");
    if (response)
      mark(
        "finding",
        response,
        highlights.map((text) => text.toLowerCase()),
      );
  };
  return { node, remark };
}

/** Cuts a text to its beginning; returns a button that shows the whole text. @param {HTMLElement} body @param {number} length */
export function shortened(body, length) {
  body.classList.add("cut");
  const button = el(
    "button",
    { type: "button", class: "whole" },
    message("Show all {count} characters", { count: written(length, "count") }),
  );
  button.addEventListener("click", () => {
    body.classList.remove("cut");
    button.remove();
  });
  return button;
}

/** @param {[string, string]} turn */
function turn([role, text]) {
  return el(
    "div",
    { class: "turn" },
    el("span", { class: "role" }, role),
    el("span", { dir: "auto" }, text),
  );
}

/**
 * Creates a toggle button that highlights the differences between two texts.
 * @param {string} label of the button: the text that the first one is compared with
 * @param {string} after @param {string} before
 * @param {HTMLElement} afterBody @param {HTMLElement} beforeBody
 */
export function differenceButton(label, after, before, afterBody, beforeBody) {
  const button = el("button", { type: "button", "aria-pressed": "false" }, label);
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    const runs = on ? difference(before, after) : null;
    if (on && !runs) {
      button.textContent = message("The texts differ too much to mark differences");
      button.disabled = true;
      return;
    }
    button.setAttribute("aria-pressed", String(on));
    const side = (kind, tag) =>
      (runs ?? [])
        .filter((run) => run.kind === "same" || run.kind === kind)
        .map((run) =>
          run.kind === "same" ? document.createTextNode(run.text) : el(tag, {}, run.text),
        );
    afterBody.replaceChildren(...(runs ? side("added", "ins") : [after]));
    beforeBody.replaceChildren(...(runs ? side("removed", "del") : [before]));
  });
  return button;
}
