/** Shows `Rows` in a table: reuses the rendered rows, and adds rows while the reader scrolls. */

/** @import { Column, NumberColumn } from "./rows.js" */
/** @import { Read } from "./read-table.js" */

import { breakable, el } from "../shared/dom.js";
import { MISSING, exact, written } from "../shared/format.js";
import { mark } from "../shared/marks.js";
import { addTermButton } from "../shared/terms.js";
import { message } from "../shared/words.js";
import { valueAt, valuesOf } from "./rows.js";

/** Rows added at a time. */
const CHUNK = 50;
/** Rows are added when the last one is this near to the visible part, in pixels. */
const NEAR_PX = 400;

/** Columns of numbers that are ids or ranks, so that bars would mean nothing. */
const WITHOUT_BAR = ["n", "prompt_id", "worth"];

/**
 * @typedef {object} Options
 * @property {AbortSignal} signal
 * @property {(i: number) => string} href address of row i
 * @property {(i: number) => void} [open] called on a click on row i; by default its link is followed
 * @property {(column: NumberColumn, i: number) => string} [cellClass] class of a number's cell,
 *   instead of a bar
 * @property {(column: Column, i: number) => string | null} [text] returns the excerpt of a text to
 *   show
 * @property {(i: number) => string[]} [badges] labels after the first cell of row i
 */

export class TableView {
  /**
   * @param {HTMLElement} section
   * @param {Read} read
   * @param {Options} options
   */
  constructor(section, { rows, nodes, rowIds }, options) {
    this.rows = rows;
    this.nodes = nodes;
    this.rowIds = rowIds;
    this.options = options;
    this.table = /** @type {HTMLTableElement} */ (section.querySelector("table"));
    this.body = this.table.tBodies[0];
    this.box = /** @type {HTMLElement} */ (section.querySelector(".scroll"));
    this.head = /** @type {HTMLTableSectionElement} */ (this.table.tHead).rows[0];
    /** Columns that have cells in the rendered table, in order. */
    this.renderedColumns = rows.columns.slice(0, this.head.cells.length);
    /** Number of rows that are in the document. */
    this.shown = 0;
    this.selected = -1;
    this.box.removeAttribute("tabindex");
    // Otherwise the browser would scroll to the row that the URL names.
    for (const row of nodes) row?.removeAttribute("id");
    for (const cell of this.head.cells) this.addSortButton(cell);
    const { signal } = options;
    this.box.addEventListener("scroll", () => this.addNearRows(), { passive: true, signal });
    this.body.addEventListener("click", (event) => this.clicked(event), { signal });
    this.body.addEventListener("keydown", (event) => this.keyPressed(event), { signal });
    addEventListener("beforeprint", () => this.showRows(Infinity), { signal });
    addEventListener("afterprint", () => this.render(), { signal });
    rows.listeners.add(() => this.render());
  }

  /** @param {HTMLTableCellElement} cell */
  addSortButton(cell) {
    const button = el("button", { type: "button", class: "sort" }, ...cell.childNodes);
    button.addEventListener("click", () => this.toggleSort(cell.dataset.key ?? ""));
    cell.append(button);
    addTermButton(cell, button.textContent);
  }

  /**
   * Sorts by a column: numbers descending first, texts ascending; a second press turns the order
   * round, a third one restores the first order.
   * @param {string} key
   */
  toggleSort(key) {
    const { rows } = this;
    const current = rows.sort.find((part) => part.key === key);
    const down = Boolean(rows.column(key)?.numbers);
    if (!current) rows.sortBy([{ key, down }]);
    else if (current.down === down) rows.sortBy([{ key, down: !down }]);
    else rows.sortBy([]);
  }

  showSort() {
    const { sort } = this.rows;
    for (const cell of this.head.cells) {
      const sorted = sort.find((part) => part.key === cell.dataset.key);
      cell.removeAttribute("aria-sort");
      if (sorted) cell.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
    }
  }

  /**
   * Opens the row that was clicked, unless the reader selects text or wants a new tab.
   * @param {MouseEvent} event
   */
  clicked(event) {
    const target = /** @type {Element} */ (event.target);
    const row = target.closest("tr");
    const link = target.closest("a");
    if (!row?.dataset.n || wantsNewPage(event)) return;
    if (link && !this.isOwnLink(link, row)) return;
    const isSelecting = String(getSelection()) !== "";
    if (isSelecting) return;
    const { open } = this.options;
    if (open) {
      event.preventDefault();
      open(this.rowIds.indexOf(row.dataset.n));
    } else if (!link) {
      row.querySelector("a")?.click();
    }
  }

