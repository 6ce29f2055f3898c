/** The map of prompts × steps: says what a cell is, and opens its prompt. */

/** @import { Address } from "../shared/address.js" */
/** @import { PromptMapData } from "../shared/types.d.ts" */
/** @import { Cell } from "./map-cells.js" */

import { unpack } from "../shared/data.js";
import { el } from "../shared/dom.js";
import { message } from "../shared/words.js";
import { addressOf, boxOf, cellAt, moved, wordsOf } from "./map-cells.js";

/** Distance of the tooltip from the pointer in pixels. */
const TIP_GAP = 12;

/**
 * @param {HTMLElement} root
 * @param {{address: Address, tip: import("../shared/tip.js").Tip, signal: AbortSignal}} page
 */
export function mountPromptMap(root, { address, tip, signal }) {
  mountCourses(root, address, signal);
  const plot = /** @type {HTMLElement | null} */ (root.querySelector(".prompt-map .cells"));
  const packed = root.querySelector("script.map-data")?.textContent ?? "";
  if (!plot || !packed) return;
  unpack(packed).then((bytes) => {
    if (signal.aborted) return;
    const data = JSON.parse(new TextDecoder().decode(bytes));
    // What else the URL says of the page stays.
    const open = (/** @type {number} */ p) => address.set({ p }, { push: true });
    new PromptMap(plot, data, { tip, open, signal });
  });
}

class PromptMap {
  /**
   * @param {HTMLElement} plot
   * @param {PromptMapData} data
   * @param {{tip: import("../shared/tip.js").Tip, open: (prompt: number) => void, signal: AbortSignal}} page
   */
  constructor(plot, data, { tip, open, signal }) {
    this.openPrompt = open;
    this.plot = plot;
    this.data = data;
    this.tip = tip;
    /** @type {Cell} */
    this.cell = { row: 0, column: 0 };
    this.frame = el("div", { class: "at", hidden: true });
    /** What a screen reader says of the cell that has the focus. */
    this.words = el("p", { class: "sr-only", "aria-live": "polite" });
    plot.append(this.frame, this.words);
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
    return cellAt(this.data, across, event.clientY - box.top);
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
    this.plot.classList.toggle("opens", addressOf(this.data, cell.row) !== null);
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const cell = this.under(event);
    if (cell) this.open(cell.row);
  }

  focused() {
    // A press of the pointer gives the focus, too, and has its own tooltip.
    if (this.plot.matches(":focus-visible")) this.showFocused();
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const cell = moved(this.data, this.cell, event.key);
    if (cell) {
      this.cell = cell;
      this.showFocused();
    } else if (event.key === "Enter") this.open(this.cell.row);
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
    this.words.textContent = `${this.data.names[this.cell.row]}, ${wordsOf(this.data, this.cell)}`;
  }

  /** @param {import("../shared/tip.js").Box} beside */
  show(beside) {
    this.frame.hidden = false;
    this.placeFrame();
    const { row } = this.cell;
    const name = message("Prompt {id}", { id: this.data.prompts[row] });
    const lines = [{ label: name, value: this.data.names[row] }];
    this.tip.show(wordsOf(this.data, this.cell), lines, beside);
  }

  placeFrame() {
    const { left, top, width, height } = boxOf(this.data, this.cell);
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

  /** @param {number} row */
  open(row) {
    if (addressOf(this.data, row) !== null) this.openPrompt(this.data.prompts[row]);
  }
}

/**
 * Makes the counts of prompts buttons that select these prompts in the list.
 * @param {HTMLElement} root
 * @param {Address} address
 * @param {AbortSignal} signal
 */
function mountCourses(root, address, signal) {
  const list = /** @type {HTMLElement | null} */ (root.querySelector("section.prompt-table"));
  if (!list) return;
  const key = `${list.dataset.table}.has.course`;
  /** @type {NodeListOf<HTMLElement>} */
  const items = root.querySelectorAll(".courses > li");
  const buttons = [...items].map((item) => {
    const words = (item.dataset.course ?? "").toLowerCase();
    const button = el("button", { type: "button" }, ...item.childNodes);
    button.addEventListener("click", () => {
      const isOn = address.get(key) === words;
      address.set({ [key]: isOn ? null : words });
      if (!isOn) list.scrollIntoView({ block: "nearest" });
    });
    item.replaceChildren(button);
    return { button, words };
  });
  const show = () => {
    for (const { button, words } of buttons) {
      button.setAttribute("aria-pressed", String(address.get(key) === words));
    }
  };
  address.onChange(show, signal);
  show();
}
