/** The figures of a response: six in a line with its short texts, the others folded below. */

/** @import { ColumnData, PanelData } from "../shared/types.d.ts" */

import { answerFigure } from "./grading.js";
import { el } from "../shared/dom.js";
import { exact, ordinal, written } from "../shared/format.js";
import { marked, message, plural } from "../shared/words.js";

/** Figures by importance; the line has the first ones that are logged. */
const FIRST = [
  "mean_reward",
  "reward",
  "ref_reward",
  "valid_reward",
  "advantage_mean",
  "group_advantage",
  "group_mean",
  "kl_k1",
  "response_tokens",
  "surprisal_mean",
  "finished",
  "kl_max",
  "response_chars",
  "kl_k3",
];
/** Figures in the line, ground truth and final answer included. */
const IN_LINE = 6;

/** Logged strings that the line has, too. */
const STRINGS = ["extra:finish_reason"];

/** Minimum number of distinct values of a figure to show the response's rank. */
const RANKED_FROM = 5;

/** A value is not ranked if more than this share of the responses have it. */
const MOST_ALIKE = 0.1;

/**
 * Column key → text of each value that is shown as text.
 * @type {Record<string, Record<number, string>>}
 */
const WORDS = { finished: { 0: marked("cut off at the limit"), 1: marked("by itself") } };
/** @type {Record<string, string>} */
const LABELS = { finished: marked("Ended") };

/**
 * Creates the line of figures and, if there are more, the folded rest.
 * @param {PanelData} data
 * @param {number} i
 * @param {string | null} truth the ground truth if it is short
 * @returns {{line: HTMLElement, rest: HTMLElement | null}}
 */
export function stats(data, i, truth) {
  const graded = [
    truth && words("ground_truth", message("Ground truth"), truth),
    answerFigure(data, i),
  ].filter((figure) => figure instanceof Node);
  const known = knownFigures(data, i);
  const room = IN_LINE - graded.length;
  const first = known.toSorted((a, b) => importance(a) - importance(b)).slice(0, room);
  const others = known.filter((column) => !first.includes(column));
  const line = figureList(data, i, first, "line");
  if (line.firstElementChild) line.firstElementChild.after(...graded);
  else line.append(...graded);
  for (const { key, label, help } of data.columns) {
    const text = STRINGS.includes(key) ? data.strings?.[key]?.[i] : null;
    if (text) line.append(words(key, label, el("code", {}, text), help));
  }
  if (!others.length) return { line, rest: null };
  const rest = el(
    "details",
    { class: "all-figures" },
    el("summary", {}, moreFigures(others.length)),
    figureList(data, i, others, "rest"),
  );
  return { line, rest };
}

/**
 * Returns the columns of numbers that are known of response i.
 * @param {PanelData} data
 * @param {number} i
 */
function knownFigures({ columns, values }, i) {
  /** @param {string} key */
  const isKnown = (key) => (values[key]?.[i] ?? null) !== null;
  // If an advantage is logged, show it; the group's line has the computed one.
  const hidden = isKnown("advantage_mean") ? "group_advantage" : "";
  return columns.filter(({ key }) => isKnown(key) && key !== hidden);
}

/** Returns a figure's place in the order of importance. @param {ColumnData} column */
export function importance({ key }) {
  return FIRST.includes(key) ? FIRST.indexOf(key) : FIRST.length;
}

/** Returns the name of folded figures. @param {number} count */
export function moreFigures(count) {
  return plural("{count} more figure", "{count} more figures", count, { count });
}

/**
 * @param {PanelData} data
 * @param {number} i
 * @param {ColumnData[]} columns
 * @param {string} name of the list
 */
function figureList(data, i, columns, name) {
  const figures = columns.map((column) => stat(data, i, column));
  return el("dl", { class: `response-figures ${name}` }, ...figures);
}

/** @param {string} key @param {string} label @param {string | Node} text @param {string} [help] */
function words(key, label, text, help) {
  const term = el("dt", { title: help }, label);
  return el("div", { "data-figure": key }, term, el("dd", { dir: "auto" }, text));
}

/** @param {PanelData} data @param {number} i @param {ColumnData} column */
function stat(data, i, column) {
  const { key, unit, help } = column;
  const value = /** @type {number} */ (data.values[key][i]);
  const word = wordOf(data, i, key);
  const rank = word === null ? rankOf(data, key, i) : null;
  return el(
    "div",
    { "data-figure": key },
    el("dt", { title: help }, labelOf(column)),
    el(
      "dd",
      {},
      el("span", { title: exact(value) }, word ?? written(value, column.written)),
      unit && el("span", { class: "unit" }, ` ${unit}`),
      rank === null ? null : rankNote(rank, data.total),
    ),
  );
}

/**
 * Returns the word for a figure's value, null if it is a number.
 * @param {PanelData} data
 * @param {number} i
 * @param {string} key
 */
function wordOf(data, i, key) {
  const ending = data.strings?.ending?.[i];
  if (key === "finished" && ending) return ending;
  return wordFor(key, /** @type {number} */ (data.values[key][i]));
}

/**
 * Returns the word for a value of a figure, null if it is a number.
 * @param {string} key
 * @param {number} value
 */
export function wordFor(key, value) {
  const word = WORDS[key]?.[value];
  return word ? message(word) : null;
}

/** Returns the name of a figure beside its values. @param {ColumnData} column */
export function labelOf({ key, label }) {
  return LABELS[key] ? message(LABELS[key]) : label;
}

/** @param {number} rank @param {number} all */
function rankNote(rank, all) {
  const said = message(", {rank} of {all}", { rank: ordinal(rank), all });
  return el("span", { class: "rank" }, said);
}

/**
 * Returns the response's rank in the step, null if too few values are distinct.
 * @param {PanelData} data
 * @param {string} key
 * @param {number} i
 */
function rankOf(data, key, i) {
  const ranks = data.ranks[key];
  const rank = ranks?.[i];
  if (!rank || new Set(ranks).size < RANKED_FROM) return null;
  const alike = ranks.filter((other) => other === rank).length;
  return alike <= Math.max(1, ranks.length * MOST_ALIKE) ? rank : null;
}
