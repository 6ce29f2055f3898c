/** The figures of a response: six in a line with its short texts, the others folded below. */

import { el } from "../shared/dom.js";
import { exact, ordinal, written } from "../shared/format.js";
import { marked, message, plural } from "../shared/words.js";

/** Figures by importance; the line has the first six that are logged. */
const FIRST = [
  ..."reward ref_reward valid_reward advantage_mean group_advantage group_mean".split(" "),
  ..."kl_k1 response_tokens surprisal_mean finished kl_max response_chars kl_k3".split(" "),
];
const IN_LINE = 6;

/** Logged strings that the line has, too. */
const STRINGS = ["extra:finish_reason"];

/** Minimum number of distinct values of a figure to show the response's rank. */
const RANKED_FROM = 5;

/** Column key → text of each value that is shown as text. @type {Record<string, Record<number, string>>} */
const WORDS = { finished: { 0: marked("cut off at the limit"), 1: marked("by itself") } };
/** @type {Record<string, string>} */
const LABELS = { finished: marked("Ended") };

/**
 * @param {any} data the page's row data
 * @param {number} i
 * @param {string} truth the ground truth if it is short, else ""
 * @returns {HTMLElement[]} the line and, if there are more figures, the folded rest
 */
export function stats(data, i, truth) {
  // If an advantage is logged, show it; the group's line has the computed one.
  const logged = (data.values.advantage_mean?.[i] ?? null) !== null;
  const known = data.columns.filter(
    ({ key }) => (data.values[key]?.[i] ?? null) !== null && !(logged && key === "group_advantage"),
  );
  const place = ({ key }) => (FIRST.includes(key) ? FIRST.indexOf(key) : FIRST.length);
  const first = known.toSorted((a, b) => place(a) - place(b)).slice(0, IN_LINE);
  const rest = known.filter((column) => !first.includes(column));
  const list = (columns, name) =>
    el(
      "dl",
      { class: `response-figures ${name}` },
      ...columns.map((column) => stat(data, i, column)),
    );
  const folded = el(
    "details",
    { class: "all-figures" },
    el(
      "summary",
      {},
      plural("{count} more figure", "{count} more figures", rest.length, { count: rest.length }),
    ),
    list(rest, "rest"),
  );
  const line = list(first, "line");
  if (truth) line.children[0].after(words("ground_truth", message("Ground truth"), truth));
  for (const { key, label, help } of data.columns) {
    const text = STRINGS.includes(key) && data.strings?.[key]?.[i];
    if (text) line.append(words(key, label, el("code", {}, text), help));
  }
  return [line, ...(rest.length ? [folded] : [])];
}

/** @param {string} key @param {string} label @param {string | Node} text @param {string} [help] */
function words(key, label, text, help) {
  return el(
    "div",
    { "data-figure": key },
    el("dt", { title: help }, label),
    el("dd", { dir: "auto" }, text),
  );
}

function stat(data, i, { key, label, unit, help, written: how }) {
  const value = data.values[key][i];
  const word =
    (key === "finished" && data.strings?.ending?.[i]) ||
    (WORDS[key]?.[value] && message(WORDS[key][value]));
  const rank = !word ? rankOf(data, key, i) : null;
  return el(
    "div",
    { "data-figure": key },
    el("dt", { title: help }, LABELS[key] ? message(LABELS[key]) : label),
    el(
      "dd",
      {},
      el("span", { title: exact(value) }, word || written(value, how)),
      unit && el("span", { class: "unit" }, ` ${unit}`),
      rank &&
        el(
          "span",
          { class: "rank" },
          message(", {rank} of {all}", { rank: ordinal(rank), all: data.total }),
        ),
    ),
  );
}

/** Returns the response's rank in the step, if there are enough distinct values. */
function rankOf(data, key, i) {
  const ranks = data.ranks[key];
  const rank = ranks?.[i];
  if (!rank || new Set(ranks).size < RANKED_FROM) return null;
  const alike = ranks.reduce((count, other) => count + Number(other === rank), 0);
  return alike <= Math.max(1, ranks.length / 10) ? rank : null;
}
