/** Shows `Rows` in the baked table: reuses its rows, and keeps only those in view when long. */

import { format, parse } from "../shared/address.js";
import { el } from "../shared/dom.js";
import { MISSING, exact, written } from "../shared/format.js";
import { mark } from "../shared/marks.js";
import { formatSort, parseSort, valueAt } from "./rows.js";
import { message } from "../shared/words.js";

/** Above this many rows only those near the view are in the document. */
const WINDOW_FROM = 200;
const MARGIN_PX = 600;
const GUESS_PX = 45;

/** Address of a response on the page that is open. @param {string} n */
function responseHref(n) {
  return format(parse(location.hash).path, new URLSearchParams({ r: n }));
}

export class TableView {
  /**
   * @param {HTMLElement} section
   * @param {{rows: import("./rows.js").Rows, nodes: (HTMLTableRowElement | null)[], names: string[]}} read
   * @param {{open?: (i: number) => void, sorted?: (sort: string) => void, href?: (i: number) => string}} [on]
   */
  constructor(section, { rows, nodes, names }, on = {}) {
    this.rows = rows;
    this.nodes = nodes;
    this.names = names;
    this.on = on;
    this.table = /** @type {HTMLTableElement} */ (section.querySelector("table"));
    this.from = 0;
    this.to = 0;
    this.waiting = 0;
    this.body = this.table.tBodies[0];
    this.box = /** @type {HTMLElement} */ (section.querySelector(".scroll"));
    this.heads = /** @type {HTMLTableSectionElement} */ (this.table.tHead).rows[0];
    /** Columns that have cells in the table, in its order. */
    this.laid = rows.columns.slice(0, this.heads.cells.length);
    this.layout = 0;
    this.stamps = new Int32Array(nodes.length);
    this.heights = new Float32Array(nodes.length);
    this.selected = -1;
    /** @type {HTMLElement | null} the one element of the table that Tab reaches */
    this.stop = null;
    for (const link of this.body.querySelectorAll("a")) link.tabIndex = -1;
    this.box.removeAttribute("tabindex");
    // The address names a row to be opened; the browser would scroll the page to it as well.
    for (const row of nodes) row?.removeAttribute("id");
    this.gaps = [0, 1].map(() => el("tr", { class: "gap", "aria-hidden": "true" }, el("td")));
    this.printing = () => this.renderAll();
    this.printed = () => this.render(true);
    this.resized = new ResizeObserver(() => this.soon());
    this.makeSortable();
    this.listen();
    rows.listeners.add(() => this.render(true));
  }

  makeSortable() {
    for (const head of this.heads.cells) this.sortButton(head);
  }

  /** @param {HTMLTableCellElement} head */
  sortButton(head) {
    const button = el("button", { type: "button", class: "sort", tabindex: -1 }, ...head.childNodes);
    button.addEventListener("click", (event) => this.toggleSort(head.dataset.key ?? "", event.shiftKey));
    head.append(button);
  }

  /** Numbers start with the largest, texts with the first; a third press takes the key away. */
  toggleSort(key, add) {
    const { rows } = this;
    const present = rows.sort.find((part) => part.key === key);
    const first = Boolean(rows.column(key)?.numbers);
    const next = !present ? { key, down: first } : present.down === first ? { key, down: !first } : null;
    const others = add ? rows.sort.filter((part) => part.key !== key) : [];
    const at = add && present ? rows.sort.indexOf(present) : others.length;
    const sort = [...others.slice(0, at), ...(next ? [next] : []), ...others.slice(at)];
    rows.sortBy(sort);
    this.on.sorted?.(formatSort(sort));
  }

  /** @param {string | null} text as in the address */
  setSort(text) {
    const sort = parseSort(text);
    if (formatSort(sort) !== formatSort(this.rows.sort)) this.rows.sortBy(sort);
  }

