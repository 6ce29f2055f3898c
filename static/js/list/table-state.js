/**
 * Keeps sort, search and filters of a table in the URL: `sort`, `q`, `min.KEY`, `max.KEY`,
 * `has.KEY`, each with a prefix if a page has several tables.
 */

import { formatSort, parseSort, searchable } from "./rows.js";

/** @typedef {import("./rows.js").Rows} Rows */

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
  const matches = (key) =>
    key.startsWith(prefix) && /^(sort|q|(min|max|has)\..*)$/.test(key.slice(prefix.length));
  const read = () => {
    const entries = address.entries().filter(([key]) => matches(key));
    if (JSON.stringify(entries) === current) return;
    readEntries(
      rows,
      entries.map(([key, value]) => [key.slice(prefix.length), value]),
    );
    rows.update();
  };
  const write = () => {
    const entries = toEntries(rows).map(
      ([key, value]) => /** @type {[string, string]} */ ([prefix + key, value]),
    );
    current = JSON.stringify(entries);
    address.replace(matches, entries);
  };
  rows.listeners.add(write);
  address.onChange(read, signal);
  read();
}

/** @param {Rows} rows @param {string[][]} entries */
function readEntries(rows, entries) {
  const params = new Map(/** @type {[string, string][]} */ (entries));
  rows.query = searchable((params.get("q") ?? "").trim());
  rows.setSort(parseSort(params.get("sort") ?? ""));
  rows.ranges.clear();
  rows.words.clear();
  for (const [name, value] of params) {
    const [, kind, key] = /^(min|max|has)\.(.*)$/s.exec(name) ?? [];
    const text = value.trim();
    if (!kind || !text) continue;
    if (kind === "has") {
      if (rows.column(key)?.strings)
        rows.words.set(key, rows.filters.has(key) ? value : text.toLowerCase());
    } else if (rows.column(key)?.numbers && Number.isFinite(Number(text))) {
      const [low, high] = rows.ranges.get(key) ?? [-Infinity, Infinity];
      rows.ranges.set(key, kind === "min" ? [Number(text), high] : [low, Number(text)]);
    }
  }
}

/** @param {Rows} rows @returns {[string, string][]} */
function toEntries(rows) {
  /** @type {[string, string][]} */
  const entries = [];
  const sort = formatSort(rows.sort);
  if (sort !== formatSort(rows.defaultSort)) entries.push(["sort", sort]);
  if (rows.query) entries.push(["q", rows.query]);
  for (const [key, [low, high]] of rows.ranges) {
    if (Number.isFinite(low)) entries.push([`min.${key}`, String(low)]);
    if (Number.isFinite(high)) entries.push([`max.${key}`, String(high)]);
  }
  for (const [key, words] of rows.words) entries.push([`has.${key}`, words]);
  return entries;
}
