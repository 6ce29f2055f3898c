/** What a reader can do about a list without rows. */

/** @import { Rows } from "./rows.js" */

import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { message } from "../shared/words.js";

/**
 * Returns changes of the search and the filters that list rows again, with their number.
 * @param {Rows} rows
 * @returns {{kind: "everywhere" | "unfiltered" | "unsearched", count: number}[]}
 */
export function waysOut(rows) {
  const hits = rows.query ? rows.searchTest("") : () => true;
  const filtered = rows.filtered();
  /** @type {ReturnType<typeof waysOut>} */
  const ways = [];
  if (rows.query && rows.scope)
    ways.push({ kind: "everywhere", count: filtered.filter(hits).length });
  if (rows.isFiltered) {
    const inScope = rows.query ? rows.searchTest(rows.scope) : hits;
    ways.push({ kind: "unfiltered", count: rows.listable().filter(inScope).length });
  }
  if (rows.query) ways.push({ kind: "unsearched", count: filtered.length });
  return ways.filter(({ count }) => count > 0);
}

/** Returns what an empty list says, with buttons that change it. @param {Rows} rows */
export function noRows(rows) {
  if (!rows.size) return [message("Nothing to list.")];
  const buttons = waysOut(rows).map(({ kind, count }) => {
    const places = { count: written(count, "count") };
    const labels = {
      everywhere: message("Search all parts ({count})", places),
      unfiltered: message("Remove the filters ({count})", places),
      unsearched: message("Clear the search ({count})", places),
    };
    return el("button", { type: "button", onclick: () => change(rows, kind) }, labels[kind]);
  });
  const text = message("No row matches the search and the filters.");
  return [text, ...buttons.flatMap((button) => [" ", button])];
}

/** @param {Rows} rows @param {string} kind */
function change(rows, kind) {
  if (kind === "everywhere") rows.scope = "";
  if (kind === "unsearched") rows.query = "";
  if (kind === "unfiltered") rows.clearFilters();
  rows.update();
}
