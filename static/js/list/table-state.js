/**
 * Keeps sort, search and filters of a table in the URL: `sort`, `q`, `in` (the scope of the search),
 * `min.KEY`, `max.KEY`, `has.KEY`, `is.KEY` (several, with commas), each with a prefix if a page has several tables.
 */

import { searchable } from "./query.js";
import { formatSort, parseSort } from "./rows.js";

/** @typedef {import("./rows.js").Rows} Rows */
/** @typedef {[string, string]} Entry name and value of a parameter */

/**
 * Synchronizes the table's state with the URL, in both directions.
 * Invalid parameters are ignored and removed from the URL.
 * @param {Rows} rows
 * @param {import("../shared/address.js").Address} address
 * @param {AbortSignal} signal
 * @param {string} [prefix]
 */
export function keepInUrl(rows, address, signal, prefix = "") {
  /** @type {string | null} the state that was read or written last */
  let current = null;
  /** @param {string} name */
  const isOurs = (name) =>
    name.startsWith(prefix) && /^(sort|q|in|(min|max|has|is)\..*)$/.test(name.slice(prefix.length));
  const read = () => {
    const entries = address.entries().filter(([name]) => isOurs(name));
    if (JSON.stringify(entries) === current) return;
    const own = entries.map(([name, value]) => [name.slice(prefix.length), value]);
    readEntries(rows, /** @type {Entry[]} */ (own));
    rows.update();
  };
  const write = () => {
    const entries = toEntries(rows).map(([name, value]) => [prefix + name, value]);
    current = JSON.stringify(entries);
    address.replace(isOurs, /** @type {Entry[]} */ (entries));
  };
  rows.listeners.add(write);
  address.onChange(read, signal);
  read();
}

/**
 * Puts the state that parameters say into rows, without updating them.
 * @param {Rows} rows
 * @param {Entry[]} entries
 */
export function readEntries(rows, entries) {
  const parameters = new Map(entries);
  rows.query = searchable((parameters.get("q") ?? "").trim());
  rows.scope = rows.scopes.find((scope) => scope === parameters.get("in")) ?? "";
  rows.setSort(parseSort(parameters.get("sort") ?? ""));
  rows.clearFilters();
  for (const [name, value] of parameters) {
    const [, kind, key] = /^(min|max|has|is)\.(.*)$/s.exec(name) ?? [];
    if (!kind || !value.trim()) continue;
    if (kind === "has") readWords(rows, key, value);
    else if (kind === "is") readIds(rows, key, value);
    else readEnd(rows, kind, key, Number(value));
  }
}

/** @param {Rows} rows @param {string} key @param {string} value */
function readWords(rows, key, value) {
  if (!rows.column(key)?.strings) return;
  rows.words.set(key, rows.asWords(key, rows.filters.has(key) ? value : value.trim()));
}

/** @param {Rows} rows @param {string} key @param {string} value */
function readIds(rows, key, value) {
  const known = new Set(rows.column(key)?.ids);
  const ids = value.split(",").filter((id) => known.has(id));
  if (ids.length) rows.only.set(key, new Set(ids));
}

/**
 * Reads an end of a range.
 * @param {Rows} rows
 * @param {string} kind "min" or "max"
 * @param {string} key
 * @param {number} end
 */
function readEnd(rows, kind, key, end) {
  if (!rows.column(key)?.numbers || !Number.isFinite(end)) return;
  const [low, high] = rows.ranges.get(key) ?? [-Infinity, Infinity];
  rows.ranges.set(key, kind === "min" ? [end, high] : [low, end]);
}

/**
 * Returns the parameters that say the state of rows; without what is usual.
 * @param {Rows} rows
 * @returns {Entry[]}
 */
export function toEntries(rows) {
  /** @type {Entry[]} */
  const entries = [];
  const sort = formatSort(rows.sort);
  if (sort !== formatSort(rows.defaultSort)) entries.push(["sort", sort]);
  if (rows.query) entries.push(["q", rows.query]);
  if (rows.scope) entries.push(["in", rows.scope]);
  for (const [key, [low, high]] of rows.ranges) {
    if (Number.isFinite(low)) entries.push([`min.${key}`, String(low)]);
    if (Number.isFinite(high)) entries.push([`max.${key}`, String(high)]);
  }
  for (const [key, ids] of rows.only) entries.push([`is.${key}`, [...ids].sort().join(",")]);
  for (const [key, words] of rows.words) entries.push([`has.${key}`, words]);
  return entries;
}
