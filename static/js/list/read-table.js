/** Reads a rendered table, and the page's row data if there are any, into `Rows`. */

/** @import { ColumnData, ListData } from "../shared/types.d.ts" */
/** @import { Column } from "./rows.js" */

import { Rows } from "./rows.js";

/** @typedef {Omit<Column, "numbers" | "strings">} Header what a column's header says about it */
/** @typedef {HTMLTableRowElement | null} RowNode a rendered row, null for one that is only data */
/** @typedef {{rows: Rows, nodes: RowNode[], rowIds: string[]}} Read `nodes` and `rowIds` by row */

/**
 * @param {HTMLElement} section
 * @param {ListData | null} data the page's row data, null if the table has all rows
 * @returns {Read}
 */
export function readTable(section, data) {
  const table = /** @type {HTMLTableElement} */ (section.querySelector("table"));
  const [headerRow] = /** @type {HTMLTableSectionElement} */ (table.tHead).rows;
  const headers = [...headerRow.cells].map(describe);
  const rendered = [...table.tBodies[0].rows].filter((row) => row.dataset.n !== undefined);
  return data ? fromData(headers, rendered, data) : fromCells(headers, rendered);
}

/** @param {HTMLTableCellElement} header @returns {Header} */
function describe(header) {
  const unit = header.querySelector(".unit")?.textContent ?? "";
  const text = header.textContent ?? "";
  const label = unit ? text.slice(0, text.lastIndexOf(unit)) : text;
  return {
    key: header.dataset.key ?? "",
    label: label.trim(),
    unit,
    kind: header.classList[0],
    written: "number",
    group: "",
    help: header.title,
    term: header.dataset.term ?? "",
    shown: !header.hidden,
    badEnd: header.dataset.badEnd === "low" ? "low" : "",
    width: "",
  };
}

/** @param {Header[]} headers @param {HTMLTableRowElement[]} nodes @returns {Read} */
function fromCells(headers, nodes) {
  const columns = headers.map((header, at) =>
    columnOfCells(
      header,
      nodes.map((row) => row.cells[at]),
    ),
  );
  const rowIds = nodes.map((row) => row.dataset.n ?? "");
  return { rows: new Rows(columns, rowIds.length), nodes, rowIds };
}

/** @param {Header} header @param {HTMLTableCellElement[]} cells @returns {Column} */
function columnOfCells(header, cells) {
  if (header.kind === "level") return columnOfLevels(header, cells);
  const isText = header.kind === "text" || header.kind === "token";
  const numbers = isText ? null : Float64Array.from(cells, cellNumber);
  if (numbers?.some((value) => !Number.isNaN(value))) return { ...header, numbers, strings: null };
  return { ...header, numbers: null, strings: cells.map(cellText) };
}

/** @param {Header} header @param {HTMLTableCellElement[]} cells @returns {Column} */
function columnOfLevels(header, cells) {
  return {
    ...header,
    numbers: null,
    strings: cells.map(cellText),
    ranks: Float64Array.from(cells, cellNumber),
    ids: cells.map((cell) => cell.dataset.level ?? ""),
  };
}

/**
 * @param {Header[]} headers
 * @param {HTMLTableRowElement[]} rendered
 * @param {ListData} data
 * @returns {Read}
 */
function fromData(headers, rendered, data) {
  const rowIds = idsOf(data);
  const byId = new Map(rendered.map((row) => [row.dataset.n, row]));
  const nodes = rowIds.map((id) => byId.get(id) ?? null);
  const columns = headers.map((header, at) => {
    /** @param {RowNode} row */
    const textIn = (row) => row && cellText(row.cells[at]);
    return columnOfData(header, data, (i) => textIn(nodes[i]));
  });
  const keys = new Set(columns.map(({ key }) => key));
  for (const described of data.columns) {
    if (!keys.has(described.key)) columns.push(unrenderedColumn(described, data));
  }
  const rows = new Rows(columns, rowIds.length);
  rows.filters = new Map(Object.entries(data.filters ?? {}));
  return { rows, nodes, rowIds };
}

/**
 * Returns the ids of rows: n for those of one step, step and n for those of a run.
 * @param {ListData} data
 */
function idsOf({ n, values }) {
  const steps = values.step;
  return n.map((name, i) => (steps ? `${steps[i]}-${name}` : String(name)));
}

/**
 * @param {Header} header
 * @param {ListData} data
 * @param {(i: number) => string | null} renderedText returns the text in the cell of row i
 * @returns {Column}
 */
function columnOfData(header, data, renderedText) {
  const { key } = header;
  if (key === "n") {
    return { ...header, written: "count", numbers: Float64Array.from(data.n), strings: null };
  }
  const described = data.columns.find((column) => column.key === key);
  const { written = "number", group = "" } = described ?? {};
  const values = data.values[key];
  if (values) return { ...header, written, group, numbers: toNumbers(values), strings: null };
  const logged = data.texts[key] ?? data.strings[key] ?? [];
  const strings = data.n.map((_, i) => logged[i] ?? renderedText(i));
  const prefixes = data.prefixes?.[key];
  return { ...header, written, group, numbers: null, strings, prefixes };
}

/**
 * Returns a column that is in the data but not in the rendered table.
 * @param {ColumnData} described
 * @param {ListData} data
 * @returns {Column}
 */
function unrenderedColumn(described, data) {
  const header = { ...described, badEnd: described.bad_end, shown: false };
  const values = data.values[described.key];
  if (values) return { ...header, numbers: toNumbers(values), strings: null };
  return { ...header, numbers: null, strings: data.strings[described.key] ?? [] };
}

/**
 * Returns a cell's number: `data-v` or else the `title`, its exact value; NaN without either.
 * @param {HTMLTableCellElement} cell
 */
function cellNumber(cell) {
  const text = cell.dataset.v ?? cell.title;
  return text === "" ? NaN : Number(text);
}

/** @param {HTMLTableCellElement} cell @returns {string | null} */
function cellText(cell) {
  if (cell.classList.contains("missing")) return null;
  // What is below a name tells it apart from others, and is no part of it.
  const name = cell.querySelector(".below") && cell.querySelector("a");
  return (cell.querySelector(".clamp") ?? name ?? cell).textContent ?? "";
}

/** @param {(number | null)[]} values */
function toNumbers(values) {
  return Float64Array.from(values, (value) => value ?? NaN);
}
