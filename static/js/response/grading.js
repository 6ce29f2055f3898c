/** How a response was graded: its final answer beside the ground truth, and texts of its judge. */

/** @import { PanelData } from "../shared/types.d.ts" */

import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { folded } from "./conversation.js";
import { marked, message } from "../shared/words.js";

/** Maximum number of characters of an answer to show. */
const SHORT = 80;
/** Maximum number of characters of a text that its summary shows. */
const PREVIEW = 160;

const HELP = marked(
  "what the response marks as its answer: in a tag or a box, or after words such as “Answer:”. Compared by the report: the grader may read another one",
);

/**
 * Creates the figure of a response's final answer, null if the response marks none.
 * @param {PanelData} data
 * @param {number} i
 */
export function answerFigure(data, i) {
  const [text, isHit] = data.answers?.[data.n[i]] ?? [];
  if (text === undefined) return null;
  const shown = text.length > SHORT ? `${text.slice(0, SHORT)}…` : text;
  const value = el("dd", { dir: "auto" }, shown || message("(empty)"));
  if (isHit !== null && isHit !== undefined) value.append(" ", verdict(Boolean(isHit)));
  return el(
    "div",
    { "data-figure": "answer" },
    el("dt", { title: message(HELP) }, message("Final answer")),
    value,
  );
}

/** @param {boolean} isHit */
function verdict(isHit) {
  const label = isHit ? message("it is the ground truth") : message("it is not the ground truth");
  return el(
    "span",
    { class: isHit ? "right" : "wrong", role: "img", "aria-label": label, title: label },
    isHit ? "✓" : "✗",
  );
}

/**
 * Creates the folded texts of a response's judge, null if none are logged.
 * @param {PanelData} data
 * @param {number} i
 */
export function judgedTexts(data, i) {
  const texts = data.judged?.[data.n[i]] ?? [];
  if (!texts.length) return null;
  return el(
    "section",
    { class: "judged", "aria-label": message("Texts of the judge") },
    ...texts.map(([name, text]) => block(name, text)),
  );
}

/** @param {string} name of the logged field @param {string} text */
function block(name, text) {
  const count = message("{count} characters", { count: written(text.length, "count") });
  const preview = text.slice(0, PREVIEW).replace(/\s+/g, " ");
  const node = el(
    "details",
    { class: "folded" },
    el(
      "summary",
      { title: count },
      el("code", { dir: "auto" }, name),
      el("span", { class: "preview", dir: "auto" }, preview),
    ),
  );
  const fill = () => node.append(el("div", { class: "prose", dir: "auto" }, ...folded(text)));
  node.addEventListener("toggle", fill, { once: true });
  return node;
}
