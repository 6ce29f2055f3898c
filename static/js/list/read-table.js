/** Reads a rendered table, and the page's row data if there are any, into `Rows`. */

import { Rows } from "./rows.js";

/** @typedef {import("./rows.js").Column} Column */

/**
 * @param {HTMLElement} section
 * @param {any} data the page's row data, or null if the table has all rows
 * @returns {{rows: Rows, nodes: (HTMLTableRowElement | null)[], rowIds: string[]}} `nodes` are the
 *   rendered rows, null for rows that are only in the data; `rowIds` are in the same order
 */
export function readTable(section, data) {
  const table = /** @type {HTMLTableElement} */ (section.querySelector("table"));
  const baked = [...table.tBodies[0].rows].filter((row) => row.dataset.n !== undefined);
  const headers = [.../** @type {HTMLTableSectionElement} */ (table.tHead).rows[0].cells];
  const rowIds = data ? idsOf(data) : baked.map((row) => row.dataset.n ?? "");
  const byId = new Map(baked.map((row) => [row.dataset.n, row]));
  const nodes = data ? rowIds.map((id) => byId.get(id) ?? null) : baked;
  const columns = headers.map((header, at) =>
    data ? fromData(header, at, nodes, data) : fromCells(header, at, nodes),
  );
  for (const meta of data?.columns ?? []) {
    if (!columns.some((column) => column.key === meta.key)) columns.push(unseen(meta, data));
  }
  const rows = new Rows(columns, rowIds.length);
  rows.filters = new Map(Object.entries(data?.filters ?? {}));
  return { rows, nodes, rowIds };
}

/** Returns the ids of rows: n for those of one step, step and n for those of a run. @returns {string[]} */
function idsOf({ n, values }) {
  return n.map((name, i) => (values.step ? `${values.step[i]}-${name}` : String(name)));
}

/** @param {HTMLTableCellElement} header @returns {Omit<Column, "numbers" | "strings">} */
function describe(header) {
  const unit = header.querySelector(".unit")?.textContent ?? "";
  const text = header.textContent ?? "";
  return {
    key: header.dataset.key ?? "",
    label: (unit ? text.slice(0, text.lastIndexOf(unit)) : text).trim(),
    unit,
    kind: header.classList[0],
    written: "number",
    group: "",
    help: header.title,
    shown: !header.hidden,
  };
}

/** @returns {Column} */
function fromData(header, at, nodes, data) {
  const about = describe(header);
  const { key } = about;
  if (key === "n")
    return { ...about, written: "count", numbers: Float64Array.from(data.n), strings: null };
  const { written = "number", group = "" } =
    data.columns.find((column) => column.key === key) ?? {};
  Object.assign(about, { written, group });
  if (data.values[key]) return { ...about, numbers: toNumbers(data.values[key]), strings: null };
  const logged = data.texts[key] ?? data.strings[key] ?? [];
  const strings = nodes.map((row, i) => logged[i] ?? (row ? cellText(row.cells[at]) : null));
  return { ...about, numbers: null, strings, prefixes: key === "prompt" ? data.prefixes : [] };
}

/** Returns a column that is in the data but not in the rendered table. @returns {Column} */
function unseen(meta, data) {
  const values = data.values[meta.key];
  const about = { ...meta, shown: false };
  if (values) return { ...about, numbers: toNumbers(values), strings: null };
  return { ...about, numbers: null, strings: data.strings[meta.key] ?? [] };
}

/** @returns {Column} */
function fromCells(header, at, nodes) {
  const about = describe(header);
  const cells = nodes.map((row) => row.cells[at]);
  const isText = about.kind === "text" || about.kind === "token";
  const numbers = isText ? null : Float64Array.from(cells, cellNumber);
  const readable = numbers?.some((value) => !Number.isNaN(value));
  return {
    ...about,
    numbers: readable ? numbers : null,
    strings: readable ? null : cells.map(cellText),
  };
}

/** Returns a cell's number: `data-v` or else the `title`, its exact value; NaN without either. */
function cellNumber(cell) {
  const text = cell.dataset.v ?? cell.title;
  return text === "" ? NaN : Number(text);
}

/** @param {HTMLTableCellElement} cell */
function cellText(cell) {
  if (cell.classList.contains("missing")) return null;
  return (cell.querySelector(".clamp") ?? cell).textContent ?? "";
}

/** @param {(number | null)[]} values */
function toNumbers(values) {
  return Float64Array.from(values, (value) => value ?? NaN);
}
