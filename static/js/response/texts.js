/** Prompt, response, reference and ground truth side by side, each foldable. */

import { difference } from "./diff.js";
import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { mark, markQuote } from "../shared/marks.js";
import { thinkingFolded } from "./conversation.js";
import { marked, message } from "../shared/words.js";

/** @typedef {"prompt" | "response" | "ref_response" | "ground_truth"} Key */
/** @typedef {Record<Key, string | null>} Texts null for one that is not shown */
/** @typedef {{text: string, body: HTMLElement}} Side a text and where it is shown */

/**
 * Texts in the order in which they are shown: key, title, class.
 * @typedef {[Key, string, string | null]} Part
 * @type {Part[]}
 */
const PARTS = [
  ["prompt", marked("Prompt"), null],
  ["response", marked("Response"), "policy"],
  ["ref_response", marked("Reference response"), "reference"],
  ["ground_truth", marked("Ground truth"), null],
];

/** The same in a comparison, whose reference response is that of BASE. @type {Part[]} */
const COMPARED_PARTS = [PARTS[0], PARTS[2], PARTS[1], PARTS[3]];

/** Maximum number of characters to show; longer texts are cut and get a button. */
const MOST_CHARS = 6000;
const MOST_PROMPT_CHARS = 900;
/** The same for a response whose tokens follow: they have its whole text. */
const MOST_REPEATED_CHARS = 1500;

/**
 * @param {Texts} texts
 * @param {[string, string][]} turns chat turns of the prompt, [] if it has none
 * @param {{query: string, quote: string, highlights: string[], repeated: boolean,
 *   titles?: Partial<Record<Key | "other", string>>}} how texts to highlight, a quote of the
 *   response to show, whether the tokens of the response follow, and headings of the texts if they
 *   are not the usual ones
 */
export function textsSection(texts, turns, { query, quote, highlights, repeated, titles = {} }) {
  /** @type {Map<Key, Side>} */
  const sides = new Map();
  const isSearched = `${query}${quote}` !== "";
  /** @type {HTMLElement[]} */
  const parts = [];
  for (const [key, title, look] of titles.other ? COMPARED_PARTS : PARTS) {
    const text = texts[key];
    if (text === null) continue;
    const body = el("div", { class: "prose", dir: "auto" }, ...contentOf(key, text, turns));
    const isCut = !isSearched && text.length > mostChars(key, repeated);
    const summary = el("summary", {}, titles[key] ?? message(title));
    const properties = { open: true, class: look, "data-text": key };
    parts.push(el("details", properties, summary, body, isCut && shortened(body, text.length)));
    sides.set(key, { text, body });
  }
  const response = sides.get("response");
  const button = buttonOf(sides, titles.other);
  if (button) parts.splice(sides.has("prompt") ? 1 : 0, 0, button);
  const node = el(
    "section",
    { class: "texts", "aria-label": message("Texts") },
    el("div", { class: "side-by-side" }, ...parts),
  );
  const remark = () => {
    mark("found", node, query ? [query] : []);
    const needles = highlights.map((text) => text.toLowerCase());
    if (response) mark("finding", response.body, needles);
  };
  /** Marks the quote in the response. */
  const cite = () => (response ? markQuote(response.body, quote) : false);
  return { node, remark, cite };
}

/** @param {Key} key @param {boolean} repeated whether the tokens of the response follow */
function mostChars(key, repeated) {
  if (key === "prompt") return MOST_PROMPT_CHARS;
  return key === "response" && repeated ? MOST_REPEATED_CHARS : MOST_CHARS;
}

/**
 * Returns the button that marks the differences of the responses, null without two of them.
 * @param {Map<Key, Side>} sides
 * @param {string | undefined} other name of the other run, in a comparison
 */
function buttonOf(sides, other) {
  const response = sides.get("response");
  const reference = sides.get("ref_response");
  if (!response || !reference) return null;
  const button = differenceButton(differenceLabel(other), response, reference);
  // Readers of a comparison came for the differences.
  if (other) button.click();
  return button;
}

/**
 * @param {string | undefined} other name of the text to compare with, if it is not the reference
 */
function differenceLabel(other) {
  if (other) return message("Mark differences from {other}", { other });
  return message("Mark differences from the reference response");
}

/**
 * @param {Key} key
 * @param {string} text
 * @param {[string, string][]} turns
 * @returns {(Node | string)[]}
 */
function contentOf(key, text, turns) {
  /** @type {(Node | string)[]} */
  const content = [];
  if (key === "prompt" && turns.length) content.push(...turns.map(turn));
  else if (key === "response") content.push(...thinkingFolded(text));
  else content.push(text);
  if (!text) content.push(message("(empty)"));
  return content;
}

/**
 * Cuts a text to its beginning; returns a button that shows the whole text.
 * @param {HTMLElement} body
 * @param {number} length
 */
export function shortened(body, length) {
  body.classList.add("cut");
  const label = message("Show all {count} characters", { count: written(length, "count") });
  const button = el("button", { type: "button", class: "whole" }, label);
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
 * @param {Side} after
 * @param {Side} before
 */
export function differenceButton(label, after, before) {
  const button = el("button", { type: "button", "aria-pressed": "false" }, label);
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    if (!on) {
      button.setAttribute("aria-pressed", "false");
      after.body.replaceChildren(after.text);
      before.body.replaceChildren(before.text);
      return;
    }
    const runs = difference(before.text, after.text);
    if (!runs) {
      button.textContent = message("The texts differ too much to mark differences");
      button.disabled = true;
      return;
    }
    button.setAttribute("aria-pressed", "true");
    after.body.replaceChildren(...markedRuns(runs, "added"));
    before.body.replaceChildren(...markedRuns(runs, "removed"));
  });
  return button;
}

/**
 * Returns the text of one side, with what only it has marked.
 * @param {import("./diff.js").Run[]} runs
 * @param {"added" | "removed"} own
 */
function markedRuns(runs, own) {
  const nodes = [];
  for (const { kind, text } of runs) {
    if (kind === "same") nodes.push(document.createTextNode(text));
    else if (kind === own) nodes.push(el(own === "added" ? "ins" : "del", {}, text));
  }
  return nodes;
}