  /**
   * Returns whether a link is the row's name, and not followed as the row opens here.
   * @param {Element} link
   * @param {HTMLTableRowElement} row
   */
  isOwnLink(link, row) {
    return this.options.open !== undefined && link.closest("td") === row.cells[0];
  }

  /** Moves the focus between the links of rows on arrow keys. @param {KeyboardEvent} event */
  keyPressed(event) {
    /** @type {Record<string, number>} */
    const moves = { ArrowUp: -1, ArrowDown: 1 };
    const delta = moves[event.key];
    const row = /** @type {Element} */ (event.target).closest("tr");
    if (!delta || !row || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.focusRow(this.rows.order.indexOf(this.rowIds.indexOf(row.dataset.n ?? "")) + delta);
  }

  /** Shows the first `count` rows in sorted order. */
  render(count = CHUNK) {
    this.showSort();
    const focused = /** @type {HTMLElement | null} */ (document.activeElement);
    const inside = this.body.contains(focused);
    this.shown = 0;
    this.body.replaceChildren(...(this.rows.order.length ? [] : [this.emptyRow()]));
    this.showRows(count);
    // Re-inserting a focused row blurs it.
    if (inside && focused?.isConnected) focused.focus({ preventScroll: true });
    // Read sizes after all changes, so that the browser computes the layout only once.
    const { offsetHeight } = this.head;
    this.addNearRows();
    this.box.style.scrollPaddingTop = `${offsetHeight}px`;
  }

  addNearRows() {
    const { box } = this;
    if (box.scrollTop + box.clientHeight > box.scrollHeight - NEAR_PX)
      this.showRows(this.shown + CHUNK);
  }

  /** Shows at least the first `count` rows. @param {number} count */
  showRows(count) {
    const { order, query } = this.rows;
    if (Math.min(count, order.length) <= this.shown) return;
    this.body.append(...order.slice(this.shown, count).map((i) => this.row(i)));
    this.shown = Math.min(count, order.length);
    mark("found", this.body, query ? [query] : []);
  }

  /** Returns the row at a sorted position, null if there is none. @param {number} place */
  rowAt(place) {
    if (place < 0 || place >= this.rows.order.length) return null;
    if (place >= this.shown) this.showRows(place + CHUNK);
    return this.nodes[this.rows.order[place]];
  }

  /** @param {number} place sorted position */
  focusRow(place) {
    const row = this.rowAt(place);
    row?.querySelector("a")?.focus({ preventScroll: true });
    if (row) this.reveal(row);
  }

  /**
   * Scrolls the table, not the page, so that a row is visible below the header.
   * @param {HTMLElement} row
   */
  reveal(row) {
    const [outer, inner] = [this.box.getBoundingClientRect(), row.getBoundingClientRect()];
    const top = outer.top + this.head.offsetHeight;
    if (inner.top < top) this.box.scrollTop += inner.top - top;
    else if (inner.bottom > outer.bottom) this.box.scrollTop += inner.bottom - outer.bottom + 8;
  }

  emptyRow() {
    const text = this.rows.size
      ? message("No row matches the search and the filters.")
      : message("Nothing to list.");
    return el("tr", { class: "empty" }, el("td", { colspan: this.renderedColumns.length }, text));
  }

  /**
   * Returns the node of row i, with cells for all columns that were shown so far.
   * @param {number} i
   */
  row(i) {
    const node = (this.nodes[i] ??= el("tr", { "data-n": this.rowIds[i] }));
    const { cells } = node;
    this.renderedColumns.forEach((column, k) => {
      if (k === cells.length) node.append(this.cell(column, i));
      if (cells[k].hidden === column.shown) cells[k].hidden = !column.shown;
      this.showExcerpt(cells[k], column, i);
    });
    return node;
  }

  /**
   * Replaces the text of a cell by its excerpt, if the list has excerpts.
   * @param {Element} cell
   * @param {Column} column
   * @param {number} i
   */
  showExcerpt(cell, column, i) {
    const { text } = this.options;
    if (!text || column.kind !== "text" || (column.strings?.[i] ?? null) === null) return;
    const excerpt = text(column, i);
    if (excerpt === null) return;
    const clamp = cell.querySelector(".clamp");
    if (clamp && clamp.textContent !== excerpt) clamp.textContent = excerpt;
  }

  /** @param {Column} column @param {number} i */
  cell(column, i) {
    const value = valueAt(column, i);
    if (column === this.renderedColumns[0]) return this.nameCell(column, i);
    if (column.key === "n") return el("td", { class: "number" }, value);
    if (column.numbers) return this.numberCell(/** @type {NumberColumn} */ (column), i);
    if (column.kind !== "token") return textCell(column, /** @type {string | null} */ (value));
    return el("td", { class: "token" }, el("code", { dir: "auto" }, value));
  }

  /**
   * Returns the first cell of a row: a link and badges.
   * @param {Column} column
   * @param {number} i
   */
  nameCell(column, i) {
    const names = this.options.badges?.(i) ?? [];
    const badges = names.flatMap((name) => [" ", el("span", { class: "badge" }, name)]);
    const link = el("a", { href: this.options.href(i) }, valueAt(column, i));
    return el("td", { class: column.kind }, link, ...badges);
  }

  /** @param {NumberColumn} column @param {number} i */
  numberCell(column, i) {
    const number = column.numbers[i];
    const look = this.options.cellClass?.(column, i) ?? barClass(column, number);
    const properties = { class: `number ${look}`, title: exact(number) };
    return el("td", properties, written(number, column.written));
  }

  /** @param {string} key @param {boolean} shown */
  showColumn(key, shown) {
    const column = this.rows.column(key);
    if (!column) return;
    column.shown = shown;
    const group = /** @type {HTMLElement} */ (this.table.querySelector("colgroup"));
    if (!this.renderedColumns.includes(column)) {
      this.renderedColumns.push(column);
      const cell = headerCell(column);
      this.head.append(cell);
      const width = column.label.length > 16 ? " broad" : "";
      group.append(el("col", { class: column.kind + width, "data-key": key }));
      this.addSortButton(cell);
    }
    const at = this.renderedColumns.indexOf(column);
    this.head.cells[at].hidden = !shown;
    /** @type {HTMLElement} */ (group.children[at]).hidden = !shown;
    this.render(this.shown);
  }

  /** Marks row i as open and scrolls to it; -1 for none. @param {number} i */
  select(i) {
    this.nodes[this.selected]?.removeAttribute("aria-current");
    this.selected = i;
    const row = this.rowAt(this.rows.order.indexOf(i));
    row?.setAttribute("aria-current", "true");
    if (row) this.reveal(row);
  }
}

/** Returns whether a click opens a tab or window in browsers. @param {MouseEvent} event */
function wantsNewPage(event) {
  return event.ctrlKey || event.metaKey || event.shiftKey;
}

/** @param {Column} column @param {string | null} value */
function textCell(column, value) {
  if (value === null) {
    const missing = el("div", { class: "clamp", dir: "auto" }, MISSING);
    const title = message("not logged");
    return el("td", { class: "text", "data-key": column.key, title }, missing);
  }
  const text = valuesOf(column.key, value).join(", ");
  const size = sharedLength(text, column.prefixes ?? []);
  const shared = size > 0 && el("span", { class: "shared" }, text.slice(0, size));
  const clamp = el("div", { class: "clamp", dir: "auto" }, shared, text.slice(size));
  return el("td", { class: "text", "data-key": column.key }, clamp);
}

/**
 * Returns the length of a text's longest shared beginning, after which it goes on.
 * @param {string} text
 * @param {string[]} prefixes
 */
function sharedLength(text, prefixes) {
  const found = prefixes.filter((one) => text.startsWith(one) && text.slice(one.length).trim());
  return Math.max(0, ...found.map((one) => one.length));
}

/** @param {Column} column */
export function headerCell({ key, kind, label, unit, help, term }) {
  return el(
    "th",
    { scope: "col", class: kind, "data-key": key, title: help, "data-term": term || null },
    ...breakable(label),
    unit && el("span", { class: "unit" }, unit),
  );
}

/**
 * Returns the class of a number's bar, whose length is in twentieths of the column's maximum.
 * @param {NumberColumn} column
 * @param {number} number
 */
function barClass(column, number) {
  if (WITHOUT_BAR.includes(column.key)) return "";
  column.largest ??= largestMagnitude(column.numbers);
  const share = Math.abs(number) / column.largest;
  return share > 0 && Number.isFinite(share) ? `bar-${Math.ceil(20 * share)}` : "";
}

/** @param {Float64Array} numbers */
function largestMagnitude(numbers) {
  let largest = 0;
  for (const number of numbers) {
    if (Number.isFinite(number)) largest = Math.max(largest, Math.abs(number));
  }
  return largest;
}
