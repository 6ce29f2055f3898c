/** Shows `Rows` in a table: reuses the rendered rows, and adds rows while the reader scrolls. */

/** @import { Column, NumberColumn } from "./rows.js" */
/** @import { TextOptions } from "./cell-texts.js" */
/** @import { Read } from "./read-table.js" */

import { breakable, el } from "../shared/dom.js";
import { MISSING, exact, written } from "../shared/format.js";
import { mark } from "../shared/marks.js";
import { addTermButton } from "../shared/terms.js";
import { message } from "../shared/words.js";
import { CellTexts } from "./cell-texts.js";
import { noRows } from "./no-rows.js";
import { valueAt } from "./rows.js";

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
 * @property {TextOptions} [texts] how texts are shown
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
    this.texts = new CellTexts(rows, options.texts ?? {});
    this.table = /** @type {HTMLTableElement} */ (section.querySelector("table"));
    this.body = this.table.tBodies[0];
    this.box = /** @type {HTMLElement} */ (section.querySelector(".scroll"));
    this.head = /** @type {HTMLTableSectionElement} */ (this.table.tHead).rows[0];
    /** Columns that have cells in the rendered table, in order. */
    this.renderedColumns = rows.columns.slice(0, this.head.cells.length);
    /** Number of rows that are in the document. */
    this.shown = 0;
    this.selected = -1;
    this.look = this.lookNow();
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
    const name = cell.firstChild?.textContent ?? "";
    const button = el("button", { type: "button", class: "sort" }, ...cell.childNodes);
    button.addEventListener("click", () => this.toggleSort(cell.dataset.key ?? ""));
    cell.append(button);
    addTermButton(cell, name);
  }

  /**
   * Sorts by a column, its bad end first; without one, numbers descending and texts ascending. A
   * second press turns the order round, a third one restores the first order.
   * @param {string} key
   */
  toggleSort(key) {
    const { rows } = this;
    const current = rows.sort.find((part) => part.key === key);
    const column = rows.column(key);
    const down = Boolean(column?.numbers) && column?.badEnd !== "low";
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
    this.look = this.lookNow();
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

  /** Returns how the table is shown: with whole texts or not, and which columns. */
  lookNow() {
    const isSeen = (/** @type {unknown} */ _, /** @type {number} */ k) =>
      this.head.cells[k].offsetParent !== null;
    // The layout matters to a search only, which shows where it hit.
    const columns = this.rows.query ? this.renderedColumns.filter(isSeen) : [];
    return {
      isFull: this.table.classList.contains("full"),
      visible: new Set(columns.map(({ key }) => key)),
    };
  }

  addNearRows() {
    const { box } = this;
    if (box.scrollTop + box.clientHeight > box.scrollHeight - NEAR_PX)
      this.showRows(this.shown + CHUNK);
  }

  /** Shows at least the first `count` rows. @param {number} count */
  showRows(count) {
    const { order, query, scope } = this.rows;
    if (Math.min(count, order.length) <= this.shown) return;
    this.body.append(...order.slice(this.shown, count).map((i) => this.row(i)));
    this.shown = Math.min(count, order.length);
    const searched = scope ? `td[data-key="${scope}"], td:has(.where)` : "td";
    mark("found", this.body, query ? [query] : [], searched);
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
    const cell = el("td", { colspan: this.renderedColumns.length }, ...noRows(this.rows));
    return el("tr", { class: "empty" }, cell);
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
      this.texts.update(cells[k], column, i, this.look);
    });
    return node;
  }

  /** @param {Column} column @param {number} i */
  cell(column, i) {
    const value = valueAt(column, i);
    if (column === this.renderedColumns[0]) return this.nameCell(column, i);
    if (column.key === "n") return el("td", { class: "number" }, value);
    if (column.numbers) return this.numberCell(/** @type {NumberColumn} */ (column), i);
    if (column.kind !== "token") return this.textCell(column, i);
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

  /** @param {Column} column @param {number} i */
  textCell(column, i) {
    const isMissing = (column.strings?.[i] ?? null) === null;
    const content = isMissing ? [MISSING] : this.texts.plain(column, i);
    const clamp = el("div", { class: "clamp", dir: "auto" }, ...content);
    const title = isMissing ? message("not logged") : null;
    return el("td", { class: "text", "data-key": column.key, title }, clamp);
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
    this.rows.forgetTexts();
    const group = /** @type {HTMLElement} */ (this.table.querySelector("colgroup"));
    if (!this.renderedColumns.includes(column)) {
      this.renderedColumns.push(column);
      const cell = headerCell(column);
      this.head.append(cell);
      group.append(
        el("col", { class: `${column.kind} ${column.width ?? ""}`.trim(), "data-key": key }),
      );
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
