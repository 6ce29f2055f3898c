/** Shows `Rows` in a table: reuses the rendered rows, and adds rows while the reader scrolls. */

import { breakable, el } from "../shared/dom.js";
import { MISSING, exact, written } from "../shared/format.js";
import { mark } from "../shared/marks.js";
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
 * @property {(column: import("./rows.js").Column, i: number) => string} [cellClass] class of a number's cell, instead of a bar
 * @property {(column: import("./rows.js").Column, i: number) => string | null} [text] returns the excerpt of a text to show
 * @property {(i: number) => string[]} [badges] labels after the first cell of row i
 */

export class TableView {
  /**
   * @param {HTMLElement} section
   * @param {{rows: import("./rows.js").Rows, nodes: (HTMLTableRowElement | null)[], rowIds: string[]}} read
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
  }

  /** Sorts by a column: numbers descending first, texts ascending; a third press restores the first order. */
  toggleSort(key) {
    const { rows } = this;
    const current = rows.sort.find((part) => part.key === key);
    const down = Boolean(rows.column(key)?.numbers);
    rows.sortBy(!current ? [{ key, down }] : current.down === down ? [{ key, down: !down }] : []);
  }

  showSort() {
    const { sort } = this.rows;
    for (const cell of this.head.cells) {
      const sorted = sort.find((part) => part.key === cell.dataset.key);
      cell.removeAttribute("aria-sort");
      if (sorted) cell.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
    }
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const target = /** @type {Element} */ (event.target);
    const row = target.closest("tr");
    const link = target.closest("a");
    const { open } = this.options;
    if (!row?.dataset.n || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (link && !(open && link.closest("td") === row.cells[0])) return;
    if (String(getSelection())) return;
    if (open) {
      event.preventDefault();
      open(this.rowIds.indexOf(row.dataset.n));
    } else if (!link) {
      row.querySelector("a")?.click();
    }
  }

  /** Moves the focus between the links of rows on arrow keys. @param {KeyboardEvent} event */
  keyPressed(event) {
    const delta = { ArrowUp: -1, ArrowDown: 1 }[event.key];
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

  /** Scrolls the table, not the page, so that a row is visible below the header. @param {HTMLElement} row */
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

  /** Returns the node of row i, with cells for all columns that were shown so far. @param {number} i */
  row(i) {
    const node = (this.nodes[i] ??= el("tr", { "data-n": this.rowIds[i] }));
    const { cells } = node;
    this.renderedColumns.forEach((column, k) => {
      if (k === cells.length) node.append(this.cell(column, i));
      if (cells[k].hidden === column.shown) cells[k].hidden = !column.shown;
      const text =
        this.options.text && column.kind === "text" && column.strings?.[i] != null
          ? this.options.text(column, i)
          : null;
      const clamp = text !== null && cells[k].querySelector(".clamp");
      if (clamp && clamp.textContent !== text) clamp.textContent = text;
    });
    return node;
  }

  /** @param {import("./rows.js").Column} column @param {number} i */
  cell(column, i) {
    const value = valueAt(column, i);
    if (column === this.renderedColumns[0]) {
      const badges = (this.options.badges?.(i) ?? []).flatMap((name) => [
        " ",
        el("span", { class: "badge" }, name),
      ]);
      return el(
        "td",
        { class: column.kind },
        el("a", { href: this.options.href(i) }, value),
        ...badges,
      );
    }
    if (column.key === "n") return el("td", { class: "number" }, value);
    if (column.numbers) {
      const number = column.numbers[i];
      const look = this.options.cellClass?.(column, i) ?? barClass(column, number);
      return el(
        "td",
        { class: `number ${look}`, title: exact(number) },
        written(number, column.written),
      );
    }
    if (column.kind === "token")
      return el("td", { class: "token" }, el("code", { dir: "auto" }, value));
    const title = value === null ? message("not logged") : null;
    const text = value === null ? MISSING : valuesOf(column.key, String(value)).join(", ");
    const size = Math.max(
      0,
      ...(column.prefixes ?? [])
        .filter((one) => text.startsWith(one) && text.slice(one.length).trim())
        .map((one) => one.length),
    );
    const shared = size > 0 && el("span", { class: "shared" }, text.slice(0, size));
    return el(
      "td",
      { class: "text", "data-key": column.key, title },
      el("div", { class: "clamp", dir: "auto" }, shared, text.slice(size)),
    );
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

/** @param {import("./rows.js").Column} column @returns {HTMLTableCellElement} */
export function headerCell({ key, kind, label, unit, help }) {
  return el(
    "th",
    { scope: "col", class: kind, "data-key": key, title: help },
    ...breakable(label),
    unit && el("span", { class: "unit" }, unit),
  );
}

/** Returns the class of a number's bar, whose length is in twentieths of the column's maximum. */
function barClass(column, number) {
  if (WITHOUT_BAR.includes(column.key)) return "";
  column.largest ??= column.numbers.reduce(
    (most, x) => (Number.isFinite(x) ? Math.max(most, Math.abs(x)) : most),
    0,
  );
  const share = Math.abs(number) / column.largest;
  return share > 0 && Number.isFinite(share) ? `bar-${Math.ceil(20 * share)}` : "";
}