  showSort() {
    const { sort } = this.rows;
    for (const head of this.heads.cells) {
      const at = sort.findIndex((part) => part.key === head.dataset.key);
      head.removeAttribute("aria-sort");
      head.removeAttribute("data-order");
      if (at < 0) continue;
      head.setAttribute("aria-sort", sort[at].down ? "descending" : "ascending");
      if (sort.length > 1) head.dataset.order = String(at + 1);
    }
  }

  listen() {
    this.box.addEventListener("scroll", () => this.soon(), { passive: true });
    this.body.addEventListener("click", (event) => this.clicked(event));
    this.table.addEventListener("keydown", (event) => this.walk(event));
    this.table.addEventListener("focusin", (event) => this.rove(/** @type {HTMLElement} */ (event.target)));
    // Printing shows all rows; the browser waits for this handler before it lays out.
    addEventListener("beforeprint", this.printing);
    addEventListener("afterprint", this.printed);
    this.resized.observe(this.box);
  }

  unmount() {
    removeEventListener("beforeprint", this.printing);
    removeEventListener("afterprint", this.printed);
    this.resized.disconnect();
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const target = /** @type {Element} */ (event.target);
    const row = target.closest("tr");
    const link = target.closest("a");
    if (!row?.dataset.n || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (link && !(this.on.open && link.closest("td") === row.cells[0])) return;
    if (String(getSelection())) return;
    if (this.on.open) {
      event.preventDefault();
      this.on.open(this.names.indexOf(row.dataset.n));
    } else if (!link) {
      row.querySelector("a")?.click();
    }
  }

  soon() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.render(false);
    });
  }

  /** @param {boolean} changed whether the order, the columns or the row height changed */
  render(changed) {
    const { order } = this.rows;
    const all = order.length <= WINDOW_FROM;
    if (changed) {
      this.showSort();
      // Where the browser itself scrolls to a row that the address names.
      this.box.style.scrollPaddingTop = `${this.heads.offsetHeight}px`;
      this.table.toggleAttribute("aria-rowcount", false);
      if (!all) this.table.setAttribute("aria-rowcount", String(order.length + 1));
    }
    if (all) {
      if (changed) this.put(0, order.length, 0, 0);
      return;
    }
    this.freeze();
    const tops = this.tops();
    const from = Math.max(0, lastAtMost(tops, this.box.scrollTop - MARGIN_PX));
    const to = Math.min(order.length, lastAtMost(tops, this.box.scrollTop + this.box.clientHeight + MARGIN_PX) + 1);
    if (!changed && from === this.from && to === this.to) return;
    this.put(from, to, tops[from], tops[order.length] - tops[to]);
    this.measure(from, to);
  }

  /** @param {number} from @param {number} to @param {number} above px @param {number} below px */
  put(from, to, above, below) {
    [this.from, this.to] = [from, to];
    const shown = this.rows.order.slice(from, to).map((i, k) => this.row(i, from + k));
    const [top, bottom] = this.gaps;
    for (const [gap, height] of /** @type {[any, number][]} */ ([[top, above], [bottom, below]])) {
      gap.firstChild.colSpan = Math.max(1, this.laid.length);
      gap.firstChild.style.height = `${height}px`;
    }
    const none = this.rows.order.length ? [] : [this.nothing()];
    const held = /** @type {HTMLElement | null} */ (document.activeElement);
    const holds = this.body.contains(held);
    this.body.replaceChildren(...(above ? [top] : []), ...shown, ...(below ? [bottom] : []), ...none);
    // A row that is put back has lost the focus.
    if (holds && held?.isConnected) held.focus({ preventScroll: true });
    mark("found", this.body, this.rows.query ? [this.rows.query] : []);
    if (!this.stop?.isConnected || this.stop.closest("[hidden]")) this.rove(this.buttons()[0]);
  }

  /** @param {HTMLElement | undefined} target what Tab reaches from now on */
  rove(target) {
    if (!target) return;
    if (this.stop) this.stop.tabIndex = -1;
    this.stop = target;
    target.tabIndex = 0;
  }

  /** Those of the headers that are shown. @returns {HTMLElement[]} */
  buttons() {
    return [...this.heads.querySelectorAll("button")].filter((button) => !button.closest("[hidden]"));
  }

  /** Arrows walk the headers and the rows. @param {KeyboardEvent} event */
  walk(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = /** @type {Element} */ (event.target);
    const row = target.closest("tr");
    const inHead = row === this.heads;
    const go = inHead ? this.fromHead(event.key, target) : this.fromRow(event.key, row?.dataset.n ?? "");
    if (!go) return;
    event.preventDefault();
    go();
  }

  /** @param {string} key @param {Element} button */
  fromHead(key, button) {
    const all = this.buttons();
    const at = all.indexOf(/** @type {HTMLElement} */ (button));
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: all.length - 1 }[key];
    if (to !== undefined) return () => all[to]?.focus();
    return key === "ArrowDown" ? () => this.focusRow(this.firstInView()) : null;
  }

  /** @param {string} key @param {string} name */
  fromRow(key, name) {
    const last = this.rows.order.length - 1;
    const at = this.rows.order.indexOf(this.names.indexOf(name));
    const page = Math.max(1, Math.floor(this.box.clientHeight / GUESS_PX) - 2);
    const to = { ArrowUp: at - 1, ArrowDown: at + 1, PageUp: Math.max(0, at - page), PageDown: at + page, Home: 0, End: last }[key];
    if (to === undefined) return null;
    return () => (to < 0 ? this.buttons()[0]?.focus() : this.focusRow(Math.min(last, to)));
  }

  firstInView() {
    return Math.max(this.from, lastAtMost(this.tops(), this.box.scrollTop + 1));
  }

  /** @param {number} place in the order */
  focusRow(place) {
    const row = this.reach(place);
    if (!row) return;
    const target = row.querySelector("a") ?? row;
    this.rove(target);
    target.focus({ preventScroll: true });
    this.reveal(row);
  }

  /** The row at a place of the order, in the document. @param {number} place */
  reach(place) {
    const { order } = this.rows;
    if (order.length > WINDOW_FROM && (place < this.from || place >= this.to)) {
      this.box.scrollTop = Math.max(0, this.tops()[place] - this.box.clientHeight / 3);
      this.render(false);
    }
    return place >= 0 && place < order.length ? this.nodes[order[place]] : null;
  }

  /** Scrolls the box, never the page, until a row lies below the header. @param {HTMLElement} row */
  reveal(row) {
    const [outer, inner] = [this.box.getBoundingClientRect(), row.getBoundingClientRect()];
    const top = outer.top + this.heads.offsetHeight;
    if (inner.top < top) this.box.scrollTop += inner.top - top;
    else if (inner.bottom > outer.bottom) this.box.scrollTop += inner.bottom - outer.bottom + 8;
  }

  nothing() {
    const text = this.rows.size ? message("No row passes the search and the filters.") : message("Nothing to list.");
    return el("tr", { class: "empty" }, el("td", { colspan: this.laid.length }, text));
  }

  renderAll() {
    this.put(0, this.rows.order.length, 0, 0);
  }

  /** Where each row of the order begins, from heights measured so far. */
  tops() {
    const { order } = this.rows;
    const tops = new Float64Array(order.length + 1);
    for (let k = 0; k < order.length; k += 1) tops[k + 1] = tops[k] + (this.heights[order[k]] || GUESS_PX);
    return tops;
  }

  measure(from, to) {
    for (const i of this.rows.order.slice(from, to)) {
      this.heights[i] = this.nodes[i]?.offsetHeight ?? 0;
    }
  }

  /** Columns keep the widths they have now: rows that come and go must not move them. */
  freeze() {
    if (this.table.classList.contains("frozen") || getComputedStyle(this.table).tableLayout === "fixed") return;
    const widths = [...this.heads.cells].map((head) => head.offsetWidth);
    this.table.querySelectorAll("col").forEach((col, k) => {
      /** @type {HTMLElement} */ (col).style.width = `${widths[k]}px`;
    });
    this.table.classList.add("frozen");
  }

  /** The node of row i, with a cell for every column that was ever shown. */
  row(i, position) {
    const node = (this.nodes[i] ??= this.build(i));
    if (this.stamps[i] !== this.layout || node.cells.length < this.laid.length) {
      for (let k = node.cells.length; k < this.laid.length; k += 1) node.append(this.cell(this.laid[k], i));
      this.laid.forEach((column, k) => (node.cells[k].hidden = !column.shown));
      this.stamps[i] = this.layout;
    }
    if (i === this.selected) node.setAttribute("aria-current", "true");
    else node.removeAttribute("aria-current");
    if (this.rows.order.length > WINDOW_FROM) node.setAttribute("aria-rowindex", String(position + 2));
    return node;
  }

  /** @param {number} i @returns {HTMLTableRowElement} */
  build(i) {
    return el("tr", { "data-n": this.names[i] });
  }

  /** @param {import("./rows.js").Column} column @param {number} i */
  cell(column, i) {
    const value = valueAt(column, i);
    if (column === this.laid[0]) {
      const href = this.on.href?.(i) ?? responseHref(this.names[i]);
      return el("td", { class: column.kind }, el("a", { href, tabindex: -1 }, value));
    }
    if (column.numbers) {
      const number = column.numbers[i];
      const title = exact(number);
      return el("td", { class: `number${this.bar(column, number)}`, title }, written(number, column.written));
    }
    return el("td", { class: "text", "data-key": column.key }, el("div", { class: "clamp", dir: "auto" }, value ?? MISSING));
  }

  /** Length of the bar under a number, in twentieths of the column's largest. */
  bar(column, number) {
    if (["n", "prompt_id", "worth"].includes(column.key)) return ""; // no magnitudes
    column.largest ??= column.numbers.reduce((most, x) => (Number.isFinite(x) ? Math.max(most, Math.abs(x)) : most), 0);
    const share = Math.abs(number) / column.largest;
    return share > 0 && Number.isFinite(share) ? ` bar-${Math.ceil(20 * share)}` : "";
  }

  /** @param {string} key @param {boolean} shown */
  showColumn(key, shown) {
    const column = this.rows.column(key);
    if (!column) return;
    column.shown = shown;
    if (!this.laid.includes(column)) {
      this.laid.push(column);
      const unit = column.unit && el("span", { class: "unit" }, column.unit);
      const head = el("th", { scope: "col", class: column.kind, "data-key": key, title: column.help }, column.label, unit);
      this.heads.append(head);
      this.table.querySelector("colgroup")?.append(el("col", { class: column.kind, "data-key": key }));
      this.sortButton(head);
    }
    const at = this.laid.indexOf(column);
    this.heads.cells[at].hidden = !shown;
    const cols = /** @type {NodeListOf<HTMLElement>} */ (this.table.querySelectorAll("col"));
    cols[at].hidden = !shown;
    this.layout += 1;
    this.render(true);
  }

  /** @param {boolean} full whether rows show all of their text */
  setFull(full) {
    this.table.classList.toggle("full", full);
    this.heights.fill(0);
    this.render(true);
  }

  /** Marks row i as the open one and brings it into view; -1 for none. @param {number} i */
  select(i) {
    this.selected = i;
    const place = this.rows.order.indexOf(i);
    this.render(true);
    const row = this.reach(place);
    if (row) this.reveal(row);
  }
}

/** Last index whose value is at most x, by bisection; 0 at least. */
function lastAtMost(sorted, x) {
  let [low, high] = [0, sorted.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (sorted[middle] <= x) low = middle;
    else high = middle - 1;
  }
  return low;
}
