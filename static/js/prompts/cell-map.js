/** A map of cells: says what the cell under the pointer or the focus is, and opens its prompt. */

/** @import { Tip, Line } from "../shared/tip.js" */

import { el } from "../shared/dom.js";
import { message } from "../shared/words.js";

/** Distance of the tooltip from the pointer in pixels. */
const TIP_GAP = 12;

/** @typedef {{row: number, column: number}} Cell */
/** @typedef {{left: number, top: number, width: number, height: number}} Box in pixels */

/**
 * @typedef {object} Cells what a map shows
 * @property {(across: number, down: number) => Cell | null} at returns the cell at a place: part of
 *   the width, 0 to 1, and pixels below the upper edge
 * @property {(cell: Cell) => Box} box returns where it is: across as parts of the width
 * @property {(cell: Cell, key: string) => Cell | null} moved returns where a key leads to
 * @property {(cell: Cell) => {title: string, lines: Line[]}} words returns what the tooltip says
 * @property {(cell: Cell) => string} spoken returns what a screen reader says
 * @property {(cell: Cell) => (() => void) | null} opener returns what opens its prompt, null if the
 *   report shows no response to it
 */

export class CellMap {
  /**
   * @param {HTMLElement} plot
   * @param {Cells} cells
   * @param {{tip: Tip, signal: AbortSignal}} page
   */
  constructor(plot, cells, { tip, signal }) {
    this.plot = plot;
    this.cells = cells;
    this.tip = tip;
    /** @type {Cell} */
    this.cell = { row: 0, column: 0 };
    this.frame = el("div", { class: "at", hidden: true });
    /** What a screen reader says of the cell that has the focus. */
    this.said = el("p", { class: "sr-only", "aria-live": "polite" });
    plot.append(this.frame, this.said);
    this.makeFocusable();
    this.listen(signal);
  }

  makeFocusable() {
    const label = this.plot.querySelector("svg")?.getAttribute("aria-label") ?? "";
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "application");
    this.plot.setAttribute(
      "aria-label",
      message("{map} Arrow keys move between cells, Enter opens the prompt.", { map: label }),
    );
  }

  /** @param {AbortSignal} signal */
  listen(signal) {
    const { plot } = this;
    plot.addEventListener("pointermove", (event) => this.pointed(event), { signal });
    plot.addEventListener("pointerleave", () => this.left(), { signal });
    plot.addEventListener("click", (event) => this.clicked(event), { signal });
    plot.addEventListener("keydown", (event) => this.pressed(event), { signal });
    plot.addEventListener("focus", () => this.focused(), { signal });
    plot.addEventListener("blur", () => this.left(), { signal });
  }

  /** @param {MouseEvent} event @returns {Cell | null} */
  under(event) {
    const box = this.plot.getBoundingClientRect();
    const across = (event.clientX - box.left) / box.width;
    return this.cells.at(across, event.clientY - box.top);
  }

  /** @param {PointerEvent} event */
  pointed(event) {
    const cell = this.under(event);
    if (!cell) {
      this.left();
      return;
    }
    this.cell = cell;
    const { clientX: x, clientY: y } = event;
    this.show({ left: x + TIP_GAP, right: x, top: y - TIP_GAP, bottom: y });
    this.plot.classList.toggle("opens", this.cells.opener(cell) !== null);
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const cell = this.under(event);
    if (cell) this.cells.opener(cell)?.();
  }

  focused() {
    // A press of the pointer gives the focus, too, and has its own tooltip.
    if (this.plot.matches(":focus-visible")) this.showFocused();
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const cell = this.cells.moved(this.cell, event.key);
    if (cell) {
      this.cell = cell;
      this.showFocused();
    } else if (event.key === "Enter") this.cells.opener(this.cell)?.();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  showFocused() {
    this.frame.hidden = false;
    this.placeFrame();
    this.frame.scrollIntoView({ block: "nearest" });
    const { left, right, top, bottom } = this.frame.getBoundingClientRect();
    this.show({ left, right, top, bottom });
    this.said.textContent = this.cells.spoken(this.cell);
  }

  /** @param {import("../shared/tip.js").Box} beside */
  show(beside) {
    this.frame.hidden = false;
    this.placeFrame();
    const { title, lines } = this.cells.words(this.cell);
    this.tip.show(title, lines, beside);
  }

  placeFrame() {
    const { left, top, width, height } = this.cells.box(this.cell);
    const { style } = this.frame;
    style.left = `${100 * left}%`;
    style.width = `${100 * width}%`;
    style.top = `${top}px`;
    style.height = `${height}px`;
  }

  left() {
    this.tip.hide();
    this.frame.hidden = true;
  }
}
