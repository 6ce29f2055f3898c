/** The tokens of a response's prompt, folded: system prompt, template, tools and all. */

import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { message, plural } from "../shared/words.js";
import { kindOf, visible } from "./token-text.js";

/**
 * Creates the folded tokens; the text is made when it is first opened.
 * @param {string[]} texts readable text of each token, of a long prompt its first and last ones
 * @param {number} count of all tokens of the prompt
 */
export function promptTokens(texts, count) {
  const summary = plural(
    "{count} prompt token, not trained on",
    "{count} prompt tokens, not trained on",
    count,
    { count: written(count, "count") },
  );
  const folded = el("details", { class: "folded prompt-tokens" }, el("summary", {}, summary));
  const fill = () => folded.append(text(texts, count));
  folded.addEventListener("toggle", fill, { once: true });
  return folded;
}

/** @param {string[]} texts @param {number} count */
function text(texts, count) {
  const half = texts.length < count ? texts.length / 2 : texts.length;
  const label = message("Tokens of the prompt");
  // It can be scrolled, so that keys have to reach it.
  const node = el("div", { class: "token-text", role: "group", tabindex: "0", dir: "auto" });
  node.setAttribute("aria-label", label);
  node.append(block(texts.slice(0, half)));
  if (half < texts.length) {
    const left = count - texts.length;
    const words = plural("… {count} token left out …", "… {count} tokens left out …", left, {
      count: written(left, "count"),
    });
    node.append(el("p", { class: "note" }, words), block(texts.slice(half)));
  }
  return node;
}

/** @param {string[]} texts */
function block(texts) {
  const tokens = texts.map((one) => el("span", { class: kindOf(one) }, visible(one)));
  return el("div", { class: "block given" }, ...tokens);
}
