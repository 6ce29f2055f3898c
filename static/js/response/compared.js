/** Both responses to a prompt of a comparison: how they end, and their figures side by side. */

/** @import { ColumnData, Compared, PanelData, Side } from "../shared/types.d.ts" */

import { breakable, el } from "../shared/dom.js";
import { exact, written } from "../shared/format.js";
import { beginsInside, endOf } from "./text-end.js";
import { importance, labelOf, moreFigures, wordFor } from "./stats.js";
import { message } from "../shared/words.js";

/** Figures that are not folded. */
const MOST_FIRST = 7;

/** Key of a side → that of its text. @type {Record<string, string>} */
export const TEXT_OF_SIDE = { new: "response", base: "ref_response" };

/**
 * Creates the ends of both responses, null if the page has neither.
 * @param {Compared} compared
 * @param {PanelData} data
 * @param {number} at
 */
export function ends(compared, data, at) {
  const shown = compared.sides.flatMap((side) => {
    const text = data.texts[TEXT_OF_SIDE[side.key]]?.[at] ?? null;
    return text === null ? [] : [endNode(side, text, data.n[at])];
  });
  if (!shown.length) return null;
  return el(
    "section",
    { class: "ends-of-both", "aria-label": message("How both responses end") },
    el("h3", {}, message("How both responses end")),
    el("div", { class: "side-by-side" }, ...shown),
  );
}

/** @param {Side} side @param {string} text @param {number} n */
function endNode(side, text, n) {
  const end = endOf(text);
  const isCut = end.length < text.trimEnd().length;
  const answer = side.answers[n];
  return el(
    "div",
    { "data-end": side.key },
    el("h4", { dir: "auto" }, side.name),
    answer === undefined
      ? null
      : el(
          "p",
          { class: "answer" },
          el("span", { class: "label" }, message("Final answer")),
          " ",
          el("strong", { dir: "auto" }, answer.trim() || message("(empty)")),
        ),
    el(
      "div",
      { class: "prose", dir: "auto" },
      isCut ? `…${beginsInside(text, end) ? "" : " "}` : "",
      end || message("(empty)"),
    ),
  );
}

/**
 * Creates the table of the most important figures of both responses and, if there are more, the
 * folded rest.
 * @param {Compared} compared
 * @param {number} at
 * @returns {{table: HTMLElement | null, rest: HTMLElement | null}}
 */
export function figures({ columns, sides }, at) {
  const known = columns
    .filter(({ key }) => sides.some((side) => isKnown(side, key, at)))
    .toSorted((a, b) => importance(a) - importance(b));
  if (!known.length) return { table: null, rest: null };
  const others = known.slice(MOST_FIRST);
  const caption = message("Figures of both responses");
  const table = figureTable(caption, known.slice(0, MOST_FIRST), sides, at);
  if (!others.length) return { table, rest: null };
  const more = moreFigures(others.length);
  const rest = el(
    "details",
    { class: "all-figures" },
    el("summary", {}, more),
    figureTable(more, others, sides, at),
  );
  return { table, rest };
}

/** @param {string} caption @param {ColumnData[]} columns @param {Side[]} sides @param {number} at */
function figureTable(caption, columns, sides, at) {
  const heads = sides.map(({ name }) =>
    el("th", { scope: "col", dir: "auto" }, ...breakable(name)),
  );
  return el(
    "table",
    { class: "figures-of-both" },
    el("caption", {}, caption),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, message("Figure")), ...heads)),
    el("tbody", {}, ...columns.map((column) => figureRow(column, sides, at))),
  );
}

/** @param {Side} side @param {string} key @param {number} at */
function isKnown(side, key, at) {
  return (side.values[key]?.[at] ?? null) !== null;
}

/** @param {ColumnData} column @param {Side[]} sides @param {number} at */
function figureRow(column, sides, at) {
  const { key, unit, help, term } = column;
  const about = term ? { "data-term": term } : { title: help };
  const name = el("span", about, labelOf(column));
  const cells = sides.map((side) => {
    if (!isKnown(side, key, at)) return el("td", {}, el("span", { class: "muted" }, "–"));
    const value = /** @type {number} */ (side.values[key][at]);
    return el("td", { title: exact(value) }, wordFor(key, value) ?? written(value, column.written));
  });
  return el(
    "tr",
    { "data-figure": key },
    el("th", { scope: "row" }, name, unit && el("span", { class: "unit" }, ` ${unit}`)),
    ...cells,
  );
}
